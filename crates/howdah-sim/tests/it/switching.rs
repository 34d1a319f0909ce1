//! Paths that change under the packets on them, as in JGN06 C1 (38 -> 80 -> 38 ms) and C2
//! (1000 -> 250 -> 1000 Mbit/s), and what becomes of those packets.

use crate::toys::Toy;
use howdah_core::{Rate, Span, Time};
use howdah_path::{
    Aqm, Backlog, CoDelConfig, DelayTrace, Jitter, Order, PathConfig, QueueLimit, RateTrace, Switch,
};
use howdah_sim::{Flow, FlowEnds, Link, World};

/// UDP payload; with 28 + 38 bytes of headers, 1538 on the wire: 12.304 us at 1 Gbit/s.
const PAYLOAD: u32 = 1_472;
const ON_THE_WIRE: u64 = 1_538;

fn after_ms(ms: u64) -> Time {
    Time::ZERO + Span::from_millis(ms)
}

fn mbit(rate: u64) -> Rate {
    Rate::from_mbit_per_sec(rate)
}

/// One direction of JGN06's path: 127 packets of buffer, stored.
fn path(rtt_ms: u64, rate: Rate) -> PathConfig {
    PathConfig {
        rate: Some(rate),
        queue: QueueLimit::Packets(127),
        delay: Span::from_millis(rtt_ms) / 2,
        stored_queue: true,
        ..PathConfig::default()
    }
}

fn blast(config: &PathConfig, rate: Rate) -> (World<Toy>, FlowEnds, Link) {
    let mut world = World::new(3);
    let (left, right) = (world.add_host("left"), world.add_host("right"));
    let link = world.add_link(config, &PathConfig::default());
    let sender = Toy::blaster(rate, PAYLOAD, u64::MAX);
    let ends = world.add_flow(Flow::between((left, sender), (right, Toy::sink())).over(link));
    (world, ends, link)
}

/// Seconds of silence, datagrams that came late, and arrivals per second of virtual time.
struct Seen {
    longest_gap: Span,
    late: u64,
    arrived: u64,
}

fn watch(world: &mut World<Toy>, ends: FlowEnds, until: Time) -> Seen {
    let before = world.endpoint(ends.b).as_sink().datagrams;
    let late = world.endpoint(ends.b).as_sink().late;
    let mut longest_gap = Span::ZERO;
    loop {
        let last = world.endpoint(ends.b).as_sink().last_at;
        let count = world.endpoint(ends.b).as_sink().datagrams;
        let same = |world: &World<Toy>| world.endpoint(ends.b).as_sink().datagrams == count;
        if !world.run_while(same, until) {
            break;
        }
        if let Some(last) = last {
            longest_gap = longest_gap.max(world.now().since(last));
        }
    }
    let sink = world.endpoint(ends.b).as_sink();
    Seen {
        longest_gap,
        late: sink.late - late,
        arrived: sink.datagrams - before,
    }
}

/// C1: the longer route leaves a gap as long as it is longer; the shorter one either overtakes what
/// is on the longer, or waits for it and then comes in one burst. Nothing is lost in either case.
#[test]
fn from_38_to_80_to_38_ms() {
    for order in [Order::Kept, Order::MayOvertake] {
        let (mut world, ends, link) = blast(&path(38, mbit(1_000)), mbit(940));
        for (at, rtt) in [(1_000, 80), (2_000, 38)] {
            world.at(after_ms(at), move |world| {
                let switch = Switch {
                    order,
                    backlog: Backlog::Inherited,
                };
                world.switch_path(link.forward, &path(rtt, mbit(1_000)), switch);
            });
        }
        let interval = mbit(940).span_for(u64::from(PAYLOAD));
        world.run_until(after_ms(900));
        let longer = watch(&mut world, ends, after_ms(1_900));
        let gap = longer.longest_gap.as_nanos();
        let expected = (Span::from_millis(21) + interval).as_nanos();
        assert!(gap.abs_diff(expected) < 1_000, "{gap} and not {expected}");
        assert_eq!(longer.late, 0);

        let shorter = watch(&mut world, ends, after_ms(3_000));
        // What was on the longer route for another 21 ms.
        let overtaken = 21_000_000 / interval.as_nanos();
        match order {
            Order::MayOvertake => {
                assert!(shorter.late.abs_diff(overtaken) <= 2, "{}", shorter.late);
                assert!(shorter.longest_gap < interval * 2);
            }
            Order::Kept => assert_eq!(shorter.late, 0),
        }
        let counters = world.path(link.forward).counters();
        assert_eq!(counters.dropped(), 0);
        let in_flight = world.in_flight(link.forward) as u64;
        let sent = world.counters(ends.a).sent_datagrams;
        assert_eq!(world.endpoint(ends.b).as_sink().datagrams + in_flight, sent);
    }
}

/// C2 with a full queue of 127 packets at the first switch. The number of packets that arrive in the
/// 10 ms after it tells what became of those that waited.
#[test]
fn from_1000_to_250_to_1000_mbit() {
    let slow_service = mbit(250).span_for(ON_THE_WIRE).as_nanos();
    let fast_service = mbit(1_000).span_for(ON_THE_WIRE).as_nanos();
    for backlog in [
        Backlog::Inherited,
        Backlog::DrainsOnOldPath,
        Backlog::Dropped,
    ] {
        // 1100 Mbit/s of payload fill the queue.
        let (mut world, ends, link) = blast(&path(38, mbit(1_000)), mbit(1_100));
        for (at, rate) in [(1_000, 250), (2_000, 1_000)] {
            world.at(after_ms(at), move |world| {
                let switch = Switch {
                    order: Order::Kept,
                    backlog,
                };
                world.switch_path(link.forward, &path(38, mbit(rate)), switch);
            });
        }
        world.run_until(after_ms(1_000));
        let waiting = world.path(link.forward).waiting() as u64;
        let dropped = world.path(link.forward).counters().dropped_switch;
        match backlog {
            Backlog::Inherited => assert!((125..=127).contains(&waiting), "{waiting}"),
            _ => assert!(waiting <= 1, "{waiting}"),
        }
        if backlog == Backlog::Dropped {
            assert!((125..=127).contains(&dropped), "{dropped}");
        } else {
            assert_eq!(dropped, 0);
        }
        // 19 ms later what left the bottleneck after the switch begins to arrive.
        world.run_until(after_ms(1_019));
        let after = watch(&mut world, ends, after_ms(1_029)).arrived;
        let slow = 10_000_000 / slow_service;
        let expected = match backlog {
            Backlog::Inherited | Backlog::Dropped => slow,
            // The old path's packets come beside the new one's, which (order kept) wait for them.
            Backlog::DrainsOnOldPath => slow + 127,
        };
        assert!(
            after.abs_diff(expected) <= 2,
            "{backlog:?}: {after} and not {expected}"
        );

        world.run_until(after_ms(1_100));
        let steady = watch(&mut world, ends, after_ms(1_900)).arrived;
        assert!(steady.abs_diff(800_000_000 / slow_service) <= 1, "{steady}");
        world.run_until(after_ms(2_100));
        let again = watch(&mut world, ends, after_ms(2_900)).arrived;
        assert!(again.abs_diff(800_000_000 / fast_service) <= 1, "{again}");
        world.audit();
    }
}

/// The inherited backlog of 127 packets leaves at the new rate; in a computed queue, which has
/// promised its times, at the old.
#[test]
fn an_inherited_backlog_leaves_at_the_new_rate_if_it_is_stored() {
    for stored_queue in [true, false] {
        let config = PathConfig {
            stored_queue,
            ..path(38, mbit(1_000))
        };
        let (mut world, ends, link) = blast(&config, mbit(2_000));
        world.run_until(after_ms(100));
        let slow = PathConfig {
            rate: Some(mbit(250)),
            ..config.clone()
        };
        world.switch_path(link.forward, &slow, Switch::default());
        let queued = world.path(link.forward).queued_bytes(world.now());
        world.run_until(after_ms(119));
        let at_once = watch(&mut world, ends, after_ms(120)).arrived;
        let rate = if stored_queue { 250 } else { 1_000 };
        let expected = 1_000_000 / mbit(rate).span_for(ON_THE_WIRE).as_nanos();
        assert!(
            at_once.abs_diff(expected) <= 1,
            "{at_once} and not {expected}"
        );
        assert!(queued > 120 * ON_THE_WIRE, "{queued}");
    }
}

/// A link that dies keeps what waits, and goes on with it when it comes back.
#[test]
fn a_dead_link_keeps_its_queue() {
    let (mut world, ends, link) = blast(&path(38, mbit(100)), mbit(200));
    world.run_until(after_ms(100));
    world.switch_path(link.forward, &path(38, Rate::ZERO), Switch::default());
    world.run_until(after_ms(500));
    let waiting = world.path(link.forward).waiting();
    assert!((125..=127).contains(&waiting), "{waiting}");
    assert_eq!(watch(&mut world, ends, after_ms(600)).arrived, 0);
    world.switch_path(link.forward, &path(38, mbit(100)), Switch::default());
    let seen = watch(&mut world, ends, after_ms(700));
    let expected = 81_000_000 / mbit(100).span_for(ON_THE_WIRE).as_nanos();
    assert!(seen.arrived.abs_diff(expected) <= 1, "{}", seen.arrived);
    assert_eq!(seen.late, 0);
    // The same, but the dead queue is left behind: nothing can drain from it.
    world.switch_path(link.forward, &path(38, Rate::ZERO), Switch::default());
    let waiting = world.path(link.forward).waiting() as u64;
    let other = Switch::from_identity(false, false);
    world.switch_path(link.forward, &path(38, mbit(100)), other);
    assert_eq!(world.path(link.forward).counters().dropped_switch, waiting);
    world.run_until(after_ms(800));
}

#[test]
#[should_panic(expected = "only a stored queue can be dropped")]
fn a_computed_backlog_cannot_be_dropped() {
    let config = PathConfig {
        stored_queue: false,
        ..path(38, mbit(100))
    };
    let (mut world, _, link) = blast(&config, mbit(200));
    let switch = Switch {
        order: Order::Kept,
        backlog: Backlog::Dropped,
    };
    world.switch_path(link.forward, &config, switch);
}

/// The same changes written as traces: the bottleneck's rate and the path's delay over time.
#[test]
fn rates_and_delays_may_be_traces() {
    let rates = "0s 1gbit\n1s 250mbit\n2s 1gbit";
    let delays = "0s 0ms\n1s 21ms\n2s 0ms";
    let config = PathConfig {
        rate: None,
        rate_trace: Some(RateTrace::parse_steps(rates, None).expect("rates")),
        jitter: Jitter::Trace(DelayTrace::parse(delays, None).expect("delays")),
        ..path(38, mbit(1_000))
    };
    let (mut world, ends, link) = blast(&config, mbit(1_100));
    let per_second = |rate| 1_000_000_000 / mbit(rate).span_for(ON_THE_WIRE).as_nanos();
    world.run_until(after_ms(1_019));
    let fast = world.endpoint(ends.b).as_sink().datagrams;
    assert!(fast.abs_diff(per_second(1_000)) <= 1, "{fast}");
    // What leaves from 2 s on has the shorter delay, but waits for what left before it: until then
    // comes what left at 250 Mbit/s.
    world.run_until(after_ms(2_039));
    let slow = world.endpoint(ends.b).as_sink().datagrams - fast;
    let in_1_ms = per_second(250) / 1_000;
    assert!(slow.abs_diff(per_second(250) - in_1_ms) <= 1, "{slow}");
    world.run_until(after_ms(3_019));
    let again = world.endpoint(ends.b).as_sink().datagrams - fast - slow;
    assert!(again.abs_diff(per_second(1_000) + in_1_ms) <= 2, "{again}");
    assert_eq!(world.endpoint(ends.b).as_sink().late, 0);
    assert!(world.path(link.forward).counters().dropped_queue > 50_000);
}

/// A `CoDel` bottleneck in a world: the queue is stored, packets are dropped from within, every
/// packet is accounted for.
#[test]
fn a_codel_bottleneck_conserves_packets() {
    let config = PathConfig {
        aqm: Aqm::CoDel(CoDelConfig::default()),
        queue: QueueLimit::Packets(2_000),
        ..path(38, mbit(1_000))
    };
    let (mut world, ends, link) = blast(&config, mbit(1_100));
    world.count_waits(link.forward);
    world.run_until(after_ms(5_000));
    let counters = world.path(link.forward).counters();
    assert!(counters.dropped_aqm > 100, "{counters:?}");
    let waits = world.path(link.forward).waits().expect("counted");
    assert!(
        waits.quantile(0.99) > Span::from_millis(20),
        "{}",
        waits.quantile(0.99)
    );
    assert_eq!(waits.count(), counters.delivered);
    // The bottleneck never idles.
    let sent = world.path(link.forward).sent_link_bytes(after_ms(5_000));
    let share = sent as f64 / mbit(1_000).bytes_in(Span::from_secs(5)) as f64;
    assert!((share - 1.0).abs() < 1e-3, "{share}");
    let arrived = world.endpoint(ends.b).as_sink().datagrams;
    let inside = world.in_flight(link.forward) as u64;
    assert_eq!(arrived + inside + counters.dropped(), counters.offered);
}
