//! From figures of single protocols to a verdict on a sentence about all of them.

use super::words::{BOUND_TOLERANCE, CLEARLY, NUMBER_FACTOR, NUMBER_TOLERANCE, SAME, SHAPE_SHARE};
use super::{Finding, Kind, Verdict};

/// The high-speed TCPs of JGN06.
pub(crate) const HIGH_SPEED: &[&str] = &["hstcp", "scalable", "fast", "cubic2005", "htcp"];
/// JGN06's UDT.
pub(crate) const UDT: &str = "udt2";
/// Standard TCP.
pub(crate) const STANDARD: &str = "reno";
/// What is shown beside the papers' protocols, without a part in any verdict.
pub(crate) const TODAY: &[&str] = &["howdah", "cubic", "bbr1", "bbr3"];

/// What one protocol, or one part of a sentence, says about a statement.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Mark {
    Yes,
    Partly,
    No,
}

impl Mark {
    /// Yes from `yes` on, partly from `partly` on.
    pub(crate) fn at_least(value: f64, yes: f64, partly: f64) -> Self {
        if value >= yes {
            Self::Yes
        } else if value >= partly {
            Self::Partly
        } else {
            Self::No
        }
    }

    /// Yes up to `yes`, partly up to `partly`.
    pub(crate) fn at_most(value: f64, yes: f64, partly: f64) -> Self {
        Self::at_least(-value, -yes, -partly)
    }

    /// Yes or no.
    pub(crate) const fn when(yes: bool) -> Self {
        if yes { Self::Yes } else { Self::No }
    }

    /// The worse of two.
    pub(crate) const fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::No, _) | (_, Self::No) => Self::No,
            (Self::Partly, _) | (_, Self::Partly) => Self::Partly,
            _ => Self::Yes,
        }
    }

    pub(crate) const fn sign(self) -> &'static str {
        match self {
            Self::Yes => "",
            Self::Partly => " (partly)",
            Self::No => " (no)",
        }
    }
}

/// What one protocol shows: figures and mark. `None` without data.
pub(crate) type Case = Option<(String, Mark)>;

/// A sentence about every one of `names`.
pub(crate) fn each(experiment: &str, names: &[&str], case: impl Fn(&str) -> Case) -> Finding {
    let mut finding = Finding {
        run: file(experiment),
        ..Finding::default()
    };
    let mut ours = Vec::new();
    for &name in names {
        if let Some((figures, mark)) = case(name) {
            ours.push(format!("{name} {figures}{}", mark.sign()));
            finding.marks.push(mark);
        } else {
            finding.missing.push(name.to_owned());
        }
    }
    finding.ours = ours.join(", ");
    let today: Vec<String> = TODAY
        .iter()
        .filter(|name| !names.contains(name))
        .filter_map(|name| {
            case(name).map(|(figures, mark)| format!("{name} {figures}{}", mark.sign()))
        })
        .collect();
    if !today.is_empty() {
        finding.note = format!("today: {}", today.join(", "));
    }
    finding
}

/// A sentence about one thing.
pub(crate) fn one(experiment: &str, what: &str, case: Case) -> Finding {
    let mut finding = Finding {
        run: file(experiment),
        ..Finding::default()
    };
    match case {
        Some((ours, mark)) => {
            finding.ours = ours;
            finding.marks.push(mark);
        }
        None => finding.missing.push(what.to_owned()),
    }
    finding
}

/// The rule of [`words`](super::words).
pub(crate) fn verdict(kind: Kind, marks: &[Mark]) -> Verdict {
    let all = marks.len();
    let yes = marks.iter().filter(|&&m| m == Mark::Yes).count();
    let some = marks.iter().filter(|&&m| m != Mark::No).count();
    let in_shape = match kind {
        Kind::Bound => some == all,
        _ if all == 1 => some == 1,
        _ => 2 * yes >= all && some as f64 >= SHAPE_SHARE * all as f64 - 1e-9,
    };
    if yes == all {
        Verdict::Holds
    } else if in_shape {
        Verdict::ShapeHolds
    } else {
        Verdict::Fails
    }
}

/// A number that the paper gives.
pub(crate) fn number(ours: f64, stated: f64) -> Mark {
    let ratio = ours / stated;
    if (ratio - 1.0).abs() <= NUMBER_TOLERANCE {
        Mark::Yes
    } else if (1.0 / NUMBER_FACTOR..=NUMBER_FACTOR).contains(&ratio) {
        Mark::Partly
    } else {
        Mark::No
    }
}

/// Two figures of which the first is to be the larger one, by their ratio.
pub(crate) fn order(ratio: f64) -> Mark {
    Mark::at_least(ratio, CLEARLY, 1.0 + SAME)
}

/// Not below a bound.
pub(crate) fn from(value: f64, bound: f64) -> Mark {
    Mark::at_least(value, bound, bound * (1.0 - BOUND_TOLERANCE))
}

/// Not above a bound.
pub(crate) fn up_to(value: f64, bound: f64) -> Mark {
    Mark::at_most(value, bound, bound * (1.0 + BOUND_TOLERANCE))
}

/// The scenario to run for an experiment of JGN06.
fn file(experiment: &str) -> String {
    experiment
        .strip_prefix("J-")
        .map_or_else(String::new, |name| {
            format!("scenarios/jgn06/{}.toml", name.to_lowercase())
        })
}

/// Mbit/s for the table.
pub(crate) fn mbit(bps: f64) -> String {
    format!("{:.0}", bps / 1e6)
}

/// What a rate gained or, with a minus, lost, in Mbit/s for the table.
pub(crate) fn mbit_change(bps: f64) -> String {
    signed(format!("{:+.0}", bps / 1e6))
}

/// What was gained or, with a minus, lost, in per cent for the table.
pub(crate) fn percent_change(share: f64) -> String {
    signed(format!("{:+.0} %", share * 100.0))
}

/// Nothing is neither.
fn signed(text: String) -> String {
    match text.as_bytes() {
        [b'+' | b'-', b'0'] | [b'+' | b'-', b'0', b' ', ..] => text[1..].to_owned(),
        _ => text,
    }
}

/// A share in per cent for the table.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_have_one_sign_and_nothing_has_none() {
        for (share, text) in [
            (0.053, "+5 %"),
            (-0.4, "-40 %"),
            (0.004, "0 %"),
            (-0.001, "0 %"),
        ] {
            assert_eq!(percent_change(share), text);
        }
        for (bps, text) in [(19e6, "+19"), (-2.6e6, "-3"), (-0.2e6, "0")] {
            assert_eq!(mbit_change(bps), text);
        }
    }
}
