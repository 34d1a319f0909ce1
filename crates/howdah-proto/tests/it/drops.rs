//! Every single packet of a small transfer is lost once: the transfer ends, and soon.

use crate::support::hand::{Hand, tls_config};
use crate::support::{Net, at, ms, path, secs};
use howdah_core::{Rate, Span};
use howdah_path::{LossModel, PathConfig};
use howdah_proto::Event;
use howdah_proto::error::{CloseCode, ConnectionError};
use howdah_sim::Fate;

const RTT: Span = ms(40);

fn small_transfer(lost_out: &[u64], lost_back: &[u64]) -> Net {
    let clean = path(Rate::from_mbit_per_sec(100), RTT, 1_500);
    let lossy = |list: &[u64]| PathConfig {
        loss: LossModel::List(list.to_vec()),
        ..clean.clone()
    };
    let mut net = Net::new(1, &lossy(lost_out), &lossy(lost_back));
    net.upload(40_000);
    net.download(20_000);
    for (end, other) in [(net.ends.a, net.ends.b), (net.ends.b, net.ends.a)] {
        let connection = net.world.endpoint_mut(end).connection_mut();
        connection.send_control(b"hello");
        net.world.endpoint_mut(other).expect_control(1);
    }
    net
}

fn clean_time() -> Span {
    small_transfer(&[], &[]).run_to_end(secs(10), "clean")
}

/// What a loss may cost: before an RTT is known the first retry's wait, then a probe timeout (RTT
/// and its variance, the longest time between reports), and the round trip of the repair.
const HANDSHAKE_COST: Span = ms(700);
const LOSS_COST: Span = ms(250);

#[test]
fn any_one_packet_may_be_lost() {
    let clean = clean_time();
    let mut worst = Span::ZERO;
    for n in 0..60 {
        for lost in [([n].as_slice(), [].as_slice()), (&[], &[n])] {
            let mut net = small_transfer(lost.0, lost.1);
            let spent = net.run_to_end(secs(20), &format!("packets lost: {lost:?}"));
            let cost = spent.saturating_sub(clean);
            let limit = if n < 3 { HANDSHAKE_COST } else { LOSS_COST };
            assert!(cost <= limit, "loss of {lost:?} costs {cost}");
            if n >= 3 {
                worst = worst.max(cost);
            }
        }
    }
    println!("clean {clean}, the dearest loss after the handshake costs {worst}");
}

#[test]
fn any_few_packets_in_a_row_may_be_lost() {
    let clean = clean_time();
    for count in [2, 3, 5] {
        for n in 0..60 {
            let lost: Vec<u64> = (n..n + count).collect();
            for both in [
                (lost.as_slice(), [].as_slice()),
                (&[], &lost),
                (&lost, &lost),
            ] {
                let mut net = small_transfer(both.0, both.1);
                let spent = net.run_to_end(secs(20), &format!("packets lost: {both:?}"));
                let cost = spent.saturating_sub(clean);
                // Retries of the handshake are a second apart at most.
                assert!(cost <= secs(8), "loss of {both:?} costs {cost}");
            }
        }
    }
}

/// The last data packets and the reports about them.
#[test]
fn any_packet_at_the_end_of_a_long_transfer_may_be_lost() {
    let clean = path(Rate::from_mbit_per_sec(100), RTT, 1_500);
    let run = |out: Vec<u64>, back: Vec<u64>| {
        let about = format!("lost {out:?} and {back:?}");
        let with = |list| PathConfig {
            loss: LossModel::List(list),
            ..clean.clone()
        };
        let mut net = Net::new(1, &with(out), &with(back));
        net.upload(1_000_000);
        let spent = net.run_to_end(secs(20), &about);
        let sent = (net.client().log.datagrams, net.server().log.datagrams);
        (spent, sent)
    };
    let (clean_spent, sent) = run(vec![], vec![]);
    for back in 1..40 {
        for lost in [
            (vec![sent.0 - back], vec![]),
            (vec![], vec![sent.1.saturating_sub(back)]),
            ((sent.0 - back..sent.0).collect(), vec![]),
        ] {
            let (spent, _) = run(lost.0.clone(), lost.1.clone());
            let cost = spent.saturating_sub(clean_spent);
            assert!(cost <= ms(300), "loss of {lost:?} costs {cost}");
        }
    }
}

#[test]
fn a_close_is_heard_if_one_of_its_copies_arrives_and_times_out_if_none_does() {
    for lost in [0b00, 0b01, 0b10, u64::MAX] {
        let mut net = small_transfer(&[], &[]);
        net.run_to_end(secs(10), "before the close");
        // Let the reports about the end come to rest.
        let now = at(secs(1));
        net.world.run_until(now);
        let mut seen = 0;
        net.world.on_arrival(net.ends.b, move |_, _| {
            let is_lost = lost >> seen & 1 == 1;
            seen = (seen + 1).min(63);
            if is_lost {
                Fate::Discard
            } else {
                Fate::Deliver
            }
        });
        let client = net.world.endpoint_mut(net.ends.a).connection_mut();
        client.close(now, CloseCode::Application, "enough");
        net.world.run_until(now + secs(10));
        let (when, error) = net.server().closed.clone().expect("closed");
        if lost == u64::MAX {
            assert_eq!(error, ConnectionError::TimedOut);
            assert!(when <= now + secs(8) + ms(100), "{when}");
        } else {
            let told = ConnectionError::ClosedByPeer {
                code: CloseCode::Application,
                reason: "enough".into(),
            };
            assert_eq!(error, told);
            assert!(when <= now + RTT, "{when}");
        }
    }
}

/// The host gets no time to send before the close would be forgotten.
#[test]
fn a_host_that_is_busy_tells_the_end_all_the_same() {
    for late in [ms(0), RTT * 3, secs(4)] {
        let mut net = small_transfer(&[], &[]);
        net.run_to_end(secs(10), "before the close");
        let now = at(secs(1));
        net.world.run_until(now);
        let server = net.world.endpoint_mut(net.ends.b).connection_mut();
        server.close(now, CloseCode::Unauthorized, "not you");
        server.handle_timeout(now + late);
        net.world.run_until(now + secs(1));
        let (when, error) = net.client().closed.clone().expect("closed");
        let told = ConnectionError::ClosedByPeer {
            code: CloseCode::Unauthorized,
            reason: "not you".into(),
        };
        assert_eq!(error, told, "{late} late");
        assert!(when <= now + RTT, "{when}");
    }
}

/// Both copies are lost, but the peer is sending and so is told again.
#[test]
fn a_peer_that_sends_on_is_told_again_that_it_is_over() {
    let mut net = Net::symmetric(1, &path(Rate::from_mbit_per_sec(100), RTT, 1_500));
    net.upload(1 << 40);
    let now = at(ms(500));
    net.world.run_until(now);
    let server = net.world.endpoint_mut(net.ends.b).connection_mut();
    server.close(now, CloseCode::Application, "disk full");
    let mut left = 2;
    net.world.on_arrival(net.ends.a, move |time, _| {
        // Reports that were on the way come first.
        if time > now + RTT / 2 - Span::from_nanos(1) && left > 0 {
            left -= 1;
            return Fate::Discard;
        }
        Fate::Deliver
    });
    net.world.run_until(now + secs(1));
    let (when, error) = net.client().closed.clone().expect("closed");
    assert!(
        matches!(error, ConnectionError::ClosedByPeer { .. }),
        "{error}"
    );
    assert!(when <= now + RTT * 2, "{when}");
}

/// The same with TLS flights of their real size, packets really sealed.
#[test]
fn any_packet_of_a_tls_handshake_may_be_lost() {
    let run = |lost: Option<(bool, u64)>| {
        let mut hand = Hand::new(tls_config(1), tls_config(2), RTT / 2);
        hand.transfer(true, 10_000);
        hand.transfer(false, 10_000);
        let complete = |hand: &Hand| {
            let has = |events: &[Event]| {
                events
                    .iter()
                    .any(|event| matches!(event, Event::ObjectComplete(_)))
            };
            has(&hand.client.events) && has(&hand.server.events)
        };
        let done = hand.run(at(secs(12)), complete, |_, packet| {
            if lost == Some((packet.to_server, packet.index)) {
                vec![]
            } else {
                vec![Span::ZERO]
            }
        });
        assert!(done, "lost {lost:?}: {:?}", hand.client.events);
        (hand.now, hand.client.placed + hand.server.placed)
    };
    let (clean, placed) = run(None);
    assert_eq!(placed, 20_000);
    println!("clean {clean}");
    for to_server in [true, false] {
        for n in 0..20 {
            let (spent, placed) = run(Some((to_server, n)));
            assert_eq!(placed, 20_000);
            let cost = spent.since(clean);
            assert!(cost <= HANDSHAKE_COST, "({to_server}, {n}) costs {cost}");
        }
    }
}
