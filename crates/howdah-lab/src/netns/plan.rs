//! From a cell to hosts and paths.

use super::Trouble;
use crate::scenario::{Cell, Change};
use howdah_path::PathConfig;
use howdah_wan::{Hop, Namespace, Network, NetworkConfig, PathPair, RouteConfig, WanError};
use std::net::Ipv4Addr;

/// MTU of a route whose paths name none.
const USUAL_MTU: u32 = 1500;

/// Who gets which route: first the flows, then the groups, then the streams, in the cell's order.
/// Each has two hosts of its own, so that what the emulator counts there is its own.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) config: NetworkConfig,
    flows: usize,
    groups: usize,
}

/// A route with its hosts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    pub(super) route: usize,
    pub(super) receiver: Ipv4Addr,
}

impl Plan {
    pub(super) fn new(cell: &Cell) -> Result<Self, Trouble> {
        let mut seeds = crate::sim::path_seeds(cell);
        let paths: Vec<PathPair> = cell
            .paths
            .iter()
            .map(|path| PathPair {
                name: path.name.clone(),
                forward: path.forward.to_config(),
                backward: path.backward.to_config(),
                seeds: [(); 2].map(|()| seeds.next().unwrap_or(0)),
            })
            .collect();
        for (name, config) in paths
            .iter()
            .flat_map(|path| [(&path.name, &path.forward), (&path.name, &path.backward)])
            .chain(
                cell.timeline
                    .iter()
                    .flat_map(|change| {
                        let name = &cell.paths[change.path].name;
                        [
                            (name, change.forward.to_config()),
                            (name, change.backward.to_config()),
                        ]
                    })
                    .collect::<Vec<_>>()
                    .iter()
                    .map(|(name, config)| (*name, config)),
            )
        {
            possible(name, config)?;
        }
        let flows = cell.flows.iter().map(|flow| (&flow.via, flow.reverse));
        let groups = cell.groups.iter().map(|group| (&group.via, group.reverse));
        let streams = cell.streams.iter().map(|spec| (&spec.via, spec.reverse));
        let routes = flows
            .chain(groups)
            .chain(streams)
            .enumerate()
            .map(|(index, (via, reverse))| RouteConfig {
                names: [format!("h{index}a"), format!("h{index}b")],
                hops: via
                    .iter()
                    .map(|&path| Hop {
                        path,
                        reversed: reverse,
                    })
                    .collect(),
                mtu: mtu(cell, via),
            })
            .collect();
        Ok(Self {
            config: NetworkConfig { paths, routes },
            flows: cell.flows.len(),
            groups: cell.groups.len(),
        })
    }

    #[allow(clippy::unused_self, reason = "as for groups and streams")]
    pub(super) fn flow(&self, index: usize) -> Ends {
        Ends::of(index)
    }

    pub(super) fn group(&self, index: usize) -> Ends {
        Ends::of(self.flows + index)
    }

    pub(super) fn stream(&self, index: usize) -> Ends {
        Ends::of(self.flows + self.groups + index)
    }

    /// Largest IP packet of a route.
    pub(super) fn mtu(&self, route: usize) -> u32 {
        self.config.routes[route].mtu
    }
}

impl Ends {
    fn of(route: usize) -> Self {
        let [_, receiver] = Network::addresses(route);
        Self { route, receiver }
    }

    pub(super) fn sender_host<'a>(&self, network: &'a Network) -> &'a Namespace {
        network.a(self.route)
    }

    pub(super) fn receiver_host<'a>(&self, network: &'a Network) -> &'a Namespace {
        network.b(self.route)
    }
}

/// Carries out a change of the timeline.
pub(super) fn change(
    network: &Network,
    before: [&PathConfig; 2],
    change: &Change,
) -> [PathConfig; 2] {
    let after = [change.forward.to_config(), change.backward.to_config()];
    let with_switch = |side: usize| {
        let switch = change.switch(before[side].delay != after[side].delay);
        (&after[side], Some(switch))
    };
    network.set_path(change.path, with_switch(0), with_switch(1));
    after
}

/// Whether namespaces and devices can be made here at all.
pub(super) fn probe() -> Result<(), WanError> {
    let config = NetworkConfig {
        paths: vec![PathPair {
            name: "probe".to_owned(),
            forward: PathConfig::default(),
            backward: PathConfig::default(),
            seeds: [1, 2],
        }],
        routes: vec![RouteConfig {
            names: ["pa".to_owned(), "pb".to_owned()],
            hops: vec![Hop {
                path: 0,
                reversed: false,
            }],
            mtu: USUAL_MTU,
        }],
    };
    Network::create(&config).map(drop)
}

fn possible(name: &str, config: &PathConfig) -> Result<(), Trouble> {
    if config.stores_packets() {
        return Err(Trouble::Skipped(format!(
            "path '{name}' needs a queue that stores packets (CoDel, a token bucket, a rate trace, or a backlog \
             that is dropped), which only the simulator has"
        )));
    }
    Ok(())
}

fn mtu(cell: &Cell, via: &[usize]) -> u32 {
    let paths = via.iter().map(|&path| &cell.paths[path]);
    paths
        .flat_map(|path| [path.forward.mtu_bytes, path.backward.mtu_bytes])
        .filter(|&mtu| mtu > 0)
        .min()
        .unwrap_or(USUAL_MTU)
}
