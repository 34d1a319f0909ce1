use super::*;
use crate::GROUP;
use proptest::prelude::*;
use std::io::Seek as _;

fn header(size: u64) -> Header {
    Header {
        source: SourceIdentity {
            size,
            mtime: (-5, 999_999_999),
            ctime: (i64::MAX, 7),
            inode: 42,
        },
        part: PartId {
            inode: 9,
            born: 1 << 70,
        },
        host: b"here".to_vec(),
    }
}

fn node(level: u8, index: u64) -> Node {
    Node {
        level,
        index,
        value: *blake3::hash(&[level, index as u8]).as_bytes(),
    }
}

/// A journal of three records in memory, and where each of them ends.
fn written(records: &[&[Node]]) -> (Vec<u8>, Vec<usize>) {
    let dir = tempfile::tempdir().unwrap();
    let fd = OwnedFd::from(File::open(dir.path()).unwrap());
    let mut journal = Journal::create(&fd, OsStr::new("j"), &header(1 << 40)).unwrap();
    let mut ends = vec![journal.end as usize];
    for nodes in records {
        journal.append(nodes).unwrap();
        ends.push(journal.end as usize);
    }
    let mut bytes = Vec::new();
    journal.file.rewind().unwrap();
    journal.file.read_to_end(&mut bytes).unwrap();
    (bytes, ends)
}

fn sample() -> (Vec<u8>, Vec<usize>) {
    written(&[&[node(3, 0), node(0, 9)], &[node(1, 5)], &[node(0, 8)]])
}

#[test]
fn what_was_appended_is_read() {
    let (bytes, _) = sample();
    let contents = read(&bytes[..], |_| true).unwrap();
    assert_eq!(contents.header, header(1 << 40));
    assert_eq!(
        contents.nodes,
        [node(3, 0), node(0, 9), node(1, 5), node(0, 8)]
    );
    let all = ByteRange::new(0, 12 * GROUP);
    assert_eq!(contents.ranges.iter().collect::<Vec<_>>(), [all]);
    assert_eq!(contents.end, bytes.len() as u64);
}

#[test]
fn f10_a_journal_cut_at_any_length_is_read_up_to_its_last_whole_record() {
    let (bytes, ends) = sample();
    for len in 0..=bytes.len() {
        let whole = ends.iter().filter(|&&end| end <= len).count();
        match read(&bytes[..len], |_| true) {
            None => assert_eq!(whole, 0, "{len}"),
            Some(contents) => {
                assert_eq!(contents.end as usize, ends[whole - 1], "{len}");
                assert_eq!(contents.nodes.len(), [0, 2, 3, 4][whole - 1], "{len}");
            }
        }
    }
}

#[test]
fn f11_any_flipped_bit_ends_the_journal_there() {
    let (bytes, ends) = sample();
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut bytes = bytes.clone();
            bytes[at] ^= 1 << bit;
            let whole = ends.iter().filter(|&&end| end <= at).count();
            let claims = read(&bytes[..], |_| true).map(|contents| contents.nodes.len());
            assert_eq!(
                claims,
                [None, Some(0), Some(2), Some(3)][whole],
                "{at} {bit}"
            );
        }
    }
}

#[test]
fn a_record_stands_in_its_own_place_only() {
    let (bytes, ends) = sample();
    // The second and the third record change places.
    let swapped = [
        &bytes[..ends[1]],
        &bytes[ends[2]..ends[3]],
        &bytes[ends[1]..ends[2]],
    ]
    .concat();
    assert_eq!(read(&swapped[..], |_| true).unwrap().nodes.len(), 2);
}

#[test]
fn claims_that_make_no_sense_end_the_journal() {
    let overlap: &[Node] = &[node(2, 0)];
    let beyond: &[Node] = &[node(0, (1 << 40) / GROUP)];
    let deep: &[Node] = &[node(MAX_LEVEL + 1, 0)];
    let huge: &[Node] = &[node(MAX_LEVEL, u64::MAX)];
    for wrong in [overlap, beyond, deep, huge] {
        let (bytes, ends) = written(&[&[node(0, 3)], wrong, &[node(0, 9)]]);
        let contents = read(&bytes[..], |_| true).unwrap();
        assert_eq!(contents.nodes, [node(0, 3)], "{wrong:?}");
        assert_eq!(contents.end as usize, ends[1]);
    }
    // The same once more is no contradiction.
    let (bytes, _) = written(&[&[node(2, 0)], &[node(0, 3)], &[node(0, 4)]]);
    assert_eq!(
        read(&bytes[..], |_| true).unwrap().nodes,
        [node(2, 0), node(0, 4)]
    );
}

#[test]
fn too_many_holes_are_cut_off() {
    let nodes: Vec<_> = (0..MAX_RANGES as u64 + 10)
        .map(|i| node(0, 2 * i))
        .collect();
    let (bytes, _) = written(&[&nodes]);
    let contents = read(&bytes[..], |_| true).unwrap();
    assert_eq!(contents.nodes.len(), MAX_RANGES);
    assert_eq!(contents.ranges.range_count(), MAX_RANGES);
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        prop_assert!(read(&bytes[..], |_| true).is_none());
    }
}

/// H3: a journal of 6 MB in which every record claims one hole more cost 89 s. Every claim is looked at once here; a
/// reader that copies what it has for each record does not come to an end.
#[test]
fn h3_a_journal_of_many_records_is_read_in_one_go() {
    const RECORDS: u64 = 150_000;
    let mut chain = [0; CHECK];
    let mut bytes = Vec::new();
    let mut put = |body: &[u8]| {
        chain = check_of(&chain, body);
        bytes.extend((body.len() as u32).to_le_bytes());
        bytes.extend(body);
        bytes.extend(chain);
    };
    put(&header(1 << 60).encode());
    for n in 0..RECORDS {
        let node = node(0, 2 * n);
        let mut body = vec![node.level];
        body.extend(node.index.to_le_bytes());
        body.extend(node.value);
        put(&body);
    }
    let contents = read(&bytes[..], |_| true).unwrap();
    assert_eq!(contents.end as usize, bytes.len());
    assert_eq!(contents.nodes.len(), MAX_RANGES);
    // And nothing of it if it is about another file.
    assert!(read(&bytes[..], |header| header.part.inode == 10).is_none());
}
