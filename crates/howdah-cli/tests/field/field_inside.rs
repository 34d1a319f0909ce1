//! One side lies in the other: T30 of docs/faults.md.
#![cfg(target_os = "linux")]

use crate::support::process::{Done, Input};
use crate::support::sshd::Sshd;
use crate::support::{Host, Site};
use std::fs;
use std::path::Path;

const PARTIAL: i32 = 6;

/// A tree with directories before and behind `mirror`.
fn tree(dir: &str) {
    for below in ["a/deep", "mirror", "z"] {
        fs::create_dir_all(format!("{dir}/{below}")).unwrap();
    }
    for file in ["1", "a/deep/2", "z/3"] {
        fs::write(format!("{dir}/{file}"), file).unwrap();
    }
}

/// All files below, by their paths.
fn files(dir: impl AsRef<Path>) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(&dir).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if entry.file_type().unwrap().is_dir() {
            found.extend(files(entry.path()).iter().map(|f| format!("{name}/{f}")));
        } else {
            found.push(name);
        }
    }
    found.sort();
    found
}

#[track_caller]
fn said(done: &Done, what: &str) {
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert_eq!(done.err.matches(what).count(), 1, "{}", done.err);
}

const LEFT_OUT: &str = "was left out";
const ALL: [&str; 3] = ["1", "a/deep/2", "z/3"];

/// Where something of that name is.
type Place<'a> = &'a dyn Fn(&str) -> String;

/// Copies from and into the directory of that name on one side, which the other side has under `near`.
fn into_itself(
    run: &dyn Fn(&[&str]) -> Done,
    (here, there): (Place<'_>, Place<'_>),
    near: Place<'_>,
    case: &str,
) {
    let in_case = |path: &str| format!("{case}/{path}");
    let (here, there) = (
        |path: &str| here(&in_case(path)),
        |path: &str| there(&in_case(path)),
    );
    let near = |path: &str| near(&in_case(path));
    // A mirror in what it mirrors, that is there or not, at the top or deep down.
    for (place, name) in [
        ("mirror", "there"),
        ("new", "new"),
        ("a/deep/new", "deep"),
        ("z", "last"),
    ] {
        tree(&near(name));
        let (from, to) = (here(name), there(&format!("{name}/{place}")));
        let mirror = near(&format!("{name}/{place}"));
        fs::write(near(&format!("{name}/z/3")), "3").unwrap();
        let mut expected: Vec<_> = ALL
            .iter()
            .filter(|file| !file.starts_with(&format!("{place}/")))
            .map(ToString::to_string)
            .collect();
        // What is there and not excluded goes, but for the source.
        for delete in [false, true] {
            let args = [
                &["sync", &from, &to][..],
                if delete { &["--delete"] } else { &[] },
            ]
            .concat();
            said(&run(&args), LEFT_OUT);
            if !delete && place == "z" {
                expected.push("3".to_owned());
            }
            let mut all = expected.clone();
            if delete {
                all.retain(|file| file != "3");
            }
            all.sort();
            assert_eq!(files(&mirror), all, "{case} {place} {delete}");
        }
        let dry = run(&["sync", "--dry-run", "--delete", &from, &to]);
        said(&dry, LEFT_OUT);
        assert!(
            !String::from_utf8_lossy(&dry.out).contains("\"change\""),
            "{:?}",
            String::from_utf8_lossy(&dry.out)
        );
    }
    // As cp.
    tree(&near("cp"));
    said(
        &run(&["cp", "-r", &here("cp/."), &there("cp/backup")]),
        LEFT_OUT,
    );
    assert_eq!(files(near("cp/backup")), ALL);
    said(
        &run(&["cp", "-a", &here("cp"), &there("cp/mirror")]),
        LEFT_OUT,
    );
    let twice = |dir: &str| ALL.map(|file| format!("{dir}{file}"));
    let mut all = [twice(""), twice("backup/")].concat();
    all.sort();
    assert_eq!(files(near("cp/mirror/cp")), all);
    // Each of several, the destination among them.
    tree(&near("some"));
    let names = ["1", "a", "mirror", "z"].map(|name| here(&format!("some/{name}")));
    let mut args = vec!["cp", "-r"];
    args.extend(names.iter().map(String::as_str));
    let to = there("some/mirror");
    args.push(&to);
    said(&run(&args), LEFT_OUT);
    assert_eq!(files(near("some/mirror")), ALL);
    // Nothing is left then.
    let done = run(&["cp", "-r", &here("some/mirror"), &there("some/mirror")]);
    assert_eq!(done.code, Some(PARTIAL), "{}", done.err);
    assert!(done.err.contains("into itself"), "{}", done.err);
    assert_eq!(files(near("some/mirror")), ALL);

    // The other way round: what is copied lies in what is to be like it.
    tree(&near("up"));
    fs::write(near("up/mirror/kept"), "kept").unwrap();
    let sync = ["sync", "--delete", &here("up/mirror"), &there("up")];
    let dry = run(&[&sync[..], &["--dry-run"]].concat());
    said(&dry, "is what is copied, and stays");
    said(&run(&sync), "is what is copied, and stays");
    assert_eq!(files(near("up")), ["kept", "mirror/kept"]);
    // Nobody else's directories are taken for it.
    let done = run(&["sync", "--delete", &here("up"), &there("cp")]);
    assert_eq!(
        (done.code, done.err.contains(LEFT_OUT)),
        (Some(0), false),
        "{}",
        done.err
    );
}

#[test]
fn t30_a_destination_in_the_source_is_left_out_on_a_server() {
    let site = Site::new(300);
    let server = site.serve();
    let run = |args: &[&str]| {
        let (command, rest) = args.split_first().unwrap();
        let args = [&[*command, "--json", "--accept-new"], rest].concat();
        site.run(Host::Here, "client", &args, Input::None)
    };
    let (near, far) = (|path: &str| site.root(path), |path: &str| server.url(path));
    for case in ["put", "get"] {
        fs::create_dir(site.root(case)).unwrap();
    }
    into_itself(&run, (&near, &far), &near, "put");
    into_itself(&run, (&far, &near), &near, "get");
    server.stop();
    site.assert_nothing_half_done();
}

#[test]
fn t30_a_destination_in_the_source_is_left_out_through_ssh() {
    let site = Site::new(300);
    let Some(sshd) = Sshd::start(&site, Host::Here, "127.0.0.1") else {
        return;
    };
    let ssh = sshd.ssh();
    let run = |args: &[&str]| {
        let (command, rest) = args.split_first().unwrap();
        let args = [&[*command, "--json", "--ssh", &ssh], rest].concat();
        site.run(Host::Here, "nobody", &args, Input::None)
    };
    let near = |path: &str| site.root(path);
    let (far, far2) = (
        |path: &str| format!("far:{path}"),
        |path: &str| format!("far2:{path}"),
    );
    for case in ["put", "get", "both"] {
        fs::create_dir(site.root(case)).unwrap();
    }
    into_itself(&run, (&near, &far), &near, "put");
    into_itself(&run, (&far, &near), &near, "get");
    into_itself(&run, (&far, &far2), &near, "both");
    site.assert_nothing_half_done();
}
