//! What `--delete` spares although the source does not have it: names that its `.gitignore` files leave out, and what is at work there.

use super::sync_tests::{Pair, deleting};
use howdah_session::{Rule, TreeOptions};
use std::fs;
use std::time::UNIX_EPOCH;

/// It went: what was built there, and what nobody else is to have.
#[test]
fn what_gitignore_leaves_out_stays_also_where_only_the_destination_has_it() {
    let there = ["build/art", "sub/x.env", "sub/old", "gone/x.env", "gone/y"];
    let pair = Pair::new(&["a", "sub/b"], &there);
    fs::write(pair.from(".gitignore"), "/build/\n*.env\n!keep.env\n").unwrap();
    fs::write(pair.from("sub/.gitignore"), "/own\n").unwrap();
    for name in ["keep.env", "sub/own", "own"] {
        fs::write(pair.to(name), "text").unwrap();
    }
    let options = TreeOptions {
        gitignore: true,
        ..deleting()
    };
    // One that is not copied tells nobody there what it leaves out.
    let unknown = TreeOptions {
        rules: vec![Rule {
            include: false,
            pattern: ".gitignore".to_owned(),
            listed: false,
        }]
        .into(),
        ..options.clone()
    };
    let before = pair.names();
    let moved = pair.sync(&unknown).unwrap();
    let told = (moved.receiver.deleted, moved.receiver.failed);
    assert_eq!(told, (0, 0), "{:?}", moved.receiver);
    let notices = moved.receiver.notices.join("; ");
    assert!(
        notices.contains("\".gitignore\": is not copied"),
        "{notices}"
    );
    assert!(before.iter().all(|name| pair.to(name).exists()));

    let moved = pair.sync(&options).unwrap();
    assert_eq!(moved.receiver.failed, 0, "{:?}", moved.receiver);
    let left = [
        ".gitignore",
        "a",
        "build",
        "build/art",
        "gone",
        "gone/x.env",
        "sub",
        "sub/.gitignore",
        "sub/b",
        "sub/own",
        "sub/x.env",
    ];
    assert_eq!(pair.names(), left);
    let dry = TreeOptions {
        dry_run: true,
        ..options
    };
    let moved = pair.sync(&dry).unwrap();
    let told = (moved.receiver.deleted, moved.receiver.failed);
    assert_eq!(told, (0, 0), "{:?}", moved.receiver);
}

/// Where another file of rules has come, or stayed, what the source's leaves out is not known.
#[test]
fn what_the_rules_of_another_file_would_leave_out_stays_and_is_an_error() {
    let pair = Pair::new(&["a"], &["b.env", "c"]);
    fs::write(pair.from(".gitignore"), "*.env\n").unwrap();
    fs::write(pair.to(".gitignore"), "*.other\n").unwrap();
    let options = TreeOptions {
        gitignore: true,
        ignore_existing: true,
        ..deleting()
    };
    let moved = pair.sync(&options).unwrap();
    let told = (moved.receiver.deleted, moved.receiver.failed);
    assert_eq!(told, (0, 1), "{:?}", moved.receiver);
    assert_eq!(pair.names(), [".gitignore", "a", "b.env", "c"]);
    let options = TreeOptions {
        ignore_existing: false,
        dry_run: true,
        ..options
    };
    // It does not know what will come, and tells too much rather than too little.
    let moved = pair.sync(&options).unwrap();
    let told = (moved.receiver.deleted, moved.receiver.failed);
    assert_eq!(told, (2, 0), "{:?}", moved.receiver);
    let options = TreeOptions {
        dry_run: false,
        ..options
    };
    let moved = pair.sync(&options).unwrap();
    let told = (moved.receiver.deleted, moved.receiver.failed);
    assert_eq!(told, (1, 0), "{:?}", moved.receiver);
    assert_eq!(pair.names(), [".gitignore", "a", "b.env"]);
}

/// A directory gives way to a file only when it is known that rules leave out nothing in it.
#[test]
fn a_directory_with_what_gitignore_leaves_out_gives_way_to_nothing() {
    let there = ["a/x.env", "b/y", "+c/x.env", "sub/e/x.tmp"];
    let pair = Pair::new(&["a", "b", "+c", "sub/d"], &there);
    for at in [pair.from(".gitignore"), pair.to(".gitignore")] {
        fs::write(at, "*.env\n").unwrap();
    }
    let stale = fs::File::options().write(true).open(pair.to(".gitignore"));
    stale.unwrap().set_modified(UNIX_EPOCH).unwrap();
    fs::write(pair.from("sub/.gitignore"), "*.tmp\n").unwrap();
    fs::hard_link(pair.from("sub/d"), pair.from("sub/e")).unwrap();
    let options = TreeOptions {
        archive: true,
        gitignore: true,
        mirror: true,
        ..deleting()
    };
    // Not before the rules are there, and then only the one without such a name. A further name comes at the end, and one that is
    // told before the source's rules are is held to those that are there.
    for failed in [4, 3] {
        let moved = pair.sync(&options).unwrap();
        assert_eq!(moved.receiver.failed, failed, "{:?}", moved.receiver);
    }
    let left = [
        "+c",
        "+c/x.env",
        ".gitignore",
        "a",
        "a/x.env",
        "b",
        "sub",
        "sub/.gitignore",
        "sub/d",
        "sub/e",
        "sub/e/x.tmp",
    ];
    assert_eq!(pair.names(), left);
}

/// All that movers had brought of a plan went with it.
#[test]
fn where_the_hosts_of_a_plan_meet_nothing_goes() {
    const ROOM: &str = ".big.0123456789abcdef.howdah-plan";
    let (part, below) = (format!("{ROOM}/part"), format!("gone/{ROOM}/plan"));
    let pair = Pair::new(&["a"], &["old", "gone/y", &part, &below]);
    let moved = pair.sync(&deleting()).unwrap();
    assert_eq!(moved.receiver.deleted, 2, "{:?}", moved.receiver);
    let left = [ROOM, &part, "a", "gone", &format!("gone/{ROOM}"), &below];
    assert_eq!(pair.names(), left);
    let told = moved.receiver.notices.join("; ");
    assert!(told.contains("hosts of a plan"), "{told}");
}
