//! `RangeSet` against all it can meet in a small space. What it does depends only on the order of the edges, so a space of some
//! bytes shows every case: up to four ranges in the set, and one that is put in, taken out or asked about.

use howdah_core::{ByteRange, RangeSet};

const SPACE: u64 = 8;
/// Also where offsets end.
const ORIGINS: [u64; 3] = [0, 1 << 40, u64::MAX - SPACE];

fn mask(start: u64, end: u64) -> u32 {
    (start..end).fold(0, |mask, at| mask | 1 << at)
}

/// The set of these bytes, built in an order that `seed` chooses.
fn set(bytes: u32, origin: u64, seed: usize) -> RangeSet {
    let mut set = RangeSet::new();
    for step in 0..SPACE {
        // Odd numbers have no divisor in common with the size of the space.
        let at = (step * [1, 3, 5, 7][seed % 4] + seed as u64) % SPACE;
        if bytes >> at & 1 == 1 {
            assert_eq!(set.insert(ByteRange::new(origin + at, origin + at + 1)), 1);
        }
    }
    set
}

fn check(set: &RangeSet, bytes: u32, origin: u64) {
    assert_eq!(set.byte_count(), u64::from(bytes.count_ones()));
    let mut seen = 0;
    let mut last = None;
    for range in set.iter() {
        assert!(range.start < range.end);
        assert!(last.is_none_or(|last| last < range.start), "they touch");
        last = Some(range.end);
        seen |= mask(range.start - origin, range.end - origin);
    }
    assert_eq!(seen, bytes);
    assert_eq!(set.end(), last.unwrap_or(0));
    assert_eq!(set.is_empty(), bytes == 0);
    let ranges = (bytes & !(bytes << 1)).count_ones();
    assert_eq!(set.range_count(), ranges as usize);
    let prefix = if origin == 0 {
        bytes.trailing_ones()
    } else {
        0
    };
    assert_eq!(set.prefix_len(), u64::from(prefix));
}

fn check_missing(set: &RangeSet, range: ByteRange, origin: u64, want: u32) {
    let mut missing = 0;
    let mut last = None;
    for gap in set.missing(range) {
        assert!(gap.start < gap.end && last.is_none_or(|last| last < gap.start));
        last = Some(gap.end);
        missing |= mask(gap.start - origin, gap.end - origin);
    }
    assert_eq!(missing, want, "{set:?} {range:?}");
    assert_eq!(set.contains(range), want == 0);
}

#[test]
fn range_sets_are_right_in_every_small_case() {
    let mut cases = 0u64;
    for (origin, bytes) in ORIGINS
        .iter()
        .flat_map(|&o| (0..1u32 << SPACE).map(move |b| (o, b)))
    {
        for seed in 0..4 {
            check(&set(bytes, origin, seed), bytes, origin);
        }
        let before = set(bytes, origin, 1);
        for (start, end) in (0..=SPACE).flat_map(|s| (s..=SPACE).map(move |e| (s, e))) {
            let range = ByteRange::new(origin + start, origin + end);
            let asked = mask(start, end);
            check_missing(&before, range, origin, asked & !bytes);
            let mut more = before.clone();
            let added = more.insert(range);
            assert_eq!(added, u64::from((asked & !bytes).count_ones()));
            check(&more, bytes | asked, origin);
            let mut less = before.clone();
            let removed = less.remove(range);
            assert_eq!(removed, u64::from((asked & bytes).count_ones()));
            check(&less, bytes & !asked, origin);
            // Equal sets are equal, however they came to be.
            assert_eq!(more, set(bytes | asked, origin, 2));
            assert_eq!(less, set(bytes & !asked, origin, 3));
            cases += 1;
        }
    }
    println!("{cases} cases");
}
