//! What cannot be done is told as what it is: destinations that take no files, sources in two places.

use crate::support;
use crate::support::place::SmallDisk;
use crate::support::process::{Done, Input};
use crate::support::sshd::Sshd;
use crate::support::{Host, Site};
use std::fs;

/// Whether `howdah ARGS` ended as a refusal that has these words; `sync` and `cp -r` as well.
#[track_caller]
fn assert_refused(done: &Done, parts: &[&str], of: &str) {
    assert_eq!(done.code, Some(4), "{of}: {}", done.err);
    for part in parts {
        assert!(done.err.contains(part), "{of}: {part}: {}", done.err);
    }
    assert!(!done.err.contains("does not exist"), "{of}: {}", done.err);
}

#[test]
fn o8_a_destination_that_takes_no_files_is_refused_and_named() {
    let site = Site::new(120);
    let Some(sshd) = Sshd::start(&site, Host::Here, "127.0.0.1") else {
        return;
    };
    let file = site.file("f");
    let tree = site.file("tree");
    fs::write(&file, "content").unwrap();
    fs::create_dir(&tree).unwrap();
    fs::write(site.file("tree/a"), "a").unwrap();
    fs::write(site.root("plain"), "a file").unwrap();
    let below_file = format!("{}/x", site.root("plain"));
    let ssh = sshd.ssh();
    let run = |args: &[&str]| {
        let args = [&args[..1], &["--ssh", &ssh], &args[1..]].concat();
        site.run(Host::Here, "nobody", &args, Input::None)
    };
    for at in [
        "/proc/x",
        "/proc/self/x",
        "/sys/x",
        "/proc/version",
        &below_file,
    ] {
        let far = format!("far:{at}");
        let name = at.rsplit('/').next().unwrap();
        for args in [
            &["cp", &file, &far][..],
            &["cp", "-p", &file, &far],
            &["cp", "-r", &tree, &far],
            &["sync", &tree, &far],
        ] {
            let done = run(args);
            let word = if at == below_file {
                "not a directory"
            } else {
                name
            };
            assert_refused(&done, &[word], &format!("{args:?}"));
        }
    }
    // Into one that is there.
    for args in [
        &["cp", &file, "far:/proc/"][..],
        &["cp", "-r", &tree, "far:/proc/"],
        &["cp", "-r", &file, &tree, "far:/sys"],
    ] {
        assert_refused(&run(args), &["kernel"], &format!("{args:?}"));
    }
    // And back.
    fs::write(site.root("f"), "content").unwrap();
    fs::create_dir(site.root("t")).unwrap();
    fs::write(site.root("t/a"), "a").unwrap();
    for at in ["/proc/x", "/sys/x", &below_file] {
        for args in [
            &["cp", "far:f", at][..],
            &["cp", "-r", "far:t", at],
            &["sync", "far:t", at],
        ] {
            assert_refused(&run(args), &[], &format!("{args:?}"));
        }
    }
}

#[test]
fn o8_a_read_only_disk_is_named_as_what_it_is() {
    let site = Site::new(60);
    let at = site.root("disk");
    fs::create_dir(&at).unwrap();
    let Some(disk) = SmallDisk::mount(&at, 8) else {
        return;
    };
    disk.remount("ro");
    let (file, tree) = (site.file("f"), site.file("tree"));
    fs::write(&file, "content").unwrap();
    fs::create_dir_all(site.file("tree/sub")).unwrap();
    fs::write(site.file("tree/sub/a"), "a").unwrap();
    fs::write(site.file("tree/large"), vec![1; 3 << 20]).unwrap();
    let server = site.serve();
    for (args, to) in [
        (&[&*file][..], "disk/new"),
        (&["-r", &tree], "disk/new"),
        (&["-r", &tree], "disk/"),
        (&["-r", &file, &tree], "disk/"),
    ] {
        let url = server.url(to);
        let done = site.copy_with(Host::Here, &[args, &[&url]].concat(), Input::None);
        assert_refused(&done, &["ead-only"], &format!("{args:?} {to}"));
    }
    // A part of a tree that cannot be written is no refusal of the whole.
    fs::create_dir(site.root("half")).unwrap();
    fs::create_dir(site.root("half/sub")).unwrap();
    let Some(part) = SmallDisk::mount(&site.root("half/sub"), 8) else {
        return;
    };
    part.remount("ro");
    let url = server.url("half");
    let done = site.copy_with(Host::Here, &["-r", &format!("{tree}/."), &url], Input::None);
    assert_eq!(done.code, Some(6), "{}", done.err);
    assert!(fs::exists(site.root("half/large")).unwrap());
}

#[test]
fn o8_sources_in_two_places_are_told_as_that() {
    let site = Site::new(60);
    fs::write(site.file("f"), "x").unwrap();
    fs::create_dir(site.file("d")).unwrap();
    let (file, dir) = (site.file("f"), site.file("d"));
    for args in [
        &["-r", &*file, "far:dir", "other:d"][..],
        &["-r", "far:dir", &dir, "other:d"],
        &["-r", &dir, "far:f", "far:d"],
        &[&file, "far:f", "howdah://h/d"],
        &[&file, "far:f", "."],
        &["howdah://h/a", &file, "."],
    ] {
        let args = [&["cp"], args].concat();
        let done = site.run(Host::Here, "client", &args, Input::None);
        assert_eq!(done.code, Some(2), "{args:?}: {}", done.err);
        assert!(
            done.err.contains("on this machine") && done.err.contains("one machine at a time"),
            "{args:?}: {}",
            done.err
        );
        assert!(!done.err.contains("only if ssh"), "{args:?}: {}", done.err);
    }
    let args = ["cp", "far:a", "other:b", "."];
    let done = site.run(Host::Here, "client", &args, Input::None);
    assert_eq!(done.code, Some(2), "{}", done.err);
    assert!(done.err.contains("not on the same machine"), "{}", done.err);
}

/// What comes through a pipe has no name, and what stands before a slash is a directory.
#[test]
fn o8_directories_that_are_none_and_those_that_want_a_name() {
    let site = Site::new(60);
    let Some(sshd) = Sshd::start(&site, Host::Here, "127.0.0.1") else {
        return;
    };
    fs::write(site.root("f"), "a file").unwrap();
    fs::write(site.file("f"), "a file").unwrap();
    fs::create_dir(site.root("d")).unwrap();
    let server = site.serve();
    let (ssh, file, here) = (sshd.ssh(), site.file("f/"), site.file("new"));
    let run = |args: &[&str]| {
        let args = [&["cp", "--accept-new", "--ssh", &ssh], args].concat();
        let input = Input::Bytes(b"through a pipe".to_vec());
        site.run(Host::Here, "client", &args, input)
    };
    for to in [
        "far:",
        "far:.",
        "far:d",
        "far:d/",
        &server.url(""),
        &server.url("d/"),
    ] {
        let done = run(&["-", to]);
        let of = format!("- {to}");
        assert_refused(&done, &["directory"], &of);
        assert!(!done.err.contains("-r"), "{of}: {}", done.err);
    }
    for from in ["far:f/", &server.url("f/"), &file] {
        let to = if from == file { "far:new" } else { &here };
        let done = run(&[from, to]);
        assert_eq!(done.code, Some(4), "{from}: {}", done.err);
    }
    assert_eq!(fs::read_dir(site.root("d")).unwrap().count(), 0);
    server.stop();
}

/// What is mounted under a name is somebody's on purpose: nothing takes its place, and nothing is written through it.
#[test]
fn n11_a_name_on_which_something_is_mounted_is_not_replaced() {
    let site = Site::new(120);
    let server = site.serve();
    fs::create_dir_all(site.file("tree")).unwrap();
    fs::write(site.file("tree/bound"), "new").unwrap();
    fs::write(site.root("bound"), "new").unwrap();
    fs::create_dir(site.root("at")).unwrap();
    let other = site.file("other");
    let (there, here) = (site.root("at/bound"), site.file("bound"));
    for at in [&there, &here] {
        fs::write(&other, "mounted").unwrap();
        fs::write(at, "below it").unwrap();
        let args = ["--bind", &other, at];
        let mounted = std::process::Command::new("mount").args(args).output();
        if !mounted.is_ok_and(|mounted| mounted.status.success()) {
            println!("skipped: nothing can be mounted here");
            return;
        }
        let _mount = SmallDisk::mounted(at);
        let (file, tree) = (site.file("tree/bound"), site.file("tree/."));
        let copies = if at == &there {
            vec![
                vec![file, server.url("at/bound")],
                vec!["-r".to_owned(), tree, server.url("at")],
            ]
        } else {
            vec![
                vec![server.url("bound"), here.clone()],
                vec!["-p".to_owned(), server.url("bound"), here.clone()],
            ]
        };
        for args in copies {
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            let done = site.copy_with(Host::Here, &args, Input::None);
            assert_refused(
                &done,
                &["bound", "something is mounted"],
                &format!("{args:?}"),
            );
            assert_eq!(fs::read_to_string(at).unwrap(), "mounted", "{args:?}");
        }
    }
    server.stop();
    site.assert_nothing_half_done();
}

/// A list that forgets at once would take any key at any time.
#[test]
fn t27_keys_of_servers_are_kept_in_a_file_or_not_accepted() {
    let site = Site::new(60);
    let server = site.serve();
    fs::write(site.file("f"), "content").unwrap();
    let (from, to) = (site.file("f"), server.url("new"));
    let copy = |list: &str| {
        let args = ["cp", "--known-hosts", list, "--accept-new", &from, &to];
        site.run(Host::Here, "client", &args, Input::None)
    };
    copy("/dev/null").assert_failed(7, &["/dev/null", "not a regular file"]);
    assert!(!fs::exists(site.root("new")).unwrap());
    // What forgets later is a file that is thrown away.
    let list = site.file("list");
    let done = copy(&list);
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert!(fs::metadata(&list).unwrap().len() > 0);
    server.stop();
}

/// `a:b` is a place on the machine `a`, also where a file here is called so: then the error names the way to mean it.
#[test]
fn a_file_here_with_a_colon_in_its_name_is_told_how_it_is_written() {
    let site = Site::new(100);
    let server = site.serve();
    fs::write(site.file("a:b"), "here").unwrap();
    fs::create_dir(site.file("c:d")).unwrap();
    let url = &*server.url("x");
    let run = |args: &[&str]| {
        let mut command = std::process::Command::new(support::HOWDAH);
        // No machine is asked for.
        command
            .current_dir(site.file(""))
            .env("HOWDAH_SSH", "false");
        site.start_by(command, "client", args, Input::None).finish()
    };
    for (name, args) in [
        ("a:b", &["cp", "a:b", url][..]),
        ("c:d", &["cp", "-r", "c:d", url]),
        ("c:d", &["sync", "c:d", url]),
        ("a:b", &["cp", url, "a:b"]),
        ("a:b", &["cp", "./c:d", "a:b", url]),
        ("a:b", &["cp", "a:b", "x:y", url]),
        ("a:b", &["cp", "a:b", "here"]),
        ("a:b", &["verify", "a:b", "./a:b"]),
        ("a:b", &["ls", "a:b"]),
        ("c:d", &["du", "c:d"]),
        ("c:d", &["clean", "c:d"]),
    ] {
        let done = run(args);
        assert_ne!(done.code, Some(0), "{args:?}");
        let hint = format!("written ./{name}");
        assert!(done.err.contains(&hint), "{args:?}: {}", done.err);
    }
    // Nothing here is called so.
    let done = run(&["cp", "a:c", url]);
    assert!(!done.err.contains("written"), "{}", done.err);
    let done = run(&["cp", "--accept-new", "./a:b", url]);
    assert_eq!(done.code, Some(0), "{}", done.err);
    server.stop();
}
