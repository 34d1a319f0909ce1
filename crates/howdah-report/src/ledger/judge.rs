//! From figures of single protocols to a verdict on a sentence about all of them.

use super::words::{NUMBER_FACTOR, NUMBER_TOLERANCE, SHAPE_SHARE};
use super::{Finding, Verdict};

/// The high-speed TCPs of JGN06.
pub(crate) const HIGH_SPEED: &[&str] = &["hstcp", "scalable", "fast", "cubic2005", "htcp"];
/// JGN06's UDT.
pub(crate) const UDT: &str = "udt2";
/// Standard TCP.
pub(crate) const STANDARD: &str = "reno";
/// What is shown beside the papers' protocols, without a part in any verdict.
pub(crate) const TODAY: &[&str] = &["howdah", "cubic", "bbr1", "bbr3"];

/// What one protocol says about a statement.
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

    const fn sign(self) -> &'static str {
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
    let mut ours = Vec::new();
    let mut marks = Vec::new();
    let mut missing = Vec::new();
    for &name in names {
        if let Some((figures, mark)) = case(name) {
            ours.push(format!("{name} {figures}{}", mark.sign()));
            marks.push(mark);
        } else {
            missing.push(name);
        }
    }
    if marks.is_empty() || 2 * marks.len() < names.len() {
        return Finding {
            ours: ours.join(", "),
            ..missing_data(experiment, &missing)
        };
    }
    let mut notes = Vec::new();
    if !missing.is_empty() {
        notes.push(format!("not run: {}", missing.join(", ")));
    }
    let today: Vec<String> = TODAY
        .iter()
        .filter(|name| !names.contains(name))
        .filter_map(|name| {
            case(name).map(|(figures, mark)| format!("{name} {figures}{}", mark.sign()))
        })
        .collect();
    if !today.is_empty() {
        notes.push(format!("today: {}", today.join(", ")));
    }
    Finding {
        ours: ours.join(", "),
        verdict: verdict(&marks),
        note: notes.join("; "),
    }
}

/// A sentence about one thing.
pub(crate) fn one(experiment: &str, what: &str, case: Case) -> Finding {
    match case {
        Some((ours, mark)) => Finding {
            ours,
            verdict: verdict(&[mark]),
            note: String::new(),
        },
        None => missing_data(experiment, &[what]),
    }
}

/// The rule of [`words`](super::words).
pub(crate) fn verdict(marks: &[Mark]) -> Verdict {
    let yes = marks.iter().filter(|&&m| m == Mark::Yes).count();
    let some = marks.iter().filter(|&&m| m != Mark::No).count();
    if yes == marks.len() {
        Verdict::Holds
    } else if (marks.len() == 1 && some == 1)
        || (yes > 0 && some as f64 >= SHAPE_SHARE * marks.len() as f64 - 1e-9)
    {
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

fn missing_data(experiment: &str, what: &[&str]) -> Finding {
    let file = experiment
        .strip_prefix("J-")
        .map_or_else(String::new, |name| {
            format!(
                "; run: howdah lab run scenarios/jgn06/{}.toml",
                name.to_lowercase()
            )
        });
    Finding::unknown(format!("no data of {}{file}", what.join(", ")))
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
