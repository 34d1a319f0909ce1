//! What a copy does to rights, and what rights do to a copy: the T rows of docs/faults.md about modes.
#![expect(clippy::unwrap_used, reason = "a test may panic, its helpers too")]

mod support;

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::Path;
use std::process::Command;
use support::Site;
use support::process::{Done, Input};

/// Debian's `nobody`.
const NOBODY: u32 = 65534;

/// A client without any privilege, with the keys of `client` and files of its own.
struct Nobody<'a>(&'a Site);

impl<'a> Nobody<'a> {
    /// `None` with a printed reason where root is not there to become somebody else.
    fn on(site: &'a Site) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: only root can become somebody else");
            return None;
        }
        fs::set_permissions(site.path(), Permissions::from_mode(0o755)).unwrap();
        for dir in [site.config("client"), site.file("").into()] {
            own(&dir);
        }
        Some(Self(site))
    }

    fn run(&self, args: &[&str]) -> Done {
        let mut words = vec!["--reuid=65534", "--regid=65534", "--clear-groups"];
        words.push(env!("CARGO_BIN_EXE_howdah"));
        words.extend(args);
        let mut command = Command::new("setpriv");
        command
            .args(words)
            .env("HOWDAH_CONFIG_DIR", self.0.config("client"))
            .env("HOME", self.0.file(""))
            .env("XDG_RUNTIME_DIR", self.0.file(""))
            .env("HOWDAH_RECONNECT", "0")
            .env("HOWDAH_DIE_WITH_PARENT", "1");
        support::process::Process::start(command, Input::None, self.0.limit()).finish()
    }
}

/// Gives `dir` and all below to [`NOBODY`].
fn own(dir: &Path) {
    chown(dir, Some(NOBODY), Some(NOBODY)).unwrap();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() {
            own(&path);
        } else {
            std::os::unix::fs::lchown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
    }
}

fn mode(path: &str) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

fn set_mode(path: &str, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn t10_directories_that_their_owner_may_not_write_to_are_copied_into_again_and_again() {
    let site = Site::new(120);
    let Some(nobody) = Nobody::on(&site) else {
        return;
    };
    for dir in ["s/a/deep", "s/b", "s/gone/deep"] {
        fs::create_dir_all(site.root(dir)).unwrap();
        fs::write(site.root(&format!("{dir}/file")), dir).unwrap();
    }
    let closed = [
        ("s/a/deep", 0o555),
        ("s/a", 0o500),
        ("s/b", 0o311),
        ("s/gone", 0o555),
    ];
    for (dir, mode) in closed {
        set_mode(&site.root(dir), mode);
    }
    let server = site.serve();
    let (from, to) = (server.url("s"), site.file("d"));
    let sync = ["sync", "--json", "--accept-new", "--delete", &*from, &*to];
    let done = nobody.run(&sync);
    assert_eq!(done.code, Some(0), "{}", done.err);
    for (dir, mode_of) in closed {
        let there = dir.replacen('s', &to, 1);
        assert_eq!(mode(&there), mode_of, "{dir}");
    }

    // Something changes below each of them, and a part goes.
    fs::write(site.root("s/a/deep/file"), "changed").unwrap();
    fs::write(site.root("s/b/new"), "new").unwrap();
    fs::remove_dir_all(site.root("s/gone")).unwrap();
    let done = nobody.run(&sync);
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert_eq!(fs::read(format!("{to}/a/deep/file")).unwrap(), b"changed");
    assert_eq!(fs::read(format!("{to}/b/new")).unwrap(), b"new");
    assert!(!fs::exists(format!("{to}/gone")).unwrap());
    for (dir, mode_of) in &closed[..3] {
        assert_eq!(mode(&dir.replacen('s', &to, 1)), *mode_of, "{dir}");
    }
    let done = nobody.run(&sync);
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert_eq!(done.json()["tree"]["files"], 0, "{}", done.json());
    server.stop();
    site.assert_nothing_half_done();
}
