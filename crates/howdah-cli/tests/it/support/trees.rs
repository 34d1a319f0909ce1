//! Trees that are planned, and what has come of them.

use super::place::content;
use super::plans::rooms_in;
use super::process::{Done, Input, Process};
use super::{Host, Site};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

const MIB: usize = 1 << 20;

/// What a copy keeps, by path.
pub(crate) fn look(dir: &str) -> BTreeMap<PathBuf, String> {
    fn into(dir: &Path, below: &Path, all: &mut BTreeMap<PathBuf, String>) {
        let path = dir.join(below);
        let meta = fs::symlink_metadata(&path).unwrap();
        let (mode, time) = (meta.mode(), (meta.mtime(), meta.mtime_nsec()));
        let what = if meta.is_symlink() {
            format!("link {time:?} {}", fs::read_link(&path).unwrap().display())
        } else if meta.is_dir() {
            for entry in fs::read_dir(&path).unwrap() {
                into(dir, &below.join(entry.unwrap().file_name()), all);
            }
            format!("{mode:o} {time:?}")
        } else {
            let hash = blake3::hash(&fs::read(&path).unwrap());
            format!("{mode:o} {time:?} {hash}")
        };
        all.insert(below.to_owned(), what);
    }
    let mut all = BTreeMap::new();
    into(Path::new(dir), Path::new(""), &mut all);
    all
}

/// Some hundred files of all kinds: small ones, empty ones, longer ones than a lease, links, odd names, nothing at all.
pub(crate) fn make_tree(dir: &str) {
    let dir = Path::new(dir);
    for sub in ["a/b/c", "a/empty", "odd \u{1b}[2J\nname", "closed"] {
        fs::create_dir_all(dir.join(sub)).unwrap();
    }
    for i in 0..300 {
        let name = format!("a/b/file{i}");
        fs::write(dir.join(&name), content(&name, i * 17)).unwrap();
    }
    for (name, size) in [
        ("large", 3 * MIB),
        ("a/larger", 2 * MIB + 77),
        ("a/b/c/edge", MIB),
        ("closed/over", MIB + 1),
        ("closed/small", 100),
    ] {
        fs::write(dir.join(name), content(name, size)).unwrap();
    }
    fs::write(dir.join("odd \u{1b}[2J\nname/-rf"), "x").unwrap();
    fs::write(dir.join("100%41\\"), "%").unwrap();
    fs::write(dir.join(OsStr::from_bytes(b"\xff\xfe")), "bytes").unwrap();
    symlink("a/b", dir.join("link")).unwrap();
    symlink("/nowhere", dir.join("a/dangling")).unwrap();
    fs::hard_link(dir.join("a/b/file9"), dir.join("a/b/file9 too")).unwrap();
    let mode = |name: &str, mode| {
        fs::set_permissions(dir.join(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    mode("a/b/file7", 0o400);
    mode("large", 0o440);
    mode("a/empty", 0o500);
    mode("closed", 0o555);
    mode("a/larger", 0o4755);
}

/// A plan of leases of 1 MiB, and what is to come of it.
pub(crate) struct Plan<'a> {
    pub(crate) site: &'a Site,
    pub(crate) file: String,
    pub(crate) target: String,
    pub(crate) leases: u64,
    /// Where its room lies.
    pub(crate) above: String,
}

impl<'a> Plan<'a> {
    pub(crate) fn try_new(
        site: &'a Site,
        options: &[&str],
        source: &str,
        target: &str,
    ) -> (Self, Done) {
        let above = Path::new(target).parent().unwrap().to_str().unwrap();
        Self::to(site, options, (source, target), (target, above))
    }

    /// Planned to `to`, and seen as `target`.
    pub(crate) fn to(
        site: &'a Site,
        options: &[&str],
        (source, to): (&str, &str),
        (target, above): (&str, &str),
    ) -> (Self, Done) {
        let name = Path::new(target).file_name().unwrap().display();
        let file = site.file(&format!("{name}.plan"));
        let args = [
            "plan",
            "--json",
            "--accept-new",
            "--lease",
            "1MiB",
            "-o",
            &file,
        ];
        let args = [&args[..], options, &[source, to]].concat();
        let done = site.run(Host::Here, "client", &args, Input::None);
        let leases = match done.code {
            Some(0) => done.json()["leases"].as_u64().unwrap(),
            _ => 0,
        };
        let plan = Self {
            site,
            file,
            target: target.to_owned(),
            leases,
            above: above.to_owned(),
        };
        (plan, done)
    }

    pub(crate) fn new(site: &'a Site, options: &[&str], source: &str, target: &str) -> Self {
        let (plan, done) = Self::try_new(site, options, source, &site.file(target));
        assert_eq!(done.code, Some(0), "{}", done.err);
        plan
    }

    /// Of the client's directory, to a path below the server's root.
    pub(crate) fn pushed(
        site: &'a Site,
        options: &[&str],
        source: &str,
        (to, name): (&str, &str),
    ) -> Self {
        let seen = (&*site.root(name), &*site.root(""));
        let (plan, done) = Self::to(site, options, (&site.file(source), to), seen);
        assert_eq!(done.code, Some(0), "{}", done.err);
        plan
    }

    pub(crate) fn start(&self, lease: u64, options: &[&str]) -> Process {
        let lease = lease.to_string();
        let args = [&["--plan", &self.file, "--lease", &lease], options].concat();
        self.site.start_copy(Host::Here, &args, Input::None)
    }

    pub(crate) fn run(&self, lease: u64, options: &[&str]) -> Done {
        self.start(lease, options).finish()
    }

    /// Moves these, some at a time.
    pub(crate) fn move_all(&self, leases: impl IntoIterator<Item = u64>, options: &[&str]) {
        let leases: Vec<u64> = leases.into_iter().collect();
        for some in leases.chunks(4) {
            let movers: Vec<_> = some
                .iter()
                .map(|lease| self.start(*lease, options))
                .collect();
            for mover in movers {
                let done = mover.finish();
                assert_eq!(done.code, Some(0), "{}", done.err);
            }
        }
    }

    pub(crate) fn finish(&self, options: &[&str]) -> Done {
        let args = [&["finish", "--accept-new", &self.file], options].concat();
        self.site.run(Host::Here, "client", &args, Input::None)
    }

    pub(crate) fn missing(&self) -> String {
        let done = self.finish(&["--check"]);
        assert_eq!(done.code, Some(0), "{}", done.err);
        String::from_utf8(done.out).unwrap().trim().to_owned()
    }

    pub(crate) fn is_absent(&self) {
        assert!(
            fs::symlink_metadata(&self.target).is_err(),
            "{}",
            self.target
        );
    }

    pub(crate) fn room(&self) -> PathBuf {
        rooms_in(&self.above).pop().unwrap()
    }

    /// The lease that has that file, and the record of its first run.
    pub(crate) fn lease_of(&self, name: &str) -> u64 {
        let has = |lease: &u64| {
            let sheet = self.room().join(format!("{lease}/sheet"));
            fs::read_to_string(sheet)
                .unwrap()
                .contains(&format!("\"{name}\""))
        };
        (0..self.leases).find(has).unwrap()
    }
}

pub(crate) fn rooms(site: &Site) -> Vec<PathBuf> {
    rooms_in(&site.file(""))
}

/// Also what its owner may not change.
pub(crate) fn remove(tree: &str) {
    let opened = Command::new("chmod").args(["-R", "u+rwx", tree]).status();
    assert!(opened.unwrap().success());
    fs::remove_dir_all(tree).unwrap();
}

/// Small files only, in two leases.
pub(crate) fn make_small(dir: &str) {
    fs::create_dir_all(Path::new(dir).join("d")).unwrap();
    for i in 0..24 {
        let name = format!("d/file{i:02}");
        fs::write(Path::new(dir).join(&name), content(&name, MIB / 16)).unwrap();
    }
}
