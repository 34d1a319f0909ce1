//! What is computed from a run: the definitions of the papers, and those of the field.
//!
//! Names of papers are short: P is K14proto, A is K13app, J is JGN06, W is WTRL10. Rates are in
//! bit/s of user data ("goodput") unless a name says otherwise.

mod cycles;
mod series;
mod share;

pub use cycles::{Agreement, agreement};
pub use series::{Progress, converged_after, ramp, settled};
pub use share::{asymmetry, harm_less_is_better, harm_more_is_better, jain, max_min};

/// GiB in bytes.
pub const GIB: f64 = 1_073_741_824.0;

/// A mean over cells counts a cell only above this rate (P, A: 100 Mbit/s).
pub const SUCCESS_BPS: f64 = 100e6;

/// Goodput in bit/s: user bytes that were delivered, over the time that it took (part 0, `R`).
pub fn goodput_bps(delivered_bytes: u64, seconds: f64) -> f64 {
    if seconds > 0.0 {
        delivered_bytes as f64 * 8.0 / seconds
    } else {
        0.0
    }
}

/// Processor per cent (100 is one core) for each Gbit/s of goodput (P, equation 1).
pub fn cpu_per_gbps(cpu_seconds: f64, seconds: f64, goodput_bps: f64) -> Option<f64> {
    let gbps = goodput_bps / 1e9;
    (seconds > 0.0 && gbps > 0.0).then(|| cpu_seconds / seconds * 100.0 / gbps)
}

/// Bytes from receiver to sender, IP + 14, for each GiB of user data (P, equation 2).
pub fn feedback_per_gib(feedback_wire_bytes: u64, delivered_bytes: u64) -> Option<f64> {
    (delivered_bytes > 0).then(|| feedback_wire_bytes as f64 / (delivered_bytes as f64 / GIB))
}

/// User bytes for each byte sent forward, IP + 14 (P, future work: "forward overhead").
pub fn forward_efficiency(delivered_bytes: u64, forward_wire_bytes: u64) -> Option<f64> {
    (forward_wire_bytes > 0).then(|| delivered_bytes as f64 / forward_wire_bytes as f64)
}

/// Share of the payload bytes sent that were repetitions.
pub fn retransmit_share(retransmitted_bytes: u64, sent_bytes: u64) -> Option<f64> {
    (sent_bytes > 0).then(|| retransmitted_bytes as f64 / sent_bytes as f64)
}

/// Mean of the sender's processor share over the mean of the receiver's (P).
pub fn cpu_ratio(sender: &[f64], receiver: &[f64]) -> Option<f64> {
    let (sender, receiver) = (crate::stats::mean(sender)?, crate::stats::mean(receiver)?);
    (receiver > 0.0).then(|| sender / receiver)
}

/// Seconds that the bytes would take at the rate of the link and nothing else (A, equation 1).
pub fn ideal_s(bytes: u64, link_bps: f64) -> f64 {
    bytes as f64 * 8.0 / link_bps
}

/// Seconds by which the transfer took longer than the rate that the program showed would take
/// (A, equation 3). Positive: reality is slower.
pub fn discrepancy_s(duration_s: f64, bytes: u64, displayed_bps: f64) -> f64 {
    duration_s - ideal_s(bytes, displayed_bps)
}

/// Least duration over the cells, beyond the ideal one, in seconds (A).
pub fn overhead_s(durations_s: &[f64], ideal_s: f64) -> Option<f64> {
    let least = durations_s.iter().copied().min_by(f64::total_cmp)?;
    Some(least - ideal_s)
}

/// Throughput of short flows: all their bytes over all their durations (J, part F).
pub fn short_throughput_bps(flows: impl IntoIterator<Item = (u64, f64)>) -> f64 {
    let (bytes, seconds) = flows
        .into_iter()
        .fold((0, 0.0), |(bytes, seconds), (b, s)| {
            (bytes + b, seconds + s)
        });
    goodput_bps(bytes, seconds)
}

/// Whether a cell counts in means over cells (P, A).
pub fn is_success(goodput_bps: f64) -> bool {
    goodput_bps > SUCCESS_BPS
}

/// Mean over the cells that count; `None` if none does (P, A: "every mean over cells uses
/// successful cells only"). Each cell is its goodput in bit/s and the figure.
pub fn mean_of_successes(cells: impl IntoIterator<Item = (f64, f64)>) -> Option<f64> {
    let figures: Vec<f64> = cells
        .into_iter()
        .filter(|(goodput, _)| is_success(*goodput))
        .map(|(_, figure)| figure)
        .collect();
    crate::stats::mean(&figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_own_numbers() {
        // A, equation 1: 30 GiB over 10 Gbit/s.
        let bytes = 30 << 30;
        assert!((ideal_s(bytes, 1e10) - 25.769_803_776).abs() < 1e-9);
        // A.t3: 8.7 Gbit/s displayed, 37.25 s measured, 29.62 s calculated, 7.63 s between them.
        assert!((discrepancy_s(37.25, bytes, 8.7e9) - 7.63).abs() < 0.005);
        // A.x3: least duration 1.4 s above the ideal.
        assert!((overhead_s(&[30.0, 27.17, 28.0], 25.77).unwrap() - 1.4).abs() < 1e-9);
        // P.r8: 30 KiB of feedback for one GiB.
        assert_eq!(feedback_per_gib(30 << 10, 1 << 30), Some(30.0 * 1024.0));
        // P.r6: 96 % of a core at 9.6 Gbit/s are 10 % per Gbit/s.
        assert!((cpu_per_gbps(9.6, 10.0, 9.6e9).unwrap() - 10.0).abs() < 1e-9);
    }

    #[test]
    fn only_successful_cells_count() {
        let cells = [(1e9, 10.0), (2e9, 20.0), (99e6, 1e6)];
        assert_eq!(mean_of_successes(cells), Some(15.0));
        assert_eq!(mean_of_successes([(1.0, 1.0)]), None);
        assert!(!is_success(100e6));
    }

    #[test]
    fn short_flows_are_weighted_by_their_time() {
        // 1 MB in 1 s and 1 MB in 3 s: 2 MB in 4 s.
        let flows = [(1_000_000, 1.0), (1_000_000, 3.0)];
        assert!((short_throughput_bps(flows) - 4e6).abs() < 1e-6);
        assert!(short_throughput_bps([]).abs() < f64::EPSILON);
    }

    #[test]
    fn nothing_gives_nothing() {
        assert!(goodput_bps(1, 0.0).abs() < f64::EPSILON);
        assert_eq!(feedback_per_gib(1, 0), None);
        assert_eq!(retransmit_share(0, 0), None);
        assert_eq!(forward_efficiency(0, 0), None);
        assert_eq!(cpu_ratio(&[1.0], &[]), None);
        assert_eq!(retransmit_share(1, 4), Some(0.25));
        assert_eq!(cpu_ratio(&[2.0], &[1.0]), Some(2.0));
    }
}
