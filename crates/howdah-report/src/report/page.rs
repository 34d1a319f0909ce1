//! The page: one HTML file that needs nothing else.

use super::experiment::{Experiment, gather};
use super::figures::{self, Figure};
use super::html::escape;
use super::load::Loaded;
use super::papers::PaperFigure;
use super::statements;
use super::{Options, fidelity, names, papers, rfc9743, sections, svg};
use crate::{company, ledger, starts};
use std::fmt::Write as _;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
/// Points of all lines of a report together, about six bytes each.
const POINTS: usize = 600_000;
/// A line with fewer points than this would no longer show its shape.
const FEWEST_POINTS: usize = 40;
/// Experiments with more cells than this start folded.
const MANY_CELLS: usize = 150;

/// The whole page.
pub(crate) fn page(loaded: &Loaded, options: &Options) -> String {
    let experiments = gather(&loaded.campaign, &loaded.cells);
    let lines: usize = experiments.iter().map(figures::lines).sum();
    let most = options.points_per_line.max(FEWEST_POINTS);
    let points = (POINTS / lines.max(1)).clamp(FEWEST_POINTS, most);

    let mut contents = Contents::default();
    let mut body = String::new();
    let plain = [
        ("run", "What was run", sections::header(loaded)),
        (
            "all",
            "All protocols",
            sections::overall(&experiments, loaded),
        ),
        (
            "ledger",
            "Ledger of the papers' statements",
            // Of no use to somebody who asks something else.
            if ledger::concerns(&loaded.cells) || loaded.cells.is_empty() {
                statements::ledger(&loaded.ledger, &experiments)
            } else {
                String::new()
            },
        ),
        (
            "problems",
            "Cells without a result, cells shortened",
            sections::problems(loaded),
        ),
    ];
    for (id, title, html) in plain {
        if html.is_empty() {
            continue;
        }
        contents.section(id, title);
        section(&mut body, id, title, &html);
    }
    let subject = options.subject.as_deref();
    let more = [
        (
            "testbed",
            "Simulation beside testbed",
            fidelity::overview(&experiments),
        ),
        (
            "rfc9743",
            "Congestion control under the headings of RFC 9743",
            rfc9743::section(&experiments, subject),
        ),
        (
            "company",
            "Company: ours beside others",
            sections::sheets(&company::sheets(loaded.cells.iter(), company::OURS)),
        ),
        (
            "starts",
            "Starts: the first round trips",
            sections::sheets(&starts::sheets(loaded.cells.iter())),
        ),
    ];
    for (id, title, html) in more {
        if let Some(html) = html {
            contents.section(id, title);
            section(&mut body, id, title, &html);
        }
    }
    let mut number = 0;
    let mut rest = experiments.as_slice();
    while let Some(first) = rest.first() {
        let (_, family) = names::family(first.id);
        let same = |e: &&Experiment<'_>| names::family(e.id).1 == family;
        let (own, others) = rest.split_at(rest.iter().take_while(same).count());
        rest = others;
        contents.family(family);
        let mut shown = Vec::new();
        let mut html = String::new();
        for experiment in own {
            html.push_str(&show(
                experiment,
                loaded,
                points,
                &mut number,
                &mut shown,
                &mut contents,
            ));
        }
        let _ = writeln!(body, "<h2 class=\"family\">{}</h2>", escape(family));
        if let Some(paper) = papers::of_family(family) {
            body.push_str(&statements::paper(&paper, &shown));
        }
        body.push_str(&html);
    }
    contents.end_family();
    for (id, title, html) in [
        ("reading", "How to read this", sections::reading(points)),
        ("scenarios", "Scenarios", sections::scenarios(loaded)),
    ] {
        contents.section(id, title);
        section(&mut body, id, title, &html);
    }

    let title = options
        .title
        .as_deref()
        .unwrap_or("Howdah laboratory report");
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n<script>\n{SCRIPT}</script>\n</head>\n<body>\n\
         {definitions}<header><h1>{title}</h1>\
         <span class=\"theme\" role=\"group\" aria-label=\"colours\">\
         <button type=\"button\" data-set=\"\">auto</button>\
         <button type=\"button\" data-set=\"light\">light</button>\
         <button type=\"button\" data-set=\"dark\">dark</button></span></header>\n\
         <div class=\"frame\">\n<nav aria-label=\"contents\"><details open><summary>Contents</summary>\n{contents}</details></nav>\n\
         <main>\n{body}</main>\n</div>\n</body>\n</html>\n",
        title = escape(title),
        definitions = svg::definitions(),
        contents = contents.html,
    )
}

fn section(body: &mut String, id: &str, title: &str, html: &str) {
    let _ = writeln!(
        body,
        "<section id=\"{id}\">\n<h2>{}</h2>\n{html}</section>",
        escape(title)
    );
}

/// One experiment: table, figures, and under each how to get it again.
fn show(
    experiment: &Experiment<'_>,
    loaded: &Loaded,
    points: usize,
    number: &mut usize,
    shown: &mut Vec<Shown>,
    contents: &mut Contents,
) -> String {
    let anchor = sections::anchor(experiment);
    let said = &experiment.said.title;
    let title = if said.is_empty() {
        escape(experiment.id)
    } else {
        format!("{} \u{2013} {}", escape(experiment.id), escape(said))
    };
    contents.experiment(&anchor, experiment.id, said);
    let mut out = sections::said(experiment, loaded);
    let mtu = sections::mtu(experiment);
    out.push_str(&sections::cells(experiment, mtu));
    out.push_str(&fidelity::table(experiment));
    let reproduce = sections::reproduce(experiment, loaded);
    let mut folded = String::new();
    let mut folded_count = 0;
    let marks = sections::marks(experiment);
    for mut figure in figures::all(experiment, mtu, points) {
        figure.caption.push_str(&marks);
        *number += 1;
        let beside = papers::beside(experiment, &figure.key);
        shown.extend(beside.iter().map(|(_, of)| Shown {
            of: of.number,
            number: *number,
            anchor: format!("{anchor}-f{number}"),
        }));
        let html = html(&figure, *number, &anchor, &reproduce, &beside);
        if figure.folded {
            folded_count += 1;
            folded.push_str(&html);
        } else {
            out.push_str(&html);
        }
    }
    if folded_count > 0 {
        let plural = if folded_count == 1 { "" } else { "s" };
        let _ = write!(
            out,
            "<details class=\"more\"><summary>{folded_count} more figure{plural}: series, waiting times, repetitions, costs</summary>\n{folded}</details>\n"
        );
    }
    let open = if experiment.points.len() > MANY_CELLS {
        ""
    } else {
        " open"
    };
    format!(
        "<section id=\"{anchor}\" class=\"experiment\">\n<details{open}><summary><h3>{title}</h3></summary>\n{out}</details>\n</section>\n"
    )
}

/// A figure of ours that stands beside one of a paper.
#[derive(Clone, Debug)]
pub(crate) struct Shown {
    /// The paper's number.
    pub(crate) of: &'static str,
    /// Ours.
    pub(crate) number: usize,
    /// Fragment of ours.
    pub(crate) anchor: String,
}

fn html(
    figure: &Figure,
    number: usize,
    anchor: &str,
    reproduce: &str,
    beside: &[(&str, PaperFigure)],
) -> String {
    format!(
        "<figure id=\"{anchor}-f{number}\">\n<h4>Figure {number}. {}{}</h4>\n{}{}<figcaption>{}</figcaption>\n{reproduce}</figure>\n",
        statements::paper_numbers(beside),
        escape(&figure.title),
        statements::paper_figures(beside),
        figure.body,
        escape(&figure.caption),
    )
}

/// The table of contents, written along.
#[derive(Debug, Default)]
struct Contents {
    html: String,
    in_family: bool,
}

impl Contents {
    fn section(&mut self, id: &str, title: &str) {
        let _ = writeln!(self.html, "<a href=\"#{id}\">{}</a>", escape(title));
    }

    fn family(&mut self, title: &str) {
        self.end_family();
        let _ = writeln!(self.html, "<b>{}</b><div>", escape(title));
        self.in_family = true;
    }

    fn experiment(&mut self, anchor: &str, id: &str, title: &str) {
        let _ = writeln!(
            self.html,
            "<a href=\"#{anchor}\" title=\"{}\">{}</a>",
            escape(title),
            escape(id)
        );
    }

    fn end_family(&mut self) {
        if self.in_family {
            self.html.push_str("</div>\n");
            self.in_family = false;
        }
    }
}
