//! Hosts that cost time.

use crate::toys::{Echo, StopAndWait, Toy};
use howdah_core::{Rate, Span, Time};
use howdah_path::PathConfig;
use howdah_sim::{
    CoreId, Costs, Disturbance, Flow, FlowEnds, PacketCost, SocketBuffer, Stalls, Tail, World,
};

const PAYLOAD: u32 = 8_800;

fn after_ms(ms: u64) -> Time {
    Time::ZERO + Span::from_millis(ms)
}

fn wire() -> PathConfig {
    PathConfig {
        rate: Some(Rate::from_gbit_per_sec(10)),
        delay: Span::from_millis(1),
        ..PathConfig::default()
    }
}

fn per_packet(us: u64) -> PacketCost {
    PacketCost {
        per_packet: Span::from_micros(us),
        ..PacketCost::default()
    }
}

/// A blaster of `gbit` Gbit/s of payload, with a core for each end.
fn blast(gbit: u64, near: Costs, far: Costs) -> (World<Toy>, FlowEnds, [CoreId; 2]) {
    let mut world = World::new(1);
    let (left, right) = (world.add_host("left"), world.add_host("right"));
    let link = world.add_link(&wire(), &wire());
    let sender = Toy::blaster(Rate::from_gbit_per_sec(gbit), PAYLOAD, u64::MAX);
    let ends = world.add_flow(Flow::between((left, sender), (right, Toy::sink())).over(link));
    let cores = [world.add_core(left), world.add_core(right)];
    world.run_on(ends.a, cores[0], cores[0], near);
    world.run_on(ends.b, cores[1], cores[1], far);
    (world, ends, cores)
}

/// A sender of c per packet sends 1/c packets a second, and its core is busy all the time.
#[test]
fn a_sender_saturates_at_its_cost() {
    for (us, batch) in [(20, 0), (20, 1), (20, 16), (50, 1)] {
        let costs = Costs {
            sent: per_packet(us),
            datagrams_per_call: batch,
            ..Costs::default()
        };
        // 9 Gbit/s are 127 841 packets a second: more than either cost allows.
        let (mut world, ends, [near, far]) = blast(9, costs, Costs::default());
        world.run_until(after_ms(1_000));
        let sent = world.counters(ends.a).sent_datagrams;
        assert!(sent.abs_diff(1_000_000 / us) <= 16, "{sent} at {us} us");
        let busy = world.core_busy(near);
        assert!(
            busy >= Span::from_millis(999) && busy <= Span::from_millis(1_001),
            "{busy}"
        );
        assert_eq!(world.endpoint_busy(ends.a), busy);
        assert_eq!(world.core_busy(far), Span::ZERO);
    }
}

/// Below saturation, cost is what each packet and each byte cost, and nothing is late for good.
#[test]
fn cpu_time_is_the_sum_of_the_costs() {
    let cost = PacketCost {
        per_packet: Span::from_micros(2),
        per_report: Span::from_micros(1),
        per_byte_ps: 333,
    };
    let costs = Costs {
        sent: cost,
        received: cost,
        per_wake: Span::from_nanos(100),
        ..Costs::default()
    };
    let (mut world, ends, _) = blast(5, costs, costs);
    world.run_until(after_ms(1_000));
    let sent = world.counters(ends.a);
    assert!(
        sent.sent_datagrams.abs_diff(71_022) <= 1,
        "{}",
        sent.sent_datagrams
    );
    let each_ps = 2_000_000 + 333 * u64::from(PAYLOAD);
    let expected = (sent.sent_datagrams * each_ps + sent.wakes * 100_000) / 1_000;
    let busy = world.endpoint_busy(ends.a).as_nanos();
    assert!(
        busy.abs_diff(expected) <= each_ps / 1_000 + 100,
        "{busy} and not {expected}"
    );
    let received = world.counters(ends.b).received_datagrams;
    let busy = world.endpoint_busy(ends.b).as_nanos();
    let expected = received * each_ps / 1_000;
    assert!(
        busy.abs_diff(expected) <= 2 * each_ps / 1_000,
        "{busy} and not {expected}"
    );
    assert_eq!(world.counters(ends.b).socket_drops, 0);
}

/// A receiver that is too slow fills its socket buffer to the last byte and loses the rest.
#[test]
fn a_socket_buffer_overflows() {
    let far = Costs {
        received: per_packet(20),
        socket: Some(SocketBuffer {
            bytes: 1 << 20,
            charge_percent: 160,
        }),
        ..Costs::default()
    };
    let (mut world, ends, [_, core]) = blast(9, Costs::default(), far);
    world.run_until(after_ms(1_000));
    let sent = world.counters(ends.a).sent_datagrams;
    let got = world.counters(ends.b);
    // From 1.007 ms on, one every 20 us.
    assert!(
        got.received_datagrams.abs_diff(49_949) <= 1,
        "{}",
        got.received_datagrams
    );
    assert!(world.core_busy(core) > Span::from_millis(998));
    let fits = (1 << 20) / (u64::from(PAYLOAD) * 160 / 100);
    assert_eq!(
        got.socket_peak_charge,
        fits * (u64::from(PAYLOAD) * 160 / 100)
    );
    let on_the_way = world
        .paths()
        .map(|path| world.in_flight(path) as u64)
        .sum::<u64>();
    // In the socket's buffer, and the one that is being read.
    let inside = sent - got.received_datagrams - got.socket_drops - on_the_way;
    assert!((fits..=fits + 1).contains(&inside), "{inside} of {fits}");
    assert_eq!(
        got.socket_dropped_bytes,
        got.socket_drops * u64::from(PAYLOAD)
    );
    // The interface has seen them all the same.
    let interface = world.interface(ends.b);
    assert_eq!(
        interface.received_packets,
        got.received_datagrams + got.socket_drops
    );
    assert_eq!(
        interface.received_bytes,
        interface.received_packets * (u64::from(PAYLOAD) + 28 + 14)
    );
    world.audit();
}

/// Two senders on one core share it; on two cores each has its own.
#[test]
fn flows_share_a_core() {
    let run = |cores: usize| {
        let mut world = World::new(1);
        let (left, right) = (world.add_host("left"), world.add_host("right"));
        let link = world.add_link(&wire(), &wire());
        let costs = Costs {
            sent: per_packet(20),
            ..Costs::default()
        };
        let cores: Vec<CoreId> = (0..cores).map(|_| world.add_core(left)).collect();
        let flows = [0, 1].map(|flow| {
            let sender = Toy::blaster(Rate::from_gbit_per_sec(4), PAYLOAD, u64::MAX);
            let ends =
                world.add_flow(Flow::between((left, sender), (right, Toy::sink())).over(link));
            let core = cores[flow % cores.len()];
            world.run_on(ends.a, core, core, costs);
            ends
        });
        world.run_until(after_ms(1_000));
        flows.map(|ends| world.counters(ends.a).sent_datagrams)
    };
    let shared = run(1);
    assert!(
        shared.iter().all(|sent| sent.abs_diff(25_000) <= 1),
        "{shared:?}"
    );
    let apart = run(2);
    assert!(
        apart.iter().all(|sent| sent.abs_diff(50_000) <= 1),
        "{apart:?}"
    );
}

/// Each step of a request and its answer takes its time: 2 ms and four serialisations of the path,
/// and what the hosts cost. A wake-up that finds its core busy waits.
#[test]
fn costs_delay_answers() {
    let mut world = World::new(1);
    let (left, right) = (world.add_host("left"), world.add_host("right"));
    let link = world.add_link(&wire(), &wire());
    let client = Toy::StopAndWait(StopAndWait::new(1_000, 100, Span::from_secs(1)));
    let server = Toy::Echo(Echo::new(64));
    let ends = world.add_flow(Flow::between((left, client), (right, server)).over(link));
    let (near, far) = (world.add_core(left), world.add_core(right));
    let cost = PacketCost {
        per_packet: Span::from_micros(30),
        per_report: Span::from_micros(5),
        per_byte_ps: 0,
    };
    let costs = Costs {
        sent: cost,
        received: cost,
        ..Costs::default()
    };
    world.run_on(ends.a, near, near, costs);
    world.run_on(ends.b, far, far, costs);
    world.run_until(after_ms(1_000));
    let finished = world.endpoint(ends.a).as_stop_and_wait().finished_at;
    let rate = Rate::from_gbit_per_sec(10);
    let path = Span::from_millis(2) + rate.span_for(1_066) + rate.span_for(64 + 66);
    // A packet sent and received, a report sent and received.
    let hosts = Span::from_micros(30 + 30 + 5 + 5);
    let expected = (path + hosts) * 100;
    let error = finished
        .expect("finished")
        .nanos_after(Time::ZERO + expected);
    assert!(error.abs() <= 400, "{error} ns");
    assert_eq!(world.endpoint_busy(ends.a), Span::from_micros(35 * 100));
}

/// One thread that sends and another that receives do not hinder each other.
#[test]
fn sending_and_receiving_may_have_a_core_each() {
    let run = |split: bool| {
        let mut world = World::new(1);
        let (left, right) = (world.add_host("left"), world.add_host("right"));
        let link = world.add_link(&wire(), &wire());
        let blaster = |gbit| Toy::blaster(Rate::from_gbit_per_sec(gbit), PAYLOAD, u64::MAX);
        // What is sent and what is received on the left are two flows here, but one process could
        // do both: the cost of receiving counts.
        let out =
            world.add_flow(Flow::between((left, blaster(9)), (right, Toy::sink())).over(link));
        let back = world.add_flow(
            Flow::between((right, blaster(2)), (left, Toy::sink())).over(link.reversed()),
        );
        let one = world.add_core(left);
        let other = if split { world.add_core(left) } else { one };
        let costs = Costs {
            sent: per_packet(20),
            received: per_packet(20),
            ..Costs::default()
        };
        world.run_on(out.a, one, one, costs);
        world.run_on(back.b, one, other, costs);
        world.run_until(after_ms(1_000));
        world.counters(out.a).sent_datagrams
    };
    // 2 Gbit/s are 28 409 packets a second: 57 % of a core.
    let together = run(false);
    assert!((21_000..26_000).contains(&together), "{together}");
    let apart = run(true);
    assert!(apart.abs_diff(50_000) <= 1, "{apart}");
}

#[test]
#[should_panic(expected = "cannot run on")]
fn an_endpoint_runs_on_its_own_host() {
    let (mut world, ends, [near, _]) = blast(1, Costs::default(), Costs::default());
    world.run_on(ends.b, near, near, Costs::default());
}

/// Costs of zero change when things happen in no way; the fingerprint differs only by order.
#[test]
fn free_hosts_are_infinitely_fast() {
    let (mut world, ends, _) = blast(9, Costs::default(), Costs::default());
    world.run_until(after_ms(100));
    let sink = world.endpoint(ends.b).as_sink();
    let first = Rate::from_gbit_per_sec(10).span_for(8_866) + Span::from_millis(1);
    assert_eq!(sink.first_at, Some(Time::ZERO + first));
    let mut plain = World::new(1);
    let (left, right) = (plain.add_host("left"), plain.add_host("right"));
    let link = plain.add_link(&wire(), &wire());
    let sender = Toy::blaster(Rate::from_gbit_per_sec(9), PAYLOAD, u64::MAX);
    let plain_ends = plain.add_flow(Flow::between((left, sender), (right, Toy::sink())).over(link));
    plain.run_until(after_ms(100));
    assert_eq!(plain.endpoint(plain_ends.b).as_sink().last_at, sink.last_at);
    assert_eq!(
        plain.endpoint(plain_ends.b).as_sink().datagrams,
        sink.datagrams
    );
}

fn disturbed(disturbance: Disturbance) -> Costs {
    Costs {
        datagrams_per_call: 8,
        disturbance,
        ..Costs::default()
    }
}

/// When datagrams reached the far end, and how many at each such moment, in the first `ms`.
fn arrivals(near: Costs, far: Costs, ms: u64) -> Vec<(Time, u64)> {
    let (mut world, ends, _) = blast(5, near, far);
    let mut seen = 0;
    let mut all = Vec::new();
    while world.step().is_some_and(|now| now <= after_ms(ms)) {
        let got = world.counters(ends.b).received_datagrams;
        if got > seen {
            match all.last_mut() {
                Some((at, count)) if *at == world.now() => *count += got - seen,
                _ => all.push((world.now(), got - seen)),
            }
            seen = got;
        }
    }
    all
}

/// Arrivals are read at multiples of 60 us only, four or five at a time, and none is lost.
#[test]
fn arrivals_come_in_runs() {
    let gather = Span::from_micros(60);
    let far = disturbed(Disturbance {
        gather,
        ..Disturbance::default()
    });
    let all = arrivals(Costs::default(), far, 100);
    assert!(all.len() > 1_000);
    assert!(all.iter().all(|(at, _)| at.as_nanos() % 60_000 == 0));
    let mean = all.iter().map(|(_, count)| *count).sum::<u64>() as f64 / all.len() as f64;
    assert!((4.0..4.6).contains(&mean), "{mean}");
    let plain = arrivals(Costs::default(), Costs::default(), 100);
    assert!(plain.iter().all(|(_, count)| *count == 1));
}

/// The first datagram holds the second one up, and nothing after that.
#[test]
fn the_first_datagram_takes_its_time() {
    let far = disturbed(Disturbance {
        first: Span::from_micros(900),
        ..Disturbance::default()
    });
    let late = arrivals(Costs::default(), far, 50);
    let plain = arrivals(Costs::default(), Costs::default(), 50);
    assert_eq!(late[0].0, plain[0].0 + Span::from_micros(900));
    assert_eq!(late.last(), plain.last());
}

/// Interrupted calls, and cores that stand still: gaps as long as asked for, order kept, nothing lost, and the same again with the same seed.
#[test]
fn stalls_and_late_tails_make_gaps_and_lose_nothing() {
    let gap = |all: &[(Time, u64)]| {
        let gaps = all.windows(2).map(|pair| pair[1].0.since(pair[0].0));
        gaps.max().expect("datagrams")
    };
    // Slower than the blaster, so that each call sends eight: one every 160 us.
    let near = Costs {
        sent: per_packet(20),
        ..disturbed(Disturbance {
            tail: Some(Tail {
                most: Span::from_micros(500),
                calls: 4,
            }),
            ..Disturbance::default()
        })
    };
    let tails = arrivals(near, Costs::default(), 300);
    assert!(gap(&tails) > Span::from_micros(300), "{}", gap(&tails));
    assert!(gap(&tails) < Span::from_micros(700), "{}", gap(&tails));
    assert_eq!(tails, arrivals(near, Costs::default(), 300));
    let near = disturbed(Disturbance {
        stalls: Some(Stalls {
            every: Span::from_millis(20),
            least: Span::from_millis(1),
            most: Span::from_millis(10),
        }),
        ..Disturbance::default()
    });
    let (mut world, ends, _) = blast(5, near, Costs::default());
    world.run_until(after_ms(2_000));
    let sink = world.endpoint(ends.b).as_sink();
    assert_eq!((sink.late, sink.repeated), (0, 0));
    assert!(
        sink.datagrams > 140_000,
        "what was held up leaves after the stall: {}",
        sink.datagrams
    );
    let stalled = arrivals(near, Costs::default(), 500);
    assert!(gap(&stalled) > Span::from_millis(4) && gap(&stalled) < Span::from_millis(31));
}
