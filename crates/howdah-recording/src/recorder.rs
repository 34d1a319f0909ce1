//! Looks become intervals.

use crate::{Held, Interval};
use howdah_core::{Rate, Span};

/// No recording has more.
pub const MOST_INTERVALS: usize = 4_096;
/// Intervals are so long, until there are too many.
const SHORTEST: Span = Span::from_millis(20);
/// Looks are at least that often: whoever waits longer misses what held the copy back.
const LOOK_AT_LEAST: Span = Span::from_millis(100);
/// What a report tells of has arrived since the one before it, but not longer ago than two of the rarest reports are apart: before that nothing
/// was sent that it could tell of.
const TOLD_OF: Span = Span::from_millis(60);

/// What a connection has counted since its beginning.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Totals {
    /// See [`Interval::delivered_bytes`].
    pub delivered_bytes: u64,
    /// See [`Interval::sent_packets`].
    pub sent_packets: u64,
    /// See [`Interval::lost_packets`]; falls when a packet turns up late.
    pub lost_packets: u64,
    /// See [`Interval::host_drops`].
    pub host_drops: u64,
    /// See [`Interval::repeated_bytes`].
    pub repeated_bytes: u64,
}

/// One look at a connection.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Since the copy began.
    pub at: Span,
    /// Until when it is known what was delivered: the time of the peer's latest report, or `at` for whoever receives.
    pub told_at: Span,
    /// Counts of the present connection.
    pub totals: Totals,
    /// Rate at which packets may leave.
    pub pacing: Rate,
    /// What the path carries, if there is an estimate.
    pub capacity: Option<Rate>,
    /// Least round trip so far; zero before the first.
    pub base_rtt: Span,
    /// The latest round trip; zero before the first.
    pub rtt: Span,
    /// Queue on the way.
    pub queue: Span,
    /// What holds the copy back since the last look.
    pub held: Held,
}

/// Makes intervals of looks.
#[derive(Clone, Debug)]
pub struct Recorder {
    done: Vec<Interval>,
    /// The one under way.
    open: Interval,
    step: Span,
    /// Of the last look.
    at: Span,
    told_at: Span,
    totals: Totals,
}

impl Default for Recorder {
    fn default() -> Self {
        Self {
            done: Vec::new(),
            open: Interval::default(),
            step: SHORTEST,
            at: Span::ZERO,
            told_at: Span::ZERO,
            totals: Totals::default(),
        }
    }
}

impl Recorder {
    /// How long to wait for the next look.
    pub fn look_every(&self) -> Span {
        self.step.min(LOOK_AT_LEAST)
    }

    /// The counts begin anew with another connection; nothing moved since the last look at the one before.
    pub fn next_connection(&mut self, at: Span) {
        self.totals = Totals::default();
        self.pass(at, Held::Away);
    }

    /// Until `at` nothing moved, for that reason.
    pub fn pass(&mut self, at: Span, held: Held) {
        let passed_us = self.passed_us(at);
        if passed_us > 0 {
            let mut piece = Interval {
                span_us: passed_us,
                ..Interval::default()
            };
            piece.held_us[held.index()] = passed_us;
            self.add(&piece);
        }
        self.told_at = self.told_at.max(self.at);
    }

    /// Takes in a look. One that is not later than the last counts with the next.
    pub fn push(&mut self, sample: &Sample) {
        let looked_at = self.at;
        let passed_us = self.passed_us(sample.at);
        if passed_us == 0 {
            return;
        }
        let (now, before) = (sample.totals, self.totals);
        // What turned up late lowers the count: what was told stays told, and the next losses make up for it.
        let lost = now.lost_packets.max(before.lost_packets);
        self.totals = Totals {
            lost_packets: lost,
            ..now
        };
        let delivered = now.delivered_bytes.saturating_sub(before.delivered_bytes);
        let earlier = self.take_earlier(delivered, looked_at, sample.told_at.min(sample.at));
        let queue_us = sample.queue.as_micros();
        let mut piece = Interval {
            span_us: passed_us,
            delivered_bytes: delivered - earlier,
            sent_packets: now.sent_packets.saturating_sub(before.sent_packets),
            lost_packets: lost - before.lost_packets,
            host_drops: now.host_drops.saturating_sub(before.host_drops),
            repeated_bytes: now.repeated_bytes.saturating_sub(before.repeated_bytes),
            pacing_bps: sample.pacing.bits_per_sec(),
            capacity_bps: sample.capacity.map_or(0, Rate::bits_per_sec),
            base_rtt_us: sample.base_rtt.as_micros(),
            rtt_us: sample.rtt.as_micros(),
            queue_min_us: queue_us,
            queue_max_us: queue_us,
            held_us: [0; 8],
        };
        piece.held_us[sample.held.index()] = passed_us;
        self.add(&piece);
    }

    /// Counts what a report told to have been delivered before the last look where it belongs: looks and reports are about as far apart, and
    /// else an interval would have what came in two of them, and the next nothing. Returns those bytes.
    fn take_earlier(&mut self, delivered_bytes: u64, looked_at: Span, told_at: Span) -> u64 {
        let told_of = told_at.saturating_sub(self.told_at).min(TOLD_OF);
        self.told_at = self.told_at.max(told_at);
        let begins = told_at.saturating_sub(told_of);
        let earlier = looked_at.min(told_at).saturating_sub(begins);
        let mut left_us = earlier.as_micros();
        let share = |bytes: u64, part_us: u64, of_us: u64| {
            let part = u128::from(bytes) * u128::from(part_us) / u128::from(of_us.max(1));
            u64::try_from(part).unwrap_or(bytes).min(bytes)
        };
        let all = share(delivered_bytes, left_us, told_of.as_micros());
        let mut left = all;
        let open = (self.open.span_us > 0).then_some(&mut self.open);
        for interval in open.into_iter().chain(self.done.iter_mut().rev()) {
            if left_us == 0 {
                break;
            }
            let within_us = interval.span_us.min(left_us);
            let within = share(left, within_us, left_us);
            interval.delivered_bytes = interval.delivered_bytes.saturating_add(within);
            left -= within;
            left_us -= within_us;
        }
        // (Before the first look there was nothing.)
        all - left
    }

    /// All so far, the one under way included.
    pub fn intervals(&self) -> Vec<Interval> {
        let open = (self.open.span_us > 0).then_some(self.open);
        self.done.iter().copied().chain(open).collect()
    }

    /// Microseconds since the last look; the clock moves on by as many.
    fn passed_us(&mut self, at: Span) -> u64 {
        let passed = at.saturating_sub(self.at).as_micros();
        self.at = Span::from_nanos(self.at.as_nanos().saturating_add(passed * 1_000));
        passed
    }

    fn add(&mut self, piece: &Interval) {
        self.open = if self.open.span_us == 0 {
            *piece
        } else {
            self.open.merged(piece)
        };
        if self.open.span_us < self.step.as_micros() {
            return;
        }
        self.done.push(std::mem::take(&mut self.open));
        // One more may be under way.
        if self.done.len() >= MOST_INTERVALS {
            self.done = self
                .done
                .chunks(2)
                .map(|pair| match pair {
                    [a, b] => a.merged(b),
                    [a, ..] => *a,
                    [] => Interval::default(),
                })
                .collect();
            self.step = Span::from_nanos(self.step.as_nanos().saturating_mul(2));
        }
    }
}
