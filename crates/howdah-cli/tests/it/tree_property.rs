//! Any tree in equals tree out, there and back, through a real server.
#![cfg(target_os = "linux")]

use crate::support::process::Input;
use crate::support::{Host, Site};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use rustix::fs::XattrFlags;
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

/// The same ones each time.
const CASES: usize = 16;

#[derive(Clone, Debug)]
struct Attributes {
    mode: u32,
    secs: u64,
    nanos: u32,
    /// A value of `user.howdah`.
    extended: Option<Vec<u8>>,
    /// Added to a number that nobody has here.
    owner: u32,
}

/// A thing in a generated tree.
#[derive(Clone, Debug)]
enum Node {
    /// So many bytes, and behind them a hole.
    File(usize, u64, Attributes),
    Link(Vec<u8>),
    Dir(BTreeMap<Vec<u8>, Self>, Attributes),
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    let any = prop::collection::vec(
        any::<u8>().prop_filter("", |b| *b != 0 && *b != b'/'),
        1..40,
    );
    prop_oneof![
        4 => "[a-z]{1,3}".prop_map(String::into_bytes),
        2 => any.prop_filter("", |name| name != b"." && name != b".."),
        1 => Just(b"-rf".to_vec()),
        1 => Just(b"..x".to_vec()),
        1 => Just(b"a\nb\x1b[2J".to_vec()),
        1 => Just(vec![b'n'; 255]),
        1 => Just("e\u{301}".as_bytes().to_vec()),
        1 => Just("\u{e9}".as_bytes().to_vec()),
        1 => Just(b"trailing ".to_vec()),
    ]
}

fn attributes(modes: std::ops::RangeInclusive<u32>) -> impl Strategy<Value = Attributes> {
    let extended = prop::option::of(prop::collection::vec(any::<u8>(), 0..20));
    (
        modes,
        0..4_000_000_000u64,
        0..1_000_000_000u32,
        extended,
        0..3u32,
    )
        .prop_map(|(mode, secs, nanos, extended, owner)| Attributes {
            mode,
            secs,
            nanos,
            extended,
            owner,
        })
}

fn node() -> impl Strategy<Value = Node> {
    let size = prop_oneof![
        6 => 0..5000usize,
        3 => Just(0usize),
        1 => Just(4 << 20),
        1 => Just((4 << 20) + 1),
    ];
    let hole = prop_oneof![5 => Just(0u64), 1 => 1..200_000u64];
    let leaf = prop_oneof![
        6 => (size, hole, attributes(0o400..=0o777)).prop_map(|(a, b, c)| Node::File(a, b, c)),
        1 => prop::collection::vec(1..=255u8, 1..50).prop_map(Node::Link),
    ];
    leaf.prop_recursive(8, 40, 6, |inner| {
        let names = prop::collection::btree_map(name(), inner, 0..6);
        (names, attributes(0o700..=0o777)).prop_map(|(map, attributes)| Node::Dir(map, attributes))
    })
}

/// A tree, and which of its files get further names.
fn tree() -> impl Strategy<Value = (BTreeMap<Vec<u8>, Node>, Vec<usize>)> {
    let nodes = prop::collection::btree_map(name(), node(), 1..8);
    (nodes, prop::collection::vec(0..100usize, 0..4))
}

/// Makes trees as root where root is needed.
struct Builder {
    is_root: bool,
    keeps_attributes: bool,
    files: Vec<PathBuf>,
    dirs: Vec<(PathBuf, Attributes)>,
}

impl Builder {
    fn new(scratch: &str) -> Self {
        let file = fs::File::create(scratch).unwrap();
        let set = rustix::fs::fsetxattr(file, "user.howdah", b"x", XattrFlags::empty());
        if let Err(error) = &set {
            println!("no extended attributes: the file system has none ({error})");
        }
        let is_root = rustix::process::geteuid().is_root();
        if !is_root {
            println!("no owners: only root can give files away");
        }
        Self {
            is_root,
            keeps_attributes: set.is_ok(),
            files: Vec::new(),
            dirs: Vec::new(),
        }
    }

    fn build(&mut self, top: &Path, tree: &BTreeMap<Vec<u8>, Node>, further: &[usize]) {
        self.files.clear();
        self.dirs.clear();
        fs::create_dir(top).unwrap();
        self.fill(top, tree);
        for (number, which) in further.iter().enumerate() {
            if let Some(file) = self.files.get(which % self.files.len().max(1)) {
                fs::hard_link(file, top.join(format!("further name {number}"))).unwrap();
            }
        }
        // From the inside out, for what is put in a directory changes its time.
        for (path, attributes) in std::mem::take(&mut self.dirs) {
            self.set(&path, &attributes);
        }
    }

    fn fill(&mut self, dir: &Path, tree: &BTreeMap<Vec<u8>, Node>) {
        for (name, node) in tree {
            let path = dir.join(OsStr::from_bytes(name));
            match node {
                Node::File(size, hole, attributes) => {
                    let file = fs::File::create(&path).unwrap();
                    file.write_all_at(&vec![attributes.mode as u8; *size], 0)
                        .unwrap();
                    file.set_len(*size as u64 + hole).unwrap();
                    self.set(&path, attributes);
                    self.files.push(path);
                }
                Node::Link(target) => symlink(OsStr::from_bytes(target), &path).unwrap(),
                Node::Dir(below, attributes) => {
                    fs::create_dir(&path).unwrap();
                    self.fill(&path, below);
                    self.dirs.push((path, attributes.clone()));
                }
            }
        }
    }

    fn set(&self, path: &Path, attributes: &Attributes) {
        if self.is_root {
            let id = 70_000 + attributes.owner;
            chown(path, Some(id), Some(id + 100)).unwrap();
        }
        let file = fs::File::open(path).unwrap();
        if let (true, Some(value)) = (self.keeps_attributes, &attributes.extended) {
            rustix::fs::fsetxattr(&file, "user.howdah", value, XattrFlags::empty()).unwrap();
        }
        file.set_permissions(fs::Permissions::from_mode(attributes.mode))
            .unwrap();
        let time = UNIX_EPOCH + Duration::new(attributes.secs, attributes.nanos);
        file.set_modified(time).unwrap();
    }
}

/// Everything that `-a` keeps, by path. Names of one file have the same first name.
fn look(top: &Path) -> BTreeMap<PathBuf, String> {
    fn into(
        top: &Path,
        below: &Path,
        first: &mut HashMap<u64, PathBuf>,
        all: &mut BTreeMap<PathBuf, String>,
    ) {
        let path = top.join(below);
        let meta = fs::symlink_metadata(&path).unwrap();
        let what = if meta.is_symlink() {
            let time = (meta.mtime(), meta.mtime_nsec());
            format!("link {} {time:?}", fs::read_link(&path).unwrap().display())
        } else {
            let mut value = [0; 64];
            let extended = rustix::fs::getxattr(&path, "user.howdah", &mut value[..])
                .ok()
                .map(|len| value[..len].to_vec());
            let about = format!(
                "{:o} {:?} {}:{} {extended:?}",
                meta.mode(),
                (meta.mtime(), meta.mtime_nsec()),
                meta.uid(),
                meta.gid()
            );
            if meta.is_dir() {
                let names = fs::read_dir(&path).unwrap().map(|e| e.unwrap().file_name());
                let mut names: Vec<_> = names.collect();
                names.sort();
                for name in names {
                    into(top, &below.join(name), first, all);
                }
                about
            } else {
                let hash = blake3::hash(&fs::read(&path).unwrap());
                let first = first.entry(meta.ino()).or_insert_with(|| below.to_owned());
                format!("{about} {} {hash} as {}", meta.len(), first.display())
            }
        };
        all.insert(below.to_owned(), what);
    }
    let mut all = BTreeMap::new();
    into(top, Path::new(""), &mut HashMap::new(), &mut all);
    all
}

#[test]
fn any_tree_in_equals_tree_out_there_and_back() {
    let site = Site::new(240);
    let server = site.serve();
    let mut builder = Builder::new(&site.file("scratch"));
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let strategy = tree();
    for case in 0..CASES {
        let (nodes, further) = strategy.new_tree(&mut runner).unwrap().current();
        let name = |what: &str| format!("{what}{case}");
        let (from, back) = (site.file(&name("from")), site.file(&name("back")));
        builder.build(Path::new(&from), &nodes, &further);
        let before = look(Path::new(&from));
        for (source, target, lies) in [
            (
                &*from,
                &*server.url(&name("there")),
                site.root(&name("there")),
            ),
            (&*server.url(&name("there")), &*back, back.clone()),
        ] {
            let done = site.copy_with(Host::Here, &["-a", source, target], Input::None);
            assert_eq!(done.code, Some(0), "case {case}: {}\n{nodes:#?}", done.err);
            let tree = &done.json()["tree"];
            assert_eq!(tree["not_kept"], 0, "case {case}: {tree}");
            let after = look(Path::new(&lies));
            assert!(before == after, "case {case}:\n{before:#?}\n{after:#?}");
        }
        // Again: nothing to do.
        let again = ["-a", &format!("{from}/."), &*server.url(&name("there"))];
        let again = site.copy_with(Host::Here, &again, Input::None);
        assert_eq!(again.code, Some(0), "case {case}: {}", again.err);
        assert_eq!(again.json()["tree"]["files"], 0, "case {case}");
        assert!(
            look(Path::new(&site.root(&name("there")))) == before,
            "case {case}"
        );
    }
    site.assert_nothing_half_done();
    server.stop();
}
