//! Two directories of one machine, without a network in between.

use super::*;
use crate::codec::{ManifestWriter, put_version};
use crate::pipe::{PipeReader, PipeWriter};
use crate::send::{PACK_END, PACK_MISSING, PACK_RANGE};
use crate::{TreeDescriber, TreeSubject};
use howdah_session::entry::{Entry, Meta, Other};
use howdah_session::{Rule, TreeReport};
use howdah_store::Root;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;

struct Found {
    differences: Vec<Difference>,
    tally: Tally,
    reports: [TreeReport; 2],
}

impl Found {
    fn paths(&self) -> Vec<(String, &DifferenceKind)> {
        let path = |d: &Difference| {
            let slash = if d.is_dir { "/" } else { "" };
            String::from_utf8_lossy(&d.path).into_owned() + slash
        };
        self.differences
            .iter()
            .map(|d| (path(d), &d.what))
            .collect()
    }

    #[track_caller]
    fn assert_equal(&self) {
        assert_eq!(self.differences, []);
        assert!(self.tally.is_equal(), "{:?}", self.tally);
    }
}

fn by_content() -> TreeOptions {
    TreeOptions {
        checksum: true,
        ..TreeOptions::default()
    }
}

fn by_all() -> TreeOptions {
    TreeOptions {
        archive: true,
        ..by_content()
    }
}

fn describe(path: &Path, options: &TreeOptions) -> (TreeDescriber, SenderEnds) {
    let subject = TreeSubject::local(path).unwrap();
    TreeDescriber::start(subject, options, Arc::new(|| {})).unwrap()
}

fn await_end(comparison: &TreeComparison) -> Vec<Difference> {
    let mut differences = Vec::new();
    loop {
        match comparison.next(Duration::from_mins(1)) {
            Next::Found(difference) => differences.push(difference),
            Next::End => return differences,
            Next::Nothing => panic!("it hangs"),
        }
    }
}

fn compare(a: &Path, b: &Path, options: &TreeOptions) -> Found {
    let (one, ends_a) = describe(a, options);
    let (other, ends_b) = describe(b, options);
    let comparison = TreeComparison::start(ends_a, ends_b, options).unwrap();
    let differences = await_end(&comparison);
    assert!(comparison.error().is_none(), "{:?}", comparison.error());
    assert!(comparison.state().is_done());
    Found {
        differences,
        tally: comparison.tally(),
        reports: [one.report(), other.report()],
    }
}

struct Pair(tempfile::TempDir);

impl Pair {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("a")).unwrap();
        fs::create_dir(dir.path().join("b")).unwrap();
        Self(dir)
    }

    fn at(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// The same on both sides.
    fn both(&self, path: &str, content: impl AsRef<[u8]>) {
        for side in ["a", "b"] {
            self.write(&format!("{side}/{path}"), &content);
        }
    }

    fn compare(&self, options: &TreeOptions) -> Found {
        compare(&self.at("a"), &self.at("b"), options)
    }
}

fn bytes(len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    blake3::Hasher::new().finalize_xof().fill(&mut bytes);
    bytes
}

fn set_time(path: &Path, nanos: u32) {
    let time = std::time::UNIX_EPOCH + Duration::new(1_000_000, nanos);
    fs::File::open(path).unwrap().set_modified(time).unwrap();
}

#[test]
fn equal_trees_have_no_difference() {
    let pair = Pair::new();
    pair.both("empty", "");
    pair.both("d/e/file", "content");
    pair.both("large", bytes((5 << 20) + 3));
    for index in 0..500 {
        pair.both(&format!("many/{index}"), index.to_string());
    }
    symlink("nowhere", pair.at("a/d/link")).unwrap();
    symlink("nowhere", pair.at("b/d/link")).unwrap();
    let found = pair.compare(&by_content());
    found.assert_equal();
    let tally = &found.tally;
    assert_eq!((tally.files, tally.directories, tally.others), (503, 4, 1));
    let numbers: u64 = (0..500).map(|i: u64| i.to_string().len() as u64).sum();
    assert_eq!(tally.bytes, (5 << 20) + 3 + 7 + numbers);
    assert_eq!(tally.bytes, tally.wanted_bytes);
    // The same place twice, with everything.
    compare(&pair.at("a"), &pair.at("a"), &by_all()).assert_equal();
}

#[test]
fn each_kind_of_difference_is_named_in_order() {
    let pair = Pair::new();
    pair.both("same", "same");
    pair.write("a/only-a", "x");
    pair.write("b/only-b", "x");
    pair.write("a/tree-a/d/f", "x");
    pair.write("a/tree-a/g", "x");
    pair.write("b/tree-b/f", "x");
    pair.write("a/size", "12345");
    pair.write("b/size", "123");
    pair.both("big", bytes(9 << 20));
    let mut flipped = bytes(9 << 20);
    flipped[(5 << 20) + 77] ^= 1;
    pair.write("b/big", flipped);
    pair.write("a/deep/x/small", "abc");
    pair.write("b/deep/x/small", "abd");
    // A directory here, something else there, both ways; and a link and a file.
    pair.write("a/dir-file/inside", "x");
    pair.write("b/dir-file", "x");
    symlink("x", pair.at("a/link-dir")).unwrap();
    pair.write("b/link-dir/inside", "x");
    pair.write("a/link-file", "x");
    symlink("x", pair.at("b/link-file")).unwrap();
    symlink("here", pair.at("a/target")).unwrap();
    symlink("there", pair.at("b/target")).unwrap();
    let found = pair.compare(&by_content());
    let (dir, file, link) = (EntryKind::Directory, EntryKind::File, EntryKind::Symlink);
    let mib = 1 << 20;
    let expected = [
        (
            "big",
            DifferenceKind::Contents {
                start: 5 * mib,
                end: 6 * mib,
            },
        ),
        ("dir-file", DifferenceKind::Kind { a: dir, b: file }),
        ("link-dir", DifferenceKind::Kind { a: link, b: dir }),
        ("link-file", DifferenceKind::Kind { a: file, b: link }),
        ("only-a", DifferenceKind::MissingInB { inside: 0 }),
        ("only-b", DifferenceKind::MissingInA { inside: 0 }),
        ("size", DifferenceKind::Size { a: 5, b: 3 }),
        (
            "target",
            DifferenceKind::Target {
                a: b"here".to_vec(),
                b: b"there".to_vec(),
            },
        ),
        (
            "deep/x/small",
            DifferenceKind::Contents { start: 0, end: 3 },
        ),
        ("tree-a/", DifferenceKind::MissingInB { inside: 3 }),
        ("tree-b/", DifferenceKind::MissingInA { inside: 1 }),
    ];
    let expected = expected.map(|(path, what)| (path.to_owned(), what));
    let told: Vec<_> = found.paths();
    let expected: Vec<_> = expected.iter().map(|(p, w)| (p.clone(), w)).collect();
    assert_eq!(told, expected);
    let tally = &found.tally;
    assert_eq!((tally.missing_in_a, tally.missing_in_b), (3, 5));
    assert_eq!((tally.differing, tally.unread), (7, 0));
    // What is not asked for is not looked at.
    set_time(&pair.at("a/same"), 1);
    fs::set_permissions(pair.at("a/same"), fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(pair.compare(&by_content()).paths(), expected);
}

#[test]
fn attributes_are_compared_if_they_are_asked_for() {
    let pair = Pair::new();
    for name in ["mode", "time", "owner", "xattr", "twin", "alone", "d/x"] {
        pair.both(name, "x");
    }
    let is_root = rustix::process::geteuid().is_root();
    for side in ["a", "b"] {
        let at = |name: &str| pair.at(&format!("{side}/{name}"));
        fs::set_permissions(at("mode"), fs::Permissions::from_mode(0o640)).unwrap();
        // In a: alone is a name of its own. In b: one more of twin's.
        fs::remove_file(at("alone")).unwrap();
        if side == "a" {
            fs::write(at("alone"), "x").unwrap();
        } else {
            fs::hard_link(at("twin"), at("alone")).unwrap();
        }
    }
    fs::set_permissions(pair.at("b/mode"), fs::Permissions::from_mode(0o641)).unwrap();
    let set = |path: &Path, value: &[u8]| {
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::setxattr(path, "user.colour", value, flags).is_ok()
    };
    let has_xattrs = set(&pair.at("a/xattr"), b"red") && set(&pair.at("b/xattr"), b"blue");
    if is_root {
        std::os::unix::fs::chown(pair.at("b/owner"), Some(54_321), Some(54_322)).unwrap();
    } else {
        println!("owners: skipped, only root can give files away");
    }
    if !has_xattrs {
        println!("attributes: skipped, the file system has none");
    }
    for side in ["a", "b"] {
        for name in [
            "mode", "time", "owner", "xattr", "twin", "alone", "d/x", "d", "",
        ] {
            set_time(&pair.at(&format!("{side}/{name}")), 5);
        }
    }
    set_time(&pair.at("b/time"), 6);
    set_time(&pair.at("b/d"), 7);
    pair.compare(&by_content()).assert_equal();
    let found = pair.compare(&by_all());
    let told = found.paths();
    let find = |path: &str| {
        let mut of_path = told.iter().filter(|(p, _)| p == path);
        let what = of_path.next().map(|(_, what)| *what);
        assert!(of_path.next().is_none(), "{told:?}");
        what
    };
    let time = |nanos| (1_000_000, nanos);
    let mode = DifferenceKind::Mode { a: 0o640, b: 0o641 };
    assert_eq!(find("mode"), Some(&mode));
    let (a, b) = (time(5), time(6));
    assert_eq!(find("time"), Some(&DifferenceKind::Time { a, b }));
    let (a, b) = (time(5), time(7));
    assert_eq!(find("d/"), Some(&DifferenceKind::Time { a, b }));
    // The further name is the one that comes later.
    assert_eq!(find("twin"), Some(&DifferenceKind::HardLinks));
    if is_root {
        let Some(DifferenceKind::Owner { a, b }) = find("owner") else {
            panic!("{told:?}");
        };
        let owner = fs::metadata(pair.at("a/owner")).unwrap();
        assert_eq!((a.user.0, a.group.0), (owner.uid(), owner.gid()));
        assert_eq!((b.user.0, b.group.0), (54_321, 54_322));
    }
    if has_xattrs {
        let what = DifferenceKind::Attributes(vec![b"user.colour".to_vec()]);
        assert_eq!(find("xattr"), Some(&what));
    }
    let skipped = usize::from(!is_root) + usize::from(!has_xattrs);
    assert_eq!(told.len(), 6 - skipped, "{told:?}");
}

#[test]
fn quick_reads_no_file() {
    let pair = Pair::new();
    for name in ["same", "size", "time"] {
        pair.both(name, "abc");
    }
    pair.write("b/same", "xyz");
    pair.write("b/size", "abcd");
    for name in ["same", "size", "time"] {
        set_time(&pair.at(&format!("a/{name}")), 1);
        set_time(
            &pair.at(&format!("b/{name}")),
            1 + u32::from(name == "time"),
        );
    }
    let found = pair.compare(&TreeOptions::default());
    let (a, b) = ((1_000_000, 1), (1_000_000, 2));
    let expected = [
        ("size".to_owned(), &DifferenceKind::Size { a: 3, b: 4 }),
        ("time".to_owned(), &DifferenceKind::Time { a, b }),
    ];
    assert_eq!(found.paths(), expected);
    assert_eq!((found.tally.files, found.tally.bytes), (3, 0));
    assert_eq!(found.reports[0].bytes, 0);
}

#[test]
fn two_files_are_compared_whatever_they_are_called() {
    let pair = Pair::new();
    pair.write("a/one", "abc");
    pair.write("b/other", "abc");
    pair.write("b/third", "abd");
    let (one, other) = (pair.at("a/one"), pair.at("b/other"));
    let found = compare(&one, &other, &by_content());
    found.assert_equal();
    assert_eq!(found.tally.files, 1);
    let found = compare(&one, &pair.at("b/third"), &by_content());
    let contents = DifferenceKind::Contents { start: 0, end: 3 };
    assert_eq!(found.paths(), [("one".to_owned(), &contents)]);
    // A link that is named stands for what it points to.
    symlink("other", pair.at("b/link")).unwrap();
    compare(&one, &pair.at("b/link"), &by_content()).assert_equal();
    // A file and a directory, both ways, with much in it that nobody reads.
    for index in 0..20_000 {
        fs::File::create(pair.at(&format!("b/{index:-^60}"))).unwrap();
    }
    let found = compare(&one, &pair.at("b"), &by_content());
    let (a, b) = (EntryKind::File, EntryKind::Directory);
    assert_eq!(
        found.paths(),
        [(String::new(), &DifferenceKind::Kind { a, b })]
    );
    let found = compare(&pair.at("b"), &one, &by_content());
    let (a, b) = (b, a);
    assert_eq!(
        found.paths(),
        [(String::new(), &DifferenceKind::Kind { a, b })]
    );
    let missing = TreeSubject::local(&pair.at("c")).unwrap_err();
    assert!(matches!(missing, StoreError::NotFound { .. }), "{missing}");
}

#[test]
fn what_is_no_file_is_compared_by_kind() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    let pair = Pair::new();
    let fifo = |path: &str| {
        mknodat(CWD, pair.at(path), FileType::Fifo, Mode::RUSR, 0).unwrap();
    };
    fifo("a/fifo");
    fifo("b/fifo");
    fifo("a/mixed");
    pair.write("b/mixed", "x");
    let found = pair.compare(&by_content());
    let (a, b) = (EntryKind::Fifo, EntryKind::File);
    assert_eq!(
        found.paths(),
        [("mixed".to_owned(), &DifferenceKind::Kind { a, b })]
    );
    assert_eq!(found.tally.others, 1);
}

#[test]
fn rules_lists_and_limits_hold_for_both_sides() {
    let pair = Pair::new();
    for name in [
        "a/x.o",
        "b/y.o",
        "a/build/z",
        "a/small",
        "b/d/listed",
        "a/d/other",
    ] {
        pair.write(name, "1");
    }
    pair.write("a/large", bytes(1000));
    pair.write("b/large", bytes(10));
    let rule = |pattern: &str| Rule {
        include: false,
        pattern: pattern.into(),
        listed: false,
    };
    let options = TreeOptions {
        rules: vec![rule("*.o"), rule("build/"), rule("d/")].into(),
        min_size: Some(100),
        ..by_content()
    };
    // One of the two is large enough.
    let size = DifferenceKind::Size { a: 1000, b: 10 };
    let found = pair.compare(&options);
    assert_eq!(found.paths(), [("large".to_owned(), &size)]);

    let options = TreeOptions {
        files: Some(["d/listed", "small", "none"].iter().collect()),
        ..by_content()
    };
    let found = pair.compare(&options);
    let expected = [
        (
            "small".to_owned(),
            &DifferenceKind::MissingInB { inside: 0 },
        ),
        (
            "d/listed".to_owned(),
            &DifferenceKind::MissingInA { inside: 0 },
        ),
    ];
    assert_eq!(found.paths(), expected);
    // A side that was not told the list names everything.
    let (_one, ends_a) = describe(&pair.at("a"), &by_content());
    let (_other, ends_b) = describe(&pair.at("b"), &by_content());
    let comparison = TreeComparison::start(ends_a, ends_b, &options).unwrap();
    assert_eq!(await_end(&comparison), found.differences);
    let mut missing = Vec::new();
    comparison.tell_missing(|path| missing.push(path.to_owned()));
    assert_eq!(missing, [Path::new("none")]);
}

/// Plays a side that says what is written here.
struct Played {
    manifest: ManifestWriter,
    packs: PipeWriter,
}

/// What comes of two sides that say that.
fn play(a: impl FnOnce(&mut Played), b: impl FnOnce(&mut Played)) -> Result<Found, StoreError> {
    fn side(say: impl FnOnce(&mut Played)) -> (SenderEnds, PipeReader) {
        let (engine, ends) = comparison_ends();
        let mut played = Played {
            manifest: ManifestWriter::new(engine.manifest).unwrap(),
            packs: engine.packs,
        };
        put_version(&mut played.packs).unwrap();
        say(&mut played);
        // Its streams end there.
        (ends, engine.answers)
    }
    let (ends_a, _answers_a) = side(a);
    let (ends_b, _answers_b) = side(b);
    let mut comparison = TreeComparison::start(ends_a, ends_b, &by_content())?;
    let differences = await_end(&comparison);
    // The other thread may know more.
    for thread in comparison.threads.drain(..) {
        thread.join().unwrap();
    }
    match comparison.error() {
        Some(error) => Err(error),
        None => Ok(Found {
            differences,
            tally: comparison.tally(),
            reports: Default::default(),
        }),
    }
}

impl Played {
    fn put(&mut self, entries: impl IntoIterator<Item = Entry>) {
        for entry in entries {
            self.manifest.put(&entry).unwrap();
        }
    }

    fn pack(&mut self, bytes: &[u8]) {
        self.packs.put(bytes).unwrap();
    }
}

fn top() -> Entry {
    let meta = Meta::default();
    Entry::Top { meta }
}

fn file(name: &str, size: u64) -> Entry {
    Entry::File {
        name: name.into(),
        size,
        meta: Meta::default(),
        link: None,
        hash: None,
    }
}

const END: Entry = Entry::End { complete: true };

#[test]
fn what_a_side_cannot_read_is_never_missing_and_never_equal() {
    let unread = |name: &str| Entry::Other {
        name: name.into(),
        what: Other::Unread,
    };
    let one_range = [&[PACK_RANGE][..], &[7; 32], &[PACK_END]].concat();
    let dir = || Entry::Dir {
        name: b"d".to_vec(),
        meta: Meta::default(),
    };
    let ahead = || Entry::Ahead {
        name: b"d".to_vec(),
    };
    let up = || Entry::Up { complete: false };
    let found = play(
        |a| {
            a.put([top(), unread("a"), ahead(), file("f", 1), dir()]);
            a.put([file("hidden", 1), up(), END]);
            a.pack(&one_range);
        },
        |b| {
            b.put([
                top(),
                file("a", 1),
                ahead(),
                file("f", 1),
                dir(),
                Entry::Gap,
            ]);
            b.put([file("seen", 1), up(), END]);
            b.pack(&[PACK_MISSING, 0, PACK_END]);
        },
    );
    let found = found.unwrap();
    let (in_a, in_b) = (
        DifferenceKind::Unread { a: true, b: false },
        DifferenceKind::Unread { a: false, b: true },
    );
    let expected = [
        ("a".to_owned(), &in_a),
        ("f".to_owned(), &in_b),
        ("d/".to_owned(), &in_b),
        (
            "d/seen".to_owned(),
            &DifferenceKind::MissingInA { inside: 0 },
        ),
    ];
    assert_eq!(found.paths(), expected);
    assert!(!found.tally.is_equal());
}

#[test]
fn a_side_that_breaks_the_rules_is_refused() {
    let plain = |side: &mut Played| {
        side.put([top(), file("f", 1), END]);
        side.pack(&[&[PACK_RANGE][..], &[7; 32], &[PACK_END]].concat());
    };
    play(plain, plain).unwrap().assert_equal();
    let refused = |say: &dyn Fn(&mut Played)| match play(plain, |b| say(b)) {
        Err(StoreError::BadTree { what }) => what,
        Err(other) => panic!("{other}"),
        Ok(found) => panic!("{:?}", found.differences),
    };
    let text = refused(&|b| {
        b.put([top(), Entry::Kept { name: b"f".into() }, END]);
        b.pack(&[PACK_END]);
    });
    assert!(text.contains("only copies"), "{text}");
    let text = refused(&|b| {
        b.put([top(), file("f", 1), END]);
        b.pack(&[PACK_END]);
    });
    assert!(text.contains("before all have come"), "{text}");
    let text = refused(&|b| {
        b.put([top(), file("f", 1), END]);
        b.pack(&[&[PACK_RANGE][..], &[7; 32], &[PACK_RANGE]].concat());
    });
    assert!(text.contains("nobody asked for"), "{text}");
    let text = refused(&|b| {
        b.put([top(), Entry::Gap, Entry::Gap, END]);
        b.pack(&[PACK_END]);
    });
    assert!(text.contains("wrong place"), "{text}");
    // A stream that just ends: whoever carries it knows why.
    let cut = play(plain, |b| b.put([top(), file("f", 1)]));
    assert!(matches!(cut, Err(StoreError::Aborted)));
}

#[test]
fn a_describer_refuses_answers_that_make_no_sense() {
    let pair = Pair::new();
    pair.write("a/f", "x");
    // Nine files; a note.
    for bad in [&[9u8 << 2 | 1, 3][..], &[2, 0]] {
        let (wake, woken) = std::sync::mpsc::channel();
        let wake: Wake = Arc::new(move || {
            let _ = wake.send(());
        });
        let subject = TreeSubject::local(&pair.at("a")).unwrap();
        let started = TreeDescriber::start(subject, &by_content(), wake);
        let (mut describer, mut ends) = started.unwrap();
        put_version(&mut ends.answers).unwrap();
        ends.answers.put(bad).unwrap();
        ends.answers.flush().unwrap();
        woken.recv_timeout(Duration::from_mins(1)).unwrap();
        let error = describer.poll_error().unwrap();
        assert!(matches!(error, StoreError::BadTree { .. }), "{error}");
    }
}

#[test]
fn below_a_root_nothing_leads_out() {
    let pair = Pair::new();
    pair.write("a/d/f", "x");
    symlink("../b", pair.at("a/out")).unwrap();
    let root = Arc::new(Root::open(pair.at("a")).unwrap());
    let below = |path: &str| TreeSubject::below(&root, Path::new(path));
    for path in ["", ".", "d", "d/", "./d/f", "d/f"] {
        assert!(below(path).is_ok(), "{path}");
    }
    symlink("d", pair.at("a/in")).unwrap();
    symlink("nothing", pair.at("a/dangling")).unwrap();
    for path in ["in", "in/", "dangling", "in/f"] {
        let is_dir = path.starts_with("in") && !path.ends_with('f');
        assert_eq!(below(path).unwrap().is_directory(), is_dir, "{path}");
    }
    for path in ["..", "../b", "d/../..", "/d", "out/x"] {
        assert!(below(path).is_err(), "{path}");
    }
    // The link itself, not what it leads to.
    assert!(!below("out").unwrap().is_directory());
}

fn tree() -> impl Strategy<Value = Vec<(Vec<u8>, Vec<u8>, bool)>> {
    let name = prop::collection::vec(
        prop_oneof![
            Just(b'a'),
            Just(b'\n'),
            Just(0xff),
            Just(b'-'),
            Just(b'.'),
            1..=255u8
        ],
        1..4,
    );
    let name = name.prop_filter("", |name| {
        !name.contains(&b'/') && name != b"." && name != b".."
    });
    let path = prop::collection::vec(name, 1..4).prop_map(|names| names.join(&b'/'));
    let content = prop::collection::vec(any::<u8>(), 0..3);
    prop::collection::vec((path, content, any::<bool>()), 0..12)
}

fn build(at: &Path, tree: &[(Vec<u8>, Vec<u8>, bool)]) {
    for (path, content, is_dir) in tree {
        let path = at.join(OsStr::from_bytes(path));
        // What is there already has another kind: then this one is left out.
        if *is_dir {
            let _ = fs::create_dir_all(&path);
        } else if path
            .parent()
            .is_some_and(|dir| fs::create_dir_all(dir).is_ok())
        {
            let _ = fs::write(&path, content);
        }
    }
}

/// Every name of a tree, with what it is.
fn look(at: &Path, below: &Path, all: &mut BTreeMap<PathBuf, Option<Vec<u8>>>) {
    for entry in fs::read_dir(at.join(below)).unwrap() {
        let path = below.join(entry.unwrap().file_name());
        if at.join(&path).is_dir() {
            all.insert(path.clone(), None);
            look(at, &path, all);
        } else {
            let content = fs::read(at.join(&path)).unwrap();
            all.insert(path, Some(content));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Any two trees: what is told is what a simple look finds, whatever the names.
    #[test]
    fn any_two_trees_differ_in_what_is_told(one in tree(), other in tree(), shared in tree()) {
        let pair = Pair::new();
        for (side, own) in [("a", &one), ("b", &other)] {
            build(&pair.at(side), &shared);
            build(&pair.at(side), own);
        }
        let mut seen = [BTreeMap::default(), BTreeMap::default()];
        look(&pair.at("a"), Path::new(""), &mut seen[0]);
        look(&pair.at("b"), Path::new(""), &mut seen[1]);
        let [a, b] = &seen;
        // What lies in something that is no directory on the other side, or not there, is told with it.
        let told_above = |path: &Path, there: &BTreeMap<PathBuf, Option<Vec<u8>>>| {
            path.ancestors().skip(1).any(|above| {
                !above.as_os_str().is_empty() && there.get(above).is_none_or(Option::is_some)
            })
        };
        let mut expected = BTreeSet::new();
        for path in a.keys().chain(b.keys()) {
            let word = match (a.get(path), b.get(path)) {
                (Some(_), None) if told_above(path, b) => continue,
                (None, Some(_)) if told_above(path, a) => continue,
                (Some(_), None) => "missing in b",
                (None, _) => "missing in a",
                (Some(x), Some(y)) if x == y => continue,
                (Some(Some(x)), Some(Some(y))) if x.len() == y.len() => "contents",
                (Some(Some(_)), Some(Some(_))) => "size",
                _ => "kind",
            };
            expected.insert((path.as_os_str().as_bytes().to_vec(), word));
        }
        let found = pair.compare(&by_content());
        let told: Vec<_> = found.differences.iter().map(|difference| {
            let word = match difference.what {
                DifferenceKind::MissingInA { .. } => "missing in a",
                DifferenceKind::MissingInB { .. } => "missing in b",
                DifferenceKind::Contents { .. } => "contents",
                DifferenceKind::Size { .. } => "size",
                DifferenceKind::Kind { .. } => "kind",
                _ => "else",
            };
            (difference.path.clone(), word)
        }).collect();
        let as_set: BTreeSet<_> = told.iter().cloned().collect();
        prop_assert_eq!(as_set.len(), told.len());
        prop_assert_eq!(as_set, expected);
    }
}
