//! J-D and J-E: two long-lived flows share the bottleneck.

use super::super::judge::{
    HIGH_SPEED, Mark, STANDARD, TODAY, UDT, each, mbit, mbit_change, one, order, percent,
};
use super::super::results::{Cells, first_goodput, goodput_of, sum_goodput};
use super::super::words::{
    CEILING_BPS, HARDLY_AFFECTED, INEFFICIENT, INSENSITIVE, LITTLE_AFFECTED, LITTLE_GAIN,
    NEARLY_STARVED, SAME, SHAPE_SHARE, SOMEWHAT_INEFFICIENT, SOMEWHAT_UNFAIR, STARVED, STRONG_DROP,
    UNFAIR,
};
use super::super::{Finding, Kind, Results, Statement};
use super::state;
use crate::result::CellResult;

pub(super) const STATEMENTS: &[Statement] = &[
    state(
        "J.d1",
        "J-D",
        "Two UDT flows: shares do not depend on the ratio of their RTTs",
        "insensitive (figure)",
        Kind::Trend,
        |r| {
            each("J-D", &[UDT], |p| {
                let (f1, f2) = at_ratios(r, p)?;
                let least = f2[2].min(f2[1]) / f2[0];
                let mark = Mark::at_least(least, 1.0 - INSENSITIVE, 1.0 - 2.0 * INSENSITIVE);
                Some((shares(&f1, &f2), mark))
            })
        },
    ),
    state(
        "J.d2",
        "J-D",
        "Two flows of one TCP: the one with the longer RTT has clearly less",
        "unfair (figure)",
        Kind::Order,
        |r| {
            each("J-D", HIGH_SPEED, |p| {
                let (f1, f2) = at_ratios(r, p)?;
                let mark = match (f1[1] / f2[1] >= UNFAIR, f1[2] / f2[2] >= UNFAIR) {
                    (true, true) => Mark::Yes,
                    (false, true) => Mark::Partly,
                    _ => Mark::No,
                };
                Some((shares(&f1, &f2), mark))
            })
        },
    ),
    state(
        "J.d3",
        "J-D",
        "Two flows of one TCP with unequal RTTs leave capacity unused",
        "inefficient (figure)",
        Kind::Trend,
        |r| {
            each("J-D", HIGH_SPEED, |p| {
                let (f1, f2) = at_ratios(r, p)?;
                let sum = f1[2] + f2[2];
                let mark = Mark::at_most(sum / CEILING_BPS, INEFFICIENT, SOMEWHAT_INEFFICIENT);
                Some((mbit(sum), mark))
            })
        },
    ),
    state(
        "J.d4",
        "J-D",
        "At a ratio of 4 the flow with the longer RTT drops strongly",
        "drops strongly (figure)",
        Kind::Trend,
        |r| {
            each("J-D", HIGH_SPEED, |p| {
                let (_, f2) = at_ratios(r, p)?;
                let left = f2[2] / f2[0];
                Some((percent(left), Mark::at_most(left, STRONG_DROP, 0.75)))
            })
        },
    ),
    state(
        "J.d5",
        "J-D",
        "... while the other gains only a little, so that the sum falls",
        "small gain, smaller sum (figure)",
        Kind::Trend,
        |r| {
            each("J-D", HIGH_SPEED, |p| {
                let (f1, f2) = at_ratios(r, p)?;
                let (gain, loss) = (f1[2] - f1[0], f2[0] - f2[2]);
                let sums = (f1[2] + f2[2]) / (f1[0] + f2[0]);
                let little = loss > 0.0 && gain <= LITTLE_GAIN * loss;
                let mark = match (little, sums <= 1.0 - SAME) {
                    (true, true) => Mark::Yes,
                    (false, true) => Mark::Partly,
                    _ => Mark::No,
                };
                let figures = format!(
                    "{} {}, sum {}",
                    mbit_change(gain),
                    mbit_change(-loss),
                    percent(sums)
                );
                Some((figures, mark))
            })
        },
    ),
    state(
        "J.e0a",
        "J-E0",
        "A long-lived standard TCP flow is starved by any one high-speed TCP flow",
        "starved (figure)",
        Kind::Trend,
        |r| each("J-E0", HIGH_SPEED, |p| starves(r, p)),
    ),
    state(
        "J.e0u",
        "J-E0",
        "A long-lived standard TCP flow is starved by a UDT flow",
        "starved (figure)",
        Kind::Trend,
        |r| each("J-E0", &[UDT], |p| starves(r, p)),
    ),
    state(
        "J.e0b",
        "J-E0",
        "The high-speed flow hardly notices the standard one",
        "hardly affected (figure)",
        Kind::Trend,
        |r| {
            each("J-E0", HIGH_SPEED, |p| {
                let with = r
                    .experiment("J-E0")
                    .pair(STANDARD, p)
                    .good(|c| goodput_of(c, p))?;
                // The path of J-A1 is the same.
                let alone = r.experiment("J-A1").protocol(p).good(first_goodput)?;
                let kept = with / alone;
                let mark = Mark::at_least(kept, HARDLY_AFFECTED, LITTLE_AFFECTED);
                Some((format!("{} of {}", mbit(with), mbit(alone)), mark))
            })
        },
    ),
    state(
        "J.e1",
        "J-E1",
        "Two flows of different high-speed protocols have less together than two of the same",
        "sum of different < sum of identical (figure)",
        Kind::Order,
        different_less_than_identical,
    ),
    state(
        "J.e2a",
        "J-E2",
        "HSTCP beside another high-speed TCP: the shares are unfair with every partner",
        "unfair (figure)",
        Kind::Order,
        |r| {
            each("J-E2", &["scalable", "fast", "cubic2005", "htcp"], |p| {
                let (own, other) = beside_hstcp(r, p)?;
                let ratio = own.max(other) / own.min(other).max(1.0);
                let mark = Mark::at_least(ratio, UNFAIR, SOMEWHAT_UNFAIR);
                Some((format!("{}:{}", mbit(own), mbit(other)), mark))
            })
        },
    ),
    state(
        "J.e2u",
        "J-E1",
        "UDT depresses each TCP more than any other TCP does",
        "UDT most (figure)",
        Kind::Order,
        udt_depresses_most,
    ),
    state(
        "J.e1p",
        "J-E1",
        "Every pair of different protocols shares unfairly",
        "unfair (figure)",
        Kind::Trend,
        unfair_everywhere,
    ),
];

/// Goodputs of both flows of J-D at RTTs of 38, 76 and 152 ms of the second one. A flow is named by
/// its place: the first has the short path.
fn at_ratios(r: &Results<'_>, protocol: &str) -> Option<([f64; 3], [f64; 3])> {
    let cells = r.experiment("J-D").protocol(protocol);
    let nth = |rtt: f64, n: usize| {
        cells
            .at("rtt2", rtt)
            .good(|cell| cell.flows.get(n).map(|flow| flow.goodput_bps))
    };
    Some((
        [nth(38.0, 0)?, nth(76.0, 0)?, nth(152.0, 0)?],
        [nth(38.0, 1)?, nth(76.0, 1)?, nth(152.0, 1)?],
    ))
}

fn shares(f1: &[f64; 3], f2: &[f64; 3]) -> String {
    let each: Vec<String> = (0..3)
        .map(|i| format!("{}:{}", mbit(f1[i]), mbit(f2[i])))
        .collect();
    each.join(" ")
}

fn starves(r: &Results<'_>, protocol: &str) -> Option<(String, Mark)> {
    let pair = r.experiment("J-E0").pair(STANDARD, protocol);
    let left = pair.median(|cell| goodput_of(cell, STANDARD))?;
    let mark = Mark::at_most(left / CEILING_BPS, STARVED, NEARLY_STARVED);
    Some((format!("leaves {}", mbit(left)), mark))
}

/// Mean goodputs of HSTCP and its partner in J-E2.
fn beside_hstcp(r: &Results<'_>, partner: &str) -> Option<(f64, f64)> {
    let cells = r.experiment("J-E2").pair("hstcp", partner);
    let other = |cell: &CellResult| {
        cell.flows
            .iter()
            .find(|flow| flow.protocol != "hstcp")
            .map(|flow| flow.goodput_bps)
    };
    Some((
        cells.median(|cell| goodput_of(cell, "hstcp"))?,
        cells.median(other)?,
    ))
}

fn different_less_than_identical(r: &Results<'_>) -> Finding {
    let cells = r.experiment("J-E1");
    let mut lacking = Vec::new();
    let case = |lacking: &mut Vec<String>| {
        let mut names: Vec<&str> = HIGH_SPEED.to_vec();
        names.push(UDT);
        let identical = |p: &str| sum_of(&cells.pair(p, p));
        let (mut pairs, mut lower) = (0_usize, 0_usize);
        let (mut different, mut same) = (0.0, 0.0);
        let mut exceptions = Vec::new();
        for (i, a) in names.iter().enumerate() {
            for b in &names[i + 1..] {
                let (Some(both), Some(aa), Some(bb)) =
                    (sum_of(&cells.pair(a, b)), identical(a), identical(b))
                else {
                    lacking.push(format!("{a}+{b}"));
                    continue;
                };
                pairs += 1;
                different += both;
                let mean = f64::midpoint(aa, bb);
                same += mean;
                if both < mean {
                    lower += 1;
                } else {
                    exceptions.push(format!("{a}+{b}"));
                }
            }
        }
        if pairs < 3 {
            return None;
        }
        let mark = if lower == pairs {
            Mark::Yes
        } else if lower as f64 >= SHAPE_SHARE * pairs as f64 && different < same {
            Mark::Partly
        } else {
            Mark::No
        };
        let n = pairs as f64;
        let mut figures = format!(
            "{lower} of {pairs} pairs; means {} and {}",
            mbit(different / n),
            mbit(same / n)
        );
        if !exceptions.is_empty() {
            figures.push_str("; not ");
            figures.push_str(&exceptions.join(", "));
        }
        Some((figures, mark))
    };
    let found = case(&mut lacking);
    let mut finding = one("J-E1", "three pairs with both identical pairs", found);
    if !lacking.is_empty() {
        finding.missing.push(lacking.join(", "));
    }
    finding
}

fn sum_of(cells: &Cells<'_>) -> Option<f64> {
    cells.good(sum_goodput)
}

/// What each TCP has beside UDT, and at least beside any other TCP: all pairs of J-E1, not HSTCP's alone.
fn udt_depresses_most(r: &Results<'_>) -> Finding {
    let beside = |name: &str, partner: &str| {
        let cells = r.experiment("J-E1").pair(name, partner);
        cells.median(|cell| goodput_of(cell, name))
    };
    let mut finding = each("J-E1", HIGH_SPEED, |p| {
        if !HIGH_SPEED.contains(&p) {
            return None;
        }
        let with_udt = beside(p, UDT)?;
        let mut least = f64::MAX;
        for other in HIGH_SPEED.iter().filter(|other| **other != p) {
            least = least.min(beside(p, other)?);
        }
        let figures = format!("{} and {}", mbit(with_udt), mbit(least));
        Some((figures, order(least / with_udt.max(1.0))))
    });
    let today: Vec<String> = TODAY
        .iter()
        .filter_map(|p| {
            beside_hstcp(r, p).map(|(own, other)| format!("{p} {}:{}", mbit(own), mbit(other)))
        })
        .collect();
    let what = "what each has beside UDT, and least beside another TCP";
    finding.note = if today.is_empty() {
        what.to_owned()
    } else {
        format!("{what}; today, HSTCP:partner: {}", today.join(", "))
    };
    finding
}

/// Every pair of different protocols.
fn unfair_everywhere(r: &Results<'_>) -> Finding {
    let names: Vec<&str> = HIGH_SPEED.iter().copied().chain([UDT]).collect();
    let pairs: Vec<(&str, &str)> = (names.iter().enumerate())
        .flat_map(|(i, a)| names[i + 1..].iter().map(|b| (*a, *b)))
        .collect();
    let labels: Vec<String> = pairs.iter().map(|(a, b)| format!("{a}+{b}")).collect();
    let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
    each("J-E1", &labels, |label| {
        let (a, b) = label.split_once('+')?;
        let cells = r.experiment("J-E1").pair(a, b);
        let (a, b) = (
            cells.median(|cell| goodput_of(cell, a))?,
            cells.median(|cell| goodput_of(cell, b))?,
        );
        let ratio = a.max(b) / a.min(b).max(1.0);
        let mark = Mark::at_least(ratio, UNFAIR, SOMEWHAT_UNFAIR);
        Some((format!("{}:{}", mbit(a), mbit(b)), mark))
    })
}
