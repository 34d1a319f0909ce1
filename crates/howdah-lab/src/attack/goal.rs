//! What an attack wants, and how near a run comes to it.

use howdah_report::result::CellResult;
use std::str::FromStr;

/// What an attack looks for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Goal {
    /// A neighbour, beside whom the subject gets least.
    Starve,
    /// A neighbour who gets least beside the subject.
    Unfair,
    /// A path on which the subject, alone, stands still or crawls.
    Stall,
    /// A path whose queue the subject, alone, makes overflow most.
    Overshoot,
}

impl FromStr for Goal {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|goal| goal.name() == text);
        known.ok_or_else(|| "the goals are starve, unfair, stall and overshoot".to_owned())
    }
}

impl Goal {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Starve, Self::Unfair, Self::Stall, Self::Overshoot];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Starve => "starve",
            Self::Unfair => "unfair",
            Self::Stall => "stall",
            Self::Overshoot => "overshoot",
        }
    }

    /// Whether somebody else must be there.
    pub(super) const fn needs_neighbour(self) -> bool {
        matches!(self, Self::Starve | Self::Unfair)
    }

    /// How near a run came: 0 is not at all, 1 as near as can be. `bound_bps` is what a single flow could have of the path at
    /// its worst.
    ///
    /// - starve, unfair: what is missing of half of that, behind the warm-up;
    /// - stall: what is missing of it in the worst second behind the warm-up;
    /// - overshoot: share of the packets that a queue had no room for, over the whole run.
    pub(super) fn score(self, result: &CellResult, bound_bps: f64, warmup_s: f64) -> f64 {
        let missing = |bps: f64, of: f64| (1.0 - bps / of).clamp(0.0, 1.0);
        let flow = |name: &str| result.flows.iter().find(|flow| flow.name == name);
        let steady = |name: &str| flow(name).map_or(0.0, |flow| flow.steady_goodput_bps);
        match self {
            Self::Starve => missing(steady("subject"), bound_bps / 2.0),
            Self::Unfair => missing(steady("neighbour"), bound_bps / 2.0),
            Self::Stall => {
                let course = flow("subject").map_or(&[][..], |flow| &flow.intervals);
                let rates: Vec<f64> = course
                    .iter()
                    .filter(|interval| interval.t_s > warmup_s)
                    .map(|interval| interval.goodput_bps)
                    .collect();
                let seconds = rates.windows(2).map(|pair| f64::midpoint(pair[0], pair[1]));
                missing(seconds.min_by(f64::total_cmp).unwrap_or(0.0), bound_bps)
            }
            Self::Overshoot => {
                let forward = result.links.iter().find(|link| link.name == "main/forward");
                forward.map_or(0.0, |link| {
                    link.queue_drops as f64 / (link.offered_packets.max(1)) as f64
                })
            }
        }
    }

    /// A score in words.
    pub fn told(self, score: f64) -> String {
        let percent = score * 100.0;
        match self {
            Self::Starve => format!("the subject lacks {percent:.1} % of half the link"),
            Self::Unfair => format!("the neighbour lacks {percent:.1} % of half the link"),
            Self::Stall => {
                format!("in its worst second the subject lacks {percent:.1} % of the link")
            }
            Self::Overshoot => format!("the queue had no room for {percent:.2} % of the packets"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_report::result::{FlowResult, Interval, LinkResult};

    fn flow(name: &str, bps: f64, course: &[f64]) -> FlowResult {
        let interval = |(k, bps): (usize, &f64)| Interval {
            t_s: (k + 1) as f64 / 2.0,
            goodput_bps: *bps,
            ..Interval::default()
        };
        FlowResult {
            name: name.to_owned(),
            steady_goodput_bps: bps,
            intervals: course.iter().enumerate().map(interval).collect(),
            ..FlowResult::default()
        }
    }

    #[test]
    fn each_goal_is_scored_by_hand() {
        let result = CellResult {
            flows: vec![
                flow("subject", 10.0, &[0.0, 0.0, 90.0, 100.0, 20.0, 40.0, 90.0]),
                flow("neighbour", 90.0, &[]),
            ],
            links: vec![LinkResult {
                name: "main/forward".to_owned(),
                offered_packets: 200,
                queue_drops: 5,
                ..LinkResult::default()
            }],
            ..CellResult::default()
        };
        let score = |goal: Goal| goal.score(&result, 100.0, 1.0);
        assert!((score(Goal::Starve) - 0.8).abs() < 1e-9);
        assert!(score(Goal::Unfair).abs() < 1e-9);
        // The two halves of the warm-up do not count; 20 and 40 are the worst second.
        assert!((score(Goal::Stall) - 0.7).abs() < 1e-9);
        assert!((score(Goal::Overshoot) - 0.025).abs() < 1e-9);
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        for goal in Goal::ALL {
            assert_eq!(goal.name().parse(), Ok(goal));
        }
        assert!("win".parse::<Goal>().unwrap_err().contains("overshoot"));
    }
}
