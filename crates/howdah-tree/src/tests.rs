//! Whole trees from one directory to another, without a network in between.

use super::*;
use howdah_session::{Change, TreeOptions, TreeReport};
use howdah_store::{Batch, Part, StoreError};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

/// What both sides report.
#[derive(Debug)]
pub(super) struct Moved {
    pub(super) sender: TreeReport,
    pub(super) receiver: TreeReport,
    pub(super) manifest_bytes: u64,
    pub(super) pack_bytes: u64,
    pub(super) answer_bytes: u64,
    pub(super) sender_changes: Vec<Change>,
    pub(super) receiver_changes: Vec<Change>,
}

fn carry(mut from: PipeReader, mut to: PipeWriter) -> std::thread::JoinHandle<u64> {
    std::thread::spawn(move || {
        let mut buffer = vec![0; 50_000];
        let mut bytes = 0;
        loop {
            let len = from.read(&mut buffer).unwrap();
            if len == 0 || to.write_all(&buffer[..len]).is_err() {
                return bytes;
            }
            bytes += len as u64;
        }
    })
}

/// In a move the sender hears what is in place.
fn say_placed(receiver: &mut TreeReceiver, sender: &mut TreeSender) {
    if receiver.moves() {
        let placed = receiver.take_placed().into_iter().map(|file| file.index);
        let settled = receiver.take_settled();
        for number in placed.chain(settled) {
            sender.are_placed(number, 1);
        }
    }
}

/// Plays the engine.
pub(super) fn transfer(
    source: TreeSource,
    target: TreeTarget,
    options: &TreeOptions,
) -> Result<Moved, StoreError> {
    transfer_heard(source, target, options, true)
}

/// `listens`: somebody hears at the receiver, else at the sender.
fn transfer_heard(
    source: TreeSource,
    target: TreeTarget,
    options: &TreeOptions,
    listens: bool,
) -> Result<Moved, StoreError> {
    transfer_between((source, options), (target, options), listens)
}

/// Each side with options of its own: one of them may not be honest.
pub(super) fn transfer_between(
    (source, sent): (TreeSource, &TreeOptions),
    (target, options): (TreeTarget, &TreeOptions),
    listens: bool,
) -> Result<Moved, StoreError> {
    let (wake, wakes) = channel();
    let wake: howdah_store::Wake = Arc::new(move || {
        let _ = wake.send(());
    });
    let several = source.len() > 1;
    let (mut sender, out) = TreeSender::start(source, sent, Arc::clone(&wake))?;
    let (mut receiver, into) = TreeReceiver::start(target, several, options, listens, wake)?;
    let manifest = carry(out.manifest, into.manifest);
    let packs = carry(out.packs, into.packs);
    let answers = carry(into.answers, out.answers);
    let (mut sender_changes, mut receiver_changes) = (Vec::new(), Vec::new());
    let result = loop {
        receiver_changes.extend(receiver.take_changes());
        sender_changes.extend(sender.take_changes());
        while let Some(mut file) = sender.take_large() {
            let (size, mut from) = (file.size, file.take_source().unwrap());
            let holes = from.holes().cloned();
            let opened = receiver.open_large(file.index, size, None, holes.clone())?;
            let Some((target, mut sink)) = opened else {
                sender.large_refused(&file);
                continue;
            };
            let hash = loop {
                if let Some(finished) = from.poll_finished() {
                    break finished.unwrap().hash;
                }
                from.note_sent_through(from.ready_end());
                std::thread::yield_now();
            };
            let holes = holes.unwrap_or_default();
            for offset in (0..size).step_by(1 << 20) {
                if holes.contains(howdah_core::ByteRange::new(offset, offset + 1)) {
                    continue;
                }
                let mut buf = vec![0; (size - offset).min(1 << 20) as usize];
                from.read_at(offset, &mut buf).unwrap();
                let parts = vec![Part {
                    at: 0,
                    len: buf.len() as u32,
                    offset,
                }];
                sink.submit(Batch { buf, parts }).unwrap();
            }
            sink.finish(size, hash);
            let outcome = loop {
                if let Some(outcome) = sink.poll_outcome() {
                    break outcome;
                }
                std::thread::yield_now();
            };
            match outcome {
                Ok(_) => receiver.large_done(target, None),
                Err(error) => receiver.large_failed(target, &error.to_string()),
            }
            sender.large_done(file, 0, None, from.has_grown());
        }
        say_placed(&mut receiver, &mut sender);
        // A thread that only noticed that another one is gone does not know why.
        match receiver.poll_outcome() {
            None | Some(Err(StoreError::Aborted)) => {}
            Some(outcome) => break outcome,
        }
        match sender.poll_error() {
            None | Some(StoreError::Aborted) => {}
            Some(error) => break Err(error),
        }
        let _ = wakes.recv_timeout(Duration::from_millis(100));
    };
    receiver_changes.extend(receiver.take_changes());
    say_placed(&mut receiver, &mut sender);
    if result.is_ok() {
        sender.all_placed();
    }
    while !sender.has_removed() {
        std::thread::yield_now();
    }
    // The last words may still be on their way to a thread.
    while result.is_ok() && !sender.is_answered() {
        sender_changes.extend(sender.take_changes());
        std::thread::yield_now();
    }
    sender_changes.extend(sender.take_changes());
    let answer_bytes = if result.is_ok() {
        answers.join().unwrap()
    } else {
        0
    };
    let report = sender.report();
    drop(sender);
    let receiver = result.map(|receiver| (receiver, report));
    let (receiver, sender) = receiver?;
    Ok(Moved {
        sender,
        receiver,
        manifest_bytes: manifest.join().unwrap(),
        pack_bytes: packs.join().unwrap(),
        answer_bytes,
        sender_changes,
        receiver_changes,
    })
}

pub(super) fn recursive() -> TreeOptions {
    TreeOptions {
        recursive: true,
        permissions: true,
        ..TreeOptions::default()
    }
}

pub(super) fn contents(from: &Path, to: &Path, options: &TreeOptions) -> Result<Moved, StoreError> {
    let mut source = TreeSource::new();
    source.add_local(from, true)?;
    let options = TreeOptions {
        contents: true,
        ..options.clone()
    };
    transfer(source, TreeTarget::local(to)?, &options)
}

/// The same where nobody listens at the receiver.
pub(super) fn contents_unheard(
    from: &Path,
    to: &Path,
    options: &TreeOptions,
) -> Result<Moved, StoreError> {
    let mut source = TreeSource::new();
    source.add_local(from, true)?;
    let options = TreeOptions {
        contents: true,
        ..options.clone()
    };
    transfer_heard(source, TreeTarget::local(to)?, &options, false)
}

/// Everything that a copy shall keep, by path.
pub(super) fn look(dir: &Path) -> BTreeMap<PathBuf, String> {
    let mut all = BTreeMap::new();
    look_into(dir, Path::new(""), &mut all);
    all
}

fn look_into(dir: &Path, below: &Path, all: &mut BTreeMap<PathBuf, String>) {
    let path = dir.join(below);
    let meta = fs::symlink_metadata(&path).unwrap();
    let mode = meta.permissions().mode() & 0o7777;
    let time = (meta.mtime(), meta.mtime_nsec());
    let what = if meta.is_symlink() {
        format!("link {:?} {time:?}", fs::read_link(&path).unwrap())
    } else if meta.is_dir() {
        for entry in fs::read_dir(&path).unwrap() {
            look_into(dir, &below.join(entry.unwrap().file_name()), all);
        }
        format!("dir {mode:o} {time:?}")
    } else {
        let hash = blake3::hash(&fs::read(&path).unwrap());
        format!("file {mode:o} {time:?} {} {hash}", meta.len())
    };
    all.insert(below.to_owned(), what);
}

/// A thing in a generated tree.
#[derive(Clone, Debug)]
enum Node {
    File(usize, u32, u8),
    Link(Vec<u8>),
    Dir(BTreeMap<Vec<u8>, Self>, u32),
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        "[a-z]{1,3}".prop_map(String::into_bytes),
        prop::collection::vec(
            any::<u8>().prop_filter("", |b| *b != 0 && *b != b'/'),
            1..40
        )
        .prop_filter("", |name| name != b"." && name != b".."),
        Just(b"-rf".to_vec()),
        Just(b"..x".to_vec()),
        Just(b"a\nb\x1b[2J".to_vec()),
        Just(vec![b'n'; 255]),
        Just("e\u{301}".as_bytes().to_vec()),
        Just("\u{e9}".as_bytes().to_vec()),
        Just(b"trailing ".to_vec()),
    ]
}

fn node() -> impl Strategy<Value = Node> {
    let size = prop_oneof![
        4 => 0..5000usize,
        2 => Just(0usize),
        1 => Just(PACKED_MAX as usize),
        1 => Just(PACKED_MAX as usize + 1),
    ];
    let leaf = prop_oneof![
        5 => (size, 0o400..=0o777u32, any::<u8>()).prop_map(|(a, b, c)| Node::File(a, b, c)),
        1 => prop::collection::vec(1..=255u8, 1..50).prop_map(Node::Link),
    ];
    leaf.prop_recursive(4, 40, 8, |inner| {
        (
            prop::collection::btree_map(name(), inner, 0..8),
            0o700..=0o777u32,
        )
            .prop_map(|(map, mode)| Node::Dir(map, mode))
    })
}

fn tree() -> impl Strategy<Value = BTreeMap<Vec<u8>, Node>> {
    prop::collection::btree_map(name(), node(), 0..8)
}

fn build(dir: &Path, tree: &BTreeMap<Vec<u8>, Node>) {
    for (name, node) in tree {
        let path = dir.join(OsStr::from_bytes(name));
        match node {
            Node::File(size, mode, byte) => {
                fs::write(&path, vec![*byte; *size]).unwrap();
                fs::set_permissions(&path, fs::Permissions::from_mode(*mode)).unwrap();
                let time = std::time::UNIX_EPOCH + Duration::new(*size as u64 * 1000, 7);
                fs::File::open(&path).unwrap().set_modified(time).unwrap();
            }
            Node::Link(target) => {
                std::os::unix::fs::symlink(OsStr::from_bytes(target), &path).unwrap();
            }
            Node::Dir(tree, mode) => {
                fs::create_dir(&path).unwrap();
                build(&path, tree);
                fs::set_permissions(&path, fs::Permissions::from_mode(*mode)).unwrap();
            }
        }
    }
}

fn scratch() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

pub(super) fn tree_of(dir: &Path, names: &[&str]) {
    for name in names {
        let path = dir.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, name.repeat(10)).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn any_tree_in_equals_tree_out(tree in tree()) {
        let dir = scratch();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        fs::create_dir(&from).unwrap();
        build(&from, &tree);
        let moved = contents(&from, &to, &recursive()).unwrap();
        prop_assert_eq!(look(&from), look(&to));
        prop_assert_eq!(moved.receiver.failed + moved.sender.failed, 0);
        prop_assert!(moved.receiver.notes.is_empty(), "{:?}", moved.receiver.notes);
        // Again: nothing to do.
        let again = contents(&from, &to, &recursive()).unwrap();
        prop_assert_eq!(again.receiver.files, 0);
        prop_assert_eq!(again.receiver.unchanged, moved.receiver.files);
        prop_assert_eq!(look(&from), look(&to));
    }
}

#[test]
fn only_what_differs_is_moved() {
    let dir = scratch();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    tree_of(&from, &["a", "b/c", "b/d", "e/f/g"]);
    contents(&from, &to, &recursive()).unwrap();
    fs::write(from.join("b/c"), "something else").unwrap();
    fs::remove_file(to.join("a")).unwrap();
    fs::write(to.join("extra"), "stays").unwrap();
    let moved = contents(&from, &to, &recursive()).unwrap();
    assert_eq!((moved.receiver.files, moved.receiver.unchanged), (2, 2));
    assert_eq!((moved.sender.files, moved.sender.unchanged), (2, 2));
    fs::remove_file(to.join("extra")).unwrap();
    fs::File::open(&to)
        .unwrap()
        .set_modified(fs::metadata(&from).unwrap().modified().unwrap())
        .unwrap();
    assert_eq!(look(&from), look(&to));
}

#[test]
fn contents_are_compared_if_that_is_asked_for() {
    let dir = scratch();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    tree_of(&from, &["same", "other"]);
    contents(&from, &to, &recursive()).unwrap();
    // Another content of the same size and time.
    let time = fs::metadata(to.join("other")).unwrap().modified().unwrap();
    fs::write(to.join("other"), "OTHER".repeat(10)).unwrap();
    fs::File::open(to.join("other"))
        .unwrap()
        .set_modified(time)
        .unwrap();
    let moved = contents(&from, &to, &recursive()).unwrap();
    assert_eq!(moved.receiver.files, 0);
    let options = TreeOptions {
        checksum: true,
        ..recursive()
    };
    let moved = contents(&from, &to, &options).unwrap();
    assert_eq!((moved.receiver.files, moved.receiver.unchanged), (1, 1));
    assert_eq!(look(&from), look(&to));
}

#[test]
fn names_at_the_top_follow_cp() {
    let dir = scratch();
    let path = |name: &str| dir.path().join(name);
    tree_of(&path("src"), &["f", "sub/g"]);
    tree_of(dir.path(), &["one", "two"]);
    let copy = |sources: &[&str], to: &str| {
        let mut source = TreeSource::new();
        for name in sources {
            source.add_local(&path(name), false)?;
        }
        let options = TreeOptions {
            contents: source.is_contents(),
            ..recursive()
        };
        transfer(source, TreeTarget::local(&path(to))?, &options)
    };
    // It becomes the destination, which did not exist; then it goes below it.
    copy(&["src"], "new").unwrap();
    assert!(path("new/sub/g").exists());
    copy(&["src"], "new").unwrap();
    assert!(path("new/src/sub/g").exists());
    // Its content.
    copy(&["src/."], "only").unwrap();
    assert_eq!(look(&path("src")), look(&path("only")));
    // A file likewise.
    copy(&["one"], "copy").unwrap();
    assert_eq!(
        fs::read(path("copy")).unwrap(),
        fs::read(path("one")).unwrap()
    );
    copy(&["one", "two", "src"], "only").unwrap();
    assert!(path("only/one").exists() && path("only/two").exists() && path("only/src/f").exists());
    // Several things need a directory, and no two names.
    let error = copy(&["one", "two"], "nothing").unwrap_err();
    assert!(matches!(error, StoreError::NoDirectory { .. }), "{error}");
    tree_of(&path("elsewhere"), &["one"]);
    let error = copy(&["one", "elsewhere/one"], "only").unwrap_err();
    assert!(
        error
            .to_string()
            .contains("two of the sources are called \"one\""),
        "{error}"
    );
    let error = copy(&["src"], "no/such/dir").unwrap_err();
    assert!(error.to_string().contains("make it there first"), "{error}");
}

#[test]
fn a_directory_needs_to_be_asked_for() {
    let dir = scratch();
    tree_of(&dir.path().join("src"), &["f"]);
    tree_of(dir.path(), &["one"]);
    fs::create_dir(dir.path().join("to")).unwrap();
    let mut source = TreeSource::new();
    source.add_local(&dir.path().join("src"), false).unwrap();
    source.add_local(&dir.path().join("one"), false).unwrap();
    let target = TreeTarget::local(&dir.path().join("to")).unwrap();
    let moved = transfer(source, target, &TreeOptions::default()).unwrap();
    assert_eq!((moved.sender.failed, moved.receiver.files), (1, 1));
    assert!(
        moved.sender.notes[0].contains("copy it with -r"),
        "{:?}",
        moved.sender.notes
    );
}

#[test]
fn like_files_cost_their_bytes_and_little_more() {
    let dir = scratch();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    fs::create_dir(&from).unwrap();
    for i in 0..3000 {
        fs::write(from.join(format!("file{i:06}")), [7; 4096]).unwrap();
    }
    let moved = contents(&from, &to, &recursive()).unwrap();
    assert_eq!(moved.receiver.files, 3000);
    assert!(
        moved.pack_bytes < 3000 * (4096 + 40),
        "{}",
        moved.pack_bytes
    );
    assert!(moved.manifest_bytes < 3000 * 30, "{}", moved.manifest_bytes);
    assert!(moved.answer_bytes < 100, "{}", moved.answer_bytes);
}
