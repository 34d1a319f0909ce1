//! A sender and a path in miniature, to test a congestion control without the TCP engine.
//!
//! Every segment is acknowledged on its own and by number, so that a loss is known as soon as three
//! later segments have arrived. Nothing here needs the data: the next segment stands for the
//! repetition, and recovery lasts until that has arrived.
//! The delivery rate is sampled as draft-cheng-iccrg-delivery-rate-estimation-02 says.

use super::super::{Ack, CcSettings, Congestion, CongestionControl, Phase, RateSample};
use super::Lots;
use howdah_core::{Span, Time};
use std::collections::VecDeque;

/// Ethernet, an initial window of 10.
pub(crate) fn settings() -> CcSettings {
    CcSettings {
        seed: 7,
        ..CcSettings::default()
    }
}

/// Segments overtaken before a loss is concluded.
const REORDERING: u64 = 3;
const RETRANSMISSION_TIMEOUT: Span = Span::from_secs(1);

#[derive(Clone, Copy, Debug)]
struct Sent {
    at: Time,
    delivered: u64,
    delivered_at: Time,
    first_sent_at: Time,
    in_flight: u32,
    lost: u64,
    gone: bool,
}

/// Lets a rate pass and a bucket's worth at once; drops the rest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TokenBucket {
    pub(crate) segments_per_sec: f64,
    pub(crate) depth: f64,
    tokens: f64,
    at: Time,
}

impl TokenBucket {
    pub(crate) const fn new(segments_per_sec: f64, depth: f64) -> Self {
        Self {
            segments_per_sec,
            depth,
            tokens: depth,
            at: Time::ZERO,
        }
    }

    fn pass(&mut self, now: Time) -> bool {
        let gained = now.since(self.at).as_secs_f64() * self.segments_per_sec;
        self.tokens = (self.tokens + gained).min(self.depth);
        self.at = now;
        let passes = self.tokens >= 1.0;
        if passes {
            self.tokens -= 1.0;
        }
        passes
    }
}

/// What a run counted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) sent: u64,
    pub(crate) delivered: u64,
    pub(crate) lost: u64,
    pub(crate) timeouts: u64,
    pub(crate) rounds: u64,
}

/// One sender over one path.
pub(crate) struct Pipe<C> {
    pub(crate) cc: C,
    pub(crate) now: Time,
    pub(crate) segments_per_sec: f64,
    pub(crate) base_rtt: Span,
    pub(crate) queue_segments: f64,
    pub(crate) loss: f64,
    pub(crate) policer: Option<TokenBucket>,
    pub(crate) tally: Tally,
    pub(crate) srtt: Span,
    packet_bits: f64,
    lots: Lots,
    link_free_at: Time,
    next_send_at: Time,
    sent: VecDeque<Sent>,
    /// Number of the first entry of `sent`.
    base: u64,
    acks: VecDeque<(Time, u64)>,
    in_flight: u32,
    delivered_at: Time,
    first_sent_at: Time,
    min_rtt: Span,
    phase: Phase,
    recover_until: u64,
    repaired_at: u64,
    round_ends: u64,
    last_progress: Time,
    /// Since the last acknowledgement.
    cwnd_limited: bool,
}

impl<C: CongestionControl> Pipe<C> {
    /// A path with a queue that is never full and no loss.
    pub(crate) fn new(cc: C, segments_per_sec: f64, base_rtt: Span) -> Self {
        Self {
            cc,
            now: Time::ZERO,
            segments_per_sec,
            base_rtt,
            queue_segments: f64::INFINITY,
            loss: 0.0,
            policer: None,
            tally: Tally::default(),
            srtt: Span::ZERO,
            packet_bits: f64::from(settings().packet_bytes) * 8.0,
            lots: Lots::new(99),
            link_free_at: Time::ZERO,
            next_send_at: Time::ZERO,
            sent: VecDeque::new(),
            base: 0,
            acks: VecDeque::new(),
            in_flight: 0,
            delivered_at: Time::ZERO,
            first_sent_at: Time::ZERO,
            min_rtt: Span::ZERO,
            phase: Phase::Open,
            recover_until: 0,
            repaired_at: 0,
            round_ends: 0,
            last_progress: Time::ZERO,
            cwnd_limited: false,
        }
    }

    pub(crate) fn bdp(&self) -> f64 {
        self.segments_per_sec * self.base_rtt.as_secs_f64()
    }

    pub(crate) const fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Segments that wait at the bottleneck.
    pub(crate) fn queue(&self) -> f64 {
        self.link_free_at.since(self.now).as_secs_f64() * self.segments_per_sec
    }

    pub(crate) fn run_for(&mut self, span: Span) {
        self.run_until(self.now + span, |_| {});
    }

    /// Runs on and shows the pipe to `look` after each acknowledgement.
    pub(crate) fn run_until(&mut self, end: Time, mut look: impl FnMut(&Self)) {
        loop {
            let may_send = f64::from(self.in_flight) < self.cc.cwnd();
            self.cwnd_limited |= !may_send;
            let send_at = may_send.then(|| self.next_send_at.max(self.now));
            let ack_at = self.acks.front().map(|(at, _)| *at);
            let timeout_at = self.last_progress + RETRANSMISSION_TIMEOUT;
            let next = [send_at, ack_at]
                .into_iter()
                .flatten()
                .min()
                .unwrap_or(timeout_at);
            if next > end {
                self.now = end;
                return;
            }
            self.now = next;
            if ack_at == Some(next) {
                self.acknowledge();
                look(self);
            } else if send_at == Some(next) {
                self.send();
            } else {
                self.time_out();
            }
        }
    }

    fn send(&mut self) {
        if self.in_flight == 0 {
            self.first_sent_at = self.now;
            self.delivered_at = self.now;
        }
        self.in_flight += 1;
        let number = self.base + self.sent.len() as u64;
        self.sent.push_back(Sent {
            at: self.now,
            delivered: self.tally.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            in_flight: self.in_flight,
            lost: self.tally.lost,
            gone: false,
        });
        self.tally.sent += 1;
        self.cc.on_sent(self.now, self.in_flight, false);
        if let Some(rate) = self.cc.pacing_rate() {
            self.next_send_at = self.next_send_at.max(self.now)
                + Span::from_secs_f64(self.packet_bits / rate.as_f64());
        }
        if let Some(policer) = &mut self.policer
            && !policer.pass(self.now)
        {
            return;
        }
        if self.queue() > self.queue_segments {
            return;
        }
        let service = Span::from_secs_f64(1.0 / self.segments_per_sec);
        self.link_free_at = self.link_free_at.max(self.now) + service;
        if self.lots.unit() >= self.loss {
            self.acks
                .push_back((self.link_free_at + self.base_rtt, number));
        }
    }

    fn acknowledge(&mut self) {
        let Some((_, number)) = self.acks.pop_front() else {
            return;
        };
        self.last_progress = self.now;
        let prior_in_flight = self.in_flight;
        let index = (number - self.base) as usize;
        let packet = self.sent[index];
        let counts = !packet.gone;
        if counts {
            self.sent[index].gone = true;
            self.in_flight -= 1;
        }
        self.tally.delivered += 1;
        self.delivered_at = self.now;
        let lost = self.detect_losses(number);
        let interval = packet
            .at
            .since(packet.first_sent_at)
            .max(self.now.since(packet.delivered_at));
        self.first_sent_at = packet.at;
        let rtt = self.now.since(packet.at);
        self.min_rtt = if self.min_rtt.is_zero() {
            rtt
        } else {
            self.min_rtt.min(rtt)
        };
        self.srtt = if self.srtt.is_zero() {
            rtt
        } else {
            (self.srtt * 7 + rtt) / 8
        };
        if packet.delivered >= self.round_ends {
            self.round_ends = self.tally.delivered;
            self.tally.rounds += 1;
        }
        self.change_phase(number, lost, prior_in_flight);
        let ack = Ack {
            now: self.now,
            acked_segments: 1,
            delivered_segments: 1,
            total_delivered_segments: self.tally.delivered,
            lost_segments: lost,
            rtt: Some(rtt),
            srtt: self.srtt,
            min_rtt: self.min_rtt,
            in_flight_segments: self.in_flight,
            prior_in_flight_segments: prior_in_flight,
            in_flight_when_sent_segments: packet.in_flight,
            cwnd_limited: std::mem::take(&mut self.cwnd_limited),
            phase: self.phase,
            rate: Some(RateSample {
                delivered_segments: self.tally.delivered - packet.delivered,
                interval,
                prior_delivered_segments: packet.delivered,
                app_limited: false,
                in_flight_when_sent_segments: packet.in_flight,
                lost_segments: (self.tally.lost - packet.lost) as u32,
            }),
        };
        self.cc.on_ack(&ack);
    }

    fn detect_losses(&mut self, number: u64) -> u32 {
        let mut lost = 0;
        while self.base + REORDERING <= number || self.sent.front().is_some_and(|s| s.gone) {
            let Some(packet) = self.sent.pop_front() else {
                break;
            };
            self.base += 1;
            if !packet.gone {
                lost += 1;
                if self.base <= self.recover_until {
                    self.repaired_at = self.base + self.sent.len() as u64;
                }
                self.in_flight -= 1;
            }
        }
        self.tally.lost += u64::from(lost);
        lost
    }

    fn change_phase(&mut self, number: u64, lost: u32, in_flight: u32) {
        let next = self.base + self.sent.len() as u64;
        if self.phase != Phase::Open && number >= self.recover_until.max(self.repaired_at) {
            self.phase = Phase::Open;
            self.cc.on_recovered(self.now);
        }
        if lost > 0 && self.phase == Phase::Open {
            self.phase = Phase::Recovery;
            self.recover_until = next;
            self.repaired_at = next;
            let event = self.congestion(in_flight);
            self.cc.on_congestion(&event);
        }
    }

    fn congestion(&self, in_flight: u32) -> Congestion {
        Congestion {
            now: self.now,
            in_flight_segments: in_flight,
            srtt: self.srtt,
            min_rtt: self.min_rtt,
            total_delivered_segments: self.tally.delivered,
        }
    }

    fn time_out(&mut self) {
        let in_flight = self.in_flight;
        self.tally.timeouts += 1;
        self.tally.lost += u64::from(in_flight);
        self.last_progress = self.now;
        self.base += self.sent.len() as u64;
        self.sent.clear();
        self.in_flight = 0;
        self.phase = Phase::Loss;
        self.recover_until = self.base;
        let event = self.congestion(in_flight);
        self.cc.on_timeout(&event);
    }
}
