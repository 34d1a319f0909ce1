//! The receiving side: its timers make all the feedback.

use super::messages::{Message, write};
use super::{SYN, SabulSettings};
use crate::blast::channel::Channel;
use crate::blast::endpoint::{Outcome, Tool};
use crate::udt::sequence::{on_wire, position};
use crate::udt::window_set::WindowSet;
use howdah_core::{Datagram, Rate, Snapshot, Time, WakeReason};

/// Gaps that one report names.
const MAX_GAPS: usize = 256;

#[derive(Debug)]
pub(crate) struct Receiver {
    settings: SabulSettings,
    highest: u64,
    acked: u64,
    told: u64,
    lost: WindowSet,
    /// Payload bytes of each packet from `acked` on.
    lengths: Box<[u32]>,
    next_syn: Option<Time>,
    next_repeat: Option<Time>,
    delivered_bytes: u64,
    lost_packets: u64,
    outcome: Option<Outcome>,
}

impl Receiver {
    pub(super) fn new(settings: SabulSettings) -> Self {
        let slots = (settings.flight_packets as usize + 1).next_power_of_two();
        Self {
            settings,
            highest: 0,
            acked: 0,
            told: 0,
            lost: WindowSet::new(slots),
            lengths: vec![0; slots].into(),
            next_syn: None,
            next_repeat: None,
            delivered_bytes: 0,
            lost_packets: 0,
            outcome: None,
        }
    }

    /// The application takes what is in order.
    fn deliver(&mut self) {
        let to = self.lost.first().unwrap_or(self.highest);
        let mask = self.lengths.len() as u64 - 1;
        for at in self.acked..to {
            self.delivered_bytes += u64::from(self.lengths[(at & mask) as usize]);
        }
        self.acked = to;
        self.lost.slide(to);
    }
}

impl Tool for Receiver {
    const OPENS: bool = true;

    fn on_connected(&mut self, now: Time, _: &mut Channel) {
        self.next_syn = Some(now + SYN);
    }

    fn on_control(&mut self, now: Time, channel: &mut Channel) {
        if channel.has_ended() && self.outcome.is_none() {
            self.deliver();
            self.outcome = Some(if self.lost.is_empty() {
                Outcome::Done(now)
            } else {
                Outcome::Failed("the sender closed with packets missing".to_owned())
            });
            channel.close();
        }
    }

    fn on_data(&mut self, now: Time, header: &[u8], absent: u32, channel: &mut Channel) {
        let Some(sequence) = header.first_chunk::<4>() else {
            return;
        };
        let Some(at) = position(0, self.highest, u32::from_be_bytes(*sequence)) else {
            return;
        };
        if at < self.acked || at - self.acked >= u64::from(self.settings.flight_packets) {
            return;
        }
        if at >= self.highest {
            if at > self.highest {
                self.lost_packets += self.lost.insert(self.highest, at);
                let gap = (on_wire(0, self.highest), on_wire(0, at - 1));
                write(channel, &Message::Losses(vec![gap]));
                if self.next_repeat.is_none() {
                    self.next_repeat = Some(now + self.settings.repeat);
                }
            }
            self.highest = at + 1;
        } else if !self.lost.remove(at) {
            return;
        }
        let mask = self.lengths.len() as u64 - 1;
        self.lengths[(at & mask) as usize] = absent;
        self.deliver();
    }

    fn on_timeout(&mut self, now: Time, channel: &mut Channel) {
        if self.next_syn.is_some_and(|at| at <= now) {
            if self.acked > self.told {
                self.told = self.acked;
                write(channel, &Message::Ack(on_wire(0, self.acked)));
            }
            let waiting = self.highest - self.acked;
            if waiting * 4 >= u64::from(self.settings.flight_packets) * 3 {
                write(channel, &Message::Warning);
            }
            write(channel, &Message::Syn);
            self.next_syn = Some(now + SYN);
        }
        if self.next_repeat.is_some_and(|at| at <= now) {
            let gaps: Vec<_> = (self.lost.runs().take(MAX_GAPS))
                .map(|(start, end)| (on_wire(0, start), on_wire(0, end - 1)))
                .collect();
            self.next_repeat = None;
            if !gaps.is_empty() {
                write(channel, &Message::Losses(gaps));
                self.next_repeat = Some(now + self.settings.repeat);
            }
        }
    }

    fn poll_data(&mut self, _: Time, _: &mut Channel) -> Option<Datagram> {
        None
    }

    fn next_at(&self, _: &Channel) -> Option<(Time, WakeReason)> {
        let next = [
            (self.next_syn, WakeReason::Acknowledgement),
            (self.next_repeat, WakeReason::LossReport),
        ];
        let due = next.into_iter().filter_map(|(at, why)| Some((at?, why)));
        due.min_by_key(|(at, _)| *at)
    }

    fn outcome(&self) -> Option<&Outcome> {
        self.outcome.as_ref()
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot {
            algorithm: "sabul/receiver".into(),
            delivered_bytes: self.delivered_bytes,
            lost_packets: self.lost_packets,
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
