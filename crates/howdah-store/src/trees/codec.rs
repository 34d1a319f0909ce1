//! The three streams as bytes. docs/trees.md is their specification.

use super::pipe::{Spout, Tap};
use crate::StoreError;
use howdah_session::Change;
use howdah_session::entry::{DirId, Entry, Meta, Other, Stamp, bounds};
use howdah_session::naming::bad_name;
use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::OsStringExt as _;

/// First byte of each stream.
const VERSION: u8 = 1;

const END: u8 = 0;
const DIR: u8 = 1;
const UP: u8 = 2;
const FILE: u8 = 3;
const SYMLINK: u8 = 4;
const LINK: u8 = 5;
const KEPT: u8 = 6;
const TOP: u8 = 7;
const OWNER: u8 = 8;
// In comparisons only.
const OTHER: u8 = 9;
const AHEAD: u8 = 10;
const GAP: u8 = 11;
const PLACE: u8 = 12;
const UNREAD: u8 = 13;
/// The lower bits of a record's first byte.
const KIND: u8 = 0x0f;
/// It names its owner; without, it is that of the record before.
const HAS_OWNER: u8 = 0x10;
const HAS_XATTRS: u8 = 0x20;
/// A file with a link number.
const HAS_LINK: u8 = 0x40;
/// A file with a BLAKE3; or: everything was readable; or: the last name of that file.
const HAS_HASH: u8 = 0x80;
const COMPLETE: u8 = 0x80;
const LAST: u8 = 0x80;

/// What the peer sent makes no sense.
pub(crate) fn refused(what: impl Into<String>) -> StoreError {
    StoreError::BadTree { what: what.into() }
}

fn ended(error: &io::Error) -> StoreError {
    // The stream's end belongs to the connection, which says why.
    let _ = error;
    StoreError::Aborted
}

pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(crate) fn get_varint(from: &mut Spout) -> Result<u64, StoreError> {
    let mut value = 0u64;
    for shift in (0..).step_by(7) {
        let byte = from.byte().map_err(|e| ended(&e))?;
        let part = u64::from(byte & 0x7f);
        if shift >= 64 || (part << shift) >> shift != part {
            return Err(refused("a number has more than 64 bits"));
        }
        value |= part << shift;
        if byte < 0x80 {
            break;
        }
    }
    Ok(value)
}

fn zigzag(value: i64) -> u64 {
    (value.wrapping_shl(1) ^ (value >> 63)).cast_unsigned()
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -(value & 1).cast_signed()
}

fn get_bytes(from: &mut Spout, len: usize) -> Result<Vec<u8>, StoreError> {
    #[cfg(test)]
    tests::count(len);
    let mut bytes = vec![0; len];
    from.read_exact(&mut bytes).map_err(|e| ended(&e))?;
    Ok(bytes)
}

/// Bytes behind their length, which is at most `max`.
fn get_short(from: &mut Spout, max: usize, what: &str) -> Result<Vec<u8>, StoreError> {
    let len = get_varint(from)?;
    match usize::try_from(len) {
        Ok(len) if len <= max => get_bytes(from, len),
        _ => Err(refused(format!("{what} is longer than {max} bytes"))),
    }
}

fn put_short(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// What both ends remember from record to record.
#[derive(Debug, Default)]
struct Memory {
    name: Vec<u8>,
    secs: i64,
    owner: Option<(u32, u32)>,
}

/// Writes a manifest.
#[derive(Debug)]
pub(crate) struct ManifestWriter {
    tap: Tap,
    out: Vec<u8>,
    memory: Memory,
}

impl ManifestWriter {
    pub(crate) fn new(mut tap: Tap) -> io::Result<Self> {
        tap.put(&[VERSION])?;
        Ok(Self {
            tap,
            out: Vec::new(),
            memory: Memory::default(),
        })
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.tap.flush()
    }

    pub(crate) fn put(&mut self, entry: &Entry) -> io::Result<()> {
        self.out.clear();
        self.encode(entry);
        self.tap.put(&self.out)
    }

    fn encode(&mut self, entry: &Entry) {
        match entry {
            Entry::Dir { name, meta } => {
                self.start(DIR, meta, 0);
                self.name(name);
                self.meta(meta);
            }
            Entry::Top { meta } => {
                self.start(TOP, meta, 0);
                self.meta(meta);
            }
            Entry::Up { complete } => self.out.push(UP | if *complete { COMPLETE } else { 0 }),
            Entry::End { complete } => self.out.push(END | if *complete { COMPLETE } else { 0 }),
            Entry::File {
                name,
                size,
                meta,
                link,
                hash,
            } => {
                let mut flags = 0;
                if link.is_some() {
                    flags |= HAS_LINK;
                }
                if hash.is_some() {
                    flags |= HAS_HASH;
                }
                self.start(FILE, meta, flags);
                self.name(name);
                put_varint(&mut self.out, *size);
                self.meta(meta);
                if let Some(link) = link {
                    put_varint(&mut self.out, *link);
                }
                if let Some(hash) = hash {
                    self.out.extend_from_slice(hash);
                }
            }
            Entry::Symlink { name, target, meta } => {
                self.start(SYMLINK, meta, 0);
                self.name(name);
                put_short(&mut self.out, target);
                self.meta(meta);
            }
            Entry::Link { name, link, last } => {
                self.out.push(LINK | if *last { LAST } else { 0 });
                self.name(name);
                put_varint(&mut self.out, *link);
            }
            Entry::Kept { name } => {
                self.out.push(KEPT);
                self.name(name);
            }
            Entry::Owner { group, id, name } => {
                self.out.push(OWNER);
                self.out.push(u8::from(*group));
                put_varint(&mut self.out, (*id).into());
                put_short(&mut self.out, name);
            }
            Entry::Other { name, what } => {
                self.out.push(OTHER);
                self.name(name);
                self.out.push(*what as u8);
            }
            Entry::Ahead { name } => {
                self.out.push(AHEAD);
                self.name(name);
            }
            Entry::Gap => self.out.push(GAP),
            Entry::Unread => self.out.push(UNREAD),
            Entry::Place { id } => {
                self.out.push(PLACE);
                for number in [id.system, id.device, id.inode] {
                    put_varint(&mut self.out, number);
                }
            }
        }
    }

    fn start(&mut self, kind: u8, meta: &Meta, flags: u8) {
        let mut first = kind | flags;
        if meta.owner != self.memory.owner {
            first |= HAS_OWNER;
        }
        if !meta.xattrs.is_empty() {
            first |= HAS_XATTRS;
        }
        self.out.push(first);
    }

    /// What it has in common with the name before, and the rest.
    fn name(&mut self, name: &[u8]) {
        let before = &mut self.memory.name;
        let common = name.iter().zip(&*before).take_while(|(a, b)| a == b);
        let common = common.count().min(bounds::NAME);
        self.out.push(common as u8);
        put_short(&mut self.out, &name[common..]);
        before.clear();
        before.extend_from_slice(name);
    }

    fn meta(&mut self, meta: &Meta) {
        let out = &mut self.out;
        put_varint(out, meta.mode.into());
        put_varint(out, zigzag(meta.mtime.secs.wrapping_sub(self.memory.secs)));
        put_varint(out, meta.mtime.nanos.into());
        self.memory.secs = meta.mtime.secs;
        if meta.owner != self.memory.owner {
            // 0 takes the owner away.
            let (user, group) = meta.owner.unwrap_or_default();
            put_varint(out, meta.owner.map_or(0, |_| u64::from(user) + 1));
            put_varint(out, group.into());
            self.memory.owner = meta.owner;
        }
        if !meta.xattrs.is_empty() {
            put_varint(out, meta.xattrs.len() as u64);
            for (name, value) in &meta.xattrs {
                put_short(out, name);
                put_short(out, value);
            }
        }
    }
}

/// Reads a manifest and refuses what must not be in one.
#[derive(Debug)]
pub(crate) struct ManifestReader {
    spout: Spout,
    memory: Memory,
    levels: Vec<Level>,
    /// Bytes of the path of the directory that it is in.
    path_bytes: usize,
    /// The version has been read.
    started: bool,
    /// Something has been told.
    begun: bool,
}

/// What was the last name in a directory: the next one must come after it, so there are no two of the
/// same name.
#[derive(Debug, Default)]
struct Level {
    other: Option<Vec<u8>>,
    dir: Option<Vec<u8>>,
    name_bytes: usize,
}

impl ManifestReader {
    pub(crate) fn new(spout: Spout) -> Self {
        Self {
            spout,
            memory: Memory::default(),
            levels: vec![Level::default()],
            path_bytes: 0,
            started: false,
            begun: false,
        }
    }

    /// Whether [`next`](Self::next) has something to begin with.
    pub(crate) fn is_ready(&mut self) -> bool {
        self.spout.is_ready()
    }

    pub(crate) fn next(&mut self) -> Result<Entry, StoreError> {
        if !self.started {
            self.started = true;
            expect_version(&mut self.spout)?;
        }
        let first = self.spout.byte().map_err(|e| ended(&e))?;
        let first_record = !self.begun;
        // Names of owners may stand before everything, and which directory it is.
        self.begun |= !matches!(first & KIND, OWNER | PLACE);
        match first & KIND {
            END if self.levels.len() == 1 => Ok(Entry::End {
                complete: first & COMPLETE != 0,
            }),
            END => Err(refused("it ends inside of a directory")),
            UP => {
                let level = self.levels.pop();
                if self.levels.is_empty() {
                    return Err(refused("it leaves the top directory"));
                }
                self.path_bytes -= level.map_or(0, |level| level.name_bytes);
                let complete = first & COMPLETE != 0;
                Ok(Entry::Up { complete })
            }
            TOP if first_record => Ok(Entry::Top {
                meta: self.meta(first)?,
            }),
            TOP => Err(refused("the top directory is not at its beginning")),
            DIR => {
                let name = self.name(true)?;
                let meta = self.meta(first)?;
                if self.levels.len() > bounds::DEPTH {
                    return Err(refused(format!(
                        "directories lie more than {} deep",
                        bounds::DEPTH
                    )));
                }
                let name_bytes = name.len() + 1;
                self.path_bytes += name_bytes;
                self.levels.push(Level {
                    name_bytes,
                    ..Level::default()
                });
                Ok(Entry::Dir { name, meta })
            }
            FILE => {
                let name = self.name(false)?;
                let size = get_varint(&mut self.spout)?;
                if size > bounds::SIZE {
                    return Err(refused(format!("a file of {size} bytes")));
                }
                let meta = self.meta(first)?;
                let link = (first & HAS_LINK != 0).then(|| get_varint(&mut self.spout));
                let link = link.transpose()?;
                let mut hash = None;
                if first & HAS_HASH != 0 {
                    let mut bytes = [0; 32];
                    let read = self.spout.read_exact(&mut bytes);
                    read.map_err(|e| ended(&e))?;
                    hash = Some(bytes);
                }
                Ok(Entry::File {
                    name,
                    size,
                    meta,
                    link,
                    hash,
                })
            }
            SYMLINK => {
                let name = self.name(false)?;
                let target = get_short(&mut self.spout, bounds::TARGET, "a link's target")?;
                if target.is_empty() || target.contains(&0) {
                    return Err(refused("a link's target is empty or contains a NUL byte"));
                }
                let meta = self.meta(first)?;
                Ok(Entry::Symlink { name, target, meta })
            }
            LINK => {
                let name = self.name(false)?;
                let link = get_varint(&mut self.spout)?;
                let last = first & LAST != 0;
                Ok(Entry::Link { name, link, last })
            }
            KEPT => Ok(Entry::Kept {
                name: self.name(false)?,
            }),
            OWNER => {
                let group = self.spout.byte().map_err(|e| ended(&e))? != 0;
                let id = self.id()?;
                let name = get_short(&mut self.spout, bounds::OWNER, "a user's name")?;
                Ok(Entry::Owner { group, id, name })
            }
            OTHER => {
                let name = self.name(false)?;
                let what = self.spout.byte().map_err(|e| ended(&e))?;
                let what = Other::ALL.get(usize::from(what)).copied();
                let what = what.ok_or_else(|| refused("something of no known kind"))?;
                Ok(Entry::Other { name, what })
            }
            AHEAD => Ok(Entry::Ahead {
                name: self.name(false)?,
            }),
            GAP => Ok(Entry::Gap),
            UNREAD => Ok(Entry::Unread),
            PLACE => {
                let [system, device, inode] = [
                    get_varint(&mut self.spout)?,
                    get_varint(&mut self.spout)?,
                    get_varint(&mut self.spout)?,
                ];
                let id = DirId {
                    system,
                    device,
                    inode,
                };
                Ok(Entry::Place { id })
            }
            kind => Err(refused(format!("a record of unknown kind {kind}"))),
        }
    }

    fn id(&mut self) -> Result<u32, StoreError> {
        let id = get_varint(&mut self.spout)?;
        u32::try_from(id).map_err(|_| refused("a user's number has more than 32 bits"))
    }

    fn name(&mut self, is_dir: bool) -> Result<Vec<u8>, StoreError> {
        let common = usize::from(self.spout.byte().map_err(|e| ended(&e))?);
        let rest = get_short(&mut self.spout, bounds::NAME, "a name")?;
        let Some(common) = self.memory.name.get(..common) else {
            return Err(refused("a name has more in common than there is"));
        };
        let name = [common, &rest].concat();
        // Looked through for what must not be in it, compared, and kept twice.
        #[cfg(test)]
        tests::count(4 * name.len());
        if let Some(reason) = bad_name(&name) {
            return Err(refused(format!("the name {:?}: {reason}", shown(&name))));
        }
        if self.path_bytes + name.len() > bounds::PATH {
            return Err(refused(format!(
                "a path ending in {:?} is longer than {} bytes",
                shown(&name),
                bounds::PATH
            )));
        }
        if let Some(level) = self.levels.last_mut() {
            let last = if is_dir {
                &mut level.dir
            } else if level.dir.is_some() {
                return Err(refused(format!(
                    "the name {:?} stands behind a directory",
                    shown(&name)
                )));
            } else {
                &mut level.other
            };
            if last.as_ref().is_some_and(|last| *last >= name) {
                return Err(refused(format!(
                    "the name {:?} comes twice or out of order",
                    shown(&name)
                )));
            }
            *last = Some(name.clone());
        }
        self.memory.name.clone_from(&name);
        Ok(name)
    }

    fn meta(&mut self, first: u8) -> Result<Meta, StoreError> {
        let mode = get_varint(&mut self.spout)?;
        let secs = unzigzag(get_varint(&mut self.spout)?);
        let nanos = get_varint(&mut self.spout)?;
        if mode > 0o7777 || nanos >= 1_000_000_000 {
            return Err(refused("a mode or a time that cannot be"));
        }
        let secs = self.memory.secs.wrapping_add(secs);
        self.memory.secs = secs;
        if first & HAS_OWNER != 0 {
            let user = get_varint(&mut self.spout)?;
            let group = self.id()?;
            let user = user.checked_sub(1).map(u32::try_from).transpose();
            let user = user.map_err(|_| refused("a user's number has more than 32 bits"))?;
            self.memory.owner = user.map(|user| (user, group));
        }
        let mut xattrs = Vec::new();
        if first & HAS_XATTRS != 0 {
            let count = get_varint(&mut self.spout)?;
            if count > bounds::XATTRS {
                return Err(refused("more than 64 extended attributes of one file"));
            }
            for _ in 0..count {
                let name = get_short(&mut self.spout, bounds::NAME, "an attribute's name")?;
                if name.is_empty() || name.contains(&0) {
                    return Err(refused("an attribute's name that cannot be"));
                }
                let value = get_short(&mut self.spout, bounds::XATTR_VALUE, "an attribute")?;
                xattrs.push((name, value));
            }
        }
        Ok(Meta {
            mode: mode as u32,
            mtime: Stamp {
                secs,
                nanos: nanos as u32,
            },
            owner: self.memory.owner,
            xattrs,
        })
    }
}

fn shown(name: &[u8]) -> String {
    String::from_utf8_lossy(&name[..name.len().min(100)]).into_owned()
}

pub(crate) fn expect_version(spout: &mut Spout) -> Result<(), StoreError> {
    match spout.byte() {
        Ok(VERSION) => Ok(()),
        Ok(_) => Err(refused(
            "it is of another version; install the same version of howdah on both",
        )),
        Err(e) => Err(ended(&e)),
    }
}

pub(crate) fn put_version(tap: &mut Tap) -> io::Result<()> {
    tap.put(&[VERSION])
}

/// What the receiver answers.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Answer {
    /// So many files in a row are wanted, or not.
    Files { wanted: bool, count: u64 },
    /// A word about something at the receiver, for the one who looks on.
    Note(Change),
    /// All files have been answered.
    End,
}

/// Writes answers, equal ones together.
#[derive(Debug)]
pub(crate) struct AnswerWriter {
    tap: Tap,
    run: (bool, u64),
}

impl AnswerWriter {
    pub(crate) fn new(mut tap: Tap) -> io::Result<Self> {
        put_version(&mut tap)?;
        Ok(Self {
            tap,
            run: (false, 0),
        })
    }

    pub(crate) fn file(&mut self, wanted: bool) -> io::Result<()> {
        if self.run.0 != wanted {
            self.end_run()?;
            self.run.0 = wanted;
        }
        self.run.1 += 1;
        Ok(())
    }

    pub(crate) fn note(&mut self, change: &Change) -> io::Result<()> {
        let mut out = Vec::new();
        put_varint(&mut out, change.word() << 2 | 2);
        put_short(&mut out, Change::told_path(&change.path));
        self.end_run()?;
        self.tap.put(&out)
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.end_run()?;
        self.tap.flush()
    }

    pub(crate) fn end(&mut self) -> io::Result<()> {
        self.end_run()?;
        self.tap.put(&[3])?;
        self.tap.flush()
    }

    fn end_run(&mut self) -> io::Result<()> {
        let (wanted, count) = self.run;
        if count > 0 {
            let mut out = Vec::new();
            put_varint(&mut out, count << 2 | u64::from(wanted));
            self.tap.put(&out)?;
            self.run.1 = 0;
        }
        Ok(())
    }
}

pub(crate) fn read_answer(spout: &mut Spout) -> Result<Answer, StoreError> {
    let word = get_varint(spout)?;
    match word & 3 {
        3 if word == 3 => Ok(Answer::End),
        2 => {
            let path = OsString::from_vec(get_short(spout, bounds::NOTE, "a note")?);
            let change = Change::from_word(word >> 2, path.into());
            let change = change.ok_or_else(|| refused("a note that makes no sense"))?;
            Ok(Answer::Note(change))
        }
        wanted @ (0 | 1) if word >> 2 > 0 => Ok(Answer::Files {
            wanted: wanted == 1,
            count: word >> 2,
        }),
        _ => Err(refused("an answer that makes no sense")),
    }
}

#[cfg(test)]
mod tests;
