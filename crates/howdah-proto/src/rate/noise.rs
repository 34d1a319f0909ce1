//! Delay that is nobody's queue: what varies from one report to the next.
//!
//! A queue grows and shrinks with the difference of two rates, so three reports in a row see it on a line. What a radio, a scheduler or a
//! crowded switch adds to each packet is on none. A quarter of the distances is what counts, since queues have corners, too: flows that
//! begin and end, bursts, drains.

use howdah_core::Span;
use std::collections::VecDeque;

/// Reports that are looked at; before there are so many nothing is said.
const KEEP: usize = 33;
/// What hosts do all the time.
const QUIET: Span = Span::from_micros(200);
/// The shortest delays of two stretches of time are up to so many of these distances apart.
const ALLOWED: f64 = 12.0;

/// Distances of delays from the line through their neighbours.
#[derive(Debug, Default)]
pub(super) struct Noise {
    /// The last two delays, in nanoseconds; the older one first.
    before: Option<(u64, u64)>,
    distances: VecDeque<u64>,
    allowance: Span,
}

impl Noise {
    /// Takes the one-way delay of a report, in nanoseconds from any origin.
    pub(super) fn on_delay(&mut self, delay_ns: u64) {
        let Some((older, old)) = self.before.replace((delay_ns, delay_ns)) else {
            return;
        };
        self.before = Some((old, delay_ns));
        if self.distances.len() == KEEP {
            self.distances.pop_front();
        }
        let line = older / 2 + delay_ns / 2;
        self.distances.push_back(line.abs_diff(old));
        if self.distances.len() == KEEP {
            let mut sorted: Vec<u64> = self.distances.iter().copied().collect();
            let (_, quarter, _) = sorted.select_nth_unstable(KEEP / 4);
            self.allowance = Span::from_nanos(*quarter)
                .saturating_sub(QUIET)
                .mul_f64(ALLOWED);
        }
    }

    /// So much of a delay above the shortest one says nothing.
    pub(super) fn allowance(&self) -> Span {
        self.allowance
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn of(delays: impl IntoIterator<Item = u64>) -> Span {
        let mut noise = Noise::default();
        for delay in delays {
            noise.on_delay((1 << 61) + delay);
        }
        noise.allowance()
    }

    #[test]
    fn a_queue_is_no_noise() {
        // It grows, is drained, grows faster, stands; now and then a host stalls.
        let queue = (0..200_u64).map(|n| {
            let grown = match n % 50 {
                up @ 0..20 => up * MS / 2,
                down @ 20..30 => (30 - down) * MS,
                up @ 30..40 => (up - 30) * MS,
                _ => 10 * MS,
            };
            grown + if n % 10 == 3 { 8 * MS } else { 0 }
        });
        assert_eq!(of(queue), Span::ZERO);
    }

    #[test]
    fn what_varies_each_time_is() {
        // (A sequence that has no pattern of three.)
        let mut state = 7_u64;
        let mut draw = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) % (10 * MS)
        };
        let few: Vec<u64> = (0..KEEP).map(|_| draw()).collect();
        assert_eq!(of(few), Span::ZERO, "too few to say");
        let many: Vec<u64> = (0..200).map(|_| draw()).collect();
        let allowance = of(many);
        let (least, most) = (Span::from_millis(5), Span::from_millis(40));
        assert!(allowance > least && allowance < most, "{allowance}");
    }
}
