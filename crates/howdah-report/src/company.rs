//! Two flows of different kinds on one queue, each beside what it has there beside its own kind.
//!
//! A scenario takes part with an axis `company` and flows `first` and `second`; a cell without `second` is `first` alone.
//! A side's **share** is what it gets beside the other kind over what its kind gets beside its own kind in the same place:
//! same path, same seeds, same turn (first or second to come). A cell is in the band if both sides' shares are within 0.5 to 2.
//! **Harm** (R. Ware et al., ACM `HotNets` 2019) is the share of what a kind has alone that its neighbour took.

use crate::metrics;
use crate::result::{CellResult, Summary};
use crate::sheet::{self, Sheet, figure, percent};
use crate::stats;
use std::collections::BTreeMap;

/// The axis that makes a cell take part.
const AXIS: &str = "company";
/// Shares within these leave nobody starving.
const BAND: (f64, f64) = (0.5, 2.0);
/// Whose company it is, unless another subject is asked for.
pub(crate) const OURS: &str = "howdah";
/// Whom others meet anyway: what it would have in our place is what they can ask for (beside a BBR v1 in a short queue next to nothing).
const YARDSTICK: &str = "cubic";
/// How many of the cells that are furthest out are listed.
const WORST: usize = 25;

/// One side of a meeting, in bit/s, means over the seeds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Side {
    bps: f64,
    /// What it has beside its own kind in the same turn.
    own_bps: Option<f64>,
    alone_bps: Option<f64>,
}

impl Side {
    fn share(&self) -> Option<f64> {
        self.own_bps
            .filter(|&own| own > 0.0)
            .map(|own| self.bps / own)
    }

    fn harm(&self) -> Option<f64> {
        let alone = self.alone_bps?;
        metrics::harm_more_is_better(alone, self.bps)
    }
}

/// Ours beside another kind in one place.
#[derive(Clone, Debug, PartialEq)]
struct Meeting {
    at: Vec<(String, String)>,
    rival: String,
    ours_first: bool,
    ours: Side,
    theirs: Side,
}

impl Meeting {
    fn shares(&self) -> Option<[f64; 2]> {
        Some([self.ours.share()?, self.theirs.share()?])
    }

    /// By which factor the side that is further out is out of what it would have beside its kind; 1 is even.
    fn distance(&self) -> Option<f64> {
        let out = |share: f64| if share < 1.0 { 1.0 / share } else { share };
        let [ours, theirs] = self.shares()?;
        Some(out(ours).max(out(theirs)))
    }

    fn is_in_band(&self) -> Option<bool> {
        let shares = self.shares()?;
        Some(shares.iter().all(|s| (BAND.0..=BAND.1).contains(s)))
    }

    fn asymmetry(&self) -> Option<f64> {
        metrics::asymmetry(self.ours.bps, self.theirs.bps)
    }
}

/// A place: experiment and axes without the company's.
type Place = (String, Vec<(String, String)>);

/// Goodput behind the warm-up of first and second, of each seed.
type Runs = Vec<[Option<f64>; 2]>;

fn mean(runs: &Runs, turn: usize) -> Option<f64> {
    let values: Vec<f64> = runs.iter().filter_map(|run| run[turn]).collect();
    stats::mean(&values)
}

/// All meetings of `subject` in a campaign, in its order.
fn meetings<'a>(cells: impl Iterator<Item = &'a CellResult>, subject: &str) -> Vec<Meeting> {
    let mut order: Vec<(Place, [String; 2])> = Vec::new();
    let mut runs: BTreeMap<(Place, [String; 2]), Runs> = BTreeMap::new();
    for cell in cells.filter(|cell| cell.error.is_none() && cell.at.contains_key(AXIS)) {
        let side = |name: &str| cell.flows.iter().find(|flow| flow.name == name);
        let Some(first) = side("first") else {
            continue;
        };
        let second = side("second");
        let axes = cell.at.iter().filter(|(axis, _)| *axis != AXIS);
        let axes = axes.map(|(axis, value)| (axis.clone(), value.clone()));
        let place = (cell.experiment.clone(), axes.collect());
        let kinds = [
            first.protocol.clone(),
            second.map_or_else(String::new, |flow| flow.protocol.clone()),
        ];
        let key = (place, kinds);
        let runs = runs.entry(key.clone()).or_default();
        if runs.is_empty() {
            order.push(key);
        }
        runs.push([
            Some(first.steady_goodput_bps),
            second.map(|flow| flow.steady_goodput_bps),
        ]);
    }
    let known = |place: &Place, kinds: [&str; 2], turn: usize| {
        let key = (place.clone(), kinds.map(str::to_owned));
        runs.get(&key).and_then(|runs| mean(runs, turn))
    };
    let mut all = Vec::new();
    for (place, [first, second]) in &order {
        if first == second
            || ![first, second].iter().any(|kind| *kind == subject)
            || second.is_empty()
        {
            continue;
        }
        let side = |kind: &str, turn: usize| {
            Some(Side {
                bps: known(place, [first, second], turn)?,
                own_bps: known(place, [kind, kind], turn),
                alone_bps: known(place, [kind, ""], 0),
            })
        };
        let (Some(of_first), Some(of_second)) = (side(first, 0), side(second, 1)) else {
            continue;
        };
        let ours_first = first == subject;
        let (rival, ours, theirs) = if ours_first {
            (second, of_first, of_second)
        } else {
            (first, of_second, of_first)
        };
        let mut at = place.1.clone();
        at.insert(0, ("experiment".to_owned(), place.0.clone()));
        all.push(Meeting {
            at,
            rival: rival.clone(),
            ours_first,
            ours,
            theirs,
        });
    }
    all
}

/// A line about some of the meetings; `None` if none of them has a figure.
fn line(name: String, some: &[&Meeting]) -> Option<Vec<String>> {
    let bands: Vec<bool> = some.iter().filter_map(|m| m.is_in_band()).collect();
    if bands.is_empty() {
        return None;
    }
    let within = bands.iter().filter(|within| **within).count();
    let of = |read: fn(&Meeting) -> Option<f64>| -> Vec<f64> {
        some.iter().filter_map(|meeting| read(meeting)).collect()
    };
    let (ours, theirs) = (of(|m| m.ours.share()), of(|m| m.theirs.share()));
    let least = |values: &[f64]| values.iter().copied().min_by(f64::total_cmp);
    Some(vec![
        name,
        bands.len().to_string(),
        percent(Some(within as f64 / bands.len() as f64)),
        figure(stats::median(&ours)),
        figure(least(&ours)),
        figure(stats::median(&theirs)),
        figure(least(&theirs)),
        figure(stats::median(&of(|m| m.theirs.harm()))),
        figure(stats::median(&of(Meeting::asymmetry))),
    ])
}

const HEADS: [&str; 9] = [
    "",
    "cells",
    "within 0.5 to 2",
    "ours, median",
    "least",
    "theirs, median",
    "least",
    "harm to them",
    "asymmetry",
];

/// The tables, with `subject` as ours; none if no cell takes part.
pub(crate) fn sheets<'a>(
    cells: impl Iterator<Item = &'a CellResult> + Clone,
    subject: &str,
) -> Vec<Sheet> {
    let all = meetings(cells.clone(), subject);
    if all.is_empty() {
        return Vec::new();
    }
    let who = if subject == OURS {
        "Ours".to_owned()
    } else {
        format!("{subject} in the place of ours")
    };
    let mut by_rival = Sheet::new(
        format!(
            "{who} beside others: each side's goodput over what its kind has beside its own kind in the same place and turn. Harm is the \
             median share of what they have alone that ours took; asymmetry is (ours - theirs)/(ours + theirs)."
        ),
        &HEADS,
    );
    let every: Vec<&Meeting> = all.iter().collect();
    by_rival.rows.extend(line("**all**".to_owned(), &every));
    let mut rivals: Vec<&str> = Vec::new();
    for meeting in &all {
        if !rivals.contains(&meeting.rival.as_str()) {
            rivals.push(&meeting.rival);
        }
    }
    for rival in rivals {
        for (name, first) in [("ours first", true), ("ours second", false)] {
            let some: Vec<&Meeting> = (all.iter())
                .filter(|m| m.rival == rival && m.ours_first == first)
                .collect();
            by_rival
                .rows
                .extend(line(format!("{rival}, {name}"), &some));
        }
    }
    let mut by_axis = Sheet::new("The same by each axis.", &HEADS);
    let axes = all[0].at.iter().map(|(axis, _)| axis);
    for axis in axes.collect::<Vec<_>>() {
        let mut values: Vec<&str> = Vec::new();
        for meeting in &all {
            let own = meeting.at.iter().find(|(name, _)| name == axis);
            if let Some((_, value)) = own
                && !values.contains(&value.as_str())
            {
                values.push(value);
            }
        }
        for value in values {
            let is_there = |m: &&Meeting| m.at.iter().any(|(a, v)| a == axis && v == value);
            let some: Vec<&Meeting> = all.iter().filter(is_there).collect();
            by_axis.rows.extend(line(format!("{axis} {value}"), &some));
        }
    }
    let mut sheets = vec![by_rival, by_axis];
    sheets.extend(in_our_place(&all, &meetings(cells, YARDSTICK)));
    sheets.push(worst(&all));
    sheets
}

/// What the yardstick has and leaves where ours stands, in cells that are the same but for that; `None` if there are none. Experiments may have
/// other names: it is the axes that count.
fn in_our_place(ours: &[Meeting], theirs: &[Meeting]) -> Option<Sheet> {
    let place = |m: &Meeting| (m.rival.clone(), m.ours_first, m.at[1..].to_vec());
    let there: BTreeMap<_, _> = theirs.iter().map(|m| (place(m), m)).collect();
    let mut pairs: BTreeMap<(&str, bool), Vec<(&Meeting, &Meeting)>> = BTreeMap::new();
    for meeting in ours {
        if let Some(other) = there.get(&place(meeting)) {
            let turn = (meeting.rival.as_str(), !meeting.ours_first);
            pairs.entry(turn).or_default().push((meeting, other));
        }
    }
    let title = format!(
        "The same places with {YARDSTICK} in our place: what each has there, and leaves, in Mbit/s; and in how many of them ours has, and \
         leaves, at least as much."
    );
    let heads = [
        "",
        "cells",
        "ours, median",
        "its, median",
        "ours has as much",
        "left by ours, median",
        "left by it, median",
        "ours leaves as much",
    ];
    let mut sheet = Sheet::new(title, &heads);
    for ((rival, second), pairs) in pairs {
        let turn = if second { "ours second" } else { "ours first" };
        let of = |read: fn(&Meeting) -> f64| {
            let pairs: Vec<(f64, f64)> = pairs.iter().map(|(a, b)| (read(a), read(b))).collect();
            let as_much = pairs.iter().filter(|(a, b)| a >= b).count();
            let (a, b): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
            let mbit = |values: &[f64]| figure(stats::median(values).map(|bps| bps / 1e6));
            [mbit(&a), mbit(&b), as_much.to_string()]
        };
        let mut row = vec![format!("{rival}, {turn}"), pairs.len().to_string()];
        row.extend(of(|m| m.ours.bps));
        row.extend(of(|m| m.theirs.bps));
        sheet.rows.push(row);
    }
    (!sheet.rows.is_empty()).then_some(sheet)
}

fn worst(all: &[Meeting]) -> Sheet {
    let mut sheet = Sheet::new(
        format!("The {WORST} cells that are furthest out."),
        &[
            "cell",
            "ours : theirs, Mbit/s",
            "beside their own kind",
            "ours, share",
            "theirs, share",
            "harm to them",
            "harm to ours",
        ],
    );
    let mut order: Vec<(f64, &Meeting)> = all
        .iter()
        .filter_map(|meeting| Some((meeting.distance()?, meeting)))
        .collect();
    order.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mbit = |bps: Option<f64>| {
        bps.map_or_else(
            || "\u{2013}".to_owned(),
            |bps| {
                let places = usize::from(bps < 1e7);
                format!("{:.places$}", bps / 1e6)
            },
        )
    };
    for (_, meeting) in order.into_iter().take(WORST) {
        let values: Vec<&str> = meeting.at.iter().map(|(_, value)| value.as_str()).collect();
        let turn = if meeting.ours_first {
            "comes to ours"
        } else {
            "is joined by ours"
        };
        sheet.rows.push(vec![
            format!("{} {turn}; {}", meeting.rival, values.join(", ")),
            format!(
                "{} : {}",
                mbit(Some(meeting.ours.bps)),
                mbit(Some(meeting.theirs.bps))
            ),
            format!(
                "{} : {}",
                mbit(meeting.ours.own_bps),
                mbit(meeting.theirs.own_bps)
            ),
            figure(meeting.ours.share()),
            figure(meeting.theirs.share()),
            figure(meeting.theirs.harm()),
            figure(meeting.ours.harm()),
        ]);
    }
    sheet
}

/// All tables as Markdown, with the protocol `subject` as ours; a sentence where no cell takes part.
pub fn markdown(campaigns: &[Summary], subject: &str) -> String {
    let cells = campaigns.iter().flat_map(|campaign| &campaign.cells);
    let sheets = sheets(cells, subject);
    if sheets.is_empty() {
        return format!("no cell has an axis 'company' with {subject} in it\n");
    }
    sheet::markdown(&sheets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::FlowResult;

    fn cell(kinds: [&str; 2], mbit: [f64; 2], seed: u64) -> CellResult {
        let flow = |name: &str, kind: &str, mbit: f64| FlowResult {
            name: name.to_owned(),
            protocol: kind.to_owned(),
            steady_goodput_bps: mbit * 1e6,
            ..FlowResult::default()
        };
        let mut flows = vec![flow("first", kinds[0], mbit[0])];
        if kinds[1] != "none" {
            flows.push(flow("second", kinds[1], mbit[1]));
        }
        let at = [("company", kinds.join("+")), ("rtt", "20ms".to_owned())];
        CellResult {
            experiment: "C".to_owned(),
            at: at.map(|(axis, value)| (axis.to_owned(), value)).into(),
            seed,
            flows,
            ..CellResult::default()
        }
    }

    #[test]
    fn a_side_is_compared_with_its_kind_in_the_same_turn() {
        let cells = [
            cell(["howdah", "cubic"], [10.0, 80.0], 1),
            cell(["howdah", "cubic"], [20.0, 60.0], 2),
            cell(["howdah", "howdah"], [50.0, 40.0], 1),
            cell(["cubic", "cubic"], [60.0, 35.0], 1),
            cell(["cubic", "none"], [90.0, 0.0], 1),
            cell(["cubic", "howdah"], [45.0, 45.0], 1),
        ];
        let all = meetings(cells.iter(), OURS);
        assert_eq!(all.len(), 2);
        let [ours, theirs] = all[0].shares().unwrap();
        assert!((ours - 15.0 / 50.0).abs() < 1e-9 && (theirs - 2.0).abs() < 1e-9);
        assert_eq!(all[0].is_in_band(), Some(false));
        assert!((all[0].theirs.harm().unwrap() - 20.0 / 90.0).abs() < 1e-9);
        assert_eq!(all[0].ours.harm(), None);
        let [ours, theirs] = all[1].shares().unwrap();
        assert!((ours - 45.0 / 40.0).abs() < 1e-9 && (theirs - 0.75).abs() < 1e-9);
        assert_eq!(all[1].is_in_band(), Some(true));
        let text = sheet::markdown(&sheets(cells.iter(), OURS));
        assert!(text.contains("| **all** | 2 | 50.0 % |"), "{text}");
        // The worst comes first.
        let first = text.find("cubic comes to ours").unwrap();
        assert!(first < text.find("cubic is joined by ours").unwrap());
        // The same meetings, seen from the other side.
        let theirs = meetings(cells.iter(), "cubic");
        let turns: Vec<bool> = theirs.iter().map(|m| m.ours_first).collect();
        assert_eq!(turns, [false, true]);
        assert_eq!(theirs[0].shares(), all[0].shares().map(|[a, b]| [b, a]));
        let text = sheet::markdown(&sheets(cells.iter(), "cubic"));
        assert!(text.starts_with("cubic in the place of ours"), "{text}");
    }

    #[test]
    fn what_another_has_in_our_place_stands_beside_it() {
        let cells = [
            cell(["howdah", "bbr1"], [3.0, 90.0], 1),
            cell(["cubic", "bbr1"], [1.0, 92.0], 1),
            cell(["reno", "howdah"], [20.0, 70.0], 1),
            cell(["reno", "cubic"], [30.0, 60.0], 1),
        ];
        let text = sheet::markdown(&sheets(cells.iter(), OURS));
        let heads = "| cells | ours, median | its, median | ours has as much | left by ours, median | left by it, median | ours leaves as much |";
        assert!(text.contains(heads), "{text}");
        for row in [
            "| bbr1, ours first | 1 | 3.00 | 1.00 | 1 | 90.00 | 92.00 | 0 |",
            "| reno, ours second | 1 | 70.00 | 60.00 | 1 | 20.00 | 30.00 | 0 |",
        ] {
            assert!(text.contains(row), "{row}\n{text}");
        }
        let without = sheet::markdown(&sheets(cells[..1].iter(), OURS));
        assert!(!without.contains("in our place"), "{without}");
    }

    #[test]
    fn without_company_there_is_no_table() {
        assert!(sheets([CellResult::default()].iter(), OURS).is_empty());
        let alone = cell(["howdah", "none"], [90.0, 0.0], 1);
        assert!(sheets([alone].iter(), OURS).is_empty());
    }
}
