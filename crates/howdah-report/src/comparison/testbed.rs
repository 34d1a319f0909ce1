//! Campaigns of the testbed as Markdown: every cell that was measured, with what speaks against it, what it cost,
//! and which cells are missing and why. Nothing is averaged over cells that a partial campaign may lack.

use super::grid::Grid;
use super::{costs, words};
use crate::report::date;
use crate::result::{Campaign, CellResult, ExperimentNote, Mark, Summary};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// First line of this half of the document.
pub(super) const HEADING: &str = "## On the testbed: real programs and kernels";

/// What a campaign's heading begins with.
const SECTION: &str = "### ";

/// Marks as the tables write them, and as the text does.
const MARKS: [(Mark, char, &str); 4] = [
    (Mark::Unsettled, 'u', "unsettled"),
    (Mark::Invalid, 'i', "invalid"),
    (Mark::HostLimited, 'h', "host-limited"),
    (Mark::Scaled, 's', "scaled"),
];

/// Cells with objections that are listed one by one.
const MOST_OBJECTIONS: usize = 12;

/// Whether the campaign, or a part of it, ran on the testbed, be it that nothing is finished.
pub(super) fn has_real(summary: &Summary) -> bool {
    let asked = summary.campaign.command.contains("--on netns");
    asked || summary.cells.iter().any(is_real)
}

/// The same of virtual time.
pub(super) fn has_simulated(summary: &Summary) -> bool {
    !has_real(summary) || summary.cells.iter().any(|cell| !is_real(cell))
}

pub(super) fn is_real(cell: &CellResult) -> bool {
    cell.testbed == "netns"
}

/// This half of the document: `before` with the sections of `campaigns` in the place of older ones of the same name.
/// Campaigns of the testbed take hours, so that one may be brought up to date without the others.
pub(super) fn markdown(before: &str, campaigns: &[(String, &Summary)]) -> String {
    let mut all: Vec<(String, String)> = sections(before);
    for (dir, summary) in campaigns {
        let name = words::without_places(dir);
        let mut text = String::new();
        campaign(&mut text, &name, summary);
        match all.iter_mut().find(|(known, _)| *known == name) {
            Some((_, old)) => *old = text,
            None => all.push((name, text)),
        }
    }
    let mut out = format!("{HEADING}\n\n");
    out.push_str(
        "Campaigns of `howdah lab run --on netns` (docs/lab.md): other people's programs and the kernel's TCP as they are, in network\n\
         namespaces over the real-time emulator, a command one cell at a time (where commands ran side by side: docs/lab.md). Of a cell's\n\
         runs the one in the middle is shown.\n\n\
         - **rate**: Mbit/s of user data behind the warm-up, of each flow in the scenario's order. In brackets what does not count as the\n\
         \x20 network's: `h` the machine's processors were the limit; `s` the slower twin of such a cell (at most 1 Gbit/s, packets of 1500\n\
         \x20 bytes, as many of them under way); `i` the emulator's certificate speaks against the run. `u`: too few runs for a median\n\
         \x20 that is known to 5 %. `\u{2013}`: skipped, `\u{d7}`: no result, both with the reason below; empty: not run, or not part of the matrix.\n\
         - **CPU**: per cent of one core per Gbit/s (1 % is 10 ms of processor time for each Gbit), sender / receiver, with all that the programs\n\
         \x20 start, measured. **Feedback**: KiB per GiB, IP + 14 bytes, counted by the emulator. Both are of flows above 100 Mbit/s.\n\
         - **memory**: MiB resident at most, sender / receiver. **sent again**: of the payload; `-` where nobody tells.\n\
         - A figure that stands for several cells is their median, with least and greatest in brackets; invalid cells are left out of it.\n",
    );
    for (_, text) in all {
        let _ = write!(out, "\n{}\n", text.trim());
    }
    out
}

/// Campaigns of an older document, by the directory in their headings.
fn sections(text: &str) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    for line in text.lines() {
        if let Some(heading) = line.strip_prefix(SECTION) {
            let name = heading.split_once(": ").map_or(heading, |(name, _)| name);
            all.push((name.to_owned(), String::new()));
        }
        if let Some((_, section)) = all.last_mut() {
            section.push_str(line);
            section.push('\n');
        }
    }
    all
}

fn campaign(out: &mut String, dir: &str, summary: &Summary) {
    let cells: Vec<&CellResult> = summary.cells.iter().filter(|cell| is_real(cell)).collect();
    let planned = summary.campaign.cells.len();
    let _ = writeln!(out, "{SECTION}{dir}: {}\n", of_planned(&cells, planned));
    let changed = if summary.campaign.dirty {
        ", changed"
    } else {
        ""
    };
    let _ = writeln!(
        out,
        "```\n{}   # commit {}{changed}\nhowdah lab report --comparison {dir} --out docs/comparison.md\n```\n",
        words::without_places(&summary.campaign.command),
        summary.campaign.commit,
    );
    let _ = writeln!(
        out,
        "{}. {}.",
        machine(&summary.campaign),
        state(&cells, planned)
    );
    let known = &summary.campaign.experiments;
    for note in known {
        let own: Vec<&CellResult> = (cells.iter().copied())
            .filter(|cell| cell.experiment == note.id)
            .collect();
        experiment(out, note, &own);
    }
    missing(out, &cells);
}

/// "37 of 360 cells measured".
fn of_planned(cells: &[&CellResult], planned: usize) -> String {
    let measured = cells.iter().filter(|cell| is_measured(cell)).count();
    match planned {
        0 => format!("{measured} cells measured"),
        _ => format!("{measured} of {planned} cells measured"),
    }
}

fn is_measured(cell: &CellResult) -> bool {
    cell.skipped.is_none() && cell.error.is_none()
}

/// "2 cores of AMD EPYC, Linux 6.18, 2026-11-22".
fn machine(campaign: &Campaign) -> String {
    let field = |name: &str| campaign.machine.get(name).map(|text| words::clean(text));
    let mut parts = Vec::new();
    match (field("cores"), field("cpu")) {
        (Some(cores), Some(cpu)) => parts.push(format!("{cores} cores of {cpu}")),
        (Some(cores), None) => parts.push(format!("{cores} cores")),
        (None, cpu) => parts.extend(cpu),
    }
    if let Some(kernel) = field("kernel") {
        // What a builder appended says nothing to others.
        let numbers: Vec<&str> = kernel.split(['.', '-']).take(2).collect();
        parts.push(format!("Linux {}", numbers.join(".")));
    }
    parts.extend(date(campaign.started_unix_s).get(..10).map(str::to_owned));
    parts.join(", ")
}

/// How many of the cells have which mark, and what became of the others.
fn state(cells: &[&CellResult], planned: usize) -> String {
    let measured = || cells.iter().filter(|cell| is_measured(cell));
    let mut parts: Vec<String> = Vec::new();
    for (mark, _, word) in MARKS {
        let count = measured().filter(|cell| cell.marks.contains(&mark)).count();
        if count > 0 {
            parts.push(format!("{count} {word}"));
        }
    }
    let mut text = format!(
        "Of {} measured: {}",
        measured().count(),
        if parts.is_empty() {
            "none is marked".to_owned()
        } else {
            parts.join(", ")
        }
    );
    let runs: Vec<usize> = measured().map(|cell| cell.runs_bps.len().max(1)).collect();
    match (runs.iter().min(), runs.iter().max()) {
        (Some(1), Some(1)) => text.push_str("; one run of each"),
        (Some(least), Some(most)) if least == most => {
            let _ = write!(text, "; {least} runs of each");
        }
        (Some(least), Some(most)) => {
            let _ = write!(text, "; {least} to {most} runs of each");
        }
        _ => {}
    }
    let skipped = cells.iter().filter(|cell| cell.skipped.is_some()).count();
    let failed = cells.iter().filter(|cell| cell.error.is_some()).count();
    for (count, word) in [
        (skipped, "skipped"),
        (failed, "without a result"),
        (planned.saturating_sub(cells.len()), "not run"),
    ] {
        if count > 0 {
            let _ = write!(text, "; {count} {word}");
        }
    }
    text
}

fn experiment(out: &mut String, note: &ExperimentNote, cells: &[&CellResult]) {
    let title = match note.title.as_str() {
        "" => String::new(),
        title => format!(": {}", words::clean(title)),
    };
    let (id, measured) = (&note.id, of_planned(cells, note.cells));
    let _ = writeln!(out, "\n**{id}**{title} ({measured}).\n");
    let grid = Grid::of(cells);
    grid.table(out, "Rate, Mbit/s", &rate);
    grid.table(
        out,
        "CPU, % of a core per Gbit/s, sender / receiver",
        &costs::cpu_at_rate,
    );
    grid.table(out, "Duration, s", &|cell| duration(cell, cells));
    grid.table(out, "Jain's index; least of any second", &|cell| {
        let least = cell.metrics.get("jain_min");
        let least = least.map_or_else(String::new, |least| format!("; {least:.2}"));
        Some(format!("{:.2}{least}", cell.metrics.get("jain")?))
    });
    grid.table(
        out,
        "After each change of the path: Mbit/s; ms until 90 % of it",
        &changes,
    );
    grid.table(
        out,
        "Short flows: finished of started; median and 95 % done within, s",
        &|cell| {
            let group = cell.groups.first()?;
            let counts = format!("{} of {}", group.finished, group.flows);
            let done = group.completion_s.filter(|_| group.finished > 0);
            Some(match done {
                None => counts,
                Some([half, most, _]) => format!("{counts}; {half:.2}, {most:.2}"),
            })
        },
    );
    grid.table(out, "Streams: lost, %; jitter, ms", &|cell| {
        let texts = cell.streams.iter().map(|stream| {
            let sent = stream.sent_packets.max(1) as f64;
            let lost = stream.lost_packets as f64 / sent * 100.0;
            format!("{lost:.2}; {:.3}", stream.jitter_ms)
        });
        let texts: Vec<String> = texts.collect();
        (!texts.is_empty()).then(|| texts.join(" / "))
    });
    costs::table(out, cells);
}

/// What stands in the place of a cell.
fn rate(cell: &CellResult) -> Option<String> {
    if cell.skipped.is_some() {
        return Some("\u{2013}".to_owned());
    }
    if cell.error.is_some() {
        return Some("\u{d7}".to_owned());
    }
    let rates: Vec<String> = (cell.flows.iter())
        .map(|flow| words::mbps(flow.steady_goodput_bps))
        .collect();
    if rates.is_empty() {
        return None;
    }
    let letters: String = MARKS
        .iter()
        .filter(|(mark, ..)| cell.marks.contains(mark))
        .map(|(_, letter, _)| *letter)
        .collect();
    let text = [rates.join(" / "), letters].join(" ");
    let text = text.trim_end();
    let counts = cell.marks.iter().all(|mark| *mark == Mark::Unsettled);
    Some(if counts {
        text.to_owned()
    } else {
        format!("({text})")
    })
}

/// Of sized flows; "> 120" of one that was not done in that time.
fn duration(cell: &CellResult, of_experiment: &[&CellResult]) -> Option<String> {
    let mut flows = of_experiment.iter().flat_map(|cell| &cell.flows);
    let has_sizes = flows.any(|flow| flow.completion_s.is_some());
    if !has_sizes || !is_measured(cell) || cell.flows.is_empty() {
        return None;
    }
    let texts = cell.flows.iter().map(|flow| match flow.completion_s {
        Some(seconds) => format!("{seconds:.1}"),
        None => format!("> {:.0}", flow.end_s - flow.start_s),
    });
    Some(texts.collect::<Vec<_>>().join(" / "))
}

fn changes(cell: &CellResult) -> Option<String> {
    let flow = &cell.flows.first()?.name;
    let texts: Vec<String> = (1..)
        .map_while(|number| {
            let settled = cell.metrics.get(&format!("change_bps/{flow}/{number}"))?;
            let t90 = cell.metrics.get(&format!("t90_ms/{flow}/{number}"));
            let t90 = t90.map_or_else(|| "-".to_owned(), |ms| format!("{ms:.0}"));
            Some(format!("{}; {t90}", words::mbps(*settled)))
        })
        .collect();
    (!texts.is_empty()).then(|| texts.join(" / "))
}

/// Why cells have no figures, and what the certificate has against others.
fn missing(out: &mut String, cells: &[&CellResult]) {
    let mut skipped: BTreeMap<String, Vec<&CellResult>> = BTreeMap::new();
    for cell in cells {
        if let Some(why) = &cell.skipped {
            skipped.entry(words::reason(why)).or_default().push(cell);
        }
    }
    let mut lines = Vec::new();
    for (why, cells) in &skipped {
        let mut systems: Vec<&str> = cells.iter().map(|cell| words::system(cell)).collect();
        systems.dedup();
        let count = cells.len();
        lines.push(format!("skipped, {count} of {}: {why}", systems.join(", ")));
    }
    for cell in cells {
        if let Some(why) = &cell.error {
            let (place, why) = (words::place(cell), words::reason(why));
            lines.push(format!("no result, {place}: {why}"));
        }
    }
    let objected = || {
        let is_invalid = |cell: &&&CellResult| cell.marks.contains(&Mark::Invalid);
        cells.iter().filter(is_invalid)
    };
    for cell in objected().take(MOST_OBJECTIONS) {
        let objections = cell.certificate.as_ref().map(|note| &note.objections);
        let why = objections.map_or_else(String::new, |all| all.join("; "));
        let (place, why) = (words::place(cell), words::reason(&why));
        lines.push(format!("invalid, {place}: {why}"));
    }
    let more = objected().count().saturating_sub(MOST_OBJECTIONS);
    if more > 0 {
        lines.push(format!("invalid: {more} more"));
    }
    if lines.is_empty() {
        return;
    }
    if !out.ends_with("\n\n") {
        out.push('\n');
    }
    for line in lines {
        let _ = writeln!(out, "- {line}");
    }
}
