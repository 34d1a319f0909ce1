//! Compares a campaign with what it gave before, and fails if it gives something else.
//!
//! The snapshot is a text file, one line per cell (see [`crate::table`]), kept beside the
//! scenarios. The simulator is deterministic, so the comparison is exact: a line that changes is a
//! change of behaviour, which is either a mistake or belongs into the same commit as its cause.

use crate::ledger::Entry;
use crate::result::Summary;
use crate::table::{self, Line};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

const HEAD: &str = "\
# Table of a campaign, one line per cell, rounded, and one per statement that it judges. 'howdah lab gate DIR --against THIS' compares,
# 'howdah lab gate DIR --against THIS --update' writes it anew.
";

/// Between key and value of a line.
const SEPARATOR: &str = " | ";

/// What differs from the snapshot.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Differences {
    /// Cells that were compared.
    pub compared: usize,
    /// Cells that gave something else.
    pub changed: Vec<Changed>,
    /// Cells of the snapshot that the campaign has not.
    pub missing: Vec<String>,
    /// Cells of the campaign that the snapshot has not.
    pub new: Vec<String>,
}

/// A cell that gave something else.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Changed {
    /// Which.
    pub cell: String,
    /// What it gave then.
    pub then: String,
    /// What it gives now.
    pub now: String,
}

impl Differences {
    /// Nothing differs, and there was something to compare.
    pub fn is_none(&self) -> bool {
        self.compared > 0
            && self.changed.is_empty()
            && self.missing.is_empty()
            && self.new.is_empty()
    }
}

impl fmt::Display for Differences {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for changed in &self.changed {
            writeln!(f, "  {}", changed.cell)?;
            writeln!(f, "-   {}", changed.then)?;
            writeln!(f, "+   {}", changed.now)?;
        }
        for cell in &self.missing {
            writeln!(f, "- {cell}: in the snapshot, not in the campaign")?;
        }
        for cell in &self.new {
            writeln!(f, "+ {cell}: in the campaign, not in the snapshot")?;
        }
        write!(
            f,
            "{} lines compared, {} changed, {} missing, {} new",
            self.compared,
            self.changed.len(),
            self.missing.len(),
            self.new.len()
        )
    }
}

/// What is compared: each cell, and each statement that the campaign judges.
fn lines(summary: &Summary, ledger: &[Entry]) -> Vec<Line> {
    let judged = ledger
        .iter()
        .filter(|entry| entry.verdict != "cannot be judged");
    let verdicts = judged.map(|entry| Line {
        key: format!("statement {}", entry.id),
        value: entry.verdict.clone(),
    });
    table::lines(summary).into_iter().chain(verdicts).collect()
}

/// Whether a snapshot begins like this.
pub fn is_begun_by(head: &[u8]) -> bool {
    head.starts_with(b"# Table of a campaign, one line per cell")
}

/// The snapshot of a campaign and of what follows from it.
pub fn snapshot(summary: &Summary, ledger: &[Entry]) -> String {
    let mut text = HEAD.to_owned();
    for Line { key, value } in lines(summary, ledger) {
        let _ = writeln!(text, "{key}{SEPARATOR}{value}");
    }
    text
}

/// Compares a campaign, and what follows from it, with a snapshot.
pub fn compare(summary: &Summary, ledger: &[Entry], snapshot: &str) -> Differences {
    let mut then: BTreeMap<&str, &str> = snapshot
        .lines()
        .filter(|line| !line.starts_with('#') && !line.trim().is_empty())
        .map(|line| line.split_once(SEPARATOR).unwrap_or((line, "")))
        .collect();
    let mut differences = Differences::default();
    for Line { key, value } in lines(summary, ledger) {
        match then.remove(key.as_str()) {
            None => differences.new.push(key),
            Some(before) => {
                differences.compared += 1;
                if before != value {
                    differences.changed.push(Changed {
                        cell: key,
                        then: before.to_owned(),
                        now: value,
                    });
                }
            }
        }
    }
    differences.missing = then.keys().map(|&key| key.to_owned()).collect();
    differences
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{CellResult, FlowResult, LinkResult};

    fn summary(goodputs: &[(&str, f64)]) -> Summary {
        let cells = goodputs.iter().map(|&(protocol, goodput_bps)| CellResult {
            experiment: "J-A1".to_owned(),
            at: [("protocol".to_owned(), protocol.to_owned())].into(),
            seed: 1,
            flows: vec![FlowResult {
                name: "main".to_owned(),
                algorithm: protocol.to_owned(),
                goodput_bps,
                sent_bytes: 1000,
                retransmitted_bytes: Some(2),
                ..FlowResult::default()
            }],
            links: vec![LinkResult {
                name: "main/forward".to_owned(),
                queue_drops: 7,
                ..LinkResult::default()
            }],
            ..CellResult::default()
        });
        Summary {
            cells: cells.collect(),
            ..Summary::default()
        }
    }

    #[test]
    fn a_campaign_equals_its_own_snapshot() {
        let summary = summary(&[("reno", 12.34e6), ("fast", 931e6)]);
        let text = snapshot(&summary, &[]);
        let line = "J-A1 protocol=reno seed=1 | main (reno) 12.3 Mbit/s, 0.200 % again; main/forward dropped 7";
        assert!(text.lines().any(|l| l == line), "{text}");
        let differences = compare(&summary, &[], &text);
        assert!(differences.is_none(), "{differences}");
        assert!(!compare(&Summary::default(), &[], HEAD).is_none());
    }

    #[test]
    fn differences_are_named() {
        let text = snapshot(&summary(&[("reno", 12.34e6), ("fast", 931e6)]), &[]);
        let now = summary(&[("reno", 15e6), ("bic", 1e6)]);
        let differences = compare(&now, &[], &text);
        let shown = differences.to_string();
        assert_eq!(
            shown,
            "  J-A1 protocol=reno seed=1\n\
             -   main (reno) 12.3 Mbit/s, 0.200 % again; main/forward dropped 7\n\
             +   main (reno) 15.0 Mbit/s, 0.200 % again; main/forward dropped 7\n\
             - J-A1 protocol=fast seed=1: in the snapshot, not in the campaign\n\
             + J-A1 protocol=bic seed=1: in the campaign, not in the snapshot\n\
             1 lines compared, 1 changed, 1 missing, 1 new"
        );
        assert!(!differences.is_none());
    }

    #[test]
    fn a_verdict_that_changes_is_a_difference() {
        let summary = summary(&[("reno", 12.34e6)]);
        let mut ledger = crate::ledger::entries(&[]);
        ledger[0].verdict = "holds".to_owned();
        let text = snapshot(&summary, &ledger);
        assert!(text.contains("statement P.u1 | holds"), "{text}");
        assert!(!text.contains("P.u2"), "{text}");
        assert!(compare(&summary, &ledger, &text).is_none());
        ledger[0].verdict = "fails".to_owned();
        let shown = compare(&summary, &ledger, &text).to_string();
        assert!(shown.contains("-   holds\n+   fails"), "{shown}");
    }
}
