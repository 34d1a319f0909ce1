//! O1: what sessions cost a server in which nothing happens.
//!
//! `make bench-overload` does it with ten thousand (`HOWDAH_IDLE`). The server is a process of its own, this program once more,
//! so that its memory and time are nobody else's.
#![cfg(target_os = "linux")]

use crate::support;
use crate::support::idle::idle;
use howdah::{Cancel, Identity, Log, PublicKey};
use howdah_proto::KnockKey;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

/// Where the server's child finds keys and a root.
const PLACE: &str = "HOWDAH_TEST_IDLE_PLACE";
/// Of one session, in bytes.
const MOST_BYTES: u64 = 32 << 10;
/// Of a core, of all of them together.
const MOST_SHARE: f64 = 0.05;
/// Sessions of one client's endpoint.
const OF_ONE: usize = 1_000;

/// The number asked for, if one was.
fn asked() -> Option<usize> {
    std::env::var("HOWDAH_IDLE").ok()?.parse().ok()
}

/// The server: says where it is, and serves until its standard input ends.
fn serve(place: &Path) {
    let key = |name: &str| Identity::load(&place.join(name)).expect("a key");
    let server = support::server(place, &[&key("ours")], key("theirs"), Log::default());
    println!("at {}", server.local_addr());
    let stop = Cancel::new();
    std::thread::scope(|scope| {
        scope.spawn(|| server.run(&stop));
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        stop.cancel();
    });
}

/// The child that serves, and where.
struct Server(Child, SocketAddr);

impl Server {
    fn start(place: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args([
                "--exact",
                "idle::o1_idle_sessions_cost_little",
                "--nocapture",
            ])
            .env(PLACE, place)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program once more");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let at = lines.find_map(|line| {
            let line = line.expect("text");
            line.split_once("at ").and_then(|(_, at)| at.parse().ok())
        });
        // What it says further must find somebody.
        std::thread::spawn(move || lines.for_each(drop));
        Self(child, at.expect("an address"))
    }

    /// Bytes of memory that are its own.
    fn memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0.id())).expect("it lives");
        let kib = status.lines().find_map(|line| {
            let words = line.strip_prefix("RssAnon:")?.split_whitespace();
            words.into_iter().next()?.parse::<u64>().ok()
        });
        kib.expect("the kernel tells") << 10
    }

    /// Time of processors so far, in seconds.
    fn cpu(&self) -> f64 {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.0.id())).expect("it lives");
        let nanos = tasks.map(|task| {
            let path = task.expect("a thread").path().join("schedstat");
            let text = fs::read_to_string(path).unwrap_or_default();
            let first = text.split_whitespace().next().map(str::parse::<u64>);
            first.and_then(Result::ok).unwrap_or(0)
        });
        nanos.sum::<u64>() as f64 / 1e9
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// Whether it is so within that time.
fn until(limit: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    while !is_so() {
        if Instant::now() >= end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    true
}

#[test]
fn o1_idle_sessions_cost_little() {
    if let Some(place) = std::env::var_os(PLACE) {
        return serve(Path::new(&place));
    }
    let wanted = asked().unwrap_or(400);
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a place");
    let made = |name: &str| {
        Identity::load_or_create(&dir.path().join(name))
            .expect("a key")
            .0
    };
    let (ours, theirs) = (made("ours"), made("theirs"));
    let server = Server::start(dir.path());
    let (cancel, count) = (Cancel::new(), AtomicUsize::new(0));
    let shown: PublicKey = *theirs.public_key();
    let (connected, stop) = (&count, &cancel);
    let run = |count| {
        let knock = KnockKey::of(shown.spki_der());
        idle(server.1, (&ours, knock), (count, connected), stop)
    };
    let (mut each, mut share, mut all) = (0, 0.0, 0);
    let ended: Vec<_> = std::thread::scope(|scope| {
        let mut clients = Vec::new();
        let mut before = server.memory();
        // What a first session makes the server set up is nobody's.
        for count in [1].into_iter().chain(counts(wanted)) {
            clients.push(scope.spawn(move || run(count)));
            all += count;
            let came = || connected.load(Ordering::Relaxed) >= all;
            if !until(Duration::from_mins(3), came) {
                break;
            }
            if all == 1 {
                before = server.memory();
            }
        }
        each = server.memory().saturating_sub(before) / (all as u64 - 1).max(1);
        if asked().is_some() {
            let (began, cpu) = (Instant::now(), server.cpu());
            std::thread::sleep(Duration::from_secs(30));
            share = (server.cpu() - cpu) / began.elapsed().as_secs_f64();
        }
        stop.cancel();
        let ended = clients.into_iter().map(ScopedJoinHandle::join);
        ended.flat_map(|ended| ended.expect("no panic")).collect()
    });
    println!(
        "{} idle sessions: {each} bytes each, {:.1} % of a core in all",
        all - 1,
        share * 100.0
    );
    let first = ended.first();
    assert!(first.is_none(), "{} have ended: {first:?}", ended.len());
    assert_eq!(connected.load(Ordering::Relaxed), wanted + 1, "they get in");
    assert!(each <= MOST_BYTES, "{each} bytes");
    assert!(share < MOST_SHARE, "{share}");
}

/// So many for each endpoint of clients.
fn counts(wanted: usize) -> impl Iterator<Item = usize> {
    (0..wanted)
        .step_by(OF_ONE)
        .map(move |from| OF_ONE.min(wanted - from))
}
