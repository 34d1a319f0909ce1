//! Mirrors: filters, deletions, backups, metadata, and peers and neighbours that mean harm.

use super::codec::{ManifestWriter, put_varint};
use super::tests::{contents, look, recursive, tree_of};
use super::*;
use howdah_session::entry::{Entry, Meta};
use howdah_session::{Act, Rule, RuleList, TreeOptions, TreeReport};
use howdah_store::StoreError;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(super) struct Pair {
    dir: tempfile::TempDir,
}

impl Pair {
    pub(super) fn new(from: &[&str], to: &[&str]) -> Self {
        let pair = Self {
            dir: tempfile::tempdir().unwrap(),
        };
        for name in ["from", "to"] {
            fs::create_dir(pair.dir.path().join(name)).unwrap();
        }
        tree_of(&pair.from(""), from);
        tree_of(&pair.to(""), to);
        pair
    }

    pub(super) fn from(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join("from").join(name)
    }

    pub(super) fn to(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join("to").join(name)
    }

    pub(super) fn sync(&self, options: &TreeOptions) -> Result<tests::Moved, StoreError> {
        contents(&self.from(""), &self.to(""), options)
    }

    pub(super) fn names(&self) -> Vec<String> {
        let all = look(&self.to(""));
        all.keys()
            .map(|path| path.display().to_string())
            .filter(|name| !name.is_empty())
            .collect()
    }
}

pub(super) fn deleting() -> TreeOptions {
    TreeOptions {
        delete: true,
        ..recursive()
    }
}

fn rules(rules: &[&str]) -> RuleList {
    let rule = |rule: &&str| Rule {
        include: rule.starts_with('+'),
        pattern: rule[2..].to_owned(),
        listed: false,
    };
    rules.iter().map(rule).collect()
}

#[test]
fn what_the_source_does_not_have_goes_and_times_stay() {
    let pair = Pair::new(
        &["a", "d/b"],
        &["old", "d/old", "gone/x/y", "a/was/a/directory"],
    );
    fs::remove_dir_all(pair.to("a")).unwrap();
    symlink("/etc", pair.to("link")).unwrap();
    let moved = pair.sync(&deleting()).unwrap();
    assert_eq!(look(&pair.from("")), look(&pair.to("")));
    // old, d/old, gone, gone/x, gone/x/y, link
    assert_eq!(moved.receiver.deleted, 6, "{:?}", moved.receiver);
    assert_eq!(moved.receiver.failed, 0, "{:?}", moved.receiver);
    assert!(
        Path::new("/etc/passwd").exists(),
        "a link goes, not what it points to"
    );
}

/// Unfinished files: of a file that the source has, and those that somebody is writing, stay; others go.
#[cfg(target_os = "linux")]
#[test]
fn unfinished_files_of_others_stay_as_long_as_they_are_of_use() {
    use howdah_store::stale::{Lock, journal_name, lock, resume_name, temp_name};
    let pair = Pair::new(&["kept", "d/b"], &["gone/x", "busy/x"]);
    let at = fs::File::open(pair.to("")).unwrap();
    let resume_name = |name: &str| resume_name(&at, name.as_ref());
    let temp_name = |name: &str| temp_name(&at, name.as_ref());
    let left = |dir: &str, part: &std::ffi::OsStr| {
        let journal = journal_name(part).unwrap();
        for name in [part, &journal] {
            // Too large to be tidied up as the rest of a small file.
            fs::write(pair.to(dir).join(name), vec![0; 5 << 20]).unwrap();
        }
        fs::File::open(pair.to(dir).join(part)).unwrap()
    };
    let long = "l".repeat(250);
    fs::write(pair.from(&long), "long").unwrap();
    // The next copy goes on with these.
    left("", &resume_name("kept"));
    left("", &temp_name(long.as_ref()));
    // The source has no such files.
    left("", &resume_name("other"));
    left("gone", &temp_name("x"));
    // Nobody else's business, and not a name of ours.
    let excluded = resume_name("mine.iso");
    left("", &excluded);
    fs::write(pair.to("thesis.howdah-part"), "not ours").unwrap();
    // A running copy's.
    let busy = [left("", &resume_name("new")), left("busy", &temp_name("y"))];
    assert!(busy.iter().all(|file| lock(file) == Lock::Ours));
    unfinished::mark(fs::File::open(pair.to("gone")).unwrap(), Some(7));
    let options = |dry_run| TreeOptions {
        rules: rules(&["- *.iso"]),
        dry_run,
        ..deleting()
    };
    let told = pair.sync(&options(true)).unwrap().receiver;
    let report = pair.sync(&options(false)).unwrap().receiver;
    // Two of "other", two in "gone", its x and itself, busy/x, thesis.howdah-part.
    assert_eq!((report.deleted, report.failed), (8, 0), "{report:?}");
    assert_eq!(told.deleted, report.deleted);
    let names = pair.names();
    let stays = |part: &str| names.iter().filter(|name| name.contains(part)).count();
    for part in [".kept.", ".mine.iso.", ".new.", "busy/.y.", ".lll"] {
        assert_eq!(stays(part), 2, "{part}: {names:?}");
    }
    for part in ["other", "gone", "thesis", "busy/x"] {
        assert_eq!(stays(part), 0, "{part}: {names:?}");
    }
    // When the other copy has ended without a word, its files go as well.
    drop(busy);
    pair.sync(&options(false)).unwrap();
    let names = pair.names();
    assert!(
        !names
            .iter()
            .any(|name| name.contains("busy") || name.contains(".new.")),
        "{names:?}"
    );
}

#[test]
fn more_deletions_than_allowed_are_none() {
    let pair = Pair::new(&["a"], &["b", "c/d"]);
    let options = |max_delete| TreeOptions {
        max_delete,
        ..deleting()
    };
    let moved = pair.sync(&options(Some(2))).unwrap();
    assert_eq!(
        (moved.receiver.deleted, moved.receiver.refused_deletes),
        (0, 3)
    );
    assert_eq!(pair.names(), ["a", "b", "c", "c/d"]);
    assert!(
        moved.receiver.notes[0].contains("3 names would go"),
        "{:?}",
        moved.receiver
    );
    let moved = pair.sync(&options(Some(3))).unwrap();
    assert_eq!(moved.receiver.deleted, 3);
    assert_eq!(pair.names(), ["a"]);
}

#[test]
fn excluded_names_neither_come_nor_go() {
    let pair = Pair::new(
        &["a.c", "a.o", "sub/b.o", "sub/b.c", "target/x"],
        &["old.o", "old.c", "dead/keep.o", "dead/b.c"],
    );
    let options = TreeOptions {
        rules: rules(&["+ sub/b.o", "- *.o", "- /target/"]),
        ..deleting()
    };
    pair.sync(&options).unwrap();
    assert_eq!(
        pair.names(),
        [
            "a.c",
            "dead",
            "dead/keep.o",
            "old.o",
            "sub",
            "sub/b.c",
            "sub/b.o"
        ]
    );
}

#[test]
fn a_source_that_cannot_be_read_deletes_nothing() {
    let pair = Pair::new(&["a", "d/b"], &["old", "d/old"]);
    // Not even root can look into it: no path that long can be opened.
    let mut deep = pair.from("d");
    let mut depth = 0;
    while deep.as_os_str().len() < 3800 {
        deep.push("n".repeat(250));
        depth += 1;
    }
    fs::create_dir_all(&deep).unwrap();
    let here = rustix::fs::open(&deep, rustix::fs::OFlags::PATH, rustix::fs::Mode::empty());
    let mut here = here.unwrap();
    for _ in 0..4 {
        let name = "m".repeat(250);
        rustix::fs::mkdirat(&here, &name, rustix::fs::Mode::RWXU).unwrap();
        let flags = rustix::fs::OFlags::PATH;
        here = rustix::fs::openat(&here, &name, flags, rustix::fs::Mode::empty()).unwrap();
    }
    let moved = pair.sync(&deleting()).unwrap();
    assert!(depth > 10 && moved.sender.failed == 1, "{:?}", moved.sender);
    assert_eq!(moved.receiver.deleted, 0);
    assert!(pair.to("old").exists() && pair.to("d/old").exists() && pair.to("d/b").exists());
    assert!(
        moved
            .receiver
            .notes
            .iter()
            .any(|note| note.contains("could not be read in whole")),
        "{:?}",
        moved.receiver
    );
}

#[test]
fn sizes_ages_and_lists_choose_files() {
    let pair = Pair::new(&["a", "long-name", "d/long-name", "d/b", "e"], &["a"]);
    let old = std::time::SystemTime::now() - Duration::from_secs(1000);
    fs::File::open(pair.from("e"))
        .unwrap()
        .set_modified(old)
        .unwrap();
    let now = old.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() as i64;
    let options = TreeOptions {
        max_size: Some(40),
        min_size: Some(10),
        modified_since: Some(now + 500),
        ..deleting()
    };
    // `a` has 10 bytes, `d/b` 30; the old one and the long ones do not come, but `a` is not deleted either.
    let moved = pair.sync(&options).unwrap();
    assert_eq!(pair.names(), ["a", "d", "d/b"]);
    assert_eq!(moved.receiver.deleted, 0);

    let pair = Pair::new(&["a", "d/b", "d/c", "e/f", "g"], &[]);
    let options = TreeOptions {
        files: Some(["d/b", "e", "none"].iter().collect()),
        ..recursive()
    };
    let moved = pair.sync(&options).unwrap();
    assert_eq!(pair.names(), ["d", "d/b", "e", "e/f"]);
    assert_eq!(moved.sender.failed, 1);
    assert!(moved.sender.notes[0].contains("none"), "{:?}", moved.sender);
}

#[test]
fn replaced_and_deleted_files_are_kept_in_the_backup_directory() {
    let pair = Pair::new(&["a", "d/b"], &["gone/x"]);
    fs::write(pair.to("a"), "was here").unwrap();
    let options = TreeOptions {
        backup_dir: Some(".old/monday".into()),
        ..deleting()
    };
    let moved = pair.sync(&options).unwrap();
    assert_eq!(moved.receiver.failed, 0, "{:?}", moved.receiver);
    assert_eq!(fs::read(pair.to(".old/monday/a")).unwrap(), b"was here");
    assert!(pair.to(".old/monday/gone/x").exists() && !pair.to("gone").exists());
    // It is not deleted by the next one.
    pair.sync(&options).unwrap();
    assert!(pair.to(".old/monday/a").exists());
    for bad in ["..", "/etc", "a/../../b", "", "."] {
        let options = TreeOptions {
            backup_dir: Some(bad.into()),
            ..deleting()
        };
        let error = pair.sync(&options).unwrap_err();
        assert!(error.to_string().contains("--backup-dir"), "{bad}: {error}");
    }
}

/// Several files are hashed at a time on both sides: each answer belongs to its file all the same, whatever stands
/// between them.
#[test]
fn each_of_many_hashes_belongs_to_its_file() {
    let names: Vec<String> = (0..300)
        .map(|i| format!("{}/{}/{i}", i % 7, i % 3))
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let pair = Pair::new(&names, &[]);
    for (i, name) in names.iter().enumerate() {
        // Of very different sizes, so that they are not done in the order in which they began.
        let content = vec![i as u8; if i % 10 == 0 { 1 << 20 } else { i }];
        fs::write(pair.from(name), content).unwrap();
        if i % 9 == 0 {
            symlink(name, pair.from(&format!("{name} link"))).unwrap();
        }
        if i % 11 == 0 {
            fs::hard_link(pair.from(name), pair.from(&format!("{name} again"))).unwrap();
        }
    }
    let options = TreeOptions {
        checksum: true,
        archive: true,
        backup_dir: Some("before".to_owned()),
        ..deleting()
    };
    pair.sync(&options).unwrap();
    assert_eq!(look(&pair.from("")), look(&pair.to("")));
    // Other content of the same size and time; other sizes; files that are missing; files that are too many.
    let mut replaced = 0;
    for (i, name) in names.iter().enumerate().filter(|(i, _)| i % 11 != 0) {
        let there = pair.to(name);
        match i % 5 {
            0 => {
                let time = fs::metadata(&there).unwrap().modified().unwrap();
                let mut content = fs::read(&there).unwrap();
                *content.last_mut().unwrap() ^= 1;
                fs::write(&there, content).unwrap();
                let file = fs::File::options().write(true).open(&there).unwrap();
                file.set_modified(time).unwrap();
            }
            1 => fs::write(&there, "short").unwrap(),
            2 => fs::remove_file(&there).unwrap(),
            3 => fs::write(pair.to(&format!("{name} more")), "more").unwrap(),
            _ => continue,
        }
        replaced += u64::from(i % 5 < 3);
    }
    let moved = pair.sync(&options).unwrap();
    assert_eq!(moved.receiver.files, replaced, "{:?}", moved.receiver);
    assert_eq!(moved.receiver.unchanged, 300 - replaced);
    fs::remove_dir_all(pair.to("before")).unwrap();
    let time = fs::metadata(pair.from("")).unwrap().modified().unwrap();
    fs::File::open(pair.to(""))
        .unwrap()
        .set_modified(time)
        .unwrap();
    assert_eq!(look(&pair.from("")), look(&pair.to("")));
}

#[test]
fn a_dry_run_tells_all_and_does_nothing() {
    let pair = Pair::new(&["a", "new/b"], &["old", "c"]);
    let before = look(&pair.to(""));
    let options = TreeOptions {
        dry_run: true,
        ..deleting()
    };
    let moved = pair.sync(&options).unwrap();
    assert_eq!(look(&pair.to("")), before);
    let report = &moved.receiver;
    assert_eq!(
        (report.files, report.bytes, report.deleted),
        (2, 60, 2),
        "{report:?}"
    );
    let of = |act| {
        let found = moved
            .receiver_changes
            .iter()
            .filter(|change| change.act == act);
        found
            .map(|change| change.path.display().to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(of(Act::Copy), ["a", "new/b"]);
    assert_eq!(of(Act::Delete), ["c", "old"]);
}

#[test]
fn f37_links_owners_and_attributes_with_archive() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can give files away");
        return;
    }
    let pair = Pair::new(&["a", "d/e"], &[]);
    fs::hard_link(pair.from("a"), pair.from("d/second")).unwrap();
    fs::hard_link(pair.from("a"), pair.from("third")).unwrap();
    let large = fs::File::create(pair.from("large")).unwrap();
    large.set_len(PACKED_MAX + 1).unwrap();
    fs::hard_link(pair.from("large"), pair.from("z-large")).unwrap();
    let set = |name: &str, mode| {
        fs::set_permissions(pair.from(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    let own = |name: &str| std::os::unix::fs::chown(pair.from(name), Some(1234), Some(4321));
    own("d/e").unwrap();
    own("d").unwrap();
    set("d/e", 0o4755);
    set("d", 0o2775);
    let attribute = |name: &str| {
        let file = fs::File::open(pair.from(name)).unwrap();
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::fsetxattr(file, "user.colour", b"blue", flags)
    };
    if attribute("a").is_err() || attribute("d").is_err() {
        println!("no extended attributes here: that part is skipped");
    }
    let options = TreeOptions {
        archive: true,
        ..recursive()
    };
    let moved = pair.sync(&options).unwrap();
    assert_eq!(moved.receiver.notes, Vec::<String>::new());
    assert_eq!(look(&pair.from("")), look(&pair.to("")));
    let meta = |name: &str| fs::symlink_metadata(pair.to(name)).unwrap();
    assert_eq!((meta("d/e").uid(), meta("d/e").gid()), (1234, 4321));
    assert_eq!(meta("d/e").mode() & 0o7777, 0o4755);
    assert_eq!((meta("d").uid(), meta("d").mode() & 0o7777), (1234, 0o2775));
    assert_eq!(meta("a").ino(), meta("d/second").ino());
    assert_eq!(meta("a").ino(), meta("third").ino());
    assert_eq!(meta("large").ino(), meta("z-large").ino());
    for name in ["a", "d"] {
        let value = |path: std::path::PathBuf| {
            let mut value = [0; 10];
            let len = rustix::fs::lgetxattr(path, "user.colour", &mut value[..]);
            len.map(|len| value[..len].to_vec())
        };
        assert_eq!(value(pair.from(name)), value(pair.to(name)), "{name}");
    }
    let again = pair.sync(&options).unwrap();
    assert_eq!(
        (again.receiver.files, again.receiver.links),
        (0, 0),
        "{:?}",
        again.receiver
    );
    // Without -a set-user-id is not for a peer to hand out (A54).
    fs::remove_dir_all(pair.to("d")).unwrap();
    pair.sync(&recursive()).unwrap();
    assert_eq!(meta("d/e").mode() & 0o7777, 0o755);
    assert_eq!(meta("d/e").uid(), 0);
}

#[test]
fn f31_special_files_are_said_and_left_out() {
    let pair = Pair::new(&["a"], &["fifo-there"]);
    let mkfifo = |path: std::path::PathBuf| {
        let mode = rustix::fs::Mode::RWXU;
        rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    };
    mkfifo(pair.from("fifo"));
    tree_of(&pair.from(""), &["in-the-way"]);
    mkfifo(pair.to("in-the-way"));
    let moved = pair.sync(&recursive()).unwrap();
    assert_eq!(moved.sender.special, 1);
    assert_eq!(moved.receiver.failed, 1, "{:?}", moved.receiver);
    assert!(
        moved.receiver.notes[0].contains("is a fifo there"),
        "{:?}",
        moved.receiver
    );
    assert!(pair.to("a").exists());
}

/// The receiver of a manifest that somebody has made up.
fn receive(to: &Path, entries: &[Entry], packs: &[u8]) -> Result<TreeReport, StoreError> {
    receive_at(TreeTarget::local(to)?, &recursive(), entries, packs)
}

pub(super) fn receive_at(
    target: TreeTarget,
    options: &TreeOptions,
    entries: &[Entry],
    packs: &[u8],
) -> Result<TreeReport, StoreError> {
    let wake: howdah_store::Wake = Arc::new(|| {});
    let (mut receiver, mut ends) = TreeReceiver::start(target, false, options, false, wake)?;
    let mut writer = ManifestWriter::new(ends.manifest).unwrap();
    for entry in entries {
        // It may have hung up already.
        let _ = writer.put(entry);
    }
    drop(writer);
    let _ = ends.packs.write_all(packs);
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        match receiver.poll_outcome() {
            Some(Err(StoreError::Aborted)) | None => {}
            Some(outcome) => return outcome,
        }
        assert!(Instant::now() < end, "it neither ends nor fails");
        std::thread::yield_now();
    }
}

pub(super) fn file(name: &str, size: u64) -> Entry {
    Entry::File {
        name: name.into(),
        size,
        meta: Meta {
            mode: 0o644,
            ..Meta::default()
        },
        link: None,
        hash: None,
    }
}

fn pack(content: &[u8], hash: [u8; 32]) -> Vec<u8> {
    let mut bytes = vec![1, send::PACK_FILE];
    put_varint(&mut bytes, content.len() as u64);
    bytes.extend_from_slice(&hash);
    bytes.extend_from_slice(content);
    bytes.push(send::PACK_END);
    bytes
}

#[test]
fn a43_content_that_does_not_match_its_hash_gets_no_name() {
    let pair = Pair::new(&[], &[]);
    let entries = [file("f", 3), Entry::End { complete: true }];
    let error = receive(&pair.to(""), &entries, &pack(b"abc", [7; 32])).unwrap_err();
    assert!(matches!(error, StoreError::HashMismatch { .. }), "{error}");
    let good = *blake3::hash(b"abc").as_bytes();
    receive(&pair.to(""), &entries, &pack(b"abc", good)).unwrap();
    assert_eq!(pair.names(), ["f"]);
}

#[test]
fn a53_contents_that_nobody_asked_for_and_missing_ones_are_refused() {
    let pair = Pair::new(&[], &[]);
    let end = Entry::End { complete: true };
    let good = *blake3::hash(b"abc").as_bytes();
    let error = receive(
        &pair.to(""),
        std::slice::from_ref(&end),
        &pack(b"abc", good),
    );
    // With nothing wanted it may be done before it reads them.
    assert!(error.is_ok() || error.unwrap_err().to_string().contains("more files come"));
    let nothing = [1, send::PACK_END];
    let error = receive(&pair.to(""), &[file("f", 3), end], &nothing).unwrap_err();
    assert!(error.to_string().contains("packs end before"), "{error}");
    let entries = [file("f", 1), file("g", 1)];
    let error = receive(&pair.to(""), &entries, &[1, 99]).unwrap_err();
    assert!(error.to_string().contains("record of kind 99"), "{error}");
    let mut huge = vec![1, send::PACK_FILE];
    put_varint(&mut huge, u64::MAX);
    let error = receive(&pair.to(""), &entries, &huge).unwrap_err();
    assert!(error.to_string().contains("a file of"), "{error}");
    assert_eq!(pair.names(), Vec::<String>::new());
}

#[test]
fn a52_a_link_from_the_peer_is_not_followed() {
    let pair = Pair::new(&[], &[]);
    fs::create_dir(pair.dir.path().join("outside")).unwrap();
    let entries = [
        Entry::Symlink {
            name: b"d".to_vec(),
            target: b"../outside".to_vec(),
            meta: Meta::default(),
        },
        // The same name again, as a directory.
        Entry::Dir {
            name: b"d".to_vec(),
            meta: Meta::default(),
        },
        file("canary", 3),
        Entry::Up { complete: true },
        Entry::End { complete: true },
    ];
    let report = receive(&pair.to(""), &entries, &[1, send::PACK_END]).unwrap();
    assert_eq!(report.failed, 1, "{report:?}");
    let outside = fs::read_dir(pair.dir.path().join("outside"))
        .unwrap()
        .count();
    assert_eq!(outside, 0, "nothing got out");
    assert_eq!(pair.names(), ["d"]);
}

/// Small and large files take the place of a link, wherever it leads; what it leads to stays as it is.
#[test]
fn a52_a_link_at_the_destination_is_replaced_and_not_followed() {
    let pair = Pair::new(&["small"], &[]);
    fs::write(pair.from("large"), vec![7; 6 << 20]).unwrap();
    fs::write(pair.from("dangling"), vec![8; 6 << 20]).unwrap();
    fs::write(pair.from("dir"), vec![9; 6 << 20]).unwrap();
    let canary = pair.dir.path().join("canary");
    fs::write(&canary, "untouched").unwrap();
    for name in ["small", "large"] {
        symlink(&canary, pair.to(name)).unwrap();
    }
    symlink("nowhere", pair.to("dangling")).unwrap();
    symlink(pair.dir.path(), pair.to("dir")).unwrap();
    let moved = pair.sync(&recursive()).unwrap();
    assert_eq!(moved.receiver.failed, 0, "{:?}", moved.receiver);
    for name in ["small", "large", "dangling", "dir"] {
        assert!(!pair.to(name).is_symlink(), "{name}");
        let (from, to) = (fs::read(pair.from(name)), fs::read(pair.to(name)));
        assert!(from.unwrap() == to.unwrap(), "{name}");
    }
    assert_eq!(fs::read(&canary).unwrap(), b"untouched");
    assert!(!pair.to("nowhere").exists());
}

/// Does `work` while somebody swaps the two as fast as he can.
fn while_swapped(one: &Path, other: &Path, mut work: impl FnMut()) {
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            use rustix::fs::{CWD, RenameFlags, renameat_with};
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                let _ = renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE);
            }
        });
        work();
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

/// 400 names in a directory.
fn many_in_d() -> Vec<String> {
    (0..400).map(|i| format!("d/f{i}")).collect()
}

#[test]
fn a51_a_race_with_links_at_the_destination_leads_nowhere() {
    let names = many_in_d();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let pair = Pair::new(&names, &["d/x"]);
    let outside = pair.dir.path().join("outside");
    fs::create_dir(&outside).unwrap();
    let trap = pair.dir.path().join("trap");
    symlink(&outside, &trap).unwrap();
    while_swapped(&trap, &pair.to("d"), || {
        for _ in 0..20 {
            // Any of it may fail; nothing may get out.
            let _ = pair.sync(&deleting());
        }
    });
    assert_eq!(
        fs::read_dir(&outside).unwrap().count(),
        0,
        "nothing got out"
    );
}

/// At the source, where the program that reads may be allowed more than the one that swaps.
#[test]
fn a56_a_race_with_links_at_the_source_reads_nothing_from_elsewhere() {
    let names = many_in_d();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let pair = Pair::new(&names, &[]);
    let secrets = pair.dir.path().join("secrets");
    fs::create_dir(&secrets).unwrap();
    for name in &names {
        let name = name.trim_start_matches("d/");
        fs::write(secrets.join(name), "a secret").unwrap();
    }
    let trap = pair.dir.path().join("trap");
    symlink(&secrets, &trap).unwrap();
    let (mut arrived, mut links) = (0, 0);
    while_swapped(&trap, &pair.from("d"), || {
        for _ in 0..40 {
            // Any of it may fail.
            let _ = pair.sync(&deleting());
            let to = pair.to("d");
            if fs::symlink_metadata(&to).is_ok_and(|d| d.is_symlink()) {
                // The link itself is what the source has, at this moment.
                links += 1;
                fs::remove_file(&to).unwrap();
            } else if to.exists() {
                for file in fs::read_dir(&to).unwrap() {
                    let content = fs::read(file.unwrap().path()).unwrap();
                    assert_ne!(content, b"a secret");
                    arrived += 1;
                }
                fs::remove_dir_all(&to).unwrap();
            }
        }
    });
    println!("{arrived} files and {links} links arrived");
    // Otherwise nothing was tried.
    assert!(arrived > 0 || links > 0);
}

#[test]
fn f25_a_file_that_somebody_else_makes_meanwhile_is_left_alone() {
    let pair = Pair::new(&["a"], &[]);
    let dir = fs::File::open(pair.to("")).unwrap().into();
    fs::write(pair.to(".a.tmp"), "new").unwrap();
    fs::write(pair.to("a"), "somebody's").unwrap();
    let give = |before: Option<&howdah_store::identity::Identity>| {
        commit::give_name(&dir, ".a.tmp".as_ref(), "a".as_ref(), before)
    };
    assert_eq!(give(None), Err(rustix::io::Errno::EXIST));
    let stat = rustix::fs::stat(pair.to("a")).unwrap();
    let before = howdah_store::identity::Identity::new(&stat);
    fs::write(pair.to("a"), "somebody's again").unwrap();
    assert_eq!(give(Some(&before)), Err(rustix::io::Errno::EXIST));
    assert_eq!(fs::read(pair.to("a")).unwrap(), b"somebody's again");
}

/// 300,000 files that are there already: nothing is kept of them.
#[test]
fn f35_many_entries_take_little_memory() {
    const FILES: usize = 300_000;
    let pair = Pair::new(&[], &[]);
    let wake: howdah_store::Wake = Arc::new(|| {});
    let target = TreeTarget::local(&pair.to("")).unwrap();
    let options = TreeOptions {
        dry_run: true,
        ..recursive()
    };
    let (mut receiver, ends) = TreeReceiver::start(target, false, &options, true, wake).unwrap();
    let mut answers = ends.answers;
    let reading = std::thread::spawn(move || {
        let mut all = Vec::new();
        std::io::Read::read_to_end(&mut answers, &mut all).unwrap();
        all.len()
    });
    let rss = || {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib: usize = line
            .unwrap()
            .trim()
            .trim_end_matches(" kB")
            .parse()
            .unwrap();
        kib << 10
    };
    let (before, mut told) = (rss(), 0);
    let mut writer = ManifestWriter::new(ends.manifest).unwrap();
    for i in 0..FILES {
        writer.put(&file(&format!("{i:08}"), 1)).unwrap();
        told += receiver.take_changes().len();
    }
    writer.put(&Entry::End { complete: true }).unwrap();
    drop(writer);
    let mut packs = ends.packs;
    packs.write_all(&[1, send::PACK_END]).unwrap();
    let report = loop {
        told += receiver.take_changes().len();
        if let Some(outcome) = receiver.poll_outcome() {
            break outcome.unwrap();
        }
        std::thread::yield_now();
    };
    let grown = rss().saturating_sub(before);
    told += receiver.take_changes().len();
    assert_eq!((report.files, told), (FILES as u64, FILES));
    // The pipe, not the entries: those alone would take 300,000 times 100 bytes. Other tests run beside.
    assert!(grown < 200 << 20, "{grown}");
    drop(receiver);
    assert!(reading.join().unwrap() < 100);
}

/// What a file system cannot write back is an error of the copy, not a success (F14).
#[test]
fn f14_a_full_device_under_the_cache_is_noticed() {
    use std::process::Command;
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can make file systems");
        return;
    }
    let run = |command: &mut Command| {
        let done = command.output();
        done.is_ok_and(|done| done.status.success())
    };
    let dir = tempfile::tempdir().unwrap();
    let (small, disk) = (dir.path().join("small"), dir.path().join("disk"));
    for path in [&small, &disk] {
        fs::create_dir(path).unwrap();
    }
    let tmpfs = ["-t", "tmpfs", "-o", "size=12m", "howdah-test"];
    if !run(Command::new("mount").args(tmpfs).arg(&small)) {
        println!("skipped: no tmpfs can be mounted");
        return;
    }
    let image = small.join("image");
    fs::File::create(&image).unwrap().set_len(64 << 20).unwrap();
    let made = run(Command::new("mkfs.ext4").arg("-q").arg(&image))
        && run(Command::new("mount")
            .args(["-o", "loop"])
            .args([&image, &disk]));
    if made {
        let pair = Pair::new(&[], &[]);
        for i in 0..300 {
            fs::write(pair.from(&format!("f{i}")), vec![b'x'; 100_000]).unwrap();
        }
        let result = contents(&pair.from(""), &disk.join("to"), &recursive());
        let error = result.expect_err("30 MB do not fit into 12");
        println!("it says: {error}");
        assert!(run(Command::new("umount").arg("-l").arg(&disk)));
    } else {
        println!("skipped: no ext4 on a loop device");
    }
    assert!(run(Command::new("umount").arg("-l").arg(&small)));
}
