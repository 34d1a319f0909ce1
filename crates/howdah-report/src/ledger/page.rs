//! The ledger as it is kept: one page of Markdown for people and the same as JSON, with what it was made from.

use super::{Entry, OnTestbed, Tally};
use crate::result::{Campaign, Summary};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// One campaign that the verdicts come from.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Provenance {
    /// Command that repeats it.
    pub command: String,
    /// Commits of the programs that ran its cells.
    pub commits: Vec<String>,
    /// The sources differed from the commit when the program was built.
    pub dirty: bool,
    /// Seeds.
    pub seeds: Vec<u64>,
    /// Cells with a result.
    pub cells: usize,
    /// Of them those of which a stretch was repeated instead of simulated.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub forwarded: usize,
    /// The reduced set.
    pub reduced: bool,
    /// Seconds of computing, of all cells together.
    pub computing_s: f64,
    /// Processor, as the machine calls it.
    pub processor: String,
}

/// The kept ledger.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Page {
    /// Program that judged.
    pub build: String,
    /// What was judged.
    pub campaigns: Vec<Provenance>,
    /// Predictions: hold, hold in shape, fail, cannot be judged.
    pub counted: [usize; 4],
    /// What was swept: experiment, key, values with their source.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub swept: Vec<(String, String, String)>,
    /// Every statement.
    pub statements: Vec<Entry>,
}

impl Page {
    /// Of campaigns and what follows from them. `build` names the program.
    pub fn new(build: String, campaigns: &[Summary], statements: Vec<Entry>) -> Self {
        Self {
            build,
            campaigns: campaigns.iter().map(provenance).collect(),
            counted: Tally::of(&statements).predicted,
            swept: campaigns
                .iter()
                .flat_map(|one| swept(&one.campaign))
                .collect(),
            statements,
        }
    }

    /// Takes from the page of before what these campaigns say less of: statements that they cannot judge, and statements that
    /// they judge by a reduced set and it by a full one; of a statement with set-ups, all of them or none.
    #[must_use]
    pub fn keeping(mut self, before: Self) -> Self {
        let statement = |id: &str| id.split('/').next().unwrap_or(id).to_owned();
        let weight = |entry: &Entry| match (entry.is_judged(), entry.reduced) {
            (false, _) => 0,
            (true, true) => 1,
            (true, false) => 2,
        };
        let mut kept: BTreeMap<String, Entry> = BTreeMap::new();
        kept.extend(before.statements.into_iter().map(|e| (e.id.clone(), e)));
        let now: BTreeMap<String, u8> = (self.statements.iter())
            .map(|entry| (entry.id.clone(), weight(entry)))
            .collect();
        let says_more = |id: &str| {
            let own = statement(id);
            let before = kept.get(&own).map_or(0, weight);
            before > now.get(&own).copied().unwrap_or_default()
        };
        let mut commits: BTreeSet<String> = BTreeSet::new();
        for entry in &mut self.statements {
            let Some(old) = kept.get(&entry.id) else {
                continue;
            };
            if entry.testbed.is_none() {
                entry.testbed.clone_from(&old.testbed);
                let theirs = entry.testbed.iter().flat_map(|real| &real.commits);
                commits.extend(theirs.cloned());
            }
            if !says_more(&entry.id) {
                continue;
            }
            commits.extend(old.commits.iter().cloned());
            // What the paper states and how it counts is as the program of today reads it.
            entry.ours.clone_from(&old.ours);
            entry.verdict.clone_from(&old.verdict);
            entry.reduced = old.reduced;
            entry.trials = old.trials;
            entry.commits.clone_from(&old.commits);
            entry.note.clone_from(&old.note);
            entry.swept.clone_from(&old.swept);
        }
        // With more seeds it is the same campaign again.
        let again: BTreeSet<_> = (self.campaigns.iter())
            .map(|c| but_for_seeds(&c.command))
            .collect();
        let stands = |campaign: &Provenance| {
            !again.contains(&but_for_seeds(&campaign.command))
                && campaign.commits.iter().any(|c| commits.contains(c))
        };
        self.campaigns
            .extend(before.campaigns.into_iter().filter(stands));
        (self.swept).extend(before.swept.into_iter().filter(|(experiment, ..)| {
            (self.statements.iter()).any(|e| &e.experiment == experiment && says_more(&e.id))
        }));
        self.swept.sort();
        self.swept.dedup();
        self.counted = Tally::of(&self.statements).predicted;
        self
    }

    /// For people.
    #[must_use]
    pub fn markdown(&self) -> String {
        let mut out = String::from(
            "# The ledger\n\n\
             What the four papers state, and whether the simulator shows it. This file and [ledger.json](ledger.json) are \
             made by `howdah lab ledger DIR... --out docs/ledger.md` and not written by hand (with `--keep`, a verdict stands until \
             another run can give it; the JSON names the commits behind each); \
             [ledger-notes.md](ledger-notes.md) explains what fails, and what the words mean.\n\n",
        );
        let tally = Tally::of(&self.statements);
        let _ = writeln!(out, "{tally}.\n");
        let full = self.of_full_sets();
        let _ = writeln!(
            out,
            "Of the predictions that can be judged, {} are judged by the full set of their experiments and {} by a reduced one \
             (`reduced` below: shorter runs, some protocols; judged by half of the parts if need be). A verdict is that of the \
             middle trial; behind it stands in how many it is so. JGN06's and WTRL10's trials are single seeds, K14proto's and \
             K13app's the best of four.\n",
            full,
            tally.predicted[..3].iter().sum::<usize>() - full
        );
        out.push_str("| campaign | commit | seeds | cells | computing |\n| --- | --- | ---: | ---: | ---: |\n");
        for campaign in &self.campaigns {
            let dirty = if campaign.dirty { " (changed)" } else { "" };
            let forwarded = match campaign.forwarded {
                0 => String::new(),
                cells => format!(" ({cells} forwarded)"),
            };
            let _ = writeln!(
                out,
                "| `{}` | {}{dirty} | {} | {}{forwarded} | {:.0} min |",
                campaign.command,
                campaign.commits.join(", "),
                campaign.seeds.len(),
                campaign.cells,
                campaign.computing_s / 60.0
            );
        }
        let processors: BTreeSet<&str> = (self.campaigns.iter())
            .map(|campaign| campaign.processor.as_str())
            .filter(|name| !name.is_empty())
            .collect();
        let _ = writeln!(
            out,
            "\nJudged by {}. Ran on: {}.",
            self.build,
            processors.into_iter().collect::<Vec<_>>().join(", ")
        );
        self.sweeps(&mut out);
        self.on_the_testbed(&mut out);
        let mut paper = "";
        for entry in &self.statements {
            if entry.paper != paper {
                paper = &entry.paper;
                let own: Vec<&Entry> = self
                    .statements
                    .iter()
                    .filter(|e| e.paper == paper)
                    .collect();
                let _ = writeln!(
                    out,
                    "\n## {paper}\n\n{}.\n\n| id | statement | stated | ours | verdict |\n| --- | --- | --- | --- | --- |",
                    Tally::of(own)
                );
            }
            let _ = writeln!(
                out,
                "| {} | {} | {} | {} | {} |",
                entry.id,
                cell(&entry.statement),
                cell(&entry.stated),
                cell(&entry.ours),
                cell(&verdict(entry))
            );
        }
        out
    }

    /// What was swept, and the statements that hang on it.
    fn sweeps(&self, out: &mut String) {
        if self.swept.is_empty() {
            return;
        }
        out.push_str(
            "\n## Sweeps\n\nValues that a paper does not state, and what they plausibly were. A statement's verdict is that of its middle set-up, the \
             worse of two.\n\n| experiment | value | plausible (source) |\n| --- | --- | --- |\n",
        );
        for (experiment, key, words) in &self.swept {
            let _ = writeln!(out, "| {experiment} | `{key}` | {} |", cell(words));
        }
        out.push_str("\n| id | verdict | in each set-up |\n| --- | --- | --- |\n");
        for entry in self
            .statements
            .iter()
            .filter(|entry| !entry.set_ups().is_empty())
        {
            let each = entry
                .swept
                .iter()
                .map(|(name, verdict)| format!("{name}: {verdict}"));
            let each = each.collect::<Vec<_>>().join("; ");
            let _ = writeln!(
                out,
                "| {} | {}, {} | {} |",
                entry.id,
                entry.verdict,
                entry.set_ups(),
                cell(&each)
            );
        }
    }

    /// Statements that are judged twice, and where the two verdicts part.
    fn on_the_testbed(&self, out: &mut String) {
        let twice: Vec<_> = (self.statements.iter())
            .filter_map(|entry| entry.testbed.as_ref().map(|real| (entry, real)))
            .collect();
        if twice.is_empty() {
            return;
        }
        let both = || {
            let judged = |(entry, real): &&(&Entry, &OnTestbed)| {
                entry.is_judged() && super::rank(&real.verdict).is_some()
            };
            twice.iter().filter(judged)
        };
        let same = both().filter(|(entry, real)| entry.verdict == real.verdict);
        let _ = write!(
            out,
            "\n## On the testbed\n\nThe same statements by real kernels and programs (`--on netns`), which run for a shorter time and are those \
             of today: judged by the parts that can run there, half of them at least, and by the run in the middle of each cell. Runs that their \
             certificate speaks against do not count. Of {} that both can judge, {} have the same verdict; [fidelity.md](fidelity.md) says \
             why others part.\n\n| id | simulator | testbed | figures of the testbed |\n| --- | --- | --- | --- |\n",
            both().count(),
            same.count()
        );
        for (entry, real) in twice {
            let _ = writeln!(
                out,
                "| {} | {} | **{}** | {} |",
                entry.id,
                entry.verdict,
                real.verdict,
                cell(&figures(real))
            );
        }
    }

    /// Predictions that full sets judge.
    fn of_full_sets(&self) -> usize {
        let judged = |entry: &&Entry| entry.counts() && entry.is_judged();
        let full = self.statements.iter().filter(judged);
        full.filter(|entry| !entry.reduced).count()
    }
}

fn swept(campaign: &Campaign) -> Vec<(String, String, String)> {
    let all = campaign.experiments.iter().flat_map(|experiment| {
        let values = experiment.swept.iter();
        values.map(|(key, words)| (experiment.id.clone(), key.clone(), words.clone()))
    });
    all.collect()
}

/// The verdict with all that qualifies it.
fn verdict(entry: &Entry) -> String {
    let mut text = format!("**{}**", entry.verdict);
    if !entry.is_judged() {
        let _ = write!(text, ": {}", entry.note);
        return text;
    }
    let spread = entry.spread();
    if !spread.is_empty() {
        let _ = write!(text, ", {spread}");
    }
    let set_ups = entry.set_ups();
    if !set_ups.is_empty() {
        let _ = write!(text, "; {set_ups}");
    }
    if entry.reduced {
        text.push_str("; reduced");
    }
    if !entry.counts() {
        let _ = write!(text, "; {}", entry.standing);
    }
    text
}

/// What was measured on the testbed, and what is to be known of it.
fn figures(real: &OnTestbed) -> String {
    let parts = [&*real.ours, &*real.note];
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join("; ")
}

/// A text as a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

fn provenance(summary: &Summary) -> Provenance {
    let campaign = &summary.campaign;
    let ran = || summary.cells.iter().filter(|cell| cell.error.is_none());
    let commits: BTreeSet<&str> = ran().map(|cell| cell.commit.as_str()).collect();
    let seeds: BTreeSet<u64> = ran().map(|cell| cell.seed).collect();
    Provenance {
        command: campaign.command.clone(),
        commits: commits.into_iter().map(short).collect(),
        dirty: campaign.dirty,
        seeds: seeds.into_iter().collect(),
        cells: ran().count(),
        forwarded: ran().filter(|cell| cell.forwarded.is_some()).count(),
        reduced: campaign.quick,
        computing_s: ran().map(|cell| cell.wall_s).sum(),
        processor: campaign.machine.get("cpu").cloned().unwrap_or_default(),
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
const fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// As people write commits.
pub(super) fn short(commit: &str) -> String {
    commit.chars().take(10).collect()
}

/// The words of a command without how many seeds it was run with.
fn but_for_seeds(command: &str) -> String {
    let mut words = command.split_whitespace();
    let mut kept = Vec::new();
    while let Some(word) = words.next() {
        if word == "--seeds" {
            words.next();
        } else {
            kept.push(word);
        }
    }
    kept.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::CellResult;

    #[test]
    fn the_page_says_where_its_verdicts_come_from() {
        let cell = |seed: u64| CellResult {
            experiment: "J-A1".to_owned(),
            testbed: "sim".to_owned(),
            commit: "0123456789abcdef".to_owned(),
            seed,
            wall_s: 90.0,
            ..CellResult::default()
        };
        let campaign = Summary {
            campaign: Campaign {
                command: "howdah lab run scenarios/jgn06 --seeds 2".to_owned(),
                dirty: true,
                ..Campaign::default()
            },
            cells: vec![cell(1), cell(2)],
        };
        let cells = campaign.cells.clone();
        let page = Page::new(
            "howdah 9".to_owned(),
            &[campaign],
            super::super::entries(&cells),
        );
        let text = page.markdown();
        let row =
            "| `howdah lab run scenarios/jgn06 --seeds 2` | 0123456789 (changed) | 2 | 2 | 3 min |";
        assert!(text.contains(row), "{text}");
        assert!(text.contains("Judged by howdah 9"), "{text}");
        for entry in &page.statements {
            assert!(
                text.contains(&format!("\n| {} |", entry.id)),
                "{}",
                entry.id
            );
        }
        let read: Page = serde_json::from_str(&serde_json::to_string(&page).unwrap()).unwrap();
        assert_eq!(read, page);
    }

    fn judged(id: &str, verdict: &str, reduced: bool, commit: &str) -> Entry {
        Entry {
            id: id.to_owned(),
            verdict: verdict.to_owned(),
            standing: "counts".to_owned(),
            reduced,
            commits: vec![commit.to_owned()],
            ..Entry::default()
        }
    }

    fn page_of(command: &str, commit: &str, statements: Vec<Entry>) -> Page {
        let campaign = Provenance {
            command: command.to_owned(),
            commits: vec![commit.to_owned()],
            ..Provenance::default()
        };
        Page {
            campaigns: vec![campaign],
            statements,
            ..Page::default()
        }
    }

    #[test]
    fn a_page_keeps_the_verdicts_that_new_campaigns_cannot_give() {
        let before = vec![
            judged("full", "holds", false, "old"),
            judged("again", "fails", true, "old"),
            judged("set-ups", "holds", true, "old"),
            judged("set-ups/a", "holds", true, "old"),
            judged("gone", "holds", true, "old"),
        ];
        let now = vec![
            judged("full", "fails", true, "new"),
            judged("again", "holds", true, "new"),
            judged("set-ups", "cannot be judged", false, "new"),
            judged("set-ups/a", "cannot be judged", false, "new"),
            judged("nobody's", "cannot be judged", false, "new"),
        ];
        let page = page_of("b", "new", now).keeping(page_of("a", "old", before.clone()));
        let verdicts: Vec<(&str, &str, &str)> = (page.statements.iter())
            .map(|e| (&*e.id, &*e.verdict, &*e.commits[0]))
            .collect();
        let wanted = [
            ("full", "holds", "old"),
            ("again", "holds", "new"),
            ("set-ups", "holds", "old"),
            ("set-ups/a", "holds", "old"),
            ("nobody's", "cannot be judged", "new"),
        ];
        assert_eq!(verdicts, wanted);
        assert_eq!(page.counted, Tally::of(&page.statements).predicted);
        let commands = |page: &Page| -> Vec<String> {
            page.campaigns.iter().map(|c| c.command.clone()).collect()
        };
        assert_eq!(commands(&page), ["b", "a"]);
        // Of campaigns that no verdict comes from any more nothing stays.
        let all_new = before.iter().map(|e| judged(&e.id, "fails", false, "new"));
        let page = page_of("b", "new", all_new.collect()).keeping(page_of("a", "old", before));
        assert_eq!(commands(&page), ["b"]);
        assert!(page.statements.iter().all(|e| e.verdict == "fails"));
    }

    #[test]
    fn what_real_programs_did_is_kept_and_told_apart() {
        let real = |verdict: &str| OnTestbed {
            verdict: verdict.to_owned(),
            ours: "at least 7".to_owned(),
            commits: vec!["real".to_owned()],
            ..OnTestbed::default()
        };
        let mut both = judged("both", "holds", false, "old");
        both.testbed = Some(real("holds"));
        let mut apart = judged("apart", "fails", false, "old");
        apart.testbed = Some(real("holds"));
        let alone = judged("alone", "holds", false, "old");
        let mut before = page_of("a", "old", vec![both, apart, alone]);
        before.campaigns.push(Provenance {
            command: "b --on netns".to_owned(),
            commits: vec!["real".to_owned()],
            ..Provenance::default()
        });
        let now = ["both", "apart", "alone"].map(|id| judged(id, "holds", false, "new"));
        let page = page_of("a --seeds 5", "new", now.into()).keeping(before.clone());
        assert_eq!(page.statements[1].testbed, Some(real("holds")));
        let commands: Vec<&str> = page.campaigns.iter().map(|c| &*c.command).collect();
        assert_eq!(commands, ["a --seeds 5", "b --on netns"]);
        let told = before.markdown();
        for line in [
            "Of 2 that both can judge, 1 have the same verdict",
            "| both | holds | **holds** | at least 7 |",
            "| apart | fails | **holds** | at least 7 |",
        ] {
            assert!(told.contains(line), "{told}");
        }
        assert!(!told.contains("| alone | holds | **"), "{told}");
    }

    #[test]
    fn a_campaign_with_more_seeds_takes_the_place_of_the_one_before() {
        let mut before = page_of("lab run a", "old", vec![judged("a", "holds", false, "old")]);
        let other = page_of("lab run b", "old", vec![judged("b", "holds", false, "old")]);
        before.campaigns.extend(other.campaigns);
        before.statements.extend(other.statements);
        let now = vec![
            judged("a", "fails", false, "new"),
            judged("b", "cannot be judged", false, "new"),
        ];
        let page = page_of("lab run a --seeds 5", "new", now).keeping(before);
        let commands: Vec<&str> = page.campaigns.iter().map(|c| &*c.command).collect();
        assert_eq!(commands, ["lab run a --seeds 5", "lab run b"]);
        let verdicts: Vec<&str> = page.statements.iter().map(|e| &*e.verdict).collect();
        assert_eq!(verdicts, ["fails", "holds"]);
    }
}
