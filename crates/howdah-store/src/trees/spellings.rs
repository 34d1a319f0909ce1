//! Disks on which several spellings are one name: letters in either case, accents composed or not, names cut
//! short. What the disk takes for a name that is kept does not go, however it is spelt.

use super::names::Names;
use super::walk::read_names;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Stat};
use rustix::io::Errno;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

/// Names of the source that are in a directory of the destination under another spelling.
#[derive(Debug, Default)]
pub(crate) struct Spellings {
    /// Device and inode of each.
    inodes: HashSet<(u64, u64)>,
    /// What else tells of each: some FUSE file systems number an inode anew for each spelling.
    looks: HashSet<Look>,
}

/// What two looks at one file agree in, whatever it is called: kind and mode, links, owner, group, size,
/// modification.
type Look = (u32, u64, u32, u32, i64, i64, u64);

impl Spellings {
    /// Asks the disk for each of those names, which its list did not have before.
    pub(crate) fn of(dir: &OwnedFd, unlisted: &Names) -> Result<Self, Errno> {
        let mut spellings = Self::default();
        if unlisted.len() == 0 {
            return Ok(spellings);
        }
        let mut listed = Names::default();
        read_names(dir, |name, _| listed.push(name))?;
        listed.sort();
        for index in 0..unlisted.len() {
            let Some(name) = unlisted.get(index) else {
                break;
            };
            // In the list now: it is a name of its own.
            if listed.find(name).is_some() {
                continue;
            }
            match stat(dir, name) {
                Ok(stat) => {
                    spellings.inodes.insert(inode(&stat));
                    spellings.looks.insert(look(&stat));
                }
                // Not there, or no name that this disk could have.
                Err(Errno::NOENT | Errno::NAMETOOLONG | Errno::INVAL | Errno::ILSEQ) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(spellings)
    }

    /// Whether a listed name is another spelling of one that the source has.
    pub(crate) fn keep(&self, dir: &OwnedFd, name: &[u8]) -> bool {
        // What cannot be looked at is for whoever deletes to say.
        !self.inodes.is_empty()
            && stat(dir, name).is_ok_and(|stat| {
                self.inodes.contains(&inode(&stat)) || self.looks.contains(&look(&stat))
            })
    }
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

#[allow(
    clippy::unnecessary_cast,
    clippy::cast_lossless,
    reason = "the fields' types differ between systems"
)]
fn look(stat: &Stat) -> Look {
    (
        stat.st_mode as u32,
        stat.st_nlink as u64,
        stat.st_uid,
        stat.st_gid,
        stat.st_size as i64,
        stat.st_mtime as i64,
        stat.st_mtime_nsec as u64,
    )
}
