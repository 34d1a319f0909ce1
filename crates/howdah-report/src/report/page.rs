//! The page: one HTML file that needs nothing else. What it says is gathered here, how it is laid out is `page.html`.

use super::experiment::{Experiment, gather};
use super::figures;
use super::html::escape;
use super::load::Loaded;
use super::statements::{self, Beside};
use super::{Options, STYLE, chart, fidelity, names, papers, rfc9743, sections};
use crate::{company, ledger, starts};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use minijinja::value::Serde;
use minijinja::{Environment, Output, State, Value};
use serde::Serialize;

pub(super) const SCRIPT: &str = include_str!("page.js");
const TEMPLATE: &str = include_str!("page.html");
/// Vega, Vega-Lite and Vega-Embed; see `vega/README.md`.
const VEGA: &[u8] = include_bytes!("../../vega/vega.js.gz");
/// Points of all lines of a report together, about six bytes each.
const POINTS: usize = 600_000;
/// A line with fewer points than this would no longer show its shape.
const FEWEST_POINTS: usize = 40;
/// Experiments with more cells than this start folded.
const MANY_CELLS: usize = 150;

/// What the template is given. Fields called `html` are HTML already, all others are text.
#[derive(Serialize)]
struct Page<'a> {
    title: &'a str,
    style: &'static str,
    script: &'static str,
    /// Gzip in base64, for the browser to inflate.
    vega: String,
    /// How all charts look, as JSON.
    config: String,
    before: Vec<Section>,
    families: Vec<Family>,
    after: Vec<Section>,
}

#[derive(Serialize)]
struct Section {
    id: &'static str,
    title: &'static str,
    html: String,
}

/// Experiments of one paper.
#[derive(Serialize)]
struct Family {
    title: &'static str,
    html: String,
    experiments: Vec<Shown>,
}

/// One experiment: table, figures, and under each how to get it again.
#[derive(Serialize)]
struct Shown {
    anchor: String,
    id: String,
    title: String,
    open: bool,
    html: String,
    figures: Vec<ShownFigure>,
    folded: Vec<ShownFigure>,
    reproduce: String,
}

#[derive(Serialize)]
struct ShownFigure {
    number: usize,
    title: String,
    paper_numbers: String,
    paper: String,
    html: String,
    caption: String,
}

/// Most points of a line, so that the file keeps its size.
fn points(experiments: &[Experiment<'_>], options: &Options) -> usize {
    let lines: usize = experiments.iter().map(figures::lines).sum();
    let most = options.points_per_line.max(FEWEST_POINTS);
    (POINTS / lines.max(1)).clamp(FEWEST_POINTS, most)
}

/// The specification of each figure, with a name for its file, in the order of the page.
pub(crate) fn specs(loaded: &Loaded, options: &Options) -> Vec<(String, serde_json::Value)> {
    let experiments = gather(&loaded.campaign, &loaded.cells);
    let points = points(&experiments, options);
    let mut specs = Vec::new();
    for experiment in &experiments {
        let anchor = sections::anchor(experiment);
        for figure in figures::all(experiment, sections::mtu(experiment), points) {
            let number = specs.len() + 1;
            let key = super::html::slug(&figure.key);
            let title = format!("{}: {}", experiment.id, figure.title);
            let caption = figure.caption + &sections::marks(experiment);
            let spec = figure.chart.file(&title, &caption);
            specs.push((format!("{number:03}-{anchor}-{key}"), spec));
        }
    }
    specs
}

/// The whole page.
pub(crate) fn page(loaded: &Loaded, options: &Options) -> String {
    let experiments = gather(&loaded.campaign, &loaded.cells);
    let points = points(&experiments, options);
    let page = Page {
        title: options
            .title
            .as_deref()
            .unwrap_or("Howdah laboratory report"),
        style: STYLE,
        script: SCRIPT,
        vega: vega(),
        config: chart::config().to_string(),
        before: before(loaded, &experiments, options),
        families: families(loaded, &experiments, points),
        after: vec![
            Section {
                id: "reading",
                title: "How to read this",
                html: sections::reading(points),
            },
            Section {
                id: "scenarios",
                title: "Scenarios",
                html: sections::scenarios(loaded),
            },
        ],
    };
    render("page.html", TEMPLATE, page)
}

/// What draws, gzipped and in base64, for the browser to inflate.
pub(super) fn vega() -> String {
    STANDARD.encode(VEGA)
}

/// A page of that template.
pub(super) fn render(name: &str, template: &str, page: impl Serialize) -> String {
    let mut environment = Environment::new();
    environment.set_formatter(write);
    environment
        .render_named_str(name, template, Serde(page))
        .unwrap_or_else(|error| format!("<pre>{}</pre>", escape(&format!("{error:#}"))))
}

/// Text is escaped as everywhere in the report; what the template calls safe is HTML.
fn write(
    out: &mut Output<'_>,
    _: &mut State<'_, '_>,
    value: &Value,
) -> Result<(), minijinja::Error> {
    let text = value.to_string();
    let written = if value.is_safe() { text } else { escape(&text) };
    Ok(out.write_str(&written)?)
}

/// What stands before the experiments; a section that has nothing to say is left out.
fn before(loaded: &Loaded, experiments: &[Experiment<'_>], options: &Options) -> Vec<Section> {
    // Of no use to somebody who asks something else.
    let papers = ledger::concerns(&loaded.cells) || loaded.cells.is_empty();
    let all = [
        ("run", "What was run", Some(sections::header(loaded))),
        (
            "all",
            "All protocols",
            Some(sections::overall(experiments, loaded)),
        ),
        (
            "ledger",
            "Ledger of the papers' statements",
            papers.then(|| statements::ledger(&loaded.ledger, experiments)),
        ),
        (
            "problems",
            "Cells without a result, cells shortened",
            Some(sections::problems(loaded)),
        ),
        (
            "testbed",
            "Simulation beside testbed",
            fidelity::overview(experiments),
        ),
        (
            "rfc9743",
            "Congestion control under the headings of RFC 9743",
            rfc9743::section(experiments, options.subject.as_deref()),
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
    all.into_iter()
        .filter_map(|(id, title, html)| {
            let html = html.filter(|html| !html.is_empty())?;
            Some(Section { id, title, html })
        })
        .collect()
}

fn families(loaded: &Loaded, experiments: &[Experiment<'_>], points: usize) -> Vec<Family> {
    let mut number = 0;
    let mut families = Vec::new();
    for own in experiments.chunk_by(|a, b| names::family(a.id).1 == names::family(b.id).1) {
        let (_, title) = names::family(own.first().map_or("", |first| first.id));
        let mut beside = Vec::new();
        let experiments = own
            .iter()
            .map(|experiment| show(experiment, loaded, points, &mut number, &mut beside))
            .collect();
        families.push(Family {
            title,
            html: papers::of_family(title)
                .map_or_else(String::new, |paper| statements::paper(&paper, &beside)),
            experiments,
        });
    }
    families
}

fn show(
    experiment: &Experiment<'_>,
    loaded: &Loaded,
    points: usize,
    number: &mut usize,
    shown: &mut Vec<Beside>,
) -> Shown {
    let anchor = sections::anchor(experiment);
    let mtu = sections::mtu(experiment);
    let mut html = sections::said(experiment, loaded);
    html.push_str(&sections::cells(experiment, mtu));
    html.push_str(&fidelity::table(experiment));
    let marks = sections::marks(experiment);
    let (mut first, mut folded) = (Vec::new(), Vec::new());
    for figure in figures::all(experiment, mtu, points) {
        *number += 1;
        let beside = papers::beside(experiment, &figure.key);
        shown.extend(beside.iter().map(|(_, of)| Beside {
            of: of.number,
            number: *number,
            anchor: format!("{anchor}-f{number}"),
        }));
        let to = if figure.folded {
            &mut folded
        } else {
            &mut first
        };
        to.push(ShownFigure {
            number: *number,
            paper_numbers: statements::paper_numbers(&beside),
            paper: statements::paper_figures(&beside),
            html: figure.chart.html(),
            title: figure.title,
            caption: figure.caption + &marks,
        });
    }
    Shown {
        anchor,
        id: experiment.id.to_owned(),
        title: experiment.said.title.clone(),
        open: experiment.points.len() <= MANY_CELLS,
        html,
        figures: first,
        folded,
        reproduce: sections::reproduce(experiment, loaded),
    }
}
