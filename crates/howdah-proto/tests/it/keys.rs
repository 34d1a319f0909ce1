//! Key updates are an everyday matter: one every 64 packets, as far as the peer can follow.

use crate::support::hand::{Hand, tls_config};
use crate::support::{Dice, Net, at, config, for_seeds, ms, path, secs};
use howdah_core::{Rate, Span};
use howdah_path::{Jitter, LossModel, PathConfig};
use howdah_proto::{Config, Event, Policy};

fn updating() -> Config {
    Config {
        key_update_after: 64,
        // This is not about rate control.
        policy: Policy::Fixed(Rate::from_mbit_per_sec(10)),
        ..config()
    }
}

/// Nodes check that packet numbers ascend strictly, so no pair of key and number is used twice.
#[test]
fn many_updates_under_loss_and_reordering() {
    let mut updates = 0;
    for_seeds("key updates", 300, |seed| {
        let dice = &mut Dice::new(seed);
        let rtt = Span::from_secs_f64(dice.spread(2e-3, 0.1));
        let config = PathConfig {
            loss: LossModel::Bernoulli(dice.spread(0.001, 0.1)),
            jitter: Jitter::Uniform(rtt / 4),
            reorder: 0.5,
            duplicate: 0.05,
            ..path(Rate::from_mbit_per_sec(300), rtt, 1_500)
        };
        let mut net = Net::with(seed, &config, &config, updating(), updating());
        net.upload(2_000_000 + dice.below(1_000_000));
        net.download(2_000_000);
        net.run_to_end(secs(60), "key updates");
        for node in [net.client(), net.server()] {
            assert!(node.closed.is_none());
            updates += node.connection().stats().key_updates;
            assert!(node.log.key_phases >= 1, "{} phases", node.log.key_phases);
        }
    });
    println!("{updates} key updates");
    assert!(updates > 0, "none at all");
}

/// Only one side sends data; the other's few packets must carry its updates along.
#[test]
fn one_sided_transfers_update_too() {
    let clean = path(Rate::from_gbit_per_sec(1), ms(20), 9_000);
    let mut net = Net::with(1, &clean, &clean, updating(), config());
    net.upload(4_000_000);
    net.run_to_end(secs(10), "one-sided");
    // About 3.3 s; an update takes three probe timeouts of at least 71 ms, and what confirms it.
    let updates = net.client().connection().stats().key_updates;
    assert!((8..=15).contains(&updates), "{updates} updates");
    let there = net.server().connection().stats().key_updates;
    assert!(
        updates.abs_diff(there) <= 1,
        "{updates} here, {there} there"
    );
}

/// With real keys: a packet opened with the wrong one is lost, bytes are compared.
#[test]
fn many_updates_of_real_keys_under_loss_reordering_and_duplication() {
    let mut updates = 0;
    for_seeds("TLS key updates", 12, |seed| {
        let dice = &mut Dice::new(seed);
        let with_updates = |identity| Config {
            key_update_after: 64,
            policy: Policy::Fixed(Rate::from_mbit_per_sec(4)),
            ..tls_config(identity)
        };
        let mut hand = Hand::new(with_updates(1), with_updates(2), ms(5));
        hand.transfer(true, 700_000);
        hand.transfer(false, 400_000);
        let complete = |hand: &Hand| {
            let has = |events: &[Event]| {
                events
                    .iter()
                    .any(|event| matches!(event, Event::ObjectComplete(_)))
            };
            has(&hand.client.events) && has(&hand.server.events)
        };
        let done = hand.run(at(secs(60)), complete, |_, _| {
            let mut fates = Vec::new();
            if !dice.chance(0.02) {
                let late = dice.chance(0.1);
                fates.push(if late { ms(dice.below(4)) } else { Span::ZERO });
            }
            if dice.chance(0.02) {
                fates.push(ms(dice.below(4)));
            }
            fates
        });
        assert!(done, "{:?} {:?}", hand.client.events, hand.server.events);
        assert_eq!(hand.server.placed, 700_000);
        assert_eq!(hand.client.placed, 400_000);
        for side in [&hand.client, &hand.server] {
            let stats = side.connection.stats();
            updates += stats.key_updates;
            // When both sides update at the same time a phase may last a round trip only, and what
            // is late by more than the rest of it has no key any more.
            assert!(stats.datagrams_refused <= stats.key_updates, "{stats:?}");
        }
    });
    println!("{updates} key updates");
    assert!(updates > 30, "{updates} updates");
}
