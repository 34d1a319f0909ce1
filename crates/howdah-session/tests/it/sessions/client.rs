//! A client's end.

use crate::sessions::disk::{Disk, Place, Sink, Source};
use crate::sessions::sides::{Failure, NAME, Piece, Reach, Receiving, Said, Sending};
use howdah_core::Time;
use howdah_session::holes::{Announced, announce};
use howdah_session::message::{Message, SideReport};
use howdah_session::resume::WireHeld;
use howdah_session::transfer::{End, Outgoing, check_resumed};
use howdah_session::turns::{Answered, Stage};
use howdah_session::{FailureKind, Misbehaved, Wait, WaitClock};

/// A client's end.
pub(crate) struct Client {
    pub(crate) stage: Stage,
    pub(crate) is_put: bool,
    holes: Announced,
    sending: Option<Sending>,
    receiving: Option<Receiving>,
    wait: WaitClock,
    /// How it ended.
    pub(crate) result: Option<Result<(), Failure>>,
}

/// Who writes to a disk of the client.
pub(crate) const CLIENT: u64 = 0;

impl Client {
    /// Asks.
    pub(crate) fn new(is_put: bool, is_file: bool, reach: &mut Reach<'_>, said: &mut Said) -> Self {
        let mut client = Self {
            stage: Stage::Asked,
            is_put,
            holes: Announced::default(),
            sending: None,
            receiving: None,
            wait: WaitClock::default(),
            result: None,
        };
        if !is_put {
            let held = reach.disk.held();
            said.say(&Message::Get {
                path: NAME.into(),
                window_end: None,
                hash: true,
                held: held.map(|(source, ranges)| WireHeld::new(source, &ranges)),
                values: true,
            });
            return client;
        }
        let source = Source::open(reach.file, is_file);
        let mut out = Outgoing::new(0, true);
        let mut sending_holes = None;
        if let Some(holes) = source.holes() {
            said.say(&announce(0, &holes));
            sending_holes = Some(holes);
        }
        let offered = out.offer(Some(source.identity).filter(|_| is_file));
        said.say(&Message::Put {
            object: 0,
            path: NAME.into(),
            name: None,
            size: Some(source.identity.size),
            hash: true,
            source: offered,
            resume: true,
            reread: false,
            mode: None,
        });
        let mut sending = Sending { out, source };
        if let Some(holes) = sending_holes {
            sending.skip(&holes);
        }
        client.sending = Some(sending);
        client.stage = Stage::Moving;
        client
    }

    pub(crate) fn end(&mut self, result: Result<(), Failure>, disk: &mut Disk) {
        if self.stage == Stage::Over {
            return;
        }
        // All is here and right; only the server's figures are missing.
        let is_here = self.stage == Stage::Thanking
            && matches!(result, Err(Failure::Lost | Failure::Wait(_)));
        self.result = Some(if is_here { Ok(()) } else { result });
        self.stage = Stage::Over;
        self.sending = None;
        self.receiving = None;
        if !self.is_put {
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
        let heard = self.stage.hears(&message, false)?;
        match (heard, message) {
            (Answered::Failed, Message::Fail { kind, .. }) => {
                return Err(Failure::Told(FailureKind::from_number(kind)));
            }
            (Answered::Before, Message::Holes { object, ranges }) => {
                self.holes.note(object, ranges);
            }
            (
                Answered::Comes,
                Message::Sending {
                    object,
                    size,
                    hash,
                    source,
                    resumed,
                    ..
                },
            ) => {
                if self.is_put {
                    return Err(Misbehaved::new("nobody asked for it").into());
                }
                let holes = self.holes.take(object, size)?;
                let place = Place {
                    name: NAME,
                    size: size.unwrap_or(0),
                    source,
                    hash,
                    holes: holes.as_ref(),
                };
                let sink = reach.disk.open(CLIENT, &place, reach.wrong)?;
                check_resumed(resumed, sink.held.byte_count())?;
                self.receiving = Some(Receiving::new(object, sink, hash, size, holes.as_ref()));
                self.stage = Stage::Moving;
            }
            (Answered::OfObject, message) => self.of_object(message, reach)?,
            (Answered::Thanks, _) => self.end(Ok(()), reach.disk),
            (Answered::OfTree | Answered::OfFiles | Answered::OfQuestion, _) => {
                return Err(Misbehaved::new("nobody asked for it").into());
            }
            _ => {}
        }
        Ok(())
    }

    fn of_object(&mut self, message: Message, reach: &mut Reach<'_>) -> Result<(), Failure> {
        match message {
            Message::Ready {
                object,
                held,
                values,
                ..
            } => {
                if let Some(sending) = self.sending.as_mut().filter(|s| s.out.object() == object) {
                    let held = sending.out.on_ready(&held, values)?;
                    sending.skip(&held);
                }
            }
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
                    self.end(Ok(()), reach.disk);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Whether bytes of that object are taken; otherwise they come again.
    pub(crate) fn admits(&self, object: u64) -> bool {
        let receiving = self.receiving.as_ref();
        receiving.is_some_and(|receiving| receiving.inc.object() == object)
    }

    pub(crate) fn place(&mut self, piece: Piece, disk: &mut Disk) {
        if let Some(receiving) = &mut self.receiving {
            let placed = receiving.place(disk, piece);
            self.unless_failed(placed, disk);
        }
    }

    pub(crate) fn sink(&mut self) -> Option<&mut Sink> {
        self.receiving.as_mut().map(|receiving| &mut receiving.sink)
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
                self.stage = Stage::Thanking;
            }
            return Ok(true);
        }
        let wait = match self.stage {
            Stage::Before | Stage::Over => None,
            Stage::Asked => Some(Wait::Answer),
            Stage::Thanking => Some(Wait::Thanks),
            Stage::Moving => match (&self.sending, &self.receiving) {
                (Some(sending), _) if sending.out.waits_for_ready() => Some(Wait::Answer),
                (Some(sending), _) => sending.waits_for_verdict().then_some(Wait::Verdict),
                (None, Some(receiving)) => receiving.inc.waits_for_end().then_some(Wait::End),
                (None, None) => None,
            },
        };
        match self.wait.check(now, wait) {
            Some(wait) => Err(Failure::Wait(wait)),
            None => Ok(false),
        }
    }
}
