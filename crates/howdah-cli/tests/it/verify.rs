//! `howdah verify`: here, beside a real server, over a real sshd.
#![cfg(target_os = "linux")]

use crate::support;
use crate::support::place::{LoopDisk, content};
use crate::support::process::{Done, Input, Process, Server};
use crate::support::schema::violations;
use crate::support::sshd::Sshd;
use crate::support::{Host, Site};
use serde_json::Value;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

// As `howdah --help` lists them.
const USAGE: i32 = 2;
const NOT_FOUND: i32 = 3;
const REFUSED: i32 = 4;
const PARTIAL: i32 = 6;
const DIFFERENT: i32 = 15;

const BIG: usize = 20 << 20;
/// In the middle of a MiB in the middle of [`BIG`].
const FLIPPED: usize = (11 << 20) + 12_345;

fn verify(site: &Site, args: &[&str]) -> Done {
    let args = [&["verify", "--accept-new"], args].concat();
    site.run(Host::Here, "client", &args, Input::None)
}

fn lines(done: &Done) -> Vec<String> {
    let out = String::from_utf8(done.out.clone()).unwrap();
    out.lines().map(str::to_owned).collect()
}

#[track_caller]
fn assert_equal(done: &Done) {
    assert_eq!(done.code, Some(0), "{}\n{:?}", done.err, lines(done));
    assert_eq!(lines(done), Vec::<String>::new());
    assert!(done.err.contains("howdah: equal: "), "{}", done.err);
}

#[track_caller]
fn assert_differ(done: &Done, expected: &[&str]) {
    assert_eq!(done.code, Some(DIFFERENT), "{}", done.err);
    assert_eq!(lines(done), expected);
    assert!(!done.err.contains("howdah: equal"), "{}", done.err);
    assert!(!done.err.contains('\x1b'), "{}", done.err);
}

fn write(path: &Path, bytes: &[u8]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

/// The same tree wherever it is made.
fn make_tree(at: &Path) {
    for index in 0..200 {
        let name = format!("many/{index}");
        write(&at.join(&name), &content(&name, index * 31));
    }
    write(&at.join("big"), &content("big", BIG));
    write(&at.join("a dir/deep/file"), b"abc");
    write(&at.join("evil\x1b[2J\nname/f\n"), b"abc");
    write(
        &at.join(std::ffi::OsStr::from_bytes(b"not\xffunicode")),
        b"abc",
    );
    fs::create_dir(at.join("empty")).unwrap();
    symlink("many/7", at.join("link")).unwrap();
}

/// Makes the tree in b differ from that in a in each way.
fn change(a: &Path, b: &Path) -> Vec<&'static str> {
    let mut flipped = content("big", BIG);
    flipped[FLIPPED] ^= 0x80;
    write(&b.join("big"), &flipped);
    write(&b.join("many/150"), b"short");
    fs::remove_file(b.join("many/20")).unwrap();
    write(&b.join("many/20/now a directory"), b"x");
    write(&b.join("many/new \x1b]0;title\x07"), b"x");
    fs::remove_dir_all(b.join("a dir")).unwrap();
    fs::remove_file(b.join("evil\x1b[2J\nname/f\n")).unwrap();
    fs::remove_file(b.join("link")).unwrap();
    symlink("many/8", b.join("link")).unwrap();
    write(&b.join("extra/with/files"), b"x");
    assert!(a.join("a dir").exists());
    vec![
        "differs: contents (first difference within bytes 11534336..12582912)  big",
        "differs: target  link",
        "missing in B  a dir/",
        r"missing in B  evil\u{1b}[2J\nname/f\n",
        "missing in A  extra/",
        "differs: size (4650, 5)  many/150",
        "differs: kind (file, directory)  many/20",
        r"missing in A  many/new \u{1b}]0;title\u{7}",
    ]
}

/// The same with the sides changed.
fn turned(expected: &[&'static str]) -> Vec<String> {
    let turn = |line: &&str| {
        line.replace("in A", "in ?")
            .replace("in B", "in A")
            .replace("in ?", "in B")
            .replace("(4650, 5)", "(5, 4650)")
            .replace("(file, directory)", "(directory, file)")
    };
    expected.iter().map(turn).collect()
}

#[test]
fn each_difference_is_named_here_and_beside_a_server() {
    let site = Site::new(150);
    let (here, there) = (site.file("tree"), site.root("tree"));
    make_tree(Path::new(&here));
    make_tree(Path::new(&there));
    let server = site.serve();
    let url = server.url("tree");
    for pair in [[&*here, &there], [&here, &url], [&url, &here], [&url, &url]] {
        assert_equal(&verify(&site, &pair));
    }
    // A quick look, and nothing said.
    let sync = ["sync", "--accept-new", &here, &server.url("copy")];
    let copy = site.run(Host::Here, "client", &sync, Input::None);
    assert_eq!(copy.code, Some(0), "{}", copy.err);
    assert_equal(&verify(&site, &["--quick", &here, &server.url("copy")]));
    let quiet = verify(&site, &["--quiet", &here, &url]);
    assert_eq!((quiet.code, &*quiet.err, quiet.out.len()), (Some(0), "", 0));

    let expected = change(Path::new(&here), Path::new(&there));
    assert_differ(&verify(&site, &[&here, &there]), &expected);
    assert_differ(&verify(&site, &[&here, &url]), &expected);
    let turned = turned(&expected);
    let turned: Vec<_> = turned.iter().map(String::as_str).collect();
    assert_differ(&verify(&site, &[&url, &here]), &turned);
    let quiet = verify(&site, &["--quiet", &here, &url]);
    assert_eq!(
        (quiet.code, &*quiet.err, quiet.out.len()),
        (Some(DIFFERENT), "", 0)
    );
    let words = verify(&site, &[&here, &url]).err;
    let counts = "4 missing in A, 4 missing in B, 4 differing: ";
    assert!(words.contains(counts), "{words}");

    // Rules and lists.
    let rules = ["--exclude", "*", &here, &url];
    assert_equal(&verify(&site, &rules));
    let rules = [
        "--include",
        "big",
        "--include",
        "extra/",
        "--exclude",
        "/*",
        &here,
        &url,
    ];
    assert_differ(&verify(&site, &rules), &[expected[0], expected[4]]);
    let list = site.file("list");
    fs::write(&list, "many/150\nmany/151\na dir\n").unwrap();
    let listed = ["--files-from", &list, &here, &url];
    assert_differ(&verify(&site, &listed), &[expected[2], expected[5]]);
    // One that is too long for a request.
    let long: Vec<String> = (0..6000).map(|i| format!("many/of/no/use/{i}")).collect();
    fs::write(&list, format!("big\n{}\n", long.join("\n"))).unwrap();
    let done = verify(&site, &listed);
    done.assert_failed(PARTIAL, &["on neither side"]);
    assert_eq!(lines(&done), [expected[0]]);

    // Single files, and a file beside a directory.
    let (file, other) = (site.file("tree/big"), server.url("tree/big"));
    assert_differ(&verify(&site, &[&file, &other]), &expected[..1]);
    assert_equal(&verify(
        &site,
        &[&site.file("tree/many/9"), &server.url("tree/many/9")],
    ));
    let kinds = "differs: kind (file, directory)  .";
    assert_differ(&verify(&site, &[&file, &url]), &[kinds]);
    server.stop();
}

#[test]
fn attributes_are_compared_if_they_are_asked_for() {
    let site = Site::new(60);
    let (here, there) = (site.file("tree"), site.root("tree"));
    for at in [&here, &there] {
        write(&Path::new(at).join("mode"), b"x");
        write(&Path::new(at).join("time"), b"x");
        let mode = fs::Permissions::from_mode(0o644);
        fs::set_permissions(Path::new(at).join("mode"), mode).unwrap();
        for name in ["mode", "time", ""] {
            let file = fs::File::open(Path::new(at).join(name)).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        }
    }
    let server = site.serve();
    let args = ["-a", &here, &server.url("tree")];
    assert_equal(&verify(&site, &args));
    let changed = Path::new(&there);
    fs::set_permissions(changed.join("mode"), fs::Permissions::from_mode(0o604)).unwrap();
    let later = SystemTime::UNIX_EPOCH + Duration::from_millis(3500);
    let file = fs::File::open(changed.join("time")).unwrap();
    file.set_modified(later).unwrap();
    let done = verify(&site, &args);
    assert_differ(
        &done,
        &[
            "differs: mode (0644, 0604)  mode",
            "differs: time (1970-01-01T00:00:00Z, 1970-01-01T00:00:03.5Z)  time",
        ],
    );
    assert_equal(&verify(&site, &args[1..]));
    let quick = verify(&site, &["--quick", &here, &server.url("tree")]);
    assert_eq!(lines(&quick).len(), 1, "{:?}", lines(&quick));
    server.stop();
}

#[test]
fn places_on_machines_that_ssh_reaches() {
    let site = Site::new(150);
    let Some(sshd) = Sshd::start(&site, Host::Here, "127.0.0.1") else {
        return;
    };
    let (here, there) = (site.file("tree"), site.root("tree"));
    make_tree(Path::new(&here));
    make_tree(Path::new(&there));
    let ssh = sshd.ssh();
    let run = |args: &[&str]| {
        let args = [&["verify", "--ssh", &ssh], args].concat();
        site.run(Host::Here, "nobody", &args, Input::None)
    };
    assert_equal(&run(&[&here, "far:tree"]));
    assert_equal(&run(&["--transport", "tcp", "far:tree/", &here]));
    // Both over there, and one on a server.
    assert_equal(&run(&["far:tree", "far2:tree"]));
    let expected = change(Path::new(&here), Path::new(&there));
    assert_differ(&run(&[&here, "far:tree"]), &expected);
    let absolute = format!("far2:{here}");
    assert_differ(&run(&[&absolute, "far:tree"]), &expected);
    assert_differ(
        &run(&[&site.file("tree/big"), "far:tree/big"]),
        &expected[..1],
    );
    run(&[&here, "far:none"]).assert_failed(NOT_FOUND, &["far:", "none"]);
    run(&["far:none", "far2:tree"]).assert_failed(NOT_FOUND, &["none"]);
    // Nothing was written anywhere.
    assert_eq!(fs::read(site.root("tree/big")).unwrap().len(), BIG);
    assert!(!site.config("nobody").exists());
    site.assert_nothing_half_done();
}

#[test]
fn a39_who_may_only_write_learns_nothing_of_contents() {
    let site = Site::new(60);
    write(Path::new(&site.file("f")), b"secret");
    write(Path::new(&site.root("f")), b"secret");
    for (options, code) in [("read-only", 0), ("write-only", REFUSED)] {
        site.grant(options);
        let server = site.serve();
        for (a, b) in [("f", "f"), ("", "")] {
            for extra in [&["--quick"][..], &[]] {
                let there = server.url(b);
                let here = site.file(a);
                let done = verify(&site, &[extra, &[&*here, &there]].concat());
                if code == 0 {
                    assert!(matches!(done.code, Some(0 | DIFFERENT)), "{}", done.err);
                } else {
                    done.assert_failed(code, &["may write here and not read"]);
                    assert!(done.out.is_empty());
                }
            }
        }
        server.stop();
    }
}

/// Runs howdah without root's right to read everything.
fn humble(site: &Site, who: &str, args: &[&str]) -> Process {
    let mut command = Command::new("setpriv");
    command
        .args(["--bounding-set=-dac_override,-dac_read_search"])
        .arg(env!("CARGO_BIN_EXE_howdah"))
        .args(args)
        .env("HOWDAH_CONFIG_DIR", site.config(who))
        .env("XDG_RUNTIME_DIR", site.run_dir())
        .env("HOWDAH_DIE_WITH_PARENT", "1");
    support::serve_as_us(&mut command);
    Process::start(command, Input::None, site.limit())
}

#[test]
fn what_cannot_be_read_is_named_and_neither_equal_nor_missing() {
    let site = Site::new(60);
    if !Path::new("/usr/bin/setpriv").exists() {
        println!("skipped: no /usr/bin/setpriv");
        return;
    }
    let (here, there) = (site.file("tree"), site.root("tree"));
    for at in [&here, &there] {
        let at = Path::new(at);
        write(&at.join("closed\nfile"), b"abc");
        write(&at.join("dir/inside"), b"abc");
        write(&at.join("fine"), b"abc");
    }
    let set_mode = |path: &str, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    set_mode(&site.root("tree/closed\nfile"), 0);
    set_mode(&site.root("tree/dir"), 0);
    let args = ["serve", "--listen", "127.0.0.1:0", "--root", &site.root("")];
    let server = Server::new(humble(&site, "server", &args));
    let url = server.url("tree");
    let expected = [r"unread in B  closed\nfile", "unread in B  dir/"];
    let done = verify(&site, &[&here, &url]);
    done.assert_failed(
        PARTIAL,
        &["B: permission denied", r"closed\nfile", "could not be read"],
    );
    assert_eq!(lines(&done), expected);
    let local = humble(&site, "client", &["verify", &here, &there]).finish();
    local.assert_failed(PARTIAL, &["B: permission denied", r"closed\nfile"]);
    assert_eq!(lines(&local), expected);
    // More than one thing is wrong: that something is unread counts.
    write(Path::new(&site.file("tree/fine")), b"abd");
    let json = verify(&site, &["--json", &here, &url]);
    assert_eq!(json.code, Some(PARTIAL), "{}", json.err);
    let summary = json.json();
    assert_eq!(summary["verify"]["unread"], 2, "{summary}");
    assert_eq!(summary["verify"]["differing"], 1, "{summary}");
    assert_eq!(summary["verify"]["equal"], false, "{summary}");
    // The place itself.
    let closed = humble(&site, "client", &["verify", &site.root("tree/dir"), &here]).finish();
    closed.assert_failed(REFUSED, &["permission denied", "tree/dir"]);
    server.stop();
    set_mode(&site.root("tree/dir"), 0o755);
}

/// What a disk has and what memory remembers of it are two things.
#[test]
fn f23_what_memory_hides_is_found_by_reading_the_devices() {
    let site = Site::new(120);
    let (here, there) = (site.file("tree"), site.root("tree"));
    let image = site.file("disk");
    make_tree(Path::new(&here));
    let Some(_disk) = LoopDisk::make(&image, 64, &site.root("")) else {
        return;
    };
    make_tree(Path::new(&there));
    let server = site.serve();
    let url = server.url("tree");
    // Never synced: what is not on the disk yet is written before it is read.
    for pair in [[&*here, &there], [&here, &url], [&url, &url]] {
        let done = verify(&site, &["--reread", pair[0], pair[1]]);
        assert_equal(&done);
        assert!(done.err.contains("read from the devices"), "{}", done.err);
    }
    let json = verify(&site, &["--reread", "--json", &here, &url]);
    assert_eq!(json.json()["verify"]["compared_by"], "reread");
    // Into memory, and then the disk rots below it.
    assert_equal(&verify(&site, &[&here, &url]));
    rot(&image, &content("big", BIG), FLIPPED);
    assert_equal(&verify(&site, &[&here, &there]));
    assert_equal(&verify(&site, &[&here, &url]));
    let expected = ["differs: contents (first difference within bytes 11534336..12582912)  big"];
    assert_differ(&verify(&site, &["--reread", &here, &url]), &expected);
    assert_differ(&verify(&site, &["--reread", &here, &there]), &expected);
    let both = ["--reread", "--quick", &*here, &url];
    verify(&site, &both).assert_failed(USAGE, &["--reread", "--quick"]);
    server.stop();
}

/// Changes one byte of a file in a file system, where the disk has it.
fn rot(image: &str, file: &[u8], at: usize) {
    use std::os::unix::fs::FileExt as _;
    // The smallest that ext4 has; small disks have it.
    const BLOCK: usize = 1024;
    let disk = fs::read(image).unwrap();
    let block = &file[at / BLOCK * BLOCK..][..BLOCK];
    let mut found = disk.chunks(BLOCK).enumerate().filter(|(_, b)| *b == block);
    let (index, _) = found.next().unwrap();
    assert!(found.next().is_none(), "the block is there twice");
    let place = index * BLOCK + at % BLOCK;
    let image = fs::File::options().write(true).open(image).unwrap();
    image
        .write_all_at(&[disk[place] ^ 0x80], place as u64)
        .unwrap();
}

#[test]
fn the_events_of_a_comparison_are_those_of_the_schema() {
    let site = Site::new(60);
    let (here, there) = (site.file("tree"), site.root("tree"));
    make_tree(Path::new(&here));
    make_tree(Path::new(&there));
    let server = site.serve();
    let schema: Value =
        serde_json::from_str(include_str!("../../../../docs/howdah-events.schema.json")).unwrap();
    let url = server.url("tree");
    let events = |args: &[&str]| {
        let done = verify(&site, &[&["--json"], args].concat());
        let events: Vec<Value> = lines(&done)
            .iter()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        for event in &events {
            let wrong = violations(&schema, event);
            assert!(wrong.is_empty(), "{event}: {wrong:?}");
        }
        assert!(!done.out.contains(&0x1b) && !done.err.contains('\x1b'));
        (done.code, events)
    };
    let (code, equal) = events(&[&here, &url]);
    assert_eq!(code, Some(0));
    assert_eq!(equal[0]["event"], "start");
    assert_eq!(equal[0]["command"], "verify");
    assert!(equal.iter().all(|event| event["event"] != "difference"));
    let last = equal.last().unwrap();
    assert_eq!(last["event"], "summary");
    assert_eq!(last["verify"]["equal"], true, "{last}");
    assert_eq!(last["verify"]["compared_by"], "blake3", "{last}");
    assert_eq!(last["verify"]["files"], 204, "{last}");

    let expected = change(Path::new(&here), Path::new(&there));
    let (code, different) = events(&[&here, &url]);
    assert_eq!(code, Some(DIFFERENT));
    let found: Vec<_> = different
        .iter()
        .filter(|event| event["event"] == "difference")
        .collect();
    assert_eq!(found.len(), expected.len());
    assert_eq!(found[0]["what"], "contents");
    assert_eq!(found[0]["start_byte"], 11 << 20);
    assert_eq!(found[0]["end_byte"], 12 << 20);
    let odd = found[7];
    assert_eq!(odd["what"], "missing_in_a");
    assert_eq!(odd["name"], r"many/new \u{1b}]0;title\u{7}");
    assert!(odd["name_base64"].is_string());
    let whole = found.iter().find(|event| event["name"] == "a dir").unwrap();
    assert_eq!(whole["names_inside"], 2, "{whole}");
    assert_eq!(different.last().unwrap()["verify"]["equal"], false);
    server.stop();
}

#[test]
fn what_makes_no_sense_is_said() {
    let site = Site::new(60);
    write(Path::new(&site.file("f")), b"x");
    let here = site.file("f");
    for bad in ["-", "null:", "zero:1GiB"] {
        verify(&site, &[&here, bad]).assert_failed(USAGE, &["cannot be compared"]);
    }
    verify(&site, &[&here]).assert_failed(USAGE, &["<B>"]);
    verify(&site, &[&here, &site.file("none")]).assert_failed(NOT_FOUND, &["none"]);
    let server = site.serve();
    verify(&site, &[&here, &server.url("none")]).assert_failed(NOT_FOUND, &["none"]);
    for escape in ["../f", "a/../../f"] {
        verify(&site, &[&here, &server.url(escape)]).assert_failed(REFUSED, &["refused"]);
    }
    let rule = ["--exclude", "a[", &*here, &server.url("f")];
    verify(&site, &rule).assert_failed(USAGE, &["makes no sense"]);
    server.stop();
}

#[test]
fn a_side_that_goes_away_is_an_error_and_no_difference() {
    let site = Site::new(60);
    let (here, there) = (site.file("big"), site.root("big"));
    for path in [&here, &there] {
        // Holes are hashed as well, so this takes a while.
        fs::File::create(path).unwrap().set_len(64 << 30).unwrap();
    }
    let server = site.serve();
    let args = [
        "verify",
        "--accept-new",
        "--progress",
        "--idle-timeout",
        "2s",
    ];
    let url = server.url("big");
    let args = [&args[..], &[&here, &url]].concat();
    let mut client = site.start(Host::Here, "client", &args, Input::None);
    client.await_line("goodput", Duration::from_secs(30));
    drop(server);
    let done = client.finish();
    done.assert_failed(5, &[]);
    assert!(done.out.is_empty(), "{:?}", lines(&done));

    // And one whose user has seen enough.
    let server = site.serve();
    let url = server.url("big");
    let args = [&args[..5], &[&here, &url]].concat();
    let mut client = site.start(Host::Here, "client", &args, Input::None);
    client.await_line("goodput", Duration::from_secs(30));
    client.signal(rustix::process::Signal::INT);
    client.finish().assert_failed(12, &["interrupted"]);
    server.stop();
}
