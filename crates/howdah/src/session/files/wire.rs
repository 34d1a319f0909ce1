//! What is asked about files, and the form of the answers.

use super::attest::{self, AttestedFile};
use super::{HEADER_MAX, protocol};
use crate::session::plans::{PlanAnswer, PlanRequest};
use crate::{Error, PathBytes};
use howdah_store::{Found, FoundKind, Metadata, SourceIdentity};
use serde::{Deserialize, Serialize};
use std::io::{self, Read};

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

impl FileInfo {
    /// What somebody is shown who may know that much.
    pub(crate) fn shown(found: &Found, shows: Metadata) -> Self {
        let bits = if shows >= Metadata::All {
            0o7777
        } else {
            0o777
        };
        Self {
            kind: match found.kind {
                FoundKind::File => FileKind::File,
                FoundKind::Directory => FileKind::Directory,
                FoundKind::Link => FileKind::Link,
                FoundKind::Other => FileKind::Other,
            },
            is_link: found.is_link,
            version: found.identity.into(),
            mode: (shows >= Metadata::Modes).then_some(found.mode & bits),
            owner: (shows >= Metadata::All).then_some((found.uid, found.gid)),
        }
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
        /// What is to be signed, as far as the client knows it: a [`Statement`](crate::Statement) as JSON.
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
        self.deed().is_some() || matches!(self, Self::Attest { .. })
    }

    /// What is written down of a change.
    pub(crate) fn deed(&self) -> Option<&'static str> {
        match self {
            Self::Stat { .. }
            | Self::List { .. }
            | Self::Read { .. }
            | Self::Hash { .. }
            | Self::Attest { .. } => None,
            Self::Plan(request) => request.deed(),
            Self::Sign { .. } => Some("sign a receipt of"),
            Self::MakeDir { .. } => Some("make directory"),
            Self::Remove { .. } => Some("remove"),
            Self::Rename { .. } => Some("rename"),
        }
    }

    /// All names in it.
    pub(crate) fn paths(&self) -> Vec<PathBytes> {
        let to = match self {
            Self::Rename { to, .. } => Some(to.clone()),
            _ => None,
        };
        [self.path().clone()].into_iter().chain(to).collect()
    }

    /// What it takes of the bound of what is open. Both sides count the same.
    pub(crate) fn cost(&self) -> u64 {
        let ranges = match self {
            Self::Read { ranges, .. } => ranges.len(),
            _ => 0,
        };
        let plan = match self {
            Self::Plan(request) => request.cost(),
            _ => 0,
        };
        let names: usize = self.paths().iter().map(|path| path.as_bytes().len()).sum();
        (64 + names + 20 * ranges + plan + attest::cost(self)) as u64
    }
}

/// What stands before the bytes of an answer, or is one.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Header {
    /// Of the question.
    pub(crate) id: u64,
    pub(crate) part: Part,
}

#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) enum Part {
    /// So many bytes of that range follow; those of a range come in order.
    Bytes { range: u32, len: u32 },
    /// That was all of these bytes, of this version of the file.
    Read { version: FileVersion },
    /// More of a directory.
    Entries(Vec<DirEntry>),
    /// What it is.
    Info(FileInfo),
    /// BLAKE3.
    Hash {
        blake3: [u8; 32],
        version: FileVersion,
    },
    /// That was all.
    Done,
    /// It failed; nothing more comes of this question.
    Failed { kind: u8, message: String },
    /// What was signed, and the signature.
    Signed {
        statement: Vec<u8>,
        signature: Vec<u8>,
    },
    /// About a plan.
    Plan(PlanAnswer),
}

impl Header {
    /// Its length, and itself.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = postcard::to_extend(self, vec![0; 4]).expect("it is plain data");
        let len = (bytes.len() - 4) as u32;
        bytes[..4].copy_from_slice(&len.to_be_bytes());
        bytes
    }

    /// The next one; `None` at the end.
    pub(crate) fn read(from: &mut impl Read) -> io::Result<Option<Result<Self, Error>>> {
        let mut len = [0; 4];
        match from.read(&mut len[..1])? {
            0 => return Ok(None),
            _ => from.read_exact(&mut len[1..])?,
        }
        let len = u32::from_be_bytes(len) as usize;
        if len > HEADER_MAX {
            return Ok(Some(Err(protocol(
                "an answer has a header that is too long",
            ))));
        }
        let mut bytes = vec![0; len];
        from.read_exact(&mut bytes)?;
        // What a newer server says behind it is passed over.
        let read = postcard::take_from_bytes(&bytes).map(|(header, _)| header);
        let wrong = |_| protocol("an answer about a file makes no sense");
        Ok(Some(read.map_err(wrong)))
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
            let read = Header::read(&mut &bytes[..]).unwrap().unwrap().unwrap();
            assert_eq!(read, header);
            assert!(Header::read(&mut &bytes[..bytes.len() - 1]).is_err());
        }
        assert!(Header::read(&mut &[0u8; 0][..]).unwrap().is_none());
        let long = Header::read(&mut &[0u8, 1, 0, 0][..]).unwrap().unwrap();
        assert!(long.is_err());
        let nonsense = Header::read(&mut &[0u8, 0, 0, 1, 0xff][..])
            .unwrap()
            .unwrap();
        assert!(nonsense.is_err());
    }
}
