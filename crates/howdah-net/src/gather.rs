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
/// Where round trips are long, that part of the shortest, up to ...
const PART_OF_RTT: u64 = 25;
/// ... as much, whatever they are.
const LONGEST_OF_ALL: Span = Span::from_millis(2);
/// The rate is taken over that long, or a little more; over more than the latter there was a silence.
const WINDOW: Span = Span::from_millis(1);
const SILENCE: Span = Span::from_millis(10);

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Gather {
    in_round: usize,
    in_window: u64,
    window_began: Time,
    /// The shortest round trip of those whose turn came.
    rtt: Option<Span>,
    /// Both of the window before.
    rate: Rate,
    rtt_before: Option<Span>,
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

    /// A connection with that round trip had its turn.
    pub(crate) fn on_turn(&mut self, rtt: Span) {
        self.rtt = Some(self.rtt.map_or(rtt, |other| other.min(rtt)));
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
            self.rtt_before = self.rtt.take();
        }
        if self.rate >= MUCH {
            let longest = self.longest();
            Some(self.rate.span_for(WANTED_BYTES).clamp(SHORTEST, longest))
        } else {
            (self.in_round >= MUCH_BYTES).then_some(SHORTEST)
        }
    }

    /// Nobody is kept waiting for more than a small part of a round trip.
    fn longest(&self) -> Span {
        let shortest = self.rtt.into_iter().chain(self.rtt_before).min();
        shortest.map_or(LONGEST, |rtt| {
            (rtt / PART_OF_RTT).clamp(LONGEST, LONGEST_OF_ALL)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks per second that a steady stream of that many Mbit/s in packets of 1500 bytes leads to, where these round trips are looked at in turn.
    fn looks(mbit: u64, rtts_ms: &[u64]) -> u64 {
        let mut rtts = rtts_ms.iter().cycle().copied().map(Span::from_millis);
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
            rtts.next().into_iter().for_each(|rtt| gather.on_turn(rtt));
            now += gather.pause(now).unwrap_or(Span::ZERO);
            looks += 1;
        }
        looks
    }

    #[test]
    fn looks_are_few_at_every_rate() {
        assert!(
            (830..=840).contains(&looks(10, &[200])),
            "each packet as it comes"
        );
        for (mbit, least, most) in [
            (100, 1_900, 2_100),
            (1_000, 1_950, 2_100),
            (4_000, 3_700, 4_200),
            (10_000, 6_500, 7_700),
        ] {
            for rtts in [&[][..], &[1]] {
                let looks = looks(mbit, rtts);
                assert!((least..=most).contains(&looks), "{mbit}: {looks}");
            }
        }
    }

    #[test]
    fn looks_are_fewer_where_round_trips_are_long() {
        for (mbit, rtts, least, most) in [
            (100, &[25][..], 900, 1_050),
            (100, &[50], 450, 550),
            (100, &[400], 450, 550),
            (200, &[400], 480, 520),
            // 128 KiB are the most that gather.
            (1_000, &[400], 900, 1_060),
            // One next door is not kept waiting by those far away.
            (100, &[1, 400], 1_900, 2_100),
        ] {
            let looks = looks(mbit, rtts);
            assert!((least..=most).contains(&looks), "{mbit}, {rtts:?}: {looks}");
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
