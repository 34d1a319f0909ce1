//! What the threads of one side have in common: how they start, and the failure that ends them all.

use super::queue::lock;
use crate::{StoreError, worker};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// The first failure counts; what follows from it does not. A thread that only notices that another one is
/// gone does not know why.
#[derive(Debug, Default)]
pub(crate) struct FirstError(Mutex<Option<StoreError>>);

impl FirstError {
    pub(crate) fn note(&self, error: StoreError) {
        let mut first = lock(&self.0);
        if matches!(*first, None | Some(StoreError::Aborted)) {
            *first = Some(error);
        }
    }

    pub(crate) fn get(&self) -> Option<StoreError> {
        lock(&self.0).clone()
    }

    pub(crate) fn is_some(&self) -> bool {
        lock(&self.0).is_some()
    }
}

/// What the threads of one side share.
pub(crate) trait Crew: Send + Sync + 'static {
    /// Ends all of them because of that.
    fn fail(&self, error: StoreError);
}

/// Starts one of them. Its failure is the failure of all.
pub(crate) fn start<C: Crew>(
    shared: &Arc<C>,
    name: &str,
    work: impl FnOnce(&Arc<C>) -> Result<(), StoreError> + Send + 'static,
) -> Result<JoinHandle<()>, StoreError> {
    let shared = Arc::clone(shared);
    let thread = worker::spawn(name, move || {
        if let Err(error) = work(&shared) {
            shared.fail(error);
        }
    });
    thread.map_err(|e| StoreError::from_io(Path::new(name), "start a thread", e))
}
