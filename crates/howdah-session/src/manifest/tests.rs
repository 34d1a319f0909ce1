//! Every record there and back, and what peers may not say.

use super::*;
use crate::SessionError;
use crate::entry::{DirId, Entry, Meta, Other, Stamp, bounds};
use crate::wire::{VERSION, put_varint, put_version, steps};
use proptest::prelude::*;

/// A name may have its beginning in common with the one before, so a few bytes of a peer's stand for 255; whatever they say, and
/// however deep they lie, that is all that there is to do for a record, and one after the other costs the same.
#[test]
fn h5_records_of_a_manifest_are_little_work_for_each() {
    let stem = |end: String| [vec![b'n'; bounds::NAME - end.len()], end.into_bytes()].concat();
    // As deep as can be, in a directory of its own each time.
    let deep: Vec<Entry> = (0..20_000u32)
        .flat_map(|n| [dir(&stem(format!("{n:06}"))), Entry::Up { complete: true }])
        .collect();
    let wide: Vec<Entry> = (0..40_000u32)
        .map(|n| file(&stem(format!("{n:06}"))))
        .collect();
    let mut nest: Vec<Entry> = (0..2_000).map(|_| dir(b"d")).collect();
    nest.extend((0..20_000u32).map(|n| file(format!("{n:06}").as_bytes())));
    for entries in [deep, wide, nest] {
        let mut costs = Vec::new();
        for entries in [&entries[..entries.len() / 4], &entries[..]] {
            let bytes = encode(entries);
            let mut rest = &bytes[..];
            let mut decoder = ManifestDecoder::default();
            steps::taken();
            for _ in 0..entries.len() {
                decoder.decode(&mut rest).unwrap().unwrap();
            }
            let taken = steps::taken();
            costs.push(taken);
            let most = entries.len() * 5 * bounds::NAME;
            assert!(taken <= most, "{taken} steps");
        }
        // Four times as many, of which none is a directory; quadratic work would be sixteen times as much.
        assert!(costs[1] <= 7 * costs[0], "{costs:?}");
    }
}

/// What comes byte by byte is not more work for each of them.
#[test]
fn h5_records_in_crumbs_are_little_work_for_each_byte() {
    let stem = |end: String| [vec![b'n'; bounds::NAME - end.len()], end.into_bytes()].concat();
    let meta = Meta {
        xattrs: vec![(vec![b'x'; bounds::NAME], vec![0; bounds::XATTR_VALUE]); 4],
        ..Meta::default()
    };
    let mut entries: Vec<Entry> = (0..1000u32)
        .map(|n| file(&stem(format!("{n:06}"))))
        .collect();
    entries.push(Entry::Dir {
        name: stem("d".into()),
        meta,
    });
    let bytes = encode(&entries);
    let (mut decoder, mut start, mut read) = (ManifestDecoder::default(), 0, 0);
    steps::taken();
    for end in 1..=bytes.len() {
        let mut rest = &bytes[start..end];
        read += usize::from(decoder.decode(&mut rest).unwrap().is_some());
        start = end - rest.len();
    }
    let taken = steps::taken();
    assert_eq!(read, entries.len());
    assert!(
        taken <= bytes.len() * 5 * bounds::NAME,
        "{taken} steps for {} bytes",
        bytes.len()
    );
}

fn meta() -> impl Strategy<Value = Meta> {
    let xattrs = prop::collection::vec(
        (
            prop::collection::vec(1..=255u8, 1..9),
            prop::collection::vec(any::<u8>(), 0..9),
        ),
        0..3,
    );
    let owner = prop::option::of((any::<u32>(), any::<u32>()));
    (
        0..=0o7777u32,
        any::<i64>(),
        0..1_000_000_000u32,
        owner,
        xattrs,
    )
        .prop_map(|(mode, secs, nanos, owner, xattrs)| Meta {
            mode,
            mtime: Stamp { secs, nanos },
            owner,
            xattrs,
        })
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(
        any::<u8>().prop_filter("", |b| *b != 0 && *b != b'/'),
        1..20,
    )
    .prop_filter("", |name| name != b"." && name != b"..")
}

fn entries() -> impl Strategy<Value = Vec<Entry>> {
    let entry = (
        0..7u8,
        meta(),
        0..bounds::SIZE,
        prop::option::of(any::<u64>()),
        prop::option::of(any::<[u8; 32]>()),
    );
    prop::collection::btree_map(name(), entry, 0..20).prop_map(|map| {
        let mut others = Vec::new();
        let mut dirs = Vec::new();
        for (name, (kind, meta, size, link, hash)) in map {
            match kind {
                0 => others.push(Entry::File {
                    name,
                    size,
                    meta,
                    link,
                    hash,
                }),
                1 => others.push(Entry::Symlink {
                    target: name.clone(),
                    name,
                    meta,
                }),
                2 => others.push(Entry::Link {
                    name,
                    link: size,
                    last: size % 2 == 0,
                }),
                3 => others.push(Entry::Kept { name }),
                4 => others.push(Entry::Other {
                    name,
                    what: Other::ALL[(size % 5) as usize],
                }),
                5 => others.push(Entry::Ahead { name }),
                _ => dirs.extend([
                    Entry::Place {
                        id: DirId {
                            system: u64::MAX - size,
                            device: size,
                            inode: size / 3,
                        },
                    },
                    Entry::Dir { name, meta },
                    Entry::Gap,
                    Entry::Unread,
                    Entry::Up {
                        complete: size % 2 == 0,
                    },
                ]),
            }
        }
        others.extend(dirs);
        others.push(Entry::End { complete: true });
        others
    })
}

fn decode(bytes: &[u8]) -> (Vec<Entry>, Option<SessionError>) {
    in_pieces(bytes, usize::MAX)
}

/// What is read when it comes in pieces of so many bytes, and the first mistake.
fn in_pieces(bytes: &[u8], piece: usize) -> (Vec<Entry>, Option<SessionError>) {
    let mut decoder = ManifestDecoder::default();
    let (mut entries, mut waiting) = (Vec::new(), Vec::new());
    for piece in bytes.chunks(piece) {
        waiting.extend_from_slice(piece);
        let mut rest = &waiting[..];
        loop {
            match decoder.decode(&mut rest) {
                Ok(Some(entry)) => {
                    let is_end = matches!(entry, Entry::End { .. });
                    entries.push(entry);
                    if is_end {
                        return (entries, None);
                    }
                }
                Ok(None) => break,
                Err(error) => return (entries, Some(error)),
            }
        }
        waiting = rest.to_vec();
    }
    (entries, None)
}

fn encode(entries: &[Entry]) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_version(&mut bytes);
    let mut encoder = ManifestEncoder::default();
    for entry in entries {
        encoder.encode(entry, &mut bytes);
    }
    bytes
}

proptest! {
    #[test]
    fn manifests_come_back_as_they_were(entries in entries()) {
        let (back, error) = decode(&encode(&entries));
        prop_assert!(error.is_none(), "{error:?}");
        prop_assert_eq!(back, entries);
    }

    #[test]
    fn manifests_come_back_in_pieces_of_any_size(entries in entries(), piece in 1usize..80) {
        let (back, error) = in_pieces(&encode(&entries), piece);
        prop_assert!(error.is_none(), "{error:?}");
        prop_assert_eq!(back, entries);
    }

    /// A mistake is one however much of it has come; and nothing is read otherwise for coming in pieces.
    #[test]
    fn any_bytes_decode_or_fail(bytes in prop::collection::vec(any::<u8>(), 0..300), piece in 1usize..20) {
        let mut with_version = vec![VERSION];
        with_version.extend(&bytes);
        prop_assert_eq!(in_pieces(&with_version, piece), decode(&with_version));
    }
}

#[track_caller]
fn assert_refused(entries: &[Entry], part: &str) {
    let (_, error) = decode(&encode(entries));
    let text = error.expect("refused").to_string();
    assert!(text.contains(part), "{text}");
}

fn file(name: &[u8]) -> Entry {
    let (size, meta) = (0, Meta::default());
    Entry::File {
        name: name.to_vec(),
        size,
        meta,
        link: None,
        hash: None,
    }
}

fn dir(name: &[u8]) -> Entry {
    Entry::Dir {
        name: name.to_vec(),
        meta: Meta::default(),
    }
}

#[test]
fn a50_names_that_are_none_are_refused_by_the_decoder() {
    for (name, part) in [
        (&b".."[..], "leads elsewhere"),
        (b".", "leads elsewhere"),
        (b"", "empty"),
        (b"/etc/passwd", "slash"),
        (b"a/../../b", "slash"),
        (b"a\0b", "NUL"),
    ] {
        assert_refused(&[file(name)], part);
        assert_refused(&[dir(name)], part);
        let name = name.to_vec();
        assert_refused(&[Entry::Kept { name: name.clone() }], part);
        let last = false;
        assert_refused(
            &[Entry::Link {
                name,
                link: 1,
                last,
            }],
            part,
        );
    }
    let long = vec![b'x'; 256];
    assert_refused(&[file(&long)], "longer than 255");
    let name = b"l".to_vec();
    let (target, meta) = (vec![b'x'; 4096], Meta::default());
    assert_refused(&[Entry::Symlink { name, target, meta }], "longer than 4095");
}

#[test]
fn a53_duplicates_and_disorder_are_refused() {
    assert_refused(&[file(b"a"), file(b"a")], "twice or out of order");
    assert_refused(&[file(b"b"), file(b"a")], "twice or out of order");
    assert_refused(
        &[dir(b"a"), Entry::Up { complete: true }, dir(b"a")],
        "twice",
    );
    let up = Entry::Up { complete: true };
    assert_refused(&[dir(b"a"), up.clone(), file(b"b")], "behind a directory");
    assert_refused(&[up], "leaves the top");
    assert_refused(
        &[dir(b"a"), Entry::End { complete: true }],
        "inside of a directory",
    );
}

#[test]
fn a41_deep_and_huge_announcements_are_refused_without_being_stored() {
    let deep: Vec<_> = (0..3000).map(|_| dir(b"d")).collect();
    assert_refused(&deep, "longer than 4095");
    let name = vec![b'n'; 255];
    let long: Vec<_> = (0..17).map(|_| dir(&name)).collect();
    assert_refused(&long, "longer than 4095");
    let entry = Entry::File {
        name: b"f".to_vec(),
        size: u64::MAX,
        meta: Meta::default(),
        link: None,
        hash: None,
    };
    assert_refused(&[entry], "a file of");
    // A length of 2^60 in front of nothing.
    let mut bytes = vec![VERSION, FILE, 0];
    put_varint(&mut bytes, 1 << 60);
    assert!(matches!(
        decode(&bytes).1,
        Some(SessionError::BadTree { .. })
    ));
}

#[test]
fn a_manifest_of_like_files_takes_few_bytes_each() {
    let entries: Vec<_> = (0..100_000u32)
        .map(|i| file(format!("IMG_{i:08}.jpg").as_bytes()))
        .collect();
    let bytes = encode(&entries).len();
    assert!(bytes < 18 * entries.len(), "{bytes}");
}
