//! Work that may wait for a disk, on a thread of its own: the loop that all connections share must not wait with it.

use crate::{Error, ErrorKind};
use howdah_store::{Wake, threads};
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Of one key at a time: a disk that stands still keeps the thread of a client that is gone, and it may come again.
const ERRANDS_MAX: usize = 64;

/// What a thread does, whose result is wanted. Dropping it leaves the thread to its work.
#[derive(Debug)]
pub(crate) struct BlockingJob<T>(Receiver<T>);

/// All that are under way, whoever still wants their results. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct BlockingJobs(Arc<Mutex<BTreeMap<String, Arc<()>>>>);

impl BlockingJobs {
    /// Begins one for the holder of that key; `wake` is called when there is a result.
    pub(crate) fn start<T: Send + 'static>(
        &self,
        key: &str,
        wake: Wake,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<BlockingJob<T>, Error> {
        // One is kept here, and one by each thread.
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, held| Arc::strong_count(held) > 1);
        let held = all.entry(key.to_owned()).or_default();
        if Arc::strong_count(held) > ERRANDS_MAX {
            let text = format!(
                "{ERRANDS_MAX} requests of this key still wait for a disk of the server; try again when it answers"
            );
            return Err(Error::new(ErrorKind::Io, text));
        }
        let held = Arc::clone(held);
        drop(all);
        let (tell, result) = sync_channel(1);
        let work = move || {
            // What nobody wants is put away here, which may wait as well.
            let _ = tell.send(work());
            drop(held);
            wake();
        };
        threads::start("howdah-errand", work).map_err(|e| Error::no_thread(&e))?;
        Ok(BlockingJob(result))
    }
}

impl<T> BlockingJob<T> {
    /// The result, if it is there within that time.
    pub(crate) fn poll(&self, patience: Duration) -> Option<Result<T, Error>> {
        match self.0.recv_timeout(patience) {
            Ok(result) => Some(Ok(result)),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Err(Error::new(
                ErrorKind::Io,
                "the thread that opens files ended without a word",
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn h13_a_key_whose_disk_stands_still_gets_so_many_threads_and_others_get_theirs() {
        let errands = BlockingJobs::default();
        let (woken, wakes) = channel();
        let wake = || -> Wake {
            let woken = woken.clone();
            Arc::new(move || {
                let _ = woken.send(());
            })
        };
        let mut disks = Vec::new();
        for n in 0..ERRANDS_MAX {
            let (answer, disk) = channel::<()>();
            let errand = errands.start("anna", wake(), move || disk.recv().is_ok());
            let errand = errand.expect("a thread");
            assert!(errand.poll(Duration::ZERO).is_none(), "{n}");
            // Whoever has asked goes, and the thread stays.
            drop(errand);
            disks.push(answer);
        }
        assert!(errands.start("anna", wake(), || ()).is_err());
        let other = errands.start("ben", wake(), || 7).expect("a thread");
        wakes.recv().expect("it ended");
        assert_eq!(other.poll(Duration::ZERO).and_then(Result::ok), Some(7));
        drop(disks.pop());
        wakes.recv().expect("one answered");
        assert!(errands.start("anna", wake(), || ()).is_ok());
    }

    #[test]
    fn h12_a_thread_that_panics_is_an_error() {
        let work = || -> u32 { std::panic::panic_any(()) };
        let errand = BlockingJobs::default().start("", Arc::new(|| ()), work);
        let errand = errand.expect("a thread");
        let limit = Duration::from_mins(1);
        assert!(errand.poll(limit).is_some_and(|result| result.is_err()));
    }
}
