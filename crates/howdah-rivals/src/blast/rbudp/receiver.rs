//! The side that is blasted at.

use super::messages::{END_BYTES, NAME_BYTES, is_end_of_blast, number, report};
use super::{RbudpMode, RbudpSettings, packets};
use crate::blast::blocks::Blocks;
use crate::blast::channel::Channel;
use crate::blast::endpoint::{Outcome, Tool};
use howdah_core::{ByteRange, Datagram, Rate, Snapshot, Time, WakeReason};

/// A receiver.
#[derive(Debug)]
pub(crate) struct Receiver {
    settings: RbudpSettings,
    /// Packets of the object under way, and payload of the last; `None` between objects.
    object: Option<(u64, u32)>,
    arrived: Blocks,
    delivered_bytes: u64,
    complete_bytes: u64,
    /// Number and payload of what came before the size of the object was read.
    socket: Vec<(u32, u32)>,
    socket_bytes: u64,
    accepted: Option<ByteRange>,
    outcome: Option<Outcome>,
}

impl Receiver {
    pub(crate) fn new(settings: RbudpSettings) -> Self {
        Self {
            settings,
            object: None,
            arrived: Blocks::default(),
            delivered_bytes: 0,
            complete_bytes: 0,
            socket: Vec::new(),
            socket_bytes: 0,
            accepted: None,
            outcome: None,
        }
    }

    /// One message, if it is all there.
    fn read(&mut self, now: Time, channel: &mut Channel) -> bool {
        let Some((count, _)) = self.object else {
            let Some(size) = channel.read::<8>() else {
                return false;
            };
            let size = u64::from_be_bytes(size);
            if size == 0 || size > u64::from(u32::MAX) * u64::from(self.settings.payload_bytes) {
                self.fail(channel, "an object of an impossible size");
                return false;
            }
            self.object = Some(packets(size, self.settings.payload_bytes));
            self.arrived.clear();
            self.socket_bytes = 0;
            for (number, payload) in std::mem::take(&mut self.socket) {
                self.place(number, payload);
            }
            // Of those the driver has no payload any more.
            self.accepted = None;
            return true;
        };
        let Some(end) = channel.read::<END_BYTES>() else {
            return false;
        };
        if !is_end_of_blast(end) {
            self.fail(channel, "the end of a blast was expected");
            return false;
        }
        channel.write(&report(&self.arrived, count));
        if self.arrived.marked() >= count {
            self.object = None;
            self.complete_bytes = self.delivered_bytes;
            if self.settings.mode == RbudpMode::File {
                self.outcome = Some(Outcome::Done(now));
                channel.close();
            }
        }
        true
    }

    fn place(&mut self, number: u32, payload: u32) {
        let Some((count, last)) = self.object else {
            return;
        };
        let number = u64::from(number);
        if number >= count {
            return;
        }
        // The number is all that a packet says of itself: a straggler of the chunk before is taken
        // for one of this chunk, as the program takes it. Only its length may give it away here.
        let expected = if number + 1 < count {
            self.settings.payload_bytes
        } else {
            last
        };
        if payload == expected && self.arrived.mark(number) {
            self.delivered_bytes += u64::from(payload);
            let start = self.complete_bytes + number * u64::from(self.settings.payload_bytes);
            self.accepted = Some(ByteRange::with_len(start, u64::from(payload)));
        }
    }

    fn fail(&mut self, channel: &mut Channel, why: &str) {
        self.outcome = Some(Outcome::Failed(why.to_owned()));
        channel.close();
    }
}

impl Tool for Receiver {
    const OPENS: bool = true;

    fn on_connected(&mut self, _: Time, channel: &mut Channel) {
        match self.settings.mode {
            RbudpMode::File => {
                let mut name = [0; NAME_BYTES];
                name[..6].copy_from_slice(b"object");
                channel.write(&name);
            }
            RbudpMode::Stream { .. } => channel.write(&[0]),
        }
    }

    fn on_control(&mut self, now: Time, channel: &mut Channel) {
        while self.outcome.is_none() && self.read(now, channel) {}
        if channel.has_ended() && self.outcome.is_none() {
            let between = self.object.is_none() && self.complete_bytes > 0;
            if between && matches!(self.settings.mode, RbudpMode::Stream { .. }) {
                self.outcome = Some(Outcome::Done(now));
                channel.close();
            } else {
                self.fail(channel, "the sender closed the connection");
            }
        }
    }

    fn on_data(&mut self, _: Time, header: &[u8], absent: u32, _: &mut Channel) {
        let Some(number) = number(header) else {
            return;
        };
        self.accepted = None;
        if self.object.is_some() {
            self.place(number, absent);
        } else if self.socket_bytes + u64::from(absent) <= self.settings.socket_bytes {
            self.socket_bytes += u64::from(absent);
            self.socket.push((number, absent));
        }
    }

    fn on_timeout(&mut self, _: Time, _: &mut Channel) {}

    fn poll_data(&mut self, _: Time, _: &mut Channel) -> Option<Datagram> {
        None
    }

    fn next_at(&self, _: &Channel) -> Option<(Time, WakeReason)> {
        None
    }

    fn take_accepted(&mut self) -> Option<ByteRange> {
        self.accepted.take()
    }

    fn outcome(&self) -> Option<&Outcome> {
        self.outcome.as_ref()
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot {
            algorithm: "rbudp/receiver".into(),
            delivered_bytes: self.delivered_bytes,
            ..Snapshot::default()
        }
    }

    fn delivered_bytes(&self) -> u64 {
        self.delivered_bytes
    }

    fn displayed_rate(&self) -> Option<Rate> {
        None
    }
}
