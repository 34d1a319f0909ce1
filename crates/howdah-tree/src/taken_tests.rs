//! What other programs take away from a destination while a copy writes to it.

use super::codec::{ManifestWriter, put_varint};
use super::send::{PACK_END, PACK_FILE};
use super::sync_tests::file;
use super::tests::recursive;
use super::*;
use howdah_session::TreeReport;
use howdah_session::entry::{Entry, Meta};
use howdah_store::StoreError;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn within_20_s(mut is_there: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !is_there() {
        assert!(Instant::now() < end, "it does not come");
        std::thread::yield_now();
    }
}

/// Whether this process has that directory open: it is there before it is entered.
fn is_open(dir: &Path) -> bool {
    let open = fs::read_dir("/proc/self/fd").unwrap().flatten();
    // (One that is gone again meanwhile is none.)
    open.filter_map(|fd| fs::read_link(fd.path()).ok())
        .any(|at| at == dir)
}

/// Of a copy of `d` with a file: `d` gets another name when it has been made, and what comes of that.
fn with_directory_renamed(content: Option<&[u8]>) -> (TreeReport, Vec<String>) {
    let dir = tempfile::tempdir().unwrap();
    let wake: howdah_store::Wake = Arc::new(|| {});
    let target = TreeTarget::local(dir.path()).unwrap();
    let (mut receiver, mut ends) =
        TreeReceiver::start(target, false, &recursive(), false, wake).unwrap();
    let mut writer = ManifestWriter::new(ends.manifest).unwrap();
    writer
        .put(&Entry::Dir {
            name: "d".into(),
            meta: Meta {
                mode: 0o755,
                ..Meta::default()
            },
        })
        .unwrap();
    if let Some(content) = content {
        writer.put(&file("f", content.len() as u64)).unwrap();
    }
    writer.flush().unwrap();
    let (made, renamed) = (dir.path().join("d"), dir.path().join("e"));
    within_20_s(|| is_open(&made));
    fs::rename(&made, &renamed).unwrap();
    writer.put(&Entry::Up { complete: true }).unwrap();
    writer.put(&Entry::End { complete: true }).unwrap();
    drop(writer);
    let mut packs = vec![1];
    if let Some(content) = content {
        packs.push(PACK_FILE);
        put_varint(&mut packs, content.len() as u64);
        packs.extend_from_slice(blake3::hash(content).as_bytes());
        packs.extend_from_slice(content);
    }
    packs.push(PACK_END);
    ends.packs.write_all(&packs).unwrap();
    let mut report = None;
    within_20_s(|| {
        report = match receiver.poll_outcome() {
            Some(Err(StoreError::Aborted)) | None => None,
            Some(outcome) => Some(outcome.unwrap()),
        };
        report.is_some()
    });
    let report = report.unwrap();
    let notes = report.notes.clone();
    (report, notes)
}

/// What has come is not where it was to be: a failure, and not what could not be kept of it.
#[test]
fn a_directory_that_is_renamed_meanwhile_is_a_failure_that_says_so() {
    let (report, notes) = with_directory_renamed(None);
    assert_eq!((report.failed, report.not_kept), (1, 0), "{notes:?}");
    assert!(notes[0].contains("\"d\""), "{notes:?}");
    assert!(
        notes[0].contains("removed or renamed this directory"),
        "{notes:?}"
    );
}

#[test]
fn a_file_whose_directory_is_renamed_meanwhile_is_named() {
    let (report, notes) = with_directory_renamed(Some(b"abc"));
    // The file and the directory.
    assert_eq!((report.failed, report.files), (2, 0), "{notes:?}");
    assert!(notes.iter().any(|note| note.contains("d/f\"")), "{notes:?}");
    assert!(
        !notes.iter().any(|note| note.contains("does not exist")),
        "{notes:?}"
    );
}
