//! J-F: one high-speed flow and 3000 short flows of standard TCP.

use super::super::judge::{HIGH_SPEED, Mark, UDT, each, mbit, one, order, percent, percent_change};
use super::super::results::{Cells, first_goodput, flow_of, short_throughput};
use super::super::series::Curve;
use super::super::words::{DIP, HURT, SAME, SOMEWHAT_HURT};
use super::super::{Finding, Kind, Results, Statement};
use super::state;

/// Mean sizes of the short flows in kilobytes, as the scenario's axis `mean` writes them.
const SIZES_KB: [f64; 3] = [100.0, 300.0, 500.0];
/// When the short flows of J-F2 run, in seconds.
const SHORTS_S: (f64, f64) = (50.0, 350.0);

pub(super) const STATEMENTS: &[Statement] = &[
    state(
        "J.f1a",
        "J-F1",
        "A high-speed TCP flow is hurt considerably by 3000 short flows",
        "considerably (figure)",
        Kind::Trend,
        |r| {
            each("J-F1", HIGH_SPEED, |p| {
                let lost = lost_share(r, p, 500.0)?;
                Some((
                    percent_change(-lost),
                    Mark::at_least(lost, HURT, SOMEWHAT_HURT),
                ))
            })
        },
    ),
    state(
        "J.f1b",
        "J-F1",
        "... the more, the larger they are (mean 100, 300, 500 KB)",
        "more for larger (figure)",
        Kind::Trend,
        |r| {
            each("J-F1", HIGH_SPEED, |p| {
                let f = at_sizes(&r.experiment("J-F1").protocol(p), first_goodput)?;
                let falling = f[1] <= f[0] * (1.0 + SAME) && f[2] <= f[1] * (1.0 + SAME);
                let ends = f[2] < f[0] * (1.0 - SAME);
                let mark = match (falling, ends) {
                    (true, true) => Mark::Yes,
                    (false, true) => Mark::Partly,
                    _ => Mark::No,
                };
                Some((three(&f), mark))
            })
        },
    ),
    state(
        "J.f1u",
        "J-F1",
        "UDT is hurt least by the short flows",
        "least (figure)",
        Kind::Order,
        |r| {
            let case = || {
                let udt = lost_share(r, UDT, 500.0)?;
                let mut least = f64::MAX;
                for p in HIGH_SPEED {
                    least = least.min(lost_share(r, p, 500.0)?);
                }
                let figures = format!(
                    "{}, TCPs at least {}",
                    percent_change(-udt),
                    percent_change(-least)
                );
                Some((figures, Mark::when(udt < least)))
            };
            one("J-F1", UDT, case())
        },
    ),
    state(
        "J.f1v",
        "J-F1",
        "What UDT loses does not grow steadily with their size",
        "not monotone (figure)",
        Kind::Trend,
        |r| {
            each("J-F1", &[UDT], |p| {
                let f = at_sizes(&r.experiment("J-F1").protocol(p), first_goodput)?;
                Some((three(&f), Mark::when(f[1] > f[0] || f[2] > f[1])))
            })
        },
    ),
    state(
        "J.f1c",
        "J-F1",
        "The short flows' throughput grows with their mean size",
        "grows (figure)",
        Kind::Trend,
        |r| {
            each("J-F1", HIGH_SPEED, |p| {
                let t = at_sizes(&r.experiment("J-F1").protocol(p), short_throughput)?;
                let mark = match (t[1] > t[0] && t[2] > t[1], t[2] > t[0]) {
                    (true, _) => Mark::Yes,
                    (false, true) => Mark::Partly,
                    _ => Mark::No,
                };
                Some((kbit_three(&t), mark))
            })
        },
    ),
    state(
        "J.f1d",
        "J-F1",
        "At a mean of 500 KB the short flows have less beside a high-speed flow than alone",
        "lower (figure)",
        Kind::Order,
        |r| {
            let alone = r
                .experiment("J-F1")
                .without_flows()
                .at("mean", 500.0)
                .median(short_throughput);
            each("J-F1", HIGH_SPEED, |p| {
                let with = r
                    .experiment("J-F1")
                    .protocol(p)
                    .at("mean", 500.0)
                    .median(short_throughput)?;
                let share = with / alone?;
                Some((percent(share), order(1.0 / share)))
            })
        },
    ),
    state(
        "J.f2",
        "J-F2",
        "Seen over time: the high-speed TCP flow has less while the short flows run (the sheet \
         states no result for this figure; this is the sentence of J.f1a over time)",
        "lower while they run (figure)",
        Kind::Trend,
        |r| {
            each("J-F2", HIGH_SPEED, |p| {
                let cells = r.experiment("J-F2").protocol(p);
                let cell = cells.iter().min_by_key(|cell| cell.seed)?;
                let curve = Curve::of(flow_of(cell, p)?)?;
                let before = curve.mean(SHORTS_S.0 - 20.0, SHORTS_S.0)?;
                let during = curve.mean(SHORTS_S.0, SHORTS_S.1)?;
                let figures = format!("{} -> {}", mbit(before), mbit(during));
                Some((figures, Mark::at_most(during / before, DIP, 1.0 - SAME)))
            })
        },
    ),
    state(
        "J.f3a",
        "J-F3",
        "With 512 packets of buffer the high-speed flow has more than with 127",
        "improves (figure)",
        Kind::Order,
        |r| {
            each("J-F3", HIGH_SPEED, |p| {
                let (small, large) = buffers(&r.experiment("J-F3").protocol(p), first_goodput)?;
                let mark = order(large / small);
                Some((format!("{} -> {}", mbit(small), mbit(large)), mark))
            })
        },
    ),
    state(
        "J.f3b",
        "J-F3",
        "With 512 packets of buffer the short flows have more than with 127",
        "improves (figure)",
        Kind::Order,
        |r| {
            each("J-F3", HIGH_SPEED, |p| {
                let cells = r.experiment("J-F3").protocol(p);
                let small = cells.at("buffer", 127.0).median(short_throughput)?;
                let large = cells.at("buffer", 512.0).median(short_throughput)?;
                let mark = order(large / small);
                Some((format!("{:.2} -> {:.2}", small / 1e6, large / 1e6), mark))
            })
        },
    ),
    state(
        "J.f4",
        "J-F4",
        "A smaller socket buffer of the high-speed flow spares the short flows (quoted from the \
         authors' earlier work)",
        "spares (quoted)",
        Kind::Order,
        |r| each("J-F4", HIGH_SPEED, |p| spares_shorts(r, p)),
    ),
    state(
        "J.z",
        "J-F1",
        "High-speed flows beside web or video traffic: both sides suffer, even at a low load",
        "both suffer",
        Kind::Trend,
        both_suffer,
    ),
];

/// A figure at each of the three sizes.
fn at_sizes(
    cells: &Cells<'_>,
    value: impl Fn(&crate::result::CellResult) -> Option<f64> + Copy,
) -> Option<[f64; 3]> {
    let [a, b, c] = SIZES_KB.map(|size| cells.with_shorts(true).at("mean", size).median(value));
    Some([a?, b?, c?])
}

fn three(f: &[f64; 3]) -> String {
    format!("{}/{}/{}", mbit(f[0]), mbit(f[1]), mbit(f[2]))
}

fn kbit_three(f: &[f64; 3]) -> String {
    format!("{:.2}/{:.2}/{:.2}", f[0] / 1e6, f[1] / 1e6, f[2] / 1e6)
}

/// What the flow has alone on the same path: that of J-A1.
fn alone(r: &Results<'_>, protocol: &str) -> Option<f64> {
    r.experiment("J-A1").protocol(protocol).good(first_goodput)
}

/// Share of its lone goodput that a flow loses beside short flows of this mean size.
fn lost_share(r: &Results<'_>, protocol: &str, size_kb: f64) -> Option<f64> {
    let with = r
        .experiment("J-F1")
        .protocol(protocol)
        .with_shorts(true)
        .at("mean", size_kb)
        .good(first_goodput)?;
    Some(1.0 - with / alone(r, protocol)?)
}

fn buffers(
    cells: &Cells<'_>,
    value: impl Fn(&crate::result::CellResult) -> Option<f64> + Copy,
) -> Option<(f64, f64)> {
    Some((
        cells.at("buffer", 127.0).good(value)?,
        cells.at("buffer", 512.0).good(value)?,
    ))
}

/// The short flows beside a flow with the usual window (J-F1, mean of 500 KB), and with the window
/// held to the path's product and to half of it: half is the smaller buffer that is judged.
fn spares_shorts(r: &Results<'_>, protocol: &str) -> Option<(String, Mark)> {
    let usual = r
        .experiment("J-F1")
        .protocol(protocol)
        .at("mean", 500.0)
        .median(short_throughput)?;
    let held = |bdp: f64| {
        let cells = r.experiment("J-F4").protocol(protocol);
        cells.at("window", bdp).median(short_throughput)
    };
    let (full, half) = (held(1.0)?, held(0.5)?);
    let mark = order(half / usual);
    Some((kbit_three(&[usual, full, half]), mark))
}

/// At the lowest loads of J-F1 and J-G1: does the flow lose, and does the other side?
fn both_suffer(r: &Results<'_>) -> Finding {
    let lone_shorts = r
        .experiment("J-F1")
        .without_flows()
        .at("mean", 100.0)
        .median(short_throughput);
    each("J-F1", HIGH_SPEED, |p| {
        let lost = lost_share(r, p, 100.0)?;
        let shorts = r
            .experiment("J-F1")
            .protocol(p)
            .at("mean", 100.0)
            .median(short_throughput)?
            / lone_shorts?;
        let (stream_side, flow_side) = super::cbr::low_load(r, p)?;
        let web = Mark::when(lost >= super::super::words::REDUCED && shorts <= 1.0 - SAME);
        let video = Mark::when(flow_side && stream_side);
        let mark = match (web, video) {
            (Mark::Yes, Mark::Yes) => Mark::Yes,
            (Mark::No, Mark::No) => Mark::No,
            _ => Mark::Partly,
        };
        let figures = format!("flow {}, shorts {}", percent_change(-lost), percent(shorts));
        Some((figures, mark))
    })
}
