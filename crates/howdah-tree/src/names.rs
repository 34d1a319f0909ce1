//! Names of directories, read in parts.

use howdah_session::names::Names;
use howdah_session::reserved;
use howdah_store::descriptors::had;
use rustix::fd::AsFd;
use rustix::fs::{AtFlags, Dir, FileType, Stat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

/// Names of one directory that are held at a time, with what is kept of each: a larger one is read several times.
pub(crate) const PART_BYTES: usize = if cfg!(test) { 16 << 10 } else { 4 << 20 };

/// Names of a directory in order, as many as are held at a time.
#[derive(Debug, Default)]
pub(crate) struct Part {
    pub(crate) names: Names,
    /// There are more behind its last one.
    is_cut: bool,
    /// The longest name in the directory, also of those that are in no part, in bytes.
    pub(crate) longest: usize,
    /// Why names may be missing.
    pub(crate) error: Option<Errno>,
}

impl Part {
    /// Reads the names behind `after` (all) for which there is a class, the first of them if all take more than `bytes`.
    /// What comes or goes between two parts is as if it came or went later; no name is in two of them.
    pub(crate) fn read(
        fd: impl AsFd,
        after: Option<&[u8]>,
        bytes: usize,
        mut class: impl FnMut(&[u8], FileType) -> Option<u8>,
    ) -> Self {
        let mut part = Self::default();
        // Those from there on are for the next part.
        let mut before: Option<Vec<u8>> = None;
        let read = each_entry(&fd, |name, told| {
            part.longest = part.longest.max(name.len());
            if after.is_some_and(|after| name <= after)
                || before.as_ref().is_some_and(|before| name > &**before)
            {
                return;
            }
            let Some(class) = known(&fd, name, told).and_then(|kind| class(name, kind)) else {
                return;
            };
            part.names.push_as(name, class);
            if part.names.weight() > bytes && part.names.len() > 1 {
                part.is_cut = true;
                before = part.names.keep_first(bytes / 4 * 3).map(<[u8]>::to_vec);
            }
        });
        part.error = read.err();
        part.names.sort();
        // The same one twice: it was renamed meanwhile.
        part.names.dedup();
        part
    }

    /// With their classes.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&[u8], u8)> {
        let names = (0..self.names.len()).filter_map(|at| Some((at, self.names.get(at)?)));
        names.map(|(at, name)| (name, self.names.class(at)))
    }

    pub(crate) fn last(&self) -> Option<&[u8]> {
        self.names.get(self.names.len().checked_sub(1)?)
    }

    /// Behind what the next part begins, if there is one.
    pub(crate) fn next(&self) -> Option<Vec<u8>> {
        let last = self.last().filter(|_| self.is_cut)?;
        Some(last.to_vec())
    }
}

/// Calls `each` with every name in a directory and what it names (a link is a link).
pub(crate) fn read_names(
    fd: impl AsFd,
    mut each: impl FnMut(&[u8], FileType),
) -> Result<(), Errno> {
    each_entry(&fd, |name, told| {
        if let Some(kind) = known(&fd, name, told) {
            each(name, kind);
        }
    })
}

fn each_entry(fd: impl AsFd, mut each: impl FnMut(&[u8], FileType)) -> Result<(), Errno> {
    for entry in had(|| Dir::read_from(&fd))? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." && name != reserved::SIGN.as_bytes() {
            each(name, entry.file_type());
        }
    }
    Ok(())
}

/// What a name in a list is the name of: some file systems do not say it there. `None`: it is gone.
fn known(fd: impl AsFd, name: &[u8], told: FileType) -> Option<FileType> {
    if told != FileType::Unknown {
        return Some(told);
    }
    match rustix::fs::statat(&fd, OsStr::from_bytes(name), AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Some(kind(&stat)),
        Err(Errno::NOENT) => None,
        Err(_) => Some(told),
    }
}

/// What its mode says it is.
pub(crate) fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t34_a_directory_is_read_in_parts_of_any_size() {
        let dir = tempfile::tempdir().unwrap();
        let fd = std::fs::File::open(dir.path()).unwrap();
        assert!(Part::read(&fd, None, 1, |_, _| Some(0)).next().is_none());
        // Of lengths from 1 to 240, in no order.
        let mut all: Vec<String> = (0..500_u32)
            .map(|i| {
                let hash = blake3::hash(&i.to_le_bytes()).to_hex();
                hash[..=i as usize % 60].repeat(1 + i as usize % 4)
            })
            .collect();
        all.sort();
        all.dedup();
        for name in &all {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        for bytes in [0, 1, 13, 300, 5000, usize::MAX] {
            let (mut found, mut after) = (Vec::new(), None::<Vec<u8>>);
            loop {
                let odd = |name: &[u8], _| Some(u8::from(name.len() % 2 == 1));
                let part = Part::read(&fd, after.as_deref(), bytes, odd);
                assert_eq!((part.error, part.longest), (None, 240));
                assert!(part.names.weight() <= bytes || part.names.len() == 1);
                for at in 0..part.names.len() {
                    let name = String::from_utf8(part.names.get(at).unwrap().to_vec()).unwrap();
                    assert_eq!(usize::from(part.names.class(at)), name.len() % 2);
                    found.push(name);
                }
                after = part.next();
                if after.is_none() {
                    break;
                }
            }
            assert_eq!(found, all, "{bytes}");
        }
        let without = Part::read(&fd, None, 100, |name, _| {
            (name == all[7].as_bytes()).then_some(0)
        });
        assert_eq!((without.names.len(), without.next()), (1, None));
    }
}
