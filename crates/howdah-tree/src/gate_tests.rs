//! Senders that name what nobody asked them for: nothing of it is written, and what was there stays as it was (H1).

use super::tests::transfer_between;
use super::*;
use howdah_session::{Rule, TreeOptions};
use howdah_store::Root;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::sync::Arc;

fn asked_for(dir: &Path, names: &[&str]) -> TreeTarget {
    TreeTarget::local(dir)
        .unwrap()
        .expecting(names.iter().map(OsString::from))
}

/// What is tried, and what either side says.
type Case<'a> = (&'a str, TreeSource, &'a TreeOptions, &'a TreeOptions);

#[test]
fn h1_a_server_writes_no_other_name_and_changes_no_mode() {
    let evil = tempfile::tempdir().unwrap();
    fs::create_dir_all(evil.path().join("photos")).unwrap();
    fs::write(evil.path().join("photos/one.jpg"), "one").unwrap();
    fs::write(evil.path().join("photos/two.key"), "two").unwrap();
    fs::create_dir_all(evil.path().join("ssh")).unwrap();
    fs::write(evil.path().join("ssh/authorized_keys"), "evil").unwrap();
    fs::set_permissions(
        evil.path().join("photos"),
        fs::Permissions::from_mode(0o777),
    )
    .unwrap();
    let root = Arc::new(Root::open(evil.path()).unwrap());
    let plain = TreeOptions {
        recursive: true,
        ..TreeOptions::default()
    };
    let below = |path: &str, called: Option<&str>, contents: bool| {
        let mut source = TreeSource::new();
        source
            .add_below(&root, Path::new(path), called.map(OsStr::new), contents)
            .unwrap();
        source
    };
    let as_contents = TreeOptions {
        contents: true,
        ..plain.clone()
    };
    let without_keys = TreeOptions {
        rules: vec![Rule {
            include: false,
            pattern: "*.key".into(),
            listed: false,
        }]
        .into(),
        ..plain.clone()
    };
    let large_only = TreeOptions {
        min_size: Some(1_000),
        ..plain.clone()
    };
    let only_files = TreeOptions::default();
    let cases: Vec<Case<'_>> = vec![
        (
            "another name",
            below("ssh", Some(".ssh"), false),
            &plain,
            &plain,
        ),
        (
            "contents instead of the directory",
            below("photos", None, true),
            &as_contents,
            &plain,
        ),
        (
            "a directory instead of a file",
            below("photos", None, false),
            &plain,
            &only_files,
        ),
        (
            "what the filters leave out",
            below("photos", None, false),
            &plain,
            &without_keys,
        ),
        (
            "what is too small",
            below("photos", None, false),
            &plain,
            &large_only,
        ),
    ];
    for (what, source, sent, options) in cases {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join(".ssh")).unwrap();
        fs::write(home.path().join(".ssh/authorized_keys"), "mine").unwrap();
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let target = asked_for(home.path(), &["photos"]);
        let result = transfer_between((source, sent), (target, options), true);
        let error = result.expect_err(what).to_string();
        assert!(error.contains("not asked for"), "{what}: {error}");
        let keys = fs::read_to_string(home.path().join(".ssh/authorized_keys")).unwrap();
        assert_eq!(keys, "mine", "{what}");
        let mode = fs::metadata(home.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o700, "{what}");
        for name in ["authorized_keys", "one.jpg", "photos/two.key"] {
            assert!(!home.path().join(name).exists(), "{what}: {name}");
        }
    }
    // And what was asked for comes.
    let home = tempfile::tempdir().unwrap();
    let target = asked_for(home.path(), &["photos"]);
    transfer_between(
        (below("photos", None, false), &plain),
        (target, &plain),
        true,
    )
    .unwrap();
    assert!(home.path().join("photos/two.key").exists());
}

/// A file was asked for, or what links lead to, and the sender has a link of his choice come in its place: whatever writes to it then
/// writes elsewhere.
#[test]
fn h1_a_server_plants_no_link_where_a_file_was_asked_for() {
    let evil = tempfile::tempdir().unwrap();
    symlink("mine", evil.path().join("notes")).unwrap();
    fs::create_dir(evil.path().join("photos")).unwrap();
    symlink("../mine", evil.path().join("photos/one")).unwrap();
    fs::create_dir(evil.path().join("pair")).unwrap();
    fs::write(evil.path().join("pair/a"), "twice").unwrap();
    fs::hard_link(evil.path().join("pair/a"), evil.path().join("pair/b")).unwrap();
    let root = Arc::new(Root::open(evil.path()).unwrap());
    let sent = TreeOptions {
        recursive: true,
        archive: true,
        ..TreeOptions::default()
    };
    let tree = TreeOptions {
        recursive: true,
        ..TreeOptions::default()
    };
    let followed = TreeOptions {
        copy_links: true,
        ..tree.clone()
    };
    let one_file = TreeOptions::default();
    let cases = [
        ("notes", &one_file),
        ("notes", &followed),
        ("photos", &followed),
        ("pair", &tree),
    ];
    for (name, options) in cases {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("mine"), "mine").unwrap();
        let source = || {
            let mut source = TreeSource::new();
            let named = Path::new(name);
            source.add_below(&root, named, None, false).unwrap();
            source
        };
        let target = asked_for(home.path(), &[name]);
        let result = transfer_between((source(), &sent), (target, options), true);
        let error = result.expect_err(name).to_string();
        assert!(error.contains("not asked for"), "{name}: {error}");
        let names = [name.to_owned(), format!("{name}/one"), format!("{name}/a")];
        for planted in names {
            let path = home.path().join(&planted);
            assert!(
                path.is_dir() || fs::symlink_metadata(&path).is_err(),
                "{planted}"
            );
        }
        // Who asks for it gets it.
        let target = asked_for(home.path(), &[name]);
        transfer_between((source(), &sent), (target, &sent), true).expect(name);
        assert!(fs::symlink_metadata(home.path().join(name)).is_ok());
    }
}
