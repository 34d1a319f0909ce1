//! How long the window of an ordered sink is: twice what is written out in a round trip, and what waited meanwhile for lost bytes.
//!
//! Dynamic right-sizing (Fisk, Feng 2001), as receivers of TCP do it: a window that is used up in each round trip doubles in
//! each, and one that the sink cannot use stays short, so that memory is taken for what is under way only. On a path that loses in
//! each round trip that alone stands still at half of the rate: bytes stay in the window for two round trips, the second of which they wait for
//! one that is sent again, so half a window is written in each, and twice that is the window there is.

use howdah_core::{Span, Time};

/// What is written out is measured over at least that long.
const SHORTEST: Span = Span::from_millis(10);

/// See the module.
#[derive(Debug)]
pub struct Window {
    bytes: u64,
    most: u64,
    since: Time,
    written: u64,
    /// The most that waited for lost bytes since then.
    early: u64,
}

impl Window {
    /// Of so many bytes at first, and at the most.
    pub fn new(bytes: u64, most: u64) -> Self {
        Self {
            bytes,
            most,
            since: Time::ZERO,
            written: 0,
            early: 0,
        }
    }

    /// How long it is.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// So long at least, as far as it may be.
    pub fn lengthen(&mut self, bytes: u64) {
        self.bytes = self.bytes.max(bytes.min(self.most));
    }

    /// The same, bounded otherwise.
    #[must_use]
    pub fn at_most(self, most: u64) -> Self {
        Self { most, ..self }
    }

    /// `written` bytes in all have been written out by `now`, and `early` ones wait for those before them. `Some`: the window should be
    /// that long.
    pub fn on_written(
        &mut self,
        now: Time,
        rtt: Span,
        (written, early): (u64, u64),
    ) -> Option<u64> {
        self.early = self.early.max(early);
        let (passed, round) = (now.since(self.since), rtt.max(SHORTEST));
        if passed < round {
            return None;
        }
        // Looks may be further apart than a round trip.
        let share = round.as_secs_f64() / passed.as_secs_f64();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of a number of bytes is one"
        )]
        let lately = (written.saturating_sub(self.written) as f64 * share) as u64;
        let is_first = self.since == Time::ZERO;
        self.since = now;
        self.written = written;
        let held = std::mem::take(&mut self.early);
        let wanted = lately.saturating_mul(2).saturating_add(held);
        let wanted = wanted.min(self.most);
        if is_first || wanted <= self.bytes {
            return None;
        }
        self.bytes = wanted;
        Some(wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const RTT: Span = Span::from_millis(100);

    /// The window that a sink of that many MiB in a round trip comes to, and after how many.
    fn settled(sink_mib: u64) -> (u64, u64) {
        let mut window = Window::new(16 * MIB, 256 * MIB);
        let (mut bytes, mut written, mut after) = (16 * MIB, 0, 0);
        for round in 0..20 {
            let now = Time::ZERO + RTT * (round + 1);
            if let Some(longer) = window.on_written(now, RTT, (written, 0)) {
                assert!(longer > bytes);
                (bytes, after) = (longer, round);
            }
            written += bytes.min(sink_mib * MIB);
        }
        (bytes / MIB, after)
    }

    #[test]
    fn it_is_as_long_as_the_sink_can_use() {
        assert_eq!(settled(5), (16, 0), "a slow disk");
        assert_eq!(settled(20), (40, 2));
        assert_eq!(settled(119), (238, 4), "10 Gbit/s");
        assert_eq!(settled(1000), (256, 4), "no more than the bound");
    }

    /// The window that a path of so many MiB in a round trip comes to, each of which loses something that comes a round trip later.
    fn settled_with_loss(path_mib: u64) -> u64 {
        let mut window = Window::new(16 * MIB, 256 * MIB);
        let (mut bytes, mut written, mut waits) = (16 * MIB, 0, 0);
        for round in 0..20 {
            let now = Time::ZERO + RTT * (round + 1);
            if let Some(longer) = window.on_written(now, RTT, (written, waits)) {
                bytes = longer;
            }
            // What waited is written out now, and what has come since waits for what it has lost.
            written += waits;
            waits = (path_mib * MIB).min(bytes - waits);
        }
        bytes / MIB
    }

    #[test]
    fn what_waits_for_lost_bytes_has_room_beside_what_comes() {
        assert!(settled_with_loss(12) >= 24, "both round trips' bytes");
        assert_eq!(settled_with_loss(4), 16);
    }

    #[test]
    fn it_is_measured_over_round_trips() {
        let mut window = Window::new(16 * MIB, 256 * MIB);
        let at = |ms| Time::ZERO + Span::from_millis(ms);
        assert_eq!(
            window.on_written(at(1_000), RTT, (500 * MIB, 0)),
            None,
            "since when is not known"
        );
        assert_eq!(window.on_written(at(1_099), RTT, (600 * MIB, 0)), None);
        assert_eq!(
            window.on_written(at(1_100), RTT, (530 * MIB, 0)),
            Some(60 * MIB)
        );
        // After a silence: as much in a round trip as before.
        assert_eq!(window.on_written(at(2_100), RTT, (830 * MIB, 0)), None);
        assert_eq!(
            window.on_written(at(2_105), Span::from_millis(1), (860 * MIB, 0)),
            None
        );
    }
}
