//! Simulation beside testbed as Markdown: the tables of docs/fidelity.md.

use crate::result::{CellResult, Mark, Summary};
use crate::sheet;
use crate::starts;
use crate::stats;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Cells within this share of each other agree.
const AGREE: f64 = 0.10;
/// The axis that names the transport.
const PROTOCOL: &str = "protocol";

/// A cell without its protocol: experiment and place.
type Place = (String, Vec<(String, String)>);

/// What was seen of one protocol in one place.
#[derive(Default)]
struct Both {
    /// Goodput of the measured part in bit/s, of each seed and in it of each flow.
    by_seed: BTreeMap<u64, Vec<f64>>,
    /// The same of each run, of all flows together.
    real: Vec<f64>,
    /// The same of each flow in the run that stands for all.
    real_flows: Vec<f64>,
    marks: Vec<Mark>,
    /// Why there is no figure.
    why: Option<String>,
}

impl Both {
    /// Of as many seeds as the testbed has had runs: a run loses the same packets as the simulation with its seed.
    fn seeds(&self) -> impl Iterator<Item = &Vec<f64>> {
        let most = if self.real.is_empty() {
            usize::MAX
        } else {
            self.real.len()
        };
        self.by_seed.values().take(most)
    }

    /// The simulator's figure of each flow: the median over the seeds.
    fn sim(&self) -> Vec<f64> {
        let flows = self.by_seed.values().map(Vec::len).max().unwrap_or(0);
        (0..flows)
            .filter_map(|flow| {
                let all: Vec<f64> = self.seeds().filter_map(|s| s.get(flow).copied()).collect();
                middle(&all)
            })
            .collect()
    }

    /// The testbed's figure of each flow: the median over the runs where there is one, else the run that stands for all.
    fn testbed(&self) -> Vec<f64> {
        match (&self.real_flows[..], middle(&self.real)) {
            ([] | [_], Some(middle)) => vec![middle],
            (flows, _) => flows.to_vec(),
        }
    }

    /// Simulation over testbed, less one; of several flows that of the one that is furthest off, for a sum hides who has it.
    fn deviation(&self) -> Option<f64> {
        let (sim, real) = (self.sim(), self.testbed());
        let each = sim.iter().zip(&real);
        let deviations = each.map(|(sim, real)| sim / real - 1.0);
        let is_known = sim.len() == real.len() && real.iter().all(|bps| *bps > 0.0);
        let worst = deviations.max_by(|a, b| a.abs().total_cmp(&b.abs()));
        worst.filter(|_| is_known)
    }

    /// The testbed's figure stands: nothing speaks against it but that there were few runs.
    fn counts(&self) -> bool {
        self.marks.iter().all(|mark| *mark == Mark::Unsettled)
    }
}

fn middle(values: &[f64]) -> Option<f64> {
    stats::quantile(values, 0.5)
}

/// A table of each experiment that is on both sides, and how many cells agree, all together and of each protocol.
/// `runs`: the same campaigns with every run that a testbed has made, for starts are compared by all of them.
pub fn markdown(campaigns: &[Summary], runs: &[Summary]) -> String {
    let mut cells: BTreeMap<Place, BTreeMap<String, Both>> = BTreeMap::new();
    let mut protocols: Vec<String> = Vec::new();
    for cell in campaigns.iter().flat_map(|campaign| &campaign.cells) {
        let Some(protocol) = cell.at.get(PROTOCOL) else {
            continue;
        };
        if !protocols.contains(protocol) {
            protocols.push(protocol.clone());
        }
        let at = cell.at.iter().filter(|(axis, _)| *axis != PROTOCOL);
        let at = at
            .map(|(axis, value)| (axis.clone(), value.clone()))
            .collect();
        let place = cells.entry((cell.experiment.clone(), at)).or_default();
        add(place.entry(protocol.clone()).or_default(), cell);
    }
    // In the order in which the campaigns have them.
    let mut order: Vec<&Place> = Vec::new();
    let mut seen = BTreeSet::new();
    let places: BTreeMap<String, &Place> = cells.keys().map(|place| (key(place), place)).collect();
    for cell in campaigns.iter().flat_map(|campaign| &campaign.cells) {
        let at = cell.at.iter().filter(|(axis, _)| *axis != PROTOCOL);
        let at = at
            .map(|(axis, value)| (axis.clone(), value.clone()))
            .collect();
        let key = key(&(cell.experiment.clone(), at));
        if let Some(place) = places.get(&key)
            && seen.insert(key)
        {
            order.push(place);
        }
    }
    let is_pair = |both: &Both| !both.by_seed.is_empty() && !both.real.is_empty();
    protocols.retain(|name| {
        let mut all = cells.values().filter_map(|place| place.get(name));
        all.any(|both| !both.real.is_empty())
    });
    let starts = starts::beside(runs).map(|table| sheet::markdown(&[table]));
    let mut out = starts.unwrap_or_default();
    if protocols.is_empty() {
        if out.is_empty() {
            out.push_str(
                "no cell of these campaigns has an axis 'protocol' and a result of the testbed\n",
            );
        }
        return out;
    }
    let _ = writeln!(out, "| cell | {} |", protocols.join(" | "));
    let _ = writeln!(out, "| --- |{}", " ---: |".repeat(protocols.len()));
    for place in order {
        let row = &cells[place];
        if !row.values().any(is_pair) {
            continue;
        }
        let _ = write!(out, "| {} |", name(place));
        for protocol in &protocols {
            let text = row.get(protocol).map_or_else(String::new, write_both);
            let _ = write!(out, " {text} |");
        }
        out.push('\n');
    }
    out.push('\n');
    for protocol in &protocols {
        let all = || cells.values().filter_map(|place| place.get(protocol));
        let _ = writeln!(out, "- {protocol}: {}", summary(all()));
    }
    let everything = cells.values().flat_map(BTreeMap::values);
    let _ = writeln!(out, "- **all: {}**", summary(everything));
    if protocols.iter().any(|name| name == "cubic") {
        out.push_str(
            "\n`cubic` is RFC 9438 with HyStart++ in the simulator and the kernel's own on the testbed; \
             `cubic-linux6` is the kernel's law in the simulator.\n",
        );
    }
    out
}

fn key(place: &Place) -> String {
    format!("{place:?}")
}

fn add(both: &mut Both, cell: &CellResult) {
    let why = cell.skipped.as_ref().or(cell.error.as_ref());
    if let Some(why) = why {
        if cell.testbed == "netns" {
            both.why = Some(why.clone());
        }
    } else if cell.testbed == "netns" {
        both.real.clone_from(&cell.runs_bps);
        both.real_flows = steady(cell);
        both.marks.clone_from(&cell.marks);
    } else {
        both.by_seed.insert(cell.seed, steady(cell));
    }
}

fn steady(cell: &CellResult) -> Vec<f64> {
    let flows = cell.flows.iter();
    flows.map(|flow| flow.steady_goodput_bps).collect()
}

fn name(place: &Place) -> String {
    let at: Vec<&str> = place.1.iter().map(|(_, value)| value.as_str()).collect();
    if at.is_empty() {
        place.0.clone()
    } else {
        at.join(", ")
    }
}

/// "941, 938: +0 %"; in brackets where it is not counted.
fn write_both(both: &Both) -> String {
    let mbps = |flows: &[f64]| {
        let each: Vec<String> = flows
            .iter()
            .map(|bps| format!("{:.0}", bps / 1e6))
            .collect();
        (!each.is_empty()).then(|| each.join(":"))
    };
    let (Some(sim), Some(real)) = (mbps(&both.sim()), mbps(&both.testbed())) else {
        let real = mbps(&both.testbed()).map(|real| format!("\u{2013}, {real}"));
        return real.unwrap_or_else(|| "\u{2013}".to_owned());
    };
    let deviation = both
        .deviation()
        .map(|share| format!(": {:+.0} %", share * 100.0));
    let text = format!("{sim}, {real}{}", deviation.unwrap_or_default());
    if both.counts() {
        text
    } else {
        format!("({text})")
    }
}

fn summary<'a>(all: impl Iterator<Item = &'a Both>) -> String {
    let (mut counted, mut within, mut left_out) = (0, 0, 0);
    let mut sizes = Vec::new();
    for both in all {
        match both.deviation() {
            Some(share) if both.counts() => {
                counted += 1;
                within += usize::from(share.abs() <= AGREE);
                sizes.push(share.abs() * 100.0);
            }
            Some(_) => left_out += 1,
            None => {}
        }
    }
    let mut text = format!("{within} of {counted} within 10 %");
    if let Some(middle) = middle(&sizes) {
        let _ = write!(text, ", median deviation {middle:.1} %");
    }
    if left_out > 0 {
        let _ = write!(text, "; {left_out} not counted");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::FlowResult;

    fn table(campaigns: &[Summary]) -> String {
        markdown(campaigns, campaigns)
    }

    fn cell(protocol: &str, testbed: &str, mbps: &[f64], marks: &[Mark]) -> CellResult {
        CellResult {
            experiment: "T".to_owned(),
            at: [("protocol", protocol), ("rtt", "10ms")]
                .map(|(axis, value)| (axis.to_owned(), value.to_owned()))
                .into(),
            testbed: testbed.to_owned(),
            flows: vec![FlowResult {
                steady_goodput_bps: mbps[0] * 1e6,
                ..FlowResult::default()
            }],
            runs_bps: if testbed == "netns" {
                mbps.iter().map(|mbps| mbps * 1e6).collect()
            } else {
                Vec::new()
            },
            marks: marks.to_vec(),
            ..CellResult::default()
        }
    }

    #[test]
    fn of_two_flows_the_one_that_is_furthest_off_counts() {
        let pair = |testbed: &str, mbps: [f64; 2]| {
            let sum = mbps[0] + mbps[1];
            let mut cell = cell("howdah", testbed, &[sum], &[]);
            cell.flows = mbps
                .map(|mbps| FlowResult {
                    steady_goodput_bps: mbps * 1e6,
                    ..FlowResult::default()
                })
                .into();
            cell
        };
        let campaign = |cell| Summary {
            cells: vec![cell],
            ..Summary::default()
        };
        let text = table(&[
            campaign(pair("sim", [27.9, 65.9])),
            campaign(pair("netns", [6.4, 87.4])),
        ]);
        assert!(text.contains("| 28:66, 6:87: +336 % |"), "{text}");
        assert!(text.contains("0 of 1 within 10 %"), "{text}");
        let cubic = table(&[
            campaign(cell("cubic", "sim", &[90.0], &[])),
            campaign(cell("cubic", "netns", &[90.0], &[])),
        ]);
        assert!(cubic.contains("RFC 9438 with HyStart++"), "{cubic}");
    }

    fn seeded(seed: u64, cell: CellResult) -> CellResult {
        CellResult { seed, ..cell }
    }

    #[test]
    fn medians_are_compared_and_doubtful_cells_are_not_counted() {
        let campaign = |cells| Summary {
            cells,
            ..Summary::default()
        };
        let sim = campaign(vec![
            seeded(1, cell("reno", "sim", &[90.0], &[])),
            seeded(2, cell("reno", "sim", &[104.0], &[])),
            seeded(3, cell("reno", "sim", &[130.0], &[])),
            seeded(4, cell("reno", "sim", &[9000.0], &[])),
            cell("udt", "sim", &[50.0], &[]),
        ]);
        let real = campaign(vec![
            cell("reno", "netns", &[100.0, 99.0, 700.0], &[Mark::Unsettled]),
            cell("udt", "netns", &[25.0], &[Mark::HostLimited]),
            cell("libudt", "netns", &[30.0], &[]),
        ]);
        let text = table(&[sim, real]);
        assert_eq!(
            text,
            "| cell | reno | udt | libudt |\n| --- | ---: | ---: | ---: |\n\
             | 10ms | 104, 100: +4 % | (50, 25: +100 %) | \u{2013}, 30 |\n\n\
             - reno: 1 of 1 within 10 %, median deviation 4.0 %\n\
             - udt: 0 of 0 within 10 %; 1 not counted\n\
             - libudt: 0 of 0 within 10 %\n\
             - **all: 1 of 1 within 10 %, median deviation 4.0 %; 1 not counted**\n"
        );
    }
}
