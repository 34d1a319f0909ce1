//! A window that grows as CUBIC's does (RFC 9438): how a flow holds its own beside flows that fill queues.
//!
//! The cut is gentler than CUBIC's and the growth slower by as much, so that the average window is the same where both see
//! the same losses (RFC 9438 section 5.1: `C (3 + β) / (4 (1 - β))` is kept), and less of the path stands empty after a cut.

use howdah_core::{Span, Time};

/// RFC 9438: packets per cubic second, and what is left after a loss.
const CUBIC_C: f64 = 0.4;
const CUBIC_BETA: f64 = 0.7;

/// Growth by packets per round trip is meant for wide networks; next door it would be a flood.
const RTT_MIN: Span = Span::from_millis(5);

/// Who is hungry grows by no more than this share in a round trip, and once so long has passed since the last cut.
const HUNGER: f64 = 0.15;
const HUNGRY_AFTER: Span = Span::from_millis(600);

/// What is kept of the largest window with each cut.
const PEAK_KEPT: f64 = 0.9;

/// Growth since the last cut, in packets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Climb {
    cut_at: Time,
    /// Where the last climb ended; the plateau of this one.
    most: f64,
    /// Seconds from the cut to the plateau.
    until_plateau: f64,
    beta: f64,
    /// What Reno would have, with the same average (RFC 9438 section 4.3), and when that was counted.
    reno: f64,
    counted: Time,
    /// The window before the cut.
    prior: f64,
    /// The largest of the windows before the last cuts, less the longer ago that is.
    peak: f64,
    window: f64,
}

/// `C` for another cut than CUBIC's.
fn growth(beta: f64) -> f64 {
    let average = |b: f64| (3.0 + b) / (4.0 * (1.0 - b));
    CUBIC_C * average(CUBIC_BETA) / average(beta)
}

impl Climb {
    /// From `window` packets, of which `beta` is left. `before` is the climb that ended.
    pub(super) fn after_cut(now: Time, window: f64, beta: f64, before: Option<&Self>) -> Self {
        // Fast convergence: who is cut below where he was leaves more to others.
        let shrank = before.is_some_and(|b| window < b.most);
        let most = if shrank {
            window * (1.0 + beta) / 2.0
        } else {
            window
        };
        let left = window * beta;
        Self {
            cut_at: now,
            most,
            until_plateau: ((most - left).max(0.0) / growth(beta)).cbrt(),
            beta,
            reno: left,
            counted: now,
            prior: window,
            peak: before.map_or(window, |b| window.max(b.peak * PEAK_KEPT)),
            window: left,
        }
    }

    /// The window now, at a round trip of `rtt`. `hunger`: the most packets that are added in a round trip since this flow has far less than
    /// its part, as beside BBR, whose probes cost CUBIC a cut each two or three seconds and BBR next to nothing.
    pub(super) fn window(&mut self, now: Time, rtt: Span, hunger: f64) -> f64 {
        let alpha = if self.reno < self.prior {
            3.0 * (1.0 - self.beta) / (1.0 + self.beta)
        } else {
            1.0
        };
        let rtts = now.since(self.counted).as_secs_f64() / rtt.max(RTT_MIN).as_secs_f64();
        self.reno += alpha * rtts;
        if hunger > 0.0 && now.since(self.cut_at) > HUNGRY_AFTER {
            let window = self.reno.max(self.window);
            self.reno = window + (HUNGER * window).min(hunger) * rtts;
        }
        self.counted = now;
        let passed = now.since(self.cut_at).as_secs_f64() - self.until_plateau;
        let cubic = growth(self.beta) * passed.powi(3) + self.most;
        // (RFC 9438 section 4.2: no more than half as much again in a round trip.)
        let most = self.window.max(0.1) * (1.0 + 0.5 * rtts.min(1.0));
        self.window = cubic.max(self.reno).min(most);
        self.window
    }

    /// It has grown clearly above where the last climbs ended. (Who is cut again and again is soon above the last one.)
    pub(super) fn is_past_plateau(&self) -> bool {
        self.window > 1.1 * self.peak.max(self.most)
    }

    pub(super) fn cut_at(&self) -> Time {
        self.cut_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> Time {
        Time::ZERO + Span::from_secs_f64(seconds)
    }

    /// RFC 9438 section 4.2: after a cut the window is back at the plateau after K, and grows faster and faster from there.
    #[test]
    fn it_is_back_at_the_plateau_in_time() {
        let rtt = Span::from_millis(100);
        let mut climb = Climb::after_cut(at(0.0), 1_000.0, CUBIC_BETA, None);
        let k = (1_000.0 * (1.0 - CUBIC_BETA) / CUBIC_C).cbrt();
        let mut seen = Vec::new();
        for step in 0..200 {
            let now = f64::from(step) * 0.1;
            let window = climb.window(at(now), rtt, 0.0);
            if (now - k).abs() < 0.05 {
                seen.push(window);
            }
        }
        assert!(
            seen.iter().all(|w| (w - 1_000.0).abs() < 2.0) && !seen.is_empty(),
            "{seen:?}"
        );
        assert!(climb.is_past_plateau());
        // A gentler cut grows by as much less (section 5.1).
        assert!(growth(0.85) < 0.5 * growth(CUBIC_BETA));
        assert!((growth(CUBIC_BETA) - CUBIC_C).abs() < 1e-9);
    }

    #[test]
    fn who_is_hungry_grows_quickly_once_the_overflow_is_over() {
        let rtt = Span::from_millis(100);
        let (mut hungry, mut calm) = (
            Climb::after_cut(at(0.0), 1_000.0, 0.75, None),
            Climb::after_cut(at(0.0), 1_000.0, 0.75, None),
        );
        let mut gain = |seconds: f64| {
            let (now, mut gain) = (at(seconds), 0.0);
            for step in 1..=10 {
                let now = now + Span::from_millis(100) * step;
                gain = hungry.window(now, rtt, f64::INFINITY) / calm.window(now, rtt, 0.0);
            }
            gain
        };
        // A second of which a part is within the time of the overflow, and one that is not.
        let (first, second) = (gain(0.0), gain(1.0));
        assert!((1.2..2.5).contains(&first), "{first}");
        assert!(second > 2.5 * first, "{first}, then {second}");
    }

    #[test]
    fn equal_hunger_adds_as_much_whatever_the_window() {
        let rtt = Span::from_millis(100);
        let grown = |window: f64| {
            let mut climb = Climb::after_cut(at(0.0), window, 0.75, None);
            let before = climb.window(at(1.0), rtt, 0.0);
            climb.window(at(1.1), rtt, 20.0) - before
        };
        let (small, large) = (grown(400.0), grown(4_000.0));
        assert!((15.0..40.0).contains(&small), "{small}");
        assert!(large < 2.0 * small, "{small}, {large}");
    }

    #[test]
    fn who_is_cut_again_and_again_is_not_past_a_plateau_soon() {
        let rtt = Span::from_millis(100);
        let mut climb = Climb::after_cut(at(0.0), 1_000.0, 0.75, None);
        for n in 1..=4 {
            let window = climb.window(at(0.5 * f64::from(n)), rtt, 0.0);
            climb = Climb::after_cut(at(0.5 * f64::from(n)), window, 0.75, Some(&climb));
        }
        let at_last_plateau = (20..200).find(|&n| {
            let window = climb.window(at(f64::from(n) * 0.1), rtt, 0.0);
            window > 1.1 * climb.most
        });
        assert!(at_last_plateau.is_some() && !climb.is_past_plateau());
    }

    #[test]
    fn who_is_cut_below_where_he_was_leaves_more() {
        let rtt = Span::from_millis(100);
        let mut climb = Climb::after_cut(at(0.0), 1_000.0, 0.75, None);
        let window = climb.window(at(0.1), rtt, 0.0);
        let next = Climb::after_cut(at(0.1), window, 0.75, Some(&climb));
        assert!(next.most < window, "{next:?}");
        assert_eq!(next.cut_at(), at(0.1));
    }
}
