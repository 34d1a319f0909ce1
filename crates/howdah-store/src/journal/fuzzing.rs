//! Journals of any bytes, and journals whose checks are right and whose claims are any.

#![expect(clippy::missing_panics_doc, reason = "to panic is what they are for")]

use super::{CHECK, Contents, Header, MAX_RANGES, NODE, PartId, check_of, read};
use crate::SourceIdentity;
use howdah_core::RangeSet;

/// Longest journal that is made here, in bytes.
const MAX_MADE: usize = 1 << 16;

/// A journal with right checks over these bodies, and where each record ends.
fn sealed<'a>(bodies: impl Iterator<Item = &'a [u8]>) -> (Vec<u8>, Vec<usize>) {
    let mut chain = [0; CHECK];
    let (mut bytes, mut ends) = (Vec::new(), Vec::new());
    for body in bodies {
        chain = check_of(&chain, body);
        bytes.extend((body.len() as u32).to_le_bytes());
        bytes.extend(body);
        bytes.extend(chain);
        ends.push(bytes.len());
    }
    (bytes, ends)
}

fn header(size: u64, host: &[u8]) -> Header {
    let source = SourceIdentity {
        size,
        mtime: (-5, 999_999_999),
        ctime: (i64::MAX, 7),
        inode: 42,
    };
    let part = PartId {
        inode: 9,
        born: 1 << 70,
    };
    let host = host.to_vec();
    Header { source, part, host }
}

/// What is believed holds together, whatever stands there.
fn check(bytes: &[u8]) -> Option<Contents> {
    let contents = read(bytes, |_| true)?;
    assert!(contents.end <= bytes.len() as u64);
    assert!(contents.ranges.range_count() <= MAX_RANGES);
    assert!(contents.ranges.end() <= contents.header.source.size);
    let mut told = RangeSet::new();
    for node in &contents.nodes {
        let range = node.range().expect("it was read");
        assert!(told.missing(range).eq([range]), "two claims for one byte");
        told.insert(range);
    }
    assert!(told.iter().eq(contents.ranges.iter()));
    // What is behind the end was not believed, so it can be cut off.
    let whole = &bytes[..contents.end as usize];
    let again = read(whole, |_| true).expect("its beginning is the same");
    assert_eq!(again.nodes, contents.nodes);
    assert_eq!(again.end, contents.end);
    assert_eq!(again.header.encode(), contents.header.encode());
    assert!(read(bytes, |_| false).is_none());
    Some(contents)
}

/// The first byte says how the rest is to be understood: as a journal, or as claims and damage.
pub fn journal(bytes: &[u8]) {
    let Some((&how, rest)) = bytes.split_first() else {
        return;
    };
    if how & 1 == 0 {
        check(rest);
        return;
    }
    // Few bytes make many claims: level, index, whether a record ends there.
    let (size, rest) = rest.split_at(rest.len().min(8));
    let mut number = [0; 8];
    number[..size.len()].copy_from_slice(size);
    let first = header(u64::from_le_bytes(number) >> (how >> 2), b"here");
    let mut bodies = vec![first.encode(), Vec::new()];
    for claim in rest.chunks_exact(4).take(MAX_MADE / NODE) {
        let [level, low, high, end] = [claim[0], claim[1], claim[2], claim[3]];
        let index = u64::from(u16::from_le_bytes([low, high])) << (end >> 1 & 0x3f);
        let body = bodies.last_mut().expect("there is one");
        body.push(level);
        body.extend(index.to_le_bytes());
        body.extend([level; 32]);
        if end & 1 != 0 {
            bodies.push(Vec::new());
        }
    }
    let (mut made, ends) = sealed(bodies.iter().map(Vec::as_slice));
    let contents = check(&made).expect("its header is right");
    assert_eq!(contents.header, first);
    assert!(ends.contains(&(contents.end as usize)), "part of a record");
    if how & 2 != 0 {
        // A bit that has changed is found, wherever it is: what stands before it is believed, and nothing behind.
        let at = (how as usize * 7919) % made.len();
        made[at] ^= 1 << (how & 7);
        let end = check(&made).map_or(0, |damaged| damaged.end as usize);
        assert!(end <= at && (end == 0 || ends.contains(&end)));
    }
}

/// One that a copy has written, and claims.
pub fn journal_samples() -> Vec<Vec<u8>> {
    let mut body = Vec::new();
    for (level, index) in [(3u8, 0u64), (0, 9)] {
        body.push(level);
        body.extend(index.to_le_bytes());
        body.extend([level; 32]);
    }
    let first = header(1 << 40, b"here").encode();
    let (written, _) = sealed([&first[..], &body].into_iter());
    let claims = [
        [&[1u8][..], &(1u64 << 40).to_le_bytes(), &[0, 3, 0, 1]].concat(),
        [
            &[3u8][..],
            &(1u64 << 40).to_le_bytes(),
            &[3, 0, 0, 0, 0, 9, 0, 1, 1, 5, 0, 1, 0, 8, 0, 0],
        ]
        .concat(),
    ];
    [[&[0][..], &written].concat()]
        .into_iter()
        .chain(claims)
        .collect()
}
