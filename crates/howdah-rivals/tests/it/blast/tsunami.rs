//! Tsunami over the simulator.

use crate::blast::support::{Run, path, secs, tsunami_pair};
use howdah_core::{Rate, Span, Time};
use howdah_path::{LossModel, PathConfig};
use howdah_rivals::blast::{TsunamiErrors, TsunamiSettings};

const GBIT: Rate = Rate::from_gbit_per_sec(1);

#[test]
fn a_clean_path_is_used_at_the_target_after_seven_reports() {
    for (block_bytes, delay_us) in [(1024_u32, 12.0), (32_768, 403.0)] {
        let settings = TsunamiSettings {
            block_bytes,
            size_bytes: Some(400_000_000),
            ..TsunamiSettings::default()
        };
        let way = path(GBIT, Span::from_millis(80));
        let mut run = Run::new(1, &way, tsunami_pair(&settings, 1500));
        run.world.run_until(secs(4));
        let before = run.receiver().delivered_bytes;
        run.world.run_until(secs(5));
        let bps = (run.receiver().delivered_bytes - before) as f64 * 8.0;
        let target = f64::from(block_bytes) * 8e6 / delay_us;
        assert!(
            (bps / target - 1.0).abs() < 0.02,
            "{block_bytes}: {bps}, {target}"
        );
        let (near, far) = run.run_to_end(secs(60));
        assert_eq!(far.delivered_bytes, 400_000_000, "{near:?}");
        assert_eq!(near.failed, None);
    }
}

#[test]
fn a_receiver_that_is_overrun_slows_the_server() {
    // A disk of 200 Mbit/s behind a ring of 4 MiB. The two error rates differ in what they see.
    for (errors, name) in [
        (TsunamiErrors::RequestsAndRing, "tsunami"),
        (TsunamiErrors::RingAlone, "rtsunami-like"),
    ] {
        let settings = TsunamiSettings {
            disk: Some(Rate::from_mbit_per_sec(200)),
            errors,
            ..TsunamiSettings::default()
        };
        let way = path(GBIT, Span::from_millis(20));
        let mut run = Run::new(1, &way, tsunami_pair(&settings, 1500));
        run.world.run_until(secs(40));
        let (near, far) = (run.sender(), run.receiver());
        assert!(near.congestion_events > 20, "{name}: {near:?}");
        let bps = far.delivered_bytes as f64 * 8.0 / 40.0;
        assert!((5e7..2.05e8).contains(&bps), "{name}: {bps}");
    }
}

#[test]
fn many_losses_make_it_start_over() {
    // 0.6 s without a packet at 650 Mbit/s leave more than 2048 holes.
    let settings = TsunamiSettings {
        size_bytes: Some(200_000_000),
        ..TsunamiSettings::default()
    };
    let way = path(GBIT, Span::from_millis(40));
    let mut run = Run::new(1, &way, tsunami_pair(&settings, 1500));
    let (link, dead) = (
        run.link,
        PathConfig {
            loss: LossModel::Bernoulli(1.0),
            ..way.clone()
        },
    );
    run.world
        .at(Time::ZERO + Span::from_millis(1500), move |world| {
            world.set_path_config(link.forward, &dead);
        });
    run.world
        .at(Time::ZERO + Span::from_millis(2100), move |world| {
            world.set_path_config(link.forward, &way);
        });
    let (near, far) = run.run_to_end(secs(120));
    assert_eq!(far.delivered_bytes, 200_000_000, "{near:?} {far:?}");
    assert!(
        near.failed.is_none() && near.retransmitted_bytes > 1_000_000,
        "{near:?}"
    );
}

#[test]
fn a_silent_client_ends_the_server() {
    let settings = TsunamiSettings::default();
    let way = path(GBIT, Span::from_millis(20));
    let mut run = Run::new(1, &way, tsunami_pair(&settings, 1500));
    let link = run.link;
    run.world.at(secs(3), move |world| {
        let dead = PathConfig {
            loss: LossModel::Bernoulli(1.0),
            ..PathConfig::default()
        };
        world.set_path_config(link.backward, &dead);
    });
    run.world.run_until(secs(30));
    let failed = run.sender().failed.expect("no heartbeat");
    assert!(failed.contains("heartbeat"), "{failed}");
}
