//! A destination that lies in what is copied, and a source that lies in the destination: both are known by device and
//! inode where one running system has both sides.

use super::names::read_names;
use howdah_session::entry::{DirId, bounds};
use howdah_store::Root;
use howdah_store::descriptors::opened;
use rustix::fd::{AsFd, AsRawFd as _, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;
use std::sync::OnceLock;

/// This run of this system's kernel, which gives every directory that anybody here sees its own device and inode;
/// `None` where that cannot be told.
fn this_system() -> Option<u64> {
    static SYSTEM: OnceLock<Option<u64>> = OnceLock::new();
    *SYSTEM.get_or_init(|| {
        let boot = std::fs::read("/proc/sys/kernel/random/boot_id").ok()?;
        let hash = blake3::hash(boot.trim_ascii());
        let (first, _) = hash.as_bytes().split_first_chunk()?;
        (!boot.trim_ascii().is_empty()).then(|| u64::from_le_bytes(*first))
    })
}

/// Which one an open directory is, if it can be told.
pub(crate) fn id_of(dir: impl AsFd) -> Option<DirId> {
    let (device, inode) = number(&rustix::fs::fstat(dir).ok()?);
    Some(DirId {
        system: this_system()?,
        device,
        inode,
    })
}

/// Device and inode, if it is a directory of this system.
pub(crate) fn here(id: DirId) -> Option<(u64, u64)> {
    (this_system() == Some(id.system)).then_some((id.device, id.inode))
}

/// Device and inode.
#[allow(
    clippy::unnecessary_cast,
    clippy::cast_lossless,
    reason = "the fields' types differ between systems"
)]
pub(crate) fn number(stat: &Stat) -> (u64, u64) {
    (stat.st_dev as u64, stat.st_ino as u64)
}

/// The same of an open directory.
pub(crate) fn number_of(dir: impl AsFd) -> (u64, u64) {
    rustix::fs::fstat(dir).map_or((0, 0), |stat| number(&stat))
}

/// The way from a directory of the source down to the destination: names, the next one last. Empty: it is the
/// destination.
pub(crate) type Way = Vec<OsString>;

/// The destination, or the nearest directory above it that is there, and all that it lies in.
#[derive(Debug)]
pub(crate) struct Above {
    /// From it upwards.
    ids: Vec<(u64, u64)>,
    dir: OwnedFd,
    /// What is to be made in it.
    rest: Way,
}

impl Above {
    /// What `at` below `root` lies in.
    pub(crate) fn of(root: &Root, at: &Path) -> Option<Self> {
        let mut rest = Vec::new();
        let mut at = at;
        let dir = loop {
            if let Ok(dir) = root.open_dir(at) {
                break dir;
            }
            rest.push(at.file_name()?.to_owned());
            at = at.parent()?;
        };
        let mut ids = vec![number(&rustix::fs::fstat(&dir).ok()?)];
        let mut below = parent_of(&dir).ok();
        while let Some(dir) = below.take() {
            let id = number(&rustix::fs::fstat(&dir).ok()?);
            // The root lies in itself.
            if ids.last() != Some(&id) && ids.len() < bounds::PATH {
                below = parent_of(&dir).ok();
                ids.push(id);
            }
        }
        Some(Self { ids, dir, rest })
    }

    /// The way from that directory to the destination, if it lies in it.
    pub(crate) fn way_from(&self, id: (u64, u64)) -> Option<Result<Way, Errno>> {
        let steps = self.ids.iter().position(|other| *other == id)?;
        Some(self.way(steps))
    }

    fn way(&self, steps: usize) -> Result<Way, Errno> {
        let mut way = self.rest.clone();
        let mut above = None;
        // As the kernel calls it: then nobody need be able to read what lies beside it.
        let told = std::fs::read_link(format!("/proc/self/fd/{}", self.dir.as_raw_fd()));
        let mut told = told.iter().flat_map(|path| path.iter().rev());
        for id in &self.ids[..steps] {
            let parent = parent_of(above.as_ref().unwrap_or(&self.dir))?;
            let told = told.next().filter(|name| is_in(&parent, name, *id));
            way.push(told.map_or_else(|| name_in(&parent, *id), |name| Ok(name.to_owned()))?);
            above = Some(parent);
        }
        Ok(way)
    }
}

fn parent_of(dir: &OwnedFd) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    opened(|| rustix::fs::openat(dir, "..", flags, Mode::empty()))
}

/// Whether something there is called so and has that device and inode.
fn is_in(parent: impl AsFd, name: &OsStr, id: (u64, u64)) -> bool {
    let stat = rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW);
    stat.is_ok_and(|stat| number(&stat) == id)
}

/// What that directory is called in the one that it lies in.
fn name_in(parent: &OwnedFd, id: (u64, u64)) -> Result<OsString, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let listed = opened(|| rustix::fs::openat(parent, ".", flags, Mode::empty()))?;
    let mut found = None;
    read_names(&listed, |name, _| {
        if found.is_none() && is_in(parent, OsStr::from_bytes(name), id) {
            found = Some(OsString::from_vec(name.to_vec()));
        }
    })?;
    found.ok_or(Errno::NOENT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn t30_the_way_to_a_destination_is_found_from_every_directory_that_it_lies_in() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("src/a/b")).unwrap();
        fs::create_dir(dir.path().join("else")).unwrap();
        let id = |path: &str| {
            let fd = fs::File::open(dir.path().join(path)).unwrap();
            id_of(&fd).and_then(here).unwrap()
        };
        let root = Root::open(dir.path().join("src/a")).unwrap();
        let way = |at: &str, from: &str| {
            let above = Above::of(&root, Path::new(at)).unwrap();
            let way = above.way_from(id(from))?.unwrap();
            let names = way.iter().rev().map(|name| name.to_string_lossy());
            Some(names.collect::<Vec<_>>().join("/"))
        };
        let way = |at, from| way(at, from).unwrap_or_else(|| "none".to_owned());
        assert_eq!(way("", "src/a"), "");
        assert_eq!(way("", "src"), "a");
        assert_eq!(way("", ""), "src/a");
        assert_eq!(way("b", "src"), "a/b");
        assert_eq!(way("new", "src"), "a/new");
        assert_eq!(way("b/new/newer", "src/a"), "b/new/newer");
        assert_eq!(way("b", "else"), "none");
        assert_eq!(way("", "src/a/b"), "none");
    }
}
