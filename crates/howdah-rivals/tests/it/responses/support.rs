//! One flow over a path, and what becomes of it. Used by the example of the same name too.

use howdah_core::{Observe, Rate, Snapshot, Span, Time};
use howdah_path::{LossModel, PathConfig, QueueLimit};
use howdah_rivals::tcp::cc::Entry;
use howdah_rivals::tcp::{IPV4_BYTES, ReceiverConfig, Supply, TcpConfig, TcpEndpoint};
use howdah_sim::{Flow, FlowEnds, PathId, World};

/// A sender and how its receiver acknowledges.
#[derive(Clone, Copy, Debug)]
pub struct Stack {
    pub sender: TcpConfig,
    pub receiver: ReceiverConfig,
}

impl Stack {
    /// Linux 2.4 with this congestion control; an acknowledgement for every segment.
    pub fn linux24(entry: Entry) -> Self {
        Self {
            sender: TcpConfig::linux24().with(entry),
            receiver: ReceiverConfig::linux24().acking_every(1),
        }
    }

    /// Today's.
    pub fn modern(entry: Entry) -> Self {
        Self {
            sender: TcpConfig::modern().with(entry),
            receiver: ReceiverConfig {
                autotune_from_bytes: None,
                window_share: 1.0,
                ..ReceiverConfig::modern()
            },
        }
    }

    /// The same with another number of segments for each acknowledgement.
    #[must_use]
    pub fn acking_every(mut self, segments: u32) -> Self {
        self.receiver = self.receiver.acking_every(segments);
        self
    }

    /// The same with an initial threshold, so that slow start ends there.
    #[must_use]
    pub fn starting_at(mut self, segments: f64) -> Self {
        self.sender.slow_start.initial_ssthresh_segments = Some(segments as u32);
        self
    }
}

/// One flow in a world.
pub struct Run {
    pub world: World<TcpEndpoint>,
    pub ends: FlowEnds,
    /// The path whose queue and losses are looked at.
    pub bottleneck: PathId,
}

impl Run {
    /// A flow over `forward`, of which the last is the bottleneck, and a way back without limits
    /// that makes the round trip `rtt`.
    pub fn new(stack: &Stack, seed: u64, forward: &[PathConfig], rtt: Span) -> Self {
        let mut world = World::new(seed);
        let (left, right) = (world.add_host("left"), world.add_host("right"));
        let out: Vec<_> = forward.iter().map(|path| world.add_path(path)).collect();
        let there = forward
            .iter()
            .fold(Span::ZERO, |sum, path| sum + path.delay);
        let back = world.add_path(&PathConfig {
            delay: rtt.saturating_sub(there),
            ..PathConfig::default()
        });
        let near = TcpEndpoint::sender(&stack.sender, Supply::Endless, seed);
        let far = TcpEndpoint::receiver(&stack.receiver);
        let flow = Flow::between((left, near), (right, far))
            .routes(&out, &[back])
            .header_bytes(IPV4_BYTES);
        let ends = world.add_flow(flow);
        let bottleneck = out[out.len() - 1];
        Self {
            world,
            ends,
            bottleneck,
        }
    }

    pub fn run_until(&mut self, seconds: f64) {
        self.world
            .run_until(Time::ZERO + Span::from_secs_f64(seconds));
    }

    pub fn sender(&self) -> Snapshot {
        self.world.endpoint(self.ends.a).snapshot()
    }

    pub fn delivered_bytes(&self) -> u64 {
        self.world.endpoint(self.ends.b).snapshot().delivered_bytes
    }

    pub fn cwnd_segments(&self, stack: &Stack) -> f64 {
        self.sender().cwnd_bytes.unwrap_or(0) as f64 / f64::from(stack.sender.mss_bytes())
    }
}

/// Losses that a response function is measured under.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Losses {
    /// The last of so many packets, as the formulas assume.
    Periodic,
    /// Independent.
    Random,
}

/// Mean number of segments delivered in a round trip under a loss ratio `p`, on a path without
/// another limit, over `events` losses after the first quarter. Starts at `near` segments.
pub fn window_under_loss(
    stack: &Stack,
    (losses, p): (Losses, f64),
    rtt: Span,
    near: f64,
    events: u32,
) -> f64 {
    let loss = match losses {
        Losses::Random => LossModel::Bernoulli(p),
        Losses::Periodic => LossModel::NormalGap {
            loss: p,
            relative_deviation: 0.0,
        },
    };
    let path = PathConfig {
        // Fast enough to be no limit, slow enough to spread a window a little.
        rate: Some(Rate::from_gbit_per_sec(100)),
        loss,
        delay: rtt / 2,
        ..PathConfig::default()
    };
    let stack = stack.starting_at(near);
    let mut run = Run::new(&stack, 7, &[path], rtt);
    let per_event_s = rtt.as_secs_f64() / (p * near);
    let end_s = f64::from(events) * per_event_s;
    run.run_until(end_s / 4.0);
    let before = run.delivered_bytes();
    run.run_until(end_s);
    let segments = (run.delivered_bytes() - before) as f64 / f64::from(stack.sender.mss_bytes());
    segments * rtt.as_secs_f64() / (0.75 * end_s)
}

/// A path of JGN06: a host with an interface of the line's rate, and a router that is a little
/// slower with a queue of so many packets.
pub fn jgn_path(rate: Rate, rtt: Span, queue_packets: u64) -> [PathConfig; 2] {
    let interface = PathConfig {
        rate: Some(rate),
        queue: QueueLimit::Unlimited,
        ..PathConfig::default()
    };
    let router = PathConfig {
        rate: Some(Rate::from_bits_per_sec(rate.bits_per_sec() / 1000 * 995)),
        queue: QueueLimit::Packets(queue_packets),
        delay: rtt / 2,
        ..PathConfig::default()
    };
    [interface, router]
}
