//! Unfinished files that nobody wants any more go on threads of their own, where many share the one that lets go of them.

use crate::durable::PartFile;
use crate::worker;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

static THREADS: Mutex<Vec<JoinHandle<()>>> = Mutex::new(Vec::new());

fn threads() -> MutexGuard<'static, Vec<JoinHandle<()>>> {
    // A list of threads is right whoever panicked.
    THREADS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes it, unless something of it is kept.
pub(super) fn put(part: Arc<PartFile>) {
    // Where there is no thread to be had it is let go of here.
    let thread = worker::spawn("howdah-away", move || {
        part.remove();
        drop(part);
    });
    let mut threads = threads();
    threads.retain(|thread| !thread.is_finished());
    threads.extend(thread.ok());
}

/// Waits until what was let go of so far is gone: for a process that is to end.
pub fn wait_for_leftovers() {
    let waiting = std::mem::take(&mut *threads());
    for thread in waiting {
        let _ = thread.join();
    }
}
