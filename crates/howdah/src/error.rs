//! What can go wrong, sorted by what a user can do about it.

use howdah_store::StoreError;
use std::fmt;

/// The kind of a failure. The command line maps each to one exit code.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The arguments make no sense together.
    Usage,
    /// The source does not exist.
    NotFound,
    /// Refused by permissions of the file system or by the path rules of the peer, or the
    /// destination's directory does not exist.
    Refused,
    /// Nobody answered, or the peer stopped answering: trying again may help.
    Network,
    /// Keys do not match: trying again will not help.
    Auth,
    /// The peer broke the protocol or speaks another version.
    Protocol,
    /// What arrived is not what was sent.
    Integrity,
    /// No space or quota left at the destination.
    NoSpace,
    /// Stopped by the user.
    Cancelled,
    /// The source changed while it was read.
    SourceChanged,
    /// Some files of a tree could not be copied; the others are in place.
    Partial,
    /// A limit of the user's was reached.
    Limit,
    /// Reading or writing failed.
    Io,
}

impl ErrorKind {
    /// Its name in `--json`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Usage => "usage",
            Self::NotFound => "not_found",
            Self::Refused => "refused",
            Self::Network => "network",
            Self::Auth => "auth",
            Self::Protocol => "protocol",
            Self::Integrity => "integrity",
            Self::NoSpace => "no_space",
            Self::Cancelled => "cancelled",
            Self::SourceChanged => "source_changed",
            Self::Partial => "partial",
            Self::Limit => "limit",
            Self::Io => "io",
        }
    }

    /// The exit code of a command that ends with it.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Io => 1,
            Self::Usage => 2,
            Self::NotFound => 3,
            Self::Refused => 4,
            Self::Network => 5,
            Self::Partial => 6,
            Self::Auth | Self::Protocol => 7,
            Self::Limit => 8,
            Self::Integrity => 10,
            Self::NoSpace => 11,
            Self::Cancelled => 12,
            Self::SourceChanged => 13,
        }
    }
}

/// A failure with a sentence for people: what happened, where, and what to do.
#[derive(Clone, Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    /// The other side is there, and hangs.
    stuck: bool,
    /// This system gives no more threads now.
    busy: bool,
}

impl Error {
    /// An error of `kind` with a lower-case sentence without full stop.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            stuck: false,
            busy: false,
        }
    }

    /// This system gives no more threads.
    pub(crate) fn no_thread(error: &std::io::Error) -> Self {
        Self::new(ErrorKind::Io, format!("cannot start a thread: {error}")).busy()
    }

    /// The same may go later.
    pub(crate) fn busy(self) -> Self {
        Self { busy: true, ..self }
    }

    /// Whether the same may go later: others leave nothing for it now.
    pub(crate) fn is_busy(&self) -> bool {
        self.busy
    }

    /// The other side is there and does not get on: a new connection to it would not either.
    pub(crate) fn stuck(self) -> Self {
        Self {
            stuck: true,
            ..self
        }
    }

    /// The connection was lost, and another one may do better.
    pub(crate) fn is_lost_connection(&self) -> bool {
        self.kind == ErrorKind::Network && !self.stuck
    }

    /// The same in other words.
    pub(crate) fn in_words(self, message: String) -> Self {
        Self { message, ..self }
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// Its kind.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// A storage failure as the library's error.
pub(crate) fn from_store(error: &StoreError) -> Error {
    let kind = match error {
        StoreError::NotFound { .. } | StoreError::Dangling { .. } | StoreError::Circular { .. } => {
            ErrorKind::NotFound
        }
        StoreError::NoDirectory { .. }
        | StoreError::PathEscapes { .. }
        | StoreError::PermissionDenied { .. }
        | StoreError::NotAFile { .. }
        | StoreError::NotADirectory { .. }
        | StoreError::TargetNotAFile { .. }
        | StoreError::NotWritable { .. }
        | StoreError::TargetIsLink { .. }
        | StoreError::MayOnlyAdd { .. }
        | StoreError::OverQuota { .. }
        | StoreError::Elsewhere { .. }
        | StoreError::NameTooLong { .. }
        | StoreError::TargetChanged { .. } => ErrorKind::Refused,
        StoreError::NoSpace { .. } => ErrorKind::NoSpace,
        StoreError::SourceChanged { .. } => ErrorKind::SourceChanged,
        StoreError::SameName { .. }
        | StoreError::BadPattern { .. }
        | StoreError::BadOption { .. } => ErrorKind::Usage,
        StoreError::BadTree { .. } => ErrorKind::Protocol,
        StoreError::HashMismatch { .. } | StoreError::WrongLength { .. } => ErrorKind::Integrity,
        StoreError::Io { source, .. } if source.kind() == std::io::ErrorKind::NotADirectory => {
            ErrorKind::Refused
        }
        _ => ErrorKind::Io,
    };
    let text = match error {
        StoreError::NotAFile {
            what: "a directory",
            ..
        } => format!("{error}: copy it with -r, or name a file in it"),
        StoreError::NotAFile {
            what: "a fifo" | "a character device",
            ..
        } => format!(
            "{error}: to take what comes out of it, let '-' be the source and feed that from it"
        ),
        other => other.to_string(),
    };
    let told = Error::new(kind, text);
    if let StoreError::NoThread { .. } = error {
        return told.busy();
    }
    told
}
