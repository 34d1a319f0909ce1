//! What came out of a trial with fresh eyes: everyday situations in which a copy did not do, or did not say, what its user meant.
#![cfg(target_os = "linux")]

use crate::support::place::{SmallDisk, content};
use crate::support::process::{Done, Input, Process};
use crate::support::relay::{Fate, Relay, Way};
use crate::support::sshd::Sshd;
use crate::support::{HOWDAH, Host, Site};
use rustix::process::Signal;
use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

const USAGE: i32 = 2;
const NOT_FOUND: i32 = 3;
const REFUSED: i32 = 4;
const PARTIAL: i32 = 6;
const NO_SPACE: i32 = 11;
const CANCELLED: i32 = 12;

/// Says what a place is called there.
type Name<'a> = &'a dyn Fn(&str) -> String;

fn run(site: &Site, args: &[&str]) -> Done {
    site.run(Host::Here, "client", args, Input::None)
}

/// With `--delete`, what is mounted in the destination is not of the copy: not its content, where the source has such a
/// directory and `-x` keeps to one file system, and never where the source has none.
#[test]
fn x_and_delete_leave_alone_what_is_mounted_at_the_destination() {
    let site = Site::new(60);
    let server = site.serve();
    let (from, mine) = (site.file("from"), site.file("to"));
    for top in [&mine, &site.root("to")] {
        fs::create_dir_all(format!("{top}/disk/d")).unwrap();
        let Some(_disk) = SmallDisk::mount(&format!("{top}/disk"), 1) else {
            return;
        };
        let keep = format!("{top}/disk/keep");
        fs::write(&keep, "keep").unwrap();
        fs::write(format!("{top}/old"), "goes").unwrap();
        let (from, to) = if top == &mine {
            (server.url("from"), mine.clone())
        } else {
            (from.clone(), server.url("to"))
        };
        for place in [site.file("from"), site.root("from")] {
            let _ = fs::remove_dir_all(&place);
            fs::create_dir_all(format!("{place}/disk")).unwrap();
            fs::write(format!("{place}/new"), "new").unwrap();
        }
        let sync = |more: &[&str]| {
            let args = [&["sync", "--accept-new", "--delete"], more, &[&*from, &*to]].concat();
            run(&site, &args)
        };
        let done = sync(&["-x"]);
        assert_eq!(done.code, Some(0), "{}", done.err);
        assert!(fs::exists(&keep).unwrap(), "{to}");
        assert!(!fs::exists(format!("{top}/old")).unwrap());
        for place in [site.file("from"), site.root("from")] {
            fs::remove_dir(format!("{place}/disk")).unwrap();
        }
        let done = sync(&["-x"]);
        assert_eq!(done.code, Some(0), "{}", done.err);
        assert!(
            done.err.contains("something is mounted there"),
            "{}",
            done.err
        );
        sync(&[]).assert_failed(PARTIAL, &["\"disk\"", "something is mounted there"]);
        assert!(fs::exists(&keep).unwrap(), "{to}");
    }
    server.stop();
}

#[test]
fn a_backup_dir_elsewhere_is_refused_before_anything_is_sent() {
    let site = Site::new(60);
    let (here, nobody) = (site.file("s"), "howdah://127.0.0.1:9/x");
    fs::create_dir(&here).unwrap();
    for dir in ["", "/", "/old", "..", "../old", "a/../../b", "."] {
        for (from, to) in [(&*here, nobody), (nobody, &here), ("a:x", "b:y")] {
            let args = ["sync", "--ssh", "false", "--backup-dir", dir, from, to];
            run(&site, &args).assert_failed(USAGE, &["--backup-dir", "below the destination"]);
        }
    }
}

/// Half of it has come. `shell`: what begins it.
fn half(site: &Site, relay: &Relay, shell: Option<&str>, is_put: bool) -> Process {
    let (there, here) = (relay.url("f"), site.file("f"));
    let (from, to) = if is_put { (here, there) } else { (there, here) };
    let args = ["cp", "--accept-new", "--limit", "100mbit", &from, &to];
    let client = match shell {
        None => site.start(Host::Here, "client", &args, Input::None),
        Some(script) => {
            let mut command = Command::new("sh");
            command.args(["-c", script, HOWDAH]);
            site.start_by(command, "client", &args, Input::None)
        }
    };
    let way = if is_put { Way::ToServer } else { Way::ToClient };
    relay.await_bytes(way, 4 << 20, site.limit());
    client
}

/// Who closes the terminal, or loses the line to it, ends the copy as with Ctrl-C; what was ignored when it began (nohup, a
/// script's background) stays ignored.
#[test]
fn f05_a_terminal_that_goes_ends_a_copy_in_good_order_unless_it_was_told_not_to_care() {
    const SIZE: usize = 20 << 20;
    for is_put in [true, false] {
        let site = Site::new(120);
        let server = site.serve();
        let (source, target) = if is_put {
            (site.file("f"), site.root("f"))
        } else {
            (site.root("f"), site.file("f"))
        };
        fs::write(&source, content("hup", SIZE)).unwrap();
        let relay = Relay::start(server.address, |_, datagram| Fate::pass(datagram));
        let client = half(&site, &relay, None, is_put);
        // A shell sends its own beside the terminal's.
        client.signal(Signal::HUP);
        client.signal(Signal::HUP);
        client.finish().assert_failed(CANCELLED, &["interrupted"]);
        assert!(!fs::exists(&target).unwrap());
        for (script, signal) in [
            ("trap '' HUP; exec \"$0\" \"$@\"", Signal::HUP),
            ("trap '' INT; exec \"$0\" \"$@\"", Signal::INT),
        ] {
            let relay = Relay::start(server.address, |_, datagram| Fate::pass(datagram));
            let client = half(&site, &relay, Some(script), is_put);
            client.signal(signal);
            client.signal(signal);
            let done = client.finish();
            assert_eq!(done.code, Some(0), "{script}: {}", done.err);
            assert!(fs::read(&target).unwrap() == content("hup", SIZE));
            fs::remove_file(&target).unwrap();
        }
        server.stop();
    }
}

#[test]
fn o8_what_a_file_cannot_replace_or_come_from_is_named_with_the_way_round() {
    let site = Site::new(60);
    let server = site.serve();
    fs::write(site.file("f"), "f").unwrap();
    fs::write(site.root("f"), "f").unwrap();
    for fifo in [site.file("fifo"), site.root("fifo")] {
        assert!(
            Command::new("mkfifo")
                .arg(&fifo)
                .status()
                .unwrap()
                .success()
        );
    }
    for dir in [site.file("d/f"), site.root("d/f")] {
        fs::create_dir_all(dir).unwrap();
    }
    for (from, to, words) in [
        (
            site.file("f"),
            server.url("d"),
            ["\"d/f\" is a directory", "remove it"],
        ),
        (
            server.url("f"),
            site.file("d"),
            ["d/f\" is a directory", "remove it"],
        ),
        (
            site.file("f"),
            server.url("fifo"),
            ["\"fifo\" is a fifo", "let '-' be the destination"],
        ),
        (
            server.url("f"),
            site.file("fifo"),
            ["is a fifo", "let '-' be the destination"],
        ),
        (
            site.file("fifo"),
            server.url("n"),
            ["is a fifo", "let '-' be the source"],
        ),
        (
            server.url("fifo"),
            site.file("n"),
            ["is a fifo", "let '-' be the source"],
        ),
    ] {
        run(&site, &["cp", "--accept-new", &from, &to]).assert_failed(REFUSED, &words);
    }
    server.stop();
}

#[test]
fn o7_the_last_line_says_what_could_not_be_looked_at() {
    let site = Site::new(60);
    let server = site.serve();
    let nowhere = server.url("nowhere");
    for command in ["ls", "du"] {
        let done = run(&site, &[command, "--accept-new", "--json", &nowhere]);
        assert_eq!(done.code, Some(NOT_FOUND), "{}", done.err);
        let line = done.json();
        let message = line["error"]["message"].as_str().unwrap();
        assert!(message.contains("\"nowhere\" does not exist"), "{message}");
    }
    server.stop();
}

#[test]
fn n4_a_list_from_windows_names_the_same_files() {
    let site = Site::new(60);
    let server = site.serve();
    fs::create_dir_all(site.file("s/d")).unwrap();
    for name in ["s/a", "s/b", "s/d/c", "s/left out"] {
        fs::write(site.file(name), name).unwrap();
    }
    for (end, to) in [("\r\n", "crlf"), ("\r", "cr"), ("\n", "lf")] {
        fs::write(site.file("list"), format!("a{end}d/c{end}{end}b")).unwrap();
        let to_there = server.url(to);
        let args = [
            "sync",
            "--accept-new",
            "--files-from",
            &site.file("list"),
            &site.file("s"),
            &to_there,
        ];
        let done = run(&site, &args);
        assert_eq!(done.code, Some(0), "{to}: {}", done.err);
        let there = site.root(to);
        assert!(fs::exists(format!("{there}/d/c")).unwrap());
        assert_eq!(fs::read_dir(there).unwrap().count(), 3);
    }
    // With -0 it is a byte of the name.
    fs::write(site.file("s/cr\r"), "x").unwrap();
    fs::write(site.file("list"), "cr\r\0").unwrap();
    let args = [
        "sync",
        "-0",
        "--files-from",
        &site.file("list"),
        &site.file("s"),
        &server.url("nul"),
    ];
    assert_eq!(run(&site, &args).code, Some(0));
    assert!(fs::exists(site.root("nul/cr\r")).unwrap());
    server.stop();
}

#[test]
fn bounds_that_leave_nothing_between_them_clash_before_anything_is_sent() {
    let site = Site::new(60);
    let (here, nobody) = (site.file("s"), "howdah://127.0.0.1:9/x");
    fs::create_dir(&here).unwrap();
    for (flags, words) in [
        (
            ["--min-size", "10M", "--max-size", "1M"],
            ["--min-size", "--max-size"],
        ),
        (
            ["--min-age", "10d", "--max-age", "1d"],
            ["--min-age", "--max-age"],
        ),
    ] {
        for (from, to) in [(&*here, nobody), (nobody, &here), ("a:x", "b:y")] {
            for command in [&["sync"][..], &["cp", "-r"], &["verify"]] {
                let places = ["--ssh", "false", from, to];
                run(&site, &[command, &flags, &places].concat()).assert_failed(USAGE, &words);
            }
        }
    }
}

#[test]
fn o8_a_file_where_a_directory_is_wanted_is_said_to_be_one() {
    let site = Site::new(60);
    let server = site.serve();
    for file in ["f", "g"] {
        fs::write(site.file(file), "f").unwrap();
        fs::write(site.root(file), "f").unwrap();
    }
    fs::create_dir(site.file("d")).unwrap();
    fs::create_dir(site.root("d")).unwrap();
    let (here, there) = (|name: &str| site.file(name), |name: &str| server.url(name));
    for (command, places, words) in [
        (
            "sync",
            vec![here("f"), there("x")],
            "is not a directory; a single file",
        ),
        (
            "sync",
            vec![there("f"), here("x")],
            "is not a directory; a single file",
        ),
        ("sync", vec![here("d"), there("f")], "it is a file"),
        ("sync", vec![there("d"), here("f")], "it is a file"),
        ("cp", vec![here("f"), here("g"), there("f")], "it is a file"),
        (
            "cp",
            vec![there("f"), there("g"), here("f")],
            "it is a file",
        ),
    ] {
        let places: Vec<_> = places.iter().map(|place| &**place).collect();
        let args = [&[command, "--accept-new"], &*places].concat();
        run(&site, &args).assert_failed(REFUSED, &[words]);
        assert_eq!(fs::read(site.root("f")).unwrap(), b"f");
    }
    server.stop();
}

/// The figures of a copy that is only rehearsed are the same each time, in either direction.
#[test]
fn t21_a_dry_run_says_how_much_would_come() {
    let site = Site::new(120);
    let server = site.serve();
    for top in [site.file("s"), site.root("s")] {
        fs::create_dir_all(format!("{top}/d")).unwrap();
        fs::write(format!("{top}/d/f"), "1234").unwrap();
    }
    for (from, to) in [
        (site.file("s"), server.url("n")),
        (server.url("s"), site.file("n")),
    ] {
        for _ in 0..20 {
            let done = run(&site, &["sync", "-n", "--json", "--accept-new", &from, &to]);
            assert_eq!(done.code, Some(0), "{}", done.err);
            assert_eq!(done.json()["bytes"], 4, "{from}");
        }
    }
    server.stop();
}

/// What is full may be another disk than that of the server's root, or of the destination.
#[test]
fn f13_f15_what_a_disk_lacks_is_said_of_that_disk() {
    let site = Site::new(60);
    let server = site.serve();
    let at = site.root("to/disk");
    fs::create_dir_all(&at).unwrap();
    let Some(disk) = SmallDisk::mount(&at, 4) else {
        return;
    };
    fs::create_dir_all(site.file("s/disk")).unwrap();
    for name in ["1", "2", "3"] {
        fs::write(site.file(&format!("s/disk/{name}")), content(name, 2 << 20)).unwrap();
    }
    let full = |from: &str, to: &str| {
        let args = ["sync", "--accept-new", "--wait-for-space", "0", from, to];
        let done = run(&site, &args);
        done.assert_failed(NO_SPACE, &["no space left"]);
        done.err
    };
    for (from, to) in [("s/disk", "to/disk"), ("s", "to")] {
        let said = full(&site.file(from), &server.url(to));
        assert!(!said.contains("GiB"), "{said}");
    }
    for name in ["1", "2", "3"] {
        let _ = fs::remove_file(format!("{at}/{name}"));
        fs::write(site.file(&format!("s/disk/{name}")), "small").unwrap();
    }
    disk.remount("nr_inodes=2");
    let said = full(&site.file("s"), &server.url("to"));
    assert!(said.contains("no inode is free"), "{said}");
    drop(disk);
    server.stop();
}

#[test]
fn o8_a_pipe_into_a_directory_wants_a_name() {
    let site = Site::new(60);
    let server = site.serve();
    fs::create_dir(site.root("d")).unwrap();
    for to in ["d/", "d", "new/"] {
        let args = ["cp", "--accept-new", "-", &*server.url(to)];
        let done = site.run(Host::Here, "client", &args, Input::Bytes(b"x".to_vec()));
        done.assert_failed(REFUSED, &["is a directory"]);
    }
    server.stop();
}

/// The source and the destination are one place, by another name: what is moved onto itself stays, whatever it is.
#[test]
fn a_move_onto_itself_loses_nothing_and_says_so() {
    let site = Site::new(600);
    let server = site.serve();
    let sshd = Sshd::start(&site, Host::Here, "127.0.0.1");
    let ssh = sshd.as_ref().map_or_else(|| "false".to_owned(), Sshd::ssh);
    let here = |name: &str| site.root(&format!("m{name}"));
    let served = |name: &str| server.url(&format!("m{name}"));
    let far = |host: &str, name: &str| format!("{host}:{}", here(name));
    fs::create_dir_all(here("/d")).unwrap();
    for name in ["/f", "/d/f"] {
        fs::write(here(name), "precious").unwrap();
    }
    for name in ["/l", "/d/l"] {
        symlink("nowhere", here(name)).unwrap();
    }
    let check = |args: &[&str], from: &str, to: &str| {
        let options = ["--accept-new", "--ssh", &ssh, "--remove-source-files"];
        let args = [&args[..1], &options, &args[1..], &[from, to]].concat();
        run(&site, &args).assert_failed(PARTIAL, &["is its own source, which stays"]);
        for name in ["/f", "/d/f"] {
            assert_eq!(fs::read(here(name)).unwrap(), b"precious", "{args:?}");
        }
        for name in ["/l", "/d/l"] {
            assert!(fs::read_link(here(name)).is_ok(), "{args:?}");
        }
    };
    let whole = [&["sync"][..], &["sync", "-c"], &["sync", "-a", "-c"]];
    let single = [&["cp"][..], &["cp", "-c"]];
    let mut ways: Vec<[Name<'_>; 2]> = vec![[&here, &served], [&served, &here]];
    let (far1, far2) = (
        |name: &str| far("far", name),
        |name: &str| far("far2", name),
    );
    if sshd.is_some() {
        ways.extend([[&here as Name<'_>, &far1], [&far1, &here], [&far1, &far2]]);
    }
    for [from, to] in ways {
        for args in whole {
            check(args, &from(""), &to(""));
        }
        for args in single {
            check(args, &from("/f"), &to("/f"));
            check(args, &from("/f"), &to("/"));
        }
        check(&["cp", "-r", "-c"], &from("/d"), &to(""));
        check(&["cp", "-r"], &from("/l"), &to("/"));
    }
    server.stop();
}

/// Of several things that were named, what one of them lacks is that one's matter: the others come, below a directory, and none
/// of them gets the directory's name.
#[test]
fn n7_what_one_of_several_lacks_changes_nothing_for_the_others() {
    let site = Site::new(600);
    let server = site.serve();
    let sshd = Sshd::start(&site, Host::Here, "127.0.0.1");
    let ssh = sshd.as_ref().map_or_else(|| "false".to_owned(), Sshd::ssh);
    for dir in [site.file("s"), site.root("s")] {
        fs::create_dir(&dir).unwrap();
        fs::write(format!("{dir}/a"), "a").unwrap();
        symlink("loop", format!("{dir}/loop")).unwrap();
    }
    symlink("/etc", site.root("s/out")).unwrap();
    let here = |name: &str| site.file(name);
    let there = |name: &str| server.url(name);
    let far = |name: &str| format!("far:{}", site.root(name));
    let far2 = |name: &str| format!("far2:{}", site.root(name));
    let mut ways: Vec<[Name<'_>; 2]> = vec![[&here, &there], [&there, &here]];
    if sshd.is_some() {
        ways.extend([[&here as Name<'_>, &far], [&far, &here], [&far, &far2]]);
    }
    for [from, to] in ways {
        let copy = |flags: &[&str], names: &[&str], to: String| {
            let options = ["--accept-new", "--ssh", &ssh];
            let names: Vec<String> = names.iter().map(|name| from(name)).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).chain([&*to]).collect();
            run(&site, &[&["cp"], &options[..], flags, &names].concat())
        };
        let at = |name: &str| [site.file(name), site.root(name)];
        for flags in [&[][..], &["-r"], &["-n"]] {
            for missing in [&["s/none", "s/a"][..], &["s/a", "s/none"]] {
                let done = copy(flags, missing, to("new"));
                done.assert_failed(REFUSED, &["new", "does not exist"]);
                assert!(!at("new").iter().any(|path| fs::exists(path).unwrap()));
            }
        }
        let clear = || {
            for dir in at("d") {
                let _ = fs::remove_dir_all(&dir);
                fs::create_dir(&dir).unwrap();
            }
        };
        clear();
        copy(&[], &["s/loop", "s/a"], to("d")).assert_failed(PARTIAL, &["loop"]);
        assert!(at("d/a").iter().any(|path| fs::exists(path).unwrap()));
        clear();
        let done = copy(&["-r"], &["s/loop", "s/a"], to("d"));
        assert_eq!(done.code, Some(0), "{}", done.err);
        assert!(at("d/loop").iter().any(|path| fs::read_link(path).is_ok()));
        if from("x").starts_with("howdah:") {
            clear();
            copy(&["-r"], &["s/out", "s/a"], to("d")).assert_failed(PARTIAL, &["out"]);
            assert!(fs::exists(site.file("d/a")).unwrap());
        }
    }
    server.stop();
}

#[test]
fn n4_detours_byte_order_marks_and_nul_in_lists() {
    let site = Site::new(60);
    let server = site.serve();
    fs::create_dir_all(site.file("s/a/b")).unwrap();
    fs::write(site.file("s/a/b/f"), "f").unwrap();
    let listed = |list: &[u8], to: &str| {
        fs::write(site.file("list"), list).unwrap();
        let (list, from, to) = (site.file("list"), site.file("s"), server.url(to));
        run(
            &site,
            &["sync", "--accept-new", "--files-from", &list, &from, &to],
        )
    };
    let paths = [
        "a//b/f",
        "a/./b/f",
        "a/b/../b/f",
        "./a/b//f",
        "\u{feff}a/b/f",
    ];
    for (number, path) in paths.into_iter().enumerate() {
        let to = format!("d{number}");
        let done = listed(path.as_bytes(), &to);
        assert_eq!(done.code, Some(0), "{path}: {}", done.err);
        assert!(fs::exists(site.root(&format!("{to}/a/b/f"))).unwrap());
    }
    for path in ["../f", "a/../../s/a"] {
        listed(path.as_bytes(), "x").assert_failed(USAGE, &[path, "leads out of SRC"]);
    }
    listed(b"a\0a/b\0", "x").assert_failed(USAGE, &["NUL", "-0"]);
    server.stop();
}

/// A shell stands where somebody has removed the directory: that is no empty source.
#[test]
fn t20_a_source_that_was_removed_is_no_empty_one() {
    let site = Site::new(60);
    let server = site.serve();
    let to = server.url("d");
    for (what, args) in [
        ("sync", ". \"$1\""),
        ("cp -r", ". \"$1\""),
        ("cp -r", "./. \"$1\""),
    ] {
        fs::create_dir(site.file("gone")).unwrap();
        let mut command = Command::new("sh");
        let script = format!(
            "cd {} && rmdir {0} && exec \"$0\" {what} --accept-new {args}",
            site.file("gone")
        );
        command.args(["-c", &script, HOWDAH, &to]);
        let none: [&str; 0] = [];
        let done = site
            .start_by(command, "client", &none, Input::None)
            .finish();
        done.assert_failed(NOT_FOUND, &["does not exist"]);
        assert!(!fs::exists(site.root("d")).unwrap());
    }
    server.stop();
}

#[test]
fn patterns_may_begin_with_a_dash() {
    let site = Site::new(60);
    let server = site.serve();
    fs::create_dir(site.file("s")).unwrap();
    for name in ["s/-rf", "s/a"] {
        fs::write(site.file(name), name).unwrap();
    }
    let to = server.url("d");
    let args = [
        "sync",
        "--accept-new",
        "--exclude",
        "-rf",
        &site.file("s"),
        &to,
    ];
    let done = run(&site, &args);
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert_eq!(fs::read_dir(site.root("d")).unwrap().count(), 1);
    server.stop();
}

/// What is listed and excluded, ignored, or on another disk is there all the same.
#[test]
fn n4_what_is_listed_and_left_out_is_not_said_to_be_missing() {
    let site = Site::new(60);
    let server = site.serve();
    let (here, there) = (site.file("s"), site.root("s"));
    for place in [&here, &there] {
        fs::create_dir_all(format!("{place}/out/deep")).unwrap();
        for name in ["f", "skip.o", "out/deep/g", "ignored"] {
            fs::write(format!("{place}/{name}"), name).unwrap();
        }
        fs::write(format!("{place}/.gitignore"), "ignored\n").unwrap();
    }
    let list = site.file("list");
    fs::write(&list, "f\nskip.o\nout/deep/g\nignored\n").unwrap();
    let flags = ["--exclude", "*.o", "--exclude", "out/", "--gitignore"];
    for (from, to, at) in [
        (here, server.url("d"), site.root("d")),
        (server.url("s"), site.file("e"), site.file("e")),
    ] {
        let sync = |more: &[&str]| {
            let args = ["sync", "--accept-new", "--files-from", &list];
            run(&site, &[&args, more, &[&*from, &*to]].concat())
        };
        let done = sync(&flags);
        assert_eq!(done.code, Some(0), "{}", done.err);
        let names = fs::read_dir(&at)
            .unwrap()
            .map(|name| name.unwrap().file_name());
        assert_eq!(names.collect::<Vec<_>>(), ["f"]);
        assert!(!done.err.contains("not exist"), "{}", done.err);
        fs::write(&list, "f\nskip.o\nmissing\n").unwrap();
        sync(&flags).assert_failed(PARTIAL, &["\"missing\": is in the list"]);
        fs::write(&list, "f\nskip.o\nout/deep/g\nignored\n").unwrap();
    }
    server.stop();
}
