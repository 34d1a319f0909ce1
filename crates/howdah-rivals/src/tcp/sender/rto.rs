//! Round-trip time and retransmission timeout (RFC 6298).

use crate::tcp::{RtoFloor, TcpConfig};
use howdah_core::Span;

/// Estimates, in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct RttEstimator {
    srtt_ns: u64,
    variance_ns: u64,
    min_ns: u64,
    initial: Span,
    floor: Span,
    floor_of: RtoFloor,
    ceiling: Span,
    /// Timeouts in a row: each doubles.
    backoff: u32,
}

impl RttEstimator {
    pub(crate) fn new(config: &TcpConfig) -> Self {
        Self {
            srtt_ns: 0,
            variance_ns: 0,
            min_ns: u64::MAX,
            initial: config.initial_rto,
            floor: config.min_rto,
            floor_of: config.rto_floor,
            ceiling: config.max_rto,
            backoff: 0,
        }
    }

    /// RFC 6298 section 2: gains 1/8 and 1/4.
    #[inline]
    pub(crate) fn sample(&mut self, rtt: Span) {
        let ns = rtt.as_nanos();
        self.min_ns = self.min_ns.min(ns);
        if self.srtt_ns == 0 {
            self.srtt_ns = ns.max(1);
            self.variance_ns = ns / 2;
        } else {
            let error = self.srtt_ns.abs_diff(ns);
            self.variance_ns = self.variance_ns - self.variance_ns / 4 + error / 4;
            self.srtt_ns = (self.srtt_ns - self.srtt_ns / 8 + ns / 8).max(1);
        }
    }

    /// A sample that is too coarse for the least round-trip time.
    pub(crate) fn coarse_sample(&mut self, rtt: Span) {
        let least = self.min_ns;
        self.sample(rtt);
        if least < u64::MAX {
            self.min_ns = least;
        }
    }

    pub(crate) const fn has_sample(&self) -> bool {
        self.srtt_ns > 0
    }

    /// Zero before the first sample.
    pub(crate) const fn srtt(&self) -> Span {
        Span::from_nanos(self.srtt_ns)
    }

    /// Zero before the first sample.
    pub(crate) const fn min_rtt(&self) -> Span {
        if self.has_sample() {
            Span::from_nanos(self.min_ns)
        } else {
            Span::ZERO
        }
    }

    /// The timeout now, backed off.
    pub(crate) fn rto(&self) -> Span {
        let base = if self.has_sample() {
            let variance = Span::from_nanos(self.variance_ns.saturating_mul(4));
            match self.floor_of {
                RtoFloor::Total => (self.srtt() + variance).max(self.floor),
                RtoFloor::Variance => self.srtt() + variance.max(self.floor),
            }
        } else {
            self.initial
        };
        (base * (1 << self.backoff.min(20))).min(self.ceiling.max(self.floor))
    }

    /// A timeout: the next one waits twice as long.
    pub(crate) const fn back_off(&mut self) {
        self.backoff = self.backoff.saturating_add(1);
    }

    /// Something new was acknowledged.
    #[inline]
    pub(crate) const fn progress(&mut self) {
        self.backoff = 0;
    }

    /// Timeouts since something new was acknowledged.
    pub(crate) const fn backoff(&self) -> u32 {
        self.backoff
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steady(config: &TcpConfig, rtt: Span) -> RttEstimator {
        let mut estimator = RttEstimator::new(config);
        for _ in 0..200 {
            estimator.sample(rtt);
        }
        estimator
    }

    #[test]
    fn floors_differ_by_one_round_trip() {
        let rtt = Span::from_millis(100);
        let linux = TcpConfig::modern();
        assert_eq!(steady(&linux, rtt).rto().as_millis(), 300);
        let rfc = TcpConfig {
            rto_floor: RtoFloor::Total,
            min_rto: Span::from_secs(1),
            ..linux
        };
        assert_eq!(steady(&rfc, rtt).rto().as_millis(), 1000);
    }

    #[test]
    fn the_first_sample_and_backing_off() {
        let mut estimator = RttEstimator::new(&TcpConfig::modern());
        assert_eq!(estimator.rto(), Span::from_secs(1));
        estimator.back_off();
        assert_eq!(estimator.rto(), Span::from_secs(2));
        estimator.progress();
        estimator.sample(Span::from_millis(400));
        // 400 ms and four times the variance of 200 ms.
        assert_eq!(estimator.rto(), Span::from_millis(1200));
        for _ in 0..30 {
            estimator.back_off();
        }
        assert_eq!(estimator.rto(), Span::from_secs(120));
    }
}
