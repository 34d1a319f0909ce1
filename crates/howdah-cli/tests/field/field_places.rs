//! Where things go, and what becomes of what was interrupted: the N and T rows of docs/faults.md about places.

use crate::support::place::{SmallDisk, content};
use crate::support::process::{Done, Input, Process};
use crate::support::sshd::Sshd;
use crate::support::ways::every_way;
use crate::support::{HOWDAH, Host, Site};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify;
use rustix::process::{Signal, kill_process_group};
use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

// As `howdah --help` lists them.
const NOT_FOUND: i32 = 3;
const REFUSED: i32 = 4;
const PARTIAL: i32 = 6;
const INTERRUPTED: i32 = 12;
const SIGN: &str = ".howdah-unfinished";

/// Waits until there is something of that name.
#[track_caller]
fn await_path(path: &str, limit: Instant) {
    let path = Path::new(path);
    let changes =
        inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK).unwrap();
    let flags = inotify::WatchFlags::CREATE | inotify::WatchFlags::MOVED_TO;
    while !path.exists() {
        // The nearest directory that is there.
        let mut near = path.parent().unwrap();
        while !near.exists() {
            near = near.parent().unwrap();
        }
        let _ = inotify::add_watch(&changes, near, flags);
        if path.exists() {
            break;
        }
        let left = limit.saturating_duration_since(Instant::now());
        assert!(!left.is_zero(), "{} does not come", path.display());
        // It may have come between the look and the watch: looked at again soon.
        let left = left.min(std::time::Duration::from_millis(200));
        let left = Timespec::try_from(left).unwrap();
        poll(&mut [PollFd::new(&changes, PollFlags::IN)], Some(&left)).unwrap();
        let mut events = [std::mem::MaybeUninit::uninit(); 4096];
        let _ = rustix::io::read(&changes, &mut events);
    }
}

/// Names directly below.
fn names(dir: &str) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// A tree that takes a while at 20 Mbit/s.
fn slow_tree(dir: &str) {
    fs::create_dir(dir).unwrap();
    for name in ["1", "2", "3", "4"] {
        fs::write(format!("{dir}/{name}"), content(name, 3 << 20)).unwrap();
    }
}

/// Ctrl-C on a terminal is for ssh, too, which may be gone before howdah has looked.
#[test]
fn n1_an_interruption_that_ssh_hears_too_is_told_as_one() {
    let site = Site::new(120);
    let Some(sshd) = Sshd::start(&site, Host::Here, "127.0.0.1") else {
        return;
    };
    slow_tree(&site.file("t"));
    slow_tree(&site.root("far-t"));
    let (new, here) = (site.root("new"), site.file("here"));
    for (from, to, begun) in [
        ("far:far-t", "far2:new", &new),
        (&*site.file("t"), "far:new", &new),
        ("far:far-t", &*here, &here),
    ] {
        let ssh = sshd.ssh();
        let args = ["cp", "-r", "--limit", "20mbit", "--ssh", &ssh, from, to];
        let mut command = Command::new(HOWDAH);
        command.process_group(0);
        let process = site.start_by(command, "nobody", &args, Input::None);
        await_path(&format!("{begun}/{SIGN}"), site.limit());
        kill_process_group(process.pid(), Signal::INT).unwrap();
        let done = process.finish();
        assert_eq!(done.code, Some(INTERRUPTED), "{from} {to}: {}", done.err);
        assert!(done.err.contains("interrupted"), "{}", done.err);
        fs::remove_dir_all(begun).unwrap();
    }
}

/// `../` as the Tab key writes it was what is in this directory: that came, with code 0, and went if it was a move.
#[test]
fn a_source_that_ends_in_dots_and_a_slash_is_what_is_in_that_directory() {
    let site = Site::new(60);
    let server = site.serve();
    let sub = site.file("tree/sub");
    fs::create_dir_all(&sub).unwrap();
    fs::write(site.file("tree/above"), "above").unwrap();
    fs::write(format!("{sub}/below"), "below").unwrap();
    for source in ["..", "../", "../..//tree/", "../sub/..//"] {
        let to = server.url("to");
        let mut command = Command::new(HOWDAH);
        command.current_dir(&sub);
        let args = ["cp", "-r", "--accept-new", source, &to];
        let done = site.start_by(command, "client", &args, Input::None);
        let done = done.finish();
        assert_eq!(done.code, Some(0), "{source}: {}", done.err);
        assert_eq!(names(&site.root("to")), ["above", "sub"], "{source}");
        fs::remove_dir_all(site.root("to")).unwrap();
    }
    server.stop();
}

/// Begins a copy, interrupts it when `new` is there, and gives the same command again.
fn interrupted_and_again(
    site: &Site,
    start: impl Fn(&[&str]) -> Process,
    (from, to): (&str, &str),
    new: &str,
) {
    let process = start(&["-r", "--limit", "20mbit", from, to]);
    await_path(&format!("{new}/{SIGN}"), site.limit());
    process.signal(Signal::INT);
    let done = process.finish();
    assert_eq!(done.code, Some(INTERRUPTED), "{}", done.err);
    assert!(!done.err.contains("nothing was left"), "{}", done.err);
    assert!(Path::new(new).join(SIGN).exists());
    let done = start(&["-r", from, to]).finish();
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert_eq!(names(new), ["1", "2", "3", "4"]);
    fs::remove_dir_all(new).unwrap();
}

#[test]
fn n1_an_interrupted_tree_goes_on_in_its_place_through_ssh() {
    let site = Site::new(120);
    let Some(sshd) = Sshd::start(&site, Host::Here, "127.0.0.1") else {
        return;
    };
    slow_tree(&site.file("t"));
    let start = |args: &[&str]| sshd.start_copy(&site, Host::Here, args, Input::None);
    let new = site.root("new");
    let from = site.file("t");
    interrupted_and_again(&site, start, (&from, "far:new"), &new);
    // Absolute, and with the slash that the Tab key puts there the second time.
    let far = format!("far:{new}");
    interrupted_and_again(&site, start, (&from, &far), &new);
    // Between two other machines, and back to here.
    slow_tree(&site.root("far-t"));
    interrupted_and_again(&site, start, ("far:far-t", "far2:new"), &new);
    let here = site.file("here");
    interrupted_and_again(&site, start, ("far:far-t", &here), &here);
    site.assert_nothing_half_done();
}

#[test]
fn n1_n5_an_interrupted_tree_goes_on_in_its_place_on_a_server_and_no_other_does() {
    let site = Site::new(120);
    let server = site.serve();
    slow_tree(&site.file("t"));
    let start = |args: &[&str]| site.start_copy(Host::Here, args, Input::None);
    let (from, new) = (site.file("t"), site.root("new"));
    interrupted_and_again(&site, start, (&from, &server.url("new")), &new);
    slow_tree(&site.root("there"));
    let here = site.file("here");
    interrupted_and_again(&site, start, (&server.url("there"), &here), &here);

    // Another source goes below what the first has begun.
    let process = start(&["-r", "--limit", "20mbit", &from, &server.url("new")]);
    await_path(&format!("{new}/{SIGN}"), site.limit());
    process.signal(Signal::INT);
    process.finish();
    fs::create_dir(site.file("other")).unwrap();
    fs::write(site.file("other/mine"), "mine").unwrap();
    let done = start(&["-r", &site.file("other"), &server.url("new")]).finish();
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert!(Path::new(&new).join("other/mine").exists() && !Path::new(&new).join("mine").exists());

    // A mirror finishes it.
    let sync = [
        "sync",
        "--json",
        "--accept-new",
        &*from,
        &*server.url("new"),
    ];
    let done = site.run(Host::Here, "client", &sync, Input::None);
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert!(!Path::new(&new).join(SIGN).exists());
    let done = start(&["-r", &from, &server.url("new")]).finish();
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert_eq!(names(&format!("{new}/t")), ["1", "2", "3", "4"]);
    server.stop();
}

fn copy(site: &Site, args: &[&str]) -> Done {
    site.copy_with(Host::Here, args, Input::None)
}

#[test]
fn n3_a_link_that_is_named_is_what_it_points_to_with_a_slash_and_without() {
    let site = Site::new(240);
    let server = site.serve();
    for base in [site.file(""), site.root("")] {
        fs::create_dir_all(format!("{base}/deep/s")).unwrap();
        fs::write(format!("{base}/deep/s/file"), "text").unwrap();
        symlink("deep/s", format!("{base}/L")).unwrap();
        symlink("L", format!("{base}/LL")).unwrap();
        symlink("../deep/s", format!("{base}/deep/M")).unwrap();
    }
    symlink("/etc", site.root("out")).unwrap();
    for link in ["L", "L/", "LL/", "deep/M", "deep/M//"] {
        for way in ["put", "get"] {
            let (new_here, new_there) = (site.file("new"), site.root("new"));
            let (from, to, lies) = match way {
                "put" => (site.file(link), server.url("new"), &new_there),
                _ => (server.url(link), new_here.clone(), &new_here),
            };
            let done = copy(&site, &["-r", &from, &to]);
            assert_eq!(done.code, Some(0), "{way} {link}: {}", done.err);
            assert!(!Path::new(lies).is_symlink(), "{way} {link}");
            assert_eq!(names(lies), ["file"], "{way} {link}");
            if link == "L" || link == "LL/" {
                fs::remove_dir_all(lies).unwrap();
                continue;
            }
            // Whoever compares, mirrors or lists it means the same.
            let run = |args: &[&str]| {
                let done = site.run(Host::Here, "client", args, Input::None);
                assert_eq!(done.code, Some(0), "{way} {args:?}: {}", done.err);
                done
            };
            run(&["verify", "--accept-new", &from, &to]);
            run(&["sync", "--accept-new", "--delete", &from, &to]);
            assert_eq!(names(lies), ["file"], "{way} {link}");
            assert_eq!(run(&["ls", "--accept-new", &from]).out, b"file\n");
            fs::remove_dir_all(lies).unwrap();
            // In the middle of a path.
            let file = format!("{}/file", from.trim_end_matches('/'));
            let done = copy(&site, &["-r", &file, &to]);
            assert_eq!(done.code, Some(0), "{way} {file}: {}", done.err);
            assert_eq!(fs::read_to_string(lies).unwrap(), "text");
            run(&["verify", "--accept-new", &file, &to]);
            fs::remove_file(lies).unwrap();
        }
    }
    for path in ["out", "out/", "out/ssh"] {
        for command in ["cp", "sync"] {
            let recursive: &[&str] = if command == "cp" { &["-r"] } else { &[] };
            let (from, to) = (server.url(path), site.file("new"));
            let args = [&[command, "--accept-new"], recursive, &[&from, &to]].concat();
            let done = site.run(Host::Here, "client", &args, Input::None);
            assert_eq!(done.code, Some(REFUSED), "{args:?}: {}", done.err);
            assert!(!fs::exists(&to).unwrap());
        }
    }
    server.stop();
}

#[test]
fn n7_what_is_named_and_not_there_keeps_nothing_else_from_coming() {
    let site = Site::new(60);
    let server = site.serve();
    for base in [site.file("s"), site.root("s")] {
        fs::create_dir_all(format!("{base}/dir")).unwrap();
        fs::write(format!("{base}/a"), "a").unwrap();
        fs::write(format!("{base}/dir/b"), "b").unwrap();
        symlink("nowhere", format!("{base}/dangling")).unwrap();
    }
    for way in ["put", "get"] {
        let is_put = way == "put";
        let lies = if is_put {
            site.root("d")
        } else {
            site.file("d")
        };
        fs::create_dir(&lies).unwrap();
        let from = |name: &str| {
            if is_put {
                site.file(name)
            } else {
                server.url(name)
            }
        };
        let to = if is_put {
            server.url("d")
        } else {
            site.file("d")
        };
        let sources = ["s/a", "s/dangling", "s/missing", "s/dir"].map(from);
        let [a, dangling, missing, dir] = &sources;
        let done = copy(&site, &["-r", a, dangling, missing, dir, &to]);
        done.assert_failed(PARTIAL, &["missing"]);
        assert_eq!(names(&lies), ["a", "dangling", "dir"], "{way}");
        assert_eq!(
            fs::read_link(format!("{lies}/dangling")).unwrap(),
            Path::new("nowhere")
        );
        // Nothing of what was named is there.
        let done = copy(&site, &["-r", missing, &to]);
        done.assert_failed(NOT_FOUND, &["missing"]);
    }
    server.stop();
}

#[test]
fn t20_a_servers_root_is_what_its_name_means_when_a_session_begins() {
    let site = Site::new(60);
    let mut server = site.serve();
    fs::write(site.file("f"), "text").unwrap();
    let put = |name: &str| copy(&site, &[&site.file("f"), &server.url(name)]);
    assert_eq!(put("first").code, Some(0));
    let (root, old) = (site.root(""), site.file("old"));
    let root = root.trim_end_matches('/');
    fs::rename(root, &old).unwrap();
    let (from, to) = (site.file("f"), server.url("second"));
    for args in [&["cp"][..], &["cp", "-r"]] {
        let args = [args, &["--accept-new", &from, &to]].concat();
        let done = site.run(Host::Here, "client", &args, Input::None);
        done.assert_failed(REFUSED, &["root", "log says why"]);
        assert!(!done.err.contains(root), "{}", done.err);
    }
    fs::create_dir(root).unwrap();
    assert_eq!(put("third").code, Some(0));
    assert_eq!(names(root), ["third"]);
    if let Some(_disk) = SmallDisk::mount(root, 8) {
        assert_eq!(put("fourth").code, Some(0));
        assert_eq!(names(root), ["fourth"], "what is mounted there");
    }
    let line = server.await_line("cannot be used now", std::time::Duration::from_secs(20));
    assert!(line.contains(root), "{line}");
    server.stop();
}

/// With a slash at its end DST is a directory: what is one becomes it, as with cp and scp, and a file does not.
#[test]
fn n1_a_new_name_with_a_slash_is_a_directory_in_every_direction() {
    every_way(400, |way| {
        fs::create_dir((way.source)("tree")).unwrap();
        fs::write((way.source)("tree/a"), "a").unwrap();
        fs::write((way.source)("file"), "a file").unwrap();
        for new in ["new/", "new/.", "new//"] {
            for args in [&["cp", "-r"][..], &["cp", "-a"], &["sync"]] {
                way.ok(args, "tree", new);
                let names = fs::read_dir((way.target)("new")).unwrap();
                let names: Vec<_> = names.map(|name| name.unwrap().file_name()).collect();
                assert_eq!(names, ["a"], "{} {args:?} {new}", way.what);
                fs::remove_dir_all((way.target)("new")).unwrap();
            }
            let no = ["the directory", "does not exist", "--mkpath"];
            way.fails(4, &["cp", "-r"], "file", new, &no);
            assert!(!fs::exists((way.target)("new")).unwrap(), "{}", way.what);
            // A file has that name already.
            fs::write((way.target)("new"), "old").unwrap();
            way.fails(4, &["cp", "-r"], "file", new, &["director"]);
            assert_eq!(fs::read((way.target)("new")).unwrap(), b"old");
            fs::remove_file((way.target)("new")).unwrap();
        }
        way.ok(&["cp", "-r", "--mkpath"], "file", "new/");
        assert_eq!(fs::read((way.target)("new/file")).unwrap(), b"a file");
    });
}
