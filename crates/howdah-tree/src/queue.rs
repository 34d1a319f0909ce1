//! Bounded queues and budgets between threads. `howdah-fuzz` tries every order in which threads can meet here, with its own
//! locks.

use super::locks::{Condvar, Mutex, MutexGuard, PoisonError};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A queue that holds so many items at most.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
    capacity: usize,
}

#[derive(Debug)]
struct State<T> {
    items: VecDeque<T>,
    /// Nothing more is put in.
    closed: bool,
    /// Nothing more is taken out.
    stopped: bool,
}

impl<T> Queue<T> {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            state: Mutex::new(State {
                items: VecDeque::new(),
                closed: false,
                stopped: false,
            }),
            changed: Condvar::new(),
            capacity,
        }
    }

    /// Puts an item in, after a wait if the queue is full. Gives it back if nobody takes any more.
    pub(crate) fn push(&self, item: T) -> Result<(), T> {
        let mut state = lock(&self.state);
        while state.items.len() >= self.capacity && !state.stopped && !state.closed {
            state = self.wait(state);
        }
        if state.stopped || state.closed {
            return Err(item);
        }
        state.items.push_back(item);
        self.changed.notify_all();
        Ok(())
    }

    pub(crate) fn is_full(&self) -> bool {
        lock(&self.state).items.len() >= self.capacity
    }

    pub(crate) fn try_pop(&self) -> Option<T> {
        let item = lock(&self.state).items.pop_front();
        if item.is_some() {
            self.changed.notify_all();
        }
        item
    }

    /// The next item, after a wait if there is none; `None` if there will be none.
    pub(crate) fn pop(&self) -> Option<T> {
        let mut state = lock(&self.state);
        loop {
            if state.stopped {
                return None;
            }
            if let Some(item) = state.items.pop_front() {
                self.changed.notify_all();
                return Some(item);
            }
            if state.closed {
                return None;
            }
            state = self.wait(state);
        }
    }

    /// No further items; those in it are still taken out.
    pub(crate) fn close(&self) {
        lock(&self.state).closed = true;
        self.changed.notify_all();
    }

    /// Ends it for both sides and drops what is in it.
    pub(crate) fn stop(&self) {
        let mut state = lock(&self.state);
        state.stopped = true;
        let items = std::mem::take(&mut state.items);
        drop(state);
        self.changed.notify_all();
        drop(items);
    }

    fn wait<'a>(&self, guard: MutexGuard<'a, State<T>>) -> MutexGuard<'a, State<T>> {
        self.changed
            .wait(guard)
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// A number that may be used up to a bound, and given back.
#[derive(Debug)]
pub(crate) struct Budget {
    state: Mutex<(u64, bool)>,
    changed: Condvar,
    bound: u64,
}

impl Budget {
    pub(crate) fn new(bound: u64) -> Self {
        Self {
            state: Mutex::new((0, false)),
            changed: Condvar::new(),
            bound,
        }
    }

    /// Takes `amount`, after a wait until there is room; more than the bound only alone. `false`:
    /// stopped.
    pub(crate) fn acquire(&self, amount: u64) -> bool {
        let mut state = lock(&self.state);
        while !state.1 && state.0 > 0 && state.0 + amount > self.bound {
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.0 += amount;
        !state.1
    }

    /// Whether [`acquire`](Self::acquire) would wait.
    pub(crate) fn is_short_of(&self, amount: u64) -> bool {
        let state = lock(&self.state);
        state.0 > 0 && state.0 + amount > self.bound
    }

    pub(crate) fn release(&self, amount: u64) {
        let mut state = lock(&self.state);
        state.0 = state.0.saturating_sub(amount);
        self.changed.notify_all();
    }

    /// Waits until nothing is in use; `false`: stopped.
    pub(crate) fn wait_until_unused(&self) -> bool {
        let mut state = lock(&self.state);
        while !state.1 && state.0 > 0 {
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        !state.1
    }

    pub(crate) fn is_stopped(&self) -> bool {
        lock(&self.state).1
    }

    pub(crate) fn stop(&self) {
        lock(&self.state).1 = true;
        self.changed.notify_all();
    }
}

/// Waits on `changed` for at most `time`.
pub(crate) fn wait_for<'a, T>(
    changed: &Condvar,
    guard: MutexGuard<'a, T>,
    until: Option<Instant>,
) -> MutexGuard<'a, T> {
    match until {
        None => changed.wait(guard).unwrap_or_else(PoisonError::into_inner),
        Some(until) => {
            let time = until.saturating_duration_since(Instant::now());
            let time = time.max(Duration::from_millis(1));
            let result = changed.wait_timeout(guard, time);
            result.unwrap_or_else(PoisonError::into_inner).0
        }
    }
}
