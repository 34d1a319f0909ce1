//! While much arrives: how long to let arrivals gather, so that each wake-up finds more than a packet or two.
//!
//! A wake-up costs more than opening some packets. The protocol does not notice the wait: its times of
//! arrival are the kernel's, and a timer that is due ends it.

use howdah_core::{Rate, Span, Time};

/// From that rate on arrivals are gathered, ...
const MUCH: Rate = Rate::from_mbit_per_sec(40);
/// ... or when so many bytes came in one round of the loop.
const MUCH_BYTES: usize = 16 * 1024;
/// As much should gather; the smallest socket buffers hold more.
const WANTED_BYTES: u64 = 128 * 1024;
/// Bounds of the wait: it is short against the protocol's timers, and looks are not too many.
const SHORTEST: Span = Span::from_micros(150);
const LONGEST: Span = Span::from_micros(500);
/// The rate is taken over that long, or a little more; over more than the latter there was a silence.
const WINDOW: Span = Span::from_millis(1);
const SILENCE: Span = Span::from_millis(10);

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Gather {
    in_round: usize,
    in_window: u64,
    window_began: Time,
    /// Of the window before.
    rate: Rate,
}

impl Gather {
    /// A round of the loop begins.
    pub(crate) fn begin_round(&mut self) {
        self.in_round = 0;
    }

    pub(crate) fn on_received(&mut self, bytes: usize) {
        self.in_round += bytes;
        self.in_window += bytes as u64;
    }

    /// How long to wait from `now` on; `None` if too little arrives to wait for more.
    pub(crate) fn pause(&mut self, now: Time) -> Option<Span> {
        if self.in_round == 0 {
            return None;
        }
        let window = now.since(self.window_began);
        if window >= WINDOW {
            self.rate = if window < SILENCE {
                Rate::from_bytes_over(self.in_window, window)
            } else {
                Rate::ZERO
            };
            self.window_began = now;
            self.in_window = 0;
        }
        if self.rate >= MUCH {
            Some(self.rate.span_for(WANTED_BYTES).clamp(SHORTEST, LONGEST))
        } else {
            (self.in_round >= MUCH_BYTES).then_some(SHORTEST)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks per second that a steady stream of that many Mbit/s in packets of 1500 bytes leads to.
    fn looks(mbit: u64) -> u64 {
        let mut gather = Gather::default();
        let begin = Time::ZERO + Span::from_secs(1);
        let gap = Rate::from_mbit_per_sec(mbit).span_for(1500);
        let (mut next, mut now, mut looks) = (begin, begin, 0);
        while now < begin + Span::from_secs(1) {
            now = now.max(next);
            gather.begin_round();
            while next <= now {
                gather.on_received(1500);
                next += gap;
            }
            now += gather.pause(now).unwrap_or(Span::ZERO);
            looks += 1;
        }
        looks
    }

    #[test]
    fn looks_are_few_at_every_rate() {
        assert!((830..=840).contains(&looks(10)), "each packet as it comes");
        for (mbit, least, most) in [
            (100, 1_900, 2_100),
            (1_000, 1_950, 2_100),
            (4_000, 3_700, 4_200),
            (10_000, 6_500, 7_700),
        ] {
            let looks = looks(mbit);
            assert!((least..=most).contains(&looks), "{mbit}: {looks}");
        }
    }

    #[test]
    fn nothing_is_waited_for_after_a_silence() {
        let mut gather = Gather::default();
        let mut now = Time::ZERO + Span::from_secs(1);
        for _ in 0..100 {
            gather.begin_round();
            gather.on_received(9_000);
            gather.pause(now);
            now += Span::from_micros(100);
        }
        gather.begin_round();
        assert_eq!(gather.pause(now), None, "nothing came");
        gather.on_received(1_000);
        assert!(gather.pause(now).is_some());
        now += Span::from_secs(1);
        gather.begin_round();
        gather.on_received(1_000);
        assert_eq!(gather.pause(now), None);
    }
}
