//! Where an object's bytes go.

mod away;
mod compare;
mod early;
mod file;
mod flusher;
mod group_hash;
mod ledger;
mod ordered;
mod queue;
mod range;
mod steps;

pub use away::wait_for_leftovers;
pub use range::{GroupValue, RangeFile};

use crate::batch::Batch;
use crate::durable::PartFile;
use crate::outcome::Slot;
use crate::target::{Started, Target};
use crate::{
    GROUP, Limits, RESUMABLE_MIN, RoomWait, Root, SourceIdentity, StoreError, Wake, space, worker,
};
use howdah_core::{ByteRange, RangeSet, Rate};
use ledger::Ledger;
use queue::{Inlet, Message};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

/// What to write.
#[non_exhaustive]
pub enum SinkSpec<'a> {
    /// A path from the network, below a root. No symbolic link is followed.
    File {
        /// The directory.
        root: &'a Root,
        /// The file's path below it. Its directory must exist.
        path: &'a Path,
    },
    /// A path that the user of this process names.
    LocalFile(&'a Path),
    /// Counted and thrown away. A hash cannot be checked.
    Null,
    /// A pipe: bytes leave in order. Hand in a `File`, not `std::io::Stdout`, which looks for
    /// line ends in everything.
    Writer(Box<dyn Write + Send>),
}

impl std::fmt::Debug for SinkSpec<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File { root, path } => f
                .debug_struct("File")
                .field("root", root)
                .field("path", path)
                .finish(),
            Self::LocalFile(path) => f.debug_tuple("LocalFile").field(path).finish(),
            Self::Null => f.write_str("Null"),
            Self::Writer(_) => f.write_str("Writer"),
        }
    }
}

/// What a finished sink holds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Outcome {
    /// Bytes of the object.
    pub size: u64,
    /// BLAKE3 of what was written, if hashing was asked for.
    pub hash: Option<[u8; 32]>,
    /// The device gave the same once more.
    pub reread: bool,
}

/// How a file is written. The default hashes and knows nothing of the source.
#[derive(Clone, Debug)]
pub struct SinkOptions {
    /// Hash what was written and compare.
    pub hash: bool,
    /// Bytes of the object. Makes a full disk an error before bytes are sent.
    pub size: Option<u64>,
    /// Which version of which file is copied: makes it a copy that can be gone on with.
    pub source: Option<SourceIdentity>,
    /// If the source has holes: which of its groups do not come because they are [nothing
    /// else](crate::Source::holes). They lie within `size`.
    pub holes: Option<RangeSet>,
    /// Permission bits of the source, if it has some: docs/trees.md, section 1.1.
    pub mode: Option<u32>,
    /// When everything is on the disk, read it back from there and compare once more.
    pub reread: bool,
    /// How a full disk is waited for. What could not even fit on an empty one is an error at once.
    pub room: RoomWait,
    /// Bounds of memory.
    pub limits: Limits,
}

impl Default for SinkOptions {
    fn default() -> Self {
        Self {
            hash: true,
            size: None,
            source: None,
            holes: None,
            mode: None,
            reread: false,
            room: RoomWait::default(),
            limits: Limits::default(),
        }
    }
}

/// How far the writer is behind.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Backlog {
    /// Memory of the batches that wait, in bytes of buffer capacity.
    pub queued_bytes: u64,
    /// Bound of `queued_bytes`.
    pub capacity_bytes: u64,
    /// Payload bytes written since the start.
    pub written_bytes: u64,
    /// Payload bytes that a sink in order has, and that wait for others which are not there yet.
    pub early_bytes: u64,
    /// Rate of writing over the last busy spell of about 100 ms; `None` until there was one.
    pub drain_rate: Option<Rate>,
}

/// An object that is being written. Nothing here waits for a disk or a pipe, except dropping an
/// unfinished file, which removes one name.
#[derive(Debug)]
pub struct Sink(Inner);

#[derive(Debug)]
enum Inner {
    Null(Null),
    Thread(Threaded),
}

/// Hands batches to a [`Sink`] beside it, from another thread. Nothing comes of them once the sink is gone.
#[derive(Debug)]
pub struct SinkSide(Inlet);

impl SinkSide {
    /// As [`Sink::submit`] does.
    pub fn submit(&mut self, batch: Batch) -> Result<(), Batch> {
        self.0.submit(batch)
    }

    /// As [`Sink::take_spare`] does.
    pub fn take_spare(&mut self) -> Option<Vec<u8>> {
        self.0.take_spare()
    }

    /// As [`Sink::backlog`] says it.
    pub fn backlog(&self) -> Backlog {
        self.0.backlog()
    }

    /// Another one, for one more thread.
    #[must_use]
    pub fn beside(&self) -> Self {
        Self(self.0.beside())
    }
}

/// Everything that has a thread: files and pipes.
#[derive(Debug)]
struct Threaded {
    inlet: Inlet,
    slot: Slot<Outcome>,
    /// Removed on drop if it was not published and is not kept.
    part: Option<Arc<PartFile>>,
    ordered: bool,
    held: RangeSet,
    ledger: Option<Arc<Ledger>>,
}

/// Buffers that a null sink keeps for the engine.
const NULL_SPARES: usize = 64;

#[derive(Debug, Default)]
struct Null {
    bytes: u64,
    spares: Vec<Vec<u8>>,
    outcome: Option<Result<Outcome, StoreError>>,
}

impl Sink {
    /// Creates the (temporary) file and starts the writer. `size_hint` makes a full disk an error
    /// before bytes are sent: at once if the free space is too small, through
    /// [`poll_outcome`](Self::poll_outcome) if reserving it fails.
    ///
    /// `wake` is called when [`poll_outcome`](Self::poll_outcome) has something, when a full queue
    /// has room again, and when [`window_end`](Self::window_end) has moved by a good piece.
    pub fn create(
        spec: SinkSpec<'_>,
        hash: bool,
        size_hint: Option<u64>,
        wake: Wake,
    ) -> Result<Self, StoreError> {
        Self::create_with(spec, hash, size_hint, wake, &Limits::default())
    }

    /// [`create`](Self::create) with other bounds.
    pub fn create_with(
        spec: SinkSpec<'_>,
        hash: bool,
        size_hint: Option<u64>,
        wake: Wake,
        limits: &Limits,
    ) -> Result<Self, StoreError> {
        let target = match spec {
            SinkSpec::File { root, path } => Target::open(root, path)?,
            SinkSpec::LocalFile(path) => Target::open_local(path)?,
            SinkSpec::Null => return Ok(Self(Inner::Null(Null::default()))),
            SinkSpec::Writer(writer) => return Self::ordered(writer, hash, wake, limits),
        };
        let options = SinkOptions {
            hash,
            size: size_hint,
            limits: *limits,
            ..SinkOptions::default()
        };
        Self::resume(target, &options, wake)
    }

    /// Goes on with what an earlier copy of the same source has left at the target, or begins anew:
    /// [`held`](Self::held) tells. [`create`](Self::create) tells the rest.
    pub fn resume(target: Target, options: &SinkOptions, wake: Wake) -> Result<Self, StoreError> {
        let source = options
            .source
            .filter(|source| options.hash && source.size >= RESUMABLE_MIN);
        let path = target.place.path().to_path_buf();
        let Started {
            part,
            past,
            found_again,
        } = target.start(source.as_ref())?;
        let part = Arc::new(part.with_mode(options.mode));
        if let Some(size) = options.size {
            let holes = options.holes.as_ref().map_or(0, RangeSet::byte_count);
            let stored = size.saturating_sub(holes);
            space::fits(part.file(), stored)
                .or_else(|_| {
                    // Perhaps what a killed process left is in the way.
                    part.remove_stale();
                    space::fits(part.file(), stored)
                })
                // The writer waits for it.
                .or_else(|e| {
                    let waits = options.room.is_patient() && space::could_fit(part.file(), stored);
                    if waits { Ok(()) } else { Err(e) }
                })
                .map_err(|e| {
                    let lacks = space::lacks(part.file(), stored);
                    StoreError::from_io(&path, "reserve space for", e)
                        .with_space(part.file(), Some(lacks))
                })?;
        }
        let mut held = RangeSet::new();
        let journalled = source.filter(|_| found_again).map(|source| {
            let (journal, nodes) = match past {
                Some((journal, ranges, nodes)) => {
                    held = ranges;
                    (Some(journal), nodes)
                }
                None => (None, Vec::new()),
            };
            file::Journalled {
                source,
                ledger: Arc::default(),
                journal,
                nodes,
                held_bytes: held.byte_count(),
            }
        });
        let ledger = journalled.as_ref().map(|j| Arc::clone(&j.ledger));
        let sparse = options.holes.as_ref().map(|holes| {
            let mut holes = holes.clone();
            for range in held.iter() {
                holes.remove(range);
            }
            file::Sparse {
                holes,
                // What was written and not claimed is still there.
                is_new: held.is_empty(),
            }
        });
        let (slot, reporter) = Slot::new(&path, Arc::clone(&wake));
        let (inlet, outlet) = queue::queue(options.limits.queue_bytes, queue::FILE_SPARES, wake);
        let work = file::FileWriter {
            part: Arc::clone(&part),
            hash: options.hash,
            reread: options.reread,
            size_hint: options.size,
            room: options.room.clone(),
            limits: options.limits,
            sparse,
            journalled,
        };
        worker::spawn("howdah-write", move || work.run(outlet, reporter))
            .map_err(|e| StoreError::no_thread(&path, e))?;
        Ok(Self(Inner::Thread(Threaded {
            inlet,
            slot,
            part: Some(part),
            ordered: false,
            held,
            ledger,
        })))
    }

    /// For a file that is there and must not be replaced: what comes is compared with it, and not stored. The same
    /// content is no change; other content is an error at the end, not before, as whoever may not read is not to be
    /// told which byte is wrong.
    pub fn compare(target: Target, options: &SinkOptions, wake: Wake) -> Result<Self, StoreError> {
        let path = target.place.path().to_path_buf();
        let work = compare::Comparer::new(target.place, options)?;
        let (slot, reporter) = Slot::new(&path, Arc::clone(&wake));
        let (inlet, outlet) = queue::queue(options.limits.queue_bytes, queue::FILE_SPARES, wake);
        worker::spawn("howdah-write", move || work.run(outlet, reporter))
            .map_err(|e| StoreError::no_thread(&path, e))?;
        Ok(Self(Inner::Thread(Threaded {
            inlet,
            slot,
            part: None,
            ordered: false,
            held: RangeSet::new(),
            ledger: None,
        })))
    }

    /// A range of a source, with the sender's values of its groups; the rest of the source is [held](Self::held).
    pub fn range(
        target: Arc<RangeFile>,
        options: &SinkOptions,
        wake: Wake,
    ) -> Result<Self, StoreError> {
        let held = target.held().ranges;
        let path = Path::new("a range");
        let (slot, reporter) = Slot::new(path, Arc::clone(&wake));
        let (inlet, outlet) = queue::queue(options.limits.queue_bytes, queue::FILE_SPARES, wake);
        let work = range::RangeWriter::new(target, &held, options);
        let ledger = Some(Arc::clone(&work.ledger));
        worker::spawn("howdah-write", move || work.run(outlet, reporter))
            .map_err(|e| StoreError::no_thread(path, e))?;
        Ok(Self(Inner::Thread(Threaded {
            inlet,
            slot,
            part: None,
            ordered: false,
            held,
            ledger,
        })))
    }

    fn ordered(
        writer: Box<dyn Write + Send>,
        hash: bool,
        wake: Wake,
        limits: &Limits,
    ) -> Result<Self, StoreError> {
        let name = Path::new("-");
        let (slot, reporter) = Slot::new(name, Arc::clone(&wake));
        let window = limits.first_window();
        let bound = limits.queue_bytes.max(queue_for(window));
        let (inlet, outlet) = queue::queue(bound, queue::STREAM_SPARES, wake);
        let work = ordered::OrderedWriter::new(writer, hash, window);
        worker::spawn("howdah-pipe", move || work.run(outlet, reporter))
            .map_err(|e| StoreError::no_thread(name, e))?;
        let threaded = Threaded {
            inlet,
            slot,
            part: None,
            ordered: true,
            held: RangeSet::new(),
            ledger: None,
        };
        threaded.inlet.set_window(window);
        Ok(Self(Inner::Thread(threaded)))
    }

    /// Hands in a batch; never waits. `Err`: the queue is full, a part lies beyond
    /// [`window_end`](Self::window_end) or outside of its buffer, or the sink has failed (see
    /// [`poll_outcome`](Self::poll_outcome)): treat the packets as not received.
    pub fn submit(&mut self, batch: Batch) -> Result<(), Batch> {
        match &mut self.0 {
            Inner::Null(null) => {
                null.bytes += batch.payload_bytes();
                if null.spares.len() < NULL_SPARES {
                    null.spares.push(batch.buf);
                }
                Ok(())
            }
            Inner::Thread(threaded) => {
                if threaded.ordered && batch.end() > threaded.inlet.window() {
                    return Err(batch);
                }
                threaded.inlet.submit(batch)
            }
        }
    }

    /// Takes batches from another thread as well; `None` for what is written in order.
    pub fn side(&self) -> Option<SinkSide> {
        match &self.0 {
            Inner::Thread(threaded) if !threaded.ordered => Some(SinkSide(threaded.inlet.beside())),
            _ => None,
        }
    }

    /// A buffer that was submitted and is free again, with its length unchanged.
    pub fn take_spare(&mut self) -> Option<Vec<u8>> {
        match &mut self.0 {
            Inner::Null(null) => null.spares.pop(),
            Inner::Thread(threaded) => threaded.inlet.take_spare(),
        }
    }

    /// How far the writer is behind.
    pub fn backlog(&self) -> Backlog {
        match &self.0 {
            Inner::Null(null) => Backlog {
                capacity_bytes: Limits::default().queue_bytes as u64,
                written_bytes: null.bytes,
                ..Backlog::default()
            },
            Inner::Thread(threaded) => threaded.inlet.backlog(),
        }
    }

    /// For a sink that writes in order: the end of what it accepts. `None`: anywhere.
    pub fn window_end(&self) -> Option<u64> {
        match &self.0 {
            Inner::Thread(threaded) if threaded.ordered => Some(threaded.inlet.window()),
            _ => None,
        }
    }

    /// For a sink that writes in order: accepts data up to `bytes` beyond what was written out, from some moment on.
    /// A window never gets shorter.
    pub fn lengthen_window(&self, bytes: u64) {
        if let Inner::Thread(threaded) = &self.0
            && threaded.ordered
        {
            threaded.inlet.want_window(bytes, queue_for(bytes));
        }
    }

    /// What is there already, verified and on the disk, by whole MiB. None of it may be submitted.
    pub fn held(&self) -> RangeSet {
        match &self.0 {
            Inner::Thread(threaded) => threaded.held.clone(),
            Inner::Null(_) => RangeSet::new(),
        }
    }

    /// Whether the sender's [values](crate::Source::take_values) are wanted: without them nothing can
    /// be kept for the next copy.
    pub fn wants_values(&self) -> bool {
        matches!(&self.0, Inner::Thread(threaded) if threaded.ledger.is_some())
    }

    /// The sender's values of its groups from `first` on. An error: so many that they make no
    /// sense.
    pub fn tell_values(&mut self, first: u64, values: &[[u8; 32]]) -> Result<(), StoreError> {
        let Inner::Thread(Threaded {
            ledger: Some(ledger),
            held,
            part,
            ..
        }) = &self.0
        else {
            return Ok(());
        };
        for (index, value) in (first..).zip(values) {
            let start = index.saturating_mul(GROUP);
            if held.contains(ByteRange::new(start, start.saturating_add(1))) {
                continue;
            }
            if ledger.tell(index, *value).is_err() {
                let path = part
                    .as_ref()
                    .map_or_else(|| Path::new(""), |part| part.path());
                return Err(StoreError::other(
                    path,
                    "verify",
                    "the sender tells more than it can have sent",
                ));
            }
        }
        Ok(())
    }

    /// Bytes that stay for the next copy to go on from if this one is dropped now.
    pub fn kept_bytes(&self) -> u64 {
        match &self.0 {
            Inner::Thread(threaded) => threaded.part.as_ref().map_or(0, |part| part.kept_bytes()),
            Inner::Null(_) => 0,
        }
    }

    /// All bytes have been submitted: verify, sync, publish. The result comes through
    /// [`poll_outcome`](Self::poll_outcome). Without a hash to compare with, or if the sink does
    /// not hash, only the length is verified; of a copy that went on, also every group.
    pub fn finish(&mut self, size: u64, hash: Option<[u8; 32]>) {
        match &mut self.0 {
            Inner::Null(null) => {
                null.outcome = Some(if null.bytes == size {
                    Ok(Outcome {
                        size,
                        hash: None,
                        reread: false,
                    })
                } else {
                    let path = Path::new("null:").to_path_buf();
                    Err(StoreError::WrongLength {
                        path,
                        expected: size,
                        written: null.bytes,
                    })
                });
            }
            Inner::Thread(threaded) => threaded.inlet.send(Message::Finish { size, hash }),
        }
    }

    /// An error at any time, or what was written once [`finish`](Self::finish) is through. Once.
    pub fn poll_outcome(&mut self) -> Option<Result<Outcome, StoreError>> {
        match &mut self.0 {
            Inner::Null(null) => null.outcome.take(),
            Inner::Thread(threaded) => {
                let outcome = threaded.slot.poll()?;
                // It is closed with the last that holds it.
                threaded.part.take_if(|part| !part.is_unfinished());
                Some(outcome)
            }
        }
    }
}

/// Everything that a window allows fits into the queue while the pipe does not move: buffers are full to three
/// quarters (see `Inlet::submit`), and say what is in them.
fn queue_for(window: u64) -> usize {
    usize::try_from(window.saturating_add(window / 2)).unwrap_or(usize::MAX)
}

impl Drop for Threaded {
    fn drop(&mut self) {
        self.inlet.abort();
        let Some(part) = self.part.take() else {
            return;
        };
        if !howdah_core::must_not_wait() {
            // Before the writer notices, so that nothing is left even if the process ends now.
            part.remove();
        } else if part.is_unfinished() {
            away::put(part);
        }
    }
}
