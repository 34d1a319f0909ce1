//! Round-trip time (RFC 9002 section 5).

use howdah_core::{Span, Time};
use std::collections::VecDeque;

/// Smoothed, minimal and latest RTT.
#[derive(Clone, Debug)]
pub(crate) struct Rtt {
    latest: Option<Span>,
    smoothed: Span,
    variance: Span,
    min_ever: Span,
    recent: WindowedMin,
}

/// RTT assumed before the first sample; RFC 9002 says 333 ms.
const INITIAL: Span = Span::from_millis(333);

/// How long the recent minimum looks back.
const MIN_WINDOW: Span = Span::from_secs(10);

impl Default for Rtt {
    fn default() -> Self {
        Self {
            latest: None,
            smoothed: INITIAL,
            variance: Span::from_nanos(INITIAL.as_nanos() / 2),
            min_ever: Span::MAX,
            recent: WindowedMin::new(MIN_WINDOW),
        }
    }
}

impl Rtt {
    /// Takes in one sample.
    pub(crate) fn on_sample(&mut self, now: Time, sample: Span) {
        let sample = sample.max(Span::from_micros(1));
        self.min_ever = self.min_ever.min(sample);
        self.recent.push(now, sample.as_nanos());
        if self.latest.is_none() {
            self.smoothed = sample;
            self.variance = sample / 2;
        } else {
            let deviation = Span::from_nanos(self.smoothed.as_nanos().abs_diff(sample.as_nanos()));
            self.variance = (self.variance * 3 + deviation) / 4;
            self.smoothed = (self.smoothed * 7 + sample) / 8;
        }
        self.latest = Some(sample);
    }

    /// Whether there was a sample.
    pub(crate) fn is_measured(&self) -> bool {
        self.latest.is_some()
    }

    /// The latest sample; zero before the first.
    pub(crate) fn latest(&self) -> Span {
        self.latest.unwrap_or(Span::ZERO)
    }

    /// Smoothed RTT; 333 ms before the first sample.
    pub(crate) fn smoothed(&self) -> Span {
        self.smoothed
    }

    /// Smallest RTT of the last 10 s; the smoothed one before the first sample.
    pub(crate) fn min_recent(&self) -> Span {
        self.recent.min().map_or(self.smoothed, Span::from_nanos)
    }

    /// Smallest RTT ever; zero before the first sample.
    pub(crate) fn min_ever(&self) -> Span {
        if self.latest.is_some() {
            self.min_ever
        } else {
            Span::ZERO
        }
    }

    /// How long to wait for a report before asking for one (RFC 9002 section 6.2.1).
    pub(crate) fn probe_timeout(&self, max_report_delay: Span) -> Span {
        self.smoothed + (self.variance * 4).max(Span::from_millis(1)) + max_report_delay
    }
}

/// Minimum over a sliding window of time: a queue of rising candidates.
#[derive(Clone, Debug)]
pub(crate) struct WindowedMin {
    window: Span,
    candidates: VecDeque<(Time, u64)>,
}

impl WindowedMin {
    pub(crate) fn new(window: Span) -> Self {
        Self {
            window,
            candidates: VecDeque::new(),
        }
    }

    pub(crate) fn push(&mut self, now: Time, value: u64) {
        while self.candidates.back().is_some_and(|&(_, v)| v >= value) {
            self.candidates.pop_back();
        }
        self.candidates.push_back((now, value));
        // The newest sample is never dropped, so a minimum exists once there was one.
        while self.candidates.len() > 1
            && self
                .candidates
                .front()
                .is_some_and(|&(t, _)| now.since(t) > self.window)
        {
            self.candidates.pop_front();
        }
    }

    pub(crate) fn min(&self) -> Option<u64> {
        self.candidates.front().map(|&(_, v)| v)
    }

    pub(crate) fn clear(&mut self) {
        self.candidates.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recent_minimum_forgets() {
        let mut min = WindowedMin::new(Span::from_secs(10));
        let at = |s| Time::ZERO + Span::from_secs(s);
        for (s, v) in [(0, 5), (1, 3), (2, 9), (5, 7)] {
            min.push(at(s), v);
        }
        assert_eq!(min.min(), Some(3));
        min.push(at(12), 8);
        assert_eq!(min.min(), Some(7));
        min.push(at(40), 20);
        assert_eq!(min.min(), Some(20));
    }

    #[test]
    fn smoothing_follows_rfc_9002() {
        let mut rtt = Rtt::default();
        rtt.on_sample(Time::ZERO, Span::from_millis(100));
        assert_eq!(rtt.smoothed(), Span::from_millis(100));
        rtt.on_sample(Time::ZERO, Span::from_millis(180));
        assert_eq!(rtt.smoothed(), Span::from_millis(110));
        assert_eq!(rtt.min_ever(), Span::from_millis(100));
    }
}
