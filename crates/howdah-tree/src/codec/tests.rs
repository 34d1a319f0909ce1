//! Streams that come in chunks, and end.

use super::super::pipe::pipe;
use super::*;
use howdah_session::entry::{Meta, bounds};
use howdah_session::{Act, Reasons};

/// Longer than chunks are, and shorter.
fn entries() -> Vec<Entry> {
    let file = |n: u32| {
        let xattr = (b"user.x".to_vec(), vec![7; bounds::XATTR_VALUE]);
        let count = if n.is_multiple_of(40) { 5 } else { 0 };
        Entry::File {
            name: format!("{n:06}").into_bytes(),
            size: n.into(),
            meta: Meta {
                xattrs: vec![xattr; count],
                ..Meta::default()
            },
            link: None,
            hash: n.is_multiple_of(3).then_some([9; 32]),
        }
    };
    let files = (0..100).map(file);
    files.chain([Entry::End { complete: true }]).collect()
}

fn written(entries: &[Entry]) -> Vec<u8> {
    let (tap, mut spout) = pipe();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut writer = ManifestWriter::new(tap).unwrap();
            for entry in entries {
                writer.put(entry).unwrap();
            }
        });
        let mut bytes = Vec::new();
        io::Read::read_to_end(&mut spout, &mut bytes).unwrap();
        bytes
    })
}

#[test]
fn records_come_in_chunks_of_any_size() {
    let entries = entries();
    let bytes = written(&entries);
    for chunk in [3, 61, 1000, PipeWriter::CHUNK_BYTES] {
        let (mut tap, spout) = pipe();
        std::thread::scope(|scope| {
            let bytes = &bytes;
            scope.spawn(move || {
                for chunk in bytes.chunks(chunk) {
                    tap.write_all(chunk).unwrap();
                }
            });
            let mut reader = ManifestReader::new(spout);
            for entry in &entries {
                assert_eq!(&reader.next().unwrap(), entry);
            }
            assert!(matches!(reader.next(), Err(StoreError::Aborted)));
        });
    }
}

#[test]
fn a_stream_that_ends_within_a_record_is_stopped_and_not_refused() {
    let bytes = written(&entries());
    for end in [0, 1, 2, 9, bytes.len() / 2, bytes.len() - 1] {
        let (mut tap, spout) = pipe();
        let mut reader = ManifestReader::new(spout);
        let error = std::thread::scope(|scope| {
            let bytes = &bytes[..end];
            scope.spawn(move || tap.put(bytes).unwrap());
            loop {
                match reader.next() {
                    Ok(entry) => assert_ne!(entry, Entry::End { complete: true }),
                    Err(error) => break error,
                }
            }
        });
        assert!(matches!(error, StoreError::Aborted), "{end}: {error}");
    }
}

#[test]
fn answers_and_numbers_come_in_crumbs() {
    let (tap, mut whole) = pipe();
    let mut writer = AnswerWriter::new(tap).unwrap();
    for n in 0..1000u32 {
        writer.file(n >= 300).unwrap();
    }
    let change = Change {
        act: Act::Change,
        reasons: Reasons::OWNER,
        path: "x".repeat(300).into(),
    };
    writer.note(&change).unwrap();
    writer.end().unwrap();
    drop(writer);
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut whole, &mut bytes).unwrap();
    put_varint(&mut bytes, u64::MAX);
    let (mut tap, mut spout) = pipe();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            bytes
                .chunks(1)
                .for_each(|crumb| tap.write_all(crumb).unwrap());
        });
        expect_version(&mut spout).unwrap();
        let files = |wanted, count| Answer::Files { wanted, count };
        let expected = [
            files(false, 300),
            files(true, 700),
            Answer::Note(change),
            Answer::End,
        ];
        for answer in expected {
            assert_eq!(read_answer(&mut spout).unwrap(), answer);
        }
        assert_eq!(get_varint(&mut spout).unwrap(), u64::MAX);
        assert!(matches!(get_varint(&mut spout), Err(StoreError::Aborted)));
    });
}
