//! Checks of K14proto's statements. Words without a number in the paper ("high", "reasonable", "no visible fall")
//! get theirs here, fixed before the first full run.

use super::super::grid::{Grid, Parts, Point, SUCCESS_BPS};
use super::super::judge::{Mark, from, mbit, number, order, up_to};
use super::super::words::ONE_CORE;
use super::super::{Finding, Results};

const UDT: &[&str] = &["udt", "udt4"];
const RBUDP: &[&str] = &["rbudp"];
const MTP: &[&str] = &["mtp-like"];
const RWTP: &[&str] = &["rwtp-like"];
const FOUR: [(&str, &[&str]); 4] = [
    ("udt", UDT),
    ("rbudp", RBUDP),
    ("mtp-like", MTP),
    ("rwtp-like", RWTP),
];
/// Shown beside the four.
const TODAY: [&str; 5] = ["howdah", "cubic-2.6.32", "cubic", "bbr1", "bbr3"];
const P1: &str = "scenarios/k14proto/p1.toml";
const C: &str = "scenarios/k14proto/c.toml";
const P4: &str = "scenarios/k14proto/p4.toml";

/// Of the matrix.
const RTTS: usize = 6;
const LOSSES: usize = 7;
const CELLS: usize = RTTS * LOSSES;

/// "High": at least half of the link.
const HIGH_BPS: f64 = 5e9;
/// "Just under 100 %", "nearly a core", in per cent of one: not less than a number's tolerance below it.
const NEARLY_FULL: f64 = 85.0;
/// "No visible fall": keeps this share.
const NO_FALL: f64 = 0.9;
/// "Reasonable": at least half of what there is without loss.
const REASONABLE: f64 = 0.5;

fn p1<'a>(r: &Results<'a>, names: &[&str]) -> Grid<'a> {
    Grid::of(r, "P1", names)
}

fn place(point: &Point<'_>) -> String {
    format!("({}, {})", point.rtt_ms, point.loss_percent)
}

/// Every one of so many cells is on one side of a bound; the outermost is shown.
fn all_within(grid: &Grid<'_>, cells: usize, bound: f64, below: bool) -> Finding {
    let mut parts = Parts::default();
    let outermost = grid.iter().max_by(|a, b| {
        let order = a.rate().total_cmp(&b.rate());
        if below { order } else { order.reverse() }
    });
    let case = outermost.map(|point| {
        let mark = if below {
            up_to(point.rate(), bound)
        } else {
            from(point.rate(), bound)
        };
        (format!("{} at {}", mbit(point.rate()), place(point)), mark)
    });
    let what = if below { "at most" } else { "at least" };
    parts.add(what, case).of_cells(grid, cells);
    parts.note(format!("{} cells", grid.iter().count()));
    parts.finding(P1)
}

pub(super) fn u1(r: &Results<'_>) -> Finding {
    let grid = p1(r, UDT).only(|p| (p.loss_percent - 0.1).abs() < 1e-9);
    all_within(&grid, RTTS, 200e6, true)
}

pub(super) fn u2(r: &Results<'_>) -> Finding {
    let grid = p1(r, UDT).only(|p| p.loss_percent > 0.15);
    all_within(&grid, RTTS * (LOSSES - 2), SUCCESS_BPS, true)
}

pub(super) fn u3(r: &Results<'_>) -> Finding {
    let grid = p1(r, UDT);
    let row = grid.row(0.0);
    let case = || {
        let (first, last) = (row.first()?.rate(), row.last()?.rate());
        if row.len() < 2 {
            return None;
        }
        let falls = row.windows(2).all(|w| w[1].rate() <= 1.02 * w[0].rate());
        let mark = Mark::at_least(first, HIGH_BPS, 0.5 * HIGH_BPS)
            .and(if falls { Mark::Yes } else { Mark::Partly })
            .and(Mark::at_most(last / first, 0.8, NO_FALL));
        let rates: Vec<String> = row.iter().map(|p| mbit(p.rate())).collect();
        Some((rates.join("/"), mark))
    };
    let mut parts = Parts::default();
    let clean = grid.only(|p| p.loss_percent < 1e-9);
    parts.add("by RTT", case()).of_cells(&clean, RTTS);
    parts.finding(P1)
}

pub(super) fn u4(r: &Results<'_>) -> Finding {
    let grid = p1(r, UDT);
    let mut parts = Parts::default();
    let cpu = |p: &Point<'_>| p.succeeds().then(|| p.sender_cpu()).flatten();
    let most = grid.iter().filter_map(cpu).max_by(f64::total_cmp);
    parts
        .number(
            "at best rate",
            grid.best().and_then(Point::sender_cpu),
            28.1,
        )
        .number("most", most, 97.8)
        .number("mean", grid.mean(Point::sender_cpu), 63.4)
        .number("sender/receiver", grid.mean(Point::cpu_ratio), 1.1)
        .of_cells(&grid, CELLS);
    parts.finding(P1)
}

pub(super) fn u5(r: &Results<'_>) -> Finding {
    let grid = p1(r, UDT);
    let mib = |p: &Point<'_>| p.feedback_kib().map(|kib| kib / 1024.0);
    let mut parts = Parts::default();
    parts
        .number("(400, 0.1)", grid.at(400.0, 0.1).and_then(mib), 0.7)
        .number("(0, 0.1)", grid.at(0.0, 0.1).and_then(mib), 1.5)
        .number("best rate", grid.best().and_then(mib), 1.4)
        .number("mean", grid.mean(mib), 1.2)
        .of_cells(&grid, CELLS);
    parts.finding(P1)
}

pub(super) fn r1(r: &Results<'_>) -> Finding {
    let grid = p1(r, RBUDP);
    let mut parts = Parts::default();
    for loss in [0.0, 2.0] {
        let ratio = grid.rate(50.0, loss).zip(grid.rate(0.0, loss));
        let case = ratio.map(|(far, near)| {
            let figures = format!("{} of {}", mbit(far), mbit(near));
            (figures, Mark::at_most(far / near, 0.5, 0.6))
        });
        parts.add(&format!("{loss} %:"), case);
    }
    parts.finding(P1)
}

pub(super) fn r2(r: &Results<'_>) -> Finding {
    let row = p1(r, RBUDP);
    let slopes = || {
        let (near, middle) = (row.rate(0.0, 0.0)?, row.rate(50.0, 0.0)?);
        let far = row.row(0.0).last().copied().filter(|p| p.rtt_ms > 60.0)?;
        let first = (near - middle) / 50.0;
        let rest = (middle - far.rate()) / (far.rtt_ms - 50.0);
        let figures = format!("{:.0} and {:.1} Mbit/s per ms", first / 1e6, rest / 1e6);
        Some((figures, Mark::at_most(rest / first, 0.2, 0.5)))
    };
    let mut parts = Parts::default();
    parts.add("fall to 50 ms and beyond:", slopes());
    parts.finding(P1)
}

pub(super) fn r3(r: &Results<'_>) -> Finding {
    let best = p1(r, RBUDP).only(|p| (p.rtt_ms - 50.0).abs() < 1e-9);
    let mut parts = Parts::default();
    let rate = best.best().map(Point::rate);
    parts.rate("", rate, 3000e6).of_cells(&best, LOSSES);
    parts.finding(P1)
}

pub(super) fn r4(r: &Results<'_>) -> Finding {
    let grid = p1(r, RBUDP);
    let mut parts = Parts::default();
    let rtt = grid
        .rate(0.0, 0.0)
        .zip(grid.rate(50.0, 0.0))
        .map(|(a, b)| a - b);
    for point in grid.row(0.0) {
        let lossy = grid.rate(point.rtt_ms, 2.0);
        let case = lossy.zip(rtt).map(|(lossy, rtt)| {
            let fall = point.rate() - lossy;
            (mbit(fall), order(rtt / fall.max(1.0)))
        });
        parts.add(&format!("{} ms:", point.rtt_ms), case);
    }
    let note = rtt.map(|rtt| format!("50 ms cost {}", mbit(rtt)));
    let ends = grid.only(|p| p.loss_percent < 1e-9 || p.loss_percent > 1.9);
    parts
        .note(note.unwrap_or_default())
        .of_cells(&ends, 2 * RTTS);
    parts.finding(P1)
}

pub(super) fn r5(r: &Results<'_>) -> Finding {
    all_within(&p1(r, RBUDP), CELLS, SUCCESS_BPS, false)
}

pub(super) fn r6(r: &Results<'_>) -> Finding {
    let grid = p1(r, RBUDP);
    let mut parts = Parts::default();
    parts
        .number("best rate", grid.best().and_then(Point::sender_cpu), 10.4)
        .number(
            "(400, 2)",
            grid.at(400.0, 2.0).and_then(Point::sender_cpu),
            12.7,
        )
        .number("mean", grid.mean(Point::sender_cpu), 10.6)
        .number("sender/receiver", grid.mean(Point::cpu_ratio), 1.2)
        .of_cells(&grid, CELLS);
    parts.finding(P1)
}

pub(super) fn r7(r: &Results<'_>) -> Finding {
    let grid = p1(r, RBUDP);
    let mut parts = Parts::default();
    for loss in [0.0, 0.1] {
        let used = grid.at(0.0, loss).and_then(Point::cores);
        let case = used.map(|(sender, _)| {
            let mark = from(sender, NEARLY_FULL).and(up_to(sender, ONE_CORE));
            (format!("{sender:.0} %"), mark)
        });
        parts.add(&format!("(0, {loss})"), case);
    }
    parts.finding(P1)
}

pub(super) fn r8(r: &Results<'_>) -> Finding {
    let grid = p1(r, RBUDP);
    let mut parts = Parts::default();
    parts
        .number(
            "(0, 0)",
            grid.at(0.0, 0.0).and_then(Point::feedback_kib),
            30.0,
        )
        .number(
            "(400, 2)",
            grid.at(400.0, 2.0).and_then(Point::feedback_kib),
            50.0,
        )
        .number("mean", grid.mean(Point::feedback_kib), 37.0)
        .of_cells(&grid, CELLS);
    parts.finding(P1)
}

pub(super) fn m1(r: &Results<'_>) -> Finding {
    let grid = p1(r, MTP);
    let ratio = grid.rate(0.0, 0.0).zip(grid.rate(50.0, 0.0));
    let mut parts = Parts::default();
    parts.number("ratio", ratio.map(|(near, far)| near / far), 4.0);
    parts.finding(P1)
}

pub(super) fn m2(r: &Results<'_>) -> Finding {
    let grid = p1(r, MTP);
    let case = grid
        .rate(0.0, 0.1)
        .zip(grid.rate(0.0, 0.0))
        .map(|(lossy, clean)| {
            let figures = format!("{} with, {} without", mbit(lossy), mbit(clean));
            (figures, Mark::when(lossy > clean))
        });
    let mut parts = Parts::default();
    parts.add("", case);
    parts.finding(P1)
}

pub(super) fn m3(r: &Results<'_>) -> Finding {
    let grid = p1(r, MTP);
    let mut parts = Parts::default();
    let clean = grid.rate(0.0, 0.0);
    for (loss, reasonable) in [
        (0.1, true),
        (0.3, true),
        (0.5, true),
        (1.0, false),
        (1.5, false),
        (2.0, false),
    ] {
        let case = clean.zip(grid.rate(0.0, loss)).map(|(clean, rate)| {
            let share = rate / clean;
            let mark = if reasonable {
                Mark::at_least(share, REASONABLE, 0.5 * REASONABLE)
            } else {
                Mark::at_most(share, REASONABLE, 1.5 * REASONABLE)
            };
            (mbit(rate), mark)
        });
        parts.add(&format!("{loss} %"), case);
    }
    if !grid.is_empty() {
        let failed = grid.iter().filter(|p| !p.succeeds()).count();
        let all = grid.iter().count();
        parts.add(
            "cells that fail",
            Some((format!("{failed} of {all}"), Mark::when(failed > 0))),
        );
    }
    parts.of_cells(&grid, CELLS);
    parts.finding(P1)
}

pub(super) fn m4(r: &Results<'_>) -> Finding {
    let grid = p1(r, MTP);
    let mut parts = Parts::default();
    parts
        .number(
            "(50, 0.1)",
            grid.at(50.0, 0.1).and_then(Point::sender_cpu),
            8.4,
        )
        .number(
            "(50, 0)",
            grid.at(50.0, 0.0).and_then(Point::sender_cpu),
            17.6,
        )
        .number("mean", grid.mean(Point::sender_cpu), 11.4)
        .number("best rate", grid.best().and_then(Point::sender_cpu), 9.2)
        .of_cells(&grid, CELLS);
    parts.finding(P1)
}

pub(super) fn m5(r: &Results<'_>) -> Finding {
    let grid = p1(r, MTP);
    let clean = grid.only(|p| p.loss_percent < 1e-9);
    let mut parts = Parts::default();
    parts
        .number("mean", grid.mean(Point::cpu_ratio), 0.7)
        .number("without loss", clean.mean(Point::cpu_ratio), 0.5)
        .of_cells(&grid, CELLS);
    parts.finding(P1)
}

pub(super) fn m6(r: &Results<'_>) -> Finding {
    let grid = p1(r, MTP);
    let mib = |p: &Point<'_>| p.feedback_kib().map(|kib| kib / 1024.0);
    let mut parts = Parts::default();
    let clean = grid.at(0.0, 0.0).and_then(mib);
    parts.add(
        "(0, 0)",
        clean.map(|mib| (format!("{mib:.1}"), from(mib, 10.0))),
    );
    let worst = grid
        .only(|p| p.loss_percent > 0.0)
        .iter()
        .filter(|p| p.succeeds())
        .filter_map(mib)
        .max_by(f64::total_cmp);
    parts.add(
        "most with loss",
        worst
            .zip(clean)
            .map(|(worst, clean)| (format!("{worst:.1}"), Mark::when(worst < clean))),
    );
    parts
        .number("mean", grid.mean(mib), 3.2)
        .of_cells(&grid, CELLS);
    parts.finding(P1)
}

pub(super) fn w1(r: &Results<'_>) -> Finding {
    all_within(&p1(r, RWTP), CELLS, 1500e6, false)
}

pub(super) fn w2(r: &Results<'_>) -> Finding {
    let all = p1(r, RWTP);
    let top = all.rate(0.0, 0.0);
    let grid = all.only(|p| p.rtt_ms < 99.0 || p.loss_percent < 0.99);
    let mut parts = Parts::default();
    for point in grid.iter() {
        let case = top.map(|top| {
            (
                mbit(point.rate()),
                Mark::at_least(point.rate() / top, NO_FALL, 0.75),
            )
        });
        parts.add(&place(point), case);
    }
    // All but those of at least 100 ms and 1 %.
    parts.of_cells(&grid, CELLS - 12);
    parts.finding(P1)
}

pub(super) fn w3(r: &Results<'_>) -> Finding {
    let grid = p1(r, RWTP);
    let mut parts = Parts::default();
    parts
        .number(
            "(50, 0.1)",
            grid.at(50.0, 0.1).and_then(Point::sender_cpu),
            12.4,
        )
        .number(
            "(400, 2)",
            grid.at(400.0, 2.0).and_then(Point::sender_cpu),
            29.9,
        )
        .number("best rate", grid.best().and_then(Point::sender_cpu), 12.6)
        .number("mean", grid.mean(Point::sender_cpu), 15.4)
        .number("sender/receiver", grid.mean(Point::cpu_ratio), 1.2)
        .of_cells(&grid, CELLS);
    parts.finding(P1)
}

pub(super) fn w4(r: &Results<'_>) -> Finding {
    let grid = p1(r, RWTP);
    let mut parts = Parts::default();
    parts
        .number(
            "(0, 0)",
            grid.at(0.0, 0.0).and_then(Point::feedback_kib),
            5.6,
        )
        .number(
            "(400, 2)",
            grid.at(400.0, 2.0).and_then(Point::feedback_kib),
            6215.0,
        )
        .number("mean", grid.mean(Point::feedback_kib), 1024.0)
        .of_cells(&grid, CELLS);
    parts.finding(P1)
}

pub(super) fn c1(r: &Results<'_>) -> Finding {
    let mut parts = Parts::default();
    for (name, names) in FOUR {
        let grid = p1(r, names);
        let case = (!grid.is_empty()).then(|| {
            let failed = grid.iter().filter(|p| !p.succeeds()).count();
            let expected = matches!(name, "rbudp" | "rwtp-like");
            (
                format!("{failed} fail"),
                Mark::when((failed == 0) == expected),
            )
        });
        parts.add(name, case).of_cells(&grid, CELLS);
    }
    let today = TODAY.iter().filter_map(|&name| {
        let grid = p1(r, &[name]);
        let failed = grid.iter().filter(|p| !p.succeeds()).count();
        (!grid.is_empty()).then(|| format!("{name} {failed}"))
    });
    let today: Vec<String> = today.collect();
    if !today.is_empty() {
        parts.note(format!("today, cells that fail: {}", today.join(", ")));
    }
    parts.finding(P1)
}

pub(super) fn c2(r: &Results<'_>) -> Finding {
    let means = FOUR.map(|(_, names)| p1(r, names).mean(Point::sender_cpu));
    let best = FOUR.map(|(_, names)| p1(r, names).best().and_then(Point::sender_cpu));
    let mut parts = Parts::default();
    for (_, names) in FOUR {
        parts.of_cells(&p1(r, names), CELLS);
    }
    let show = |values: &[Option<f64>; 4]| {
        let shown = FOUR.iter().zip(values);
        let shown = shown.filter_map(|((name, _), value)| value.map(|v| format!("{name} {v:.1}")));
        shown.collect::<Vec<_>>().join(" / ")
    };
    let is_least = |values: &[Option<f64>; 4], at: usize| {
        let own = values[at]?;
        let others: Option<Vec<f64>> = values.iter().copied().collect();
        Some(others?.into_iter().all(|v| v >= own))
    };
    let is_most = |values: &[Option<f64>; 4], at: usize| {
        let own = values[at]?;
        let others: Option<Vec<f64>> = values.iter().copied().collect();
        Some(others?.into_iter().all(|v| v <= own))
    };
    parts
        .add(
            "mean",
            is_least(&means, 1).map(|yes| (show(&means), Mark::when(yes))),
        )
        .add(
            "least at best rate",
            is_least(&best, 2).map(|yes| (show(&best), Mark::when(yes))),
        )
        .add(
            "most there",
            is_most(&best, 0).map(|yes| ("udt".to_owned(), Mark::when(yes))),
        );
    parts.finding(P1)
}

pub(super) fn c3(r: &Results<'_>) -> Finding {
    let mut parts = Parts::default();
    for (name, names) in FOUR {
        let grid = p1(r, names);
        let first = grid.at(0.0, 0.0).and_then(Point::sender_cpu);
        let ok = grid.only(|p| p.rate() > SUCCESS_BPS);
        parts.of_cells(&grid, CELLS);
        if name == "mtp-like" {
            let slow = ok.iter().min_by(|a, b| a.rate().total_cmp(&b.rate()));
            let case = ok
                .best()
                .and_then(Point::sender_cpu)
                .zip(slow.and_then(Point::sender_cpu));
            parts.add(
                name,
                case.map(|(fast, slow)| {
                    (
                        format!("{slow:.1} slowest, {fast:.1} fastest"),
                        Mark::when(fast < slow),
                    )
                }),
            );
            continue;
        }
        let heavy = ok.iter().filter(|p| p.rtt_ms + p.loss_percent > 0.0);
        let heavy = heavy.max_by(|a, b| {
            (a.rtt_ms * (1.0 + a.loss_percent)).total_cmp(&(b.rtt_ms * (1.0 + b.loss_percent)))
        });
        let case = first
            .zip(heavy.and_then(Point::sender_cpu))
            .map(|(first, last)| {
                let mark = Mark::at_least(last / first, 1.05, 1.0);
                (format!("{first:.1} -> {last:.1}"), mark)
            });
        parts.add(name, case);
    }
    parts.finding(P1)
}

pub(super) fn c4(r: &Results<'_>) -> Finding {
    let mut parts = Parts::default();
    for (name, names) in FOUR {
        let steady = |experiment: &str| {
            let grid = Grid::of(r, experiment, names);
            let row = grid.row(0.0);
            let rate = |p: &Point<'_>| p.cell.flows.first().map_or(0.0, |f| f.steady_goodput_bps);
            let (near, far) = (row.first()?, row.last()?);
            (row.len() > 1).then(|| rate(far) / rate(near))
        };
        let (with, without) = (steady("P1"), steady("P-C4"));
        // A protocol that does not fall with its buffers says nothing about them.
        let case = without.map(|without| {
            let before = with.map_or_else(String::new, |with| format!(", with limits {with:.2}"));
            (
                format!("{without:.2}{before}"),
                Mark::at_least(without, NO_FALL, 0.75),
            )
        });
        parts.add(name, case);
    }
    parts
        .note("share of the rate at RTT 0 that is left at the longest RTT, second half of the run");
    parts.finding(C)
}

pub(super) fn c5(r: &Results<'_>) -> Finding {
    let mut parts = Parts::default();
    for (name, names) in FOUR {
        let cells = r.experiment("P-C5").filter(|cell| {
            cell.flows
                .first()
                .is_some_and(|f| names.contains(&f.protocol.as_str()))
        });
        let mut worst: Option<f64> = None;
        for large in cells.at("mss", 8800.0).iter() {
            let same = |small: &&crate::result::CellResult| {
                ["rtt", "loss"]
                    .iter()
                    .all(|axis| small.at.get(*axis) == large.at.get(*axis))
            };
            let small = cells.at("mss", 1472.0);
            let Some(small) = small.iter().find(|cell| same(cell)) else {
                continue;
            };
            let gain = large.flows[0].goodput_bps / small.flows[0].goodput_bps.max(1.0);
            worst = Some(worst.map_or(gain, |w| w.min(gain)));
        }
        parts.add(
            name,
            worst.map(|gain| (format!("x {gain:.1}"), order(gain))),
        );
    }
    parts.note("least gain over the cells");
    parts.finding(C)
}

pub(super) fn c6(r: &Results<'_>) -> Finding {
    let mut parts = Parts::default();
    for (name, names) in [FOUR[1], FOUR[3]] {
        let rate = |case: &str| {
            let cells = r.experiment("P-C6").named("case", case);
            let cells = cells.filter(|cell| {
                cell.flows
                    .first()
                    .is_some_and(|f| names.contains(&f.protocol.as_str()))
            });
            cells.median(|cell| cell.flows.first().map(|f| f.steady_goodput_bps))
        };
        for (wrong, right) in [
            ("12000 on 10000", "9800 on 10000"),
            ("9800 on 5000", "4900 on 5000"),
        ] {
            let case = rate(wrong).zip(rate(right)).map(|(wrong, right)| {
                let share = wrong / right;
                // "Does not recover": less than half of what the right setting gives.
                (format!("{share:.2}"), Mark::at_most(share, 0.5, 0.75))
            });
            parts.add(&format!("{name} {wrong}:"), case);
        }
    }
    parts.note("share of the rate with a fitting preset");
    parts.finding(C)
}

pub(super) fn c7(r: &Results<'_>) -> Finding {
    let mut parts = Parts::default();
    let app = |names: &[&str]| Grid::of(r, "A1", names);
    let case = app(&["expedat-like"])
        .rate(0.0, 0.0)
        .zip(p1(r, MTP).rate(0.0, 0.0));
    parts.add(
        "ExpeDat-like and MTP-like at (0, 0):",
        case.map(|(app, bare)| (format!("{} > {}", mbit(app), mbit(bare)), order(app / bare))),
    );
    let case = app(&["tixstream-like"])
        .rate(200.0, 1.0)
        .zip(p1(r, RWTP).rate(200.0, 1.0));
    parts.add(
        "TIXstream-like and RWTP-like at (200, 1):",
        case.map(|(app, bare)| (format!("{} < {}", mbit(app), mbit(bare)), order(bare / app))),
    );
    parts.note("the hosts of both were fitted apart");
    parts.finding("scenarios/k14proto/p1.toml scenarios/k13app/a1.toml")
}

/// The means of four protocols, and whether one of them is on top or at the bottom: the nearest other one, by their ratio.
fn extreme(values: [Option<f64>; 4], at: usize, least: bool) -> Option<(String, Mark)> {
    let own = values[at]?;
    let all: Option<Vec<f64>> = values.iter().copied().collect();
    let all = all?;
    let others = all.iter().enumerate().filter(|(n, _)| *n != at);
    let others = others.map(|(_, &value)| value);
    let ratio = if least {
        others.fold(f64::MAX, f64::min) / own.max(f64::MIN_POSITIVE)
    } else {
        own / others.fold(0.0, f64::max).max(f64::MIN_POSITIVE)
    };
    let shown = FOUR.iter().zip(&all);
    let shown: Vec<String> = shown
        .map(|((name, _), v)| format!("{name} {v:.0}"))
        .collect();
    Some((shown.join(" / "), order(ratio)))
}

pub(super) fn c8(r: &Results<'_>) -> Finding {
    let means = FOUR.map(|(_, names)| p1(r, names).mean(Point::feedback_kib));
    let mut parts = Parts::default();
    parts
        .add("least RBUDP, KiB/GiB", extreme(means, 1, true))
        .add("most MTP", extreme(means, 2, false));
    for (_, names) in FOUR {
        parts.of_cells(&p1(r, names), CELLS);
    }
    parts.finding(P1)
}

pub(super) fn c9(r: &Results<'_>) -> Finding {
    let mut parts = Parts::default();
    for (name, names) in FOUR {
        let grid = p1(r, names);
        let clean = grid
            .only(|p| p.loss_percent < 1e-9)
            .mean(Point::feedback_kib);
        let lossy = grid
            .only(|p| p.loss_percent > 1e-9)
            .mean(Point::feedback_kib);
        let case = clean.zip(lossy).map(|(clean, lossy)| {
            let less = matches!(name, "udt" | "mtp-like");
            let ratio = if less { clean / lossy } else { lossy / clean };
            (format!("{clean:.0} -> {lossy:.0}"), order(ratio))
        });
        parts.add(name, case).of_cells(&grid, CELLS);
    }
    parts.note("KiB/GiB without and with loss, means of the cells that succeed");
    parts.finding(P1)
}

pub(super) fn c10(r: &Results<'_>) -> Finding {
    let mut parts = Parts::default();
    for (name, names) in FOUR {
        let grid = p1(r, names);
        let used = grid.iter().filter_map(Point::cores);
        let most = used
            .map(|(sender, receiver)| sender.max(receiver))
            .max_by(f64::total_cmp);
        let case = most.map(|percent| {
            let several = matches!(name, "udt" | "rwtp-like");
            let mark = Mark::when((percent > ONE_CORE) == several);
            (format!("{percent:.0} %"), mark)
        });
        parts.add(name, case).of_cells(&grid, CELLS);
    }
    parts.finding(P1)
}

pub(super) fn m7(r: &Results<'_>) -> Finding {
    let grid = p1(r, MTP);
    let used = grid.best().and_then(Point::cores);
    let mut parts = Parts::default();
    let case = used.map(|(sender, receiver)| {
        let percent = sender.max(receiver);
        let mark = from(percent, NEARLY_FULL).and(up_to(percent, ONE_CORE));
        (format!("{percent:.0} %"), mark)
    });
    parts.add("at best rate", case).of_cells(&grid, CELLS);
    parts.finding(P1)
}

pub(super) fn c11(r: &Results<'_>) -> Finding {
    let rates = FOUR.map(|(_, names)| {
        let grid = p1(r, names);
        let all: Vec<f64> = grid.iter().map(|p| p.rate() / 1e6).collect();
        (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
    });
    let mut parts = Parts::default();
    parts.add("best RWTP", extreme(rates, 3, false));
    let open = [rates[0], rates[1]];
    let case = open[1].zip(open[0]).map(|(rbudp, udt)| {
        (
            format!("{rbudp:.0} and UDT4 {udt:.0}"),
            order(rbudp / udt.max(1.0)),
        )
    });
    parts.add("best open one RBUDP", case);
    for (_, names) in FOUR {
        parts.of_cells(&p1(r, names), CELLS);
    }
    parts.note("mean over the 42 cells, Mbit/s");
    parts.finding(P1)
}

pub(super) fn c12(r: &Results<'_>) -> Finding {
    let cells = r.experiment("F12");
    let mut parts = Parts::default();
    for (name, names) in FOUR {
        let own = cells.filter(|cell| {
            let first = cell.flows.first();
            first.is_some_and(|f| names.contains(&f.protocol.as_str()))
        });
        // The least gain over the places, of bursts of 5 packets over losses one by one.
        let mut worst: Option<f64> = None;
        for single in own.at("burst", 1.01).iter() {
            let same = |cell: &&crate::result::CellResult| {
                let axes = ["rtt", "loss"];
                axes.iter()
                    .all(|axis| cell.at.get(*axis) == single.at.get(*axis))
                    && cell.seed == single.seed
            };
            let bursts = own.at("burst", 5.0);
            let Some(burst) = bursts.iter().find(same) else {
                continue;
            };
            let rate = |cell: &crate::result::CellResult| cell.flows[0].steady_goodput_bps;
            let gain = rate(burst) / rate(single).max(1.0);
            worst = Some(worst.map_or(gain, |worst| worst.min(gain)));
        }
        let case = worst.map(|gain| (format!("x {gain:.2}"), order(gain)));
        parts.add(name, case);
    }
    parts.note("least gain over the cells");
    parts.finding("scenarios/future/f12.toml")
}

pub(super) fn q1(r: &Results<'_>) -> Finding {
    let mut parts = Parts::default();
    for (streams, stated) in [(1.0, 4500e6), (2.0, 5000e6), (8.0, 6600e6)] {
        let cells = r.experiment("P4-udt").at("streams", streams);
        let sum = cells.good(|cell| Some(cell.flows.iter().map(|f| f.goodput_bps).sum()));
        parts.add(
            &format!("{streams}:"),
            sum.map(|bps| (mbit(bps), number(bps, stated))),
        );
    }
    parts.finding(P4)
}

pub(super) fn q2(r: &Results<'_>) -> Finding {
    let rate = r
        .experiment("P4-rbudp")
        .good(|cell| cell.flows.first().map(|f| f.goodput_bps));
    let mut parts = Parts::default();
    parts.rate("", rate, 1200e6);
    parts.finding(P4)
}
