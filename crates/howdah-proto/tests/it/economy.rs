//! What the protocol costs: feedback, idle connections, memory, the end of a transfer.

use crate::support::hand::{Hand, tls_config};
use crate::support::{Net, at, for_seeds, ms, path, secs};
use howdah_core::{Rate, Span};
use howdah_path::{LossModel, PathConfig};
use howdah_proto::Config;

fn lossy(rate: Rate, rtt: Span, mtu: u32, loss: f64) -> PathConfig {
    PathConfig {
        loss: LossModel::Bernoulli(loss),
        ..path(rate, rtt, mtu)
    }
}

/// IP bytes sent by the receiving side per GiB of object, reports and object bytes, from `from` on
/// for `span`.
fn feedback(path: &PathConfig, from: Span, span: Span) -> (f64, u64, u64) {
    let mut net = Net::symmetric(1, path);
    let id = net.upload(1 << 50);
    let measure = |net: &Net| {
        let connection = net.server().connection();
        let log = &net.server().log;
        let bytes = log.bytes + 28 * log.datagrams;
        (
            bytes,
            connection.received_bytes(id),
            connection.stats().reports_sent,
        )
    };
    net.world.run_until(at(from));
    let before = measure(&net);
    net.world.run_until(at(from + span));
    let after = measure(&net);
    let received = after.1 - before.1;
    let per_gib = (after.0 - before.0) as f64 / received as f64 * f64::from(1 << 30);
    (per_gib, after.2 - before.2, received)
}

#[test]
fn feedback_of_a_long_fat_path_is_a_few_kilobytes_per_gigabyte() {
    let path = lossy(Rate::from_gbit_per_sec(10), ms(100), 9_000, 0.02);
    let (bytes_per_gib, reports, received) = feedback(&path, secs(1), secs(3));
    println!("{bytes_per_gib:.0} bytes per GiB, {reports} reports, {received} bytes");
    assert!(received > 2_500_000_000, "only {received} bytes in 3 s");
    assert!(bytes_per_gib <= 16.0 * 1_024.0, "{bytes_per_gib:.0} bytes");
    // 30 round trips: an eighth of each apart, and a few for who waits.
    assert!(reports <= 30 * 10 + 50, "{reports} reports");
}

/// A flow that has the path for itself is told of as often as it takes to see somebody come.
#[test]
fn reports_are_few_while_nothing_happens() {
    for (rate, rtt, most) in [
        (Rate::from_gbit_per_sec(1), ms(20), 60.0),
        (Rate::from_gbit_per_sec(1), ms(50), 40.0),
        (Rate::from_gbit_per_sec(1), ms(100), 50.0),
        (Rate::from_gbit_per_sec(10), ms(50), 8.0),
    ] {
        let path = lossy(
            rate,
            rtt,
            if rate > Rate::from_gbit_per_sec(1) {
                9_000
            } else {
                1_500
            },
            0.001,
        );
        let (bytes_per_gib, reports, received) = feedback(&path, secs(4), secs(11));
        let kib = bytes_per_gib / 1_024.0;
        println!("{rate} {rtt}: {kib:.1} KiB per GiB, {reports} reports, {received}");
        let share = received as f64 / rate.bytes_in(secs(11)) as f64;
        assert!(share > 0.92, "{rate} {rtt}: {share:.3} of the link");
        assert!(kib <= most, "{rate} {rtt}: {kib:.1} KiB per GiB");
    }
}

/// Reports stay rare on short and on slow paths, too.
#[test]
fn reports_per_time_are_bounded() {
    for (rate, rtt, loss) in [
        (Rate::from_gbit_per_sec(10), Span::from_micros(100), 0.0),
        (Rate::from_gbit_per_sec(1), ms(5), 0.05),
        (Rate::from_mbit_per_sec(20), ms(300), 0.02),
    ] {
        let (_, reports, received) = feedback(&lossy(rate, rtt, 1_500, loss), Span::ZERO, secs(2));
        println!("{rate} {rtt}: {reports} reports for {received} bytes");
        // Every 10 ms at most, but for the first ones.
        assert!(reports <= 200 + 60, "{rate} {rtt}: {reports} reports");
    }
}

/// Small packets at high loss: more holes than one report can name must not stall the sender.
#[test]
fn reports_keep_up_with_many_holes() {
    let rate = Rate::from_gbit_per_sec(10);
    let rtt = ms(100);
    let mut net = Net::symmetric(2, &lossy(rate, rtt, 1_500, 0.05));
    let id = net.upload(1 << 50);
    net.world.run_until(at(ms(2_500)));
    let acked = net.client().connection().acked_bytes(id);
    let received = net.server().connection().received_bytes(id);
    println!(
        "{} of {} unreported after 2.5 s",
        received - acked,
        received
    );
    // What arrived and is not known to have: half a round trip's worth, and that of some reports.
    assert!(received - acked <= rate.bytes_in(rtt), "{}", net.client());
}

#[test]
fn an_idle_connection_lives_on_a_few_packets_a_minute() {
    let mut net = Net::symmetric(1, &path(Rate::from_gbit_per_sec(1), ms(100), 1_500));
    net.upload(100_000);
    net.run_to_end(secs(5), "before the rest");
    net.world.run_until(at(secs(10)));
    let before = (net.client().log.datagrams, net.server().log.datagrams);
    net.world.run_until(at(secs(310)));
    let after = (net.client().log.datagrams, net.server().log.datagrams);
    for (side, packets) in [
        ("client", after.0 - before.0),
        ("server", after.1 - before.1),
    ] {
        println!("{side}: {packets} packets in 5 minutes of rest");
        // A ping every third of 8 s, its report, and the confirmation of that.
        assert!(packets <= 5 * 60 * 3 / 2, "{packets}");
    }
    for node in [net.client(), net.server()] {
        assert!(node.closed.is_none() && node.connection().is_established());
    }
    net.upload(100_000);
    net.run_to_end(secs(312), "after the rest");
}

#[test]
fn an_idle_connection_survives_loss() {
    for_seeds("idle with loss", 50, |seed| {
        let mut net = Net::symmetric(
            seed,
            &lossy(Rate::from_mbit_per_sec(100), ms(200), 1_500, 0.2),
        );
        net.upload(1);
        net.run_to_end(secs(30), "one byte");
        let now = net.world.now();
        net.world.run_until(now + secs(120));
        for node in [net.client(), net.server()] {
            assert!(node.closed.is_none(), "{node}");
        }
    });
}

#[test]
fn memory_is_a_small_multiple_of_the_packets_in_flight() {
    let (rate, rtt, mtu) = (Rate::from_gbit_per_sec(10), ms(400), 9_000);
    let mut net = Net::symmetric(1, &lossy(rate, rtt, mtu, 0.02));
    net.upload(1 << 50);
    let packets = rate.bytes_in(rtt) / u64::from(mtu);
    let mut most = 0;
    while net.world.now() < at(secs(4)) {
        let now = net.world.now();
        net.world.run_until(now + ms(50));
        most = most.max(net.client().connection().stats().packets_remembered);
    }
    println!("{most} packets remembered, {packets} in a BDP");
    assert!(most <= 3 * packets, "{most} packets, {packets} in a BDP");
    assert!(
        most >= packets / 2,
        "the path was not filled: {most} of {packets}"
    );
}

/// The end of a transfer: everything was sent once, some of it is lost.
#[test]
fn a_transfer_ends_soon_after_its_last_byte() {
    let (rate, rtt) = (Rate::from_gbit_per_sec(1), ms(100));
    let size: u64 = 50_000_000;
    let mut over = Vec::new();
    let mut repeated = 0;
    for_seeds("tail", 100, |seed| {
        let mut net = Net::symmetric(seed, &lossy(rate, rtt, 9_000, 0.01));
        let id = net.upload(size);
        let mut all_sent = None;
        while !net.is_done() {
            let now = net.world.now();
            assert!(now < at(secs(20)), "{}", net.client());
            net.world.run_until(now + ms(1));
            if all_sent.is_none() && net.client().connection().sent_end(id) == size {
                all_sent = Some(now);
            }
        }
        // When the receiver has everything, not when the sender knows.
        let end = net.server().complete[0].1;
        over.push(end.since(all_sent.expect("sent")));
        repeated += net.client().connection().stats().tail_bytes_repeated;
    });
    over.sort();
    let at_share = |share: f64| over[((over.len() - 1) as f64 * share) as usize];
    println!(
        "from the last first byte sent to the last byte received: median {}, p90 {}, max {}; {} bytes of tail repeated on average",
        at_share(0.5),
        at_share(0.9),
        at_share(1.0),
        repeated / over.len() as u64
    );
    // Half a round trip to arrive, one for what was lost, and the queue and the reports' distance.
    assert!(at_share(0.5) <= ms(220), "median {}", at_share(0.5));
    assert!(at_share(1.0) <= ms(500), "worst {}", at_share(1.0));
    // Not more than the path holds in a round trip and a half.
    assert!(repeated / over.len() as u64 <= rate.bytes_in(rtt * 3 / 2));
}

/// However seldom a packet is lost: what counts is whether one of the last half round trip is likely to be.
#[test]
fn the_end_is_sent_again_where_a_loss_in_it_is_likely() {
    let (rate, rtt) = (Rate::from_gbit_per_sec(1), ms(200));
    // Of 8,700 packets in half a round trip 0.6 are lost.
    for_seeds("long tail", 4, |seed| {
        let mut net = Net::symmetric(seed, &lossy(rate, rtt, 1_500, 0.00007));
        net.upload(200_000_000);
        while !net.is_done() {
            let now = net.world.now();
            assert!(now < at(secs(20)), "{}", net.client());
            net.world.run_until(now + ms(10));
        }
        let stats = net.client().connection().stats();
        assert!(stats.packets_lost > 0 && stats.packets_lost < 60);
        assert!(
            stats.tail_bytes_repeated > 1_000_000,
            "{}",
            stats.tail_bytes_repeated
        );
    });
}

/// A small object is not answered for by a burst of copies.
#[test]
fn small_objects_cost_little() {
    let mut net = Net::symmetric(1, &path(Rate::from_gbit_per_sec(1), ms(100), 1_500));
    net.upload(1_000);
    net.run_to_end(secs(5), "small");
    let stats = net.client().connection().stats();
    println!(
        "1000 bytes cost {} bytes in copies",
        stats.tail_bytes_repeated
    );
    assert!(stats.tail_bytes_repeated <= 4_000);
}

/// Nothing has to arrive for an empty object to be complete.
#[test]
fn an_empty_object_is_complete_at_once() {
    let mut net = Net::symmetric(1, &path(Rate::from_gbit_per_sec(1), ms(100), 1_500));
    net.world.run_until(at(secs(1)));
    let id = net.upload(0);
    net.world.run_until(at(secs(1) + ms(1)));
    assert_eq!(net.server().complete, [(id, at(secs(1)))]);
}

/// A report of the first packet alone would have the others wait for an eighth of a round trip.
#[test]
fn what_comes_after_a_pause_is_reported_together() {
    // No probes for the path MTU, which ask for a report each.
    let [client, server] = [1, 2].map(|seed| Config {
        max_datagram: 1_200,
        ..tls_config(seed)
    });
    let mut hand = Hand::new(client, server, ms(50));
    hand.mbit_per_sec = 1_000;
    // There is more of it, later: that it is complete is not what is reported.
    let (client, server) = (&mut hand.client.connection, &mut hand.server.connection);
    let object = client.allocate_object();
    client.send_object(object, None, u64::MAX);
    client.set_readable(object, 30_000);
    assert!(server.receive_object(object, None, None));
    let is_heard = |hand: &Hand| hand.client.connection.acked_bytes(object) == 30_000;
    assert!(hand.run(at(secs(5)), is_heard, |_, _| vec![Span::ZERO]));
    // The handshake, the way there and back, and what the burst takes.
    assert!(hand.now < at(ms(208)), "{}", hand.now);
}

/// Probes for larger packets than the host's own link takes never leave it.
#[test]
fn what_the_host_refuses_for_its_size_is_not_counted_as_sent() {
    let mut hand = Hand::new(tls_config(1), tls_config(2), ms(20));
    hand.most_bytes = 1_472;
    hand.transfer(true, 100_000);
    let mut left = [(0, 0); 2];
    hand.run(
        at(secs(5)),
        |_| false,
        |_, packet| {
            let (datagrams, bytes) = &mut left[usize::from(packet.to_server)];
            *datagrams += 1;
            *bytes += packet.len();
            vec![Span::ZERO]
        },
    );
    for (side, left) in [&hand.server, &hand.client].into_iter().zip(left) {
        let stats = side.connection.stats();
        assert_eq!((stats.datagrams_sent, stats.bytes_sent), left);
        assert_eq!(stats.datagram_size, 1_472);
    }
}
