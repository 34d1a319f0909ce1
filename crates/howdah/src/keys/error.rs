//! What can be wrong with a key file.

use super::ParseKeyError;
use crate::{Error, ErrorKind};
use std::path::{Path, PathBuf};

/// A key or a file of keys that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// There already is a file of that name; keys are never overwritten.
    #[error("{} exists already; a key is never overwritten, move it away first", .path.display())]
    AlreadyExists {
        /// The file.
        path: PathBuf,
    },
    /// Not the key that was agreed on for this session.
    #[error(
        "whoever answers at {host} does not hold the key that its ssh told; somebody may be in between"
    )]
    AnotherKey {
        /// The other side.
        host: String,
    },
    /// The server's key is not the one it had before.
    #[error(
        "the key of {host} is not the one on record in {}:{line}: expected {expected}, got {got}; \
         somebody may be in between, or the server has a new key: if you know that it has, \
         remove that line", .path.display()
    )]
    HostKeyChanged {
        /// `host:port`.
        host: String,
        /// The file of known hosts.
        path: PathBuf,
        /// Line number of the key on record, from 1.
        line: usize,
        /// Fingerprint on record.
        expected: String,
        /// Fingerprint that the server showed.
        got: String,
    },
    /// A server that was never met, and nobody said to trust it.
    #[error(
        "the key of {host} is not known (it shows {fingerprint}); compare that with what \
         'howdah serve' prints there, then accept it with --accept-new"
    )]
    HostKeyUnknown {
        /// `host:port`.
        host: String,
        /// Fingerprint that the server showed.
        fingerprint: String,
    },
    /// Not a host name or address.
    #[error("'{}' is not a host name or address", .host.escape_debug())]
    InvalidHost {
        /// The text.
        host: String,
    },
    /// The file system refused.
    #[error("cannot {action} {}: {source}", .path.display())]
    Io {
        /// What was tried: "read", "write", ...
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// A line that is not an entry of that file.
    #[error("{}:{line}: {reason}", .path.display())]
    MalformedLine {
        /// The file.
        path: PathBuf,
        /// Line number, from 1.
        line: usize,
        /// What is wrong with it.
        reason: ParseKeyError,
    },
    /// Not a regular file.
    #[error("{} is not a regular file", .path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// Not an Ed25519 private key in PEM.
    #[error("{} holds no Ed25519 private key ({reason}); make one with 'howdah key new'", .path.display())]
    NotAPrivateKey {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Owned by somebody else, who could change it.
    #[error("{} belongs to user {owner}, not to you or root; make your own copy", .path.display())]
    OwnedByAnother {
        /// The file.
        path: PathBuf,
        /// Numeric user id of its owner.
        owner: u32,
    },
    /// The key generator failed.
    #[error("this machine cannot make a key: its random source failed")]
    RandomSource,
    /// A private key that others can read.
    #[error(
        "others can read the private key {} (mode {mode:04o}); run: chmod 600 {}",
        .path.display(), shell_word(.path)
    )]
    ReadableByOthers {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// Larger than any such file can sensibly be.
    #[error("{} is larger than {limit} bytes, which no such file is", .path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The limit in bytes.
        limit: u64,
    },
    /// A list of keys that others can change.
    #[error(
        "others can change {} (mode {mode:04o}); run: chmod go-w {}",
        .path.display(), shell_word(.path)
    )]
    WritableByOthers {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
}

impl KeyError {
    /// The kind of failure that it is for a user.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::InvalidHost { .. } => ErrorKind::Usage,
            Self::Io { .. } | Self::RandomSource => ErrorKind::Io,
            _ => ErrorKind::Auth,
        }
    }

    /// Whether a file is simply not there.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound)
    }
}

impl From<KeyError> for Error {
    fn from(error: KeyError) -> Self {
        Self::new(error.kind(), error.to_string())
    }
}

/// The path as a word that a shell reads back unchanged.
fn shell_word(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+,:@%".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remedy_can_be_pasted() {
        let error = KeyError::ReadableByOthers {
            path: "/k/my key.pem".into(),
            mode: 0o644,
        };
        assert_eq!(
            error.to_string(),
            "others can read the private key /k/my key.pem (mode 0644); \
             run: chmod 600 '/k/my key.pem'"
        );
        assert_eq!(shell_word(Path::new("it's")), r"'it'\''s'");
    }
}
