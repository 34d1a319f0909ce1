//! On a path that loses but never reorders, nothing may look like reordering or like a
//! retransmission for nothing, and every loss must reach the congestion control.

use howdah_core::{Observe, Rate, Span, Time};
use howdah_path::{LossModel, PathConfig};
use howdah_rivals::tcp::cc::{Ack, Congestion, CongestionControl, Entry};
use howdah_rivals::tcp::{IPV4_BYTES, ReceiverConfig, Supply, TcpConfig, TcpEndpoint};
use howdah_sim::{Flow, World};
use std::cell::Cell;

thread_local! {
    static TOLD: Cell<u64> = const { Cell::new(0) };
    static UNDONE: Cell<u64> = const { Cell::new(0) };
}

/// A fixed window that takes notes for the test's thread.
#[derive(Debug)]
struct Spy;

impl CongestionControl for Spy {
    fn name(&self) -> &'static str {
        "spy"
    }

    fn cwnd(&self) -> f64 {
        200.0
    }

    fn ssthresh(&self) -> f64 {
        100.0
    }

    fn owns_recovery(&self) -> bool {
        true
    }

    fn on_ack(&mut self, ack: &Ack) {
        TOLD.set(TOLD.get() + u64::from(ack.lost_segments));
    }

    fn on_congestion(&mut self, _: &Congestion) {}

    fn on_timeout(&mut self, event: &Congestion) {
        TOLD.set(TOLD.get() + u64::from(event.in_flight_segments));
    }

    fn on_undo(&mut self, _: Time) {
        UNDONE.set(UNDONE.get() + 1);
    }
}

const SPY: Entry = Entry {
    name: "spy",
    about: "takes notes",
    make: |_| Box::new(Spy),
};

#[test]
fn random_loss_alone_is_never_taken_for_anything_else() {
    for (seed, config) in [
        (1, TcpConfig::modern()),
        (2, TcpConfig::modern()),
        (3, TcpConfig::linux26()),
        (4, TcpConfig::linux24()),
    ] {
        TOLD.set(0);
        UNDONE.set(0);
        let forward = PathConfig {
            rate: Some(Rate::from_mbit_per_sec(100)),
            loss: LossModel::Bernoulli(0.01),
            delay: Span::from_millis(25),
            ..PathConfig::default()
        };
        let backward = PathConfig {
            delay: Span::from_millis(25),
            ..PathConfig::default()
        };
        let mut world = World::new(seed);
        let (left, right) = (world.add_host("left"), world.add_host("right"));
        let link = world.add_link(&forward, &backward);
        let near = TcpEndpoint::sender(&config.with(SPY), Supply::Endless, 0);
        let far = TcpEndpoint::receiver(&ReceiverConfig::modern());
        let flow = Flow::between((left, near), (right, far))
            .over(link)
            .header_bytes(IPV4_BYTES);
        let ends = world.add_flow(flow);
        world.run_until(Time::ZERO + Span::from_secs(30));
        let sender = world.endpoint(ends.a);
        let snapshot = sender.snapshot();
        let lost = world.path(link.forward).counters().dropped_loss;
        assert!(lost > 500, "seed {seed}: {lost}");
        assert_eq!(UNDONE.get(), 0, "seed {seed}");
        // What the timer found is told with the next acknowledgement, which may be to come.
        let told = TOLD.get();
        assert!(
            told.abs_diff(snapshot.lost_packets) <= 3,
            "seed {seed}: told {told} of {}",
            snapshot.lost_packets
        );
        // Nothing else shows what the loss detection believes.
        let inside = format!("{sender:?}");
        assert!(inside.contains("reordering_seen: false"), "seed {seed}");
    }
}
