//! What would happen, and what is chosen: rows of docs/faults.md about dry runs.
#![cfg(target_os = "linux")]

use crate::support::process::{Done, Input, Server};
use crate::support::schema::violations;
use crate::support::sshd::Sshd;
use crate::support::{HOWDAH, Host, Site};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, lchown, symlink};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

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
    let schema = include_str!("../../../../docs/howdah-events.schema.json");
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

/// Who may not read everything: root becomes nobody.
fn nobody() -> Option<Command> {
    if !rustix::process::geteuid().is_root() {
        return Some(Command::new(HOWDAH));
    }
    if !Path::new("/usr/bin/setpriv").exists() {
        println!("skipped: no /usr/bin/setpriv");
        return None;
    }
    let mut command = Command::new("/usr/bin/setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    // Which root's own servers are told.
    command.args(["env", "-u", "HOWDAH_SERVE_USER", HOWDAH]);
    Some(command)
}

/// Gives all that to nobody, where that is somebody else.
fn give(path: &Path) {
    give_to(65_534, path);
}

fn give_to(user: u32, path: &Path) {
    if rustix::process::geteuid().is_root() {
        lchown(path, Some(user), Some(user)).unwrap();
        if path.is_dir() && !path.is_symlink() {
            for entry in fs::read_dir(path).unwrap() {
                give_to(user, &entry.unwrap().path());
            }
        }
    }
}

/// A server that nobody runs, for a client that we run.
fn serve_by_nobody(site: &Site) -> Server {
    for path in [site.config("server"), site.root("").into()] {
        give(&path);
    }
    give_to(0, &site.config("client"));
    let args = ["serve", "--listen", "127.0.0.1:0", "--root", &site.root("")];
    Server::new(site.start_by(nobody().unwrap(), "server", &args, Input::None))
}

fn close(path: impl AsRef<Path>) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o000)).unwrap();
}

/// So that the site can be removed.
fn open(path: impl AsRef<Path>) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o700)).unwrap();
}

/// A source of which its owner may not read everything, and what is at the destination of it.
fn partly_closed(from: &str, to: &str) {
    let (from, to) = (Path::new(from), Path::new(to));
    fs::create_dir_all(from.join("closed")).unwrap();
    fs::create_dir(to).unwrap();
    fs::write(from.join("closed/file"), "no").unwrap();
    for (name, there) in [
        ("fine", None),
        ("secret", None),
        ("same", Some("same")),
        ("older", Some("old")),
    ] {
        fs::write(from.join(name), name).unwrap();
        set(from.join(name), 0o644, 1_000_000);
        if let Some(there) = there {
            fs::write(to.join(name), there).unwrap();
            set(to.join(name), 0o644, 1_000_000);
        }
    }
    fs::write(from.join("twin"), "one of two").unwrap();
    fs::hard_link(from.join("twin"), from.join("twin2")).unwrap();
    fs::write(from.join("big"), vec![7; 5 << 20]).unwrap();
    give(from);
    for name in ["secret", "same", "older", "twin", "big", "closed"] {
        close(from.join(name));
    }
    close(to.join("same"));
}

#[track_caller]
fn tells_what_cannot_be_read(run: impl Fn(&[&str]) -> Done, to: &str) {
    for flags in [
        &["sync"][..],
        &["cp", "-r"],
        &["cp", "-a"],
        &["sync", "--checksum"],
    ] {
        let dry = run(&[flags, &["--dry-run"]].concat());
        let out = String::from_utf8(dry.out.clone()).unwrap();
        assert!(out.contains("copy fine (new)"), "{flags:?}: {out}");
        for name in ["secret", "older", "big", "twin", "twin2", "same"] {
            assert!(
                !out.contains(&format!("copy {name} ")),
                "{flags:?} {name}: {out}"
            );
        }
        // Further names of what does not come neither do.
        assert!(!out.contains("link twin"), "{flags:?}: {out}");
        assert!(
            dry.err.contains("permission denied"),
            "{flags:?}: {}",
            dry.err
        );
        assert!(
            dry.err.contains("dry run: 1 file"),
            "{flags:?}: {}",
            dry.err
        );
        assert!(!fs::exists(Path::new(to).join("fine")).unwrap());

        let done = run(flags);
        let failed = |done: &Done| {
            let at = done.err.find(" could not be copied").unwrap();
            let number = done.err[..at].rsplit(' ').next().unwrap().to_owned();
            (done.code, number)
        };
        assert_eq!(done.code, Some(6), "{flags:?}: {}", done.err);
        assert_eq!(
            failed(&dry),
            failed(&done),
            "{flags:?}: {}{}",
            dry.err,
            done.err
        );
        for done in [&dry, &done] {
            let told = done
                .err
                .contains("a further name of a file that does not come");
            assert_eq!(told, flags == ["cp", "-a"], "{flags:?}: {}", done.err);
        }
        assert!(!fs::exists(Path::new(to).join("secret")).unwrap());
        fs::remove_file(Path::new(to).join("fine")).unwrap();
        let _ = fs::remove_dir(Path::new(to).join("closed"));
    }
}

#[test]
fn t21_a_dry_run_tells_what_cannot_be_read_up_and_down() {
    let site = Site::new(200);
    if nobody().is_none() {
        return;
    }
    fs::set_permissions(site.path(), fs::Permissions::from_mode(0o755)).unwrap();

    let (from, to) = (site.file("s"), site.root("d"));
    partly_closed(&from, &to);
    give(&site.config("client"));
    give(Path::new(&site.file("")));
    let server = site.serve();
    let url = server.url("d");
    let run = |args: &[&str]| {
        let (command, flags) = args.split_first().unwrap();
        let from = if *command == "cp" {
            format!("{from}/.")
        } else {
            from.clone()
        };
        let args = [&[*command, "--accept-new"], flags, &[&from, &url]].concat();
        site.start_by(nobody().unwrap(), "client", &args, Input::None)
            .finish()
    };
    tells_what_cannot_be_read(run, &to);
    server.stop();
    open(format!("{from}/closed"));

    let (from, to) = (site.root("s"), site.file("t"));
    partly_closed(&from, &to);
    let server = serve_by_nobody(&site);
    let run = |args: &[&str]| {
        let (command, flags) = args.split_first().unwrap();
        let from = server.url(if *command == "cp" { "s/." } else { "s" });
        let args = [&[*command, "--accept-new"], flags, &[&from, &to]].concat();
        site.run(Host::Here, "client", &args, Input::None)
    };
    tells_what_cannot_be_read(run, &to);
    server.stop();
    open(format!("{from}/closed"));
}

/// A source with something new for a directory that somebody else has closed at the destination, and for an open one.
fn partly_shut(from: &str, to: &str) {
    for dir in ["shut", "open"] {
        fs::create_dir_all(format!("{from}/{dir}/below")).unwrap();
        fs::write(format!("{from}/{dir}/new"), "new").unwrap();
        fs::write(format!("{from}/{dir}/older"), "of the source").unwrap();
        fs::write(format!("{from}/{dir}/below/new"), "new").unwrap();
        symlink("new", format!("{from}/{dir}/link")).unwrap();
        fs::create_dir_all(format!("{to}/{dir}")).unwrap();
        fs::write(format!("{to}/{dir}/older"), "old").unwrap();
    }
}

/// In `to`, "shut" takes nothing from whoever runs it.
#[track_caller]
fn tells_what_would_not_be_written(run: impl Fn(&[&str], &str) -> Done, to: &str) {
    for flags in [&["sync"][..], &["cp", "-r"], &["cp", "-a"]] {
        let dry = run(&[flags, &["--dry-run"]].concat(), "");
        let out = String::from_utf8(dry.out.clone()).unwrap();
        for line in ["copy open/new (new)", "symlink open/link (new)"] {
            assert!(out.contains(line), "{flags:?}: {out}");
        }
        // What it is owned by is not his to change either, but that is no name.
        assert!(!out.contains(" shut/"), "{flags:?}: {out}");
        let done = run(flags, "");
        let failed = |done: &Done| {
            let at = done.err.find(" could not be copied");
            let at = at.unwrap_or_else(|| panic!("{flags:?}: {}", done.err));
            done.err[..at].rsplit(' ').next().unwrap().to_owned()
        };
        assert_eq!((dry.code, done.code), (Some(6), Some(6)), "{flags:?}");
        assert_eq!(
            failed(&dry),
            failed(&done),
            "{flags:?}: {}{}",
            dry.err,
            done.err
        );
        for name in ["new", "link"] {
            fs::remove_file(format!("{to}/open/{name}")).unwrap();
        }
        fs::remove_dir_all(format!("{to}/open/below")).unwrap();
        fs::write(format!("{to}/open/older"), "old").unwrap();
        // And where the way there is to be made.
        for more in [&["--dry-run"][..], &[]] {
            let made = run(&[flags, &["--mkpath"], more].concat(), "/shut/a/b");
            assert_eq!(made.code, Some(4), "{flags:?} {more:?}: {}", made.err);
        }
    }
}

#[test]
fn t21_a_dry_run_tells_what_would_not_be_written_up_and_down() {
    let site = Site::new(200);
    if !rustix::process::geteuid().is_root() {
        println!("skipped: to close a directory to its owner takes root");
        return;
    }
    let Some(_) = nobody() else {
        return;
    };
    fs::set_permissions(site.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let (from, to) = (site.root("s"), site.file("t"));
    partly_shut(&from, &to);
    give(&site.config("client"));
    give(Path::new(&site.file("")));
    let shut = |to: &str| {
        for path in [format!("{to}/shut"), format!("{to}/shut/older")] {
            lchown(&path, Some(0), Some(0)).unwrap();
        }
        for (name, mode) in [("shut", 0o755), ("shut/older", 0o644)] {
            let all = fs::Permissions::from_mode(mode);
            fs::set_permissions(format!("{to}/{name}"), all).unwrap();
        }
    };
    shut(&to);
    let server = site.serve();
    let run = |args: &[&str], below: &str| {
        let (command, flags) = args.split_first().unwrap();
        let from = server.url(if *command == "cp" { "s/." } else { "s" });
        let to = format!("{to}{below}");
        let args = [&[*command, "--accept-new"], flags, &[&from, &to]].concat();
        site.start_by(nobody().unwrap(), "client", &args, Input::None)
            .finish()
    };
    tells_what_would_not_be_written(run, &to);
    server.stop();

    let (from, to) = (site.file("u"), site.root("d"));
    partly_shut(&from, &to);
    let server = serve_by_nobody(&site);
    shut(&to);
    let url = server.url("d");
    let run = |args: &[&str], below: &str| {
        let (command, flags) = args.split_first().unwrap();
        let from = match *command {
            "cp" => format!("{from}/."),
            _ => from.clone(),
        };
        let to = format!("{url}{below}");
        let args = [&[*command, "--accept-new"], flags, &[&from, &to]].concat();
        site.run(Host::Here, "client", &args, Input::None)
    };
    tells_what_would_not_be_written(run, &to);
    server.stop();
}
