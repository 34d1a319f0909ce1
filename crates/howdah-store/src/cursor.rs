//! Two threads that walk through an object: one leads, one works a bounded distance ahead.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::Thread;

/// The engine's cursor and the cursor of the thread that prepares data before it.
///
/// The leader never waits. The worker parks when it is `window` bytes ahead, and the leader
/// unparks it with a system call only then.
#[derive(Debug)]
pub(crate) struct Cursor {
    window: u64,
    leader: AtomicU64,
    /// The worker goes no further than this, whatever the leader does.
    gate: AtomicU64,
    done: AtomicU64,
    stopped: AtomicBool,
    waiting: AtomicBool,
    follower: OnceLock<Thread>,
}

impl Cursor {
    pub(crate) fn new(window: u64) -> Self {
        Self {
            window: window.max(1),
            leader: AtomicU64::new(0),
            gate: AtomicU64::new(u64::MAX),
            done: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            waiting: AtomicBool::new(false),
            follower: OnceLock::new(),
        }
    }

    /// Names the worker. Called once, right after it was started.
    pub(crate) fn set_follower(&self, thread: Thread) {
        let _ = self.follower.set(thread);
        self.unpark(); // it may already wait
    }

    /// Leader: everything below `offset` is used up.
    pub(crate) fn lead(&self, offset: u64) {
        self.leader.fetch_max(offset, Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) && self.has_room(self.done.load(Ordering::SeqCst)) {
            self.unpark();
        }
    }

    /// Leader: the worker may go that far; before that it may go anywhere.
    pub(crate) fn set_gate(&self, end: u64) {
        self.gate.store(end, Ordering::SeqCst);
        self.unpark();
    }

    /// Leader: how far the worker is.
    pub(crate) fn done(&self) -> u64 {
        self.done.load(Ordering::Acquire)
    }

    /// Leader: the worker shall end.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        self.unpark();
    }

    /// Worker: how far the leader is.
    pub(crate) fn leader(&self) -> u64 {
        self.leader.load(Ordering::Relaxed)
    }

    /// Worker: waits until it may work at `at`; `false` if it shall end.
    pub(crate) fn wait_for_room(&self, at: u64) -> bool {
        loop {
            if self.stopped.load(Ordering::SeqCst) {
                return false;
            }
            if self.has_room(at) {
                return true;
            }
            self.waiting.store(true, Ordering::SeqCst);
            // Looked at again after `waiting` is visible: no wake-up is lost.
            if !self.has_room(at) && !self.stopped.load(Ordering::SeqCst) {
                std::thread::park();
            }
            self.waiting.store(false, Ordering::SeqCst);
        }
    }

    /// Worker: everything below `at` is prepared. `true` if the leader had little left and may
    /// be waiting: it had used up more than half of what was prepared for it.
    pub(crate) fn advance(&self, at: u64) -> bool {
        let before = self.done.swap(at, Ordering::SeqCst);
        before.saturating_sub(self.leader.load(Ordering::SeqCst)) <= self.window / 2
    }

    fn has_room(&self, at: u64) -> bool {
        let window_end = self
            .leader
            .load(Ordering::SeqCst)
            .saturating_add(self.window);
        at < window_end.min(self.gate.load(Ordering::SeqCst))
    }

    fn unpark(&self) {
        if let Some(thread) = self.follower.get() {
            thread.unpark();
        }
    }
}
