//! Paths that carry nothing for a while, or for good.

use crate::support::{Net, at, ms, path, secs};
use howdah_core::{Rate, Span, WakeReason};
use howdah_path::{LossModel, PathConfig};
use howdah_proto::error::ConnectionError;

const RTT: Span = ms(50);

fn clean() -> PathConfig {
    path(Rate::from_mbit_per_sec(100), RTT, 1_500)
}

fn dead() -> PathConfig {
    PathConfig {
        loss: LossModel::Bernoulli(1.0),
        ..clean()
    }
}

/// Nothing gets through in either direction from `from` for `span`.
fn outage(net: &mut Net, from: Span, span: Span) {
    for path in [net.link.forward, net.link.backward] {
        net.world
            .at(at(from), move |world| world.set_path_config(path, &dead()));
        net.world.at(at(from + span), move |world| {
            world.set_path_config(path, &clean());
        });
    }
}

#[test]
fn two_seconds_of_every_five_are_black_and_the_transfer_goes_on() {
    let mut net = Net::symmetric(1, &clean());
    net.upload(60_000_000);
    for round in 0..12 {
        outage(&mut net, secs(5 * round + 3), secs(2));
    }
    // 5 s of a clean path, so 9 s with the pauses; twice that with the restarts.
    let spent = net.run_to_end(secs(60), "2 s of every 5");
    println!("60 MB at 100 Mbit/s in {spent}");
    assert!(spent <= secs(18), "{spent}");
}

#[test]
fn an_outage_shorter_than_the_idle_timeout_is_survived_and_ends_soon_after() {
    for (start, length) in [
        (ms(300), secs(6)),
        (ms(1_200), ms(7_500)),
        (ms(20), secs(4)),
    ] {
        let mut net = Net::symmetric(2, &clean());
        let id = net.upload(50_000_000);
        outage(&mut net, start, length);
        let back = at(start + length);
        net.world.run_until(back);
        let before = net.server().connection().received_bytes(id);
        net.world.run_until(back + ms(1_300));
        let server = net.server().connection();
        assert!(
            server.received_bytes(id) > before,
            "nothing moves after an outage from {start} for {length}: {}",
            net.client()
        );
        let spent = net.run_to_end(secs(30), "outage");
        println!("outage from {start} for {length}: {spent}");
    }
}

#[test]
fn an_outage_longer_than_the_idle_timeout_ends_both_sides_with_a_plain_word() {
    for (seed, upward) in [(1, true), (2, false)] {
        let mut net = Net::symmetric(seed, &clean());
        if upward {
            net.upload(1 << 40);
        } else {
            net.download(1 << 40);
        }
        let start = secs(2);
        outage(&mut net, start, secs(100));
        net.world.run_until(at(secs(60)));
        for node in [net.client(), net.server()] {
            let (when, error) = node.closed.clone().expect("closed");
            assert_eq!(error, ConnectionError::TimedOut);
            let idle = secs(8);
            // What was on the way when the path died still arrives.
            assert!(
                when >= at(start + idle) && when <= at(start + idle + RTT * 2),
                "{when}"
            );
        }
    }
}

#[test]
fn an_idle_connection_notices_an_outage_too() {
    let mut net = Net::symmetric(3, &clean());
    net.world.run_until(at(secs(20)));
    outage(&mut net, secs(20), secs(100));
    net.world.run_until(at(secs(60)));
    for node in [net.client(), net.server()] {
        let (when, error) = node.closed.clone().expect("closed");
        assert_eq!(error, ConnectionError::TimedOut);
        assert!(when <= at(secs(29)), "{when}");
    }
}

fn set_quiet(net: &mut Net, client: bool, server: bool) {
    let now = net.world.now();
    for (end, is_quiet) in [(net.ends.a, client), (net.ends.b, server)] {
        let node = net.world.endpoint_mut(end);
        node.connection_mut().set_quiet(now, is_quiet);
    }
}

/// While nothing is under way the peer is asked seldom whether it is there, and when something is, as often as ever.
#[test]
fn a_quiet_connection_costs_little_outlives_a_longer_outage_and_wakes_as_it_was() {
    // A peer that does not know of this is never quiet: it asks as often as ever, and is answered.
    for (client, server, most) in [(true, true, 60), (true, false, 250), (false, true, 250)] {
        let mut net = Net::symmetric(4, &clean());
        net.upload(100_000);
        net.run_to_end(secs(5), "before the rest");
        set_quiet(&mut net, client, server);
        net.world.run_until(at(secs(20)));
        let before = (net.client().log.datagrams, net.server().log.datagrams);
        net.world.run_until(at(secs(260)));
        let after = (net.client().log.datagrams, net.server().log.datagrams);
        for packets in [after.0 - before.0, after.1 - before.1] {
            assert!(packets <= most, "{packets} in 4 minutes");
        }
        if client && server {
            outage(&mut net, secs(260), secs(20));
        }
        net.world.run_until(at(secs(300)));
        for node in [net.client(), net.server()] {
            assert!(node.closed.is_none(), "{node}");
        }
        // However long nothing was heard before.
        set_quiet(&mut net, false, false);
        net.upload(100_000);
        net.run_to_end(secs(310), "after the rest");
        outage(&mut net, secs(310), secs(100));
        net.world.run_until(at(secs(340)));
        for node in [net.client(), net.server()] {
            let (when, error) = node.closed.clone().expect("closed");
            assert_eq!(error, ConnectionError::TimedOut);
            assert!(when <= at(secs(319)), "{when}");
        }
    }
}

/// A server with thousands of idle clients is not woken for each of them.
#[test]
fn quiet_connections_speak_up_many_at_once() {
    let mut wakes = std::collections::BTreeSet::new();
    for n in 0..100 {
        let mut net = Net::symmetric(n, &clean());
        // They have their last word one after the other, over four seconds.
        net.world.run_until(at(secs(1)) + Span::from_millis(40 * n));
        net.upload(100_000);
        net.run_to_end(secs(10), "before the rest");
        set_quiet(&mut net, true, true);
        let next = loop {
            let (next, why) = net.client().connection().poll_timeout().expect("a timer");
            if why == WakeReason::KeepAlive {
                break next;
            }
            net.world.run_until(next + Span::from_nanos(1));
        };
        wakes.insert(next);
    }
    assert!(wakes.len() <= 10, "{wakes:?}");
}

#[test]
fn a_server_that_never_answers_is_given_up_at_the_handshake_timeout() {
    let mut net = Net::new(4, &dead(), &clean());
    net.world.run_until(at(secs(30)));
    let (when, error) = net.client().closed.clone().expect("closed");
    assert_eq!((when, error), (at(secs(10)), ConnectionError::NoAnswer));
    // Tries get rarer, but do not end.
    let datagrams = net.client().log.datagrams;
    assert!((10..=60).contains(&datagrams), "{datagrams} datagrams");
}

/// The way back is dead: a one-sided firewall.
#[test]
fn a_server_that_is_not_heard_is_given_up_and_gives_up() {
    let mut net = Net::new(5, &clean(), &dead());
    net.world.run_until(at(secs(30)));
    for node in [net.client(), net.server()] {
        let (when, error) = node.closed.clone().expect("closed");
        assert_eq!((when, error), (at(secs(10)), ConnectionError::NoAnswer));
    }
}

/// 30 % loss for the first two seconds does not keep the rate down (F50).
#[test]
fn a_lossy_start_is_forgotten() {
    let mut net = Net::symmetric(6, &clean());
    let id = net.upload(1 << 40);
    let lossy = PathConfig {
        loss: LossModel::Bernoulli(0.3),
        ..clean()
    };
    for path in [net.link.forward, net.link.backward] {
        net.world.set_path_config(path, &lossy);
        net.world.at(at(secs(2)), move |world| {
            world.set_path_config(path, &clean());
        });
    }
    let settled = secs(2) + RTT * 20;
    net.world.run_until(at(settled));
    let before = net.server().connection().received_bytes(id);
    net.world.run_until(at(settled + secs(2)));
    let moved = net.server().connection().received_bytes(id) - before;
    let rate = Rate::from_bytes_over(moved, secs(2));
    assert!(
        rate >= Rate::from_mbit_per_sec(75),
        "{rate}: {}",
        net.client()
    );
}

/// 1 ms, then 400 ms, then 1 ms again (F48).
#[test]
fn a_round_trip_time_that_jumps_stalls_nothing() {
    let with_rtt = |rtt| path(Rate::from_mbit_per_sec(100), rtt, 1_500);
    let mut net = Net::symmetric(7, &with_rtt(ms(1)));
    let id = net.upload(1 << 40);
    for (from, rtt) in [(secs(3), ms(400)), (secs(8), ms(1))] {
        for path in [net.link.forward, net.link.backward] {
            let config = with_rtt(rtt);
            net.world
                .at(at(from), move |world| world.set_path_config(path, &config));
        }
    }
    let mut before = 0;
    for second in 1..=14 {
        net.world.run_until(at(secs(second)));
        let received = net.server().connection().received_bytes(id);
        println!(
            "second {second}: {} Mbit/s",
            (received - before) * 8 / 1_000_000
        );
        assert!(
            received > before,
            "second {second} moves nothing: {}",
            net.client()
        );
        before = received;
    }
}
