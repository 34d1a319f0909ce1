//! The first 24 round trips of a flow alone, in virtual time: how soon it has the link, and what it overflows meanwhile.

use howdah_core::{Rate, Span, Time};
use howdah_path::{PathConfig, QueueLimit};
use howdah_proto::Config;
use howdah_proto::sim::{SimEndpoint, sim_config};
use howdah_sim::{Flow, World};

const ROUND_TRIPS: u64 = 24;

/// Round trips' worth of the link that have not arrived by the end, handshake included, and the share of packets that the queue drops.
fn start(rate: Rate, rtt: Span, queue: Span) -> (f64, f64) {
    begin(rate, rtt, queue, true)
}

/// The same, with or without a train in the first flight.
fn begin(rate: Rate, rtt: Span, queue: Span, train: bool) -> (f64, f64) {
    let mtu = if rate > Rate::from_gbit_per_sec(1) {
        9_000
    } else {
        1_500
    };
    let (cost, dropped, _) = look(rate, rtt, queue, mtu, train);
    (cost, dropped)
}

/// The same with packets of a size, and whether start-up is over by then.
fn look(rate: Rate, rtt: Span, queue: Span, mtu: u32, train: bool) -> (f64, f64, bool) {
    let path = PathConfig {
        rate: Some(rate),
        delay: rtt / 2,
        queue: QueueLimit::Time(queue),
        mtu,
        ..PathConfig::default()
    };
    let mut world = World::new(9);
    let link = world.add_link(&path, &path);
    let (near, far) = (world.add_host("near"), world.add_host("far"));
    let config = Config {
        train,
        ..sim_config()
    };
    let sender = SimEndpoint::sender(Time::ZERO, config, 1, None);
    let receiver = SimEndpoint::receiver(Time::ZERO, sim_config(), 1, 2, None);
    let flow = world.add_flow(Flow::between((near, sender), (far, receiver)).over(link));
    // What is sent at once arrives half a round trip later.
    world.run_until(Time::ZERO + rtt * ROUND_TRIPS + rtt / 2);
    // Headers of IP, UDP and ours, the tag, and Ethernet's share.
    let payload = f64::from(mtu - 67) / f64::from(mtu + 38);
    let round_trip = rate.mul_f64(payload).bytes_in(rtt) as f64;
    let arrived = world.endpoint(flow.b).delivered_bytes() as f64;
    let counters = world.path(link.forward).counters();
    (
        ROUND_TRIPS as f64 - arrived / round_trip,
        counters.dropped_queue as f64 / counters.offered as f64,
        world
            .endpoint(flow.a)
            .connection()
            .path_knowledge()
            .is_some(),
    )
}

#[test]
fn a_flow_has_its_link_in_a_few_round_trips() {
    for (gbit, rtt_ms) in [(10, 10), (10, 20), (10, 50), (40, 10), (40, 20)] {
        let rtt = Span::from_millis(rtt_ms);
        let (cost, dropped) = start(Rate::from_gbit_per_sec(gbit), rtt, Span::from_millis(25));
        let case = format!("{gbit} Gbit/s, {rtt_ms} ms: {cost:.2} round trips, {dropped} dropped");
        println!("{case}");
        assert!(cost <= if gbit > 10 { 2.9 } else { 2.6 }, "{case}");
        assert!(dropped <= 0.003, "{case}");
    }
}

/// Bursts that agree on what the link carries are believed when the start ends: a tenth less would take a fifth of a round trip more.
#[test]
fn a_start_ends_with_what_its_bursts_agree_on() {
    for rtt_ms in [100, 200] {
        let (rate, rtt) = (Rate::from_gbit_per_sec(10), Span::from_millis(rtt_ms));
        let (cost, dropped) = start(rate, rtt, Span::from_millis(25));
        println!("{rtt_ms} ms: {cost:.3} round trips, {dropped} dropped");
        assert!(cost <= 2.4, "{rtt_ms} ms: {cost}");
        assert!(dropped <= 0.003, "{rtt_ms} ms: {dropped}");
    }
}

/// Nobody knows yet how short the queue is: the target does not begin above it.
#[test]
fn a_start_does_not_overflow_a_short_queue() {
    for (mbit, rtt_ms) in [(100, 50), (1_000, 20), (1_000, 50)] {
        let rtt = Span::from_millis(rtt_ms);
        let (cost, dropped) = start(Rate::from_mbit_per_sec(mbit), rtt, Span::from_millis(5));
        let case = format!("{mbit} Mbit/s, {rtt_ms} ms: {cost:.2} round trips, {dropped} dropped");
        println!("{case}");
        assert!(dropped <= 0.003, "{case}");
        assert!(cost <= 2.9, "{case}");
    }
}

/// What the handshake's packets show of the path is a round trip that nothing has to wait for.
#[test]
fn a_train_ahead_saves_a_round_trip() {
    for (gbit, rtt_ms) in [(1, 20), (10, 20), (10, 50), (10, 100)] {
        let (rate, rtt) = (Rate::from_gbit_per_sec(gbit), Span::from_millis(rtt_ms));
        let [with, without] =
            [true, false].map(|train| begin(rate, rtt, Span::from_millis(25), train));
        let case = format!("{gbit} Gbit/s, {rtt_ms} ms: {with:?}, without {without:?}");
        println!("{case}");
        assert!(without.0 - with.0 >= 0.7, "{case}");
        assert!(with.1 <= 0.003, "{case}");
    }
}

/// Few packets of 9000 bytes pass a slow link in the time of a sample: that keeps no start from its end, and no queue from being seen.
#[test]
fn large_packets_start_on_slow_links_as_small_ones_do() {
    for mbit in [20, 50, 100, 200] {
        for rtt_ms in [20, 50] {
            let (rate, rtt) = (Rate::from_mbit_per_sec(mbit), Span::from_millis(rtt_ms));
            let (cost, dropped, over) = look(rate, rtt, Span::from_millis(25), 9_000, true);
            let case = format!(
                "{mbit} Mbit/s, {rtt_ms} ms: {cost:.2} round trips, {dropped:.4} dropped, over: {over}"
            );
            println!("{case}");
            assert!(over && cost <= 3.0 && dropped <= 0.003, "{case}");
        }
    }
}
