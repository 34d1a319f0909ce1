//! The memory of both sides does not grow with the number of names in a tree.
#![cfg(target_os = "linux")]

use crate::support::place::{SmallDisk, world};
use crate::support::process::{Input, Process, Server};
use crate::support::{Host, Site};
use howdah_core::{Rate, Span};
use howdah_path::{LossModel, PathConfig, QueueLimit};
use howdah_wan::WanConfig;
use rustix::process::Pid;
use std::fs;
use std::os::unix::fs::symlink;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;
use tempfile::TempDir;

/// Directories, and further names of files: as many of each.
const FEW: usize = 10_000;
const MANY: usize = 100_000;
/// What a name more may cost: less than anything that is kept of each would.
const BYTES_PER_NAME: u64 = 24;
/// What differs from run to run.
const SLACK: u64 = 2 << 20;
const IN_EACH: usize = 1000;

fn make(dir: &str, count: usize) {
    fs::create_dir(dir).unwrap();
    for group in 0..count / IN_EACH {
        let below = format!("{dir}/{group:05}");
        fs::create_dir(&below).unwrap();
        let first = format!("{below}/first");
        fs::write(&first, "content").unwrap();
        for i in 0..IN_EACH {
            fs::create_dir(format!("{below}/some-directory-{i:04}")).unwrap();
            fs::hard_link(&first, format!("{below}/some-further-name-{i:04}")).unwrap();
        }
    }
}

/// Peak memory of sender and receiver, in bytes.
fn peaks(site: &Site, from: &str, name: &str) -> [u64; 2] {
    let server = site.serve();
    let put = ["-a", &format!("{from}/."), &*server.url(name)];
    peaks_of(site.start_copy(Host::Here, &put, Input::None), server)
}

fn peaks_of(client: Process, server: Server) -> [u64; 2] {
    let done = client.finish();
    assert_eq!(done.code, Some(0), "{}", done.err);
    server.stop();
    let json = done.json();
    ["sender", "receiver"].map(|side| json[side]["peak_rss_bytes"].as_u64().unwrap())
}

/// Memory in the place of a disk, which may take minutes for so many names: mounted over the empty directory `at`, or, where only
/// root may do that, a link from it.
struct Quick {
    _mounted: Option<SmallDisk>,
    _elsewhere: Option<TempDir>,
}

impl Quick {
    fn new(at: &str, mib: u32) -> Self {
        let mounted = SmallDisk::mount(at, mib);
        let elsewhere = mounted.is_none().then(|| {
            let elsewhere = tempfile::tempdir_in("/dev/shm").ok()?;
            let at = at.trim_end_matches('/');
            fs::remove_dir(at).unwrap();
            symlink(elsewhere.path(), at).unwrap();
            Some(elsewhere)
        });
        Self {
            _mounted: mounted,
            _elsewhere: elsewhere.flatten(),
        }
    }
}

#[test]
fn ten_times_as_many_names_need_no_more_memory() {
    let site = Site::new(300);
    let _disks = [site.file(""), site.root("")].map(|at| Quick::new(&at, 512));
    let (few, many) = (site.file("few"), site.file("many"));
    make(&few, FEW);
    make(&many, MANY);
    // Copied, and then compared: nothing has changed.
    for what in ["copied", "compared"] {
        let less = peaks(&site, &few, "few");
        let more = peaks(&site, &many, "many");
        println!("{what}: {less:?} bytes for {FEW}, {more:?} for {MANY}");
        let allowed = BYTES_PER_NAME * 2 * (MANY - FEW) as u64 + SLACK;
        for (less, more) in less.into_iter().zip(more) {
            let grown = more.saturating_sub(less);
            assert!(
                grown <= allowed,
                "{what}: {grown} bytes more, {allowed} are allowed"
            );
        }
    }
}

/// A side of a tree takes no more than that, whatever the files are like. A development build has 2.7 MB more of its own
/// code in memory than a release (`RssFile` at the peak of the largest case: 14.4 and 11.7 MB; `RssAnon` is the same).
const BOUND: u64 = if cfg!(debug_assertions) {
    51 << 20
} else {
    48 << 20
};
/// The same without its program, of which kernels map more or less around what is used: 18.9 MB of a release and 19.1 of a development build on
/// another machine, where a side has 31.3 to 31.7 MiB of its own.
const OWN: u64 = 34 << 20;

/// The most of their program that processes have in memory, as long as somebody asks; it only grows.
struct Programs {
    asked: Sender<()>,
    looking: JoinHandle<[u64; 2]>,
}

impl Programs {
    fn of(processes: [Pid; 2]) -> Self {
        let (asked, over) = channel::<()>();
        let looking = std::thread::spawn(move || {
            let mut most = [0; 2];
            loop {
                for (most, pid) in most.iter_mut().zip(processes) {
                    *most = program_bytes(pid).unwrap_or(0).max(*most);
                }
                if over.recv_timeout(Duration::from_millis(10)) != Err(RecvTimeoutError::Timeout) {
                    return most;
                }
            }
        });
        Self { asked, looking }
    }

    fn most(self) -> [u64; 2] {
        drop(self.asked);
        self.looking.join().unwrap()
    }
}

/// `None`: it is over.
fn program_bytes(pid: Pid) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).ok()?;
    let kib = status.lines().find_map(|l| l.strip_prefix("RssFile:"))?;
    let kib = kib.split_whitespace().next()?.parse::<u64>().ok()?;
    Some(kib << 10)
}

fn make_alike(dir: &str, count: usize, bytes: usize) {
    for i in 0..count {
        let below = format!("{dir}/{}", i / IN_EACH);
        if i % IN_EACH == 0 {
            fs::create_dir_all(&below).unwrap();
        }
        fs::write(format!("{below}/{i}"), vec![i as u8; bytes]).unwrap();
    }
}

#[test]
fn t34_a_long_path_full_of_small_files_takes_no_more_either() {
    long_path(
        &[
            ("largest", 120, 4 << 20),
            ("middle", 3500, 128 << 10),
            ("small", 20_000, 4096),
        ],
        0.0,
    );
}

/// What comes behind what was lost waits at the receiver.
#[test]
fn t34_nor_does_one_that_loses_packets() {
    long_path(
        &[("middle", 3500, 128 << 10), ("small", 20_000, 4096)],
        0.005,
    );
}

/// Trees by name, number and bytes of their files over 10 Gbit/s and 100 ms.
fn long_path(trees: &[(&str, usize, usize)], loss: f64) {
    let lane = PathConfig {
        rate: Some(Rate::from_gbit_per_sec(10)),
        queue: QueueLimit::Time(Span::from_millis(25)),
        delay: Span::from_millis(50),
        loss: LossModel::Bernoulli(loss),
        ..PathConfig::default()
    };
    let config = WanConfig {
        forward: lane.clone(),
        backward: lane,
        ..WanConfig::default()
    };
    let Some(world) = world(&config) else { return };
    let site = Site::new(400);
    let _disks = [site.file(""), site.root("")].map(|at| Quick::new(&at, 600));
    for &(name, count, bytes) in trees {
        let from = site.file(name);
        make_alike(&from, count, bytes);
        let (near, far) = (Host::In(world.near()), Host::In(world.far()));
        let server = site.serve_at(far, "10.88.0.2:0", &site.root(""));
        let put = ["-a", &format!("{from}/."), &*server.url(name)];
        let client = site.start_copy(near, &put, Input::None);
        let programs = Programs::of([client.pid(), server.process.pid()]);
        let peaks = peaks_of(client, server);
        let programs = programs.most();
        assert!(programs.iter().all(|&bytes| bytes > 0), "{programs:?}");
        let own = [0, 1].map(|side| peaks[side] - programs[side]);
        println!("{name}: {peaks:?} bytes, of their own {own:?}");
        assert!(own.iter().all(|&own| own <= OWN), "{name}: {own:?}");
        fs::remove_dir_all(&from).unwrap();
        fs::remove_dir_all(site.root(name)).unwrap();
    }
}

#[test]
fn t34_a_tree_of_any_shape_takes_no_more_than_it_may() {
    let site = Site::new(400);
    let _disks = [site.file(""), site.root("")].map(|at| Quick::new(&at, 700));
    // Number and bytes of files; the last beside a huge one.
    for (name, count, bytes) in [
        ("sixty", 1500, 60_000),
        ("four", 20_000, 4096),
        ("empty", 30_000, 0),
        ("largest", 30, 4 << 20),
        ("beside", 5000, 10_000),
    ] {
        let from = site.file(name);
        make_alike(&from, count, bytes);
        if name == "beside" {
            fs::write(format!("{from}/huge"), vec![7; 100 << 20]).unwrap();
        }
        let [sender, receiver] = peaks(&site, &from, name);
        println!("{name}: {sender} and {receiver} bytes");
        assert!(
            sender <= BOUND && receiver <= BOUND,
            "{name}: {sender}, {receiver}"
        );
        fs::remove_dir_all(&from).unwrap();
        fs::remove_dir_all(site.root(name)).unwrap();
    }
}

/// As many names in one directory as make the old way, all of them at once, take 15 MiB too much.
#[test]
fn t34_one_directory_of_long_names_takes_no_more_either() {
    const NAMES: usize = 150_000;
    let site = Site::new(400);
    let _disk = Quick::new(&site.root(""), 700);
    let (flat, small) = (site.root("flat"), site.file("small"));
    fs::create_dir(&flat).unwrap();
    fs::create_dir(&small).unwrap();
    fs::write(format!("{small}/new"), "").unwrap();
    // They come in no order.
    let odd = |i: usize| i * 7919 % NAMES;
    for i in 0..NAMES {
        fs::write(format!("{flat}/{:06}{}", odd(i), "n".repeat(230)), "").unwrap();
    }
    for what in ["put", "get", "mirror"] {
        // Each with a server of its own: what is measured is the most that it has ever taken.
        let server = site.serve();
        let (there, new) = (server.url("flat"), server.url("new"));
        let (to, all) = (site.file("new"), format!("{flat}/."));
        let args = match what {
            "put" => ["cp", "-r", &all, &new],
            "get" => ["cp", "-r", &there, &to],
            _ => ["sync", "--delete", &small, &there],
        };
        let args = [&args[..], &["-n", "--json", "--accept-new"]].concat();
        let done = site.run(Host::Here, "client", &args, Input::None);
        assert_eq!(done.code, Some(0), "{what}: {}", done.err);
        server.stop();
        let json = done.json();
        let [sender, receiver] =
            ["sender", "receiver"].map(|side| json[side]["peak_rss_bytes"].as_u64().unwrap());
        println!("{what}: {sender} and {receiver} bytes");
        assert!(
            sender <= BOUND && receiver <= BOUND,
            "{what}: {sender}, {receiver}"
        );
        if what == "mirror" {
            assert_eq!(json["tree"]["deleted"], NAMES, "{json}");
        }
    }
}
