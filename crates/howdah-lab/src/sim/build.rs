//! From a cell to a world.

use super::node::{Node, Wish, pair, stream, walk_ns};
use super::shorts::{Short, draw};
use crate::catalog::{self, Protocol};
use crate::scenario::{Cell, Change, CostSpec, FlowSpec, HostSpec, StreamSpec};
use crate::warm;
use howdah_core::{Span, Time};
use howdah_proto::PathKnowledge;
use howdah_rivals::blast::SharedBudget;
use howdah_rivals::tcp::MetricsCache;
use howdah_sim::{
    BacklogId, CoreId, Costs, EndpointId, Flow, FlowEnds, HostId, Link, PacketCost, SocketBuffer,
    World,
};
use std::collections::BTreeMap;

/// Packets that the input queue of a host of Linux 2.4 holds (`net.core.netdev_max_backlog`).
const NETDEV_MAX_BACKLOG: usize = 300;

/// A world, and who is who in it.
pub(crate) struct Built {
    pub(crate) world: World<Node>,
    /// By index of [`Cell::paths`].
    pub(crate) links: Vec<Link>,
    /// By index of [`Cell::flows`].
    pub(crate) flows: Vec<Placed>,
    /// By index of [`Cell::groups`].
    pub(crate) groups: Vec<Vec<(Short, Placed)>>,
    /// By index of [`Cell::streams`].
    pub(crate) streams: Vec<Placed>,
    /// By index of [`Cell::hosts`].
    machines: Vec<Machine>,
    /// By receiving host, direction and rate.
    budgets: BTreeMap<(Option<usize>, bool, u64), SharedBudget>,
    /// By the first path of the route, which is the host's port, and direction.
    caches: BTreeMap<(usize, bool), MetricsCache>,
    /// Input queues of sending hosts, likewise.
    backlogs: BTreeMap<(usize, bool), BacklogId>,
}

/// A flow in the world.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placed {
    pub(crate) ends: FlowEnds,
    pub(crate) header_bytes: u32,
    pub(crate) is_sized: bool,
}

/// A machine that is not infinitely fast.
struct Machine {
    id: HostId,
    cores: Vec<CoreId>,
    split: bool,
    costs: Costs,
    /// Core of the next endpoint.
    next: usize,
}

impl Machine {
    fn new(world: &mut World<Node>, spec: &HostSpec) -> Self {
        let id = world.add_host(&spec.name);
        let cost = |cost: &CostSpec| PacketCost {
            per_packet: Span::from_nanos(cost.packet_ns),
            per_report: Span::from_nanos(cost.report_ns),
            per_byte_ps: cost.byte_ps,
        };
        Self {
            id,
            cores: (0..spec.cores.max(1)).map(|_| world.add_core(id)).collect(),
            split: spec.split,
            costs: Costs {
                sent: cost(&spec.sent),
                received: cost(&spec.received),
                per_wake: Span::from_nanos(spec.wake_ns),
                datagrams_per_call: spec.batch,
                socket: spec.socket.map(|(bytes, charge_percent)| SocketBuffer {
                    bytes,
                    charge_percent,
                }),
                disturbance: spec.disturbance.to_sim(),
            },
            next: 0,
        }
    }

    /// Gives an endpoint its cores, in turn.
    fn run(&mut self, world: &mut World<Node>, endpoint: EndpointId) {
        let core = |at: usize| self.cores[at % self.cores.len()];
        let send = core(self.next);
        let receive = if self.split {
            core(self.next + 1)
        } else {
            send
        };
        self.next += if self.split { 2 } else { 1 };
        world.run_on(endpoint, send, receive, self.costs);
    }
}

/// What a flow that begins warm has learnt before.
fn learnt(cell: &Cell, index: usize) -> Option<PathKnowledge> {
    let mut before = warm::earlier(cell, index);
    before.flows[0].warm = false;
    let mut built = Built::new(&before);
    built.world.run_until(before.measure.end());
    built.world.endpoint(built.flows[0].ends.a).learnt()
}

/// Where a flow runs.
struct Route<'a> {
    via: &'a [usize],
    reverse: bool,
}

impl Built {
    pub(crate) fn new(cell: &Cell) -> Self {
        let mut world = World::new(cell.seed);
        let hosts = (world.add_host("sender"), world.add_host("receiver"));
        let machines = cell
            .hosts
            .iter()
            .map(|spec| Machine::new(&mut world, spec))
            .collect();
        let links = cell
            .paths
            .iter()
            .map(|path| {
                let link = world.add_link(&path.forward.to_config(), &path.backward.to_config());
                if let Some(packets) = path.host_queue_packets {
                    let packets = usize::try_from(packets).unwrap_or(usize::MAX);
                    world.set_host_queue(link.forward, packets);
                    world.set_host_queue(link.backward, packets);
                }
                link
            })
            .collect();
        let mut built = Self {
            world,
            links,
            flows: Vec::new(),
            groups: Vec::new(),
            streams: Vec::new(),
            machines,
            budgets: BTreeMap::new(),
            caches: BTreeMap::new(),
            backlogs: BTreeMap::new(),
        };
        for (index, flow) in cell.flows.iter().enumerate() {
            let known = flow.warm.then(|| learnt(cell, index)).flatten();
            let placed = built.add(cell, hosts, flow, known);
            built.flows.push(placed);
        }
        for group in &cell.groups {
            let shorts = draw(group, cell.seed);
            let mut placed = Vec::with_capacity(shorts.len());
            for short in shorts {
                let flow = FlowSpec {
                    name: String::new(),
                    protocol: group.protocol.clone(),
                    start_ns: short.start_ns,
                    start_within_ns: None,
                    drawn_ns: 0,
                    size_bytes: Some(short.size_bytes),
                    via: group.via.clone(),
                    reverse: group.reverse,
                    ends: group.ends,
                    warm: false,
                    options: group.options.clone(),
                };
                placed.push((short, built.add(cell, hosts, &flow, None)));
            }
            built.groups.push(placed);
        }
        for spec in &cell.streams {
            let placed = built.add_stream(hosts, spec);
            built.streams.push(placed);
        }
        built
    }

    fn add_stream(&mut self, hosts: (HostId, HostId), spec: &StreamSpec) -> Placed {
        let seed = self.world.next_seed();
        let pair = stream(spec, seed).expect("a decoded scenario has possible streams only");
        let route = Route {
            via: &spec.via,
            reverse: spec.reverse,
        };
        let flow = Flow::between((hosts.0, pair.sender), (hosts.1, pair.receiver))
            .header_bytes(pair.header_bytes)
            .start_at(Time::from_nanos(spec.start_ns));
        Placed {
            ends: self.place(flow, &route),
            header_bytes: pair.header_bytes,
            is_sized: false,
        }
    }

    fn add(
        &mut self,
        cell: &Cell,
        hosts: (HostId, HostId),
        flow: &FlowSpec,
        known: Option<PathKnowledge>,
    ) -> Placed {
        let route = Route {
            via: &flow.via,
            reverse: flow.reverse,
        };
        let budget = self.budget(flow);
        let walks = walk_ns(&flow.options).is_some();
        let port = (flow.via.first().copied().unwrap_or_default(), flow.reverse);
        let cache = (flow.options.metrics_cache == Some(true))
            .then(|| self.caches.entry(port).or_default().clone());
        let wish = Wish {
            protocol: &flow.protocol,
            options: &flow.options,
            size_bytes: flow.size_bytes,
            start: Time::from_nanos(flow.start_ns),
            mtu: mtu(cell, &route),
            marks: marks(cell, &route),
            seeds: [self.world.next_seed(), self.world.next_seed()],
            budget: budget.as_ref(),
            cache: cache.as_ref(),
            known,
        };
        let pair = pair(&wish).expect("a decoded scenario names known protocols only");
        let [from, to] = flow.ends;
        let machine = |end: Option<usize>, default| end.map_or(default, |at| self.machines[at].id);
        let (near, far) = (machine(from, hosts.0), machine(to, hosts.1));
        let flow = Flow::between((near, pair.sender), (far, pair.receiver));
        let ends = self.place(
            flow.header_bytes(pair.header_bytes).start_at(wish.start),
            &route,
        );
        for (end, machine) in [(ends.a, from), (ends.b, to)] {
            if let Some(machine) = machine {
                self.machines[machine].run(&mut self.world, end);
            }
        }
        if walks {
            let world = &mut self.world;
            let backlog = self.backlogs.entry(port).or_insert_with(|| {
                world.add_backlog(near, NETDEV_MAX_BACKLOG, Node::handling_time)
            });
            world.receive_through(ends.a, *backlog);
        }
        Placed {
            ends,
            header_bytes: pair.header_bytes,
            is_sized: wish.size_bytes.is_some(),
        }
    }

    /// What flows that end at the same host and name the same rate share there.
    fn budget(&mut self, flow: &FlowSpec) -> Option<SharedBudget> {
        let rate = match catalog::find(&flow.protocol)? {
            Protocol::Blast(tool) => tool.budget(&flow.options)?,
            _ => return None,
        };
        let place = (flow.ends[1], flow.reverse, rate.bits_per_sec());
        let budget = self.budgets.entry(place);
        Some(budget.or_insert_with(|| SharedBudget::new(rate)).clone())
    }

    fn place(&mut self, mut flow: Flow<Node>, route: &Route<'_>) -> FlowEnds {
        for &path in route.via {
            let link = self.links[path];
            flow = flow.over(if route.reverse { link.reversed() } else { link });
        }
        self.world.add_flow(flow)
    }

    /// Gives a path other properties.
    pub(crate) fn change(&mut self, cell: &Cell, change: &Change) {
        let link = self.links[change.path];
        let now = self.world.now();
        for (side, id, spec) in [
            (0, link.forward, &change.forward),
            (1, link.backward, &change.backward),
        ] {
            let before = current(cell, 2 * change.path + side, now);
            let switch = change.switch(before.delay_ns != spec.delay_ns);
            self.world.switch_path(id, &spec.to_config(), switch);
        }
    }

    /// Every sized flow is complete, and there is one.
    pub(crate) fn is_complete(&self) -> bool {
        let mut sized = self.flows.iter().filter(|flow| flow.is_sized).peekable();
        sized.peek().is_some() && sized.all(|flow| self.world.endpoint(flow.ends.a).is_finished())
    }
}

/// The seeds of a cell's paths, forward and backward of each in turn, as [`Built::new`] gives them: a testbed that takes the
/// same loses the same packets, counted from the first, and differs in nothing by chance.
#[cfg(target_os = "linux")]
pub(crate) fn path_seeds(cell: &Cell) -> impl Iterator<Item = u64> + use<> {
    let mut world: World<Node> = World::new(cell.seed);
    std::iter::repeat_with(move || world.next_seed())
}

/// What a direction was just before `now`.
pub(crate) fn current(cell: &Cell, at: usize, now: Time) -> &crate::scenario::OneWaySpec {
    let side = |forward, backward| {
        if at.is_multiple_of(2) {
            forward
        } else {
            backward
        }
    };
    let path = &cell.paths[at / 2];
    let change = cell
        .timeline
        .iter()
        .rfind(|change| change.path == at / 2 && change.at_ns < now.as_nanos());
    match change {
        Some(change) => side(&change.forward, &change.backward),
        None => side(&path.forward, &path.backward),
    }
}

/// Whether a queue of the route marks packets instead of dropping them. Elsewhere nothing is gained by packets that can be marked, and what was measured before stays comparable.
fn marks(cell: &Cell, route: &Route<'_>) -> bool {
    let mut paths = route.via.iter().map(|&path| &cell.paths[path]);
    paths.any(|path| {
        [&path.forward, &path.backward]
            .iter()
            .any(|way| way.aqm.marks())
    })
}

/// Largest IP packet that fits through the route.
fn mtu(cell: &Cell, route: &Route<'_>) -> u32 {
    let paths = route.via.iter().map(|&path| &cell.paths[path]);
    paths
        .flat_map(|path| [path.forward.mtu_bytes, path.backward.mtu_bytes])
        .filter(|&mtu| mtu > 0)
        .min()
        .unwrap_or(65_535)
}
