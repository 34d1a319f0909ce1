//! Sends written data to the disk while more arrives, and notes what is there for good.
//!
//! Without it the page cache swallows gigabytes, the engine believes that the disk is as fast as
//! memory, and the `fsync` at the end takes as long as the whole transfer should have. With it the
//! debt to the disk is bounded, so the backlog shows the disk's true rate, and a failing disk
//! shows early.
//!
//! After each sync the groups that were verified before it are claimed in the journal. What an
//! interrupted copy loses is what it has not claimed: so a copy with a journal also syncs every second,
//! and its debt is bounded by 32 MiB, on disks that take more than 64 MiB/s by up to 48 MiB.

use super::ledger::Ledger;
use crate::durable::{PartFile, forget_pages};
use crate::journal::{Header, Journal, PartId};
use crate::{Limits, SourceIdentity, StoreError, stale, worker};
use std::ops::RangeInclusive;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A flush begins when this much has been written since the last one began.
const STEP: u64 = 64 << 20;
/// The same where there is a journal: what the disk takes in a quarter of a second, within these bounds.
/// Twice as much may be owed.
const JOURNAL_STEP: RangeInclusive<u64> = 16 << 20..=24 << 20;
/// With a journal what was written goes to the disk after this long in any case.
const EVERY: Duration = Duration::from_secs(1);

/// Starts its thread when the first step is full, or for a journal after a second: small files
/// need none.
pub(super) struct Flusher {
    part: Arc<PartFile>,
    limits: Limits,
    /// Until the thread has it.
    keeper: Option<Keeper>,
    started: Instant,
    running: Option<Running>,
}

/// Writes the journal.
pub(super) struct Keeper {
    pub(super) source: SourceIdentity,
    pub(super) ledger: Arc<Ledger>,
    /// There is one when a copy goes on, and otherwise from the first claim on.
    pub(super) journal: Option<Journal>,
    /// An error ended it: what it claims stays true, but it will claim no more.
    pub(super) broken: bool,
}

struct Running {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    limits: Limits,
    has_journal: bool,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    written: u64,
    flushed: u64,
    /// Bytes per second of the last flush that was worth measuring.
    rate: u64,
    stopped: bool,
    error: Option<StoreError>,
}

impl Flusher {
    pub(super) fn new(part: &Arc<PartFile>, limits: &Limits, keeper: Option<Keeper>) -> Self {
        Self {
            part: Arc::clone(part),
            limits: *limits,
            keeper,
            started: Instant::now(),
            running: None,
        }
    }

    /// So much has been written in all. Waits while the disk owes too much.
    pub(super) fn note_written(&mut self, written: u64) -> Result<(), StoreError> {
        if self.running.is_none() {
            let first = self.limits.first_step(self.keeper.is_some());
            let late = self.keeper.is_some() && self.started.elapsed() >= EVERY;
            if written < first && !late {
                return Ok(());
            }
            self.start()?;
        }
        let Some(Running { shared, .. }) = &self.running else {
            return Ok(());
        };
        let mut state = shared.lock();
        let due = shared.is_due(&state);
        state.written = written;
        if !due && shared.is_due(&state) {
            shared.changed.notify_all();
        }
        while state.error.is_none() && written - state.flushed > shared.debt(&state) {
            state = shared.wait(state);
        }
        state.error.clone().map_or(Ok(()), Err)
    }

    fn start(&mut self) -> Result<(), StoreError> {
        let keeper = self.keeper.take();
        let shared = Arc::new(Shared {
            limits: self.limits,
            has_journal: keeper.is_some(),
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let (part, theirs, since) = (Arc::clone(&self.part), Arc::clone(&shared), self.started);
        let thread = worker::spawn("howdah-flush", move || theirs.run(&part, keeper, since))
            .map_err(|e| StoreError::no_thread(self.part.path(), e))?;
        self.running = Some(Running {
            shared,
            thread: Some(thread),
        });
        Ok(())
    }

    /// Ends the thread after a flush that runs, and gives the error of any flush.
    pub(super) fn finish(&mut self) -> Result<(), StoreError> {
        let Some(mut running) = self.running.take() else {
            return Ok(());
        };
        running.shared.stop();
        if running
            .thread
            .take()
            .is_some_and(|thread| thread.join().is_err())
        {
            return Err(StoreError::other(
                self.part.path(),
                "sync",
                "its thread died",
            ));
        }
        let error = running.shared.lock().error.clone();
        error.map_or(Ok(()), Err)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.shared.stop();
    }
}

impl Limits {
    fn first_step(&self, has_journal: bool) -> u64 {
        if has_journal {
            (*JOURNAL_STEP.start()).min(self.dirty_bytes)
        } else {
            STEP
        }
    }
}

impl Shared {
    fn step(&self, state: &State) -> u64 {
        if !self.has_journal {
            return STEP;
        }
        let quarter = state.rate / 4;
        let step = quarter.clamp(*JOURNAL_STEP.start(), *JOURNAL_STEP.end());
        step.min(self.limits.dirty_bytes)
    }

    fn debt(&self, state: &State) -> u64 {
        let most = self.limits.dirty_bytes;
        if self.has_journal {
            most.min(2 * self.step(state))
        } else {
            most.max(2 * STEP)
        }
    }

    fn is_due(&self, state: &State) -> bool {
        state.written - state.flushed >= self.step(state)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, guard: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed
            .wait(guard)
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for more to do; for a journal not longer than until its next entry.
    fn wait_for_work<'a>(
        &self,
        guard: MutexGuard<'a, State>,
        last: Instant,
    ) -> MutexGuard<'a, State> {
        if !self.has_journal {
            return self.wait(guard);
        }
        let left = EVERY.saturating_sub(last.elapsed());
        let left = if left.is_zero() { EVERY } else { left };
        self.changed
            .wait_timeout(guard, left)
            .unwrap_or_else(PoisonError::into_inner)
            .0
    }

    fn stop(&self) {
        self.lock().stopped = true;
        self.changed.notify_all();
    }

    fn run(&self, part: &PartFile, mut keeper: Option<Keeper>, mut last: Instant) {
        let mut state = self.lock();
        loop {
            if state.stopped {
                return;
            }
            let late = self.has_journal
                && last.elapsed() >= EVERY
                && (state.written > state.flushed
                    || keeper.as_ref().is_some_and(Keeper::has_claims));
            if !self.is_due(&state) && !late {
                state = self.wait_for_work(state, last);
                continue;
            }
            let (written, before) = (state.written, state.flushed);
            drop(state);
            last = Instant::now();
            // Verified before the sync begins, so written before it.
            let claims = keeper.as_ref().map(|keeper| keeper.ledger.take_verified());
            let result = part.file().sync_data();
            if result.is_ok() {
                // By offset, although slices come in any order: what is still missing comes soon,
                // and what the hasher still needs it reads from the disk.
                let cached = self.limits.cached_bytes;
                forget_pages(part.file(), 0, written.saturating_sub(cached));
                if let (Some(keeper), Some(claims)) = (&mut keeper, claims) {
                    keeper.claim(part, &claims);
                }
            }
            let took = last.elapsed();
            state = self.lock();
            if written - before >= JOURNAL_STEP.start() / 2 {
                state.rate = ((written - before) as f64 / took.as_secs_f64().max(1e-6)) as u64;
            }
            state.flushed = written;
            if let Err(e) = result {
                // Never tried again: a second one may succeed although pages were lost.
                state.error = Some(StoreError::from_io(part.path(), "sync", e));
                state.stopped = true;
            }
            self.changed.notify_all();
        }
    }
}

impl Keeper {
    fn has_claims(&self) -> bool {
        !self.broken && self.ledger.has_verified()
    }

    /// Writes down what is verified and durable. A journal that cannot be written is given up: it is
    /// worth less than the copy.
    fn claim(&mut self, part: &PartFile, claims: &[crate::tree::Node]) {
        if self.broken || claims.is_empty() {
            return;
        }
        let result = self
            .journal(part)
            .and_then(|journal| journal.append(claims));
        let bytes = claims
            .iter()
            .filter_map(|node| Some(node.range()?.len()))
            .sum();
        match result {
            Ok(()) if part.keep(bytes) => {}
            // Dropped meanwhile.
            Ok(()) => part.remove_journal(),
            Err(_) => self.broken = true,
        }
    }

    fn journal(&mut self, part: &PartFile) -> std::io::Result<&mut Journal> {
        if self.journal.is_none() {
            let name = stale::journal_name(part.temp()).ok_or(std::io::ErrorKind::InvalidInput)?;
            let header = Header::new(self.source, PartId::of(part.file())?);
            self.journal = Some(Journal::create(part.dir(), &name, &header)?);
        }
        self.journal
            .as_mut()
            .ok_or_else(|| std::io::ErrorKind::NotFound.into())
    }
}
