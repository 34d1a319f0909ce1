//! A client's end.

use crate::sessions::disk::{Disk, Place, Sink, Source};
use crate::sessions::net::Expected;
use crate::sessions::sides::{Failure, NAME, Piece, Reach, Receiving, Said, Sending};
use howdah_core::{ObjectId, Time};
use howdah_session::client::{self, Coming, Order, Stage, Wants};
use howdah_session::message::{Message, SideReport};
use howdah_session::questions::Question;
use howdah_session::resume::WireHeld;
use howdah_session::transfer::{Outgoing, check_resumed};
use howdah_session::{FailureKind, WaitClock};

/// A client's end.
pub(crate) struct Client {
    pub(crate) machine: client::Client<Sending, Receiving>,
    wants: Wants,
    /// The answer to a question.
    pub(crate) found: Vec<String>,
    wait: WaitClock,
    /// How it ended.
    pub(crate) result: Option<Result<(), Failure>>,
}

/// Who writes to a disk of the client.
pub(crate) const CLIENT: u64 = 0;

impl Client {
    /// Asks.
    pub(crate) fn new(wants: Wants, is_file: bool, reach: &mut Reach<'_>, said: &mut Said) -> Self {
        let mut client = Self {
            machine: client::Client::new(wants),
            wants,
            found: Vec::new(),
            wait: WaitClock::default(),
            result: None,
        };
        if wants == Wants::Ask {
            let patterns = vec!["*".into()];
            said.say(&Message::Ask(Question::Expand { patterns }));
            client.machine.asked();
            return client;
        }
        if wants == Wants::Get {
            let held = reach.disk.held();
            said.say(&Message::Get {
                path: NAME.into(),
                window_end: None,
                hash: true,
                held: held.map(|(source, ranges)| WireHeld::new(source, &ranges)),
                values: true,
            });
            client.machine.asked();
            return client;
        }
        let source = Source::open(reach.file, is_file);
        let identity = source.identity;
        let out = Outgoing::new(ObjectId::new(0), true);
        let mut sending = Sending { out, source };
        sending.leave_out_holes(said);
        said.say(&Message::Put {
            object: ObjectId::new(0),
            path: NAME.into(),
            name: None,
            size: Some(identity.size),
            hash: true,
            source: sending.out.offer(Some(identity).filter(|_| is_file)),
            resume: true,
            reread: false,
            mode: None,
        });
        client.machine.sends(sending);
        client
    }

    pub(crate) fn is_over(&self) -> bool {
        self.machine.stage() == Stage::Over
    }

    pub(crate) fn end(&mut self, result: Result<(), Failure>, disk: &mut Disk) {
        if self.is_over() {
            return;
        }
        // All is here and right; only the server's figures are missing.
        let is_here =
            self.machine.has_all() && matches!(result, Err(Failure::Lost | Failure::Wait(_)));
        self.result = Some(if is_here { Ok(()) } else { result });
        self.machine.end();
        if self.wants == Wants::Get {
            disk.let_go(CLIENT);
        }
    }

    fn unless_failed(&mut self, result: Result<(), Failure>, disk: &mut Disk) {
        if let Err(failure) = result {
            self.end(Err(failure), disk);
        }
    }

    pub(crate) fn hear(&mut self, bytes: &[u8], reach: &mut Reach<'_>) {
        let heard = match Message::decode(bytes) {
            Ok(message) => self.on_message(message, reach),
            Err(error) => Err(Failure::Protocol(error.to_string())),
        };
        self.unless_failed(heard, reach.disk);
    }

    fn on_message(&mut self, message: Message, reach: &mut Reach<'_>) -> Result<(), Failure> {
        match self.machine.hear(message, false)? {
            Order::Failed(kind, _) => {
                return Err(Failure::Told(FailureKind::from_number(kind)));
            }
            Order::Comes(coming) => self.open(&coming, reach)?,
            Order::Skip(held, ..) => {
                if let Some(sending) = self.machine.sending_mut() {
                    sending.skip(&held);
                }
            }
            Order::Values(first, values) => {
                if let Some(sink) = self.sink() {
                    sink.tell(first, &values);
                }
            }
            Order::Size(end) => {
                if let Some(receiving) = self.machine.receiving_mut() {
                    receiving.limit(end.size)?;
                }
            }
            Order::Found(part) => {
                let names = part.iter().map(|finding| finding.path.to_string());
                self.found.extend(names);
            }
            Order::Placed(..) | Order::Thanks(_) | Order::Answered(_) => {
                self.end(Ok(()), reach.disk);
            }
            _ => {}
        }
        Ok(())
    }

    fn open(&mut self, coming: &Coming, reach: &mut Reach<'_>) -> Result<(), Failure> {
        let (object, size, hash) = (coming.object, coming.size, coming.hash);
        let holes = coming.holes.as_ref();
        let place = Place {
            name: NAME,
            size: size.unwrap_or(0),
            source: coming.source,
            hash,
            holes,
        };
        let sink = reach.disk.open(CLIENT, &place, reach.wrong)?;
        check_resumed(coming.resumed, sink.held.byte_count())?;
        let receiving = Receiving::new(object, sink, hash, size, holes);
        self.machine.receives(receiving);
        Ok(())
    }

    /// Whether bytes of that object are taken; otherwise they come again.
    pub(crate) fn admits(&self, object: ObjectId) -> bool {
        let receiving = self.machine.receiving();
        receiving.is_some_and(|receiving| receiving.inc.object() == object)
    }

    /// What a connection lets in.
    pub(crate) fn expected(&self) -> Option<Expected> {
        self.machine.receiving().map(Receiving::expected)
    }

    pub(crate) fn place(&mut self, piece: Piece, disk: &mut Disk) {
        if let Some(receiving) = self.machine.receiving_mut() {
            let placed = receiving.place(disk, piece);
            self.unless_failed(placed, disk);
        }
    }

    pub(crate) fn sink(&mut self) -> Option<&mut Sink> {
        let receiving = self.machine.receiving_mut();
        receiving.map(|receiving| &mut receiving.sink)
    }

    /// Does something, if there is anything to do.
    pub(crate) fn go_on(&mut self, now: Time, reach: &mut Reach<'_>, said: &mut Said) -> bool {
        let result = self.try_to_go_on(now, reach, said);
        let did = !matches!(result, Ok(false));
        self.unless_failed(result.map(|_| ()), reach.disk);
        did
    }

    fn try_to_go_on(
        &mut self,
        now: Time,
        reach: &mut Reach<'_>,
        said: &mut Said,
    ) -> Result<bool, Failure> {
        if let Some(sending) = self.machine.sending_mut()
            && sending.go_on(reach.file, said)?
        {
            return Ok(true);
        }
        if let Some(receiving) = self.machine.receiving_mut()
            && let Some(is_done) = receiving.go_on(reach.disk)?
        {
            if is_done {
                let object = receiving.inc.object();
                let side = SideReport::default();
                said.say(&Message::Done { object, side });
                self.machine.thanks();
            }
            return Ok(true);
        }
        // What was said last comes last: whoever was told the end has all of it, or will.
        match self.wait.check(now, self.machine.waits_for(true)) {
            Some(wait) => Err(Failure::Wait(wait)),
            None => Ok(false),
        }
    }
}
