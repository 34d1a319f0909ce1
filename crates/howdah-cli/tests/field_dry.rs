//! What would happen, and what is chosen: rows of docs/faults.md about dry runs.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test may panic, its helpers too")]

mod support;

use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};
use support::process::{Done, Input};
use support::schema::violations;
use support::sshd::Sshd;
use support::{Host, Site};

fn set(path: impl AsRef<Path>, mode: u32, seconds: u64) {
    let file = fs::File::open(&path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    file.set_modified(UNIX_EPOCH + Duration::from_secs(seconds))
        .unwrap();
}

/// Something of every kind that is not the same on both sides.
fn two_sides(from: &str, to: &str) {
    let (from, to) = (Path::new(from), Path::new(to));
    for dir in [from, to] {
        fs::create_dir_all(dir.join("same")).unwrap();
        for name in ["mode", "size", "time", "same/file"] {
            fs::write(dir.join(name), name).unwrap();
            set(dir.join(name), 0o644, 1_000_000);
        }
    }
    set(to.join("mode"), 0o600, 1_000_000);
    set(to.join("time"), 0o644, 2_000_000);
    fs::write(to.join("size"), "more than that").unwrap();
    set(to.join("size"), 0o644, 1_000_000);
    fs::write(from.join("new \u{1b}[2J"), "new").unwrap();
    fs::create_dir(from.join("dir")).unwrap();
    symlink("mode", from.join("link")).unwrap();
    fs::write(to.join("extra"), "extra").unwrap();
    for dir in [from, to] {
        set(dir.join("same"), 0o755, 1_000_000);
        set(dir, 0o755, 1_000_000);
    }
}

fn expected() -> Vec<(&'static str, &'static str, Vec<&'static str>)> {
    vec![
        ("change", "mode", vec!["mode"]),
        ("copy", "new \u{1b}[2J", vec!["new"]),
        ("copy", "size", vec!["size"]),
        ("copy", "time", vec!["time"]),
        ("delete", "extra", vec!["extra"]),
        ("mkdir", "dir", vec!["new"]),
        ("symlink", "link", vec!["new"]),
    ]
}

#[track_caller]
fn lines(done: &Done) -> Vec<String> {
    assert_eq!(done.code, Some(0), "{}", done.err);
    let out = String::from_utf8(done.out.clone()).unwrap();
    let mut lines: Vec<String> = out.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// The same of `--json`, whose objects must be what the schema says.
#[track_caller]
fn events(done: &Done) -> Vec<Value> {
    let schema = include_str!("../../../docs/howdah-events.schema.json");
    let schema: Value = serde_json::from_str(schema).unwrap();
    let events = lines(done).into_iter().map(|line| {
        let event: Value = serde_json::from_str(&line).unwrap();
        let wrong = violations(&schema, &event);
        assert!(wrong.is_empty(), "{event}: {wrong:?}");
        event
    });
    let mut changes: Vec<Value> = events
        .filter(|event| event["event"] == "change")
        .map(|event| json!([event["what"], event["path"], event["reasons"]]))
        .collect();
    changes.sort_by_key(Value::to_string);
    changes
}

/// Lines and events of a dry run, then the run, then nothing.
#[track_caller]
fn said_and_done(sync: impl Fn(&[&str]) -> Done, to: &str) {
    let flags = ["--delete"];
    let dry = |more: &[&str]| sync(&[&flags[..], &["--dry-run"], more].concat());
    let line = |(act, path, why): (&str, &str, Vec<&str>)| {
        let path = path.replace('\u{1b}', "\\u{1b}");
        format!("{act} {path} ({})", why.join(", "))
    };
    let said: Vec<_> = expected().into_iter().map(line).collect();
    assert_eq!(lines(&dry(&[])), said);
    assert!(fs::exists(Path::new(to).join("extra")).unwrap());
    let mut said: Vec<_> = expected()
        .into_iter()
        .map(|(act, path, why)| json!([act, path.replace('\u{1b}', "\\u{1b}"), why]))
        .collect();
    said.sort_by_key(Value::to_string);
    assert_eq!(events(&dry(&["--json"])), said);
    assert_eq!(lines(&dry(&["--quiet"])), Vec::<String>::new());

    assert_eq!(sync(&flags).code, Some(0));
    assert_eq!(lines(&dry(&[])), Vec::<String>::new());
    assert_eq!(events(&dry(&["--json"])), Vec::<Value>::new());
}

#[test]
fn t21_a_dry_run_tells_every_change_up_and_down() {
    let site = Site::new(120);
    let server = site.serve();
    for (place, far) in [("up", true), ("down", false)] {
        let (here, there) = (site.file(place), site.root(place));
        let (from, to) = if far {
            (&here, &there)
        } else {
            (&there, &here)
        };
        two_sides(from, to);
        let url = server.url(place);
        let (source, destination) = if far { (&here, &url) } else { (&url, &here) };
        let sync = |args: &[&str]| {
            let args = [&["sync", "--accept-new"], args, &[source, destination]].concat();
            site.run(Host::Here, "client", &args, Input::None)
        };
        said_and_done(sync, to);
    }
}

#[test]
fn t21_a_dry_run_tells_every_change_through_ssh() {
    let site = Site::new(120);
    let Some(sshd) = Sshd::start(&site, Host::Here, "127.0.0.1") else {
        return;
    };
    let ssh = sshd.ssh();
    for (place, hosts) in [
        ("up", ["", "far:"]),
        ("down", ["far:", ""]),
        ("between", ["far:", "far2:"]),
    ] {
        let (from, to) = (site.file(place), site.root(place));
        two_sides(&from, &to);
        let [source, destination] = [(hosts[0], &from), (hosts[1], &to)];
        let source = &format!("{}{}", source.0, source.1);
        let destination = &format!("{}{}", destination.0, destination.1);
        let sync = |args: &[&str]| {
            let args = [&["sync", "--ssh", &ssh], args, &[source, destination]].concat();
            site.run(Host::Here, "nobody", &args, Input::None)
        };
        said_and_done(sync, &to);
    }
}

/// Where a directory stays, no further name would be made: a dry run says so, and each says it once.
#[test]
fn t21_a_further_name_that_has_no_place_is_not_promised() {
    let site = Site::new(120);
    let server = site.serve();
    for (from, to, sides) in [
        (
            site.file("s"),
            server.url("d"),
            [site.file("s"), site.root("d")],
        ),
        (
            server.url("t"),
            site.file("e"),
            [site.root("t"), site.file("e")],
        ),
    ] {
        let [here, there] = sides;
        fs::create_dir(&here).unwrap();
        fs::write(format!("{here}/a"), "one file").unwrap();
        for name in ["b", "c"] {
            fs::hard_link(format!("{here}/a"), format!("{here}/{name}")).unwrap();
        }
        fs::create_dir_all(format!("{there}/b/full")).unwrap();
        for command in [&["sync", "-a"][..], &["cp", "-a"]] {
            let from = if command[0] == "cp" {
                format!("{from}/.")
            } else {
                from.clone()
            };
            let run = |more: &[&str]| {
                let args = [command, &["--accept-new"], more, &[&*from, &*to]].concat();
                site.run(Host::Here, "client", &args, Input::None)
            };
            let dry = run(&["--dry-run"]);
            dry.assert_failed(6, &["1 could not be copied"]);
            let said = String::from_utf8(dry.out).unwrap();
            assert!(!said.contains(" b "), "{said}");
            run(&[]).assert_failed(6, &["1 could not be copied"]);
            assert!(fs::exists(format!("{there}/b/full")).unwrap());
            for name in ["a", "c"] {
                fs::remove_file(format!("{there}/{name}")).unwrap();
            }
        }
    }
    server.stop();
}
