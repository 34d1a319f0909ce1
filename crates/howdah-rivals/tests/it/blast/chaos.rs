//! Bad paths: nothing hangs, nothing is left out.

use crate::blast::support::{Pair, Run, TOOLS, path, rough, secs};
use howdah_core::{Rate, Span};
use howdah_path::{LossModel, PathConfig};
use howdah_sim::Fate;
use std::cell::Cell;
use std::rc::Rc;

/// Carries an object; whether it arrived. Otherwise both sides must have said so.
fn transfer(name: &str, pair: Pair, seed: u64, loss: f64) -> bool {
    let bytes = 1 + seed * 977 % 90_000;
    let mut run = Run::new(seed, &rough(loss), pair(bytes));
    let (near, far) = run.run_to_end(secs(3600));
    let what = format!("{name}, seed {seed}, loss {loss}, {bytes} bytes: {near:?} {far:?}");
    if near.failed.is_some() || far.failed.is_some() {
        assert!(
            near.failed.is_some() || near.finished_at.is_some(),
            "{what}"
        );
        assert!(far.failed.is_some() || far.finished_at.is_some(), "{what}");
        return false;
    }
    assert!(
        near.finished_at.is_some() && far.finished_at.is_some(),
        "{what}"
    );
    assert_eq!(far.delivered_bytes, bytes, "{what}");
    assert!(
        near.sent_bytes - near.retransmitted_bytes >= bytes,
        "{what}"
    );
    true
}

#[test]
fn objects_arrive_over_rough_paths() {
    for &(name, pair) in TOOLS {
        for seed in 0..1500 {
            assert!(transfer(name, pair, seed, 0.02), "{name}, seed {seed}");
        }
    }
}

/// A fifth of all packets is lost, of the control channel too: TCP may wait longer for a repetition
/// than a tool waits for its peer (15 s in Tsunami).
#[test]
fn objects_arrive_or_are_given_up_over_very_rough_paths() {
    for &(name, pair) in TOOLS {
        let arrived = (1500..1700)
            .filter(|&seed| transfer(name, pair, seed, 0.2))
            .count();
        assert!(arrived >= 160, "{name}: {arrived} of 200");
    }
}

/// Every packet of a short transfer is lost once, one at a time, in both directions: each control
/// message, the first packet and the last one are among them.
#[test]
fn any_single_packet_may_be_lost() {
    const BYTES: u64 = 45_000;
    let path = path(Rate::from_mbit_per_sec(100), Span::from_millis(30));
    for &(name, pair) in TOOLS {
        for to_receiver in [true, false] {
            let mut victim = 0;
            loop {
                let mut run = Run::new(1, &path, pair(BYTES));
                let end = if to_receiver { run.ends.b } else { run.ends.a };
                let seen = Rc::new(Cell::new(0));
                let count = Rc::clone(&seen);
                run.world.on_arrival(end, move |_, _| {
                    count.set(count.get() + 1);
                    if count.get() == victim + 1 {
                        Fate::Discard
                    } else {
                        Fate::Deliver
                    }
                });
                let (near, far) = run.run_to_end(secs(600));
                let what = format!("{name}, packet {victim}, to the receiver: {to_receiver}");
                assert_eq!(far.delivered_bytes, BYTES, "{what}: {near:?} {far:?}");
                assert!(
                    near.finished_at.is_some_and(|at| at < secs(15))
                        && far.finished_at.is_some_and(|at| at < secs(15)),
                    "{what}: {near:?} {far:?}"
                );
                // What follows the end, such as the last acknowledgement.
                run.world.run_until(secs(1200));
                if seen.get() <= victim {
                    break;
                }
                victim += 1;
            }
            assert!(
                victim > if to_receiver { 45 } else { 3 },
                "{name}: {victim}"
            );
        }
    }
}

#[test]
fn a_dead_path_is_reported() {
    let alive = path(Rate::from_mbit_per_sec(100), Span::from_millis(20));
    let dead = PathConfig {
        loss: LossModel::Bernoulli(1.0),
        ..alive.clone()
    };
    for &(name, pair) in TOOLS {
        // From the beginning, and from a moment in the middle of the transfer.
        for dies_at_ms in [0, 50, 130, 200, 400, 900] {
            let mut run = Run::new(1, &alive, pair(20_000_000));
            let (link, dead) = (run.link, dead.clone());
            let at = howdah_core::Time::ZERO + Span::from_millis(dies_at_ms);
            run.world.at(at, move |world| {
                world.set_path_config(link.forward, &dead);
                world.set_path_config(link.backward, &dead);
            });
            let (near, far) = run.run_to_end(secs(36_000));
            assert!(
                near.failed.is_some() && far.failed.is_some(),
                "{name}, {dies_at_ms} ms: {near:?} {far:?}"
            );
        }
    }
}

#[test]
fn equal_seeds_give_equal_runs() {
    for &(name, pair) in TOOLS {
        let fingerprint = |seed| {
            let mut run = Run::new(seed, &rough(0.02), pair(200_000));
            run.run_to_end(secs(3600));
            run.world.fingerprint()
        };
        assert_eq!(fingerprint(3), fingerprint(3), "{name}");
        assert_ne!(fingerprint(3), fingerprint(4), "{name}");
    }
}
