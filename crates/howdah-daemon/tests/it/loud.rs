//! A child that says more than anybody can read, and browsers that read slowly: both cost a bounded amount of memory, hold nobody up, and
//! lose nothing of how it ended. It counts the memory of its process, and resets the kernel's count of the most: it wants one of its own.
#![cfg(target_os = "linux")]

use crate::support::{Daemon, HOST, PATIENCE, config, get, post};
use serde_json::Value;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Events of the child, within a second or so.
const EVENTS: u64 = 200_000;
/// Its events have twice as much.
const MEMORY: u64 = 16 << 20;

/// The memory of this process is that of one daemon.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes of memory of this process, now or at most so far.
fn memory(name: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib << 10
}

/// A daemon whose jobs are this: they take up their attempts, say so much, and are done.
fn with_child(says: &str) -> Daemon {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("child");
    let script = format!(
        "#!/bin/sh\ndir=\"${{1#--job-record=}}\"\n\
         printf '{{\"by\":{{\"pid\":%d,\"start_ticks\":0,\"boot\":\"\"}}}}' $$ >\"$dir/claim\"\n\
         {says}\n"
    );
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let mut config = config(dir.path());
    config.program = program;
    config.listen = Some("127.0.0.1:0".parse().unwrap());
    Daemon::begin(dir, config)
}

/// A stream of events, of which nothing is read yet.
fn follow(daemon: &Daemon, path: &str) -> BufReader<UnixStream> {
    let mut stream = daemon.connect();
    let head = format!("GET {path} HTTP/1.1\r\n{HOST}Connection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    BufReader::new(stream)
}

/// The next event: its name, and what it says. None: the stream has ended.
fn next(stream: &mut BufReader<UnixStream>) -> Option<(String, Value)> {
    let mut name = String::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        // Whoever is let go may have a part of a line.
        if !line.ends_with('\n') {
            return None;
        }
        // What is between them is of HTTP.
        if let Some(found) = line.strip_prefix("event: ") {
            found.trim_end().clone_into(&mut name);
        } else if let Some(data) = line.strip_prefix("data: ") {
            return Some((name, serde_json::from_str(data).unwrap()));
        }
    }
}

fn body(answer: &str) -> Value {
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap()
}

#[test]
fn a_child_that_says_too_much_is_followed_to_its_end_in_bounded_memory() {
    let _alone = alone();
    let says = format!(
        r#"seq -f '{{"event":"progress","bytes":%.0f,"more":"{}"}}' {EVENTS}
        echo '{{"event":"summary","bytes":7}}'"#,
        "x".repeat(100)
    );
    let daemon = with_child(&says);
    let mut all = follow(&daemon, "/v1/events");
    assert_eq!(next(&mut all).unwrap().0, "hello");
    let before = memory("VmRSS");
    // From now on: another test may have taken more.
    fs::write("/proc/self/clear_refs", "5").unwrap();
    let spec = br#"{"kind":"verify","arguments":["a","b"],"directory":"/"}"#;
    assert_eq!(daemon.status(&post(spec)), 201);
    // One that takes an event whenever somebody has asked something else.
    let mut slow = follow(&daemon, "/v1/jobs/1/events");
    let mut expected = 1;
    let mut take = |slow: &mut BufReader<UnixStream>| {
        let (name, data) = next(slow)?;
        if name == "event" && data["event"] == "progress" {
            assert_eq!(data["bytes"], expected, "in their order, and each once");
            expected += 1;
        }
        Some((name, data))
    };
    let end = Instant::now() + PATIENCE;
    let job = loop {
        let job = body(&daemon.say(&get("/v1/jobs/1")));
        if job["state"] == "done" {
            break job;
        }
        assert!(job["state"] != "failed" && Instant::now() < end, "{job}");
        take(&mut slow);
    };
    assert_eq!(
        (&job["exit_code"], &job["last"]["event"]),
        (&0.into(), &"summary".into()),
        "{job}"
    );
    let mut progress = 0;
    loop {
        let (name, data) = next(&mut all).unwrap();
        progress += u64::from(name == "progress");
        if name == "ended" {
            assert_eq!(data["last"]["bytes"], 7, "{data}");
            break;
        }
    }
    // About one in a second.
    assert!(progress < EVENTS / 100, "{progress}");
    let more = memory("VmHWM").saturating_sub(before);
    assert!(
        more < MEMORY,
        "{more} bytes of memory for what nobody has read"
    );
    let mut last = None;
    while let Some(event) = take(&mut slow) {
        last = Some(event);
    }
    assert_eq!(expected, EVENTS + 1, "nothing is lost");
    let (name, state) = last.unwrap();
    assert_eq!((&*name, &state["state"]), ("state", &"done".into()));
    println!(
        "{EVENTS} events, {progress} of them told to all, {} KiB more memory",
        more >> 10
    );
}

/// More than is kept of what a child says.
const TOO_MUCH: u64 = 120_000;
/// The first and the last 16 MiB of its events, and half of that again.
const ROOM: u64 = 40 << 20;

#[test]
fn of_a_child_that_never_stops_the_first_and_the_last_that_it_said_are_kept() {
    let _alone = alone();
    let says = format!(
        r#"seq -f '{{"event":"file","number":%.0f,"more":"{0}"}}' {TOO_MUCH}
        seq -f 'oh no {1} %.0f' {TOO_MUCH} >&2
        echo '{{"event":"summary","bytes":7}}'"#,
        "x".repeat(400),
        "x".repeat(40)
    );
    let daemon = with_child(&says);
    let spec = br#"{"kind":"verify","arguments":["a","b"],"directory":"/"}"#;
    assert_eq!(daemon.status(&post(spec)), 201);
    let job = body(&daemon.say(&get("/v1/jobs/1?wait_seconds=60")));
    assert_eq!(
        (&job["state"], &job["last"]["event"]),
        (&"done".into(), &"summary".into()),
        "{job}"
    );
    let attempt = daemon.dir.path().join("state/attempts/1-1");
    let room = |name: &str| {
        let found = fs::metadata(attempt.join(name)).unwrap();
        (found.len(), found.blocks() * 512)
    };
    let ((said, kept), (_, of_log)) = (room("events"), room("log"));
    if kept >= said {
        println!("skipped: no holes in {}", attempt.display());
        return;
    }
    assert!(
        said > ROOM && kept <= ROOM && of_log <= ROOM >> 4,
        "{said} {kept} {of_log}"
    );
    let log = fs::File::open(attempt.join("log")).unwrap();
    let last = format!(" {TOO_MUCH}\n");
    let length = log.metadata().unwrap().len();
    for (at, wanted) in [(0, "oh no xxx"), (length - last.len() as u64, &*last)] {
        let mut found = vec![0; wanted.len()];
        log.read_exact_at(&mut found, at).unwrap();
        assert_eq!(String::from_utf8_lossy(&found), wanted);
    }

    let (mut offset, mut numbers, mut words) = (0, Vec::new(), Vec::new());
    loop {
        let page = format!("/v1/jobs/1/output?limit=1000&offset={offset}");
        let page = body(&daemon.say(&get(&page)));
        for event in page["events"].as_array().unwrap() {
            numbers.extend(event["number"].as_u64());
            words.extend(event["message"].as_str().map(str::to_owned));
        }
        offset = page["next_offset"].as_u64().unwrap();
        if page["complete"] == true {
            break;
        }
    }
    assert_eq!((numbers[0], numbers.last()), (1, Some(&TOO_MUCH)));
    assert!(numbers.is_sorted() && (numbers.len() as u64) < TOO_MUCH);
    let [word] = &words[..] else {
        panic!("{words:?}")
    };
    assert!(word.contains("are not kept"), "{word}");
}

#[test]
fn a_browser_that_reads_nothing_is_dropped_and_the_others_hear_everything() {
    const BATCH: usize = 100;
    const JOBS: usize = 1_700;
    let _alone = alone();
    let daemon = with_child("exit 0");
    let [mut slow, mut fast] = [0, 1].map(|_| follow(&daemon, "/v1/events"));
    for stream in [&mut slow, &mut fast] {
        assert_eq!(next(stream).unwrap().0, "hello");
    }
    let held = |length: usize| {
        let word = "x".repeat(length);
        let spec = format!(
            r#"{{"kind":"verify","arguments":["{word}","b"],"directory":"/","hold":true}}"#
        );
        assert_eq!(daemon.status(&post(spec.as_bytes())), 201);
    };
    // What waits for the slow one is what fits into the socket, and 1,024 events.
    for _ in 0..JOBS / BATCH {
        for _ in 0..BATCH {
            held(4_000);
        }
        for _ in 0..BATCH {
            assert_eq!(next(&mut fast).unwrap().0, "job");
        }
    }
    // Long ones do not fill the memory, either: whoever wants to know asks.
    held(100_000);
    assert_eq!(next(&mut fast).unwrap().0, "jobs");
    // It is told so when it reads again; after 30 s in which it took nothing it was let go without a word.
    let (mut heard, mut dropped) = (0, 0);
    while let Some((name, _)) = next(&mut slow) {
        assert_eq!(dropped, 0, "that is the end");
        if name == "dropped" {
            dropped += 1;
        } else {
            heard += 1;
        }
    }
    assert!(heard < JOBS - 1_024, "{heard}");
    let figures = daemon.say(&get("/metrics"));
    let count = format!("howdah_daemon_event_streams_dropped_total {dropped}");
    assert!(figures.contains(&count), "{count}: {figures}");
}
