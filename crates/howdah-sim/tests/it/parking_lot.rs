//! Several flows over a shared bottleneck and over two in a row, and what can be counted there.

use crate::toys::Toy;
use howdah_core::{Rate, Span, Time};
use howdah_path::{Aqm, PathConfig, QueueLimit, RedConfig};
use howdah_sim::{Flow, FlowEnds, Link, World};

const PAYLOAD: u32 = 1_472;
const ON_THE_WIRE: u64 = 1_538;

struct Lot {
    world: World<Toy>,
    links: [Link; 2],
    /// Over both links, over the first, over the second.
    flows: [FlowEnds; 3],
}

/// A parking lot: two bottlenecks of 1 Gbit/s in a row; one flow crosses both, and each has one of
/// its own. Each flow offers 80 % of a link.
fn parking_lot(aqm: Aqm) -> Lot {
    let config = PathConfig {
        rate: Some(Rate::from_gbit_per_sec(1)),
        queue: QueueLimit::Packets(127),
        aqm,
        delay: Span::from_millis(10),
        ..PathConfig::default()
    };
    let mut world = World::new(5);
    let hosts = ["west", "middle", "east"].map(|name| world.add_host(name));
    let links = [(); 2].map(|()| world.add_link(&config, &config));
    for link in links {
        world.count_waits(link.forward);
    }
    // Periods that are no multiples of each other, so that no flow always finds the free place.
    let mut add = |from: usize, to: usize, mbit: u64| {
        let sender = Toy::blaster(Rate::from_mbit_per_sec(mbit), PAYLOAD, u64::MAX);
        let flow = Flow::between((hosts[from], sender), (hosts[to], Toy::sink()));
        world.add_flow(
            links[from..to]
                .iter()
                .fold(flow, |flow, &link| flow.over(link)),
        )
    };
    let flows = [add(0, 2, 799), add(0, 1, 793), add(1, 2, 797)];
    world.run_until(Time::ZERO + Span::from_secs(4));
    Lot {
        world,
        links,
        flows,
    }
}

#[test]
fn two_bottlenecks_in_a_row_share_by_what_reaches_them() {
    // With a full droptail queue who gets in is a matter of timing; RED makes it a matter of shares.
    let red = Aqm::Red(RedConfig::for_queue_of(127));
    let Lot {
        world,
        links,
        flows,
    } = parking_lot(red);
    let goodput = flows.map(|ends| world.endpoint(ends.b).as_sink().bytes as f64 / 4.0 * 8.0 / 1e6);
    let carried = 1_000.0 * f64::from(PAYLOAD) / ON_THE_WIRE as f64;
    // The first link carries the two in proportion to what they offer; then the second does.
    let first = carried * 799.0 / (799.0 + 793.0);
    let across = carried * first / (first + 797.0);
    let expected = [across, carried - first, carried - across];
    for (seen, expected) in goodput.iter().zip(expected) {
        assert!(
            (seen / expected - 1.0).abs() < 0.03,
            "{goodput:?} and not {expected}"
        );
    }
    for link in links {
        let path = world.path(link.forward);
        let counters = path.counters();
        assert!(counters.dropped_aqm > 1_000, "{counters:?}");
        let sent = path.sent_link_bytes(world.now());
        let share = sent as f64 / Rate::from_gbit_per_sec(1).bytes_in(Span::from_secs(4)) as f64;
        assert!((0.995..=1.0).contains(&share), "utilisation {share}");
    }
}

#[test]
fn what_is_counted_adds_up() {
    let Lot {
        world,
        links,
        flows,
    } = parking_lot(Aqm::None);
    let counters = links.map(|link| world.path(link.forward).counters());
    let interfaces = flows.map(|ends| (world.interface(ends.a), world.interface(ends.b)));
    // IP + 14 bytes of each packet, and nothing on the way back.
    for (near, far) in interfaces {
        assert_eq!(
            near.sent_bytes,
            near.sent_packets * (u64::from(PAYLOAD) + 28 + 14)
        );
        assert_eq!(
            far.received_bytes,
            far.received_packets * (u64::from(PAYLOAD) + 28 + 14)
        );
        assert_eq!((near.received_packets, far.sent_packets), (0, 0));
    }
    let [across, first, second] = interfaces;
    assert_eq!(
        counters[0].offered,
        across.0.sent_packets + first.0.sent_packets
    );
    let inside = links.map(|link| world.in_flight(link.forward) as u64);
    let sent: u64 = interfaces.iter().map(|(near, _)| near.sent_packets).sum();
    let received = across.1.received_packets + first.1.received_packets + second.1.received_packets;
    let dropped = counters[0].dropped_queue + counters[1].dropped_queue;
    assert_eq!(sent, received + dropped + inside[0] + inside[1]);
    for (link, counters) in links.iter().zip(counters) {
        assert_eq!(counters.dropped(), counters.dropped_queue);
        let waits = world.path(link.forward).waits().expect("counted");
        assert_eq!(waits.count(), counters.delivered);
        // A full queue of 127 packets, the one on the link included.
        let full = Rate::from_gbit_per_sec(1).span_for(127 * ON_THE_WIRE);
        assert!(waits.max() <= full, "{}", waits.max());
        assert!(
            waits.quantile(0.5) > full.mul_f64(0.97),
            "{}",
            waits.quantile(0.5)
        );
    }
}
