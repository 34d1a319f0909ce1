//! The train of packets in the first flight of a client that is about to send much (docs/protocol.md, section 6.8).

use crate::support::hand::{Fates, Hand, Packet, tls_config};
use crate::support::{Net, at, for_seeds, ms, path, secs};
use howdah_core::{Rate, Span};
use howdah_path::LossModel;
use howdah_path::PathConfig;
use howdah_proto::{Config, Event};

/// One packet less than a first packet has.
const FILLING: u64 = 1_199;
const HALF_RTT: Span = ms(50);

fn client(train: bool) -> Config {
    Config {
        train,
        ..tls_config(1)
    }
}

/// Both ends, real keys, a link of 1 Gbit/s; what the client's packets below the first data and the server's meet.
fn begun(train: bool, fates: impl FnMut(Span, &Packet) -> Fates) -> (Hand, u64) {
    let mut hand = Hand::new(client(train), tls_config(2), HALF_RTT);
    hand.mbit_per_sec = 1_000;
    hand.transfer(true, 100 << 20);
    let mut fates = fates;
    let mut fillings = 0;
    let connected = |hand: &Hand| {
        let events = &hand.client.events;
        let is_connected = |event: &Event| matches!(event, Event::Connected { .. });
        events.iter().any(is_connected)
    };
    let mut fate = |now: howdah_core::Time, packet: &Packet| {
        fillings += u64::from(packet.to_server && packet.len() == FILLING);
        fates(now.since(howdah_core::Time::ZERO), packet)
    };
    assert!(hand.run(at(secs(5)), connected, &mut fate));
    // What the server says of the train is a train's length behind its flight.
    let soon = hand.now + ms(2);
    hand.run(soon, |_| false, &mut fate);
    (hand, fillings)
}

fn rate_of(hand: &Hand) -> Rate {
    hand.client.connection.stats().pacing_rate
}

fn arrives(_: Span, _: &Packet) -> Fates {
    vec![Span::ZERO]
}

#[test]
fn what_a_train_shows_is_known_when_the_handshake_is_over() {
    let (without, fillings) = begun(false, arrives);
    assert_eq!(fillings, 0);
    let (with, fillings) = begun(true, arrives);
    // The hello takes the two that are missing.
    assert_eq!(fillings, 18);
    assert!(with.now < at(HALF_RTT * 2 + ms(3)), "{}", with.now);
    assert!(rate_of(&without) < Rate::from_mbit_per_sec(20));
    assert!(
        rate_of(&with) >= Rate::from_mbit_per_sec(240),
        "{}",
        rate_of(&with)
    );
}

/// Part of it is enough, whichever; and so is any of the words about it.
#[test]
fn some_of_it_may_be_lost() {
    let last_two = |_: Span, packet: &Packet| {
        let is_lost = packet.to_server && packet.len() == FILLING && packet.index >= 18;
        if is_lost {
            Vec::new()
        } else {
            vec![Span::ZERO]
        }
    };
    let every_fifth = |_: Span, packet: &Packet| {
        let is_lost = packet.to_server && packet.len() == FILLING && packet.index % 5 == 4;
        if is_lost {
            Vec::new()
        } else {
            vec![Span::ZERO]
        }
    };
    for rate in [
        rate_of(&begun(true, last_two).0),
        rate_of(&begun(true, every_fifth).0),
    ] {
        assert!(rate >= Rate::from_mbit_per_sec(240), "{rate}");
    }
    let mut words = 0;
    let one_word = |_: Span, packet: &Packet| {
        let is_word = !packet.to_server && packet.len() < 60;
        words += u32::from(is_word);
        if is_word && words != 2 {
            Vec::new()
        } else {
            vec![Span::ZERO]
        }
    };
    let (hand, _) = begun(true, one_word);
    assert!(rate_of(&hand) >= Rate::from_mbit_per_sec(240));
    assert!(words >= 3, "{words}");
}

/// Of which most is lost shows no path that would bear more.
#[test]
fn a_train_of_which_most_is_lost_changes_nothing() {
    let every_third = |_: Span, packet: &Packet| {
        let is_lost = packet.to_server && packet.len() == FILLING && packet.index % 3 != 1;
        if is_lost {
            Vec::new()
        } else {
            vec![Span::ZERO]
        }
    };
    let (hand, _) = begun(true, every_third);
    assert!(rate_of(&hand) < Rate::from_mbit_per_sec(20));
}

/// Nobody knows what became of the first, and a path that lost it is not filled up again.
#[test]
fn a_flight_that_is_repeated_has_none() {
    let nothing_at_first = |since: Span, packet: &Packet| {
        if packet.to_server && since < ms(100) {
            Vec::new()
        } else {
            vec![Span::ZERO]
        }
    };
    let (hand, fillings) = begun(true, nothing_at_first);
    assert_eq!(fillings, 18);
    assert!(rate_of(&hand) < Rate::from_mbit_per_sec(20));
}

/// Every node checks at each departure that no more is answered than came.
#[test]
fn a_train_under_loss_ends_in_a_connection() {
    for_seeds("trains", 300, |seed| {
        let lossy = PathConfig {
            loss: LossModel::Bernoulli(0.2),
            duplicate: 0.1,
            ..path(Rate::from_mbit_per_sec(100), ms(40), 1_500)
        };
        let config = Config {
            train: true,
            ..howdah_proto::sim::sim_config()
        };
        let mut net = Net::with(seed, &lossy, &lossy, config.clone(), config);
        net.upload(200_000);
        net.run_to_end(secs(30), "an upload behind a train");
    });
}

/// Whatever one packet of the handshake is lost, both sides are where they would be without.
#[test]
fn a_lost_packet_of_the_handshake_costs_no_round_trip() {
    let connected = |events: &[Event]| {
        let is_connected = |event: &Event| matches!(event, Event::Connected { .. });
        events.iter().any(is_connected)
    };
    let both = |lost: Option<(bool, u64)>| {
        let mut hand = Hand::new(client(true), tls_config(2), HALF_RTT);
        hand.mbit_per_sec = 1_000;
        hand.transfer(true, 1 << 20);
        let fate = |_: howdah_core::Time, packet: &Packet| {
            if lost == Some((packet.to_server, packet.index)) {
                Vec::new()
            } else {
                vec![Span::ZERO]
            }
        };
        let done = |hand: &Hand| connected(&hand.client.events) && connected(&hand.server.events);
        assert!(hand.run(at(secs(5)), done, fate), "{lost:?}");
        hand.now
    };
    let whole = both(None);
    assert!(whole < at(HALF_RTT * 3 + ms(3)), "{whole}");
    // The two of the hello, the train, and the last flight; the server's flight and what it says of the train.
    let to_server = (0..24).map(|index| (true, index));
    let to_client = (0..6).map(|index| (false, index));
    for lost in to_server.chain(to_client) {
        let at = both(Some(lost));
        assert!(at < whole + ms(3), "{lost:?}: {at}");
    }
}

/// What is said twice is answered at the first time, which a slow path has long behind it at the second.
#[test]
fn a_flight_that_is_said_twice_is_timed_from_the_first() {
    let mut hand = Hand::new(client(true), tls_config(2), HALF_RTT);
    hand.mbit_per_sec = 2;
    let connected = |event: &Event| matches!(event, Event::Connected { .. });
    let done = |hand: &Hand| hand.server.events.iter().any(connected);
    assert!(hand.run(at(secs(5)), done, |_, _| vec![Span::ZERO]));
    let rtt = hand.server.connection.rtt();
    assert!((HALF_RTT * 2..HALF_RTT * 3).contains(&rtt), "{rtt}");
}
