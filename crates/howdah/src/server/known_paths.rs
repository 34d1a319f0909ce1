//! What a server has learnt of the paths to its clients, so that what it sends next begins where the last transfer was.
//!
//! In memory only, and for each key and address by itself: what one client makes a server believe of a path is nothing to anybody else. What a
//! client knows of its own paths is in files of the user (`crate::paths`).

use howdah_core::Span;
use howdah_proto::PathKnowledge;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The oldest go when there are more.
const MOST: usize = 1_024;
/// Networks change.
const KEPT: Duration = Duration::from_hours(24);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct KnownPaths(Mutex<BTreeMap<(String, IpAddr), Known>>);

#[derive(Clone, Copy, Debug)]
struct Known {
    path: PathKnowledge,
    at: Instant,
}

impl KnownPaths {
    /// What is known of the path to that client at that address.
    pub(super) fn recall(&self, client: &str, address: IpAddr) -> Option<PathKnowledge> {
        self.recall_at(Instant::now(), client, address)
    }

    fn recall_at(&self, now: Instant, client: &str, address: IpAddr) -> Option<PathKnowledge> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all.get(&(client.to_owned(), address.to_canonical()))?;
        let age = now.saturating_duration_since(known.at);
        (age <= KEPT).then_some(PathKnowledge {
            age: Span::from_secs(age.as_secs()),
            ..known.path
        })
    }

    /// Remembers that of it.
    pub(super) fn remember(&self, client: &str, address: IpAddr, path: PathKnowledge) {
        self.remember_at(Instant::now(), client, address, path);
    }

    fn remember_at(&self, now: Instant, client: &str, address: IpAddr, path: PathKnowledge) {
        // Of a key of an unknown kind nobody knows whose it is.
        if client.is_empty() || !path.is_plausible() {
            return;
        }
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let whose = (client.to_owned(), address.to_canonical());
        if all.len() >= MOST && !all.contains_key(&whose) {
            let oldest = all.iter().min_by_key(|(_, known)| known.at);
            if let Some(oldest) = oldest.map(|(whose, _)| whose.clone()) {
                all.remove(&oldest);
            }
        }
        all.insert(whose, Known { path, at: now });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_core::Rate;

    fn path(mbit: u64) -> PathKnowledge {
        PathKnowledge {
            capacity: Rate::from_mbit_per_sec(mbit),
            rtt: Span::from_millis(50),
            loss: 0.0,
            age: Span::ZERO,
            datagram_bytes: 1_472,
        }
    }

    fn at(last: u32) -> IpAddr {
        IpAddr::from((0x0a00_0000 + last).to_be_bytes())
    }

    #[test]
    fn each_client_has_his_own_at_each_address() {
        let (paths, now) = (KnownPaths::default(), Instant::now());
        paths.remember_at(now, "anna", at(1), path(100));
        paths.remember_at(now, "anna", at(2), path(200));
        let later = now + Duration::from_mins(1);
        let recall = |client, address| paths.recall_at(later, client, address);
        let found = recall("anna", at(1)).expect("it is there");
        assert_eq!(
            (found.capacity, found.age, found.datagram_bytes),
            (path(100).capacity, Span::from_secs(60), 1_472)
        );
        assert_eq!(
            recall("anna", at(2)).map(|p| p.capacity),
            Some(path(200).capacity)
        );
        // The same address, as a socket of both families tells it.
        let IpAddr::V4(four) = at(1) else {
            panic!("an address of four bytes")
        };
        assert_eq!(recall("anna", four.to_ipv6_mapped().into()), Some(found));
        assert_eq!(recall("ben", at(1)), None);
        assert_eq!(recall("anna", at(3)), None);
        paths.remember_at(later, "anna", at(1), path(300));
        assert_eq!(
            recall("anna", at(1)).map(|p| p.capacity),
            Some(path(300).capacity)
        );
    }

    #[test]
    fn nobody_s_nonsense_and_what_is_old_are_not_there() {
        let (paths, now) = (KnownPaths::default(), Instant::now());
        paths.remember_at(now, "", at(1), path(100));
        assert_eq!(paths.recall_at(now, "", at(1)), None);
        let nonsense = PathKnowledge {
            loss: f64::NAN,
            ..path(100)
        };
        paths.remember_at(now, "anna", at(1), nonsense);
        assert_eq!(paths.recall_at(now, "anna", at(1)), None);
        paths.remember_at(now, "anna", at(1), path(100));
        let after = |time| paths.recall_at(now + time, "anna", at(1));
        assert!(after(KEPT).is_some());
        assert_eq!(after(KEPT + Duration::from_secs(1)), None);
    }

    #[test]
    fn there_are_no_more_than_some_and_the_oldest_go() {
        let (paths, begin) = (KnownPaths::default(), Instant::now());
        let when = |n: u32| begin + Duration::from_millis(n.into());
        let many = MOST as u32 + 10;
        for n in 0..many {
            paths.remember_at(when(n), "anna", at(n), path(100));
        }
        let there: Vec<u32> = (0..many)
            .filter(|n| paths.recall_at(when(many), "anna", at(*n)).is_some())
            .collect();
        assert_eq!(there, (10..many).collect::<Vec<_>>());
    }
}
