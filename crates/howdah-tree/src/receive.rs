//! The receiving side: decides, writes in parallel, makes durable, gives names.
//!
//! ```text
//! engine --manifest--> placer --answers--> engine      (which files are wanted)
//!                        |  expected
//!                        v
//! engine --packs-----> unpacker --> writers (several) --> committer
//! engine <------------ a `Sink` for each large file
//! ```

use super::bounds::{CHANGES_WAITING, PACKED_MAX, UNSETTLED, WAITING_FILES, WAITING_LARGE};
use super::buffers::Buffers;
use super::codec::{AnswerWriter, ManifestReader, expect_version, get_varint, refused};
use super::commit::Batch;
use super::disks::Disks;
use super::meta::Keeper;
use super::pipe::{PipeReader, PipeWriter, pipe};
use super::place::{Placer, check_past};
use super::placed::{PlacedFile, PlacedFiles};
use super::progress::TreeProgress;
use super::queue::{Budget, Queue, lock};
use super::report::{Trouble, add};
use super::send::{PACK_END, PACK_FILE, PACK_MISSING, PACK_NEWER};
use super::shared::{Busy, Shared, Unwritten};
use super::target::{Finished, TreeTarget, Wanted};
use super::turns::Turns;
use super::workers::{self, FirstError, Workers};
use super::write::{Writer, Written};
use howdah_core::RangeSet;
use howdah_session::entry::Stamp;
use howdah_session::naming::quoted;
use howdah_session::{Change, Filter, Gate, Memory, TreeOptions, TreeReport};
use howdah_store::Limits;
use howdah_store::same::same_bytes;
use howdah_store::{Sink, SourceIdentity, StoreError, Wake};
use std::io::Read as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

mod large;

pub use large::LargeOpening;

/// Threads that write small files.
const WRITERS: usize = 4;
/// What one small file costs besides its content while it is received and not written.
const FILE_OVERHEAD: u64 = 512;

/// The receiving side of a tree transfer.
#[derive(Debug)]
pub struct TreeReceiver {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// The ends of its streams.
#[derive(Debug)]
pub struct ReceiverEnds {
    /// What is at the sender.
    pub manifest: PipeWriter,
    /// Contents of small files.
    pub packs: PipeWriter,
    /// What is wanted, for the sender.
    pub answers: PipeReader,
}

/// A large file on its way in.
#[derive(Debug)]
pub struct LargeTarget {
    wanted: Wanted,
    /// Bytes that an interrupted copy had brought.
    held_bytes: u64,
}

impl LargeTarget {
    /// Its name below the destination.
    pub fn name(&self) -> String {
        self.wanted.path().to_string_lossy().into_owned()
    }
}

impl TreeReceiver {
    /// Starts the threads; nothing is written before the manifest begins. `several`: more than one thing
    /// is to come. `listens`: somebody takes [`take_changes`](Self::take_changes). `wake` is called when there is something to poll.
    pub fn start(
        target: TreeTarget,
        several: bool,
        options: &TreeOptions,
        listens: bool,
        wake: Wake,
    ) -> Result<(Self, ReceiverEnds), StoreError> {
        let filter = Filter::new(options)?;
        options.check_deletion()?;
        options.check_backup()?;
        check_past(options, &target)?;
        if target.add_only && (options.delete || options.backup_dir.is_some()) {
            return Err(StoreError::MayOnlyAdd { path: target.at });
        }
        // What a link leads to may lie anywhere.
        let target = if options.keep_dirlinks && target.root.is_of_user() {
            target.below_everything()?
        } else {
            target
        };
        let gate = Gate::new(target.asked);
        let memory = Memory::of(options);
        let shared = Arc::new(Shared {
            options: options.clone(),
            makes_whole: target.makes_whole,
            names_directory: target.names_directory,
            finished: Arc::new(Finished::below(&target.root)),
            root: target.root,
            at: target.at,
            add_only: target.add_only,
            blind: target.blind,
            // A dry run takes nothing.
            quota: if options.dry_run {
                target.quota.copied()
            } else {
                target.quota
            },
            room: target.room,
            top: Mutex::default(),
            sources: Mutex::default(),
            dirlinks: Mutex::default(),
            several,
            changes: Queue::new(CHANGES_WAITING),
            listens,
            keeper: Arc::new(Keeper::new(options, target.metadata)?),
            disks: Disks::default(),
            book: Arc::default(),
            finishing: Mutex::default(),
            expected: Queue::new(WAITING_FILES),
            large: Mutex::default(),
            large_waiting: Budget::new(WAITING_LARGE),
            unsettled: Budget::new(UNSETTLED),
            names: Budget::new(memory.names_bytes()),
            large_limits: Limits {
                queue_bytes: memory.large_bytes() as usize,
                ..Limits::default()
            },
            busy: Busy::default(),
            turns: Turns::new(),
            writes: Queue::new(1024),
            writing: Budget::new(memory.files_bytes()),
            buffers: Buffers::new(memory.files_bytes()),
            batch: Batch::new(),
            error: FirstError::default(),
            placed: PlacedFiles::new(options, listens, Arc::clone(&wake)),
            done: AtomicBool::new(false),
            lacks: AtomicBool::new(false),
            wake,
        });
        let (manifest, manifest_spout) = pipe();
        let (packs, packs_spout) = pipe();
        let (answers_tap, answers) = pipe();
        if !listens {
            shared.changes.close();
        }
        let mut receiver = Self {
            shared,
            threads: Vec::new(),
        };
        receiver.spawn("howdah-place", move |shared| {
            let answers = AnswerWriter::new(answers_tap).map_err(|_| StoreError::Aborted)?;
            let manifest = ManifestReader::new(manifest_spout);
            let mut placer = Placer::new(shared, manifest, answers, filter, gate);
            let placed = placer.run();
            if let Err(error) = &placed {
                // Before its streams end, which others would take for the reason.
                shared.fail(error.clone());
            }
            drop(placer);
            shared.finish(placed?)
        })?;
        receiver.spawn("howdah-unpack", move |shared| {
            let result = shared.unpack(packs_spout);
            shared.writes.close();
            result
        })?;
        for _ in 0..WRITERS {
            receiver.spawn("howdah-write", |shared| {
                shared.write();
                Ok(())
            })?;
        }
        receiver.spawn("howdah-commit", |shared| {
            shared
                .committer(&shared.root.path().join(&shared.at))
                .run(&shared.batch)
        })?;
        let ends = ReceiverEnds {
            manifest,
            packs,
            answers,
        };
        Ok((receiver, ends))
    }

    fn spawn(
        &mut self,
        name: &str,
        work: impl FnOnce(&Arc<Shared>) -> Result<(), StoreError> + Send + 'static,
    ) -> Result<(), StoreError> {
        self.threads.push(workers::start(&self.shared, name, work)?);
        Ok(())
    }

    /// The sender sends a large file, that version of it, without its [holes](howdah_store::SinkOptions::holes): where it goes, and [what is there
    /// already](Sink::held). `Ok(None)`: it cannot be taken, which has been noted
    /// and does not end the transfer. `Err`: nobody asked for it.
    pub fn open_large(
        &mut self,
        index: u64,
        size: u64,
        source: Option<SourceIdentity>,
        holes: Option<RangeSet>,
    ) -> Result<Option<(LargeTarget, Sink)>, StoreError> {
        self.admit_large(index, size, source, holes)?.open()
    }

    /// The same without waiting for a disk: that is left to whoever [opens](LargeOpening::open) it.
    pub fn admit_large(
        &mut self,
        index: u64,
        size: u64,
        source: Option<SourceIdentity>,
        holes: Option<RangeSet>,
    ) -> Result<LargeOpening, StoreError> {
        let shared = &self.shared;
        let Some(mut wanted) = lock(&shared.large).remove(&index) else {
            return Err(refused(format!("file {index} comes and was not asked for")));
        };
        shared.large_waiting.release(1);
        shared.names.release(wanted.weight());
        if shared.options.growing && size > wanted.size {
            // What stood there when reading began. It was let in with less.
            shared.admit_growth(&wanted, size)?;
            wanted.size = size;
        }
        if wanted.size != size {
            shared.unsettled.release(1);
            let path = quoted(&wanted.path());
            return Err(refused(format!(
                "{path} had {} bytes in the manifest and comes with {size}",
                wanted.size
            )));
        }
        let source = source.filter(|source| source.size == size);
        if let Some(mtime) = source.as_ref().and_then(|s| shared.options.time_of(s)) {
            wanted.meta.mtime = mtime;
        }
        Ok(LargeOpening {
            shared: Arc::clone(shared),
            wanted,
            source,
            holes,
        })
    }

    /// A large file with that hash has its name.
    pub fn large_done(&mut self, target: LargeTarget, hash: Option<[u8; 32]>) {
        let (book, wanted) = (&self.shared.book, target.wanted);
        add(&book.files, 1);
        add(&book.bytes, wanted.size);
        add(&book.come_bytes, wanted.size);
        add(&book.resumed_bytes, target.held_bytes);
        self.shared.placed.put_durable(&wanted, wanted.size, hash);
        drop(wanted);
        self.shared.unsettled.release(1);
    }

    /// A large file could not be taken, `text` says why; the others go on.
    pub fn large_failed(&mut self, target: LargeTarget, text: &str) {
        target.wanted.stays_away();
        drop(target);
        self.shared.book.note(Trouble::Failed, || text.to_owned());
        self.shared.unsettled.release(1);
    }

    /// The sender cannot send it, and says so itself.
    pub fn large_missing(&mut self, target: LargeTarget) {
        target.wanted.stays_away();
        drop(target);
        self.shared.note_lack();
        self.shared.unsettled.release(1);
    }

    /// Once everything is in place and durable, or an error that ends the transfer.
    pub fn poll_outcome(&mut self) -> Option<Result<TreeReport, StoreError>> {
        self.shared.turns.note();
        if let Some(error) = self.shared.error.get() {
            return Some(Err(error));
        }
        let done = self.shared.done.load(Ordering::Acquire);
        done.then(|| Ok(self.report()))
    }

    /// What has been done so far, or would be.
    pub fn report(&self) -> TreeReport {
        let shared = &self.shared;
        let mut report = shared.book.report(shared.options.dry_run);
        report.renamed = Some(shared.placed.is_renamed());
        report.blake3 = shared.placed.blake3();
        if let Some((names, text)) = shared.keeper.withheld() {
            report.not_kept = report.not_kept.saturating_add(names);
            report.notes.push(text);
        }
        report
    }

    /// What a dry run would do, if somebody listens here.
    pub fn take_changes(&mut self) -> Vec<Change> {
        std::iter::from_fn(|| self.shared.changes.try_pop()).collect()
    }

    /// Files that are in place, if that is [asked for](TreeOptions::tells_files).
    pub fn take_placed(&mut self) -> Vec<PlacedFile> {
        self.shared.placed.take()
    }

    /// In a move: numbers of what is in place besides.
    pub fn take_settled(&mut self) -> Vec<u64> {
        self.shared.placed.take_settled()
    }

    /// Whether the sender has said that something does not come. Its report says what.
    pub fn lacks(&self) -> bool {
        self.shared.lacks.load(Ordering::Acquire)
    }

    /// Whether sources go.
    pub fn moves(&self) -> bool {
        self.shared.options.remove_source
    }

    /// How far it is.
    pub fn progress(&self) -> TreeProgress {
        TreeProgress::of(&self.shared.book)
    }

    /// Stops. Files that came whole still get their names; wait for the threads if the process is to end.
    pub fn stop(mut self) -> Vec<JoinHandle<()>> {
        std::mem::take(&mut self.threads)
    }
}

impl Drop for TreeReceiver {
    fn drop(&mut self) {
        self.shared.stop();
    }
}

impl Shared {
    fn unpack(&self, mut spout: PipeReader) -> Result<(), StoreError> {
        expect_version(&mut spout)?;
        loop {
            let kind = spout.byte().map_err(|_| StoreError::Aborted)?;
            match kind {
                PACK_END => break,
                PACK_MISSING if get_varint(&mut spout)? == 0 => {
                    self.note_lack();
                    let wanted = self.next_expected()?;
                    wanted.stays_away();
                    drop(wanted);
                    self.unsettled.release(1);
                }
                PACK_MISSING => {
                    self.note_lack();
                    let index = get_varint(&mut spout)?;
                    let wanted = lock(&self.large).remove(&index);
                    if let Some(wanted) = wanted {
                        self.names.release(wanted.weight());
                        wanted.stays_away();
                        drop(wanted);
                        self.large_waiting.release(1);
                        self.unsettled.release(1);
                    }
                }
                PACK_FILE | PACK_NEWER => self.unpack_file(&mut spout, kind == PACK_NEWER)?,
                kind => return Err(refused(format!("a pack with a record of kind {kind}"))),
            }
        }
        // All files have been asked for by now, or soon will be.
        if self.expected.pop().is_some() {
            return Err(refused("the packs end before all files have come"));
        }
        // Only the disk is still to be waited for.
        self.batch.hurry();
        Ok(())
    }

    /// It comes with more bytes than it was let in with.
    fn admit_growth(&self, wanted: &Wanted, size: u64) -> Result<(), StoreError> {
        let more = size.saturating_sub(wanted.size);
        if more == 0 || !self.quota.is_bounded() {
            return Ok(());
        }
        self.quota.take_bytes(&wanted.path(), more)
    }

    fn next_expected(&self) -> Result<Wanted, StoreError> {
        let next = self.expected.pop().ok_or_else(|| {
            if self.error.is_some() {
                StoreError::Aborted
            } else {
                refused("more files come than were asked for")
            }
        })?;
        self.names.release(next.weight());
        Ok(next)
    }

    fn unpack_file(&self, spout: &mut PipeReader, newer: bool) -> Result<(), StoreError> {
        let mut mtime = None;
        if newer {
            let aborted = |_| StoreError::Aborted;
            let (mut secs, mut nanos) = ([0; 8], [0; 4]);
            spout.read_exact(&mut secs).map_err(aborted)?;
            spout.read_exact(&mut nanos).map_err(aborted)?;
            let (secs, nanos) = (i64::from_be_bytes(secs), u32::from_be_bytes(nanos));
            if nanos >= 1_000_000_000 {
                return Err(refused("a time that cannot be"));
            }
            mtime = Some(Stamp { secs, nanos });
        }
        let len = get_varint(spout)?;
        if len > PACKED_MAX {
            return Err(refused(format!("a pack with a file of {len} bytes")));
        }
        let mut hash = [0; 32];
        let read = spout.read_exact(&mut hash);
        read.map_err(|_| StoreError::Aborted)?;
        let mut wanted = self.next_expected()?;
        if let Some(mtime) = mtime {
            wanted.meta.mtime = mtime;
        }
        self.admit_growth(&wanted, len)?;
        // It has changed since it was told, perhaps to what was not asked for.
        let is_asked_for =
            (len == wanted.size && !newer) || self.options.admits(len, wanted.meta.mtime.secs);
        let charge = len + FILE_OVERHEAD + wanted.weight();
        if !self.writing.acquire(charge) {
            return Err(StoreError::Aborted);
        }
        let mut bytes = self.buffers.take(len as usize);
        let read = spout.take(len).read_to_end(&mut bytes);
        if read.is_err() || bytes.len() as u64 != len {
            return Err(StoreError::Aborted);
        }
        if !is_asked_for {
            self.buffers.put(bytes);
            self.writing.release(charge);
            let what = "is now of a size or an age that was not asked for";
            self.book.trouble(Trouble::Failed, &wanted.path(), what);
            wanted.stays_away();
            self.unsettled.release(1);
            return Ok(());
        }
        add(&self.book.come_bytes, len);
        let unwritten = Unwritten {
            wanted,
            bytes,
            hash,
            charge,
        };
        self.writes.push(unwritten).map_err(|_| StoreError::Aborted)
    }

    fn write(&self) {
        let mut writer = Writer::new(&self.root, &self.keeper, &self.book);
        loop {
            let Some(next) = self.writes.pop() else {
                return;
            };
            if !self.turns.go_on() {
                return;
            }
            let path = next.wanted.path();
            if self.add_only && next.wanted.before.is_some() {
                let is_same = self.settle_same(&next, &path);
                self.buffers.put(next.bytes);
                self.writing.release(next.charge);
                if !is_same || !self.options.remove_source {
                    self.unsettled.release(1);
                    continue;
                }
                // Its source goes when it is sure to stay: that may be told with no file that was written.
                let Wanted { dir, index, .. } = &next.wanted;
                match self.settle_come(dir, *index) {
                    Ok(()) => continue,
                    Err(StoreError::Aborted) => return,
                    Err(error) => return self.fail(error),
                }
            }
            let filled = if *blake3::hash(&next.bytes).as_bytes() == next.hash {
                self.until_room(|| writer.fill(&next.wanted, &next.bytes))
            } else {
                Err(StoreError::HashMismatch { path: path.clone() })
            };
            let filled = filled.inspect_err(|_| next.wanted.stays_away());
            let written = filled.map(|(temp, file)| Written {
                wanted: next.wanted,
                temp,
                file,
                bytes: next.bytes.len() as u64,
                hash: next.hash,
            });
            self.buffers.put(next.bytes);
            self.writing.release(next.charge);
            match written {
                Ok(written) => {
                    if let Err(written) = self.batch.push(written) {
                        self.committer(&path).discard(&written, None);
                    }
                }
                Err(error @ (StoreError::NoSpace { .. } | StoreError::HashMismatch { .. })) => {
                    return self.fail(error);
                }
                Err(StoreError::Aborted) => return,
                Err(error) => {
                    self.book.unwritten(&error);
                    self.unsettled.release(1);
                }
            }
        }
    }

    /// A file that is there and must not be replaced: the same content is no change. Whether it has that.
    fn settle_same(&self, next: &Unwritten, path: &Path) -> bool {
        let wanted = &next.wanted;
        let settled = self.root.open_dir(&wanted.dir.path).and_then(|dir| {
            let same = same_bytes(&dir, &wanted.name, &next.bytes);
            let Some(file) = same.filter(|_| *blake3::hash(&next.bytes).as_bytes() == next.hash)
            else {
                let path = path.to_path_buf();
                return Err(StoreError::MayOnlyAdd { path });
            };
            // Whoever wrote it may not have come to that.
            let synced = file.sync_all();
            synced.map_err(|e| StoreError::from_io(path, "sync", e))
        });
        match &settled {
            Ok(()) => {
                add(&self.book.files, 1);
                add(&self.book.bytes, next.bytes.len() as u64);
                self.placed.put(wanted, wanted.size, Some(next.hash));
            }
            Err(error) => self.book.note(Trouble::Failed, || error.to_string()),
        }
        settled.is_ok()
    }
}
