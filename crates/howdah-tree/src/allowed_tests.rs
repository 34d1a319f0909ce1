//! H6: who may not set owners and special bits does not, however he asks.

use super::meta::Keeper;
use howdah_session::entry::Meta;
use howdah_session::{Metadata, TreeOptions};
use rustix::fs::Mode;
use std::fs::File;
use std::os::unix::fs::MetadataExt as _;

/// Set-user-id, of somebody else, of a long time ago, and with an attribute.
fn hostile() -> Meta {
    let mut meta = Meta {
        mode: 0o6755,
        owner: Some((0, 0)),
        xattrs: vec![(b"user.x".to_vec(), b"y".to_vec())],
        ..Meta::default()
    };
    meta.mtime.secs = 1_000_000_000;
    meta
}

/// Every way to ask for more than permissions.
fn ways() -> Vec<TreeOptions> {
    let plain = TreeOptions::default();
    let with = |change: fn(&mut TreeOptions)| {
        let mut options = plain.clone();
        change(&mut options);
        options
    };
    vec![
        with(|o| o.archive = true),
        with(|o| o.permissions = true),
        with(|o| o.chmod = Some("u+s,g+s,F6755,D7777".to_owned())),
        with(|o| {
            o.archive = true;
            o.chmod = Some("a=rwx,u+s,+t".to_owned());
        }),
        with(|o| {
            o.archive = true;
            o.chown = Some((Some("0".to_owned()), Some("0".to_owned())));
        }),
    ]
}

#[test]
fn h6_a_key_that_may_not_makes_no_programs_of_others() {
    for allowed in [Metadata::None, Metadata::Times, Metadata::Modes] {
        for options in ways() {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("program");
            let open = rustix::fs::open(dir.path(), rustix::fs::OFlags::RDONLY, Mode::empty());
            let open = open.unwrap();
            let file = File::create(&path).unwrap();
            let before = file.metadata().unwrap();
            let keeper = Keeper::new(&options, allowed).unwrap();
            let mut meta = hostile();
            keeper.admit(&mut meta, false);
            let not_kept = keeper.apply_to_file(&file, &open, "program".as_ref(), &meta);
            assert!(not_kept.is_empty(), "{not_kept:?}");
            // And what nobody admitted.
            let directory = keeper.dir_mode(&open, false, 0o755, 0o7777);
            assert_eq!(directory & 0o7000, 0, "{allowed} {options:?}");
            let after = file.metadata().unwrap();
            assert_eq!(after.mode() & 0o7000, 0, "{allowed} {options:?}");
            assert_eq!((after.uid(), after.gid()), (before.uid(), before.gid()));
            assert_eq!(after.mtime() == 1_000_000_000, allowed >= Metadata::Times);
            let mut names = [0; 64];
            let names = rustix::fs::flistxattr(&file, &mut names).unwrap_or(0);
            assert_eq!(names, 0, "attributes");
            if allowed < Metadata::Modes {
                assert_eq!(after.mode() & 0o111, 0, "{allowed} {options:?}");
            }
            let told = keeper
                .withheld()
                .map(|(names, text)| (names, text.contains("metadata=")));
            assert_eq!(told, Some((1, true)), "{allowed} {options:?}");
        }
    }
}

/// Special bits that `--chmod` asks for are no less than those of the source.
#[test]
fn h6_who_asks_for_special_bits_by_chmod_hears_that_he_may_not() {
    for (chmod, is_dir, is_told) in [
        ("u+s", false, true),
        ("F4755", false, true),
        ("Dg+s", true, true),
        ("Dg+s", false, false),
        ("g-w", false, false),
    ] {
        let options = TreeOptions {
            chmod: Some(chmod.to_owned()),
            ..TreeOptions::default()
        };
        for allowed in [Metadata::Modes, Metadata::All] {
            let keeper = Keeper::new(&options, allowed).unwrap();
            let mut meta = Meta {
                mode: 0o755,
                ..Meta::default()
            };
            keeper.admit(&mut meta, is_dir);
            let expected = is_told && allowed == Metadata::Modes;
            assert_eq!(keeper.withheld().is_some(), expected, "{chmod} {allowed}");
        }
    }
}

#[test]
fn h6_who_asks_for_no_more_than_he_may_hears_nothing() {
    let plain = TreeOptions::default();
    let keeper = Keeper::new(&plain, Metadata::Modes).unwrap();
    let mut meta = Meta {
        mode: 0o4755,
        ..Meta::default()
    };
    keeper.admit(&mut meta, false);
    assert_eq!(meta.mode, 0o755);
    assert!(keeper.withheld().is_none());
    for all in ways() {
        let keeper = Keeper::new(&all, Metadata::All).unwrap();
        let mut meta = hostile();
        keeper.admit(&mut meta, false);
        assert_eq!(meta, hostile());
        assert!(keeper.withheld().is_none());
    }
}

/// Who keeps permissions sets what he is told, whatever his umask.
#[test]
fn h6_permissions_that_stand_for_others_let_nobody_else_write() {
    for (shows, is_dir, mode) in [
        (Metadata::None, false, 0o644),
        (Metadata::Times, false, 0o644),
        (Metadata::None, true, 0o755),
        (Metadata::Times, true, 0o755),
        (Metadata::Modes, false, 0o772),
        (Metadata::All, true, 0o6772),
    ] {
        let mut meta = Meta {
            mode: 0o6772,
            ..Meta::default()
        };
        shows.show(&mut meta, is_dir);
        assert_eq!(meta.mode, mode, "{shows} {is_dir}");
    }
}
