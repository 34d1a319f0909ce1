//! When a paced sender may release the next packets.

use howdah_core::{Rate, Span, Time};

/// What Linux's TSO sizing aims at: as much as passes in a millisecond.
const BURST_SPAN: Span = Span::from_millis(1);

/// A clock that runs ahead by what was sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pacer {
    /// Departure of the next burst.
    next_at: Time,
    /// Segments that may still leave with the burst that is under way.
    burst_left: u32,
    burst_limit: u32,
    /// Time of a packet at the rate below, and the rate it was worked out for: dividing for each
    /// packet would cost more than remembering.
    packet_span: Span,
    rate: Option<Rate>,
}

impl Pacer {
    pub(crate) fn new(burst_limit: u32) -> Self {
        Self {
            burst_limit: burst_limit.max(1),
            ..Self::default()
        }
    }

    /// Sets the rate, in bits of IP packets of `packet_bytes` each; `None` is not paced.
    pub(crate) fn set_rate(&mut self, rate: Option<Rate>, packet_bytes: u32) {
        if rate != self.rate {
            self.rate = rate;
            if let Some(rate) = rate {
                // At rate zero nothing would ever leave, and nothing would ever change that.
                let rate = rate.max(Rate::from_bits_per_sec(8));
                self.packet_span = rate.span_for(u64::from(packet_bytes));
            }
        }
    }

    pub(crate) const fn rate(&self) -> Option<Rate> {
        self.rate
    }

    /// Whether a packet may leave at `now`.
    #[inline]
    pub(crate) fn allows(&self, now: Time) -> bool {
        self.rate.is_none() || self.burst_left > 0 || self.next_at <= now
    }

    /// When the next one may leave, if that is not known to be now.
    #[inline]
    pub(crate) fn next_at(&self, now: Time) -> Option<Time> {
        (!self.allows(now)).then_some(self.next_at)
    }

    /// A packet leaves.
    #[inline]
    pub(crate) fn sent(&mut self, now: Time) {
        if self.rate.is_none() {
            return;
        }
        if self.burst_left == 0 {
            self.next_at = self.next_at.max(now);
            self.burst_left = self.burst();
        }
        self.burst_left -= 1;
        self.next_at += self.packet_span;
    }

    /// Nothing more leaves now: what is left of a burst is not saved up.
    #[inline]
    pub(crate) const fn rest(&mut self) {
        self.burst_left = 0;
    }

    fn burst(&self) -> u32 {
        if self.burst_limit == 1 {
            return 1;
        }
        let in_span = BURST_SPAN.as_nanos() / self.packet_span.as_nanos().max(1);
        u32::try_from(in_span)
            .unwrap_or(u32::MAX)
            .clamp(1, self.burst_limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn departures(burst: u32) -> Vec<u64> {
        let mut pacer = Pacer::new(burst);
        // 12 us a packet.
        pacer.set_rate(Some(Rate::from_gbit_per_sec(1)), 1500);
        let mut now = Time::ZERO;
        let mut out = Vec::new();
        while out.len() < 8 {
            if pacer.allows(now) {
                pacer.sent(now);
                out.push(now.as_micros());
            } else {
                now = pacer.next_at(now).unwrap();
            }
        }
        out
    }

    #[test]
    fn packets_leave_one_by_one_or_in_bursts_at_the_same_mean_rate() {
        assert_eq!(departures(1), [0, 12, 24, 36, 48, 60, 72, 84]);
        assert_eq!(departures(4), [0, 0, 0, 0, 48, 48, 48, 48]);
    }

    #[test]
    fn silence_is_not_saved_up() {
        let mut pacer = Pacer::new(2);
        pacer.set_rate(Some(Rate::from_gbit_per_sec(1)), 1500);
        pacer.sent(Time::ZERO);
        pacer.rest();
        let later = Time::ZERO + Span::from_secs(1);
        pacer.sent(later);
        pacer.sent(later);
        assert_eq!(pacer.next_at(later), Some(later + Span::from_micros(24)));
    }
}
