//! Checks of K13app's statements. "Rate" is what the mover displays, "duration" the whole command; see
//! docs/rivals/movers.md for what stands behind them here.

use super::super::grid::{Grid, Parts, Point};
use super::super::judge::{Mark, from, mbit, number, order, up_to};
use super::super::{Finding, Results};

const VELOCITY: &str = "velocity-like";
const TIXSTREAM: &str = "tixstream-like";
const FILECATALYST: &str = "filecatalyst-direct-like";
const XDT: &str = "xdt-like";
const EXPEDAT: &str = "expedat-like";
const FIVE: [&str; 5] = [VELOCITY, TIXSTREAM, FILECATALYST, XDT, EXPEDAT];
const A1: &str = "scenarios/k13app/a1.toml";
/// Of the matrix.
const SIDE: usize = 5;
const QUOTED: &str = "scenarios/k13app/quoted.toml";

fn a1<'a>(r: &Results<'a>, name: &str) -> Grid<'a> {
    Grid::of(r, "A1", &[name])
}

fn discrepancy(point: &Point<'_>) -> Option<f64> {
    point.metric("discrepancy_s")
}

fn least_overhead(grid: &Grid<'_>) -> Option<f64> {
    let all = grid.iter().filter_map(|p| p.metric("overhead_s"));
    all.min_by(f64::total_cmp)
}

fn at_least(bps: f64, bound: f64) -> (String, Mark) {
    (mbit(bps), from(bps, bound))
}

fn at_most(bps: f64, bound: f64) -> (String, Mark) {
    (mbit(bps), up_to(bps, bound))
}

/// Each of so many cells.
fn every(grid: &Grid<'_>, cells: usize, case: impl Fn(f64) -> (String, Mark)) -> Finding {
    let mut parts = Parts::default();
    for point in grid.iter() {
        let what = format!("({}, {})", point.rtt_ms, point.loss_percent);
        parts.add(&what, Some(case(point.rate())));
    }
    parts.of_cells(grid, cells);
    parts.finding(A1)
}

/// One of the five has most of all in a cell, by the ratio to the next one.
fn best_of_all(r: &Results<'_>, name: &str, rtt: f64, loss: f64) -> Option<(String, Mark)> {
    let own = a1(r, name).rate(rtt, loss)?;
    let all: Option<Vec<f64>> = FIVE.iter().map(|one| a1(r, one).rate(rtt, loss)).collect();
    let others = FIVE.iter().zip(all?).filter(|(one, _)| **one != name);
    let next = others.map(|(_, bps)| bps).fold(0.0, f64::max);
    Some((
        format!("{} and {}", mbit(own), mbit(next)),
        order(own / next.max(1.0)),
    ))
}

pub(super) fn a_0(r: &Results<'_>) -> Finding {
    let mut parts = Parts::default();
    let rates = FIVE.map(|name| a1(r, name).rate(0.0, 0.0));
    for (name, rate) in FIVE.iter().zip(rates) {
        parts.add(name, rate.map(|bps| at_least(bps, 9.3e9)));
    }
    let all: Option<Vec<f64>> = rates.iter().copied().collect();
    let highest = all.map(|all| {
        let yes = all.iter().all(|&bps| bps <= all[0]);
        (String::new(), Mark::when(yes))
    });
    parts.add("Velocity highest", highest);
    parts.finding(A1)
}

pub(super) fn v1(r: &Results<'_>) -> Finding {
    let row = a1(r, VELOCITY).only(|p| p.loss_percent < 1e-9);
    let least = row.iter().map(Point::rate).min_by(f64::total_cmp);
    let mut parts = Parts::default();
    parts.rate("least", least, 8e9).of_cells(&row, SIDE);
    parts.finding(A1)
}

pub(super) fn v2(r: &Results<'_>) -> Finding {
    let mut parts = Parts::default();
    parts.rate(
        "",
        Grid::of(r, "A1-one", &[VELOCITY]).rate(200.0, 0.0),
        2.2e9,
    );
    parts.finding("scenarios/k13app/more.toml")
}

pub(super) fn v3(r: &Results<'_>) -> Finding {
    let grid = a1(r, VELOCITY);
    let mut parts = Parts::default();
    parts
        .rate("0.1 %", grid.rate(0.0, 0.1), 9e9)
        .rate("1 %", grid.rate(0.0, 1.0), 500e6);
    parts.finding(A1)
}

pub(super) fn v4(r: &Results<'_>) -> Finding {
    let grid = a1(r, VELOCITY);
    let mut parts = Parts::default();
    let grid = grid.only(|p| p.rtt_ms > 1.0 && p.loss_percent > 0.0);
    for point in grid.iter() {
        let what = format!("({}, {})", point.rtt_ms, point.loss_percent);
        let rate = point.rate();
        let case = if point.loss_percent < 0.2 {
            (mbit(rate), number(rate, 250e6))
        } else {
            at_most(rate, 100e6)
        };
        parts.add(&what, Some(case));
    }
    parts.of_cells(&grid, (SIDE - 1) * (SIDE - 1));
    parts.finding(A1)
}

pub(super) fn v6(r: &Results<'_>) -> Finding {
    let values = FIVE.map(|name| {
        let grid = a1(r, name).only(|p| p.loss_percent < 1e-9);
        grid.mean(discrepancy)
    });
    let case = values[0]
        .filter(|_| values.iter().flatten().count() == FIVE.len())
        .map(|own| {
            let shown = FIVE.iter().zip(values);
            let shown: Vec<String> = shown
                .filter_map(|(name, value)| value.map(|s| format!("{name} {s:.2} s")))
                .collect();
            let below = values.iter().flatten().any(|&v| v < own - 1e-9);
            (shown.join(", "), Mark::when(!below))
        });
    let mut parts = Parts::default();
    parts.add("", case);
    parts.note("discrepancies here are the fitted service times");
    parts.finding(A1)
}

pub(super) fn t1(r: &Results<'_>) -> Finding {
    let grid = a1(r, TIXSTREAM).only(|p| p.rtt_ms < 101.0 && p.loss_percent < 0.11);
    // Printed with two digits.
    every(&grid, 6, |bps| at_least(bps, 9.65e9))
}

pub(super) fn t2(r: &Results<'_>) -> Finding {
    let grid = a1(r, TIXSTREAM).only(|p| p.loss_percent < 1e-9);
    every(&grid, SIDE, |bps| {
        (mbit(bps), Mark::at_least(bps, 9.5e9, 9e9))
    })
}

pub(super) fn t3(r: &Results<'_>) -> Finding {
    let grid = a1(r, TIXSTREAM);
    let point = grid.at(150.0, 0.1);
    let mut parts = Parts::default();
    parts
        .rate("rate", point.map(Point::rate), 8.7e9)
        .number(
            "duration s",
            point.and_then(|p| p.metric("duration_s")),
            37.25,
        )
        .number("service s", point.and_then(discrepancy), 7.63);
    parts.finding(A1)
}

pub(super) fn t4(r: &Results<'_>) -> Finding {
    let mut parts = Parts::default();
    parts.rate("", a1(r, TIXSTREAM).rate(200.0, 1.0), 3.75e9);
    parts.finding(A1)
}

pub(super) fn t5(r: &Results<'_>) -> Finding {
    let grid = a1(r, TIXSTREAM);
    let mut parts = Parts::default();
    let row = grid.only(|p| p.rtt_ms < 1.0);
    for near in row.iter() {
        let case = grid.rate(50.0, near.loss_percent).map(|far| {
            let figures = format!("{} and {}", mbit(far), mbit(near.rate()));
            // The paper's own difference is of a per cent; none is asked for.
            (figures, Mark::when(far > near.rate()))
        });
        parts.add(&format!("{} %:", near.loss_percent), case);
    }
    parts.of_cells(&row, SIDE);
    parts.finding(A1)
}

pub(super) fn t6(r: &Results<'_>) -> Finding {
    let grid = a1(r, TIXSTREAM);
    let mut parts = Parts::default();
    let gentle = grid.only(|p| p.rtt_ms < 101.0 && p.loss_percent < 0.31);
    let least = gentle.iter().map(Point::rate).min_by(f64::total_cmp);
    parts.add(
        "least to (100, 0.3)",
        least.map(|bps| (mbit(bps), Mark::at_least(bps, 9.4e9, 9e9))),
    );
    parts.of_cells(&gentle, 9);
    for rtt in [0.0, 50.0] {
        let own = grid.rate(rtt, 1.0);
        let others: Option<Vec<f64>> = FIVE.iter().map(|name| a1(r, name).rate(rtt, 1.0)).collect();
        let case = own
            .zip(others)
            .map(|(own, all)| (mbit(own), Mark::when(all.iter().all(|&other| other <= own))));
        parts.add(&format!("best of all at ({rtt}, 1):"), case);
    }
    let row = grid.row(1.0);
    let falls = row.first().zip(row.last()).and_then(|(near, far)| {
        let (near, far) = (discrepancy(near)?, discrepancy(far)?);
        Some((format!("{near:.1} to {far:.1} s"), Mark::when(far < near)))
    });
    parts.add("discrepancy at 1 % by RTT:", falls);
    parts.finding(A1)
}

pub(super) fn t7(r: &Results<'_>) -> Finding {
    let grid = a1(r, TIXSTREAM);
    let cores = grid.at(0.0, 0.0).and_then(Point::cores);
    let mut parts = Parts::default();
    parts.number("sender %", cores.map(|c| c.0), 150.0).number(
        "receiver %",
        cores.map(|c| c.1),
        160.0,
    );
    parts.finding(A1)
}

pub(super) fn f1(r: &Results<'_>) -> Finding {
    let grid = a1(r, FILECATALYST);
    let mut parts = Parts::default();
    let rates = || grid.iter().map(Point::rate);
    let least = rates().min_by(f64::total_cmp);
    let most = rates().max_by(f64::total_cmp);
    parts
        .add("least", least.map(|bps| at_least(bps, 8.95e9)))
        .add("most", most.map(|bps| at_most(bps, 9.45e9)))
        .of_cells(&grid, SIDE * SIDE);
    parts.note(format!("{} cells", grid.iter().count()));
    parts.finding(A1)
}

pub(super) fn f2(r: &Results<'_>) -> Finding {
    let mut parts = Parts::default();
    let grid = a1(r, FILECATALYST).only(|p| p.loss_percent < 1e-9);
    parts.of_cells(&grid, SIDE);
    for point in grid.row(0.0) {
        // Read to 50.
        let mark = from(point.rate(), 9.15e9).and(up_to(point.rate(), 9.35e9));
        parts.add(
            &format!("{} ms", point.rtt_ms),
            Some((mbit(point.rate()), mark)),
        );
    }
    parts.finding(A1)
}

pub(super) fn f3(r: &Results<'_>) -> Finding {
    let grid = a1(r, FILECATALYST);
    let mut parts = Parts::default();
    parts.of_cells(&grid.only(|p| p.loss_percent < 1e-9), SIDE);
    let row: Option<Vec<f64>> = grid
        .row(0.0)
        .iter()
        .map(|p| p.metric("duration_s"))
        .collect();
    let row = row.filter(|row| row.len() > 1);
    let rises = row.map(|row| {
        let shown: Vec<String> = row.iter().map(|s| format!("{s:.1}")).collect();
        let yes = row.windows(2).all(|w| w[1] >= w[0] - 1e-3);
        (shown.join("/") + " s", Mark::when(yes))
    });
    let own = least_overhead(&grid);
    let others: Option<Vec<f64>> = FIVE
        .iter()
        .map(|name| least_overhead(&a1(r, name)))
        .collect();
    parts
        .add("by RTT", rises)
        .number("best overhead s", own, 3.8)
        .add(
            "the worst of all",
            own.zip(others)
                .map(|(own, all)| (String::new(), Mark::when(all.iter().all(|&o| o <= own)))),
        );
    parts.finding(A1)
}

pub(super) fn f4(r: &Results<'_>) -> Finding {
    let grid = a1(r, FILECATALYST);
    let mut parts = Parts::default();
    for (rtt, same) in [
        (0.0, true),
        (50.0, true),
        (100.0, true),
        (150.0, false),
        (200.0, false),
    ] {
        let both = grid
            .at(rtt, 0.0)
            .and_then(discrepancy)
            .zip(grid.at(rtt, 1.0).and_then(discrepancy));
        let case = both.map(|(clean, lossy)| {
            let more = lossy - clean;
            let mark = if same {
                Mark::at_most(more.abs(), 0.3, 0.6)
            } else {
                Mark::when(more > 0.3)
            };
            (format!("{more:+.2} s"), mark)
        });
        parts.add(&format!("{rtt} ms"), case);
    }
    parts.finding(A1)
}

pub(super) fn x1(r: &Results<'_>) -> Finding {
    let grid = a1(r, XDT);
    let mut parts = Parts::default();
    parts
        .rate("150 ms", grid.rate(150.0, 0.0), 8.3e9)
        .of_cells(&grid.only(|p| p.loss_percent < 1e-9), SIDE);
    let row = grid.row(0.0);
    let falls = (row.len() > 1).then(|| {
        let rates: Vec<String> = row.iter().map(|p| mbit(p.rate())).collect();
        let yes = row.windows(2).all(|w| w[1].rate() < w[0].rate() * 1.01);
        (rates.join("/"), Mark::when(yes))
    });
    parts.add("by RTT", falls);
    parts.finding(A1)
}

pub(super) fn x2(r: &Results<'_>) -> Finding {
    let grid = a1(r, XDT).only(|p| p.loss_percent > 0.0);
    every(&grid, SIDE * (SIDE - 1), |bps| at_most(bps, 100e6))
}

pub(super) fn x3(r: &Results<'_>) -> Finding {
    let overheads: Vec<Option<f64>> = FIVE
        .iter()
        .map(|name| least_overhead(&a1(r, name)))
        .collect();
    let own = overheads[3];
    let all: Option<Vec<f64>> = overheads.into_iter().collect();
    let mut parts = Parts::default();
    parts.number("overhead s", own, 1.4).add(
        "best of all",
        own.zip(all).map(|(own, all)| {
            let shown: Vec<String> = FIVE
                .iter()
                .zip(&all)
                .map(|(n, o)| format!("{n} {o:.1}"))
                .collect();
            (shown.join(" / "), Mark::when(all.iter().all(|&o| o >= own)))
        }),
    );
    parts.finding(A1)
}

pub(super) fn x4(r: &Results<'_>) -> Finding {
    let grid = a1(r, XDT);
    let mut parts = Parts::default();
    let near = grid.only(|p| p.rtt_ms < 199.0 && p.loss_percent < 1e-9);
    let most = near.iter().filter_map(discrepancy).max_by(f64::total_cmp);
    parts.add(
        "most below 200 ms",
        most.map(|s| (format!("{s:.1} s"), up_to(s, 2.0))),
    );
    parts.of_cells(&near, SIDE - 1);
    let own = grid.at(200.0, 0.0).and_then(discrepancy);
    let all: Option<Vec<f64>> = FIVE
        .iter()
        .map(|name| a1(r, name).at(200.0, 0.0).and_then(discrepancy))
        .collect();
    parts.add(
        "worst of all at 200 ms",
        own.zip(all).map(|(own, all)| {
            (
                format!("{own:.1} s"),
                Mark::when(all.iter().all(|&o| o <= own)),
            )
        }),
    );
    parts.finding(A1)
}

pub(super) fn e1(r: &Results<'_>) -> Finding {
    let grid = a1(r, EXPEDAT);
    let mut parts = Parts::default();
    parts
        .rate(
            "untuned",
            Grid::of(r, "A1-untuned", &[EXPEDAT]).rate(0.0, 0.0),
            2e9,
        )
        .rate("tuned", grid.rate(0.0, 0.0), 9e9);
    let busiest = grid
        .at(0.0, 0.0)
        .and_then(Point::cores)
        .map(|(s, r)| s.max(r));
    parts.number("core %", busiest, 99.0);
    parts.finding(A1)
}

pub(super) fn e2(r: &Results<'_>) -> Finding {
    let grid = a1(r, EXPEDAT);
    let case = grid
        .rate(0.0, 1.0)
        .zip(grid.rate(50.0, 0.0))
        .map(|(lossy, far)| {
            let figures = format!("1 % leaves {}, 50 ms leave {}", mbit(lossy), mbit(far));
            (figures, order(lossy / far.max(1.0)))
        });
    let mut parts = Parts::default();
    parts.add("", case);
    parts.finding(A1)
}

pub(super) fn e3(r: &Results<'_>) -> Finding {
    let grid = a1(r, EXPEDAT);
    let mut parts = Parts::default();
    parts.rate("RTT 0", grid.rate(0.0, 1.0), 5.7e9);
    for rtt in [50.0, 100.0, 150.0] {
        let case = grid.rate(rtt, 1.0).map(|bps| at_most(bps, 1e9));
        parts.add(&format!("{rtt} ms"), case);
    }
    parts.rate("200 ms", grid.rate(200.0, 1.0), 400e6);
    parts.finding(A1)
}

pub(super) fn e4(r: &Results<'_>) -> Finding {
    let grid = a1(r, EXPEDAT);
    let mut parts = Parts::default();
    let all = grid.iter().filter(|p| p.succeeds());
    let (mut cells, mut least) = (0, 0);
    for point in all {
        let Some(own) = discrepancy(point) else {
            continue;
        };
        cells += 1;
        let others = FIVE.iter().filter_map(|name| {
            let grid = a1(r, name);
            let other = grid.at(point.rtt_ms, point.loss_percent)?;
            other.succeeds().then(|| discrepancy(other)).flatten()
        });
        least += usize::from(others.fold(f64::MAX, f64::min) >= own - 1e-9);
    }
    let share = (cells > 0).then(|| {
        let share = f64::from(least as u32) / f64::from(cells);
        (
            format!("in {least} of {cells}"),
            Mark::at_least(share, 0.8, 0.6),
        )
    });
    parts.add("lowest", share);
    for rtt in [100.0, 150.0] {
        let own = grid.at(rtt, 0.0).and_then(discrepancy);
        let case = own.map(|s| (format!("{s:.1} s"), Mark::when(s < 0.0)));
        parts.add(&format!("({rtt}, 0)"), case);
    }
    parts.finding(A1)
}

pub(super) fn d1(r: &Results<'_>) -> Finding {
    let mut parts = Parts::default();
    for name in [VELOCITY, TIXSTREAM, EXPEDAT] {
        let overhead = least_overhead(&a1(r, name));
        parts.add(name, overhead.map(|s| (format!("{s:.2} s"), up_to(s, 2.0))));
    }
    parts.finding(A1)
}

pub(super) fn c1(r: &Results<'_>) -> Finding {
    let mut parts = Parts::default();
    for rtt in [50.0, 100.0, 150.0, 200.0] {
        parts.add(&format!("{rtt} ms"), best_of_all(r, TIXSTREAM, rtt, 0.0));
    }
    parts.finding(A1)
}

pub(super) fn c2(r: &Results<'_>) -> Finding {
    let mut parts = Parts::default();
    for rtt in [100.0, 150.0, 200.0] {
        parts.add(&format!("{rtt} ms"), best_of_all(r, FILECATALYST, rtt, 1.0));
    }
    parts.finding(A1)
}

pub(super) fn c3(r: &Results<'_>) -> Finding {
    let mut parts = Parts::default();
    for name in FIVE {
        let grid = a1(r, name);
        let ends = grid.at(0.0, 0.0).zip(grid.at(200.0, 0.0));
        let case = ends.and_then(|(near, far)| {
            let (near, far) = (discrepancy(near)?, discrepancy(far)?);
            Some((
                format!("{near:.2} to {far:.2} s"),
                Mark::when(far > near + 0.01),
            ))
        });
        parts.add(name, case);
    }
    parts.finding(A1)
}

pub(super) fn i1(r: &Results<'_>) -> Finding {
    let rate = |window| {
        let cells = r.experiment("A-iperf").named("window", window);
        cells.median(|cell| cell.flows.first().map(|f| f.goodput_bps))
    };
    let mut parts = Parts::default();
    parts.rate("untuned", rate("untuned"), 40e6);
    let tuned = rate("128MiB").map(|bps| at_most(bps, 60e6));
    parts.add("128 MiB", tuned);
    parts.finding(QUOTED)
}

pub(super) fn i2(r: &Results<'_>) -> Finding {
    let rate = |protocol| {
        let cells = r.experiment("A-quoted").protocol(protocol);
        cells.median(|cell| cell.flows.first().map(|f| f.steady_goodput_bps))
    };
    let mut parts = Parts::default();
    parts.add("reno", rate("reno").map(|bps| at_most(bps, 1e9)));
    parts.rate("scalable", rate("scalable"), 5e9);
    parts.finding(QUOTED)
}

pub(super) fn i3(r: &Results<'_>) -> Finding {
    let mut parts = Parts::default();
    let rate = |protocol| {
        let cells = r.experiment("A-quoted-1g").protocol(protocol);
        cells.median(|cell| cell.flows.first().map(|f| f.steady_goodput_bps))
    };
    for protocol in ["rbudp", "sabul", "gtp", "reno"] {
        parts.rate(protocol, rate(protocol), 900e6);
    }
    if let Some(bps) = rate("htcp") {
        parts.note(format!("H-TCP has {}", mbit(bps)));
    }
    parts.finding(QUOTED)
}

pub(super) fn s1(r: &Results<'_>) -> Finding {
    if r.experiment("A1").is_empty() {
        return Parts::default().add("A1", None).finding(A1);
    }
    let mut parts = Parts::default();
    let cells = r.experiment("A1").protocol(VELOCITY);
    let streams = cells.median(|cell| cell.flows.first()?.connections.map(f64::from));
    parts.number("Velocity TCP", streams, 7.0);
    parts.note("the other models have one UDP flow by construction: no control channel over TCP (TIXstream), no ten and four sockets (FileCatalyst)");
    parts.finding(A1)
}
