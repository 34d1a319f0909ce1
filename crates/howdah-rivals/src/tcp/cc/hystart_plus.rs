//! HyStart++: slow start that slows down on a rise in delay, and ends if the rise was no mistake.
//!
//! Source: RFC 9406, sections 4.2 (algorithm) and 4.3 (constants). Rounds are windows of data. If
//! the least RTT of a round is above that of the round before by clamp(RTT/8, 4 ms, 16 ms), seen
//! on 8 samples or more, growth falls to a quarter: conservative slow start (CSS). If the RTT falls
//! below what it was at that moment, slow start goes on as before; after 5 rounds of CSS it ends.

use super::Ack;
use howdah_core::Span;

/// `MIN_RTT_THRESH`.
const LEAST_RISE: Span = Span::from_millis(4);
/// `MAX_RTT_THRESH`.
const MOST_RISE: Span = Span::from_millis(16);
/// `MIN_RTT_DIVISOR`.
const RISE_DIVISOR: u64 = 8;
/// `N_RTT_SAMPLE`.
const SAMPLES: u32 = 8;
/// `CSS_GROWTH_DIVISOR`.
pub(super) const CSS_GROWTH_DIVISOR: f64 = 4.0;
/// `CSS_ROUNDS`.
const CSS_ROUNDS: u32 = 5;
/// L for a sender that does not pace: segments that one acknowledgement counts at most.
pub(super) const SEGMENTS_PER_ACK: u32 = 8;

/// Conservative slow start.
#[derive(Clone, Copy, Debug)]
struct Css {
    baseline: Span,
    rounds_left: u32,
}

/// What an acknowledgement does to slow start.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Verdict {
    /// The window grows as in slow start.
    Grow,
    /// It grows by a part of that: [`CSS_GROWTH_DIVISOR`].
    GrowSlowly,
    /// Slow start ends, with the window as it is.
    End,
}

/// Paces and ends the initial slow start.
#[derive(Clone, Debug)]
pub(super) struct HyStartPlus {
    /// The round ends when more than so many segments of the connection are delivered.
    round_ends_at: u64,
    last_round: Option<Span>,
    this_round: Option<Span>,
    samples: u32,
    css: Option<Css>,
}

impl HyStartPlus {
    pub(super) const fn new() -> Self {
        Self {
            round_ends_at: 0,
            last_round: None,
            this_round: None,
            samples: 0,
            css: None,
        }
    }

    /// An acknowledgement in slow start.
    pub(super) fn on_ack(&mut self, ack: &Ack) -> Verdict {
        if ack.total_delivered_segments > self.round_ends_at && self.start_round(ack) {
            return Verdict::End;
        }
        if let Some(rtt) = ack.rtt {
            self.this_round = Some(self.this_round.map_or(rtt, |least| least.min(rtt)));
            self.samples += 1;
        }
        self.judge_delay();
        if self.css.is_some() {
            Verdict::GrowSlowly
        } else {
            Verdict::Grow
        }
    }

    fn judge_delay(&mut self) {
        let Some(this_round) = self.this_round.filter(|_| self.samples >= SAMPLES) else {
            return;
        };
        match self.css {
            Some(css) if this_round < css.baseline => self.css = None,
            Some(_) => {}
            None => {
                let Some(last_round) = self.last_round else {
                    return;
                };
                let rise = (last_round / RISE_DIVISOR).clamp(LEAST_RISE, MOST_RISE);
                if this_round >= last_round + rise {
                    self.css = Some(Css {
                        baseline: this_round,
                        rounds_left: CSS_ROUNDS,
                    });
                }
            }
        }
    }

    /// Begins a round; whether the last round of CSS is over with that.
    fn start_round(&mut self, ack: &Ack) -> bool {
        self.round_ends_at = ack.total_delivered_segments + u64::from(ack.in_flight_segments);
        self.last_round = self.this_round.take().or(self.last_round);
        self.samples = 0;
        let Some(css) = &mut self.css else {
            return false;
        };
        css.rounds_left -= 1;
        css.rounds_left == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::cc::testkit;

    /// Feeds rounds of 100 segments; returns the growth in each round, until slow start ends.
    fn growth_by_round(rtt_ms: impl Fn(u64) -> u64) -> Vec<f64> {
        let mut hystart = HyStartPlus::new();
        let mut growth = Vec::new();
        let mut delivered = 0;
        for round in 0..12 {
            let mut sum = 0.0;
            for _ in 0..100 {
                delivered += 1;
                let ack = Ack {
                    total_delivered_segments: delivered,
                    in_flight_segments: 99,
                    rtt: Some(Span::from_millis(rtt_ms(round))),
                    ..testkit::ack()
                };
                sum += match hystart.on_ack(&ack) {
                    Verdict::Grow => 1.0,
                    Verdict::GrowSlowly => 1.0 / CSS_GROWTH_DIVISOR,
                    Verdict::End => return growth,
                };
            }
            growth.push(sum);
        }
        growth
    }

    #[test]
    fn at_constant_delay_slow_start_goes_on() {
        assert_eq!(growth_by_round(|_| 100), vec![100.0; 12]);
    }

    #[test]
    fn a_lasting_rise_ends_it_after_five_slow_rounds() {
        let growth = growth_by_round(|round| if round < 3 { 100 } else { 115 });
        assert_eq!(growth[..3], [100.0; 3]);
        // Eight samples are needed, the partial round counts as one of the five.
        testkit::assert_near(growth[3], 7.0 + 93.0 / 4.0);
        assert_eq!(growth[4..], [25.0; 4]);
    }

    #[test]
    fn a_passing_rise_is_forgiven() {
        let growth = growth_by_round(|round| if round == 3 { 115 } else { 100 });
        assert!(growth[3] < 40.0, "{growth:?}");
        assert_eq!(growth.len(), 12);
        assert_eq!(growth[5..], [100.0; 7], "{growth:?}");
    }

    #[test]
    fn a_rise_below_an_eighth_is_no_rise() {
        assert_eq!(growth_by_round(|round| 100 + round), vec![100.0; 12]);
    }
}
