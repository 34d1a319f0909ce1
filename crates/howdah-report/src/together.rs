//! Several campaigns as one: what belongs together, and what must not be mixed.
//!
//! Two campaigns may complete each other: other experiments, other cells, other seeds, the testbed beside the simulator. They may
//! also have the same place of the same experiment twice, by another scenario or by another commit, or by one commit with other results: the
//! sources were changed, or a testbed was asked twice. Such cells are no seeds of one configuration: [`together`] tells them apart by an
//! axis of their own, so that they stand beside each other, and [`mixed`] names them for whoever cannot show that (but for a testbed's, which
//! are more runs of one).

use crate::result::CellResult;
use std::collections::{BTreeMap, BTreeSet};

/// The axis that tells campaigns apart.
pub const AXIS: &str = "campaign";

/// The testbed on which a cell has one result, whenever a program runs it.
const SIM: &str = "sim";

/// Where a cell stands, whatever its seed.
type Place<'c> = (&'c str, &'c str, &'c BTreeMap<String, String>);

fn place(cell: &CellResult) -> Place<'_> {
    (&cell.testbed, &cell.experiment, &cell.at)
}

/// Experiments of a testbed that more than one campaign has in the same place, where two cells are not `alike`.
fn clashes<'c>(
    campaigns: &[&'c [CellResult]],
    alike: fn(&CellResult, &CellResult) -> bool,
) -> BTreeSet<(&'c str, &'c str)> {
    let mut known: BTreeMap<Place<'c>, Vec<(usize, &'c CellResult)>> = BTreeMap::new();
    for (number, cells) in campaigns.iter().enumerate() {
        for cell in *cells {
            known.entry(place(cell)).or_default().push((number, cell));
        }
    }
    let differ = |all: &[(usize, &CellResult)]| {
        all.iter().enumerate().any(|(at, (number, cell))| {
            let later = &all[at + 1..];
            (later.iter()).any(|(other, next)| other != number && !alike(cell, next))
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
    let simulated = one.testbed == SIM && one.id == other.id;
    design && one.commit == other.commit && (!simulated || gave_the_same(one, other))
}

/// The same, and one cell of it has one result, on testbeds too.
fn is_one(one: &CellResult, other: &CellResult) -> bool {
    is_same(one, other) && (one.id != other.id || gave_the_same(one, other))
}

/// Whether two results of one cell tell the same; one that is none contradicts nothing.
fn gave_the_same(one: &CellResult, other: &CellResult) -> bool {
    let counts = |cell: &CellResult| -> Vec<(u64, u64)> {
        let flows = cell.flows.iter();
        let flows = flows.map(|flow| (flow.delivered_bytes, flow.forward_packets));
        let groups = cell.groups.iter();
        let groups = groups.map(|group| (group.bytes, group.finished));
        let streams = cell.streams.iter();
        let streams = streams.map(|stream| (stream.delivered_bytes, stream.sent_packets));
        flows.chain(groups).chain(streams).collect()
    };
    !has_result(one)
        || !has_result(other)
        || (one.fingerprint == other.fingerprint && counts(one) == counts(other))
}

fn has_result(cell: &CellResult) -> bool {
    cell.error.is_none() && cell.skipped.is_none()
}

/// How many cells each commit has run of those places that more than one has: seeds of a before and of an after, in one campaign.
pub fn commits(cells: &[CellResult]) -> BTreeMap<&str, usize> {
    let mut of_place: BTreeMap<Place<'_>, BTreeMap<&str, usize>> = BTreeMap::new();
    for cell in cells.iter().filter(|cell| has_result(cell)) {
        let commits = of_place.entry(place(cell)).or_default();
        *commits.entry(&cell.commit).or_default() += 1;
    }
    let mut all = BTreeMap::new();
    for (commit, cells) in (of_place.into_values())
        .filter(|commits| commits.len() > 1)
        .flatten()
    {
        *all.entry(commit).or_default() += cells;
    }
    all
}

/// Experiments that cannot be taken together, for people; empty where all can.
pub fn mixed(campaigns: &[&[CellResult]]) -> String {
    let names: BTreeSet<&str> = clashes(campaigns, is_same)
        .into_iter()
        .map(|clash| clash.1)
        .collect();
    names.into_iter().collect::<Vec<_>>().join(", ")
}

/// The cells of all campaigns, each with its name. A cell that is in two of them counts once, with its result if one of them has one;
/// experiments that more than one campaign has by another scenario or commit, or with other results, get an axis [`AXIS`] with the names as
/// its values.
pub fn together(campaigns: Vec<(String, Vec<CellResult>)>) -> Vec<CellResult> {
    let views: Vec<&[CellResult]> = campaigns.iter().map(|(_, cells)| &**cells).collect();
    let clashes: BTreeSet<(String, String)> = clashes(&views, is_one)
        .into_iter()
        .map(|(testbed, experiment)| (testbed.to_owned(), experiment.to_owned()))
        .collect();
    let mut seen = BTreeMap::new();
    let mut all: Vec<CellResult> = Vec::new();
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
            match seen.get(&key) {
                Some(&known) if !cell.id.is_empty() => {
                    if has_result(&cell) && !has_result(&all[known]) {
                        all[known] = cell;
                    }
                }
                _ => {
                    seen.insert(key, all.len());
                    all.push(cell);
                }
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
    use std::slice::from_ref;

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

    /// A program that was changed and not committed gives other results for the same cell by the same commit.
    #[test]
    fn other_results_of_one_cell_stand_beside_each_other() {
        let gave = |testbed: &str, fingerprint: &str, bytes: u64| CellResult {
            testbed: testbed.to_owned(),
            fingerprint: fingerprint.to_owned(),
            flows: vec![crate::result::FlowResult {
                delivered_bytes: bytes,
                ..crate::result::FlowResult::default()
            }],
            ..cell("1", "d", 1, "c")
        };
        let (before, after) = (gave("sim", "aa", 7), gave("sim", "bb", 9));
        let found = both(before.clone(), after.clone());
        assert_eq!(axis(&found), [Some("a"), Some("b")]);
        assert_eq!(mixed(&[from_ref(&before), &[after]]), "X");
        assert_eq!(both(before.clone(), before).len(), 1);
        // Two runs of a testbed: beside each other where that can be shown, more runs of one elsewhere.
        let (one, other) = (gave("netns", "", 7), gave("netns", "", 8));
        assert_eq!(mixed(&[from_ref(&one), from_ref(&other)]), "");
        assert_eq!(axis(&both(one, other)), [Some("a"), Some("b")]);
    }

    #[test]
    fn seeds_of_several_commits_are_counted() {
        let one = [cell("1", "d", 1, "c"), cell("2", "d", 2, "c")];
        assert!(commits(&one).is_empty());
        let mut other = cell("3", "d", 3, "later");
        let mixed = [&one[..], &[other.clone()]].concat();
        assert_eq!(commits(&mixed), [("c", 2), ("later", 1)].into());
        // In another place it is another piece of the campaign.
        other.at.insert("rtt".to_owned(), "9ms".to_owned());
        assert!(commits(&[&one[..], &[other]].concat()).is_empty());
    }

    #[test]
    fn a_result_counts_and_not_the_failure_of_the_same_cell() {
        let failed = CellResult {
            error: Some("no".to_owned()),
            ..cell("1", "d", 1, "c")
        };
        let found = both(failed, cell("1", "d", 1, "c"));
        assert_eq!((found.len(), &found[0].error), (1, &None));
    }

    #[test]
    fn campaigns_are_called_by_what_tells_them_apart() {
        let of = |dirs: [&str; 2]| names(&dirs.map(Path::new));
        assert_eq!(of(["results/a", "results/b"]), ["a", "b"]);
        assert_eq!(of(["old/jgn06", "new/jgn06"]), ["old/jgn06", "new/jgn06"]);
    }
}
