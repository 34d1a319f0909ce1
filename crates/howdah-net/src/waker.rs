//! Wakes the endpoint's thread from another one.

use howdah_proto::endpoint::ConnKey;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

mod note;

/// What [`note`] is made of: tests have others.
mod atomics {
    pub(super) use std::sync::atomic::{AtomicBool, Ordering};
}

/// For whom was called.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    /// For all that are attended to.
    pub(crate) all: bool,
    pub(crate) keys: BTreeSet<ConnKey>,
}

#[derive(Debug)]
struct Inner {
    /// Written before the note is, and read after it was.
    calls: Mutex<Calls>,
    note: note::Note,
    write: OwnedFd,
}

/// Wakes an endpoint; clones wake the same one.
#[derive(Clone, Debug)]
pub struct Waker(Arc<Inner>);

/// The endpoint's end.
#[derive(Debug)]
pub(crate) struct WakeReceiver {
    read: OwnedFd,
    inner: Arc<Inner>,
}

pub(crate) fn pair() -> io::Result<(Waker, WakeReceiver)> {
    let (read, write) = rustix::pipe::pipe()?;
    for fd in [&read, &write] {
        rustix::io::ioctl_fionbio(fd, true)?;
        rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::CLOEXEC)?;
    }
    let inner = Arc::new(Inner {
        calls: Mutex::default(),
        note: note::Note::new(),
        write,
    });
    Ok((Waker(Arc::clone(&inner)), WakeReceiver { read, inner }))
}

impl Waker {
    /// Makes the endpoint look soon at all connections that its application attends to.
    pub fn wake(&self) {
        self.call(|calls| calls.all = true);
    }

    /// Makes it look soon at this one, if it is still there, and at no other one.
    pub fn wake_for(&self, key: ConnKey) {
        self.call(|calls| {
            calls.keys.insert(key);
        });
    }

    /// Makes it look at what lies there for it, and at no connection.
    pub fn ring(&self) {
        self.call(|_| ());
    }

    fn call(&self, name: impl FnOnce(&mut Calls)) {
        name(&mut self.0.calls.lock().unwrap_or_else(PoisonError::into_inner));
        // A full pipe wakes as well.
        self.0.note.call(|| {
            let _ = rustix::io::write(&self.0.write, &[1]);
        });
    }
}

impl WakeReceiver {
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.read.as_fd()
    }

    /// Empties the pipe; the call stays noted until [`take`](Self::take). Without this, a byte that
    /// arrives just after a `take` would keep the pipe readable for ever.
    pub(crate) fn drain(&self) {
        let mut buffer = [0; 16];
        let _ = rustix::io::read(&self.read, &mut buffer);
    }

    /// For whom somebody called, if anybody did; forgets it.
    pub(crate) fn take(&self) -> Option<Calls> {
        let called = self.inner.note.take(|| self.drain());
        called.then(|| {
            let calls = self.inner.calls.lock();
            std::mem::take(&mut *calls.unwrap_or_else(PoisonError::into_inner))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_is_called_for_is_named_once_and_then_forgotten() {
        let (waker, wakes) = pair().expect("a pipe");
        assert!(wakes.take().is_none());
        for key in [7, 3, 7] {
            waker.wake_for(ConnKey(key));
        }
        let calls = wakes.take().expect("somebody called");
        assert!(!calls.all);
        assert_eq!(calls.keys, [3, 7].map(ConnKey).into());
        assert!(wakes.take().is_none());
        waker.wake();
        waker.clone().wake_for(ConnKey(1));
        let calls = wakes.take().expect("somebody called");
        assert!(calls.all);
        assert_eq!(calls.keys, [ConnKey(1)].into());
    }
}
