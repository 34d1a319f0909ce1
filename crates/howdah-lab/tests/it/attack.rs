//! An attack finds a known weakness, says the same however many cores it has, and what it writes shows what it says.

use howdah_lab::attack::{AttackError, AttackOptions, Found, Goal, attack};
use howdah_lab::scenario::parse;
use std::path::Path;
use std::sync::atomic::AtomicBool;

fn options(protocol: &str, goal: Goal, runs: usize, jobs: usize) -> AttackOptions {
    AttackOptions {
        protocol: protocol.to_owned(),
        goal,
        runs,
        time: None,
        seed: 1,
        jobs,
        // Slow paths, which are simulated quickly.
        most_rate_bps: 20_000_000,
    }
}

fn found(options: &AttackOptions) -> Found {
    attack(options, &AtomicBool::new(false), &mut |_, _| {}).expect("a finding")
}

#[test]
fn a_rate_below_all_that_are_tried_is_refused() {
    let mut slow = options("cubic", Goal::Stall, 1, 1);
    slow.most_rate_bps = 1_000;
    let found = attack(&slow, &AtomicBool::new(false), &mut |_, _| {});
    assert_eq!(found, Err(AttackError::Rate("10mbit")));
}

#[test]
fn loss_based_tcp_is_stopped_by_losses_and_that_is_all_it_takes() {
    let one = found(&options("reno", Goal::Stall, 60, 1));
    assert_eq!(one, found(&options("reno", Goal::Stall, 60, 3)));
    assert!(one.score > 0.8 && one.score > one.plain_score, "{one:?}");
    assert!(one.worst_score >= one.score, "{one:?}");
    assert_eq!(one.scores.len(), 5);

    // The scenario is what was simulated: its worst second is as bad as is said.
    let plan = parse(Path::new("found.toml"), &one.scenario, false).expect("a scenario");
    let cell = plan.cells().next().expect("a cell");
    let result = howdah_lab::sim::run(cell, &AtomicBool::new(false)).expect("a run");
    let warmup_s = cell.measure.warmup_ns as f64 / 1e9;
    let course = result.flows[0].intervals.iter();
    let behind = course.filter(|interval| interval.t_s > warmup_s);
    let rates: Vec<f64> = behind.map(|interval| interval.goodput_bps).collect();
    let pairs = rates.windows(2).map(|pair| f64::midpoint(pair[0], pair[1]));
    let worst = pairs.fold(f64::INFINITY, f64::min);
    let rate_bps = cell.paths[0].forward.mean_rate_bps() as f64;
    assert!(worst < 0.25 * rate_bps, "{worst} of {rate_bps}: {one:?}");
}

#[test]
fn what_cannot_be_attacked_is_named() {
    for (name, word) in [
        ("cubik", "no protocol"),
        ("rsync", "real program"),
        ("rbudp", "rate"),
    ] {
        let failed = attack(
            &options(name, Goal::Stall, 10, 1),
            &AtomicBool::new(false),
            &mut |_, _| {},
        );
        let Err(AttackError::Protocol(message)) = failed else {
            panic!("{failed:?}");
        };
        assert!(
            message.contains(word) && message.contains(name),
            "{message}"
        );
    }
    let stopped = attack(
        &options("reno", Goal::Starve, 10, 1),
        &AtomicBool::new(true),
        &mut |_, _| {},
    );
    assert_eq!(stopped, Err(AttackError::Stopped));
}
