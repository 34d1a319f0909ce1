//! Delivery rate samples (draft-cheng-iccrg-delivery-rate-estimation-02).

use super::scoreboard::{APP_LIMITED, Departure, coarse, fine};
use crate::tcp::cc::RateSample;
use howdah_core::{Span, Time};

/// The connection's side of the estimate, in segments.
#[derive(Clone, Debug, Default)]
pub(crate) struct Delivery {
    /// Segments delivered.
    pub(crate) delivered: u64,
    /// When the last of them was known to be.
    delivered_at: Time,
    /// Departure of the segment that began the current sending interval.
    first_sent_at: Time,
    /// Samples of segments sent before this many are delivered are limited by the application.
    app_limited_until: u64,
    /// Segments concluded to be lost.
    pub(crate) lost: u64,
}

impl Delivery {
    /// Fills in what a segment that leaves now must remember. `idle`: nothing was outstanding.
    #[inline]
    pub(crate) fn on_sent(&mut self, now: Time, idle: bool, in_flight: u32) -> Departure {
        if idle {
            self.delivered_at = now;
            self.first_sent_at = now;
        }
        Departure {
            sent_ns: now.as_nanos(),
            delivered: self.delivered as u32,
            since_delivered: coarse(now.since(self.delivered_at).as_nanos()),
            since_first_sent: coarse(now.since(self.first_sent_at).as_nanos()),
            in_flight,
            lost: self.lost as u32,
            flags: if self.delivered < self.app_limited_until {
                APP_LIMITED
            } else {
                0
            },
        }
    }

    /// The sender has run out of data with `in_flight` segments on the way.
    pub(crate) fn run_dry(&mut self, in_flight: u32) {
        self.app_limited_until = self.delivered + u64::from(in_flight.max(1));
    }

    /// `count` segments are newly delivered; `newest` is the one of them that left last.
    #[inline]
    pub(crate) fn on_delivered(
        &mut self,
        now: Time,
        count: u32,
        newest: &Departure,
        min_rtt: Span,
    ) -> Option<RateSample> {
        self.delivered += u64::from(count);
        self.delivered_at = now;
        self.first_sent_at = newest.sent_at();
        let since_its_base = now.as_nanos().saturating_sub(newest.sent_ns);
        let acking = since_its_base + fine(newest.since_delivered);
        let interval = Span::from_nanos(acking.max(fine(newest.since_first_sent)));
        // Shorter than the path allows: the acknowledgement was of an earlier copy.
        if interval < min_rtt || interval.is_zero() {
            return None;
        }
        let delivered = (self.delivered as u32).wrapping_sub(newest.delivered);
        Some(RateSample {
            delivered_segments: u64::from(delivered),
            interval,
            prior_delivered_segments: self.delivered - u64::from(delivered),
            app_limited: newest.has(APP_LIMITED),
            in_flight_when_sent_segments: newest.in_flight,
            lost_segments: (self.lost as u32).wrapping_sub(newest.lost),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Time {
        Time::ZERO + Span::from_millis(ms)
    }

    #[test]
    fn ten_segments_in_a_round_trip() {
        let mut delivery = Delivery::default();
        let first = delivery.on_sent(ms(0), true, 1);
        let rtt = Span::from_millis(100);
        let sample = delivery.on_delivered(ms(100), 1, &first, rtt).unwrap();
        assert_eq!((sample.delivered_segments, sample.interval), (1, rtt));
        let second = delivery.on_sent(ms(100), false, 1);
        for at in 101..110 {
            let _ = delivery.on_sent(ms(at), false, 1);
        }
        delivery.run_dry(10);
        let sample = delivery.on_delivered(ms(200), 1, &second, rtt).unwrap();
        assert_eq!(sample.delivered_segments, 1);
        assert_eq!(sample.prior_delivered_segments, 1);
        assert!(!sample.app_limited);
        let third = delivery.on_sent(ms(200), false, 10);
        let sample = delivery.on_delivered(ms(310), 10, &third, rtt).unwrap();
        assert!(sample.app_limited);
        assert_eq!(sample.delivered_segments, 10);
        assert_eq!(sample.interval, Span::from_millis(110));
    }

    #[test]
    fn an_interval_shorter_than_the_path_is_no_sample() {
        let mut delivery = Delivery::default();
        let sent = delivery.on_sent(ms(0), true, 1);
        assert!(
            delivery
                .on_delivered(ms(5), 1, &sent, Span::from_millis(50))
                .is_none()
        );
        assert_eq!(delivery.delivered, 1);
    }
}
