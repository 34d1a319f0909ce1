//! The side that sends.

use super::law::Law;
use super::messages::{
    BlockKind, CHALLENGE_BYTES, PARAMETER_BYTES, PROOF_BYTES, Parameters, REQUEST_BYTES, REVISION,
    Request, file, header, read_header,
};
use super::{TsunamiErrors, TsunamiSettings};
use crate::blast::channel::Channel;
use crate::blast::endpoint::{Outcome, Tool};
use howdah_core::{ByteRange, Datagram, Rate, Snapshot, Span, Time, WakeReason};

/// Blocks between two looks at whether the client is still there, and least time between two
/// consequences of its silence.
const HEARTBEAT_SENDS: u32 = 2048;
const HEARTBEAT_SPAN: Span = Span::from_millis(500);
/// Silence after which the server gives up.
const HEARTBEAT_TIMEOUT: Span = Span::from_secs(15);
/// The last block is repeated at this many times the delay.
const END_PAUSE: u64 = 10;
const LARGEST_BLOCK: u32 = 65_000;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Stage {
    Revision,
    Proof,
    Name,
    Parameters,
    Port,
    Sending,
    Over,
}

/// A server.
#[derive(Debug)]
pub(crate) struct Server {
    settings: TsunamiSettings,
    stage: Stage,
    blocks: u32,
    law: Law,
    /// Number of the last block that was sent in order, from 1.
    block: u32,
    highest: u32,
    next_at: Time,
    heard_at: Time,
    lost_contact_at: Time,
    since_heard: u32,
    sent_bytes: u64,
    repeated_bytes: u64,
    slowdowns: u64,
    outcome: Option<Outcome>,
}

impl Server {
    pub(crate) fn new(settings: TsunamiSettings) -> Self {
        let parameters = Parameters {
            block_bytes: settings.block_bytes,
            target_bps: settings.target.bits_per_sec().min(u64::from(u32::MAX)) as u32,
            error_threshold: settings.error_threshold,
            slower: settings.slower,
            faster: settings.faster,
        };
        Self {
            stage: Stage::Revision,
            blocks: settings.blocks(),
            law: Law::new(&parameters),
            settings,
            block: 0,
            highest: 0,
            next_at: Time::ZERO,
            heard_at: Time::ZERO,
            lost_contact_at: Time::ZERO,
            since_heard: 0,
            sent_bytes: 0,
            repeated_bytes: 0,
            slowdowns: 0,
            outcome: None,
        }
    }

    fn size_bytes(&self) -> u64 {
        let whole = u64::from(self.blocks) * u64::from(self.settings.block_bytes);
        self.settings.size_bytes.unwrap_or(whole)
    }

    fn fail(&mut self, channel: &mut Channel, why: &str) {
        self.stage = Stage::Over;
        self.outcome = Some(Outcome::Failed(why.to_owned()));
        channel.close();
    }

    /// One step of the negotiation; false if its message is not all there.
    fn negotiate(&mut self, now: Time, channel: &mut Channel) -> bool {
        match self.stage {
            Stage::Revision => {
                let Some(revision) = channel.read::<4>() else {
                    return false;
                };
                if u32::from_be_bytes(revision) != REVISION {
                    self.fail(channel, "the client speaks another revision");
                    return false;
                }
                channel.write(&[0x5a; CHALLENGE_BYTES]);
                self.stage = Stage::Proof;
            }
            Stage::Proof => {
                if channel.read::<PROOF_BYTES>().is_none() {
                    return false;
                }
                channel.write(&[0]);
                self.stage = Stage::Name;
            }
            Stage::Name => {
                if channel.read_line().is_none() {
                    return false;
                }
                channel.write(&[0]);
                self.stage = Stage::Parameters;
            }
            Stage::Parameters => {
                let Some(bytes) = channel.read::<PARAMETER_BYTES>() else {
                    return false;
                };
                let parameters = Parameters::decode(bytes);
                if !(1..=LARGEST_BLOCK).contains(&parameters.block_bytes) {
                    self.fail(channel, "a block of an impossible size");
                    return false;
                }
                self.settings.block_bytes = parameters.block_bytes;
                self.blocks = self.settings.blocks();
                self.law = Law::new(&parameters);
                channel.write(&file(
                    self.size_bytes(),
                    parameters.block_bytes,
                    self.blocks,
                ));
                self.stage = Stage::Port;
            }
            Stage::Port => {
                if channel.read::<2>().is_none() {
                    return false;
                }
                self.stage = Stage::Sending;
                self.next_at = now;
                self.heard_at = now;
                self.lost_contact_at = now;
            }
            Stage::Sending | Stage::Over => return false,
        }
        true
    }

    /// One request. The block to send again, if it asks for one.
    fn answer(&mut self, now: Time, request: Option<Request>) -> Option<u32> {
        self.heard_at = now;
        self.lost_contact_at = now;
        self.since_heard = 0;
        match request {
            Some(Request::Stop) => {
                self.stage = Stage::Over;
                self.outcome = Some(Outcome::Done(now));
            }
            Some(Request::ErrorRate(error)) => self.report(error),
            // The next block in order is the one behind it.
            Some(Request::Restart(block)) if (1..=self.blocks).contains(&block) => {
                self.block = block;
            }
            Some(Request::Retransmit(block)) if (1..=self.blocks).contains(&block) => {
                return Some(block);
            }
            _ => {}
        }
        None
    }

    fn report(&mut self, error: u32) {
        self.slowdowns += u64::from(error > self.settings.error_threshold);
        self.law.report(error);
    }

    /// What the server does when nothing has come for a while.
    fn heartbeat(&mut self, now: Time) {
        self.since_heard += 1;
        if self.since_heard <= HEARTBEAT_SENDS {
            return;
        }
        self.since_heard = 0;
        if now.since(self.lost_contact_at) < HEARTBEAT_SPAN {
            return;
        }
        self.lost_contact_at = now;
        self.report(100_000);
        if now.since(self.heard_at) > HEARTBEAT_TIMEOUT {
            self.stage = Stage::Over;
            self.outcome = Some(Outcome::Failed(
                "no heartbeat of the client for 15 s".into(),
            ));
        }
    }

    fn datagram(&mut self, block: u32, kind: BlockKind) -> Datagram {
        let bytes = u64::from(self.settings.block_bytes);
        self.sent_bytes += bytes;
        if block <= self.highest {
            self.repeated_bytes += bytes;
        }
        self.highest = self.highest.max(block);
        Datagram {
            bytes: header(block, kind),
            absent: self.settings.block_bytes,
        }
    }
}

impl Tool for Server {
    const OPENS: bool = false;

    fn on_connected(&mut self, _: Time, channel: &mut Channel) {
        channel.write(&REVISION.to_be_bytes());
    }

    fn on_control(&mut self, now: Time, channel: &mut Channel) {
        while self.negotiate(now, channel) {}
        if channel.has_ended() && channel.unread() == 0 && self.outcome.is_none() {
            self.fail(channel, "the client closed the connection");
        }
    }

    fn on_data(&mut self, _: Time, _: &[u8], _: u32, _: &mut Channel) {}

    fn on_timeout(&mut self, _: Time, _: &mut Channel) {}

    /// One turn of the server's loop: a request or the next block, then a pause.
    fn poll_data(&mut self, now: Time, channel: &mut Channel) -> Option<Datagram> {
        if self.stage != Stage::Sending || now < self.next_at {
            return None;
        }
        let mut pause = self.law.delay();
        let datagram = if let Some(bytes) = channel.read::<REQUEST_BYTES>() {
            let again = self.answer(now, Request::decode(bytes));
            if again.is_some() {
                pause = self.settings.retransmit_pause.unwrap_or(pause);
            }
            again.map(|block| self.datagram(block, BlockKind::Retransmission))
        } else {
            self.block = (self.block + 1).min(self.blocks);
            let kind = if self.block == self.blocks {
                pause = pause * END_PAUSE;
                BlockKind::Terminate
            } else {
                BlockKind::Original
            };
            Some(self.datagram(self.block, kind))
        };
        self.next_at = now + pause;
        self.heartbeat(now);
        datagram
    }

    fn next_at(&self, _: &Channel) -> Option<(Time, WakeReason)> {
        (self.stage == Stage::Sending).then_some((self.next_at, WakeReason::Pacing))
    }

    /// The last block is as long as the others; zeros fill it.
    fn payload_of(&self, header: &[u8], absent: u32) -> Option<ByteRange> {
        let (block, _) = read_header(header)?;
        let start = u64::from(block.checked_sub(1)?) * u64::from(self.settings.block_bytes);
        let end = (start + u64::from(absent)).min(self.size_bytes());
        Some(ByteRange::new(start, end))
    }

    fn outcome(&self) -> Option<&Outcome> {
        self.outcome.as_ref()
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot {
            algorithm: match self.settings.errors {
                TsunamiErrors::RequestsAndRing => "tsunami/server".into(),
                TsunamiErrors::RingAlone => "rtsunami-like/server".into(),
            },
            sent_bytes: self.sent_bytes,
            retransmitted_bytes: self.repeated_bytes,
            congestion_events: self.slowdowns,
            pacing_rate: Some(Rate::from_bytes_over(
                u64::from(self.settings.block_bytes),
                self.law.delay(),
            )),
            ..Snapshot::default()
        }
    }

    fn delivered_bytes(&self) -> u64 {
        0
    }

    fn displayed_rate(&self) -> Option<Rate> {
        None
    }
}
