//! Links whose rate changes all the time, as radio's does, in virtual time.

use crate::support::{Dice, Net, at, config, for_seeds, ms, secs};
use howdah_core::{Rate, Span};
use howdah_path::{LossModel, PathConfig, QueueLimit};
use howdah_proto::{Config, Policy};

/// Seconds of a link, in steps of 200 ms.
const STEPS: u64 = 200;

/// A rate that wanders around `mean` (its logarithm by `spread`, a tenth of it forgotten with each step), and now and then falls to `least`
/// for some steps.
fn wander(seed: u64, mean: Rate, least: Rate, spread: f64) -> Vec<Rate> {
    let mut dice = Dice::new(seed);
    let (mut x, mut out) = (0.0_f64, false);
    let rates = (0..STEPS).map(|_| {
        // (Twelve dice are normal enough.)
        let normal = (0..12).map(|_| dice.share()).sum::<f64>() - 6.0;
        x = 0.9 * x + 0.19_f64.sqrt() * normal;
        out = if out {
            dice.share() > 0.25
        } else {
            dice.share() < 0.015
        };
        let rate = mean.mul_f64((spread * x - spread * spread / 2.0).exp());
        if out {
            least
        } else {
            rate.clamp(least, mean.mul_f64(5.0))
        }
    });
    rates.collect()
}

/// Share of what the link could carry that arrives, and share of packets that its queue drops.
fn over(rates: &[Rate], rtt_ms: u64, queue_bytes: u64) -> (f64, f64) {
    let path = |rate: Rate| PathConfig {
        rate: Some(rate),
        delay: ms(rtt_ms) / 2,
        queue: QueueLimit::Bytes(queue_bytes),
        stored_queue: true,
        mtu: 1_500,
        ..PathConfig::default()
    };
    let back = path(Rate::from_mbit_per_sec(1_000));
    let mut net = Net::with(5, &path(rates[0]), &back, config(), config());
    let id = net.upload(1 << 42);
    let (step, forward) = (Span::from_millis(200), net.link.forward);
    let mut could = 0;
    for (n, &rate) in (0..).zip(rates) {
        net.world.set_path_config(forward, &path(rate));
        net.world.run_until(at(step * (n + 1)));
        could += rate.bytes_in(step);
    }
    let counters = net.world.path(forward).counters();
    let got = net.server().connection().received_bytes(id) as f64;
    (
        got / could as f64,
        counters.dropped_queue as f64 / counters.offered as f64,
    )
}

#[test]
fn a_window_from_a_faster_link_is_left() {
    // (One in three loses some percent, the others next to nothing: few say little.)
    const SEEDS: u64 = 18;
    let mut bad = Vec::new();
    for (mean, least) in [(30_000, 500), (400_000, 20_000)] {
        let [mean, least] = [mean, least].map(|kbit| Rate::from_bits_per_sec(kbit * 1_000));
        for rtt_ms in [30, 100] {
            let (mut share, mut dropped) = (0.0, 0.0);
            for seed in 0..SEEDS {
                let rates = wander(seed, mean, least, 0.7);
                let seen = over(&rates, rtt_ms, mean.bytes_in(ms(300)));
                share += seen.0 / SEEDS as f64;
                dropped += seen.1 / SEEDS as f64;
            }
            let place =
                format!("{mean}, {rtt_ms} ms: {share:.3} of the link, {dropped:.4} dropped");
            println!("{place}");
            if share < 0.75 || dropped > 0.02 {
                bad.push(place);
            }
        }
    }
    assert!(bad.is_empty(), "{bad:#?}");
}

/// What is remembered of a window that was lost is far more than a small one allows, and no report comes while nothing is sent.
#[test]
fn a_window_that_was_lost_does_not_keep_a_small_one_shut() {
    let (fast, slow) = (Rate::from_gbit_per_sec(4), Rate::from_mbit_per_sec(2));
    let path = |rate: Rate| PathConfig {
        rate: Some(rate),
        delay: ms(50),
        queue: QueueLimit::Packets(200),
        stored_queue: true,
        mtu: 1_500,
        ..PathConfig::default()
    };
    let mut net = Net::with(5, &path(fast), &path(fast), config(), config());
    let id = net.upload(1 << 42);
    net.world.run_until(at(secs(5)));
    let forward = net.link.forward;
    net.world.set_path_config(forward, &path(slow));
    let mut still = Span::ZERO;
    let mut longest = Span::ZERO;
    let mut before = 0;
    for tenth in 51..=350 {
        net.world.run_until(at(ms(100) * tenth));
        let got = net.server().connection().received_bytes(id);
        still = if got == before {
            still + ms(100)
        } else {
            Span::ZERO
        };
        longest = longest.max(still);
        before = got;
    }
    println!("longest stop {longest}");
    assert!(longest < secs(2), "{longest}");
}

/// Whatever a link does, it is used: its rate, delay, queue and loss change at random moments, and the sender never stops for long.
#[test]
fn no_change_of_a_link_makes_a_sender_stand_still() {
    for_seeds("no_change_makes_it_stand_still", 60, |seed| {
        let mut dice = Dice::new(seed);
        let mtu = dice.pick(&[1_500, 9_000]);
        let fastest = dice.spread(5e8, 5e9);
        let draw = |dice: &mut Dice| PathConfig {
            rate: Some(Rate::from_bits_per_sec(
                (fastest * dice.spread(0.001, 1.0)) as u64,
            )),
            delay: Span::from_secs_f64(dice.spread(0.000_5, 0.15)),
            queue: QueueLimit::Packets(dice.spread(8.0, 20_000.0) as u64),
            loss: LossModel::Bernoulli(dice.pick(&[0.0, 0.0, 0.001, 0.03])),
            stored_queue: true,
            mtu,
            ..PathConfig::default()
        };
        let first = draw(&mut dice);
        let config = Config {
            policy: dice.pick(&[Policy::Fair, Policy::Fair, Policy::Background]),
            ..config()
        };
        let mut net = Net::with(seed, &first, &first, config.clone(), config);
        net.upload(1 << 44);
        let (mut now, mut changes) = (secs(2), secs(2));
        net.world.run_until(at(now));
        let (mut still, mut longest, mut before) = (Span::ZERO, Span::ZERO, 0);
        while now < secs(40) {
            if now >= changes {
                changes = now + Span::from_secs_f64(dice.spread(0.2, 8.0));
                let path = draw(&mut dice);
                for way in [net.link.forward, net.link.backward] {
                    net.world.set_path_config(way, &path);
                }
            }
            now += ms(50);
            net.world.run_until(at(now));
            let sent = net.client().connection().stats().data_bytes_sent;
            // (A queue that is full of what was sent is no standstill.)
            let came = net.server().connection().stats();
            let moved = sent + came.data_bytes_received + came.data_bytes_duplicate;
            still = if moved == before {
                still + ms(50)
            } else {
                Span::ZERO
            };
            before = moved;
            longest = longest.max(still);
        }
        assert!(longest < secs(4), "{longest}");
    });
}
