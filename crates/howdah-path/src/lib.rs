//! The stages of a network path: a packet's description in, verdict and time out.
//!
//! One [`OneWay`] is one direction of a path. It holds no packet, reads no clock, opens no socket
//! and starts no thread, so the virtual-time simulator and the real-time emulator share it.
//!
//! The stages, in the order of the hardware emulators that the field's papers were made with:
//!
//! 1. **MTU**: a packet that is too large never reaches the queue;
//! 2. **queue**: droptail, limited in bytes, packets or time ([`QueueLimit`]);
//! 3. **rate**: one packet after the other leaves at the link's [`Rate`](howdah_core::Rate);
//! 4. **loss**: random loss behind the bottleneck ([`LossModel`]), so a lost packet has consumed
//!    bandwidth and a packet that the queue refused has not;
//! 5. **delay**, jitter, reordering, duplication, corruption.
//!
//! ```
//! use howdah_core::{Rate, Span, Time};
//! use howdah_path::{OneWay, PathConfig, Verdict};
//!
//! let config = PathConfig {
//!     rate: Some(Rate::from_gbit_per_sec(10)),
//!     delay: Span::from_millis(50),
//!     link_overhead_bytes: 0,
//!     ..PathConfig::default()
//! };
//! let mut path = OneWay::new(&config, 1);
//! let Verdict::Deliver(delivery) = path.offer(Time::ZERO, 1250) else { panic!() };
//! assert_eq!(delivery.at, Time::ZERO + Span::from_micros(1) + Span::from_millis(50));
//! ```
//!
//! Every probability has a random stream of its own, drawn as "how many packets pass until it
//! happens next". So a stage that is off costs nothing, one that is rare costs almost nothing, and
//! turning one stage on does not change what another one does under the same seed.

#![forbid(unsafe_code)]

mod chance;
mod config;
mod counters;
mod loss;
mod one_way;
mod segments;
mod server;

pub use config::{LossModel, PathConfig, QueueLimit};
pub use counters::PathCounters;
pub use one_way::{Delivery, DropReason, OneWay, Verdict};
pub use segments::{SegmentRun, SegmentVerdicts};
