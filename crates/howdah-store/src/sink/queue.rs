//! The bounded way from the engine to a writer thread, and of empty buffers back.

use super::Backlog;
use crate::Wake;
use crate::batch::Batch;
use howdah_core::{Rate, Span};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TryRecvError};
use std::sync::mpsc::{channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Buffers that may wait to be taken back: 32 MiB of 64 KiB buffers. Of a stream, which keeps what it holds in others, some.
pub(super) const FILE_SPARES: usize = 512;
pub(super) const STREAM_SPARES: usize = 32;
/// After a batch the writer sleeps this long before it looks again, if little had come: so that
/// the engine needs no system call to hand in the next ones.
const NAP: Duration = Duration::from_micros(400);
/// Writing time over which the drain rate is measured.
const SPELL: Duration = Duration::from_millis(50);
/// The same of the first time: a fast sender fills the queue within some milliseconds.
const FIRST_SPELL: Duration = Duration::from_millis(5);

/// What the engine says to a writer.
#[derive(Debug)]
pub(super) enum Message {
    Batch(Batch),
    Finish { size: u64, hash: Option<[u8; 32]> },
}

#[derive(Debug)]
struct Shared {
    bound: AtomicUsize,
    queued: AtomicUsize,
    written: AtomicU64,
    /// Taken, and waiting for what comes before it.
    early: AtomicU64,
    drain_rate: AtomicU64,
    window: AtomicU64,
    /// How long the window is to be.
    wanted_window: AtomicU64,
    /// A batch was refused: wake the engine when there is room.
    refused: AtomicBool,
    aborted: AtomicBool,
}

/// The engine's end.
#[derive(Debug)]
pub(super) struct Inlet {
    sender: Sender<Message>,
    /// Shared with the inlets [beside](Self::beside) it.
    spares: Arc<Mutex<Receiver<Vec<u8>>>>,
    /// Buffers that came free on this side.
    own_spares: Vec<Vec<u8>>,
    max_spares: usize,
    shared: Arc<Shared>,
}

/// The writer's end.
pub(super) struct Outlet {
    receiver: Receiver<Message>,
    spares: SyncSender<Vec<u8>>,
    shared: Arc<Shared>,
    wake: Wake,
    held_back: VecDeque<Message>,
    spell: Spell,
}

/// Time spent writing, and what was written in it.
#[derive(Default)]
struct Spell {
    busy: Duration,
    bytes: u64,
}

/// Keeps so many `spares`.
pub(super) fn queue(bound: usize, max_spares: usize, wake: Wake) -> (Inlet, Outlet) {
    // Bounded by `queued`, which counts memory, not messages.
    let (sender, receiver) = channel();
    let (spare_sender, spare_receiver) = sync_channel(max_spares);
    let shared = Arc::new(Shared {
        bound: AtomicUsize::new(bound),
        queued: AtomicUsize::new(0),
        written: AtomicU64::new(0),
        early: AtomicU64::new(0),
        drain_rate: AtomicU64::new(0),
        window: AtomicU64::new(0),
        wanted_window: AtomicU64::new(0),
        refused: AtomicBool::new(false),
        aborted: AtomicBool::new(false),
    });
    let inlet = Inlet {
        sender,
        spares: Arc::new(Mutex::new(spare_receiver)),
        own_spares: Vec::new(),
        max_spares,
        shared: Arc::clone(&shared),
    };
    let outlet = Outlet {
        receiver,
        spares: spare_sender,
        shared,
        wake,
        held_back: VecDeque::new(),
        spell: Spell::default(),
    };
    (inlet, outlet)
}

impl Inlet {
    /// Another way into the same queue, for another thread.
    pub(super) fn beside(&self) -> Self {
        Self {
            sender: self.sender.clone(),
            spares: Arc::clone(&self.spares),
            own_spares: Vec::new(),
            max_spares: self.max_spares,
            shared: Arc::clone(&self.shared),
        }
    }

    pub(super) fn submit(&mut self, batch: Batch) -> Result<(), Batch> {
        if !batch.is_sound() {
            return Err(batch);
        }
        let hollow = batch.payload_bytes() < batch.buf.capacity() as u64 / 4 * 3;
        let charge = if hollow {
            batch.charge() - batch.buf.capacity() + batch.payload_bytes() as usize
        } else {
            batch.charge()
        };
        if self.is_full(charge) {
            self.shared.refused.store(true, Ordering::SeqCst);
            // Looked at again, in case the writer drained everything in between.
            if self.is_full(charge) {
                return Err(batch);
            }
        }
        let batch = if hollow {
            let (batch, buf) = batch.compacted();
            if self.own_spares.len() < self.max_spares {
                self.own_spares.push(buf);
            }
            batch
        } else {
            batch
        };
        self.shared
            .queued
            .fetch_add(batch.charge(), Ordering::SeqCst);
        self.sender
            .send(Message::Batch(batch))
            .map_err(|e| match e.0 {
                Message::Batch(batch) => batch,
                Message::Finish { .. } => Batch::default(),
            })
    }

    /// One batch is always accepted, however large.
    fn is_full(&self, charge: usize) -> bool {
        let queued = self.shared.queued.load(Ordering::SeqCst);
        queued > 0 && queued + charge > self.shared.bound.load(Ordering::SeqCst)
    }

    /// Sends even if the queue is full; a writer that has failed has already said so.
    pub(super) fn send(&self, message: Message) {
        let _ = self.sender.send(message);
    }

    pub(super) fn take_spare(&mut self) -> Option<Vec<u8>> {
        self.own_spares
            .pop()
            .or_else(|| self.spares.try_lock().ok()?.try_recv().ok())
    }

    pub(super) fn backlog(&self) -> Backlog {
        let rate = self.shared.drain_rate.load(Ordering::Relaxed);
        Backlog {
            queued_bytes: self.shared.queued.load(Ordering::Relaxed) as u64,
            capacity_bytes: self.shared.bound.load(Ordering::Relaxed) as u64,
            written_bytes: self.shared.written.load(Ordering::Relaxed),
            early_bytes: self.shared.early.load(Ordering::Relaxed),
            drain_rate: (rate > 0).then(|| Rate::from_bits_per_sec(rate)),
        }
    }

    pub(super) fn window(&self) -> u64 {
        self.shared.window.load(Ordering::Acquire)
    }

    pub(super) fn set_window(&self, end: u64) {
        self.shared.window.fetch_max(end, Ordering::Release);
    }

    /// Lets the writer lengthen its window to that many bytes, for which the queue has `bound`.
    pub(super) fn want_window(&self, bytes: u64, bound: usize) {
        self.shared.bound.fetch_max(bound, Ordering::SeqCst);
        self.shared
            .wanted_window
            .fetch_max(bytes, Ordering::Release);
    }

    pub(super) fn abort(&self) {
        self.shared.aborted.store(true, Ordering::SeqCst);
        // A writer that waits would not notice while there are inlets beside this one.
        let _ = self.sender.send(Message::Batch(Batch::default()));
    }
}

impl Outlet {
    /// Waits for something to do, then takes what is there up to about `max_bytes` of payload.
    /// `None`: aborted. A `Finish` comes alone.
    pub(super) fn gather(&mut self, max_bytes: u64, into: &mut Vec<Batch>) -> Option<Gathered> {
        let mut bytes = 0;
        let mut napped = false;
        loop {
            if self.shared.aborted.load(Ordering::SeqCst) {
                return None;
            }
            let message = match self.held_back.pop_front() {
                Some(message) => message,
                None => match self.receiver.try_recv() {
                    Ok(message) => message,
                    Err(TryRecvError::Disconnected) => return None,
                    Err(TryRecvError::Empty) if into.is_empty() => self.receiver.recv().ok()?,
                    Err(TryRecvError::Empty) if napped => return Some(Gathered::Batches),
                    Err(TryRecvError::Empty) => {
                        // Not `recv_timeout`: a receiver that waits makes each send a system call.
                        std::thread::sleep(NAP);
                        napped = true;
                        continue;
                    }
                },
            };
            match message {
                Message::Batch(batch) => {
                    bytes += batch.payload_bytes();
                    into.push(batch);
                    if bytes >= max_bytes {
                        return Some(Gathered::Batches);
                    }
                }
                Message::Finish { size, hash } if into.is_empty() => {
                    return Some(Gathered::Finish { size, hash });
                }
                finish @ Message::Finish { .. } => {
                    self.held_back.push_back(finish);
                    return Some(Gathered::Batches);
                }
            }
        }
    }

    /// The batches have been written or copied: their buffers go back.
    pub(super) fn recycle(&mut self, batches: &mut Vec<Batch>) {
        let mut freed = 0;
        for batch in batches.drain(..) {
            freed += batch.charge();
            self.spare(batch.buf);
        }
        self.free(freed);
    }

    /// A buffer goes back.
    pub(super) fn spare(&mut self, buf: Vec<u8>) {
        let _ = self.spares.try_send(buf);
    }

    /// What was charged so much for is no longer in the queue.
    pub(super) fn free(&mut self, freed: usize) {
        let queued = self.shared.queued.fetch_sub(freed, Ordering::SeqCst) - freed;
        if queued <= self.shared.bound.load(Ordering::Relaxed) / 2
            && self.shared.refused.swap(false, Ordering::SeqCst)
        {
            (self.wake)();
        }
    }

    /// Accounts for `bytes` written since `since`.
    pub(super) fn note_written(&mut self, bytes: u64, since: Instant) {
        self.shared.written.fetch_add(bytes, Ordering::Relaxed);
        self.spell.bytes += bytes;
        self.spell.busy += since.elapsed();
        let known = self.shared.drain_rate.load(Ordering::Relaxed) > 0;
        if self.spell.busy >= if known { SPELL } else { FIRST_SPELL } {
            let Spell { busy, bytes } = std::mem::take(&mut self.spell);
            let rate = Rate::from_bytes_over(bytes, Span::from(busy)).bits_per_sec();
            self.shared.drain_rate.store(rate.max(1), Ordering::Relaxed);
        }
    }

    /// So many bytes wait for those before them.
    pub(super) fn note_early(&self, bytes: u64) {
        self.shared.early.store(bytes, Ordering::Relaxed);
    }

    pub(super) fn written(&self) -> u64 {
        self.shared.written.load(Ordering::Relaxed)
    }

    pub(super) fn is_aborted(&self) -> bool {
        self.shared.aborted.load(Ordering::SeqCst)
    }

    /// How long the window is to be, at least.
    pub(super) fn wanted_window(&self) -> u64 {
        self.shared.wanted_window.load(Ordering::Acquire)
    }

    /// [`is_aborted`](Self::is_aborted) for another thread.
    pub(super) fn abort_flag(&self) -> AbortFlag {
        AbortFlag(Arc::clone(&self.shared))
    }

    pub(super) fn set_window(&self, end: u64) {
        self.shared.window.fetch_max(end, Ordering::Release);
        (self.wake)();
    }
}

/// Whether the engine has dropped its end.
#[derive(Debug)]
pub(super) struct AbortFlag(Arc<Shared>);

impl AbortFlag {
    pub(super) fn is_set(&self) -> bool {
        self.0.aborted.load(Ordering::SeqCst)
    }
}

/// What [`Outlet::gather`] found.
pub(super) enum Gathered {
    Batches,
    Finish { size: u64, hash: Option<[u8; 32]> },
}
