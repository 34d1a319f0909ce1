//! A tool between two hosts.

use howdah_core::{Observe, Rate, Snapshot, Span, Time};
use howdah_path::{Jitter, LossModel, PathConfig, QueueLimit};
use howdah_rivals::blast::{
    BlastEndpoint, PacedSettings, RbudpMode, RbudpSettings, SharedBudget, TsunamiErrors,
    TsunamiSettings,
};
use howdah_sim::{Flow, FlowEnds, Link, World};

pub(crate) fn secs(s: u64) -> Time {
    Time::ZERO + Span::from_secs(s)
}

/// A pair of endpoints that carries an object of that many bytes.
pub(crate) type Pair = fn(u64) -> (BlastEndpoint, BlastEndpoint);

/// Every tool, at about 40 Mbit/s, with small packets.
pub(crate) const TOOLS: &[(&str, Pair)] = &[
    ("rbudp/file", |bytes| rbudp(RbudpMode::File, bytes)),
    ("rbudp/stream", |bytes| {
        rbudp(
            RbudpMode::Stream {
                chunk_bytes: 30_000,
            },
            bytes,
        )
    }),
    ("tsunami", |bytes| tsunami(1000, 1500, bytes)),
    ("tsunami/fragments", |bytes| tsunami(4000, 1500, bytes)),
    ("rtsunami-like", |bytes| {
        let settings = TsunamiSettings {
            errors: TsunamiErrors::RingAlone,
            disk: Some(Rate::from_mbit_per_sec(30)),
            ring_blocks: 20,
            ..tsunami_settings(1000, bytes)
        };
        tsunami_pair(&settings, 1500)
    }),
    ("pa-udp", |bytes| {
        paced_pair(&small(PacedSettings::pa_udp(FORTY, Some(bytes))), None)
    }),
    ("pa-udp/disk", |bytes| {
        let settings = PacedSettings {
            disk: Some(Rate::from_mbit_per_sec(20)),
            memory_bytes: 20_000,
            ..small(PacedSettings::pa_udp(FORTY, Some(bytes)))
        };
        paced_pair(&settings, None)
    }),
    ("gtp", |bytes| {
        let budget = SharedBudget::new(FORTY);
        paced_pair(
            &small(PacedSettings::gtp(FORTY, Some(bytes))),
            Some(&budget),
        )
    }),
];

const FORTY: Rate = Rate::from_mbit_per_sec(40);

fn small(settings: PacedSettings) -> PacedSettings {
    PacedSettings {
        payload_bytes: 1000,
        ..settings
    }
}

pub(crate) fn paced_pair(
    settings: &PacedSettings,
    budget: Option<&SharedBudget>,
) -> (BlastEndpoint, BlastEndpoint) {
    (
        BlastEndpoint::paced_sender(settings, None),
        BlastEndpoint::paced_receiver(settings, budget),
    )
}

fn tsunami_settings(block_bytes: u32, bytes: u64) -> TsunamiSettings {
    TsunamiSettings {
        block_bytes,
        target: Rate::from_mbit_per_sec(40),
        size_bytes: Some(bytes),
        ..TsunamiSettings::default()
    }
}

fn tsunami(block_bytes: u32, mtu: u32, bytes: u64) -> (BlastEndpoint, BlastEndpoint) {
    tsunami_pair(&tsunami_settings(block_bytes, bytes), mtu)
}

pub(crate) fn tsunami_pair(settings: &TsunamiSettings, mtu: u32) -> (BlastEndpoint, BlastEndpoint) {
    (
        BlastEndpoint::tsunami_server(settings, mtu, None),
        BlastEndpoint::tsunami_client(settings, mtu),
    )
}

fn rbudp(mode: RbudpMode, bytes: u64) -> (BlastEndpoint, BlastEndpoint) {
    let settings = RbudpSettings {
        mode,
        payload_bytes: 1000,
        ..RbudpSettings::stream(Rate::from_mbit_per_sec(40), Some(bytes))
    };
    rbudp_pair(&settings)
}

pub(crate) fn rbudp_pair(settings: &RbudpSettings) -> (BlastEndpoint, BlastEndpoint) {
    (
        BlastEndpoint::rbudp_sender(settings, None),
        BlastEndpoint::rbudp_receiver(settings),
    )
}

/// One way of `rate` and half of `rtt`.
pub(crate) fn path(rate: Rate, rtt: Span) -> PathConfig {
    PathConfig {
        rate: Some(rate),
        queue: QueueLimit::Packets(1000),
        delay: rtt / 2,
        ..PathConfig::default()
    }
}

/// Loss, reordering, duplication and corruption in both directions.
pub(crate) fn rough(loss: f64) -> PathConfig {
    PathConfig {
        loss: LossModel::Bernoulli(loss),
        jitter: Jitter::Uniform(Span::from_millis(4)),
        reorder: 0.05,
        duplicate: 0.02,
        corrupt: 0.01,
        ..path(Rate::from_mbit_per_sec(50), Span::from_millis(20))
    }
}

pub(crate) struct Run {
    pub(crate) world: World<BlastEndpoint>,
    pub(crate) ends: FlowEnds,
    pub(crate) link: Link,
}

impl Run {
    pub(crate) fn new(
        seed: u64,
        path: &PathConfig,
        (near, far): (BlastEndpoint, BlastEndpoint),
    ) -> Self {
        let mut world = World::new(seed);
        let (left, right) = (world.add_host("left"), world.add_host("right"));
        let link = world.add_link(path, path);
        let ends = world.add_flow(Flow::between((left, near), (right, far)).over(link));
        Self { world, ends, link }
    }

    /// Until both sides have ended, or this time.
    pub(crate) fn run_to_end(&mut self, limit: Time) -> (Snapshot, Snapshot) {
        let (a, b) = (self.ends.a, self.ends.b);
        self.world.run_while(
            |world| !is_over(world.endpoint(a)) || !is_over(world.endpoint(b)),
            limit,
        );
        (self.sender(), self.receiver())
    }

    pub(crate) fn sender(&self) -> Snapshot {
        self.world.endpoint(self.ends.a).snapshot()
    }

    pub(crate) fn receiver(&self) -> Snapshot {
        self.world.endpoint(self.ends.b).snapshot()
    }
}

fn is_over(endpoint: &BlastEndpoint) -> bool {
    let snapshot = endpoint.snapshot();
    snapshot.finished_at.is_some() || snapshot.failed.is_some()
}
