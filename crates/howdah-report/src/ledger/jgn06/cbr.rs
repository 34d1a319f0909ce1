//! J-G: two constant-rate UDP streams of 200-byte packets and one flow.

use super::super::judge::{HIGH_SPEED, Mark, STANDARD, UDT, each, mbit, one, percent_change};
use super::super::results::{Cells, first_goodput, jitter_ms, stream_loss_share, stream_losses};
use super::super::series::Curve;
use super::super::words::{
    ABOVE, CEILING_BPS, FEW_LOSSES, JITTER_SEEN_MS, REDUCED, SAME, VISIBLE_FALL,
};
use super::super::{Finding, Kind, Results, Statement};
use super::state;

/// Streams first, then the flow.
const CASE1: &str = "J-G1";
/// The flow first, then the streams.
const CASE2: &str = "J-G2";
/// What starts second starts here, in seconds.
const SECOND_S: f64 = 30.0;
/// Rates of each of the two streams, as the scenario's axis `cbr` writes them, in Mbit/s.
const HIGH: f64 = 8.0;
const LOW: [f64; 2] = [1.6, 3.2];

pub(super) const STATEMENTS: &[Statement] = &[
    state(
        "J.g12a",
        CASE2,
        "Streams of 8 Mbit/s alone lose no packet",
        "0",
        Kind::Number,
        |r| one(CASE2, "streams alone", losses(&only_streams(r, CASE2))),
    ),
    state(
        "J.g12b",
        CASE2,
        "Streams of 8 Mbit/s beside standard TCP lose no packet",
        "0",
        Kind::Number,
        |r| {
            one(
                CASE2,
                STANDARD,
                losses(&beside(r, CASE2, STANDARD, HIGH, 127.0)),
            )
        },
    )
    .fitted()
    .tried("with host queues of 1000 and 2000 packets it holds, with 5000 and without an end it does not"),
    state(
        "J.g12c",
        CASE2,
        "Streams of 8 Mbit/s lose a few packets beside every high-speed TCP",
        "a few",
        Kind::Trend,
        |r| each(CASE2, HIGH_SPEED, |p| few_losses(r, p)),
    ),
    state(
        "J.g12u",
        CASE2,
        "Streams of 8 Mbit/s lose a few packets beside UDT",
        "a few",
        Kind::Trend,
        |r| each(CASE2, &[UDT], |p| few_losses(r, p)),
    ),
    state(
        "J.g13a",
        CASE1,
        "Streams first: their jitter beside a high-speed flow is above that of streams alone",
        "above (figure)",
        Kind::Order,
        |r| each(CASE1, HIGH_SPEED, |p| more_jitter(r, CASE1, p)),
    ),
    state(
        "J.g13b",
        CASE1,
        "Streams first: every high-speed TCP has less than without them",
        "reduced (figure)",
        Kind::Order,
        |r| each(CASE1, HIGH_SPEED, |p| reduced(r, CASE1, p, 127.0)),
    ),
    state(
        "J.g13u",
        CASE1,
        "Streams first: UDT is reduced least",
        "least (figure)",
        Kind::Order,
        |r| udt_least(r, CASE1),
    ),
    state(
        "J.g13c",
        CASE1,
        "Streams first: 512 packets of buffer soften the loss of throughput",
        "softens (figure)",
        Kind::Order,
        |r| each(CASE1, HIGH_SPEED, |p| softened(r, CASE1, p)),
    ),
    state(
        "J.g13d",
        CASE1,
        "Streams first: 512 packets of buffer raise the jitter in most cases",
        "raises in most cases (figure)",
        Kind::Order,
        |r| jitter_raised(r, CASE1),
    ),
    state(
        "J.g13r",
        CASE1,
        "Streams first: standard TCP is reduced, for its slow start has to compete",
        "reduced (figure)",
        Kind::Trend,
        |r| one(CASE1, STANDARD, reduced(r, CASE1, STANDARD, 127.0)),
    ),
    state(
        "J.g14a",
        CASE2,
        "Flow first: the streams' jitter beside a high-speed flow is above that of streams alone",
        "above (figure)",
        Kind::Order,
        |r| each(CASE2, HIGH_SPEED, |p| more_jitter(r, CASE2, p)),
    ),
    state(
        "J.g14b",
        CASE2,
        "Flow first: every high-speed TCP has less than without the streams",
        "reduced (figure)",
        Kind::Order,
        |r| each(CASE2, HIGH_SPEED, |p| reduced(r, CASE2, p, 127.0)),
    ),
    state(
        "J.g14u",
        CASE2,
        "Flow first: UDT is reduced least",
        "least (figure)",
        Kind::Order,
        |r| udt_least(r, CASE2),
    ),
    state(
        "J.g14c",
        CASE2,
        "Flow first: 512 packets of buffer soften the loss of throughput",
        "softens (figure)",
        Kind::Order,
        |r| each(CASE2, HIGH_SPEED, |p| softened(r, CASE2, p)),
    ),
    state(
        "J.g14d",
        CASE2,
        "Flow first: 512 packets of buffer raise the jitter in most cases",
        "raises in most cases (figure)",
        Kind::Order,
        |r| jitter_raised(r, CASE2),
    ),
    state(
        "J.g14r",
        CASE2,
        "Flow first: standard TCP is not reduced",
        "not reduced (figure)",
        Kind::Trend,
        |r| {
            let case = lost_share(r, CASE2, STANDARD, HIGH, 127.0)
                .map(|(lost, figures)| (figures, Mark::at_most(lost, REDUCED, 2.0 * REDUCED)));
            one(CASE2, STANDARD, case)
        },
    )
    .fitted()
    .tried("as J.g12b"),
    state(
        "J.g15a",
        CASE1,
        "Traces of HSTCP and CUBIC, streams first: the climb at the start is cut short",
        "cut (figure)",
        Kind::Trend,
        |r| each(CASE1, &["hstcp", "cubic2005"], |p| climb_cut(r, p)),
    ),
    state(
        "J.g15b",
        CASE2,
        "Traces of HSTCP and CUBIC, flow first: losses recur near the maximum",
        "recur (figure)",
        Kind::Trend,
        |r| each(CASE2, &["hstcp", "cubic2005"], |p| losses_recur(r, p)),
    ),
    state(
        "J.g16",
        CASE1,
        "Streams of 3.2 or 6.4 Mbit/s in all can hurt as well, with 127 packets of buffer",
        "can hurt",
        Kind::Trend,
        low_rates_hurt,
    ),
];

/// Cells of one protocol beside streams of `mbit` each.
fn beside<'a>(r: &Results<'a>, case: &str, protocol: &str, mbit: f64, buffer: f64) -> Cells<'a> {
    r.experiment(case)
        .protocol(protocol)
        .with_streams(true)
        .at("cbr", mbit)
        .at("buffer", buffer)
}

/// Cells with streams of 8 Mbit/s and no flow; either case's will do, for they are the same run.
fn only_streams<'a>(r: &Results<'a>, case: &str) -> Cells<'a> {
    let own = r.experiment(case).without_flows().at("cbr", HIGH);
    if !own.is_empty() {
        return own;
    }
    let other = if case == CASE1 { CASE2 } else { CASE1 };
    r.experiment(other).without_flows().at("cbr", HIGH)
}

/// What the flow has without streams, started at the same time.
fn without_streams(r: &Results<'_>, case: &str, protocol: &str, buffer: f64) -> Option<f64> {
    r.experiment(case)
        .protocol(protocol)
        .with_streams(false)
        .at("buffer", buffer)
        .good(first_goodput)
}

/// Share that the flow loses to the streams, and both figures.
fn lost_share(
    r: &Results<'_>,
    case: &str,
    protocol: &str,
    mbit_each: f64,
    buffer: f64,
) -> Option<(f64, String)> {
    let with = beside(r, case, protocol, mbit_each, buffer).good(first_goodput)?;
    let without = without_streams(r, case, protocol, buffer)?;
    Some((
        1.0 - with / without,
        format!("{} -> {}", mbit(without), mbit(with)),
    ))
}

fn losses(cells: &Cells<'_>) -> Option<(String, Mark)> {
    let lost = cells.median(stream_losses)?;
    Some((format!("{lost:.0}"), Mark::at_most(lost, 0.0, 0.0)))
}

fn few_losses(r: &Results<'_>, protocol: &str) -> Option<(String, Mark)> {
    let cells = beside(r, CASE2, protocol, HIGH, 127.0);
    let (lost, share) = (
        cells.median(stream_losses)?,
        cells.median(stream_loss_share)?,
    );
    let mark = if lost < 1.0 {
        Mark::No
    } else {
        Mark::at_most(share, FEW_LOSSES, 2.0 * FEW_LOSSES)
    };
    Some((format!("{lost:.0} ({:.3} %)", share * 100.0), mark))
}

fn more_jitter(r: &Results<'_>, case: &str, protocol: &str) -> Option<(String, Mark)> {
    let alone = only_streams(r, case).median(jitter_ms)?;
    let small = beside(r, case, protocol, HIGH, 127.0).median(jitter_ms)?;
    let large = beside(r, case, protocol, HIGH, 512.0).median(jitter_ms)?;
    let above = |ms: f64| {
        if ms > alone * ABOVE && ms >= alone + JITTER_SEEN_MS {
            Mark::Yes
        } else {
            Mark::when(ms > alone * ABOVE).and(Mark::Partly)
        }
    };
    let mark = above(small).and(above(large));
    Some((format!("{alone:.3} -> {small:.3}/{large:.3} ms"), mark))
}

fn reduced(r: &Results<'_>, case: &str, protocol: &str, buffer: f64) -> Option<(String, Mark)> {
    let (lost, figures) = lost_share(r, case, protocol, HIGH, buffer)?;
    Some((figures, Mark::at_least(lost, REDUCED, SAME)))
}

fn udt_least(r: &Results<'_>, case: &str) -> Finding {
    let found = || {
        let (udt, _) = lost_share(r, case, UDT, HIGH, 127.0)?;
        let mut least = f64::MAX;
        for p in HIGH_SPEED {
            least = least.min(lost_share(r, case, p, HIGH, 127.0)?.0);
        }
        let figures = format!(
            "{}, TCPs at least {}",
            percent_change(-udt),
            percent_change(-least)
        );
        Some((figures, Mark::when(udt < least)))
    };
    one(case, UDT, found())
}

fn softened(r: &Results<'_>, case: &str, protocol: &str) -> Option<(String, Mark)> {
    let (small, _) = lost_share(r, case, protocol, HIGH, 127.0)?;
    let (large, _) = lost_share(r, case, protocol, HIGH, 512.0)?;
    let mark = if large < small - SAME {
        Mark::Yes
    } else {
        Mark::when(large <= small).and(Mark::Partly)
    };
    Some((
        format!("{} -> {}", percent_change(-small), percent_change(-large)),
        mark,
    ))
}

/// "In most cases": over protocols and rates, more than half.
fn jitter_raised(r: &Results<'_>, case: &str) -> Finding {
    let (mut raised, mut all) = (0_usize, 0_usize);
    for p in HIGH_SPEED {
        for rate in [LOW[0], LOW[1], HIGH] {
            let small = beside(r, case, p, rate, 127.0).median(jitter_ms);
            let large = beside(r, case, p, rate, 512.0).median(jitter_ms);
            if let (Some(small), Some(large)) = (small, large) {
                all += 1;
                raised += usize::from(large >= small + JITTER_SEEN_MS);
            }
        }
    }
    let cases = LOW.len() * HIGH_SPEED.len() + HIGH_SPEED.len();
    let mut finding = one(
        case,
        "three pairs of buffers",
        (all >= 3).then(|| {
            let share = raised as f64 / all as f64;
            (
                format!("{raised} of {all} cases"),
                Mark::at_least(share, 0.501, 0.4),
            )
        }),
    );
    if all < cases {
        finding
            .missing
            .push(format!("{} of {cases} pairs of buffers", cases - all));
    }
    finding
}

fn first_curve(cells: &Cells<'_>) -> Option<(Curve, f64)> {
    let cell = cells.iter().min_by_key(|cell| cell.seed)?;
    let flow = cell.flows.first()?;
    Some((Curve::of(flow)?, flow.start_s))
}

/// The first twenty seconds of the flow, with and without streams.
fn climb_cut(r: &Results<'_>, protocol: &str) -> Option<(String, Mark)> {
    let climb = |cells: Cells<'_>| {
        let (curve, start) = first_curve(&cells)?;
        curve.mean(start, start + 20.0)
    };
    let with = climb(beside(r, CASE1, protocol, HIGH, 127.0))?;
    let without = climb(
        r.experiment(CASE1)
            .protocol(protocol)
            .with_streams(false)
            .at("buffer", 127.0),
    )?;
    let mark = Mark::at_most(with / without, VISIBLE_FALL, 1.0 - REDUCED);
    Some((
        format!("first 20 s: {} -> {}", mbit(without), mbit(with)),
        mark,
    ))
}

/// Times, after the streams' start, at which the flow was near the ceiling and then had to repair.
fn losses_recur(r: &Results<'_>, protocol: &str) -> Option<(String, Mark)> {
    let (curve, _) = first_curve(&beside(r, CASE2, protocol, HIGH, 127.0))?;
    let times = curve.losses_above(VISIBLE_FALL * CEILING_BPS, SECOND_S);
    let mark = match times {
        0 => Mark::No,
        1 => Mark::Partly,
        _ => Mark::Yes,
    };
    Some((format!("{times} times"), mark))
}

fn low_rates_hurt(r: &Results<'_>) -> Finding {
    let mut hurt = [false; 2];
    let mut lacking = 0_usize;
    let mut figures = Vec::new();
    for (i, rate) in LOW.into_iter().enumerate() {
        for case in [CASE1, CASE2] {
            for p in HIGH_SPEED {
                if let Some((lost, shown)) = lost_share(r, case, p, rate, 127.0) {
                    hurt[i] |= lost >= REDUCED;
                    figures.push((lost, format!("{p} {shown} at 2 x {rate} ({case})")));
                } else {
                    lacking += 1;
                }
            }
        }
    }
    figures.sort_by(|a, b| b.0.total_cmp(&a.0));
    let found = figures.first().map(|(_, worst)| {
        let mark = match hurt {
            [true, true] => Mark::Yes,
            [false, false] => Mark::No,
            _ => Mark::Partly,
        };
        (format!("worst: {worst}"), mark)
    });
    let mut finding = one(CASE1, "streams of 1.6 and 3.2 Mbit/s", found);
    if lacking > 0 {
        finding
            .missing
            .push(format!("{lacking} flows beside streams"));
    }
    finding
}

/// At the lowest rate: do the streams suffer (losses or jitter), does the flow?
pub(super) fn low_load(r: &Results<'_>, protocol: &str) -> Option<(bool, bool)> {
    let cells = beside(r, CASE1, protocol, LOW[0], 127.0);
    let alone = r
        .experiment(CASE1)
        .without_flows()
        .at("cbr", LOW[0])
        .median(jitter_ms)?;
    let streams = cells.median(stream_losses)? > 0.0 || cells.median(jitter_ms)? > alone * ABOVE;
    let (lost, _) = lost_share(r, CASE1, protocol, LOW[0], 127.0)?;
    Some((streams, lost >= REDUCED))
}
