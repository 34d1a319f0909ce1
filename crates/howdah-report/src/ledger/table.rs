//! The ledger for people.

use super::Entry;
use std::fmt::{self, Write as _};

/// Verdicts counted, predictions apart from fitted values.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Tally {
    /// Predictions: holds, shape holds, fails, cannot be judged.
    pub predicted: [usize; 4],
    /// The same for statements that were used to fit a model.
    pub fitted: [usize; 4],
    /// The same for statements that follow from others, from fits or from constants.
    pub implied: [usize; 4],
}

impl Tally {
    /// Counts entries.
    #[must_use]
    pub fn of<'e>(entries: impl IntoIterator<Item = &'e Entry>) -> Self {
        let mut tally = Self::default();
        for entry in entries {
            let column = match entry.verdict.as_str() {
                "holds" => 0,
                "shape holds" => 1,
                "fails" => 2,
                _ => 3,
            };
            let row = match entry.standing.as_str() {
                "counts" => &mut tally.predicted,
                "fitted" => &mut tally.fitted,
                "implied" => &mut tally.implied,
                // One reading of a statement that is counted once.
                _ => continue,
            };
            row[column] += 1;
        }
        tally
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [holds, shape, fails, open] = self.predicted;
        write!(
            f,
            "{holds} hold, {shape} hold in shape, {fails} fail, {open} cannot be judged"
        )?;
        for (what, counts) in [
            ("used to fit models", self.fitted),
            ("that follow from others", self.implied),
        ] {
            let [holds, shape, fails, open] = counts;
            if holds + shape + fails + open > 0 {
                write!(
                    f,
                    "; of those {what} {holds} hold, {shape} in shape, {fails} fail, {open} cannot be judged"
                )?;
            }
        }
        Ok(())
    }
}

/// The table: one block per paper, one paragraph per statement, `width` columns at most.
#[must_use]
pub fn table(entries: &[Entry], width: usize) -> String {
    let mut out = String::new();
    let mut paper = "";
    for entry in entries {
        if entry.paper != paper {
            paper = &entry.paper;
            let own: Vec<&Entry> = entries.iter().filter(|e| e.paper == paper).collect();
            // Writing to a string cannot fail.
            let _ = writeln!(out, "{paper}\n");
            wrap(&mut out, "", &Tally::of(own).to_string(), width);
            out.push('\n');
        }
        let standing = if entry.counts() {
            String::new()
        } else {
            format!(" ({})", entry.standing)
        };
        let head = format!("{:<11}{:<17}", entry.id, entry.verdict);
        wrap(&mut out, &head, &entry.statement, width);
        wrap(
            &mut out,
            "           stated:          ",
            &format!("{}{standing}", entry.stated),
            width,
        );
        if !entry.ours.is_empty() {
            wrap(&mut out, "           ours:            ", &entry.ours, width);
        }
        let spread = entry.spread();
        let reduced = if entry.reduced { "reduced set" } else { "" };
        let set_ups = entry.set_ups();
        let trials: Vec<&str> = [&*spread, &*set_ups, reduced]
            .into_iter()
            .filter(|t| !t.is_empty())
            .collect();
        if !trials.is_empty() {
            wrap(
                &mut out,
                "           trials:          ",
                &trials.join("; "),
                width,
            );
        }
        if !entry.note.is_empty() {
            wrap(&mut out, "           note:            ", &entry.note, width);
        }
        if let Some(real) = &entry.testbed {
            let text = format!("{}; {}", real.verdict, real.ours);
            wrap(&mut out, "           on the testbed:  ", &text, width);
        }
        out.push('\n');
    }
    wrap(&mut out, "In all: ", &Tally::of(entries).to_string(), width);
    out
}

/// Appends `text` behind `head`, broken at spaces and indented to the head's width.
fn wrap(out: &mut String, head: &str, text: &str, width: usize) {
    let indent = head.chars().count();
    let room = width.saturating_sub(indent).max(30);
    out.push_str(head);
    let mut column = 0;
    for word in text.split(' ') {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > room {
            out.push('\n');
            out.push_str(&" ".repeat(indent));
            column = 0;
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += length;
    }
    out.push('\n');
}
