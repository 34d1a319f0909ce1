//! One side of a comparison: says what is there, and hashes the files that it is asked for.
//!
//! ```text
//! walker --manifest--> comparer           (what is there)
//!    |  offered
//!    v
//! answers <-- comparer                    (which files are to be hashed)
//!    |  jobs
//!    v
//! readers (several) --> packer --packs--> comparer
//! ```
//!
//! The streams are those of a copy. No content leaves: a pack has a BLAKE3 of each range of the files in it.

use super::bounds::WAITING_FILES;
use super::codec::{ManifestWriter, expect_version, put_version, read_answer, refused};
use super::names::kind;
use super::pipe::{PipeReader, PipeWriter, pipe};
use super::progress::TreeProgress;
use super::queue::{Budget, Queue};
use super::ranges;
use super::report::{Book, Trouble, add};
use super::send::{PACK_END, PACK_MISSING, PACK_RANGE, SenderEnds};
use super::sum::FilesSum;
use super::tree_source::leads_nowhere;
use super::walk::{Offered, Top, Walker};
use super::workers::{self, FirstError, Workers};
use howdah_session::Answer;
use howdah_session::naming::plain;
use howdah_session::{Filter, Metadata, TreeOptions, TreeReport};
use howdah_store::device::{Aligned, DeviceReader};
use howdah_store::identity::Identity;
use howdah_store::is_generated;
use howdah_store::{Root, StoreError, Wake};
use rustix::fs::{AtFlags, FileType};
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};

/// Threads that read and hash.
const READERS: usize = 4;
/// Hashes that wait for the packer, in bytes.
const HASHED_AHEAD: u64 = 16 << 20;
/// What one file costs there besides its hashes.
const FILE_OVERHEAD: u64 = 512;
/// What one hash costs there.
const HASH_COST: u64 = 48;
/// A file is read in pieces of that size.
const PIECE: u64 = 256 << 10;

/// What is to be compared: what is in a directory, or a file.
#[derive(Debug)]
pub struct TreeSubject {
    top: Top,
    is_dir: bool,
    shows: Metadata,
}

impl TreeSubject {
    /// A path that the user of this process names; links in it are followed, the last one too.
    pub fn local(path: &Path) -> Result<Self, StoreError> {
        let examined = |e| StoreError::from_io(path, "examine", e);
        if path.is_symlink() && std::fs::metadata(path).is_err_and(|e| leads_nowhere(&e)) {
            // It leads nowhere, and is there all the same.
            let parent = path
                .parent()
                .filter(|parent| !parent.as_os_str().is_empty());
            let root = Root::open(parent.unwrap_or_else(|| Path::new(".")))?;
            let name = path.file_name().unwrap_or_default();
            return Self::below(&Arc::new(root), Path::new(name));
        }
        if std::fs::metadata(path).map_err(examined)?.is_dir() {
            return Ok(Self::directory(Arc::new(Root::open(path)?), PathBuf::new()));
        }
        let real = std::fs::canonicalize(path).map_err(examined)?;
        let parent = real.parent().unwrap_or_else(|| Path::new("/"));
        let name = real.file_name().unwrap_or_default();
        Self::below(&Arc::new(Root::open(parent)?), Path::new(name))
    }

    /// A path below a root, as a peer names it. Links in it are followed, the last one too, as far as they stay below.
    pub fn below(root: &Arc<Root>, path: &Path) -> Result<Self, StoreError> {
        let path = plain(path);
        if path.as_os_str().is_empty() {
            return Ok(Self::directory(Arc::clone(root), path));
        }
        let path = match root.resolve(&path) {
            // A last one that leads out is a link, and nothing is said about what it leads to.
            Err(StoreError::PathEscapes { .. }) => path,
            real => real?,
        };
        // Refuses what leads out before anything is said about it.
        let (parent, name) = root.open_parent(&path)?;
        let stat = rustix::fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW);
        let stat = stat.map_err(|e| StoreError::from_io(&path, "examine", e))?;
        if kind(&stat) == FileType::Directory {
            root.open_dir(&path)?;
            return Ok(Self::directory(Arc::clone(root), path));
        }
        let called = name.to_owned();
        let root = Arc::clone(root);
        let top = Top { root, path, called };
        Ok(Self {
            top,
            is_dir: false,
            shows: Metadata::All,
        })
    }

    /// No more of the metadata is shown, whatever is asked for.
    #[must_use]
    pub fn showing(mut self, shows: Metadata) -> Self {
        self.shows = shows;
        self
    }

    /// Whether it is a directory.
    pub fn is_directory(&self) -> bool {
        self.is_dir
    }

    fn directory(root: Arc<Root>, path: PathBuf) -> Self {
        let called = OsString::new();
        let top = Top { root, path, called };
        Self {
            top,
            is_dir: true,
            shows: Metadata::All,
        }
    }
}

/// See the module.
#[derive(Debug)]
pub struct TreeDescriber {
    shared: Arc<Shared>,
}

struct Shared {
    book: Book,
    offered: Queue<Offered>,
    jobs: Queue<Job>,
    order: Queue<Hashes>,
    hashing: Budget,
    ended: AtomicBool,
    answered: AtomicBool,
    /// Files are read from the device, not from memory.
    reread: bool,
    /// Of all files that are hashed, if somebody wants that.
    sum: Option<FilesSum>,
    error: FirstError,
    wake: Wake,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

/// A file that is to be hashed.
#[derive(Debug)]
struct Job {
    file: Offered,
    done: Sender<Hashed>,
}

/// A range's hash, or that the file cannot be read any further.
type Hashed = Result<[u8; 32], Unread>;

#[derive(Debug)]
struct Unread;

/// What a reader makes of it.
#[derive(Debug)]
struct Hashes {
    charge: u64,
    found: Receiver<Hashed>,
}

impl TreeDescriber {
    /// Starts to walk. `wake` is called when [`poll_error`](Self::poll_error) may have something.
    pub fn start(
        subject: TreeSubject,
        options: &TreeOptions,
        wake: Wake,
    ) -> Result<(Self, SenderEnds), StoreError> {
        let filter = Filter::new(options)?;
        let options = TreeOptions {
            contents: subject.is_dir,
            recursive: true,
            // Hashes are asked for, one by one.
            checksum: false,
            ..options.clone()
        };
        let shared = Arc::new(Shared {
            book: Book::default(),
            offered: Queue::new(WAITING_FILES),
            jobs: Queue::new(4 * READERS),
            order: Queue::new(16_384),
            hashing: Budget::new(HASHED_AHEAD),
            ended: AtomicBool::new(false),
            answered: AtomicBool::new(false),
            reread: options.reread,
            sum: options.sums.then(FilesSum::new),
            error: FirstError::default(),
            wake,
        });
        let (manifest_tap, manifest) = pipe();
        let (packs_tap, packs) = pipe();
        let (answers, answers_spout) = pipe();
        let describer = Self { shared };
        describer.spawn("howdah-walk", move |shared| {
            let manifest = ManifestWriter::new(manifest_tap).map_err(|_| StoreError::Aborted)?;
            let (offered, book) = (&shared.offered, &shared.book);
            let walker = Walker::new(&options, manifest, offered, book, &filter);
            let walker = walker.for_comparison().showing(subject.shows);
            let result = walker.run(&[subject.top], &[]);
            shared.offered.close();
            result.map_err(|_| StoreError::Aborted)
        })?;
        describer.spawn("howdah-answer", move |shared| {
            let result = shared.take_answers(answers_spout);
            shared.answered.store(true, Ordering::Release);
            shared.jobs.close();
            shared.order.close();
            result
        })?;
        for _ in 0..READERS {
            describer.spawn("howdah-hash", |shared| {
                shared.hash();
                Ok(())
            })?;
        }
        describer.spawn("howdah-pack", move |shared| {
            shared.pack(packs_tap).map_err(|_| StoreError::Aborted)
        })?;
        let ends = SenderEnds {
            manifest,
            packs,
            answers,
        };
        Ok((describer, ends))
    }

    fn spawn(
        &self,
        name: &str,
        work: impl FnOnce(&Shared) -> Result<(), StoreError> + Send + 'static,
    ) -> Result<(), StoreError> {
        // Nobody waits for it: it writes nothing.
        workers::start(&self.shared, name, |shared| work(shared)).map(drop)
    }

    /// Something that ends the comparison.
    pub fn poll_error(&mut self) -> Option<StoreError> {
        self.shared.error.get()
    }

    /// Whether the other side has said everything that it wants.
    pub fn is_answered(&self) -> bool {
        self.shared.answered.load(Ordering::Acquire)
    }

    /// What could not be read.
    pub fn report(&self) -> TreeReport {
        TreeReport {
            blake3: self.shared.sum.as_ref().and_then(FilesSum::hash),
            ..self.shared.book.report(false)
        }
    }

    /// Whether files are read from the device.
    pub fn is_reread(&self) -> bool {
        self.shared.reread
    }

    /// How far it is.
    pub fn progress(&self) -> TreeProgress {
        TreeProgress::of(&self.shared.book)
    }
}

impl Drop for TreeDescriber {
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
        self.ended.store(true, Ordering::Release);
        self.offered.stop();
        self.jobs.stop();
        self.order.stop();
        self.hashing.stop();
    }

    fn take_answers(&self, mut spout: PipeReader) -> Result<(), StoreError> {
        expect_version(&mut spout)?;
        loop {
            let (wanted, count) = match read_answer(&mut spout)? {
                Answer::Files { wanted, count } => (wanted, count),
                Answer::Note { .. } => return Err(refused("a note in a comparison")),
                Answer::End => return Ok(()),
            };
            for _ in 0..count {
                let Some(file) = self.offered.pop() else {
                    return Err(match self.error.get() {
                        Some(_) => StoreError::Aborted,
                        None => refused("more answers than files"),
                    });
                };
                if wanted {
                    self.wanted(file)?;
                } else {
                    add(&self.book.unchanged, 1);
                }
            }
        }
    }

    fn wanted(&self, file: Offered) -> Result<(), StoreError> {
        add(&self.book.wanted_files, 1);
        add(&self.book.wanted_bytes, file.size);
        let charge = FILE_OVERHEAD + HASH_COST * ranges::count(file.size);
        if !self.hashing.acquire(charge) {
            return Err(StoreError::Aborted);
        }
        // As many hashes as the charge says.
        let (done, found) = channel();
        let aborted = |_| StoreError::Aborted;
        let pushed = self.order.push(Hashes { charge, found });
        pushed.map_err(aborted)?;
        let job = Job { file, done };
        self.jobs.push(job).map_err(|_| StoreError::Aborted)
    }

    fn hash(&self) {
        let mut memory = Aligned::new(PIECE as usize);
        while let Some(job) = self.jobs.pop() {
            let file = &job.file;
            let shown = file.dir.shown(&file.name);
            self.book.set_current(&shown);
            match self.hash_file(&job, &shown, &mut memory) {
                Ok(()) => add(&self.book.files, 1),
                Err(error) => {
                    match &error {
                        StoreError::Aborted => {}
                        StoreError::SourceChanged { .. } => {
                            let what = "changed while it was read; compare again when nothing writes to it";
                            self.book.trouble(Trouble::Changed, &shown, what);
                        }
                        error => self.book.unread(&shown, error),
                    }
                    // Whoever is gone has no use for it.
                    let _ = job.done.send(Err(Unread));
                }
            }
        }
    }

    fn hash_file(&self, job: &Job, shown: &Path, memory: &mut Aligned) -> Result<(), StoreError> {
        let Offered {
            dir, name, size, ..
        } = &job.file;
        let changed = || StoreError::SourceChanged {
            path: shown.to_path_buf(),
        };
        let file = dir.root.open_plain(&dir.path.join(name))?;
        let before = Identity::of(&file, shown)?;
        let read_error = |e: io::Error| match e.kind() {
            io::ErrorKind::UnexpectedEof => changed(),
            _ => StoreError::from_io(shown, "read", e),
        };
        // What the kernel makes is told with the size that reading gives.
        if before.size() != *size && !is_generated(&file).map_err(read_error)? {
            return Err(changed());
        }
        let device = self.reread.then(|| DeviceReader::new(&file, *size));
        let mut device = device.transpose().map_err(read_error)?;
        let mut at = 0;
        let length = ranges::length(*size);
        let mut left = *size;
        // Of ranges there is no way to the hash of all.
        let mut whole = self.sum.as_ref().map(|_| blake3::Hasher::new());
        while left > 0 {
            let mut hasher = blake3::Hasher::new();
            let mut in_range = left.min(length);
            left -= in_range;
            while in_range > 0 {
                let len = in_range.min(PIECE) as usize;
                let piece = match &mut device {
                    // Ranges are made of pieces, and pieces of blocks.
                    Some(device) => device.read(memory, at, len),
                    None => memory.read_exact_at(&file, at, len),
                };
                let piece = piece.map_err(read_error)?;
                hasher.update(piece);
                if let Some(whole) = &mut whole {
                    whole.update(piece);
                }
                in_range -= len as u64;
                at += len as u64;
                add(&self.book.bytes, len as u64);
                if self.ended.load(Ordering::Acquire) {
                    return Err(StoreError::Aborted);
                }
            }
            // Said before the last one: hashes of two versions are hashes of none.
            if left == 0 && Identity::of(&file, shown)? != before {
                return Err(changed());
            }
            let hash = Ok(*hasher.finalize().as_bytes());
            job.done.send(hash).map_err(|_| StoreError::Aborted)?;
        }
        if let (Some(sum), Some(whole)) = (&self.sum, whole) {
            let hash = *whole.finalize().as_bytes();
            sum.add(&job.file.below(), *size, Some(hash));
        }
        Ok(())
    }

    fn pack(&self, mut tap: PipeWriter) -> io::Result<()> {
        put_version(&mut tap)?;
        tap.flush()?;
        loop {
            let mut next = self.order.try_pop();
            if next.is_none() {
                tap.flush()?;
                next = self.order.pop();
            }
            let Some(next) = next else { break };
            while let Some(hash) = wait_for(&next.found, &mut tap)? {
                match hash {
                    Ok(hash) => {
                        tap.put(&[PACK_RANGE])?;
                        tap.put(&hash)?;
                    }
                    Err(Unread) => tap.put(&[PACK_MISSING, 0])?,
                }
            }
            self.hashing.release(next.charge);
        }
        // An early end means that the whole was stopped.
        tap.put(&[PACK_END])?;
        tap.flush()
    }
}

/// The next hash of a file, or `None` at its end. What is there leaves before a wait: a large file takes
/// minutes, and somebody waits for a sign of life.
fn wait_for(found: &Receiver<Hashed>, tap: &mut PipeWriter) -> io::Result<Option<Hashed>> {
    match found.try_recv() {
        Ok(hash) => Ok(Some(hash)),
        Err(TryRecvError::Disconnected) => Ok(None),
        Err(TryRecvError::Empty) => {
            tap.flush()?;
            Ok(found.recv().ok())
        }
    }
}
