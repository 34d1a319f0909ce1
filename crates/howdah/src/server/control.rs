//! A running server, as somebody beside it sees and ends it.

use super::happening::ServerEvent;
use howdah_core::{Rate, Span, Time};
use howdah_net::Waker;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Shows the sessions of a running server, and ends them. Clones are of the same server.
#[derive(Clone, Debug, Default)]
pub struct ServerControl(Arc<Inner>);

#[derive(Default)]
struct Inner {
    draining: AtomicBool,
    state: Mutex<State>,
    observer: OnceLock<Box<Observer>>,
}

type Observer = dyn Fn(&ServerEvent) + Send + Sync;

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inner")
            .field("draining", &self.draining)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct State {
    /// Of each loop.
    sessions: Vec<Vec<SessionStatus>>,
    /// Those that are to end.
    to_end: BTreeSet<u64>,
    wakers: Vec<Waker>,
}

/// A client of a server, as it was a moment ago.
#[derive(Clone, Debug)]
pub struct SessionStatus {
    /// Its number, for [`ServerControl::end`].
    pub id: u64,
    /// Address and port, and what else the log says of it: fingerprint and comment of its key.
    pub peer: String,
    /// What it does: `put "x"`; nothing if it does nothing now.
    pub what: String,
    /// Bytes of packets in both directions since it came.
    pub bytes: u64,
    /// The same over the last second or so.
    pub rate: Rate,
    /// Of content, with names and lists of trees, in both directions, over the last second or so.
    pub goodput: Rate,
    /// Since it came.
    pub elapsed: Span,
}

impl ServerControl {
    /// Of a server that is told of it in its settings.
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its sessions.
    pub fn sessions(&self) -> Vec<SessionStatus> {
        let state = self.lock();
        let mut sessions: Vec<_> = state.sessions.iter().flatten().cloned().collect();
        drop(state);
        sessions.sort_by_key(|session| session.id);
        sessions
    }

    /// Hears of all that the server does from now on, on the thread that moves the data: it must not take long. The first one
    /// who asks for it stays the only one.
    pub fn observe(&self, hear: impl Fn(&ServerEvent) + Send + Sync + 'static) {
        // Somebody else was first.
        let _ = self.0.observer.set(Box::new(hear));
    }

    pub(super) fn tell(&self, event: ServerEvent) {
        if let Some(hear) = self.0.observer.get() {
            hear(&event);
        }
    }

    /// No session begins any more, and the server ends with the last one that there is. Who comes is told to try again.
    pub fn drain(&self) {
        self.0.draining.store(true, Ordering::Relaxed);
        self.wake();
    }

    /// Whether it was told to [`drain`](Self::drain).
    pub fn is_draining(&self) -> bool {
        self.0.draining.load(Ordering::Relaxed)
    }

    /// Ends a session; whether there is one of that number. Its client is refused and does not try again by itself.
    pub fn end(&self, id: u64) -> bool {
        let mut state = self.lock();
        let mut all = state.sessions.iter().flatten();
        let known = all.any(|session| session.id == id);
        if known {
            state.to_end.insert(id);
        }
        drop(state);
        self.wake();
        known
    }

    pub(super) fn wake(&self) {
        for waker in &self.lock().wakers {
            waker.wake();
        }
    }

    /// Of loops that are woken by these.
    pub(super) fn begin(&self, wakers: Vec<Waker>) {
        let mut state = self.lock();
        state.sessions = vec![Vec::new(); wakers.len()];
        state.wakers = wakers;
    }

    /// Those of that loop. Whoever was to end and has gone by himself is looked for no more.
    pub(super) fn show(&self, index: usize, sessions: Vec<SessionStatus>) {
        let mut state = self.lock();
        let State {
            sessions: all,
            to_end,
            ..
        } = &mut *state;
        if let Some(shown) = all.get_mut(index) {
            *shown = sessions;
        }
        to_end.retain(|id| all.iter().flatten().any(|session| session.id == *id));
    }

    pub(super) fn has_to_end(&self) -> bool {
        !self.lock().to_end.is_empty()
    }

    /// Whether that one is to end; once.
    pub(super) fn take_end(&self, id: u64) -> bool {
        self.lock().to_end.remove(&id)
    }
}

/// What moved until the last looks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Meter {
    pub(super) since: Time,
    pub(super) bytes: u64,
    rate: Rate,
    /// The last look that counted for the rate.
    looked: (Time, u64),
}

impl Meter {
    pub(super) const EVERY: Span = Span::from_millis(500);

    pub(super) fn new(now: Time) -> Self {
        Self {
            since: now,
            bytes: 0,
            rate: Rate::ZERO,
            looked: (now, 0),
        }
    }

    /// Whether it is time for another look.
    pub(super) fn is_due(&self, now: Time) -> bool {
        now.since(self.looked.0) >= Self::EVERY
    }

    /// Since the last look that counted; longer ago nothing was under way, and nobody looked.
    pub(super) fn age(&self, now: Time) -> Span {
        now.since(self.looked.0).min(Self::EVERY * 4)
    }

    pub(super) fn note(&mut self, now: Time, bytes: u64) {
        if self.is_due(now) {
            let (then, before) = std::mem::replace(&mut self.looked, (now, bytes));
            self.rate = Rate::from_bytes_over(bytes.saturating_sub(before), now.since(then));
            self.bytes = bytes;
        }
    }

    /// Nothing, if it was not looked at lately: then nothing moves.
    pub(super) fn rate(&self, now: Time) -> Rate {
        if now.since(self.looked.0) > Self::EVERY * 4 {
            Rate::ZERO
        } else {
            self.rate
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(id: u64) -> SessionStatus {
        SessionStatus {
            id,
            peer: String::new(),
            what: String::new(),
            bytes: 0,
            rate: Rate::ZERO,
            goodput: Rate::ZERO,
            elapsed: Span::ZERO,
        }
    }

    /// All sessions are looked at, in each turn of each loop, as long as one is to end.
    #[test]
    fn who_was_to_end_and_has_gone_by_himself_is_looked_for_no_more() {
        let control = ServerControl::new();
        control.lock().sessions = vec![Vec::new(); 2];
        control.show(1, vec![status(7)]);
        assert!(control.end(7));
        // Another loop says nothing of it.
        control.show(0, Vec::new());
        control.show(1, vec![status(7), status(8)]);
        assert!(control.has_to_end());
        control.show(1, vec![status(8)]);
        assert!(!control.has_to_end());
    }

    #[test]
    fn a_session_is_ended_once_and_only_if_it_is_there() {
        let control = ServerControl::new();
        assert!(!control.end(7));
        control.lock().sessions.push(vec![status(7)]);
        assert!(control.clone().end(7) && control.has_to_end());
        assert!(control.take_end(7) && !control.take_end(7) && !control.has_to_end());
    }

    #[test]
    fn one_hears_what_happens() {
        let control = ServerControl::new();
        control.tell(ServerEvent::Done);
        let (sender, heard) = std::sync::mpsc::channel();
        control.observe(move |event| sender.send(*event).unwrap());
        control.observe(|_| panic!("the second one"));
        control.clone().tell(ServerEvent::Failed);
        assert_eq!(heard.try_iter().collect::<Vec<_>>(), [ServerEvent::Failed]);
    }

    #[test]
    fn a_rate_is_that_of_lately() {
        let at = |ms| Time::ZERO + Span::from_millis(ms);
        let mut meter = Meter::new(at(0));
        meter.note(at(100), 10);
        assert_eq!(meter.rate(at(100)), Rate::ZERO);
        meter.note(at(1_000), 1_000_000);
        assert_eq!(meter.rate(at(1_500)), Rate::from_mbit_per_sec(8));
        assert_eq!(meter.rate(at(9_000)), Rate::ZERO, "long ago");
        let ages = [1_700, 90_000].map(|ms| meter.age(at(ms)));
        assert_eq!(ages, [700, 2_000].map(Span::from_millis));
    }
}
