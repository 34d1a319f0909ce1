//! The ledger beside the scenarios: their full sets have data for every part of every statement, and no check holds whatever the
//! results are.

use howdah_lab::scenario::{self, Cell, Plan};
use howdah_report::ledger::{self, Kind};
use howdah_report::result::{CellResult, FlowResult, GroupResult, Interval, StreamResult};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// Worlds that have nothing to do with any paper; in one of them each statement must fail.
const WORLDS: u64 = 12;

/// `SplitMix64`: numbers without a meaning.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Of any size from `low` to `high`.
    fn size(&mut self, low: f64, high: f64) -> f64 {
        let share = (self.roll() >> 11) as f64 / (1_u64 << 53) as f64;
        low * (high / low).powf(share)
    }
}

fn full_sets() -> Plan {
    let dirs = ["jgn06", "k14proto", "k13app", "wtrl10", "future/f12.toml"];
    let at = |name: &str| {
        PathBuf::from(env!("CARGO_MANIFEST_DIR"))
            .join("../../scenarios")
            .join(name)
    };
    scenario::load(&dirs.map(at), false).expect("the papers' scenarios")
}

/// Of which sort a world is.
#[derive(Clone, Copy)]
enum Sort {
    /// Everything goes up and down.
    Wild,
    /// Everybody has the same, all the time.
    Even,
    /// Everything fades, and costs much.
    Fading,
}

/// A result of a cell that could be of any network.
fn any_result(cell: &Cell, sort: Sort, dice: &mut Dice) -> CellResult {
    let seconds = cell.measure.duration_ns as f64 / 1e9;
    let mut metrics = BTreeMap::new();
    let fastest = cell
        .paths
        .iter()
        .filter_map(|path| path.forward.rate_bps)
        .max();
    let most = fastest.unwrap_or(1_000_000_000) as f64;
    let curve = |level: f64, dice: &mut Dice| -> Vec<Interval> {
        // Series are looked at in the 1 Gbit/s papers only.
        let steps = if most < 2e9 { seconds as usize } else { 0 };
        (1..=steps)
            .map(|step| Interval {
                t_s: step as f64,
                goodput_bps: match sort {
                    Sort::Wild => level * dice.size(0.3, 3.0),
                    Sort::Even => level,
                    Sort::Fading => level * (-(step as f64) / 20.0).exp(),
                },
                retransmitted_bytes: dice.roll() % 2,
                ..Interval::default()
            })
            .collect()
    };
    let flows: Vec<FlowResult> = (cell.flows.iter())
        .map(|spec| {
            let goodput_bps = match sort {
                Sort::Even => 0.3 * most,
                _ => dice.size(1e6, most),
            };
            let least_overhead_s = if matches!(sort, Sort::Fading) {
                5.0
            } else {
                0.1
            };
            let start_s = spec.start_ns as f64 / 1e9;
            for (name, low, high) in [
                ("feedback_bytes_per_gib", 1e3, 1e8),
                ("displayed_bps", 1e7, most),
                ("tool_bps", 1e6, most),
                ("discrepancy_s", 0.01, 30.0),
                ("overhead_s", least_overhead_s, 100.0),
                ("duration_s", 10.0, 1000.0),
                ("retransmit_share", 1e-5, 1.0),
            ] {
                metrics.insert(format!("{name}/{}", spec.name), dice.size(low, high));
            }
            FlowResult {
                name: spec.name.clone(),
                protocol: spec.protocol.clone(),
                connections: Some(1 + (dice.roll() % 20) as u32),
                start_s,
                end_s: seconds,
                delivered_bytes: (goodput_bps * (seconds - start_s) / 8.0) as u64,
                goodput_bps,
                steady_goodput_bps: dice.size(1e6, most),
                completion_s: dice.roll().is_multiple_of(2).then_some(seconds),
                congestion_events: Some(dice.roll() % 3),
                timeouts: Some(0),
                sender_cpu_s: Some(dice.size(0.01, 3.0) * seconds),
                receiver_cpu_s: Some(dice.size(0.01, 3.0) * seconds),
                intervals: curve(goodput_bps, dice),
                ..FlowResult::default()
            }
        })
        .collect();
    metrics.insert("maxmin".to_owned(), dice.size(0.01, 1.0));
    let groups = cell.groups.iter().map(|spec| GroupResult {
        name: spec.name.clone(),
        throughput_bps: dice.size(1e4, 1e7),
        ..GroupResult::default()
    });
    let groups = groups.collect();
    let streams = cell.streams.iter().map(|spec| StreamResult {
        name: spec.name.clone(),
        sent_packets: 1_000_000,
        lost_packets: dice.size(0.1, 1e6) as u64,
        jitter_ms: dice.size(0.001, 10.0),
        ..StreamResult::default()
    });
    CellResult {
        experiment: cell.experiment.clone(),
        at: cell.at.clone(),
        testbed: "sim".to_owned(),
        seed: 1,
        duration_s: seconds,
        streams: streams.collect(),
        groups,
        flows,
        metrics,
        ..CellResult::default()
    }
}

/// The cells of a plan, each once.
fn places(plan: &Plan) -> Vec<&Cell> {
    let mut seen = BTreeSet::new();
    plan.cells()
        .filter(|cell| seen.insert((&cell.experiment, &cell.at)))
        .collect()
}

#[test]
fn full_sets_judge_every_statement_and_each_can_fail() {
    let plan = full_sets();
    let places = places(&plan);
    let remarks: BTreeSet<&str> = (ledger::statements().iter())
        .filter(|statement| statement.kind == Kind::Remark)
        .map(|statement| statement.id)
        .collect();
    let mut never_failed: BTreeSet<String> = (ledger::statements().iter())
        .map(|statement| statement.id.to_owned())
        .filter(|id| !remarks.contains(id.as_str()))
        .collect();
    let mut unjudged: BTreeMap<String, String> = BTreeMap::new();
    for world in 0..WORLDS {
        let mut dice = Dice(world);
        let sort = [Sort::Wild, Sort::Even, Sort::Fading][world as usize % 3];
        let cells: Vec<CellResult> = (places.iter())
            .map(|cell| any_result(cell, sort, &mut dice))
            .collect();
        for entry in ledger::entries(&cells) {
            if remarks.contains(entry.id.as_str()) {
                continue;
            }
            assert!(!entry.reduced, "{}", entry.id);
            if entry.verdict == "cannot be judged" {
                unjudged.insert(entry.id.clone(), entry.note);
            }
            if entry.verdict == "fails" {
                never_failed.remove(&entry.id);
            }
        }
    }
    assert!(
        unjudged.is_empty(),
        "the full sets lack data: {unjudged:#?}"
    );
    assert!(
        never_failed.is_empty(),
        "these hold whatever comes: {never_failed:?}"
    );
}

/// What a statement is about, or a part of it, is taken away.
#[test]
fn a_statement_without_a_part_of_its_data_is_not_judged() {
    let plan = full_sets();
    let mut dice = Dice(77);
    let all: Vec<CellResult> = (places(&plan).iter())
        .map(|cell| any_result(cell, Sort::Wild, &mut dice))
        .collect();
    for (gone, ids) in [
        (
            "htcp",
            &[
                "J.a1", "J.b1", "J.d2", "J.e1", "J.f1a", "J.g13b", "J.g13d", "J.c1a",
            ][..],
        ),
        ("rwtp-like", &["P.c1", "P.c2", "P.w1", "P.c11"][..]),
        ("xdt-like", &["A.0", "A.x2", "A.c1", "A.v6"][..]),
    ] {
        let left: Vec<CellResult> = (all.iter())
            .filter(|cell| !cell.flows.iter().any(|flow| flow.protocol == gone))
            .cloned()
            .collect();
        let judged = ledger::entries(&left);
        for id in ids {
            let entry = judged
                .iter()
                .find(|entry| entry.id == *id)
                .expect("an entry");
            assert_eq!(entry.verdict, "cannot be judged", "{id} without {gone}");
        }
    }
    // A single cell of the matrix.
    let is_one = |cell: &CellResult| {
        cell.experiment == "P1"
            && cell.at.get("rtt").is_some_and(|rtt| rtt == "150ms")
            && cell.at.get("loss").is_some_and(|loss| loss == "1%")
    };
    let left: Vec<CellResult> = all.iter().filter(|cell| !is_one(cell)).cloned().collect();
    let judged = ledger::entries(&left);
    for id in ["P.u2", "P.r5", "P.r6", "P.w1", "P.w4", "P.c8"] {
        let entry = judged
            .iter()
            .find(|entry| entry.id == id)
            .expect("an entry");
        assert_eq!(
            entry.verdict, "cannot be judged",
            "{id} with a hole in its matrix"
        );
    }
}
