//! A server's end of a session: what it does for one client, one thing at a time. It hears messages and gives each a meaning; whoever
//! drives it opens, reads, writes and names, and says here how that went.
//!
//! ```text
//! Nothing --asked--> Begins --open--> Sends --Done--> Nothing
//!                                `--> Receives --stored--> Nothing, or Lands first
//!                                `--> Answers, Tree, Files --over--> Nothing
//! Nothing --joins--> Lane --the other session's object is over--> Nothing
//! ```

use crate::files::FilesRequest;
use crate::holes::Announced;
use crate::message::Message;
use crate::pace::Pace;
use crate::plans::{LeasePut, PlanPlace};
use crate::questions::Question;
use crate::resume::SourceIdentity;
use crate::selection::{Asked, SelectionError};
use crate::transfer::{Answer, End, Get, Incoming, Opened, Outgoing};
use crate::{Misbehaved, PathBytes, Wait};
use howdah_core::{ObjectId, RangeSet};
use std::collections::VecDeque;
use std::fmt::Debug;

/// Messages that may come before what they are about is open, and their bytes: an honest client waits with nearly all.
const LATER_MAX: usize = 256;
const LATER_BYTES: usize = 256 << 10;

/// What a driver needs for each thing that a session does. The machine keeps it as long as the session does that.
pub trait Parts {
    /// Reads an object and sends it.
    type Sending: AsRef<Outgoing> + AsMut<Outgoing> + Debug;
    /// Receives an object and writes it.
    type Receiving: AsRef<Incoming> + AsMut<Incoming> + Debug;
    /// Brings what has come to its place elsewhere.
    type Landing: Debug;
    /// Looks for the answer to a question.
    type Question: Debug;
    /// Moves a tree, or describes one.
    type Tree: Debug;
    /// Answers questions about files.
    type Files: Debug;
    /// Moves a part of what another session moves.
    type Lane: Debug;
}

/// What a session does.
#[derive(Debug)]
pub enum Does<P: Parts> {
    /// Nothing has been asked for, or it is over.
    Nothing,
    /// What was asked for waits, or is being opened.
    Begins {
        /// The object whose bytes come already.
        object: Option<ObjectId>,
        /// All of them are here.
        is_complete: bool,
    },
    /// A file leaves.
    Sends(P::Sending),
    /// A file comes.
    Receives(P::Receiving),
    /// A lease of a plan has come.
    Lands(P::Landing),
    /// A question that is no copy is answered.
    Answers(P::Question),
    /// A tree comes, leaves or is described.
    Tree(P::Tree),
    /// It has said that it answers questions about files.
    Files(P::Files),
    /// A part of what another session moves.
    Lane(P::Lane),
}

/// What somebody asks for with [`Message::Put`] or [`Message::PutLease`].
#[derive(Clone, Debug)]
pub struct Put {
    /// The object in which it comes.
    pub object: ObjectId,
    /// Where to.
    pub path: PathBytes,
    /// If that is a directory, the name below it.
    pub name: Option<PathBytes>,
    /// In bytes; `None`: it ends when it ends.
    pub size: Option<u64>,
    /// Its BLAKE3 will be told.
    pub hash: bool,
    /// Which version of which file it is.
    pub source: Option<SourceIdentity>,
    /// Go on with what is there already.
    pub resume: bool,
    /// Read it back from the device at the end.
    pub reread: bool,
    /// Permission bits of the source.
    pub mode: Option<u32>,
    /// What of it does not come.
    pub holes: Option<RangeSet>,
}

/// What a driver does because of a message.
#[derive(Debug)]
pub enum Order<P: Parts> {
    /// Nothing: the machine has taken it in, it is kept for later, or it is about what is over.
    Nothing,
    /// Open the place of an object, which comes already, or of the lease of a plan that it is; then [`receives`](Server::receives).
    Put(Box<Put>, Option<Box<LeasePut>>),
    /// Open a source, with a BLAKE3 at its end or without; then [`sends`](Server::sends).
    Get(PathBytes, bool, Get),
    /// Begin what a message of a tree asks for, which has all its names and rules; then [`does`](Server::does). One that is put may go into
    /// the room of a plan.
    Tree(Message, Option<PlanPlace>),
    /// Look for an answer; then [`does`](Server::does).
    Ask(Question),
    /// Say that questions about files may come; then [`does`](Server::does).
    OpenFiles,
    /// Answer these.
    AskFiles(Vec<(u64, FilesRequest)>),
    /// The tree hears it.
    OfTree(Message),
    /// Values of groups of what comes, from that one on.
    Values(u64, Vec<[u8; 32]>),
    /// What comes is so large; a connection that knows better says so.
    Size(End),
    /// All of it is at the client: say the own figures with [`Message::Thanks`].
    Thank(P::Sending, End),
    /// The client has failed, which is a kind and a text: give up.
    Failed(u8, String),
    /// It is to go that fast.
    Pace(Pace),
    /// Let it bring a part of what the session with that token moves, in that object if it comes from the client; then
    /// [`does`](Server::does).
    Join([u8; 32], ObjectId),
}

/// Why a message has no meaning.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Unheard {
    /// It may not come now, or not like this.
    #[error(transparent)]
    Misbehaved(#[from] Misbehaved),
    /// The names and rules of a request are too many.
    #[error(transparent)]
    Selection(#[from] SelectionError),
}

/// See the module.
#[derive(Debug)]
pub struct Server<P: Parts> {
    does: Does<P>,
    /// What came before what it is about was open, each with its length.
    later: VecDeque<(usize, Message)>,
    later_bytes: usize,
    /// Of the object that comes next.
    holes: Announced,
    /// Names and rules of the request that comes next.
    asked: Asked,
    /// What those take in memory that it begins with, in bytes.
    begins_with: usize,
    /// Where it goes in the room of a plan, if it is a tree that is put.
    into: Option<PlanPlace>,
}

macro_rules! parts {
    ($($name:ident $variant:ident $part:ident,)*) => {
        impl<P: Parts> Does<P> {
            $(
                #[doc = concat!("What a driver has for it while it is [`", stringify!($variant), "`](Self::", stringify!($variant), ").")]
                pub fn $name(&mut self) -> Option<&mut P::$part> {
                    match self {
                        Self::$variant(part) => Some(part),
                        _ => None,
                    }
                }
            )*
        }
    };
}

parts! {
    sending Sends Sending,
    receiving Receives Receiving,
    landing Lands Landing,
    question Answers Question,
    tree Tree Tree,
    files Files Files,
    lane Lane Lane,
}

impl<P: Parts> Does<P> {
    /// Whether what was asked for waits, or is being opened.
    pub fn begins(&self) -> bool {
        matches!(self, Self::Begins { .. })
    }

    /// What of the client, or of a disk, is missing now. The client's [`Message::Done`] may take for ever: behind a pipe sits somebody who
    /// reads. `is_asked`: questions about files are open.
    pub fn waits_for(&self, is_asked: bool) -> Option<Wait> {
        match self {
            Self::Files(_) if is_asked => Some(Wait::Taking),
            Self::Nothing | Self::Files(_) => Some(Wait::Request),
            Self::Begins { .. } | Self::Lands(_) | Self::Answers(_) | Self::Tree(_) => {
                Some(Wait::Progress)
            }
            Self::Receives(receiving) => receiving.as_ref().waits_for_end().then_some(Wait::End),
            // What it is a part of has clocks of its own.
            Self::Sends(_) | Self::Lane(_) => None,
        }
    }
}

impl<P: Parts> Server<P> {
    /// Of a client that was let in, whose names and rules take at most so many bytes of memory.
    pub fn new(selection_memory: Option<usize>) -> Self {
        Self {
            does: Does::Nothing,
            later: VecDeque::new(),
            later_bytes: 0,
            holes: Announced::default(),
            asked: Asked::at_most(selection_memory),
            begins_with: 0,
            into: None,
        }
    }

    /// Bytes of messages that wait until what they are about is open.
    pub fn later_bytes(&self) -> usize {
        self.later_bytes
    }

    /// What was said before a request that has not come yet, and names and rules of one that has and waits, in bytes of memory.
    pub fn held_bytes(&self) -> (usize, usize) {
        let waits = if self.does.begins() {
            self.begins_with
        } else {
            0
        };
        let into = self.into.as_ref();
        let into = into.map_or(0, |into| into.path.as_bytes().len() + into.plan.len());
        let said = self.asked.held_bytes() + self.holes.held_bytes() + into;
        (said, waits)
    }

    /// Keeps a message until what it is about is open.
    fn keep(&mut self, message: Message) -> Result<(), Misbehaved> {
        let bytes = message.encode().len();
        if self.later.len() >= LATER_MAX || self.later_bytes + bytes > LATER_BYTES {
            let text = "the client does not wait for what it has asked for";
            return Err(Misbehaved::new(text));
        }
        self.later_bytes += bytes;
        self.later.push_back((bytes, message));
        Ok(())
    }

    /// What it does now.
    pub fn now(&self) -> &Does<P> {
        &self.does
    }

    /// The same.
    pub fn now_mut(&mut self) -> &mut Does<P> {
        &mut self.does
    }

    /// What a message means now.
    ///
    /// # Errors
    ///
    /// It may not come now, or is too much: [`end`](Self::end) and say so.
    pub fn hear(&mut self, message: Message) -> Result<Order<P>, Unheard> {
        let out_of_turn = || Err(Misbehaved::new("the client asks out of turn").into());
        if let Message::Pace(pace) = message {
            return Ok(Order::Pace(pace));
        }
        if self.does.begins() {
            self.keep(message)?;
            return Ok(Order::Nothing);
        }
        let is_free = match &self.does {
            Does::Tree(_) => return Ok(Order::OfTree(message)),
            Does::Files(_) => {
                return match message {
                    Message::AskFiles(questions) => Ok(Order::AskFiles(questions)),
                    Message::Fail { kind, message } => Ok(Order::Failed(kind, message)),
                    _ => out_of_turn(),
                };
            }
            does => matches!(does, Does::Nothing),
        };
        match message {
            Message::Put { .. }
            | Message::PutLease(_)
            | Message::Get { .. }
            | Message::TreePut { .. }
            | Message::TreeGet { .. }
            | Message::TreeVerify { .. }
            | Message::Ask(_)
            | Message::OpenFiles
                if is_free =>
            {
                return self.begin(message);
            }
            Message::Join { token, object } if is_free => return Ok(Order::Join(token, object)),
            Message::Selection(part) if is_free => self.asked.note(part)?,
            Message::IntoPlan(into) if is_free => self.into = Some(into),
            Message::Holes { object, ranges } => self.holes.note(object, ranges),
            Message::Values {
                object,
                first,
                values,
            } => {
                if self.incoming(object).is_some() {
                    return Ok(Order::Values(first, values));
                }
            }
            Message::End {
                object,
                size,
                blake3,
            } => {
                let end = End { size, blake3 };
                if let Some(incoming) = self.incoming(object) {
                    incoming.on_end(end)?;
                    return Ok(Order::Size(end));
                }
            }
            Message::Done { object, .. } => {
                let sending = self.does.sending();
                if let Some(sending) = sending.filter(|s| s.as_ref().object() == object) {
                    let end = (*sending).as_ref().on_done()?;
                    if let Does::Sends(sending) = self.end() {
                        return Ok(Order::Thank(sending, end));
                    }
                }
            }
            Message::Fail { kind, message } => return Ok(Order::Failed(kind, message)),
            // The last words about a tree that is done or has failed may come late.
            Message::TreeThanks { .. }
            | Message::TreeDone { .. }
            | Message::TreeSettled { .. }
            | Message::TreePlaced { .. }
            | Message::Ready { .. }
            | Message::TreeFile { .. }
            | Message::TreeFileMissing { .. } => {}
            Message::Put { .. }
            | Message::PutLease(_)
            | Message::Get { .. }
            | Message::TreePut { .. }
            | Message::TreeGet { .. }
            | Message::TreeVerify { .. }
            | Message::TreeAccepted { .. }
            | Message::TreeComes { .. }
            | Message::Sending { .. }
            | Message::Room { .. }
            | Message::Selection(_)
            | Message::IntoPlan(_)
            | Message::Ask(_)
            | Message::Findings(_)
            | Message::Answered(_)
            | Message::OpenFiles
            | Message::FilesOpen { .. }
            | Message::AskFiles(_)
            | Message::Pace(_)
            | Message::Lanes { .. }
            | Message::Join { .. }
            | Message::Joined { .. }
            | Message::Thanks { .. } => return out_of_turn(),
        }
        Ok(Order::Nothing)
    }

    /// Something is asked for.
    fn begin(&mut self, message: Message) -> Result<Order<P>, Unheard> {
        // Without a part of its rules it would delete what they keep.
        if let Some(refused) = self.asked.take_refused() {
            return Err(refused.into());
        }
        self.begins_with = 0;
        let mut comes = None;
        // It is of the request that comes next, whatever that is.
        let into = self.into.take();
        let order = match message {
            Message::Put {
                object,
                path,
                name,
                size,
                hash,
                source,
                resume,
                reread,
                mode,
            } => {
                comes = Some(object);
                let put = Put {
                    object,
                    path,
                    name,
                    size,
                    hash,
                    source,
                    resume,
                    reread,
                    mode,
                    holes: self.holes.take(object, size)?,
                };
                Order::Put(Box::new(put), None)
            }
            Message::PutLease(lease) => {
                comes = Some(lease.object);
                let size = Some(lease.source.size);
                let put = Put {
                    object: lease.object,
                    path: lease.path.clone(),
                    name: None,
                    size,
                    hash: true,
                    source: Some(lease.source),
                    resume: true,
                    reread: false,
                    mode: None,
                    holes: self.holes.take(lease.object, size)?,
                };
                Order::Put(Box::new(put), Some(Box::new(lease)))
            }
            Message::Get {
                path,
                window_end,
                hash,
                held,
                values,
            } => {
                let get = Get {
                    window_end,
                    held,
                    values,
                };
                Order::Get(path, hash, get)
            }
            Message::Ask(question) => Order::Ask(question),
            Message::OpenFiles => Order::OpenFiles,
            mut tree => {
                self.begins_with = self.asked.held_bytes();
                match &mut tree {
                    Message::TreeGet { paths, options, .. } => self.asked.restore(paths, options),
                    Message::TreePut { options, .. } | Message::TreeVerify { options, .. } => {
                        self.asked.restore(&mut Vec::new(), options);
                    }
                    _ => {}
                }
                let into = into.filter(|_| matches!(tree, Message::TreePut { .. }));
                Order::Tree(tree, into)
            }
        };
        self.does = Does::Begins {
            object: comes,
            is_complete: false,
        };
        Ok(order)
    }

    /// The one object that comes, if it is that one.
    fn incoming(&mut self, object: ObjectId) -> Option<&mut Incoming> {
        let incoming = self.does.receiving()?.as_mut();
        (incoming.object() == object).then_some(incoming)
    }

    /// Whether that object comes, or its place is being opened.
    pub fn admits(&self, object: ObjectId) -> bool {
        match &self.does {
            Does::Begins { object: comes, .. } => *comes == Some(object),
            Does::Receives(receiving) => receiving.as_ref().object() == object,
            _ => false,
        }
    }

    /// All bytes of an object have arrived.
    pub fn on_complete(&mut self, object: ObjectId) {
        match &mut self.does {
            Does::Begins {
                object: comes,
                is_complete,
            } => *is_complete |= *comes == Some(object),
            _ => {
                if let Some(incoming) = self.incoming(object) {
                    incoming.on_complete();
                }
            }
        }
    }

    /// The source of what was asked for is open: what is said of it, and what need not be sent.
    ///
    /// # Errors
    ///
    /// The client claims to have what cannot be.
    pub fn sends(
        &mut self,
        mut sending: P::Sending,
        get: &Get,
        opened: &Opened,
    ) -> Result<Answer, Misbehaved> {
        let answer = sending.as_mut().answer(get, opened);
        self.does = Does::Sends(sending);
        answer
    }

    /// The place of what was put is open.
    pub fn receives(&mut self, mut receiving: P::Receiving) {
        if let Does::Begins {
            is_complete: true, ..
        } = self.does
        {
            receiving.as_mut().on_complete();
        }
        self.does = Does::Receives(receiving);
    }

    /// It does something else now.
    pub fn does(&mut self, what: Does<P>) {
        self.does = what;
    }

    /// The next of what came before what it is about was open.
    pub fn catch_up(&mut self) -> Option<Message> {
        let is_open = !self.does.begins();
        let (bytes, message) = is_open.then(|| self.later.pop_front()).flatten()?;
        self.later_bytes -= bytes;
        Some(message)
    }

    /// What it does is over, or has failed: what its driver had for it.
    pub fn end(&mut self) -> Does<P> {
        self.later.clear();
        self.later_bytes = 0;
        std::mem::replace(&mut self.does, Does::Nothing)
    }
}
