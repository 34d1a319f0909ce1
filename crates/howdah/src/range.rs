//! A range of a file of another machine, for one of several hosts that move it together.

use crate::connect::{Remote, run};
use crate::desk::Desk;
use crate::desk::FilesAnswer;
use crate::error::from_store;
use crate::reconnect::{CopyKind, lasting};
use crate::remote::Files;
use crate::task::{Seen, Task};
use crate::{Cancel, CopyConfig, Error, ErrorKind, Location, Progress, SourceFile, Summary};
use howdah_session::files::{FileKind, FilesRequest};
use howdah_store::RangeFile;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

fn remote(source: &Location) -> Result<(Remote, crate::PathBytes), Error> {
    Remote::of(source).ok_or_else(|| {
        let text = format!("{source} is not on another machine: ranges are fetched from HOST:path or howdah://HOST:PORT/path");
        Error::new(ErrorKind::Usage, text)
    })
}

/// Which version of a regular file of another machine is there. None of its bytes are moved.
///
/// # Errors
///
/// [`ErrorKind::Usage`] if the place is here or is no regular file, and what asking gives.
pub fn file_version(
    source: &Location,
    config: &CopyConfig,
    cancel: &Cancel,
) -> Result<SourceFile, Error> {
    let (there, path) = remote(source)?;
    let seen = Seen::default();
    let task = Task::Look(path, seen.clone());
    run(task, there, &config.once(), cancel, &mut |_| ())?;
    seen.take().ok_or_else(|| no_version(source))
}

/// The same of many files of one machine, through one session; each answer is of the path at its place.
///
/// # Errors
///
/// What reaching the machine gives; of each file [`ErrorKind::Usage`] if it is no regular file (a link is none), and what asking gives.
pub fn file_versions(
    sources: &[Location],
    config: &CopyConfig,
) -> Result<Vec<Result<SourceFile, Error>>, Error> {
    let Some(first) = sources.first() else {
        return Ok(Vec::new());
    };
    let (there, _) = remote(first)?;
    let mut paths = Vec::with_capacity(sources.len());
    for source in sources {
        let (machine, path) = remote(source)?;
        if machine != there {
            let text = format!("{source} is not on the same machine as {first}");
            return Err(Error::new(ErrorKind::Usage, text));
        }
        paths.push(path);
    }
    let files = Files::begin(there, config.once(), Desk::default())?;
    let questions = paths.into_iter().map(|path| FilesRequest::Stat { path });
    let version = |(source, answer)| match answer? {
        FilesAnswer::Info(info) if info.kind == FileKind::File && !info.is_link => Ok(SourceFile {
            identity: info.version.into(),
            mode: info.mode,
        }),
        _ => Err(no_version(source)),
    };
    let answers = files.answers(questions);
    files.close();
    Ok(sources.iter().zip(answers).map(version).collect())
}

fn no_version(source: &Location) -> Error {
    let text = format!("{source} is no regular file: nobody could tell whether it changes");
    Error::new(ErrorKind::Usage, text)
}

/// Fetches a range of a version of a file of another machine into a file that may have some of it, which does not come again. Every MiB is compared with what the sender says that it hashes to, and the source stays that version until all of it
/// has been read. A connection that is lost is made again for [`CopyConfig::reconnect`], and goes on.
///
/// The summary counts the range's bytes only. Nothing is synced.
///
/// # Errors
///
/// [`ErrorKind::SourceChanged`] if it is another version by now, and those of [`copy`](crate::copy()).
pub fn fetch_range(
    source: &Location,
    target: &Arc<RangeFile>,
    config: &CopyConfig,
    cancel: &Cancel,
    on_progress: &mut dyn FnMut(&Progress),
) -> Result<Summary, Error> {
    let (there, place) = remote(source)?;
    let before = target.verified_bytes();
    config.tell_of_lease(before);
    let elsewhere = target.held().ranges.byte_count() - before;
    let task = || Task::Range(place.clone(), Arc::clone(target));
    let range_bytes = target.range().len();
    let summary = lasting_range(
        (range_bytes, elsewhere),
        (task, there),
        (config, cancel),
        on_progress,
    )?;
    let new = range_bytes - before;
    Ok(Summary {
        resumed_bytes: before,
        goodput_bps: new as f64 * 8.0 / summary.seconds.max(1e-9),
        ..summary
    })
}

/// Does a task that moves so many bytes of a file of which `elsewhere` others count as there, again when its connection was lost. What is
/// told, and the summary, are of the range alone.
pub(crate) fn lasting_range(
    (range_bytes, elsewhere): (u64, u64),
    (task, there): (impl Fn() -> Task, Remote),
    (config, cancel): (&CopyConfig, &Cancel),
    on_progress: &mut dyn FnMut(&Progress),
) -> Result<Summary, Error> {
    // What comes beside it: the end of a file that has no whole MiB there.
    let counted = |bytes: u64| bytes.saturating_sub(elsewhere).min(range_bytes);
    let mut attempt = |config: &CopyConfig, on_progress: &mut dyn FnMut(&Progress)| {
        run(task(), there.clone(), config, cancel, on_progress)
    };
    let mut tell = |progress: &Progress| {
        let mut progress = progress.clone();
        progress.bytes = counted(progress.bytes);
        progress.resumed_bytes = counted(progress.resumed_bytes);
        progress.total_bytes = Some(range_bytes);
        on_progress(&progress);
    };
    let summary = lasting(CopyKind::File, (config, cancel), &mut tell, &mut attempt)?;
    Ok(Summary {
        bytes: range_bytes,
        resumed_bytes: 0,
        // Of the range alone nobody has one.
        blake3: None,
        goodput_bps: range_bytes as f64 * 8.0 / summary.seconds.max(1e-9),
        ..summary
    })
}

/// Makes a file that is complete and verified one of that name in the open directory `dir`, durably: it gets the rights of a source with
/// these permission bits as [`copy`](crate::copy()) gives them, and is renamed. Until then it has the name `temp` in the open directory
/// `apart`; if this fails it keeps that. `path` is for messages.
///
/// # Errors
///
/// Those of the file system.
pub fn publish(
    file: File,
    (apart, temp): (OwnedFd, OsString),
    (dir, name, path): (OwnedFd, &OsStr, &Path),
    size: u64,
    mode: Option<u32>,
) -> Result<(), Error> {
    let done = howdah_store::publish(file, (apart, temp), (dir, name, path), size, mode);
    done.map_err(|e| from_store(&e))
}
