//! Addresses that change under a running transfer (NAT rebinding, a phone that moves).

use crate::support::hand::{Hand, tls_config};
use crate::support::{at, config, craft, ms, secs};
use howdah_core::{ObjectId, Rate, Span};
use howdah_proto::codec::Frame;
use howdah_proto::{Config, Event, Policy};
use std::collections::BTreeMap;
use std::net::SocketAddr;

fn address(port: u16) -> SocketAddr {
    SocketAddr::new([192, 0, 2, 1].into(), port)
}

fn path_changes(events: &[Event]) -> Vec<SocketAddr> {
    events
        .iter()
        .filter_map(|event| match event {
            Event::PathChanged(address) => Some(*address),
            _ => None,
        })
        .collect()
}

fn is_complete(hand: &Hand, id: ObjectId) -> bool {
    let done = Event::ObjectComplete(id);
    hand.client.events.contains(&done) || hand.server.events.contains(&done)
}

/// A running transfer of 4 MB in one direction; the path carries 100 Mbit/s.
fn running(upward: bool, sealed: bool) -> (Hand, ObjectId) {
    let (client, server) = if sealed {
        (tls_config(1), tls_config(2))
    } else {
        (config(), config())
    };
    let mut hand = Hand::new(client, server, ms(10));
    hand.mbit_per_sec = 100;
    let id = hand.transfer(upward, 4_000_000);
    assert!(!hand.run(at(ms(200)), |_| false, |_, _| vec![Span::ZERO]));
    assert!(!is_complete(&hand, id));
    (hand, id)
}

#[test]
fn the_new_address_gets_data_only_after_it_answered() {
    for sealed in [false, true] {
        for upward in [true, false] {
            let (mut hand, id) = running(upward, sealed);
            let (old, new) = (hand.client_address, address(2_222));
            hand.client_address = new;
            let moved_at = hand.now;
            let mut sent = Vec::new();
            let proved = hand.run(
                at(secs(20)),
                |hand| hand.server.connection.remote() == new,
                |now, packet| {
                    if packet.to == new {
                        sent.push((now, packet.len()));
                    }
                    vec![Span::ZERO]
                },
            );
            assert!(proved, "sealed {sealed}, upward {upward}");
            // The client's next packet (a report, a probe), the challenge and its answer.
            let spent = hand.now.since(moved_at);
            println!("sealed {sealed}, upward {upward}: proved after {spent}");
            assert!(spent <= ms(250), "{spent}");
            // Before the answer came, the challenge and perhaps one more.
            let unproved = sent.iter().filter(|&&(time, _)| time < hand.now);
            let unproved: u64 = unproved.map(|&(_, len)| len).sum();
            assert!((1..=100).contains(&unproved), "{unproved} bytes unproved");
            let whole = |_, _: &_| vec![Span::ZERO];
            assert!(hand.run(at(secs(20)), |hand| is_complete(hand, id), whole));
            assert_eq!(path_changes(&hand.server.events), [new]);
            assert_eq!(path_changes(&hand.client.events), []);
            assert_ne!(old, new);
        }
    }
}

#[test]
fn a_challenge_or_its_answer_may_be_lost() {
    for lost in 1..=2 {
        let (mut hand, id) = running(false, false);
        let new = address(3_333);
        hand.client_address = new;
        let mut count = 0;
        let done = hand.run(
            at(secs(20)),
            |hand| is_complete(hand, id),
            |_, packet| {
                if !packet.to_server && packet.to == new && !packet.is_data() {
                    count += 1;
                    if count <= lost {
                        return vec![];
                    }
                }
                vec![Span::ZERO]
            },
        );
        assert!(done, "{lost} lost");
        assert_eq!(path_changes(&hand.server.events), [new]);
    }
}

/// Somebody copies one packet and sends it from elsewhere; he cannot answer the challenge.
#[test]
fn a_copied_packet_moves_nothing() {
    let (mut hand, id) = running(false, false);
    let (home, elsewhere) = (hand.client_address, address(6_666));
    let mut to_elsewhere = 0;
    // One packet of the client seems to come from elsewhere.
    let mut copied = false;
    let done = hand.run_with_sources(
        at(secs(20)),
        |hand| is_complete(hand, id),
        |_, packet| {
            if packet.to == elsewhere {
                to_elsewhere += packet.len();
            }
            vec![Span::ZERO]
        },
        |packet| {
            if packet.to_server && !copied {
                copied = true;
                return elsewhere;
            }
            packet.from
        },
    );
    assert!(done);
    assert_eq!(path_changes(&hand.server.events), []);
    assert_eq!(hand.server.connection.remote(), home);
    // Five challenges of less than 40 bytes each, not answered.
    assert!(
        (1..=250).contains(&to_elsewhere),
        "{to_elsewhere} bytes elsewhere"
    );
}

/// The server sends, the client has nothing to say: it speaks up because it hears nothing.
#[test]
fn a_port_that_changes_every_second_is_followed_each_time() {
    let fixed = Config {
        policy: Policy::Fixed(Rate::from_mbit_per_sec(20)),
        ..config()
    };
    let mut hand = Hand::new(fixed.clone(), fixed, ms(10));
    hand.transfer(false, 1 << 30);
    let whole = |_, _: &_| vec![Span::ZERO];
    hand.run(at(secs(1)), |_| false, whole);
    for second in 2..20 {
        let new = address(4_000 + second);
        hand.client_address = new;
        let before = hand.client.placed;
        let followed = |hand: &Hand| hand.server.connection.remote() == new;
        let limit = hand.now + ms(500);
        assert!(hand.run(limit, followed, whole), "second {second}");
        hand.run(at(secs(second.into())), |_| false, whole);
        assert!(
            hand.client.placed > before,
            "second {second} brings nothing"
        );
    }
    assert_eq!(path_changes(&hand.server.events).len(), 18);
}

/// Nothing is sent when it happens: the keep-alive finds out.
#[test]
fn an_idle_connection_survives_a_rebinding() {
    let mut hand = Hand::new(config(), config(), ms(10));
    let whole = |_, _: &_| vec![Span::ZERO];
    hand.run(at(secs(1)), |_| false, whole);
    hand.client_address = address(5_555);
    hand.run(at(secs(30)), |_| false, whole);
    assert_eq!(path_changes(&hand.server.events), [address(5_555)]);
    assert!(hand.client.connection.is_established() && hand.server.connection.is_established());
}

/// Whoever has the keys of a session sends small packets that seem to come from somebody else's address, or from two in turns.
#[test]
fn h18_an_address_that_is_not_proved_gets_no_more_bytes_than_came_from_there() {
    let kinds: [&[Frame<'_>]; 3] = [
        &[Frame::Ping],
        &[Frame::PathChallenge(7)],
        &[
            Frame::PathChallenge(7),
            Frame::PathChallenge(8),
            Frame::Ping,
        ],
    ];
    for (frames, addresses) in kinds.into_iter().zip([1, 1, 2]) {
        let mut hand = Hand::new(config(), config(), ms(10));
        hand.run(at(secs(1)), |_| false, |_, _| vec![Span::ZERO]);
        let (mut came, mut sent) = (BTreeMap::new(), BTreeMap::<SocketAddr, u64>::new());
        for n in 0..50 {
            let elsewhere = address(6_666 + (n % addresses) as u16);
            *came.entry(elsewhere).or_insert(0) +=
                hand.forge(elsewhere, craft::packet(10_000 + n, frames));
            let home = hand.client_address;
            let limit = hand.now + ms(100);
            hand.run(
                limit,
                |_| false,
                |_, packet| {
                    if !packet.to_server && packet.to != home {
                        *sent.entry(packet.to).or_insert(0) += packet.len();
                    }
                    vec![]
                },
            );
            for (to, bytes) in &sent {
                assert!(
                    *bytes <= came[to],
                    "{frames:?}: {bytes} bytes for {}",
                    came[to]
                );
            }
        }
        // It is asked, and answered, all the same.
        assert_eq!(sent.len() as u64, addresses, "{frames:?}");
        assert_eq!(path_changes(&hand.server.events), []);
    }
}
