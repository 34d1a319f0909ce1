//! Many hosts, the paths between them, and who goes which way.

use crate::WanError;
use crate::certificate::{Certificate, DirectionCertificate};
use crate::engine::{Engine, Traffic, Way};
use crate::link::{DropCount, Link};
use crate::machine::Watch;
use crate::netns::{Family, Namespace};
use howdah_path::{PathConfig, Switch};
use std::net::Ipv4Addr;

/// Smallest MTU of IPv4 links (RFC 791), and the largest that a TUN device takes.
const MTU_RANGE: std::ops::RangeInclusive<u32> = 68..=65_521;
/// The route's number is one byte of an address.
const MAX_ROUTES: usize = 256;

/// Both directions of a stretch of network.
#[derive(Clone, Debug)]
pub struct PathPair {
    /// For the certificate: "main".
    pub name: String,
    /// One way.
    pub forward: PathConfig,
    /// The other.
    pub backward: PathConfig,
    /// For everything random there, forward and backward: the same seed and the same packets give the same losses.
    /// All directions of a network need different ones, or they lose packets in lock-step.
    pub seeds: [u64; 2],
}

/// One path that a route takes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Hop {
    /// By index into [`NetworkConfig::paths`].
    pub path: usize,
    /// From `a` to `b` the route takes the path's backward direction.
    pub reversed: bool,
}

/// Two hosts of their own, and the paths between them.
#[derive(Clone, Debug)]
pub struct RouteConfig {
    /// Endings of the names of the namespaces of `a` and `b`: small letters and digits, a letter
    /// first, different from all others.
    pub names: [String; 2],
    /// From `a` to `b`; the way back takes the same paths, the last one first.
    pub hops: Vec<Hop>,
    /// MTU of both hosts' devices, in IP bytes: what the hosts believe. A smaller
    /// [`PathConfig::mtu`] makes a path that silently drops what is larger.
    pub mtu: u32,
}

/// What network to make.
#[derive(Clone, Debug)]
pub struct NetworkConfig {
    /// The paths. Routes that share one compete there.
    pub paths: Vec<PathPair>,
    /// The routes, at most 256.
    pub routes: Vec<RouteConfig>,
}

/// Hosts and an emulated network. Dropping it removes everything; so does the end of the process,
/// of whatever cause.
///
/// The hosts of route k are 10.88.k.1 (`a`) and 10.88.k.2 (`b`); with IPv6 `fd88::1` and `fd88::2` on
/// the first route, `fd88:k::1` and `fd88:k::2` on the others, k in hexadecimal.
#[derive(Debug)]
pub struct Network {
    // The order of the fields is the order of removal: the devices go before their namespaces.
    engine: Engine,
    watch: Watch,
    drops: Vec<DropCount>,
    names: Vec<String>,
    /// First lane of each device's way.
    entries: Vec<usize>,
    udp_offload: bool,
    family: Family,
}

impl Network {
    /// Makes the namespaces and devices and starts the emulator.
    ///
    /// # Errors
    ///
    /// [`WanError::NotPermitted`] without root, [`WanError::NoTun`] without the tun driver,
    /// [`WanError::NoIproute`] without `ip`, [`WanError::BadConfig`] for an MTU out of range, a path
    /// that [stores packets](PathConfig::stores_packets), or routes that make no sense.
    pub fn create(config: &NetworkConfig) -> Result<Self, WanError> {
        check(config)?;
        let endings: Vec<String> = config
            .routes
            .iter()
            .flat_map(|route| route.names.iter().cloned())
            .collect();
        let family = Family::create(&endings)?;
        let mut tuns = Vec::with_capacity(endings.len());
        let mut drops = Vec::with_capacity(endings.len());
        for (index, namespace) in family.members.iter().enumerate() {
            let (route, host) = (index / 2, index % 2 + 1);
            let mtu = config.routes[route].mtu;
            let link = Link::create(namespace, (route as u8, host as u8), mtu)?;
            tuns.push(link.tun);
            drops.push(link.drops);
        }
        let udp_offload = tuns.iter().all(crate::tun::Tun::udp_offload);
        let lanes: Vec<(&PathConfig, u64)> = config
            .paths
            .iter()
            .flat_map(|path| {
                [
                    (&path.forward, path.seeds[0]),
                    (&path.backward, path.seeds[1]),
                ]
            })
            .collect();
        let ways: Vec<Way> = config
            .routes
            .iter()
            .enumerate()
            .flat_map(|(index, route)| ways(index, route))
            .collect();
        let entries = ways.iter().map(|way| way.lanes[0]).collect();
        let engine = Engine::start(tuns, &lanes, ways)?;
        let watch = Watch::start().map_err(WanError::system("start a thread"))?;
        Ok(Self {
            engine,
            watch,
            drops,
            names: config.paths.iter().map(|path| path.name.clone()).collect(),
            entries,
            udp_offload,
            family,
        })
    }

    /// The host at the beginning of a route.
    ///
    /// # Panics
    /// If there is no such route.
    pub fn a(&self, route: usize) -> &Namespace {
        &self.family.members[2 * route]
    }

    /// The host at its end.
    ///
    /// # Panics
    /// If there is no such route.
    pub fn b(&self, route: usize) -> &Namespace {
        &self.family.members[2 * route + 1]
    }

    /// Addresses of a route's two hosts.
    pub fn addresses(route: usize) -> [Ipv4Addr; 2] {
        [1, 2].map(|host| Ipv4Addr::new(10, 88, route as u8, host))
    }

    /// Makes a path another one. `switch` says for each direction what becomes of the packets that
    /// are on it; `None` is [`howdah_path::OneWay::set_config`].
    ///
    /// # Panics
    /// If the path [stores packets](PathConfig::stores_packets).
    pub fn set_path(
        &self,
        path: usize,
        forward: (&PathConfig, Option<Switch>),
        backward: (&PathConfig, Option<Switch>),
    ) {
        for (side, (config, switch)) in [forward, backward].into_iter().enumerate() {
            self.set_lane(2 * path + side, config, switch);
        }
    }

    pub(crate) fn set_lane(&self, lane: usize, config: &PathConfig, switch: Option<Switch>) {
        assert!(!config.stores_packets(), "the emulator stores no packets");
        self.engine.set_config(lane, config, switch);
    }

    /// Whether UDP super-packets pass whole (Linux 6.2 and later).
    pub fn has_udp_offload(&self) -> bool {
        self.udp_offload
    }

    /// What the hosts of each route have sent and received so far: from `a`, sent and delivered,
    /// and from `b`. `None` if the emulator thread is dead.
    pub fn traffic(&self) -> Option<Vec<[(Traffic, Traffic); 2]>> {
        let ways = self.engine.traffic()?;
        Some(
            ways.chunks_exact(2)
                .map(|pair| [pair[0], pair[1]])
                .collect(),
        )
    }

    /// How good the emulation was so far. If the emulator thread is dead, that is an objection.
    pub fn certificate(&self) -> Certificate {
        let usage = self.watch.usage();
        let Some(report) = self.engine.report() else {
            return Certificate::of_a_dead_emulator(&usage);
        };
        let lanes = report.lanes.iter().enumerate().map(|(index, lane)| {
            // A count that cannot be read is as bad as a drop.
            let drops = self
                .drops
                .iter()
                .zip(&self.entries)
                .filter(|&(_, &entry)| entry == index)
                .map(|(count, _)| count.read().unwrap_or(u64::MAX / 4))
                .fold(0, u64::saturating_add);
            let side = ["forward", "backward"][index % 2];
            let name = match &self.names[..] {
                [_] => side.to_owned(),
                names => format!("{}/{side}", names[index / 2]),
            };
            (name, DirectionCertificate::new(lane, drops))
        });
        Certificate::new(&report, lanes.collect(), &usage)
    }
}

/// Of the device of `a` and of the device of `b`.
fn ways(index: usize, route: &RouteConfig) -> [Way; 2] {
    let lane = |hop: &Hop, back: bool| 2 * hop.path + usize::from(hop.reversed != back);
    let way = |lanes: Vec<usize>, exit| Way {
        lanes,
        exit,
        sent: Traffic::default(),
        delivered: Traffic::default(),
    };
    let there = route.hops.iter().map(|hop| lane(hop, false)).collect();
    let back = route.hops.iter().rev().map(|hop| lane(hop, true)).collect();
    [way(there, 2 * index + 1), way(back, 2 * index)]
}

fn check(config: &NetworkConfig) -> Result<(), WanError> {
    let bad = |text: String| Err(WanError::BadConfig(text));
    if config.routes.is_empty() || config.routes.len() > MAX_ROUTES {
        return bad(format!(
            "{} routes; the emulator takes from 1 to {MAX_ROUTES}",
            config.routes.len()
        ));
    }
    for path in &config.paths {
        if path.forward.stores_packets() || path.backward.stores_packets() {
            return bad(format!(
                "path '{}': the emulator decides about a packet when it comes: it has no stored queue, \
                 CoDel, token bucket or rate trace",
                path.name
            ));
        }
    }
    for route in &config.routes {
        let [a, b] = &route.names;
        if !MTU_RANGE.contains(&route.mtu) {
            return bad(format!(
                "an MTU of {} is not between {} and {}",
                route.mtu,
                MTU_RANGE.start(),
                MTU_RANGE.end()
            ));
        }
        let mut paths: Vec<usize> = route.hops.iter().map(|hop| hop.path).collect();
        paths.sort_unstable();
        paths.dedup();
        if paths.len() != route.hops.len() || paths.is_empty() {
            return bad(format!(
                "the route from {a} to {b} has no path, or one twice"
            ));
        }
        if paths.iter().any(|&path| path >= config.paths.len()) {
            return bad(format!(
                "the route from {a} to {b} takes a path that is not there"
            ));
        }
    }
    Ok(())
}
