//! Lists of paths, of which there may be millions.
//!
//! What comes unsorted is sorted in portions, each kept as a [`Run`], and merged at the end.

mod code;
mod run;

use crate::names::Names;
use crate::naming::plain;
use run::{Place, Run};
use serde::de::{SeqAccess, Visitor};
use serde::ser::SerializeSeq as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

/// Of a portion that is sorted by itself.
const PORTION_BYTES: usize = 2 << 20;
/// What a name takes in it besides its own bytes.
const NAME_BYTES: usize = size_of::<u64>();

/// Paths below the top of a copy, sorted, each once; a copy of the list shares its memory.
#[derive(Clone, Default)]
pub struct PathList {
    /// `None`: there is none.
    run: Option<Arc<Run>>,
    /// Bytes of the longest path, as it was written.
    longest: usize,
}

impl PartialEq for PathList {
    fn eq(&self, other: &Self) -> bool {
        let (mut ours, mut theirs) = (self.walk(), other.walk());
        let mut equal = (self.len(), self.bytes()) == (other.len(), other.bytes());
        while equal && let Some(path) = ours.next_path() {
            equal = theirs.next_path() == Some(path);
        }
        equal
    }
}

impl Eq for PathList {}

impl PathList {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.run.as_ref().map_or(0, |run| run.len)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What the paths are long together.
    pub fn bytes(&self) -> u64 {
        self.run.as_ref().map_or(0, |run| run.bytes)
    }

    /// Bytes of memory that they take.
    pub fn memory_bytes(&self) -> usize {
        self.run.as_ref().map_or(0, |run| run.memory_bytes())
    }

    /// Bytes of the longest path.
    pub fn longest(&self) -> usize {
        self.longest
    }

    /// From the first one on.
    pub fn walk(&self) -> PathWalk {
        PathWalk {
            run: self.run.clone(),
            place: Place::default(),
        }
    }

    /// Where the first path stands that does not come before that one, and what it is; `None`: all come before.
    pub fn at_or_after(&self, path: &[u8]) -> Option<(usize, Vec<u8>)> {
        let run = self.run.as_ref()?;
        let mut place = run.place_before(path);
        while run.advance(&mut place) {
            if *place.path >= *path {
                return Some((place.index - 1, place.path));
            }
        }
        None
    }

    /// Whether it is one of them.
    pub fn contains(&self, path: &[u8]) -> bool {
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
    run: Option<Arc<Run>>,
    place: Place,
}

impl PathWalk {
    /// The next one.
    pub fn next_path(&mut self) -> Option<&[u8]> {
        let more = self.run.as_ref()?.advance(&mut self.place);
        more.then_some(&*self.place.path)
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
        let run = Run::of((0..pending.len()).filter_map(|at| pending.get(at)));
        self.sorted_bytes += run.memory_bytes();
        self.runs.push(run);
    }

    /// All of them.
    pub fn finish(mut self) -> PathList {
        if !self.pending.is_empty() {
            self.sort();
        }
        let run = match self.runs.len() {
            0 | 1 => self.runs.pop(),
            _ => Some(Run::merged(self.runs)),
        };
        PathList {
            run: run.map(Arc::new),
            longest: self.longest,
        }
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
        let kept = list.memory_bytes();
        assert!(kept < 8 << 20, "{kept} of {}", list.bytes());
        let sought = path(654_321);
        let (at, found) = list.at_or_after(sought.as_bytes()).unwrap();
        assert_eq!(found, sought.as_bytes());
        assert!(at > 0 && list.at_or_after(b"q").is_none());
    }

    #[test]
    fn a_million_paths_without_order_take_half_of_their_bytes() {
        // Hexadecimal, as hashes name things; and letters and digits.
        for (most, letters) in [(21 << 20, 16), (31 << 20, 62)] {
            const LETTERS: &[u8] =
                b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
            let mut state = 1u64;
            let path = |_: u32| -> Vec<u8> {
                let mut letter = || {
                    state = state
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1);
                    LETTERS[(state >> 33) as usize % letters]
                };
                (0..40).map(|_| letter()).collect()
            };
            let list: PathList = (0..1_000_000).map(path).collect();
            assert_eq!(list.len(), 1_000_000);
            let kept = list.memory_bytes();
            println!("{letters} letters: {kept} bytes");
            assert!(kept < most, "{letters}: {kept} of {}", list.bytes());
        }
    }
}
