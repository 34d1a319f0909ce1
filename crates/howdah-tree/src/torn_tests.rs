//! F08 for trees: what has a name was durable before it got it, so no cut of the power can tear it.
#![cfg(target_os = "linux")]

#[path = "../../howdah-store/tests/it/common/trace.rs"]
mod trace;

use super::tests::{contents, look, recursive};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use trace::Call;

const CHILD_DIR: &str = "HOWDAH_STORE_TORN_TREE_DIR";
const FILES: usize = 300;

/// Run by [`f08_files_are_durable_before_they_have_names`] under strace; alone it does nothing.
#[test]
fn child_copies_a_tree() {
    let Ok(dir) = std::env::var(CHILD_DIR) else {
        return;
    };
    let dir = Path::new(&dir);
    contents(&dir.join("from"), &dir.join("to"), &recursive()).unwrap();
    println!("COPIED");
}

#[test]
fn f08_files_are_durable_before_they_have_names() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    for i in 0..FILES {
        let below = from.join(format!("d{}", i / 50));
        fs::create_dir_all(&below).unwrap();
        // A few are large enough to come in streams of their own.
        let len = if i % 100 == 7 { 3 << 20 } else { 37 * i };
        fs::write(below.join(format!("f{i}")), vec![i as u8 | 1; len]).unwrap();
    }
    let log = dir.path().join("trace");
    let this = concat!(module_path!(), "::child_copies_a_tree");
    let this = this.split_once("::").unwrap().1;
    let Some(output) = trace::run_test(this, (CHILD_DIR, dir.path()), &log) else {
        return;
    };
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("COPIED"), "{output:?}");
    assert_eq!(look(&from), look(&to));

    let calls = trace::parse(&fs::read_to_string(&log).unwrap());
    let said_so = calls.iter().find(|call| {
        let texts = call.texts();
        call.name == "write" && texts.iter().any(|text| text.starts_with(b"COPIED"))
    });
    let end = said_so.unwrap().began;
    let before = |call: &Call, sync: &Call| call.ended < sync.began;
    let mut named = 0;
    for rename in calls
        .iter()
        .filter(|call| call.name.starts_with("renameat"))
    {
        let texts = rename.texts();
        assert!(trace::ends_with(&texts[0], ".howdah-part"), "{rename:?}");
        let part = Path::new(std::ffi::OsStr::from_bytes(&rename.path()))
            .join(std::ffi::OsStr::from_bytes(&texts[0]));
        let part = part.as_os_str().as_bytes();
        let is_synced_between = |call: &Call, end: usize, path: &[u8]| {
            let mut syncs = calls.iter().filter(|sync| sync.syncs(path));
            syncs.any(|sync| before(call, sync) && sync.ended < end)
        };
        let changes = [
            "write",
            "pwrite64",
            "pwritev",
            "pwritev2",
            "ftruncate",
            "fallocate",
        ];
        for change in calls
            .iter()
            .filter(|call| changes.contains(&&*call.name) && call.path() == part)
        {
            let durable = is_synced_between(change, rename.began, part);
            assert!(
                durable,
                "{rename:?} came before what {change:?} wrote was durable"
            );
        }
        // And the name itself before anybody is told.
        assert!(is_synced_between(rename, end, &rename.path()), "{rename:?}");
        named += 1;
    }
    println!("{named} files were durable before they had names");
    assert_eq!(named, FILES);
}
