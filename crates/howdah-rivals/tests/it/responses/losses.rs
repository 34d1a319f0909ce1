//! Response functions: the mean window under a loss ratio.

use crate::responses::formulas;
use crate::responses::support::{Losses, Run, Stack, window_under_loss};
use howdah_core::{Rate, Span};
use howdah_path::{LossModel, PathConfig};
use howdah_rivals::tcp::cc::{self, Entry};

const RTT: Span = Span::from_millis(100);

fn entry(name: &str) -> Entry {
    *cc::find(name).expect("a registered algorithm")
}

/// Measured against `formula` under periodic losses, which is what the formulas assume.
fn ratio(stack: &Stack, p: f64, formula: f64, events: u32) -> f64 {
    window_under_loss(stack, (Losses::Periodic, p), RTT, formula, events) / formula
}

fn assert_within(name: &str, p: f64, ratio: f64, range: std::ops::Range<f64>) {
    println!("{name}, p {p}: {ratio:.3} of the formula");
    assert!(
        range.contains(&ratio),
        "{name}, p {p}: {ratio:.3} of the formula, not in {range:?}"
    );
}

/// sqrt(3/(2 p)). The window stands still while a loss is repaired, a round trip of the 20 or 200
/// between losses.
#[test]
fn reno() {
    for p in [1e-3, 1e-4] {
        let ratio = ratio(&Stack::linux24(entry("reno")), p, formulas::reno(p), 100);
        assert_within("reno", p, ratio, 0.93..1.03);
    }
}

/// 0.12/p^0.835, more where the table's whole segments matter: it has a(w) = 2 where the formula has
/// 1.0 to 2.0 (p = 1e-3), 4 for 3.2 (1e-4), 12 for 11 (1e-5).
#[test]
fn hstcp() {
    for (p, events, range) in [
        (1e-3, 100, 1.0..1.5),
        (1e-4, 60, 1.0..1.18),
        (1e-5, 16, 0.95..1.1),
    ] {
        let ratio = ratio(
            &Stack::linux24(entry("hstcp")),
            p,
            formulas::hstcp(p),
            events,
        );
        assert_within("hstcp", p, ratio, range);
    }
}

/// 0.08/p for a window that never stands still; with the round trip of each repair the top is
/// a/((a+b) p), and its mean 0.936 of that: 0.867.
#[test]
fn scalable() {
    for (p, events) in [(1e-3, 200), (1e-4, 80)] {
        let stack = Stack::linux24(entry("scalable"));
        let ratio = ratio(&stack, p, formulas::scalable(p), events);
        assert_within("scalable", p, ratio, 0.84..0.89);
    }
}

/// RFC 9438 section 5.1, which knows no fast convergence: near the flat part of the curve periodic
/// losses set it off now and then.
#[test]
fn cubic() {
    for (name, beta, stack) in [
        ("cubic", 0.7, Stack::modern(entry("cubic")).acking_every(1)),
        ("cubic2005", 0.8, Stack::linux24(entry("cubic2005"))),
    ] {
        for p in [1e-3, 1e-4] {
            let formula = formulas::cubic(p, beta, RTT.as_secs_f64());
            assert_within(name, p, ratio(&stack, p, formula, 80), 0.88..1.06);
        }
    }
}

/// Its growth, integrated. There is no queue, so beta is at its upper end.
#[test]
fn htcp() {
    for p in [1e-3, 1e-4] {
        let formula = formulas::htcp(p, 0.8, RTT.as_secs_f64());
        let ratio = ratio(&Stack::linux24(entry("htcp")), p, formula, 80);
        assert_within("htcp", p, ratio, 0.96..1.04);
    }
}

/// One packet is lost at a window of some thousand segments; how many round trips until it is back.
/// Kelly 2003: 13.4 with an acknowledgement for every segment, 26.8 for every second one, whatever
/// the window; one more is the repair.
#[test]
fn scalable_recovers_in_13_round_trips_at_any_rate() {
    for (window, segments_per_ack, expected) in
        [(1000.0, 1, 13.4), (4000.0, 1, 13.4), (1000.0, 2, 26.8)]
    {
        let stack = Stack::linux24(entry("scalable"))
            .acking_every(segments_per_ack)
            .starting_at(window);
        // The window creeps up from its threshold; the loss comes some round trips later.
        let lost = (6.0 * window) as u64;
        let path = PathConfig {
            rate: Some(Rate::from_gbit_per_sec(100)),
            loss: LossModel::List(vec![lost]),
            delay: RTT / 2,
            ..PathConfig::default()
        };
        let mut run = Run::new(&stack, 1, &[path], RTT);
        let step = RTT.as_secs_f64() / 50.0;
        let mut now = 0.0;
        let mut advance = |run: &mut Run| {
            now += step;
            run.run_until(now);
            assert!(now < 120.0, "it takes two minutes");
            (now, run.cwnd_segments(&stack))
        };
        let (mut lost_at, mut before) = (0.0, 0.0);
        loop {
            let (at, cwnd) = advance(&mut run);
            if cwnd > before {
                (lost_at, before) = (at, cwnd);
            } else if cwnd < 0.95 * before && before > window {
                break;
            }
        }
        let back_at = loop {
            let (at, cwnd) = advance(&mut run);
            if cwnd >= before {
                break at;
            }
        };
        let rounds = (back_at - lost_at) / RTT.as_secs_f64();
        println!("from {before:.0} segments, {segments_per_ack} an ACK: {rounds:.1} round trips");
        assert!(
            (rounds - 1.0 - expected).abs() < 0.7,
            "{window} segments, {segments_per_ack} an ACK: {rounds:.1} round trips"
        );
    }
}
