//! What held a copy up, and whether for long.

use crate::{Held, Recording};

/// A copy is slow while less than this share of the path's capacity arrives.
const SLOW_SHARE: f64 = 0.5;
/// Of all capacities seen, the one that is not exceeded in that share of the time: a single estimate may be wrong.
const CAPACITY_QUANTILE: f64 = 0.9;

/// The time in which a copy was slower than its path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slow {
    /// Seconds in which less than half of the capacity arrived.
    pub seconds: f64,
    /// What held it back for most of them.
    pub held: Held,
}

/// What a recording says in a few figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// Seconds of the whole copy.
    pub seconds: f64,
    /// Payload of files over all of that time, in bit/s.
    pub goodput_bps: f64,
    /// What the path carried of UDP payload, in bit/s; `None` if no estimate was ever made.
    pub capacity_bps: Option<f64>,
    /// Least round trip, in milliseconds.
    pub base_rtt_ms: f64,
    /// Longest queue, in milliseconds.
    pub queue_ms: f64,
    /// Share of packets lost on the way.
    pub loss: f64,
    /// Seconds by what held the copy back, in the order of [`Held::ALL`].
    pub held_s: [f64; 8],
    /// When it was slow, if it was.
    pub slow: Option<Slow>,
}

impl Recording {
    /// What the path carried, in bit/s of UDP payload. The receiver has no estimate: then it is what arrived.
    pub fn capacity_bps(&self) -> Option<f64> {
        let mut known: Vec<(u64, u64)> = self
            .intervals
            .iter()
            .map(|i| {
                (
                    if i.capacity_bps > 0 {
                        i.capacity_bps
                    } else {
                        i.delivered_bps() as u64
                    },
                    i.span_us,
                )
            })
            .filter(|(bps, _)| *bps > 0)
            .collect();
        known.sort_unstable();
        let all: u64 = known.iter().map(|(_, us)| us).sum();
        let mut passed = 0;
        let found = known.iter().find(|(_, us)| {
            passed += us;
            passed as f64 >= CAPACITY_QUANTILE * all as f64
        });
        found.map(|(bps, _)| *bps as f64)
    }

    /// See [`Verdict`].
    pub fn verdict(&self) -> Verdict {
        let seconds = self.span_us() as f64 / 1e6;
        let capacity_bps = self.capacity_bps();
        let (mut held_s, mut slow_us) = ([0.0; 8], [0u64; 8]);
        let (mut sent, mut lost, mut queue_us) = (0u64, 0u64, 0);
        let mut base_rtt_us = u64::MAX;
        for interval in &self.intervals {
            let is_slow = interval.delivered_bps() < SLOW_SHARE * capacity_bps.unwrap_or(0.0);
            for (at, us) in interval.held_us.iter().enumerate() {
                held_s[at] += *us as f64 / 1e6;
                // A cap or a pause is what the user wants.
                if is_slow && at != Held::Cap.index() {
                    slow_us[at] += us;
                }
            }
            sent += interval.sent_packets;
            lost += interval.lost_on_path();
            queue_us = queue_us.max(interval.queue_max_us);
            if interval.base_rtt_us > 0 {
                base_rtt_us = base_rtt_us.min(interval.base_rtt_us);
            }
        }
        let slow = Held::ALL
            .into_iter()
            .max_by_key(|held| slow_us[held.index()]);
        let slow_seconds = slow_us.iter().sum::<u64>() as f64 / 1e6;
        Verdict {
            seconds,
            goodput_bps: self.facts.moved_bytes as f64 * 8.0 / seconds.max(1e-6),
            capacity_bps,
            base_rtt_ms: if base_rtt_us == u64::MAX {
                0.0
            } else {
                base_rtt_us as f64 / 1e3
            },
            queue_ms: queue_us as f64 / 1e3,
            loss: lost as f64 / sent.max(1) as f64,
            held_s,
            slow: slow.filter(|_| slow_seconds > 0.0).map(|held| Slow {
                seconds: slow_seconds,
                held,
            }),
        }
    }
}
