//! Where an object's bytes come from.

mod file;
mod pipe;
mod zero;

use crate::identity::Identity;
use crate::{Limits, Root, SourceIdentity, StoreError, Wake, root};
use howdah_core::RangeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;

/// What to read.
#[non_exhaustive]
pub enum SourceSpec<'a> {
    /// A path from the network, below a root.
    File(&'a Path, &'a Root),
    /// A path that the user of this process names.
    LocalFile(&'a Path),
    /// An open regular file, and its path for messages.
    Opened(File, &'a Path),
    /// That many zero bytes.
    Zero(u64),
    /// A pipe: read once, size unknown until it ends.
    Reader(Box<dyn Read + Send>),
}

impl std::fmt::Debug for SourceSpec<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(path, root) => f.debug_tuple("File").field(path).field(root).finish(),
            Self::LocalFile(path) => f.debug_tuple("LocalFile").field(path).finish(),
            Self::Opened(_, path) => f.debug_tuple("Opened").field(path).finish(),
            Self::Zero(size) => f.debug_tuple("Zero").field(size).finish(),
            Self::Reader(_) => f.write_str("Reader"),
        }
    }
}

/// What is known when a source has been read to its end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Finished {
    /// Bytes in the whole object.
    pub size: u64,
    /// BLAKE3 of the whole object, if it was asked for and all of it was read.
    pub hash: Option<[u8; 32]>,
}

/// An object that is being read. Nothing here waits for a disk or a pipe, except
/// [`read_at`](Self::read_at) for old parts of a file that memory has lost meanwhile.
///
/// Dropping it stops the reading thread; one that waits for a pipe ends with the pipe.
#[derive(Debug)]
pub struct Source(Inner);

/// Reads what a [`Source`] has ready, beside it and from any thread. Of files and zeros, which can be read from several places.
#[derive(Clone, Debug)]
pub struct SourceReader(Reads);

#[derive(Clone, Debug)]
enum Reads {
    File(file::FileReader),
    Zero(u64),
}

impl SourceReader {
    /// As [`Source::ready_end`] says it.
    pub fn ready_end(&self) -> u64 {
        match &self.0 {
            Reads::File(file) => file.ready_end(),
            Reads::Zero(size) => *size,
        }
    }

    /// As [`Source::read_at`] does.
    pub fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), StoreError> {
        match &self.0 {
            Reads::File(file) => file.read_at(offset, buf),
            Reads::Zero(size) => zero::read_at(*size, offset, buf),
        }
    }
}

#[derive(Debug)]
enum Inner {
    File(file::FileSource),
    Zero(zero::ZeroSource),
    Pipe(pipe::PipeSource),
    /// A file that holds another number of bytes than its file system says, and its permission bits.
    Generated(pipe::PipeSource, u32),
}

/// A file is what reading it gives. Where that is not what its file system says (proc, sysfs, some of FUSE), it is
/// read like a pipe.
fn file_or_generated(
    file: File,
    path: &Path,
    how: (bool, bool),
    wake: Wake,
    limits: &Limits,
) -> Result<Inner, StoreError> {
    let failed = |e| StoreError::from_io(path, "read", e);
    if !is_generated(&file).map_err(failed)? {
        let source = file::FileSource::new(file, path, how, wake, limits)?;
        return Ok(Inner::File(source));
    }
    let mode = file.metadata().map_err(failed)?.mode() & 0o777;
    let source = pipe::PipeSource::new(Box::new(file), path, how.0, wake, limits)?;
    Ok(Inner::Generated(source, mode))
}

/// The error of a name with a slash at its end: that it is a directory, as it says itself, or not there, is told as of the bare name.
fn behind_slash(path: &Path, root: &Root, error: StoreError) -> StoreError {
    let named = path.as_os_str().as_bytes();
    let end = named.iter().rposition(|&byte| byte != b'/');
    let bare = &named[..end.map_or(0, |last| last + 1)];
    if bare.is_empty() || bare.len() == named.len() {
        return error;
    }
    let path = path.to_path_buf();
    match root.open_read(Path::new(OsStr::from_bytes(bare))) {
        Err(StoreError::NotAFile {
            what: "a directory",
            ..
        }) => StoreError::NotAFile {
            path,
            what: "a directory",
        },
        Err(StoreError::NotFound { .. }) => StoreError::NotFound { path },
        _ => error,
    }
}

/// Whether reading gives more or less than the size that is told. Leaves the position at the start.
pub fn is_generated(file: &File) -> io::Result<bool> {
    /// Larger ones that take no space are sparse.
    const PAGE: u64 = 64 << 10;
    let meta = file.metadata()?;
    let size = meta.len();
    let mut byte = [0];
    match file.read_at(&mut byte, size) {
        // Or somebody appends to it right now.
        Ok(got) if got > 0 => return Ok(file.metadata()?.len() == size),
        // It is read in order only.
        Err(e) if size == 0 && e.kind() == io::ErrorKind::NotSeekable => return Ok(true),
        // Nobody else would hear that there is something in it.
        Err(e) if size == 0 => return Err(e),
        Ok(_) | Err(_) => {}
    }
    if size == 0 || size > PAGE || meta.blocks() > 0 {
        return Ok(false);
    }
    // The last byte that there should be.
    match file.read_at(&mut byte, size - 1) {
        Ok(0) => Ok(file.metadata()?.len() == size),
        // Whoever reads it in order hears of errors.
        Ok(_) | Err(_) => Ok(false),
    }
}

impl Source {
    /// Opens an object and starts to read ahead. `wake` is called when
    /// [`ready_end`](Self::ready_end) grows after somebody waited for it, and when
    /// [`poll_finished`](Self::poll_finished) has something.
    pub fn open(spec: SourceSpec<'_>, hash: bool, wake: Wake) -> Result<Self, StoreError> {
        Self::open_with(spec, hash, wake, &Limits::default())
    }

    /// [`open`](Self::open) for a file that others write behind the end of: what stands there now is the object, and
    /// that it [has grown](Self::has_grown) is no change. Whatever else is done to it is one.
    pub fn open_growing(spec: SourceSpec<'_>, hash: bool, wake: Wake) -> Result<Self, StoreError> {
        Self::open_as(spec, (hash, true), wake, &Limits::default())
    }

    /// [`open`](Self::open) with other bounds.
    pub fn open_with(
        spec: SourceSpec<'_>,
        hash: bool,
        wake: Wake,
        limits: &Limits,
    ) -> Result<Self, StoreError> {
        Self::open_as(spec, (hash, false), wake, limits)
    }

    /// Hashed or not, growing or not.
    fn open_as(
        spec: SourceSpec<'_>,
        how: (bool, bool),
        wake: Wake,
        limits: &Limits,
    ) -> Result<Self, StoreError> {
        let (hash, _) = how;
        Ok(Self(match spec {
            SourceSpec::File(path, root) => {
                let opened = root.open_read(path);
                let file = opened.map_err(|error| behind_slash(path, root, error))?;
                file_or_generated(file, path, how, wake, limits)?
            }
            SourceSpec::LocalFile(path) => {
                file_or_generated(root::open_local(path)?, path, how, wake, limits)?
            }
            SourceSpec::Opened(file, path) => {
                Inner::File(file::FileSource::new(file, path, how, wake, limits)?)
            }
            SourceSpec::Zero(size) => Inner::Zero(zero::ZeroSource::new(size, hash, wake, limits)?),
            SourceSpec::Reader(reader) => {
                let name = Path::new("-");
                Inner::Pipe(pipe::PipeSource::new(reader, name, hash, wake, limits)?)
            }
        }))
    }

    /// Reads beside it; `None` for what is read once.
    pub fn reader(&self) -> Option<SourceReader> {
        match &self.0 {
            Inner::File(file) => Some(SourceReader(Reads::File(file.reader()))),
            Inner::Zero(zero) => Some(SourceReader(Reads::Zero(zero.size()))),
            Inner::Pipe(_) | Inner::Generated(..) => None,
        }
    }

    /// Bytes in the object; `None` while a pipe has not ended.
    pub fn size(&self) -> Option<u64> {
        match &self.0 {
            Inner::File(file) => Some(file.size()),
            Inner::Zero(zero) => Some(zero.size()),
            Inner::Pipe(pipe) | Inner::Generated(pipe, _) => pipe.size(),
        }
    }

    /// Which version of which file it is; `None` for what is no file.
    pub fn identity(&self) -> Option<SourceIdentity> {
        match &self.0 {
            Inner::File(file) => Some(file.identity()),
            Inner::Zero(_) | Inner::Pipe(_) | Inner::Generated(..) => None,
        }
    }

    /// Whether somebody wrote behind the end of a file that [may grow](Self::open_growing), until all that stood there
    /// at first had been read.
    pub fn has_grown(&self) -> bool {
        matches!(&self.0, Inner::File(file) if file.has_grown())
    }

    /// The version of the file that is read.
    pub fn version(&self) -> Option<Identity> {
        match &self.0 {
            Inner::File(file) => Some(file.version()),
            Inner::Zero(_) | Inner::Pipe(_) | Inner::Generated(..) => None,
        }
    }

    /// Permission bits of a file; `None` for what has none.
    pub fn mode(&self) -> Option<u32> {
        match &self.0 {
            Inner::File(file) => file.mode(),
            Inner::Generated(_, mode) => Some(*mode),
            Inner::Zero(_) | Inner::Pipe(_) => None,
        }
    }

    /// If a file has holes: those of its [groups](crate::GROUP) that are nothing else. They read as zeros and
    /// need not be sent, and their values are not told.
    pub fn holes(&self) -> Option<&RangeSet> {
        match &self.0 {
            Inner::File(file) => file.holes(),
            Inner::Zero(_) | Inner::Pipe(_) | Inner::Generated(..) => None,
        }
    }

    /// Reads ahead (and hashes) up to `end` only, until [`go_on_without`](Self::go_on_without).
    pub fn hold_at(&self, end: u64) {
        if let Inner::File(file) = &self.0 {
            file.hold_at(end);
        }
    }

    /// The receiver has these bytes, by whole [groups](crate::GROUP): they are neither read nor
    /// hashed any more, and [`ready_end`](Self::ready_end) passes over them. Once.
    pub fn go_on_without(&self, ranges: RangeSet) {
        if let Inner::File(file) = &self.0 {
            file.go_on_without(ranges);
        }
    }

    /// The values of the groups that were hashed since the last call, at most `max` of them, with
    /// their indices in ascending order: for [`Sink::tell_values`](crate::Sink::tell_values).
    pub fn take_values(&self, max: usize) -> Vec<(u64, [u8; 32])> {
        match &self.0 {
            Inner::File(file) => file.take_values(max),
            Inner::Zero(_) | Inner::Pipe(_) | Inner::Generated(..) => Vec::new(),
        }
    }

    /// `[0, ready_end)` can be read now without waiting for a slow disk: it has been read ahead
    /// (and hashed). A pipe keeps `[released, ready_end)` only.
    pub fn ready_end(&self) -> u64 {
        match &self.0 {
            Inner::File(file) => file.ready_end(),
            Inner::Zero(zero) => zero.size(),
            Inner::Pipe(pipe) | Inner::Generated(pipe, _) => pipe.ready_end(),
        }
    }

    /// Fills `buf` with the bytes from `offset`. Any range below [`ready_end`](Self::ready_end),
    /// any number of times.
    pub fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), StoreError> {
        match &self.0 {
            Inner::File(file) => file.read_at(offset, buf),
            Inner::Zero(zero) => zero.read_at(offset, buf),
            Inner::Pipe(pipe) | Inner::Generated(pipe, _) => pipe.read_at(offset, buf),
        }
    }

    /// Everything below `offset` has been sent once: reading ahead may go on from there.
    pub fn note_sent_through(&self, offset: u64) {
        match &self.0 {
            Inner::File(file) => file.note_sent_through(offset),
            Inner::Zero(zero) => zero.note_sent_through(offset),
            Inner::Pipe(_) | Inner::Generated(..) => {}
        }
    }

    /// The receiver has confirmed everything below `offset`: a pipe may forget it.
    pub fn release_through(&self, offset: u64) {
        if let Inner::Pipe(pipe) | Inner::Generated(pipe, _) = &self.0 {
            pipe.release_through(offset);
        }
    }

    /// Once: size and hash of the whole, after everything has been read and a file was found
    /// unchanged. An error may come at any time and is final.
    pub fn poll_finished(&mut self) -> Option<Result<Finished, StoreError>> {
        match &mut self.0 {
            Inner::File(file) => file.poll_finished(),
            Inner::Zero(zero) => zero.poll_finished(),
            Inner::Pipe(pipe) | Inner::Generated(pipe, _) => pipe.poll_finished(),
        }
    }

    /// Asks the file system once more whether a file is still the one that was opened. Call it
    /// after the last retransmission if no hash protects the whole.
    pub fn verify_unchanged(&self) -> Result<(), StoreError> {
        match &self.0 {
            Inner::File(file) => file.verify_unchanged(),
            Inner::Zero(_) | Inner::Pipe(_) | Inner::Generated(..) => Ok(()),
        }
    }
}
