//! The stages of a network path: a packet's description in, verdict and time out.
//!
//! One [`OneWay`] is one direction of a path. It holds no packet, reads no clock, opens no socket
//! and starts no thread, so the virtual-time simulator and the real-time emulator share it.
//!
//! The stages, in the order of the hardware emulators that the field's papers were made with:
//!
//! 1. **MTU**: a packet that is too large never reaches the queue;
//! 2. **queue**: limited in bytes, packets or time, or to a share of the bandwidth-delay product
//!    ([`QueueLimit`]); droptail, or with active queue management ([`Aqm`]: `CoDel`, FQ-`CoDel`, PIE, RED, `DualPI2`);
//! 3. **rate**: one packet after the other leaves at the link's [`Rate`](howdah_core::Rate), which
//!    is constant or follows a trace ([`RateTrace`]: steps, or mahimahi's opportunities), behind a
//!    [`TokenBucket`] or not;
//! 4. **loss**: random loss behind the bottleneck ([`LossModel`]), so a lost packet has consumed
//!    bandwidth and a packet that the queue refused has not;
//! 5. **delay**, constant, drawn or from a trace ([`Jitter`]), with or without overtaking;
//!    duplication, corruption.
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
//! # Computed and stored queues
//!
//! In a droptail queue in front of a constant rate, the time at which a packet will leave is known
//! when it comes. Then no packet is kept and [`OneWay::offer`] gives the final verdict at once: that
//! is the fast way, and the only one that the real-time emulator takes. Where later events decide
//! (`CoDel`, a rate trace, a token bucket, a queue that a change of the path is to serve otherwise, move or drop;
//! see [`PathConfig::stores_packets`]) packets wait: `offer` answers [`Verdict::Queued`], and the
//! driver calls [`OneWay::release`] when [`OneWay::next_release`] says. Where both apply they give
//! the same times to the nanosecond, which the tests use to check one by the other.
//!
//! [`OneWay::switch`] changes a path while packets are on it and says what becomes of them
//! ([`Switch`]).
//!
//! # Randomness
//!
//! Every probability has a random stream of its own, drawn as "how many packets pass until it
//! happens next". So a stage that is off costs nothing, one that is rare costs almost nothing, and
//! turning one stage on does not change what another one does under the same seed.

#![forbid(unsafe_code)]

mod aqm;
mod bucket;
mod chance;
mod codel;
mod config;
mod counters;
mod dualpi2;
mod fq_codel;
mod histogram;
mod jitter;
mod link;
mod loss;
mod loss_model;
mod one_way;
mod pie;
mod red;
mod segments;
mod server;
mod stored;
mod switch;
mod trace;
mod verdict;
mod waiting;
mod work;

pub use aqm::{Aqm, CoDelConfig, DualPi2Config, FqCoDelConfig, PieConfig, RedConfig, RedUnit};
pub use config::{PathConfig, QueueLimit, TokenBucket};
pub use counters::PathCounters;
pub use histogram::DelayHistogram;
pub use jitter::Jitter;
pub use loss_model::{LossModel, LossTrace};
pub use one_way::OneWay;
pub use segments::{SegmentRun, SegmentVerdicts};
pub use switch::{Backlog, Order, Switch};
pub use trace::{DelayTrace, RateTrace, TraceError};
pub use verdict::{Delivery, DropReason, Verdict};
