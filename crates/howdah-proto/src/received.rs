//! What has arrived: packet numbers as a bitmap, and the reports made of it.
//!
//! A hole is reported lost only when it is *settled*: a packet with a higher number arrived at
//! least a reordering window ago. The window is time, not a packet count (1 ms is 861 packets at
//! 10 Gbit/s), and grows when a packet turns up that had been called lost.

use crate::codec::{Coverage, EcnCounts, Report, Run, RxSample, limits, run_len};
use crate::error::PeerMisbehaved;
use crate::unconfirmed::Unconfirmed;
use howdah_core::num::saturating_usize;
use howdah_core::{Ecn, Span, Time};
use smallvec::SmallVec;
use std::collections::VecDeque;

/// Smallest reordering window.
const REORDER_WINDOW_MIN: Span = Span::from_millis(1);
/// Largest reordering window.
const REORDER_WINDOW_MAX: Span = Span::from_millis(250);
/// The window shrinks by 1/16 after that long without a late packet.
const REORDER_DECAY_AFTER: Span = Span::from_secs(10);
/// Distance between remembered (time, largest) pairs.
const MARK_SPACING: Span = Span::from_micros(200);
/// How long those pairs are kept, to measure how late a late packet is.
const MARK_MEMORY: Span = Span::from_millis(1_000);
/// Distance between arrival samples inside a train.
const SAMPLE_SPACING: Span = Span::from_micros(100);
/// Reports that carry arrival samples: those of the start-up.
const SAMPLED_REPORTS: u64 = 64;
/// ... and as many after the peer has asked for one.
const ASKED_REPORTS: u64 = 8;

/// What became of an arriving packet number.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Arrived {
    New,
    Duplicate,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Received {
    /// Bit `n` of word `w` is packet `base + 64 w + n`.
    bits: VecDeque<u64>,
    base: u64,
    largest: Option<(u64, Time)>,
    packets: u64,
    bytes: u64,
    duplicates: u64,
    ecn: EcnCounts,
    /// Everything below stands in some report.
    covered_to: u64,
    unconfirmed: Unconfirmed,
    marks: VecDeque<(Time, u64)>,
    samples: VecDeque<RxSample>,
    late: SmallVec<[u64; 4]>,
    reorder_window: Span,
    last_late_at: Time,
    next_report: u64,
    /// The last report that carries samples.
    sampled_to: u64,
}

impl Default for Received {
    fn default() -> Self {
        Self {
            bits: VecDeque::new(),
            base: 0,
            largest: None,
            packets: 0,
            bytes: 0,
            duplicates: 0,
            ecn: EcnCounts::default(),
            covered_to: 0,
            unconfirmed: Unconfirmed::default(),
            marks: VecDeque::new(),
            samples: VecDeque::new(),
            late: SmallVec::new(),
            reorder_window: REORDER_WINDOW_MIN,
            last_late_at: Time::ZERO,
            next_report: 1,
            sampled_to: SAMPLED_REPORTS,
        }
    }
}

impl Received {
    pub(crate) fn largest(&self) -> Option<u64> {
        self.largest.map(|(number, _)| number)
    }

    pub(crate) fn packets(&self) -> u64 {
        self.packets
    }

    /// Memory of numbers that are not behind it, and of what was told and not confirmed.
    pub(crate) fn kept_bytes(&self) -> usize {
        self.bits.len() * size_of::<u64>() + self.unconfirmed.kept_bytes()
    }

    /// UDP payload bytes of the packets, each counted once.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn duplicates(&self) -> u64 {
        self.duplicates
    }

    pub(crate) fn reorder_window(&self) -> Span {
        self.reorder_window
    }

    /// The peer has asked: it may have sent bursts to see what the path makes of them.
    pub(crate) fn sample_again(&mut self) {
        self.sampled_to = self.sampled_to.max(self.next_report + ASKED_REPORTS - 1);
    }

    /// Whether it has asked, and start-up is over.
    pub(crate) fn is_asked(&self) -> bool {
        self.next_report > SAMPLED_REPORTS && self.next_report <= self.sampled_to
    }

    /// Number that the next report will have.
    pub(crate) fn next_report(&self) -> u64 {
        self.next_report
    }

    /// Whether packet `number` would be new. Checked before a packet is acted upon.
    pub(crate) fn is_new(&self, number: u64) -> bool {
        number >= self.base && !self.bit(number)
    }

    fn bit(&self, number: u64) -> bool {
        let at = number - self.base;
        self.bits
            .get(saturating_usize(at / 64))
            .is_some_and(|word| word >> (at % 64) & 1 == 1)
    }

    /// The packet that was [new](Arrived::New) just now had this ECN field.
    pub(crate) fn count_ecn(&mut self, ecn: Ecn) {
        self.ecn.count(ecn);
    }

    /// Notes that packet `number` of `bytes` UDP payload bytes has arrived.
    pub(crate) fn insert(
        &mut self,
        now: Time,
        number: u64,
        bytes: u64,
    ) -> Result<Arrived, PeerMisbehaved> {
        if number < self.base || self.bit(number) {
            self.duplicates += 1;
            return Ok(Arrived::Duplicate);
        }
        // The host's stamps may step back a little; reports must not.
        let now = self.largest.map_or(now, |(_, at)| at.max(now));
        let at = number - self.base;
        if at >= limits::MAX_COVERAGE_SPAN {
            return Err(PeerMisbehaved::NumberTooFar);
        }
        let word = saturating_usize(at / 64);
        if word >= self.bits.len() {
            self.bits.resize(word + 1, 0);
        }
        self.bits[word] |= 1 << (at % 64);
        self.packets += 1;
        self.bytes += bytes;
        if self.largest.is_none_or(|(largest, _)| number > largest) {
            self.largest = Some((number, now));
            if self
                .marks
                .back()
                .is_none_or(|&(t, _)| now.since(t) >= MARK_SPACING)
            {
                self.marks.push_back((now, number));
            }
            if self.next_report <= self.sampled_to {
                self.sample(now, number);
            }
        } else if number < self.covered_to {
            self.on_late(now, number);
        }
        Ok(Arrived::New)
    }

    fn sample(&mut self, now: Time, number: u64) {
        let due = self.samples.back().is_none_or(|last| {
            now.as_micros().saturating_sub(last.rx_time_us) >= SAMPLE_SPACING.as_micros()
        });
        if due {
            self.samples.push_back(RxSample {
                number,
                rx_time_us: now.as_micros(),
            });
            if self.samples.len() > saturating_usize(limits::MAX_SAMPLES) {
                // Thin out inside the trains: first and last of each are what is asked for.
                let between = |at: &usize| {
                    let [before, after] = [at - 1, at + 1].map(|i| self.samples[i].rx_time_us);
                    after.saturating_sub(before)
                };
                let densest = (1..self.samples.len() - 1).min_by_key(between);
                if let Some(at) = densest {
                    self.samples.remove(at);
                }
            }
        }
    }

    /// A packet arrived that a report had called lost.
    fn on_late(&mut self, now: Time, number: u64) {
        if self.late.len() < saturating_usize(limits::MAX_LATE) {
            self.late.push(number);
        }
        self.last_late_at = now;
        // The hole became visible when the first packet above it arrived.
        let above = self.marks.partition_point(|&(_, n)| n <= number);
        let visible = self.marks.get(above).map_or(Time::ZERO, |m| m.0);
        let lateness = now.since(visible);
        if lateness <= REORDER_WINDOW_MAX {
            self.reorder_window = self
                .reorder_window
                .max(lateness + lateness / 4)
                .min(REORDER_WINDOW_MAX);
        }
    }

    /// First packet number that is not settled at `now`.
    fn settled_to(&self, now: Time) -> u64 {
        let Some((largest, largest_at)) = self.largest else {
            return 0;
        };
        let mut settled = self.covered_to;
        if now.since(largest_at) >= self.reorder_window {
            settled = largest + 1;
        } else {
            let old = self
                .marks
                .partition_point(|&(t, _)| now.since(t) >= self.reorder_window);
            if let Some(&(_, n)) = old.checked_sub(1).and_then(|at| self.marks.get(at)) {
                settled = settled.max(n + 1);
            }
        }
        // No hole, no wait.
        while settled <= largest {
            let at = settled - self.base;
            let word = self
                .bits
                .get(saturating_usize(at / 64))
                .copied()
                .unwrap_or(0)
                >> (at % 64);
            let ones = u64::from(word.trailing_ones());
            settled += ones;
            if ones < 64 - at % 64 {
                break;
            }
        }
        settled.min(largest + 1)
    }

    /// Whether settled fates did not fit into the last report.
    pub(crate) fn has_more_to_report(&self, now: Time) -> bool {
        self.settled_to(now) > self.covered_to
    }

    /// Whether a hole is visible whose fate is not settled.
    pub(crate) fn has_unsettled(&self, now: Time) -> bool {
        self.largest()
            .is_some_and(|largest| self.settled_to(now) <= largest)
    }

    /// Fates of `from..to`, as far as `budget` bytes allow.
    fn coverage(&self, from: u64, to: u64, budget: &mut usize) -> Coverage {
        let mut runs = Vec::new();
        let mut at = from;
        while at < to {
            let received = self.run_of(at, to, true);
            let lost = self.run_of(at + received, to, false);
            let run = Run { received, lost };
            let cost = run_len(run);
            if cost > *budget {
                break;
            }
            *budget -= cost;
            runs.push(run);
            at += received + lost;
        }
        Coverage {
            from,
            len: at - from,
            runs,
        }
    }

    /// Length of the run of equal bits that starts at `from`, up to `to`.
    fn run_of(&self, from: u64, to: u64, value: bool) -> u64 {
        let mut at = from;
        while at < to {
            let bit = at - self.base;
            let word = self
                .bits
                .get(saturating_usize(bit / 64))
                .copied()
                .unwrap_or(0)
                >> (bit % 64);
            let room = 64 - bit % 64;
            let run = u64::from(if value {
                word.trailing_ones()
            } else {
                word.trailing_zeros()
            })
            .min(room);
            at += run;
            if run < room {
                break;
            }
        }
        at.min(to) - from
    }

    /// Makes the next report, with at most `budget` bytes of runs. Stretches whose report has not
    /// been confirmed for `confirm_timeout` are covered once more.
    pub(crate) fn report(
        &mut self,
        now: Time,
        mut budget: usize,
        confirm_timeout: Span,
    ) -> Option<Report> {
        let (largest, largest_at) = self.largest?;
        self.forget_marks(now);
        let number = self.next_report;
        self.next_report += 1;
        let mut coverage: SmallVec<[Coverage; 2]> = SmallVec::new();
        let mut stretches = self.unconfirmed.take_due(now, confirm_timeout);
        let settled = self.settled_to(now);
        if settled > self.covered_to {
            stretches.push((self.covered_to, settled));
        }
        for (from, to) in stretches {
            let block = self.coverage(from, to, &mut budget);
            let done = from + block.len;
            if to > self.covered_to {
                self.covered_to = self.covered_to.max(done);
            } else if done < to {
                self.unconfirmed.put_back(done, to);
            }
            if block.len > 0 {
                self.unconfirmed.push(number, from, done, now);
                coverage.push(block);
            }
        }
        Some(Report {
            number,
            largest,
            largest_rx_time_us: largest_at.as_micros(),
            delay_us: now.since(largest_at).as_micros(),
            packets: self.packets,
            bytes: self.bytes,
            marks: self.ecn,
            coverage,
            late: std::mem::take(&mut self.late),
            samples: self.samples.drain(..).collect(),
            ..Report::default()
        })
    }

    /// Whether some stretch has waited too long for its confirmation.
    pub(crate) fn next_repeat(&self, confirm_timeout: Span) -> Option<Time> {
        self.unconfirmed.next_repeat(confirm_timeout)
    }

    /// The sender has report `number`. Returns when that report was sent.
    pub(crate) fn confirm(&mut self, number: u64) -> Option<Time> {
        let sent_at = self.unconfirmed.confirm(number);
        if sent_at.is_some() {
            self.prune();
        }
        sent_at
    }

    fn prune(&mut self) {
        let keep = self.unconfirmed.lowest().unwrap_or(self.covered_to);
        let words = saturating_usize(keep.min(self.covered_to).saturating_sub(self.base) / 64);
        let words = words.min(self.bits.len());
        self.bits.drain(..words);
        self.base += 64 * words as u64;
    }

    fn forget_marks(&mut self, now: Time) {
        while self.marks.len() > 1
            && self
                .marks
                .front()
                .is_some_and(|&(t, _)| now.since(t) > MARK_MEMORY)
        {
            self.marks.pop_front();
        }
        if self.reorder_window > REORDER_WINDOW_MIN
            && now.since(self.last_late_at) > REORDER_DECAY_AFTER
        {
            self.last_late_at = now;
            self.reorder_window = (self.reorder_window * 15 / 16).max(REORDER_WINDOW_MIN);
        }
    }
}

#[cfg(test)]
mod edges;
#[cfg(test)]
mod model;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn at_ms(ms: u64) -> Time {
        Time::ZERO + Span::from_millis(ms)
    }

    #[test]
    fn a_hole_is_named_only_when_settled() {
        let mut received = Received::default();
        for number in [0, 1, 3, 4] {
            received.insert(at_ms(10), number, 100).unwrap();
        }
        let report = received.report(at_ms(10), 500, Span::from_secs(1)).unwrap();
        assert_eq!((report.coverage[0].from, report.coverage[0].len), (0, 2));
        let report = received.report(at_ms(12), 500, Span::from_secs(1)).unwrap();
        assert_eq!(report.coverage[0].from, 2);
        assert_eq!(
            report.coverage[0].runs,
            [
                Run {
                    received: 0,
                    lost: 1
                },
                Run {
                    received: 2,
                    lost: 0
                }
            ]
        );
    }

    #[test]
    fn samples_keep_beginnings_and_ends_of_bursts() {
        let mut received = Received::default();
        // An opening of 32 packets, 120 us apart, and three short bursts after it.
        let opening = (0..32).map(|n| 10_000 + n * 120);
        let bursts = (0..15).map(|n| 20_000 + n / 5 * 8_000 + n % 5 * 120);
        for (number, at_us) in (0..).zip(opening.chain(bursts)) {
            let at = Time::ZERO + Span::from_micros(at_us);
            received.insert(at, number, 1_200).unwrap();
        }
        let report = received.report(at_ms(60), 500, Span::from_secs(1)).unwrap();
        let told: Vec<u64> = report.samples.iter().map(|sample| sample.number).collect();
        assert_eq!(told, [0, 31, 32, 36, 37, 41, 42, 46]);
    }

    #[test]
    fn a_late_packet_is_told_and_widens_the_window() {
        let mut received = Received::default();
        received.insert(at_ms(0), 0, 100).unwrap();
        received.insert(at_ms(1), 2, 100).unwrap();
        received.report(at_ms(5), 500, Span::from_secs(1)).unwrap();
        assert_eq!(received.insert(at_ms(9), 1, 100), Ok(Arrived::New));
        assert_eq!(received.insert(at_ms(9), 1, 100), Ok(Arrived::Duplicate));
        assert_eq!(received.reorder_window(), Span::from_millis(10));
        let report = received.report(at_ms(10), 500, Span::from_secs(1)).unwrap();
        assert_eq!(&report.late[..], [1]);
    }

    #[test]
    fn a_hole_shows_with_the_first_packet_above_it() {
        let mut received = Received::default();
        for number in [0, 2, 4] {
            received.insert(at_ms(number / 2), number, 100).unwrap();
        }
        received.report(at_ms(5), 500, Span::from_secs(1)).unwrap();
        received.insert(at_ms(9), 1, 100).unwrap();
        // Eight milliseconds, and a fourth more.
        assert_eq!(received.reorder_window(), Span::from_millis(10));
    }

    #[test]
    fn so_many_late_packets_are_told_and_no_more() {
        let most = limits::MAX_LATE;
        let mut received = Received::default();
        received.insert(at_ms(0), 0, 100).unwrap();
        received.insert(at_ms(1), 2 * most, 100).unwrap();
        received.report(at_ms(50), 500, Span::from_secs(1)).unwrap();
        for number in 1..2 * most {
            received.insert(at_ms(51), number, 100).unwrap();
        }
        let report = received.report(at_ms(52), 60_000, Span::from_secs(1));
        assert_eq!(report.unwrap().late.len() as u64, most);
    }

    proptest! {
        /// Whatever is lost on the way back, the sender learns every fate.
        #[test]
        fn every_packet_is_covered_until_confirmed(
            lost in prop::collection::btree_set(0..600u64, 0..200),
            report_lost in prop::collection::vec(any::<bool>(), 100),
            budget in 8..200usize,
        ) {
            let mut received = Received::default();
            let mut acked = BTreeSet::new();
            let mut missing = BTreeSet::new();
            let timeout = Span::from_millis(30);
            let mut fates = report_lost.into_iter().chain(std::iter::repeat(false));
            for ms in 0..600u64 {
                if ms < 300 {
                    for number in [2 * ms, 2 * ms + 1] {
                        if !lost.contains(&number) {
                            received.insert(at_ms(ms), number, 1).unwrap();
                        }
                    }
                }
                if ms % 5 == 0 {
                    let Some(report) = received.report(at_ms(ms), budget, timeout) else { continue };
                    if fates.next().unwrap() {
                        continue;
                    }
                    for block in &report.coverage {
                        let mut number = block.from;
                        for run in &block.runs {
                            acked.extend(number..number + run.received);
                            missing.extend(number + run.received..number + run.received + run.lost);
                            number += run.received + run.lost;
                        }
                        prop_assert_eq!(number, block.from + block.len);
                    }
                    received.confirm(report.number);
                }
            }
            let largest = received.largest().unwrap_or(0);
            for number in 0..=largest {
                prop_assert_eq!(acked.contains(&number), !lost.contains(&number), "packet {}", number);
                prop_assert_eq!(missing.contains(&number), lost.contains(&number), "packet {}", number);
            }
        }
    }
}
