//! What a server's list of keys grants and denies.
#![cfg(target_os = "linux")]

use crate::support;
use crate::support::place::content;
use crate::support::process::{Input, Process, Server};
use crate::support::{Host, Site};
use rustix::process::Signal;
use std::fs;
use std::net::UdpSocket;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const REFUSED: i32 = 4;
const AUTH: i32 = 7;
const PATIENCE: Duration = Duration::from_secs(20);

fn site(options: &str) -> Site {
    let site = Site::new(100);
    site.grant(options.trim_end());
    fs::write(site.file("here"), "from the client").unwrap();
    fs::write(site.root("there"), "from the server").unwrap();
    site
}

fn put(site: &Site, server: &Server, name: &str) -> support::process::Done {
    site.copy(Host::Here, &site.file("here"), &server.url(name))
}

fn get(site: &Site, server: &Server, name: &str) -> support::process::Done {
    site.copy(Host::Here, &server.url(name), &site.file("target"))
}

#[test]
fn a39_a_reader_cannot_write_and_a_writer_cannot_read() {
    let site = site("read-only ");
    let mut server = site.serve();
    get(&site, &server, "there").assert_copied(15, "blake3");
    for name in ["new", "null:", "", "there"] {
        put(&site, &server, name).assert_failed(REFUSED, &["may read here and not write"]);
    }
    assert!(!fs::exists(site.root("new")).unwrap());
    assert_eq!(fs::read(site.root("there")).unwrap(), b"from the server");

    site.grant("write-only ");
    server.process.signal(Signal::HUP);
    server.await_line("read again, 1 keys", PATIENCE);
    put(&site, &server, "new").assert_copied(15, "blake3");
    for name in ["there", "zero:100"] {
        get(&site, &server, name).assert_failed(REFUSED, &["may write here and not read"]);
    }
    server.stop();
    site.assert_nothing_half_done();
}

/// The contents of everything below the server's root, links as what they point to.
fn all_of(site: &Site) -> Vec<(String, Vec<u8>, std::time::SystemTime)> {
    let mut all = Vec::new();
    let mut dirs = vec![std::path::PathBuf::from(site.root(""))];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let meta = fs::symlink_metadata(&path).unwrap();
            let bytes = if meta.is_symlink() {
                fs::read_link(&path)
                    .unwrap()
                    .into_os_string()
                    .into_encoded_bytes()
            } else if meta.is_dir() {
                dirs.push(path.clone());
                continue;
            } else {
                fs::read(&path).unwrap()
            };
            let name = path.strip_prefix(site.root("")).unwrap();
            all.push((name.display().to_string(), bytes, meta.modified().unwrap()));
        }
    }
    all.sort();
    all
}

#[test]
fn a39_a_key_that_only_adds_replaces_and_deletes_nothing() {
    const LARGE: usize = 5 << 20;
    const PARTIAL: i32 = 6;
    let site = site("no-delete ");
    let server = site.serve();
    fs::create_dir(site.root("tree")).unwrap();
    fs::write(site.root("tree/small"), "there").unwrap();
    fs::write(site.root("tree/large"), content("there", LARGE)).unwrap();
    fs::write(site.root("tree/extra"), "there").unwrap();
    std::os::unix::fs::symlink("extra", site.root("tree/link")).unwrap();
    std::os::unix::fs::symlink("extra", site.root("tree/was-link")).unwrap();
    let before = all_of(&site);
    // One by one.
    put(&site, &server, "there").assert_failed(REFUSED, &["\"there\"", "none may be replaced"]);
    // Trees: what is there and differs is named, what is not comes.
    fs::create_dir_all(site.file("tree/sub")).unwrap();
    fs::write(site.file("tree/small"), "another").unwrap();
    fs::write(site.file("tree/large"), content("another", LARGE)).unwrap();
    fs::write(site.file("tree/was-link"), "a file").unwrap();
    std::os::unix::fs::symlink("other", site.file("tree/link")).unwrap();
    let from = site.file("tree/.");
    let url = server.url("tree");
    for refused in [
        &["sync", "--delete", &*from, &*url][..],
        &["sync", "--backup-dir", "old", &*from, &*url],
    ] {
        let args = [&refused[..1], &["--accept-new"], &refused[1..]].concat();
        let done = site.run(Host::Here, "client", &args, Input::None);
        done.assert_failed(REFUSED, &["none may be replaced or deleted"]);
    }
    let done = site.copy_with(Host::Here, &["-a", &from, &url], Input::None);
    done.assert_failed(PARTIAL, &["4 could not be copied"]);
    assert_eq!(all_of(&site), before);
    // What is new comes, in whole and after an interruption, and may be read.
    fs::write(site.file("tree/sub/new"), content("new", LARGE)).unwrap();
    let done = site.copy_with(Host::Here, &["-a", &from, &url], Input::None);
    done.assert_failed(PARTIAL, &["4 could not be copied"]);
    let mut after = all_of(&site);
    after.retain(|(name, ..)| name != "tree/sub/new");
    assert_eq!(after, before);
    assert!(fs::read(site.root("tree/sub/new")).unwrap() == content("new", LARGE));
    put(&site, &server, "new").assert_copied(15, "blake3");
    // The same once more is no change; other content is one.
    put(&site, &server, "new").assert_copied(15, "blake3");
    fs::write(site.file("here"), "from the clienT").unwrap();
    put(&site, &server, "new").assert_failed(REFUSED, &["none may be replaced"]);
    fs::write(site.file("here"), "from the client").unwrap();
    get(&site, &server, "new").assert_copied(15, "blake3");
    server.stop();
    site.assert_nothing_half_done();
}

#[test]
fn a39_a_key_with_a_root_stays_below_it() {
    let site = site("");
    fs::create_dir(site.root("anna")).unwrap();
    fs::write(site.root("anna/own"), "anna's").unwrap();
    site.grant(&format!("root=\"{}\"", site.root("anna")));
    let mut server = site.serve();
    get(&site, &server, "own").assert_copied(6, "blake3");
    put(&site, &server, "new").assert_copied(15, "blake3");
    assert!(fs::exists(site.root("anna/new")).unwrap());
    for name in ["../there", "anna/own", "/there"] {
        let code = get(&site, &server, name).code;
        assert!(matches!(code, Some(3 | REFUSED)), "{name}: {code:?}");
    }
    // A root that is not there is named in the log, and nothing elsewhere is touched.
    site.grant("root=\"/nonexistent/place\" ");
    server.await_line("read again", PATIENCE);
    get(&site, &server, "own").assert_failed(REFUSED, &["root", "log says why"]);
    server.await_line("/nonexistent/place cannot be used now", PATIENCE);
    server.stop();
}

/// What would let a sender in next time is out of its reach, or cannot be replaced.
#[test]
fn a58_files_that_open_doors_stay_as_they_are() {
    let doors = [".ssh/authorized_keys", ".bashrc"];
    let site = site("");
    fs::create_dir_all(site.root("drop")).unwrap();
    fs::create_dir_all(site.root(".ssh")).unwrap();
    fs::create_dir_all(site.file("tree/.ssh")).unwrap();
    for name in doors {
        fs::write(site.root(name), "the owner's").unwrap();
        fs::write(site.file(&format!("tree/{name}")), "the sender's").unwrap();
    }
    let from = site.file("tree/.");
    let before = doors.map(|name| fs::metadata(site.root(name)).unwrap().modified().unwrap());
    let drop_root = format!("root=\"{}\" ", site.root("drop"));
    for (options, up) in [(&*drop_root, "../"), ("no-delete ", "")] {
        site.grant(options.trim_end());
        let server = site.serve();
        for name in doors {
            put(&site, &server, &format!("{up}{name}")).assert_failed(REFUSED, &[]);
        }
        let done = site.copy_with(Host::Here, &["-r", &from, &server.url(up)], Input::None);
        assert_ne!(done.code, Some(0), "{}", done.err);
        for (name, before) in doors.iter().zip(before) {
            let meta = fs::metadata(site.root(name)).unwrap();
            assert_eq!(meta.modified().unwrap(), before, "{options}{name}");
            assert_eq!(fs::read(site.root(name)).unwrap(), b"the owner's");
        }
        server.stop();
    }
}

#[test]
fn a_list_that_changes_is_read_again() {
    let site = site("");
    let mut server = site.serve();
    get(&site, &server, "there").assert_copied(15, "blake3");
    let list = site.config("server").join("authorized_keys");
    let text = fs::read_to_string(&list).unwrap();
    // A mistake changes nothing, and is named with its line.
    fs::write(&list, format!("{text}readonly nonsense\n")).unwrap();
    server.await_line("authorized_keys:2: ", PATIENCE);
    get(&site, &server, "there").assert_copied(15, "blake3");
    fs::write(&list, "# nobody\n").unwrap();
    server.await_line("read again, 0 keys", PATIENCE);
    get(&site, &server, "there").assert_failed(AUTH, &["does not accept this key"]);
    fs::write(&list, text).unwrap();
    server.await_line("read again, 1 keys", PATIENCE);
    get(&site, &server, "there").assert_copied(15, "blake3");
    server.stop();
}

/// Whoever is taken off the list gets in no more, though the server had no descriptor to read it with when it changed.
#[test]
fn a_list_that_could_not_be_read_is_read_when_it_can_be() {
    use rustix::process::{Resource, Rlimit, getrlimit, prlimit};
    let site = site("");
    let mut server = site.serve();
    get(&site, &server, "there").assert_copied(15, "blake3");
    let pid = server.process.pid();
    let may_open = |current| {
        let maximum = getrlimit(Resource::Nofile).maximum;
        let limit = Rlimit { current, maximum };
        prlimit(Some(pid), Resource::Nofile, limit).unwrap()
    };
    let before = may_open(Some(3));
    let list = site.config("server").join("authorized_keys");
    fs::write(&list, "# nobody\n").unwrap();
    server.await_line("stays in force", PATIENCE);
    may_open(before.current);
    server.await_line("read again, 0 keys", PATIENCE);
    get(&site, &server, "there").assert_failed(AUTH, &["does not accept this key"]);
    server.stop();
}

#[test]
fn a40_no_client_passes_the_cap_of_its_key() {
    const BYTES: usize = 6 << 20;
    let site = site("max-rate=\"20mbit\" ");
    fs::write(site.file("big"), content("big", BYTES)).unwrap();
    fs::write(site.root("big"), content("big", BYTES)).unwrap();
    let server = site.serve();
    // All but a queue of 250 ms; the packets' headers come on top.
    let least = Duration::from_secs_f64(BYTES as f64 * 8.0 / 20e6 - 0.25);
    for options in [&[][..], &["--rate", "1gbit"]] {
        let (big, url) = (site.file("big"), server.url("put"));
        let args = [options, &[&*big, &*url]].concat();
        let put = site.copy_with(Host::Here, &args, Input::None);
        put.assert_copied(BYTES as u64, "blake3");
        assert!(put.took >= least, "put in {:?}", put.took);
        let (big, got) = (server.url("big"), site.file("got"));
        let args = [options, &[&*big, &*got]].concat();
        let get = site.copy_with(Host::Here, &args, Input::None);
        get.assert_copied(BYTES as u64, "blake3");
        assert!(get.took >= least, "got in {:?}", get.took);
    }
    server.stop();
}

#[test]
fn systemd_hands_the_socket_over() {
    let activate = "/usr/bin/systemd-socket-activate";
    if !Path::new(activate).exists() {
        println!("skipped: no {activate}");
        return;
    }
    let site = site("");
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    drop(socket);
    let mut command = Command::new(activate);
    command
        .args(["--datagram", "-l", &address.to_string()])
        .args(["-E", "HOWDAH_CONFIG_DIR", "-E", "HOWDAH_DIE_WITH_PARENT"])
        .args([
            env!("CARGO_BIN_EXE_howdah"),
            "serve",
            "--root",
            &site.root(""),
        ])
        .env("HOWDAH_CONFIG_DIR", site.config("server"))
        .env("HOWDAH_DIE_WITH_PARENT", "1");
    if rustix::process::geteuid().is_root() {
        // It hands on what it is told to.
        command.args(["--user", "root"]);
    }
    let mut process = Process::start(command, Input::None, site.limit());
    process.await_line("Listening on", PATIENCE);
    // The first packet starts it.
    let url = support::process::url(address, "there");
    site.copy(Host::Here, &url, &site.file("target"))
        .assert_copied(15, "blake3");
    process.await_line(&format!("on {address}"), PATIENCE);
    process.signal(Signal::TERM);
    assert_eq!(process.finish().code, Some(0));
}

#[test]
fn the_units_of_systemd_hold_together() {
    let analyze = "/usr/bin/systemd-analyze";
    if !Path::new(analyze).exists() {
        println!("skipped: no {analyze}");
        return;
    }
    let site = Site::new(60);
    let units = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/systemd");
    let mut files = Vec::new();
    for name in ["howdah.service", "howdah.socket", "howdah-daemon.service"] {
        let text = fs::read_to_string(units.join(name)).unwrap();
        let text = text.replace("/usr/bin/howdah", env!("CARGO_BIN_EXE_howdah"));
        let file = site.path().join(name);
        fs::write(&file, text).unwrap();
        files.push(file);
    }
    let done = Command::new(analyze)
        .arg("verify")
        .args(&files)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    let ours: Vec<&str> = said
        .lines()
        .filter(|line| line.contains("howdah"))
        .collect();
    assert!(done.status.success() && ours.is_empty(), "{said}");
}

/// H3: what stands in a journal is believed, so nobody may bring one, nor anything else of a copy's own affairs.
#[test]
fn h3_names_of_unfinished_copies_cannot_be_written() {
    let site = site("");
    let server = site.serve();
    for name in [
        ".big.0123456789abcdef.howdah-part",
        ".big.0123456789abcdef.howdah-journal",
        ".howdah-unfinished",
    ] {
        put(&site, &server, name).assert_failed(REFUSED, &["kept for unfinished copies"]);
        assert!(!fs::exists(site.root(name)).unwrap(), "{name}");
    }
    put(&site, &server, "big").assert_copied(15, "blake3");
}

/// H8: a key that may not read learns neither names nor whether something is equal.
#[test]
fn h8_a_writer_who_may_not_read_learns_nothing() {
    let site = site("write-only ");
    let server = site.serve();
    let tree = site.file("tree");
    fs::create_dir(&tree).unwrap();
    fs::write(Path::new(&tree).join("guess"), "from the server").unwrap();
    fs::create_dir(site.root("secrets")).unwrap();
    fs::write(site.root("secrets/guess"), "from the server").unwrap();
    let from = format!("{tree}/");
    let url = server.url("secrets");
    let run = |options: &[&str]| {
        let words = [&["sync", "--accept-new"], options, &[&*from, &*url]].concat();
        site.run(Host::Here, "client", &words, Input::None)
    };
    for options in [
        &["--dry-run"][..],
        &["--delete", "--dry-run"],
        &["--checksum"],
        &["--checksum", "--dry-run"],
        &["--link-dest", "../secrets"],
    ] {
        run(options).assert_failed(REFUSED, &["would tell what is there"]);
    }
    // What is equal comes all the same, and again.
    for _ in 0..2 {
        let done = run(&["--json"]);
        assert_eq!(done.code, Some(0), "{}", done.err);
        let tree = &done.json()["tree"];
        assert_eq!(
            (tree["files"].as_u64(), tree["unchanged"].as_u64()),
            (Some(1), Some(0))
        );
    }
}

/// What a key costs has bounds, and who it is good for, and how long.
#[test]
fn h9_h11_keys_have_quotas_days_and_networks() {
    let site = site("max-bytes=\"20\",max-files=\"2\" ");
    let mut server = site.serve();
    let tree = site.file("tree");
    fs::create_dir(&tree).unwrap();
    for name in ["a", "b"] {
        fs::write(Path::new(&tree).join(name), "1234567890").unwrap();
    }
    let put_tree = |to: &str| {
        let words = ["cp", "--accept-new", "-r", &*tree, &*server.url(to)];
        site.run(Host::Here, "client", &words, Input::None)
    };
    let done = put_tree("fits");
    assert_eq!(done.code, Some(0), "{}", done.err);
    fs::write(Path::new(&tree).join("c"), "").unwrap();
    put_tree("many").assert_failed(REFUSED, &["more than 2 files"]);
    fs::remove_file(Path::new(&tree).join("c")).unwrap();
    fs::write(Path::new(&tree).join("b"), "1234567890x").unwrap();
    put_tree("much").assert_failed(REFUSED, &["more than 20 bytes"]);
    put(&site, &server, "one").assert_copied(15, "blake3");
    fs::write(site.file("long"), content("long", 21)).unwrap();
    site.copy(Host::Here, &site.file("long"), &server.url("long"))
        .assert_failed(REFUSED, &["more than 20 bytes"]);
    let pipe = Input::Bytes(content("pipe", 2_000_000));
    site.copy_with(Host::Here, &["-", &server.url("pipe")], pipe)
        .assert_failed(REFUSED, &["more than 20 bytes"]);

    for (options, word) in [
        ("expires=\"2020-02-29\" ", "was good until 2020-02-29"),
        (
            "from=\"192.0.2.0/24,2001:db8::/32\" ",
            "is not good from 127.0.0.1",
        ),
    ] {
        site.grant(options.trim_end());
        server.process.signal(Signal::HUP);
        server.await_line("read again, 1 keys", PATIENCE);
        put(&site, &server, "new").assert_failed(AUTH, &[word]);
    }
    site.grant("expires=\"2999-01-01\",from=\"127.0.0.0/8\",max-sessions=\"1\"");
    server.process.signal(Signal::HUP);
    server.await_line("read again, 1 keys", PATIENCE);
    put(&site, &server, "new").assert_copied(15, "blake3");
    // One session stays open, whose source says nothing.
    let args = ["-", &*server.url("waits")];
    let first = site.start_copy(Host::Here, &args, Input::Held(content("held", 100_000)));
    first.await_fed();
    server.await_line("connected", PATIENCE);
    let args = [
        "--reconnect",
        "0",
        &*site.file("here"),
        &*server.url("second"),
    ];
    site.copy_with(Host::Here, &args, Input::None)
        .assert_failed(5, &["1 sessions at a time"]);
    drop(first);
}

/// Where the directory of a key lies is nothing that its holder hears.
#[test]
fn what_a_server_tells_names_paths_below_the_root_of_the_key() {
    let site = Site::new(100);
    let root = site.root("sub");
    fs::create_dir_all(format!("{root}/tree/full")).unwrap();
    fs::write(format!("{root}/tree/full/f"), "text").unwrap();
    let fifo = format!("{root}/tree/fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &*fifo, rustix::fs::Mode::RUSR).unwrap();
    fs::create_dir(site.file("empty")).unwrap();
    fs::write(site.file("f"), "text").unwrap();
    site.grant(&format!("root=\"{root}\""));
    let server = site.serve();
    let (empty, file, target) = (site.file("empty"), site.file("f"), site.file("got"));
    let (tree, full, none) = (
        server.url("tree"),
        server.url("tree/full"),
        server.url("no/"),
    );
    for (args, part) in [
        // What a sender leaves out.
        (&["cp", "-r", &*tree, &*target][..], "\"tree/fifo\""),
        // What a receiver does not do.
        (
            &["sync", "--delete", &*empty, &*full],
            "\"tree/full\": nothing was deleted",
        ),
        (&["cp", "-r", &*file, &*none], "\"no\""),
        (&["cp", &*tree, &*target], "\"tree\" is a directory"),
        (&["cp", &*tree, "-"], "\"tree\" is a directory"),
    ] {
        let args = [&args[..1], &["--accept-new"], &args[1..]].concat();
        let done = site.run(Host::Here, "client", &args, Input::None);
        assert!(done.err.contains(part), "{args:?}: {}", done.err);
        assert!(!done.err.contains(&root), "{args:?}: {}", done.err);
    }
    // What comes through a pipe and has no name.
    let top = server.url("");
    let args = ["cp", "--accept-new", "-", &top];
    let done = site.run(Host::Here, "client", &args, Input::Bytes(b"x".to_vec()));
    done.assert_failed(REFUSED, &["it is a directory"]);
    assert!(!done.err.contains(&root), "{}", done.err);
    server.stop();
}

/// With a slash behind its name or without, a directory that is to be copied as a file is told as that.
#[test]
fn a_directory_is_one_whatever_stands_behind_its_name() {
    let site = site("");
    fs::create_dir(site.root("dir")).unwrap();
    let server = site.serve();
    for name in ["dir", "dir/", "dir//"] {
        let done = get(&site, &server, name);
        done.assert_failed(REFUSED, &["is a directory", "copy it with -r"]);
    }
    get(&site, &server, "none/").assert_failed(3, &["does not exist"]);
    get(&site, &server, "there/").assert_failed(REFUSED, &["ends with a slash"]);
    server.stop();
}
