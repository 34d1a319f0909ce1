//! The sending side: a walker, readers of small files, a packer, and large files for the engine.
//!
//! ```text
//! walker --manifest--> engine            (what is there)
//!    |  offered
//!    v
//! answers <-- engine                     (which files are wanted)
//!    |  jobs                 \  large files: a `Source` each
//!    v                        v
//! readers (several) --> packer --packs--> engine
//! ```
//!
//! Every arrow is a bounded queue, so a slow receiver stops the walker, and memory does not depend on
//! the number of files.

use super::bounds::{CHANGES_WAITING, LARGE_OPEN, PACK_CHUNK, PACKED_MAX, WAITING_FILES};
use super::buffers::Buffers;
use super::codec::{ManifestWriter, expect_version, put_varint, put_version, read_answer, refused};
use super::moved::{Leaving, MovedLinks, would_remove};
use super::pipe::{PipeReader, PipeWriter, pipe};
use super::placed::PlacedFile;
use super::progress::TreeProgress;
use super::queue::{Budget, Queue, lock};
use super::report::{Book, Trouble, add};
use super::sent::{Leaver, Sent, SentFiles};
use super::small::{Content, read_small};
use super::sum::FilesSum;
use super::tree_source::TreeSource;
use super::walk::{Offered, Walker};
use super::workers::{self, FirstError, Workers};
use howdah_session::Answer;
use howdah_session::{Change, Filter, Memory, TreeOptions, TreeReport};
use howdah_store::SourceSpec;
use howdah_store::{Source, StoreError, Wake};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// Threads that read small files.
const READERS: usize = 4;
/// Threads that remove what has moved.
const REMOVERS: usize = 2;
/// What one file costs besides its content while it is read and not yet packed.
const FILE_OVERHEAD: u64 = 1024;

/// Kinds of records in a pack.
pub(crate) const PACK_END: u8 = 0;
pub(crate) const PACK_FILE: u8 = 1;
/// With the time that it had when it was read, which is not what the manifest says.
pub(crate) const PACK_NEWER: u8 = 2;
pub(crate) const PACK_MISSING: u8 = 3;
/// In comparisons: the BLAKE3 of the next range of a file.
pub(crate) const PACK_RANGE: u8 = 4;

/// A large file, to be sent as an object of its own.
#[derive(Debug)]
pub struct LargeFile {
    /// Its place among all files of the manifest.
    pub index: u64,
    /// Bytes in it.
    pub size: u64,
    source: Option<Source>,
    shown: PathBuf,
    /// In the copy.
    below: PathBuf,
    /// If it is to go.
    leaver: Option<Leaver>,
}

impl LargeFile {
    /// Its bytes, being read ahead. Once.
    pub fn take_source(&mut self) -> Option<Source> {
        self.source.take()
    }

    /// Its name here.
    pub fn name(&self) -> String {
        self.shown.to_string_lossy().into_owned()
    }
}

/// The sending side of a tree transfer.
#[derive(Debug)]
pub struct TreeSender {
    pub(super) shared: Arc<Shared>,
    large: Receiver<LargeFile>,
    threads: Vec<JoinHandle<()>>,
    /// In a move: the receiver has everything.
    pub(super) all_placed: bool,
    /// And whatever may go has been let go.
    pub(super) is_released: bool,
}

/// The ends of its streams.
#[derive(Debug)]
pub struct SenderEnds {
    /// What is there, for the receiver.
    pub manifest: PipeReader,
    /// Contents of small files, for the receiver.
    pub packs: PipeReader,
    /// What the receiver wants.
    pub answers: PipeWriter,
}

pub(super) struct Shared {
    options: TreeOptions,
    pub(super) book: Book,
    /// Of all files that are sent, if somebody wants that.
    sum: Option<FilesSum>,
    offered: Queue<Offered>,
    jobs: Queue<Job>,
    order: Queue<Receiver<Packed>>,
    /// Bytes of small files between reading and packing.
    reading: Budget,
    buffers: Buffers,
    /// Large files that are open.
    large: Budget,
    answered: AtomicBool,
    error: FirstError,
    /// Empty unless somebody wants to hear of each file, or it is to go.
    pub(super) sent: Mutex<SentFiles>,
    pub(super) leaving: Leaving,
    changes: Queue<Change>,
    wake: Wake,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Job {
    file: Offered,
    index: u64,
    charge: u64,
    done: SyncSender<Packed>,
}

/// What a reader made of a file.
#[derive(Debug)]
struct Packed {
    charge: u64,
    content: Option<Content>,
}

impl TreeSender {
    /// Starts to walk. `wake` is called when [`take_large`](Self::take_large) or
    /// [`poll_error`](Self::poll_error) may have something.
    pub fn start(
        source: TreeSource,
        options: &TreeOptions,
        wake: Wake,
    ) -> Result<(Self, SenderEnds), StoreError> {
        let filter = Filter::new(options)?;
        options.check_deletion()?;
        let shared = Arc::new(Shared {
            options: options.clone(),
            book: Book::default(),
            sum: (options.sums && !options.dry_run).then(FilesSum::new),
            offered: Queue::new(WAITING_FILES),
            jobs: Queue::new(4 * READERS),
            order: Queue::new(4096),
            reading: Budget::new(Memory::of(options).files_bytes()),
            buffers: Buffers::new(Memory::of(options).files_bytes()),
            large: Budget::new(LARGE_OPEN),
            answered: AtomicBool::new(false),
            error: FirstError::default(),
            sent: Mutex::default(),
            leaving: Leaving::new(),
            changes: Queue::new(CHANGES_WAITING),
            wake,
        });
        let (manifest_tap, manifest) = pipe();
        let (packs_tap, packs) = pipe();
        let (answers, answers_spout) = pipe();
        let (large_sender, large) = sync_channel(LARGE_OPEN as usize);
        let mut sender = Self {
            shared,
            large,
            threads: Vec::new(),
            all_placed: false,
            is_released: false,
        };
        sender.spawn("howdah-walk", move |shared| {
            let manifest = ManifestWriter::new(manifest_tap).map_err(|_| StoreError::Aborted)?;
            let walker = Walker::new(
                &shared.options,
                manifest,
                &shared.offered,
                &shared.book,
                &filter,
            );
            let walker = walker.showing(source.shows).telling(&shared.sent);
            let walker = walker.moving(shared.moved_links());
            let result = walker.run(&source.tops, &source.missing);
            shared.offered.close();
            result.map_err(|_| StoreError::Aborted)
        })?;
        sender.spawn("howdah-answer", move |shared| {
            let result = shared.take_answers(answers_spout, &large_sender);
            shared.answered.store(true, Ordering::Release);
            shared.jobs.close();
            shared.order.close();
            (shared.wake)();
            result
        })?;
        for _ in 0..READERS {
            sender.spawn("howdah-read", |shared| {
                shared.read();
                Ok(())
            })?;
        }
        if sender.shared.moves() {
            for _ in 0..REMOVERS {
                sender.spawn("howdah-remove", |shared| {
                    let growing = shared.options.growing;
                    shared.leaving.work(growing, &shared.book, &shared.wake);
                    Ok(())
                })?;
            }
        }
        sender.spawn("howdah-pack", move |shared| {
            shared.pack(packs_tap).map_err(|_| StoreError::Aborted)
        })?;
        let ends = SenderEnds {
            manifest,
            packs,
            answers,
        };
        Ok((sender, ends))
    }

    fn spawn(
        &mut self,
        name: &str,
        work: impl FnOnce(&Shared) -> Result<(), StoreError> + Send + 'static,
    ) -> Result<(), StoreError> {
        self.threads
            .push(workers::start(&self.shared, name, |shared| work(shared))?);
        Ok(())
    }

    /// A large file that is to be sent now.
    pub fn take_large(&mut self) -> Option<LargeFile> {
        self.large.try_recv().ok()
    }

    /// A large file with that hash has arrived at the receiver, which had `held_bytes` of it before; `grown`: somebody wrote
    /// behind its end meanwhile.
    pub fn large_done(
        &mut self,
        file: LargeFile,
        held_bytes: u64,
        hash: Option<[u8; 32]>,
        grown: bool,
    ) {
        let shared = &self.shared;
        if grown {
            shared.note_grown(&file.shown, file.size);
        }
        add(&shared.book.files, 1);
        add(&shared.book.bytes, file.size);
        add(&shared.book.resumed_bytes, held_bytes);
        if let Some(sum) = &shared.sum {
            sum.add(&file.below, file.size, hash);
        }
        if shared.options.tells_files || shared.moves() {
            let sent = Sent {
                path: shared.options.tells_files.then_some(file.below),
                bytes: file.size,
                hash,
                leaver: file.leaver,
            };
            lock(&shared.sent).put(file.index, sent);
            self.are_placed(file.index, 1);
        }
        self.shared.large.release(1);
    }

    /// The receiver has put so many small files from `first` on in place.
    pub fn are_placed(&mut self, first: u64, count: u64) {
        let mut sent = lock(&self.shared.sent);
        sent.are_placed(first, count);
        let leaving = sent.take_leaving();
        drop(sent);
        self.shared.leaving.put(leaving);
    }

    /// Files that are in place, if that is [asked for](TreeOptions::tells_files).
    pub fn take_placed(&mut self) -> Vec<PlacedFile> {
        lock(&self.shared.sent).take()
    }

    /// A large file could not be sent, `text` says why; the others go on. `changed`: somebody wrote to it.
    pub fn large_failed(&mut self, _file: &LargeFile, changed: bool, text: &str) {
        let kind = if changed {
            Trouble::Changed
        } else {
            Trouble::Failed
        };
        self.shared.book.note(kind, || text.to_owned());
        self.shared.large.release(1);
    }

    /// The receiver could not take a large file, and says so itself.
    pub fn large_refused(&mut self, _file: &LargeFile) {
        self.shared.large.release(1);
    }

    /// Something that ends the transfer.
    pub fn poll_error(&mut self) -> Option<StoreError> {
        self.shared.error.get()
    }

    /// What a dry run would do, as the receiver says.
    pub fn take_changes(&mut self) -> Vec<Change> {
        std::iter::from_fn(|| self.shared.changes.try_pop()).collect()
    }

    /// Whether the receiver has said everything that it wants.
    pub fn is_answered(&self) -> bool {
        self.shared.answered.load(Ordering::Acquire)
    }

    /// What has been done so far, or would be.
    pub fn report(&self) -> TreeReport {
        let shared = &self.shared;
        TreeReport {
            blake3: shared.sum.as_ref().and_then(FilesSum::hash),
            ..shared.book.report(shared.options.dry_run)
        }
    }

    /// How far it is.
    pub fn progress(&self) -> TreeProgress {
        TreeProgress::of(&self.shared.book)
    }
}

impl Drop for TreeSender {
    fn drop(&mut self) {
        self.shared.stop();
    }
}

impl Workers for Shared {
    fn fail(&self, error: StoreError) {
        self.error.note(error);
        self.stop();
        (self.wake)();
    }
}

impl Shared {
    fn stop(&self) {
        self.offered.stop();
        self.jobs.stop();
        self.order.stop();
        self.reading.stop();
        self.large.stop();
        self.changes.stop();
        self.leaving.stop();
    }

    /// Whether sources go.
    pub(super) fn moves(&self) -> bool {
        self.options.remove_source && !self.options.dry_run
    }

    /// Where the walker notes links that go.
    fn moved_links(&self) -> MovedLinks<'_> {
        let TreeOptions {
            dry_run,
            remove_source,
            ignore_existing,
            update,
            ..
        } = self.options;
        if dry_run && remove_source && !ignore_existing && !update {
            return MovedLinks::dry(&self.book);
        }
        MovedLinks::new(self.moves().then_some(&self.sent))
    }

    fn note_grown(&self, shown: &Path, size: u64) {
        let what = format!("grew while it was read; its first {size} bytes were copied");
        self.book.trouble(Trouble::Grown, shown, what);
    }

    /// A file that is at the receiver already.
    fn unwanted(&self, index: u64, file: Offered) {
        add(&self.book.unchanged, 1);
        if !self.moves() {
            return;
        }
        let mut sent = lock(&self.sent);
        if let Some(version) = file.version {
            let leaver = Leaver {
                dir: file.dir,
                name: file.name,
                version: *version,
                is_top: file.is_top,
            };
            let there = Sent {
                path: None,
                bytes: file.size,
                hash: None,
                leaver: Some(leaver),
            };
            sent.put(index, there);
        }
        let leaving = sent.take_leaving();
        drop(sent);
        self.leaving.put(leaving);
    }

    /// Reads what the receiver wants, and has it read.
    fn take_answers(
        &self,
        mut spout: PipeReader,
        large: &SyncSender<LargeFile>,
    ) -> Result<(), StoreError> {
        expect_version(&mut spout)?;
        let mut index = 0;
        loop {
            match read_answer(&mut spout)? {
                Answer::Files { wanted, count } => {
                    for _ in 0..count {
                        // Whoever answers more than was asked gets here when the walker is done.
                        let Some(file) = self.offered.pop() else {
                            return Err(match self.error.get() {
                                Some(_) => StoreError::Aborted,
                                None => refused("more answers than files"),
                            });
                        };
                        if wanted {
                            self.wanted(index, file, large)?;
                        } else {
                            if self.options.tells_all {
                                lock(&self.sent).keep(file.below());
                            }
                            self.unwanted(index, file);
                        }
                        index += 1;
                        if self.moves() || self.options.tells_files {
                            lock(&self.sent).set_answered(index);
                        }
                    }
                }
                Answer::Note(change) => self.told(change)?,
                Answer::End => return Ok(()),
            }
        }
    }

    /// The receiver waits while nobody takes what it told.
    fn told(&self, change: Change) -> Result<(), StoreError> {
        if !self.options.dry_run {
            return Err(refused("a note of a dry run, which this is not"));
        }
        if self.changes.is_full() {
            (self.wake)();
        }
        let pushed = self.changes.push(change);
        (self.wake)();
        pushed.map_err(|_| StoreError::Aborted)
    }

    fn wanted(
        &self,
        index: u64,
        file: Offered,
        large: &SyncSender<LargeFile>,
    ) -> Result<(), StoreError> {
        if let Some(error) = &file.unread {
            self.book.unread(&file.dir.shown(&file.name), error);
            return Ok(());
        }
        add(&self.book.wanted_files, 1);
        add(&self.book.wanted_bytes, file.size);
        if self.options.dry_run {
            if self.options.remove_source {
                would_remove(&file.dir, &file.name, &self.book);
            }
            return Ok(());
        }
        if file.size > PACKED_MAX {
            if !self.large.acquire(1) {
                return Err(StoreError::Aborted);
            }
            let shown = file.dir.shown(&file.name);
            let path = file.dir.path.join(&file.name);
            let opened = file.dir.root.open_plain(&path).and_then(|open| {
                let source = SourceSpec::Opened(open, &shown);
                let wake = Arc::clone(&self.wake);
                if self.options.growing {
                    let source = Source::open_growing(source, true, wake)?;
                    let size = source.size();
                    return match size.filter(|size| *size >= file.size) {
                        Some(_) => Ok(source),
                        None => Err(StoreError::SourceChanged {
                            path: shown.clone(),
                        }),
                    };
                }
                let source = Source::open(source, true, wake)?;
                match source.size() {
                    Some(size) if size == file.size => Ok(source),
                    _ => Err(StoreError::SourceChanged {
                        path: shown.clone(),
                    }),
                }
            });
            match opened {
                Ok(source) => {
                    let below = file.below();
                    let leaver = source.version().filter(|_| self.moves());
                    let file = LargeFile {
                        index,
                        size: source.size().unwrap_or(file.size),
                        source: Some(source),
                        shown,
                        below,
                        leaver: leaver.map(|version| Leaver {
                            dir: file.dir,
                            name: file.name,
                            version,
                            is_top: file.is_top,
                        }),
                    };
                    large.send(file).map_err(|_| StoreError::Aborted)?;
                    (self.wake)();
                    return Ok(());
                }
                Err(error) => {
                    self.book.unread(&shown, &error);
                    self.large.release(1);
                }
            }
            // Said in the order of the packs, as the receiver waits for it there as well.
            return self.missing(index);
        }
        let charge = file.size + FILE_OVERHEAD;
        if !self.reading.acquire(charge) {
            return Err(StoreError::Aborted);
        }
        let (done, waits) = sync_channel(1);
        let job = Job {
            file,
            index,
            charge,
            done,
        };
        self.order.push(waits).map_err(|_| StoreError::Aborted)?;
        self.jobs.push(job).map_err(|_| StoreError::Aborted)
    }

    /// A large file that does not come.
    fn missing(&self, index: u64) -> Result<(), StoreError> {
        let (done, waits) = sync_channel(1);
        let mut bytes = Vec::new();
        put_varint(&mut bytes, index);
        let content = Content {
            bytes,
            hash: [0; 32],
            mtime: None,
            shown: PathBuf::new(),
            below: None,
            told: None,
            grown: false,
        };
        let _ = done.send(Packed {
            charge: 0,
            content: Some(content),
        });
        self.order.push(waits).map_err(|_| StoreError::Aborted)
    }

    fn read(&self) {
        while let Some(job) = self.jobs.pop() {
            let file = &job.file;
            let content = match read_small(file, self.options.growing, &self.buffers) {
                Ok((mut content, version)) => {
                    content.below = self.sum.as_ref().map(|_| file.below());
                    let tells = self.options.tells_files;
                    if tells || self.moves() {
                        // What has not come whole does not go.
                        let leaver = version.filter(|_| self.moves());
                        let leaver = leaver.map(|version| Leaver {
                            dir: Arc::clone(&file.dir),
                            name: file.name.clone(),
                            version,
                            is_top: file.is_top,
                        });
                        let sent = Sent {
                            path: tells.then(|| file.below()),
                            bytes: content.bytes.len() as u64,
                            hash: Some(content.hash),
                            leaver,
                        };
                        content.told = Some((job.index, sent));
                    }
                    Some(content)
                }
                Err(error) => {
                    self.book.unread(&file.dir.shown(&file.name), &error);
                    None
                }
            };
            let charge = job.charge;
            let _ = job.done.send(Packed { charge, content });
        }
    }

    fn pack(&self, mut tap: PipeWriter) -> io::Result<()> {
        put_version(&mut tap)?;
        tap.flush()?;
        let mut head = Vec::new();
        loop {
            let mut next = self.order.try_pop();
            if next.is_none() {
                // Nobody knows how long the next file takes.
                tap.flush()?;
                next = self.order.pop();
            }
            let Some(next) = next else { break };
            let Ok(packed) = next.recv() else {
                return Err(io::ErrorKind::BrokenPipe.into());
            };
            match packed.content {
                None => tap.put(&[PACK_MISSING, 0])?,
                Some(content) if content.shown.as_os_str().is_empty() => {
                    tap.put(&[PACK_MISSING, 1])?;
                    tap.put(&content.bytes)?;
                }
                Some(content) => {
                    head.clear();
                    match content.mtime {
                        None => head.push(PACK_FILE),
                        Some(mtime) => {
                            head.push(PACK_NEWER);
                            head.extend(mtime.secs.to_be_bytes());
                            head.extend(mtime.nanos.to_be_bytes());
                        }
                    }
                    put_varint(&mut head, content.bytes.len() as u64);
                    head.extend_from_slice(&content.hash);
                    if let Some((index, sent)) = content.told {
                        lock(&self.sent).put(index, sent);
                    }
                    if content.grown {
                        self.note_grown(&content.shown, content.bytes.len() as u64);
                    }
                    tap.put(&head)?;
                    for part in content.bytes.chunks(PACK_CHUNK) {
                        tap.put(part)?;
                    }
                    if let (Some(sum), Some(below)) = (&self.sum, &content.below) {
                        sum.add(below, content.bytes.len() as u64, Some(content.hash));
                    }
                    self.book.set_current(&content.shown);
                    add(&self.book.files, 1);
                    add(&self.book.bytes, content.bytes.len() as u64);
                    self.buffers.put(content.bytes);
                }
            }
            self.reading.release(packed.charge);
        }
        // An early end means that the whole was stopped.
        tap.put(&[PACK_END])?;
        tap.flush()
    }
}

impl TreeSender {
    /// The receiver says that everything is in place and durable.
    pub fn all_placed(&mut self) {
        self.all_placed = true;
    }

    /// Whether what is to go is gone.
    pub fn has_removed(&mut self) -> bool {
        let shared = &self.shared;
        if !shared.moves() {
            return true;
        }
        // Not before it is known what the receiver had already.
        if self.all_placed && self.is_answered() {
            self.all_placed = false;
            self.is_released = true;
            shared.release();
        }
        self.is_released && shared.leaving.is_empty()
    }
}

impl Shared {
    /// What was named goes last, and what stays is told.
    fn release(&self) {
        let mut sent = lock(&self.sent);
        let (leaving, staying) = (sent.take_leaving(), sent.staying());
        drop(sent);
        if staying > 0 {
            let what = match staying {
                1 => "one file or link stays".to_owned(),
                _ => format!("{staying} files and links stay"),
            };
            let why = "not moved, left alone at the destination, or too many at once (the same command again goes on)";
            let note = || format!("{what} at the source: {why}");
            self.book.note(Trouble::Notice, note);
        }
        self.leaving.put(leaving);
        self.leaving.release_tops();
    }
}
