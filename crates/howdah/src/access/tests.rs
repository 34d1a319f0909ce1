//! Who may do what, by made-up keys and requests.

use super::*;
use howdah_session::RuleRef;
use std::os::unix::fs::symlink;

#[test]
fn a_user_names_paths_as_with_scp() {
    let dir = tempfile::tempdir().expect("a place");
    let home = dir.path().join("home");
    fs::create_dir_all(home.join("sub")).expect("made");
    fs::write(home.join("sub/file"), "x").expect("written");
    fs::write(dir.path().join("outside"), "x").expect("written");
    symlink(dir.path().join("outside"), home.join("link")).expect("a link");
    symlink(home.join("sub"), dir.path().join("way")).expect("a link");
    let rights = Rights::of_user(home.clone());
    let source = |path: &str| {
        rights
            .source(Path::new(path))
            .map(|(root, name)| root.path().join(name))
            .map_err(|e| (e.kind(), e.to_string()))
    };
    let target = |path: &str| {
        rights
            .target(Path::new(path))
            .map(|(root, name)| (root.path().to_owned(), name))
            .map_err(|e| e.kind())
    };
    let real = |path: &Path| fs::canonicalize(path).expect("exists");
    for path in ["sub/file", "~/sub/file", "./sub/../sub/file"] {
        assert_eq!(source(path), Ok(real(&home.join("sub/file"))), "{path}");
    }
    let outside = dir.path().join("outside");
    assert_eq!(source("link"), Ok(real(&outside)), "links are followed");
    assert_eq!(source("../outside"), Ok(real(&outside)));
    assert_eq!(source(&outside.display().to_string()), Ok(real(&outside)));
    assert_eq!(source("").map(|p| real(&p)), Ok(real(&home)));
    assert_eq!(source("/").as_deref(), Ok(Path::new("/")));
    assert_eq!(source("none").expect_err("absent").0, ErrorKind::NotFound);
    assert_eq!(source("~anna/x").expect_err("other").0, ErrorKind::Refused);

    let way = dir.path().join("way");
    let name = |name: &str| PathBuf::from(name);
    assert_eq!(target("new"), Ok((home.clone(), name("new"))));
    assert_eq!(target("sub"), Ok((home.join("sub"), name(""))));
    for path in ["", "~", "~/"] {
        let (root, rest) = target(path).expect("the home directory");
        assert_eq!((real(&root), rest), (real(&home), name("")), "{path:?}");
    }
    let through = format!("{}/new", way.display());
    assert_eq!(target(&through), Ok((way.clone(), name("new"))));
    assert_eq!(target("none/new"), Err(ErrorKind::Refused));
    assert_eq!(target("none/"), Err(ErrorKind::Refused));
    assert_eq!(target("sub/file/"), Err(ErrorKind::Refused));
}

fn exclude(pattern: &str) -> RuleRef<'_> {
    RuleRef {
        include: false,
        pattern,
        listed: false,
    }
}

/// H2: whoever sends in a copy between two other machines gets what that copy needs, and not the account.
#[test]
fn h2_the_sender_of_a_copy_between_others_gets_one_destination() {
    let home = tempfile::tempdir().expect("a place");
    fs::write(home.path().join("secret"), "x").expect("written");
    let rights = |tree: Option<&TreeOptions>| {
        Rights::of_user(home.path().to_owned()).for_one_copy(Only {
            destination: PathBytes::from(OsStr::new("backup")),
            names: [OsString::from("photos")].into(),
            tree: tree.cloned(),
            selection: tree.map(digest),
        })
    };
    let refused =
        |result: Result<(), Error>| result.is_err_and(|error| error.kind() == ErrorKind::Refused);
    let one = rights(None);
    assert!(one.target(Path::new("backup")).is_ok());
    for other in [
        "",
        "~",
        ".ssh/authorized_keys",
        "backup/x",
        "./backup",
        "/etc/cron.d/x",
    ] {
        assert!(refused(one.target(Path::new(other)).map(drop)), "{other}");
    }
    for read in ["secret", "backup", ""] {
        assert!(refused(one.source(Path::new(read)).map(drop)), "{read}");
    }
    assert!(one.check_file(Some(OsStr::new("photos"))).is_ok());
    assert!(refused(one.check_file(Some(OsStr::new("authorized_keys")))));
    let plain = TreeOptions::default();
    assert!(refused(one.check_tree(&plain)), "a tree instead of a file");
    let tree = rights(Some(&plain));
    assert!(refused(tree.check_file(None)), "a file instead of a tree");
    assert!(tree.check_tree(&plain).is_ok());
    assert_eq!(tree.names().map(BTreeSet::len), Some(1));
    let with = |change: fn(&mut TreeOptions)| {
        let mut options = plain.clone();
        change(&mut options);
        options
    };
    for more in [
        with(|o| o.contents = true),
        with(|o| o.delete = true),
        with(|o| o.archive = true),
        with(|o| o.mirror = true),
        with(|o| o.keep_dirlinks = true),
        with(|o| o.make_path = true),
        with(|o| o.link_dest = vec!["../old".to_owned()]),
        with(|o| o.chmod = Some("u+s".to_owned())),
        with(|o| o.backup_dir = Some("old".to_owned())),
        with(|o| o.recursive = true),
        with(|o| o.checksum = true),
        with(|o| o.dry_run = true),
        with(|o| o.max_delete = Some(10)),
        with(|o| o.delete_all = true),
        with(|o| o.min_size = Some(1)),
        with(|o| o.max_size = Some(1)),
        with(|o| o.modified_since = Some(1)),
        with(|o| o.modified_until = Some(1)),
        with(|o| o.anew = true),
        with(|o| o.reread = true),
        with(|o| o.permissions = true),
        with(|o| o.no_permissions = true),
        with(|o| o.numeric_ids = true),
        with(|o| o.one_file_system = true),
        with(|o| o.update = true),
        with(|o| o.ignore_existing = true),
        with(|o| o.size_only = true),
        with(|o| o.growing = true),
        with(|o| o.remove_source = true),
        with(|o| o.chown = Some((Some("root".to_owned()), None))),
        with(|o| o.rules.push(exclude("keep"))),
        with(|o| o.rules.push(exclude("/keep"))),
        with(|o| o.rules.push(exclude("/a/keep"))),
    ] {
        assert!(refused(tree.check_tree(&more)), "{more:?}");
        assert!(rights(Some(&more)).check_tree(&more).is_ok());
        // What was asked for to keep something is not left out either.
        assert!(refused(rights(Some(&more)).check_tree(&plain)), "{more:?}");
    }
    for same in [
        with(|o| o.origin = Some(7)),
        with(|o| o.memory = Some(1 << 20)),
        with(|o| o.tells_files = true),
        // Lists are for whoever walks.
        with(|o| o.files = Some(["a/b"].iter().collect())),
    ] {
        assert!(tree.check_tree(&same).is_ok(), "{same:?}");
    }
    // Rules that name something by its whole path at the sender are put below the source there.
    let rules = |patterns: &[&str]| {
        let mut options = plain.clone();
        for pattern in patterns {
            options.rules.push(exclude(pattern));
        }
        options
    };
    let asked = rights(Some(&rules(&["/home/anna/photos/raw", "*.o"])));
    assert!(asked.check_tree(&rules(&["/photos/raw", "*.o"])).is_ok());
    for other in [
        &["/photos/raw"][..],
        &["*.o", "/photos/raw"],
        &["/photos/cooked", "*.o"],
        &["/photos/raw/", "*.o"],
        &["raw", "*.o"],
    ] {
        assert!(refused(asked.check_tree(&rules(other))), "{other:?}");
    }
    let contents = with(|o| o.contents = true);
    assert_eq!(rights(Some(&contents)).names(), None);
}

/// H8: whoever may write and not read learns nothing of what is there.
#[test]
fn h8_without_the_right_to_read_nothing_is_told() {
    let home = std::env::temp_dir();
    let writer = Rights::of_user(home.clone()).restricted(false, true, None);
    assert!(writer.is_blind());
    let plain = TreeOptions::default();
    assert!(writer.check_tree(&plain).is_ok());
    for options in [
        TreeOptions {
            dry_run: true,
            ..plain.clone()
        },
        TreeOptions {
            checksum: true,
            ..plain.clone()
        },
        TreeOptions {
            link_dest: vec!["../old".to_owned()],
            ..plain.clone()
        },
    ] {
        assert!(writer.check_tree(&options).is_err());
        assert!(Rights::of_user(home.clone()).check_tree(&options).is_ok());
    }
}

#[test]
fn no_list_leaves_what_is_named() {
    let options = KeyOptions {
        no_list: true,
        ..KeyOptions::default()
    };
    let home = std::env::temp_dir();
    let rights = Rights::of_user(home).bounded(&options);
    assert!(rights.source(Path::new("")).is_ok() && rights.target(Path::new("x")).is_ok());
    assert!(rights.is_blind());
    let refused = |result: Result<(), Error>| {
        result.is_err_and(|e| e.kind() == ErrorKind::Refused && e.to_string().contains("no-list"))
    };
    assert!(refused(rights.check_list()));
    assert!(refused(rights.expand(Path::new("*"), &|| false).map(drop)));
    let looks = TreeOptions {
        dry_run: true,
        ..TreeOptions::default()
    };
    assert!(refused(rights.check_tree(&looks)));
}

#[test]
fn h6_what_a_key_sets_and_is_shown() {
    let of = |metadata| {
        let options = KeyOptions {
            metadata,
            ..KeyOptions::default()
        };
        let rights = Rights::of_user(std::env::temp_dir()).bounded(&options);
        (rights.sets(), rights.shows())
    };
    assert_eq!(of(None), (Metadata::Modes, Metadata::All));
    for one in [
        Metadata::None,
        Metadata::Times,
        Metadata::Modes,
        Metadata::All,
    ] {
        assert_eq!(of(Some(one)), (one, one));
    }
    let user = Rights::of_user(std::env::temp_dir());
    assert_eq!((user.sets(), user.shows()), (Metadata::All, Metadata::All));
}

#[test]
fn rights_that_were_taken_away_are_missed() {
    let home = std::env::temp_dir();
    let reader = Rights::of_user(home.clone()).restricted(true, false, None);
    assert!(reader.source(Path::new("")).is_ok());
    assert_eq!(
        reader
            .target(Path::new("x"))
            .map(|_| ())
            .map_err(|e| e.kind()),
        Err(ErrorKind::Refused)
    );
    let writer = Rights::of_user(home).restricted(false, true, None);
    assert!(writer.target(Path::new("x")).is_ok());
    assert_eq!(
        writer
            .source(Path::new(""))
            .map(|_| ())
            .map_err(|e| e.kind()),
        Err(ErrorKind::Refused)
    );
}

/// H14, H17: what lies in the room of a plan is believed, and is of one key.
#[test]
fn h18_nobody_names_what_copies_keep_for_themselves() {
    let dir = tempfile::tempdir().expect("a place");
    let room = dir.path().join(".x.0123456789abcdef.howdah-plan");
    fs::create_dir(&room).expect("made");
    fs::write(room.join("part"), "of somebody").expect("written");
    let root = dir.path().to_owned();
    let rights = Rights::below(move || Ok(Arc::new(Root::open(&root).expect("it is there"))));
    let in_room = Path::new(".x.0123456789abcdef.howdah-plan/part");
    for path in [in_room, Path::new(".x.0123456789abcdef.howdah-plan")] {
        assert!(
            rights
                .source(path)
                .is_err_and(|e| e.kind() == ErrorKind::NotFound)
        );
        assert!(rights.target(path).is_err());
    }
    for pattern in [
        ".*",
        ".x*",
        ".*/part",
        ".*/*",
        ".x.0123456789abcdef.howdah-plan/part",
    ] {
        let found = rights.expand(Path::new(pattern), &|| false);
        assert_eq!(found.expect("nothing"), [], "{pattern}");
    }
    // Whose machine it is may look at all of it.
    let user = Rights::of_user(dir.path().to_owned());
    assert!(user.source(in_room).is_ok());
    assert_eq!(
        user.expand(Path::new(".*/part"), &|| false)
            .expect("it is there")
            .len(),
        1
    );
}
