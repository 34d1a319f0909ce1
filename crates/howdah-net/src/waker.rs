//! Wakes the endpoint's thread from another one.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::io;
use std::sync::Arc;

mod note;

/// What [`note`] is made of: tests have others.
mod atomics {
    pub(super) use std::sync::atomic::{AtomicBool, Ordering};
}

#[derive(Debug)]
struct Inner {
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
        note: note::Note::new(),
        write,
    });
    Ok((Waker(Arc::clone(&inner)), WakeReceiver { read, inner }))
}

impl Waker {
    /// Makes the endpoint look at its application soon.
    pub fn wake(&self) {
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

    /// Whether somebody called; forgets it.
    pub(crate) fn take(&self) -> bool {
        self.inner.note.take(|| self.drain())
    }
}
