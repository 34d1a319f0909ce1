//! What the loops of one server know of each other's sessions: how many a key has, which can be spared, what is put where, and
//! what each wants of a rate that all share.

use super::known_paths::KnownPaths;
use super::lanes::Offers;
use super::lobby::{Lobby, Luggage};
use super::session::Session;
use super::shares::{Wish, grants};
use super::talk::Talk;
use crate::session::putting::Put;
use howdah_core::Rate;
use howdah_net::{ConnKey, Waker};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// See the module. Clones are of the same server.
#[derive(Clone, Debug)]
pub(super) struct Company(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    loops: usize,
    wakers: Vec<Waker>,
    over: AtomicBool,
    /// How often a loop told the others to share a rate anew.
    changes: AtomicU64,
    state: Mutex<State>,
    offers: Offers,
    paths: KnownPaths,
    lobby: Lobby,
    talk: Talk,
    /// Of each loop, for what is sent and for what is received.
    parts: Mutex<Vec<[Part; 2]>>,
}

/// What the sessions of one loop wish of a rate that all share, and what they were given of it.
#[derive(Clone, Debug, Default)]
struct Part {
    wishes: Vec<Wish>,
    granted_bps: u64,
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
    /// What it holds in memory before it has a place.
    luggage: Luggage,
}

impl Entered {
    /// It holds so many bytes without a place. Whether there is room for them.
    pub(super) fn hold(&mut self, bytes: u64) -> bool {
        self.luggage.hold(bytes)
    }

    #[cfg(test)]
    pub(super) fn held(&self) -> u64 {
        self.luggage.held()
    }
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
    /// Of so many loops, which these wake.
    #[cfg(test)]
    pub(super) fn new(loops: usize, wakers: Vec<Waker>) -> Self {
        Self::with_lobby(loops, wakers, Lobby::default())
    }

    /// The same with that account of memory.
    pub(super) fn with_lobby(loops: usize, wakers: Vec<Waker>, lobby: Lobby) -> Self {
        Self(Arc::new(Inner {
            loops,
            wakers,
            over: AtomicBool::new(false),
            changes: AtomicU64::new(0),
            state: Mutex::default(),
            offers: Offers::default(),
            paths: KnownPaths::default(),
            lobby,
            talk: Talk::default(),
            parts: Mutex::new(vec![Default::default(); loops]),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing in there can be half done.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn parts(&self) -> MutexGuard<'_, Vec<[Part; 2]>> {
        self.0.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What others may join.
    pub(super) fn offers(&self) -> &Offers {
        &self.0.offers
    }

    /// What is said about keys that do not get what they come for.
    pub(super) fn talk(&self) -> &Talk {
        &self.0.talk
    }

    /// What is known of the paths to clients.
    pub(super) fn paths(&self) -> &KnownPaths {
        &self.0.paths
    }

    /// So many connections may move what a client would have moved by `wanted`: as many as there are loops.
    pub(super) fn lanes(&self, wanted: u8) -> u8 {
        u8::try_from(self.0.loops).map_or(wanted, |loops| wanted.min(loops))
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
            luggage: self.0.lobby.enter(client),
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

    /// Shares `total` anew among the sessions of that loop, in one direction, so that those of all loops never have more than
    /// that together. Whether the others have to share anew, too: there is room for them now, or some has to be made.
    pub(super) fn share(
        &self,
        index: usize,
        receives: bool,
        total: Rate,
        own: Vec<Wish>,
    ) -> (Vec<Rate>, bool) {
        let direction = usize::from(receives);
        let mut parts = self.parts();
        let of = |parts: &[[Part; 2]]| {
            let parts = parts.iter().map(|part| &part[direction]);
            parts.fold((Vec::new(), 0), |(mut wishes, granted): (_, u64), part| {
                wishes.extend(&part.wishes);
                (wishes, granted.saturating_add(part.granted_bps))
            })
        };
        let (before, after) = parts.split_at(index);
        let (mut all, elsewhere) = of(before);
        let (others, further) = of(after.get(1..).unwrap_or_default());
        let own_at = all.len()..all.len() + own.len();
        all.extend(own.iter().copied().chain(others));
        let elsewhere = elsewhere.saturating_add(further);
        let (shares, lacks) = grants(total, &all, own_at, elsewhere);
        let granted_bps = shares.iter().map(|share| share.bits_per_sec()).sum();
        let Some(part) = parts.get_mut(index) else {
            return (shares, false);
        };
        let part = &mut part[direction];
        // Who still lacks has said so: of two who wait for a third one neither wakes the other again and again.
        let is_news = own != part.wishes || granted_bps != part.granted_bps;
        let others_too =
            granted_bps < part.granted_bps || own.len() != part.wishes.len() || lacks && is_news;
        *part = Part {
            wishes: own,
            granted_bps,
        };
        (shares, others_too)
    }

    /// Sessions that share it.
    pub(super) fn sharing(&self) -> usize {
        let parts = self.parts();
        parts.iter().flatten().map(|part| part.wishes.len()).sum()
    }

    pub(super) fn changes(&self) -> u64 {
        self.0.changes.load(Ordering::Relaxed)
    }

    /// The other loops have to share anew, at once.
    pub(super) fn tell_others(&self, index: usize) {
        self.0.changes.fetch_add(1, Ordering::Relaxed);
        let others = self.0.wakers.iter().enumerate();
        for (_, waker) in others.filter(|&(at, _)| at != index) {
            waker.ring();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_lanes_as_loops() {
        let lanes = |loops, wanted| Company::new(loops, Vec::new()).lanes(wanted);
        assert_eq!([lanes(1, 8), lanes(4, 8), lanes(4, 2)], [1, 4, 2]);
    }

    #[test]
    fn what_a_key_has_on_all_loops_is_counted_once() {
        let company = Company::new(2, Vec::new());
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

    /// Each loop sees the others' wishes a moment later only.
    #[test]
    fn loops_together_never_give_more_than_there_is() {
        let mbit = Rate::from_mbit_per_sec;
        let company = Company::new(3, Vec::new());
        let share = |index, wishes: &[Option<Rate>]| {
            let own = wishes.iter().map(|&wish| (index as u64, wish)).collect();
            company.share(index, true, mbit(90), own)
        };
        // The first one has all until it hears of the second one, for whom nothing is left until then.
        assert_eq!(share(0, &[None]), (vec![mbit(90)], true));
        assert_eq!(share(1, &[None]), (vec![mbit(0)], true));
        assert_eq!(share(0, &[None]), (vec![mbit(45)], true));
        assert_eq!(share(1, &[None]), (vec![mbit(45)], false));
        // Nobody has to hear of what changes nothing.
        assert_eq!(share(0, &[None]), (vec![mbit(45)], false));
        assert_eq!(share(1, &[None]), (vec![mbit(45)], false));
        // What is sent is shared apart from what is received.
        let sent = company.share(2, false, mbit(90), vec![(7, None)]);
        assert_eq!((sent, company.sharing()), ((vec![mbit(90)], true), 3));
        // Who wants less makes room, who wants more asks for it.
        assert_eq!(share(2, &[None, None]), (vec![mbit(0); 2], true));
        assert_eq!(share(0, &[Some(mbit(10))]), (vec![mbit(10)], true));
        let third = Rate::from_bits_per_sec(17_500_000);
        assert_eq!(share(2, &[None, None]), (vec![third; 2], true));
        assert_eq!(share(1, &[None]), (vec![mbit(40)], true));
        assert_eq!(share(2, &[None, None]), (vec![mbit(20); 2], false));
        // Who goes leaves his to the others.
        assert_eq!(share(1, &[]), (vec![], true));
        assert_eq!(share(2, &[None, None]), (vec![mbit(40); 2], false));
    }

    const TOTAL: u64 = 90_000_000;

    /// What each loop gives its sessions, and what these wish.
    struct Loops {
        company: Company,
        wishes: Vec<Vec<Wish>>,
        given: Vec<Vec<Rate>>,
    }

    impl Loops {
        /// One of them shares; whether the others are told.
        fn share(&mut self, index: usize) -> bool {
            let (total, own) = (Rate::from_bits_per_sec(TOTAL), self.wishes[index].clone());
            let (shares, others_too) = self.company.share(index, true, total, own);
            self.given[index] = shares;
            let given = self.given.iter().flatten();
            let given: u64 = given.map(|share| share.bits_per_sec()).sum();
            assert!(given <= TOTAL, "{:?}", self.given);
            others_too
        }
    }

    proptest::proptest! {
        /// Sessions come, go and wish something else on loops that take turns anyhow; then all that are told to share do so, in any order,
        /// until nobody is told any more.
        #[test]
        fn loops_that_take_turns_anyhow_come_to_fair_shares(
            steps in proptest::collection::vec(
                (0usize..4, proptest::collection::vec(proptest::option::of(0u64..2 * TOTAL), 0..4)),
                1..20,
            ),
            turns in proptest::collection::vec(0usize..4, 200),
        ) {
            let mut loops = Loops {
                company: Company::new(4, Vec::new()),
                wishes: vec![Vec::new(); 4],
                given: vec![Vec::new(); 4],
            };
            for (index, wishes) in steps {
                let wish = |(at, wish): (usize, Option<u64>)| {
                    (index as u64 % 2 + at as u64, wish.map(Rate::from_bits_per_sec))
                };
                loops.wishes[index] = wishes.into_iter().enumerate().map(wish).collect();
                loops.share(index);
            }
            let mut told = [true; 4];
            for turn in turns {
                let Some(index) = (0..4).map(|at| (turn + at) % 4).find(|at| told[*at]) else {
                    break;
                };
                told[index] = false;
                if loops.share(index) {
                    let others = (0..4).filter(|other| *other != index);
                    others.for_each(|other| told[other] = true);
                }
            }
            assert_eq!(told, [false; 4], "they tell each other for ever");
            let all = loops.wishes.concat();
            let (fair, lacks) = grants(Rate::from_bits_per_sec(TOTAL), &all, 0..all.len(), 0);
            assert!(!lacks);
            assert_eq!(loops.given.concat(), fair);
        }
    }
}
