//! The transports of a scenario as one type, so that driving them costs no indirect call.

use crate::protocol::{self, Protocol};
use crate::scenario::Options;
use howdah_core::{Arrival, Datagram, Observe, Rate, Snapshot, Time, Transport, WakeReason};
use howdah_proto::Policy;
use howdah_proto::sim::{SimEndpoint, sim_config};
use howdah_sim::IPV4_UDP_BYTES;

/// One endpoint.
#[derive(Debug)]
pub(crate) enum Node {
    Ours(Box<SimEndpoint>),
}

macro_rules! each {
    ($node:expr, $inner:ident => $call:expr) => {
        match $node {
            Node::Ours($inner) => $call,
        }
    };
}

impl Transport for Node {
    #[inline]
    fn handle_datagram(&mut self, now: Time, arrival: Arrival<'_>) {
        each!(self, node => node.handle_datagram(now, arrival));
    }

    #[inline]
    fn handle_timeout(&mut self, now: Time) {
        each!(self, node => node.handle_timeout(now));
    }

    #[inline]
    fn poll_transmit(&mut self, now: Time, max: usize, out: &mut Vec<Datagram>) -> usize {
        each!(self, node => node.poll_transmit(now, max, out))
    }

    #[inline]
    fn poll_timeout(&self) -> Option<(Time, WakeReason)> {
        each!(self, node => node.poll_timeout())
    }
}

impl Observe for Node {
    fn snapshot(&self) -> Snapshot {
        each!(self, node => node.snapshot())
    }
}

/// A pair of endpoints, and what their datagrams weigh beyond what they hand over.
pub(crate) struct Pair {
    pub(crate) sender: Node,
    pub(crate) receiver: Node,
    pub(crate) header_bytes: u32,
}

/// What a flow's endpoints need to know.
pub(crate) struct Wish<'a> {
    pub(crate) protocol: &'a str,
    pub(crate) options: &'a Options,
    pub(crate) size_bytes: Option<u64>,
    pub(crate) start: Time,
    /// Largest IP packet of the route.
    pub(crate) mtu: u32,
    pub(crate) seeds: [u64; 2],
}

/// Makes the endpoints of a flow. `None` if there is no such protocol, which a decoded scenario
/// rules out.
pub(crate) fn pair(wish: &Wish<'_>) -> Option<Pair> {
    Some(match protocol::find(wish.protocol)? {
        Protocol::Howdah { fixed } => ours(wish, fixed),
        Protocol::Tcp(_) => return None,
    })
}

impl Node {
    /// User bytes that have reached the application here.
    pub(crate) fn delivered_bytes(&self) -> u64 {
        match self {
            Self::Ours(node) => node.delivered_bytes(),
        }
    }

    /// Whether a sized transfer is known to be complete here.
    pub(crate) fn is_finished(&self) -> bool {
        self.snapshot().finished_at.is_some()
    }
}

fn ours(wish: &Wish<'_>, fixed: bool) -> Pair {
    let mut config = sim_config();
    if fixed {
        config.policy = Policy::Fixed(Rate::from_bits_per_sec(wish.options.rate_bps.unwrap_or(0)));
    }
    let [seed, other] = wish.seeds;
    let sender = SimEndpoint::sender(wish.start, config.clone(), seed, wish.size_bytes);
    let receiver = SimEndpoint::receiver(wish.start, config, seed, other, wish.size_bytes);
    Pair {
        sender: Node::Ours(Box::new(sender)),
        receiver: Node::Ours(Box::new(receiver)),
        header_bytes: IPV4_UDP_BYTES,
    }
}
