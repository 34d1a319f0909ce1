//! Two namespaces and the path between them.

use crate::WanError;
use crate::certificate::Certificate;
use crate::engine::{Direction, Engine};
use crate::link::{DropCount, End, Link};
use crate::machine::Watch;
use crate::netns::{Namespace, Pair};
use howdah_path::PathConfig;

/// Smallest MTU of IPv4 links (RFC 791), and the largest that a TUN device takes.
const MTU_RANGE: std::ops::RangeInclusive<u32> = 68..=65_521;

/// What world to make.
#[derive(Clone, Debug)]
pub struct WanConfig {
    /// From near to far.
    pub forward: PathConfig,
    /// From far to near.
    pub backward: PathConfig,
    /// MTU of both devices, in IP bytes: what the hosts believe. A smaller
    /// [`PathConfig::mtu`] makes a path that silently drops what is larger.
    pub mtu: u32,
    /// For everything random. The same seed and the same packets give the same losses.
    pub seed: u64,
}

impl Default for WanConfig {
    fn default() -> Self {
        Self {
            forward: PathConfig::default(),
            backward: PathConfig::default(),
            mtu: 1500,
            seed: 1,
        }
    }
}

/// An emulated WAN. Dropping it removes everything; so does the end of the process, of whatever
/// cause.
///
/// `near` is 10.88.0.1 and `fd88::1`, `far` is 10.88.0.2 and `fd88::2`.
#[derive(Debug)]
pub struct World {
    // The order of the fields is the order of removal: the devices go before their namespaces.
    engine: Engine,
    watch: Watch,
    drops: [DropCount; 2],
    udp_offload: bool,
    namespaces: Pair,
}

impl World {
    /// Makes the namespaces and devices and starts the emulator.
    ///
    /// # Errors
    ///
    /// [`WanError::NotPermitted`] without root, [`WanError::NoTun`] without the tun driver,
    /// [`WanError::NoIproute`] without `ip`, [`WanError::BadConfig`] for an MTU out of range or a path
    /// that [stores packets](PathConfig::stores_packets).
    pub fn create(config: &WanConfig) -> Result<Self, WanError> {
        if !MTU_RANGE.contains(&config.mtu) {
            return Err(WanError::BadConfig(format!(
                "an MTU of {} is not between {} and {}",
                config.mtu,
                MTU_RANGE.start(),
                MTU_RANGE.end()
            )));
        }
        if config.forward.stores_packets() || config.backward.stores_packets() {
            return Err(WanError::BadConfig(
                "the emulator decides about a packet when it comes: it has no stored queue, CoDel, \
                 token bucket or rate trace"
                    .to_owned(),
            ));
        }
        let namespaces = Pair::create()?;
        let near = Link::create(&namespaces.near, End::Near, config)?;
        let far = Link::create(&namespaces.far, End::Far, config)?;
        let udp_offload = near.tun.udp_offload() && far.tun.udp_offload();
        let engine = Engine::start(
            [near.tun, far.tun],
            [&config.forward, &config.backward],
            config.seed,
        )?;
        let watch = Watch::start().map_err(WanError::system("start a thread"))?;
        Ok(Self {
            engine,
            watch,
            drops: [near.drops, far.drops],
            udp_offload,
            namespaces,
        })
    }

    /// The end where the program under test usually runs: 10.88.0.1, `fd88::1`.
    pub fn near(&self) -> &Namespace {
        &self.namespaces.near
    }

    /// The other end: 10.88.0.2, `fd88::2`.
    pub fn far(&self) -> &Namespace {
        &self.namespaces.far
    }

    /// Changes the path from near to far, as [`howdah_path::OneWay::set_config`] says.
    ///
    /// # Panics
    /// If the path [stores packets](PathConfig::stores_packets).
    pub fn set_forward(&self, config: &PathConfig) {
        assert!(!config.stores_packets(), "the emulator stores no packets");
        self.engine.set_config(Direction::Forward, config);
    }

    /// Changes the path from far to near.
    ///
    /// # Panics
    /// If the path [stores packets](PathConfig::stores_packets).
    pub fn set_backward(&self, config: &PathConfig) {
        assert!(!config.stores_packets(), "the emulator stores no packets");
        self.engine.set_config(Direction::Backward, config);
    }

    /// Whether UDP super-packets pass whole (Linux 6.2 and later).
    pub fn has_udp_offload(&self) -> bool {
        self.udp_offload
    }

    /// How good the emulation was so far. If the emulator thread is dead, that is an objection.
    pub fn certificate(&self) -> Certificate {
        let usage = self.watch.usage();
        // A count that cannot be read is as bad as a drop.
        let drops =
            [&self.drops[0], &self.drops[1]].map(|count| count.read().unwrap_or(u64::MAX / 4));
        match self.engine.report() {
            Some(report) => Certificate::new(&report, drops, usage),
            None => Certificate::of_a_dead_emulator(usage),
        }
    }
}
