//! A wide-area network on one machine: real programs, real sockets, real time, no kernel module.
//!
//! A [`World`] is two network namespaces, `near` and `far`, joined by an emulated path. Each has
//! one TUN device; one thread takes what a device was asked to send, lets the stages of
//! [`howdah_path`] decide what becomes of it, keeps it in memory for as long as the path is long,
//! and hands it to the other device.
//!
//! ```no_run
//! use howdah_core::{Rate, Span};
//! use howdah_path::{LossModel, PathConfig, QueueLimit};
//! use howdah_wan::{WanConfig, World};
//!
//! let lane = PathConfig {
//!     rate: Some(Rate::from_gbit_per_sec(10)),
//!     queue: QueueLimit::Time(Span::from_millis(50)),
//!     loss: LossModel::Bernoulli(0.001),
//!     delay: Span::from_millis(50),
//!     ..PathConfig::default()
//! };
//! let back = PathConfig { loss: LossModel::None, ..lane.clone() };
//! let world = World::create(&WanConfig { forward: lane, backward: back, ..WanConfig::default() })?;
//! let status = world.near().command("ping").args(["-c", "3", "10.88.0.2"]).status();
//! println!("{}", world.certificate());
//! # Ok::<(), howdah_wan::WanError>(())
//! ```
//!
//! # How it reaches 10 Gbit/s
//!
//! The devices speak `virtio_net_hdr` and accept segmentation offload for TCP and UDP, so the
//! kernel hands over super-packets of up to 64 KB, one system call each. They stay whole: queue,
//! rate and loss are decided for each segment that would be on the wire, and only where a segment
//! is lost the super-packet is cut into the runs that survive. `surgery` is the module that cuts.
//!
//! # What differs from a real host
//!
//! * The device takes whatever it is given at once, so a sender that does not pace itself feels no
//!   back-pressure from its network card: what the path cannot carry is dropped by the configured
//!   queue (or, if the emulator itself is overrun, counted as an *unplanned* drop).
//! * A run of segments is handed over when its last segment arrives, as a network card with
//!   receive coalescing does; a run never spans more than 100 us.
//!
//! A [`Network`] is the same for many hosts: routes over one path or several, which compete where
//! they share one.
//!
//! Every world can say how well it did: [`World::certificate`].

#![cfg(target_os = "linux")]

mod certificate;
mod delay_line;
mod engine;
mod error;
mod link;
mod machine;
mod netns;
mod network;
mod packet_memory;
mod process;
pub mod run;
pub mod self_test;
mod surgery;
mod sys;
mod tun;
mod vnet;
mod world;

pub use certificate::{Certificate, DirectionCertificate, LatenessSummary};
pub use engine::Traffic;
pub use error::WanError;
pub use netns::Namespace;
pub use network::{Hop, Network, NetworkConfig, PathPair, RouteConfig};
pub use process::{Process, Used};
pub use world::{WanConfig, World};
