//! What is left out of a copy by files of rules, .gitignore files and mount points.

use crate::support::process::{Done, Input};
use crate::support::{Host, Site};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

const USAGE: i32 = 2;

fn run(site: &Site, args: &[&str]) -> Done {
    site.run(Host::Here, "client", args, Input::None)
}

/// Makes a tree of these files.
fn make(top: &str, files: &[&str]) {
    for file in files {
        let path = Path::new(top).join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, file).unwrap();
    }
}

/// The files in it.
fn files(top: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut dirs = vec![Path::new(top).to_path_buf()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else {
                let below = path.strip_prefix(top).unwrap();
                found.insert(below.to_str().unwrap().to_owned());
            }
        }
    }
    found
}

fn set(files: &[&str]) -> BTreeSet<String> {
    files.iter().map(|&file| file.to_owned()).collect()
}

#[test]
fn rules_come_from_files_in_their_order() {
    let site = Site::new(60);
    let server = site.serve();
    let (here, there) = (site.file("s"), site.root("s"));
    let names = ["a.o", "keep.o", "sub/b.o", "sub/c", "#x", "build/y"];
    for top in [&here, &there] {
        make(top, &names);
    }
    fs::write(
        site.file("out"),
        // As an editor of Windows writes it: its mark belongs to no rule.
        "\u{feff}*.o\r\n# comment\n\n; another\n- /build/\n",
    )
    .unwrap();
    fs::write(site.file("in"), "keep.o\n").unwrap();
    let (out, keep) = (site.file("out"), site.file("in"));
    let sync = |first: [&str; 4], from: &str, to: &str| {
        let mut args = vec!["sync", "--accept-new"];
        args.extend(first);
        args.extend([from, to]);
        let done = run(&site, &args);
        assert_eq!(done.code, Some(0), "{}", done.err);
    };
    let in_first = ["--include-from", &keep, "--exclude-from", &out];
    let out_first = ["--exclude-from", &out, "--include-from", &keep];
    for (from, to, at) in [
        (here.clone(), server.url("put"), site.root("put")),
        (server.url("s"), site.file("got"), site.file("got")),
    ] {
        sync(in_first, &from, &to);
        assert_eq!(files(&at), set(&["keep.o", "sub/c", "#x"]));
        fs::remove_dir_all(&at).unwrap();
        sync(out_first, &from, &to);
        assert_eq!(files(&at), set(&["sub/c", "#x"]));
    }
    let to = server.url("none");
    let input = Input::Bytes(b"*.o\n!\nsub\n".to_vec());
    let args = ["sync", "--accept-new", "--exclude-from", "-", &here, &to];
    let done = site.run(Host::Here, "client", &args, input);
    assert_eq!(done.code, Some(0), "{}", done.err);
    let names = ["a.o", "keep.o", "#x", "build/y"];
    assert_eq!(files(&site.root("none")), set(&names));
    let twice = ["--exclude-from", "-", "--files-from", "-"];
    let args = [&["sync"], &twice[..], &[&here, &to]].concat();
    run(&site, &args).assert_failed(USAGE, &["standard input", "only one"]);
    fs::write(site.file("bad"), b"\xff\n").unwrap();
    let bad = site.file("bad");
    let args = ["sync", "--exclude-from", &bad, &here, &to];
    run(&site, &args).assert_failed(USAGE, &["not UTF-8"]);
    let none = site.file("none");
    for option in ["--exclude-from", "--include-from", "--files-from"] {
        let args = ["sync", option, &none, &here, &to];
        run(&site, &args).assert_failed(USAGE, &["cannot read the list"]);
    }
    server.stop();
}

#[test]
fn gitignore_files_leave_out_what_they_say_and_it_is_not_deleted_there() {
    let site = Site::new(60);
    let server = site.serve();
    let names = [
        "a.o",
        "keep.o",
        "target/x/y",
        "sub/b.o",
        "sub/c",
        "sub/own",
        "own",
    ];
    let (here, there) = (site.file("s"), site.root("s"));
    for top in [&here, &there] {
        make(top, &names);
        fs::write(format!("{top}/.gitignore"), "*.o\n!keep.o\ntarget/\n").unwrap();
        fs::write(format!("{top}/sub/.gitignore"), "/own\n!b.o\n").unwrap();
    }
    let copied = [
        ".gitignore",
        "sub/.gitignore",
        "keep.o",
        "own",
        "sub/b.o",
        "sub/c",
    ];
    for (from, to, at) in [
        (here.clone(), server.url("put"), site.root("put")),
        (server.url("s"), site.file("got"), site.file("got")),
    ] {
        let args = [
            "sync",
            "--accept-new",
            "--gitignore",
            "--delete",
            &from,
            &to,
        ];
        let done = run(&site, &args);
        assert_eq!(done.code, Some(0), "{}", done.err);
        assert_eq!(files(&at), set(&copied));
        // Ignored at the source, and there, too; ignored and only there; and what the source does not have at all.
        let ignored = ["a.o", "target/z", "sub/own", "mine.o", "sub/target/z"];
        make(&at, &ignored);
        make(&at, &["extra", "sub/extra"]);
        let done = run(&site, &args);
        assert_eq!(done.code, Some(0), "{}", done.err);
        let mut left = set(&copied);
        left.extend(set(&ignored));
        assert_eq!(files(&at), left);
    }
    server.stop();
}

#[test]
fn mount_points_stay_empty_on_one_file_system_and_nothing_is_deleted_in_them() {
    let site = Site::new(60);
    let top = site.file("s");
    make(&top, &["a", "m/hidden", "z/b"]);
    let server = site.serve();
    let (url, to) = (server.url("d"), site.root("d"));
    make(&to, &["m/old", "gone"]);
    // In a mount namespace of its own.
    let script = "mount -t tmpfs none \"$1/m\" && echo x > \"$1/m/other\" && shift && exec \"$@\"";
    let howdah = env!("CARGO_BIN_EXE_howdah");
    let sync = |more: &[&str]| {
        let words = ["-m", "sh", "-c", script, "sh", &top, howdah, "sync"];
        let args = [&words[..], &["--accept-new"], more, &[&top, &url]].concat();
        let mut command = Command::new("unshare");
        command.args(args);
        command.env("HOWDAH_CONFIG_DIR", site.config("client"));
        command.output().unwrap()
    };
    let done = sync(&["-x", "--delete"]);
    let err = String::from_utf8_lossy(&done.stderr);
    if err.contains("mount:") || err.contains("unshare:") {
        println!("skipped: nothing can be mounted here");
        server.stop();
        return;
    }
    assert!(done.status.success(), "{err}");
    assert!(err.contains("is a mount point"), "{err}");
    assert_eq!(files(&to), set(&["a", "m/old", "z/b"]));
    let done = sync(&["--delete"]);
    assert!(done.status.success());
    assert_eq!(files(&to), set(&["a", "m/other", "z/b"]));
    server.stop();
}
