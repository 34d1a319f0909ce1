//! Names, directories, file systems and limits that are not as usual: F05, F16, F24, F26, F36, F37, F61, F62, F63, F64.
#![cfg(target_os = "linux")]

use crate::support;
use crate::support::place::{content, hash_of};
use crate::support::process::{Input, Process, Server};
use crate::support::relay::{Fate, Relay, Way};
use crate::support::{Host, Site, await_kept, parts};
use rustix::process::Signal;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::Path;
use std::process::Command;

// As `howdah --help` lists them.
const OTHER: i32 = 1;
const NETWORK: i32 = 5;
const PARTIAL: i32 = 6;
const MIB: usize = 1 << 20;

/// A server under a limit of the shell.
fn limited(site: &Site, limit: &str) -> Server {
    let mut command = Command::new("bash");
    command
        .args(["-c", &format!("{limit}; exec \"$@\""), "limited"])
        .arg(env!("CARGO_BIN_EXE_howdah"))
        .args(["serve", "--listen", "127.0.0.1:0", "--root", &site.root("")])
        .env("HOWDAH_CONFIG_DIR", site.config("server"))
        .env("HOWDAH_DIE_WITH_PARENT", "1");
    support::serve_as_us(&mut command);
    Server::new(Process::start(command, Input::None, site.limit()))
}

#[test]
fn f05_a_second_signal_ends_at_once_and_the_copy_goes_on_all_the_same() {
    const SIZE: usize = 60 * MIB;
    let site = Site::new(60);
    let server = site.serve();
    fs::write(site.root("source"), content("twice", SIZE)).unwrap();
    let relay = Relay::start(server.address, |_, datagram| Fate::pass(datagram));
    let args = [
        "--limit",
        "100mbit",
        &*relay.url("source"),
        &*site.file("target"),
    ];
    let client = site.start_copy(Host::Here, &args, Input::None);
    await_kept(&site, &site.file(""));
    client.signal(Signal::INT);
    client.signal(Signal::INT);
    let done = client.finish();
    assert!(
        matches!(done.code, Some(12 | 130)),
        "{:?}: {}",
        done.code,
        done.err
    );
    assert!(!fs::exists(site.file("target")).unwrap());
    let done = site.copy(Host::Here, &server.url("source"), &site.file("target"));
    done.assert_copied(SIZE as u64, "blake3");
    assert!(done.json()["resumed_bytes"].as_u64().unwrap() > 0);
    server.stop();
}

/// The limit ends that file, not the server, and the others of a tree come.
#[test]
fn f16_a_file_beyond_the_limit_of_sizes_is_named_and_others_come() {
    let site = Site::new(60);
    let server = limited(&site, "ulimit -f 8192");
    fs::create_dir(site.file("tree")).unwrap();
    fs::write(site.file("tree/big"), content("big", 20 * MIB)).unwrap();
    fs::write(site.file("tree/fits"), content("fits", 5 * MIB)).unwrap();
    fs::write(site.file("tree/small"), "small").unwrap();
    let put = site.copy(Host::Here, &site.file("tree/big"), &server.url("big"));
    put.assert_failed(OTHER, &["\"big\"", "File too large"]);
    let args = ["-r", &*site.file("tree/."), &*server.url("there")];
    let done = site.copy_with(Host::Here, &args, Input::None);
    done.assert_failed(PARTIAL, &["there/big\"", "1 could not be copied"]);
    for name in ["fits", "small"] {
        let there = site.root(&format!("there/{name}"));
        assert_eq!(
            hash_of(&there),
            hash_of(&site.file(&format!("tree/{name}")))
        );
    }
    site.assert_nothing_half_done();
    server.stop();
}

/// The directory is moved away and a link to elsewhere takes its name: the file goes to the directory that was meant
/// when the copy began, which is said.
#[test]
fn f24_a_directory_that_is_replaced_by_a_link_meanwhile_leads_nowhere() {
    const SIZE: usize = 40 * MIB;
    let site = Site::new(60);
    let server = site.serve();
    fs::write(site.file("source"), content("moved", SIZE)).unwrap();
    fs::create_dir(site.root("dir")).unwrap();
    fs::create_dir(site.file("outside")).unwrap();
    let relay = Relay::start(server.address, |_, datagram| Fate::pass(datagram));
    let args = [
        "--limit",
        "200mbit",
        &*site.file("source"),
        &*relay.url("dir/file"),
    ];
    let client = site.start_copy(Host::Here, &args, Input::None);
    relay.await_bytes(Way::ToServer, 20 << 20, site.limit());
    fs::rename(site.root("dir"), site.root("moved")).unwrap();
    symlink(site.file("outside"), site.root("dir")).unwrap();
    client.finish().assert_failed(4, &["renamed or replaced"]);
    assert_eq!(fs::read_dir(site.file("outside")).unwrap().count(), 0);
    assert_eq!(
        hash_of(&site.root("moved/file")),
        hash_of(&site.file("source"))
    );
    // Through the link nothing is written.
    let put = site.copy(Host::Here, &site.file("source"), &server.url("dir/file"));
    put.assert_failed(4, &["dir"]);
    assert_eq!(fs::read_dir(site.file("outside")).unwrap().count(), 0);
    server.stop();
    site.assert_nothing_half_done();
}

/// A file system made of two: small, large and sparse files, and one that is interrupted.
#[test]
fn f26_on_an_overlay_everything_works() {
    let site = Site::new(100);
    for name in ["lower", "upper", "work"] {
        fs::create_dir(site.file(name)).unwrap();
    }
    fs::write(site.file("lower/old"), "from below").unwrap();
    let options = format!(
        "lowerdir={},upperdir={},workdir={}",
        site.file("lower"),
        site.file("upper"),
        site.file("work")
    );
    let mounted = Command::new("mount")
        .args([
            "-t",
            "overlay",
            "howdah-test",
            "-o",
            &options,
            &site.root(""),
        ])
        .output()
        .unwrap();
    if !mounted.status.success() {
        println!(
            "skipped: no overlay: {}",
            String::from_utf8_lossy(&mounted.stderr)
        );
        return;
    }
    let server = site.serve();
    fs::create_dir_all(site.file("tree/sub")).unwrap();
    fs::write(site.file("tree/old"), "from above").unwrap();
    fs::write(site.file("tree/sub/large"), content("overlay", 9 * MIB + 1)).unwrap();
    let sparse = fs::File::create(site.file("tree/sparse")).unwrap();
    sparse.set_len(20 << 20).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&sparse, b"data", 10 << 20).unwrap();
    let args = ["-a", &*site.file("tree/."), &*server.url("")];
    let done = site.copy_with(Host::Here, &args, Input::None);
    let copied = (done.code, done.err.clone());
    let same = ["old", "sub/large", "sparse"].map(|name| {
        let there = site.root(name);
        fs::exists(&there).unwrap()
            && hash_of(&there) == hash_of(&site.file(&format!("tree/{name}")))
    });
    server.stop();
    let unmounted = Command::new("umount").arg("-l").arg(site.root("")).status();
    assert!(unmounted.unwrap().success());
    assert_eq!(copied.0, Some(0), "{}", copied.1);
    assert_eq!(same, [true; 3]);
    assert_eq!(fs::read(site.file("lower/old")).unwrap(), b"from below");
}

/// Every name that a file can have comes back as it was, and what is shown of it does no harm.
#[test]
fn f36_names_come_back_byte_for_byte() {
    let site = Site::new(60);
    let server = site.serve();
    let long = "n".repeat(255);
    let names: [&[u8]; 16] = [
        b"new\nline",
        b"tab\tand\x1b[31mcolour\x07",
        b"invalid \xff\xfe utf-8",
        b"-rf",
        b"--delete",
        b"..x",
        b"...",
        b"trailing space ",
        b"trailing dot.",
        b"back\\slash",
        b"quote\"'`$(id)",
        "e\u{301}".as_bytes(),
        "\u{e9}".as_bytes(),
        b"case",
        b"CASE",
        long.as_bytes(),
    ];
    fs::create_dir(site.file("tree")).unwrap();
    for name in names {
        fs::write(
            Path::new(&site.file("tree")).join(OsStr::from_bytes(name)),
            name,
        )
        .unwrap();
    }
    let put = site.copy_with(
        Host::Here,
        &["-r", &site.file("tree/."), &server.url("there")],
        Input::None,
    );
    assert_eq!(put.code, Some(0), "{}", put.err);
    let get = site.copy_with(
        Host::Here,
        &["-r", &server.url("there/."), &site.file("back")],
        Input::None,
    );
    assert_eq!(get.code, Some(0), "{}", get.err);
    for dir in [site.root("there"), site.file("back")] {
        for name in names {
            let path = Path::new(&dir).join(OsStr::from_bytes(name));
            assert_eq!(fs::read(&path).unwrap(), name, "{path:?}");
        }
        assert_eq!(fs::read_dir(&dir).unwrap().count(), names.len());
    }
    for done in [put, get] {
        let out = String::from_utf8_lossy(&done.out);
        let shown = out.chars().chain(done.err.chars());
        let bad: String = shown.filter(|c| c.is_control() && *c != '\n').collect();
        assert_eq!(bad, "", "{}", done.err);
    }
    server.stop();
}

/// The same for a file alone: its name goes with it, and it is asked for by that name.
#[test]
fn f36_a_single_file_keeps_its_name_byte_for_byte() {
    let site = Site::new(60);
    let server = site.serve();
    for dir in [site.root("there"), site.file("back")] {
        fs::create_dir(dir).unwrap();
    }
    let below = |dir: String, name: &[u8]| Path::new(&dir).join(OsStr::from_bytes(name));
    let names: [&[u8]; 4] = [
        b"invalid \xff\xfe utf-8",
        b"\xe9",
        b"new\nline\x1b[31m",
        b"plain",
    ];
    for name in names {
        let source = below(site.file(""), name);
        fs::write(&source, name).unwrap();
        let (back, far) = (below(site.file("back"), b""), server.url("there/"));
        let url = [far.as_bytes(), name].concat();
        for (from, to) in [
            (source.as_os_str(), OsStr::new(&far)),
            (OsStr::from_bytes(&url), back.as_os_str()),
        ] {
            let args = ["cp", "--json", "--accept-new"].map(OsStr::new);
            let args = [&args[..], &[from, to]].concat();
            let done = site
                .start(Host::Here, "client", &args, Input::None)
                .finish();
            assert_eq!(done.code, Some(0), "{}", done.err);
            let out = String::from_utf8(done.out).unwrap();
            let shown = out.chars().chain(done.err.chars());
            let bad: String = shown.filter(|c| c.is_control() && *c != '\n').collect();
            assert_eq!(bad, "", "{}", done.err);
        }
        for dir in [site.root("there"), site.file("back")] {
            assert_eq!(fs::read(below(dir, name)).unwrap(), name);
        }
    }
    for dir in [site.root("there"), site.file("back")] {
        assert_eq!(fs::read_dir(dir).unwrap().count(), names.len());
    }
    server.stop();
}

/// A file that may not be changed is named; the others come.
#[test]
fn f37_an_immutable_file_is_named_and_the_others_come() {
    let site = Site::new(60);
    let server = site.serve();
    fs::write(site.root("fixed"), "as it was").unwrap();
    let change = |flag: &str| {
        Command::new("chattr")
            .args([flag, &site.root("fixed")])
            .output()
    };
    match change("+i") {
        Ok(output) if output.status.success() => {}
        other => {
            println!("skipped: chattr +i does not work here: {other:?}");
            return;
        }
    }
    fs::create_dir(site.file("tree")).unwrap();
    for (name, size) in [("fixed", 100), ("small", 100), ("large", 5 * MIB)] {
        fs::write(site.file(&format!("tree/{name}")), content(name, size)).unwrap();
    }
    let args = ["-r", &*site.file("tree/."), &*server.url("")];
    let done = site.copy_with(Host::Here, &args, Input::None);
    let kept = fs::read(site.root("fixed")).unwrap();
    let undone = change("-i").unwrap();
    assert!(undone.status.success());
    done.assert_failed(
        PARTIAL,
        &["fixed", "1 could not be copied", "(immutable)", "chattr -i"],
    );
    assert_eq!(kept, b"as it was");
    for name in ["small", "large"] {
        assert_eq!(
            hash_of(&site.root(name)),
            hash_of(&site.file(&format!("tree/{name}")))
        );
    }
    assert_eq!(parts(site.root("")).len(), 0);
    server.stop();
}

/// Takes the attribute away again, whatever comes of the test.
struct Protected<'a>(&'a str, &'a str);

impl<'a> Protected<'a> {
    fn by(attribute: &'a str, path: &'a str) -> Option<Self> {
        let flag = format!("+{attribute}");
        match Command::new("chattr").args([&flag, path]).output() {
            Ok(output) if output.status.success() => Some(Self(attribute, path)),
            other => {
                println!("skipped: chattr {flag} does not work here: {other:?}");
                None
            }
        }
    }
}

impl Drop for Protected<'_> {
    fn drop(&mut self) {
        let flag = format!("-{}", self.0);
        let _ = Command::new("chattr").args([&flag, self.1]).status();
    }
}

/// Root may do everything but this, and is told why and what to do.
#[test]
fn f37_what_chattr_protects_is_named_with_the_attribute() {
    let site = Site::new(200);
    let server = site.serve();
    let (from, to, file) = (site.file("tree"), site.root("tree"), site.file("tree/new"));
    fs::create_dir_all(format!("{from}/made")).unwrap();
    fs::write(&file, "new").unwrap();
    symlink("new", format!("{from}/link")).unwrap();
    let (old, fixed) = (format!("{to}/new"), format!("{to}/extra"));
    for (attribute, word) in [("i", "immutable"), ("a", "append only")] {
        for what in ["file", "extra", "directory"] {
            let _ = fs::remove_dir_all(&to);
            fs::create_dir(&to).unwrap();
            fs::write(&fixed, "goes").unwrap();
            fs::write(&old, "as it was").unwrap();
            let path = match what {
                "file" => &old,
                "extra" => &fixed,
                _ => &to,
            };
            let Some(_protected) = Protected::by(attribute, path) else {
                return;
            };
            let parts = [word, &*format!("chattr -{attribute}")];
            let url = server.url("tree");
            let sync = ["sync", "--accept-new", "--delete", &*from, &*url];
            let done = site.run(Host::Here, "client", &sync, Input::None);
            assert!(!matches!(done.code, None | Some(0)), "{attribute} {what}");
            for part in parts {
                assert!(done.err.contains(part), "{attribute} {what}: {}", done.err);
            }
            // Nothing is made that could not be taken away again.
            let left = fs::read_dir(&to)
                .unwrap()
                .map(|name| name.unwrap().file_name());
            let left: Vec<_> = left
                .filter(|name| name.to_string_lossy().contains("howdah"))
                .collect();
            assert!(left.is_empty(), "{attribute} {what}: {left:?}");
            if what != "extra" {
                let (one, url) = (file.as_str(), server.url("tree/new"));
                let done = site.copy_with(Host::Here, &[one, &url], Input::None);
                done.assert_failed(4, &parts);
                assert_eq!(fs::read(&old).unwrap(), b"as it was");
            }
        }
    }
    server.stop();
}

#[test]
fn f62_few_descriptors_are_enough_for_a_tree() {
    let site = Site::new(100);
    let server = limited(&site, "ulimit -n 64");
    for i in 0..1_500 {
        let dir = site.file(&format!("tree/{}", i % 40));
        fs::create_dir_all(&dir).unwrap();
        fs::write(format!("{dir}/{i}"), content("few", 3_000)).unwrap();
    }
    fs::write(site.file("tree/large"), content("large", 9 * MIB)).unwrap();
    let args = ["-r", &*site.file("tree/."), &*server.url("there")];
    let done = site.copy_with(Host::Here, &args, Input::None);
    assert_eq!(done.code, Some(0), "{}", done.err);
    for i in [0, 700, 1_499] {
        let name = format!("{}/{i}", i % 40);
        let there = site.root(&format!("there/{name}"));
        assert_eq!(
            hash_of(&there),
            hash_of(&site.file(&format!("tree/{name}")))
        );
    }
    assert_eq!(
        hash_of(&site.root("there/large")),
        hash_of(&site.file("tree/large"))
    );
    server.stop();
    site.assert_nothing_half_done();
}

/// A client has as few as a server may have: it waits until some come back.
#[test]
fn f62_a_client_with_few_descriptors_puts_and_gets_a_tree() {
    let site = Site::new(120);
    let server = site.serve();
    for i in 0..900 {
        let dir = site.file(&format!("tree/{}", i % 30));
        fs::create_dir_all(&dir).unwrap();
        fs::write(format!("{dir}/{i}"), content("few", 3_000)).unwrap();
    }
    fs::write(site.file("tree/large"), content("large", 9 * MIB)).unwrap();
    let copy = |limit: u32, from: &str, to: &str| {
        let mut command = Command::new("bash");
        let script = format!("ulimit -n {limit}; exec \"$@\"");
        command.args(["-c", &script, "limited", env!("CARGO_BIN_EXE_howdah")]);
        let args = ["cp", "--json", "--accept-new", "-r", from, to];
        let client = site.start_by(command, "client", &args, Input::None);
        let done = client.finish();
        assert_eq!(done.code, Some(0), "{limit}: {}", done.err);
    };
    for limit in [32, 40] {
        let (there, back) = (format!("there {limit}"), format!("back {limit}"));
        copy(limit, &site.file("tree/."), &server.url(&there));
        copy(limit, &server.url(&format!("{there}/.")), &site.file(&back));
        for name in ["large", "0/0", "29/899"] {
            let back = site.file(&format!("{back}/{name}"));
            assert_eq!(hash_of(&back), hash_of(&site.file(&format!("tree/{name}"))));
        }
    }
    server.stop();
    site.assert_nothing_half_done();
}

/// With fewer nothing begins, instead of waiting for what nobody gives back; a limit that may be raised is raised.
#[test]
fn f62_a_client_with_too_few_descriptors_says_so_at_once() {
    let site = Site::new(60);
    let server = site.serve();
    for i in 0..30 {
        fs::create_dir_all(site.root(&format!("tree/{i}"))).unwrap();
        fs::write(site.root(&format!("tree/{i}/f")), "few").unwrap();
    }
    let copy = |limit: &str, to: &str| {
        let mut command = Command::new("bash");
        let script = format!("ulimit {limit}; exec \"$@\"");
        command.args(["-c", &script, "limited", env!("CARGO_BIN_EXE_howdah")]);
        let args = ["cp", "--accept-new", "-r", &server.url("tree/."), to];
        site.start_by(command, "client", &args, Input::None)
            .finish()
    };
    let (none, all) = (site.file("none"), site.file("all"));
    for limit in ["-n 11", "-n 20", "-n 31"] {
        copy(limit, &none).assert_failed(2, &["ulimit -n", "32"]);
    }
    assert!(!fs::exists(&none).unwrap());
    let done = copy("-Sn 20", &all);
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert_eq!(fs::read_dir(&all).unwrap().count(), 30);
    server.stop();
}

/// With little memory a server may die, and then the same command goes on; with 256 MiB it need not.
#[test]
fn f61_a_server_that_gets_no_more_memory_loses_nothing() {
    const ENOUGH_KIB: usize = 256 << 10;
    let site = Site::new(150);
    fs::create_dir(site.file("tree")).unwrap();
    fs::write(site.file("tree/large"), content("memory", 60 * MIB)).unwrap();
    for i in 0..300 {
        fs::write(site.file(&format!("tree/{i}")), content("small", 30_000)).unwrap();
    }
    for kib in [24 << 10, 32 << 10, 48 << 10, ENOUGH_KIB] {
        let there = format!("there {kib}");
        let copy = |server: &Server| {
            let args = ["-r", &*site.file("tree/."), &*server.url(&there)];
            site.copy_with(Host::Here, &args, Input::None)
        };
        // Data, thread stacks included (setrlimit(2), RLIMIT_DATA).
        let server = limited(&site, &format!("ulimit -d {kib}"));
        let done = copy(&server);
        println!("{} MiB: {:?} {}", kib >> 10, done.code, done.err.trim());
        assert!(kib < ENOUGH_KIB || done.code == Some(0), "{}", done.err);
        server.process.signal(Signal::KILL);
        drop(server);
        let server = site.serve();
        let done = copy(&server);
        assert_eq!(done.code, Some(0), "{}", done.err);
        for name in ["large", "0", "299"] {
            let there = site.root(&format!("{there}/{name}"));
            let here = site.file(&format!("tree/{name}"));
            assert_eq!(hash_of(&there), hash_of(&here), "{kib} {name}");
        }
        server.stop();
    }
    site.assert_nothing_half_done();
}

/// A control group of its own for what a test starts. Dropping it removes it.
struct Threads(String);

impl Threads {
    /// `None` with a printed reason where that is not allowed.
    fn group() -> Option<Self> {
        let group = format!("/sys/fs/cgroup/pids/howdah-test-{}", std::process::id());
        match fs::create_dir(&group) {
            Ok(()) if fs::exists(format!("{group}/pids.max")).unwrap() => Some(Self(group)),
            other => {
                println!("skipped: no control group that counts threads: {other:?}");
                let _ = fs::remove_dir(&group);
                None
            }
        }
    }

    fn allow(&self, count: &str) {
        fs::write(format!("{}/pids.max", self.0), count).unwrap();
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// What cannot begin for want of threads waits, which is said, and begins when there are some; what lacks one later is named, and the same
/// command completes.
#[test]
fn f63_where_threads_are_few_a_copy_waits_or_names_what_lacked_one() {
    let site = Site::new(100);
    let Some(threads) = Threads::group() else {
        return;
    };
    fs::create_dir(site.file("tree")).unwrap();
    for i in 0..40 {
        fs::write(site.file(&format!("tree/{i}")), content("few", 3_000)).unwrap();
    }
    fs::write(site.file("tree/large"), content("large", 9 * MIB)).unwrap();
    // It begins with two.
    threads.allow("2");
    let server = limited(&site, &format!("echo $$ > {}/cgroup.procs", threads.0));
    let mut waited = 0;
    for count in ["2", "3", "6", "9", "12"] {
        threads.allow(count);
        let file = (site.file("tree/large"), format!("file {count}"));
        let tree = (site.file("tree/."), format!("tree {count}"));
        for (from, to) in [file, tree] {
            let args = ["-r", &*from, &*server.url(&to)];
            threads.allow(count);
            let mut copying = site.start_copy(Host::Here, &args, Input::None);
            let waits = copying.says_before_its_end("; it tries again within 2 s");
            if waits {
                waited += 1;
                threads.allow("max");
            }
            let done = copying.finish();
            println!("{count}: {to}: {:?} {}", done.code, done.err.trim());
            if done.code != Some(0) {
                // One file of it, or the whole when its streams were told of: on another connection it waits.
                assert!(!waits, "{}", done.err);
                assert!(matches!(done.code, Some(NETWORK | PARTIAL)), "{}", done.err);
                assert!(done.err.contains("cannot start a thread"), "{}", done.err);
                threads.allow("max");
                let done = site.copy_with(Host::Here, &args, Input::None);
                assert_eq!(done.code, Some(0), "{}", done.err);
            }
        }
        for (here, there) in [
            ("tree/large", format!("file {count}")),
            ("tree/large", format!("tree {count}/large")),
            ("tree/39", format!("tree {count}/39")),
        ] {
            assert_eq!(hash_of(&site.root(&there)), hash_of(&site.file(here)));
        }
    }
    assert!(waited > 0, "there were threads for everything");
    server.stop();
    site.assert_nothing_half_done();
}

/// Nobody listens any more: the copy goes on to its end.
#[test]
fn f64_a_copy_whose_words_cannot_be_written_is_a_copy_all_the_same() {
    let site = Site::new(60);
    let server = site.serve();
    fs::write(site.file("source"), content("mute", 9 * MIB)).unwrap();
    for (i, to) in ["> /dev/full 2> /dev/full", "2>&-", ">&- 2>&-"]
        .into_iter()
        .enumerate()
    {
        let target = format!("target{i}");
        let done = Command::new("bash")
            .args(["-c", &format!("exec \"$@\" {to}"), "mute"])
            .arg(env!("CARGO_BIN_EXE_howdah"))
            .args(["cp", "--json", "--accept-new", "--log-file", "/dev/full"])
            .args([&site.file("source"), &server.url(&target)])
            .env("HOWDAH_CONFIG_DIR", site.config("client"))
            .env("XDG_RUNTIME_DIR", site.run_dir())
            .env("HOWDAH_RECONNECT", "0")
            .status()
            .unwrap();
        println!("{to}: {done}");
        assert_eq!(
            hash_of(&site.root(&target)),
            hash_of(&site.file("source")),
            "{to}"
        );
        assert!(done.code().is_some(), "{to}: {done}");
    }
    server.stop();
}

/// As long as it must be: the first thread's is made longer, or something else stands on one of its own.
#[test]
fn f64_a_short_stack_is_no_end() {
    let site = Site::new(60);
    let server = site.serve();
    fs::create_dir(site.file("tree")).unwrap();
    fs::write(site.file("tree/f"), content("short", MIB)).unwrap();
    // Root may make it longer than it may be, if that is not taken away.
    let without = "setpriv --bounding-set -sys_resource";
    for (name, by) in [("plain", ""), ("less", without)] {
        let there = Command::new("setpriv").arg("--version").output();
        if !by.is_empty() && there.is_err() {
            println!("skipped: no setpriv");
            continue;
        }
        let mut command = Command::new("bash");
        let script = format!("ulimit -s 64; exec {by} \"$@\"");
        command.args(["-c", &script, "limited", env!("CARGO_BIN_EXE_howdah")]);
        let (from, to) = (site.file("tree/."), server.url(name));
        let args = ["cp", "--accept-new", "-r", &from, &to];
        let done = site
            .start_by(command, "client", &args, Input::None)
            .finish();
        assert_eq!(done.code, Some(0), "{name}: {}", done.err);
        let there = site.root(&format!("{name}/f"));
        assert_eq!(hash_of(&there), hash_of(&site.file("tree/f")));
    }
    server.stop();
}

/// A server that could open next to nothing says so, instead of letting clients wait.
#[test]
fn f62_a_server_with_too_few_descriptors_says_so_at_once() {
    let site = Site::new(60);
    let mut command = Command::new("bash");
    let script = "ulimit -n 12; exec \"$@\"";
    command.args(["-c", script, "limited", env!("CARGO_BIN_EXE_howdah")]);
    let root = site.root("");
    let args = ["serve", "--listen", "127.0.0.1:0", "--root", &root];
    let done = site
        .start_by(command, "server", &args, Input::None)
        .finish();
    done.assert_failed(2, &["12 files open", "ulimit -n", "LimitNOFILE"]);
}

/// `TZ` may name a file, which is read as a whole by whoever asks for the time of day.
#[test]
fn f64_a_time_zone_that_has_no_end_is_named() {
    let site = Site::new(60);
    let server = site.serve();
    fs::write(site.file("f"), "text").unwrap();
    let copy = |limit: &str, name: &str| {
        let mut command = Command::new("bash");
        // Where it is read it may not take the machine's memory.
        let script = "ulimit -v 4000000; exec \"$@\"";
        command.args(["-c", script, "limited", env!("CARGO_BIN_EXE_howdah")]);
        command.env("TZ", ":/dev/zero");
        let (from, to) = (site.file("f"), server.url(name));
        let args = ["cp", "--accept-new", "--limit", limit, &from, &to];
        site.start_by(command, "client", &args, Input::None)
            .finish()
    };
    let done = copy("mon-fri 08:00-18:00 100mbit, else 1gbit", "timetable");
    done.assert_failed(2, &["TZ=:/dev/zero", "unset TZ"]);
    // Who asks for no time of day may have any.
    let done = copy("1gbit", "plain");
    assert_eq!(done.code, Some(0), "{}", done.err);
    server.stop();
}

/// A copy that is over before anybody looks at it has a trace all the same, and so an end that says where it could not be written.
#[test]
fn f64_a_trace_that_cannot_be_written_is_told() {
    let site = Site::new(60);
    let server = site.serve();
    fs::write(site.file("f"), "text").unwrap();
    let trace = site.file("trace");
    let copy = |trace: &str| {
        let (from, to) = (site.file("f"), server.url("f"));
        let args = ["cp", "--accept-new", "--trace", trace, &from, &to];
        site.run(Host::Here, "client", &args, Input::None)
    };
    copy("/dev/full").assert_failed(11, &["the copy is done", "trace /dev/full"]);
    assert_eq!(copy(&trace).code, Some(0));
    let text = fs::read_to_string(&trace).unwrap();
    assert!(text.contains("\"pacing_bps\""), "{text}");
}

/// What nothing has replaced has no second name among the backups, through which it would be written to.
#[test]
fn f37_what_cannot_be_replaced_is_no_backup() {
    let site = Site::new(60);
    let server = site.serve();
    let (from, to) = (site.file("tree"), site.root("tree"));
    for (at, text) in [(&from, "new"), (&to, "as it was")] {
        fs::create_dir_all(format!("{at}/d")).unwrap();
        fs::write(format!("{at}/d/f"), text).unwrap();
        symlink(text, format!("{at}/d/link")).unwrap();
    }
    let closed = format!("{to}/d");
    let Some(_protected) = Protected::by("a", &closed) else {
        return;
    };
    let url = server.url("tree");
    let args = ["sync", "--accept-new", "--backup-dir", ".old", &from, &url];
    let done = site.run(Host::Here, "client", &args, Input::None);
    assert!(!matches!(done.code, None | Some(0)), "{}", done.err);
    for name in ["d/f", "d/link"] {
        let there = fs::symlink_metadata(format!("{to}/{name}")).unwrap();
        assert_eq!(there.nlink(), 1, "{name}");
        let kept = fs::symlink_metadata(format!("{to}/.old/{name}"));
        assert!(kept.is_err(), "{name}: {kept:?}");
    }
    assert_eq!(fs::read(format!("{to}/d/f")).unwrap(), b"as it was");
    server.stop();
}
