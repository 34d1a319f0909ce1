//! F21: a disk that stands still for a while. Neither side takes that for a silent peer, memory keeps its bounds, and the
//! copy goes on.
#![cfg(target_os = "linux")]

use crate::support::place::{LoopDisk, content, hash_of};
use crate::support::process::{Input, Process, Server, url};
use crate::support::relay::{Fate, Relay, Way};
use crate::support::{HOWDAH, Host, Site, serve_as_us};
use rustix::process::Signal;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

const MIB: usize = 1 << 20;
/// Longer than a peer may be silent.
const STANDSTILL: Duration = Duration::from_secs(15);

/// A file system that takes nothing. Dropping it lets it go on.
struct Frozen(String);

impl Frozen {
    fn freeze(at: &str) -> Self {
        let done = Command::new("fsfreeze").args(["-f", at]).output().unwrap();
        assert!(done.status.success(), "{done:?}");
        Self(at.to_owned())
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        let _ = Command::new("fsfreeze").args(["-u", &self.0]).status();
    }
}

/// A copy whose disk stands still since some of it came.
struct Standing {
    client: Process,
    source: String,
    _relay: Relay,
    server: Server,
    frozen: Frozen,
    /// After the file system goes on.
    _disk: LoopDisk,
    site: Site,
}

impl Standing {
    const SIZE: usize = 192 * MIB;

    /// With a disk of so many MiB that freezes when about so many bytes came; `None` where that cannot be done.
    fn start(disk_mib: u64, bytes: u64) -> Option<Self> {
        if Command::new("fsfreeze").arg("-V").output().is_err() {
            println!("skipped: no fsfreeze");
            return None;
        }
        let site = Site::new(150);
        let image = site.path().join("disk.img");
        let disk = LoopDisk::make(image.to_str().unwrap(), disk_mib, &site.root(""))?;
        let server = site.serve();
        fs::write(site.file("source"), content("slow", Self::SIZE)).unwrap();
        let relay = Relay::start(server.address, |_, datagram| Fate::pass(datagram));
        let (source, target) = (site.file("source"), relay.url("target"));
        let args = ["--limit", "400mbit", &source, &target];
        let client = site.start_copy(Host::Here, &args, Input::None);
        relay.await_bytes(Way::ToServer, bytes, site.limit());
        let frozen = Frozen::freeze(&site.root(""));
        Some(Self {
            client,
            source,
            _relay: relay,
            server,
            frozen,
            _disk: disk,
            site,
        })
    }
}

#[test]
fn f21_a_disk_that_stands_still_is_waited_for() {
    /// The queue of what is to be written, the buffers that come back, and the program.
    const PEAK: u64 = 160 << 20;
    let Some(copy) = Standing::start(400, 20 << 20) else {
        return;
    };
    std::thread::sleep(STANDSTILL);
    drop(copy.frozen);
    let done = copy.client.finish();
    done.assert_copied(Standing::SIZE as u64, "blake3");
    assert!(!done.err.contains("silent"), "{}", done.err);
    let json = done.json();
    for side in ["sender", "receiver"] {
        let peak = json[side]["peak_rss_bytes"].as_u64().unwrap();
        println!("{side}: {} MiB at the most", peak >> 20);
        assert!(peak < PEAK, "{side}: {peak} bytes");
    }
    assert_eq!(hash_of(&copy.site.root("target")), hash_of(&copy.source));
    copy.site.assert_nothing_half_done();
    copy.server.stop();
}

/// A copy that was killed cannot end while its disk stands still; the next one waits for it and goes on with what it had.
#[test]
fn f21_a_copy_waits_for_the_one_before_that_its_disk_holds_up() {
    let Some(copy) = Standing::start(600, 120 << 20) else {
        return;
    };
    copy.client.signal(Signal::KILL);
    copy.client.finish();
    let second = [&*copy.source, &*copy.server.url("target")];
    let second = copy.site.start_copy(Host::Here, &second, Input::None);
    std::thread::sleep(STANDSTILL);
    drop(copy.frozen);
    let done = second.finish();
    done.assert_copied(Standing::SIZE as u64, "blake3");
    let resumed = done.json()["resumed_bytes"].as_u64().unwrap();
    println!("{} MiB were there", resumed >> 20);
    assert!(resumed > 0, "{}", done.err);
    assert_eq!(hash_of(&copy.site.root("target")), hash_of(&copy.source));
    copy.site.assert_nothing_half_done();
    copy.server.stop();
}

/// Opening a file waits for its disk, too. Whoever copies to another disk of the same server does not.
#[test]
fn h13_a_disk_that_stands_still_holds_up_its_own_clients_only() {
    const SIZE: usize = 2 * MIB;
    if Command::new("fsfreeze").arg("-V").output().is_err() {
        println!("skipped: no fsfreeze");
        return;
    }
    let site = Site::new(150);
    let image = site.path().join("disk.img");
    fs::create_dir(site.root("disk")).unwrap();
    let Some(_disk) = LoopDisk::make(image.to_str().unwrap(), 100, &site.root("disk")) else {
        return;
    };
    let server = site.serve();
    let source = site.file("source");
    fs::write(&source, content("beside", SIZE)).unwrap();
    let relay = Relay::start(server.address, |_, datagram| Fate::pass(datagram));
    let frozen = Frozen::freeze(&site.root("disk"));
    let held_up = [&*source, &*relay.url("disk/target")];
    let held_up = site.start_copy(Host::Here, &held_up, Input::None);
    // The handshake, and the request behind it.
    relay.await_bytes(Way::ToServer, 4_000, site.limit());
    fs::create_dir(site.file("tree")).unwrap();
    fs::write(site.file("tree/large"), content("in a tree", SIZE)).unwrap();
    let tree = [&*site.file("tree"), &*server.url("disk/tree")];
    let tree = site.start_copy(Host::Here, &[&["-r"], &tree[..]].concat(), Input::None);
    for n in 0..3 {
        let beside = site.copy(Host::Here, &source, &server.url(&format!("beside{n}")));
        beside.assert_copied(SIZE as u64, "blake3");
    }
    drop(frozen);
    held_up.finish().assert_copied(SIZE as u64, "blake3");
    let done = tree.finish();
    assert_eq!(done.code, Some(0), "{}", done.err);
    server.stop();
}

/// Whoever reads the log of a server stops to: a terminal after Ctrl-S, a pager, a disk.
#[test]
fn h13_a_log_that_nobody_takes_holds_up_nobody() {
    const COPIES: usize = 30;
    let site = Site::new(120);
    let (read, write) = std::io::pipe().unwrap();
    // As little as a pipe can hold.
    rustix::pipe::fcntl_setpipe_size(&write, 4096).unwrap();
    // It ends whatever becomes of the server.
    let mut command = Command::new("timeout");
    command
        .args(["100", HOWDAH, "serve", "--listen", "127.0.0.1:0", "--root"])
        .arg(site.root(""))
        .env("HOWDAH_CONFIG_DIR", site.config("server"))
        .env("XDG_RUNTIME_DIR", site.run_dir())
        .stdin(Stdio::null())
        .stderr(write);
    serve_as_us(&mut command);
    let mut server = command.spawn().unwrap();
    drop(command);
    let mut lines = BufReader::new(read).lines().map(Result::unwrap);
    let begun = lines.find(|line| line.contains("serving ")).unwrap();
    let (_, address) = begun.rsplit_once(" on ").unwrap();
    let url = url(address.parse().unwrap(), "null:");
    for _ in 0..COPIES {
        let done = site.copy(Host::Here, "zero:10", &url);
        assert_eq!(done.code, Some(0), "{}", done.err);
    }
    // All of it is there for whoever reads after all.
    let told = |line: &String| line.contains("put \"null:\" done");
    assert_eq!(lines.by_ref().filter(told).take(COPIES).count(), COPIES);
    let pid = rustix::process::Pid::from_child(&server);
    rustix::process::kill_process(pid, Signal::TERM).unwrap();
    assert!(lines.all(|line| !line.contains("missing")));
    assert!(server.wait().unwrap().success());
}
