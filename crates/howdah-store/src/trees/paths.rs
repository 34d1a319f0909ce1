//! Lists of paths, of which there may be millions.
//!
//! Sorted paths begin alike, and often end alike, so each is kept as how much of both it shares with the one before and what
//! stands between: a few bytes for most. What comes unsorted is sorted in portions, each kept in this way, and merged at the
//! end.

use super::names::Names;
use super::tree_source::plain;
use serde::de::{SeqAccess, Visitor};
use serde::ser::SerializeSeq as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

/// A search reads one chunk from its start, where a path stands whole.
const CHUNK_BYTES: usize = 1 << 10;
/// Of a portion that is sorted by itself.
const PORTION_BYTES: usize = 2 << 20;
/// What a name takes in it besides its own bytes.
const NAME_BYTES: usize = size_of::<u64>();

/// Paths below the top of a copy, sorted, each once; a copy of the list shares its memory.
#[derive(Clone, Default, Eq, PartialEq)]
pub struct PathList(Arc<Run>);

#[derive(Debug, Default, Eq, PartialEq)]
struct Run {
    chunks: Vec<Chunk>,
    len: usize,
    /// Of all paths.
    bytes: u64,
    /// The longest path, in bytes.
    longest: usize,
}

#[derive(Debug, Eq, PartialEq)]
struct Chunk {
    /// Where its first path stands in the whole.
    first: usize,
    bytes: Box<[u8]>,
}

impl PathList {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.len == 0
    }

    /// What the paths are long together.
    pub fn bytes(&self) -> u64 {
        self.0.bytes
    }

    /// Bytes of the longest path.
    pub fn longest(&self) -> usize {
        self.0.longest
    }

    /// From the first one on.
    pub fn walk(&self) -> PathWalk {
        PathWalk::at(self, 0)
    }

    /// Where the first path stands that does not come before that one, and what it is; `None`: all come before.
    pub(crate) fn at_or_after(&self, path: &[u8]) -> Option<(usize, Vec<u8>)> {
        let chunks = &self.0.chunks;
        let behind = chunks.partition_point(|chunk| chunk.head() <= path);
        let mut walk = PathWalk::at(self, behind.saturating_sub(1));
        while let Some(found) = walk.next_path() {
            if found >= path {
                return Some((walk.index - 1, std::mem::take(&mut walk.path)));
            }
        }
        None
    }

    /// Whether it is one of them.
    pub(crate) fn contains(&self, path: &[u8]) -> bool {
        self.at_or_after(path)
            .is_some_and(|(_, found)| found == path)
    }
}

impl fmt::Debug for PathList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PathList({} paths)", self.len())
    }
}

impl<P: AsRef<[u8]>> FromIterator<P> for PathList {
    fn from_iter<I: IntoIterator<Item = P>>(paths: I) -> Self {
        let mut builder = PathListBuilder::default();
        for path in paths {
            builder.push(path.as_ref());
        }
        builder.finish()
    }
}

impl Serialize for PathList {
    /// As a sequence of byte strings.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut sequence = serializer.serialize_seq(Some(self.len()))?;
        let mut walk = self.walk();
        while let Some(path) = walk.next_path() {
            sequence.serialize_element(path)?;
        }
        sequence.end()
    }
}

impl<'de> Deserialize<'de> for PathList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Paths;
        impl<'de> Visitor<'de> for Paths {
            type Value = PathList;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of paths")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<PathList, A::Error> {
                let mut builder = PathListBuilder::default();
                while let Some(path) = sequence.next_element::<Vec<u8>>()? {
                    builder.push(&path);
                }
                Ok(builder.finish())
            }
        }
        deserializer.deserialize_seq(Paths)
    }
}

/// Goes through a list.
#[derive(Debug)]
pub struct PathWalk {
    list: PathList,
    chunk: usize,
    position: usize,
    path: Vec<u8>,
    /// Of the next path.
    index: usize,
}

impl PathWalk {
    fn at(list: &PathList, chunk: usize) -> Self {
        Self {
            index: list.0.chunks.get(chunk).map_or(0, |chunk| chunk.first),
            list: list.clone(),
            chunk,
            position: 0,
            path: Vec::new(),
        }
    }

    /// The next one.
    pub fn next_path(&mut self) -> Option<&[u8]> {
        loop {
            let chunk = self.list.0.chunks.get(self.chunk)?;
            if chunk.read(&mut self.position, &mut self.path) {
                self.index += 1;
                return Some(&self.path);
            }
            (self.chunk, self.position) = (self.chunk + 1, 0);
        }
    }
}

impl Chunk {
    /// The first path.
    fn head(&self) -> &[u8] {
        let mut position = 0;
        let [_start, _end, len] = [(); 3].map(|()| number(&self.bytes, &mut position));
        self.bytes.get(position..position + len).unwrap_or_default()
    }

    /// Makes the path at that position out of the one before; false behind the last.
    fn read(&self, position: &mut usize, path: &mut Vec<u8>) -> bool {
        if *position >= self.bytes.len() {
            return false;
        }
        let [start, end, len] = [(); 3].map(|()| number(&self.bytes, position));
        let between = self.bytes.get(*position..*position + len);
        let kept = start..path.len().saturating_sub(end).max(start);
        path.splice(kept, between.unwrap_or_default().iter().copied());
        *position += len;
        true
    }
}

/// Seven bits a byte, the lowest first; of our own making.
fn number(bytes: &[u8], position: &mut usize) -> usize {
    let (mut value, mut shift) = (0, 0);
    while let Some(&byte) = bytes.get(*position) {
        *position += 1;
        value |= usize::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
        shift += 7;
    }
    value
}

fn put_number(bytes: &mut Vec<u8>, mut value: usize) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// How many pairs at the beginning are equal.
fn common<'a>(pairs: impl Iterator<Item = (&'a u8, &'a u8)>) -> usize {
    pairs.take_while(|(one, other)| one == other).count()
}

/// Takes sorted paths.
#[derive(Default)]
struct RunWriter {
    run: Run,
    open: Vec<u8>,
    first: usize,
    last: Vec<u8>,
}

impl RunWriter {
    fn push(&mut self, path: &[u8]) {
        if self.run.len > 0 && self.last == path {
            return;
        }
        if self.open.len() >= CHUNK_BYTES {
            self.close();
        }
        let last = if self.open.is_empty() {
            &[][..]
        } else {
            &self.last
        };
        let start = common(path.iter().zip(last));
        let end = common(path[start..].iter().rev().zip(last[start..].iter().rev()));
        let between = &path[start..path.len() - end];
        for count in [start, end, between.len()] {
            put_number(&mut self.open, count);
        }
        self.open.extend_from_slice(between);
        self.last.clear();
        self.last.extend_from_slice(path);
        self.run.len += 1;
        self.run.bytes += path.len() as u64;
        self.run.longest = self.run.longest.max(path.len());
    }

    fn close(&mut self) {
        self.run.chunks.push(Chunk {
            first: std::mem::replace(&mut self.first, self.run.len),
            bytes: Box::from(&*self.open),
        });
        self.open.clear();
    }

    fn finish(mut self) -> Run {
        if !self.open.is_empty() {
            self.close();
        }
        self.run
    }
}

/// Makes a [`PathList`] of paths that come in any order.
#[derive(Debug, Default)]
pub struct PathListBuilder {
    pending: Names,
    runs: Vec<Run>,
    /// What these take.
    sorted_bytes: usize,
    longest: usize,
}

impl PathListBuilder {
    /// One more; slashes and dots at its ends mean nothing, nor do those that mean nothing within it: `a//b`, `a/./b`, `a/x/../b`.
    pub fn push(&mut self, path: &[u8]) {
        self.longest = self.longest.max(path.len());
        let path = without_detours(path);
        let path = plain(Path::new(OsStr::from_bytes(&path)));
        self.pending.push(path.as_os_str().as_bytes());
        // Where each one stands takes room as well, however short it is.
        if self.pending.bytes() + NAME_BYTES * self.pending.len() >= PORTION_BYTES {
            self.sort();
        }
    }

    /// Bytes of memory that it takes by now.
    pub fn memory_bytes(&self) -> usize {
        PORTION_BYTES + self.sorted_bytes
    }

    fn sort(&mut self) {
        let mut pending = std::mem::take(&mut self.pending);
        pending.sort();
        let mut writer = RunWriter::default();
        for path in (0..pending.len()).filter_map(|at| pending.get(at)) {
            writer.push(path);
        }
        let run = writer.finish();
        let chunk = |chunk: &Chunk| chunk.bytes.len() + size_of::<Chunk>();
        self.sorted_bytes += run.chunks.iter().map(chunk).sum::<usize>();
        self.runs.push(run);
    }

    /// All of them.
    pub fn finish(mut self) -> PathList {
        if self.pending.len() > 0 {
            self.sort();
        }
        let mut run = match self.runs.len() {
            0 | 1 => self.runs.pop().unwrap_or_default(),
            _ => merge(self.runs),
        };
        run.longest = self.longest;
        PathList(Arc::new(run))
    }
}

/// The names alone, as far as no `..` leads above the first of them.
fn without_detours(path: &[u8]) -> Cow<'_, [u8]> {
    let parts = || path.split(|&byte| byte == b'/');
    let inner = parts().skip(1);
    let means_nothing = |part: &[u8]| [&b""[..], b"."].contains(&part);
    if !parts().any(|part| part == b"..") && !inner.into_iter().any(means_nothing) {
        return Cow::Borrowed(path);
    }
    let mut names: Vec<&[u8]> = Vec::new();
    for part in parts().filter(|part| !means_nothing(part)) {
        match names.last() {
            Some(last) if part == b".." && *last != b".." => _ = names.pop(),
            _ => names.push(part),
        }
    }
    let mut clean = names.join(&b'/');
    if path.starts_with(b"/") {
        clean.insert(0, b'/');
    }
    if clean.is_empty() {
        clean.push(b'.');
    }
    Cow::Owned(clean)
}

/// Chunks go as they have been read: at no time are all paths here twice.
fn merge(runs: Vec<Run>) -> Run {
    let mut sources: Vec<_> = runs.into_iter().map(Source::new).collect();
    let mut heads = BinaryHeap::new();
    for (number, source) in sources.iter_mut().enumerate() {
        let mut path = Vec::new();
        if source.read(&mut path) {
            heads.push(Reverse((path, number)));
        }
    }
    let mut writer = RunWriter::default();
    while let Some(Reverse((mut path, number))) = heads.pop() {
        writer.push(&path);
        if sources[number].read(&mut path) {
            heads.push(Reverse((path, number)));
        }
    }
    writer.finish()
}

/// A run that is read once.
struct Source {
    open: Option<Chunk>,
    position: usize,
    chunks: std::vec::IntoIter<Chunk>,
}

impl Source {
    fn new(run: Run) -> Self {
        let mut chunks = run.chunks.into_iter();
        Self {
            open: chunks.next(),
            position: 0,
            chunks,
        }
    }

    /// Makes the next path out of the one before.
    fn read(&mut self, path: &mut Vec<u8>) -> bool {
        while let Some(chunk) = &self.open {
            if chunk.read(&mut self.position, path) {
                return true;
            }
            (self.open, self.position) = (self.chunks.next(), 0);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(list: &PathList) -> Vec<Vec<u8>> {
        let (mut walk, mut all) = (list.walk(), Vec::new());
        while let Some(path) = walk.next_path() {
            all.push(path.to_vec());
        }
        all
    }

    proptest! {
        #[test]
        fn a_list_is_a_sorted_set(
            paths in prop::collection::vec("[ab]{0,3}(/[ab\\xff]{1,40}){0,3}", 0..400),
            sought in prop::collection::vec("[ab]{0,3}(/[ab]{1,3}){0,3}", 0..20),
        ) {
            let mut builder = PathListBuilder::default();
            for (number, path) in paths.iter().enumerate() {
                builder.push(path.as_bytes());
                if number % 90 == 89 {
                    builder.sort();
                }
            }
            let list = builder.finish();
            let mut plain: Vec<_> = paths.iter().map(|p| p.clone().into_bytes()).collect();
            plain.sort();
            plain.dedup();
            prop_assert_eq!(&all(&list), &plain);
            prop_assert_eq!(list.len(), plain.len());
            prop_assert_eq!(list.bytes(), plain.iter().map(|p| p.len() as u64).sum::<u64>());
            for sought in sought.iter().chain(&paths) {
                let sought = sought.as_bytes();
                let at = plain.partition_point(|path| &**path < sought);
                let expected = plain.get(at).map(|path| (at, path.clone()));
                prop_assert_eq!(list.at_or_after(sought), expected);
            }
            let sent = postcard::to_allocvec(&list).unwrap();
            prop_assert_eq!(&sent, &postcard::to_allocvec(&plain).unwrap());
            prop_assert_eq!(postcard::from_bytes::<PathList>(&sent).unwrap(), list);
        }
    }

    #[test]
    fn n4_detours_in_a_list_lead_to_the_same_names() {
        for (written, meant) in [
            ("a//b", "a/b"),
            ("a/./b", "a/b"),
            ("./a/././b//", "a/b"),
            ("a/x/../b", "a/b"),
            ("a/x/y/../../b/.", "a/b"),
            ("a/..", ""),
            (".//", ""),
            ("..", ".."),
            ("a/../../b", "../b"),
            ("...", "..."),
            ("a/..b/.c", "a/..b/.c"),
        ] {
            let list: PathList = [written].iter().collect();
            assert_eq!(all(&list), [meant.as_bytes()], "{written}");
        }
    }

    #[test]
    fn a_million_paths_take_a_fraction_of_their_bytes() {
        let path = |i: u32| {
            format!(
                "project/run{:03}/sample{:02}/part-{i:07}.dat",
                i % 997,
                i % 89
            )
        };
        let list: PathList = (0..1_000_000).map(path).collect();
        assert_eq!(list.len(), 1_000_000);
        let kept: usize = list
            .0
            .chunks
            .iter()
            .map(|chunk| chunk.bytes.len() + 40)
            .sum();
        assert!(kept < 12 << 20, "{kept} of {}", list.bytes());
        let sought = path(654_321);
        let (at, found) = list.at_or_after(sought.as_bytes()).unwrap();
        assert_eq!(found, sought.as_bytes());
        assert!(at > 0 && list.at_or_after(b"q").is_none());
    }
}
