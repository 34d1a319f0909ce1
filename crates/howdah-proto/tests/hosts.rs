//! The protocol on hosts that are the bottleneck.

use howdah_core::{Rate, Span, Time};
use howdah_path::{PathConfig, QueueLimit};
use howdah_proto::sim::{SimEndpoint, sim_config};
use howdah_sim::{Costs, Flow, FlowEnds, PacketCost, SocketBuffer, World};

const MTU: u32 = 9_000;

/// One endless object over 10 Gbit/s and 20 ms; what arrived in the second half of four seconds.
fn run(sender: Costs, receiver: Costs) -> (Rate, World<SimEndpoint>, FlowEnds) {
    let path = PathConfig {
        rate: Some(Rate::from_gbit_per_sec(10)),
        delay: Span::from_millis(10),
        queue: QueueLimit::Time(Span::from_millis(20)),
        mtu: MTU,
        ..PathConfig::default()
    };
    let mut world = World::new(7);
    let (near, far) = (world.add_host("near"), world.add_host("far"));
    let link = world.add_link(&path, &path);
    let mut client = SimEndpoint::client(sim_config(), 1);
    let id = client.connection_mut().allocate_object();
    client.connection_mut().send_object(id, None, u64::MAX);
    client.connection_mut().set_readable(id, 1 << 60);
    let mut server = SimEndpoint::server(sim_config(), 1, 2);
    server.connection_mut().receive_object(id, None, None);
    let ends = world.add_flow(Flow::between((near, client), (far, server)).over(link));
    let cores = [near, far].map(|host| world.add_core(host));
    world.run_on(ends.a, cores[0], cores[0], sender);
    world.run_on(ends.b, cores[1], cores[1], receiver);
    let bytes = |world: &World<SimEndpoint>| world.endpoint(ends.b).connection().received_bytes(id);
    world.run_until(Time::ZERO + Span::from_secs(2));
    let before = bytes(&world);
    world.run_until(Time::ZERO + Span::from_secs(4));
    let rate = Rate::from_bytes_over(bytes(&world) - before, Span::from_secs(2));
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
