//! The side that is told its rate.

use super::messages::{Hole, Message, header, number};
use super::{PacedRule, PacedSettings};
use crate::blast::channel::Channel;
use crate::blast::endpoint::{Outcome, Tool};
use howdah_core::{ByteRange, Datagram, Rate, Snapshot, Span, Time, WakeReason};
use std::collections::VecDeque;

/// Lateness that a sender catches up with: `PA-UDP` compensates for the processor's latency.
const CREDIT: Span = Span::from_millis(10);
/// No rate is lower, in bit/s.
const LEAST_BPS: u64 = 64_000;
/// Requests that may wait.
const MOST_REPEATS: usize = 1 << 20;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Stage {
    Offering,
    Sending,
    Over,
}

/// A sender.
#[derive(Debug)]
pub(crate) struct Sender {
    settings: PacedSettings,
    stage: Stage,
    packets: u32,
    last_payload: u32,
    next: u32,
    repeats: VecDeque<Hole>,
    rate: Rate,
    gap: Span,
    next_at: Time,
    sent_bytes: u64,
    repeated_bytes: u64,
    lost_packets: u64,
    outcome: Option<Outcome>,
}

/// Packets of an object, and payload of the last.
pub(super) fn packets(settings: &PacedSettings) -> (u32, u32) {
    let payload = u64::from(settings.payload_bytes.max(1));
    let size = settings.size_bytes.unwrap_or(u64::MAX);
    let count = size.div_ceil(payload);
    if count > u64::from(u32::MAX) {
        return (u32::MAX, settings.payload_bytes);
    }
    let last = size - payload * count.saturating_sub(1);
    (count as u32, last as u32)
}

impl Sender {
    pub(crate) fn new(settings: PacedSettings) -> Self {
        let (packets, last_payload) = packets(&settings);
        Self {
            settings,
            stage: Stage::Offering,
            packets,
            last_payload,
            next: 0,
            repeats: VecDeque::new(),
            rate: Rate::ZERO,
            gap: Span::ZERO,
            next_at: Time::ZERO,
            sent_bytes: 0,
            repeated_bytes: 0,
            lost_packets: 0,
            outcome: None,
        }
    }

    fn set_rate(&mut self, now: Time, bps: u64) {
        self.rate = Rate::from_bits_per_sec(bps.max(LEAST_BPS));
        let gap = self.rate.span_for(u64::from(self.settings.payload_bytes));
        // A packet that was due long after the new distance is due earlier now.
        self.next_at = self.next_at.min(now + gap);
        self.gap = gap;
    }

    fn hear(&mut self, now: Time, message: Message, channel: &mut Channel) {
        match message {
            Message::Grant(bps) if self.stage == Stage::Offering => {
                self.next_at = now;
                self.set_rate(now, bps);
                Message::Confirm(self.rate.bits_per_sec()).write(channel);
                self.stage = Stage::Sending;
            }
            Message::Rate(bps) if self.stage == Stage::Sending => self.set_rate(now, bps),
            Message::Missing(holes) => {
                for (first, count) in holes {
                    // Only what has been sent can be missing.
                    let known = first.checked_add(count).is_some_and(|end| end <= self.next);
                    if known && count > 0 && self.repeats.len() < MOST_REPEATS {
                        self.lost_packets += u64::from(count);
                        self.repeats.push_back((first, count));
                    }
                }
            }
            Message::Done => {
                self.stage = Stage::Over;
                self.outcome = Some(Outcome::Done(now));
                channel.close();
            }
            _ => {}
        }
    }

    /// The next packet's number, and whether it is a repetition.
    fn take(&mut self) -> Option<(u32, bool)> {
        if let Some((first, count)) = self.repeats.front_mut() {
            let number = *first;
            *first += 1;
            *count -= 1;
            if *count == 0 {
                self.repeats.pop_front();
            }
            return Some((number, true));
        }
        (self.next < self.packets).then(|| {
            self.next += 1;
            (self.next - 1, false)
        })
    }

    fn has_work(&self) -> bool {
        self.stage == Stage::Sending && (!self.repeats.is_empty() || self.next < self.packets)
    }
}

impl Tool for Sender {
    const OPENS: bool = true;

    fn on_connected(&mut self, _: Time, channel: &mut Channel) {
        let whole = u64::from(self.packets) * u64::from(self.settings.payload_bytes);
        let size = self.settings.size_bytes.unwrap_or(whole);
        Message::Offer(size, self.settings.payload_bytes, u64::MAX).write(channel);
    }

    fn on_control(&mut self, now: Time, channel: &mut Channel) {
        while self.outcome.is_none() {
            match Message::read(channel) {
                Ok(Some(message)) => self.hear(now, message, channel),
                Ok(None) => break,
                Err(()) => {
                    self.outcome = Some(Outcome::Failed("a message that is none".into()));
                    channel.close();
                }
            }
        }
        if channel.has_ended() && self.outcome.is_none() {
            self.outcome = Some(Outcome::Failed("the receiver closed the connection".into()));
            channel.close();
        }
    }

    fn on_data(&mut self, _: Time, _: &[u8], _: u32, _: &mut Channel) {}

    fn on_timeout(&mut self, _: Time, _: &mut Channel) {}

    fn poll_data(&mut self, now: Time, channel: &mut Channel) -> Option<Datagram> {
        if !self.has_work() || now < self.next_at {
            return None;
        }
        let (number, repeated) = self.take()?;
        self.next_at = (self.next_at + self.gap).max(now - CREDIT);
        if !repeated && self.next == self.packets {
            Message::Sent.write(channel);
        }
        let payload = if number + 1 == self.packets {
            self.last_payload
        } else {
            self.settings.payload_bytes
        };
        self.sent_bytes += u64::from(payload);
        if repeated {
            self.repeated_bytes += u64::from(payload);
        }
        Some(Datagram {
            bytes: header(number),
            absent: payload,
        })
    }

    fn next_at(&self, _: &Channel) -> Option<(Time, WakeReason)> {
        self.has_work()
            .then_some((self.next_at, WakeReason::Pacing))
    }

    fn payload_of(&self, header: &[u8], absent: u32) -> Option<ByteRange> {
        let start = u64::from(number(header)?) * u64::from(self.settings.payload_bytes);
        Some(ByteRange::with_len(start, u64::from(absent)))
    }

    fn outcome(&self) -> Option<&Outcome> {
        self.outcome.as_ref()
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot {
            algorithm: match self.settings.rule {
                PacedRule::PaUdp => "pa-udp (model)/sender".into(),
                PacedRule::Gtp => "gtp (model)/sender".into(),
            },
            sent_bytes: self.sent_bytes,
            retransmitted_bytes: self.repeated_bytes,
            lost_packets: self.lost_packets,
            pacing_rate: Some(self.rate),
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
