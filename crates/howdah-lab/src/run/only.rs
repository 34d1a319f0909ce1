//! Cells that are asked for by a value of an axis, `--only rtt=50ms,100ms`.

use crate::scenario::Plan;
use std::collections::BTreeMap;
use std::str::FromStr;

/// Values of one axis; a cell is asked for if it has one of them.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Only {
    /// Name of the axis, as results have it.
    pub axis: String,
    /// Labels of its values; one with commas in it ("cubic, then reno") is several here, one behind the other.
    pub values: Vec<String>,
}

/// What stands between the commas of a label.
fn pieces(label: &str) -> Vec<&str> {
    label.split(',').map(str::trim).collect()
}

/// The longest of the labels that `values` begin with.
fn longest<'a>(labels: &'a [Vec<&'a str>], values: &[String]) -> Option<&'a Vec<&'a str>> {
    let begins = |label: &&Vec<&str>| {
        values
            .get(..label.len())
            .is_some_and(|own| own == &label[..])
    };
    labels.iter().filter(begins).max_by_key(|label| label.len())
}

impl FromStr for Only {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = text.split_once('=').map(|(axis, values)| Self {
            axis: axis.trim().to_owned(),
            values: values.split(',').map(|v| v.trim().to_owned()).collect(),
        });
        known
            .filter(|only| !only.axis.is_empty() && only.values.iter().all(|v| !v.is_empty()))
            .ok_or_else(|| "write AXIS=VALUE or AXIS=VALUE,VALUE, like rtt=50ms,100ms".to_owned())
    }
}

impl Only {
    /// # Errors
    ///
    /// As [`check`](Self::check) of each; and if no cell of the plan has one of the values of each.
    pub fn check_all(all: &[Self], plan: &Plan) -> Result<(), String> {
        all.iter().try_for_each(|only| only.check(plan))?;
        let wanted = |at: &BTreeMap<String, String>| all.iter().all(|only| only.has(at));
        if all.is_empty() || plan.cells().any(|cell| wanted(&cell.at)) {
            return Ok(());
        }
        let each = all
            .iter()
            .map(|only| format!("{}={}", only.axis, only.values.join(",")));
        let each: Vec<String> = each.collect();
        Err(format!(
            "no cell has {}; several values of one axis stand behind each other, with commas",
            each.join(" and ")
        ))
    }

    /// Of a cell's place in the matrix: label by axis.
    pub fn has(&self, at: &BTreeMap<String, String>) -> bool {
        let label = at.get(&self.axis);
        label.is_some_and(|label| {
            let pieces = pieces(label);
            self.values.windows(pieces.len()).any(|own| own == pieces)
        })
    }

    /// # Errors
    ///
    /// What there is, if the plan has no such axis or no such value of it.
    pub fn check(&self, plan: &Plan) -> Result<(), String> {
        let axes = || plan.experiments.iter().flat_map(|one| &one.axes);
        let mut labels: Vec<&str> = axes()
            .filter(|(name, _)| *name == self.axis)
            .flat_map(|(_, labels)| labels.iter().map(String::as_str))
            .collect();
        if labels.is_empty() {
            let mut names: Vec<&str> = axes().map(|(name, _)| name.as_str()).collect();
            names.sort_unstable();
            names.dedup();
            return Err(format!(
                "there is no axis '{}'; the axes are: {}",
                self.axis,
                names.join(", ")
            ));
        }
        let known: Vec<Vec<&str>> = labels.iter().map(|label| pieces(label)).collect();
        let mut left = &self.values[..];
        while let Some(label) = longest(&known, left) {
            left = &left[label.len()..];
        }
        match left.first() {
            None => Ok(()),
            Some(value) => {
                let mut seen = std::collections::BTreeSet::new();
                labels.retain(|label| seen.insert(*label));
                Err(format!(
                    "the axis '{}' has no value '{value}'; it has: {}",
                    self.axis,
                    labels.join(", ")
                ))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Experiment;

    fn only(text: &str) -> Only {
        text.parse().unwrap()
    }

    #[test]
    fn it_is_an_axis_and_values_of_it() {
        let two = only("rtt=50ms, 100ms");
        assert_eq!(two.axis, "rtt");
        assert_eq!(two.values, ["50ms", "100ms"]);
        for bad in ["rtt", "=50ms", "rtt=", "rtt=50ms,,100ms"] {
            assert!(bad.parse::<Only>().unwrap_err().contains("AXIS=VALUE"));
        }
        let at = |labels: &[(&str, &str)]| {
            let owned = |(axis, label): &(&str, &str)| ((*axis).to_owned(), (*label).to_owned());
            labels.iter().map(owned).collect()
        };
        assert!(!two.has(&at(&[("loss", "1%")])));
        assert!(two.has(&at(&[("loss", "1%"), ("rtt", "100ms")])));
        assert!(!two.has(&at(&[("rtt", "200ms")])));
        let pair = only("company=cubic, then reno,reno alone");
        assert!(pair.has(&at(&[("company", "cubic, then reno")])));
        assert!(pair.has(&at(&[("company", "reno alone")])));
        assert!(!pair.has(&at(&[("company", "reno, then cubic")])));
    }

    #[test]
    fn what_no_experiment_has_is_named() {
        let values = ["0ms", "50ms"].map(str::to_owned).to_vec();
        let plan = Plan {
            experiments: vec![Experiment {
                axes: vec![("rtt".to_owned(), values), ("loss".to_owned(), Vec::new())],
                ..Experiment::default()
            }],
            ..Plan::default()
        };
        assert_eq!(only("rtt=50ms").check(&plan), Ok(()));
        let labels = ["cubic, then reno", "reno, then cubic"].map(str::to_owned);
        let pairs = Plan {
            experiments: vec![Experiment {
                axes: vec![("company".to_owned(), labels.to_vec())],
                ..Experiment::default()
            }],
            ..Plan::default()
        };
        let both = "company=reno, then cubic,cubic, then reno";
        assert_eq!(only(both).check(&pairs), Ok(()));
        let error = only("company=cubic,reno").check(&pairs).unwrap_err();
        assert!(
            error.contains("has no value 'cubic'; it has: cubic, then"),
            "{error}"
        );
        let error = only("rt=50ms").check(&plan).unwrap_err();
        assert_eq!(error, "there is no axis 'rt'; the axes are: loss, rtt");
        let error = only("rtt=50").check(&plan).unwrap_err();
        assert_eq!(error, "the axis 'rtt' has no value '50'; it has: 0ms, 50ms");
    }
}
