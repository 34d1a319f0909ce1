//! From bytes to records, and what must not be in a manifest.

use super::{
    AHEAD, COMPLETE, DIR, END, FILE, GAP, HAS_HASH, HAS_LINK, HAS_OWNER, HAS_XATTRS, KEPT, KIND,
    LAST, LINK, Memory, OTHER, OWNER, PLACE, SYMLINK, TOP, UNREAD, UP, unzigzag,
};
use crate::entry::{DirId, Entry, Meta, Other, Stamp, bounds};
use crate::naming::bad_name;
use crate::wire::{Cursor, Unread, decode_version};
use crate::{SessionError, refused};

/// Reads a manifest, its version first, and refuses what must not be in one.
#[derive(Debug)]
pub struct ManifestDecoder {
    memory: Memory,
    levels: Vec<Level>,
    /// Bytes of the path of the directory that it is in.
    path_bytes: usize,
    /// The version has been read.
    started: bool,
    /// Something has been told.
    begun: bool,
    /// With fewer bytes there is no whole record: what comes in many pieces is not looked at for each.
    needed: usize,
}

/// What was the last name in a directory: the next one must come after it, so there are no two of the
/// same name.
#[derive(Debug, Default)]
struct Level {
    other: Option<Vec<u8>>,
    dir: Option<Vec<u8>>,
    name_bytes: usize,
}

impl Default for ManifestDecoder {
    fn default() -> Self {
        Self {
            memory: Memory::default(),
            levels: vec![Level::default()],
            path_bytes: 0,
            started: false,
            begun: false,
            needed: 0,
        }
    }
}

impl ManifestDecoder {
    /// Takes a record away; `None`: more of it is needed, behind what it has left of `bytes`.
    ///
    /// # Errors
    ///
    /// What must not be in a manifest.
    pub fn decode(&mut self, bytes: &mut &[u8]) -> Result<Option<Entry>, SessionError> {
        if !self.started {
            self.started = decode_version(bytes)?;
        }
        if !self.started || bytes.len() < self.needed {
            return Ok(None);
        }
        let mut from = Cursor::new(bytes);
        match self.record(&mut from) {
            Ok(entry) => {
                *bytes = from.rest();
                self.needed = 0;
                self.remember(&entry);
                Ok(Some(entry))
            }
            Err(Unread::Short(needed)) => {
                self.needed = needed;
                Ok(None)
            }
            Err(Unread::Refused(error)) => Err(error),
        }
    }

    /// What the next records are read with.
    fn remember(&mut self, entry: &Entry) {
        // Names of owners may stand before everything, and which directory it is.
        self.begun |= !matches!(entry, Entry::Owner { .. } | Entry::Place { .. });
        match entry {
            Entry::Dir { meta, .. }
            | Entry::Top { meta }
            | Entry::File { meta, .. }
            | Entry::Symlink { meta, .. } => {
                self.memory.secs = meta.mtime.secs;
                self.memory.owner = meta.owner;
            }
            _ => {}
        }
        match entry {
            Entry::Dir { name, .. } => {
                self.named(name, true);
                let name_bytes = name.len() + 1;
                self.path_bytes += name_bytes;
                self.levels.push(Level {
                    name_bytes,
                    ..Level::default()
                });
            }
            Entry::File { name, .. }
            | Entry::Symlink { name, .. }
            | Entry::Link { name, .. }
            | Entry::Kept { name }
            | Entry::Other { name, .. }
            | Entry::Ahead { name } => self.named(name, false),
            Entry::Up { .. } => {
                let left = self.levels.pop();
                self.path_bytes -= left.map_or(0, |level| level.name_bytes);
            }
            _ => {}
        }
    }

    fn named(&mut self, name: &[u8], is_dir: bool) {
        if let Some(level) = self.levels.last_mut() {
            let last = if is_dir {
                &mut level.dir
            } else {
                &mut level.other
            };
            let last = last.get_or_insert_default();
            last.clear();
            last.extend_from_slice(name);
        }
        self.memory.name.clear();
        self.memory.name.extend_from_slice(name);
    }

    fn record(&self, from: &mut Cursor<'_>) -> Result<Entry, Unread> {
        let first = from.byte()?;
        match first & KIND {
            END if self.levels.len() == 1 => Ok(Entry::End {
                complete: first & COMPLETE != 0,
            }),
            END => Err(refused("it ends inside of a directory").into()),
            UP => {
                if self.levels.len() <= 1 {
                    return Err(refused("it leaves the top directory").into());
                }
                let complete = first & COMPLETE != 0;
                Ok(Entry::Up { complete })
            }
            TOP if !self.begun => Ok(Entry::Top {
                meta: self.meta(from, first)?,
            }),
            TOP => Err(refused("the top directory is not at its beginning").into()),
            DIR => {
                let name = self.name(from, true)?;
                let meta = self.meta(from, first)?;
                if self.levels.len() > bounds::DEPTH {
                    return Err(refused(format!(
                        "directories lie more than {} deep",
                        bounds::DEPTH
                    ))
                    .into());
                }
                Ok(Entry::Dir { name, meta })
            }
            FILE => {
                let name = self.name(from, false)?;
                let size = from.varint()?;
                if size > bounds::SIZE {
                    return Err(refused(format!("a file of {size} bytes")).into());
                }
                let meta = self.meta(from, first)?;
                let link = (first & HAS_LINK != 0).then(|| from.varint());
                let link = link.transpose()?;
                let mut hash = None;
                if first & HAS_HASH != 0 {
                    let mut bytes = [0; 32];
                    bytes.copy_from_slice(from.take(32)?);
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
                let name = self.name(from, false)?;
                let target = from.short(bounds::TARGET, "a link's target")?;
                if target.is_empty() || target.contains(&0) {
                    return Err(refused("a link's target is empty or contains a NUL byte").into());
                }
                let meta = self.meta(from, first)?;
                let target = target.to_vec();
                Ok(Entry::Symlink { name, target, meta })
            }
            LINK => {
                let name = self.name(from, false)?;
                let link = from.varint()?;
                let last = first & LAST != 0;
                Ok(Entry::Link { name, link, last })
            }
            KEPT => Ok(Entry::Kept {
                name: self.name(from, false)?,
            }),
            OWNER => {
                let group = from.byte()? != 0;
                let id = id(from)?;
                let name = from.short(bounds::OWNER, "a user's name")?.to_vec();
                Ok(Entry::Owner { group, id, name })
            }
            OTHER => {
                let name = self.name(from, false)?;
                let what = from.byte()?;
                let what = Other::ALL.get(usize::from(what)).copied();
                let what = what.ok_or_else(|| refused("something of no known kind"))?;
                Ok(Entry::Other { name, what })
            }
            AHEAD => Ok(Entry::Ahead {
                name: self.name(from, false)?,
            }),
            GAP => Ok(Entry::Gap),
            UNREAD => Ok(Entry::Unread),
            PLACE => {
                let [system, device, inode] = [from.varint()?, from.varint()?, from.varint()?];
                let id = DirId {
                    system,
                    device,
                    inode,
                };
                Ok(Entry::Place { id })
            }
            kind => Err(refused(format!("a record of unknown kind {kind}")).into()),
        }
    }

    fn name(&self, from: &mut Cursor<'_>, is_dir: bool) -> Result<Vec<u8>, Unread> {
        let common = usize::from(from.byte()?);
        let rest = from.short(bounds::NAME, "a name")?;
        let Some(common) = self.memory.name.get(..common) else {
            return Err(refused("a name has more in common than there is").into());
        };
        let name = [common, rest].concat();
        // Looked through for what must not be in it, compared, and kept twice.
        #[cfg(test)]
        crate::wire::steps::count(4 * name.len());
        if let Some(reason) = bad_name(&name) {
            return Err(refused(format!("the name {:?}: {reason}", shown(&name))).into());
        }
        if self.path_bytes + name.len() > bounds::PATH {
            return Err(refused(format!(
                "a path ending in {:?} is longer than {} bytes",
                shown(&name),
                bounds::PATH
            ))
            .into());
        }
        if let Some(level) = self.levels.last() {
            let last = if is_dir {
                &level.dir
            } else if level.dir.is_some() {
                return Err(refused(format!(
                    "the name {:?} stands behind a directory",
                    shown(&name)
                ))
                .into());
            } else {
                &level.other
            };
            if last.as_ref().is_some_and(|last| *last >= name) {
                return Err(refused(format!(
                    "the name {:?} comes twice or out of order",
                    shown(&name)
                ))
                .into());
            }
        }
        Ok(name)
    }

    fn meta(&self, from: &mut Cursor<'_>, first: u8) -> Result<Meta, Unread> {
        let mode = from.varint()?;
        let secs = unzigzag(from.varint()?);
        let nanos = from.varint()?;
        let (Ok(mode @ ..=0o7777), Ok(nanos @ ..=999_999_999)) =
            (u32::try_from(mode), u32::try_from(nanos))
        else {
            return Err(refused("a mode or a time that cannot be").into());
        };
        let secs = self.memory.secs.wrapping_add(secs);
        let mut owner = self.memory.owner;
        if first & HAS_OWNER != 0 {
            let user = from.varint()?;
            let group = id(from)?;
            let user = user.checked_sub(1).map(u32::try_from).transpose();
            let user = user.map_err(|_| refused("a user's number has more than 32 bits"))?;
            owner = user.map(|user| (user, group));
        }
        // Copied when all of the record is there: what comes in pieces is looked at again.
        let mut xattrs: Vec<(&[u8], &[u8])> = Vec::new();
        if first & HAS_XATTRS != 0 {
            let count = from.varint()?;
            if count > bounds::XATTRS {
                return Err(refused("more than 64 extended attributes of one file").into());
            }
            for _ in 0..count {
                let name = from.short(bounds::NAME, "an attribute's name")?;
                if name.is_empty() || name.contains(&0) {
                    return Err(refused("an attribute's name that cannot be").into());
                }
                let value = from.short(bounds::XATTR_VALUE, "an attribute")?;
                xattrs.push((name, value));
            }
        }
        let owned = |(name, value): (&[u8], &[u8])| (name.to_vec(), value.to_vec());
        Ok(Meta {
            mode,
            mtime: Stamp { secs, nanos },
            owner,
            xattrs: xattrs.into_iter().map(owned).collect(),
        })
    }
}

fn id(from: &mut Cursor<'_>) -> Result<u32, Unread> {
    let id = from.varint()?;
    let id = u32::try_from(id);
    Ok(id.map_err(|_| refused("a user's number has more than 32 bits"))?)
}

fn shown(name: &[u8]) -> String {
    String::from_utf8_lossy(&name[..name.len().min(100)]).into_owned()
}
