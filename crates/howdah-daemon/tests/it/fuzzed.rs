//! Thousands of requests that are nearly others: no answer says that something inside went wrong, nothing panics, nobody gets in who may not,
//! and what was answered is true. `HOWDAH_FUZZ_ROUNDS=100000` sends more of them, `HOWDAH_FUZZ_SEED=2` others.
//! It sets the hook that hears of all panics of its process: it wants one of its own.
#![cfg(target_os = "linux")]

use crate::support::{Daemon, HOST, code, config, get, request, said};
use howdah_daemon::client::{Client, Which};
use serde_json::{Map, Value, json};
use std::fmt::Write as _;
use std::io::Write as _;
use std::net::Shutdown;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// Requests of each kind.
const ROUNDS: u64 = 2_500;
/// Of those over TCP, where each costs a second's share.
const GUESSES: u64 = 300;

/// The same again for the same seed (Steele, Lea and Flood, Fast Splittable Pseudorandom Number Generators).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound.max(1) as u64).unwrap()
    }

    fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}

/// A request that makes sense.
#[derive(Clone)]
struct Request {
    method: &'static str,
    path: String,
    body: Option<Value>,
}

impl Request {
    fn bytes(&self) -> Vec<u8> {
        let body = self.body.as_ref().map(Value::to_string);
        self.with_body(body.unwrap_or_default().as_bytes())
    }

    fn with_body(&self, body: &[u8]) -> Vec<u8> {
        let kind = match self.body {
            Some(_) => "Content-Type: application/json\r\n",
            None => "",
        };
        let line = format!("{} {}", self.method, self.path);
        request(&line, &format!("{HOST}{kind}"), body)
    }
}

/// What everything begins with. Streams without an end, and long waits, are not among it.
fn samples(dir: &str) -> Vec<Request> {
    let job = json!({
        "kind": "cp", "arguments": ["-r", "a", "h:b"], "directory": dir, "labels": ["x", "y"], "priority": 3, "retries": 2,
        "after": [], "deadline_ms": 4_000_000_000_000_u64, "by_ms": 4_000_000_000_000_u64, "submission": "name", "hold": true,
    });
    let plain = json!({ "kind": "sync", "arguments": ["a", "h:b"], "directory": dir });
    let with = |method, path: &str, body| Request {
        method,
        path: path.to_owned(),
        body: Some(body),
    };
    let without = |method| {
        move |path: &&str| Request {
            method,
            path: (*path).to_owned(),
            body: None,
        }
    };
    let schedule = json!({ "cron": "30 2 * * 1-5", "zone": "UTC", "missed": "once", "overlap": "skip", "job": plain });
    let watched = json!({ "kind": "cp", "arguments": ["h:b"], "directory": dir });
    let path = format!("{dir}/watched");
    let mut all = vec![
        with("POST", "/v1/jobs", job),
        with("POST", "/v1/jobs", plain.clone()),
        with("POST", "/v1/jobs/1/limit", json!({ "limit": "100000" })),
        with("PUT", "/v1/limits", json!({ "limit": "100000" })),
        with(
            "PUT",
            "/v1/hosts/a",
            json!({ "limit": "100000", "max_running": 3 }),
        ),
        with("POST", "/v1/schedules", schedule),
        with(
            "POST",
            "/v1/watches",
            json!({ "path": path, "quiet_seconds": 5, "job": watched }),
        ),
        with("POST", "/v1/bench", json!({ "host": "h", "seconds": 1 })),
        with(
            "POST",
            "/v1/tickets/use",
            json!({ "ticket": "0123456789abcdef" }),
        ),
    ];
    let gets = [
        "/v1/jobs?state=waiting,held&text=a%20b&label=x&host=h&before=9&limit=5",
        "/v1/jobs/1",
        "/v1/jobs/1/output?event=change,summary&attempt=1&offset=0&limit=9",
        "/v1/files?path=/",
        "/v1/remote?place=h:b",
        "/v1/doctor?peer=h",
        "/v1/schedules/1",
        "/v1/watches/1",
        "/v1/limits",
        "/v1/hosts",
        "/v1/about",
        "/v1/openapi.json",
        "/metrics",
        "/console.js",
    ];
    let posts = [
        "/v1/jobs/1/cancel",
        "/v1/jobs/2/hold",
        "/v1/jobs/2/release",
        "/v1/schedules/1/pause",
        "/v1/schedules/1/resume",
        "/v1/watches/1/pause",
        "/v1/watches/1/resume",
        "/v1/tickets",
    ];
    all.extend(gets.iter().map(without("GET")));
    all.extend(posts.iter().map(without("POST")));
    all.extend(
        ["/v1/schedules/2", "/v1/watches/2"]
            .iter()
            .map(without("DELETE")),
    );
    all
}

/// Parts of paths and questions on which things turn.
const PARTS: [&str; 26] = [
    "%00",
    "%ff",
    "%2e%2e%2f",
    "..",
    "/",
    "//",
    "?",
    "&",
    "=",
    "%",
    "%2",
    "-1",
    "0",
    "1e3",
    "9223372036854775808",
    "99999999999999999999",
    "%27%20OR%201=1--",
    "*",
    "{id}",
    "%e2%80%ae",
    "#",
    ";",
    "+",
    "text=%25",
    "limit=0",
    "%0d%0aX:%20y",
];

/// Values that nobody expects.
fn odd(dice: &mut Dice) -> Value {
    let deep = |n: usize| (0..n).fold(json!("x"), |inner, _| json!([inner]));
    match dice.below(22) {
        0 => Value::Null,
        1 => json!(true),
        2 => json!(-1),
        3 => json!(0),
        4 => json!(u64::MAX),
        5 => json!(i64::MIN),
        6 => json!(1.5e308),
        7 => json!(0.5),
        8 => json!(""),
        9 => json!("\0"),
        10 => json!("-"),
        11 => json!("--ssh=sh"),
        12 => json!("../../etc/passwd"),
        13 => json!("/"),
        14 => json!("\u{202e}\u{1b}[31m\r\n"),
        15 => json!("x".repeat(10_000)),
        16 => json!([]),
        17 => json!({}),
        18 => deep(100),
        19 => json!(vec!["x"; 5_000]),
        20 => json!("* * * * *"),
        _ => json!("1"),
    }
}

/// Somewhere in it something is another thing.
fn change(dice: &mut Dice, value: &mut Value) {
    let into = dice.below(4) > 0;
    match value {
        Value::Object(fields) if into && !fields.is_empty() => change_fields(dice, fields),
        Value::Array(all) if into && !all.is_empty() => {
            let at = dice.below(all.len());
            match dice.below(4) {
                0 => drop(all.remove(at)),
                1 => all.push(odd(dice)),
                _ => change(dice, &mut all[at]),
            }
        }
        other => *other = odd(dice),
    }
}

fn change_fields(dice: &mut Dice, fields: &mut Map<String, Value>) {
    let names: Vec<String> = fields.keys().cloned().collect();
    let name = dice.of(&names);
    match dice.below(8) {
        0 => drop(fields.remove(name)),
        1 => drop(fields.insert("program".to_owned(), odd(dice))),
        2 => {
            let found = fields.remove(name).unwrap();
            fields.insert(name.to_ascii_uppercase(), found);
        }
        _ => change(dice, fields.get_mut(name).unwrap()),
    }
}

/// One that can be read, and means something else or nothing.
fn readable(dice: &mut Dice, all: &[Request]) -> Vec<u8> {
    let mut made = dice.of(all).clone();
    if dice.below(6) == 0 {
        made.method = *dice.of(&["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD"]);
    }
    if made.body.is_none() || dice.below(4) == 0 {
        for _ in 0..=dice.below(2) {
            let at = 1 + dice.below(made.path.len());
            let part = *dice.of(&PARTS);
            if dice.below(2) == 0 {
                made.path.truncate(at);
            }
            made.path.insert_str(at, part);
        }
    }
    let Some(body) = &mut made.body else {
        return made.bytes();
    };
    for _ in 0..=dice.below(2) {
        change(dice, body);
    }
    let mut text = body.to_string().into_bytes();
    match dice.below(8) {
        0 => scramble(dice, &mut text, b"{}"),
        1 if text.last() == Some(&b'}') => {
            text.pop();
            text.extend_from_slice(br#","directory":"/tmp","kind":"cp"}"#);
        }
        _ => {}
    }
    made.with_body(&text)
}

/// Some bytes are others, or gone, or there twice.
fn scramble(dice: &mut Dice, bytes: &mut Vec<u8>, other: &[u8]) {
    for _ in 0..=dice.below(4) {
        let at = dice.below(bytes.len());
        let end = (at + dice.below(16)).min(bytes.len());
        match dice.below(6) {
            0 => bytes.truncate(at),
            1 => drop(bytes.drain(at..end)),
            2 => {
                let part = bytes[at..end].to_vec();
                bytes.splice(at..at, part);
            }
            3 => {
                bytes.truncate(at);
                bytes.extend_from_slice(&other[dice.below(other.len())..]);
            }
            _ if bytes.is_empty() => {}
            4 => bytes[at] ^= 1 << dice.below(8),
            _ => bytes[at] = *dice.of(b"\0\r\n :/%\"{}[]\xff-"),
        }
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// What went wrong in the daemon, whose threads are ours.
fn hear_panics() -> Arc<Mutex<Vec<String>>> {
    let heard = Arc::<Mutex<Vec<String>>>::default();
    let (told, usual) = (Arc::clone(&heard), std::panic::take_hook());
    std::panic::set_hook(Box::new(move |info| {
        told.lock().unwrap().push(info.to_string());
        usual(info);
    }));
    heard
}

fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(2_000)])
        .escape_debug()
        .to_string()
}

/// Whoever says nothing for 5 s is let go, as may happen to us on a busy machine; then it is said again.
fn answered(daemon: &Daemon, bytes: &[u8]) -> String {
    let mut answers = (0..5).map(|_| daemon.say(bytes));
    answers.find(|answer| code(answer) != 0).unwrap_or_default()
}

#[test]
fn whatever_is_asked_is_answered_and_nothing_comes_of_it_that_may_not() {
    let panics = hear_panics();
    let rounds = number("HOWDAH_FUZZ_ROUNDS").unwrap_or(ROUNDS);
    let mut dice = Dice(number("HOWDAH_FUZZ_SEED").unwrap_or(1));
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().canonicalize().unwrap();
    std::fs::create_dir(place.join("watched")).unwrap();
    let mut config = config(dir.path());
    config.listen = Some("127.0.0.1:0".parse().unwrap());
    config.allow = vec![place.clone()];
    let daemon = Daemon::begin(dir, config);
    let all = samples(place.to_str().unwrap());
    let mut counts = std::collections::BTreeMap::<u16, u64>::new();
    let mut submitted = Vec::new();
    // As it should be, so that there is something to be changed.
    for sample in &all {
        assert_ne!(daemon.status(&sample.bytes()), 500, "{}", sample.path);
    }
    for _ in 0..rounds {
        let bytes = readable(&mut dice, &all);
        let answer = answered(&daemon, &bytes);
        let code = code(&answer);
        assert!(
            (200..600).contains(&code) && code != 500,
            "{code}: {}: {answer}",
            shown(&bytes)
        );
        *counts.entry(code).or_default() += 1;
        if code == 201 && bytes.starts_with(b"POST /v1/jobs ") {
            let (_, body) = answer.split_once("\r\n\r\n").unwrap();
            let made: Value = serde_json::from_str(body).unwrap();
            submitted.push(made["id"].as_i64().unwrap());
        }
    }
    let known: Vec<_> = all.iter().map(Request::bytes).collect();
    for _ in 0..rounds {
        let mut bytes = dice.of(&known).clone();
        let other = dice.of(&known);
        scramble(&mut dice, &mut bytes, other);
        let mut stream = daemon.connect();
        // There is no more of it: whoever waits for the rest need not.
        let _ = stream.write_all(&bytes);
        let _ = stream.shutdown(Shutdown::Write);
        let code = code(&said(stream, b""));
        assert!(code < 600 && code != 500, "{code}: {}", shown(&bytes));
        *counts.entry(code).or_default() += 1;
    }
    let admin = daemon.token("admin");
    for _ in 0..GUESSES {
        let mut token = admin.clone().into_bytes();
        scramble(&mut dice, &mut token, admin.as_bytes());
        token.retain(u8::is_ascii_graphic);
        let token = String::from_utf8(token).unwrap();
        if token == admin {
            continue;
        }
        let sample = dice.of(&all);
        if !["/console.js", "/v1/tickets/use"].contains(&&*sample.path) {
            let code = daemon.status_over_tcp(&daemon.over_tcp(&sample.bytes(), &token));
            assert!([0, 400, 401, 429].contains(&code), "{code}: {token}");
        }
    }
    let mut text = String::new();
    for (code, count) in &counts {
        let _ = write!(text, " {code}: {count}");
    }
    println!("{} requests, answered:{text}", 2 * rounds);
    assert_eq!(*panics.lock().unwrap(), Vec::<String>::new());
    assert!(!submitted.is_empty());
    let client = Client::new(&daemon.dir.path().join("state"));
    for id in submitted {
        let answer = answered(&daemon, &get(&format!("/v1/jobs/{id}")));
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        let found: Value = serde_json::from_str(body).unwrap();
        let words = found["spec"]["arguments"]
            .as_array()
            .unwrap()
            .iter()
            .rev()
            .take(2);
        for path in words.map(|word| Path::new(word.as_str().unwrap())) {
            assert!(path.is_relative() || path.starts_with(&place), "{found}");
        }
    }
    for line in daemon.audit().lines() {
        serde_json::from_str::<Value>(line).unwrap();
    }
    // Whoever means well is served.
    assert_eq!(client.list(&Which::default(), 1).unwrap().jobs.len(), 1);
}
