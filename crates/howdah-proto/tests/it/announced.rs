//! Messages that announce an object, and its bytes, which may overtake them.

use crate::support::hand::{Hand, HandSide, Packet, tls_config};
use crate::support::{at, ms, secs};
use howdah_core::{Span, Time};
use howdah_proto::Event;

const HALF_RTT: Span = ms(50);

/// An object whose announcement comes so much later than what was sent with it. Returns both ends when all of it has come.
fn announced_late(upward: bool, by: Span, size: u64) -> Hand {
    let mut hand = Hand::new(tls_config(1), tls_config(2), HALF_RTT);
    let sender = &mut ends(&mut hand, upward)[0].connection;
    let object = sender.allocate_object();
    sender.send_control(b"an object");
    sender.send_object(object, Some(size), u64::MAX);
    sender.set_readable(object, size);
    let mut fate = |_: Time, packet: &Packet| {
        let is_late = packet.to_server == upward && packet.is_of_session() && !packet.is_data();
        vec![if is_late { by } else { Span::ZERO }]
    };
    let events = |hand: &Hand, wanted: fn(&Event) -> bool| {
        let receiver = if upward { &hand.server } else { &hand.client };
        receiver.events.iter().any(wanted)
    };
    let is_announced = |hand: &Hand| events(hand, |event| matches!(event, Event::Control(_)));
    assert!(hand.run(at(secs(5)), is_announced, &mut fate));
    let receiver = &mut *ends(&mut hand, upward)[1];
    assert_eq!(receiver.placed, 0);
    assert!(receiver.connection.receive_object(object, Some(size), None));
    let is_complete = |hand: &Hand| events(hand, |event| matches!(event, Event::ObjectComplete(_)));
    assert!(hand.run(at(secs(30)), is_complete, &mut fate));
    assert_eq!(ends(&mut hand, upward)[1].placed, size);
    hand
}

/// Who sends, and who receives.
fn ends(hand: &mut Hand, upward: bool) -> [&mut HandSide; 2] {
    if upward {
        [&mut hand.client, &mut hand.server]
    } else {
        [&mut hand.server, &mut hand.client]
    }
}

#[test]
fn what_overtakes_its_announcement_is_kept() {
    for upward in [true, false] {
        let mut hand = announced_late(upward, ms(5), 30_000);
        let sender = &ends(&mut hand, upward)[0].connection;
        assert_eq!(sender.stats().packets_lost, 0, "upward {upward}");
        // The handshake, which the client knows of first, and the way.
        let ways = if upward { 3 } else { 4 };
        assert!(hand.now < at(HALF_RTT * ways + ms(20)), "{}", hand.now);
    }
}

#[test]
fn what_is_more_than_can_be_kept_is_sent_again() {
    // By then more than a megabyte has come.
    let hand = announced_late(true, ms(700), 20_000_000);
    assert!(hand.client.connection.stats().packets_lost > 0);
}
