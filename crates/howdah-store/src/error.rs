//! What can go wrong with a file, with its name and what to do about it.

use crate::shown::named;
use crate::space::{self, Lack};
use howdah_session::SessionError;
use rustix::fd::AsFd;
use rustix::io::Errno;
use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A failure of the storage side of a transfer.
///
/// Paths are printed quoted and escaped, so a hostile name cannot forge a line of a log.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The file, its directory or the root does not exist.
    #[error("{:?} does not exist", named(path))]
    NotFound {
        /// What was looked for.
        path: PathBuf,
    },
    /// A symbolic link was named, and what it points to does not exist.
    #[error(
        "{path:?} is a symbolic link to something that is not there; -r copies the link itself"
    )]
    Dangling {
        /// The link.
        path: PathBuf,
    },
    /// Symbolic links lead to each other.
    #[error(
        "{path:?} leads nowhere: the symbolic links on the way lead in a circle, or are too many; -r copies a link itself"
    )]
    Circular {
        /// What was named.
        path: PathBuf,
    },
    /// The directory that the target is to lie in does not exist. None is made on the way: a
    /// misspelt name would become a tree.
    #[error(
        "the directory {:?} of the destination does not exist; make it there first (mkdir -p), or say --mkpath",
        named(path)
    )]
    NoDirectory {
        /// The directory.
        path: PathBuf,
    },
    /// Something that is not a regular file has that name.
    #[error(
        "{:?} is {what}; only regular files can be copied this way",
        named(path)
    )]
    NotAFile {
        /// Its name.
        path: PathBuf,
        /// What it is, with article: "a directory".
        what: &'static str,
    },
    /// The content of a directory is asked for, and it is none.
    #[error(
        "{:?} is not a directory; a single file is copied by 'howdah cp', named without '/.' behind it",
        named(path)
    )]
    NotADirectory {
        /// Its name.
        path: PathBuf,
    },
    /// Something that is not a regular file has the name that a file is to get.
    #[error(
        "{path:?} is {what}, and a file does not take its place{}",
        instead(what)
    )]
    TargetNotAFile {
        /// Its name.
        path: PathBuf,
        /// What it is, with article: "a directory".
        what: &'static str,
    },
    /// The target of a single file is a symbolic link. To follow it may lead anywhere, and to replace it is not
    /// what everybody expects.
    #[error(
        "{path:?} is a symbolic link, and a copy of a single file neither follows nor replaces one; \
         name what it points to, or remove the link"
    )]
    TargetIsLink {
        /// The link.
        path: PathBuf,
    },
    /// What exists there may not be replaced, changed or deleted.
    #[error(
        "{:?}: new files may be added there, and none may be replaced or deleted",
        named(path)
    )]
    MayOnlyAdd {
        /// What exists, or the place where something was to be deleted.
        path: PathBuf,
    },
    /// The destination takes no such file.
    #[error("the destination {:?} cannot be written: {why}", named(path))]
    NotWritable {
        /// What was to be made there.
        path: PathBuf,
        /// What keeps it from being made.
        why: Cow<'static, str>,
    },
    /// The path is not a plain path below its root.
    #[error("{path:?} is refused: {reason}; {}", allowed(reason))]
    PathEscapes {
        /// The path as it was given (shortened if it is very long).
        path: PathBuf,
        /// Which rule it breaks.
        reason: &'static str,
    },
    /// The file system's permissions forbid it.
    #[error("permission denied for {:?}", named(path))]
    PermissionDenied {
        /// The file or directory.
        path: PathBuf,
    },
    /// No space or no quota is left.
    #[error("{}", space::describe(path, lack))]
    NoSpace {
        /// The file that did not fit.
        path: PathBuf,
        /// How much is missing.
        lack: Lack,
    },
    /// The source was modified, truncated or grew between the first and the last read.
    #[error("{path:?} changed while it was read; copy it again when nothing writes to it")]
    SourceChanged {
        /// The source.
        path: PathBuf,
    },
    /// Another program created, replaced or modified the target during the transfer.
    #[error("{path:?} was changed by another program during the copy and has been left alone")]
    TargetChanged {
        /// The target.
        path: PathBuf,
    },
    /// The file is complete and has its name, in a directory that is not the one any more that was named.
    #[error(
        "{path:?} is not where it was to be: another program has renamed or replaced the directory that it lies in during the \
         copy, or what that lies in. It lies in the one that it was; move it from there, or copy again"
    )]
    Elsewhere {
        /// The target.
        path: PathBuf,
    },
    /// What was written is not what was sent. Nothing has been published.
    #[error("what was written for {path:?} is not what was sent (BLAKE3 differs); copy it again")]
    HashMismatch {
        /// The target.
        path: PathBuf,
    },
    /// `finish` was called although bytes had not been submitted, or some were submitted twice.
    #[error("{path:?} should have {expected} bytes but {written} were written")]
    WrongLength {
        /// The target.
        path: PathBuf,
        /// Bytes that the object has.
        expected: u64,
        /// Bytes that were written.
        written: u64,
    },
    /// Two things that are to be copied have the same name at the destination.
    #[error("two of the sources {}; copy them one after the other", alike(name))]
    SameName {
        /// The name.
        name: PathBuf,
    },
    /// A rule that makes no sense.
    #[error("the pattern {pattern:?} makes no sense: {reason}")]
    BadPattern {
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Something that is asked for and cannot be.
    #[error("{what}")]
    BadOption {
        /// What, and why not.
        what: String,
    },
    /// What the peer says about its tree cannot be, or could do harm.
    #[error("the other side's list of files is refused: {what}")]
    BadTree {
        /// What is wrong with it.
        what: String,
    },
    /// More than whoever sends may bring.
    #[error(
        "{path:?} would be more than {what}, which this key may bring in a session; ask whoever runs the server"
    )]
    OverQuota {
        /// What came too much.
        path: PathBuf,
        /// How much may come, with unit.
        what: String,
    },
    /// This program has a fault.
    #[error(
        "a fault of this program ended its thread {thread} (a message of it says where; please report it)"
    )]
    Fault {
        /// Which one.
        thread: String,
    },
    /// Stopped in the middle; whoever stopped it knows why.
    #[error("stopped before the end")]
    Aborted,
    /// The file system has only shorter names, or paths.
    #[error(
        "the name of {path:?} is longer than the disk there takes; give it a shorter one, or leave it out"
    )]
    NameTooLong {
        /// The file.
        path: PathBuf,
    },
    /// This process, or the machine, has as many files open as it may.
    #[error(
        "cannot {operation} {:?}: too many files are open in {}; let it have more (ulimit -n, LimitNOFILE= of a unit, fs.file-max of \
         a machine), and copy again",
        named(path),
        if *everywhere { "this machine" } else { "this process" }
    )]
    TooManyOpen {
        /// What was to be opened.
        path: PathBuf,
        /// What for, as a verb.
        operation: &'static str,
        /// It is the machine's limit, not this process's.
        everywhere: bool,
    },
    /// This system gives no more threads.
    #[error("cannot start a thread for {:?}: {source}", named(path))]
    NoThread {
        /// What it was to work on.
        path: PathBuf,
        /// What the system says.
        source: Arc<io::Error>,
    },
    /// Anything else that the operating system reports.
    #[error("cannot {operation} {:?}: {source}", named(path))]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried, as a verb: "write".
        operation: &'static str,
        /// The system's reason.
        source: Arc<io::Error>,
    },
}

/// What two sources have in common.
fn alike(name: &Path) -> String {
    if name.as_os_str().is_empty() {
        return "stand for what is in them".to_owned();
    }
    format!("are called {:?}", name.to_string_lossy())
}

/// What to do about a path that is refused for that.
fn allowed(reason: &str) -> &'static str {
    match reason {
        reason if reason.contains("longer than") => "take a shorter one",
        _ => "name a file below the root, like \"dir/file\"",
    }
}

/// What to do about something that a file cannot replace.
fn instead(what: &str) -> &'static str {
    match what {
        "a directory" => "; remove it, or give the file another name",
        "a fifo" | "a character device" => {
            "; to write into it, let '-' be the destination and send that there"
        }
        _ => "",
    }
}

impl StoreError {
    /// A thread could not be started.
    pub fn no_thread(path: &Path, error: io::Error) -> Self {
        Self::NoThread {
            path: path.to_path_buf(),
            source: Arc::new(error),
        }
    }

    /// Sorts an error of the operating system. `operation`: what was tried, as a verb.
    pub fn from_io(path: &Path, operation: &'static str, error: impl Into<io::Error>) -> Self {
        let error = error.into();
        let path = path.to_path_buf();
        match error.kind() {
            io::ErrorKind::NotFound => Self::NotFound { path },
            io::ErrorKind::PermissionDenied => Self::PermissionDenied { path },
            io::ErrorKind::InvalidFilename => Self::NameTooLong { path },
            kind @ (io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) => {
                let is_quota = kind == io::ErrorKind::QuotaExceeded;
                let lack = Lack {
                    is_quota,
                    ..Lack::default()
                };
                Self::NoSpace { path, lack }
            }
            io::ErrorKind::ReadOnlyFilesystem => Self::NotWritable {
                path,
                why: "its file system is read-only".into(),
            },
            _ => match Errno::from_io_error(&error) {
                Some(errno @ (Errno::MFILE | Errno::NFILE)) => Self::TooManyOpen {
                    path,
                    operation,
                    everywhere: errno == Errno::NFILE,
                },
                _ => Self::Io {
                    path,
                    operation,
                    source: Arc::new(error),
                },
            },
        }
    }

    /// An error of our own making in the shape of an I/O error.
    pub fn other(path: &Path, operation: &'static str, reason: &'static str) -> Self {
        Self::from_io(path, operation, io::Error::other(reason))
    }
}

impl From<SessionError> for StoreError {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::BadPattern { pattern, reason } => Self::BadPattern { pattern, reason },
            SessionError::BadOption { what } => Self::BadOption { what },
            SessionError::BadTree { what } => Self::BadTree { what },
        }
    }
}

impl StoreError {
    /// Of a full disk: what it lacks, without what to do about it.
    pub fn lack_of_space(&self) -> Option<String> {
        match self {
            Self::NoSpace { path, lack } => Some(space::happened(path, lack)),
            _ => None,
        }
    }

    /// Adds to an error about space what the file system of `place` says, and how much was still to come.
    #[must_use]
    pub fn with_space(self, place: impl AsFd, needed: Option<u64>) -> Self {
        let Self::NoSpace { path, lack } = self else {
            return self;
        };
        let vfs = rustix::fs::fstatvfs(place).ok();
        // Some file systems (FUSE, network) tell nothing: zero blocks in all.
        let vfs = vfs.filter(|vfs| vfs.f_blocks > 0);
        let free = vfs
            .as_ref()
            .map(|vfs| vfs.f_bavail.saturating_mul(vfs.f_frsize));
        let is_inodes =
            !lack.is_quota && vfs.is_some_and(|vfs| vfs.f_files > 0 && vfs.f_ffree == 0);
        let lack = Lack {
            needed: needed.filter(|needed| *needed > 0).or(lack.needed),
            free,
            is_inodes,
            ..lack
        };
        Self::NoSpace { path, lack }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_names_cannot_forge_a_log_line() {
        let error = StoreError::NotFound {
            path: "a\n\x1b[2Kroot logged in".into(),
        };
        assert_eq!(
            error.to_string(),
            r#""a\n\u{1b}[2Kroot logged in" does not exist"#
        );
    }

    /// Below a root that is served the root itself is the empty path.
    #[test]
    fn the_whole_root_has_a_name_in_messages() {
        let at = Path::new("");
        for error in [
            Errno::NOENT,
            Errno::ACCESS,
            Errno::NOSPC,
            Errno::ROFS,
            Errno::IO,
        ] {
            let text = StoreError::from_io(at, "sync", error).to_string();
            assert!(text.contains("\".\"") && !text.contains("\"\""), "{text}");
        }
    }

    #[test]
    fn quota_and_space_are_one_kind() {
        for (errno, quota) in [(Errno::NOSPC, false), (Errno::DQUOT, true)] {
            let error = StoreError::from_io(Path::new("x"), "write", errno);
            assert!(
                matches!(error, StoreError::NoSpace { lack, .. } if lack.is_quota == quota),
                "{error:?}"
            );
        }
    }
}
