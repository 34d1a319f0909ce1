//! Two hosts and a link.

use howdah_core::{Observe, Rate, Snapshot, Span, Time};
use howdah_path::{PathConfig, QueueLimit};
use howdah_rivals::tcp::{IPV4_BYTES, ReceiverConfig, Supply, TcpConfig, TcpEndpoint};
use howdah_sim::{Flow, FlowEnds, Link, World};

pub(crate) fn ms(ms: u64) -> Time {
    Time::ZERO + Span::from_millis(ms)
}

pub(crate) fn secs(s: u64) -> Time {
    Time::ZERO + Span::from_secs(s)
}

/// A path of `rate` and half of `rtt`, with a queue of `queue` packets.
pub(crate) fn path(rate: Rate, rtt: Span, queue: u64) -> PathConfig {
    PathConfig {
        rate: Some(rate),
        queue: QueueLimit::Packets(queue),
        delay: rtt / 2,
        ..PathConfig::default()
    }
}

/// The way back: as long, without limits.
pub(crate) fn back(rtt: Span) -> PathConfig {
    PathConfig {
        delay: rtt / 2,
        ..PathConfig::default()
    }
}

pub(crate) struct Run {
    pub(crate) world: World<TcpEndpoint>,
    pub(crate) ends: FlowEnds,
    pub(crate) link: Link,
}

impl Run {
    pub(crate) fn new(
        seed: u64,
        (forward, backward): (&PathConfig, &PathConfig),
        (sender, receiver): (&TcpConfig, &ReceiverConfig),
        supply: Supply,
    ) -> Self {
        let mut world = World::new(seed);
        let (left, right) = (world.add_host("left"), world.add_host("right"));
        let link = world.add_link(forward, backward);
        let near = TcpEndpoint::sender(sender, supply, seed);
        let far = TcpEndpoint::receiver(receiver);
        let flow = Flow::between((left, near), (right, far))
            .over(link)
            .header_bytes(IPV4_BYTES);
        let ends = world.add_flow(flow);
        Self { world, ends, link }
    }

    /// One more flow over the same link, from `start` on.
    pub(crate) fn add(
        &mut self,
        start: Time,
        (sender, receiver): (&TcpConfig, &ReceiverConfig),
        supply: Supply,
    ) -> FlowEnds {
        let left = self.world.host_of(self.ends.a);
        let right = self.world.host_of(self.ends.b);
        let near = TcpEndpoint::sender(sender, supply, self.world.next_seed());
        let far = TcpEndpoint::receiver(receiver);
        let flow = Flow::between((left, near), (right, far))
            .over(self.link)
            .header_bytes(IPV4_BYTES)
            .start_at(start);
        self.world.add_flow(flow)
    }

    pub(crate) fn sender(&self) -> Snapshot {
        self.world.endpoint(self.ends.a).snapshot()
    }

    pub(crate) fn receiver(&self) -> Snapshot {
        self.world.endpoint(self.ends.b).snapshot()
    }

    /// Delivered user bytes between two times, in Mbit/s.
    pub(crate) fn goodput(&mut self, from: Time, to: Time) -> f64 {
        self.world.run_until(from);
        let before = self.receiver().delivered_bytes;
        self.world.run_until(to);
        let bytes = self.receiver().delivered_bytes - before;
        bytes as f64 * 8.0 / to.since(from).as_secs_f64() / 1e6
    }
}
