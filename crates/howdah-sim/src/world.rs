//! The parts of a simulated world: making them, changing them, looking at them.

mod backlog;
mod capture;
mod host;
mod timeline;

pub use backlog::{BacklogId, HandlingTime};
pub use capture::Captured;
pub use host::{CoreId, Costs, PacketCost, SocketBuffer};
pub(crate) use timeline::Action;

use crate::agenda::{Agenda, Key};
use crate::checks::{BusyGuard, Fingerprint, Floor, Ledger, SplitMix};
use crate::flow::{
    EndpointCounters, Fate, Flow, FlowEnds, INTERFACE_BYTES, InterfaceCounters, Link,
};
use crate::lane::{Flight, Lane};
use crate::pool::Pool;
use crate::{EndpointId, HostId, PathId};
use backlog::Backlog;
use capture::Capture;
use host::{Core, Process};
use howdah_core::{Datagram, Span, Time, Transport};
use howdah_path::{OneWay, PathConfig};
use std::collections::VecDeque;
use std::fmt;
use timeline::Timeline;

/// Decides what becomes of a datagram that reached its endpoint.
type ArrivalHook = Box<dyn FnMut(Time, &Datagram) -> Fate>;

/// What a slot of the agenda stands for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source {
    Lane(u32),
    Timer(u32),
    Timeline,
    Queue(u32),
    Core(u32),
    Gather(u32),
    Backlog(u32),
}

/// The timeline is made first.
pub(crate) const TIMELINE_SLOT: u32 = 0;

pub(crate) struct Path {
    pub(crate) one_way: OneWay,
    pub(crate) floor: Floor,
    pub(crate) lane: Lane,
    pub(crate) slot: u32,
    pub(crate) ledger: Ledger,
    /// The datagrams in the path's stored queue, in each of its lines.
    pub(crate) waiting: Vec<VecDeque<Flight>>,
    /// For paths that ever had one that waited.
    pub(crate) queue_slot: Option<u32>,
    /// Datagrams in the path from which on it refuses those of the hosts in front of it.
    pub(crate) host_queue: usize,
}

impl Path {
    /// Datagrams waiting and under way.
    pub(crate) fn holds(&self) -> usize {
        self.lane.len() + self.waits()
    }

    /// All of them, in no order.
    fn flights(&self) -> impl Iterator<Item = &Flight> {
        self.lane.flights().chain(self.waiting.iter().flatten())
    }

    /// Datagrams waiting.
    pub(crate) fn waits(&self) -> usize {
        self.waiting.iter().map(VecDeque::len).sum()
    }
}

pub(crate) struct Endpoint<T> {
    pub(crate) transport: T,
    pub(crate) host: HostId,
    pub(crate) peer: u32,
    /// Never empty.
    pub(crate) route: Box<[u32]>,
    pub(crate) header_bytes: u32,
    pub(crate) slot: u32,
    pub(crate) started: bool,
    pub(crate) guard: BusyGuard,
    pub(crate) counters: EndpointCounters,
    pub(crate) hook: Option<ArrivalHook>,
    /// What it pays for its work; `None` is infinitely fast.
    pub(crate) process: Option<Box<Process>>,
    /// The input queue of its host, where that is modelled.
    pub(crate) backlog: Option<u32>,
}

/// Hosts, paths, flows and the virtual time in which they live.
///
/// All endpoints are of one type `T`, so that driving them costs no indirect call; a world of
/// different transports uses an enum for `T`.
pub struct World<T> {
    pub(crate) now: Time,
    pub(crate) seq: u64,
    pub(crate) agenda: Agenda,
    pub(crate) sources: Vec<Source>,
    hosts: Vec<String>,
    pub(crate) paths: Vec<Path>,
    pub(crate) endpoints: Vec<Endpoint<T>>,
    pub(crate) cores: Vec<Core>,
    pub(crate) backlogs: Vec<Backlog<T>>,
    /// Datagrams in the sockets of all processes and in input queues, those that are being read included.
    pub(crate) in_sockets: usize,
    pub(crate) pool: Pool,
    pub(crate) timeline: Timeline<T>,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) events: u64,
    pub(crate) events_this_instant: u64,
    /// Where transports put their datagrams: kept, so that it is allocated once.
    pub(crate) outbox: Vec<Datagram>,
    pub(crate) damage: SplitMix,
    /// Of hosts that disturb what they carry; not of `seeds`, from which paths and transports draw.
    pub(crate) disturbances: SplitMix,
    seeds: SplitMix,
    /// Sees every packet.
    pub(crate) capture: Option<Capture>,
}

impl<T: Transport> World<T> {
    /// An empty world at [`Time::ZERO`], all of whose randomness comes from `seed`.
    pub fn new(seed: u64) -> Self {
        let mut seeds = SplitMix::new(seed);
        let mut agenda = Agenda::new();
        let slot = agenda.add();
        debug_assert_eq!(slot, TIMELINE_SLOT);
        Self {
            now: Time::ZERO,
            seq: 0,
            agenda,
            sources: vec![Source::Timeline],
            hosts: Vec::new(),
            paths: Vec::new(),
            endpoints: Vec::new(),
            cores: Vec::new(),
            backlogs: Vec::new(),
            in_sockets: 0,
            pool: Pool::default(),
            timeline: Timeline::new(),
            fingerprint: Fingerprint::new(),
            events: 0,
            events_this_instant: 0,
            outbox: Vec::new(),
            damage: SplitMix::new(seeds.next()),
            disturbances: SplitMix::new(!seed),
            seeds,
            capture: None,
        }
    }

    /// A fresh seed, for a transport for instance: the next of the stream that the world's own
    /// seed started. Paths draw from the same stream, so the order of calls matters.
    pub fn next_seed(&mut self) -> u64 {
        self.seeds.next()
    }

    /// Adds a machine.
    pub fn add_host(&mut self, name: impl Into<String>) -> HostId {
        self.hosts.push(name.into());
        HostId::nth(self.hosts.len() - 1)
    }

    /// Adds one direction of a stretch of network.
    pub fn add_path(&mut self, config: &PathConfig) -> PathId {
        let seed = self.seeds.next();
        self.paths.push(Path {
            one_way: OneWay::new(config, seed),
            floor: Floor::of(config),
            lane: Lane::default(),
            slot: self.agenda.add(),
            ledger: Ledger::default(),
            waiting: Vec::new(),
            queue_slot: None,
            host_queue: usize::MAX,
        });
        let id = PathId::nth(self.paths.len() - 1);
        self.sources.push(Source::Lane(id.0));
        id
    }

    /// Adds both directions of a stretch of network.
    pub fn add_link(&mut self, forward: &PathConfig, backward: &PathConfig) -> Link {
        Link {
            forward: self.add_path(forward),
            backward: self.add_path(backward),
        }
    }

    /// Adds a pair of endpoints. Each is driven for the first time, by `handle_timeout`, when the
    /// flow starts.
    ///
    /// # Panics
    /// If a route is empty or names a host or path of another world.
    pub fn add_flow(&mut self, flow: Flow<T>) -> FlowEnds {
        let start = flow.start.unwrap_or(self.now).max(self.now);
        let first = self.endpoints.len() as u32;
        let header_bytes = flow.header_bytes;
        self.add_endpoint(flow.a, first + 1, &flow.forward, header_bytes, start);
        self.add_endpoint(flow.b, first, &flow.backward, header_bytes, start);
        FlowEnds {
            a: EndpointId(first),
            b: EndpointId(first + 1),
        }
    }

    fn add_endpoint(
        &mut self,
        (host, transport): (HostId, T),
        peer: u32,
        route: &[PathId],
        header_bytes: u32,
        start: Time,
    ) {
        assert!(
            host.index() < self.hosts.len(),
            "{host} is not of this world"
        );
        assert!(
            !route.is_empty(),
            "a flow needs at least one path in each direction"
        );
        for path in route {
            assert!(
                path.index() < self.paths.len(),
                "{path} is not of this world"
            );
        }
        assert!(
            u16::try_from(route.len()).is_ok(),
            "a route of {} paths",
            route.len()
        );
        let slot = self.agenda.add();
        self.sources
            .push(Source::Timer(self.endpoints.len() as u32));
        let key = self.key_at(start);
        self.agenda.set(slot, Some(key));
        self.endpoints.push(Endpoint {
            transport,
            host,
            peer,
            route: route.iter().map(|path| path.0).collect(),
            header_bytes,
            slot,
            started: false,
            guard: BusyGuard::default(),
            counters: EndpointCounters::default(),
            hook: None,
            process: None,
            backlog: None,
        });
    }

    /// Calls `change` with the world at `time`, or at once in the order of events if that has
    /// passed.
    pub fn at(&mut self, time: Time, change: impl FnOnce(&mut Self) + 'static) {
        let key = self.key_at(time.max(self.now));
        self.schedule(key, Action::Once(Box::new(change)));
    }

    /// Calls `sample` with the world every `span`, first one `span` from now. A sampler that only
    /// looks does not change the [`fingerprint`](Self::fingerprint).
    ///
    /// # Panics
    /// If the span is zero.
    pub fn sample_every(&mut self, span: Span, sample: impl FnMut(Time, &mut Self) + 'static) {
        assert!(!span.is_zero(), "a sampling interval of zero");
        let key = self.key_at(self.now + span);
        self.schedule(
            key,
            Action::Every {
                span,
                sample: Box::new(sample),
            },
        );
    }

    pub(crate) fn schedule(&mut self, key: Key, action: Action<T>) {
        self.timeline.insert(key, action);
        self.agenda.set(TIMELINE_SLOT, self.timeline.head());
    }

    /// Asks `hook` about every datagram that reaches `endpoint`, before the transport sees it:
    /// the place for faults that a test wants exactly so ("the third acknowledgement is lost").
    /// It replaces an earlier hook.
    pub fn on_arrival(
        &mut self,
        endpoint: EndpointId,
        hook: impl FnMut(Time, &Datagram) -> Fate + 'static,
    ) {
        self.endpoints[endpoint.index()].hook = Some(Box::new(hook));
    }

    /// The transport at one end of a flow.
    pub fn endpoint(&self, id: EndpointId) -> &T {
        &self.endpoints[id.index()].transport
    }

    /// The transport at one end of a flow, for application calls.
    ///
    /// It is taken for changed: as the next event, still at [`now`](Self::now), its
    /// `handle_timeout` is called and what it wants to send is sent.
    pub fn endpoint_mut(&mut self, id: EndpointId) -> &mut T {
        let (started, slot) = {
            let endpoint = &self.endpoints[id.index()];
            (endpoint.started, endpoint.slot)
        };
        // An endpoint whose flow has not started is driven when it does.
        if started && self.agenda.get(slot).is_none_or(|key| key.time > self.now) {
            let key = self.key_at(self.now);
            self.agenda.set(slot, Some(key));
        }
        &mut self.endpoints[id.index()].transport
    }

    /// What an endpoint sent and received.
    pub fn counters(&self, id: EndpointId) -> EndpointCounters {
        self.endpoints[id.index()].counters
    }

    /// The host on which an endpoint lives.
    pub fn host_of(&self, id: EndpointId) -> HostId {
        self.endpoints[id.index()].host
    }

    /// The name of a host.
    pub fn host_name(&self, id: HostId) -> &str {
        &self.hosts[id.index()]
    }

    /// All endpoints, in the order in which they were added.
    pub fn endpoints(&self) -> impl Iterator<Item = EndpointId> + use<T> {
        (0..self.endpoints.len() as u32).map(EndpointId)
    }

    /// All paths, in the order in which they were added.
    pub fn paths(&self) -> impl Iterator<Item = PathId> + use<T> {
        (0..self.paths.len() as u32).map(PathId)
    }

    /// A path, for its counters and the delay of its queue.
    pub fn path(&self, id: PathId) -> &OneWay {
        &self.paths[id.index()].one_way
    }

    /// Gives a path other properties from now on, as [`OneWay::set_config`] says. What is in flight
    /// arrives as it would have. [`switch_path`](Self::switch_path) has more to say about that.
    pub fn set_path_config(&mut self, id: PathId, config: &PathConfig) {
        let path = &mut self.paths[id.index()];
        path.one_way.set_config(config);
        path.floor = Floor::of(config);
        self.arm_queue(id.index());
    }

    /// Makes a path the port of a host, with a queue of so many datagrams (Linux: `txqueuelen`) that
    /// refuses more: a transport whose route begins here is told by
    /// [`Transport::handle_refused`], and one that cannot take a datagram back has it wait in the
    /// sending call, which is beyond the limit. What an endpoint with a process of its own sends is
    /// never refused. All datagrams in the path count, so give a port no delay of its own.
    ///
    /// # Panics
    /// If there is room for none.
    pub fn set_host_queue(&mut self, id: PathId, datagrams: usize) {
        assert!(datagrams > 0, "a host that cannot send");
        self.paths[id.index()].host_queue = datagrams;
    }

    /// Counts from now on how long packets wait in a path's queue; see [`OneWay::waits`].
    pub fn count_waits(&mut self, id: PathId) {
        self.paths[id.index()].one_way.count_waits();
    }

    /// Datagrams that are in a path: waiting in its queue or on the way.
    pub fn in_flight(&self, id: PathId) -> usize {
        self.paths[id.index()].holds()
    }

    /// What an endpoint has sent that waits in the queues of paths or is on the way, in no order; damaged datagrams are not among it, and neither
    /// are those that have reached their socket.
    pub fn under_way(&self, sender: EndpointId) -> impl Iterator<Item = Datagram> + '_ {
        let all = self.paths.iter().flat_map(Path::flights);
        all.filter(move |flight| flight.sender as usize == sender.index() && !flight.corrupt)
            .map(|flight| self.pool.datagram(flight.parcel))
    }

    /// What an endpoint's network interface counts: packets, with [`INTERFACE_BYTES`] of link
    /// header on top of each IP packet, as `ifconfig` and the papers' tools do.
    pub fn interface(&self, id: EndpointId) -> InterfaceCounters {
        let endpoint = &self.endpoints[id.index()];
        let counters = &endpoint.counters;
        let each = u64::from(endpoint.header_bytes + INTERFACE_BYTES);
        let received_packets = counters.received_datagrams + counters.socket_drops;
        InterfaceCounters {
            sent_packets: counters.sent_datagrams,
            sent_bytes: counters.sent_bytes + each * counters.sent_datagrams,
            received_packets,
            received_bytes: counters.received_bytes
                + counters.socket_dropped_bytes
                + each * received_packets,
        }
    }

    pub(crate) fn host_count(&self) -> usize {
        self.hosts.len()
    }

    /// The time now.
    pub const fn now(&self) -> Time {
        self.now
    }

    /// How many events were handled: deliveries, wake-ups and actions of the timeline.
    pub const fn events(&self) -> u64 {
        self.events
    }

    /// A hash over the time, kind, endpoint and length of everything that happened. Runs with
    /// equal inputs and seeds have equal fingerprints; a fingerprint that changes without a change
    /// of the inputs is a change of behaviour. The engine computes in integers only, but a path's
    /// random draws use the platform's logarithm, so compare runs of the same platform.
    pub const fn fingerprint(&self) -> u64 {
        self.fingerprint.value()
    }

    pub(crate) fn key_at(&mut self, time: Time) -> Key {
        self.seq += 1;
        Key::new(time, self.seq)
    }
}

impl<T> fmt::Debug for World<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World")
            .field("now", &self.now)
            .field("events", &self.events)
            .field("hosts", &self.hosts)
            .field("paths", &self.paths.len())
            .field("endpoints", &self.endpoints.len())
            .field("fingerprint", &self.fingerprint)
            .finish_non_exhaustive()
    }
}
