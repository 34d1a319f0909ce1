//! From measured times to the figures of a simulated host.

use std::time::{Duration, Instant};

/// A call that took so many times what calls usually take, and [`SLOW_MIN`] longer, was interrupted.
const SLOW: u32 = 4;
const SLOW_MIN: Duration = Duration::from_micros(20);

/// Cores stand still for a tenth of `longest` up to all of it, at a mean distance of `every`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Stalls {
    /// The longest.
    pub longest: Duration,
    /// Mean time from one to the next, on one core.
    pub every: Duration,
}

/// What was seen on so many cores in `window`; `None`: nothing.
#[must_use]
pub fn stalls(gaps: &[Duration], cores: usize, window: Duration) -> Option<Stalls> {
    let longest = gaps.iter().copied().max()?;
    // Shorter ones have no say in a stall, which the simulator draws from these.
    let many = gaps.iter().filter(|gap| **gap * 10 >= longest).count();
    let watched = window * u32::try_from(cores).unwrap_or(u32::MAX);
    let every = watched / u32::try_from(many).unwrap_or(u32::MAX);
    Some(Stalls { longest, every })
}

/// One call in `calls` is interrupted, for up to `longest`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Tail {
    /// 99 % are shorter.
    pub longest: Duration,
    /// One in so many.
    pub calls: u32,
}

/// Which of these calls were; `None`: none.
#[must_use]
pub fn tail(calls: &[Duration]) -> Option<Tail> {
    let usual = quantile(calls, 0.5)?;
    let is_slow = |call: &&Duration| **call >= usual * SLOW && **call >= usual + SLOW_MIN;
    let slow: Vec<Duration> = (calls.iter().filter(is_slow))
        .map(|call| call.saturating_sub(usual))
        .collect();
    Some(Tail {
        longest: quantile(&slow, 0.99)?,
        calls: u32::try_from(calls.len() / slow.len()).unwrap_or(u32::MAX),
    })
}

/// The time between two looks at the socket, where most datagrams come together with others, as after an interrupt that gathers them;
/// `None`: they are read one by one.
#[must_use]
pub fn gather(reads: &[(Instant, bool)]) -> Option<Duration> {
    let looks: Vec<Instant> = reads.iter().filter(|r| r.1).map(|r| r.0).collect();
    if looks.len() * 2 > reads.len() {
        return None;
    }
    let apart: Vec<Duration> = looks.windows(2).map(|two| two[1] - two[0]).collect();
    quantile(&apart, 0.5)
}

/// What a packet and a byte of it cost, from what packets of two sizes do: pairs of payload in bytes, and seconds of a processor for
/// each. Neither is below zero.
#[must_use]
pub fn costs(small: (f64, f64), large: (f64, f64)) -> (f64, f64) {
    let bytes = large.0 - small.0;
    let each_byte = if bytes > 0.0 {
        ((large.1 - small.1) / bytes).max(0.0)
    } else {
        0.0
    };
    ((small.1 - each_byte * small.0).max(0.0), each_byte)
}

/// The value at that share of them, in order.
#[must_use]
pub fn quantile(times: &[Duration], share: f64) -> Option<Duration> {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let last = sorted.len().checked_sub(1)?;
    sorted.get((last as f64 * share).round() as usize).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn us(us: u64) -> Duration {
        Duration::from_micros(us)
    }

    #[test]
    fn stalls_are_those_of_the_size_of_the_longest() {
        assert_eq!(stalls(&[], 2, us(1_000_000)), None);
        // Two of some milliseconds and ten of a tenth of one, on two cores in a second.
        let gaps = [vec![us(4_000), us(1_000)], vec![us(150); 10]].concat();
        let wanted = Stalls {
            longest: us(4_000),
            every: us(1_000_000),
        };
        assert_eq!(stalls(&gaps, 2, us(1_000_000)), Some(wanted));
    }

    #[test]
    fn a_call_that_was_interrupted_is_told_from_slow_ones() {
        assert_eq!(tail(&[]), None);
        assert_eq!(tail(&[us(10); 64]), None);
        // Four times as long and no more than the noise of a clock.
        assert_eq!(tail(&[vec![us(2); 63], vec![us(15)]].concat()), None);
        let calls = [vec![us(10); 60], vec![us(210), us(110), us(60), us(50)]].concat();
        let wanted = Tail {
            longest: us(200),
            calls: 16,
        };
        assert_eq!(tail(&calls), Some(wanted));
    }

    #[test]
    fn datagrams_are_gathered_where_most_come_together() {
        let begun = Instant::now();
        let alone: Vec<_> = (0..10).map(|at| (begun + us(at * 20), true)).collect();
        assert_eq!(gather(&alone), None);
        assert_eq!(gather(&[]), None);
        // Four at a time, every 80 us.
        let of = |at: u64| (begun + us(at / 4 * 80 + at % 4), at.is_multiple_of(4));
        let together: Vec<_> = (0..40).map(of).collect();
        assert_eq!(gather(&together), Some(us(80)));
    }

    #[test]
    fn costs_are_those_of_the_packet_and_of_its_bytes() {
        let cost = |bytes: f64| (bytes, 210e-9 + 0.15e-9 * bytes);
        let (packet, byte) = costs(cost(1_448.0), cost(8_948.0));
        assert!((packet - 210e-9).abs() < 1e-12 && (byte - 0.15e-9).abs() < 1e-15);
        // Noise that says that more bytes cost less.
        assert_eq!(costs((1_000.0, 2e-6), (9_000.0, 1e-6)), (2e-6, 0.0));
    }
}
