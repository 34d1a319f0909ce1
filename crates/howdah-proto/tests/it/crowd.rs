//! A hundred flows at once to one host that is slower than the path: what its sockets drop is no path's loss, and yet the
//! flows give way to it, or nobody new would be heard.

use howdah_core::{Span, Time};
use howdah_path::PathConfig;
use howdah_proto::sim::{SimEndpoint, sim_config};
use howdah_sim::{Costs, Flow, FlowEnds, PacketCost, SocketBuffer, World};

const FLOWS: u64 = 100;
const SECONDS: u64 = 20;

struct Crowd {
    /// Datagrams that found the socket full for each that did not.
    dropped: f64,
    /// The same of the last quarter.
    dropped_at_last: f64,
    /// When the last of them had its first byte, or the end.
    all_heard: Span,
    least_bytes: u64,
    most_bytes: u64,
    /// Share of the time that the host worked.
    busy: f64,
}

/// They begin within a second; the host needs `cost` for each datagram.
fn run(cost: Span, delay: Span) -> Crowd {
    let config = PathConfig {
        rate: None,
        delay,
        mtu: 9_000,
        ..PathConfig::default()
    };
    let mut world = World::new(5);
    let (near, far) = (world.add_host("near"), world.add_host("far"));
    let core = world.add_core(far);
    let link = world.add_link(&config, &config);
    let costs = Costs {
        received: PacketCost {
            per_packet: cost,
            per_report: cost,
            per_byte_ps: 0,
        },
        // Each has its share of 16 MiB.
        socket: Some(SocketBuffer {
            bytes: (16 << 20) / FLOWS,
            charge_percent: 160,
        }),
        ..Costs::default()
    };
    let start = |n: u64| {
        let start = Time::ZERO + Span::from_millis(10 * n);
        let sender = SimEndpoint::sender(start, sim_config(), n * 7 + 1, None);
        let receiver = SimEndpoint::receiver(start, sim_config(), n * 7 + 1, n + 1_000, None);
        let flow = Flow::between((near, sender), (far, receiver)).over(link);
        let ends = world.add_flow(flow.start_at(start));
        world.run_on(ends.b, core, core, costs);
        ends
    };
    let flows: Vec<FlowEnds> = (0..FLOWS).map(start).collect();
    let counted = |world: &World<SimEndpoint>| {
        let all = flows.iter().map(|f| world.counters(f.b));
        all.fold((0, 0), |(drops, taken), c| {
            (drops + c.socket_drops, taken + c.received_datagrams)
        })
    };
    let mut all_heard = None;
    let mut before_last = (0, 0);
    let steps = SECONDS * 200;
    for step in 1..=steps {
        world.run_until(Time::ZERO + Span::from_millis(step * 5));
        let (drops, _) = counted(&world);
        for flow in &flows {
            let connection = world.endpoint_mut(flow.b).connection_mut();
            connection.set_socket_drops(drops);
        }
        let heard = |flow: &FlowEnds| world.endpoint(flow.b).delivered_bytes() > 0;
        if all_heard.is_none() && flows.iter().all(heard) {
            all_heard = Some(world.now().since(Time::ZERO));
        }
        if step == steps * 3 / 4 {
            before_last = counted(&world);
        }
    }
    let (drops, taken) = counted(&world);
    let bytes = |f: &FlowEnds| world.endpoint(f.b).delivered_bytes();
    Crowd {
        dropped: drops as f64 / taken as f64,
        dropped_at_last: (drops - before_last.0) as f64 / (taken - before_last.1) as f64,
        all_heard: all_heard.unwrap_or(Span::from_secs(SECONDS)),
        busy: world.core_busy(core).as_secs_f64() / SECONDS as f64,
        least_bytes: flows.iter().map(bytes).min().unwrap_or(0),
        most_bytes: flows.iter().map(bytes).max().unwrap_or(0),
    }
}

#[test]
fn a_crowd_at_a_slow_host_gives_way() {
    // 500 down to 25 datagrams a second for each of them; a round trip is 0.1 and 20 ms.
    let cases = [(20, 50), (100, 50), (400, 50), (20, 10_000), (100, 10_000)];
    for (cost_us, delay_us) in cases {
        let got = run(Span::from_micros(cost_us), Span::from_micros(delay_us));
        let line = format!(
            "{cost_us} us a datagram, {delay_us} us away: {:.2} datagrams dropped for one that is taken, then {:.3}; the last is \
             heard after {}; {} to {} bytes",
            got.dropped, got.dropped_at_last, got.all_heard, got.least_bytes, got.most_bytes
        );
        println!("{line}");
        assert!(got.dropped < 1.0, "{line}");
        assert!(got.dropped_at_last < 0.03, "{line}");
        assert!(got.all_heard < Span::from_secs(8), "{line}");
        assert!(got.least_bytes > 50_000, "{line}");
        assert!(got.busy > 0.95, "{line}");
    }
}
