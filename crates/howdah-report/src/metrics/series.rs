//! What is read from the course of a run.

use crate::stats;

/// Bytes delivered so far, at equal steps of time from 0 on: entry k is at time (k + 1) steps.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// Length of a step in seconds.
    pub step_s: f64,
    /// Running count of bytes.
    pub bytes: &'a [u64],
}

impl Progress<'_> {
    fn at(&self, index: usize) -> u64 {
        // Before the first step nothing had been delivered.
        index
            .checked_sub(1)
            .and_then(|index| {
                self.bytes
                    .get(index.min(self.bytes.len().saturating_sub(1)))
            })
            .copied()
            .unwrap_or(0)
    }

    fn index(&self, seconds: f64) -> usize {
        (seconds / self.step_s).round().max(0.0) as usize
    }

    /// What of it lies before that time.
    #[must_use]
    pub fn until(&self, seconds: f64) -> Self {
        let steps = self.index(seconds).min(self.bytes.len());
        Self {
            bytes: &self.bytes[..steps],
            ..*self
        }
    }

    /// Mean rate between two times, in bit/s.
    pub fn mean_bps(&self, from_s: f64, to_s: f64) -> f64 {
        let (from, to) = (self.index(from_s), self.index(to_s).min(self.bytes.len()));
        if to <= from {
            return 0.0;
        }
        let bytes = self.at(to).saturating_sub(self.at(from));
        bytes as f64 * 8.0 / ((to - from) as f64 * self.step_s)
    }
}

/// Seconds from `from_s` until the mean over a window of `window_s` first reaches 90 % of
/// `target_bps`, looking no further than `to_s`. The end of the window counts.
///
/// With the start of a flow and its steady rate this is the ramp; with a change of the path and the
/// rate of the stretch behind it, it is `t90`.
pub fn ramp(
    progress: Progress<'_>,
    from_s: f64,
    to_s: f64,
    window_s: f64,
    target_bps: f64,
) -> Option<f64> {
    let window = progress.index(window_s).max(1);
    let (from, to) = (
        progress.index(from_s),
        progress.index(to_s).min(progress.bytes.len()),
    );
    let needed = 0.9 * target_bps * window as f64 * progress.step_s / 8.0;
    if target_bps <= 0.0 {
        return None;
    }
    (from + window..=to)
        .find(|&end| progress.at(end).saturating_sub(progress.at(end - window)) as f64 >= needed)
        .map(|end| (end - from) as f64 * progress.step_s)
}

/// Seconds from `start_s` until the flows share fairly, and go on to do so: the Jain index of their rates over a sliding
/// window of `window_s` reaches 0.95, and that of what they have from the beginning of that window to the end of the run is
/// as high. Flows that meet for a moment and part again have not converged; flows that share from the beginning on have
/// `window_s`, the least that can be told. Flows that have not started count with rate 0.
pub fn converged_after(flows: &[Progress<'_>], start_s: f64, window_s: f64) -> Option<f64> {
    const FAIR: f64 = 0.95;
    let first = flows.first()?;
    let window = first.index(window_s).max(1);
    let end = flows.iter().map(|flow| flow.bytes.len()).min()?;
    let start = first.index(start_s);
    let is_fair = |from: usize, to: usize| {
        let rates: Vec<f64> = flows
            .iter()
            .map(|flow| flow.at(to).saturating_sub(flow.at(from)) as f64)
            .collect();
        super::jain(&rates).is_some_and(|index| index >= FAIR)
    };
    (start + window..=end)
        .find(|&to| is_fair(to - window, to) && is_fair(to - window, end))
        .map(|to| (to - start) as f64 * first.step_s)
}

/// Whether the mean of the interval rates is known well enough to stop: the 95 % confidence
/// interval of ten batch means is within `share` of it on either side.
///
/// Batches of neighbouring intervals stand for independent values (batch means: A. M. Law, "Simulation
/// Modeling and Analysis", chapter 9). Fewer than 40 intervals never settle anything.
pub fn settled(rates: &[f64], share: f64) -> bool {
    const BATCHES: usize = 10;
    if rates.len() < 4 * BATCHES {
        return false;
    }
    let batch = rates.len() / BATCHES;
    // The newest ones, so that what does not fit is of the oldest.
    let from = rates.len() - batch * BATCHES;
    let means: Vec<f64> = rates[from..]
        .chunks(batch)
        .filter_map(stats::mean)
        .collect();
    let Some((mean, interval)) = stats::mean(&means).zip(stats::mean_ci(&means)) else {
        return false;
    };
    mean > 0.0 && interval.half_width() <= share * mean
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 100 Mbit/s for 2 s, then 1 Gbit/s, in steps of 10 ms.
    fn two_rates() -> Vec<u64> {
        let mut sum = 0;
        (0..1000)
            .map(|step| {
                sum += if step < 200 { 125_000 } else { 1_250_000 };
                sum
            })
            .collect()
    }

    #[test]
    fn means_and_ramps() {
        let bytes = two_rates();
        let progress = Progress {
            step_s: 0.01,
            bytes: &bytes,
        };
        assert!((progress.mean_bps(0.0, 2.0) - 1e8).abs() < 1.0);
        assert!((progress.mean_bps(2.0, 10.0) - 1e9).abs() < 1.0);
        assert!((progress.mean_bps(2.0, 99.0) - 1e9).abs() < 1.0);
        // A window of 0.1 s is 90 % full of the new rate after 9 of its 10 steps.
        let ramp_s = ramp(progress, 0.0, 10.0, 0.1, 1e9).unwrap();
        assert!((ramp_s - 2.09).abs() < 1e-9, "{ramp_s}");
        assert_eq!(ramp(progress, 0.0, 2.0, 0.1, 1e9), None);
        assert_eq!(ramp(progress, 0.0, 10.0, 0.1, 0.0), None);
        assert!((ramp(progress, 3.0, 10.0, 0.1, 1e9).unwrap() - 0.1).abs() < 1e-9);
    }

    #[test]
    fn flows_converge_when_the_late_one_has_caught_up() {
        let early: Vec<u64> = (1..=1000).map(|step| step * 1000).collect();
        let late: Vec<u64> = (1..=1000_u64)
            .map(|step| step.saturating_sub(500) * 1000)
            .collect();
        let flows = [&early, &late].map(|bytes| Progress {
            step_s: 0.01,
            bytes,
        });
        // After 0.1 s a window of 0.1 s has 10 steps of each; at 0.95 about 6 of 10 are needed.
        let after = converged_after(&flows, 5.0, 0.1).unwrap();
        assert!((0.05..=0.11).contains(&after), "{after}");
        assert_eq!(converged_after(&flows, 9.95, 0.1), None);
    }

    #[test]
    fn flows_that_part_again_have_not_converged() {
        // Equal for 2 s, then 24 to 70.
        let course = |later: u64| -> Vec<u64> {
            let mut sum = 0;
            (0..1000)
                .map(|step| {
                    sum += if step < 200 { 47 } else { later };
                    sum
                })
                .collect()
        };
        let after = |one: u64, other: u64| {
            let (one, other) = (course(one), course(other));
            let flows = [&one, &other].map(|bytes| Progress {
                step_s: 0.01,
                bytes,
            });
            converged_after(&flows, 0.0, 1.0)
        };
        assert_eq!(after(24, 70), None);
        // Those that share all the time have the least that can be told.
        assert_eq!(after(47, 47), Some(1.0));
    }

    #[test]
    fn a_mean_settles_when_its_batches_agree() {
        let wobble = |amplitude: f64, n: usize| -> Vec<f64> {
            (0..n)
                .map(|k| 100.0 + amplitude * ((k * 7919) % 101) as f64 / 101.0)
                .collect()
        };
        assert!(settled(&wobble(1.0, 100), 0.02));
        assert!(!settled(&wobble(1.0, 39), 0.02));
        let drift: Vec<f64> = (0..100).map(f64::from).collect();
        assert!(!settled(&drift, 0.02));
        assert!(!settled(&vec![0.0; 100], 0.02));
    }
}
