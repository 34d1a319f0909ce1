//! Every message there and back, and what peers may not say.

use super::super::pipe::pipe;
use super::*;
use howdah_session::{Act, Reasons};
use proptest::prelude::*;

thread_local! {
    static STEPS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

pub(super) fn count(steps: usize) {
    STEPS.set(STEPS.get() + steps);
}

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
            STEPS.set(0);
            let (mut tap, spout) = pipe();
            let bytes = encode_any(entries);
            let feeder = std::thread::spawn(move || {
                // The reader may have seen enough.
                let _ = tap.put(&bytes).and_then(|()| tap.flush());
            });
            let mut reader = ManifestReader::new(spout);
            for _ in 0..entries.len() {
                reader.next().unwrap();
            }
            feeder.join().unwrap();
            costs.push(STEPS.get());
            let most = entries.len() * 5 * bounds::NAME;
            assert!(STEPS.get() <= most, "{} steps", STEPS.get());
        }
        // Four times as many, of which none is a directory; quadratic work would be sixteen times as much.
        assert!(costs[1] <= 7 * costs[0], "{costs:?}");
    }
}

/// The same as [`encode`], of any length.
fn encode_any(entries: &[Entry]) -> Vec<u8> {
    let (tap, mut spout) = pipe();
    let entries = entries.to_vec();
    let writer = std::thread::spawn(move || {
        let mut writer = ManifestWriter::new(tap).unwrap();
        for entry in &entries {
            writer.put(entry).unwrap();
        }
        writer.flush().unwrap();
    });
    let mut bytes = Vec::new();
    spout.read_to_end(&mut bytes).unwrap();
    writer.join().unwrap();
    bytes
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

fn decode(bytes: &[u8]) -> (Vec<Entry>, Option<StoreError>) {
    let (mut tap, spout) = pipe();
    tap.put(bytes).unwrap();
    drop(tap);
    let mut reader = ManifestReader::new(spout);
    let mut entries = Vec::new();
    loop {
        match reader.next() {
            Ok(end @ Entry::End { .. }) => {
                entries.push(end);
                return (entries, None);
            }
            Ok(entry) => entries.push(entry),
            Err(error) => return (entries, Some(error)),
        }
    }
}

fn encode(entries: &[Entry]) -> Vec<u8> {
    let (tap, mut spout) = pipe();
    let mut writer = ManifestWriter::new(tap).unwrap();
    for entry in entries {
        writer.put(entry).unwrap();
    }
    drop(writer);
    let mut bytes = Vec::new();
    spout.read_to_end(&mut bytes).unwrap();
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
    fn any_bytes_decode_or_fail(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut with_version = vec![VERSION];
        with_version.extend(&bytes);
        let _ = decode(&with_version);
        let (mut tap, mut spout) = pipe();
        tap.put(&bytes).unwrap();
        drop(tap);
        while read_answer(&mut spout).is_ok() {}
    }

    #[test]
    fn answers_come_back_as_they_were(files in prop::collection::vec(any::<bool>(), 0..50)) {
        let (tap, mut spout) = pipe();
        let mut writer = AnswerWriter::new(tap).unwrap();
        for wanted in &files {
            writer.file(*wanted).unwrap();
        }
        let change = Change {
            act: Act::Change,
            reasons: Reasons::OWNER,
            path: "a\nb".into(),
        };
        writer.note(&change).unwrap();
        writer.end().unwrap();
        expect_version(&mut spout).unwrap();
        let mut back = Vec::new();
        loop {
            match read_answer(&mut spout).unwrap() {
                Answer::Files { wanted, count } => back.extend((0..count).map(|_| wanted)),
                Answer::Note(told) => prop_assert_eq!(&told, &change),
                Answer::End => break,
            }
        }
        prop_assert_eq!(back, files);
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
    assert!(matches!(decode(&bytes).1, Some(StoreError::BadTree { .. })));
}

#[test]
fn a_manifest_of_like_files_takes_few_bytes_each() {
    let entries: Vec<_> = (0..100_000u32)
        .map(|i| file(format!("IMG_{i:08}.jpg").as_bytes()))
        .collect();
    // The pipe is bounded, so in parts.
    let bytes: usize = entries.chunks(10_000).map(|part| encode(part).len()).sum();
    assert!(bytes < 18 * entries.len(), "{bytes}");
}
