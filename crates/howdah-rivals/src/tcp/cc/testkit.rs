//! A pipe of a few lines that acknowledges what an algorithm sends, for its unit tests.
//!
//! One bottleneck with a FIFO, a fixed delay, acknowledgements that are never lost. Losses are
//! found when the next segment that survives is acknowledged, and a recovery lasts until all that
//! had been sent by then has left the pipe; nothing is sent again. So what is measured here is the
//! algorithm and nothing else; the real engine is measured in `tests/it/responses`.

use super::{Ack, CcSettings, Congestion, CongestionControl, Phase, SlowStart, SlowStartCounting};
use howdah_core::{Span, Time};
use std::collections::VecDeque;

/// Initial window 10, and growth that counts acknowledgements, as the stacks of the papers.
pub(super) fn settings() -> CcSettings {
    CcSettings {
        slow_start: SlowStart {
            counting: SlowStartCounting::Acks,
            ..SlowStart::default()
        },
        ..CcSettings::default()
    }
}

/// Equal but for rounding.
#[track_caller]
pub(super) fn assert_near(measured: f64, expected: f64) {
    assert!(
        (measured - expected).abs() < 1e-9 * expected.abs().max(1.0),
        "{measured}, not {expected}"
    );
}

/// When a [`Pipe`] starts.
pub(super) const START: Time = Time::from_nanos(1_000_000_000_000);

/// An acknowledgement of one segment at 100 ms.
pub(super) fn ack() -> Ack {
    let rtt = Span::from_millis(100);
    Ack {
        now: Time::ZERO + Span::from_secs(1),
        acked_segments: 1,
        delivered_segments: 1,
        total_delivered_segments: 1,
        rtt: Some(rtt),
        srtt: rtt,
        min_rtt: rtt,
        cwnd_limited: true,
        ..Ack::default()
    }
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    sent_at: Time,
    acked_at: Time,
    in_flight: u32,
    lost: bool,
}

/// A sender, a bottleneck and a receiver.
#[derive(Debug)]
pub(super) struct Pipe<C> {
    pub(super) cc: C,
    pub(super) base_rtt: Span,
    /// Capacity of the bottleneck in segments a second, if it has one.
    pub(super) segments_per_second: Option<f64>,
    /// Rate of the sender's own interface in segments a second, if it has one. It holds all that
    /// must wait.
    pub(super) interface_segments_per_second: Option<f64>,
    /// Segments that the bottleneck holds; what comes on top is lost.
    pub(super) queue_segments: f64,
    pub(super) segments_per_ack: u32,
    /// Periodic loss: of this many segments the last one is lost.
    pub(super) lose_one_in: Option<u64>,
    pub(super) now: Time,
    pub(super) lost: u64,
    pub(super) delivered: u64,
    in_flight: VecDeque<Segment>,
    sent: u64,
    /// When the interface has sent what it holds, in nanoseconds.
    interface_busy_until_ns: f64,
    /// When the bottleneck has sent what it holds, in nanoseconds.
    busy_until_ns: f64,
    gone: u64,
    recovery_ends_at: Option<u64>,
    held: u32,
    min_rtt: Span,
}

impl<C: CongestionControl> Pipe<C> {
    /// 100 ms, no bottleneck, an acknowledgement for every segment. It is [`START`], and a window
    /// is under way, evenly spread: its first acknowledgement comes now.
    pub(super) fn new(cc: C) -> Self {
        Self {
            cc,
            base_rtt: Span::from_millis(100),
            segments_per_second: None,
            interface_segments_per_second: None,
            interface_busy_until_ns: 0.0,
            queue_segments: f64::INFINITY,
            segments_per_ack: 1,
            lose_one_in: None,
            now: START,
            lost: 0,
            delivered: 0,
            in_flight: VecDeque::new(),
            sent: 0,
            busy_until_ns: 0.0,
            gone: 0,
            recovery_ends_at: None,
            held: 0,
            min_rtt: Span::MAX,
        }
    }

    /// Segments that wait at the bottleneck.
    pub(super) fn queue(&self) -> f64 {
        let now_ns = self.now.as_nanos() as f64;
        (self.busy_until_ns - now_ns).max(0.0) * self.segments_per_second.unwrap_or(0.0) / 1e9
    }

    fn send(&mut self, at: Time) {
        self.sent += 1;
        let in_flight = self.in_flight.len() as u32 + self.held + 1;
        let mut lost = self
            .lose_one_in
            .is_some_and(|every| self.sent.is_multiple_of(every));
        let mut leaves_ns = at.as_nanos() as f64;
        if let Some(rate) = self.interface_segments_per_second {
            leaves_ns = leaves_ns.max(self.interface_busy_until_ns) + 1e9 / rate;
            self.interface_busy_until_ns = leaves_ns;
        }
        if let Some(rate) = self.segments_per_second {
            if (self.busy_until_ns - leaves_ns) * rate / 1e9 > self.queue_segments {
                lost = true;
            } else {
                self.busy_until_ns = self.busy_until_ns.max(leaves_ns) + 1e9 / rate;
            }
            leaves_ns = leaves_ns.max(self.busy_until_ns);
        }
        self.in_flight.push_back(Segment {
            sent_at: at,
            acked_at: Time::from_nanos(leaves_ns as u64) + self.base_rtt,
            in_flight,
            lost,
        });
    }

    fn fill(&mut self) {
        let window = self.cc.cwnd() as usize;
        if self.sent == 0 {
            let gap = self.base_rtt / window.max(1) as u64;
            for n in 0..window {
                self.send(self.now - self.base_rtt + gap * n as u64);
            }
        }
        while self.in_flight.len() + (self.held as usize) < window {
            self.send(self.now);
        }
    }

    /// Sends what the window allows and takes one segment out of the pipe.
    fn step(&mut self) {
        self.fill();
        let Some(segment) = self.in_flight.pop_front() else {
            panic!("nothing is in flight")
        };
        self.now = self.now.max(segment.acked_at);
        self.gone += 1;
        if segment.lost {
            self.lost += 1;
            if self.recovery_ends_at.is_none() {
                self.recovery_ends_at = Some(self.sent);
                let event = self.congestion();
                self.cc.on_congestion(&event);
            }
            return;
        }
        self.delivered += 1;
        self.held += 1;
        if self.held < self.segments_per_ack && !self.in_flight.is_empty() {
            return;
        }
        self.acknowledge(&segment);
    }

    fn congestion(&self) -> Congestion {
        Congestion {
            now: self.now,
            in_flight_segments: self.in_flight.len() as u32 + self.held,
            srtt: self.base_rtt,
            min_rtt: self.min_rtt,
            total_delivered_segments: self.delivered,
        }
    }

    fn acknowledge(&mut self, newest: &Segment) {
        if self.recovery_ends_at.is_some_and(|end| self.gone > end) {
            self.recovery_ends_at = None;
            self.cc.on_recovered(self.now);
        }
        let rtt = self.now.since(newest.sent_at);
        self.min_rtt = self.min_rtt.min(rtt);
        let acked = std::mem::take(&mut self.held);
        let in_flight = self.in_flight.len() as u32;
        self.cc.on_ack(&Ack {
            now: self.now,
            acked_segments: acked,
            delivered_segments: acked,
            total_delivered_segments: self.delivered,
            rtt: Some(rtt),
            srtt: rtt,
            min_rtt: self.min_rtt,
            in_flight_segments: in_flight,
            prior_in_flight_segments: in_flight + acked,
            in_flight_when_sent_segments: newest.in_flight,
            cwnd_limited: true,
            phase: if self.recovery_ends_at.is_some() {
                Phase::Recovery
            } else {
                Phase::Open
            },
            ..Ack::default()
        });
    }

    /// Runs until something is true; returns how long that took.
    ///
    /// # Panics
    /// If it takes more than a simulated hour.
    pub(super) fn run_until(&mut self, done: impl Fn(&Self) -> bool) -> Span {
        let start = self.now;
        while !done(self) {
            self.step();
            assert!(
                self.now.since(start) < Span::from_secs(3600),
                "an hour has passed: cwnd {}",
                self.cc.cwnd()
            );
        }
        self.now.since(start)
    }

    /// Runs for a while.
    pub(super) fn run_for(&mut self, span: Span) {
        let end = self.now + span;
        self.run_until(|pipe| pipe.now >= end);
    }

    /// The same in round trips of the base RTT.
    pub(super) fn rounds_until(&mut self, done: impl Fn(&Self) -> bool) -> f64 {
        self.run_until(done).as_secs_f64() / self.base_rtt.as_secs_f64()
    }

    /// Mean number of segments delivered a round trip, under [`lose_one_in`](Self::lose_one_in),
    /// over the second half of so many losses.
    pub(super) fn mean_window(&mut self, losses: u64) -> f64 {
        self.run_until(|pipe| pipe.lost >= losses / 2);
        let (start, before) = (self.now, self.delivered);
        self.run_until(|pipe| pipe.lost >= losses);
        let rounds = self.now.since(start).as_secs_f64() / self.base_rtt.as_secs_f64();
        (self.delivered - before) as f64 / rounds
    }
}
