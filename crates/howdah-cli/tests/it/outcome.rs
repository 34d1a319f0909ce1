//! What becomes of the source: files that grow while they are read (T33), and moves.
#![cfg(target_os = "linux")]

use crate::support::place::content;
use crate::support::process::{Done, Input, Server};
use crate::support::relay::{Fate, Relay, Way};
use crate::support::sshd::Sshd;
use crate::support::{Host, Site};
use rustix::process::Signal;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

const USAGE: i32 = 2;
const REFUSED: i32 = 4;
const CHANGED: i32 = 13;

/// Somebody writes behind the end of a file.
fn append(path: &str) {
    let mut file = fs::OpenOptions::new().append(true).open(path).unwrap();
    file.write_all(b"a line of a log\n").unwrap();
}

/// A copy through a relay that takes its time; when some of it has come, `change` is done to the source.
fn changed_on_the_way(
    site: &Site,
    server: &Server,
    way: Way,
    args: impl FnOnce(&Relay) -> Vec<String>,
    change: impl FnOnce(),
) -> Done {
    let relay = Relay::start(server.address, |_, datagram| Fate::pass(datagram));
    let args = args(&relay);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let command = [
        &args[..1],
        &["--json", "--accept-new", "--limit", "400mbit"],
        &args[1..],
    ];
    let client = site.start(Host::Here, "client", &command.concat(), Input::None);
    relay.await_bytes(way, 4 << 20, site.limit());
    change();
    client.finish()
}

fn run(site: &Site, args: &[&str]) -> Done {
    let args = [&args[..1], &["--json", "--accept-new"], &args[1..]].concat();
    site.run(Host::Here, "client", &args, Input::None)
}

#[track_caller]
fn is_prefix(copy: &str, source: &str, at_least: usize) {
    let (copy, source) = (fs::read(copy).unwrap(), fs::read(source).unwrap());
    assert!(copy.len() >= at_least, "{} bytes", copy.len());
    assert!(source.starts_with(&copy), "{} bytes are others", copy.len());
}

/// More than is read ahead, so that there is a middle.
const LONG: usize = 160 << 20;

#[test]
fn t33_a_growing_file_is_not_copied_unless_that_is_asked_for() {
    let site = Site::new(300);
    let server = site.serve();
    for (put, way) in [(true, Way::ToServer), (false, Way::ToClient)] {
        for tree in [false, true] {
            let case = format!("put: {put}, tree: {tree}");
            let dir = format!("{put}{tree}");
            let (source, copy) = if put {
                (site.file(&dir), site.root(&format!("{dir}-copy")))
            } else {
                (site.root(&dir), site.file(&format!("{dir}-copy")))
            };
            fs::create_dir(&source).unwrap();
            let log = format!("{source}/log");
            fs::write(&log, content(&case, LONG)).unwrap();
            let args = |growing: bool| {
                let (source, copy, dir) = (source.clone(), copy.clone(), dir.clone());
                move |relay: &Relay| {
                    let name = if tree {
                        dir.clone()
                    } else {
                        format!("{dir}/log")
                    };
                    let (from, to) = match (put, tree) {
                        (true, true) => (source, relay.url(&format!("{dir}-copy"))),
                        (true, false) => {
                            (format!("{source}/log"), relay.url(&format!("{dir}-copy")))
                        }
                        (false, _) => (relay.url(&name), copy),
                    };
                    let mut args = vec![if tree { "sync" } else { "cp" }.to_owned()];
                    args.extend(growing.then(|| "--growing".to_owned()));
                    args.extend([from, to]);
                    args
                }
            };
            let come = if tree {
                format!("{copy}/log")
            } else {
                copy.clone()
            };
            let done = changed_on_the_way(&site, &server, way, args(false), || append(&log));
            assert_eq!(done.code, Some(CHANGED), "{case}: {}", done.err);
            assert!(!fs::exists(&come).unwrap(), "{case}");
            let stood = fs::metadata(&log).unwrap().len() as usize;
            let done = changed_on_the_way(&site, &server, way, args(true), || append(&log));
            assert_eq!(done.code, Some(0), "{case}: {}", done.err);
            let said = format!("{}{}", done.err, String::from_utf8_lossy(&done.out));
            assert!(said.contains("grew while it was read"), "{case}: {said}");
            is_prefix(&come, &log, stood);
            if tree {
                assert_eq!(done.json()["tree"]["grown"], 1, "{case}: {}", done.json());
            }
        }
    }
    site.assert_nothing_half_done();
}

#[test]
fn t33_to_standard_output_and_what_only_looks_like_growing() {
    let site = Site::new(200);
    let server = site.serve();
    let path = site.root("log");
    fs::write(&path, content("log", LONG)).unwrap();
    let to_stdout = |relay: &Relay| {
        vec![
            "cp".into(),
            "--growing".into(),
            relay.url("log"),
            "-".into(),
        ]
    };
    let change = || append(&path);
    let done = changed_on_the_way(&site, &server, Way::ToClient, to_stdout, change);
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert!(done.err.contains("grew while it was read"), "{}", done.err);
    assert!(done.out == content("log", LONG));

    // What is emptied on the way, also if it is filled again, is no log that grows.
    for again in [10, LONG + 10] {
        let path = site.file("emptied");
        fs::write(&path, content("emptied", LONG)).unwrap();
        let from = path.clone();
        let put = |relay: &Relay| vec!["cp".into(), "--growing".into(), from, relay.url("emptied")];
        let change = || fs::write(&path, content("other", again)).unwrap();
        let done = changed_on_the_way(&site, &server, Way::ToServer, put, change);
        assert!(
            matches!(done.code, Some(10 | CHANGED)),
            "{again}: {:?} {}",
            done.code,
            done.err
        );
        assert!(!fs::exists(site.root("emptied")).unwrap());
    }
}

/// Files, links and directories that may all be moved.
fn tree(at: &str) {
    let at = Path::new(at);
    fs::create_dir_all(at.join("dir/empty")).unwrap();
    fs::write(at.join("small"), "small").unwrap();
    fs::write(at.join("dir/large"), content("large", 6 << 20)).unwrap();
    fs::write(at.join("dir/small"), "another").unwrap();
    fs::hard_link(at.join("small"), at.join("twin")).unwrap();
    symlink("small", at.join("link")).unwrap();
}

const IN_TREE: [&str; 5] = ["dir/large", "dir/small", "link", "small", "twin"];

/// All that is no directory.
fn names(at: &str) -> Vec<String> {
    fn look(top: &Path, dir: PathBuf, found: &mut Vec<String>) {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.is_symlink() {
                look(top, path, found);
            } else {
                found.push(path.strip_prefix(top).unwrap().display().to_string());
            }
        }
    }
    let mut found = Vec::new();
    look(Path::new(at), at.into(), &mut found);
    found.sort();
    found
}

#[track_caller]
fn assert_moved(done: &Done, from: &str, to: &str) {
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert_eq!(done.json()["tree"]["removed"], 5, "{}", done.json());
    assert_eq!(names(from), Vec::<String>::new());
    assert!(Path::new(from).join("dir/empty").is_dir());
    assert_eq!(names(to), IN_TREE);
    assert_eq!(
        fs::read(format!("{to}/dir/large")).unwrap(),
        content("large", 6 << 20)
    );
}

#[test]
fn a_move_leaves_directories_only_in_either_direction() {
    let site = Site::new(200);
    let server = site.serve();
    for (number, flags) in [
        &["cp", "-r"][..],
        &["cp", "-a"],
        &["sync"],
        &["sync", "-a", "-c"],
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("t{number}");
        let flags = [flags, &["--remove-source-files"]].concat();
        tree(&site.file(&name));
        let (mine, there) = (site.file(&name), server.url(&name));
        let put = [&flags[..], &[&*mine, &*there]].concat();
        // A rehearsal removes nothing and says what would go.
        let done = run(&site, &[&put[..], &["--dry-run"]].concat());
        let out = String::from_utf8_lossy(&done.out);
        assert_eq!(out.matches(r#""remove""#).count(), 5, "{out}");
        assert_eq!(names(&site.file(&name)), IN_TREE);
        assert_moved(&run(&site, &put), &site.file(&name), &site.root(&name));
        let back = site.file(&format!("{name}-back"));
        let get = [&flags[..], &[&*there, &*back]].concat();
        assert_moved(&run(&site, &get), &site.root(&name), &back);
    }
    // Single files, small and large, there and back.
    for (name, size) in [("one", 10), ("big", 6 << 20)] {
        let (here, there) = (site.file(name), site.root(name));
        let bytes = content(name, size);
        fs::write(&here, &bytes).unwrap();
        for (from, to, gone, come) in [
            (here.clone(), server.url(name), &here, &there),
            (server.url(name), here.clone(), &there, &here),
        ] {
            let done = run(&site, &["cp", "--remove-source-files", &from, &to]);
            assert_eq!(done.code, Some(0), "{}", done.err);
            assert!(!fs::exists(gone).unwrap(), "{from}");
            assert_eq!(fs::read(come).unwrap(), bytes);
        }
        // Something of that size and time is there already: the source goes when its content is known to be there.
        for (flags, theirs, unchanged) in [
            (&["-c"][..], &bytes, 1),
            (&[], &bytes, 0),
            (&[], &content("another", size), 0),
            (&["--size-only"], &content("another", size), 0),
        ] {
            fs::write(&there, &bytes).unwrap();
            fs::write(&here, theirs).unwrap();
            let time = fs::metadata(&there).unwrap().modified().unwrap();
            let file = fs::File::options().write(true).open(&here).unwrap();
            file.set_modified(time).unwrap();
            let url = server.url(name);
            let args = [&["cp", "--remove-source-files"], flags, &[&url, &here]].concat();
            let done = run(&site, &args);
            assert_eq!(done.code, Some(0), "{}", done.err);
            let summary = done.json();
            assert_eq!(summary["tree"]["unchanged"], unchanged, "{summary}");
            assert!(!fs::exists(&there).unwrap());
            assert_eq!(fs::read(&here).unwrap(), bytes);
        }
        // What is left alone stays at both ends.
        for flag in ["--ignore-existing", "--update"] {
            fs::write(&there, content("another", size)).unwrap();
            let file = fs::File::options().write(true).open(&there).unwrap();
            file.set_modified(std::time::UNIX_EPOCH).unwrap();
            let url = server.url(name);
            let done = run(&site, &["cp", "--remove-source-files", flag, &url, &here]);
            assert_eq!(done.code, Some(0), "{}", done.err);
            assert!(done.err.contains("one file or link stays"), "{}", done.err);
            assert_eq!(fs::read(&there).unwrap(), content("another", size));
            assert_eq!(fs::read(&here).unwrap(), bytes);
        }
    }
    site.assert_nothing_half_done();
}

#[test]
fn a_move_over_ssh_and_between_two_others() {
    let site = Site::new(200);
    let Some(sshd) = Sshd::start(&site, Host::Here, "127.0.0.1") else {
        return;
    };
    tree(&site.file("t"));
    let flags = ["-a", "--remove-source-files"];
    let (here, there) = (site.file("t"), "far:there/".to_owned());
    fs::create_dir(site.root("there")).unwrap();
    let done = sshd.copy(&site, &[&flags[..], &[&here, &there]].concat());
    assert_moved(&done, &here, &site.root("there/t"));
    let done = sshd.copy(
        &site,
        &[&flags[..], &["far:there/t", "far2:other"]].concat(),
    );
    assert_moved(&done, &site.root("there/t"), &site.root("other"));
    let done = sshd.copy(
        &site,
        &[&flags[..], &["far:other", &site.file("back")]].concat(),
    );
    assert_moved(&done, &site.root("other"), &site.file("back"));
    // The flag is handed over.
    fs::write(site.root("log"), "log").unwrap();
    let done = sshd.copy(&site, &["--growing", "far:log", "far2:log2"]);
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert_eq!(fs::read(site.root("log2")).unwrap(), b"log");
}

#[test]
fn a_key_that_may_not_delete_moves_nothing_away() {
    let site = Site::new(100);
    let list = site.config("server").join("authorized_keys");
    let line = fs::read_to_string(&list).unwrap();
    let key = line[line.find("howdah-ed25519").unwrap()..].to_owned();
    tree(&site.root("t"));
    for options in ["read-only", "no-delete"] {
        fs::write(&list, format!("{options} {key}")).unwrap();
        let server = site.serve();
        for from in ["t", "t/small"] {
            let args = [
                "cp",
                "-r",
                "--remove-source-files",
                &*server.url(from),
                &*site.file("to"),
            ];
            run(&site, &args).assert_failed(REFUSED, &["may not remove", "--remove-source-files"]);
        }
        assert_eq!(names(&site.root("t")), IN_TREE);
        // Putting takes no such right.
        if options == "no-delete" {
            tree(&site.file("mine"));
            let args = [
                "cp",
                "-r",
                "--remove-source-files",
                &*site.file("mine"),
                &*server.url("new"),
            ];
            assert_moved(&run(&site, &args), &site.file("mine"), &site.root("new"));
        }
        server.stop();
    }
}

#[test]
fn an_interrupted_move_goes_on_and_loses_nothing() {
    let site = Site::new(200);
    let server = site.serve();
    for (way, kill) in [
        ("put", Signal::KILL),
        ("get", Signal::INT),
        ("get", Signal::KILL),
    ] {
        let dir = format!("{way}{kill:?}");
        let (here, there) = (site.file(&dir), site.root(&dir));
        let (from, to) = match way {
            "put" => (&here, &there),
            _ => (&there, &here),
        };
        let large = content("large", 9 << 20);
        fs::create_dir(from).unwrap();
        for n in 0..300 {
            fs::write(format!("{from}/f{n}"), content(&n.to_string(), 40_000)).unwrap();
        }
        fs::write(format!("{from}/large"), &large).unwrap();
        let relay = Relay::start(server.address, |_, datagram| Fate::pass(datagram));
        let (source, target) = match way {
            "put" => (here.clone(), relay.url(&dir)),
            _ => (relay.url(&dir), here.clone()),
        };
        let args = |more: &'static [&'static str]| {
            [
                &["sync", "--json", "--accept-new", "--remove-source-files"],
                more,
            ]
            .concat()
        };
        let first = [args(&["--limit", "100mbit"]), vec![&source, &target]].concat();
        let client = site.start(Host::Here, "client", &first, Input::None);
        let side = if way == "put" {
            Way::ToServer
        } else {
            Way::ToClient
        };
        relay.await_bytes(side, 8 << 20, site.limit());
        client.signal(kill);
        client.finish();
        // Each is on one side at least.
        for n in 0..300 {
            let is_at = |at: &str| fs::exists(format!("{at}/f{n}")).unwrap();
            assert!(is_at(from) || is_at(to), "{dir}: f{n} is lost");
        }
        let again = [args(&[]), vec![&source, &target]].concat();
        let done = site.run(Host::Here, "client", &again, Input::None);
        assert_eq!(done.code, Some(0), "{}", done.err);
        assert_eq!(names(from), Vec::<String>::new(), "{dir}");
        // A side that has not noticed yet still holds what it was writing.
        let come = names(to)
            .into_iter()
            .filter(|name| !name.ends_with(".howdah-part"));
        assert_eq!(come.count(), 301, "{dir}");
        for n in 0..300 {
            let bytes = fs::read(format!("{to}/f{n}")).unwrap();
            assert_eq!(bytes, content(&n.to_string(), 40_000), "{dir}: f{n}");
        }
        assert_eq!(fs::read(format!("{to}/large")).unwrap(), large);
    }
}

#[test]
fn flags_about_the_source_that_make_no_sense_are_errors_of_usage() {
    let site = Site::new(60);
    fs::write(site.file("f"), "x").unwrap();
    let (f, to) = (site.file("f"), "howdah://127.0.0.1:9/x");
    let null = "howdah://127.0.0.1:9/null:";
    for (args, parts) in [
        (&["cp", "--growing", "-", to][..], ["--growing", "-"]),
        (
            &["cp", "--growing", "zero:1MiB", to],
            ["--growing", "zero:"],
        ),
        (
            &["cp", "--remove-source-files", "-", to],
            ["--remove-source-files", "-"],
        ),
        (
            &["cp", "--remove-source-files", "zero:5", to],
            ["--remove-source-files", "zero:"],
        ),
        (
            &["cp", "--remove-source-files", to, "-"],
            ["--remove-source-files", "-"],
        ),
        (
            &["cp", "--remove-source-files", to, "null:"],
            ["--remove-source-files", "null:"],
        ),
        (
            &["cp", "--remove-source-files", &f, null],
            ["--remove-source-files", "null:"],
        ),
        (
            &["cp", "--remove-source-files", "--time", "1s", &f, to],
            ["--remove-source-files", "--time"],
        ),
        (
            &["cp", "-L", "--remove-source-files", &f, to],
            ["--remove-source-files", "--copy-links"],
        ),
        (
            &["sync", "--remove-source-files", "--delete", &f, to],
            ["--remove-source-files", "--delete"],
        ),
    ] {
        run(&site, args).assert_failed(USAGE, &parts);
        assert!(fs::exists(&f).unwrap());
    }
}
