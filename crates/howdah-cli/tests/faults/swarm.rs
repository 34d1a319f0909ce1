//! F71: a hundred copies at once while the server and clients are killed (F01, F02), the disk is full (F13) and datagrams
//! are lost (F40). F72: the same again and again with a server that must not grow (`make soak`).
//!
//! `HOWDAH_SWARM_JOBS` copies in each of `HOWDAH_SWARM_ROUNDS` rounds, from `HOWDAH_SWARM_SEED`.
#![cfg(target_os = "linux")]

use crate::support::place::{SmallDisk, content, hash_of};
use crate::support::process::{Input, Server};
use crate::support::random::SplitMix;
use crate::support::relay::{Fate, Relay, Way};
use crate::support::{Host, Site, await_no_parts, parts};
use rustix::process::{Pid, Signal};
use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

// As `howdah --help` lists them.
const NETWORK: i32 = 5;
const NO_SPACE: i32 = 11;
const MIB: u64 = 1 << 20;
/// As often as a person would not give the same command.
const ATTEMPTS_MAX: u32 = 40;
/// The first attempts may be killed.
const DEADLY_ATTEMPTS: u32 = 2;
const SERVER_KILLS: usize = 2;
/// When the disk is full and nothing ends for that long there is more room on it, by so much of the whole.
const STALLED: Duration = Duration::from_secs(2);
const FULL_MIB: u64 = 4;
const ROOM_PARTS: u64 = 5;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

/// One file that goes up or down.
struct Job {
    name: String,
    up: bool,
    seed: u64,
    size: u64,
}

impl Job {
    fn new(round: u64, i: u64, seed: u64) -> Self {
        let seed = seed.wrapping_mul(1_000_003) + round * 10_007 + i;
        let size = MIB / 4 + SplitMix(seed).next() % (3 * MIB);
        Self {
            name: format!("r{round}-{i}"),
            up: i.is_multiple_of(2),
            seed,
            size,
        }
    }

    /// Where it is read and where it is written.
    fn ends(&self, site: &Site) -> [String; 2] {
        let (here, there) = (site.file(&self.name), site.root(&self.name));
        if self.up {
            [here, there]
        } else {
            [there, here]
        }
    }
}

/// What happened, over all jobs.
#[derive(Default)]
struct Tally {
    lost: AtomicU64,
    killed: AtomicUsize,
    waited: AtomicUsize,
    again: AtomicUsize,
    done: AtomicUsize,
    took: Mutex<Vec<f64>>,
}

/// Loses datagrams: none, 2 % one way or the other, or bursts both ways.
fn weather(job: &Job, tally: &'static Tally) -> impl FnMut(Way, Vec<u8>) -> Fate + Send + 'static {
    let mut random = SplitMix(job.seed ^ 0xf40);
    let kind = job.seed % 4;
    let mut burst = 0;
    move |way, datagram| {
        let lost = match kind {
            0 => false,
            1 => way == Way::ToServer && random.one_in(50),
            2 => way == Way::ToClient && random.one_in(50),
            _ => {
                if burst == 0 && random.one_in(500) {
                    burst = random.next() % 50;
                }
                burst = u64::saturating_sub(burst, 1);
                burst > 0
            }
        };
        if lost {
            tally.lost.fetch_add(1, Relaxed);
            return Fate::default();
        }
        Fate::pass(datagram)
    }
}

/// Gives the same command until it is done, and kills some of the first.
fn persist(site: &Site, job: &Job, server: std::net::SocketAddr, tally: &'static Tally) {
    let start = Instant::now();
    let relay = Relay::start(server, weather(job, tally));
    let [from, to] = job.ends(site);
    let url = relay.url(&job.name);
    let args = if job.up { [&from, &url] } else { [&url, &to] };
    // Some go on by themselves, the others by the same command.
    let lasts = if job.seed.is_multiple_of(3) {
        "30s"
    } else {
        "0"
    };
    let options = ["--idle-timeout", "5s", "--reconnect", lasts];
    let args = [&options, &args.map(String::as_str)[..]].concat();
    let mut random = SplitMix(job.seed ^ 0xf01);
    for attempt in 0..ATTEMPTS_MAX {
        let client = site.start_copy(Host::Here, &args, Input::None);
        if attempt < DEADLY_ATTEMPTS && random.one_in(3) {
            thread::sleep(Duration::from_millis(random.next() % 2_000));
            // It may have ended; its number is not given to another one before it was waited for.
            client.signal(Signal::KILL);
        }
        let done = client.finish();
        assert!(!done.err.contains("panicked"), "{}", done.err);
        tally
            .waited
            .fetch_add(usize::from(done.err.contains("waiting up to")), Relaxed);
        match done.code {
            Some(0) => {
                done.assert_copied(job.size, "blake3");
                assert_eq!(hash_of(&to), hash_of(&from), "{}", job.name);
                tally.done.fetch_add(1, Relaxed);
                let took = start.elapsed().as_secs_f64();
                tally.took.lock().unwrap().push(took);
                return;
            }
            None => tally.killed.fetch_add(1, Relaxed),
            Some(NETWORK | NO_SPACE) => tally.again.fetch_add(1, Relaxed),
            Some(code) => panic!("{}: code {code}: {}", job.name, done.err),
        };
        // Nothing but the whole has the name.
        if fs::exists(&to).unwrap() {
            assert_eq!(
                hash_of(&to),
                hash_of(&from),
                "a wrong file under the right name"
            );
        }
    }
    panic!("{} is not done after {ATTEMPTS_MAX} attempts", job.name);
}

/// Resident memory in KiB and open descriptors of a process.
fn appetite(pid: Pid) -> (u64, usize) {
    let pid = pid.as_raw_nonzero();
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"));
    let kib = line.unwrap().trim().trim_end_matches(" kB");
    let fds = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    (kib.parse().unwrap(), fds)
}

#[test]
fn f71_f72_a_swarm_of_copies_and_faults_ends_well() {
    let (jobs, rounds) = (
        number("HOWDAH_SWARM_JOBS", 100),
        number("HOWDAH_SWARM_ROUNDS", 1),
    );
    let seed = number("HOWDAH_SWARM_SEED", 1);
    let site = Site::new(120 + 120 * rounds);
    let Some(disk) = SmallDisk::mount(&site.root(""), 64) else {
        return;
    };
    let mut server = site.serve();
    let mut appetites = Vec::new();
    let begin = Instant::now();
    for round in 0..rounds {
        let jobs: Vec<_> = (0..jobs).map(|i| Job::new(round, i, seed)).collect();
        // A server that is to be watched is killed in the first round only.
        let kills = if round == 0 { SERVER_KILLS } else { 0 };
        server = swarm(&site, &disk, server, &jobs, kills);
        if kills > 0 {
            copy_over_what_is_left(&site, &disk, &server, &jobs);
        }
        for job in &jobs {
            for end in job.ends(&site) {
                fs::remove_file(end).unwrap();
            }
        }
        // A client that was killed is missed after the idle timeout.
        await_no_parts(&site.root(""), Duration::from_secs(30));
        site.assert_nothing_half_done();
        let (kib, fds) = appetite(server.process.pid());
        let at_s = begin.elapsed().as_secs();
        println!("round {round}, {at_s} s: the server has {kib} KiB and {fds} descriptors");
        appetites.push((kib, fds));
    }
    // The first rounds fill what the allocator keeps.
    if let [_, _, (_, fds), .., (_, last)] = appetites[..] {
        assert!(last <= fds + 2, "descriptors are left: {appetites:?}");
    }
    server.stop();
}

/// A server that was killed may have held an unfinished file of a client that had been killed before, while that
/// file's next copy was done already: it belongs to nobody, and goes with the next copy to that name.
fn copy_over_what_is_left(site: &Site, disk: &SmallDisk, server: &Server, jobs: &[Job]) {
    let total: u64 = jobs.iter().map(|job| job.size).sum();
    disk.resize(u32::try_from(2 * total / MIB).unwrap());
    let left = parts(site.root(""));
    println!("{} unfinished files are there at the end", left.len());
    for job in jobs.iter().filter(|job| job.up) {
        // `.<name>.<digits>.howdah-part`
        let begin = site.root(&format!(".{}.", job.name));
        if left
            .iter()
            .any(|part| part.to_string_lossy().starts_with(&begin))
        {
            let done = site.copy(Host::Here, &site.file(&job.name), &server.url(&job.name));
            done.assert_copied(job.size, "blake3");
        }
    }
}

/// All jobs at once; the disk becomes large enough little by little, and the server is killed so many times.
fn swarm(site: &Site, disk: &SmallDisk, server: Server, jobs: &[Job], kills: usize) -> Server {
    let total: u64 = jobs.iter().map(|job| job.size).sum();
    let down: u64 = jobs.iter().filter(|j| !j.up).map(|j| j.size).sum();
    // Room for what is there already and a little of what is to come.
    let mut room_mib = (down + (total - down) / ROOM_PARTS) / MIB + 2;
    disk.resize(u32::try_from(room_mib).unwrap());
    for job in jobs {
        let [from, _] = job.ends(site);
        let bytes = content(&job.name, usize::try_from(job.size).unwrap());
        fs::write(from, bytes).unwrap();
    }
    // Relays have no end that the compiler knows.
    let tally: &'static Tally = Box::leak(Box::default());
    let address = server.address;
    let mut server = Some(server);
    thread::scope(|scope| {
        let threads: Vec<_> = jobs
            .iter()
            .map(|job| scope.spawn(move || persist(site, job, address, tally)))
            .collect();
        let (mut moved_at, mut done_before) = (Instant::now(), 0);
        let mut killed = 0;
        while threads.iter().any(|thread| !thread.is_finished()) {
            thread::sleep(Duration::from_millis(50));
            let done = tally.done.load(Relaxed);
            if killed < kills && done >= jobs.len() * (1 + 2 * killed) / 5 {
                killed += 1;
                // Dropping it kills it.
                drop(server.take());
                server = Some(site.serve_at(Host::Here, &address.to_string(), &site.root("")));
            }
            if done > std::mem::replace(&mut done_before, done) {
                moved_at = Instant::now();
            }
            let stat = rustix::fs::statvfs(site.root("")).unwrap();
            let full = stat.f_bavail * stat.f_frsize < FULL_MIB * MIB;
            if full && moved_at.elapsed() > STALLED && room_mib < 2 * total / MIB {
                room_mib += total / MIB / ROOM_PARTS;
                disk.resize(u32::try_from(room_mib).unwrap());
                moved_at = Instant::now();
            }
        }
        assert_eq!(killed, kills);
    });
    let count = |counter: &AtomicUsize| counter.load(Relaxed);
    let took = tally.took.lock().unwrap();
    let mean = took.iter().sum::<f64>() / took.len() as f64;
    println!(
        "{} copies: {} killed, {} ended early, {} waited for room, {} datagrams lost; {mean:.1} s each, the slowest {:.1} s",
        count(&tally.done),
        count(&tally.killed),
        count(&tally.again),
        count(&tally.waited),
        tally.lost.load(Relaxed),
        took.iter().copied().fold(0.0, f64::max),
    );
    // Without them this tests nothing.
    assert!(count(&tally.killed) > 0 && count(&tally.waited) > 0 && tally.lost.load(Relaxed) > 0);
    server.unwrap()
}
