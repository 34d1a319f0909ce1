//! What sessions hold in memory of requests that have no place yet, on the account of their keys.
//!
//! Names and rules come before a request, and one that waits for a place keeps them, as long as that takes: a session may hold as much of them as a
//! tree may take. Without an account of it a key would have as many times that as there are connections.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// That much of a session is not counted.
const FREE: u64 = 64 << 10;
/// Of one key: the longest names and rules of five sessions with the usual memory.
const OF_KEY: u64 = 256 << 20;
/// Of all. The last fourth is for keys that hold nothing.
const OF_ALL: u64 = 1 << 30;

/// See the module. Clones are the same one.
#[derive(Clone, Debug)]
pub(super) struct Lobby(Arc<Account>);

#[derive(Debug)]
struct Account {
    of_key: u64,
    of_all: u64,
    /// In bytes, of those that hold something.
    held: Mutex<BTreeMap<String, u64>>,
}

impl Default for Lobby {
    fn default() -> Self {
        Self::of(OF_KEY, OF_ALL)
    }
}

/// What one session holds, until it is dropped.
#[derive(Debug)]
pub(super) struct Luggage {
    lobby: Lobby,
    key: String,
    bytes: u64,
}

impl Lobby {
    pub(super) fn of(of_key: u64, of_all: u64) -> Self {
        Self(Arc::new(Account {
            of_key,
            of_all,
            held: Mutex::default(),
        }))
    }

    /// Of a session of that key.
    pub(super) fn enter(&self, key: &str) -> Luggage {
        Luggage {
            lobby: self.clone(),
            key: key.to_owned(),
            bytes: 0,
        }
    }
}

impl Luggage {
    /// It holds so many bytes now. False: there is no room for so many, and it counts as before; what it is that holds nothing else of its key
    /// may be as much as a session may hold, where others leave that.
    pub(super) fn hold(&mut self, bytes: u64) -> bool {
        let bytes = if bytes <= FREE { 0 } else { bytes };
        if bytes == self.bytes {
            return true;
        }
        let account = &self.lobby.0;
        let mut held = account.held.lock().unwrap_or_else(PoisonError::into_inner);
        let own = held.get(&self.key).copied().unwrap_or(0);
        let beside = own.saturating_sub(self.bytes);
        if bytes > self.bytes {
            let all: u64 = held.values().sum::<u64>().saturating_sub(self.bytes);
            let kept = if beside == 0 { 0 } else { account.of_all / 4 };
            let has_room = all == 0 || all + bytes + kept <= account.of_all;
            let is_few = beside == 0 || beside + bytes <= account.of_key;
            if !has_room || !is_few {
                return false;
            }
        }
        self.bytes = bytes;
        if beside + bytes == 0 {
            held.remove(&self.key);
        } else {
            held.insert(self.key.clone(), beside + bytes);
        }
        true
    }
}

#[cfg(test)]
impl Luggage {
    pub(super) fn held(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Luggage {
    fn drop(&mut self) {
        self.hold(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn h18_what_a_key_holds_without_a_place_is_bounded_however_many_sessions_it_has() {
        let lobby = Lobby::of(10 * MIB, 40 * MIB);
        let enter = |key: &str, count: usize| -> Vec<Luggage> {
            (0..count).map(|_| lobby.enter(key)).collect()
        };
        let hold = |all: &mut [Luggage], bytes: u64| {
            let held = all
                .iter_mut()
                .filter_map(|one| one.hold(bytes).then_some(()));
            held.count()
        };
        let mut anna = enter("anna", 1_000);
        assert_eq!(hold(&mut anna, FREE), 1_000, "little is not counted");
        assert_eq!(hold(&mut anna, 4 * MIB), 2);
        assert_eq!(hold(&mut anna[..1], 6 * MIB), 1);
        assert_eq!(hold(&mut anna[..1], 7 * MIB), 0, "it counts as before");
        // One who has nothing else may have more, and then no further one of his may.
        let mut ben = enter("ben", 2);
        assert_eq!(hold(&mut ben, 20 * MIB), 1);
        // The last fourth is for those who hold nothing.
        let mut carl = enter("carl", 2);
        assert_eq!(hold(&mut carl, 5 * MIB), 1);
        let mut dora = enter("dora", 1);
        assert_eq!(hold(&mut dora, 6 * MIB), 0);
        assert_eq!(hold(&mut dora, 5 * MIB), 1);
        // Who goes, or holds less, makes room.
        drop(ben);
        assert_eq!(hold(&mut carl[1..], 5 * MIB), 1);
        assert_eq!(hold(&mut anna[..1], 0), 1);
        assert_eq!(hold(&mut anna[2..], 6 * MIB), 1);
        drop((anna, carl, dora));
        assert!(lobby.0.held.lock().expect("no panic").is_empty());
        // What no account has room for finds it where there is nobody.
        assert!(lobby.enter("anna").hold(100 * MIB));
    }
}
