//! Messages that announce an object, and its bytes, which may overtake them.

use crate::support::hand::{Hand, Packet, tls_config};
use crate::support::{at, ms, secs};
use howdah_core::{Span, Time};
use howdah_proto::Event;

const HALF_RTT: Span = ms(50);

/// An object whose announcement comes so much later than what was sent with it. Returns both ends when all of it has come.
fn announced_late(by: Span, size: u64) -> Hand {
    let mut hand = Hand::new(tls_config(1), tls_config(2), HALF_RTT);
    let client = &mut hand.client.connection;
    let object = client.allocate_object();
    client.send_control(b"an object");
    client.send_object(object, Some(size), u64::MAX);
    client.set_readable(object, size);
    let mut fate = |_: Time, packet: &Packet| {
        let is_late = packet.to_server && packet.is_of_session() && !packet.is_data();
        vec![if is_late { by } else { Span::ZERO }]
    };
    let is_announced = |hand: &Hand| {
        let mut events = hand.server.events.iter();
        events.any(|event| matches!(event, Event::Control(_)))
    };
    assert!(hand.run(at(secs(5)), is_announced, &mut fate));
    assert_eq!(hand.server.placed, 0);
    let server = &mut hand.server.connection;
    assert!(server.receive_object(object, Some(size), None));
    let is_complete = |hand: &Hand| {
        let mut events = hand.server.events.iter();
        events.any(|event| matches!(event, Event::ObjectComplete(_)))
    };
    assert!(hand.run(at(secs(30)), is_complete, &mut fate));
    assert_eq!(hand.server.placed, size);
    hand
}

#[test]
fn what_overtakes_its_announcement_is_kept() {
    let size = 30_000;
    let hand = announced_late(ms(5), size);
    assert_eq!(hand.client.connection.stats().packets_lost, 0);
    // The handshake, and the way.
    assert!(hand.now < at(HALF_RTT * 3 + ms(20)), "{}", hand.now);
}

#[test]
fn what_is_more_than_can_be_kept_is_sent_again() {
    // By then more than a megabyte has come.
    let hand = announced_late(ms(700), 20_000_000);
    assert!(hand.client.connection.stats().packets_lost > 0);
}
