//! The protocol on hosts that are the bottleneck, or stand still now and then.

use howdah_core::{ObjectId, Rate, Span, Time};
use howdah_path::{LossModel, PathConfig, QueueLimit};
use howdah_proto::PathKnowledge;
use howdah_proto::sim::{SimEndpoint, sim_config};
use howdah_sim::{Costs, Disturbance, Flow, FlowEnds, PacketCost, SocketBuffer, Stalls, World};

const MTU: u32 = 9_000;

/// A client that sends an endless object, `readable` bytes of it for now, and a server that takes it.
fn upload(seed: u64, readable: u64) -> (SimEndpoint, SimEndpoint, ObjectId) {
    let mut client = SimEndpoint::client(sim_config(), seed);
    let id = client.connection_mut().allocate_object();
    client.connection_mut().send_object(id, None, u64::MAX);
    client.connection_mut().set_readable(id, readable);
    let mut server = SimEndpoint::server(sim_config(), seed, seed + 1);
    server.connection_mut().receive_object(id, None, None);
    (client, server, id)
}

fn ten_gbit(rtt: Span, queue_ms: u64) -> PathConfig {
    PathConfig {
        rate: Some(Rate::from_gbit_per_sec(10)),
        delay: rtt / 2,
        queue: QueueLimit::Time(Span::from_millis(queue_ms)),
        mtu: MTU,
        ..PathConfig::default()
    }
}

/// What arrives of an object from the second second on until then.
fn arrives(world: &mut World<SimEndpoint>, ends: FlowEnds, id: ObjectId, until_s: u64) -> Rate {
    let bytes = |world: &World<SimEndpoint>| world.endpoint(ends.b).connection().received_bytes(id);
    world.run_until(Time::ZERO + Span::from_secs(2));
    let before = bytes(world);
    world.run_until(Time::ZERO + Span::from_secs(until_s));
    Rate::from_bytes_over(bytes(world) - before, Span::from_secs(until_s - 2))
}

/// One endless object over 10 Gbit/s and 20 ms; what arrived in the second half of four seconds.
fn run(sender: Costs, receiver: Costs) -> (Rate, World<SimEndpoint>, FlowEnds) {
    let path = ten_gbit(Span::from_millis(20), 20);
    let mut world = World::new(7);
    let (near, far) = (world.add_host("near"), world.add_host("far"));
    let link = world.add_link(&path, &path);
    let (client, server, id) = upload(1, 1 << 60);
    let ends = world.add_flow(Flow::between((near, client), (far, server)).over(link));
    let cores = [near, far].map(|host| world.add_core(host));
    world.run_on(ends.a, cores[0], cores[0], sender);
    world.run_on(ends.b, cores[1], cores[1], receiver);
    let rate = arrives(&mut world, ends, id, 4);
    (rate, world, ends)
}

fn per_packet(us: u64) -> PacketCost {
    PacketCost {
        per_packet: Span::from_micros(us),
        per_report: Span::from_micros(2),
        per_byte_ps: 0,
    }
}

/// 20 us a packet are 50 000 packets a second: 3.58 Gbit/s of payload.
#[test]
fn a_slow_sender_sends_as_fast_as_it_can() {
    let costs = Costs {
        sent: per_packet(20),
        received: per_packet(2),
        ..Costs::default()
    };
    let (rate, world, ends) = run(costs, Costs::default());
    let bound = 50_000.0 * 8.0 * f64::from(MTU - 28);
    let share = rate.as_f64() / bound;
    assert!(
        (0.9..=1.0).contains(&share),
        "{rate}, {share} of what the sender can"
    );
    assert_eq!(world.endpoint(ends.a).connection().stats().packets_lost, 0);
}

/// A receiver that needs 20 us a packet, behind a socket buffer of 4 MiB: the sender finds its rate.
#[test]
fn a_slow_receiver_is_not_overrun_for_good() {
    let costs = Costs {
        sent: per_packet(2),
        received: per_packet(20),
        socket: Some(SocketBuffer {
            bytes: 4 << 20,
            charge_percent: 160,
        }),
        ..Costs::default()
    };
    let (rate, world, ends) = run(Costs::default(), costs);
    let bound = 50_000.0 * 8.0 * f64::from(MTU - 28);
    let share = rate.as_f64() / bound;
    let counters = world.counters(ends.b);
    assert!(
        (0.8..=1.0).contains(&share),
        "{rate}, {share} of what the receiver can"
    );
    let lost = counters.socket_drops as f64;
    let got = counters.received_datagrams as f64;
    assert!(lost < 0.05 * got, "{lost} of {got} dropped by the socket");
}

/// What a host gets of 10 Gbit/s with 0.1 % loss if something else has its core for `stall`, `every` so often, and its
/// socket overflows meanwhile. It tells of a fifth of the drops, as Linux does of joined datagrams.
fn with_a_busy_neighbour(seed: u64, rtt: Span, stall: Span, every: Span) -> (Rate, f64) {
    const JOINED: u64 = 5;
    // One datagram of the neighbour's.
    const STALLING_BYTES: u64 = 8_000;
    let path = ten_gbit(rtt, 25);
    let lossy = PathConfig {
        loss: LossModel::Bernoulli(0.001),
        ..path.clone()
    };
    let mut world = World::new(seed);
    let (near, far) = (world.add_host("near"), world.add_host("far"));
    let link = world.add_link(&lossy, &path);
    let quiet = world.add_link(&path, &path);
    let (client, server, id) = upload(seed, 1 << 60);
    let ends = world.add_flow(Flow::between((near, client), (far, server)).over(link));
    let (client, server, small) = upload(seed + 10, STALLING_BYTES);
    let other = world.add_flow(Flow::between((near, client), (far, server)).over(quiet));
    let core = world.add_core(far);
    let costs = Costs {
        sent: per_packet(2),
        received: per_packet(3),
        socket: Some(SocketBuffer {
            bytes: 4 << 20,
            charge_percent: 160,
        }),
        ..Costs::default()
    };
    world.run_on(ends.b, core, core, costs);
    let stalls = Costs {
        received: per_packet(stall.as_micros()),
        ..Costs::default()
    };
    world.run_on(other.b, core, core, stalls);
    let mut readable = STALLING_BYTES;
    world.sample_every(every, move |_, world| {
        readable += STALLING_BYTES;
        let neighbour = world.endpoint_mut(other.a).connection_mut();
        neighbour.set_readable(small, readable);
    });
    world.sample_every(Span::from_millis(1), move |_, world| {
        let drops = world.counters(ends.b).socket_drops;
        let connection = world.endpoint_mut(ends.b).connection_mut();
        connection.set_socket_drops(drops.div_ceil(JOINED));
    });
    let rate = arrives(&mut world, ends, id, 10);
    let counters = world.counters(ends.b);
    let dropped = counters.socket_drops as f64 / counters.received_datagrams as f64;
    (rate, dropped)
}

/// Its drops are called lost milliseconds after they were told of: that is no loss of the path, and no sign of a short queue.
#[test]
fn a_host_that_stands_still_now_and_then_keeps_its_rate() {
    let cases = [
        (10, 3, 70),
        (10, 3, 200),
        (10, 5, 200),
        (20, 5, 400),
        (50, 5, 400),
        (200, 5, 1_500),
    ];
    for (rtt, stall, every) in cases {
        let [rtt, stall, every] = [rtt, stall, every].map(Span::from_millis);
        let (rate, dropped) = with_a_busy_neighbour(1, rtt, stall, every);
        let most = 10e9 * f64::from(MTU - 70) / f64::from(MTU) * (0.999 - dropped);
        let share = rate.as_f64() / most;
        let case = format!("{rtt}, {stall} each {every}: {rate}, {dropped:.4} dropped, {share:.3}");
        println!("{case}");
        assert!(dropped > 0.001, "nothing was dropped: {case}");
        assert!(share > 0.985, "{case}");
    }
}

/// A sending host whose core stands still for 10 to 16 ms, `every` so often, on 10 Gbit/s: what it gets, of what it can, from the second second to the
/// tenth, and what it would remember of the path.
fn with_a_sender_that_stands_still(
    seed: u64,
    rtt: Span,
    every: Span,
) -> (f64, Option<PathKnowledge>) {
    let path = ten_gbit(rtt, 25);
    let mut world = World::new(seed);
    let (near, far) = (world.add_host("near"), world.add_host("far"));
    let link = world.add_link(&path, &path);
    let (client, server, id) = upload(seed, 1 << 60);
    let ends = world.add_flow(Flow::between((near, client), (far, server)).over(link));
    let core = world.add_core(near);
    let stalls = Stalls {
        every,
        least: Span::from_millis(10),
        most: Span::from_millis(16),
    };
    let costs = Costs {
        disturbance: Disturbance {
            stalls: Some(stalls),
            ..Disturbance::default()
        },
        ..Costs::default()
    };
    world.run_on(ends.a, core, core, costs);
    let rate = arrives(&mut world, ends, id, 10);
    // Four milliseconds' worth is caught up.
    let lost = 9.0 / (every.as_secs_f64() * 1e3 + 13.0);
    let most = 10e9 * f64::from(MTU - 70) / f64::from(MTU) * (1.0 - lost);
    let known = world.endpoint(ends.a).connection().path_knowledge();
    (rate.as_f64() / most, known)
}

/// What it did not send is no less capacity, though what it catches up looks like a queue.
#[test]
fn a_sender_that_stands_still_now_and_then_keeps_its_rate() {
    for rtt in [20, 100, 200].map(Span::from_millis) {
        for every in [60, 250].map(Span::from_millis) {
            let shares = [1, 2, 3].map(|seed| with_a_sender_that_stands_still(seed, rtt, every).0);
            println!("{rtt}, each {every}: {shares:.3?}");
            assert!(
                shares.iter().sum::<f64>() > 3.0 * 0.95,
                "{rtt}, each {every}: {shares:.3?}"
            );
        }
    }
}

/// It cannot send what its bursts show, so that never arrives; it starts for a second and eight round trips, not for good.
#[test]
fn a_start_ends_though_the_sender_has_no_time() {
    for seed in 1..=4 {
        let every = Span::from_millis(4);
        let (share, known) = with_a_sender_that_stands_still(seed, Span::from_millis(20), every);
        println!("{seed}: {share:.3}, {known:?}");
        assert!(known.is_some(), "{seed}: it starts for ever");
        assert!(share > 0.6, "{seed}: {share:.3} of what it can");
    }
}
