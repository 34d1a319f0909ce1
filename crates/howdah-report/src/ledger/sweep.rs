//! Statements in each plausible set-up: cells of a `[sweep]` are judged once for each combination of swept values.

use super::{Entry, rank};
use crate::result::CellResult;
use std::collections::{BTreeMap, BTreeSet};

/// How axes that are swept begin.
pub const SWEEP: &str = "sweep.";

/// Values of the swept axes.
type SetUp<'a> = BTreeMap<&'a str, &'a str>;

fn set_up(cell: &CellResult) -> SetUp<'_> {
    let axes = cell.at.iter().filter(|(axis, _)| axis.starts_with(SWEEP));
    axes.map(|(axis, value)| (axis.as_str(), value.as_str()))
        .collect()
}

/// The set-ups of the experiments that `concerns`; none where nothing is swept.
fn set_ups(cells: &[CellResult], concerns: impl Fn(&str) -> bool) -> BTreeSet<SetUp<'_>> {
    let own = cells.iter().filter(|cell| concerns(&cell.experiment));
    own.map(set_up)
        .filter(|set_up| !set_up.is_empty())
        .collect()
}

/// Cells as they would be if there were this set-up only. Of axes that it does not name, others' sweeps, the first value stands.
fn only(cells: &[CellResult], wanted: &SetUp<'_>) -> Vec<CellResult> {
    let mut first: SetUp<'_> = BTreeMap::new();
    for (axis, value) in cells.iter().flat_map(set_up) {
        let least = first.entry(axis).or_insert(value);
        *least = value.min(least);
    }
    let fits = |cell: &&CellResult| {
        let mut own = set_up(cell).into_iter();
        own.all(|(axis, value)| wanted.get(axis).or_else(|| first.get(axis)) == Some(&value))
    };
    let stripped = cells.iter().filter(fits).map(|cell| {
        let mut cell = cell.clone();
        cell.at.retain(|axis, _| !axis.starts_with(SWEEP));
        cell
    });
    stripped.collect()
}

/// Entries by all cells, and where an experiment is swept by each of its set-ups: the verdict is that of the middle one, the worse of
/// two, and each is kept with its name.
pub(super) fn entries(
    cells: &[CellResult],
    judge: impl Fn(&[CellResult]) -> Vec<Entry>,
) -> Vec<Entry> {
    let swept: BTreeSet<&str> = cells
        .iter()
        .filter(|cell| !set_up(cell).is_empty())
        .map(|cell| &*cell.experiment)
        .collect();
    if swept.is_empty() {
        return judge(cells);
    }
    // A run without the sweep is one of its set-ups, and would count in each as a trial more.
    let counts =
        |cell: &&CellResult| !swept.contains(&*cell.experiment) || !set_up(cell).is_empty();
    let cells: &[CellResult] = &cells.iter().filter(counts).cloned().collect::<Vec<_>>();
    let mut judged: BTreeMap<SetUp<'_>, Vec<Entry>> = BTreeMap::new();
    let mut made = judge(&only(cells, &SetUp::new()));
    for (at, entry) in made.iter_mut().enumerate() {
        let concerns = |experiment: &str| {
            experiment == entry.experiment
                || experiment.starts_with(&format!("{}-", entry.experiment))
        };
        let mut each: Vec<(String, &Entry)> = Vec::new();
        let set_ups = set_ups(cells, concerns);
        for set_up in &set_ups {
            judged
                .entry(set_up.clone())
                .or_insert_with(|| judge(&only(cells, set_up)));
        }
        for set_up in &set_ups {
            let name = set_up
                .iter()
                .map(|(axis, value)| format!("{} {value}", axis.trim_start_matches(SWEEP)));
            let name = name.collect::<Vec<_>>().join(", ");
            each.extend(
                judged
                    .get(set_up)
                    .and_then(|all| all.get(at))
                    .map(|own| (name, own)),
            );
        }
        let mut ranked: Vec<&Entry> = each
            .iter()
            .map(|(_, own)| *own)
            .filter(|own| rank(&own.verdict).is_some())
            .collect();
        ranked.sort_by_key(|own| rank(&own.verdict));
        let swept: Vec<(String, String)> = each
            .iter()
            .map(|(name, own)| (name.clone(), own.verdict.clone()))
            .collect();
        if let Some(middle) = ranked.get(ranked.len().saturating_sub(1) / 2) {
            *entry = (*middle).clone();
        }
        entry.swept = swept;
    }
    made
}

impl Entry {
    /// In what share of its plausible set-ups it holds, for people; empty where nothing is swept.
    pub fn set_ups(&self) -> String {
        let judged: Vec<usize> = self
            .swept
            .iter()
            .filter_map(|(_, verdict)| rank(verdict))
            .collect();
        if judged.is_empty() {
            return String::new();
        }
        let holds = judged.iter().filter(|&&rank| rank == 2).count();
        let in_shape = judged.iter().filter(|&&rank| rank == 1).count();
        let words = format!("holds in {holds} of {} set-ups", judged.len());
        if in_shape == 0 {
            return words;
        }
        format!("{words}, in shape in {in_shape}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(experiment: &str, at: &[(&str, &str)], seed: u64) -> CellResult {
        CellResult {
            experiment: experiment.to_owned(),
            seed,
            at: at
                .iter()
                .map(|&(axis, value)| (axis.to_owned(), value.to_owned()))
                .collect(),
            ..CellResult::default()
        }
    }

    /// A judge to whom a statement holds where its experiment has one cell with an odd seed and nothing else.
    fn judge(cells: &[CellResult]) -> Vec<Entry> {
        let entry = |experiment: &str| {
            let own: Vec<&CellResult> = cells
                .iter()
                .filter(|cell| cell.experiment == experiment)
                .collect();
            let verdict = match own[..] {
                [] => "cannot be judged",
                [one] if one.seed == 3 => "shape holds",
                [one] if one.seed % 2 == 1 => "holds",
                _ => "fails",
            };
            Entry {
                experiment: experiment.to_owned(),
                verdict: verdict.to_owned(),
                ..Entry::default()
            }
        };
        vec![entry("A"), entry("B")]
    }

    #[test]
    fn a_swept_statement_has_the_verdict_of_its_middle_set_up() {
        let cells = [
            cell("A", &[("sweep.q", "100")], 1),
            cell("A", &[("sweep.q", "2000")], 2),
            cell("A", &[("sweep.q", "9000")], 3),
            cell("B", &[], 5),
            // Also run without the sweep.
            cell("A", &[], 7),
        ];
        let made = entries(&cells, judge);
        assert_eq!(made[0].verdict, "shape holds");
        assert_eq!(made[0].set_ups(), "holds in 1 of 3 set-ups, in shape in 1");
        assert_eq!(made[0].swept[1], ("q 2000".to_owned(), "fails".to_owned()));
        // What is not swept is judged as ever.
        assert_eq!(
            (&*made[1].verdict, made[1].set_ups()),
            ("holds", String::new())
        );
    }

    #[test]
    fn of_two_set_ups_the_worse_counts_and_nothing_swept_is_nothing_changed() {
        let two = [
            cell("A", &[("sweep.q", "1")], 1),
            cell("A", &[("sweep.q", "2")], 2),
        ];
        let made = entries(&two, judge);
        assert_eq!(
            (&*made[0].verdict, &*made[0].set_ups()),
            ("fails", "holds in 1 of 2 set-ups")
        );
        let plain = [cell("A", &[("protocol", "x")], 1)];
        assert_eq!(entries(&plain, judge), judge(&plain));
    }
}
