//! How plans end when something is in the way: between two directories of one machine, as nothing of it is about the network.
#![cfg(target_os = "linux")]

use crate::support::place::{content, hash_of};
use crate::support::plans::{Planned, rooms_in};
use crate::support::process::Input;
use crate::support::{HOWDAH, Host, Site};
use std::fs;
use std::path::{Path, PathBuf};

const MIB: usize = 1 << 20;
// As `howdah --help` lists them.
const FAILED: i32 = 1;
const USAGE: i32 = 2;
const NOT_FOUND: i32 = 3;
const CHANGED: i32 = 13;

/// Of a file of two leases.
fn planned<'a>(site: &'a Site, seed: &str) -> (Planned<'a>, String, String) {
    let (source, target) = (site.file("source"), site.file("target"));
    fs::write(&source, content(seed, 2 * MIB)).unwrap();
    let places = (&*source, &*target);
    let (plan, done) = Planned::with(site, &["--lease", "1MiB"], places, &target);
    assert_eq!(done.code, Some(0), "{}", done.err);
    (plan, source, target)
}

/// The hash is what the file is known by: whoever could not be told it asks again.
#[test]
fn a_hash_that_nobody_could_be_told_is_told_by_the_next_run() {
    let site = Site::new(60);
    let (plan, source, target) = planned(&site, "untold");
    (0..2).for_each(|lease| plan.moves(lease));
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "exec \"$0\" \"$@\" >/dev/full", HOWDAH]);
    let args = ["finish", &plan.file];
    let done = site.start_by(command, "client", &args, Input::None);
    done.finish().assert_failed(FAILED, &["standard output"]);
    assert_eq!(hash_of(&target), hash_of(&source));
    let done = plan.finish(&[]);
    assert_eq!(done.code, Some(0), "{}", done.err);
    let text = format!("{}  {target}\n", hash_of(&source));
    assert_eq!(String::from_utf8_lossy(&done.out), text);
    assert_eq!(rooms_in(&site.file("")), Vec::<PathBuf>::new());
}

#[test]
fn a_room_that_was_left_empty_goes() {
    let site = Site::new(60);
    let (plan, ..) = planned(&site, "empty");
    (0..2).for_each(|lease| plan.moves(lease));
    assert_eq!(plan.finish(&["--keep"]).code, Some(0));
    let room = rooms_in(&site.file("")).pop().unwrap();
    fs::remove_dir_all(&room).unwrap();
    fs::create_dir(&room).unwrap();
    plan.finish(&[])
        .assert_failed(NOT_FOUND, &["the plan is finished"]);
    assert_eq!(rooms_in(&site.file("")), Vec::<PathBuf>::new());
}

#[test]
fn a_source_that_is_a_directory_by_now_has_changed() {
    let site = Site::new(60);
    let (plan, source, target) = planned(&site, "directory");
    fs::remove_file(&source).unwrap();
    fs::create_dir(&source).unwrap();
    plan.run(1, &[])
        .assert_failed(CHANGED, &["no regular file any more", "plan anew"]);
    fs::remove_dir(&source).unwrap();
    plan.run(1, &[]).assert_failed(NOT_FOUND, &[&source]);
    assert!(!Path::new(&target).exists());
}

/// As an editor or a transfer may leave it.
#[test]
fn a_plan_may_begin_with_a_mark_and_have_other_ends_of_lines_but_not_be_torn() {
    let site = Site::new(60);
    let (plan, source, target) = planned(&site, "marked");
    let text = fs::read_to_string(&plan.file).unwrap();
    fs::write(&plan.file, &text[..text.len() / 2]).unwrap();
    plan.run(0, &[])
        .assert_failed(USAGE, &["its end is missing"]);
    let marked = format!("\u{feff}{}", text.replace('\n', "\r\n"));
    fs::write(&plan.file, marked).unwrap();
    (0..2).for_each(|lease| plan.moves(lease));
    assert_eq!(plan.finish(&[]).code, Some(0));
    assert_eq!(hash_of(&target), hash_of(&source));
}

/// It would be left out of copies of trees.
#[test]
fn nothing_gets_the_name_of_a_plans_room() {
    let site = Site::new(60);
    let source = site.file("source");
    fs::write(&source, "x").unwrap();
    let target = site.file(".x.0123456789abcdef.howdah-plan");
    let file = site.file("no.plan");
    let args = ["plan", "-o", &file, &source, &target];
    site.run(Host::Here, "client", &args, Input::None)
        .assert_failed(USAGE, &["directory of a plan", "another name"]);
    assert!(!Path::new(&file).exists());
}
