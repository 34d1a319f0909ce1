//! A thread that many share must not wait for a disk: builds with assertions find out where it would.

use std::cell::Cell;
use std::marker::PhantomData;

thread_local! {
    static HERE: Cell<bool> = const { Cell::new(false) };
}

/// While it lives, its thread must not wait.
#[derive(Debug)]
pub struct NoWaiting(PhantomData<*const ()>);

impl NoWaiting {
    /// On this thread.
    #[must_use]
    pub fn here() -> Self {
        HERE.set(true);
        Self(PhantomData)
    }
}

impl Drop for NoWaiting {
    fn drop(&mut self) {
        HERE.set(false);
    }
}

/// Whether this thread must not wait.
pub fn must_not_wait() -> bool {
    HERE.get()
}

/// Said by whatever may wait for a disk.
///
/// # Panics
/// In builds with assertions, on a thread that must not.
pub fn may_wait() {
    debug_assert!(
        !HERE.get() || std::thread::panicking(),
        "the thread of all connections would wait for a disk"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_threads_that_must_not_wait_are_caught() {
        may_wait();
        let held = NoWaiting::here();
        let caught = std::panic::catch_unwind(may_wait).is_err();
        assert_eq!(caught, cfg!(debug_assertions));
        assert!(std::thread::spawn(may_wait).join().is_ok());
        assert!(must_not_wait());
        drop(held);
        may_wait();
    }
}
