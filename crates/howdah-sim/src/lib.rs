//! A deterministic discrete-event simulator for transports, in virtual time.
//!
//! A [`World`] holds hosts, one-way paths ([`howdah_path::OneWay`]) and flows. A [`Flow`] is a pair
//! of endpoints, each a [`howdah_core::Transport`], and the ordered list of paths between them;
//! flows that name the same path share its queue. The world drives every transport by the
//! contract written down at the trait, and nothing else drives it: there is no thread, no socket
//! and no clock here, so equal seeds give equal runs, and [`World::fingerprint`] proves it.
//!
//! ```
//! use howdah_core::{Arrival, Datagram, HeaderBytes, Span, Time, Transport, WakeReason};
//! use howdah_path::PathConfig;
//! use howdah_sim::{Flow, World};
//!
//! /// Sends one datagram; or counts what it gets.
//! struct Hello { to_send: u32, got: u32 }
//!
//! impl Transport for Hello {
//!     fn handle_datagram(&mut self, _: Time, _: Arrival<'_>) { self.got += 1; }
//!     fn handle_timeout(&mut self, _: Time) {}
//!     fn poll_transmit(&mut self, _: Time, max: usize, out: &mut Vec<Datagram>) -> usize {
//!         let n = (self.to_send as usize).min(max);
//!         self.to_send -= n as u32;
//!         out.extend((0..n).map(|_| Datagram { bytes: HeaderBytes::new(), absent: 1000 }));
//!         n
//!     }
//!     fn poll_timeout(&self) -> Option<(Time, WakeReason)> { None }
//! }
//!
//! let mut world = World::new(42);
//! let (rome, oslo) = (world.add_host("rome"), world.add_host("oslo"));
//! let link = world.add_link(&PathConfig::default(), &PathConfig::default());
//! let near = Hello { to_send: 1, got: 0 };
//! let far = Hello { to_send: 0, got: 0 };
//! let ends = world.add_flow(Flow::between((rome, near), (oslo, far)).over(link));
//! world.run_until(Time::ZERO + Span::from_secs(1));
//! assert_eq!(world.endpoint(ends.b).got, 1);
//! ```
//!
//! # How it is fast
//!
//! A path with a constant delay delivers in order, so its datagrams wait in a ring (a *lane*) and
//! only the ring's head takes part in the search for the next event: that search looks at one
//! entry per path and per timer, whatever the number of packets in flight. A lane holds 32 bytes
//! per datagram; the datagram itself stays where it is while it crosses path after path. Serialisation and
//! queueing are computed by the path when a packet is offered, so a packet costs one event per
//! path that it crosses. Nothing is allocated per packet as long as its header fits in
//! [`HeaderBytes`](howdah_core::HeaderBytes)' 64 bytes.
//!
//! # Paths that keep their packets
//!
//! Where a packet's fate is open until it leaves the queue (`CoDel`, rate traces, queues that a
//! change of route is to serve otherwise, move or drop; see
//! [`PathConfig::stores_packets`](howdah_path::PathConfig::stores_packets)), the datagrams wait in a
//! ring beside the lane and the queue has an event of its own for each one that waits.
//! [`World::switch_path`] changes a path and decides what becomes of them.
//!
//! # Hosts that cost time
//!
//! An endpoint is infinitely fast unless [`World::run_on`] gives it [`Costs`] and cores. A core does
//! one thing at a time; while it is busy, arrivals wait in a socket buffer that overflows, timers
//! fire late and sending stops. What cores have worked ([`World::core_busy`],
//! [`World::endpoint_busy`]) is processor time per byte, and a core that is busy all the time is a
//! host-limited rate. A host may also disturb what it carries ([`Disturbance`]): calls that are interrupted half way, arrivals that are read
//! in runs, a late first answer, cores that stand still. Worlds without costs run exactly as if there were none of this.
//! A host that is slow at single arrivals only has an input queue ([`World::add_backlog`]) and no process.
//!
//! # What can be counted
//!
//! [`World::counters`] and [`World::interface`] (packets, and bytes as an interface counts them) for
//! each endpoint; [`PathCounters`](howdah_path::PathCounters) (drops by reason),
//! [`OneWay::sent_link_bytes`](howdah_path::OneWay::sent_link_bytes) (utilisation) and, after
//! [`World::count_waits`], [`OneWay::waits`](howdah_path::OneWay::waits) (a histogram of waiting
//! times) for each path. [`World::capture`] shows every packet.
//!
//! # What is checked in every run
//!
//! Time never goes back; no datagram leaves a path before the path's shortest possible time; every
//! path conserves datagrams (in = out + dropped + waiting + under way, in the engine's books and in
//! the path's, and each byte has a fate); nothing lies in storage that is neither on a path nor in a
//! socket; no transport is woken 10 000 times at one instant, sends nothing and wants to be woken
//! again. A violation panics: it is a bug in a transport, a path or the engine, and the figures of
//! such a run would be worthless.
//!
//! # Threads
//!
//! A world lives in one thread (hooks and samplers may share what they like there). To use several
//! cores, run several worlds, each built in the thread that runs it; a world depends on nothing but
//! its recipe and its seed, so that gives the same results in any number of threads.

#![forbid(unsafe_code)]

mod agenda;
mod checks;
mod disturb;
mod flow;
mod ids;
mod lane;
mod pool;
mod run;
mod world;

pub use disturb::{Disturbance, Stalls, Tail};
pub use flow::{
    EndpointCounters, Fate, Flow, FlowEnds, INTERFACE_BYTES, IPV4_UDP_BYTES, IPV6_UDP_BYTES,
    InterfaceCounters, Link,
};
pub use ids::{EndpointId, HostId, PathId};
pub use world::{
    BacklogId, Captured, CoreId, Costs, HandlingTime, PacketCost, SocketBuffer, World,
};
