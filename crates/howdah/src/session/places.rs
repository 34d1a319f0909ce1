//! How much may be under way at a server: of one key, and of all together.
//!
//! What is under way takes threads and memory, and a machine has so many of both. One key takes a part of them at the most, and the
//! last of them are kept for keys that have nothing under way: whoever comes with one copy has it begun, whatever others do. Who
//! finds no place waits.

use rustix::process::{Resource, getrlimit};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// A single file, or a question: a few threads.
pub(crate) const ONE: u32 = 1;
/// A tree with the usual memory. It takes some ten threads, and up to three for each large file that is on its way.
const TREE: u32 = 4;
/// Memory of a tree for which it takes a place, and answers about files that may wait for their client in one.
pub(crate) const ONE_BYTES: u64 = 12 << 20;

/// How many there are.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Bounds {
    pub(crate) all: u32,
    pub(crate) of_key: u32,
}

impl Bounds {
    const ALL: u32 = 1_024;
    const OF_KEY: u32 = 64;
    /// Threads that this process may have for each place.
    const THREADS: u64 = 4;

    /// As many as this process gets threads for, and no more than are good for anything.
    pub(crate) fn of_system() -> Self {
        Self::of_threads(getrlimit(Resource::Nproc).current)
    }

    /// `None`: any number of threads.
    fn of_threads(threads: Option<u64>) -> Self {
        let most = threads.and_then(|threads| u32::try_from(threads / Self::THREADS).ok());
        let all = most.map_or(Self::ALL, |most| most.clamp(2 * TREE, Self::ALL));
        Self {
            all,
            of_key: Self::OF_KEY.min(all / 2),
        }
    }

    /// Kept for keys that have nothing under way.
    fn reserve(self) -> u32 {
        self.all / 4
    }
}

/// Those that a tree with so much memory takes, in bytes; never more than a key has.
pub(crate) fn of_tree(memory: u64) -> u32 {
    u32::try_from(memory.div_ceil(ONE_BYTES)).map_or(u32::MAX, |places| places.max(TREE))
}

/// Why there is none now.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub(crate) enum NoPlace {
    #[error("as much of this key is under way as may be at a time")]
    OfKey,
    #[error("as much is under way as it takes at a time")]
    OfAll,
}

/// The account. Its copies are the same one.
#[derive(Clone, Debug)]
pub(crate) struct Places(Arc<Account>);

#[derive(Debug)]
struct Account {
    bounds: Bounds,
    /// What each key has taken, if it has.
    taken: Mutex<BTreeMap<String, u32>>,
}

/// A part of it that is taken while this, or a copy of it, lives.
#[derive(Clone, Debug)]
pub(crate) struct Place(Arc<Taken>);

#[derive(Debug)]
struct Taken {
    account: Arc<Account>,
    key: String,
    places: u32,
}

impl Drop for Taken {
    fn drop(&mut self) {
        let mut taken = self.account.taken.lock();
        let taken = taken.as_mut().unwrap_or_else(PoisonError::get_mut);
        if let Some(of_key) = taken.get_mut(&self.key) {
            *of_key -= self.places;
            if *of_key == 0 {
                taken.remove(&self.key);
            }
        }
    }
}

impl Places {
    pub(crate) fn new(bounds: Bounds) -> Self {
        let taken = Mutex::default();
        Self(Arc::new(Account { bounds, taken }))
    }

    /// Takes so many for that key.
    pub(crate) fn take(&self, key: &str, places: u32) -> Result<Place, NoPlace> {
        let bounds = self.0.bounds;
        let places = places.min(bounds.of_key);
        let taken = self.0.taken.lock();
        let mut taken = taken.unwrap_or_else(PoisonError::into_inner);
        let own = taken.get(key).copied().unwrap_or(0);
        if own + places > bounds.of_key {
            return Err(NoPlace::OfKey);
        }
        let kept = if own == 0 { 0 } else { bounds.reserve() };
        let all: u32 = taken.values().sum();
        if all + places + kept > bounds.all {
            return Err(NoPlace::OfAll);
        }
        taken.insert(key.to_owned(), own + places);
        Ok(Place(Arc::new(Taken {
            account: Arc::clone(&self.0),
            key: key.to_owned(),
            places,
        })))
    }

    /// Whether anything is taken but that: what may come back.
    pub(crate) fn are_taken_beside(&self, own: Option<&Place>) -> bool {
        let taken = self.0.taken.lock();
        let taken = taken.unwrap_or_else(PoisonError::into_inner);
        taken.values().sum::<u32>() > own.map_or(0, |own| own.0.places)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(places: &Places, key: &str, each: u32, times: usize) -> Vec<Place> {
        let taken = (0..times).map(|_| places.take(key, each));
        taken.collect::<Result<_, _>>().expect("there is room")
    }

    #[test]
    fn h11_a_key_takes_its_part_and_others_find_theirs() {
        let places = Places::new(Bounds {
            all: 40,
            of_key: 16,
        });
        let mut anna = take(&places, "anna", 4, 4);
        assert_eq!(places.take("anna", 1).err(), Some(NoPlace::OfKey));
        let ben = take(&places, "ben", 1, 14);
        // The last ten are for those who have nothing.
        assert_eq!(places.take("ben", 1).err(), Some(NoPlace::OfAll));
        let carl = take(&places, "carl", 4, 1);
        assert_eq!(places.take("carl", 1).err(), Some(NoPlace::OfAll));
        // What somebody still holds is taken.
        let held = anna.last().cloned();
        drop(anna.pop());
        assert_eq!(places.take("anna", 4).err(), Some(NoPlace::OfKey));
        drop((held, ben));
        anna.extend(take(&places, "anna", 4, 1));
        assert!(places.are_taken_beside(carl.first()));
        drop(anna);
        assert!(!places.are_taken_beside(carl.first()) && places.are_taken_beside(None));
        drop(carl);
        assert!(places.0.taken.lock().expect("no panic").is_empty());
        // More than a key may have is all that it may have.
        let tree = places.take("anna", of_tree(1 << 40)).expect("alone");
        assert_eq!(places.take("anna", 1).err(), Some(NoPlace::OfKey));
        drop(tree);
    }

    #[test]
    fn few_threads_are_few_places_and_a_tree_always_has_one() {
        let of = |threads| Bounds::of_threads(threads);
        assert_eq!((of(None).all, of(None).of_key), (1_024, 64));
        assert_eq!(of(Some(u64::MAX)), of(None));
        assert_eq!((of(Some(150)).all, of(Some(150)).of_key), (37, 18));
        for threads in 0..200 {
            let bounds = of(Some(threads));
            let places = Places::new(bounds);
            let first = places.take("anna", of_tree(48 << 20));
            let second = places.take("ben", of_tree(48 << 20));
            assert!(first.is_ok() && second.is_ok(), "{threads}: {bounds:?}");
        }
        assert_eq!(
            (of_tree(0), of_tree(48 << 20), of_tree(96 << 20)),
            (4, 4, 8)
        );
    }
}
