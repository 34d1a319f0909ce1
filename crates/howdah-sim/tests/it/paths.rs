//! What happens to datagrams between endpoints: rate, delay, loss, sharing, impairments.

use crate::toys::{Echo, StopAndWait, Toy};
use howdah_core::{Rate, Span, Time};
use howdah_path::{Jitter, LossModel, PathConfig, QueueLimit};
use howdah_sim::{Flow, FlowEnds, IPV6_UDP_BYTES, Link, World};

const PAYLOAD: u32 = 8_800;
/// With IPv4, UDP and Ethernet.
const ON_THE_WIRE: u64 = 8_800 + 28 + 38;

fn after(span: Span) -> Time {
    Time::ZERO + span
}

fn wire(gbit: u64, delay_ms: u64) -> PathConfig {
    PathConfig {
        rate: Some(Rate::from_gbit_per_sec(gbit)),
        queue: QueueLimit::Time(Span::from_millis(5)),
        delay: Span::from_millis(delay_ms),
        ..PathConfig::default()
    }
}

/// One blaster of `gbit` Gbit/s of payload over one path, run until all has arrived.
fn blast(config: &PathConfig, gbit: u64, datagrams: u64) -> (World<Toy>, FlowEnds, Link) {
    let mut world = World::new(7);
    let (left, right) = (world.add_host("left"), world.add_host("right"));
    let link = world.add_link(config, &PathConfig::default());
    let sender = Toy::blaster(Rate::from_gbit_per_sec(gbit), PAYLOAD, datagrams);
    let ends = world.add_flow(Flow::between((left, sender), (right, Toy::sink())).over(link));
    world.run_until(after(Span::from_secs(100)));
    (world, ends, link)
}

#[test]
fn the_bottleneck_delivers_at_its_rate_to_the_nanosecond() {
    let (world, ends, link) = blast(&wire(10, 50), 12, 100_000);
    let sink = world.endpoint(ends.b).as_sink();
    let service_ns = |packets: u64| (packets * ON_THE_WIRE * 8).div_ceil(10);
    let first = sink.first_at.expect("something arrived");
    assert_eq!(
        first,
        after(Span::from_millis(50) + Span::from_nanos(service_ns(1)))
    );
    // The queue never runs dry, so the last bit leaves after exactly as many service times.
    let last = sink.last_at.expect("something arrived");
    let expected = Span::from_millis(50) + Span::from_nanos(service_ns(sink.datagrams));
    assert_eq!(last, after(expected));
    let counters = world.path(link.forward).counters();
    assert!(counters.dropped_queue > 10_000, "{counters:?}");
    assert_eq!(sink.datagrams + counters.dropped_queue, 100_000);
    assert_eq!(world.in_flight(link.forward), 0);
}

#[test]
fn a_sender_below_the_rate_loses_nothing_and_waits_for_nothing() {
    let (world, ends, link) = blast(&wire(10, 50), 9, 10_000);
    let sink = world.endpoint(ends.b).as_sink();
    assert_eq!(sink.datagrams, 10_000);
    assert_eq!(sink.bytes, 10_000 * u64::from(PAYLOAD));
    let sent = world.counters(ends.a);
    assert_eq!((sent.sent_datagrams, sent.sent_bytes), (10_000, sink.bytes));
    let received = world.counters(ends.b);
    assert_eq!(
        (received.received_datagrams, received.received_bytes),
        (10_000, sink.bytes)
    );
    let counters = world.path(link.forward).counters();
    assert_eq!(counters.bytes_offered, 10_000 * (u64::from(PAYLOAD) + 28));
    let took = sink
        .last_at
        .expect("arrived")
        .since(sink.first_at.expect("arrived"));
    assert_eq!(
        took,
        Rate::from_gbit_per_sec(9).span_for(9_999 * u64::from(PAYLOAD))
    );
}

#[test]
fn the_header_bytes_of_a_flow_count_on_the_path() {
    let mut world = World::new(7);
    let host = world.add_host("host");
    let link = world.add_link(&PathConfig::default(), &PathConfig::default());
    let sender = Toy::blaster(Rate::from_gbit_per_sec(1), 1_000, 3);
    let flow = Flow::between((host, sender), (host, Toy::sink())).over(link);
    world.add_flow(flow.header_bytes(IPV6_UDP_BYTES));
    world.run_until(after(Span::from_secs(1)));
    assert_eq!(world.path(link.forward).counters().bytes_offered, 3 * 1_048);
}

#[test]
fn random_loss_takes_its_share() {
    let config = PathConfig {
        loss: LossModel::Bernoulli(0.02),
        ..wire(10, 10)
    };
    let (world, ends, link) = blast(&config, 9, 100_000);
    let lost = 100_000 - world.endpoint(ends.b).as_sink().datagrams;
    assert_eq!(lost, world.path(link.forward).counters().dropped_loss);
    // Six standard deviations of the binomial distribution.
    assert!(lost.abs_diff(2_000) < 270, "{lost}");
}

#[test]
fn what_is_too_large_is_dropped() {
    let config = PathConfig {
        mtu: PAYLOAD + 27,
        ..wire(10, 10)
    };
    let (world, ends, link) = blast(&config, 1, 10);
    assert_eq!(world.endpoint(ends.b).as_sink().datagrams, 0);
    assert_eq!(world.path(link.forward).counters().dropped_mtu, 10);
}

#[test]
fn two_flows_share_a_bottleneck() {
    let mut world = World::new(7);
    let (left, right) = (world.add_host("left"), world.add_host("right"));
    // Small enough that hundreds of turns at the full queue average out.
    let config = PathConfig {
        queue: QueueLimit::Packets(20),
        ..wire(10, 20)
    };
    let link = world.add_link(&config, &PathConfig::default());
    let mut add = |mbit, start_us| {
        let sender = Toy::blaster(Rate::from_mbit_per_sec(mbit), PAYLOAD, u64::MAX);
        let flow = Flow::between((left, sender), (right, Toy::sink())).over(link);
        world.add_flow(flow.start_at(after(Span::from_micros(start_us))))
    };
    // Unequal periods, so that neither always finds the free place.
    let flows = [add(8_000, 0), add(7_919, 3)];
    world.run_until(after(Span::from_secs(2)));
    let bytes = flows.map(|ends| world.endpoint(ends.b).as_sink().bytes as f64);
    let total = (bytes[0] + bytes[1]) / f64::from(PAYLOAD) * ON_THE_WIRE as f64 * 8.0 / 1.98;
    assert!(
        (total / 1e10 - 1.0).abs() < 1e-3,
        "{total} bit/s on the wire"
    );
    let share = bytes[0] / (bytes[0] + bytes[1]);
    assert!((share - 0.5).abs() < 0.05, "{share}");
}

#[test]
fn two_bottlenecks_in_series_the_narrower_decides() {
    let mut world = World::new(7);
    let (left, right) = (world.add_host("left"), world.add_host("right"));
    let wide = world.add_link(&wire(10, 10), &wire(10, 10));
    let narrow = world.add_link(&wire(4, 30), &wire(4, 30));
    let sender = Toy::blaster(Rate::from_gbit_per_sec(9), PAYLOAD, 50_000);
    let flow = Flow::between((left, sender), (right, Toy::sink()))
        .over(wide)
        .over(narrow);
    let across = world.add_flow(flow);
    let stop_and_wait = Toy::StopAndWait(StopAndWait::new(1_000, 5, Span::from_secs(1)));
    let echo = Toy::Echo(Echo::new(1_000));
    // The other way round, when the links are idle again.
    let flow = Flow::between((right, stop_and_wait), (left, echo));
    let flow = flow.over(narrow.reversed()).over(wide.reversed());
    let back = world.add_flow(flow.start_at(after(Span::from_secs(5))));
    world.run_until(after(Span::from_secs(10)));

    assert_eq!(world.path(wide.forward).counters().dropped_queue, 0);
    let dropped = world.path(narrow.forward).counters().dropped_queue;
    let sink = world.endpoint(across.b).as_sink();
    assert!(dropped > 20_000, "{dropped}");
    assert_eq!(sink.datagrams + dropped, 50_000);
    let one = Rate::from_gbit_per_sec(10).span_for(ON_THE_WIRE);
    let expected = Span::from_millis(40)
        + one
        + Rate::from_gbit_per_sec(4).span_for(sink.datagrams * ON_THE_WIRE);
    let error = sink.last_at.expect("arrived").nanos_after(after(expected));
    assert!(error.abs() <= 1, "{error} ns");

    let finished = world.endpoint(back.a).as_stop_and_wait().finished_at;
    let serialisation = [4, 10].map(|gbit| Rate::from_gbit_per_sec(gbit).span_for(1_066));
    let round = Span::from_millis(80) + (serialisation[0] + serialisation[1]) * 2;
    assert_eq!(finished, Some(after(Span::from_secs(5) + round * 5)));
}

#[test]
fn stop_and_wait_survives_loss_by_its_timer() {
    let mut world = World::new(11);
    let (left, right) = (world.add_host("left"), world.add_host("right"));
    let config = PathConfig {
        loss: LossModel::Bernoulli(0.1),
        ..wire(1, 25)
    };
    let link = world.add_link(&config, &config);
    let sender = Toy::StopAndWait(StopAndWait::new(1_000, 200, Span::from_millis(100)));
    let echo = Toy::Echo(Echo::new(100));
    let ends = world.add_flow(Flow::between((left, sender), (right, echo)).over(link));
    let unfinished = |world: &World<Toy>| {
        world
            .endpoint(ends.a)
            .as_stop_and_wait()
            .finished_at
            .is_none()
    };
    assert!(world.run_while(unfinished, after(Span::from_secs(100))));
    let sender = world.endpoint(ends.a).as_stop_and_wait();
    let lost = world.path(link.forward).counters().dropped_loss
        + world.path(link.backward).counters().dropped_loss;
    assert!(lost > 10);
    assert_eq!(sender.retransmissions, lost);
    // 50 ms and two serialisations for each success, 100 ms for each loss.
    let rate = Rate::from_gbit_per_sec(1);
    let round = Span::from_millis(50) + rate.span_for(1_066) + rate.span_for(166);
    assert_eq!(
        sender.finished_at,
        Some(after(round * 200 + Span::from_millis(100) * lost))
    );
    assert_eq!(world.now(), sender.finished_at.expect("finished"));
}

#[test]
fn jitter_alone_keeps_the_order_and_reordering_breaks_it() {
    let jitter = PathConfig {
        jitter: Jitter::Uniform(Span::from_millis(1)),
        ..wire(10, 10)
    };
    let (world, ends, _) = blast(&jitter, 9, 20_000);
    let sink = world.endpoint(ends.b).as_sink();
    assert_eq!((sink.datagrams, sink.late), (20_000, 0));
    let reordering = PathConfig {
        reorder: 0.5,
        ..jitter
    };
    let (world, ends, _) = blast(&reordering, 9, 20_000);
    let sink = world.endpoint(ends.b).as_sink();
    assert_eq!(sink.datagrams, 20_000);
    assert!(sink.late > 5_000, "{}", sink.late);
}

#[test]
fn duplicates_and_damage_reach_the_transport() {
    let config = PathConfig {
        duplicate: 0.1,
        corrupt: 0.05,
        ..wire(10, 10)
    };
    let (world, ends, link) = blast(&config, 9, 50_000);
    let sink = world.endpoint(ends.b).as_sink();
    let counters = world.path(link.forward).counters();
    assert!(counters.duplicated.abs_diff(5_000) < 500, "{counters:?}");
    assert_eq!(sink.datagrams, 50_000 + counters.duplicated);
    // A damaged packet's copy is damaged too.
    assert!(sink.corrupt >= counters.corrupted && counters.corrupted > 2_000);
    assert_eq!(world.counters(ends.b).received_corrupt, sink.corrupt);
    assert!(sink.repeated > 4_000, "{}", sink.repeated);
    // One wrong bit among 8800 bytes: about three of 2750 are in the upper bytes of the header.
    assert!(sink.flipped <= 20, "{}", sink.flipped);
}

#[test]
fn damage_of_a_header_is_real() {
    let mut world = World::new(3);
    let host = world.add_host("host");
    let damaged = PathConfig {
        corrupt: 1.0,
        ..PathConfig::default()
    };
    let link = world.add_link(&damaged, &PathConfig::default());
    // No payload: the wrong bit is always in the header.
    let sender = Toy::blaster(Rate::from_mbit_per_sec(1), 8, 100);
    let ends = world.add_flow(Flow::between((host, sender), (host, Toy::sink())).over(link));
    world.run_until(after(Span::from_secs(1)));
    let sink = world.endpoint(ends.b).as_sink();
    assert_eq!(sink.corrupt, 100);
    assert!(sink.flipped > 10, "{}", sink.flipped);
}
