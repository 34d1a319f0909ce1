//! Several campaigns as one: what belongs together, and what must not be mixed.
//!
//! Two campaigns may complete each other: other experiments, other cells, other seeds, the testbed beside the simulator. They may
//! also have the same place of the same experiment twice, by another scenario or by another commit. Such cells are no
//! seeds of one configuration: [`together`] tells them apart by an axis of their own, so that they stand beside each
//! other, and [`mixed`] names them for whoever cannot show that.

use crate::result::CellResult;
use std::collections::{BTreeMap, BTreeSet};

/// The axis that tells campaigns apart.
pub const AXIS: &str = "campaign";

/// Where a cell stands, whatever its seed.
type Place<'c> = (&'c str, &'c str, &'c BTreeMap<String, String>);

fn place(cell: &CellResult) -> Place<'_> {
    (&cell.testbed, &cell.experiment, &cell.at)
}

/// Experiments of a testbed that more than one campaign has in the same place with another scenario or commit.
fn clashes<'c>(campaigns: &[&'c [CellResult]]) -> BTreeSet<(&'c str, &'c str)> {
    let mut known: BTreeMap<Place<'c>, Vec<(usize, &'c CellResult)>> = BTreeMap::new();
    for (number, cells) in campaigns.iter().enumerate() {
        for cell in *cells {
            known.entry(place(cell)).or_default().push((number, cell));
        }
    }
    let differ = |all: &[(usize, &CellResult)]| {
        all.iter().enumerate().any(|(at, (number, cell))| {
            let later = &all[at + 1..];
            (later.iter()).any(|(other, next)| other != number && !is_same(cell, next))
        })
    };
    (known.iter())
        .filter(|(_, all)| differ(all))
        .map(|((testbed, experiment, _), _)| (*testbed, *experiment))
        .collect()
}

/// One configuration, run by one commit. Results of before designs were written down are the same only where the cell is.
fn is_same(one: &CellResult, other: &CellResult) -> bool {
    let design = if one.design.is_empty() || other.design.is_empty() {
        one.id == other.id || one.seed != other.seed
    } else {
        one.design == other.design
    };
    design && one.commit == other.commit
}

/// Experiments that cannot be taken together, for people; empty where all can.
pub fn mixed(campaigns: &[&[CellResult]]) -> String {
    let names: BTreeSet<&str> = clashes(campaigns)
        .into_iter()
        .map(|clash| clash.1)
        .collect();
    names.into_iter().collect::<Vec<_>>().join(", ")
}

/// The cells of all campaigns, each with its name. A cell that is in two of them counts once; experiments that more than
/// one campaign has by another scenario or commit get an axis [`AXIS`] with the names as its values.
pub fn together(campaigns: Vec<(String, Vec<CellResult>)>) -> Vec<CellResult> {
    let views: Vec<&[CellResult]> = campaigns.iter().map(|(_, cells)| &**cells).collect();
    let clashes: BTreeSet<(String, String)> = clashes(&views)
        .into_iter()
        .map(|(testbed, experiment)| (testbed.to_owned(), experiment.to_owned()))
        .collect();
    let mut seen = BTreeSet::new();
    let mut all = Vec::new();
    for (name, cells) in campaigns {
        for mut cell in cells {
            if clashes.contains(&(cell.testbed.clone(), cell.experiment.clone())) {
                cell.at.insert(AXIS.to_owned(), name.clone());
            }
            let key = (
                cell.testbed.clone(),
                cell.id.clone(),
                cell.commit.clone(),
                cell.at.get(AXIS).cloned(),
            );
            if cell.id.is_empty() || seen.insert(key) {
                all.push(cell);
            }
        }
    }
    all
}

/// Names for campaigns: the last parts of their directories, as many as tell them apart.
pub fn names(dirs: &[&std::path::Path]) -> Vec<String> {
    let parts = |dir: &std::path::Path, take: usize| {
        let parts: Vec<_> = dir
            .components()
            .map(|part| part.as_os_str().to_string_lossy())
            .collect();
        parts[parts.len().saturating_sub(take)..].join("/")
    };
    let longest = dirs
        .iter()
        .map(|dir| dir.components().count())
        .max()
        .unwrap_or(1);
    for take in 1..longest {
        let names: Vec<String> = dirs.iter().map(|dir| parts(dir, take)).collect();
        if names.iter().collect::<BTreeSet<_>>().len() == dirs.len() {
            return names;
        }
    }
    dirs.iter().map(|dir| dir.display().to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn cell(id: &str, design: &str, seed: u64, commit: &str) -> CellResult {
        CellResult {
            id: id.to_owned(),
            design: design.to_owned(),
            experiment: "X".to_owned(),
            at: [("protocol".to_owned(), "reno".to_owned())].into(),
            testbed: "sim".to_owned(),
            seed,
            commit: commit.to_owned(),
            ..CellResult::default()
        }
    }

    fn axis(cells: &[CellResult]) -> Vec<Option<&str>> {
        (cells.iter())
            .map(|cell| cell.at.get(AXIS).map(String::as_str))
            .collect()
    }

    fn both(one: CellResult, other: CellResult) -> Vec<CellResult> {
        together(vec![
            ("a".to_owned(), vec![one]),
            ("b".to_owned(), vec![other]),
        ])
    }

    #[test]
    fn another_scenario_or_commit_is_another_column_and_no_seed() {
        let base = || cell("1", "d", 1, "c");
        // 300 and 100 Mbit/s under one id.
        let found = both(base(), cell("2", "e", 2, "c"));
        assert_eq!(axis(&found), [Some("a"), Some("b")]);
        // Before and after a change.
        let found = both(base(), cell("1", "d", 1, "later"));
        assert_eq!(axis(&found), [Some("a"), Some("b")]);
        let views = [&[base()][..], &[cell("1", "d", 1, "later")][..]];
        assert_eq!(mixed(&views), "X");
    }

    #[test]
    fn more_seeds_of_one_configuration_are_more_seeds() {
        let found = both(cell("1", "d", 1, "c"), cell("2", "d", 2, "c"));
        assert_eq!(axis(&found), [None, None]);
        // The same cell twice is one.
        let found = both(cell("1", "d", 1, "c"), cell("1", "d", 1, "c"));
        assert_eq!(found.len(), 1);
        // The testbed's beside the simulator's.
        let real = CellResult {
            testbed: "netns".to_owned(),
            ..cell("1", "d", 1, "other")
        };
        assert_eq!(axis(&both(cell("1", "d", 1, "c"), real)), [None, None]);
        assert_eq!(mixed(&[&[cell("1", "d", 1, "c")]]), "");
    }

    #[test]
    fn campaigns_are_called_by_what_tells_them_apart() {
        let of = |dirs: [&str; 2]| names(&dirs.map(Path::new));
        assert_eq!(of(["results/a", "results/b"]), ["a", "b"]);
        assert_eq!(of(["old/jgn06", "new/jgn06"]), ["old/jgn06", "new/jgn06"]);
    }
}
