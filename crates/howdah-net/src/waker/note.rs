//! The note that a call is under way. `howdah-fuzz` tries every order in which threads can meet here, with its own atomics.

use super::atomics::{AtomicBool, Ordering};

/// Set from a call until the endpoint looks: most calls ring no bell.
#[derive(Debug)]
pub(crate) struct Note(AtomicBool);

impl Note {
    pub(crate) fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// Calls; rings the bell if nobody has called since the endpoint looked.
    pub(crate) fn call(&self, ring: impl FnOnce()) {
        if !self.0.swap(true, Ordering::AcqRel) {
            ring();
        }
    }

    /// Whether somebody called; forgets it. The bell is silenced first: otherwise a call in between would find its own
    /// ring silenced and the note set, and no later call would ring.
    pub(crate) fn take(&self, silence: impl FnOnce()) -> bool {
        if !self.0.load(Ordering::Acquire) {
            return false;
        }
        silence();
        self.0.swap(false, Ordering::AcqRel)
    }
}
