//! Ids are complete and unique, and checks can give each verdict.

use super::judge::{HIGH_SPEED, Mark, verdict};
use super::*;
use crate::result::{CertificateNote, FlowResult, GroupResult, Interval, StreamResult};
use std::collections::BTreeSet;

/// Every id, written down once more by hand: a statement that vanishes from the code is noticed.
const IDS: &str = "\
P.u1 P.u2 P.u3 P.u4 P.u5 P.r1 P.r2 P.r3 P.r4 P.r5 P.r6 P.r7 P.r8 P.m1 P.m2 P.m3 P.m4 P.m5 P.m6 \
P.w1 P.w2 P.w3 P.w4 P.c1 P.c2 P.c3 P.c4 P.c5 P.c6 P.c7 P.m7 P.c8 P.c9 P.c10 P.c11 P.c12 P.q1 P.q2 \
A.0 A.v1 A.v2 A.v3 A.v4 A.v5 A.v6 A.t1 A.t2 A.t3 A.t4 A.t5 A.t6 A.t7 A.f1 A.f2 A.f3 A.f4 A.x1 A.x2 \
A.x3 A.x4 A.e1 A.e2 A.e3 A.e4 A.d1 A.c1 A.c2 A.c3 A.i1 A.i2 A.i3 A.s1 \
J.a1 J.a1u J.a1d J.a2 J.a2f J.a2l J.a2n J.a2s J.a2t J.a2v J.a2o J.k J.b1 J.b1u J.b1r J.b2 J.b2u J.b3 \
J.c1a J.c1b J.c1u J.c1c J.c1d J.c1v J.c2a J.c2b J.c2c J.c2u \
J.d1 J.d2 J.d3 J.d4 J.d5 J.e0a J.e0u J.e0b J.e1 J.e2a J.e2u J.e1p \
J.f1a J.f1b J.f1u J.f1v J.f1c J.f1d J.f2 J.f3a J.f3b J.f4 J.z \
J.g12a J.g12b J.g12c J.g12u J.g13a J.g13b J.g13u J.g13c J.g13d J.g13r J.g14a J.g14b J.g14u J.g14c \
J.g14d J.g14r J.g15a J.g15b J.g16 \
W.1 W.2 W.3 W.4 W.5 W.6 W.8 W.9 W.10 W.11 W.7";

fn ids() -> Vec<&'static str> {
    statements().iter().map(|s| s.id).collect()
}

#[test]
fn ids_are_complete() {
    assert_eq!(ids(), IDS.split(' ').collect::<Vec<_>>());
}

#[test]
fn ids_are_unique() {
    let ids = ids();
    let set: BTreeSet<&str> = ids.iter().copied().collect();
    assert_eq!(set.len(), ids.len());
}

#[test]
fn an_empty_campaign_judges_nothing_and_says_why() {
    let entries = entries(&[]);
    let own = entries.iter().filter(|entry| entry.standing != "set-up");
    assert_eq!(own.count(), ids().len());
    for entry in &entries {
        assert_eq!(entry.verdict, "cannot be judged", "{}", entry.id);
        assert!(!entry.note.is_empty(), "{} gives no reason", entry.id);
        if entry.paper == "JGN06" && entry.id != "J.f4" {
            assert!(
                entry.note.contains("scenarios/jgn06/"),
                "{} does not say what to run: {}",
                entry.id,
                entry.note
            );
        }
    }
}

#[test]
fn the_rule_over_several_protocols() {
    use Mark::{No, Partly, Yes};
    for kind in [Kind::Number, Kind::Order, Kind::Trend] {
        let verdict = |marks: &[Mark]| verdict(kind, marks);
        assert_eq!(verdict(&[Yes, Yes, Yes]), Verdict::Holds);
        assert_eq!(verdict(&[Yes, Yes, No]), Verdict::ShapeHolds);
        assert_eq!(verdict(&[Yes, Yes, Partly, No]), Verdict::ShapeHolds);
        // Half of them say yes, or it is no shape.
        assert_eq!(verdict(&[Yes, Partly, No]), Verdict::Fails);
        assert_eq!(verdict(&[Yes, No, No]), Verdict::Fails);
        assert_eq!(verdict(&[Partly, Partly, Partly]), Verdict::Fails);
        assert_eq!(verdict(&[Partly]), Verdict::ShapeHolds);
        assert_eq!(verdict(&[No]), Verdict::Fails);
    }
    // A bound that one part misses by much is missed.
    assert_eq!(verdict(Kind::Bound, &[Yes, Yes, Yes, No]), Verdict::Fails);
    assert_eq!(
        verdict(Kind::Bound, &[Yes, Partly, Partly]),
        Verdict::ShapeHolds
    );
    assert_eq!(verdict(Kind::Bound, &[Yes, Yes]), Verdict::Holds);
}

fn cell(experiment: &str, at: &[(&str, &str)], flows: Vec<FlowResult>) -> CellResult {
    CellResult {
        experiment: experiment.to_owned(),
        at: at
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect(),
        testbed: "sim".to_owned(),
        seed: 1,
        flows,
        ..CellResult::default()
    }
}

fn flow(protocol: &str, mbit: f64) -> FlowResult {
    curve(protocol, &[mbit; 20])
}

/// A flow with one sample a second.
fn curve(protocol: &str, mbit: &[f64]) -> FlowResult {
    FlowResult {
        name: protocol.to_owned(),
        protocol: protocol.to_owned(),
        goodput_bps: mbit.iter().sum::<f64>() / mbit.len() as f64 * 1e6,
        intervals: mbit
            .iter()
            .enumerate()
            .map(|(i, m)| Interval {
                t_s: i as f64 + 1.0,
                goodput_bps: m * 1e6,
                ..Interval::default()
            })
            .collect(),
        ..FlowResult::default()
    }
}

fn verdict_of(id: &str, cells: &[CellResult]) -> String {
    entries(cells)
        .into_iter()
        .find(|entry| entry.id == id)
        .map_or_else(String::new, |entry| entry.verdict)
}

fn each_alone(mbit: [f64; 5]) -> Vec<CellResult> {
    HIGH_SPEED
        .iter()
        .zip(mbit)
        .map(|(p, m)| cell("J-A1", &[("protocol", p)], vec![flow(p, m)]))
        .collect()
}

#[test]
fn one_gigabit_is_reached_or_not() {
    assert_eq!(verdict_of("J.a1", &each_alone([930.0; 5])), "holds");
    // A bound: missed by less than 15 %, and by more.
    let one_weak = [930.0, 930.0, 930.0, 930.0, 800.0];
    assert_eq!(verdict_of("J.a1", &each_alone(one_weak)), "shape holds");
    let one_lost = [930.0, 930.0, 930.0, 930.0, 500.0];
    assert_eq!(verdict_of("J.a1", &each_alone(one_lost)), "fails");
    assert_eq!(verdict_of("J.a1", &each_alone([500.0; 5])), "fails");
    assert_eq!(
        verdict_of("J.a1", &each_alone([930.0; 5])[..4]),
        "cannot be judged"
    );
    // A reduced set leaves protocols out by design, and says so.
    let mut reduced = each_alone([930.0; 5]);
    reduced.truncate(4);
    for cell in &mut reduced {
        cell.reduced = true;
    }
    let all = entries(&reduced);
    let found = all.iter().find(|entry| entry.id == "J.a1").unwrap();
    assert!(found.reduced && found.verdict == "holds", "{found:?}");
    assert!(
        found.note.contains("not in the reduced set: htcp"),
        "{}",
        found.note
    );
}

#[test]
fn other_testbeds_and_failed_cells_are_left_out() {
    let mut cells = each_alone([930.0; 5]);
    for cell in &mut cells {
        cell.testbed = "netns".to_owned();
    }
    assert_eq!(verdict_of("J.a1", &cells), "cannot be judged");
    let mut cells = each_alone([930.0; 5]);
    for cell in &mut cells {
        cell.error = Some("stopped".to_owned());
    }
    assert_eq!(verdict_of("J.a1", &cells), "cannot be judged");
}

/// The same cells, as real programs had them.
fn on_the_testbed(cells: Vec<CellResult>) -> Vec<CellResult> {
    let real = |cell| CellResult {
        testbed: "netns".to_owned(),
        commit: "0123456789abcdef".to_owned(),
        ..cell
    };
    cells.into_iter().map(real).collect()
}

fn testbed_of(id: &str, cells: &[CellResult]) -> Option<OnTestbed> {
    let found = entries(cells).into_iter().find(|entry| entry.id == id);
    found.and_then(|entry| entry.testbed)
}

#[test]
fn what_real_programs_did_is_judged_beside_the_simulator() {
    let simulated = each_alone([930.0; 5]);
    assert_eq!(testbed_of("J.a1", &simulated), None);
    let with = |mbit: [f64; 5], many: usize| {
        let mut real = on_the_testbed(each_alone(mbit));
        real.truncate(many);
        [simulated.clone(), real].concat()
    };
    let verdict = |mbit, many| {
        let cells = with(mbit, many);
        assert_eq!(verdict_of("J.a1", &cells), "holds", "the simulator's");
        testbed_of("J.a1", &cells).map_or_else(String::new, |real| real.verdict)
    };
    assert_eq!(verdict([930.0; 5], 5), "holds");
    assert_eq!(verdict([500.0; 5], 5), "fails");
    // Not all can run there; of two in five nobody says how the five are.
    assert_eq!(verdict([930.0; 5], 4), "holds");
    assert_eq!(verdict([930.0; 5], 2), "cannot be judged");
    let lacking = testbed_of("J.a1", &with([930.0; 5], 2)).unwrap();
    assert!(!lacking.note.contains("run:"), "{lacking:?}");
    let real = testbed_of("J.a1", &with([930.0; 5], 4)).unwrap();
    assert!(real.note.contains("not on the testbed: htcp"), "{real:?}");
    assert_eq!(real.commits, ["0123456789"]);
    // A run that measured the machine says nothing of the network.
    for spoilt in [Spoilt::Marked, Spoilt::Objected] {
        let mut cells = with([500.0; 5], 5);
        for cell in cells.iter_mut().filter(|cell| cell.testbed == "netns") {
            match spoilt {
                Spoilt::Marked => cell.marks.push(crate::result::Mark::HostLimited),
                Spoilt::Objected => cell.certificate = Some(CertificateNote::default()),
            }
        }
        assert_eq!(testbed_of("J.a1", &cells), None, "{spoilt:?}");
    }
}

#[derive(Clone, Copy, Debug)]
enum Spoilt {
    Marked,
    Objected,
}

#[test]
fn the_udt_library_stands_for_the_papers_udt() {
    let at = |protocol| {
        let flows = vec![flow(protocol, 500.0)];
        on_the_testbed(vec![cell("J-A1", &[("protocol", protocol)], flows)])
    };
    let verdict = |protocol| testbed_of("J.a1u", &at(protocol)).map(|real| real.verdict);
    assert_eq!(verdict("libudt").as_deref(), Some("fails"));
    assert_eq!(verdict("fast").as_deref(), Some("cannot be judged"));
}

#[test]
fn numbers_hold_within_their_tolerance() {
    let at = |mbit: f64| {
        vec![cell(
            "J-A2",
            &[("buffer", "127packets"), ("protocol", "scalable")],
            vec![flow("scalable", mbit)],
        )]
    };
    assert_eq!(verdict_of("J.a2s", &at(480.0)), "holds");
    assert_eq!(verdict_of("J.a2s", &at(640.0)), "shape holds");
    assert_eq!(verdict_of("J.a2s", &at(700.0)), "fails");
    assert_eq!(verdict_of("J.a2s", &at(920.0)), "fails");
}

#[test]
fn a_path_change_is_read_off_the_curve() {
    let stages = |first: f64, low: f64, climb: f64| -> Vec<f64> {
        (0..30)
            .map(|_| first)
            .chain((0..60).map(|i| (low + climb * f64::from(i)).min(first)))
            .chain((0..30).map(|i| if i == 1 { 0.8 * first } else { first }))
            .collect()
    };
    let all = |low: f64, climb: f64| -> Vec<CellResult> {
        HIGH_SPEED
            .iter()
            .copied()
            .chain(["reno"])
            .map(|p| cell("J-C1", &[], vec![curve(p, &stages(900.0, low, climb))]))
            .collect()
    };
    let cells = all(450.0, 20.0);
    assert_eq!(verdict_of("J.c1a", &cells), "holds");
    assert_eq!(verdict_of("J.c1b", &cells), "holds");
    assert_eq!(verdict_of("J.c1c", &cells), "holds");
    assert_eq!(verdict_of("J.c1d", &cells), "holds");
    // No fall at all.
    let flat = all(900.0, 0.0);
    assert_eq!(verdict_of("J.c1a", &flat), "fails");
    // Without the series there is nothing to read.
    let mut bare = all(450.0, 20.0);
    for cell in &mut bare {
        cell.flows[0].intervals.clear();
    }
    assert_eq!(verdict_of("J.c1a", &bare), "cannot be judged");
}

#[test]
fn starvation_and_pairs() {
    let e0 = |reno: f64| -> Vec<CellResult> {
        HIGH_SPEED
            .iter()
            .map(|p| cell("J-E0", &[], vec![flow("reno", reno), flow(p, 900.0 - reno)]))
            .collect()
    };
    assert_eq!(verdict_of("J.e0a", &e0(40.0)), "holds");
    assert_eq!(verdict_of("J.e0a", &e0(400.0)), "fails");

    let e1 = |different: f64| -> Vec<CellResult> {
        let mut cells = Vec::new();
        let names: Vec<&str> = HIGH_SPEED.iter().copied().chain(["udt2"]).collect();
        for (i, a) in names.iter().enumerate() {
            for b in &names[i..] {
                let each = if a == b { 450.0 } else { different };
                cells.push(cell("J-E1", &[], vec![flow(a, each), flow(b, each)]));
            }
        }
        cells
    };
    assert_eq!(verdict_of("J.e1", &e1(400.0)), "holds");
    assert_eq!(verdict_of("J.e1", &e1(460.0)), "fails");
    let mut mixed = e1(400.0);
    // One pair that has more than its identical pairs.
    if let Some(pair) = mixed
        .iter_mut()
        .find(|c| c.flows[0].protocol != c.flows[1].protocol)
    {
        pair.flows[0].goodput_bps = 900e6;
    }
    assert_eq!(verdict_of("J.e1", &mixed), "shape holds");
}

#[test]
fn short_flows_hurt() {
    let f1 = |with: [f64; 3]| -> Vec<CellResult> {
        let mut cells = Vec::new();
        for p in HIGH_SPEED {
            cells.push(cell("J-A1", &[], vec![flow(p, 900.0)]));
            for (size, mbit) in ["100KB", "300KB", "500KB"].iter().zip(with) {
                let mut with = cell("J-F1", &[("mean", size)], vec![flow(p, mbit)]);
                with.groups = vec![GroupResult {
                    throughput_bps: 1e6,
                    ..GroupResult::default()
                }];
                cells.push(with);
            }
        }
        cells
    };
    let hurt = f1([800.0, 700.0, 600.0]);
    assert_eq!(verdict_of("J.f1a", &hurt), "holds");
    assert_eq!(verdict_of("J.f1b", &hurt), "holds");
    let unhurt = f1([890.0, 890.0, 890.0]);
    assert_eq!(verdict_of("J.f1a", &unhurt), "fails");
    assert_eq!(verdict_of("J.f1b", &unhurt), "fails");
}

#[test]
fn streams_lose_a_few_packets() {
    let with = |lost: u64| -> Vec<CellResult> {
        HIGH_SPEED
            .iter()
            .map(|p| {
                let at = [("buffer", "127packets"), ("cbr", "8mbit")];
                let mut cell = cell("J-G2", &at, vec![flow(p, 800.0)]);
                cell.streams = vec![StreamResult {
                    sent_packets: 1_000_000,
                    lost_packets: lost,
                    ..StreamResult::default()
                }];
                cell
            })
            .collect()
    };
    assert_eq!(verdict_of("J.g12c", &with(20)), "holds");
    assert_eq!(verdict_of("J.g12c", &with(0)), "fails");
    assert_eq!(verdict_of("J.g12c", &with(50_000)), "fails");
}

#[test]
fn fitted_statements_are_counted_apart() {
    let entries = entries(&each_alone([930.0; 5]));
    let tally = Tally::of(&entries);
    assert_eq!(tally.predicted[0], 1, "{tally}");
    assert_eq!(tally.fitted[0], 0, "{tally}");
    for (standing, counted) in [
        ("counts", tally.predicted),
        ("fitted", tally.fitted),
        ("implied", tally.implied),
    ] {
        let all = entries.iter().filter(|e| e.standing == standing).count();
        assert_eq!(counted.iter().sum::<usize>(), all, "{standing}");
        assert!(all > 0, "{standing}");
    }
}

#[test]
fn the_table_holds_every_line_within_its_width() {
    let entries = entries(&each_alone([930.0; 5]));
    let text = table(&entries, 100);
    for entry in &entries {
        assert!(text.contains(&entry.id), "{} is not in the table", entry.id);
    }
    for line in text.lines() {
        assert!(line.chars().count() <= 100, "too long: {line}");
    }
}

/// A cell of WTRL10's W1: one flow that displays a rate, or fails.
fn blast(setup: &str, tool: &str, size: &str, mbit: f64) -> CellResult {
    let arrived = mbit > 0.0;
    let flow = FlowResult {
        name: "main".to_owned(),
        protocol: tool.to_owned(),
        goodput_bps: mbit * 0.9e6,
        completion_s: arrived.then_some(1.0),
        ..FlowResult::default()
    };
    let at = [("setup", setup), ("tool", tool), ("size", size)];
    let mut cell = cell("W1", &at, vec![flow]);
    if arrived {
        cell.metrics.insert("tool_bps/main".to_owned(), mbit * 1e6);
    }
    cell
}

#[test]
fn a_statement_of_wtrl10_is_judged_in_each_set_up() {
    let verdict = |cells: &[CellResult], id: &str| {
        let all = entries(cells);
        let entry = all.iter().find(|entry| entry.id == id).expect(id);
        (entry.verdict.clone(), entry.note.clone())
    };
    // What the paper shows, in one set-up; everything fast in another.
    let mut cells = Vec::new();
    for size in ["8MB", "512MB"] {
        for (tool, mbit) in [("rbudp", 120.0), ("tsunami", 80.0), ("pa-udp", 650.0)] {
            cells.push(blast("h3", tool, size, mbit));
            cells.push(blast("ideal", tool, size, 640.0));
        }
    }
    cells.push(blast("ideal", "rbudp", "2GB", 0.0));
    assert_eq!(verdict(&cells, "W.1/h3").0, "holds");
    assert_eq!(verdict(&cells, "W.1/ideal").0, "fails");
    assert_eq!(verdict(&cells, "W.1/h1").0, "cannot be judged");
    // Of two set-ups the worse one counts, and not the best one.
    let (of_w1, note) = verdict(&cells, "W.1");
    assert_eq!(of_w1, "fails");
    assert!(
        note.contains("ideal fails") && note.contains("h3 holds"),
        "{note}"
    );
    assert_eq!(verdict(&cells, "W.2").0, "holds");
    // A tool that is a little too slow holds in part, one that is much too slow does not.
    cells.retain(|cell| cell.at["setup"] == "h3");
    cells.push(blast("h3", "rbudp", "32MB", 105.0));
    assert_eq!(verdict(&cells, "W.1").0, "holds");
    cells.push(blast("h3", "rbudp", "64MB", 92.0));
    assert_eq!(verdict(&cells, "W.1").0, "shape holds");
    cells.push(blast("h3", "pa-udp", "32MB", 300.0));
    cells.push(blast("h3", "tsunami", "32MB", 300.0));
    assert_eq!(verdict(&cells, "W.1").0, "fails");
    // A large file that arrives contradicts the paper.
    cells.push(blast("h3", "rbudp", "2GB", 120.0));
    assert_eq!(verdict(&cells, "W.2").0, "fails");
}

#[test]
fn the_verdict_is_that_of_the_middle_trial_and_the_others_are_told() {
    let mut cells = Vec::new();
    for (seed, mbit) in [(1, 930.0), (2, 930.0), (3, 930.0), (4, 200.0), (5, 930.0)] {
        for mut cell in each_alone([mbit; 5]) {
            cell.seed = seed;
            cells.push(cell);
        }
    }
    let all = entries(&cells);
    let found = all.iter().find(|entry| entry.id == "J.a1").unwrap();
    assert_eq!((found.verdict.as_str(), found.trials), ("holds", [4, 0, 1]));
    assert_eq!(found.spread(), "holds in 4, fails in 1 of 5");
    // What was run once is no five trials because something else was run five times.
    let mut once = each_alone([930.0; 5]);
    for seed in 1..=5 {
        let mut other = cell("J-E0", &[], vec![flow("reno", 1.0), flow("fast", 900.0)]);
        other.seed = seed;
        once.push(other);
    }
    let all = entries(&once);
    let found = all.iter().find(|entry| entry.id == "J.a1").unwrap();
    assert_eq!((found.trials, found.spread()), ([1, 0, 0], String::new()));
    for cell in cells.iter_mut().filter(|cell| cell.seed < 3) {
        cell.flows[0] = flow(&cell.flows[0].protocol.clone(), 200.0);
    }
    assert_eq!(verdict_of("J.a1", &cells), "fails");
}
