//! What is said about a copy that goes on: which source it was, and what is there already.

use crate::Misbehaved;
use crate::entry::Stamp;
use howdah_core::{ByteRange, RangeSet};
use serde::{Deserialize, Serialize};

/// The unit of verification, in bytes: 2^10 chunks of BLAKE3. A sender tells the value of each (32 bytes per MiB), and
/// a receiver claims whole ones.
pub const GROUP: u64 = 1 << 20;
/// Objects below that size, in bytes, are begun anew: to go on with them saves nothing.
pub const RESUMABLE_MIN: u64 = 4 * GROUP;
/// Ranges in one message.
const MAX_RANGES: usize = 4_096;
/// Values in one message: 32 KiB.
pub const MAX_VALUES: usize = 1_024;
/// A sender reads, hashes and sends that much before it knows what the receiver has, in bytes: far more than
/// leaves in the first round trip, unless the rate is fixed.
pub const HEAD: u64 = RESUMABLE_MIN;

/// What a source is known by between two runs of the same copy.
///
/// Two equal identities mean: the same inode, not written to, not renamed over, not touched in
/// between. The time of change cannot be set by programs, so a modification time that somebody put
/// back does not hide a change. The device's number is left out: it may differ after a reboot.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct SourceIdentity {
    /// Bytes.
    pub size: u64,
    /// Last modification of the content, in seconds and nanoseconds.
    pub mtime: (i64, u32),
    /// Last change of content, name or attributes, in seconds and nanoseconds.
    pub ctime: (i64, u32),
    /// Its number in its file system.
    pub inode: u64,
}

impl SourceIdentity {
    /// When its content was modified, if that can be.
    pub fn modified(&self) -> Option<Stamp> {
        let (secs, nanos) = self.mtime;
        (nanos < 1_000_000_000).then_some(Stamp { secs, nanos })
    }

    /// What tells `now` from this one, in words; `None` if they are the same.
    pub fn difference(&self, now: &Self) -> Option<String> {
        let text = if self.size != now.size {
            format!("it had {} bytes and has {} now", self.size, now.size)
        } else if self.mtime != now.mtime {
            "it was modified".to_owned()
        } else if self.inode != now.inode {
            "it is another file".to_owned()
        } else if self.ctime != now.ctime {
            "it was written to, renamed or given other attributes".to_owned()
        } else {
            return None;
        };
        Some(text)
    }
}

/// Ranges of whole groups: how many are missing before, and how many are there.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct WireRanges(Vec<(u64, u64)>);

impl From<&RangeSet> for WireRanges {
    fn from(ranges: &RangeSet) -> Self {
        let mut end = 0;
        let pair = |range: ByteRange| {
            let (start, stop) = (range.start / GROUP, range.end / GROUP);
            let pair = (start - end, stop - start);
            end = stop;
            pair
        };
        Self(ranges.iter().take(MAX_RANGES).map(pair).collect())
    }
}

impl WireRanges {
    /// What it takes in memory.
    pub(crate) fn held_bytes(&self) -> usize {
        self.0.len() * size_of::<(u64, u64)>()
    }

    /// The ranges, if they make sense in an object of `size` bytes.
    ///
    /// # Errors
    ///
    /// They are too many, or reach beyond its end.
    pub fn within(&self, size: u64) -> Result<RangeSet, Misbehaved> {
        let wrong = || Misbehaved::new("claims to have what cannot be there of the object");
        if self.0.len() > MAX_RANGES {
            return Err(wrong());
        }
        let mut ranges = RangeSet::new();
        let mut at: u64 = 0;
        for &(gap, len) in &self.0 {
            let start = at.checked_add(gap).ok_or_else(wrong)?;
            let end = start.checked_add(len).ok_or_else(wrong)?;
            let stop = end.checked_mul(GROUP).filter(|&stop| stop <= size);
            let stop = stop.filter(|_| len > 0).ok_or_else(wrong)?;
            ranges.insert(ByteRange::new(start * GROUP, stop));
            at = end;
        }
        Ok(ranges)
    }
}

/// What of a source is at its target already.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct WireHeld {
    source: SourceIdentity,
    ranges: WireRanges,
}

impl WireHeld {
    /// These groups of that source.
    pub fn new(source: SourceIdentity, ranges: &RangeSet) -> Self {
        Self {
            source,
            ranges: ranges.into(),
        }
    }

    /// What need not be sent of `source`: nothing if it is another one.
    ///
    /// # Errors
    ///
    /// It cannot be there of that source.
    pub fn of(&self, source: &SourceIdentity) -> Result<RangeSet, Misbehaved> {
        if self.source == *source {
            self.ranges.within(source.size)
        } else {
            Ok(RangeSet::new())
        }
    }
}

/// Consecutive values, each run for a message of its own.
pub fn runs(values: &[(u64, [u8; 32])]) -> impl Iterator<Item = (u64, Vec<[u8; 32]>)> {
    let runs = values.chunk_by(|(a, _), (b, _)| a + 1 == *b);
    let parts = runs.flat_map(|run| run.chunks(MAX_VALUES));
    parts.map(|part| (part[0].0, part.iter().map(|&(_, value)| value).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn identity() -> SourceIdentity {
        SourceIdentity {
            size: 100 * GROUP + 1,
            mtime: (-1, 999_999_999),
            ctime: (1 << 40, 0),
            inode: u64::MAX,
        }
    }

    fn held() -> RangeSet {
        let mut ranges = RangeSet::new();
        ranges.insert(ByteRange::new(0, 3 * GROUP));
        ranges.insert(ByteRange::new(99 * GROUP, 100 * GROUP));
        ranges
    }

    #[test]
    fn what_is_held_comes_across_and_only_for_the_same_source() {
        let wire = WireHeld::new(identity(), &held());
        assert_eq!(wire.of(&identity()).unwrap(), held());
        let other = SourceIdentity {
            inode: 1,
            ..identity()
        };
        assert!(wire.of(&other).unwrap().is_empty());
    }

    #[test]
    fn claims_that_cannot_be_are_errors() {
        for (pairs, size) in [
            (vec![(0, 2)], 2 * GROUP - 1),
            (vec![(u64::MAX, 1)], u64::MAX),
            (vec![(1, u64::MAX)], u64::MAX),
            (vec![(1 << 60, 1)], u64::MAX),
            (vec![(0, 0)], GROUP),
            (vec![(1, 1); MAX_RANGES + 1], u64::MAX),
        ] {
            assert!(WireRanges(pairs.clone()).within(size).is_err(), "{pairs:?}");
        }
    }

    #[test]
    fn values_are_told_by_runs() {
        let value = |index: u64| (index, [index.to_le_bytes()[0]; 32]);
        let values: Vec<_> = (0..3).chain(7..9).map(value).collect();
        let told: Vec<_> = runs(&values).collect();
        assert_eq!(
            told,
            [
                (0, vec![[0; 32], [1; 32], [2; 32]]),
                (7, vec![[7; 32], [8; 32]])
            ]
        );
        let many: Vec<_> = (0..=MAX_VALUES as u64).map(value).collect();
        let told: Vec<_> = runs(&many).map(|(first, run)| (first, run.len())).collect();
        assert_eq!(told, [(0, MAX_VALUES), (MAX_VALUES as u64, 1)]);
    }

    #[test]
    fn what_changed_is_named() {
        let before = SourceIdentity {
            size: 5,
            mtime: (1, 2),
            ctime: (3, 4),
            inode: 6,
        };
        assert_eq!(before.difference(&before), None);
        let says = |now: SourceIdentity, part: &str| {
            let text = before.difference(&now).unwrap_or_default();
            assert!(text.contains(part), "{text}");
        };
        says(
            SourceIdentity { size: 7, ..before },
            "had 5 bytes and has 7",
        );
        says(
            SourceIdentity {
                mtime: (1, 3),
                ..before
            },
            "modified",
        );
        says(SourceIdentity { inode: 7, ..before }, "another file");
        // Its modification time was put back; the time of change cannot be.
        says(
            SourceIdentity {
                ctime: (3, 5),
                ..before
            },
            "written to",
        );
    }

    proptest! {
        #[test]
        fn ranges_come_back_as_they_were(pairs in prop::collection::vec((1..9u64, 1..9u64), 0..50)) {
            let wire = WireRanges(pairs);
            let ranges = wire.within(1 << 40).unwrap();
            prop_assert_eq!(WireRanges::from(&ranges), wire);
        }
    }
}
