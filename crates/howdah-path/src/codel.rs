//! Controlled Delay, packet by packet.
//!
//! RFC 8289 (section 5) writes the algorithm as a `dequeue` that drops packets in a loop until it
//! finds one to send. Here each packet asks for itself, and the place in that loop is kept between
//! two questions; the decisions are the same.

use crate::aqm::CoDelConfig;

/// Where in the RFC's `dequeue` the next packet finds itself.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Place {
    /// At its beginning: the link is ready for a packet.
    Start,
    /// After the drop that began a dropping state: this packet is sent.
    Entered,
    /// After a drop within a dropping state.
    Dropped,
}

#[derive(Clone, Debug)]
pub(crate) struct CoDel {
    target_ns: u64,
    interval_ns: u64,
    /// When the waiting time will have been above the target for an interval.
    first_above_ns: Option<u64>,
    dropping: bool,
    drop_next_ns: u64,
    count: u32,
    last_count: u32,
    /// Largest packet seen, on the link: no more than this in the queue is no queue. (The RFC would
    /// have the interface's MTU, which a path does not need to have.)
    max_packet_bytes: u64,
    place: Place,
}

impl CoDel {
    pub(crate) fn new(config: CoDelConfig) -> Self {
        Self {
            target_ns: config.target.as_nanos(),
            interval_ns: config.interval.as_nanos(),
            first_above_ns: None,
            dropping: false,
            drop_next_ns: 0,
            count: 0,
            last_count: 0,
            max_packet_bytes: 0,
            place: Place::Start,
        }
    }

    /// Other times from now on; the state goes on.
    pub(crate) fn reconfigure(&mut self, config: CoDelConfig) {
        self.target_ns = config.target.as_nanos();
        self.interval_ns = config.interval.as_nanos();
    }

    pub(crate) fn arrived(&mut self, link_bytes: u64) {
        self.max_packet_bytes = self.max_packet_bytes.max(link_bytes);
    }

    /// The queue was found empty.
    pub(crate) fn empty(&mut self) {
        self.first_above_ns = None;
        self.dropping = false;
        self.place = Place::Start;
    }

    /// Whether the packet at the head, which has waited for `sojourn_ns` and leaves `bytes_behind`
    /// in the queue, is dropped at `now_ns`.
    pub(crate) fn drops(&mut self, now_ns: u64, sojourn_ns: u64, bytes_behind: u64) -> bool {
        let ok_to_drop = self.above_for_an_interval(now_ns, sojourn_ns, bytes_behind);
        let drops = match self.place {
            Place::Start if self.dropping => {
                self.dropping = ok_to_drop;
                self.dropping && now_ns >= self.drop_next_ns
            }
            Place::Start => {
                if ok_to_drop {
                    self.place = Place::Entered;
                    return true;
                }
                false
            }
            Place::Entered => {
                self.enter(now_ns);
                false
            }
            Place::Dropped => {
                self.dropping = ok_to_drop;
                if ok_to_drop {
                    self.drop_next_ns = self.control_law(self.drop_next_ns);
                }
                ok_to_drop && now_ns >= self.drop_next_ns
            }
        };
        if drops {
            self.count = self.count.saturating_add(1);
            self.place = Place::Dropped;
        } else {
            self.place = Place::Start;
        }
        drops
    }

    /// A dropping state begins.
    fn enter(&mut self, now_ns: u64) {
        self.dropping = true;
        // A return soon after the last dropping state goes on at about its drop rate.
        let delta = self.count.wrapping_sub(self.last_count);
        let soon = now_ns.saturating_sub(self.drop_next_ns) < 16 * self.interval_ns;
        self.count = if delta > 1 && soon { delta } else { 1 };
        self.drop_next_ns = self.control_law(now_ns);
        self.last_count = self.count;
    }

    /// The packet that [`drops`](Self::drops) chose was marked instead and goes: the loop ends with it (RFC 8289, 5.5, as in
    /// Linux: a mark takes the place of the drop and of what would have followed it).
    pub(crate) fn was_marked(&mut self, now_ns: u64) {
        match self.place {
            Place::Start => {}
            Place::Entered => self.enter(now_ns),
            Place::Dropped => self.drop_next_ns = self.control_law(self.drop_next_ns),
        }
        self.place = Place::Start;
    }

    fn above_for_an_interval(&mut self, now_ns: u64, sojourn_ns: u64, bytes_behind: u64) -> bool {
        if sojourn_ns < self.target_ns || bytes_behind <= self.max_packet_bytes {
            self.first_above_ns = None;
            return false;
        }
        match self.first_above_ns {
            None => {
                self.first_above_ns = Some(now_ns.saturating_add(self.interval_ns));
                false
            }
            Some(first) => now_ns >= first,
        }
    }

    /// `t + interval / sqrt(count)`. A square root is exact to the last bit everywhere (IEEE 754).
    fn control_law(&self, t_ns: u64) -> u64 {
        let gap = self.interval_ns as f64 / f64::from(self.count.max(1)).sqrt();
        t_ns.saturating_add(gap as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_core::Span;

    const MS: u64 = 1_000_000;

    fn codel() -> CoDel {
        let mut codel = CoDel::new(CoDelConfig::default());
        codel.arrived(1500);
        codel
    }

    #[test]
    fn a_short_wait_or_a_short_queue_is_never_dropped() {
        let mut codel = codel();
        for ms in 0..1_000 {
            assert!(!codel.drops(ms * MS, 5 * MS - 1, 1 << 20));
        }
        for ms in 1_000..2_000 {
            assert!(!codel.drops(ms * MS, 500 * MS, 1500));
        }
    }

    /// Waiting times that stay above the target: the first drop one interval after the first
    /// packet above it, then at distances of interval / sqrt(n) (each rounded down).
    #[test]
    fn drops_follow_the_control_law() {
        let mut codel = codel();
        let step = 10_000;
        let mut drops = Vec::new();
        for now in (0..2_000 * MS).step_by(step) {
            while codel.drops(now, 20 * MS, 1 << 20) {
                drops.push(now);
            }
        }
        let mut due = (100 * MS) as f64;
        for (n, &at) in drops.iter().enumerate() {
            assert!(
                at as f64 >= due - 1.0 - n as f64 && at as f64 <= due + 1.5 * step as f64,
                "drop {n} at {at} and not at {due}"
            );
            due += 100e6 / ((n + 1) as f64).sqrt();
        }
        // sum of 1/sqrt(k) for k = 1..n is about 2 sqrt(n) - 1.46: 19 intervals hold 105 drops.
        assert!((100..110).contains(&drops.len()), "{}", drops.len());
    }

    #[test]
    fn one_short_wait_ends_the_dropping() {
        let mut codel = codel();
        let mut now = 0;
        let mut dropped = 0;
        while dropped < 10 {
            now += MS / 10;
            dropped += u32::from(codel.drops(now, 20 * MS, 1 << 20));
        }
        assert!(!codel.drops(now, 0, 1 << 20));
        // A whole interval of patience again; then dropping starts near the rate it had.
        let again = now;
        let mut gaps = Vec::new();
        let mut last = now;
        while gaps.len() < 3 {
            now += MS / 10;
            if codel.drops(now, 20 * MS, 1 << 20) {
                gaps.push(now - last);
                last = now;
            }
        }
        assert!(gaps[0] >= 100 * MS && again + gaps[0] >= again + 100 * MS);
        assert!(gaps[1] < 40 * MS, "{gaps:?}");
    }

    #[test]
    fn other_times_apply_at_once() {
        let mut codel = codel();
        codel.reconfigure(CoDelConfig {
            target: Span::from_millis(50),
            interval: Span::from_millis(1_000),
        });
        for ms in 0..3_000 {
            assert!(!codel.drops(ms * MS, 20 * MS, 1 << 20));
        }
    }
}
