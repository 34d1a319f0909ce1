//! What the program is asked on the spot, for who is about to submit a job: what is in a directory of another machine, how this machine and the way to
//! another one do. Each is a process of its own with bounds: in time, in words, and in how many there are.

#![expect(
    unused_qualifications,
    reason = "what describes the parameters is made by a macro"
)]

use super::jobs::{Asked, is_json};
use super::shapes::{BenchWanted, Directory, Entry, Problem};
use super::{Failure, Shared};
use crate::job::{Kind, Spec};
use axum::Json;
use axum::body::Bytes;
use axum::extract::{Query, State as Given};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use rustix::process::{Pid, Signal, kill_process_group};
use serde::Deserialize;
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};
use utoipa::IntoParams;

/// So many at a time.
pub(crate) const AT_ONCE: usize = 4;
/// Names of a directory that are told; of one with more, the first.
const MOST: usize = 5_000;
/// Of what one says.
const BYTES: u64 = 8 << 20;
/// Of a place or a host.
const NAME: usize = 4_096;

/// ssh may have to log in, and both ends are far.
const LOOK: Duration = Duration::from_secs(30);
/// Disks may be slow.
const DOCTOR: Duration = Duration::from_mins(2);
/// An order takes no longer.
const BENCH: Duration = Duration::from_secs(28);
/// Of each direction.
const BENCH_SECONDS: u64 = 5;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Place {
    /// A directory of another machine, as for `howdah ls`: `site:data` or `howdah://site/data`.
    place: String,
}

/// What is in a directory of another machine, as `howdah ls` tells it. It takes as long as the way there.
#[utoipa::path(
    get,
    path = "/v1/remote",
    params(Place),
    responses(
        (status = 200, description = "Its names", body = Directory),
        (status = 400, description = "It names no other machine, or no directory", body = Problem),
        (status = 403, description = "That machine refuses it", body = Problem),
        (status = 404, description = "There is none", body = Problem),
        (status = 502, description = "That machine does not answer as it should: its key is not known, or the network fails", body = Problem),
        (status = 503, description = "Not now: too many of these at once, or no process can be started", body = Problem),
        (status = 504, description = "It took too long", body = Problem),
    )
)]
pub(super) async fn list(
    Given(shared): Given<Arc<Shared>>,
    asked: Asked<Place>,
) -> Result<Response, Failure> {
    let Query(Place { place }) = asked.map_err(|e| Failure::usage(e.body_text()))?;
    is_name(&place)?;
    is_elsewhere(&shared, &place).await?;
    let args = ["ls", "--json", "--", &place].map(str::to_owned);
    let said = run(&shared, args.to_vec(), LOOK, MOST + 1).await?;
    Ok(Json(directory(place, &said)?).into_response())
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Patient {
    /// Look at the path to that machine, too: `site` or `howdah://site`.
    peer: Option<String>,
}

/// Checks the daemon's machine for what slows transfers down, as `howdah doctor --json` does, in the daemon's own directory. It takes some seconds.
#[utoipa::path(
    get,
    path = "/v1/doctor",
    params(Patient),
    responses(
        (status = 200, description = "What it found, as docs/cli.md has it", body = Object),
        (status = 400, description = "That is no machine", body = Problem),
        (status = 502, description = "That machine does not answer as it should", body = Problem),
        (status = 503, description = "Not now: too many of these at once, or no process can be started", body = Problem),
        (status = 504, description = "It took too long", body = Problem),
    )
)]
pub(super) async fn doctor(
    Given(shared): Given<Arc<Shared>>,
    asked: Asked<Patient>,
) -> Result<Response, Failure> {
    let Query(Patient { peer }) = asked.map_err(|e| Failure::usage(e.body_text()))?;
    let mut args = vec!["doctor".to_owned(), "--json".to_owned()];
    if let Some(peer) = peer {
        is_name(&peer)?;
        args.push(format!("--peer={peer}"));
    }
    let own = shared.attempts.parent().unwrap_or(&shared.home);
    args.extend(["--".to_owned(), own.display().to_string()]);
    one(&run(&shared, args, DOCTOR, 1).await?)
}

/// Measures what copies to and from a machine could reach, as `howdah bench --json` does. It moves as much as the path takes.
#[utoipa::path(
    post,
    path = "/v1/bench",
    request_body = BenchWanted,
    responses(
        (status = 200, description = "All figures, as docs/cli.md has them", body = Object),
        (status = 400, description = "That is no machine", body = Problem),
        (status = 403, description = "That machine refuses it", body = Problem),
        (status = 415, description = "It is not application/json", body = Problem),
        (status = 502, description = "That machine does not answer as it should", body = Problem),
        (status = 503, description = "Not now: too many of these at once, or no process can be started", body = Problem),
        (status = 504, description = "It took too long", body = Problem),
    )
)]
pub(super) async fn bench(
    Given(shared): Given<Arc<Shared>>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Failure> {
    is_json(&headers)?;
    let wanted: BenchWanted = serde_json::from_slice(&body)
        .map_err(|e| Failure::usage(format!("no description of a measurement: {e}")))?;
    is_name(&wanted.host)?;
    let seconds = wanted.seconds.unwrap_or(3);
    if !(1..=BENCH_SECONDS).contains(&seconds) {
        return Err(Failure::usage(format!(
            "'seconds' is between 1 and {BENCH_SECONDS}"
        )));
    }
    let time = format!("--time={seconds}s");
    let args = ["bench", "--json", &time, "--", &wanted.host].map(str::to_owned);
    one(&run(&shared, args.to_vec(), BENCH, 1).await?)
}

/// What names something, and is no option of a program and nothing that hides in a log.
fn is_name(name: &str) -> Result<(), Failure> {
    if name.is_empty() || name.len() > NAME || name.starts_with('-') || name.contains('\0') {
        return Err(Failure::usage("that names no machine and no place"));
    }
    Ok(())
}

/// Only what lies on other machines: files of this one are for `/v1/files`, which knows what may be touched.
async fn is_elsewhere(shared: &Shared, place: &str) -> Result<(), Failure> {
    let places = vec!["--".to_owned(), place.to_owned(), place.to_owned()];
    let spec = Spec::new(Kind::Verify, places, "/");
    let grammar = Arc::clone(&shared.grammar);
    let meant = tokio::task::spawn_blocking(move || grammar.check(&spec)).await;
    let meant = meant.map_err(|_| Failure::internal("the parser failed"))?;
    let meant = meant.map_err(Failure::usage)?;
    if meant.hosts.is_empty() || !meant.paths.is_empty() {
        return Err(Failure::usage(format!(
            "{place} is on no other machine; /v1/files looks into directories of this one"
        )));
    }
    Ok(())
}

/// What a process said, a line each.
struct Said {
    lines: Vec<Value>,
    /// It had more to say.
    cut: bool,
}

/// Runs the program with these arguments until it has said so many lines.
async fn run(
    shared: &Shared,
    args: Vec<String>,
    patience: Duration,
    lines: usize,
) -> Result<Said, Failure> {
    let busy = |_| Failure::busy("too many of these at once; try again in some seconds");
    let permit = Arc::clone(&shared.errands)
        .try_acquire_owned()
        .map_err(busy)?;
    let (program, home) = (shared.program.clone(), shared.home.clone());
    let work = move || {
        let said = ask(&program, &home, &args, patience, lines);
        drop(permit);
        said
    };
    let said = tokio::task::spawn_blocking(work).await;
    said.map_err(|_| Failure::internal("the process was lost"))?
}

/// A process, with all that it has started. Dropping it ends them.
struct Group(Child);

impl Drop for Group {
    fn drop(&mut self) {
        // It is not waited for yet, so its number is its own.
        let id = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw);
        if let Some(id) = id {
            // That there is nobody left is no failure.
            let _ = kill_process_group(id, Signal::KILL);
        }
        let _ = self.0.wait();
    }
}

fn ask(
    program: &Path,
    home: &Path,
    args: &[String],
    patience: Duration,
    most: usize,
) -> Result<Said, Failure> {
    let failed = |error: std::io::Error| Failure::busy(format!("the program: {error}"));
    let child = Command::new(program)
        .args(args)
        .current_dir(home)
        // Nobody would wait for it any more.
        .env("HOWDAH_DIE_WITH_PARENT", "1")
        // Nobody is there who could answer.
        .env("SSH_ASKPASS_REQUIRE", "never")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn();
    let mut child = Group(child.map_err(failed)?);
    let out = child.0.stdout.take();
    let out = out.ok_or_else(|| Failure::internal("the program has no output"))?;
    let (tell, told) = sync_channel(64);
    thread::Builder::new()
        .name("howdah-errand".to_owned())
        .spawn(move || {
            let lines = BufReader::new(out.take(BYTES)).lines();
            for line in lines.map_while(Result::ok) {
                // Nobody may wait any more.
                if tell.send(line).is_err() {
                    return;
                }
            }
        })
        .map_err(failed)?;
    let end = Instant::now() + patience;
    let mut said = Said {
        lines: Vec::new(),
        cut: false,
    };
    loop {
        match told.recv_timeout(end.saturating_duration_since(Instant::now())) {
            // What is no JSON is none of the words that are meant.
            Ok(line) => said.lines.extend(serde_json::from_str::<Value>(&line)),
            Err(RecvTimeoutError::Disconnected) => return Ok(said),
            Err(RecvTimeoutError::Timeout) => {
                let text = format!("that took more than {} s", patience.as_secs());
                let status = StatusCode::GATEWAY_TIMEOUT;
                return Err(Failure::new(status, "network", text));
            }
        }
        if said.lines.len() > most {
            said.cut = true;
            return Ok(said);
        }
    }
}

/// Why it failed, if it did.
fn trouble(said: &Said) -> Result<(), Failure> {
    let last = said.lines.last();
    let Some(error) = last
        .and_then(|line| line.get("error"))
        .filter(|_| !said.cut)
    else {
        return Ok(());
    };
    let word = |name: &str| error.get(name).and_then(Value::as_str).unwrap_or_default();
    let (status, kind) = match word("kind") {
        "usage" => (StatusCode::BAD_REQUEST, "usage"),
        "not_found" => (StatusCode::NOT_FOUND, "not_found"),
        "refused" => (StatusCode::FORBIDDEN, "refused"),
        "auth" => (StatusCode::BAD_GATEWAY, "auth"),
        "network" => (StatusCode::BAD_GATEWAY, "network"),
        "protocol" => (StatusCode::BAD_GATEWAY, "protocol"),
        // Some of it could be read, which is better than nothing.
        "partial" => return Ok(()),
        _ => (StatusCode::BAD_GATEWAY, "io"),
    };
    Err(Failure::new(status, kind, word("message")))
}

/// The one object that it said.
fn one(said: &Said) -> Result<Response, Failure> {
    trouble(said)?;
    let object = said.lines.last();
    let object = object.ok_or_else(|| Failure::internal("the program has said nothing"))?;
    Ok(Json(object.clone()).into_response())
}

fn directory(path: String, said: &Said) -> Result<Directory, Failure> {
    trouble(said)?;
    let entries = said.lines.iter().filter(|line| line["event"] == "entry");
    let mut names: Vec<Entry> = entries.take(MOST).filter_map(entry).collect();
    names.sort_by(|a, b| (a.kind != "directory", &a.name).cmp(&(b.kind != "directory", &b.name)));
    Ok(Directory {
        path,
        parent: None,
        names,
        more: said.cut,
    })
}

/// A line of `howdah ls --json`.
fn entry(line: &Value) -> Option<Entry> {
    let modified = line["modified_utc"].as_str();
    let modified = modified.and_then(|text| text.parse::<jiff::Timestamp>().ok());
    let modified = modified.map_or(0, jiff::Timestamp::as_millisecond);
    Some(Entry {
        name: line["path"].as_str()?.to_owned(),
        is_text: line.get("path_base64").is_none(),
        kind: line["kind"].as_str().unwrap_or("unknown").to_owned(),
        bytes: line["bytes"].as_u64().unwrap_or(0),
        modified_ms: u64::try_from(modified).unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_mins(1);

    fn shell(script: &str, patience: Duration, most: usize) -> Result<Said, Failure> {
        let args = ["-c", script].map(str::to_owned);
        ask(Path::new("/bin/sh"), Path::new("/"), &args, patience, most)
    }

    #[test]
    fn what_a_process_says_is_taken_up_to_a_bound() {
        let said = shell("echo noise; echo '{\"a\":1}'; echo '{\"a\":2}'", LONG, 9).unwrap();
        assert_eq!(said.lines.len(), 2);
        assert!(!said.cut);
        // One that never ends is ended, with what it has started.
        let said = shell("while :; do echo '{}'; done | cat", LONG, 9).unwrap();
        assert!(said.cut);
        let failure = shell("sleep 600 | sleep 601", Duration::from_millis(50), 9);
        let failure = failure.err().unwrap();
        assert_eq!(failure.status, StatusCode::GATEWAY_TIMEOUT);
        assert!(ask(Path::new("/nonexistent"), Path::new("/"), &[], LONG, 9).is_err());
    }

    #[test]
    fn a_failure_has_the_words_of_the_program() {
        for (kind, status) in [
            ("not_found", 404),
            ("usage", 400),
            ("auth", 502),
            ("io", 502),
        ] {
            let line = format!(
                "{{\"event\":\"error\",\"error\":{{\"kind\":\"{kind}\",\"message\":\"why\"}}}}"
            );
            let said = shell(&format!("echo '{line}'"), LONG, 9).unwrap();
            let failure = directory("h:x".to_owned(), &said).unwrap_err();
            assert_eq!((failure.status.as_u16(), failure.kind), (status, kind));
            assert_eq!(failure.message, "why");
        }
    }

    #[test]
    fn names_are_told_directories_first() {
        let entry = |path: &str, kind: &str| serde_json::json!({"event": "entry", "path": path, "kind": kind, "bytes": 7, "modified_utc": "1970-01-01T00:00:01Z"});
        let said = Said {
            lines: vec![
                entry("a", "file"),
                entry("z", "directory"),
                serde_json::json!({"event": "summary"}),
            ],
            cut: false,
        };
        let found = directory("h:x".to_owned(), &said).unwrap();
        let names: Vec<_> = found
            .names
            .iter()
            .map(|n| (&*n.name, n.modified_ms))
            .collect();
        assert_eq!(names, [("z", 1_000), ("a", 1_000)]);
    }
}
