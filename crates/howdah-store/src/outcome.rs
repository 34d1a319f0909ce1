//! One result that a worker thread leaves for the engine.

use crate::{StoreError, Wake};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};

/// The engine's end: asked often, answers once.
#[derive(Debug)]
pub(crate) struct Slot<T> {
    receiver: Option<Receiver<Result<T, StoreError>>>,
    path: PathBuf,
}

/// The worker's end. Consumed by the report.
pub(crate) struct Reporter<T> {
    sender: SyncSender<Result<T, StoreError>>,
    wake: Wake,
    silent: bool,
}

impl<T> Slot<T> {
    pub(crate) fn new(path: &Path, wake: Wake) -> (Self, Reporter<T>) {
        let (sender, receiver) = sync_channel(1);
        let slot = Self {
            receiver: Some(receiver),
            path: path.to_path_buf(),
        };
        (
            slot,
            Reporter {
                sender,
                wake,
                silent: false,
            },
        )
    }

    pub(crate) fn poll(&mut self) -> Option<Result<T, StoreError>> {
        let result = match self.receiver.as_ref()?.try_recv() {
            Ok(result) => result,
            Err(TryRecvError::Empty) => return None,
            // A bug, but the transfer must end with a word and not hang.
            Err(TryRecvError::Disconnected) => Err(StoreError::other(
                &self.path,
                "process",
                "its worker thread died",
            )),
        };
        self.receiver = None;
        Some(result)
    }
}

impl<T> Reporter<T> {
    pub(crate) fn report(self, result: Result<T, StoreError>) {
        let _ = self.sender.send(result);
    }

    /// Ends without a report, because the engine has dropped its end.
    pub(crate) fn nobody_waits(mut self) {
        self.silent = true;
    }
}

impl<T> Drop for Reporter<T> {
    fn drop(&mut self) {
        // Also when the worker panicked.
        if !self.silent {
            (self.wake)();
        }
    }
}
