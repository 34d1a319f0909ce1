//! A journal against a plain model: copies that claim, are killed at any byte, damaged and gone on with.

use super::*;
use crate::GROUP;
use proptest::prelude::*;

const GROUPS: u64 = 24;

#[derive(Clone, Debug)]
enum Op {
    /// One record with these claims: level and index.
    Claim(Vec<(u8, u64)>),
    /// Killed: of what was written behind the last sync, so many bytes are there.
    Kill(usize),
    /// Somebody changes a bit.
    Damage(usize, u8),
    /// Goes on with what is believed.
    Reopen,
}

fn op() -> impl Strategy<Value = Op> {
    let claim = (0..3u8).prop_flat_map(|level| (Just(level), 0..GROUPS >> level));
    prop_oneof![
        4 => prop::collection::vec(claim, 1..4).prop_map(Op::Claim),
        1 => any::<usize>().prop_map(Op::Kill),
        1 => (any::<usize>(), 0..8u8).prop_map(|(at, bit)| Op::Damage(at, bit)),
        2 => Just(Op::Reopen),
    ]
}

fn groups((level, index): (u8, u64)) -> std::ops::Range<u64> {
    index << level..(index + 1) << level
}

fn mask(claim: (u8, u64)) -> u32 {
    groups(claim).fold(0, |mask, at| mask | 1 << at)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    /// Whatever happens to the file: what is believed is what the undamaged records from the first one on say, and a copy that goes on
    /// adds to it.
    #[test]
    fn what_is_replayed_is_what_was_claimed(ops in prop::collection::vec(op(), 0..24)) {
        let dir = tempfile::tempdir().unwrap();
        let fd = OwnedFd::from(File::open(dir.path()).unwrap());
        let name = OsStr::new("j");
        let path = dir.path().join("j");
        let part = File::create(dir.path().join("p")).unwrap();
        let source = SourceIdentity { size: GROUPS * GROUP, mtime: (1, 2), ctime: (3, 4), inode: 5 };
        let header = Header::new(source, PartId::of(&part).unwrap());
        let mut journal = Journal::create(&fd, name, &header).unwrap();
        // Where each record ends, and which groups are claimed there.
        let mut records = vec![(journal.end, 0u32)];
        // Up to here nothing has been cut or changed.
        let mut good = u64::MAX;
        for op in ops.into_iter().chain([Op::Reopen]) {
            match op {
                Op::Claim(claims) => {
                    let (_, mut claimed) = *records.last().unwrap();
                    // A copy claims what it has not claimed.
                    let mut nodes = Vec::new();
                    for claim in claims {
                        if claimed & mask(claim) == 0 {
                            claimed |= mask(claim);
                            nodes.push(Node { level: claim.0, index: claim.1, value: [claim.0; 32] });
                        }
                    }
                    if !nodes.is_empty() {
                        journal.append(&nodes).unwrap();
                        records.push((journal.end, claimed));
                    }
                }
                Op::Kill(at) => {
                    let at = at as u64 % (journal.end + 1);
                    let len = std::fs::metadata(&path).unwrap().len();
                    if at < len {
                        journal.file.set_len(at).unwrap();
                        good = good.min(at);
                    }
                }
                Op::Damage(at, bit) => {
                    let len = std::fs::metadata(&path).unwrap().len();
                    if len > 0 {
                        let at = at as u64 % len;
                        let mut byte = [0];
                        journal.file.read_exact_at(&mut byte, at).unwrap();
                        journal.file.write_all_at(&[byte[0] ^ 1 << bit], at).unwrap();
                        good = good.min(at);
                    }
                }
                Op::Reopen => {
                    let believed = records.iter().filter(|(end, _)| *end <= good).count();
                    let Some((opened, contents)) = Journal::open(&fd, name, &part) else {
                        prop_assert_eq!(believed, 0);
                        return Ok(());
                    };
                    // A bit may have been changed back: then more is believed, and rightly.
                    let at = records.iter().position(|(end, _)| *end == contents.end);
                    let at = at.expect("it ends where a record ends");
                    prop_assert!(at + 1 >= believed);
                    records.truncate(at + 1);
                    let seen = contents.ranges.iter().fold(0, |seen, range| {
                        (range.start / GROUP..range.end / GROUP).fold(seen, |seen, at| seen | 1 << at)
                    });
                    prop_assert_eq!(seen, records[at].1);
                    opened.cut().unwrap();
                    journal = opened;
                    good = u64::MAX;
                }
            }
        }
    }
}
