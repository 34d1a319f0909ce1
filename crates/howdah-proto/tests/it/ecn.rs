//! Marks between two connections: they are asked for, tested, counted and told; paths that spoil the field are found out.

use crate::support::hand::{Hand, tls_config};
use howdah_core::{Ecn, Span, Time};
use howdah_proto::{Config, EcnFault, EcnState, Stats};

const SIZE: u64 = 3_000_000;

/// What a path makes of the ECN field.
type Carry = fn(Ecn) -> Ecn;

/// Sends over a path that does this to the ECN field; the sender's and the receiver's counters at the end, and how many packets
/// left with which field.
fn send(configs: [Config; 2], carry: Carry) -> ([Stats; 2], [u64; 4]) {
    let [client, server] = configs;
    let mut hand = Hand::new(client, server, Span::from_millis(20));
    hand.mbit_per_sec = 50;
    hand.carry_ecn = carry;
    let id = hand.transfer(true, SIZE);
    let mut left = [0; 4];
    let limit = Time::ZERO + Span::from_secs(60);
    let done = hand.run(
        limit,
        |hand| hand.client.connection.acked_bytes(id) == SIZE,
        |_, packet| {
            if packet.to_server {
                left[packet.ecn as usize] += 1;
            }
            vec![Span::ZERO]
        },
    );
    assert!(done, "it arrives, whatever becomes of the marks");
    let stats = [&hand.client, &hand.server].map(|side| side.connection.stats());
    (stats, left)
}

fn without() -> Config {
    Config {
        ecn: false,
        ..tls_config(3)
    }
}

#[test]
fn packets_can_be_marked_after_the_first_few() {
    let ([sender, _], left) = send([tls_config(1), tls_config(2)], |ecn| ecn);
    assert_eq!(sender.ecn, EcnState::Capable);
    assert_eq!(sender.packets_marked, 0);
    let [plain, ect1, ect0, ce] = left;
    assert_eq!((ect0, ce), (0, 0));
    assert!(ect1 > plain * 2, "{left:?}");
}

#[test]
fn nothing_is_marked_unless_both_sides_know_marks() {
    for configs in [
        [tls_config(1), without()],
        [without(), tls_config(2)],
        [without(), without()],
    ] {
        let ([sender, receiver], left) = send(configs, |ecn| ecn);
        assert_eq!((sender.ecn, receiver.ecn), (EcnState::Off, EcnState::Off));
        assert_eq!(left[1..], [0; 3]);
    }
}

#[test]
fn a_path_that_spoils_the_field_is_done_without() {
    let failed = EcnState::Failed;
    let paths: [(Carry, EcnState); 4] = [
        (|_| Ecn::NotEct, failed(EcnFault::Bleached)),
        (
            |ecn| if ecn.is_capable() { Ecn::Ect0 } else { ecn },
            failed(EcnFault::Mangled),
        ),
        (
            |ecn| if ecn.is_capable() { Ecn::Ce } else { ecn },
            // It could be a full queue: that is looked at again, later.
            EcnState::Testing,
        ),
        (|_| Ecn::Ce, failed(EcnFault::Mangled)),
    ];
    for (path, state) in paths {
        let ([sender, _], _) = send([tls_config(1), tls_config(2)], path);
        assert_eq!(sender.ecn, state);
    }
}

#[test]
fn packets_that_die_of_the_field_are_sent_again_without() {
    let mut hand = Hand::new(tls_config(1), tls_config(2), Span::from_millis(20));
    let id = hand.transfer(true, SIZE);
    let mut died = 0;
    let limit = Time::ZERO + Span::from_secs(60);
    let done = hand.run(
        limit,
        |hand| hand.client.connection.acked_bytes(id) == SIZE,
        |_, packet| {
            if packet.ecn.is_capable() {
                died += 1;
                return Vec::new();
            }
            vec![Span::ZERO]
        },
    );
    assert!(done);
    let stats = hand.client.connection.stats();
    assert_ne!(stats.ecn, EcnState::Capable);
    assert!((1..100).contains(&died), "{died}");
}
