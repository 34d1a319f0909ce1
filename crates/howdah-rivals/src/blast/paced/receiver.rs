//! The side that sets the rate.

use super::messages::{Hole, MOST_HOLES, Message, number};
use super::rule::{GtpController, pa_udp_rate};
use super::sender::packets;
use super::{PacedRule, PacedSettings};
use crate::blast::blocks::Blocks;
use crate::blast::budget::{Member, SharedBudget};
use crate::blast::channel::Channel;
use crate::blast::endpoint::{Outcome, Tool};
use crate::blast::storage::Storage;
use howdah_core::{ByteRange, Datagram, Rate, Snapshot, Span, Time, WakeReason};
use std::collections::VecDeque;

/// Holes are collected this long before they are asked for.
const COLLECT: Span = Span::from_millis(5);
/// A number further ahead than this is none of ours: 6 GB in flight.
const FARTHEST: u32 = 1 << 22;
/// What a hole is given beyond two round trips before it is asked for again.
const PATIENCE: Span = Span::from_millis(100);

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Stage {
    AwaitOffer,
    Receiving,
    /// All is there; the disk is not done.
    Storing(Time),
    Over,
}

/// A receiver.
#[derive(Debug)]
pub(crate) struct Receiver {
    settings: PacedSettings,
    budget: Option<SharedBudget>,
    member: Option<Member>,
    gtp: GtpController,
    stage: Stage,
    packets: u32,
    last_payload: u32,
    arrived: Blocks,
    memory: Storage,
    /// One past the highest packet that is known to have left.
    expected: u32,
    /// Holes that were not asked for yet.
    found: VecDeque<Hole>,
    ask_at: Option<Time>,
    /// Holes that were asked for, and when.
    asked: VecDeque<(Time, Hole)>,
    update_at: Time,
    rate: Rate,
    /// Of this interval: packets found missing and packets that came for the first time.
    interval_lost: u64,
    interval_new: u64,
    first_at: Option<Time>,
    done_at: Time,
    delivered_bytes: u64,
    accepted: Option<ByteRange>,
    /// Packets for which there was no memory.
    overflows: u64,
    outcome: Option<Outcome>,
}

impl Receiver {
    pub(crate) fn new(settings: PacedSettings, budget: Option<SharedBudget>) -> Self {
        let (packets, last_payload) = packets(&settings);
        Self {
            memory: Storage::new(settings.memory_bytes, settings.disk),
            gtp: GtpController::new(settings.receive_rate),
            settings,
            budget,
            member: None,
            stage: Stage::AwaitOffer,
            packets,
            last_payload,
            arrived: Blocks::default(),
            expected: 0,
            found: VecDeque::new(),
            ask_at: None,
            asked: VecDeque::new(),
            update_at: Time::ZERO,
            rate: Rate::ZERO,
            interval_lost: 0,
            interval_new: 0,
            first_at: None,
            done_at: Time::ZERO,
            delivered_bytes: 0,
            accepted: None,
            overflows: 0,
            outcome: None,
        }
    }

    fn size_bytes(&self) -> u64 {
        let whole = u64::from(self.packets) * u64::from(self.settings.payload_bytes);
        self.settings.size_bytes.unwrap_or(whole)
    }

    /// The rate as of now.
    fn rule(&mut self, now: Time) -> Rate {
        let most = self.settings.receive_rate;
        match self.settings.rule {
            PacedRule::PaUdp => {
                let left = self.size_bytes().saturating_sub(self.delivered_bytes);
                let free = self.memory.free_bytes(now);
                let own = pa_udp_rate(most, self.settings.disk, left, free);
                self.member.as_ref().map_or(own, |member| {
                    member.demand(own);
                    member.share()
                })
            }
            PacedRule::Gtp => {
                let expected = self.interval_lost + self.interval_new;
                let lost = self.interval_lost;
                self.gtp.update(lost, expected, most, self.member.as_ref())
            }
        }
    }

    fn hear(&mut self, now: Time, message: &Message, channel: &mut Channel) {
        match message {
            Message::Offer(size, payload, _) if self.stage == Stage::AwaitOffer => {
                if self.settings.size_bytes.is_none() {
                    // A receiver that was told no size takes what is offered.
                    self.settings.size_bytes = Some(*size);
                    (self.packets, self.last_payload) = packets(&self.settings);
                }
                if *size != self.size_bytes() || *payload != self.settings.payload_bytes {
                    self.fail(channel, "the offer is of another object");
                    return;
                }
                self.member = self
                    .budget
                    .as_ref()
                    .map(|budget| budget.join(self.settings.receive_rate));
                self.rate = self.rule(now);
                Message::Grant(self.rate.bits_per_sec()).write(channel);
                self.stage = Stage::Receiving;
                self.update_at = now + self.settings.period;
            }
            // What has not come by now is missing; what is still on its way comes twice.
            Message::Sent if self.stage == Stage::Receiving => self.expect(now, self.packets),
            _ => {}
        }
    }

    fn fail(&mut self, channel: &mut Channel, why: &str) {
        self.stage = Stage::Over;
        self.outcome = Some(Outcome::Failed(why.to_owned()));
        self.member = None;
        channel.close();
    }

    /// Every packet below `end` has left; those that have not been seen are missing.
    fn expect(&mut self, now: Time, end: u32) {
        if end > self.expected {
            let count = end - self.expected;
            self.interval_lost += u64::from(count);
            self.note(now, (self.expected, count));
            self.expected = end;
        }
    }

    fn note(&mut self, now: Time, hole: Hole) {
        self.found.push_back(hole);
        self.ask_at = self.ask_at.or(Some(now + COLLECT));
    }

    /// Looks again at what was asked for long ago.
    fn check_asked(&mut self, now: Time, channel: &Channel) {
        let patience = channel.srtt().unwrap_or(Span::from_millis(500)) * 2 + PATIENCE;
        while let Some(&(at, (first, count))) = self.asked.front() {
            if at + patience > now {
                break;
            }
            self.asked.pop_front();
            let end = u64::from(first) + u64::from(count);
            let mut from = u64::from(first);
            while let Some(start) = self.arrived.next_missing(from, end) {
                let stop = self.arrived.next_marked(start, end).unwrap_or(end);
                self.note(now, (start as u32, (stop - start) as u32));
                from = stop;
            }
        }
    }

    fn ask(&mut self, now: Time, channel: &mut Channel) {
        self.ask_at = None;
        while !self.found.is_empty() {
            let count = self.found.len().min(MOST_HOLES);
            let holes: Vec<Hole> = self.found.drain(..count).collect();
            self.asked.extend(holes.iter().map(|&hole| (now, hole)));
            Message::Missing(holes).write(channel);
        }
    }

    fn place(&mut self, now: Time, number: u32, payload: u32) {
        if number >= self.expected {
            self.expect(now, number);
            self.expected = number + 1;
            self.interval_new += 1;
            if !self.memory.put(now, payload) {
                self.overflows += 1;
                self.note(now, (number, 1));
                return;
            }
        } else if self.arrived.is_marked(u64::from(number)) || !self.memory.put(now, payload) {
            // A repetition for which there is no room is asked for again in time.
            return;
        }
        self.arrived.mark(u64::from(number));
        self.delivered_bytes += u64::from(payload);
        let start = u64::from(number) * u64::from(self.settings.payload_bytes);
        self.accepted = Some(ByteRange::with_len(start, u64::from(payload)));
        if self.arrived.marked() == u64::from(self.packets) {
            self.member = None;
            self.stage = Stage::Storing(now + self.memory.time_to_empty(now));
        }
    }
}

impl Tool for Receiver {
    const OPENS: bool = false;

    fn on_connected(&mut self, _: Time, _: &mut Channel) {}

    fn on_control(&mut self, now: Time, channel: &mut Channel) {
        while self.outcome.is_none() {
            match Message::read(channel) {
                Ok(Some(message)) => self.hear(now, &message, channel),
                Ok(None) => break,
                Err(()) => self.fail(channel, "a message that is none"),
            }
        }
        if channel.has_ended() && self.outcome.is_none() {
            self.fail(channel, "the sender closed the connection");
        }
    }

    fn on_data(&mut self, now: Time, header: &[u8], absent: u32, _: &mut Channel) {
        let Some(number) = number(header) else {
            return;
        };
        let near = number < self.packets && number <= self.expected.saturating_add(FARTHEST);
        if self.stage != Stage::Receiving || !near {
            return;
        }
        let payload = if number + 1 == self.packets {
            self.last_payload
        } else {
            self.settings.payload_bytes
        };
        self.accepted = None;
        if payload == absent {
            self.first_at = self.first_at.or(Some(now));
            self.place(now, number, payload);
        }
    }

    fn on_timeout(&mut self, now: Time, channel: &mut Channel) {
        match self.stage {
            Stage::Receiving => {
                if now >= self.update_at {
                    self.check_asked(now, channel);
                    let rate = self.rule(now);
                    if rate != self.rate {
                        self.rate = rate;
                        Message::Rate(rate.bits_per_sec()).write(channel);
                    }
                    (self.interval_lost, self.interval_new) = (0, 0);
                    self.update_at = now + self.settings.period.max(Span::from_millis(1));
                }
                if self.ask_at.is_some_and(|at| at <= now) {
                    self.ask(now, channel);
                }
            }
            Stage::Storing(until) if now >= until => {
                Message::Done.write(channel);
                channel.close();
                self.stage = Stage::Over;
                self.done_at = now;
                self.outcome = Some(Outcome::Done(now));
            }
            _ => {}
        }
    }

    fn poll_data(&mut self, _: Time, _: &mut Channel) -> Option<Datagram> {
        None
    }

    fn next_at(&self, _: &Channel) -> Option<(Time, WakeReason)> {
        match self.stage {
            Stage::Receiving => Some(match self.ask_at {
                Some(at) if at < self.update_at => (at, WakeReason::LossReport),
                _ => (self.update_at, WakeReason::RateUpdate),
            }),
            Stage::Storing(until) => Some((until, WakeReason::Disk)),
            _ => None,
        }
    }

    fn take_accepted(&mut self) -> Option<ByteRange> {
        self.accepted.take()
    }

    fn outcome(&self) -> Option<&Outcome> {
        self.outcome.as_ref()
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot {
            algorithm: match self.settings.rule {
                PacedRule::PaUdp => "pa-udp (model)/receiver".into(),
                PacedRule::Gtp => "gtp (model)/receiver".into(),
            },
            delivered_bytes: self.delivered_bytes,
            lost_packets: self.overflows,
            ..Snapshot::default()
        }
    }

    fn delivered_bytes(&self) -> u64 {
        self.delivered_bytes
    }

    /// Size over the time from the first packet to the end.
    fn displayed_rate(&self) -> Option<Rate> {
        match (&self.outcome, self.first_at) {
            (Some(Outcome::Done(_)), Some(first)) => Some(Rate::from_bytes_over(
                self.size_bytes(),
                self.done_at.since(first),
            )),
            _ => None,
        }
    }
}
