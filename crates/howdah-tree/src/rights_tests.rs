//! Nobody gets more of a copy than its source, or what it replaces, allowed.

use super::sync_tests::Pair;
use super::tests::{contents, recursive, transfer};
use super::*;
use howdah_session::entry::{Entry, Meta};
use howdah_session::{Act, TreeOptions};
use howdah_store::rights::{self, AclEntry, Tag};
use rustix::fs::{AtFlags, Timespec, Timestamps, XattrFlags};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, lchown, symlink};
use std::path::Path;

/// Lets a user that nobody is here in, as far as the mask does.
fn with_guest(mask: u16) -> Vec<u8> {
    let entry = |tag, perm, id| AclEntry { tag, perm, id };
    rights::acl_of_entries(&mut [
        entry(Tag::UserObj, 7, u32::MAX),
        entry(Tag::User, 7, 70_001),
        entry(Tag::GroupObj, 0, u32::MAX),
        entry(Tag::Mask, mask, u32::MAX),
        entry(Tag::Other, 0, u32::MAX),
    ])
}

/// Whether this disk has ACLs.
fn set_acl(path: &Path, name: &[u8], acl: &[u8]) -> bool {
    let set = rustix::fs::setxattr(path, name, acl, XattrFlags::empty());
    if let Err(e) = &set {
        println!("skipped: this disk has no ACLs ({e})");
    }
    set.is_ok()
}

fn acl(path: &Path, name: &[u8]) -> Option<Vec<u8>> {
    let mut value = vec![0; 1024];
    let len = rustix::fs::getxattr(path, name, &mut *value).ok()?;
    value.truncate(len);
    Some(value)
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

/// A part inherits the ACL of its directory, and a mode opens its mask.
#[test]
fn t09_where_permissions_are_made_equal_a_default_acl_lets_nobody_in() {
    for asked in [0o660, 0o640, 0o600, 0o777] {
        // Small and large files take different ways.
        let pair = Pair::new(&["new", "large", "d/below", "kept"], &["kept"]);
        let large = fs::File::create(pair.from("large")).unwrap();
        large.set_len(PACKED_MAX + 1).unwrap();
        for name in ["new", "large", "d/below", "kept"] {
            set_mode(&pair.from(name), asked);
        }
        set_mode(&pair.from("d"), 0o770);
        if !set_acl(&pair.to(""), rights::DEFAULT, &with_guest(7)) {
            return;
        }
        // Equal but for its mode, and the guest is shut out of it.
        set_acl(&pair.to("kept"), rights::ACCESS, &with_guest(7));
        set_mode(&pair.to("kept"), 0o600);
        let time = fs::metadata(pair.from("kept")).unwrap().modified().unwrap();
        let kept = fs::File::options().write(true).open(pair.to("kept"));
        kept.unwrap().set_modified(time).unwrap();
        let moved = pair.sync(&recursive()).unwrap();
        assert_eq!(moved.receiver.files, 3, "{:?}", moved.receiver);
        for name in ["new", "large", "d/below", "kept"] {
            let acl = acl(&pair.to(name), rights::ACCESS);
            let is_open = acl.is_some_and(|acl| {
                rights::without_acl(0o070, &acl) != mode(&pair.to(name)) & 0o070
            });
            assert!(!(is_open && asked != 0o600), "{asked:o} {name}");
            assert_eq!(mode(&pair.to(name)), asked, "{name}");
        }
        assert_eq!(acl(&pair.to("d"), rights::ACCESS), None);
        assert_eq!(mode(&pair.to("d")), 0o770);
        // What is put there later is none of this copy's business.
        assert_eq!(acl(&pair.to("d"), rights::DEFAULT), Some(with_guest(7)));
        let again = pair.sync(&recursive()).unwrap();
        assert_eq!(again.receiver.files, 0);
    }
}

/// As open(2) and mkdir(2) do it.
#[test]
fn t09_a_plain_copy_takes_what_the_directory_gives() {
    let pair = Pair::new(&["new", "d/below"], &[]);
    set_mode(&pair.from("new"), 0o640);
    set_mode(&pair.from("d"), 0o750);
    if !set_acl(&pair.to(""), rights::DEFAULT, &with_guest(7)) {
        return;
    }
    let plain = TreeOptions {
        permissions: false,
        ..recursive()
    };
    pair.sync(&plain).unwrap();
    let mask = |name: &str| mode(&pair.to(name)) >> 3 & 7;
    assert_eq!((mask("new"), mask("d")), (4, 5));
    assert!(acl(&pair.to("d"), rights::ACCESS).is_some());
}

#[test]
fn links_that_are_there_get_their_time_and_owner() {
    let pair = Pair::new(&[], &[]);
    for side in [pair.from("link"), pair.to("link")] {
        symlink("anywhere", side).unwrap();
    }
    let time = Timespec {
        tv_sec: 1_000_000,
        tv_nsec: 7,
    };
    let times = Timestamps {
        last_access: time,
        last_modification: time,
    };
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    rustix::fs::utimensat(rustix::fs::CWD, pair.from("link"), &times, flags).unwrap();
    let is_root = rustix::process::geteuid().is_root();
    if is_root {
        lchown(pair.from("link"), Some(70_001), Some(70_002)).unwrap();
    }
    let told = |options: &TreeOptions| {
        let dry = TreeOptions {
            dry_run: true,
            ..options.clone()
        };
        let changes = pair.sync(&dry).unwrap().receiver_changes;
        let link = changes
            .into_iter()
            .filter(|change| change.path == Path::new("link"));
        link.map(|change| (change.act, change.reasons.words().join(" ")))
            .collect::<Vec<_>>()
    };
    let there = || fs::symlink_metadata(pair.to("link")).unwrap();
    assert_eq!(told(&recursive()), [(Act::Change, "time".to_owned())]);
    pair.sync(&recursive()).unwrap();
    assert_eq!((there().mtime(), there().mtime_nsec()), (1_000_000, 7));
    assert_eq!(told(&recursive()), []);
    let archive = TreeOptions {
        archive: true,
        ..recursive()
    };
    if is_root {
        assert_eq!(told(&archive), [(Act::Change, "owner".to_owned())]);
        pair.sync(&archive).unwrap();
        assert_eq!((there().uid(), there().gid()), (70_001, 70_002));
        assert_eq!(there().mtime(), 1_000_000);
    }
    assert_eq!(told(&archive), []);
}

/// A copy that ends before its time, as somebody who is not root: what was closed is closed again, and new directories are
/// as open as they are to be, for it is not known of them later. `HOWDAH_TEST_CLOSED` is where.
#[test]
fn child_ends_early() {
    let Some(at) = std::env::var_os("HOWDAH_TEST_CLOSED") else {
        return;
    };
    let at = Path::new(&at);
    let plain = 0o755 & !rights::umask().bits() | 0o700;
    for (permissions, new) in [(true, 0o700), (false, plain)] {
        let to = at.join(format!("{permissions}"));
        fs::create_dir_all(to.join("closed/deep")).unwrap();
        for dir in ["closed/deep", "closed", ""] {
            set_mode(&to.join(dir), 0o555);
        }
        if !permissions {
            // Whoever only copies opens nothing.
            set_mode(&to, 0o755);
        }
        let options = TreeOptions {
            permissions,
            contents: true,
            ..recursive()
        };
        let target = TreeTarget::local(&to).unwrap();
        let (receiver, ends) =
            TreeReceiver::start(target, false, &options, false, std::sync::Arc::new(|| {}))
                .unwrap();
        let mut manifest = codec::ManifestWriter::new(ends.manifest).unwrap();
        let meta = Meta {
            mode: 0o755,
            ..Meta::default()
        };
        let dir = |name: &str| Entry::Dir {
            name: name.into(),
            meta: meta.clone(),
        };
        let up = || Entry::Up { complete: true };
        let top = Entry::Top { meta: meta.clone() };
        for entry in [
            top,
            dir("closed"),
            dir("deep"),
            up(),
            up(),
            dir("new"),
            dir("in"),
        ] {
            manifest.put(&entry).unwrap();
        }
        manifest.flush().unwrap();
        let end = std::time::Instant::now() + std::time::Duration::from_mins(1);
        while !to.join("new/in").exists() {
            assert!(std::time::Instant::now() < end, "it does not come so far");
            std::thread::yield_now();
        }
        let is_open = mode(&to.join("closed/deep")) & 0o200 != 0;
        assert_eq!(is_open, permissions);
        drop((manifest, ends.packs, ends.answers));
        for thread in receiver.stop() {
            thread.join().unwrap();
        }
        let modes = ["closed/deep", "closed", "new", "new/in"].map(|dir| mode(&to.join(dir)));
        assert_eq!(modes, [0o555, 0o555, new, new], "{permissions}");
        if permissions {
            assert_eq!(mode(&to), 0o555);
        }
    }
}

/// A copy that may only add opens directories, too, as somebody who is not root.
#[test]
fn child_only_adds() {
    let Some(at) = std::env::var_os("HOWDAH_TEST_CLOSED") else {
        return;
    };
    let (from, to) = (Path::new(&at).join("from"), Path::new(&at).join("to"));
    for dir in [&from, &to] {
        fs::create_dir_all(dir.join("closed/deep")).unwrap();
    }
    fs::write(from.join("closed/deep/new"), "new").unwrap();
    for dir in ["closed/deep", "closed"] {
        set_mode(&to.join(dir), 0o555);
    }
    let options = TreeOptions {
        contents: true,
        ..recursive()
    };
    let mut source = TreeSource::new();
    source.add_local(&from, true).unwrap();
    let target = TreeTarget::local(&to).unwrap().add_only(true);
    let moved = transfer(source, target, &options).unwrap();
    assert_eq!(moved.receiver.files, 1, "{:?}", moved.receiver);
    assert_eq!(fs::read(to.join("closed/deep/new")).unwrap(), b"new");
    for dir in ["closed/deep", "closed"] {
        assert_eq!(mode(&to.join(dir)), 0o555, "{dir}");
        // So that it can be removed.
        set_mode(&to.join(dir), 0o755);
    }
}

/// A directory that is opened to be deleted, and stays: it cannot be kept.
#[test]
fn child_cannot_delete() {
    let Some(at) = std::env::var_os("HOWDAH_TEST_CLOSED") else {
        return;
    };
    let (from, to) = (Path::new(&at).join("from"), Path::new(&at).join("to"));
    for dir in [from.join("kept"), to.join("gone"), to.join(".old")] {
        fs::create_dir_all(dir).unwrap();
    }
    for dir in ["gone", ".old"] {
        set_mode(&to.join(dir), 0o555);
    }
    let options = TreeOptions {
        delete: true,
        backup_dir: Some(".old".to_owned()),
        ..recursive()
    };
    let moved = contents(&from, &to, &options).unwrap();
    assert_eq!(moved.receiver.deleted, 0, "{:?}", moved.receiver);
    assert_eq!(moved.receiver.failed, 1, "{:?}", moved.receiver);
    assert_eq!(mode(&to.join("gone")), 0o555);
}

/// Names of a directory that may be listed and not entered, as a shell takes them, whose `cp` says that they cannot be had.
#[test]
fn child_expands() {
    let Some(at) = std::env::var_os("HOWDAH_TEST_CLOSED") else {
        return;
    };
    let at = Path::new(&at);
    for dir in ["listed", "open"] {
        fs::create_dir(at.join(dir)).unwrap();
        fs::write(at.join(dir).join("file"), "").unwrap();
    }
    set_mode(&at.join("listed"), 0o444);
    let root = howdah_store::Root::open(at).unwrap();
    for (place, start) in [
        (GlobPlace::Below(&root), Path::new("")),
        (GlobPlace::User, at),
    ] {
        let found = |pattern: &str| -> Vec<_> {
            let found = expand(&place, &start.join(pattern), &|| false).unwrap();
            found.into_iter().map(|found| found.path).collect()
        };
        let all = ["listed/file", "open/file"].map(|path| start.join(path));
        assert_eq!(found("*/*"), all);
        assert_eq!(found("*/file"), all[1..]);
    }
    set_mode(&at.join("listed"), 0o755);
}

#[test]
fn t10_a_copy_that_ends_early_leaves_nothing_open() {
    as_nobody("child_ends_early");
}

#[test]
fn t10_a_copy_that_may_only_add_leaves_nothing_open() {
    as_nobody("child_only_adds");
}

#[test]
fn t10_what_cannot_be_deleted_is_as_closed_as_it_was() {
    as_nobody("child_cannot_delete");
}

#[test]
fn what_a_pattern_means_is_told_where_it_may_be_listed_and_not_entered() {
    as_nobody("child_expands");
}

/// Runs that test as somebody who is not root, with a directory of his own.
fn as_nobody(child: &str) {
    let place = tempfile::tempdir().unwrap();
    set_mode(place.path(), 0o755);
    let at = place.path().join("at");
    fs::create_dir(&at).unwrap();
    let program = place.path().join("tests");
    let own = std::env::current_exe().unwrap();
    if fs::hard_link(&own, &program).is_err() {
        fs::copy(&own, &program).unwrap();
    }
    let mut command = if rustix::process::geteuid().is_root() {
        lchown(&at, Some(65_534), Some(65_534)).unwrap();
        let mut command = std::process::Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        command.arg(&program);
        command
    } else {
        std::process::Command::new(&program)
    };
    let done = command
        .args([&*format!("rights_tests::{child}"), "--exact"])
        .env("HOWDAH_TEST_CLOSED", &at)
        .output();
    let Ok(done) = done else {
        println!("skipped: there is no setpriv here");
        return;
    };
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{said}");
    assert!(said.contains("1 passed"), "{said}");
}
