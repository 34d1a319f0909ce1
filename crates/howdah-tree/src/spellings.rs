//! Disks on which several spellings are one name: letters in either case, accents composed or not, names cut
//! short. What the disk takes for a name that is kept does not go, however it is spelt.

use super::names::read_names;
use howdah_session::names::Names;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Stat};
use rustix::io::Errno;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

/// Which listed names of a directory are those of the source under another spelling.
///
/// The name tells, where only the case of its letters differs. Otherwise device and inode do. Some FUSE file systems
/// number an inode anew for each spelling: then nothing in that directory goes.
#[derive(Debug, Default)]
pub(crate) struct Spellings {
    /// What the directory lists now, sorted; `None`: every name of the source was in its list from the beginning.
    listed: Option<Names>,
    folded: HashSet<String>,
    inodes: HashSet<(u64, u64)>,
    /// A name of the source is there, and nobody knows under which of the listed ones.
    unknown: bool,
}

impl Spellings {
    /// Asks the disk for each of those names, which its list did not have before.
    pub(crate) fn of(dir: &OwnedFd, unlisted: &Names) -> Result<Self, Errno> {
        let mut spellings = Self::default();
        if unlisted.is_empty() {
            return Ok(spellings);
        }
        let mut listed = Names::default();
        read_names(dir, |name, _| listed.push(name))?;
        listed.sort();
        let mut respelt = Vec::new();
        for index in 0..unlisted.len() {
            let Some(name) = unlisted.get(index) else {
                break;
            };
            // In the list now: it is a name of its own.
            if listed.find(name).is_some() {
                continue;
            }
            match stat(dir, name) {
                Ok(stat) => respelt.push((fold(name), inode(&stat))),
                // Not there, or no name that this disk could have.
                Err(Errno::NOENT | Errno::NAMETOOLONG | Errno::INVAL | Errno::ILSEQ) => {}
                Err(e) => return Err(e),
            }
        }
        let names = || (0..listed.len()).filter_map(|index| listed.get(index));
        let folded: HashSet<_> = if respelt.is_empty() {
            HashSet::new()
        } else {
            names().map(fold).collect()
        };
        let mut inodes = None;
        for (name, inode_of) in respelt {
            if folded.contains(&name) {
                spellings.folded.insert(name);
                continue;
            }
            let inodes = inodes.get_or_insert_with(|| {
                let stats = names().filter_map(|name| stat(dir, name).ok());
                stats.map(|stat| inode(&stat)).collect::<HashSet<_>>()
            });
            if inodes.contains(&inode_of) {
                spellings.inodes.insert(inode_of);
            } else {
                spellings.unknown = true;
            }
        }
        spellings.listed = Some(listed);
        Ok(spellings)
    }

    /// Whether a listed name is, or may be, another spelling of one that the source has.
    pub(crate) fn keep(&self, dir: &OwnedFd, name: &[u8]) -> bool {
        // What is not in the list any more is there under the spelling of what took its place.
        let is_listed = |listed: &Names| listed.find(name).is_some();
        self.unknown
            || !self.listed.as_ref().is_none_or(is_listed)
            || !self.folded.is_empty() && self.folded.contains(&fold(name))
            // What cannot be looked at is for whoever deletes to say.
            || !self.inodes.is_empty()
                && stat(dir, name).is_ok_and(|stat| self.inodes.contains(&inode(&stat)))
    }
}

/// A name without the case of its letters. First up, then down: some letters have two small forms.
pub(super) fn fold(name: &[u8]) -> String {
    String::from_utf8_lossy(name).to_uppercase().to_lowercase()
}

fn stat(dir: &OwnedFd, name: &[u8]) -> Result<Stat, Errno> {
    rustix::fs::statat(dir, OsStr::from_bytes(name), AtFlags::SYMLINK_NOFOLLOW)
}

#[allow(
    clippy::unnecessary_cast,
    clippy::cast_lossless,
    reason = "the fields' types differ between systems"
)]
fn inode(stat: &Stat) -> (u64, u64) {
    (stat.st_dev as u64, stat.st_ino as u64)
}
