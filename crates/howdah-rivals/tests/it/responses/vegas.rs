//! TCP Vegas alone, beside Reno, and beside its like.

use crate::responses::support::Stack;
use howdah_core::{Observe, Rate, Span, Time};
use howdah_path::{PathConfig, QueueLimit};
use howdah_rivals::tcp::cc;
use howdah_rivals::tcp::{IPV4_BYTES, Supply, TcpEndpoint};
use howdah_sim::{Flow, FlowEnds, Link, World};

const RTT: Span = Span::from_millis(40);
const RATE: Rate = Rate::from_mbit_per_sec(10);
/// IP packets of 1500 bytes and 38 of Ethernet, of which 1448 are payload.
const PACKET_S: f64 = 1538.0 * 8.0 / 10e6;

/// 10 Mbit/s, 40 ms (33 packets), a queue of 100, and flows that begin seven seconds after one another.
struct Shared {
    world: World<TcpEndpoint>,
    link: Link,
    flows: Vec<FlowEnds>,
}

impl Shared {
    fn new(names: &[&str]) -> Self {
        let mut world = World::new(1);
        let hosts = (world.add_host("left"), world.add_host("right"));
        let there = PathConfig {
            rate: Some(RATE),
            queue: QueueLimit::Packets(100),
            delay: RTT / 2,
            ..PathConfig::default()
        };
        let back = PathConfig {
            delay: RTT / 2,
            ..PathConfig::default()
        };
        let link = world.add_link(&there, &back);
        let mut flows = Vec::new();
        for (nth, name) in (0_u64..).zip(names) {
            let entry = *cc::find(name).expect("a registered algorithm");
            let stack = Stack::linux24(entry).acking_every(2);
            let near = TcpEndpoint::sender(&stack.sender, Supply::Endless, 1 + nth);
            let far = TcpEndpoint::receiver(&stack.receiver);
            let flow = Flow::between((hosts.0, near), (hosts.1, far))
                .over(link)
                .header_bytes(IPV4_BYTES)
                .start_at(Time::ZERO + Span::from_secs(7 * nth));
            flows.push(world.add_flow(flow));
        }
        Self { world, link, flows }
    }

    fn delivered(&self) -> Vec<f64> {
        let bytes = |ends: &FlowEnds| self.world.endpoint(ends.b).snapshot().delivered_bytes;
        self.flows.iter().map(|ends| bytes(ends) as f64).collect()
    }

    /// Shares of the link's payload rate from one second to another.
    fn shares(&mut self, from_s: u64, to_s: u64) -> Vec<f64> {
        self.world.run_until(Time::ZERO + Span::from_secs(from_s));
        let before = self.delivered();
        self.world.run_until(Time::ZERO + Span::from_secs(to_s));
        let could = (to_s - from_s) as f64 / PACKET_S * 1448.0;
        let after = self.delivered();
        let both = after.iter().zip(before);
        both.map(|(after, before)| (after - before) / could)
            .collect()
    }

    /// Packets in the queue, least and most of looks at every 10 ms of so many seconds.
    fn queue(&mut self, seconds: u64) -> (f64, f64) {
        let (mut least, mut most) = (f64::INFINITY, 0.0_f64);
        for _ in 0..100 * seconds {
            let next = self.world.now() + Span::from_millis(10);
            self.world.run_until(next);
            let path = self.world.path(self.link.forward);
            let queued = path.queue_delay(self.world.now()).as_secs_f64() / PACKET_S;
            (least, most) = (least.min(queued), most.max(queued));
        }
        (least, most)
    }

    fn dropped(&self) -> u64 {
        self.world.path(self.link.forward).counters().dropped_queue
    }
}

#[test]
fn alone_it_fills_the_link_with_two_to_four_packets_in_the_queue() {
    let mut shared = Shared::new(&["vegas"]);
    let share = shared.shares(10, 40)[0];
    let (least, most) = shared.queue(10);
    println!("{share:.4} of the link, {least:.2} to {most:.2} queued");
    assert!(share > 0.99, "{share}");
    // A pair that an acknowledgement lets out at once is one more, and what is being sent one less.
    assert!(least > 0.5 && most < 6.0, "{least} to {most} packets");
    assert_eq!(shared.dropped(), 0);
}

#[test]
fn beside_reno_it_starves() {
    for names in [["vegas", "reno"], ["reno", "vegas"]] {
        let mut shared = Shared::new(&names);
        let shares = shared.shares(30, 150);
        let vegas = shares[names.iter().position(|name| *name == "vegas").unwrap_or(0)];
        let reno = shares.iter().sum::<f64>() - vegas;
        println!("{names:?}: vegas {vegas:.3}, reno {reno:.3}");
        // It leaves the queue to Reno, which keeps it at 50 to 100 packets.
        assert!(vegas < 0.15 && reno > 0.8, "vegas {vegas}, reno {reno}");
    }
}

#[test]
fn two_of_them_share_the_link() {
    let mut shared = Shared::new(&["vegas", "vegas"]);
    let shares = shared.shares(30, 90);
    let (least, most) = shared.queue(10);
    println!("{shares:?}, {least:.2} to {most:.2} queued");
    // The one that came later takes the other's two to four packets for a part of the path and keeps as many on top of
    // them: a share of 2/3 at the most, where queues of 2 and 4 meet.
    assert!(shares.iter().sum::<f64>() > 0.99, "{shares:?}");
    assert!(shares.iter().all(|share| *share > 0.3), "{shares:?}");
    assert_eq!(shared.dropped(), 0);
    assert!(most < 12.0, "{most} packets");
}
