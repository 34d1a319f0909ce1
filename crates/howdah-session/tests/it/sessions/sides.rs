//! The two ends of a session as drivers of the machines of `howdah-session`: what they ask a disk or a file for, the model answers.

use crate::sessions::disk::{Disk, File, Place, Sink, Source, Trouble, Wrong};
use howdah_core::{Span, Time};
use howdah_session::holes::{Announced, announce};
use howdah_session::message::{Message, SideReport};
use howdah_session::resume::{GROUP, HEAD, WireRanges};
use howdah_session::transfer::{End, Get, Incoming, Opened, Outgoing, contradiction};
use howdah_session::turns::{Doing, Heard};
use howdah_session::{FailureKind, Misbehaved, SourceIdentity, Wait, WaitClock};
use std::collections::{BTreeSet, VecDeque};

/// The file that is copied, at either end.
pub(crate) const NAME: &str = "in/file";
/// Messages that may come before what they are about is open.
const LATER_MAX: usize = 256;

/// A group of an object on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) object: u64,
    pub(crate) group: u64,
    pub(crate) number: u64,
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
pub(crate) struct Sending {
    pub(crate) out: Outgoing,
    pub(crate) source: Source,
}

impl Sending {
    pub(crate) fn skip(&mut self, held: &howdah_core::RangeSet) {
        self.source.skip(held);
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

    /// All was sent, and said.
    pub(crate) fn waits_for_verdict(&self) -> bool {
        self.out.ended().is_some()
    }
}

/// An object on its way in, and where it goes.
pub(crate) struct Receiving {
    pub(crate) inc: Incoming,
    pub(crate) sink: Sink,
    /// Groups that are here, or need not come.
    came: BTreeSet<u64>,
    size: Option<u64>,
}

impl Receiving {
    pub(crate) fn new(
        object: u64,
        sink: Sink,
        hash: bool,
        size: Option<u64>,
        holes: Option<&howdah_core::RangeSet>,
    ) -> Self {
        let present = sink
            .held
            .iter()
            .chain(holes.into_iter().flat_map(howdah_core::RangeSet::iter));
        let came = present
            .flat_map(|range| range.start / GROUP..range.end / GROUP)
            .collect();
        Self {
            inc: Incoming::new(object, sink.held.clone(), hash),
            sink,
            came,
            size,
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

    pub(crate) fn on_end(&mut self, end: End) -> Result<(), Failure> {
        self.inc.on_end(end)?;
        // What a connection does not take: the size is known, or bytes beyond it have come.
        if *self.size.get_or_insert(end.size) != end.size {
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
        if is_here {
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

/// What a client asked for, until it is open.
enum Request {
    Put {
        object: u64,
        size: Option<u64>,
        hash: bool,
        source: Option<SourceIdentity>,
        holes: Option<howdah_core::RangeSet>,
    },
    Get {
        hash: bool,
        get: Get,
    },
}

/// A server's end.
pub(crate) struct Server {
    pub(crate) id: u64,
    request: Option<Request>,
    later: VecDeque<Message>,
    early: Vec<Piece>,
    holes: Announced,
    sending: Option<Sending>,
    pub(crate) receiving: Option<Receiving>,
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
            request: None,
            later: VecDeque::new(),
            early: Vec::new(),
            holes: Announced::default(),
            sending: None,
            receiving: None,
            wait: WaitClock::default(),
            superseded: false,
            is_closed: false,
        }
    }

    fn doing(&self) -> Doing {
        if self.request.is_some() {
            Doing::Beginning
        } else if self.sending.is_some() || self.receiving.is_some() {
            Doing::One
        } else {
            Doing::Nothing
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
        self.request = None;
        self.later.clear();
        self.early.clear();
        self.sending = None;
        self.receiving = None;
        reach.disk.let_go(self.id);
        if let Failure::Protocol(_) | Failure::Superseded = failure {
            self.is_closed = true;
        }
    }

    fn on_message(&mut self, message: Message, said: &mut Said) -> Result<(), Failure> {
        match self.doing().hears(&message)? {
            Heard::Later if self.later.len() >= LATER_MAX => {
                return Err(Misbehaved::new("does not wait").into());
            }
            Heard::Later => self.later.push_back(message),
            Heard::Begin => self.begin(message)?,
            Heard::Before => {
                if let Message::Holes { object, ranges } = message {
                    self.holes.note(object, ranges);
                }
            }
            Heard::OfObject => self.of_object(message, said)?,
            Heard::Failed => return Err(Failure::Told(FailureKind::Io)),
            Heard::Late | Heard::Pace => {}
            Heard::OfTree | Heard::OfFiles => return Err(Misbehaved::new("none of it here").into()),
        }
        Ok(())
    }

    fn begin(&mut self, message: Message) -> Result<(), Failure> {
        self.request = Some(match message {
            Message::Put {
                object,
                path,
                size,
                hash,
                source,
                ..
            } => {
                let holes = self.holes.take(object, size)?;
                if path != *NAME {
                    return Err(Failure::Disk(Trouble::Io));
                }
                Request::Put {
                    object,
                    size,
                    hash,
                    source,
                    holes,
                }
            }
            Message::Get {
                path,
                window_end,
                hash,
                held,
                values,
            } if path == *NAME => Request::Get {
                hash,
                get: Get {
                    window_end,
                    held,
                    values,
                },
            },
            _ => return Err(Failure::Disk(Trouble::Io)),
        });
        Ok(())
    }

    fn of_object(&mut self, message: Message, said: &mut Said) -> Result<(), Failure> {
        match message {
            Message::Values {
                object,
                first,
                values,
            } => {
                if let Some(receiving) =
                    self.receiving.as_mut().filter(|r| r.inc.object() == object)
                {
                    receiving.sink.tell(first, &values);
                }
            }
            Message::End {
                object,
                size,
                blake3,
            } => {
                if let Some(receiving) =
                    self.receiving.as_mut().filter(|r| r.inc.object() == object)
                {
                    receiving.on_end(End { size, blake3 })?;
                }
            }
            Message::Done { object, .. } => {
                if let Some(sending) = self.sending.take_if(|s| s.out.object() == object) {
                    sending.out.on_done()?;
                    let side = SideReport::default();
                    said.say(&Message::Thanks { side });
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Whether bytes of that object are taken; otherwise they come again.
    pub(crate) fn admits(&self, object: u64) -> bool {
        let receiving = self.receiving.as_ref().map(|r| r.inc.object());
        let asked = match &self.request {
            Some(Request::Put { object, .. }) => Some(*object),
            _ => None,
        };
        receiving.or(asked) == Some(object)
    }

    pub(crate) fn place(&mut self, piece: Piece, reach: &mut Reach<'_>, said: &mut Said) {
        let placed = if let Some(receiving) = &mut self.receiving {
            receiving.place(reach.disk, piece)
        } else {
            // Its first bytes may be here before its place is open.
            self.early.push(piece);
            Ok(())
        };
        self.unless_failed(placed, reach, said);
    }

    /// Opens what was asked for. `Some`: a session that still has the place.
    pub(crate) fn open(&mut self, reach: &mut Reach<'_>, said: &mut Said) -> Option<u64> {
        let request = self.request.take()?;
        let opened = match request {
            Request::Put {
                object,
                size,
                hash,
                source,
                ref holes,
            } => {
                let place = Place {
                    name: NAME,
                    size: size.unwrap_or(0),
                    source,
                    hash,
                    holes: holes.as_ref(),
                };
                match reach.disk.open(self.id, &place, reach.wrong) {
                    Err(Trouble::Busy(other)) => {
                        self.request = Some(request);
                        return Some(other);
                    }
                    Err(trouble) => Err(trouble.into()),
                    Ok(sink) => {
                        let ready = Message::Ready {
                            object,
                            held: WireRanges::from(&sink.held),
                            values: sink.wants_values,
                            changed: None,
                        };
                        if source.is_some() {
                            said.say(&ready);
                        }
                        self.receiving =
                            Some(Receiving::new(object, sink, hash, size, holes.as_ref()));
                        Ok(())
                    }
                }
            }
            Request::Get { hash, get } => self.send(hash, &get, reach, said),
        };
        self.unless_failed(opened, reach, said);
        for piece in std::mem::take(&mut self.early) {
            self.place(piece, reach, said);
        }
        while let Some(message) = self.later.pop_front() {
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
        let mut out = Outgoing::new(1, hash);
        let answer = out.answer(get, &opened)?;
        let mut sending_holes = None;
        if get.window_end.is_none()
            && let Some(holes) = source.holes()
        {
            said.say(&announce(1, &holes));
            sending_holes = Some(holes);
        }
        said.say(&answer.message);
        out.go_on(&answer.held, answer.values);
        let mut sending = Sending { out, source };
        if let Some(holes) = sending_holes {
            sending.skip(&holes);
        }
        sending.skip(&answer.held);
        self.sending = Some(sending);
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
        if let Some(sending) = &mut self.sending
            && sending.go_on(reach.file, said)?
        {
            return Ok(true);
        }
        if let Some(receiving) = &mut self.receiving
            && let Some(is_done) = receiving.go_on(reach.disk)?
        {
            if is_done {
                let object = receiving.inc.object();
                self.receiving = None;
                let side = SideReport::default();
                said.say(&Message::Done { object, side });
            }
            return Ok(true);
        }
        let wait = match (&self.sending, &self.receiving) {
            _ if self.request.is_some() => Some(Wait::Progress),
            (None, None) => Some(Wait::Request),
            (_, Some(receiving)) => receiving.inc.waits_for_end().then_some(Wait::End),
            (Some(_), None) => None,
        };
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
