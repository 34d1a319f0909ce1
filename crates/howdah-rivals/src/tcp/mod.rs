//! TCP: one engine, and apart from it a file for each congestion control.
//!
//! A [`TcpEndpoint`] is one side of a connection over which data flow one way: a sender that the
//! application has given a [`Supply`], or a receiver that reads whatever comes at once. Both are
//! [`howdah_core::Transport`]s, with the handshake, the real header of every segment
//! ([`segment`]), retransmission, and the end by FIN; payload bytes are not there.
//!
//! # How sizes relate
//!
//! TCP travels straight on IP, so a flow weighs [`IPV4_BYTES`] beyond what an endpoint hands over,
//! and not the 28 bytes of IPv4 and UDP that the simulator takes by default:
//!
//! ```
//! # use howdah_sim::{Flow, HostId, Link};
//! # use howdah_rivals::tcp::{self, TcpEndpoint};
//! # fn doc(left: HostId, right: HostId, link: Link, near: TcpEndpoint, far: TcpEndpoint) -> Flow<TcpEndpoint> {
//! Flow::between((left, near), (right, far)).over(link).header_bytes(tcp::IPV4_BYTES)
//! # }
//! ```
//!
//! [`TcpConfig::mtu`] is the largest IP packet. What is left for payload is the MTU less 20 bytes
//! of IPv4, 20 of TCP and, with timestamps on both sides, 12 more: 1448 bytes of 1500, 8848 of
//! 8900, 8948 of 9000.
//!
//! # Simplifications
//!
//! * Segments lie on a grid: each but the last carries a full MSS. So an application that stops in
//!   the middle of a segment has that segment sent whole (up to an MSS early). In exchange every
//!   segment has an index, and an acknowledgement costs the same at any window.
//! * The receiving application reads at once: what is in order never occupies the buffer.
//! * The checksum field is zero; an arrival that the path marks as corrupt is dropped, as a wrong
//!   checksum would have it.
//! * A sender has no interface of its own: what the window allows leaves at once, however long the
//!   burst. Where the burst matters (a queue of 127 packets does not hold a slow start), put a path
//!   with the interface's rate and a deep queue before the bottleneck, as the host has it. The stacks
//!   of Linux 2.4 and 2.6 heed what a full queue of the host refuses
//!   ([`TcpConfig::local_congestion`]).
//! * No ECN, no Nagle, no urgent data, no simultaneous open.

mod bundle;
pub mod cc;
mod config;
mod endpoint;
mod metrics;
mod receiver;
mod runs;
pub mod segment;
mod sender;
mod supply;

pub use bundle::Bundle;
pub use config::{
    AckDelay, AckPolicy, LossDetection, ReceiverConfig, Recovery, RtoFloor, TcpConfig,
};
pub use endpoint::TcpEndpoint;
pub use metrics::MetricsCache;
pub use supply::Supply;

/// Bytes of an IPv4 header without options: what a flow's datagrams weigh beyond their segments.
pub const IPV4_BYTES: u32 = 20;
