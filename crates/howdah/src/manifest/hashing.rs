//! Hashes files, some at a time.

use super::ManifestHash;
use crate::{Cancel, Error, ErrorKind};
use aws_lc_rs::digest;
use std::io::{self, Read};
use std::num::NonZero;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Bytes that are read at once.
const CHUNK: usize = 1 << 20;
/// Files that are read at once, at most.
const THREADS: usize = 4;
/// How often somebody hears how far it is.
const TICK: Duration = Duration::from_millis(100);

/// Both hashes of a content, or one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Hashes {
    pub(super) blake3: Option<[u8; 32]>,
    pub(super) sha256: Option<[u8; 32]>,
}

impl Hashes {
    pub(super) fn get(&self, kind: ManifestHash) -> Option<[u8; 32]> {
        match kind {
            ManifestHash::Blake3 => self.blake3,
            ManifestHash::Sha256 => self.sha256,
        }
    }
}

/// Reads all of it. `done` counts the bytes as they are read.
pub(super) fn hash(
    mut file: impl Read,
    kinds: &[ManifestHash],
    cancel: &Cancel,
    done: &AtomicU64,
) -> io::Result<Hashes> {
    let wants = |kind| kinds.contains(&kind);
    let mut blake3 = wants(ManifestHash::Blake3).then(blake3::Hasher::new);
    let mut sha256 = wants(ManifestHash::Sha256).then(|| digest::Context::new(&digest::SHA256));
    let mut chunk = vec![0; CHUNK];
    loop {
        if cancel.is_cancelled() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let read = match file.read(&mut chunk) {
            Ok(0) => break,
            Ok(read) => read,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(e),
        };
        let Some(bytes) = chunk.get(..read) else {
            break;
        };
        if let Some(hasher) = &mut blake3 {
            hasher.update(bytes);
        }
        if let Some(hasher) = &mut sha256 {
            hasher.update(bytes);
        }
        done.fetch_add(read as u64, Ordering::Relaxed);
    }
    Ok(Hashes {
        blake3: blake3.map(|hasher| *hasher.finalize().as_bytes()),
        sha256: sha256.and_then(|hasher| hasher.finish().as_ref().try_into().ok()),
    })
}

/// Does something with each of `items`, some at a time. `take` hears what came of each, in no order, and `None` when nothing
/// has come for a while; both on the calling thread.
pub(super) fn for_each<T: Sync, R: Send>(
    items: &[T],
    cancel: &Cancel,
    work: impl Fn(&T) -> R + Sync,
    mut take: impl FnMut(Option<(usize, R)>) -> Result<(), Error>,
) -> Result<(), Error> {
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let next = AtomicUsize::new(0);
    let stop = AtomicU64::new(0);
    let (sender, results) = channel();
    std::thread::scope(|scope| {
        for _ in 0..THREADS.min(cores).min(items.len()) {
            let (sender, next, stop, work) = (sender.clone(), &next, &stop, &work);
            scope.spawn(move || {
                while stop.load(Ordering::Relaxed) == 0 && !cancel.is_cancelled() {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(at) else { break };
                    if sender.send((at, work(item))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        let mut taken = 0;
        let result = loop {
            let outcome = match results.recv_timeout(TICK) {
                Ok(result) => {
                    taken += 1;
                    take(Some(result))
                }
                Err(RecvTimeoutError::Timeout) => take(None),
                Err(RecvTimeoutError::Disconnected) => break Ok(()),
            };
            if outcome.is_err() {
                break outcome;
            }
        };
        stop.store(1, Ordering::Relaxed);
        if cancel.is_cancelled() {
            return Err(Error::new(ErrorKind::Cancelled, "interrupted"));
        }
        result?;
        if taken < items.len() {
            return Err(Error::new(ErrorKind::Io, "a thread that hashes has ended"));
        }
        Ok(())
    })
}
