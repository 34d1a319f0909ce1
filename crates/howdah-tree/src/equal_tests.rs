//! What `-a` makes equal, and what a copy finds that has nothing to do.
#![cfg(target_os = "linux")]

use super::sync_tests::{Pair, deleting};
use super::tests::recursive;
use howdah_session::TreeOptions;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

#[test]
fn t08_what_the_source_has_no_more_goes_with_archive() {
    use howdah_store::rights::{ACCESS, AclEntry, DEFAULT, Tag, acl_of_entries};
    use rustix::fs::{XattrFlags, getxattr, listxattr, setxattr};
    let pair = Pair::new(&["f", "d/g", "kept"], &["f", "d/g", "kept"]);
    let entry = |tag, id| AclEntry { tag, perm: 7, id };
    let acl = acl_of_entries(&mut [
        entry(Tag::UserObj, u32::MAX),
        entry(Tag::User, 12345),
        entry(Tag::GroupObj, u32::MAX),
        entry(Tag::Mask, u32::MAX),
        entry(Tag::Other, u32::MAX),
    ]);
    let set = |path: std::path::PathBuf, name: &[u8], value: &[u8]| {
        setxattr(&path, name, value, XattrFlags::empty())
    };
    if let Err(e) =
        set(pair.to("f"), b"user.color", b"red").and_then(|()| set(pair.to("f"), ACCESS, &acl))
    {
        println!("skipped: no attributes here: {e}");
        return;
    }
    set(pair.to("d"), DEFAULT, &acl).unwrap();
    set(pair.to("d"), ACCESS, &acl).unwrap();
    for side in [pair.from("kept"), pair.to("kept")] {
        set(side, b"user.color", b"blue").unwrap();
    }
    let archive = TreeOptions {
        archive: true,
        ..recursive()
    };
    let names = |name: &str| {
        let mut list = [0; 1000];
        let len = listxattr(pair.to(name), &mut list).unwrap();
        String::from_utf8_lossy(&list[..len]).into_owned()
    };
    for run in 0..2 {
        let moved = pair.sync(&archive).unwrap();
        assert_eq!(moved.receiver.not_kept, 0, "{:?}", moved.receiver);
        for name in ["f", "d", "d/g"] {
            assert_eq!(names(name), "", "{name}, run {run}");
        }
        let mut value = [0; 10];
        let len = getxattr(pair.to("kept"), "user.color", &mut value).unwrap();
        assert_eq!(&value[..len], b"blue");
        for name in ["f", "d", "d/g"] {
            let mode = |path| fs::metadata(path).unwrap().permissions().mode();
            assert_eq!(mode(pair.to(name)), mode(pair.from(name)), "{name}");
        }
    }
    // Without it what is there stays.
    set(pair.to("f"), b"user.color", b"red").unwrap();
    pair.sync(&recursive()).unwrap();
    assert_eq!(names("f"), "user.color\0");
}

/// A copy that is killed between the last two of its steps leaves a journal beside a file that is whole.
#[test]
fn a_journal_beside_a_file_that_is_right_goes() {
    use howdah_store::stale::{journal_name, resume_name};
    let pair = Pair::new(&[], &[]);
    fs::write(pair.from("large"), vec![7; 5 << 20]).unwrap();
    pair.sync(&deleting()).unwrap();
    let at = fs::File::open(pair.to("")).unwrap();
    let journal = journal_name(&resume_name(&at, "large".as_ref())).unwrap();
    let time = || at.metadata().unwrap().modified().unwrap();
    let before = time();
    let journal = pair.to("").join(journal);
    fs::write(&journal, "speaks of nothing").unwrap();
    fs::set_permissions(journal, fs::Permissions::from_mode(0o600)).unwrap();
    at.set_modified(before).unwrap();
    let report = pair.sync(&recursive()).unwrap().receiver;
    assert_eq!((report.files, report.unchanged), (0, 1), "{report:?}");
    assert_eq!(pair.names(), ["large"]);
    assert_eq!(time(), before);
}
