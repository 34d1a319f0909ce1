//! What is said about a copy that goes on: which source it was, and what is there already.

use crate::{Error, ErrorKind};
use howdah_core::{ByteRange, RangeSet};
use howdah_store::{GROUP, Held, RESUMABLE_MIN, SourceIdentity};
use serde::{Deserialize, Serialize};

/// Ranges in one message.
const MAX_RANGES: usize = 4_096;
/// Values in one message: 32 KiB.
pub(crate) const MAX_VALUES: usize = 1_024;
/// A sender reads, hashes and sends that much before it knows what the receiver has: far more than
/// leaves in the first round trip, unless the rate is fixed.
pub(crate) const HEAD: u64 = RESUMABLE_MIN;

/// [`SourceIdentity`].
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct WireIdentity {
    size: u64,
    mtime: (i64, u32),
    ctime: (i64, u32),
    inode: u64,
}

impl From<&SourceIdentity> for WireIdentity {
    fn from(source: &SourceIdentity) -> Self {
        let SourceIdentity {
            size,
            mtime,
            ctime,
            inode,
        } = *source;
        Self {
            size,
            mtime,
            ctime,
            inode,
        }
    }
}

impl From<WireIdentity> for SourceIdentity {
    fn from(wire: WireIdentity) -> Self {
        let WireIdentity {
            size,
            mtime,
            ctime,
            inode,
        } = wire;
        Self {
            size,
            mtime,
            ctime,
            inode,
        }
    }
}

/// Ranges of whole groups: how many are missing before, and how many are there.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct WireRanges(Vec<(u64, u64)>);

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
    /// The ranges, if they make sense in an object of `size` bytes.
    pub(crate) fn within(&self, size: u64) -> Result<RangeSet, Error> {
        let wrong = || {
            Error::new(
                ErrorKind::Protocol,
                "claims to have what cannot be there of the object",
            )
        };
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

/// [`Held`].
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct WireHeld {
    source: WireIdentity,
    ranges: WireRanges,
}

impl From<&Held> for WireHeld {
    fn from(held: &Held) -> Self {
        Self {
            source: (&held.source).into(),
            ranges: (&held.ranges).into(),
        }
    }
}

impl WireHeld {
    /// What need not be sent of `source`: nothing if it is another one.
    pub(crate) fn of(&self, source: &SourceIdentity) -> Result<RangeSet, Error> {
        if SourceIdentity::from(self.source) == *source {
            self.ranges.within(source.size)
        } else {
            Ok(RangeSet::new())
        }
    }
}

/// Consecutive values, each run for a message of its own.
pub(crate) fn runs(values: &[(u64, [u8; 32])]) -> impl Iterator<Item = (u64, Vec<[u8; 32]>)> {
    let runs = values.chunk_by(|(a, _), (b, _)| a + 1 == *b);
    let parts = runs.flat_map(|run| run.chunks(MAX_VALUES));
    parts.map(|part| (part[0].0, part.iter().map(|&(_, value)| value).collect()))
}

#[cfg(test)]
pub(crate) mod samples {
    use super::*;

    pub(crate) fn identity() -> SourceIdentity {
        SourceIdentity {
            size: 100 * GROUP + 1,
            mtime: (-1, 999_999_999),
            ctime: (1 << 40, 0),
            inode: u64::MAX,
        }
    }

    pub(crate) fn held() -> Held {
        let mut ranges = RangeSet::new();
        ranges.insert(ByteRange::new(0, 3 * GROUP));
        ranges.insert(ByteRange::new(99 * GROUP, 100 * GROUP));
        Held {
            source: identity(),
            ranges,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use samples::{held, identity};

    #[test]
    fn what_is_held_comes_across_and_only_for_the_same_source() {
        let wire = WireHeld::from(&held());
        assert_eq!(wire.of(&identity()).unwrap(), held().ranges);
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
        let value = |index: u64| (index, [index as u8; 32]);
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

    proptest! {
        #[test]
        fn ranges_come_back_as_they_were(pairs in prop::collection::vec((1..9u64, 1..9u64), 0..50)) {
            let wire = WireRanges(pairs);
            let ranges = wire.within(1 << 40).unwrap();
            prop_assert_eq!(WireRanges::from(&ranges), wire);
        }
    }
}
