//! Lists of names.

use super::unfinished;
use super::walk::kind;
use crate::descriptors::had;
use rustix::fd::AsFd;
use rustix::fs::{AtFlags, Dir, FileType};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt as _;

/// Names of one directory that are held at a time, with what is kept of each: a larger one is read several times.
pub(crate) const PART_BYTES: usize = if cfg!(test) { 16 << 10 } else { 4 << 20 };

/// Many names in little memory, sorted.
#[derive(Debug, Default)]
pub(crate) struct Names {
    bytes: Vec<u8>,
    /// Where each begins, in the 16 bits below its class, and in the lowest 16 its length: there may be millions.
    order: Vec<u64>,
}

impl Names {
    pub(crate) fn push(&mut self, name: &[u8]) {
        self.push_as(name, 0);
    }

    /// A name, and a number for whoever reads it.
    pub(crate) fn push_as(&mut self, name: &[u8], class: u8) {
        let name = &name[..name.len().min(usize::from(u16::MAX))];
        let at = (self.bytes.len() as u64) << 24;
        self.order
            .push(at | u64::from(class) << 16 | name.len() as u64);
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

    /// Bytes of memory that they take.
    pub(crate) fn weight(&self) -> usize {
        self.bytes.len() + size_of::<u64>() * self.order.len()
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

    pub(crate) fn class(&self, index: usize) -> u8 {
        self.order.get(index).map_or(0, |&at| (at >> 16) as u8)
    }

    /// Keeps only those that stand in that range, and gives back what the others took.
    pub(crate) fn keep(&mut self, range: Range<usize>) {
        self.order.truncate(range.end);
        self.order.drain(..range.start.min(self.order.len()));
        self.compact();
        self.bytes.shrink_to_fit();
        self.order.shrink_to_fit();
        self.sort();
    }

    /// Keeps the first ones, until what they take is at most so much, but at least one. The last that stays.
    fn keep_first(&mut self, weight: usize) -> Option<&[u8]> {
        while self.weight() > weight && self.len() > 1 {
            let keep = (self.len() * 3 / 4).max(1);
            let bytes = &self.bytes;
            let by_name = |&a: &u64, &b: &u64| slice(bytes, a).cmp(slice(bytes, b));
            self.order.select_nth_unstable_by(keep - 1, by_name);
            self.order.truncate(keep);
            self.compact();
        }
        let names = self.order.iter().map(|&at| slice(&self.bytes, at));
        names.max()
    }

    /// Moves the names that are left together, without further memory.
    fn compact(&mut self) {
        // By where they begin.
        self.order.sort_unstable();
        let mut end = 0;
        for at in &mut self.order {
            let (start, len) = ((*at >> 24) as usize, (*at & 0xffff) as usize);
            self.bytes.copy_within(start..start + len, end);
            *at = (end as u64) << 24 | *at & 0xff_ffff;
            end += len;
        }
        self.bytes.truncate(end);
    }
}

fn slice(bytes: &[u8], at: u64) -> &[u8] {
    let (start, len) = ((at >> 24) as usize, (at & 0xffff) as usize);
    bytes.get(start..start + len).unwrap_or_default()
}

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
        let bytes = &part.names.bytes;
        part.names
            .order
            .dedup_by(|a, b| slice(bytes, *a) == slice(bytes, *b));
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
        if name != b"." && name != b".." && name != unfinished::NAME.as_bytes() {
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

    #[test]
    fn what_is_kept_of_names_is_in_order_and_moved_together() {
        let mut names = Names::default();
        for name in [&b"d"[..], b"bb", b"a", b"ccc", b"e"] {
            names.push_as(name, name.len() as u8);
        }
        names.sort();
        names.keep(1..4);
        let all: Vec<_> = (0..3).filter_map(|i| names.get(i)).collect();
        assert_eq!(all, [&b"bb"[..], b"ccc", b"d"]);
        assert_eq!([0, 1, 2].map(|i| names.class(i)), [2, 3, 1]);
        assert_eq!((names.len(), names.bytes()), (3, 6));
        names.keep(0..0);
        assert_eq!((names.len(), names.weight()), (0, 0));
    }
}
