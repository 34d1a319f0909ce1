//! A pipe, kept in memory until the receiver has confirmed it.

use super::Finished;
use crate::outcome::{Reporter, Slot};
use crate::{Limits, StoreError, Wake, worker};
use std::collections::VecDeque;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Bytes per read: what a Linux pipe holds by default.
const SEGMENT: usize = 64 << 10;
/// Reads up to this size are copied into the last segment, so that a dribbling writer does not
/// fill the memory with empty segments.
const SMALL: usize = 16 << 10;

/// An engine that has this much left to send is not waiting for more.
const PLENTY: u64 = 1 << 20;

#[derive(Debug)]
pub(super) struct PipeSource {
    shared: Arc<Shared>,
    slot: Slot<Finished>,
}

#[derive(Debug)]
struct Shared {
    /// For messages.
    name: PathBuf,
    ring: Mutex<Ring>,
    room: Condvar,
    end: AtomicU64,
    /// Highest offset that the engine has read.
    used: AtomicU64,
    /// The writer has closed its side.
    complete: AtomicBool,
}

/// Consecutive segments of the object. Bounded by the capacity of its buffers.
#[derive(Debug)]
struct Ring {
    segments: VecDeque<Segment>,
    spare: Vec<Vec<u8>>,
    max_segments: usize,
    /// How far beyond what was sent it is read.
    ahead: u64,
    released: u64,
    stopped: bool,
    /// The reader of the pipe waits for room.
    waiting: bool,
}

#[derive(Debug)]
struct Segment {
    start: u64,
    len: usize,
    buf: Vec<u8>,
}

impl Segment {
    fn end(&self) -> u64 {
        self.start + self.len as u64
    }
}

impl PipeSource {
    pub(super) fn new(
        reader: Box<dyn Read + Send>,
        name: &Path,
        hash: bool,
        wake: Wake,
        limits: &Limits,
    ) -> Result<Self, StoreError> {
        let segment = SEGMENT.min(limits.pipe_bytes.div_ceil(2)).max(1);
        let shared = Arc::new(Shared {
            name: name.to_path_buf(),
            ring: Mutex::new(Ring {
                segments: VecDeque::new(),
                spare: Vec::new(),
                max_segments: (limits.pipe_bytes / segment).max(2),
                ahead: limits.pipe_ahead_bytes.max(1),
                released: 0,
                stopped: false,
                waiting: false,
            }),
            room: Condvar::new(),
            end: AtomicU64::new(0),
            used: AtomicU64::new(0),
            complete: AtomicBool::new(false),
        });
        let (slot, reporter) = Slot::new(name, Arc::clone(&wake));
        let filler = Arc::clone(&shared);
        worker::spawn("howdah-pipe", move || {
            filler.fill(reader, segment, hash, &wake, reporter);
        })
        .map_err(|e| StoreError::no_thread(name, e))?;
        Ok(Self { shared, slot })
    }

    pub(super) fn size(&self) -> Option<u64> {
        self.shared
            .complete
            .load(Ordering::Acquire)
            .then(|| self.ready_end())
    }

    pub(super) fn ready_end(&self) -> u64 {
        self.shared.end.load(Ordering::Acquire)
    }

    pub(super) fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), StoreError> {
        self.shared
            .used
            .fetch_max(offset.saturating_add(buf.len() as u64), Ordering::Relaxed);
        let ring = self.shared.lock();
        if ring.waiting && self.shared.ahead() < ring.ahead {
            self.shared.room.notify_one();
        }
        let outside = || StoreError::other(&self.shared.name, "read", "not in the pipe's buffer");
        let mut index = ring
            .segments
            .partition_point(|segment| segment.end() <= offset);
        let (mut offset, mut rest) = (offset, buf);
        while !rest.is_empty() {
            let segment = ring.segments.get(index).ok_or_else(outside)?;
            let skip = offset.checked_sub(segment.start).ok_or_else(outside)? as usize;
            let len = rest.len().min(segment.len - skip);
            let (head, tail) = rest.split_at_mut(len);
            head.copy_from_slice(&segment.buf[skip..skip + len]);
            (offset, rest, index) = (offset + len as u64, tail, index + 1);
        }
        Ok(())
    }

    pub(super) fn release_through(&self, offset: u64) {
        let mut ring = self.shared.lock();
        ring.released = ring.released.max(offset);
        if ring.recycle() {
            self.shared.room.notify_one();
        }
    }

    pub(super) fn poll_finished(&mut self) -> Option<Result<Finished, StoreError>> {
        self.slot.poll()
    }
}

impl Drop for PipeSource {
    fn drop(&mut self) {
        self.shared.lock().stopped = true;
        self.shared.room.notify_one();
    }
}

impl Ring {
    /// Frees segments that are wholly released; whether there were any.
    fn recycle(&mut self) -> bool {
        let before = self.segments.len();
        while self
            .segments
            .front()
            .is_some_and(|front| front.end() <= self.released)
        {
            let Some(front) = self.segments.pop_front() else {
                break;
            };
            self.spare.push(front.buf);
        }
        self.segments.len() < before
    }

    /// Appends what was read; gives back the buffer if it could be copied into the last segment.
    fn append(&mut self, start: u64, buf: Vec<u8>, len: usize) -> Option<Vec<u8>> {
        if let Some(last) = self.segments.back_mut()
            && len <= SMALL
            && last.buf.len() - last.len >= len
        {
            last.buf[last.len..last.len + len].copy_from_slice(&buf[..len]);
            last.len += len;
            return Some(buf);
        }
        self.segments.push_back(Segment { start, len, buf });
        None
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An empty buffer; waits for releases. `None`: stopped.
    fn buffer(&self, segment: usize) -> Option<Vec<u8>> {
        let mut ring = self.lock();
        loop {
            if ring.stopped {
                return None;
            }
            ring.recycle(); // releases that came before the data
            if self.ahead() < ring.ahead {
                if let Some(buf) = ring.spare.pop() {
                    return Some(buf);
                }
                if ring.segments.len() < ring.max_segments {
                    drop(ring);
                    return Some(vec![0; segment]);
                }
            }
            ring.waiting = true;
            ring = self.room.wait(ring).unwrap_or_else(PoisonError::into_inner);
            ring.waiting = false;
        }
    }

    /// Bytes that were read and not sent yet.
    fn ahead(&self) -> u64 {
        let end = self.end.load(Ordering::Acquire);
        end.saturating_sub(self.used.load(Ordering::Relaxed))
    }

    fn fill(
        &self,
        mut reader: Box<dyn Read + Send>,
        segment: usize,
        hash: bool,
        wake: &Wake,
        reporter: Reporter<Finished>,
    ) {
        let mut hasher = hash.then(blake3::Hasher::new);
        let mut at = 0;
        let mut in_hand = None;
        loop {
            let Some(mut buf) = in_hand.take().or_else(|| self.buffer(segment)) else {
                return reporter.nobody_waits();
            };
            let len = match reader.read(&mut buf) {
                Ok(0) => break,
                Ok(len) => len,
                Err(e) if e.kind() == ErrorKind::Interrupted => {
                    in_hand = Some(buf);
                    continue;
                }
                Err(e) => {
                    let error = StoreError::from_io(&self.name, "read", e);
                    return reporter.report(Err(error));
                }
            };
            if let Some(hasher) = &mut hasher {
                hasher.update(&buf[..len]);
            }
            let mut ring = self.lock();
            if ring.stopped {
                return reporter.nobody_waits();
            }
            in_hand = ring.append(at, buf, len);
            drop(ring);
            // An engine that has plenty left does not wait for us.
            let hungry = at.saturating_sub(self.used.load(Ordering::Relaxed)) <= PLENTY;
            at += len as u64;
            self.end.store(at, Ordering::Release);
            if hungry {
                wake();
            }
        }
        self.complete.store(true, Ordering::Release);
        let hash = hasher.map(|hasher| *hasher.finalize().as_bytes());
        reporter.report(Ok(Finished { size: at, hash }));
    }
}
