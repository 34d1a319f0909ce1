//! Whole directories to and from a real server.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test may panic, its helpers too")]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use support::place::content;
use support::{Host, Site};

/// What a copy keeps, by path.
fn look(dir: &str) -> BTreeMap<PathBuf, String> {
    fn into(dir: &Path, below: &Path, all: &mut BTreeMap<PathBuf, String>) {
        let path = dir.join(below);
        let meta = fs::symlink_metadata(&path).unwrap();
        let what = if meta.is_symlink() {
            format!("link {}", fs::read_link(&path).unwrap().display())
        } else {
            let (mode, time) = (meta.permissions().mode(), (meta.mtime(), meta.mtime_nsec()));
            if meta.is_dir() {
                for entry in fs::read_dir(&path).unwrap() {
                    into(dir, &below.join(entry.unwrap().file_name()), all);
                }
                format!("{mode:o} {time:?}")
            } else {
                let hash = blake3::hash(&fs::read(&path).unwrap());
                format!("{mode:o} {time:?} {hash}")
            }
        };
        all.insert(below.to_owned(), what);
    }
    let mut all = BTreeMap::new();
    into(Path::new(dir), Path::new(""), &mut all);
    all
}

/// Small files, large ones, links, odd names.
fn make_tree(dir: &str) {
    let dir = Path::new(dir);
    for sub in ["a/b/c", "a/empty", "odd \u{1b}[2J\nname"] {
        fs::create_dir_all(dir.join(sub)).unwrap();
    }
    for i in 0..300 {
        let name = format!("a/b/file{i}");
        fs::write(dir.join(&name), content(&name, i * 17)).unwrap();
    }
    for (name, size) in [
        ("large", 5 << 20),
        ("a/larger", 9 << 20),
        ("a/b/c/edge", 4 << 20),
    ] {
        fs::write(dir.join(name), content(name, size)).unwrap();
    }
    fs::write(dir.join("odd \u{1b}[2J\nname/-rf"), "x").unwrap();
    symlink("a/b", dir.join("link")).unwrap();
    symlink("/nowhere", dir.join("a/dangling")).unwrap();
    fs::set_permissions(dir.join("a/b/file7"), fs::Permissions::from_mode(0o640)).unwrap();
    fs::set_permissions(dir.join("a/empty"), fs::Permissions::from_mode(0o710)).unwrap();
}

#[test]
fn a_tree_goes_there_and_back_and_again_for_nothing() {
    let site = Site::new(100);
    make_tree(&site.file("src"));
    let server = site.serve();
    let put = site.copy_with(
        Host::Here,
        &["-r", &site.file("src"), &server.url("dst")],
        support::process::Input::None,
    );
    assert_eq!(put.code, Some(0), "{}", put.err);
    let json = put.json();
    assert_eq!(json["tree"]["files"], 304, "{json}");
    assert_eq!(json["verified"], "blake3", "{json}");
    assert_eq!(look(&site.file("src")), look(&site.root("dst")));

    let get = |args: &[&str]| site.copy_with(Host::Here, args, support::process::Input::None);
    let back = get(&["-r", &server.url("dst"), &site.file("back")]);
    assert_eq!(back.code, Some(0), "{}", back.err);
    assert_eq!(look(&site.file("src")), look(&site.file("back")));

    let again = get(&["-r", &server.url("dst/."), &site.file("back")]);
    assert_eq!(again.code, Some(0), "{}", again.err);
    let json = again.json();
    assert_eq!(json["tree"]["files"], 0, "{json}");
    assert_eq!(json["tree"]["unchanged"], 304, "{json}");

    // Several things into a directory; a directory only with -r.
    let several = [
        &*site.file("src/large"),
        &site.file("src/a"),
        &server.url("dst"),
    ];
    let some = get(&several);
    some.assert_failed(6, &["is a directory; copy it with -r"]);
    let missing = get(&["-r", &site.file("nothing"), &server.url("dst")]);
    missing.assert_failed(3, &["nothing"]);
    let missing = get(&["-r", &server.url("nothing"), &site.file("x")]);
    missing.assert_failed(3, &["nothing"]);
    let escape = get(&["-r", &server.url("dst/../.."), &site.file("x")]);
    escape.assert_failed(4, &["refused"]);
    let escape = get(&["-r", &site.file("src"), &server.url("../x")]);
    escape.assert_failed(4, &["refused"]);
    site.assert_nothing_half_done();
    server.stop();
}
