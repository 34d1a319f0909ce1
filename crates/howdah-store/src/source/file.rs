//! A file, read ahead by a thread that hashes it and thereby brings it into the page cache.
//!
//! There is no mapping: a file that somebody truncates would kill the process with SIGBUS.

use super::Finished;
use crate::cursor::Cursor;
use crate::durable::{Identity, forget_pages};
use crate::outcome::{Reporter, Slot};
use crate::{Limits, StoreError, Wake, worker};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes per read.
const BLOCK: usize = 1 << 20;

/// The page cache is relieved of this much at a time.
const DROP_STEP: u64 = 16 << 20;

#[derive(Debug)]
pub(super) struct FileSource {
    shared: Arc<Shared>,
    slot: Slot<Finished>,
}

#[derive(Debug)]
struct Shared {
    file: File,
    path: PathBuf,
    identity: Identity,
    cursor: Cursor,
    /// Bytes behind the send cursor that stay in the page cache.
    cached: u64,
}

impl FileSource {
    pub(super) fn new(
        file: File,
        path: &Path,
        hash: bool,
        wake: Wake,
        limits: &Limits,
    ) -> Result<Self, StoreError> {
        let identity = Identity::of(&file, path)?;
        let shared = Arc::new(Shared {
            file,
            path: path.to_path_buf(),
            identity,
            cursor: Cursor::new(limits.prefetch_bytes),
            cached: limits.cached_bytes,
        });
        let (slot, reporter) = Slot::new(path, Arc::clone(&wake));
        let reader = Arc::clone(&shared);
        let work = move || reader.read_ahead(hash, &wake, reporter);
        let handle = worker::spawn("howdah-read", work)
            .map_err(|e| StoreError::from_io(path, "start a thread to read", e))?;
        shared.cursor.set_follower(handle.thread().clone());
        Ok(Self { shared, slot })
    }

    pub(super) fn size(&self) -> u64 {
        self.shared.identity.size()
    }

    pub(super) fn ready_end(&self) -> u64 {
        self.shared.cursor.done()
    }

    pub(super) fn note_sent_through(&self, offset: u64) {
        self.shared.cursor.lead(offset);
    }

    pub(super) fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), StoreError> {
        let shared = &*self.shared;
        shared
            .file
            .read_exact_at(buf, offset)
            .map_err(|e| match e.kind() {
                io::ErrorKind::UnexpectedEof => StoreError::SourceChanged {
                    path: shared.path.clone(),
                },
                _ => StoreError::from_io(&shared.path, "read", e),
            })
    }

    pub(super) fn poll_finished(&mut self) -> Option<Result<Finished, StoreError>> {
        self.slot.poll()
    }

    pub(super) fn verify_unchanged(&self) -> Result<(), StoreError> {
        self.shared.verify_unchanged()
    }
}

impl Drop for FileSource {
    fn drop(&mut self) {
        self.shared.cursor.stop();
    }
}

impl Shared {
    fn verify_unchanged(&self) -> Result<(), StoreError> {
        if Identity::of(&self.file, &self.path)? == self.identity {
            Ok(())
        } else {
            Err(StoreError::SourceChanged {
                path: self.path.clone(),
            })
        }
    }

    fn read_ahead(&self, hash: bool, wake: &Wake, reporter: Reporter<Finished>) {
        match self.read_all(hash, wake) {
            Ok(Some(finished)) => reporter.report(Ok(finished)),
            Ok(None) => reporter.nobody_waits(),
            Err(error) => reporter.report(Err(error)),
        }
    }

    /// `None`: stopped.
    fn read_all(&self, hash: bool, wake: &Wake) -> Result<Option<Finished>, StoreError> {
        let size = self.identity.size();
        let drop_behind = size > self.cached && !self.is_cached(size);
        let mut dropped = 0;
        self.advise(size);
        let mut hasher = hash.then(blake3::Hasher::new);
        let mut block = vec![0; BLOCK.min(size.try_into().unwrap_or(BLOCK))];
        let mut at = 0;
        while at < size {
            if !self.cursor.wait_for_room(at) {
                return Ok(None);
            }
            let want = block
                .len()
                .min((size - at).try_into().unwrap_or(usize::MAX));
            let got = match self.file.read_at(&mut block[..want], at) {
                Ok(0) => {
                    return Err(StoreError::SourceChanged {
                        path: self.path.clone(),
                    });
                }
                Ok(got) => got,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(StoreError::from_io(&self.path, "read", e)),
            };
            if let Some(hasher) = &mut hasher {
                hasher.update(&block[..got]);
            }
            at += got as u64;
            let behind = self.cursor.leader().saturating_sub(self.cached);
            if drop_behind && behind >= dropped + DROP_STEP {
                forget_pages(&self.file, dropped, behind);
                dropped = behind;
            }
            if self.cursor.advance(at) {
                wake();
            }
        }
        self.verify_unchanged()?;
        let hash = hasher.map(|hasher| *hasher.finalize().as_bytes());
        Ok(Some(Finished { size, hash }))
    }

    /// Whether the file is mostly in the page cache already: somebody else uses it, so it stays.
    fn is_cached(&self, size: u64) -> bool {
        #[cfg(target_os = "linux")]
        {
            const PROBES: u64 = 8;
            let is_hit = |i: &u64| {
                let mut byte = [0];
                let mut slices = [io::IoSliceMut::new(&mut byte)];
                let flags = rustix::io::ReadWriteFlags::NOWAIT;
                let at = size / PROBES * i;
                rustix::io::preadv2(&self.file, &mut slices, at, flags) == Ok(1)
            };
            (0..PROBES).filter(is_hit).count() as u64 > PROBES / 2
        }
        #[cfg(not(target_os = "linux"))]
        {
            let _ = size;
            true
        }
    }

    /// Hints only: their failure changes nothing.
    fn advise(&self, size: u64) {
        #[cfg(target_os = "linux")]
        if let Some(len) = std::num::NonZeroU64::new(size.min(8 << 20)) {
            use rustix::fs::Advice;
            let _ = rustix::fs::fadvise(&self.file, 0, None, Advice::Sequential);
            let _ = rustix::fs::fadvise(&self.file, 0, Some(len), Advice::WillNeed);
        }
        let _ = size;
    }
}
