//! Single files are looked at and read in a session that stays open, many at a time: what is asked, and the form of the answers.
//!
//! Questions are control messages; all answers go through one object of unknown length, so that the window of that object bounds
//! what is under way. docs/protocol.md section 16.7 specifies it.

use crate::plans::{PlanAnswer, PlanRequest};
use crate::resume::SourceIdentity;
use crate::{Misbehaved, PathBytes};
use serde::{Deserialize, Serialize};

/// Of what was asked and is not answered, as [`cost`] counts it, in bytes.
pub const OPEN_COST: u64 = 4 << 20;
/// Ranges of one question.
pub const RANGES_MAX: usize = 1024;
/// Questions of one message: as many as surely fit, in bytes of cost.
pub const MESSAGE_COST: u64 = 24 << 10;
/// The longest header of an answer, in bytes.
pub const HEADER_MAX: usize = 48 << 10;
/// The longest statement of a receipt, and the longest part of its list, in bytes.
pub const STATEMENT_MAX: usize = 32 << 10;

/// Which version of a file something is: equal as long as nobody writes to the file, replaces it or changes its attributes.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub struct FileVersion {
    /// Bytes.
    pub size: u64,
    /// Last modification of the content: seconds since 1970, and nanoseconds.
    pub modified: (i64, u32),
    /// Last change of content, name or attributes: seconds since 1970, and nanoseconds.
    pub changed: (i64, u32),
    /// Its number in its file system.
    pub inode: u64,
}

impl From<SourceIdentity> for FileVersion {
    fn from(identity: SourceIdentity) -> Self {
        Self {
            size: identity.size,
            modified: identity.mtime,
            changed: identity.ctime,
            inode: identity.inode,
        }
    }
}

impl From<FileVersion> for SourceIdentity {
    fn from(version: FileVersion) -> Self {
        Self {
            size: version.size,
            mtime: version.modified,
            ctime: version.changed,
            inode: version.inode,
        }
    }
}

/// What has a name.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[non_exhaustive]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link that leads out of what is served, or to nothing.
    Link,
    /// A device, a fifo, a socket.
    Other,
}

/// What is known of a file without reading it. A link that stays within what is served is what it leads to.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct FileInfo {
    /// What it is.
    pub kind: FileKind,
    /// The name is that of a symbolic link.
    pub is_link: bool,
    /// Size, times and number.
    pub version: FileVersion,
    /// Permission bits, if the server shows them.
    pub mode: Option<u32>,
    /// Numbers of owner and group, if the server shows them.
    pub owner: Option<(u32, u32)>,
}

/// What is known of a file, for the one who has looked at it.
pub fn info(
    kind: FileKind,
    is_link: bool,
    version: FileVersion,
    mode: Option<u32>,
    owner: Option<(u32, u32)>,
) -> FileInfo {
    FileInfo {
        kind,
        is_link,
        version,
        mode,
        owner,
    }
}

/// A name in a directory.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct DirEntry {
    /// The name alone.
    pub name: PathBytes,
    /// What it is.
    pub info: FileInfo,
}

/// A file that a receipt is to name.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct AttestedFile {
    /// Its path at the destination.
    pub path: PathBytes,
    /// Its path at the server; `None`: the place, with `path` behind it.
    pub at: Option<PathBytes>,
    /// Its size.
    pub bytes: u64,
    /// BLAKE3 of its content.
    pub blake3: [u8; 32],
}

/// What can be asked about files of another machine. Paths are as in a place on it: below what is served, or with ssh absolute or
/// relative to the home directory.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub enum FilesRequest {
    /// What is there?
    Stat {
        /// Of what.
        path: PathBytes,
    },
    /// What is in that directory?
    List {
        /// The directory.
        path: PathBytes,
    },
    /// The bytes of these ranges.
    Read {
        /// Of which file.
        path: PathBytes,
        /// Only if it is still this version of the file.
        version: Option<FileVersion>,
        /// First byte and number of bytes of each, at most 1,024. What lies behind the end of the file is left out.
        ranges: Vec<(u64, u64)>,
    },
    /// The BLAKE3 of a file.
    Hash {
        /// Of which file.
        path: PathBytes,
    },
    /// Make a directory.
    MakeDir {
        /// Its name.
        path: PathBytes,
        /// Also those that it lies in; then one that is there is no error.
        parents: bool,
    },
    /// Remove a file or link, or a directory that is empty.
    Remove {
        /// What.
        path: PathBytes,
        /// It is a directory.
        is_dir: bool,
    },
    /// Give another name to a file or directory; a file that has it is replaced.
    Rename {
        /// Of what.
        path: PathBytes,
        /// Its new name.
        to: PathBytes,
    },
    /// Read these files, which a receipt is to name, and hold them against what they should be. Whoever serves can refuse it without any, too.
    Attest {
        /// The directory below which they lie, as far as they do not say otherwise.
        place: PathBytes,
        /// Which part of the list they are, counted from 0.
        part: u32,
        /// The part; none asks whether a receipt would be signed.
        files: Vec<AttestedFile>,
    },
    /// Sign that all of the list was read and is so.
    Sign {
        /// The place of the list.
        place: PathBytes,
        /// What is to be signed, as far as the client knows it: a `Statement` as JSON.
        statement: Vec<u8>,
    },
    /// About the plan of a file that comes there; for the command alone.
    #[doc(hidden)]
    Plan(PlanRequest),
}

impl FilesRequest {
    /// The name that it is about.
    pub fn path(&self) -> &PathBytes {
        match self {
            Self::Stat { path }
            | Self::List { path }
            | Self::Read { path, .. }
            | Self::Hash { path }
            | Self::MakeDir { path, .. }
            | Self::Remove { path, .. }
            | Self::Rename { path, .. } => path,
            Self::Attest { place, .. } | Self::Sign { place, .. } => place,
            Self::Plan(request) => request.path(),
        }
    }

    /// Whether something is another one afterwards.
    pub fn changes(&self) -> bool {
        // A session that has read a part of a receipt is another one afterwards.
        match self {
            Self::Attest { .. } => true,
            Self::Plan(request) => request.changes(),
            _ => deed(self).is_some(),
        }
    }
}

/// What is written down of a change; `None`: nothing is another one afterwards.
pub fn deed(request: &FilesRequest) -> Option<&'static str> {
    match request {
        FilesRequest::Stat { .. }
        | FilesRequest::List { .. }
        | FilesRequest::Read { .. }
        | FilesRequest::Hash { .. }
        | FilesRequest::Attest { .. } => None,
        FilesRequest::Plan(request) => request.deed(),
        FilesRequest::Sign { .. } => Some("sign a receipt of"),
        FilesRequest::MakeDir { .. } => Some("make directory"),
        FilesRequest::Remove { .. } => Some("remove"),
        FilesRequest::Rename { .. } => Some("rename"),
    }
}

/// All names in it.
pub fn paths(request: &FilesRequest) -> Vec<PathBytes> {
    let to = match request {
        FilesRequest::Rename { to, .. } => Some(to.clone()),
        _ => None,
    };
    [request.path().clone()].into_iter().chain(to).collect()
}

/// What it takes of the [bound of what is open](OPEN_COST), in bytes. Both sides count the same.
pub fn cost(request: &FilesRequest) -> u64 {
    let ranges = match request {
        FilesRequest::Read { ranges, .. } => ranges.len(),
        _ => 0,
    };
    let names: usize = paths(request)
        .iter()
        .map(|path| path.as_bytes().len())
        .sum();
    let plan = match request {
        FilesRequest::Plan(request) => request.cost(),
        _ => 0,
    };
    (64 + names + 20 * ranges + plan + receipt_cost(request)) as u64
}

/// What a question for a receipt costs besides its names, in bytes.
fn receipt_cost(request: &FilesRequest) -> usize {
    match request {
        FilesRequest::Attest { files, .. } => {
            let each = files.iter().map(|file| {
                let at = file.at.as_ref().map_or(0, |at| at.as_bytes().len());
                64 + file.path.as_bytes().len() + at
            });
            each.sum()
        }
        FilesRequest::Sign { statement, .. } => statement.len(),
        _ => 0,
    }
}

/// Refuses what nobody may ask in one question.
///
/// # Errors
///
/// It is too long.
pub fn check(request: &FilesRequest) -> Result<(), Misbehaved> {
    match request {
        FilesRequest::Read { ranges, .. } if ranges.len() > RANGES_MAX => Err(Misbehaved::new(
            "the client asks for too many ranges at a time",
        )),
        FilesRequest::Attest { .. } | FilesRequest::Sign { .. }
            if receipt_cost(request) > STATEMENT_MAX =>
        {
            Err(Misbehaved::new(
                "the client asks for too much of a receipt at a time",
            ))
        }
        _ => Ok(()),
    }
}

/// What stands before the bytes of an answer, or is one.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Header {
    /// Of the question.
    pub id: u64,
    /// What it says.
    pub part: Part,
}

/// A part of an answer.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum Part {
    /// So many bytes of that range follow; those of a range come in order.
    Bytes {
        /// Its number among those that were asked for.
        range: u32,
        /// How many.
        len: u32,
    },
    /// That was all of these bytes, of this version of the file.
    Read {
        /// The version.
        version: FileVersion,
    },
    /// More of a directory.
    Entries(Vec<DirEntry>),
    /// What it is.
    Info(FileInfo),
    /// BLAKE3.
    Hash {
        /// The hash.
        blake3: [u8; 32],
        /// Of which version of the file.
        version: FileVersion,
    },
    /// That was all.
    Done,
    /// It failed; nothing more comes of this question.
    Failed {
        /// The number of a [`FailureKind`](crate::FailureKind).
        kind: u8,
        /// For people.
        message: String,
    },
    /// What was signed, and the signature.
    Signed {
        /// The statement as JSON.
        statement: Vec<u8>,
        /// Of the server's key.
        signature: Vec<u8>,
    },
    /// About a plan.
    Plan(PlanAnswer),
}

impl Header {
    /// Its length, and itself.
    ///
    /// # Panics
    ///
    /// It is longer than 4 GiB: no part of an answer is.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = postcard::to_extend(self, vec![0; 4]).expect("it is plain data");
        let len = u32::try_from(bytes.len() - 4).expect("parts are short");
        bytes[..4].copy_from_slice(&len.to_be_bytes());
        bytes
    }

    /// How long a header is that begins with these bytes, in bytes behind them.
    ///
    /// # Errors
    ///
    /// It is longer than one may be.
    pub fn length(bytes: [u8; 4]) -> Result<usize, Misbehaved> {
        let len = u32::from_be_bytes(bytes) as usize;
        if len > HEADER_MAX {
            return Err(Misbehaved::new("an answer has a header that is too long"));
        }
        Ok(len)
    }

    /// Reads one from the bytes behind its length. What a newer server says behind it is passed over.
    ///
    /// # Errors
    ///
    /// It makes no sense.
    pub fn decode(bytes: &[u8]) -> Result<Self, Misbehaved> {
        let read = postcard::take_from_bytes(bytes).map(|(header, _)| header);
        read.map_err(|_| Misbehaved::new("an answer about a file makes no sense"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a75_headers_come_back_as_they_were_and_others_are_refused() {
        let version = FileVersion {
            size: 7,
            modified: (-1, 5),
            changed: (2, 3),
            inode: 9,
        };
        let info = FileInfo {
            kind: FileKind::Directory,
            is_link: true,
            version,
            mode: Some(0o755),
            owner: None,
        };
        for part in [
            Part::Bytes { range: 3, len: 9 },
            Part::Read { version },
            Part::Entries(vec![DirEntry {
                name: "x".into(),
                info,
            }]),
            Part::Info(info),
            Part::Hash {
                blake3: [7; 32],
                version,
            },
            Part::Done,
            Part::Failed {
                kind: 1,
                message: "no".to_owned(),
            },
        ] {
            let header = Header { id: 300, part };
            let bytes = header.encode();
            let (len, rest) = bytes.split_first_chunk().unwrap();
            assert_eq!(Header::length(*len).unwrap(), rest.len());
            assert_eq!(Header::decode(rest).unwrap(), header);
            assert!(Header::decode(&rest[..rest.len() - 1]).is_err());
            // A newer one says more.
            assert_eq!(Header::decode(&[rest, &[7]].concat()).unwrap(), header);
        }
        assert!(Header::length([0, 1, 0, 0]).is_err());
        assert!(Header::decode(&[0xff]).is_err());
    }
}
