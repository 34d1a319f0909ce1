//! A host whose own queue is full.

use crate::tcp::support::{back, path, secs};
use howdah_core::{Observe, Rate, Span};
use howdah_path::{LossModel, PathConfig};
use howdah_rivals::tcp::{IPV4_BYTES, ReceiverConfig, Supply, TcpConfig, TcpEndpoint};
use howdah_sim::{Flow, FlowEnds, World};

/// A host with a port of 100 Mbit/s and a queue of so many packets, and a faster way of 100 ms
/// behind it.
fn behind_a_port(
    config: &TcpConfig,
    queue: usize,
    (loss, seed): (f64, u64),
    supply: Supply,
) -> (World<TcpEndpoint>, FlowEnds) {
    let rtt = Span::from_millis(100);
    let mut world = World::new(seed);
    let (left, right) = (world.add_host("left"), world.add_host("right"));
    let port = PathConfig {
        rate: Some(Rate::from_mbit_per_sec(100)),
        ..PathConfig::default()
    };
    let nic = world.add_link(&port, &PathConfig::default());
    world.set_host_queue(nic.forward, queue);
    let mut wide = path(Rate::from_gbit_per_sec(1), rtt, 10_000);
    wide.loss = LossModel::Bernoulli(loss);
    let wide = world.add_link(&wide, &back(rtt));
    let near = TcpEndpoint::sender(config, supply, seed);
    let far = TcpEndpoint::receiver(&ReceiverConfig {
        receive_buffer_bytes: 16 << 20,
        ..ReceiverConfig::linux24()
    });
    let flow = Flow::between((left, near), (right, far))
        .over(nic)
        .over(wide)
        .header_bytes(IPV4_BYTES);
    let ends = world.add_flow(flow);
    (world, ends)
}

#[test]
fn a_full_host_queue_ends_slow_start_without_a_loss() {
    let linux24 = TcpConfig::linux24();
    let (mut world, ends) = behind_a_port(&linux24, 200, (0.0, 1), Supply::Endless);
    world.run_until(secs(20));
    let near = world.endpoint(ends.a).snapshot();
    assert!(world.counters(ends.a).refused_datagrams > 0);
    assert_eq!((near.lost_packets, near.retransmitted_bytes), (0, 0));
    assert_eq!((near.congestion_events, near.timeouts), (0, 0));
    // The path holds 812 segments; slow start stands in the queue with a third of what arrives.
    let ssthresh = near.ssthresh_bytes.expect("slow start is over") / 1448;
    assert!((250..=520).contains(&ssthresh), "{ssthresh} segments");
    // What the sender says it sent is what the host took.
    assert!(near.sent_bytes <= world.counters(ends.a).sent_datagrams * 1448);
}

#[test]
fn without_local_congestion_the_queue_grows_past_its_end() {
    let config = TcpConfig {
        local_congestion: false,
        ..TcpConfig::linux24()
    };
    let (mut world, ends) = behind_a_port(&config, 200, (0.0, 1), Supply::Endless);
    world.run_until(secs(20));
    assert_eq!(world.counters(ends.a).refused_datagrams, 0);
    assert_eq!(world.endpoint(ends.a).snapshot().ssthresh_bytes, None);
}

#[test]
fn everything_arrives_through_the_smallest_queue() {
    // A loss now and then may keep the window from ever filling the last of these queues.
    let mut refused = [0; 4];
    let cases = [(1, 0.0), (1, 0.02), (3, 0.02), (20, 0.01)];
    for (nth, (queue, loss)) in cases.into_iter().enumerate() {
        for seed in 1..=5 {
            let bytes = 3_000_017;
            for sack in [true, false] {
                let config = TcpConfig {
                    sack,
                    ..TcpConfig::linux24()
                };
                let (mut world, ends) =
                    behind_a_port(&config, queue, (loss, seed), Supply::Sized { bytes });
                world.run_until(secs(600));
                let (near, far) = (
                    world.endpoint(ends.a).snapshot(),
                    world.endpoint(ends.b).snapshot(),
                );
                let case = format!("queue {queue}, loss {loss}, SACK {sack}, seed {seed}");
                assert_eq!(far.delivered_bytes, bytes, "{case}");
                assert!(near.finished_at.is_some(), "{case}");
                assert_eq!(near.sent_bytes - near.retransmitted_bytes, bytes, "{case}");
                refused[nth] += world.counters(ends.a).refused_datagrams;
            }
        }
    }
    assert!(refused.iter().all(|&count| count > 0), "{refused:?}");
}
