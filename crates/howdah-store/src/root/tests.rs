use super::*;
use crate::durable::{Links, PartFile, Place};
use std::io::Read;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};

/// `base/root` with `dir/file`, and `base/outside` with another `file`.
struct Tree {
    base: tempfile::TempDir,
}

impl Tree {
    fn new() -> Self {
        let base = tempfile::tempdir().unwrap();
        for (dir, content) in [("root/dir", "inside"), ("outside", "canary")] {
            let dir = base.path().join(dir);
            std::fs::create_dir_all(&dir).unwrap();
            std::fs::write(dir.join("file"), content).unwrap();
        }
        Self { base }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.base.path().join(name)
    }

    /// With and without `openat2`.
    fn roots(&self) -> [Root; 2] {
        let open = || Root::open(self.path("root")).unwrap();
        [open(), open().without_openat2()]
    }
}

fn content(file: Result<File, StoreError>) -> Result<String, StoreError> {
    let mut text = String::new();
    file?.read_to_string(&mut text).unwrap();
    Ok(text)
}

fn is_escape<T>(result: &Result<T, StoreError>) -> bool {
    matches!(
        result,
        Err(StoreError::PathEscapes { .. } | StoreError::Circular { .. })
    )
}

#[test]
fn bad_names_are_refused_before_the_kernel_sees_them() {
    let tree = Tree::new();
    let long_name = "n".repeat(256);
    let long_path = "dir/".repeat(1100) + "file";
    for root in tree.roots() {
        for path in [
            "",
            "/",
            "/etc/passwd",
            "..",
            "../outside/file",
            "dir/../../outside/file",
            "dir/..",
            ".",
            "./dir/file",
            "dir//file",
            "dir/",
            "dir/file/",
            "a\0b",
            "dir/./file",
            &long_name,
            &long_path,
        ] {
            assert!(is_escape(&root.open_read(Path::new(path))), "read {path:?}");
            assert!(
                is_escape(&root.open_parent(Path::new(path))),
                "write {path:?}"
            );
        }
        let error = root
            .open_read(Path::new(&long_path))
            .unwrap_err()
            .to_string();
        assert!(error.len() < 300, "{error}");
        assert_eq!(
            content(root.open_read(Path::new("dir/file"))).unwrap(),
            "inside"
        );
    }
}

#[test]
fn links_never_lead_out() {
    let tree = Tree::new();
    symlink("../outside", tree.path("root/relative")).unwrap();
    symlink(tree.path("outside"), tree.path("root/absolute")).unwrap();
    symlink("../../outside/file", tree.path("root/dir/link")).unwrap();
    symlink("loop", tree.path("root/loop")).unwrap();
    symlink("/proc/self/root", tree.path("root/magic")).unwrap();
    for root in tree.roots() {
        for path in [
            "relative/file",
            "absolute/file",
            "dir/link",
            "loop",
            "magic/etc/passwd",
        ] {
            assert!(is_escape(&root.open_read(Path::new(path))), "{path}");
        }
        for path in ["relative/new", "absolute/new", "magic/tmp/new"] {
            assert!(is_escape(&root.open_parent(Path::new(path))), "{path}");
        }
    }
}

#[test]
fn links_that_stay_inside_are_read_but_not_written_through() {
    let tree = Tree::new();
    symlink("dir", tree.path("root/alias")).unwrap();
    let [root, portable] = tree.roots();
    if cfg!(target_os = "linux") {
        assert_eq!(
            content(root.open_read(Path::new("alias/file"))).unwrap(),
            "inside"
        );
    }
    assert!(is_escape(&portable.open_read(Path::new("alias/file"))));
    assert!(is_escape(&root.open_parent(Path::new("alias/file"))));
    assert!(is_escape(&portable.open_parent(Path::new("alias/file"))));
}

/// N7: what such a link is called by name, and nothing about a root that nobody has named.
#[cfg(target_os = "linux")]
#[test]
fn n7_links_that_lead_nowhere_or_in_a_circle_are_said_to() {
    let tree = Tree::new();
    symlink("nothing", tree.path("root/dangling")).unwrap();
    symlink("circle", tree.path("root/circle")).unwrap();
    let [root, _] = tree.roots();
    let words = |path: &str| root.open_read(Path::new(path)).unwrap_err().to_string();
    for (path, part) in [
        ("dangling", "a symbolic link to something that is not there"),
        ("circle", "lead in a circle"),
        ("circle/x", "lead in a circle"),
        ("none", "does not exist"),
    ] {
        let error = words(path);
        assert!(error.contains(part) && error.contains(path), "{error}");
    }
    let named = open_local(&tree.path("root/circle"));
    assert!(
        matches!(named, Err(StoreError::Circular { .. })),
        "{named:?}"
    );
    // An untold root keeps where it lies to itself.
    let untold = root.untold();
    let error = untold.open_read(Path::new("dangling")).unwrap_err();
    let at = tree.path("root");
    assert!(
        !error.to_string().contains(&*at.to_string_lossy()),
        "{error}"
    );
}

#[test]
fn a_missing_directory_is_named() {
    let tree = Tree::new();
    for root in tree.roots() {
        let error = root.open_parent(Path::new("no/such/file")).unwrap_err();
        assert!(matches!(&error, StoreError::NotFound { path } if path == Path::new("no/such")));
    }
    assert!(matches!(
        Root::open(tree.path("none")),
        Err(StoreError::NotFound { .. })
    ));
}

/// While another thread keeps exchanging `root/dir` with a link to the outside, nothing outside
/// is read or written.
#[cfg(target_os = "linux")]
#[test]
fn a_racing_link_does_not_lead_out() {
    const ROUNDS: usize = 4000;
    let tree = Tree::new();
    symlink(tree.path("outside"), tree.path("root/evil")).unwrap();
    let stop = AtomicBool::new(false);
    let (dir, evil) = (tree.path("root/dir"), tree.path("root/evil"));
    let (mut inside, mut refused) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            use rustix::fs::{CWD, RenameFlags, renameat_with};
            while !stop.load(Ordering::Relaxed) {
                renameat_with(CWD, &dir, CWD, &evil, RenameFlags::EXCHANGE).unwrap();
            }
        });
        for root in tree.roots() {
            for _ in 0..ROUNDS {
                match content(root.open_read(Path::new("dir/file"))) {
                    Ok(text) => {
                        assert_eq!(text, "inside");
                        inside += 1;
                    }
                    Err(_) => refused += 1,
                }
                if let Ok((fd, name)) = root.open_parent(Path::new("dir/new")) {
                    let place = Place::new(fd, name, Path::new("dir/new"), Links::Stay).unwrap();
                    drop(PartFile::create(place, false).unwrap());
                    inside += 1;
                }
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    println!("{inside} times inside, {refused} times refused");
    assert!(
        inside > 0 && refused > 0,
        "the race was not run: {inside} {refused}"
    );
    let outside: Vec<_> = std::fs::read_dir(tree.path("outside")).unwrap().collect();
    assert_eq!(outside.len(), 1);
    assert_eq!(
        std::fs::read_to_string(tree.path("outside/file")).unwrap(),
        "canary"
    );
}
