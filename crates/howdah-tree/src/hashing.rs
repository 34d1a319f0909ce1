//! Files that are hashed ahead, as many at a time as there are processors, while their hashes are taken in order.

use super::queue::Queue;
use howdah_store::{StoreError, worker};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::time::Duration;

/// Threads at most: each reads a file of its own, and a disk has only so many heads or channels.
const THREADS_MAX: usize = 16;
/// Files on their way for each thread.
const AHEAD: usize = 4;

type Outcome = Result<[u8; 32], StoreError>;
/// Opens the file. Not before its turn: descriptors are few.
type Open = Box<dyn FnOnce() -> Result<File, StoreError> + Send>;

struct Job {
    open: Open,
    path: PathBuf,
    done: SyncSender<Outcome>,
}

struct Shared {
    jobs: Queue<Job>,
    ended: AtomicBool,
}

/// Threads that hash. They end with it.
pub(crate) struct Hashers {
    shared: Arc<Shared>,
    threads: usize,
}

impl Hashers {
    /// Starts them. Without any thread its owner does their work.
    pub(crate) fn new() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let wanted = processors.min(THREADS_MAX);
        let shared = Arc::new(Shared {
            jobs: Queue::new(AHEAD * wanted + 1),
            ended: AtomicBool::new(false),
        });
        let start = |_: &usize| {
            let shared = Arc::clone(&shared);
            worker::spawn("howdah-hash", move || shared.work()).is_ok()
        };
        let threads = (0..wanted).filter(start).count();
        Self { shared, threads }
    }

    /// How many files may be on their way: more would cost memory and gain nothing.
    pub(crate) fn ahead(&self) -> usize {
        AHEAD * self.threads
    }

    /// Has a file hashed. `path` is for messages.
    pub(crate) fn hash(
        &self,
        path: &Path,
        open: impl FnOnce() -> Result<File, StoreError> + Send + 'static,
    ) -> Pending {
        let (done, outcome) = sync_channel(1);
        let job = Job {
            open: Box::new(open),
            path: path.to_path_buf(),
            done,
        };
        if self.threads == 0 {
            self.shared.do_one(job);
        } else {
            // Refused only when nobody waits for it any more.
            let _ = self.shared.jobs.push(job);
        }
        Pending(outcome)
    }
}

impl Drop for Hashers {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Release);
        self.shared.jobs.stop();
    }
}

impl Shared {
    fn work(&self) {
        while let Some(job) = self.jobs.pop() {
            self.do_one(job);
        }
    }

    fn do_one(&self, job: Job) {
        let ended = &self.ended;
        let outcome = (job.open)().and_then(|file| hash_open(Unless { ended, file }, &job.path));
        // Whoever is gone has no use for it.
        let _ = job.done.send(outcome);
    }
}

/// A file that ends with an error once nobody wants its hash.
struct Unless<'a> {
    ended: &'a AtomicBool,
    file: File,
}

impl Read for Unless<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.ended.load(Ordering::Acquire) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.file.read(into)
    }
}

/// A hash that is there or will be.
#[derive(Debug)]
pub(crate) struct Pending(Receiver<Outcome>);

impl Pending {
    /// If it is there.
    pub(crate) fn poll(&self) -> Option<Outcome> {
        match self.0.try_recv() {
            Ok(outcome) => Some(outcome),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err(StoreError::Aborted)),
        }
    }

    /// If it is there within that time.
    pub(crate) fn wait_for(&self, time: Duration) -> Option<Outcome> {
        let outcome = self.0.recv_timeout(time).ok();
        outcome.or_else(|| self.poll())
    }

    /// After a wait.
    pub(crate) fn wait(&self) -> Outcome {
        self.0.recv().unwrap_or(Err(StoreError::Aborted))
    }
}

fn hash_open(file: impl Read, path: &Path) -> Result<[u8; 32], StoreError> {
    let mut hasher = blake3::Hasher::new();
    let read = hasher.update_reader(file);
    read.map_err(|e| StoreError::from_io(path, "read", e))?;
    Ok(*hasher.finalize().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_belong_to_their_files_and_errors_too() {
        let dir = tempfile::tempdir().unwrap();
        let hashers = Hashers::new();
        let path = |i: usize| dir.path().join(i.to_string());
        let pending: Vec<Pending> = (0..8)
            .map(|i| {
                let path = path(i);
                if i != 5 {
                    std::fs::write(&path, vec![i as u8; i * 100_000]).unwrap();
                }
                let named = path.clone();
                hashers.hash(&path, move || {
                    File::open(&named).map_err(|e| StoreError::from_io(&named, "open", e))
                })
            })
            .collect();
        for (i, pending) in pending.iter().enumerate().rev() {
            let outcome = pending.wait();
            if i == 5 {
                assert!(matches!(outcome, Err(StoreError::NotFound { .. })));
            } else {
                let expected = blake3::hash(&vec![i as u8; i * 100_000]);
                assert_eq!(outcome.unwrap(), *expected.as_bytes());
            }
        }
        let later = hashers.hash(dir.path(), || Err(StoreError::Aborted));
        drop(hashers);
        assert!(matches!(later.wait(), Err(StoreError::Aborted)));
    }
}
