//! What the papers state, beside ours: the ledger, and the papers' figures.

use super::experiment::{Experiment, distinct};
use super::html::{Table, escape, folded};
use super::papers::{Paper, PaperFigure};
use super::sections::anchor;
use crate::ledger::Entry;
use std::fmt::Write as _;

/// The verdicts with their signs and the classes of their rows, in the order of the columns.
const VERDICTS: [(&str, &str, &str); 4] = [
    ("holds", "\u{2713}", "v-holds wide"),
    ("shape holds", "\u{2248}", "v-shape wide"),
    ("fails", "\u{2717}", "v-fails wide"),
    ("cannot be judged", "?", "v-none wide"),
];

/// The ledger of one testbed. What cannot be judged is folded, not left out.
fn ledger_of(entries: &[Entry], experiments: &[Experiment<'_>]) -> String {
    let mut counts = Table::new(
        "Verdicts; statements used to fit a model, and those that follow from fits, constants or others, are no \
         predictions and are counted apart. A verdict is that of the middle trial: of single seeds for JGN06 and WTRL10, of the best of \
         four for the others. Figures are the upper quartile over the seeds for flows of JGN06, whose authors show good \
         trials, and medians else; the experiments' own tables have medians throughout.",
    )
    .text("paper");
    for (verdict, sign, _) in VERDICTS {
        counts = counts.number(format!("{sign} {verdict}"));
    }
    counts = counts.number("fitted").number("implied");
    for paper in distinct(entries.iter().map(|entry| entry.paper.as_str())) {
        let mine = || entries.iter().filter(|entry| entry.paper == paper);
        let mut row = vec![escape(paper)];
        row.extend(VERDICTS.map(|(verdict, _, _)| {
            let count = mine()
                .filter(|e| e.counts() && e.verdict == verdict)
                .count();
            count.to_string()
        }));
        for standing in ["fitted", "implied"] {
            let all = mine().filter(|entry| entry.standing == standing);
            row.push(all.count().to_string());
        }
        counts.row(row);
    }
    let (open, judged): (Vec<&Entry>, Vec<&Entry>) =
        entries.iter().partition(|e| e.verdict == VERDICTS[3].0);
    let mut out = counts.html();
    if !judged.is_empty() {
        out.push_str(&statements(&judged, experiments));
    }
    if !open.is_empty() {
        let summary = match open.len() {
            1 => "1 statement that these cells cannot judge".to_owned(),
            n => format!("{n} statements that these cells cannot judge"),
        };
        out.push_str(&folded(&summary, &statements(&open, experiments)));
    }
    out
}

fn statements(entries: &[&Entry], experiments: &[Experiment<'_>]) -> String {
    let mut table = Table::new("")
        .text("id")
        .text("experiment")
        .text("statement")
        .text("stated")
        .text("ours")
        .text("verdict")
        .text("note");
    for entry in entries {
        let found = experiments.iter().find(|e| e.id == entry.experiment);
        let experiment = match found {
            Some(found) => {
                format!(
                    "<a href=\"#{}\">{}</a>",
                    anchor(found),
                    escape(&entry.experiment)
                )
            }
            None => escape(&entry.experiment),
        };
        let (sign, class) = VERDICTS
            .iter()
            .find(|known| known.0 == entry.verdict)
            .map_or(("", "wide"), |known| (known.1, known.2));
        let mut tags = String::new();
        for spread in [entry.spread(), entry.set_ups()] {
            if spread.is_empty() {
                continue;
            }
            let _ = write!(tags, "<br><small>{}</small>", escape(&spread));
        }
        let standing = (!entry.counts()).then_some(entry.standing.as_str());
        for tag in standing
            .into_iter()
            .chain(entry.reduced.then_some("reduced"))
        {
            let _ = write!(tags, " <span class=\"tag\">{}</span>", escape(tag));
        }
        table.classed_row(
            class,
            vec![
                escape(&entry.id),
                format!("{experiment}<br><small>{}</small>", escape(&entry.paper)),
                escape(&entry.statement),
                escape(&entry.stated),
                escape(&entry.ours),
                format!(
                    "<span class=\"v\">{sign} {}</span>{tags}",
                    escape(&entry.verdict)
                ),
                escape(&entry.note),
            ],
        );
    }
    table.html()
}

/// The ledger.
pub(crate) fn ledger(ledgers: &[(String, Vec<Entry>)], experiments: &[Experiment<'_>]) -> String {
    if ledgers.is_empty() {
        return "<p>There is no cell to judge a statement by.</p>\n".to_owned();
    }
    ledgers
        .iter()
        .map(|(testbed, entries)| {
            let name = if ledgers.len() > 1 {
                format!("<h3>On {}</h3>\n", escape(testbed))
            } else {
                String::new()
            };
            name + &ledger_of(entries, experiments)
        })
        .collect()
}

/// The papers' numbers of a figure of ours, for its head.
pub(crate) fn paper_numbers(beside: &[(&str, PaperFigure)]) -> String {
    let mut out = String::new();
    for (at, (paper, figure)) in beside.iter().enumerate() {
        let again = at > 0 && beside[at - 1].0 == *paper;
        let lead = match (at, again) {
            (0, _) => format!("{paper} "),
            (_, true) => ", ".to_owned(),
            (_, false) => format!("; {paper} "),
        };
        let number = if again {
            figure.number.trim_start_matches("Fig. ")
        } else {
            figure.number
        };
        let _ = write!(out, "{lead}{}", escape(number));
    }
    if out.is_empty() {
        out
    } else {
        format!("<span class=\"of\">{out}:</span> ")
    }
}

/// A line for each figure of a paper that one of ours stands beside.
pub(crate) fn paper_figures(beside: &[(&str, PaperFigure)]) -> String {
    let mut out = String::new();
    for (paper, figure) in beside {
        let _ = writeln!(
            out,
            "<p class=\"paper\"><b>{} {}</b> shows {}. {}</p>",
            escape(paper),
            escape(figure.number),
            escape(figure.shows),
            known(figure)
        );
    }
    match beside.len() {
        0..=2 => out,
        n => folded(&format!("What the paper's {n} figures show"), &out),
    }
}

/// What the text of the paper says of a figure.
fn known(figure: &PaperFigure) -> String {
    let also = escape(figure.also);
    match (figure.has_values(), figure.also.is_empty()) {
        (true, true) => "Values that the text states are drawn in.".to_owned(),
        (true, false) => format!("Values that the text states are drawn in. Also stated: {also}"),
        (false, true) => "The figure's values are not stated in text.".to_owned(),
        (false, false) => {
            format!("Stated: {also} The figure's values are not stated in text.")
        }
    }
}

/// A figure of ours that stands beside one of a paper.
#[derive(Clone, Debug)]
pub(crate) struct Beside {
    /// The paper's number.
    pub(crate) of: &'static str,
    /// Ours.
    pub(crate) number: usize,
    /// Fragment of ours.
    pub(crate) anchor: String,
}

/// All figures of a paper, with ours beside each, or why there is none.
pub(crate) fn paper(paper: &Paper, shown: &[Beside]) -> String {
    let mut table = Table::new(escape(paper.about))
        .text("figure of the paper")
        .text("shows")
        .text("what its text states")
        .text("ours");
    for figure in paper.figures {
        let links: Vec<String> = shown
            .iter()
            .filter(|shown| shown.of == figure.number)
            .map(|shown| format!("<a href=\"#{}\">Figure {}</a>", shown.anchor, shown.number))
            .collect();
        let ours = match (links.is_empty(), figure.missing.is_empty()) {
            (false, _) => links.join(", "),
            (true, false) => format!("none: {}", escape(figure.missing)),
            (true, true) => {
                let mut ids: Vec<&str> = figure.ours.iter().map(|(id, _)| *id).collect();
                ids.dedup();
                format!("none: not in this campaign (experiment {})", ids.join(", "))
            }
        };
        let stated = if figure.ours.is_empty() {
            String::new()
        } else {
            known(figure)
        };
        table.row(vec![
            escape(figure.number),
            escape(figure.shows),
            stated,
            ours,
        ]);
    }
    format!(
        "<div class=\"index\">{}</div>",
        folded(
            &format!(
                "The {} figures and tables of {} beside ours",
                paper.figures.len(),
                paper.name
            ),
            &table.html(),
        )
        .replacen("<details>", "<details open>", 1)
    )
}
