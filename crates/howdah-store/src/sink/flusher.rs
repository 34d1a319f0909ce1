//! Sends written data to the disk while more arrives.
//!
//! Without it the page cache swallows gigabytes, the engine believes that the disk is as fast as
//! memory, and the `fsync` at the end takes as long as the whole transfer should have. With it the
//! debt to the disk is bounded, so the backlog shows the disk's true rate, and a failing disk
//! shows early.

use crate::durable::{PartFile, forget_pages};
use crate::{Limits, StoreError, worker};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// A flush begins when this much has been written since the last one began.
const STEP: u64 = 64 << 20;

/// Starts its thread when the first step is full: small files need none.
pub(super) struct Flusher {
    part: Arc<PartFile>,
    bound: u64,
    cached: u64,
    running: Option<Running>,
}

struct Running {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    /// Bytes behind the writer that stay in the page cache.
    cached: u64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    written: u64,
    flushed: u64,
    stopped: bool,
    error: Option<StoreError>,
}

impl Flusher {
    pub(super) fn new(part: &Arc<PartFile>, limits: &Limits) -> Self {
        Self {
            part: Arc::clone(part),
            bound: limits.dirty_bytes.max(2 * STEP),
            cached: limits.cached_bytes,
            running: None,
        }
    }

    /// So much has been written in all. Waits while the disk owes too much.
    pub(super) fn note_written(&mut self, written: u64) -> Result<(), StoreError> {
        let bound = self.bound;
        let shared = match &self.running {
            Some(running) => &running.shared,
            None if written < STEP => return Ok(()),
            None => &self.start()?.shared,
        };
        let mut state = shared.lock();
        let due = state.due();
        state.written = written;
        if !due && state.due() {
            shared.changed.notify_all();
        }
        while state.error.is_none() && written - state.flushed > bound {
            state = shared.wait(state);
        }
        state.error.clone().map_or(Ok(()), Err)
    }

    fn start(&mut self) -> Result<&Running, StoreError> {
        let shared = Arc::new(Shared {
            cached: self.cached,
            ..Shared::default()
        });
        let (part, theirs) = (Arc::clone(&self.part), Arc::clone(&shared));
        let thread = worker::spawn("howdah-flush", move || theirs.run(&part))
            .map_err(|e| StoreError::from_io(self.part.path(), "start a thread to flush", e))?;
        Ok(self.running.insert(Running {
            shared,
            thread: Some(thread),
        }))
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

impl State {
    fn due(&self) -> bool {
        self.written - self.flushed >= STEP
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, guard: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed
            .wait(guard)
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn stop(&self) {
        self.lock().stopped = true;
        self.changed.notify_all();
    }

    fn run(&self, part: &PartFile) {
        let mut state = self.lock();
        loop {
            if state.stopped {
                return;
            }
            if !state.due() {
                state = self.wait(state);
                continue;
            }
            let written = state.written;
            drop(state);
            let result = part.file().sync_data();
            // By offset, although slices come in any order: what is still missing comes soon, and
            // what the hasher still needs it reads from the disk.
            if result.is_ok() {
                forget_pages(part.file(), 0, written.saturating_sub(self.cached));
            }
            state = self.lock();
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
