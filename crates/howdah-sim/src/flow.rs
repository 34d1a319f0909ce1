//! Who talks to whom, over which paths.

use crate::{EndpointId, HostId, PathId};
use howdah_core::Time;

/// Bytes of an IPv4 and a UDP header.
pub const IPV4_UDP_BYTES: u32 = 28;
/// Bytes of an IPv6 and a UDP header.
pub const IPV6_UDP_BYTES: u32 = 48;

/// Two paths, one for each direction. Made by [`World::add_link`](crate::World::add_link).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Link {
    /// The way out.
    pub forward: PathId,
    /// The way back.
    pub backward: PathId,
}

impl Link {
    /// The same link seen from its other end.
    #[must_use]
    pub const fn reversed(self) -> Self {
        Self {
            forward: self.backward,
            backward: self.forward,
        }
    }
}

/// A pair of endpoints and the route between them, before it is added to a world.
///
/// Several flows may name the same paths: they then share the queue.
///
/// ```
/// # use howdah_sim::{Flow, HostId, Link};
/// # fn doc<T>(left: HostId, right: HostId, access: Link, backbone: Link, near: T, far: T) -> Flow<T> {
/// // left -> access -> backbone -> right, and the same way back
/// Flow::between((left, near), (right, far)).over(access).over(backbone)
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Flow<T> {
    pub(crate) a: (HostId, T),
    pub(crate) b: (HostId, T),
    pub(crate) forward: Vec<PathId>,
    pub(crate) backward: Vec<PathId>,
    pub(crate) header_bytes: u32,
    pub(crate) start: Option<Time>,
}

impl<T> Flow<T> {
    /// A flow between transport `a.1` on host `a.0` and transport `b.1` on host `b.0`.
    pub const fn between(a: (HostId, T), b: (HostId, T)) -> Self {
        Self {
            a,
            b,
            forward: Vec::new(),
            backward: Vec::new(),
            header_bytes: IPV4_UDP_BYTES,
            start: None,
        }
    }

    /// Appends a link to the route from `a` to `b`; the way back crosses it first.
    #[must_use]
    pub fn over(mut self, link: Link) -> Self {
        self.forward.push(link.forward);
        self.backward.insert(0, link.backward);
        self
    }

    /// Sets the two routes apart, each in the order in which a datagram meets its paths.
    #[must_use]
    pub fn routes(mut self, forward: &[PathId], backward: &[PathId]) -> Self {
        self.forward = forward.to_vec();
        self.backward = backward.to_vec();
        self
    }

    /// Sets what each datagram weighs beyond its UDP payload; [`IPV4_UDP_BYTES`] by default.
    #[must_use]
    pub const fn header_bytes(mut self, bytes: u32) -> Self {
        self.header_bytes = bytes;
        self
    }

    /// Sets when both endpoints are driven for the first time; at once by default.
    #[must_use]
    pub const fn start_at(mut self, time: Time) -> Self {
        self.start = Some(time);
        self
    }
}

/// The endpoints of a flow in a world.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FlowEnds {
    /// The endpoint on the first host.
    pub a: EndpointId,
    /// The endpoint on the second host.
    pub b: EndpointId,
}

/// What one endpoint sent and received. Bytes are UDP payload bytes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct EndpointCounters {
    /// Datagrams given to the first path.
    pub sent_datagrams: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Datagrams handed to the transport, corrupt ones and duplicates included.
    pub received_datagrams: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Datagrams handed to the transport marked as corrupt.
    pub received_corrupt: u64,
    /// Datagrams that came marked (ECN) by a queue on the way.
    pub received_marked: u64,
    /// Datagrams that reached the endpoint and that an arrival hook threw away.
    pub discarded: u64,
    /// Datagrams that the host's own queue refused and that the transport took back (see
    /// [`World::set_host_queue`](crate::World::set_host_queue)); they are not among those sent.
    pub refused_datagrams: u64,
    /// Calls of `handle_timeout`.
    pub wakes: u64,
    /// Datagrams that the full socket buffer of a [process](crate::World::run_on), or the full
    /// [input queue](crate::World::add_backlog) of the host, refused.
    pub socket_drops: u64,
    /// Their bytes.
    pub socket_dropped_bytes: u64,
    /// The most that was ever charged to the socket buffer, in bytes.
    pub socket_peak_charge: u64,
}

/// Bytes of the link header that an interface counts with each IP packet: an Ethernet header,
/// without preamble, check sequence and gap.
pub const INTERFACE_BYTES: u32 = 14;

/// What a network interface counted: each packet with IP header and [`INTERFACE_BYTES`].
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct InterfaceCounters {
    /// Packets sent.
    pub sent_packets: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Packets received, those that the socket buffer then refused included.
    pub received_packets: u64,
    /// Bytes received.
    pub received_bytes: u64,
}

/// What an arrival hook decides about a datagram. See
/// [`World::on_arrival`](crate::World::on_arrival).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fate {
    /// The transport gets it as it came.
    Deliver,
    /// The transport gets it damaged.
    Corrupt,
    /// The transport does not get it.
    Discard,
}
