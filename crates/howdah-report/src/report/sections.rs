//! The parts of the report that are not figures.

use super::experiment::{Experiment, Point, distinct};
use super::format::{self, Quantity};
use super::html::{Table, escape, folded};
use super::load::Loaded;
use super::measure::Measure;
use super::names;
use super::stats::{Interval, Spread};
use crate::result::{CellResult, Mark, ScenarioText};
use crate::sheet::Sheet;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Plain tables below each other; `None` of none.
pub(crate) fn sheets(sheets: &[Sheet]) -> Option<String> {
    let html = |sheet: &Sheet| {
        let mut table = Table::new(escape(&sheet.caption));
        for (at, head) in sheet.heads.iter().enumerate() {
            let head = escape(head);
            table = if at == 0 {
                table.text(head)
            } else {
                table.number(head)
            };
        }
        for row in &sheet.rows {
            table.row(
                row.iter()
                    .map(|cell| escape(&cell.replace("**", "")))
                    .collect(),
            );
        }
        table.html()
    };
    (!sheets.is_empty()).then(|| sheets.iter().map(html).collect())
}

/// What was run, on what.
pub(crate) fn header(loaded: &Loaded) -> String {
    let campaign = &loaded.campaign;
    let mut list = String::from("<dl class=\"facts\">\n");
    let mut fact = |name: &str, value: &str| {
        let _ = writeln!(list, "<dt>{}</dt><dd>{value}</dd>", escape(name));
    };
    let paths: Vec<String> = campaign
        .scenarios
        .iter()
        .map(|s| format!("<code>{}</code>", escape(&s.path)))
        .collect();
    fact("Scenarios", &or_unknown(paths.join(", ")));
    fact("Command", &code(&campaign.command));
    let dirty = if campaign.dirty {
        " <strong class=\"warn\">with uncommitted changes: not reproducible from the commit alone</strong>"
    } else {
        ", clean"
    };
    fact("Commit", &format!("{}{dirty}", code(&campaign.commit)));
    let mut commits: BTreeMap<&str, usize> = BTreeMap::new();
    for cell in loaded.cells.iter().filter(|cell| !cell.commit.is_empty()) {
        *commits.entry(&cell.commit).or_default() += 1;
    }
    if commits.keys().any(|commit| *commit != campaign.commit) {
        let parts: Vec<String> = commits
            .iter()
            .map(|(commit, count)| format!("{count} of {}", code(commit)))
            .collect();
        let mixed = format!(
            "<strong class=\"warn\">not all of this commit:</strong> {}",
            parts.join(", ")
        );
        fact("Results", &mixed);
    }
    fact("Started", &escape(&format::date(campaign.started_unix_s)));
    let testbeds = distinct(loaded.cells.iter().map(|cell| cell.testbed.as_str()));
    let words: Vec<&str> = testbeds
        .into_iter()
        .map(|testbed| match testbed {
            "sim" => "simulator, virtual time",
            "netns" => "network namespaces, real time",
            other => other,
        })
        .collect();
    fact("Testbed", &or_unknown(escape(&words.join(", "))));
    fact("Seeds", &or_unknown(escape(&seeds(loaded.cells.iter()))));
    let failed = loaded.cells.iter().filter(|c| c.error.is_some()).count();
    let shortened = loaded.cells.iter().filter(|c| c.shortened).count();
    let mut runs = format!("{} runs", loaded.cells.len());
    if failed + loaded.unreadable.len() > 0 {
        let _ = write!(
            runs,
            ", <strong class=\"warn\">{} without a result</strong>",
            failed + loaded.unreadable.len()
        );
    }
    if shortened > 0 {
        let _ = write!(runs, ", {shortened} shortened");
    }
    let forwarded = loaded.cells.iter().filter(|c| c.forwarded.is_some());
    let forwarded = forwarded.count();
    if forwarded > 0 {
        let _ = write!(runs, ", {forwarded} forwarded");
    }
    if loaded.not_run > 0 {
        let _ = write!(
            runs,
            ", <strong class=\"warn\">{} not run yet</strong>",
            loaded.not_run
        );
    }
    if loaded.foreign > 0 {
        let _ = write!(
            runs,
            "; {} results of other campaigns in the directory are not shown",
            loaded.foreign
        );
    }
    fact("Runs", &runs);
    let scenario_s: f64 = loaded.cells.iter().map(|c| c.duration_s).sum();
    let wall_s: f64 = loaded.cells.iter().map(|c| c.wall_s).sum();
    fact(
        "Time",
        &format!(
            "{} of scenario time, {} of computing",
            span(scenario_s),
            span(wall_s)
        ),
    );
    for (name, value) in &campaign.machine {
        let kib = value
            .strip_suffix(" kB")
            .and_then(|n| n.trim().parse::<f64>().ok());
        let value = kib.map_or_else(|| value.clone(), |kib| Quantity::Bytes.text(kib * 1024.0));
        fact(name, &escape(&value));
    }
    list.push_str("</dl>\n");
    if campaign.quick {
        list.insert_str(
            0,
            "<p class=\"banner\"><strong>Reduced set</strong> (<code>--quick</code>): fewer cells, shorter runs. Good for finding regressions, not for judging protocols.</p>\n",
        );
    }
    list + &algorithms(&loaded.cells)
}

/// Protocol as the scenario writes it, and what the live objects call themselves.
fn algorithms(cells: &[CellResult]) -> String {
    let mut live: BTreeMap<(usize, &str), Vec<&str>> = BTreeMap::new();
    for flow in cells.iter().flat_map(|cell| &cell.flows) {
        let known = live
            .entry((names::protocol_rank(&flow.protocol), &flow.protocol))
            .or_default();
        if !known.contains(&flow.algorithm.as_str()) {
            known.push(&flow.algorithm);
        }
    }
    if live.is_empty() {
        return String::new();
    }
    let mut table = Table::new("Protocols, and the names that the running objects gave")
        .text("in the scenario")
        .text("in this report")
        .text("running object");
    for ((_, protocol), algorithms) in live {
        let mut words: Vec<String> = algorithms
            .iter()
            .map(|name| match *name {
                "" => "<strong class=\"warn\">gave no name</strong>".to_owned(),
                name => code(name),
            })
            .collect();
        if words.len() > 1 {
            words.push("<strong class=\"warn\">not the same in all runs</strong>".to_owned());
        }
        table.row(vec![
            code(protocol),
            escape(&names::protocol(protocol)),
            words.join(", "),
        ]);
    }
    folded("Protocols", &table.html())
}

/// Every protocol over every experiment.
pub(crate) fn overall(experiments: &[Experiment<'_>], loaded: &Loaded) -> String {
    let mut protocols: Vec<&str> = distinct(
        loaded
            .cells
            .iter()
            .flat_map(|cell| cell.flows.iter().map(|f| f.protocol.as_str())),
    );
    protocols.sort_by_key(|p| names::protocol_rank(p));
    if protocols.is_empty() {
        return "<p>No cell has a long-lived flow.</p>\n".to_owned();
    }
    // Values first: the unit and the best of a column depend on all of them.
    let columns: Vec<Vec<Option<f64>>> = experiments
        .iter()
        .map(|experiment| {
            protocols
                .iter()
                .map(|p| median_goodput(experiment, p))
                .collect()
        })
        .collect();
    let best = |column: &Vec<Option<f64>>| column.iter().flatten().copied().fold(0.0, f64::max);
    let mut table = Table::new(
        "Median goodput over all cells, seeds and flows of the protocol in the experiment",
    )
    .text("protocol");
    for (experiment, column) in experiments.iter().zip(&columns) {
        table = table.number(format!(
            "<a href=\"#{}\">{}</a><br><small>{}</small>",
            anchor(experiment),
            escape(experiment.id),
            Quantity::Rate.unit(best(column)).name
        ));
    }
    table = table
        .number("retransmitted, median")
        .number("runs")
        .number("without result");
    for (n, protocol) in protocols.iter().enumerate() {
        let mut row = vec![escape(&names::protocol(protocol))];
        for column in &columns {
            let best = best(column);
            let unit = Quantity::Rate.unit(best);
            row.push(match column[n] {
                None => String::new(),
                Some(value) => {
                    let share = if best > 0.0 {
                        value / best * 100.0
                    } else {
                        0.0
                    };
                    let text = unit.write(value);
                    let mark = if value >= best && column.iter().flatten().count() > 1 {
                        format!("<b>{text}</b>")
                    } else {
                        text
                    };
                    format!("<span class=\"fill\" style=\"--p:{share:.0}%\">{mark}</span>")
                }
            });
        }
        let mine = |cell: &&CellResult| cell.flows.iter().any(|f| f.protocol == *protocol);
        let runs: Vec<&CellResult> = loaded.cells.iter().filter(mine).collect();
        let again = Spread::of(runs.iter().flat_map(|cell| {
            let flows = cell.flows.iter().filter(|f| f.protocol == *protocol);
            flows.filter_map(|f| {
                crate::metrics::retransmit_share(f.retransmitted_bytes?, f.sent_bytes)
            })
        }));
        row.push(again.map_or(String::new(), |s| Quantity::Percent.text(s.median)));
        let named = loaded.cells.iter().filter(|cell| {
            cell.error.is_some() && (mine(cell) || cell.at.values().any(|v| v == protocol))
        });
        let failed = named.count();
        row.push(
            runs.iter()
                .filter(|c| c.error.is_none())
                .count()
                .to_string(),
        );
        row.push(failed.to_string());
        table.row(row);
    }
    table.html()
        + "<p class=\"note\">A bar is the share of the column's highest value, which is bold. Highest is not best: a flow may have it from its neighbours, and cells of an experiment differ (buffers, round-trip times, company). The experiment's figures say more.</p>\n"
}

fn median_goodput(experiment: &Experiment<'_>, protocol: &str) -> Option<f64> {
    let runs = experiment.runs();
    let rates = runs.iter().flat_map(|run| {
        let flows = run.flows.iter().filter(|f| f.protocol == protocol);
        flows.map(|f| super::measure::goodput_of(run, f))
    });
    Spread::of(rates).map(|spread| spread.median)
}

/// Cells that gave nothing, or less than was planned.
pub(crate) fn problems(loaded: &Loaded) -> String {
    let mut out = String::new();
    let failed: Vec<&CellResult> = loaded.cells.iter().filter(|c| c.error.is_some()).collect();
    if failed.is_empty() && loaded.unreadable.is_empty() {
        out.push_str("<p>Every cell gave a result.</p>\n");
    } else {
        let mut table = Table::new("Cells without a result")
            .text("experiment")
            .text("cell")
            .number("seed")
            .text("id")
            .text("reason");
        for cell in failed {
            table.row(vec![
                escape(&cell.experiment),
                escape(&place(cell)),
                cell.seed.to_string(),
                code(&cell.id),
                escape(cell.error.as_deref().unwrap_or_default()),
            ]);
        }
        for (file, reason) in &loaded.unreadable {
            table.row(vec![
                "?".to_owned(),
                code(file),
                String::new(),
                String::new(),
                escape(reason),
            ]);
        }
        out.push_str(&table.html());
    }
    let skipped: Vec<&CellResult> = loaded
        .cells
        .iter()
        .filter(|c| c.skipped.is_some())
        .collect();
    if !skipped.is_empty() {
        let mut table = Table::new("Cells that their testbed cannot run")
            .text("experiment")
            .text("cell")
            .text("reason");
        for cell in &skipped {
            table.row(vec![
                escape(&cell.experiment),
                escape(&place(cell)),
                escape(cell.skipped.as_deref().unwrap_or_default()),
            ]);
        }
        let summary = format!("{} skipped cells", skipped.len());
        out.push_str(&folded(&summary, &table.html()));
    }
    out.push_str(&forwarded(loaded));
    let shortened: Vec<&CellResult> = loaded.cells.iter().filter(|c| c.shortened).collect();
    if shortened.is_empty() {
        out.push_str("<p>No cell was shortened.</p>\n");
        return out;
    }
    let mut table =
        Table::new("Cells that ended before their planned time, because their mean was settled")
            .text("experiment")
            .text("cell")
            .number("seed")
            .number("scenario time");
    for cell in &shortened {
        table.row(vec![
            escape(&cell.experiment),
            escape(&place(cell)),
            cell.seed.to_string(),
            Quantity::Seconds.text(cell.duration_s),
        ]);
    }
    let summary = format!("{} shortened cells", shortened.len());
    out + &folded(&summary, &table.html())
}

/// The cells of which a stretch was repeated instead of simulated.
fn forwarded(loaded: &Loaded) -> String {
    let mut table =
        Table::new("Cells whose steady stretch was repeated instead of being simulated")
            .text("experiment")
            .text("cell")
            .number("seed")
            .number("seen from")
            .number("to")
            .number("repeated for")
            .number("error told");
    let mut count = 0;
    for cell in &loaded.cells {
        let Some(note) = cell.forwarded else { continue };
        count += 1;
        table.row(vec![
            escape(&cell.experiment),
            escape(&place(cell)),
            cell.seed.to_string(),
            Quantity::Seconds.text(note.from_s),
            Quantity::Seconds.text(note.to_s),
            Quantity::Seconds.text(note.skipped_s),
            format!("{:.2} %", note.error * 100.0),
        ]);
    }
    if count == 0 {
        return String::new();
    }
    folded(&format!("{count} forwarded cells"), &table.html())
}

fn place(cell: &CellResult) -> String {
    let parts: Vec<String> = cell
        .at
        .iter()
        .map(|(axis, value)| format!("{} {}", names::axis(axis), names::value(value)))
        .collect();
    parts.join(", ")
}

/// What the scenario says about an experiment, and which of its values are not the paper's.
pub(crate) fn said(experiment: &Experiment<'_>, loaded: &Loaded) -> String {
    let said = &experiment.said;
    let mut out = String::new();
    let paper = [said.paper.as_str(), said.figure.as_str()];
    let paper: Vec<&str> = paper.into_iter().filter(|text| !text.is_empty()).collect();
    if !paper.is_empty() {
        let _ = writeln!(out, "<p class=\"paper\">{}</p>", escape(&paper.join(", ")));
    }
    if !said.note.is_empty() {
        let _ = writeln!(out, "<p class=\"paper\">{}</p>", escape(&said.note));
    }
    let list = |values: &[(String, String)]| {
        let mut table = Table::new("").text("key").text("value");
        for (key, value) in values {
            table.row(vec![code(key), code(value)]);
        }
        table.html()
    };
    let of = |all: &BTreeMap<String, Vec<(String, String)>>| {
        all.get(experiment.id).cloned().unwrap_or_default()
    };
    let (chosen, fitted) = (of(&loaded.campaign.chosen), of(&loaded.campaign.fitted));
    if !fitted.is_empty() {
        let summary = format!("Values found by fitting ({})", fitted.len());
        out.push_str(&folded(&summary, &list(&fitted)));
    }
    if !chosen.is_empty() {
        let summary = format!(
            "Values that the paper does not give, chosen here ({})",
            chosen.len()
        );
        out.push_str(&folded(&summary, &list(&chosen)));
    }
    out
}

/// Largest packet on the paths of our own map in bytes; nothing where cells differ.
pub(crate) fn mtu(experiment: &Experiment<'_>) -> Option<f64> {
    let bytes = experiment.said.mtu_bytes.map(f64::from);
    bytes.filter(|_| names::is_own_map(experiment.id))
}

/// The scenario of an experiment: the file that declares it, else one that names it.
fn scenario<'l>(experiment: &Experiment<'_>, loaded: &'l Loaded) -> Option<&'l ScenarioText> {
    let id = experiment.id;
    let declares = |text: &str| {
        text.contains(&format!("id = \"{id}\"")) || text.contains(&format!("[experiment.{id}]"))
    };
    let names = |text: &str| {
        // The name as a word of its own: "J-A1" is not in "J-A12".
        text.match_indices(id).any(|(at, found)| {
            let part = |c: char| c.is_alphanumeric() || c == '-';
            !text[..at].ends_with(part) && !text[at + found.len()..].starts_with(part)
        })
    };
    let all = &loaded.campaign.scenarios;
    all.iter()
        .find(|scenario| scenario.path == experiment.said.file)
        .or_else(|| all.iter().find(|scenario| declares(&scenario.text)))
        .or_else(|| all.iter().find(|scenario| names(&scenario.text)))
}

/// Every cell of an experiment with its figures.
pub(crate) fn cells(experiment: &Experiment<'_>, mtu: Option<f64>) -> String {
    let mut columns: Vec<(Measure, format::Unit)> = Vec::new();
    let flows = experiment.flows();
    if (2..=4).contains(&flows) {
        let names = super::figures::flow_names(experiment);
        for n in 0..names.len() {
            let names = names.clone();
            let measure = Measure {
                key: format!("flow{n}"),
                title: String::new(),
                short: super::figures::flow_name(experiment, n),
                label: String::new(),
                about: String::new(),
                quantity: Quantity::Rate,
                first: true,
                get: Box::new(move |cell| {
                    let flow = super::figures::flow_of(cell, &names, n)?;
                    Some(super::measure::goodput_of(cell, flow))
                }),
            };
            columns.push((measure, Quantity::Rate.unit(0.0)));
        }
    }
    columns.extend(
        super::figures::measures(experiment, mtu)
            .into_iter()
            .map(|m| (m, Quantity::Rate.unit(0.0))),
    );
    let mut table = Table::new(
        "Median over the seeds [95 % confidence interval, or range below six seeds]; = where all seeds agree",
    );
    for axis in 0..experiment.axes.len().max(1) {
        table = table.text(experiment.axes.get(axis).map_or_else(
            || "cell".to_owned(),
            |axis| escape(&names::axis(&axis.name)),
        ));
    }
    table = table.number("seeds");
    for (measure, unit) in &mut columns {
        let values = experiment
            .points
            .iter()
            .filter_map(|p| super::figures::spread(p, measure));
        *unit = measure
            .quantity
            .unit(values.map(|s| s.median.abs()).fold(0.0, f64::max));
        let name = if unit.name.is_empty() {
            String::new()
        } else {
            format!("<br><small>{}</small>", unit.name)
        };
        let title = match measure.key.as_str() {
            "goodput" if flows > 1 => "goodput of all flows",
            _ => &measure.short,
        };
        table = table.number(format!("{}{name}", escape(title)));
    }
    let noted = experiment.points.iter().any(|p| !notes(p).is_empty());
    if noted {
        table = table.text("notes");
    }
    for point in &experiment.points {
        let mut row: Vec<String> = (0..experiment.axes.len())
            .map(|axis| escape(&experiment.value(axis, point.at[axis])))
            .collect();
        if row.is_empty() {
            row.push(escape(experiment.id));
        }
        row.push(match point.failed.len() {
            0 => point.runs.len().to_string(),
            n => {
                let skipped = point.failed.iter().all(|cell| cell.skipped.is_some());
                let word = if skipped { "skipped" } else { "failed" };
                format!(
                    "{} <strong class=\"warn\">+{n} {word}</strong>",
                    point.runs.len()
                )
            }
        });
        for (measure, unit) in &columns {
            row.push(
                super::figures::spread(point, measure).map_or_else(String::new, |s| {
                    let median = unit.write(s.median);
                    match s.kind {
                        Interval::None => median,
                        Interval::Exact => format!("{median}&nbsp;="),
                        _ => format!(
                            "{median} <small>[{},&nbsp;{}]</small>",
                            unit.write(s.low),
                            unit.write(s.high)
                        ),
                    }
                }),
            );
        }
        if noted {
            row.push(escape(&notes(point).join("; ")));
        }
        table.row(row);
    }
    let fixed: Vec<String> = experiment
        .fixed
        .iter()
        .map(|(name, value)| {
            format!(
                "{} {}",
                escape(&names::axis(name)),
                escape(&names::value(value))
            )
        })
        .collect();
    let mut out = String::new();
    if !fixed.is_empty() {
        let _ = writeln!(out, "<p>The same in every cell: {}.</p>", fixed.join(", "));
    }
    let rows = table.len();
    if rows > 12 {
        out + &folded(&format!("Table of the {rows} cells"), &table.html())
    } else {
        out + &table.html()
    }
}

/// What qualifies a cell, or why it has no result, each reason once.
pub(crate) fn notes(point: &Point<'_>) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    let mut add = |note: String| {
        if !notes.contains(&note) {
            notes.push(note);
        }
    };
    for cell in &point.failed {
        if let Some(reason) = &cell.skipped {
            add(format!("skipped: {reason}"));
        }
        if let Some(reason) = &cell.error {
            add(format!("failed: {reason}"));
        }
    }
    for cell in &point.runs {
        for mark in &cell.marks {
            add(mark_words(*mark).to_owned());
        }
        let objections = cell.certificate.iter().flat_map(|c| &c.objections);
        for objection in objections {
            add(format!("certificate: {objection}"));
        }
    }
    notes
}

/// A testbed's mark in words.
fn mark_words(mark: Mark) -> &'static str {
    match mark {
        Mark::Invalid => "\u{2020} invalid: it measured the machine as well",
        Mark::HostLimited => "\u{2020} host-limited: the processors were the bottleneck",
        Mark::Scaled => "\u{2020} scaled: a tenth of the rate, the same BDP in packets",
        Mark::Unsettled => "unsettled: the median is not known to 5 %",
    }
}

/// How many cells of an experiment carry a mark, for the captions of its figures.
pub(crate) fn marks(experiment: &Experiment<'_>) -> String {
    let count = |of: &dyn Fn(&CellResult) -> bool| {
        let points = experiment.points.iter();
        points.filter(|p| p.runs.iter().any(|run| of(run))).count()
    };
    let marked = |mark: Mark| count(&|run| run.marks.contains(&mark));
    let mut parts = Vec::new();
    let mut add = |n: usize, words: &str| {
        if n > 0 {
            parts.push(format!("{n} {words}"));
        }
    };
    add(marked(Mark::HostLimited), "host-limited\u{2020}");
    add(marked(Mark::Scaled), "scaled\u{2020}");
    add(marked(Mark::Invalid), "invalid\u{2020}");
    add(marked(Mark::Unsettled), "unsettled");
    let objected = |run: &CellResult| run.certificate.as_ref().is_some_and(|c| !c.valid);
    add(
        count(&objected),
        "with objections of their certificate\u{2020}",
    );
    let failed = experiment
        .points
        .iter()
        .filter(|p| !p.failed.is_empty())
        .count();
    add(failed, "failed or skipped");
    let reasons = if parts.is_empty() {
        ""
    } else {
        "; the table has the reasons"
    };
    let early = count(&|run| run.shortened);
    if early > 0 {
        parts.insert(0, format!("{early} ended early (shortened)"));
    }
    if parts.is_empty() {
        return String::new();
    }
    format!(
        " Of {} cells: {}{reasons}.",
        experiment.points.len(),
        parts.join(", ")
    )
}

/// How to read the report, and what it does not tell.
pub(crate) fn reading(points_per_line: usize) -> String {
    format!(
        "<ul>\n\
         <li>Goodput is user bytes delivered, times eight, over the time from the flow's first to its last moment of activity, ramp included; where it says so, only after the warm-up. Rates are SI: 1 Mbit/s is 10<sup>6</sup> bit/s. Data are binary: 1 GiB is 2<sup>30</sup> bytes. Bytes on the wire are IP packets and 14 bytes of Ethernet header.</li>\n\
         <li>A cell is run once per seed. What is shown is the median; the interval is the median's 95 % confidence interval by order statistics, which assumes nothing about the distribution and needs six seeds; with fewer, it is the range from the lowest to the highest.</li>\n\
         <li>Time series show the run with the lowest seed of each cell and have at most {points_per_line} points: rates are averaged, windows, round-trip times and queues keep the lowest and highest value of each stretch. The whole series are in <code>intervals/</code>.</li>\n\
         <li>Colours are never the only sign: lines also differ in dashes and marks, bars have the names of their series at their ends, cells of heat maps have their number.</li>\n\
         <li>A simulated host is infinitely fast unless its scenario switches the host cost model on. What is called a model of a closed system is one, made from its published behaviour.</li>\n\
         </ul>\n"
    )
}

/// The scenarios as they were run.
pub(crate) fn scenarios(loaded: &Loaded) -> String {
    loaded
        .campaign
        .scenarios
        .iter()
        .map(|s| {
            folded(
                &format!("<code>{}</code>", escape(&s.path)),
                &format!("<pre tabindex=\"0\">{}</pre>\n", escape(&s.text)),
            )
        })
        .collect()
}

/// The line under every figure: how to get it again.
pub(crate) fn reproduce(experiment: &Experiment<'_>, loaded: &Loaded) -> String {
    let campaign = &loaded.campaign;
    let command = scenario(experiment, loaded).map_or_else(
        || campaign.command.clone(),
        |scenario| {
            let quick = if campaign.quick { " --quick" } else { "" };
            let netns = experiment.all().any(|cell| cell.testbed == "netns");
            let on = if netns { " --on netns" } else { "" };
            format!("howdah lab run {}{on}{quick}", quoted(&scenario.path))
        },
    );
    // Twelve digits name a commit well enough; the whole of it is at the top.
    let commit: String = campaign.commit.chars().take(12).collect();
    let commit = if campaign.dirty {
        format!("{commit} with changes")
    } else {
        commit
    };
    format!(
        "<p class=\"repro\">Again: {} at commit {}; {}</p>\n",
        code(&command),
        code(&commit),
        escape(&seeds(experiment.all()))
    )
}

/// A path as a shell wants it.
fn quoted(path: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=,@%".contains(c);
    if path.chars().all(plain) {
        path.to_owned()
    } else {
        format!("'{}'", path.replace('\'', "'\\''"))
    }
}

fn seeds<'c>(cells: impl Iterator<Item = &'c CellResult>) -> String {
    let text = format::ranges(cells.map(|cell| cell.seed));
    match text.is_empty() {
        true => text,
        false if text.contains([',', '\u{2013}']) => format!("seeds {text}"),
        false => format!("seed {text}"),
    }
}

/// Fragment of an experiment's section.
pub(crate) fn anchor(experiment: &Experiment<'_>) -> String {
    format!("e-{}", super::html::slug(experiment.id))
}

fn code(text: &str) -> String {
    if text.is_empty() {
        "unknown".to_owned()
    } else {
        format!("<code>{}</code>", escape(text))
    }
}

fn or_unknown(text: String) -> String {
    if text.is_empty() {
        "unknown".to_owned()
    } else {
        text
    }
}

fn span(seconds: f64) -> String {
    match seconds {
        s if s >= 7200.0 => format!("{} h", format::significant(s / 3600.0, 3)),
        s if s >= 120.0 => format!("{} min", format::significant(s / 60.0, 3)),
        s => Quantity::Seconds.text(s),
    }
}
