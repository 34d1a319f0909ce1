//! A client's end of a session: it asks for one thing. It hears messages and gives each a meaning; whoever drives it opens, reads, writes
//! and names, and says here how that went.

use crate::holes::Announced;
use crate::message::{Message, SideReport};
use crate::questions::{Finding, Sum};
use crate::resume::SourceIdentity;
use crate::transfer::{End, Incoming, Outgoing};
use crate::{Misbehaved, Wait};
use howdah_core::{ObjectId, RangeSet};

/// What a client wants.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Wants {
    /// To send a file.
    Put,
    /// To send a lease of one. What is there of it is hashed before the server says what lacks, and all of it before it is in its place: of
    /// a long one that takes long.
    PutLease,
    /// A file, a range of one, or which version of it is there.
    Get,
    /// To send a tree, to have one, or a description of one. `removes`: the server removes what it has sent.
    Tree {
        /// Whether it does.
        removes: bool,
    },
    /// The answer to a question.
    Ask,
    /// To ask about files.
    Files,
}

/// How far it has got.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Stage {
    /// It has not asked yet.
    Before,
    /// It has asked for something, and hears no answer yet.
    Asked,
    /// Something moves.
    Moving,
    /// All is here; the server's figures are on their way.
    Thanking,
    /// It is over.
    Over,
}

/// A file that was asked for, as the server says what comes.
#[derive(Clone, Debug)]
pub struct Coming {
    /// The object in which it comes.
    pub object: ObjectId,
    /// In bytes; `None`: it ends when it ends.
    pub size: Option<u64>,
    /// Its BLAKE3 will be told.
    pub hash: bool,
    /// Which version of which file it is.
    pub source: Option<SourceIdentity>,
    /// What was held is not sent again.
    pub resumed: bool,
    /// Permission bits of the file.
    pub mode: Option<u32>,
    /// What of it does not come.
    pub holes: Option<RangeSet>,
}

/// What a driver does because of a message.
#[derive(Debug)]
pub enum Order<S> {
    /// Nothing.
    Nothing,
    /// The server waits for that, or has it.
    Room(Option<String>),
    /// The server has failed, which is a kind and a text.
    Failed(u8, String),
    /// The tree hears it.
    OfTree(Box<Message>),
    /// Open its place; then [`receives`](Client::receives).
    Comes(Box<Coming>),
    /// The server has that of what leaves, and takes values or not; why it does not go on with what it had.
    Skip(RangeSet, bool, Option<String>),
    /// Values of groups of what comes, from that one on.
    Values(u64, Vec<[u8; 32]>),
    /// What comes is so large; a connection that knows better says so.
    Size(End),
    /// What left is in place; the server's figures. It is over.
    Placed(S, End, SideReport),
    /// More of the answer.
    Found(Vec<Finding>),
    /// The end of the answer. It is over.
    Answered(Sum),
    /// Answers about files come as that object; then [`receives`](Client::receives).
    FilesOpen(ObjectId),
    /// The server's figures. It is over.
    Thanks(SideReport),
    /// Others may join with that token, so many with this one: of the one object that moves.
    Lanes([u8; 32], u8),
}

/// See the module. `S` is what a driver needs to read and send an object, `R` to receive and write it.
#[derive(Debug)]
pub struct Client<S, R> {
    wants: Wants,
    stage: Stage,
    /// Of the file that comes next.
    holes: Announced,
    sending: Option<S>,
    receiving: Option<R>,
    /// The server has said that something does not come.
    lacks: bool,
}

impl<S, R> Client<S, R>
where
    S: AsRef<Outgoing> + AsMut<Outgoing>,
    R: AsRef<Incoming> + AsMut<Incoming>,
{
    /// Of who wants that.
    pub fn new(wants: Wants) -> Self {
        Self {
            wants,
            stage: Stage::Before,
            holes: Announced::default(),
            sending: None,
            receiving: None,
            lacks: false,
        }
    }

    /// How far it has got.
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// It has asked.
    pub fn asked(&mut self) {
        self.stage = Stage::Asked;
    }

    /// What was asked for moves.
    pub fn moves(&mut self) {
        self.stage = Stage::Moving;
    }

    /// It has said what it puts, which leaves.
    pub fn sends(&mut self, sending: S) {
        self.sending = Some(sending);
        self.moves();
    }

    /// The place of what comes is open.
    pub fn receives(&mut self, receiving: R) {
        self.receiving = Some(receiving);
        self.moves();
    }

    /// All that was asked for is here, and the server has been told.
    pub fn thanks(&mut self) {
        self.receiving = None;
        self.stage = Stage::Thanking;
    }

    /// It is over, however it ended.
    pub fn end(&mut self) {
        (self.sending, self.receiving) = (None, None);
        self.stage = Stage::Over;
    }

    /// Something of a tree does not come: why, and how much, only the server's last words say.
    pub fn lacks(&mut self) {
        self.lacks = true;
    }

    /// Whether it has all that it wanted although the server may be gone: only figures are missing, and not what it has removed.
    pub fn has_all(&self) -> bool {
        self.stage == Stage::Thanking && !self.removes() && !self.lacks
    }

    fn moves_one(&self) -> bool {
        matches!(self.wants, Wants::Put | Wants::Get)
    }

    fn removes(&self) -> bool {
        self.wants == Wants::Tree { removes: true }
    }

    /// The object that leaves.
    pub fn sending(&self) -> Option<&S> {
        self.sending.as_ref()
    }

    /// The same.
    pub fn sending_mut(&mut self) -> Option<&mut S> {
        self.sending.as_mut()
    }

    /// The object that comes.
    pub fn receiving(&self) -> Option<&R> {
        self.receiving.as_ref()
    }

    /// The same.
    pub fn receiving_mut(&mut self) -> Option<&mut R> {
        self.receiving.as_mut()
    }

    fn incoming(&mut self, object: ObjectId) -> Option<&mut Incoming> {
        let incoming = self.receiving.as_mut()?.as_mut();
        (incoming.object() == object).then_some(incoming)
    }

    /// All bytes of an object have arrived.
    pub fn on_complete(&mut self, object: ObjectId) {
        if let Some(incoming) = self.incoming(object) {
            incoming.on_complete();
        }
    }

    /// What a message means now; `of_tree`: a tree is under way.
    ///
    /// # Errors
    ///
    /// It may not come now, or not like this.
    pub fn hear(&mut self, message: Message, of_tree: bool) -> Result<Order<S>, Misbehaved> {
        let out_of_turn = || Err(Misbehaved::new("the server answers out of turn"));
        let is_asked = self.stage == Stage::Asked;
        let is_heard = is_asked || self.stage == Stage::Moving;
        Ok(match message {
            Message::Room { lack } => Order::Room(lack),
            Message::Fail { kind, message } => Order::Failed(kind, message),
            message if of_tree => Order::OfTree(Box::new(message)),
            Message::Sending {
                object,
                size,
                hash,
                source,
                resumed,
                mode,
            } if is_asked && self.wants == Wants::Get => Order::Comes(Box::new(Coming {
                object,
                size,
                hash,
                source,
                resumed,
                mode,
                holes: self.holes.take(object, size)?,
            })),
            Message::FilesOpen { answers } if is_asked && self.wants == Wants::Files => {
                Order::FilesOpen(answers)
            }
            // (Before that it is not known who answers.)
            Message::Findings(part) if is_heard && self.wants == Wants::Ask => {
                self.moves();
                Order::Found(part)
            }
            Message::Answered(sum) if is_heard && self.wants == Wants::Ask => Order::Answered(sum),
            Message::Thanks { side } if self.stage == Stage::Thanking => Order::Thanks(side),
            // Of what is over.
            Message::Thanks { .. } | Message::Answered(_) => Order::Nothing,
            Message::Holes { object, ranges } => {
                self.holes.note(object, ranges);
                Order::Nothing
            }
            Message::Ready {
                object,
                held,
                values,
                changed,
            } => match self.sending.as_mut().map(AsMut::as_mut) {
                Some(outgoing) if outgoing.object() == object => {
                    Order::Skip(outgoing.on_ready(&held, values)?, values, changed)
                }
                _ => Order::Nothing,
            },
            Message::Values {
                object,
                first,
                values,
            } => match self.incoming(object) {
                Some(_) => Order::Values(first, values),
                None => Order::Nothing,
            },
            Message::End {
                object,
                size,
                blake3,
            } => match self.incoming(object) {
                Some(incoming) => {
                    let end = End { size, blake3 };
                    incoming.on_end(end)?;
                    Order::Size(end)
                }
                None => Order::Nothing,
            },
            Message::Done { object, side } => {
                match self.sending.take_if(|s| (*s).as_ref().object() == object) {
                    Some(sending) => {
                        let end = sending.as_ref().on_done()?;
                        Order::Placed(sending, end, side)
                    }
                    None => Order::Nothing,
                }
            }
            Message::Lanes { token, most } if is_heard && self.moves_one() => {
                Order::Lanes(token, most)
            }
            // All of it is here, or there.
            Message::Lanes { .. } if self.moves_one() => Order::Nothing,
            Message::Put { .. }
            | Message::PutLease(_)
            | Message::IntoPlan(_)
            | Message::Lanes { .. }
            | Message::Join { .. }
            | Message::Joined { .. }
            | Message::Get { .. }
            | Message::Sending { .. }
            | Message::Pace(_)
            | Message::TreePut { .. }
            | Message::TreeAccepted { .. }
            | Message::TreeGet { .. }
            | Message::TreeComes { .. }
            | Message::TreeFile { .. }
            | Message::TreeFileMissing { .. }
            | Message::TreeSettled { .. }
            | Message::TreeDone { .. }
            | Message::TreeThanks { .. }
            | Message::TreeVerify { .. }
            | Message::TreePlaced { .. }
            | Message::Selection(_)
            | Message::Ask(_)
            | Message::Findings(_)
            | Message::OpenFiles
            | Message::FilesOpen { .. }
            | Message::AskFiles(_) => return out_of_turn(),
        })
    }

    /// What of the server is missing now. `has_all`: it has all bytes of what leaves, or questions about files that it has not answered.
    pub fn waits_for(&self, has_all: bool) -> Option<Wait> {
        let (ready, verdict) = match self.wants {
            Wants::PutLease => (Wait::Progress, Wait::Progress),
            _ => (Wait::Answer, Wait::Verdict),
        };
        match self.stage {
            Stage::Before | Stage::Over => None,
            Stage::Asked => Some(ready),
            // It still removes what it has sent.
            Stage::Thanking => (!self.removes()).then_some(Wait::Thanks),
            Stage::Moving if self.wants == Wants::Files => has_all.then_some(Wait::Progress),
            Stage::Moving => match (&self.sending, &self.receiving) {
                (Some(sending), _) if sending.as_ref().waits_for_ready() => Some(ready),
                (Some(sending), _) => {
                    let is_told = sending.as_ref().ended().is_some();
                    (has_all && is_told).then_some(verdict)
                }
                (None, Some(receiving)) => receiving.as_ref().waits_for_end().then_some(Wait::End),
                (None, None) => None,
            },
        }
    }
}
