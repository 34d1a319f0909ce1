//! What the self-test found.

use crate::{Certificate, LatenessSummary};
use howdah_core::Rate;
use serde::Serialize;
use std::fmt;

/// Everything that [`run`](super::run) measured.
#[derive(Clone, Debug, Serialize)]
pub struct SelfTestReport {
    /// Kernel release.
    pub kernel: String,
    /// Processors that this process may use.
    pub processors: usize,
    /// Whether UDP super-packets pass whole.
    pub udp_offload: bool,
    /// Round trip of the tested world, in milliseconds.
    pub configured_round_trip_ms: f64,
    /// Latency added to that.
    pub latency: Vec<LatencyResult>,
    /// Rates.
    pub rates: Vec<RateResult>,
    /// Losses.
    pub losses: Vec<LossResult>,
    /// Emulator thread, in percent of a core per Gbit/s, measured with UDP at the highest rate.
    pub emulator_core_percent_per_gbit: f64,
    /// The emulator's own view of the whole test.
    pub certificate: Certificate,
}

impl SelfTestReport {
    /// Whether losses are as random as configured and nothing was lost that should not be. Rates
    /// and latencies depend on the machine: they are for the reader to judge.
    pub fn passed(&self) -> bool {
        let unplanned = self.certificate.forward().unplanned_drops
            + self.certificate.backward().unplanned_drops;
        unplanned == 0
            && self
                .losses
                .iter()
                .all(|loss| loss.passed && loss.not_by_the_path == 0)
    }
}

/// Round trips of small packets, about a thousand a second.
#[derive(Clone, Debug, Serialize)]
pub struct LatencyResult {
    /// What else was on the path.
    pub load: String,
    /// Microseconds per round trip on top of the configured delay, from socket to socket: waiting
    /// behind other packets, the emulator's lateness and two thread wake-ups in the hosts.
    pub added: LatenessSummary,
}

/// A flow against the rate of its path.
#[derive(Clone, Debug, Serialize)]
pub struct RateResult {
    /// Which protocol.
    pub protocol: String,
    /// The path's rate on the wire, in bit/s.
    pub configured_bps: f64,
    /// Payload rate that follows from it, in bit/s.
    pub expected_bps: f64,
    /// Payload rate that was received, in bit/s.
    pub measured_bps: f64,
    /// `measured / expected - 1`.
    pub error: f64,
}

impl RateResult {
    pub(crate) fn new(protocol: &str, configured: Rate, expected: Rate, measured: Rate) -> Self {
        Self {
            protocol: protocol.to_owned(),
            configured_bps: configured.as_f64(),
            expected_bps: expected.as_f64(),
            measured_bps: measured.as_f64(),
            error: measured.as_f64() / expected.as_f64() - 1.0,
        }
    }
}

/// A numbered flow over a lossy path.
#[derive(Clone, Debug, Serialize)]
pub struct LossResult {
    /// Loss model.
    pub model: String,
    /// Long-run share of packets lost, as configured.
    pub configured: f64,
    /// Share that did not arrive.
    pub measured: f64,
    /// Packets sent.
    pub packets: u64,
    /// Bernoulli: deviation of the count from its mean, in standard deviations; passes below 4.
    pub deviations: Option<f64>,
    /// Bernoulli: chi-square of the gaps between losses against the geometric distribution, 15
    /// degrees of freedom; passes below the 99.9 % quantile, 37.7.
    pub gap_chi_square: Option<f64>,
    /// Mean number of consecutive losses, measured.
    pub mean_run: f64,
    /// The same, as configured.
    pub expected_run: f64,
    /// Packets that did not arrive although the path delivered them: the test's own receiver was
    /// too slow.
    pub not_by_the_path: u64,
    /// Whether it agrees.
    pub passed: bool,
}

impl fmt::Display for SelfTestReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "howdah wan self-test: Linux {}, {} processors, UDP offload {}",
            self.kernel,
            self.processors,
            if self.udp_offload { "yes" } else { "no" }
        )?;
        writeln!(
            f,
            "\nlatency added to a round trip of {} ms",
            self.configured_round_trip_ms
        )?;
        writeln!(
            f,
            "  {:<16} {:>8} {:>9} {:>9} {:>9} {:>9}",
            "load", "probes", "p50 us", "p99 us", "p99.9 us", "max us"
        )?;
        for row in &self.latency {
            let added = &row.added;
            writeln!(
                f,
                "  {:<16} {:>8} {:>9.0} {:>9.0} {:>9.0} {:>9.0}",
                row.load, added.count, added.p50_us, added.p99_us, added.p999_us, added.max_us
            )?;
        }
        writeln!(f, "\nrate")?;
        writeln!(
            f,
            "  {:<16} {:>12} {:>14} {:>14} {:>9}",
            "protocol", "path Gbit/s", "payload, ideal", "payload, real", "error"
        )?;
        for row in &self.rates {
            writeln!(
                f,
                "  {:<16} {:>12.3} {:>14.4} {:>14.4} {:>+8.3}%",
                row.protocol,
                row.configured_bps / 1e9,
                row.expected_bps / 1e9,
                row.measured_bps / 1e9,
                row.error * 100.0
            )?;
        }
        writeln!(f, "\nloss")?;
        writeln!(
            f,
            "  {:<16} {:>9} {:>9} {:>10} {:>8} {:>12} {:>14} {:>6}",
            "model", "asked", "measured", "packets", "sigmas", "gap chi2(15)", "run (expected)", ""
        )?;
        for row in &self.losses {
            let optional = |value: Option<f64>, digits: usize| {
                value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
            };
            writeln!(
                f,
                "  {:<16} {:>8.3}% {:>8.4}% {:>10} {:>8} {:>12} {:>14} {:>6}",
                row.model,
                row.configured * 100.0,
                row.measured * 100.0,
                row.packets,
                optional(row.deviations, 2),
                optional(row.gap_chi_square, 1),
                format!("{:.3} ({:.3})", row.mean_run, row.expected_run),
                if row.passed && row.not_by_the_path == 0 {
                    "ok"
                } else {
                    "FAIL"
                }
            )?;
        }
        writeln!(
            f,
            "\nemulator: {:.2} % of a core per Gbit/s\n{}",
            self.emulator_core_percent_per_gbit, self.certificate
        )?;
        write!(
            f,
            "self-test: {}",
            if self.passed() { "passed" } else { "FAILED" }
        )
    }
}
