//! Lists of names.

use super::unfinished;
use super::walk::kind;
use crate::descriptors::had;
use rustix::fd::AsFd;
use rustix::fs::{AtFlags, Dir, FileType};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

/// Many names in little memory, sorted.
#[derive(Debug, Default)]
pub(crate) struct Names {
    bytes: Vec<u8>,
    /// Where each begins, and in the lower 16 bits its length: there may be millions.
    order: Vec<u64>,
}

impl Names {
    pub(crate) fn push(&mut self, name: &[u8]) {
        let name = &name[..name.len().min(usize::from(u16::MAX))];
        self.order
            .push((self.bytes.len() as u64) << 16 | name.len() as u64);
        self.bytes.extend_from_slice(name);
    }

    pub(crate) fn sort(&mut self) {
        let bytes = &self.bytes;
        self.order
            .sort_unstable_by(|&a, &b| slice(bytes, a).cmp(slice(bytes, b)));
    }

    /// Of all names.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    /// Where that name stands in a sorted list.
    pub(crate) fn find(&self, name: &[u8]) -> Option<usize> {
        let by_name = |&at: &u64| slice(&self.bytes, at).cmp(name);
        self.order.binary_search_by(by_name).ok()
    }

    pub(crate) fn get(&self, index: usize) -> Option<&[u8]> {
        self.order.get(index).map(|&at| slice(&self.bytes, at))
    }
}

fn slice(bytes: &[u8], at: u64) -> &[u8] {
    let (start, len) = ((at >> 16) as usize, (at & 0xffff) as usize);
    bytes.get(start..start + len).unwrap_or_default()
}

/// Calls `each` with every name in a directory and what it names (a link is a link).
pub(crate) fn read_names(
    fd: impl AsFd,
    mut each: impl FnMut(&[u8], FileType),
) -> Result<(), Errno> {
    for entry in had(|| Dir::read_from(&fd))? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." || name == unfinished::NAME.as_bytes() {
            continue;
        }
        let mut found = entry.file_type();
        if found == FileType::Unknown {
            // Some file systems do not say it here.
            let name = OsStr::from_bytes(name);
            match rustix::fs::statat(&fd, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => found = kind(&stat),
                Err(Errno::NOENT) => continue,
                Err(_) => {}
            }
        }
        each(name, found);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_found() {
        let mut names = Names::default();
        let longest = [b'n'; 255];
        for name in [&b"b"[..], b"", &longest, b"a"] {
            names.push(name);
        }
        names.sort();
        let all: Vec<_> = (0..names.len()).filter_map(|i| names.get(i)).collect();
        assert_eq!(all, [&b""[..], b"a", b"b", &longest]);
        assert_eq!((names.find(b"b"), names.find(b"c")), (Some(2), None));
    }
}
