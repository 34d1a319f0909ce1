//! Handshakes under way: who gives way when there are too many.
//!
//! Places are shared by networks first (an IPv6 /48, an IPv4 /24), then by hosts in them (a /64, an address): whoever has most of them gives the oldest one
//! up. So one that opens handshakes from all of its addresses shuts nobody out but himself.

use super::ConnKey;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Handshakes that may be under way at a server.
pub(crate) const MAX_HALF_OPEN: usize = 256;

/// The leading bits of an address, and whether it is one of IPv6.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Prefix(bool, [u8; 8]);

impl Prefix {
    fn of(ip: IpAddr, v4_bytes: usize, v6_bytes: usize) -> Self {
        let mut prefix = [0; 8];
        let (is_v6, octets, len) = match ip {
            IpAddr::V4(ip) => (false, ip.to_ipv6_mapped().octets(), v4_bytes),
            IpAddr::V6(ip) => (true, ip.octets(), v6_bytes),
        };
        let from = if is_v6 { 0 } else { 12 };
        for (to, octet) in prefix.iter_mut().zip(octets.iter().skip(from).take(len)) {
            *to = *octet;
        }
        Self(is_v6, prefix)
    }

    /// What belongs to one network as a rule: an IPv4 /24, an IPv6 /48.
    pub fn network(ip: IpAddr) -> Self {
        Self::of(ip, 3, 6)
    }

    /// The same for equal prefixes, and for no others.
    pub(crate) fn bytes(self) -> [u8; 9] {
        let mut bytes = [self.0.into(); 9];
        bytes[1..].copy_from_slice(&self.1);
        bytes
    }

    fn host(ip: IpAddr) -> Self {
        Self::of(ip, 4, 8)
    }
}

/// Whether one more may begin.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Room {
    Free,
    /// If this one ends.
    InsteadOf(ConnKey),
    /// Only if one of the newcomer's own network, or one that has no other beside it, is given up.
    Taken,
}

/// How many each has, whoever has most last: each first packet asks while there is a flood.
#[derive(Debug, Default)]
struct Ranks(BTreeSet<(usize, Prefix)>);

impl Ranks {
    fn change(&mut self, who: Prefix, before: usize, now: usize) {
        count_step();
        self.0.remove(&(before, who));
        if now > 0 {
            count_step();
            self.0.insert((now, who));
        }
    }

    fn busiest(&self) -> Option<Prefix> {
        count_step();
        self.0.last().map(|&(_, who)| who)
    }
}

#[derive(Debug, Default)]
struct Network {
    hosts: BTreeMap<Prefix, BTreeSet<ConnKey>>,
    ranks: Ranks,
    total: usize,
}

/// See the module. Keys ascend with time.
#[derive(Debug, Default)]
pub(crate) struct HalfOpen {
    networks: BTreeMap<Prefix, Network>,
    ranks: Ranks,
    from: BTreeMap<ConnKey, IpAddr>,
}

impl HalfOpen {
    pub(crate) fn len(&self) -> usize {
        self.from.len()
    }

    pub(crate) fn contains(&self, key: ConnKey) -> bool {
        self.from.contains_key(&key)
    }

    /// The oldest first.
    pub(crate) fn keys(&self) -> impl Iterator<Item = ConnKey> + '_ {
        self.from.keys().copied()
    }

    pub(crate) fn insert(&mut self, key: ConnKey, ip: IpAddr) {
        self.remove(key);
        count_step();
        self.from.insert(key, ip);
        let (network, host) = (Prefix::network(ip), Prefix::host(ip));
        let of = self.networks.entry(network).or_default();
        let keys = of.hosts.entry(host).or_default();
        keys.insert(key);
        of.ranks.change(host, keys.len() - 1, keys.len());
        of.total += 1;
        self.ranks.change(network, of.total - 1, of.total);
    }

    pub(crate) fn remove(&mut self, key: ConnKey) {
        count_step();
        let Some(ip) = self.from.remove(&key) else {
            return;
        };
        let (network, host) = (Prefix::network(ip), Prefix::host(ip));
        let Some(of) = self.networks.get_mut(&network) else {
            return;
        };
        let Some(keys) = of.hosts.get_mut(&host) else {
            return;
        };
        if !keys.remove(&key) {
            return;
        }
        of.ranks.change(host, keys.len() + 1, keys.len());
        if keys.is_empty() {
            of.hosts.remove(&host);
        }
        of.total -= 1;
        self.ranks.change(network, of.total + 1, of.total);
        if of.total == 0 {
            self.networks.remove(&network);
        }
    }

    /// Whether a handshake from `ip` may begin.
    pub(crate) fn room(&self, ip: IpAddr) -> Room {
        if self.len() < MAX_HALF_OPEN {
            return Room::Free;
        }
        let (network, host) = (Prefix::network(ip), Prefix::host(ip));
        let busiest = self.ranks.busiest();
        let Some((busiest, of)) = busiest.and_then(|who| Some((who, self.networks.get(&who)?)))
        else {
            return Room::Free;
        };
        let busiest_host = of.ranks.busiest();
        let Some((busiest_host, keys)) =
            busiest_host.and_then(|who| Some((who, of.hosts.get(&who)?)))
        else {
            return Room::Free;
        };
        let gives_way = if busiest == network {
            let own = of.hosts.get(&host).map_or(0, BTreeSet::len);
            busiest_host != host && keys.len() > own + 1
        } else {
            let own = self.networks.get(&network).map_or(0, |mine| mine.total);
            of.total > own + 1
        };
        match keys.first() {
            Some(&oldest) if gives_way => Room::InsteadOf(oldest),
            _ => Room::Taken,
        }
    }
}

/// Each is one look into a tree, for strangers decide how many there are.
fn count_step() {
    #[cfg(test)]
    tests::STEPS.set(tests::STEPS.get() + 1);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    thread_local! {
        pub(super) static STEPS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
    }

    /// Whatever addresses a flood comes from: each first packet asks for room, and makes some if it can.
    #[test]
    fn h10_a_flood_of_first_packets_is_little_work_for_each() {
        const PACKETS: u64 = 100_000;
        let one = |_| ip("192.0.2.1");
        let hosts = |n: u64| IpAddr::from([192, 0, 2, n as u8]);
        let networks = |n: u64| IpAddr::from([10, (n >> 8) as u8, n as u8, 1]);
        let mixed = |n: u64| {
            if n.is_multiple_of(3) {
                networks(n)
            } else {
                hosts(n)
            }
        };
        let floods: [&dyn Fn(u64) -> IpAddr; 4] = [&one, &hosts, &networks, &mixed];
        for flood in floods {
            let mut table = HalfOpen::default();
            STEPS.set(0);
            for n in 0..PACKETS {
                let from = flood(n);
                match table.room(from) {
                    Room::Free => {}
                    Room::InsteadOf(victim) => table.remove(victim),
                    // Its own oldest one ends, by its clock.
                    Room::Taken => {
                        let oldest = table.keys().next();
                        table.remove(oldest.expect("it is full"));
                    }
                }
                table.insert(ConnKey(n), from);
                assert!(table.len() <= MAX_HALF_OPEN);
            }
            let steps = STEPS.get();
            assert!(steps <= 16 * PACKETS, "{steps} steps for {PACKETS} packets");
        }
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    /// Full of handshakes from `addresses` in turn.
    fn full(addresses: &[&str]) -> HalfOpen {
        let mut table = HalfOpen::default();
        let ips = addresses.iter().cycle();
        for (n, address) in ips.take(MAX_HALF_OPEN).enumerate() {
            table.insert(ConnKey(n as u64), ip(address));
        }
        table
    }

    #[test]
    fn whoever_has_most_gives_the_oldest_up() {
        // Seventeen addresses of one /60, as was tried (H10), and of one /48; another network's host gets in at once.
        let one: Vec<String> = (0..17).map(|n| format!("2001:db8:0:{n:x}::1")).collect();
        let one: Vec<&str> = one.iter().map(String::as_str).collect();
        let mut table = full(&one);
        for n in 0..120 {
            let newcomer = ip("2001:db8:1::9");
            let Room::InsteadOf(victim) = table.room(newcomer) else {
                panic!("newcomer {n} is shut out");
            };
            assert!(victim.0 < MAX_HALF_OPEN as u64, "the newcomers' own stay");
            table.remove(victim);
            table.insert(ConnKey(1_000 + n), newcomer);
        }
        assert_eq!(table.len(), MAX_HALF_OPEN);
        // The busiest one itself replaces nothing of others.
        assert_eq!(table.room(ip("2001:db8:0:3::77")), Room::Taken);
        assert!(matches!(table.room(ip("192.0.2.1")), Room::InsteadOf(_)));
    }

    #[test]
    fn hosts_of_one_network_share_its_places() {
        let mut table = full(&["198.51.100.7"]);
        let Room::InsteadOf(victim) = table.room(ip("198.51.100.8")) else {
            panic!("a neighbour is shut out");
        };
        assert_eq!(victim, ConnKey(0));
        table.remove(victim);
        table.insert(ConnKey(1_000), ip("198.51.100.8"));
        assert_eq!(
            table.room(ip("198.51.100.7")),
            Room::Taken,
            "in its own way"
        );
        table.remove(ConnKey(5));
        assert_eq!(table.room(ip("198.51.100.7")), Room::Free);
    }

    #[test]
    fn equals_do_not_push_each_other_out() {
        let all: Vec<String> = (0..=255).map(|n| format!("10.0.{n}.1")).collect();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let mut table = full(&all);
        assert_eq!(table.room(ip("10.9.9.9")), Room::Taken);
        for n in 0..MAX_HALF_OPEN as u64 {
            table.remove(ConnKey(n));
        }
        assert!(table.networks.is_empty() && table.len() == 0);
        assert!(table.ranks.0.is_empty());
    }

    proptest! {
        /// Who has most is known without a look at all of them.
        #[test]
        fn ranks_are_those_of_a_count(
            steps in prop::collection::vec((any::<bool>(), 0..60u64, 0..4u8, 0..4u8), 0..200),
        ) {
            let mut table = HalfOpen::default();
            for (comes, key, network, host) in steps {
                if comes {
                    table.insert(ConnKey(key), IpAddr::from([10, 0, network, host]));
                } else {
                    table.remove(ConnKey(key));
                }
                let totals = table.networks.iter().map(|(who, of)| {
                    let counted: usize = of.hosts.values().map(BTreeSet::len).sum();
                    (counted, *who)
                });
                prop_assert_eq!(totals.clone().collect::<BTreeSet<_>>(), table.ranks.0.clone());
                prop_assert_eq!(totals.map(|(n, _)| n).sum::<usize>(), table.len());
                for of in table.networks.values() {
                    let hosts = of.hosts.iter().map(|(who, keys)| (keys.len(), *who));
                    prop_assert_eq!(hosts.collect::<BTreeSet<_>>(), of.ranks.0.clone());
                }
            }
        }
    }
}
