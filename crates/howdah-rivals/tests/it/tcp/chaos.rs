//! Whatever the path does, a transfer ends: complete, or reported as failed.

use crate::tcp::support::{Run, back, ms, path, secs};
use howdah_core::{Rate, Span};
use howdah_path::{Jitter, LossModel, PathConfig};
use howdah_rivals::tcp::{
    LossDetection, ReceiverConfig, Recovery, RtoFloor, Supply, TcpConfig, cc,
};
use howdah_sim::Fate;
use std::cell::Cell;
use std::rc::Rc;

/// Stacks of each era, and each option alone.
fn stacks() -> Vec<(&'static str, TcpConfig, ReceiverConfig)> {
    let modern = (TcpConfig::modern(), ReceiverConfig::modern());
    let rfc6675 = TcpConfig {
        loss_detection: LossDetection::DuplicateAcks {
            fack: false,
            adapt_reordering: false,
            lost_retransmissions: false,
            rescue: true,
        },
        rto_floor: RtoFloor::Total,
        min_rto: Span::from_secs(1),
        ..modern.0
    };
    vec![
        ("linux24", TcpConfig::linux24(), ReceiverConfig::linux24()),
        ("linux26", TcpConfig::linux26(), ReceiverConfig::linux26()),
        ("modern", modern.0, modern.1),
        ("rfc6675", rfc6675, ReceiverConfig::freebsd53()),
        (
            "newreno",
            TcpConfig {
                sack: false,
                ..rfc6675
            },
            ReceiverConfig::winxp_sp2(),
        ),
        (
            "newreno, halving",
            TcpConfig {
                sack: false,
                timestamps: false,
                recovery: Recovery::RateHalving,
                ..modern.0
            },
            ReceiverConfig::linux24(),
        ),
        (
            "no options",
            TcpConfig {
                sack: false,
                timestamps: false,
                window_scaling: false,
                ..modern.0
            },
            modern.1,
        ),
        (
            "receiver without options",
            modern.0,
            ReceiverConfig {
                sack: false,
                timestamps: false,
                max_window_scale: None,
                ..modern.1
            },
        ),
        (
            "no timestamps",
            TcpConfig {
                timestamps: false,
                ..modern.0
            },
            modern.1,
        ),
        (
            "paced, GRO, small receive buffer",
            TcpConfig {
                pacing: true,
                burst_segments: 8,
                ..modern.0
            },
            ReceiverConfig {
                receive_buffer_bytes: 20_000,
                window_share: 1.0,
                ..modern.1.acking_every(8)
            },
        ),
        (
            "bbr1",
            modern.0.with(cc::bbr1::ENTRY),
            modern.1.acking_every(1),
        ),
        ("bbr3", modern.0.with(cc::bbr3::ENTRY), modern.1),
    ]
}

/// Loss, reordering, duplication and corruption in both directions.
fn rough(loss: f64) -> (PathConfig, PathConfig) {
    let rtt = Span::from_millis(20);
    let spoil = |config: PathConfig| PathConfig {
        loss: LossModel::Bernoulli(loss),
        jitter: Jitter::Uniform(Span::from_millis(4)),
        reorder: 0.05,
        duplicate: 0.02,
        corrupt: 0.01,
        ..config
    };
    (
        spoil(path(Rate::from_mbit_per_sec(50), rtt, 40)),
        spoil(back(rtt)),
    )
}

fn transfer(name: &str, seed: u64, loss: f64, config: &TcpConfig, receiver: &ReceiverConfig) {
    let (forward, backward) = rough(loss);
    let bytes = 20_000 + seed * 977 % 90_000;
    let config = TcpConfig {
        initial_sequence: (seed as u32).wrapping_mul(0x9e37_79b9),
        ..*config
    };
    let receiver = ReceiverConfig {
        initial_sequence: (seed as u32).wrapping_mul(0x85eb_ca6b),
        ..*receiver
    };
    let mut run = Run::new(
        seed,
        (&forward, &backward),
        (&config, &receiver),
        Supply::Sized { bytes },
    );
    let a = run.ends.a;
    let b = run.ends.b;
    run.world.run_while(
        |world| {
            use howdah_core::Observe;
            let near = world.endpoint(a).snapshot();
            let far = world.endpoint(b).snapshot();
            near.failed.is_none() && (near.finished_at.is_none() || far.finished_at.is_none())
        },
        secs(3600),
    );
    let (near, far) = (run.sender(), run.receiver());
    assert!(
        near.failed.is_none() && near.finished_at.is_some() && far.finished_at.is_some(),
        "{name}, seed {seed}, loss {loss}, {bytes} bytes: {near:?} {far:?}"
    );
    assert_eq!(far.delivered_bytes, bytes, "{name}, seed {seed}");
    assert_eq!(
        near.in_flight_bytes, 0,
        "{name}, seed {seed}: nothing is left in flight"
    );
}

#[test]
fn transfers_end_on_rough_paths() {
    for (name, config, receiver) in stacks() {
        for seed in 0..1000 {
            transfer(name, seed, 0.02, &config, &receiver);
        }
    }
}

#[test]
fn transfers_end_on_very_rough_paths() {
    for (name, config, receiver) in stacks() {
        for seed in 1000..1200 {
            transfer(name, seed, 0.25, &config, &receiver);
        }
    }
}

#[test]
fn every_congestion_control_ends_its_transfers() {
    for entry in cc::ALL {
        for (config, receiver) in [
            (TcpConfig::linux24(), ReceiverConfig::linux24()),
            (TcpConfig::linux26(), ReceiverConfig::linux26()),
            (TcpConfig::modern(), ReceiverConfig::modern()),
        ] {
            for seed in 0..60 {
                let loss = [0.01, 0.05, 0.2][seed as usize % 3];
                transfer(entry.name, seed, loss, &config.with(*entry), &receiver);
            }
        }
    }
}

/// Every packet of a short transfer is lost once, one at a time, in both directions.
#[test]
fn any_single_packet_may_be_lost() {
    let rtt = Span::from_millis(30);
    let forward = path(Rate::from_mbit_per_sec(100), rtt, 1000);
    for (name, config, receiver) in stacks() {
        for to_receiver in [true, false] {
            let mut victim = 0;
            loop {
                let mut run = Run::new(
                    victim,
                    (&forward, &back(rtt)),
                    (&config, &receiver),
                    Supply::Sized { bytes: 30_000 },
                );
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
                run.world.run_until(secs(30));
                let (near, far) = (run.sender(), run.receiver());
                let what = format!("{name}, packet {victim}, to the receiver: {to_receiver}");
                assert_eq!(far.delivered_bytes, 30_000, "{what}: {near:?}");
                assert!(far.finished_at.is_some(), "{what}");
                let finished = near.finished_at.expect("the sender knows");
                // The longest detour is a lost SYN: 3 s and then the transfer.
                assert!(finished < ms(4500), "{what}: {finished}");
                // A single loss needs the timer only where nothing follows it.
                assert!(near.timeouts <= 2, "{what}: {near:?}");
                if seen.get() <= victim {
                    break;
                }
                victim += 1;
            }
            assert!(victim > 10, "{name}: {victim} packets");
        }
    }
}

#[test]
fn a_dead_path_is_reported() {
    let dead = PathConfig {
        loss: LossModel::Bernoulli(1.0),
        ..PathConfig::default()
    };
    for (name, config, receiver) in stacks() {
        let mut run = Run::new(
            1,
            (&dead, &dead),
            (&config, &receiver),
            Supply::Sized { bytes: 5000 },
        );
        run.world.run_until(secs(3600));
        let failed = run.sender().failed.expect("no connection");
        assert!(failed.contains("SYN"), "{name}: {failed}");

        // And one that dies in the middle.
        let rtt = Span::from_millis(20);
        let mut run = Run::new(
            1,
            (&path(Rate::from_mbit_per_sec(10), rtt, 100), &back(rtt)),
            (&config, &receiver),
            Supply::Endless,
        );
        let link = run.link;
        run.world.at(secs(2), move |world| {
            world.set_path_config(
                link.forward,
                &PathConfig {
                    loss: LossModel::Bernoulli(1.0),
                    ..PathConfig::default()
                },
            );
        });
        run.world.run_until(secs(5000));
        let failed = run.sender().failed.expect("no path");
        assert!(failed.contains("timeouts"), "{name}: {failed}");
    }
}

#[test]
fn equal_seeds_give_equal_runs() {
    let fingerprint = |seed| {
        let (forward, backward) = rough(0.02);
        let mut run = Run::new(
            seed,
            (&forward, &backward),
            (&TcpConfig::modern(), &ReceiverConfig::modern()),
            Supply::Endless,
        );
        run.world.run_until(secs(5));
        run.world.fingerprint()
    };
    assert_eq!(fingerprint(3), fingerprint(3));
    assert_ne!(fingerprint(3), fingerprint(4));
}
