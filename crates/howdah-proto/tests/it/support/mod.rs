//! What the protocol's tests in virtual time share.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "shared by test binaries, which use different parts"
)]

pub mod craft;
pub mod hand;
pub mod liar;
pub mod node;

use howdah_core::{ObjectId, Rate, Span, Time};
use howdah_path::{PathConfig, QueueLimit};
use howdah_proto::sim::SimEndpoint;
use howdah_proto::{Config, sim};
use howdah_sim::{Flow, FlowEnds, Link, World};
use node::Node;
use std::time::Instant;

/// Runs `test` with seeds 0, 1, ... and prints the seed that fails. `HOWDAH_SEED=n` runs that seed
/// alone, `HOWDAH_SEEDS=n` another number of seeds.
#[expect(clippy::disallowed_methods, reason = "seeds a second are told")]
pub fn for_seeds(name: &str, count: u64, mut test: impl FnMut(u64)) {
    struct Tell<'a>(&'a str, u64);
    impl Drop for Tell<'_> {
        fn drop(&mut self) {
            if std::thread::panicking() {
                eprintln!("{} fails with HOWDAH_SEED={}", self.0, self.1);
            }
        }
    }
    let number = |variable| std::env::var(variable).ok().and_then(|n| n.parse().ok());
    if let Some(seed) = number("HOWDAH_SEED") {
        let _tell = Tell(name, seed);
        test(seed);
        return;
    }
    let count = number("HOWDAH_SEEDS").unwrap_or(count);
    let started = Instant::now();
    for seed in 0..count {
        let _tell = Tell(name, seed);
        test(seed);
    }
    let spent = started.elapsed().as_secs_f64();
    println!(
        "{name}: {count} seeds, {:.0} a second",
        count as f64 / spent
    );
}

/// Random choices of a test (`SplitMix64`).
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed ^ 0x5eed_5eed_5eed_5eed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in `0..end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// Uniform in `0.0..1.0`.
    pub fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub fn chance(&mut self, p: f64) -> bool {
        self.share() < p
    }

    /// Between `low` and `high`, every factor of two as likely as every other.
    pub fn spread(&mut self, low: f64, high: f64) -> f64 {
        low * (high / low).powf(self.share())
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}

pub fn at(span: Span) -> Time {
    Time::ZERO + span
}

pub const fn ms(ms: u64) -> Span {
    Span::from_millis(ms)
}

pub const fn secs(s: u64) -> Span {
    Span::from_secs(s)
}

/// A clean path.
pub fn path(rate: Rate, rtt: Span, mtu: u32) -> PathConfig {
    PathConfig {
        rate: Some(rate),
        delay: rtt / 2,
        queue: QueueLimit::Time(ms(25)),
        mtu,
        ..PathConfig::default()
    }
}

pub fn config() -> Config {
    sim::sim_config()
}

/// One connection in a world of its own.
pub struct Net {
    pub world: World<Node>,
    pub ends: FlowEnds,
    pub link: Link,
}

impl Net {
    pub fn new(seed: u64, forward: &PathConfig, backward: &PathConfig) -> Self {
        Self::with(seed, forward, backward, config(), config())
    }

    pub fn with(
        seed: u64,
        forward: &PathConfig,
        backward: &PathConfig,
        client: Config,
        server: Config,
    ) -> Self {
        let mut world = World::new(seed);
        let (near, far) = (world.add_host("near"), world.add_host("far"));
        let link = world.add_link(forward, backward);
        let (a, b) = (world.next_seed(), world.next_seed());
        let client = Node::client(SimEndpoint::client(client, a).recording());
        let server = Node::server(SimEndpoint::server(server, a, b).recording());
        let ends = world.add_flow(Flow::between((near, client), (far, server)).over(link));
        Self { world, ends, link }
    }

    pub fn symmetric(seed: u64, path: &PathConfig) -> Self {
        Self::new(seed, path, path)
    }

    pub fn client(&self) -> &Node {
        self.world.endpoint(self.ends.a)
    }

    pub fn server(&self) -> &Node {
        self.world.endpoint(self.ends.b)
    }

    /// An object of `size` bytes from the client to the server, all readable.
    pub fn upload(&mut self, size: u64) -> ObjectId {
        let id = self.world.endpoint_mut(self.ends.a).send(size);
        self.world.endpoint_mut(self.ends.b).expect(id, size, None);
        id
    }

    /// An object of `size` bytes from the server to the client, all readable.
    pub fn download(&mut self, size: u64) -> ObjectId {
        let id = self.world.endpoint_mut(self.ends.b).send(size);
        self.world.endpoint_mut(self.ends.a).expect(id, size, None);
        id
    }

    /// Both sides have what they wait for.
    pub fn is_done(&self) -> bool {
        self.client().is_done() && self.server().is_done()
    }

    /// Runs until everything has arrived and is known to have; returns how long it took.
    ///
    /// # Panics
    /// If it takes longer than `limit`.
    pub fn run_to_end(&mut self, limit: Span, about: &str) -> Span {
        let (a, b) = (self.ends.a, self.ends.b);
        let done = |world: &World<Node>| world.endpoint(a).is_done() && world.endpoint(b).is_done();
        let in_time = self.world.run_while(|world| !done(world), at(limit));
        assert!(
            in_time,
            "not done after {limit}: {about}\n{}\n{}",
            self.client(),
            self.server()
        );
        self.world.now().since(Time::ZERO)
    }
}
