//! The two ends of a session as drivers of the machines of `howdah-session`: what they ask a disk or a file for, the model answers.

use crate::sessions::disk::{Disk, File, Place, Sink, Source, Trouble, Wrong};
use crate::sessions::net::Expected;
use howdah_core::{ByteRange, ObjectId, RangeSet, Span, Time};
use howdah_session::holes::announce;
use howdah_session::message::{Message, SideReport};
use howdah_session::questions::{Finding, Sum};
use howdah_session::resume::{GROUP, HEAD, WireRanges};
use howdah_session::server::{self, Does, Order, Parts, Put, Unheard};
use howdah_session::transfer::{Get, Incoming, Opened, Outgoing, contradiction};
use howdah_session::{FailureKind, Misbehaved, Wait, WaitClock};
use std::collections::BTreeSet;
use std::convert::Infallible;

/// The file that is copied, at either end.
pub(crate) const NAME: &str = "in/file";

/// A group of an object on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) object: ObjectId,
    pub(crate) group: u64,
    pub(crate) number: u64,
    /// Of all of the object, in bytes.
    pub(crate) size: u64,
}

/// Why one end gives up.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Failure {
    /// The other end said what it may not.
    Protocol(String),
    /// The other end has failed.
    Told(FailureKind),
    /// A disk here.
    Disk(Trouble),
    /// The source is another one now, or cannot be read.
    Source,
    /// It took too long.
    Wait(Wait),
    /// Another session of the same client has taken over.
    Superseded,
    /// The connection is lost, or the process dead.
    Lost,
}

impl From<Misbehaved> for Failure {
    fn from(error: Misbehaved) -> Self {
        Self::Protocol(error.to_string())
    }
}

impl From<Unheard> for Failure {
    fn from(error: Unheard) -> Self {
        Self::Protocol(error.to_string())
    }
}

impl From<Trouble> for Failure {
    fn from(trouble: Trouble) -> Self {
        Self::Disk(trouble)
    }
}

impl Failure {
    fn kind(&self) -> FailureKind {
        match self {
            Self::Protocol(_) => FailureKind::Protocol,
            Self::Disk(Trouble::NoSpace) => FailureKind::NoSpace,
            Self::Disk(Trouble::Mismatch) => FailureKind::Integrity,
            Self::Source => FailureKind::SourceChanged,
            Self::Superseded => FailureKind::Refused,
            _ => FailureKind::Io,
        }
    }
}

/// What an end has to say.
#[derive(Default)]
pub(crate) struct Said {
    pub(crate) messages: Vec<Vec<u8>>,
    pub(crate) pieces: Vec<Piece>,
}

impl Said {
    pub(crate) fn say(&mut self, message: &Message) {
        self.messages.push(message.encode());
    }
}

/// An object on its way out, and where it comes from.
#[derive(Debug)]
pub(crate) struct Sending {
    pub(crate) out: Outgoing,
    pub(crate) source: Source,
}

impl Sending {
    pub(crate) fn skip(&mut self, held: &RangeSet) {
        self.source.skip(held);
    }

    /// Tells which are the holes, and sends nothing of them.
    pub(crate) fn leave_out_holes(&mut self, said: &mut Said) {
        if let Some(holes) = self.source.holes() {
            said.say(&announce(self.out.object(), &holes));
            self.source.skip(&holes);
        }
    }

    /// Sends a group, tells values, or the end. Whether it did something.
    pub(crate) fn go_on(&mut self, file: &File, said: &mut Said) -> Result<bool, Failure> {
        if self.out.tells_values() {
            let values = self.source.take_values();
            let object = self.out.object();
            for (first, values) in values {
                said.say(&Message::Values {
                    object,
                    first,
                    values,
                });
            }
        }
        let end = if self.out.waits_for_ready() {
            HEAD / GROUP
        } else {
            u64::MAX
        };
        if let Some((group, number)) = self.source.next(end) {
            let object = self.out.object();
            said.pieces.push(Piece {
                object,
                group,
                number,
                size: self.source.identity.size,
            });
            return Ok(true);
        }
        if !self.out.may_end() || !self.source.all_sent() {
            return Ok(false);
        }
        let end = self.source.finish(file, self.out.held_bytes());
        let end = end.ok_or(Failure::Source)?;
        if let Some(message) = self.out.end(end) {
            said.say(&message);
        }
        Ok(true)
    }
}

/// An object on its way in, and where it goes.
#[derive(Debug)]
pub(crate) struct Receiving {
    pub(crate) inc: Incoming,
    pub(crate) sink: Sink,
    /// Groups that are here, or need not come.
    came: BTreeSet<u64>,
    size: Option<u64>,
    /// What was there, or need not come.
    present: RangeSet,
    /// It has been said that all of it is here, which a connection says once.
    is_complete: bool,
}

impl Receiving {
    pub(crate) fn new(
        object: ObjectId,
        sink: Sink,
        hash: bool,
        size: Option<u64>,
        holes: Option<&RangeSet>,
    ) -> Self {
        let mut present = holes.cloned().unwrap_or_default();
        for range in sink.held.iter() {
            present.insert(range);
        }
        let groups = |range: ByteRange| range.start / GROUP..range.end / GROUP;
        let came = present.iter().flat_map(groups).collect();
        Self {
            inc: Incoming::new(object, sink.held.clone(), hash),
            sink,
            came,
            size,
            present,
            is_complete: false,
        }
    }

    /// What a connection lets in.
    pub(crate) fn expected(&self) -> Expected {
        Expected {
            object: self.inc.object(),
            size: self.size,
            present: self.present.clone(),
        }
    }

    pub(crate) fn place(&mut self, disk: &mut Disk, piece: Piece) -> Result<(), Failure> {
        // A connection hands on what it has not had, and nothing beyond the end.
        let is_new = !self.came.contains(&piece.group);
        let fits = self
            .size
            .is_none_or(|size| piece.group < size.div_ceil(GROUP));
        if piece.object == self.inc.object() && is_new && fits {
            self.sink.write(disk, piece.group, piece.number)?;
            self.came.insert(piece.group);
        }
        Ok(())
    }

    /// What a connection does not take: the size is known, or bytes beyond it have come.
    pub(crate) fn limit(&mut self, size: u64) -> Result<(), Failure> {
        if *self.size.get_or_insert(size) != size {
            return Err(contradiction().into());
        }
        Ok(())
    }

    /// Moves disk and object along. `Some(true)`: it has its name; `Some(false)`: something was done.
    pub(crate) fn go_on(&mut self, disk: &mut Disk) -> Result<Option<bool>, Failure> {
        let groups = self.size.map(|size| size.div_ceil(GROUP));
        let is_here =
            groups.is_some_and(|groups| (0..groups).all(|group| self.came.contains(&group)));
        let before = self.inc.is_whole();
        if is_here && !std::mem::replace(&mut self.is_complete, is_here) {
            self.inc.on_complete();
        }
        if let Some(end) = self.inc.take_finish() {
            self.sink.finish(end);
            return Ok(Some(false));
        }
        if self.sink.is_finishing() {
            return Ok(Some(self.sink.go_on(disk)?));
        }
        Ok((before != self.inc.is_whole()).then_some(false))
    }
}

macro_rules! holds {
    ($($driver:ident $field:ident $half:ident,)*) => {
        $(
            impl AsRef<$half> for $driver {
                fn as_ref(&self) -> &$half {
                    &self.$field
                }
            }

            impl AsMut<$half> for $driver {
                fn as_mut(&mut self) -> &mut $half {
                    &mut self.$field
                }
            }
        )*
    };
}

holds! {
    Sending out Outgoing,
    Receiving inc Incoming,
}

/// What sessions do here.
#[derive(Debug)]
pub(crate) struct Model;

impl Parts for Model {
    type Sending = Sending;
    type Receiving = Receiving;
    type Landing = Infallible;
    /// Names that are not told yet.
    type Question = Vec<String>;
    type Tree = Infallible;
    type Files = Infallible;
    type Lane = Infallible;
}

/// What a client asked for, until it is open.
enum Request {
    Put(Box<Put>),
    Get(bool, Get),
    Ask,
}

/// A server's end.
pub(crate) struct Server {
    pub(crate) id: u64,
    machine: server::Server<Model>,
    request: Option<Request>,
    early: Vec<Piece>,
    wait: WaitClock,
    pub(crate) superseded: bool,
    /// It is not served any more.
    pub(crate) is_closed: bool,
}

/// What the end that moves bytes can reach.
pub(crate) struct Reach<'a> {
    pub(crate) file: &'a File,
    pub(crate) disk: &'a mut Disk,
    pub(crate) wrong: Wrong,
}

impl Server {
    pub(crate) fn new(id: u64) -> Self {
        Self {
            id,
            machine: server::Server::new(None),
            request: None,
            early: Vec::new(),
            wait: WaitClock::default(),
            superseded: false,
            is_closed: false,
        }
    }

    pub(crate) fn hear(&mut self, bytes: &[u8], reach: &mut Reach<'_>, said: &mut Said) {
        let heard = match Message::decode(bytes) {
            Ok(message) => self.on_message(message, said),
            Err(error) => Err(Failure::Protocol(error.to_string())),
        };
        self.unless_failed(heard, reach, said);
    }

    fn unless_failed(
        &mut self,
        result: Result<(), Failure>,
        reach: &mut Reach<'_>,
        said: &mut Said,
    ) {
        let Err(failure) = result else {
            return;
        };
        said.say(&Message::fail(failure.kind(), "it failed"));
        self.machine.end();
        self.request = None;
        self.early.clear();
        reach.disk.let_go(self.id);
        if let Failure::Protocol(_) | Failure::Superseded = failure {
            self.is_closed = true;
        }
    }

    fn on_message(&mut self, message: Message, said: &mut Said) -> Result<(), Failure> {
        match self.machine.hear(message)? {
            Order::Put(put, None) if put.path == *NAME => self.request = Some(Request::Put(put)),
            Order::Get(path, hash, get) if path == *NAME => {
                self.request = Some(Request::Get(hash, get));
            }
            Order::Ask(_) => self.request = Some(Request::Ask),
            Order::Values(first, values) => {
                if let Some(receiving) = self.receiving() {
                    receiving.sink.tell(first, &values);
                }
            }
            Order::Size(end) => {
                if let Some(receiving) = self.receiving() {
                    receiving.limit(end.size)?;
                }
            }
            Order::Thank(..) => {
                let side = SideReport::default();
                said.say(&Message::Thanks { side });
            }
            Order::Failed(..) => return Err(Failure::Told(FailureKind::Io)),
            Order::Nothing | Order::Pace(_) => {}
            _ => return Err(Failure::Disk(Trouble::Io)),
        }
        Ok(())
    }

    pub(crate) fn receiving(&mut self) -> Option<&mut Receiving> {
        self.machine.now_mut().receiving()
    }

    /// Whether bytes of that object are taken; otherwise they come again.
    pub(crate) fn admits(&self, object: ObjectId) -> bool {
        self.machine.admits(object)
    }

    /// What a connection lets in.
    pub(crate) fn expected(&mut self) -> Option<Expected> {
        match &self.request {
            Some(Request::Put(put)) => Some(Expected {
                object: put.object,
                size: put.size,
                present: put.holes.clone().unwrap_or_default(),
            }),
            _ => self.receiving().map(|receiving| receiving.expected()),
        }
    }

    pub(crate) fn place(&mut self, piece: Piece, reach: &mut Reach<'_>, said: &mut Said) {
        let placed = if let Some(receiving) = self.receiving() {
            receiving.place(reach.disk, piece)
        } else {
            // Its first bytes may be here before its place is open, or all of them.
            self.early.push(piece);
            if self.early_is_all() {
                self.machine.on_complete(piece.object);
            }
            Ok(())
        };
        self.unless_failed(placed, reach, said);
    }

    /// Whether all of what comes is here already.
    fn early_is_all(&self) -> bool {
        let Some(Request::Put(put)) = &self.request else {
            return false;
        };
        let is_here = |group: u64| {
            let range = ByteRange::with_len(group * GROUP, GROUP);
            let is_hole = put.holes.as_ref().is_some_and(|h| h.contains(range));
            is_hole || self.early.iter().any(|piece| piece.group == group)
        };
        let groups = put.size.map(|size| size.div_ceil(GROUP));
        groups.is_some_and(|groups| (0..groups).all(is_here))
    }

    /// Opens what was asked for. `Some`: a session that still has the place.
    pub(crate) fn open(&mut self, reach: &mut Reach<'_>, said: &mut Said) -> Option<u64> {
        let is_all = self.early_is_all();
        let opened = match self.request.take()? {
            Request::Put(put) => {
                let place = Place {
                    name: NAME,
                    size: put.size.unwrap_or(0),
                    source: put.source,
                    hash: put.hash,
                    holes: put.holes.as_ref(),
                };
                match reach.disk.open(self.id, &place, reach.wrong) {
                    Err(Trouble::Busy(other)) => {
                        self.request = Some(Request::Put(put));
                        return Some(other);
                    }
                    Err(trouble) => Err(trouble.into()),
                    Ok(sink) => {
                        if put.source.is_some() {
                            said.say(&Message::Ready {
                                object: put.object,
                                held: WireRanges::from(&sink.held),
                                values: sink.wants_values,
                                changed: None,
                            });
                        }
                        let holes = put.holes.as_ref();
                        let mut receiving =
                            Receiving::new(put.object, sink, put.hash, put.size, holes);
                        receiving.is_complete = is_all;
                        self.machine.receives(receiving);
                        Ok(())
                    }
                }
            }
            Request::Get(hash, get) => self.send(hash, &get, reach, said),
            Request::Ask => {
                let names = reach.disk.names.keys().rev().cloned();
                self.machine.does(Does::Answers(names.collect()));
                Ok(())
            }
        };
        self.unless_failed(opened, reach, said);
        for piece in std::mem::take(&mut self.early) {
            self.place(piece, reach, said);
        }
        while let Some(message) = self.machine.catch_up() {
            let heard = self.on_message(message, said);
            self.unless_failed(heard, reach, said);
        }
        None
    }

    fn send(
        &mut self,
        hash: bool,
        get: &Get,
        reach: &mut Reach<'_>,
        said: &mut Said,
    ) -> Result<(), Failure> {
        let source = Source::open(reach.file, true);
        let opened = Opened {
            size: Some(source.identity.size),
            identity: Some(source.identity),
            mode: None,
        };
        let out = Outgoing::new(ObjectId::new(1), hash);
        let mut sending = Sending { out, source };
        if get.window_end.is_none() {
            sending.leave_out_holes(said);
        }
        let answer = self.machine.sends(sending, get, &opened)?;
        said.say(&answer.message);
        if let Some(sending) = self.machine.now_mut().sending() {
            sending.skip(&answer.held);
        }
        Ok(())
    }

    /// Does something, if there is anything to do.
    pub(crate) fn go_on(&mut self, now: Time, reach: &mut Reach<'_>, said: &mut Said) -> bool {
        let result = self.try_to_go_on(now, reach, said);
        let did = !matches!(result, Ok(false));
        self.unless_failed(result.map(|_| ()), reach, said);
        did
    }

    fn try_to_go_on(
        &mut self,
        now: Time,
        reach: &mut Reach<'_>,
        said: &mut Said,
    ) -> Result<bool, Failure> {
        if std::mem::take(&mut self.superseded) {
            return Err(Failure::Superseded);
        }
        let did = match self.machine.now_mut() {
            Does::Sends(sending) => sending.go_on(reach.file, said)?,
            Does::Receives(receiving) => match receiving.go_on(reach.disk)? {
                Some(true) => {
                    let object = receiving.inc.object();
                    self.machine.end();
                    let side = SideReport::default();
                    said.say(&Message::Done { object, side });
                    true
                }
                did => did.is_some(),
            },
            Does::Answers(names) => {
                if let Some(name) = names.pop() {
                    said.say(&Message::Findings(vec![Finding {
                        of: 0,
                        path: name.as_str().into(),
                        is_dir: false,
                        bytes: 0,
                        fate: 0,
                    }]));
                } else {
                    self.machine.end();
                    said.say(&Message::Answered(Sum::default()));
                }
                true
            }
            _ => false,
        };
        if did {
            return Ok(true);
        }
        let wait = self.machine.now().waits_for(false);
        match self.wait.check(now, wait) {
            Some(Wait::Request) => {
                self.is_closed = true;
                Ok(true)
            }
            Some(wait) => Err(Failure::Wait(wait)),
            None => Ok(false),
        }
    }
}

/// Longer than every wait but that of a tree.
pub(crate) const LONG: Span = Span::from_secs(1_000);
