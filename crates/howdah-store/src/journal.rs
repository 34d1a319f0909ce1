//! What of an unfinished file is right and on the disk, in a file beside it.
//!
//! ```text
//! record := length u32 | body | check: 16 bytes        integers are little endian
//! check  := first 16 bytes of BLAKE3(check of the record before | length | body)
//! first body: magic, the source's identity, the part file's identity, the host
//! other bodies: (level u8 | index u64 | value 32 bytes)*    subtrees of the source's BLAKE3 tree
//! ```
//!
//! The order makes it true: a record is appended after the data that it speaks of was synced, the
//! first time that was tried, and it is synced itself. A record that is cut short or damaged ends
//! the journal: it and what follows are as if they had not been written. Checks are chained, so
//! that no record can stand anywhere but in its own place.

use crate::SourceIdentity;
use crate::calls::retry;
use crate::descriptors::opened;
use crate::tree::{MAX_LEVEL, Node};
use howdah_core::{ByteRange, RangeSet};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Mode, OFlags};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::{FileExt, MetadataExt};

const MAGIC: &[u8; 8] = b"howdahJ1";
const CHECK: usize = 16;
/// level, index, value.
const NODE: usize = 1 + 8 + 32;
/// Nodes of one record.
const MAX_NODES: usize = 16_384;
/// Longest body, in bytes; a longer one is damage.
const MAX_BODY: usize = NODE * MAX_NODES;
/// Longest name of a host that is kept, in bytes.
const MAX_HOST: usize = 64;
/// Separate ranges that a resumed copy begins with: they must fit into one message. What lies
/// behind is sent again.
pub(crate) const MAX_RANGES: usize = 4_096;

/// The part file that a journal speaks of. Numbers of inodes are used again, times of birth are not.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct PartId {
    inode: u64,
    /// Nanoseconds since 1970; 0 where the file system does not tell.
    born: u128,
}

impl PartId {
    pub(crate) fn of(file: &File) -> io::Result<Self> {
        let meta = file.metadata()?;
        let born = meta.created().ok().and_then(|at| {
            let since = at.duration_since(std::time::UNIX_EPOCH).ok()?;
            Some(since.as_nanos())
        });
        Ok(Self {
            inode: meta.ino(),
            born: born.unwrap_or(0),
        })
    }
}

/// The first record.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Header {
    pub(crate) source: SourceIdentity,
    pub(crate) part: PartId,
    /// Who writes: on a file system that several hosts have mounted, only that one goes on.
    pub(crate) host: Vec<u8>,
}

impl Header {
    pub(crate) fn new(source: SourceIdentity, part: PartId) -> Self {
        let mut host = rustix::system::uname().nodename().to_bytes().to_vec();
        host.truncate(MAX_HOST);
        Self { source, part, host }
    }

    pub(crate) fn is_of_this_host(&self) -> bool {
        Self::new(self.source, self.part).host == self.host
    }

    fn encode(&self) -> Vec<u8> {
        let mut body = MAGIC.to_vec();
        let SourceIdentity {
            size,
            mtime,
            ctime,
            inode,
        } = self.source;
        body.extend(size.to_le_bytes());
        for (seconds, nanos) in [mtime, ctime] {
            body.extend(seconds.to_le_bytes());
            body.extend(nanos.to_le_bytes());
        }
        body.extend(inode.to_le_bytes());
        body.extend(self.part.inode.to_le_bytes());
        body.extend(self.part.born.to_le_bytes());
        body.push(self.host.len() as u8);
        body.extend(&self.host);
        body
    }

    fn decode(body: &[u8]) -> Option<Self> {
        let mut body = Bytes(body);
        if body.take()? != *MAGIC {
            return None;
        }
        let source = SourceIdentity {
            size: u64::from_le_bytes(body.take()?),
            mtime: (
                i64::from_le_bytes(body.take()?),
                u32::from_le_bytes(body.take()?),
            ),
            ctime: (
                i64::from_le_bytes(body.take()?),
                u32::from_le_bytes(body.take()?),
            ),
            inode: u64::from_le_bytes(body.take()?),
        };
        let part = PartId {
            inode: u64::from_le_bytes(body.take()?),
            born: u128::from_le_bytes(body.take()?),
        };
        let [len] = body.take()?;
        let host = body.0.to_vec();
        (host.len() == usize::from(len) && host.len() <= MAX_HOST).then_some(Self {
            source,
            part,
            host,
        })
    }
}

struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*head)
    }
}

/// What a journal says, as far as it can be believed.
#[derive(Debug)]
pub(crate) struct Contents {
    pub(crate) header: Header,
    pub(crate) nodes: Vec<Node>,
    /// The bytes below the nodes.
    pub(crate) ranges: RangeSet,
    /// Where the next record goes, and the check before it.
    end: u64,
    chain: [u8; CHECK],
}

/// Reads as far as everything is right. `None`: not even the header is, or it is not the one that is wanted, which costs no
/// look at the rest.
pub(crate) fn read(input: impl Read, wanted: impl FnOnce(&Header) -> bool) -> Option<Contents> {
    let mut input = BufReader::with_capacity(1 << 16, input);
    let mut chain = [0; CHECK];
    let body = next_body(&mut input, &mut chain)?;
    let header = Header::decode(&body).filter(wanted)?;
    let mut contents = Contents {
        header,
        nodes: Vec::new(),
        ranges: RangeSet::new(),
        end: (4 + body.len() + CHECK) as u64,
        chain,
    };
    let size = contents.header.source.size;
    'records: while let Some(body) = next_body(&mut input, &mut chain) {
        let before = contents.nodes.len();
        let mut rest = Bytes(&body);
        while !rest.0.is_empty() {
            if contents.add(&mut rest, size).is_none() {
                contents.take_back(before);
                break 'records;
            }
        }
        contents.end += (4 + body.len() + CHECK) as u64;
        contents.chain = chain;
    }
    contents.cut_to(MAX_RANGES);
    Some(contents)
}

fn decode_node(bytes: &mut Bytes<'_>) -> Option<Node> {
    let [level] = bytes.take()?;
    Some(Node {
        level,
        index: u64::from_le_bytes(bytes.take()?),
        value: bytes.take()?,
    })
}

/// The next record's body; `None` at the end, also at one that nobody meant.
fn next_body(input: &mut impl Read, chain: &mut [u8; CHECK]) -> Option<Vec<u8>> {
    let mut head = [0; 4];
    input.read_exact(&mut head).ok()?;
    let len = u32::from_le_bytes(head) as usize;
    if len > MAX_BODY {
        return None;
    }
    let mut body = vec![0; len];
    input.read_exact(&mut body).ok()?;
    let mut check = [0; CHECK];
    input.read_exact(&mut check).ok()?;
    let expected = check_of(chain, &body);
    if check != expected {
        return None;
    }
    *chain = expected;
    Some(body)
}

fn check_of(chain: &[u8; CHECK], body: &[u8]) -> [u8; CHECK] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(chain);
    hasher.update(&(body.len() as u32).to_le_bytes());
    hasher.update(body);
    let mut check = [0; CHECK];
    check.copy_from_slice(&hasher.finalize().as_bytes()[..CHECK]);
    check
}

impl Contents {
    /// Takes the next node in; `None` if it cannot be.
    fn add(&mut self, rest: &mut Bytes<'_>, size: u64) -> Option<()> {
        let node = decode_node(rest).filter(|node| node.level <= MAX_LEVEL)?;
        let range = node.range().filter(|range| range.end <= size)?;
        let overlaps = || self.ranges.missing(range).next() != Some(range);
        if self.ranges.contains(range) {
            // Claimed before: sent again after it could not be told.
            return Some(());
        }
        if overlaps() {
            return None;
        }
        self.ranges.insert(range);
        self.nodes.push(node);
        Some(())
    }

    /// Forgets the nodes from there on: the record that they stand in is not right.
    fn take_back(&mut self, from: usize) {
        for node in self.nodes.drain(from..) {
            if let Some(range) = node.range() {
                self.ranges.remove(range);
            }
        }
    }

    /// Leaves at most that many ranges.
    fn cut_to(&mut self, max: usize) {
        let Some(start) = self.ranges.iter().nth(max).map(|range| range.start) else {
            return;
        };
        self.ranges.remove(ByteRange::new(start, u64::MAX));
        let below = |node: &Node| node.range().is_some_and(|range| range.start < start);
        self.nodes.retain(below);
    }
}

/// A journal that is being written.
#[derive(Debug)]
pub(crate) struct Journal {
    file: File,
    end: u64,
    chain: [u8; CHECK],
}

const FLAGS: OFlags = OFlags::RDWR
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

impl Journal {
    /// Begins a journal; one that has the name is of no use any more. It and the part file keep
    /// their names through a power cut.
    pub(crate) fn create(dir: &OwnedFd, name: &OsStr, header: &Header) -> io::Result<Self> {
        let _ = rustix::fs::unlinkat(dir, name, AtFlags::empty());
        let flags = FLAGS | OFlags::CREATE | OFlags::EXCL;
        let mode = Mode::RUSR | Mode::WUSR;
        let fd = opened(|| rustix::fs::openat(dir, name, flags, mode))?;
        let mut journal = Self {
            file: File::from(fd),
            end: 0,
            chain: [0; CHECK],
        };
        journal.write(&header.encode())?;
        journal.file.sync_data()?;
        match retry(|| rustix::fs::fsync(dir)) {
            // Some network and FUSE file systems have no fsync for directories.
            Ok(()) | Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOTSUP) => Ok(journal),
            Err(e) => Err(e.into()),
        }
    }

    fn open_file(dir: &OwnedFd, name: &OsStr) -> Option<File> {
        let fd = opened(|| rustix::fs::openat(dir, name, FLAGS, Mode::empty())).ok()?;
        let stat = rustix::fs::fstat(&fd).ok()?;
        crate::ours::is_ours(dir, &stat).then(|| File::from(fd))
    }

    /// The source that the journal of that name says `part` comes from.
    pub(crate) fn source_of(dir: &OwnedFd, name: &OsStr, part: &File) -> Option<SourceIdentity> {
        let file = Self::open_file(dir, name)?;
        let part = PartId::of(part).ok()?;
        let body = next_body(&mut &file, &mut [0; CHECK])?;
        let header = Header::decode(&body).filter(|header| header.part == part)?;
        Some(header.source)
    }

    /// Reads the journal of that name; `None` if there is none, or none that is ours, whole and about `part`.
    pub(crate) fn open(dir: &OwnedFd, name: &OsStr, part: &File) -> Option<(Self, Contents)> {
        let file = Self::open_file(dir, name)?;
        let part = PartId::of(part).ok()?;
        let contents = read(&file, |header| header.part == part)?;
        let journal = Self {
            file,
            end: contents.end,
            chain: contents.chain,
        };
        Some((journal, contents))
    }

    /// What was torn behind the last whole record goes.
    pub(crate) fn cut(&self) -> io::Result<()> {
        self.file.set_len(self.end)
    }

    /// Adds verified subtrees, whose data is on the disk already. After an error no more may be
    /// added: nobody knows what the file holds.
    pub(crate) fn append(&mut self, nodes: &[Node]) -> io::Result<()> {
        for nodes in nodes.chunks(MAX_NODES) {
            let mut body = Vec::with_capacity(nodes.len() * NODE);
            for node in nodes {
                body.push(node.level);
                body.extend(node.index.to_le_bytes());
                body.extend(node.value);
            }
            self.write(&body)?;
        }
        self.file.sync_data()
    }

    fn write(&mut self, body: &[u8]) -> io::Result<()> {
        let check = check_of(&self.chain, body);
        let mut record = Vec::with_capacity(4 + body.len() + CHECK);
        record.extend((body.len() as u32).to_le_bytes());
        record.extend(body);
        record.extend(check);
        self.file.write_all_at(&record, self.end)?;
        self.end += record.len() as u64;
        self.chain = check;
        Ok(())
    }
}

#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;

/// Whether the file that a journal was written for has what it claims.
pub(crate) fn speaks_of(past: &Contents, part: &File) -> bool {
    let len = part.metadata().map_or(0, |meta| meta.len());
    past.ranges.end() <= len && !past.ranges.is_empty()
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
