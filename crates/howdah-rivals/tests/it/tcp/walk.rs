//! Linux 2.4's walk of the retransmission queue.

use crate::tcp::support::{back, path, secs};
use howdah_core::{Observe, Rate, Snapshot, Span};
use howdah_path::{LossModel, QueueLimit};
use howdah_rivals::tcp::{IPV4_BYTES, ReceiverConfig, Supply, TcpConfig, TcpEndpoint};
use howdah_sim::{EndpointCounters, Flow, World};

/// A gigabit and 100 ms, 12 MB of window (8300 segments), an acknowledgement for every second of them; one segment is lost at a full
/// window. What the sender says, what its host counted, and the world's fingerprint after half a minute.
fn one_hole(walk_ns: u64, behind_a_backlog: bool) -> (Snapshot, EndpointCounters, u64) {
    let rtt = Span::from_millis(100);
    let mut world = World::new(1);
    let (left, right) = (world.add_host("left"), world.add_host("right"));
    let mut there = path(Rate::from_gbit_per_sec(1), rtt, 10_000);
    there.queue = QueueLimit::Unlimited;
    // At 81274 packets a second the 600,000th passes after some eight seconds.
    there.loss = LossModel::List(vec![600_000]);
    let wide = world.add_link(&there, &back(rtt));
    let config = TcpConfig {
        sack_walk: Span::from_nanos(walk_ns),
        ..TcpConfig::linux24()
    };
    let near = TcpEndpoint::sender(&config, Supply::Endless, 1);
    let far = TcpEndpoint::receiver(&ReceiverConfig {
        receive_buffer_bytes: 12_000_000,
        ..ReceiverConfig::linux24()
    });
    let flow = Flow::between((left, near), (right, far))
        .over(wide)
        .header_bytes(IPV4_BYTES);
    let ends = world.add_flow(flow);
    if behind_a_backlog {
        let backlog = world.add_backlog(left, 300, TcpEndpoint::handling_time);
        world.receive_through(ends.a, backlog);
    }
    world.run_until(secs(30));
    let near = world.endpoint(ends.a).snapshot();
    assert!(near.lost_packets > 0, "{near:?}");
    (near, world.counters(ends.a), world.fingerprint())
}

/// A walk that takes no time is none, event by event.
#[test]
fn a_host_that_walks_in_no_time_is_as_without_a_backlog() {
    let (plain, queued) = (one_hole(0, false), one_hole(0, true));
    assert_eq!(plain.2, queued.2);
    assert_eq!(queued.1.socket_drops, 0);
}

/// One block behind one hole grows from the head of a window of 8300 segments to its end. Duplicates come 12 us after one another, and
/// a walk of 1200 segments at 10 ns takes as long: those behind it wait. With 40 ns a walk of the
/// window is 330 us, and most of the acknowledgements of the round trip find 300 others before them.
#[test]
fn a_slow_walk_drops_acknowledgements() {
    let free = one_hole(0, true);
    assert_eq!(free.1.socket_drops, 0);
    let (slow, counters, _) = one_hole(40, true);
    println!(
        "{} dropped, {} timeouts",
        counters.socket_drops, slow.timeouts
    );
    // Some 8000 duplicates in a round trip of 100 ms, of which there is time for some 800, and 300 wait.
    assert!(
        (3_000..8_000).contains(&counters.socket_drops),
        "{counters:?}"
    );
    assert_eq!(free.0.timeouts, 0);
}
