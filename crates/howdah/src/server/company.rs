//! What the loops of one server know of each other's sessions: how many a key has, which can be spared, what is put where, and
//! what each wants of a rate that all share.

use super::session::Session;
use crate::session::putting::Put;
use howdah_core::Rate;
use howdah_net::{ConnKey, Waker};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The group of a session, and what it would move if it could.
type Wish = (u64, Option<Rate>);

/// See the module. Clones are of the same server.
#[derive(Clone, Debug)]
pub(super) struct Company(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    loops: usize,
    over: AtomicBool,
    /// How often the number of those changed who share a rate.
    changes: AtomicU64,
    state: Mutex<State>,
    /// Of each loop, for what is sent and for what is received.
    wishes: Mutex<Vec<[Vec<Wish>; 2]>>,
}

#[derive(Debug, Default)]
struct State {
    sessions: usize,
    /// Sessions of each key.
    of_keys: BTreeMap<String, usize>,
    /// Nothing would be lost with these.
    spared: BTreeSet<ConnKey>,
    puts: BTreeMap<ConnKey, UnderWay>,
}

#[derive(Debug)]
struct UnderWay {
    client: String,
    put: Put,
    superseded: Arc<AtomicBool>,
    waker: Waker,
}

/// A session that is there: as long as this lives.
#[derive(Debug)]
pub(super) struct Entered {
    company: Company,
    key: ConnKey,
    client: String,
    /// What the others were told: it can be spared, and it puts a file.
    shown: (bool, bool),
}

impl Drop for Entered {
    fn drop(&mut self) {
        let mut state = self.company.lock();
        state.sessions = state.sessions.saturating_sub(1);
        if let Some(of_key) = state.of_keys.get_mut(&self.client) {
            *of_key -= 1;
            if *of_key == 0 {
                state.of_keys.remove(&self.client);
            }
        }
        state.spared.remove(&self.key);
        state.puts.remove(&self.key);
    }
}

impl Company {
    /// Of so many loops.
    pub(super) fn new(loops: usize) -> Self {
        Self(Arc::new(Inner {
            loops,
            over: AtomicBool::new(false),
            changes: AtomicU64::new(0),
            state: Mutex::default(),
            wishes: Mutex::new(vec![Default::default(); loops]),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing in there can be half done.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wishes(&self) -> MutexGuard<'_, Vec<[Vec<Wish>; 2]>> {
        self.0.wishes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All loops end.
    pub(super) fn end(&self) {
        self.0.over.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_over(&self) -> bool {
        self.0.over.load(Ordering::Relaxed)
    }

    // ---- Sessions ----------------------------------------------------------------------------

    pub(super) fn enter(&self, key: ConnKey, client: &str) -> Entered {
        let mut state = self.lock();
        state.sessions += 1;
        *state.of_keys.entry(client.to_owned()).or_default() += 1;
        Entered {
            company: self.clone(),
            key,
            client: client.to_owned(),
            shown: (false, false),
        }
    }

    /// Whether no loop has a session.
    pub(super) fn is_empty(&self) -> bool {
        self.lock().sessions == 0
    }

    pub(super) fn sessions_of(&self, client: &str) -> usize {
        self.lock().of_keys.get(client).copied().unwrap_or(0)
    }

    /// Looks at a session of one of several loops after each step: the others are told what has changed.
    pub(super) fn see(&self, key: ConnKey, session: &mut Session, waker: &Waker) {
        if self.0.loops < 2 {
            return;
        }
        let now = (session.gives_way(), session.putting().is_some());
        let before = std::mem::replace(&mut session.entered.shown, now);
        if now == before {
            return;
        }
        let mut state = self.lock();
        if now.0 {
            state.spared.insert(key);
        } else {
            state.spared.remove(&key);
        }
        match session.putting() {
            Some(put) => {
                let under_way = UnderWay {
                    client: session.key.clone(),
                    put: put.clone(),
                    superseded: Arc::clone(&session.superseded),
                    waker: waker.clone(),
                };
                state.puts.insert(key, under_way);
            }
            None => drop(state.puts.remove(&key)),
        }
    }

    /// Whether that session of another loop may end for a newcomer's, as far as is known here.
    pub(super) fn gives_way(&self, key: ConnKey) -> bool {
        self.lock().spared.contains(&key)
    }

    /// Ends what puts the same for the same client on whichever loop. Whether there is one.
    pub(super) fn supersede(&self, by: ConnKey, client: &str, put: &Put) -> bool {
        if self.0.loops < 2 {
            return false;
        }
        let state = self.lock();
        let same = state
            .puts
            .iter()
            .filter(|&(&key, other)| key != by && other.client == client && other.put.is_same(put));
        let mut found = false;
        for (&key, other) in same {
            other.superseded.store(true, Ordering::Relaxed);
            other.waker.wake_for(key);
            found = true;
        }
        found
    }

    // ---- A rate that all share ---------------------------------------------------------------

    /// What the sessions of that loop wish, in one direction: the wishes of all loops, and where its own begin.
    pub(super) fn wish(&self, index: usize, receives: bool, own: Vec<Wish>) -> (Vec<Wish>, usize) {
        let direction = usize::from(receives);
        let mut wishes = self.wishes();
        if let Some(wishes) = wishes.get_mut(index) {
            wishes[direction] = own;
        }
        let of = |wishes: &[Vec<Wish>; 2]| wishes[direction].clone();
        let before = wishes.iter().take(index).map(|w| w[direction].len()).sum();
        (wishes.iter().flat_map(of).collect(), before)
    }

    /// Sessions that share it.
    pub(super) fn sharing(&self) -> usize {
        self.wishes().iter().flatten().map(Vec::len).sum()
    }

    pub(super) fn changes(&self) -> u64 {
        self.0.changes.load(Ordering::Relaxed)
    }

    /// Somebody has come or gone: all share anew.
    pub(super) fn change(&self) -> u64 {
        self.0.changes.fetch_add(1, Ordering::Relaxed) + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_key_has_on_all_loops_is_counted_once() {
        let company = Company::new(2);
        let other_loop = company.clone();
        let sessions: Vec<_> = [(1, "anna"), (2, "anna"), (3, "ben")]
            .map(|(key, client)| company.enter(ConnKey(key), client))
            .into();
        let count = || ["anna", "ben", "carl"].map(|client| other_loop.sessions_of(client));
        assert_eq!(count(), [2, 1, 0]);
        let mut sessions = sessions.into_iter();
        drop(sessions.next());
        assert_eq!(count(), [1, 1, 0]);
        drop(sessions);
        assert!(other_loop.is_empty() && company.lock().of_keys.is_empty());
    }

    #[test]
    fn the_wishes_of_all_loops_are_shared_among() {
        let company = Company::new(3);
        assert_eq!(
            company.wish(1, false, vec![(7, None)]),
            (vec![(7, None)], 0)
        );
        let (all, own) = company.wish(2, false, vec![(8, None), (9, None)]);
        assert_eq!((all.len(), own), (3, 1));
        assert_eq!(company.wish(0, true, vec![(5, None)]), (vec![(5, None)], 0));
        assert_eq!(company.sharing(), 4);
        let (all, own) = company.wish(1, false, Vec::new());
        assert_eq!((all, own), (vec![(8, None), (9, None)], 0));
        assert_eq!((company.change(), company.changes()), (1, 1));
    }
}
