//! What marks (ECN) say about the rate.
//!
//! A queue for L4S (RFC 9332) marks early and often: so the share of packets that are marked counts, smoothed over some round
//! trips (DCTCP, RFC 8257; RFC 9331, section 4.3), and half of that share is what the rate loses, at most once per round trip. A
//! classic queue (RFC 3168) that takes ECT(1) for what ECT(0) is marks rarely and late, where it would have dropped: that is a
//! loss to CUBIC, answered as RFC 8511 has it. Which of the two marks is seen by how long the queue was when it did.
//!
//! Between marks the rate grows as fast as makes it, at the same queue, what CUBIC or Reno get: a dual queue drops classic
//! packets with p'^2 and marks L4S packets with 2 p'. CUBIC's window is then 1.054 (T/p'^2)^(3/4) (RFC 9438, section 5.1), Reno's
//! sqrt(3/2)/p'; a window that grows by w per round trip and loses half of the marked share stays where w = W p'.
//!
//! All this is a ceiling on the rate that delay and delivery allow; without marks for long it is forgotten.

mod balance;

use super::{Feedback, Share};
use balance::Balance;
use howdah_core::num::floor_to_u64;
use howdah_core::{Rate, Span, Time};

/// Weight of a round trip in the smoothed share.
const GAIN: f64 = 1.0 / 16.0;
/// The share before any round trip was seen.
const FIRST_SHARE: f64 = 0.1;
/// Shorter round trips are not counted as such (as in TCP Prague), so that flows of short paths do not outrun others.
const ROUND_MIN: Span = Span::from_millis(25);
/// An L4S queue is no longer than this for long, unless it marks nearly everything ...
const FINE_QUEUE: f64 = 0.004;
/// ... that is, more than this share.
const FINE_SHARE: f64 = 0.5;
/// What a mark of a classic queue leaves (RFC 8511).
const CLASSIC_LEFT: f64 = 0.85;
/// CUBIC's constant, in segments per cube of seconds.
const CUBIC_C: f64 = 0.4;
/// What windows are counted in, whatever the packets' size, in bits.
const SEGMENT_BITS: f64 = 12_000.0;
/// A round trip with fewer packets says nothing.
const ROUND_PACKETS: u64 = 4;
/// After that many times what the way back takes without a mark, growth doubles each round trip.
const QUIET: f64 = 2.0;
const QUIET_ROUNDS: f64 = 4.0;
/// ... up to this share of the rate: a queue of a millisecond holds no more of a round trip.
const FASTEST: f64 = 0.1;
/// Growth of a fine flow per round trip, in segments, is at most this times the square root of its window, and at least the
/// other: the more it grows, the larger the share that is marked, and what is cut must fit into a queue of a millisecond.
const GROWTH_MOST: f64 = 0.042;
const GROWTH_LEAST: f64 = 0.3;
/// After so many round trips without a mark, what was cut too deep comes back: a part of it each round trip, up to a share of the
/// rate of before.
const CALM_ROUNDS: f64 = 3.0;
const BACK_PART: f64 = 0.1;
const BACK_SHARE: f64 = 0.9;
/// What is cut shows in reports so long after a round trip.
const ECHO: Span = Span::from_millis(20);
/// A flow that came to others grows that much faster.
const GROWTH_YOUNG: f64 = 3.0;
/// A ceiling that far above the rate has nothing to say.
const FAR_ABOVE: f64 = 1.5;

/// Who asks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Weight {
    /// As much as others.
    Fair,
    /// Less than anybody.
    Least,
}

/// What a report says.
#[derive(Clone, Copy, Debug)]
struct Seen {
    now: Time,
    rtt: Span,
    /// The queue of now.
    queue: Span,
    /// The rate that is sent at.
    rate: Rate,
    /// Packets that could be marked, and those that were, since the beginning.
    received: u64,
    marked: u64,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Marks {
    weight: Weight,
    of: Share,
    /// This flow came to others' queue lately, and has a small part of the path.
    young: bool,
    share: f64,
    /// Of fine marks.
    balance: Balance,
    /// The share of the last report, not smoothed.
    recent: f64,
    /// (packets, marked) of the last report, and when the round began.
    last: Option<(u64, u64, Time)>,
    round: (u64, u64, Time),
    /// The queue at which marks were seen, smoothed, in seconds; `None` before any.
    queue: Option<f64>,
    ceiling: Option<f64>,
    /// The rate before it was cut.
    before: f64,
    last_mark: Time,
    cut_next: Time,
    /// Without marks until then, growth is what it is.
    quiet_at: Time,
}

impl Marks {
    pub(super) fn new(weight: Weight, of: Share) -> Self {
        Self {
            weight,
            of,
            young: false,
            share: FIRST_SHARE,
            balance: Balance::default(),
            recent: 0.0,
            last: None,
            round: (0, 0, Time::ZERO),
            queue: None,
            ceiling: None,
            before: 0.0,
            last_mark: Time::ZERO,
            cut_next: Time::ZERO,
            quiet_at: Time::ZERO,
        }
    }

    /// The rate is no more than this.
    pub(super) fn ceiling(&self) -> Option<Rate> {
        self.ceiling
            .map(|bits| Rate::from_bits_per_sec(floor_to_u64(bits)))
    }

    /// Marks come early and often.
    pub(super) fn is_fine(&self) -> bool {
        self.queue.is_some_and(|queue| queue < FINE_QUEUE)
    }

    /// Nearly everything that came last is marked.
    pub(super) fn are_many(&self) -> bool {
        self.recent > FINE_SHARE
    }

    pub(super) fn set_share(&mut self, of: Share) {
        self.of = of;
    }

    /// As [`young`](Self::young).
    pub(super) fn set_young(&mut self, young: bool) {
        self.young = young;
    }

    /// Takes a report in, at this queue and rate; answers it only if what it shows is what this law did.
    pub(super) fn heed(&mut self, feedback: &Feedback<'_>, queue: Span, rate: Rate, answers: bool) {
        let Some((received, marked)) = feedback.marks else {
            self.forget();
            return;
        };
        let seen = Seen {
            now: feedback.now,
            rtt: feedback.smoothed_rtt,
            queue,
            rate,
            received,
            marked,
        };
        self.on_report(&seen, answers);
    }

    /// Nothing is known of marks any more.
    fn forget(&mut self) {
        if self.last.is_some() {
            *self = Self::new(self.weight, self.of);
        }
    }

    fn on_report(&mut self, seen: &Seen, answers: bool) {
        let Some((received_before, marked_before, before)) = self.last else {
            self.last = Some((seen.received, seen.marked, seen.now));
            self.round = (seen.received, seen.marked, seen.now);
            return;
        };
        let round = seen.rtt.max(ROUND_MIN);
        self.last = Some((seen.received, seen.marked, seen.now));
        let marked = seen.marked > marked_before;
        let came = seen.received.saturating_sub(received_before);
        if came >= ROUND_PACKETS {
            self.recent = seen.marked.saturating_sub(marked_before) as f64 / came as f64;
        }
        let (received_then, marked_then, began) = self.round;
        let packets = seen.received.saturating_sub(received_then);
        let share = seen.marked.saturating_sub(marked_then) as f64 / packets.max(1) as f64;
        if marked {
            self.judge(seen.queue.as_secs_f64(), share);
        }
        if seen.now.since(began) >= round && packets >= ROUND_PACKETS {
            self.share += GAIN * (share - self.share);
            self.round = (seen.received, seen.marked, seen.now);
        }
        self.grow(seen, before, round);
        if marked && answers && seen.now >= self.cut_next {
            self.cut(seen, round);
        }
        if marked {
            self.last_mark = seen.now;
        }
    }

    pub(super) fn describe(&self) -> String {
        let kind = match self.queue {
            None => "none",
            Some(_) if self.is_fine() => "fine",
            Some(_) => "classic",
        };
        let ceiling = self.ceiling().unwrap_or(Rate::MAX);
        format!("{kind} {:.1}% ceiling {ceiling}", self.share * 100.0)
    }

    /// Classic or fine?
    fn judge(&mut self, queue: f64, share: f64) {
        // In the first moments a fine queue is long, too, but then it marks nearly everything.
        let queue = if share > FINE_SHARE { 0.0 } else { queue };
        self.queue = Some(
            self.queue
                .map_or(queue, |before| f64::midpoint(before, queue)),
        );
    }

    fn cut(&mut self, seen: &Seen, round: Span) {
        let from = seen.rate.as_f64().min(self.ceiling.unwrap_or(f64::MAX));
        let round_s = round.as_secs_f64();
        // Cuts are further apart than round trips, and larger for that.
        let spacing = round + ECHO;
        let half = self.share / 2.0 * spacing.as_secs_f64() / round_s;
        let calm = seen.now.since(self.last_mark) > round.mul_f64(CALM_ROUNDS);
        let left = match (self.is_fine(), self.weight) {
            (true, weight) => {
                let times = if weight == Weight::Least { 4.0 } else { 1.0 };
                let taken = (times * half).min(0.5);
                if calm {
                    self.balance.begin();
                }
                self.balance.on_cut(from * taken);
                1.0 - self.balance.cut(taken)
            }
            (false, Weight::Fair) => CLASSIC_LEFT,
            (false, Weight::Least) => 0.5,
        };
        let ceiling = from * left;
        if calm || from > self.before {
            // Who has not come back to the rate of before shares with somebody new.
            let shrinks = from < BACK_SHARE * self.before;
            self.before = match shrinks {
                false => from,
                true if self.is_fine() => from * left,
                // Fast convergence (RFC 9438, section 4.7).
                true => from * f64::midpoint(1.0, left),
            };
        }
        let back = (from - ceiling) / self.growth(ceiling, round_s).max(1.0) * round_s;
        let quiet = (QUIET * back + QUIET_ROUNDS * round_s).min(60.0);
        self.ceiling = Some(ceiling);
        self.cut_next = seen.now + spacing;
        self.quiet_at = seen.now + Span::from_nanos(floor_to_u64(quiet * 1e9));
    }

    /// What is added in a round trip of that length, in bits per second.
    fn growth(&self, rate: f64, round_s: f64) -> f64 {
        let sessions = f64::from(self.of.sessions());
        let window = (sessions * rate * round_s / SEGMENT_BITS).max(1.0);
        let segments = if self.is_fine() {
            let as_others = (1.036 * round_s.sqrt() * window.cbrt()).max(1.22);
            as_others.min((GROWTH_MOST * window.sqrt()).max(GROWTH_LEAST))
        } else {
            // The same share of losses makes CUBIC's window, with what is left of ours.
            (0.161 * round_s * window.cbrt().powi(2)).max(0.243)
        };
        let weight = match self.weight {
            Weight::Fair => 1.0,
            Weight::Least => 0.1,
        };
        weight * segments * SEGMENT_BITS / round_s / sessions
    }

    /// What brings a rate that a classic mark has cut back to that of before, and beyond, in bits per second for each round trip:
    /// CUBIC's curve (RFC 9438, section 4.2) by how far it is from there.
    fn curve(&self, rate: f64, round_s: f64) -> f64 {
        if self.is_fine() || self.weight == Weight::Least {
            return 0.0;
        }
        let sessions = f64::from(self.of.sessions());
        let off = sessions * (self.before - rate).abs() * round_s / SEGMENT_BITS;
        // W = before + C (t - K)^3, so dW/dt = 3 C^(1/3) |W - before|^(2/3).
        3.0 * CUBIC_C.cbrt() * off.cbrt().powi(2) * SEGMENT_BITS / sessions
    }

    fn grow(&mut self, seen: &Seen, before: Time, round: Span) {
        let Some(ceiling) = self.ceiling else {
            return;
        };
        let round_s = round.as_secs_f64();
        let rounds = seen.now.since(before).as_secs_f64() / round_s;
        let quiet = seen.now.since(self.quiet_at).as_secs_f64() / round_s;
        let faster = quiet.min(30.0).exp2();
        let growth = self.growth(ceiling, round_s);
        let factor = if self.is_fine() {
            self.balance.on_growth(growth * rounds.min(1.0));
            self.balance.growth()
        } else {
            1.0
        };
        let age = if self.young { GROWTH_YOUNG } else { 1.0 };
        let mut more = growth * faster * age.max(factor);
        more = more.max(self.curve(ceiling, round_s));
        if self.weight == Weight::Fair
            && seen.now.since(self.last_mark) > round.mul_f64(CALM_ROUNDS)
        {
            more = more.max(BACK_PART * (BACK_SHARE * self.before - ceiling));
        }
        let ceiling = ceiling + more.min(FASTEST * ceiling) * rounds.min(1.0);
        let far = ceiling > FAR_ABOVE * seen.rate.as_f64() && quiet > 0.0;
        self.ceiling = (!far).then_some(ceiling);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Span = Span::from_millis(40);

    /// Reports every 10 ms of a flow at this rate, of whose packets `share` come marked at that queue, for so many reports.
    fn run(marks: &mut Marks, from: u64, reports: u64, share: f64, queue: Span) -> Rate {
        let full = Rate::from_mbit_per_sec(100);
        for n in from..from + reports {
            let rate = marks.ceiling().unwrap_or(full).min(full);
            let (received, marked, _) = marks.last.unwrap_or_default();
            let seen = Seen {
                now: Time::ZERO + Span::from_millis(10 * n),
                rtt: RTT,
                queue,
                rate,
                received: received + 100,
                marked: marked + (100.0 * share) as u64,
            };
            marks.on_report(&seen, true);
        }
        marks.ceiling().unwrap_or(full).min(full)
    }

    #[test]
    fn without_marks_nothing_is_limited() {
        let mut marks = Marks::new(Weight::Fair, Share::WHOLE);
        run(&mut marks, 1, 1_000, 0.0, Span::from_millis(9));
        assert_eq!(marks.ceiling(), None);
    }

    #[test]
    fn fine_marks_take_half_of_their_share_at_most_once_in_a_round_trip() {
        for share in [0.02, 0.2, 1.0] {
            let mut marks = Marks::new(Weight::Fair, Share::WHOLE);
            let queue = Span::from_millis(1);
            run(&mut marks, 1, 10, 0.0, queue);
            let after = run(&mut marks, 11, 1, share, queue).as_f64() / 100e6;
            assert!(marks.is_fine());
            assert!(after > 0.9 && after < 1.0, "{share}: {after}");
            let again = run(&mut marks, 12, 3, share, queue).as_f64() / 100e6;
            assert!(
                again >= after,
                "{share}: the same round trip is answered once"
            );
        }
        // The smoothed share follows.
        let mut marks = Marks::new(Weight::Fair, Share::WHOLE);
        run(&mut marks, 1, 4_000, 0.04, Span::from_millis(1));
        assert!((marks.share - 0.04).abs() < 0.005, "{}", marks.share);
    }

    #[test]
    fn marks_of_a_long_queue_are_losses() {
        let mut marks = Marks::new(Weight::Fair, Share::WHOLE);
        let queue = Span::from_millis(6);
        run(&mut marks, 1, 10, 0.0, queue);
        let after = run(&mut marks, 11, 1, 0.01, queue).as_f64() / 100e6;
        assert!(!marks.is_fine());
        assert!((after - CLASSIC_LEFT).abs() < 0.01, "{after}");
        // A long queue that marks nearly everything is a fine one that a start has filled.
        let mut marks = Marks::new(Weight::Fair, Share::WHOLE);
        run(&mut marks, 1, 10, 0.0, queue);
        run(&mut marks, 11, 8, 0.9, queue);
        assert!(marks.is_fine());
    }

    #[test]
    fn what_was_cut_comes_back_and_the_limit_is_forgotten() {
        for queue in [Span::from_millis(1), Span::from_millis(6)] {
            let mut marks = Marks::new(Weight::Fair, Share::WHOLE);
            run(&mut marks, 1, 10, 0.0, queue);
            run(&mut marks, 11, 20, 0.05, queue);
            assert!(marks.ceiling().is_some());
            run(&mut marks, 31, 12_000, 0.0, Span::ZERO);
            assert_eq!(marks.ceiling(), None, "{queue:?}");
        }
    }

    #[test]
    fn what_a_classic_mark_took_comes_back_on_cubics_curve() {
        let mut marks = Marks::new(Weight::Fair, Share::WHOLE);
        let queue = Span::from_millis(6);
        run(&mut marks, 1, 10, 0.0, queue);
        run(&mut marks, 11, 1, 0.01, queue);
        // 50 of 333 segments are gone for K = (50 / 0.4)^(1/3) = 5 s; in half of that all but an eighth is back.
        let half = run(&mut marks, 12, 250, 0.0, Span::ZERO).as_f64() / 100e6;
        assert!((half - (1.0 - 0.15 / 8.0)).abs() < 0.006, "{half}");
        // Marked again before it is back, it aims a little lower.
        let mut marks = Marks::new(Weight::Fair, Share::WHOLE);
        run(&mut marks, 1, 10, 0.0, queue);
        run(&mut marks, 11, 1, 0.01, queue);
        run(&mut marks, 12, 15, 0.0, Span::ZERO);
        let from = run(&mut marks, 27, 1, 0.0, queue).as_f64();
        assert!(from < BACK_SHARE * 100e6, "{from}");
        run(&mut marks, 28, 1, 0.01, queue);
        assert!(
            (marks.before / from - 0.925).abs() < 0.01,
            "{}",
            marks.before
        );
    }

    #[test]
    fn background_gives_way_further() {
        let left = |weight| {
            let mut marks = Marks::new(weight, Share::WHOLE);
            run(&mut marks, 1, 300, 0.1, Span::from_millis(1)).as_f64()
        };
        assert!(left(Weight::Least) < left(Weight::Fair) / 2.0);
    }

    /// At the same probability of marks shares are what Reno gets of a queue that drops with the coupled one.
    #[test]
    fn growth_is_that_of_the_others() {
        let marks = |fine: bool| Marks {
            queue: Some(if fine { 0.001 } else { 0.009 }),
            ..Marks::new(Weight::Fair, Share::WHOLE)
        };
        let (rate, round) = (1e9, 0.08);
        let window: f64 = rate * round / SEGMENT_BITS;
        // CUBIC: 1.054 (T/p)^(3/4) = W; per round trip W p' at p = p'^2.
        let p = round * (1.054 / window).powf(4.0 / 3.0);
        let fine = marks(true).growth(rate, round) * round / SEGMENT_BITS;
        let wanted = (window * p.sqrt()).min(GROWTH_MOST * window.sqrt());
        assert!((fine / wanted - 1.0).abs() < 0.02, "{fine} {wanted}");
        // A loss takes 0.15 here: W p of them in a round trip.
        let classic = marks(false).growth(rate, round) * round / SEGMENT_BITS;
        let wanted = 0.15 * window * window * p;
        assert!((classic / wanted - 1.0).abs() < 0.02, "{classic} {wanted}");
    }

    #[test]
    fn marks_that_cannot_be_believed_any_more_limit_nothing() {
        let mut marks = Marks::new(Weight::Fair, Share::WHOLE);
        run(&mut marks, 1, 100, 0.1, Span::from_millis(1));
        assert!(marks.ceiling().is_some());
        marks.forget();
        assert_eq!(marks.ceiling(), None);
    }
}
