//! Marks of queues on the way, and two lines in one queue.

use crate::toys::Toy;
use howdah_core::{Ecn, Rate, Span, Time};
use howdah_path::{Aqm, Backlog, DualPi2Config, Order, PathConfig, Switch};
use howdah_sim::{Flow, FlowEnds, World};

fn dual() -> PathConfig {
    PathConfig {
        rate: Some(Rate::from_mbit_per_sec(100)),
        delay: Span::from_millis(5),
        aqm: Aqm::DualPi2(DualPi2Config::default()),
        ..PathConfig::default()
    }
}

/// Two blasters through one dual queue and then a plain path, and their ends.
fn world(mbit: [u64; 2]) -> (World<Toy>, [FlowEnds; 2], howdah_sim::PathId) {
    let mut world = World::new(7);
    let (near, far) = (world.add_host("near"), world.add_host("far"));
    let link = world.add_link(&dual(), &PathConfig::default());
    let behind = world.add_link(&PathConfig::default(), &PathConfig::default());
    let ends = [Ecn::NotEct, Ecn::Ect1].map(|ecn| {
        let mbit = mbit[usize::from(ecn == Ecn::Ect1)];
        let blaster = Toy::capable(Rate::from_mbit_per_sec(mbit), 1_200, 40_000, ecn);
        let flow = Flow::between((near, blaster), (far, Toy::sink()));
        world.add_flow(flow.over(link).over(behind))
    });
    (world, ends, link.forward)
}

#[test]
fn marks_reach_the_receiver_over_further_paths() {
    let (mut world, [classic, l4s], path) = world([110, 5]);
    world.run_until(Time::ZERO + Span::from_secs(5));
    let sinks = [classic, l4s].map(|ends| (world.endpoint(ends.b).as_sink(), ends.b));
    let [(classic, _), (l4s, end)] = sinks;
    assert_eq!(classic.marked, 0);
    assert!(l4s.marked > 100, "{l4s:?}");
    assert_eq!(world.counters(end).received_marked, l4s.marked);
    // Each line keeps its order, and they do not get mixed up: every datagram is at its own sink, in order.
    assert_eq!((classic.late, l4s.late), (0, 0));
    assert_eq!((classic.repeated, l4s.repeated), (0, 0));
    assert!(world.path(path).counters().dropped_aqm > 0);
}

#[test]
fn both_lines_drain_or_are_dropped_when_the_path_changes() {
    for backlog in [
        Backlog::DrainsOnOldPath,
        Backlog::Dropped,
        Backlog::Inherited,
    ] {
        let (mut world, ends, path) = world([150, 60]);
        world.run_until(Time::ZERO + Span::from_millis(500));
        let order = Order::Kept;
        world.switch_path(path, &PathConfig::default(), Switch { order, backlog });
        // The audit at the end of a run panics if a datagram is missing.
        world.run_until(Time::ZERO + Span::from_secs(9));
        for ends in ends {
            let sink = world.endpoint(ends.b).as_sink();
            assert!(sink.datagrams > 20_000, "{backlog:?}: {sink:?}");
        }
    }
}
