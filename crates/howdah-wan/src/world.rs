//! Two namespaces and the path between them.

use crate::certificate::Certificate;
use crate::netns::Namespace;
use crate::network::{Hop, Network, NetworkConfig, PathPair, RouteConfig};
use crate::{Traffic, WanError};
use howdah_path::PathConfig;

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

/// An emulated WAN: the [`Network`] of two hosts. Dropping it removes everything; so does the end of
/// the process, of whatever cause.
///
/// `near` is 10.88.0.1 and `fd88::1`, `far` is 10.88.0.2 and `fd88::2`.
#[derive(Debug)]
pub struct World {
    network: Network,
}

impl World {
    /// Makes the namespaces and devices and starts the emulator.
    ///
    /// # Errors
    ///
    /// As [`Network::create`].
    pub fn create(config: &WanConfig) -> Result<Self, WanError> {
        let network = Network::create(&NetworkConfig {
            paths: vec![PathPair {
                name: "path".to_owned(),
                forward: config.forward.clone(),
                backward: config.backward.clone(),
                seeds: [0, 1].map(|side| config.seed.wrapping_mul(2).wrapping_add(side)),
            }],
            routes: vec![RouteConfig {
                names: ["near".to_owned(), "far".to_owned()],
                hops: vec![Hop {
                    path: 0,
                    reversed: false,
                }],
                mtu: config.mtu,
            }],
        })?;
        Ok(Self { network })
    }

    /// The end where the program under test usually runs: 10.88.0.1, `fd88::1`.
    pub fn near(&self) -> &Namespace {
        self.network.a(0)
    }

    /// The other end: 10.88.0.2, `fd88::2`.
    pub fn far(&self) -> &Namespace {
        self.network.b(0)
    }

    /// Changes the path from near to far, as [`howdah_path::OneWay::set_config`] says.
    ///
    /// # Panics
    /// If the path [stores packets](PathConfig::stores_packets).
    pub fn set_forward(&self, config: &PathConfig) {
        self.network.set_lane(0, config, None);
    }

    /// Changes the path from far to near.
    ///
    /// # Panics
    /// If the path [stores packets](PathConfig::stores_packets).
    pub fn set_backward(&self, config: &PathConfig) {
        self.network.set_lane(1, config, None);
    }

    /// Whether UDP super-packets pass whole (Linux 6.2 and later).
    pub fn has_udp_offload(&self) -> bool {
        self.network.has_udp_offload()
    }

    /// Sent and delivered so far: by near, and by far. `None` if the emulator thread is dead.
    pub fn traffic(&self) -> Option<[(Traffic, Traffic); 2]> {
        self.network.traffic()?.first().copied()
    }

    /// How good the emulation was so far. If the emulator thread is dead, that is an objection.
    pub fn certificate(&self) -> Certificate {
        self.network.certificate()
    }
}
