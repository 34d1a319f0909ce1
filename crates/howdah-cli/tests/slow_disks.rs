//! F21: a disk that stands still for a while. Neither side takes that for a silent peer, memory keeps its bounds, and the
//! copy goes on.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test may panic, its helpers too")]

mod support;

use rustix::process::Signal;
use std::fs;
use std::process::Command;
use std::time::Duration;
use support::place::{LoopDisk, content, hash_of};
use support::process::Input;
use support::relay::{Fate, Relay, Way};
use support::{Host, Site};

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

#[test]
fn f21_a_disk_that_stands_still_is_waited_for() {
    const SIZE: usize = 192 * MIB;
    /// The queue of what is to be written, the buffers that come back, and the program.
    const PEAK: u64 = 160 << 20;
    if Command::new("fsfreeze").arg("-V").output().is_err() {
        println!("skipped: no fsfreeze");
        return;
    }
    let site = Site::new(150);
    let image = site.path().join("disk.img");
    let Some(_disk) = LoopDisk::make(image.to_str().unwrap(), 400, &site.root("")) else {
        return;
    };
    let server = site.serve();
    fs::write(site.file("source"), content("slow", SIZE)).unwrap();
    let relay = Relay::start(server.address, |_, datagram| Fate::pass(datagram));
    let (source, target) = (site.file("source"), relay.url("target"));
    let client = site.start_copy(
        Host::Here,
        &["--limit", "400mbit", &source, &target],
        Input::None,
    );
    relay.await_bytes(Way::ToServer, 20 << 20, site.limit());
    let frozen = Frozen::freeze(&site.root(""));
    std::thread::sleep(STANDSTILL);
    drop(frozen);
    let done = client.finish();
    done.assert_copied(SIZE as u64, "blake3");
    assert!(!done.err.contains("silent"), "{}", done.err);
    let json = done.json();
    for side in ["sender", "receiver"] {
        let peak = json[side]["peak_rss_bytes"].as_u64().unwrap();
        println!("{side}: {} MiB at the most", peak >> 20);
        assert!(peak < PEAK, "{side}: {peak} bytes");
    }
    assert_eq!(hash_of(&site.root("target")), hash_of(&source));
    site.assert_nothing_half_done();
    server.stop();
}

/// A copy that was killed cannot end while its disk stands still; the next one waits for it and goes on with what it had.
#[test]
fn f21_a_copy_waits_for_the_one_before_that_its_disk_holds_up() {
    const SIZE: usize = 192 * MIB;
    if Command::new("fsfreeze").arg("-V").output().is_err() {
        println!("skipped: no fsfreeze");
        return;
    }
    let site = Site::new(150);
    let image = site.path().join("disk.img");
    let Some(_disk) = LoopDisk::make(image.to_str().unwrap(), 600, &site.root("")) else {
        return;
    };
    let server = site.serve();
    fs::write(site.file("source"), content("waits", SIZE)).unwrap();
    let relay = Relay::start(server.address, |_, datagram| Fate::pass(datagram));
    let (source, target) = (site.file("source"), relay.url("target"));
    let first = ["--limit", "400mbit", &source, &target];
    let first = site.start_copy(Host::Here, &first, Input::None);
    relay.await_bytes(Way::ToServer, 120 << 20, site.limit());
    let frozen = Frozen::freeze(&site.root(""));
    first.signal(Signal::KILL);
    first.finish();
    let second = [&*source, &*server.url("target")];
    let second = site.start_copy(Host::Here, &second, Input::None);
    std::thread::sleep(STANDSTILL);
    drop(frozen);
    let done = second.finish();
    done.assert_copied(SIZE as u64, "blake3");
    let resumed = done.json()["resumed_bytes"].as_u64().unwrap();
    println!("{} MiB were there", resumed >> 20);
    assert!(resumed > 0, "{}", done.err);
    assert_eq!(hash_of(&site.root("target")), hash_of(&source));
    site.assert_nothing_half_done();
    server.stop();
}
