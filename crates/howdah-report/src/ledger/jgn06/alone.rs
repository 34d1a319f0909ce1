//! J-A1, J-A2 and J-B: one flow alone.

use super::super::judge::{
    HIGH_SPEED, Mark, STANDARD, UDT, each, from, mbit, number, one, order, percent,
};
use super::super::results::{Cells, first_goodput};
use super::super::series::Curve;
use super::super::words::{
    CEILING_BPS, CLEARLY, GREATLY, INSENSITIVE, REACH_WINDOW_S, REACHED, UNSTABLE,
};
use super::super::{Finding, Kind, Results, Statement};
use super::state;
use crate::result::CellResult;

pub(super) const STATEMENTS: &[Statement] = &[
    state(
        "J.a1",
        "J-A1",
        "Alone on an emulated path of 180 ms every high-speed TCP reaches about 1 Gbit/s",
        "about 1 Gbit/s",
        Kind::Bound,
        |r| {
            each("J-A1", HIGH_SPEED, |p| {
                reaches(&r.experiment("J-A1").protocol(p))
            })
        },
    ),
    state(
        "J.a1u",
        "J-A1",
        "Alone on an emulated path of 180 ms UDT reaches about 1 Gbit/s",
        "about 1 Gbit/s",
        Kind::Bound,
        |r| {
            each("J-A1", &[UDT], |p| {
                reaches(&r.experiment("J-A1").protocol(p))
            })
        },
    ),
    state(
        "J.a1d",
        "J-A1",
        "The high-speed protocols differ in how they climb and how they recover",
        "different shapes (figure)",
        Kind::Trend,
        shapes_differ,
    ),
    state(
        "J.a2",
        "J-A2",
        "On the real line to the USA the curves are slightly less stable than on the emulator",
        "slightly unstable (figure)",
        Kind::Trend,
        less_stable,
    )
    .fitted(),
    state(
        "J.a2f",
        "J-A2",
        "FAST is greatly better with 512 packets of buffer than with 127",
        "greatly better (figure)",
        Kind::Order,
        |r| {
            one(
                "J-A2",
                "fast",
                two_buffers(r, "fast").map(|(small, large)| {
                    let mark = Mark::at_least(large / small, GREATLY, CLEARLY);
                    (format!("127: {}, 512: {}", mbit(small), mbit(large)), mark)
                }),
            )
        },
    )
    .fitted(),
    state(
        "J.a2l",
        "J-A2",
        "FAST loses packets with 127 packets of buffer",
        "losses",
        Kind::Trend,
        |r| {
            one(
                "J-A2",
                "fast",
                repairs(r, 127.0).map(|n| (repaired(n), Mark::when(n > 0.0))),
            )
        },
    )
    .fitted(),
    state(
        "J.a2n",
        "J-A2",
        "FAST loses no packets with 512 packets of buffer",
        "no losses",
        Kind::Trend,
        |r| {
            // Noise losses of the line are not FAST's own: one event is let pass as "partly".
            one(
                "J-A2",
                "fast",
                repairs(r, 512.0).map(|n| (repaired(n), Mark::at_most(n, 0.0, 1.0))),
            )
        },
    ),
    state(
        "J.a2s",
        "J-A2",
        "Mean of Scalable TCP with 127 packets of buffer",
        "450 Mbit/s",
        Kind::Number,
        |r| scalable_mean(r, 127.0, 450e6),
    )
    .tried("host queues without and with an end: no timeout in either"),
    state(
        "J.a2t",
        "J-A2",
        "Mean of Scalable TCP with 512 packets of buffer",
        "300 Mbit/s",
        Kind::Number,
        |r| scalable_mean(r, 512.0, 300e6),
    )
    .tried("as J.a2s"),
    state(
        "J.a2v",
        "J-A2",
        "Scalable TCP has less with 512 packets of buffer than with 127",
        "300 < 450 Mbit/s",
        Kind::Order,
        |r| {
            one(
                "J-A2",
                "scalable",
                two_buffers(r, "scalable").map(|(small, large)| {
                    let mark = order(small / large);
                    (format!("127: {}, 512: {}", mbit(small), mbit(large)), mark)
                }),
            )
        },
    )
    .tried("as J.a2s"),
    state(
        "J.a2o",
        "J-A2",
        "Of the TCPs only FAST and Scalable react to the size of the buffer",
        "only these two (figure)",
        Kind::Trend,
        |r| each("J-A2", HIGH_SPEED, |p| reacts_to_the_buffer(r, p)),
    ),
    state(
        "J.k",
        "J-K",
        "UDP passes at 940 Mbit/s without loss, and not at what a port gives",
        "940 Mbit/s",
        Kind::Number,
        calibration,
    )
    .implied("it follows from the bytes around a packet, which the scenario sets"),
    state(
        "J.b1",
        "J-B",
        "Every high-speed TCP reaches about 1 Gbit/s whatever the receiver's system is",
        "about 1 Gbit/s",
        Kind::Bound,
        |r| each("J-B", HIGH_SPEED, |p| reaches_with_all(r, p)),
    ),
    state(
        "J.b1u",
        "J-B",
        "UDT reaches about 1 Gbit/s whatever the receiver's system is",
        "about 1 Gbit/s",
        Kind::Bound,
        |r| each("J-B", &[UDT], |p| reaches_with_all(r, p)),
    ),
    state(
        "J.b1r",
        "J-B",
        "Standard TCP does not reach 1 Gbit/s with a Linux or FreeBSD receiver",
        "below 1 Gbit/s (figure)",
        Kind::Bound,
        standard_stays_below,
    ),
    state(
        "J.b2",
        "J-B",
        "With a Windows XP receiver the rate climbs more slowly",
        "slower (figure)",
        Kind::Order,
        |r| each("J-B", HIGH_SPEED, |p| slower_with_xp(r, p)),
    )
    .fitted(),
    state(
        "J.b2u",
        "J-B",
        "With a Windows XP receiver UDT's rate climbs more slowly",
        "slower (figure)",
        Kind::Order,
        |r| each("J-B", &[UDT], |p| slower_with_xp(r, p)),
    )
    .fitted(),
    state(
        "J.b3",
        "J-B",
        "Standard TCP has more with a Windows XP receiver than with Linux or FreeBSD",
        "higher (figure)",
        Kind::Order,
        standard_with_xp,
    )
    .tried("an XP window that just fits the path (winxp_fits)")
    .fitted(),
];

/// Receivers of J-B as the scenario writes them.
const RECEIVERS: [&str; 3] = ["linux24", "freebsd53", "winxp_sp2"];
/// The hypothesis about XP: a window that fits the path. Shown beside, never judged.
const XP_THAT_FITS: &str = "winxp_fits";

/// Best mean over ten seconds, or over everything where there is no series.
fn best(cell: &CellResult) -> Option<f64> {
    let flow = cell.flows.first()?;
    Curve::of(flow)
        .and_then(|curve| curve.best_mean(REACH_WINDOW_S))
        .or(Some(flow.goodput_bps))
}

fn reaches(cells: &Cells<'_>) -> Option<(String, Mark)> {
    let bps = cells.good(best)?;
    let mark = from(bps / CEILING_BPS, REACHED);
    Some((mbit(bps), mark))
}

/// Seconds from the flow's start to the first one-second sample at 90 % of the ceiling; the length
/// of the run if there is none.
fn climb_s(cell: &CellResult) -> Option<f64> {
    let flow = cell.flows.first()?;
    let curve = Curve::of(flow)?;
    Some(
        curve
            .time_to(REACHED * CEILING_BPS, flow.start_s)
            .unwrap_or_else(|| curve.end_s() - flow.start_s),
    )
}

/// Share of the seconds after the climb that are below 90 % of the ceiling.
fn share_below(cell: &CellResult) -> Option<f64> {
    let flow = cell.flows.first()?;
    let climbed = flow.start_s + climb_s(cell)?;
    let share = Curve::of(flow)?.share_below(REACHED * CEILING_BPS, climbed);
    // One that never climbs is below all the time.
    Some(share.unwrap_or(1.0))
}

fn shapes_differ(r: &Results<'_>) -> Finding {
    let mut figures = Vec::new();
    let (mut climbs, mut shares) = (Vec::new(), Vec::new());
    for p in HIGH_SPEED {
        let cells = r.experiment("J-A1").protocol(p);
        if let (Some(climb), Some(share)) = (cells.median(climb_s), cells.median(share_below)) {
            figures.push(format!("{p} {climb:.0} s, then {} below", percent(share)));
            climbs.push(climb);
            shares.push(share);
        }
    }
    let case = (climbs.len() == HIGH_SPEED.len()).then(|| {
        let (fast, slow) = extremes(&climbs);
        let (least, most) = extremes(&shares);
        let (by_climb, by_share) = (slow / fast >= 1.5, most - least >= 0.1);
        let mark = match (by_climb, by_share) {
            (true, true) => Mark::Yes,
            (false, false) => Mark::No,
            _ => Mark::Partly,
        };
        (format!("to 90 %: {}", figures.join(", ")), mark)
    });
    one("J-A1", "every high-speed TCP with its series", case)
}

fn extremes(values: &[f64]) -> (f64, f64) {
    values.iter().fold((f64::MAX, f64::MIN), |(low, high), &v| {
        (low.min(v), high.max(v))
    })
}

/// Standard deviation over mean of the seconds after the climb.
fn unsteadiness(cell: &CellResult) -> Option<f64> {
    let flow = cell.flows.first()?;
    let curve = Curve::of(flow)?;
    curve.variation(
        flow.start_s + climb_s(cell)?.min(0.5 * curve.end_s()),
        curve.end_s(),
    )
}

fn less_stable(r: &Results<'_>) -> Finding {
    each("J-A2", HIGH_SPEED, |p| {
        let line = r.experiment("J-A2").protocol(p).at("buffer", 127.0);
        let (real, emulated) = (
            line.median(unsteadiness)?,
            r.experiment("J-A1").protocol(p).median(unsteadiness)?,
        );
        // "Slightly": more than on the emulator, and not a different regime.
        let mark = if real <= emulated {
            Mark::No
        } else {
            Mark::at_most(real - emulated, UNSTABLE, 2.0 * UNSTABLE)
        };
        Some((format!("{emulated:.2} -> {real:.2}"), mark))
    })
}

/// FAST and Scalable differ by more than the others may.
fn reacts_to_the_buffer(r: &Results<'_>, protocol: &str) -> Option<(String, Mark)> {
    let (small, large) = two_buffers(r, protocol)?;
    let change = (large / small - 1.0).abs();
    let mark = if ["fast", "scalable"].contains(&protocol) {
        Mark::at_least(change, INSENSITIVE, 0.5 * INSENSITIVE)
    } else {
        Mark::at_most(change, INSENSITIVE, 2.0 * INSENSITIVE)
    };
    Some((format!("{} -> {}", mbit(small), mbit(large)), mark))
}

/// What UDP passes at each of the two rates that are offered.
fn calibration(r: &Results<'_>) -> Finding {
    let lost = |offered: &str| {
        let cells = r.experiment("J-K").named("offered", offered);
        cells.median(super::super::results::stream_loss_share)
    };
    let case = lost("940").zip(lost("all")).map(|(least, most)| {
        let figures = format!(
            "{:.3} % lost at 940, {:.3} % at 957 Mbit/s",
            least * 100.0,
            most * 100.0
        );
        (figures, Mark::when(least <= 0.0 && most > 0.0))
    });
    one("J-K", "both rates", case)
}

/// Mean goodputs with 127 and with 512 packets of buffer.
fn two_buffers(r: &Results<'_>, protocol: &str) -> Option<(f64, f64)> {
    let cells = r.experiment("J-A2").protocol(protocol);
    Some((
        cells.at("buffer", 127.0).good(first_goodput)?,
        cells.at("buffer", 512.0).good(first_goodput)?,
    ))
}

/// Reductions of FAST for loss, median over the seeds.
fn repairs(r: &Results<'_>, buffer: f64) -> Option<f64> {
    r.experiment("J-A2")
        .protocol("fast")
        .at("buffer", buffer)
        .median(|cell| {
            let flow = cell.flows.first()?;
            Some((flow.congestion_events? + flow.timeouts?) as f64)
        })
}

fn repaired(events: f64) -> String {
    format!("{events:.0} reductions for loss")
}

fn scalable_mean(r: &Results<'_>, buffer: f64, stated: f64) -> Finding {
    let ours = r
        .experiment("J-A2")
        .protocol("scalable")
        .at("buffer", buffer)
        .good(first_goodput);
    one(
        "J-A2",
        "scalable",
        ours.map(|bps| (mbit(bps), number(bps, stated))),
    )
}

fn with_receiver<'a>(r: &Results<'a>, protocol: &str, receiver: &str) -> Cells<'a> {
    r.experiment("J-B")
        .protocol(protocol)
        .named("receiver", receiver)
}

fn reaches_with_all(r: &Results<'_>, protocol: &str) -> Option<(String, Mark)> {
    let mut figures = Vec::new();
    let mut all = Mark::Yes;
    for receiver in RECEIVERS {
        let (ours, mark) = reaches(&with_receiver(r, protocol, receiver))?;
        figures.push(ours);
        all = all.and(mark);
    }
    Some((figures.join("/"), all))
}

fn standard_stays_below(r: &Results<'_>) -> Finding {
    let case = || {
        let linux = with_receiver(r, STANDARD, RECEIVERS[0]).good(best)?;
        let freebsd = with_receiver(r, STANDARD, RECEIVERS[1]).good(best)?;
        let most = linux.max(freebsd) / CEILING_BPS;
        Some((
            format!("linux {}, freebsd {}", mbit(linux), mbit(freebsd)),
            Mark::when(most < REACHED),
        ))
    };
    one("J-B", STANDARD, case())
}

fn slower_with_xp(r: &Results<'_>, protocol: &str) -> Option<(String, Mark)> {
    let [linux, freebsd, xp] =
        RECEIVERS.map(|receiver| with_receiver(r, protocol, receiver).median(climb_s));
    let (linux, freebsd, xp) = (linux?, freebsd?, xp?);
    let mark = order(xp / linux.max(freebsd));
    Some((format!("{linux:.0}/{freebsd:.0}/{xp:.0} s"), mark))
}

fn standard_with_xp(r: &Results<'_>) -> Finding {
    let case = || {
        let [linux, freebsd, xp] =
            RECEIVERS.map(|receiver| with_receiver(r, STANDARD, receiver).good(first_goodput));
        let (linux, freebsd, xp) = (linux?, freebsd?, xp?);
        let mark = order(xp / linux.max(freebsd));
        let figures = format!(
            "{}/{}/{} (Linux/FreeBSD/XP)",
            mbit(linux),
            mbit(freebsd),
            mbit(xp)
        );
        Some((figures, mark))
    };
    let mut finding = one("J-B", STANDARD, case());
    if let Some(bps) = with_receiver(r, STANDARD, XP_THAT_FITS).good(first_goodput) {
        finding.note = format!(
            "with an XP window of 0.94 BDP, which fits the path: {}",
            mbit(bps)
        );
    }
    finding
}
