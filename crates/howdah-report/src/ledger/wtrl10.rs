//! WTRL10: RBUDP, Tsunami, PA-UDP and TCP between two hosts and a netem delay, 1 Gbit/s.
//!
//! Order of trust: last. The figures at 80 ms cannot come from the tools' algorithms alone, so every
//! experiment runs in four [set-ups](SETUPS). Each statement is judged in each of them, in a line of its own; the verdict that
//! counts is that of the middle one. In "h3" the send buffers were
//! taken from the figures at 80 ms, and PA-UDP's rate from its figures at any delay: statements about
//! those are marked as fitted.
//!
//! The words of these checks ("flat", "share evenly") were fixed when the first reduced run had been
//! seen, with sizes that [`words`](super::words) had before.

use super::judge::{Case, Mark, each, mbit, number, order, percent};
use super::results::Cells;
use super::series::Curve;
use super::words::{
    CEILING_BPS, GREATLY, HARDLY_AFFECTED, INEFFICIENT, LITTLE_AFFECTED, NUMBER_TOLERANCE,
    SOMEWHAT_INEFFICIENT, SOMEWHAT_UNFAIR, STRONG_DROP, UNFAIR, UNSTABLE, VERY_UNSTABLE,
    VISIBLE_FALL,
};
use super::{Finding, Judge, Kind, Paper, Results, SetUpCheck, Statement, remark};
use crate::result::CellResult;

/// A delay and nothing else; netem on one side, and on a router, both with its limit of 1000 packets; netem on the sending host.
const SETUPS: &[&str] = &["ideal", "h1", "h2", "h3"];
const TOOLS: &[&str] = &["rbudp", "tsunami", "pa-udp"];
const GIVEN: f64 = 600e6;

pub(super) fn statements() -> Vec<Statement> {
    ALL.to_vec()
}

/// A statement that is judged in each set-up.
const fn in_setups(
    id: &'static str,
    experiment: &'static str,
    statement: &'static str,
    stated: &'static str,
    kind: Kind,
    check: SetUpCheck,
) -> Statement {
    let of = Statement::of(
        Paper::Wtrl10,
        id,
        experiment,
        statement,
        stated,
        kind,
        remark,
    );
    Statement {
        judge: Judge::InSetUps(SETUPS, check),
        ..of
    }
}

const ALL: &[Statement] = &[
    in_setups(
        "W.1",
        "W1",
        "At 80 ms, whatever the size: PA-UDP fast, RBUDP slow, Tsunami slower; each flat in size",
        "> 600; 100 to 150; < 100 Mbit/s",
        Kind::Bound,
        |r, setup| in_setup(r, setup, "W1", "w1", TOOLS, at_any_size),
    )
    .fitted()
    .tried("three set-ups; nothing else was changed to come nearer"),
    in_setups(
        "W.2",
        "W1",
        "RBUDP cannot send files that do not fit the sender's memory",
        "2 and 2.5 GB fail",
        Kind::Number,
        |r, setup| in_setup(r, setup, "W1", "w1", &["rbudp"], large_files_fail),
    )
    .implied("the model refuses what does not fit the memory that the paper states"),
    in_setups(
        "W.3",
        "W2",
        "All three are fast near RTT 0; with RTT Tsunami and RBUDP fall dramatically, PA-UDP does not",
        "> 600; PA-UDP about 650 throughout",
        Kind::Trend,
        |r, setup| in_setup(r, setup, "W2", "w2", TOOLS, by_round_trip),
    )
    .fitted(),
    in_setups(
        "W.4",
        "W3",
        "2 and 4 flows of one tool share evenly; 4 TCP flows do not",
        "f near 1; TCP < 0.2",
        Kind::Trend,
        |r, setup| in_setup(r, setup, "W3", "w3", &["rbudp", "tsunami", "pa-udp", "reno"], fairness),
    )
    .tried("no noise was added to tell the TCP flows apart: in the paper they differ by 10, here by their starts"),
    in_setups(
        "W.5",
        "W4",
        "Each tool beside one TCP flow, locally",
        "RBUDP 215/238, Tsunami 478/309, PA-UDP 622/46; TCP alone 363 Mbit/s",
        Kind::Number,
        |r, setup| {
            in_setup(r, setup, "W4", "w4", &["rbudp", "tsunami", "pa-udp", "none"], |cells, tool| {
                beside_tcp(cells, tool, |tool| match tool {
                    "rbudp" => (214.88, 238.0),
                    "tsunami" => (477.62, 309.0),
                    "pa-udp" => (622.30, 46.4),
                    _ => (0.0, 363.0),
                })
            })
        },
    )
    .tried("hosts that cost nothing; see the notes on what the authors' hosts must have done"),
    in_setups(
        "W.6",
        "W5",
        "Each tool beside one TCP flow, 80 ms",
        "RBUDP 121/121, Tsunami 73/116, PA-UDP 612/9.5; TCP alone 178 Mbit/s",
        Kind::Number,
        |r, setup| {
            in_setup(r, setup, "W5", "w4", &["rbudp", "tsunami", "pa-udp", "none"], |cells, tool| {
                beside_tcp(cells, tool, |tool| match tool {
                    "rbudp" => (120.75, 121.0),
                    "tsunami" => (72.56, 116.0),
                    "pa-udp" => (612.33, 9.47),
                    _ => (0.0, 178.0),
                })
            })
        },
    )
    .fitted(),
    in_setups(
        "W.8",
        "W4",
        "Locally, asymmetry towards TCP",
        "RBUDP -0.05, Tsunami 0.21, PA-UDP 0.86",
        Kind::Number,
        |r, setup| {
            in_setup(r, setup, "W4", "w4", TOOLS, |cells, tool| {
                asymmetry_near(cells, tool, |tool| match tool {
                    "rbudp" => -0.051,
                    "tsunami" => 0.214,
                    _ => 0.861,
                })
            })
        },
    ),
    in_setups(
        "W.9",
        "W5",
        "At 80 ms, asymmetry towards TCP",
        "RBUDP 0.00, Tsunami -0.23, PA-UDP 0.97",
        Kind::Number,
        |r, setup| {
            in_setup(r, setup, "W5", "w4", TOOLS, |cells, tool| {
                asymmetry_near(cells, tool, |tool| match tool {
                    "rbudp" => -0.001,
                    "tsunami" => -0.230,
                    _ => 0.970,
                })
            })
        },
    ),
    in_setups(
        "W.10",
        "W5",
        "RBUDP and Tsunami leave TCP its share, PA-UDP is too aggressive, locally and at 80 ms",
        "A near 0; near 1",
        Kind::Trend,
        |r, setup| {
            let far = experiments(r, "W5").named("setup", setup);
            in_setup(r, setup, "W4", "w4", TOOLS, |near, tool| {
                let (near, far) = (asymmetry(near, tool)?, asymmetry(&far, tool)?);
                let mark = if tool == "pa-udp" {
                    Mark::at_least(near.min(far), AGGRESSIVE, 0.5 * AGGRESSIVE)
                } else {
                    Mark::at_most(near.max(far), SHARING, 2.0 * SHARING)
                };
                Some((format!("{near:.2} and {far:.2}"), mark))
            })
        },
    ),
    in_setups(
        "W.11",
        "W5",
        "PA-UDP repeats less than RBUDP and Tsunami",
        "lower loss",
        Kind::Order,
        |r, setup| {
            in_setup(r, setup, "W5", "w4", &["rbudp", "tsunami"], |cells, tool| {
                let repeated = |tool: &str| {
                    let cells = cells.named("tool", tool);
                    cells.median(|cell| cell.metrics.get("retransmit_share/tested").copied())
                };
                let (other, own) = (repeated(tool)?, repeated("pa-udp")?);
                let figures = format!("{} to PA-UDP's {}", percent(other), percent(own));
                Some((figures, order(other / own.max(1e-6))))
            })
        },
    ),
    in_setups(
        "W.7",
        "W6",
        "A second flow joins: PA-UDP changes over cleanly and shares equally, Tsunami oscillates and leaves capacity unused",
        "clean; erratic (figure)",
        Kind::Trend,
        |r, setup| in_setup(r, setup, "W6", "w6", &["pa-udp", "tsunami"], joining),
    ),
];

/// Judges in one set-up.
fn in_setup(
    r: &Results<'_>,
    setup: &str,
    experiment: &str,
    file: &str,
    names: &[&str],
    case: impl Fn(&Cells<'_>, &str) -> Case,
) -> Finding {
    let cells = experiments(r, experiment).named("setup", setup);
    let found = each(experiment, names, |name| {
        // Tools of today have no cells here.
        names.contains(&name).then(|| case(&cells, name)).flatten()
    });
    Finding {
        run: format!("scenarios/wtrl10/{file}.toml"),
        ..found
    }
}

/// The cells of an experiment; W3 is two in one file.
fn experiments<'a>(r: &Results<'a>, experiment: &str) -> Cells<'a> {
    if experiment == "W3" {
        r.matching(|name| name == "W3-2" || name == "W3-4")
    } else {
        r.experiment(experiment)
    }
}

/// What the tool displays, or what arrived in the time of the run if it did not come to an end.
fn shown(cell: &CellResult) -> Option<f64> {
    let flow = cell.flows.first()?;
    let displayed = cell.metrics.get(&format!("tool_bps/{}", flow.name));
    Some(displayed.copied().unwrap_or(flow.goodput_bps))
}

/// Yes within the bounds, partly within the tolerance of numbers around them.
fn between(least: f64, most: f64, low: f64, high: f64) -> Mark {
    let below = Mark::at_least(least, low, low * (1.0 - NUMBER_TOLERANCE));
    below.and(Mark::at_most(most, high, high * (1.0 + NUMBER_TOLERANCE)))
}

fn at_any_size(cells: &Cells<'_>, tool: &str) -> Case {
    let cells = cells.named("tool", tool);
    let rates: Vec<f64> = sizes(&cells)
        .iter()
        .filter_map(|size| cells.named("size", size).median(shown))
        .filter(|&bps| bps > 0.0)
        .collect();
    if rates.len() < 2 {
        return None;
    }
    let least = rates.iter().copied().fold(f64::MAX, f64::min);
    let most = rates.iter().copied().fold(0.0, f64::max);
    let flat = Mark::at_most(most / least, 1.0 + NUMBER_TOLERANCE, GREATLY);
    let mark = match tool {
        "pa-udp" => between(least, most, GIVEN, f64::MAX),
        "rbudp" => between(least, most, 100e6, 150e6),
        _ => between(least, most, 0.0, 100e6),
    };
    Some((format!("{} to {}", mbit(least), mbit(most)), mark.and(flat)))
}

/// The sizes that were run.
fn sizes(cells: &Cells<'_>) -> Vec<String> {
    let mut sizes: Vec<String> = cells
        .iter()
        .filter_map(|cell| cell.at.get("size").cloned())
        .collect();
    sizes.sort();
    sizes.dedup();
    sizes
}

fn large_files_fail(cells: &Cells<'_>, tool: &str) -> Case {
    let cells = cells.named("tool", tool);
    let arrived = |size: &str| {
        cells.named("size", size).median(|cell| {
            let flow = cell.flows.first()?;
            Some(f64::from(u8::from(flow.completion_s.is_some())))
        })
    };
    let (mut failed, mut sent) = (Vec::new(), Vec::new());
    let mut mark = Mark::Yes;
    for size in sizes(&cells) {
        let arrives = arrived(&size)? > 0.5;
        let should = size != "2GB" && size != "2.5GB";
        mark = mark.and(Mark::when(arrives == should));
        if arrives {
            sent.push(size);
        } else {
            failed.push(size);
        }
    }
    if failed.is_empty() && arrived("2GB").is_none() {
        return None;
    }
    let figures = format!("fails at {}, not at {}", failed.join(", "), sent.join(", "));
    Some((figures, mark))
}

fn by_round_trip(cells: &Cells<'_>, tool: &str) -> Case {
    let cells = cells.named("tool", tool);
    let at = |rtt: &str| cells.named("rtt", rtt).median(shown);
    let (near, far, farthest) = (at("0.1ms")?, at("80ms")?, at("200ms")?);
    let fast = Mark::at_least(near, GIVEN, GIVEN * (1.0 - NUMBER_TOLERANCE));
    let kept = far.min(farthest) / near;
    let shape = if tool == "pa-udp" {
        Mark::at_least(kept, HARDLY_AFFECTED, LITTLE_AFFECTED)
    } else {
        Mark::at_most(far / near, STRONG_DROP, VISIBLE_FALL)
    };
    let figures = format!("{} {} {}", mbit(near), mbit(far), mbit(farthest));
    Some((figures, fast.and(shape)))
}

/// f of two and of four flows, from their rates over the time that each took.
fn fairness(cells: &Cells<'_>, tool: &str) -> Case {
    let of = |flows: usize| {
        cells
            .filter(|cell| {
                let name = cell.at.get("tool").map_or("", String::as_str);
                // TCP's buffers differ by set-up, and so does its name.
                name == tool || (tool == "reno" && name.starts_with("reno"))
            })
            .filter(|cell| cell.flows.len() == flows)
            .median(|cell| cell.metrics.get("maxmin").copied())
    };
    let (two, four) = (of(2)?, of(4)?);
    let mark = if tool == "reno" {
        // "Spread about 10 times", read as a number; below 0.2 is what it says.
        Mark::at_most(four, 0.2, 1.0 / UNFAIR)
    } else {
        Mark::at_least(two.min(four), 1.0 / SOMEWHAT_UNFAIR, 1.0 / UNFAIR)
    };
    Some((format!("{two:.2} and {four:.2}"), mark))
}

fn beside_tcp(cells: &Cells<'_>, tool: &str, stated: impl Fn(&str) -> (f64, f64)) -> Case {
    let cells = cells.named("tool", tool);
    let of = |name: &str| {
        cells.median(|cell| {
            let flow = cell.flows.iter().find(|flow| flow.name == name)?;
            Some(flow.goodput_bps)
        })
    };
    let tcp = of("tcp")?;
    let (own, other) = stated(tool);
    if tool == "none" {
        return Some((mbit(tcp), number(tcp / 1e6, other)));
    }
    let tested = of("tested")?;
    let mark = number(tested / 1e6, own).and(number(tcp / 1e6, other));
    let asymmetry = (tested - tcp) / (tested + tcp);
    let figures = format!("{}/{} ({asymmetry:.2})", mbit(tested), mbit(tcp));
    Some((figures, mark))
}

/// A tool that has this much more than TCP is too aggressive: twenty times as much.
const AGGRESSIVE: f64 = 0.9;
/// One that leaves TCP its share has at most as much more: half again.
const SHARING: f64 = 0.2;
/// Asymmetries go from -1 to 1 and are printed as such: "within a factor" means nothing about one near 0.
const NEAR: f64 = 0.1;

/// (tool - TCP) / (tool + TCP).
fn asymmetry(cells: &Cells<'_>, tool: &str) -> Option<f64> {
    cells.named("tool", tool).median(|cell| {
        let of = |name: &str| {
            let flow = cell.flows.iter().find(|flow| flow.name == name)?;
            Some(flow.goodput_bps)
        };
        crate::metrics::asymmetry(of("tested")?, of("tcp")?)
    })
}

fn asymmetry_near(cells: &Cells<'_>, tool: &str, stated: impl Fn(&str) -> f64) -> Case {
    let ours = asymmetry(cells, tool)?;
    let off = (ours - stated(tool)).abs();
    Some((format!("{ours:.2}"), Mark::at_most(off, NEAR, 2.0 * NEAR)))
}

/// From 5 s after the second flow's start until the first one ends, 25 s at most.
fn joining(cells: &Cells<'_>, tool: &str) -> Case {
    let cells = cells.named("tool", tool);
    let cell = cells.iter().next()?;
    let [first, second] = cell.flows.as_slice() else {
        return None;
    };
    let until = first.end_s.min(second.end_s).min(25.0).floor();
    let from = second.start_s + 5.0;
    let curves = [Curve::of(first)?, Curve::of(second)?];
    let means = [curves[0].mean(from, until)?, curves[1].mean(from, until)?];
    // Nothing at all does not vary.
    let wild = [0, 1].map(|at| curves[at].variation(from, until).unwrap_or(0.0));
    let wildest = wild[0].max(wild[1]);
    let fairness = means[0].min(means[1]) / means[0].max(means[1]).max(1.0);
    let sum = means[0] + means[1];
    let mark = if tool == "pa-udp" {
        let clean = Mark::at_most(wildest, UNSTABLE, VERY_UNSTABLE);
        clean.and(Mark::at_least(
            fairness,
            1.0 / SOMEWHAT_UNFAIR,
            1.0 / UNFAIR,
        ))
    } else {
        let unused = Mark::at_most(sum / CEILING_BPS, INEFFICIENT, SOMEWHAT_INEFFICIENT);
        Mark::at_least(wildest, VERY_UNSTABLE, UNSTABLE).and(unused)
    };
    let figures = format!(
        "{}:{}, varying by {}",
        mbit(means[0]),
        mbit(means[1]),
        percent(wildest)
    );
    Some((figures, mark))
}
