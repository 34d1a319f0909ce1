//! A source of this machine: a path that every host of a plan sees.

use super::{failed, interrupted, source_changed};
use crate::{Cancel, Error, ErrorKind, Progress, SourceFile, SourceIdentity, Summary};
use howdah_core::ByteRange;
use howdah_store::{Found, FoundKind};
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::Instant;

/// Bytes that are read at a time.
const PIECE: u64 = 1 << 20;

fn look(file: &File, path: &Path) -> Result<Found, Error> {
    Found::of(file, path).map_err(|e| crate::error::from_store(&e))
}

fn open(path: &Path) -> Result<File, Error> {
    File::open(path).map_err(|e| failed("open", path, &e))
}

/// Which version of a regular file is there.
///
/// # Errors
///
/// [`ErrorKind::Usage`] if it is something else, and the file system's.
pub fn version_of(path: &Path) -> Result<SourceFile, Error> {
    let meta = path.metadata().map_err(|e| failed("look at", path, &e))?;
    if meta.is_file() {
        let found = look(&open(path)?, path)?;
        if found.kind == FoundKind::File {
            return Ok(SourceFile {
                identity: found.identity,
                mode: Some(found.mode & 0o777),
            });
        }
    }
    let remedy = if meta.is_dir() {
        ": it is a directory, and trees are planned with -r or -a, from another machine or to one (HOST:path, howdah://HOST:PORT/path); copy it with 'howdah cp -r', or plan its large files"
    } else {
        ": nobody could tell whether it changes"
    };
    let text = format!("{} is no regular file{remedy}", path.display());
    Err(Error::new(ErrorKind::Usage, text))
}

/// Copies a range of that version into an empty file, whose first byte is the range's first.
///
/// # Errors
///
/// [`ErrorKind::SourceChanged`] if it is another version before or after, and the file systems'.
pub fn fetch_local(
    path: &Path,
    (identity, range): (&SourceIdentity, ByteRange),
    (file, to): (File, &Path),
    cancel: &Cancel,
    on_progress: &mut dyn FnMut(&Progress),
) -> Result<Summary, Error> {
    let begun = Instant::now();
    let source = open(path)?;
    let check = || {
        let found = look(&source, path)?;
        if found.kind != FoundKind::File {
            return Err(source_changed("it is no regular file any more"));
        }
        match identity.difference(&found.identity) {
            Some(difference) => Err(source_changed(&difference)),
            None => Ok(()),
        }
    };
    check()?;
    let mut piece = vec![0; PIECE as usize];
    let mut progress = Progress {
        total_bytes: Some(range.len()),
        ..Progress::default()
    };
    let mut at = range.start;
    while at < range.end {
        if cancel.is_cancelled() {
            return Err(interrupted());
        }
        let len = PIECE.min(range.end - at);
        let piece = &mut piece[..len as usize];
        // One that is shorter by now has changed.
        if let Err(error) = source.read_exact_at(piece, at) {
            check()?;
            return Err(failed("read", path, &error));
        }
        let written = file.write_all_at(piece, at - range.start);
        written.map_err(|e| failed("write", to, &e))?;
        at += len;
        progress.bytes = at - range.start;
        on_progress(&progress);
    }
    check()?;
    let seconds = begun.elapsed().as_secs_f64();
    Ok(Summary {
        bytes: range.len(),
        seconds,
        ..Summary::default()
    })
}
