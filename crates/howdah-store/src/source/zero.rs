//! Zero bytes made up on the spot.

use super::Finished;
use crate::cursor::Cursor;
use crate::outcome::Slot;
use crate::{Limits, StoreError, Wake, worker};
use std::path::Path;
use std::sync::Arc;

const BLOCK: u64 = 256 << 10;

#[derive(Debug)]
pub(super) struct ZeroSource {
    size: u64,
    cursor: Arc<Cursor>,
    slot: Slot<Finished>,
}

impl ZeroSource {
    pub(super) fn new(
        size: u64,
        hash: bool,
        wake: Wake,
        limits: &Limits,
    ) -> Result<Self, StoreError> {
        let name = Path::new("zero:");
        let cursor = Arc::new(Cursor::new(limits.prefetch_bytes));
        let (slot, reporter) = Slot::new(name, wake);
        if hash {
            // Each subtree's chaining value depends on its position: there is no short cut. The
            // thread follows the send cursor, so that an endless source does not burn a core.
            let follower = Arc::clone(&cursor);
            let handle = worker::spawn("howdah-zero", move || match hash_zeros(size, &follower) {
                Some(hash) => reporter.report(Ok(Finished {
                    size,
                    hash: Some(hash),
                })),
                None => reporter.nobody_waits(),
            })
            .map_err(|e| StoreError::no_thread(name, e))?;
            cursor.set_follower(handle.thread().clone());
        } else {
            reporter.report(Ok(Finished { size, hash: None }));
        }
        Ok(Self { size, cursor, slot })
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    pub(super) fn note_sent_through(&self, offset: u64) {
        self.cursor.lead(offset);
    }

    pub(super) fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), StoreError> {
        read_at(self.size, offset, buf)
    }

    pub(super) fn poll_finished(&mut self) -> Option<Result<Finished, StoreError>> {
        self.slot.poll()
    }
}

/// Of so many zeros.
pub(super) fn read_at(size: u64, offset: u64, buf: &mut [u8]) -> Result<(), StoreError> {
    let end = offset.checked_add(buf.len() as u64);
    if end.is_none_or(|end| end > size) {
        return Err(StoreError::other(
            Path::new("zero:"),
            "read",
            "beyond the end",
        ));
    }
    buf.fill(0);
    Ok(())
}

impl Drop for ZeroSource {
    fn drop(&mut self) {
        self.cursor.stop();
    }
}

fn hash_zeros(size: u64, cursor: &Cursor) -> Option<[u8; 32]> {
    let zeros = vec![0; BLOCK as usize];
    let mut hasher = blake3::Hasher::new();
    let mut at = 0;
    while at < size {
        if !cursor.wait_for_room(at) {
            return None;
        }
        let len = BLOCK.min(size - at);
        hasher.update(&zeros[..len as usize]);
        at += len;
        cursor.advance(at);
    }
    Some(*hasher.finalize().as_bytes())
}
