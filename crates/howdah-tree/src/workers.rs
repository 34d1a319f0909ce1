//! What the threads of one side have in common: how they start, and the failure that ends them all.

use super::queue::lock;
use howdah_store::{StoreError, worker};
use std::panic::{AssertUnwindSafe, catch_unwind};
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
pub(crate) trait Workers: Send + Sync + 'static {
    /// Ends all of them because of that.
    fn fail(&self, error: StoreError);
}

/// Starts one of them. Its failure is the failure of all.
pub(crate) fn start<C: Workers>(
    shared: &Arc<C>,
    name: &str,
    work: impl FnOnce(&Arc<C>) -> Result<(), StoreError> + Send + 'static,
) -> Result<JoinHandle<()>, StoreError> {
    let shared = Arc::clone(shared);
    let thread_name = name.to_owned();
    let thread = worker::spawn(name, move || {
        // A thread that panics would leave the others waiting for it, and both ends with them.
        let result = catch_unwind(AssertUnwindSafe(|| work(&shared)));
        let fault = || StoreError::Fault {
            thread: thread_name,
        };
        if let Err(error) = result.unwrap_or_else(|_| Err(fault())) {
            shared.fail(error);
        }
    });
    thread.map_err(|e| StoreError::no_thread(Path::new(name), e))
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Workers for FirstError {
        fn fail(&self, error: StoreError) {
            self.note(error);
        }
    }

    /// H12: nobody waits for a thread that has panicked.
    #[test]
    fn a_thread_that_panics_fails_the_crew() {
        let shared = Arc::new(FirstError::default());
        let thread = start(&shared, "howdah-test", |_| panic!("a fault, on purpose")).unwrap();
        thread.join().expect("the panic is caught");
        let error = shared.get().expect("the others hear of it").to_string();
        assert!(error.contains("howdah-test"), "{error}");
    }
}
