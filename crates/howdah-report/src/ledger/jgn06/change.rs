//! J-C1 and J-C2: the path changes under a running flow, at 30 s and back at 90 s.

use super::super::judge::{HIGH_SPEED, Mark, STANDARD, UDT, each, mbit, percent};
use super::super::results::Cells;
use super::super::series::Curve;
use super::super::words::{
    DIP, GRADUAL_S, INSENSITIVE, MOMENT_S, NEAR_HALF, QUICK_S, UNSTABLE, VERY_UNSTABLE,
    VISIBLE_FALL,
};
use super::super::{Finding, Kind, Results, Statement};
use super::state;

/// When the path changes, and when it changes back, in seconds.
const CHANGE_S: f64 = 30.0;
const BACK_S: f64 = 90.0;
/// The level before a change is the mean of so many seconds.
const LEVEL_S: f64 = 10.0;

pub(super) const STATEMENTS: &[Statement] = &[
    state(
        "J.c1a",
        "J-C1",
        "When the path becomes longer (38 to 80 ms) each TCP falls to near half",
        "near half (figure)",
        Kind::Trend,
        |r| tcps(r, "J-C1", falls_to_half),
    )
    .tried("FAST takes the longer path for a queue; nothing was changed for it"),
    state(
        "J.c1b",
        "J-C1",
        "... and then recovers gradually",
        "gradually (figure)",
        Kind::Trend,
        |r| tcps(r, "J-C1", recovers_gradually),
    ),
    state(
        "J.c1u",
        "J-C1",
        "UDT is insensitive to the longer path",
        "insensitive (figure)",
        Kind::Trend,
        |r| {
            each("J-C1", &[UDT], |p| {
                over(&r.experiment("J-C1").protocol(p), |curve| {
                    let before = curve.mean(CHANGE_S - LEVEL_S, CHANGE_S)?;
                    let share = curve.mean(CHANGE_S, BACK_S)? / before;
                    Some((
                        percent(share),
                        Mark::at_least(share, 1.0 - INSENSITIVE, VISIBLE_FALL),
                    ))
                })
            })
        },
    ),
    state(
        "J.c1c",
        "J-C1",
        "When the path becomes short again each TCP dips",
        "dip (figure)",
        Kind::Trend,
        |r| tcps(r, "J-C1", dips_on_return),
    )
    .tried("a host queue without and with an end; losing the router's queue at the switches; going on from what is in flight after a reduction is taken back"),
    state(
        "J.c1d",
        "J-C1",
        "... and recovers quickly",
        "quickly (figure)",
        Kind::Trend,
        |r| tcps(r, "J-C1", recovers_quickly),
    ),
    state(
        "J.c1v",
        "J-C1",
        "UDT, too, dips when the path becomes short again, and recovers quickly",
        "dip, quickly (figure)",
        Kind::Trend,
        |r| {
            each("J-C1", &[UDT], |p| {
                over(&r.experiment("J-C1").protocol(p), |curve| {
                    let (dip, dips) = dips_on_return(curve)?;
                    let (time, quick) = recovers_quickly(curve)?;
                    Some((format!("{dip}, {time}"), dips.and(quick)))
                })
            })
        },
    )
    .tried("version 1's rule for later loss reports: no dip; no limit of them: 89 %, back after 8 s"),
    state(
        "J.c2a",
        "J-C2",
        "At 250 Mbit/s, with the window for 1 Gbit/s, every TCP is very unstable",
        "very unstable (figure)",
        Kind::Trend,
        |r| tcps(r, "J-C2", unstable),
    )
    .tried("a window of 4.6 MB: no difference at 250 Mbit/s"),
    state(
        "J.c2b",
        "J-C2",
        "Back at 1 Gbit/s every TCP recovers",
        "recover (figure)",
        Kind::Trend,
        |r| tcps(r, "J-C2", recovers),
    ),
    state(
        "J.c2c",
        "J-C2",
        "No loss is seen at the moment of return to 1 Gbit/s",
        "no loss (figure)",
        Kind::Trend,
        |r| tcps(r, "J-C2", no_loss_after),
    )
    .tried("until 2026-11-26 this was read as no loss until the end of the run"),
    state(
        "J.c2u",
        "J-C2",
        "UDT is very unstable at 250 Mbit/s, too, and recovers without loss at 1 Gbit/s",
        "very unstable, recovers (figure)",
        Kind::Trend,
        |r| {
            each("J-C2", &[UDT], |p| {
                over(&r.experiment("J-C2").protocol(p), |curve| {
                    let (a, one) = unstable(curve)?;
                    let (b, two) = recovers(curve)?;
                    let (c, three) = no_loss_after(curve)?;
                    Some((format!("{a}, {b}, {c}"), one.and(two).and(three)))
                })
            })
        },
    )
    .tried("version 1's rule for later loss reports: the same; no limit of them: nothing moves any more"),
];

/// A statement about every TCP, standard TCP among them.
fn tcps(
    r: &Results<'_>,
    experiment: &str,
    case: impl Fn(&Curve) -> Option<(String, Mark)>,
) -> Finding {
    let names: Vec<&str> = HIGH_SPEED.iter().copied().chain([STANDARD]).collect();
    each(experiment, &names, |p| {
        over(&r.experiment(experiment).protocol(p), &case)
    })
}

/// The first seed's curve: a picture of one run, as the paper shows one.
fn over(
    cells: &Cells<'_>,
    case: impl Fn(&Curve) -> Option<(String, Mark)>,
) -> Option<(String, Mark)> {
    let first = cells.iter().min_by_key(|cell| cell.seed)?;
    case(&Curve::of(first.flows.first()?)?)
}

fn falls_to_half(curve: &Curve) -> Option<(String, Mark)> {
    let before = curve.mean(CHANGE_S - LEVEL_S, CHANGE_S)?;
    let share = curve.least(CHANGE_S, CHANGE_S + LEVEL_S)? / before;
    let mark = if (NEAR_HALF.0..=NEAR_HALF.1).contains(&share) {
        Mark::Yes
    } else {
        Mark::when(share <= VISIBLE_FALL).and(Mark::Partly)
    };
    Some((percent(share), mark))
}

fn recovers_gradually(curve: &Curve) -> Option<(String, Mark)> {
    let before = curve.mean(CHANGE_S - LEVEL_S, CHANGE_S)?;
    let time = time_back(curve, 0.9 * before, CHANGE_S)?.filter(|t| *t <= BACK_S - CHANGE_S);
    Some(if let Some(t) = time {
        (
            format!("{t:.0} s"),
            Mark::at_least(t, GRADUAL_S, GRADUAL_S - 1.0),
        )
    } else {
        let low = curve.least(CHANGE_S, CHANGE_S + LEVEL_S)?;
        let end = curve.mean(BACK_S - LEVEL_S, BACK_S)?;
        let mark = Mark::when(end >= 1.2 * low).and(Mark::Partly);
        let figures = format!("{} of the level after 60 s", percent(end / before));
        (figures, mark)
    })
}

/// Seconds from `from_s` until a sample reaches `level` again, after the lowest of the first ten
/// seconds; `Some(None)` if none does.
#[expect(
    clippy::option_option,
    reason = "no data, and no return, are different findings"
)]
fn time_back(curve: &Curve, level: f64, from_s: f64) -> Option<Option<f64>> {
    let low = curve.least(from_s, from_s + LEVEL_S)?;
    let lowest_s = (1..=LEVEL_S as usize)
        .map(|i| from_s + i as f64)
        .find(|t| curve.least(t - 1.0, *t).is_some_and(|bps| bps <= low))?;
    let after = curve.time_to(level, lowest_s - 1.0);
    Some(after.map(|t| t + lowest_s - 1.0 - from_s))
}

fn dips_on_return(curve: &Curve) -> Option<(String, Mark)> {
    let before = curve.mean(BACK_S - LEVEL_S, BACK_S)?;
    let share = curve.least(BACK_S, BACK_S + LEVEL_S)? / before;
    Some((percent(share), Mark::at_most(share, DIP, 0.95)))
}

fn recovers_quickly(curve: &Curve) -> Option<(String, Mark)> {
    let before = curve.mean(BACK_S - LEVEL_S, BACK_S)?;
    Some(match time_back(curve, 0.9 * before, BACK_S)? {
        Some(t) => (
            format!("{t:.0} s"),
            Mark::at_most(t, QUICK_S, 2.0 * QUICK_S),
        ),
        None => ("not before the end".to_owned(), Mark::No),
    })
}

fn unstable(curve: &Curve) -> Option<(String, Mark)> {
    let variation = curve.variation(CHANGE_S, BACK_S)?;
    Some((
        format!("{variation:.2}"),
        Mark::at_least(variation, VERY_UNSTABLE, UNSTABLE),
    ))
}

fn recovers(curve: &Curve) -> Option<(String, Mark)> {
    let before = curve.mean(CHANGE_S - LEVEL_S, CHANGE_S)?;
    Some(if let Some(t) = curve.time_to(0.9 * before, BACK_S) {
        (format!("{t:.0} s"), Mark::Yes)
    } else {
        let end = curve.mean(curve.end_s() - LEVEL_S, curve.end_s())?;
        let low = curve.mean(BACK_S - LEVEL_S, BACK_S)?;
        let figures = format!("{} of {} at the end", mbit(end), mbit(before));
        (figures, Mark::when(end > 1.2 * low).and(Mark::Partly))
    })
}

fn no_loss_after(curve: &Curve) -> Option<(String, Mark)> {
    let (from, to) = (BACK_S + MOMENT_S.0, BACK_S + MOMENT_S.1);
    let seconds = (curve.end_s() >= to).then(|| curve.repairing_seconds(from, to))?;
    let figures = format!("{seconds} s with repairs");
    Some((figures, Mark::at_most(seconds as f64, 0.0, 1.0)))
}
