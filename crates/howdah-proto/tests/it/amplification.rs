//! No answer is larger than what was received until the address is proved. Every node of every
//! test checks this at each departure; here it is provoked.

use crate::support::hand::{Hand, tls_config};
use crate::support::{Net, at, for_seeds, ms, path, secs};
use howdah_core::Rate;
use howdah_path::{LossModel, PathConfig};

fn clean() -> PathConfig {
    path(Rate::from_mbit_per_sec(100), ms(40), 1_500)
}

fn losing(list: Vec<u64>) -> PathConfig {
    PathConfig {
        loss: LossModel::List(list),
        ..clean()
    }
}

#[test]
fn one_packet_of_a_forger_is_answered_by_no_more_bytes() {
    // Only the first packet, only the second, or both arrive.
    for lost in [1..200, 0..1, 2..200] {
        let mut lost: Vec<u64> = lost.collect();
        if lost == [0] {
            lost.extend(2..200);
        }
        let arrived = 2 - lost.iter().filter(|&&n| n < 2).count() as u64;
        let mut net = Net::new(1, &losing(lost), &clean());
        net.world.run_until(at(secs(15)));
        let server = net.server();
        assert_eq!(server.bytes_in, arrived * 1_200);
        assert!(server.log.bytes <= server.bytes_in);
        assert!(server.log.datagrams <= 60, "{}", server.log.datagrams);
        assert!(server.closed.is_some());
    }
}

/// A client that repeats its first flight for ever, because no answer reaches it.
#[test]
fn repeated_first_flights_are_answered_by_no_more_bytes() {
    let mut net = Net::new(1, &clean(), &losing((0..1_000).collect()));
    net.world.run_until(at(secs(15)));
    let server = net.server();
    assert!(server.bytes_in >= 10 * 1_200);
    assert!(server.log.bytes <= server.bytes_in);
    assert!(server.log.bytes <= 20 * 1_024, "{} bytes", server.log.bytes);
}

#[test]
fn the_limit_holds_under_loss_and_does_not_deadlock() {
    for_seeds("amplification", 500, |seed| {
        let lossy = PathConfig {
            loss: LossModel::Bernoulli(0.25),
            duplicate: 0.1,
            ..clean()
        };
        let mut net = Net::symmetric(seed, &lossy);
        let connected =
            |net: &Net| net.client().connected.is_some() && net.server().connected.is_some();
        while !connected(&net) {
            assert!(
                net.world.now() < at(ms(9_900)),
                "{}\n{}",
                net.client(),
                net.server()
            );
            let now = net.world.now();
            net.world.run_until(now + ms(10));
        }
    });
}

/// The same with real TLS flights, counted by hand.
#[test]
fn real_tls_flights_stay_below_the_limit() {
    let mut hand = Hand::new(tls_config(1), tls_config(2), ms(20));
    let (mut to_server, mut to_client) = (0, 0);
    hand.run(
        at(secs(12)),
        |_| false,
        |_, packet| {
            if packet.to_server {
                // The second flight never arrives.
                if packet.index >= 2 {
                    return vec![];
                }
                to_server += packet.len();
            } else {
                to_client += packet.len();
            }
            assert!(to_client <= to_server, "{to_client} for {to_server}");
            vec![ms(0)]
        },
    );
    assert!(to_client > 1_000);
}
