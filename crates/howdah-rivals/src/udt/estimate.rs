//! What a receiver measures: how fast packets arrive, and what the link could carry.
//!
//! Both are medians with the outliers left out (draft-gg-udt-03, section 3.5; 4.11, window.cpp), in whole
//! microseconds as the library's clock gives them. At 10 Gbit/s that matters: jumbo frames are
//! 7.09 us apart, of which single gaps of 7 and 8 are left.

/// Intervals between arrivals that are remembered.
const ARRIVALS: usize = 16;
/// Gaps of packet pairs that are remembered (16 in the draft, 64 in 4.11).
const PAIRS: usize = 64;

/// The last arrivals.
#[derive(Clone, Debug)]
pub(crate) struct Arrivals {
    intervals_us: [u32; ARRIVALS],
    next_interval: usize,
    last_us: u64,
    gaps_us: [u32; PAIRS],
    next_gap: usize,
    first_of_pair_us: u64,
}

impl Arrivals {
    /// Before the first arrival, at `now_us`.
    pub(crate) const fn new(now_us: u64) -> Self {
        Self {
            intervals_us: [1_000_000; ARRIVALS],
            next_interval: 0,
            last_us: now_us,
            gaps_us: [1000; PAIRS],
            next_gap: 0,
            first_of_pair_us: now_us,
        }
    }

    /// A data packet has arrived.
    #[inline]
    pub(crate) fn on_packet(&mut self, now_us: u64, sequence: u32) {
        let micros = |since: u64| (now_us - since).min(u64::from(u32::MAX)) as u32;
        self.intervals_us[self.next_interval] = micros(self.last_us);
        self.next_interval = (self.next_interval + 1) % ARRIVALS;
        self.last_us = now_us;
        match sequence % 16 {
            0 => self.first_of_pair_us = now_us,
            1 => {
                // Packets that a host hands over together have one time here. A program that reads one
                // after the other, as the library does, sees a microsecond or so between them.
                self.gaps_us[self.next_gap] = micros(self.first_of_pair_us).max(1);
                self.next_gap = (self.next_gap + 1) % PAIRS;
            }
            _ => {}
        }
    }

    /// Packets per second, from the intervals within a factor of eight of the median; 0 if these
    /// are not more than half.
    pub(crate) fn speed_pps(&self) -> u32 {
        let (median, sum, count) = filtered(self.intervals_us);
        if median == 0 || count <= ARRIVALS as u64 / 2 {
            return 0;
        }
        // The library divides the integers first.
        (1e6 / (sum / count).max(1) as f64).ceil() as u32
    }

    /// Capacity of the link in packets per second, from the pairs.
    pub(crate) fn capacity_pps(&self) -> u32 {
        let (median, sum, count) = filtered(self.gaps_us);
        // The median counts once more.
        let (sum, count) = (sum + u64::from(median), count + 1);
        (1e6 * count as f64 / (sum as f64).max(1.0)).ceil() as u32
    }
}

/// The median, and sum and number of the values within a factor of eight of it.
fn filtered<const N: usize>(mut values: [u32; N]) -> (u32, u64, u64) {
    let (_, &mut median, _) = values.select_nth_unstable(N / 2);
    let (low, high) = (median >> 3, median.saturating_mul(8));
    let kept = values.iter().filter(|&&value| value > low && value < high);
    let (sum, count) = kept.fold((0, 0), |(sum, count), &value| {
        (sum + u64::from(value), count + 1)
    });
    (median, sum, count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_stream_gives_its_rate_and_the_pairs_the_links() {
        let mut arrivals = Arrivals::new(0);
        let mut now = 0;
        for sequence in 0..2000 {
            // Pairs 12 us apart, everything else 100 us.
            now += if sequence % 16 == 1 { 12 } else { 100 };
            arrivals.on_packet(now, sequence);
        }
        // One interval of 12 us is within the median's factor of eight only above 12.5 us.
        assert_eq!(arrivals.speed_pps(), 10_000);
        assert_eq!(arrivals.capacity_pps(), 83_334);
    }

    #[test]
    fn nothing_is_known_before_packets_come() {
        let mut arrivals = Arrivals::new(0);
        // Remembered as a second each: one a second.
        assert_eq!(arrivals.speed_pps(), 1);
        assert_eq!(arrivals.capacity_pps(), 1000);
        for sequence in 0..8 {
            arrivals.on_packet(u64::from(sequence) * 10, sequence + 2);
        }
        // Half of the intervals are outliers of the other half.
        assert_eq!(arrivals.speed_pps(), 0);
    }

    #[test]
    fn simultaneous_arrivals_divide_by_nothing() {
        let mut arrivals = Arrivals::new(0);
        for sequence in 0..2000 {
            arrivals.on_packet(5, sequence);
        }
        assert_eq!(arrivals.speed_pps(), 0);
        assert_eq!(arrivals.capacity_pps(), 1_000_000);
    }
}
