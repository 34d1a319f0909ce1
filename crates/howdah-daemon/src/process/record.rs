//! What an attempt leaves in its directory. It is written by the process itself, so it is true whether or not a daemon is there.
//!
//! The first thing that the process does is to take its attempt up: it links `claim` there, which names it. The link can be
//! made once only. A daemon that finds an attempt without it makes it, too: either the process was first, and is found by
//! its claim, or the daemon was, and then the process ends without having done anything. So nothing ever runs twice.
//! The last thing that the process does is to write `ended`. Its block was taken before the claim, so a disk that is full by
//! then does not make a job that is done one that vanished, and runs twice.

use crate::job::Ended;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::Duration;

/// Standard output: what docs/json.md describes.
pub(crate) const EVENTS: &str = "events";
/// Standard error.
pub(crate) const LOG: &str = "log";
const CLAIM: &str = "claim";
const ENDED: &str = "ended";

/// A process that cannot be mistaken for another one of the same number.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Identity {
    pub(crate) pid: u32,
    /// Since the system began, in its ticks.
    pub(crate) start_ticks: u64,
    boot: String,
}

impl Identity {
    /// Of a process that is there.
    pub(crate) fn of(pid: u32) -> io::Result<Self> {
        let (_, start_ticks) = stat(pid)?;
        Ok(Self {
            pid,
            start_ticks,
            boot: boot()?,
        })
    }

    /// Whether it still is.
    pub(crate) fn is_alive(&self) -> bool {
        boot().is_ok_and(|boot| boot == self.boot)
            && stat(self.pid).is_ok_and(|(state, ticks)| {
                ticks == self.start_ticks && !['Z', 'X'].contains(&state)
            })
    }
}

fn boot() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?
        .trim()
        .to_owned())
}

/// State and start of a process (`proc_pid_stat(5)`, fields 3 and 22).
fn stat(pid: u32) -> io::Result<(char, u64)> {
    let text = fs::read(format!("/proc/{pid}/stat"))?;
    let text = String::from_utf8_lossy(&text);
    let fields = || {
        // The name of the program may have blanks and brackets in it.
        let (_, rest) = text.rsplit_once(") ")?;
        let mut fields = rest.split(' ');
        let state = fields.next()?.chars().next()?;
        Some((state, fields.nth(18)?.parse().ok()?))
    };
    fields().ok_or_else(|| io::Error::other("/proc is not as it should be"))
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum Claim {
    By(Identity),
    /// A daemon came first; no process will ever work on it.
    Abandoned,
}

/// Why a process must not work on its attempt.
#[derive(Debug, thiserror::Error)]
pub enum NotMine {
    /// Somebody else has it, or it was given up.
    #[error("this attempt was taken up before")]
    Taken,
    /// It cannot be taken up.
    #[error("cannot take up the attempt in {0}: {1}")]
    System(String, io::Error),
}

/// What a process does first. It leaves the session of whoever started it.
pub fn take_up(dir: &Path) -> Result<(), NotMine> {
    // Refused to who leads a group, as from a shell with job control, and then there is no need.
    let _ = rustix::process::setsid();
    let mine = reserve_end(dir)
        .and_then(|()| Identity::of(std::process::id()))
        .and_then(|identity| claim(dir, &Claim::By(identity)));
    match mine {
        Ok(true) => Ok(()),
        Ok(false) => Err(NotMine::Taken),
        Err(error) => Err(NotMine::System(dir.display().to_string(), error)),
    }
}

/// What it does last. Disks that write each block to a new place may be full even for that: it is tried for some minutes.
pub fn put_down(dir: &Path, code: u8) -> io::Result<()> {
    const TRIES: u32 = 300;
    const AGAIN: Duration = Duration::from_secs(1);
    let text = serde_json::to_string(&Ended::Code(code))?;
    let write = || {
        let mut options = fs::OpenOptions::new();
        let file = options.write(true).create(true).truncate(false);
        let file = file.open(dir.join(ENDED))?;
        file.write_all_at(format!("{text:ENDED_BYTES$}").as_bytes(), 0)
    };
    let is_full = |error: &io::Error| {
        use io::ErrorKind::{QuotaExceeded, StorageFull};
        [StorageFull, QuotaExceeded].contains(&error.kind())
    };
    for _ in 1..TRIES {
        match write() {
            Err(error) if is_full(&error) => std::thread::sleep(AGAIN),
            result => return result,
        }
    }
    write()
}

/// What is told of an end has so many bytes, with blanks behind it.
const ENDED_BYTES: usize = 64;

/// Blanks, which tell of none, take its place.
fn reserve_end(dir: &Path) -> io::Result<()> {
    // Somebody else's attempt is not touched.
    link_new(dir, ENDED, " ".repeat(ENDED_BYTES).as_bytes()).map(|_| ())
}

/// False if there is one.
fn claim(dir: &Path, claim: &Claim) -> io::Result<bool> {
    link_new(dir, CLAIM, &serde_json::to_vec(claim)?)
}

/// Makes a file that is never there in part; false if there is one.
fn link_new(dir: &Path, name: &str, content: &[u8]) -> io::Result<bool> {
    let temporary = dir.join(format!("{name}.{}", std::process::id()));
    let written = fs::write(&temporary, content);
    let linked = written.and_then(|()| fs::hard_link(&temporary, dir.join(name)));
    let removed = fs::remove_file(temporary);
    match linked.and(removed) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

/// What is to be seen of an attempt.
#[derive(Debug)]
pub(crate) enum Look {
    Alive(Identity),
    Ended(Ended),
}

/// Looks at an attempt that nobody waits for. One that nobody has taken up is given up.
pub(crate) fn look(dir: &Path) -> io::Result<Look> {
    // Without its directory no process was ever started.
    // (Where there is a claim, nothing has to be written: the disk may be full.)
    if !dir.is_dir() || !dir.join(CLAIM).exists() && claim(dir, &Claim::Abandoned)? {
        return Ok(Look::Ended(Ended::NeverBegan));
    }
    let ended = match serde_json::from_slice(&fs::read(dir.join(CLAIM))?) {
        Ok(Claim::By(identity)) if identity.is_alive() => return Ok(Look::Alive(identity)),
        Ok(Claim::Abandoned) => Ended::NeverBegan,
        // The machine went down before it was on the disk.
        Ok(Claim::By(_)) | Err(_) => told(dir).unwrap_or(Ended::Vanished),
    };
    Ok(Look::Ended(ended))
}

/// How it ended, if the process could say it.
pub(crate) fn told(dir: &Path) -> Option<Ended> {
    serde_json::from_slice(&fs::read(dir.join(ENDED)).ok()?).ok()
}

/// The last that it said to a person: of what fails without an event that tells why.
pub(crate) fn last_words(dir: &Path) -> Option<String> {
    const LINES: usize = 3;
    const LONGEST: usize = 500;
    if last_event(dir).is_some_and(|last| last["event"] == "error") {
        return None;
    }
    let log = tail(&dir.join(LOG));
    let lines = log.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut last: Vec<_> = lines.rev().take(LINES).collect();
    last.reverse();
    let text = last.join("; ");
    let cut = text
        .char_indices()
        .nth(LONGEST)
        .map_or(text.len(), |(at, _)| at);
    let text = text.get(..cut).unwrap_or_default();
    (!text.is_empty()).then(|| text.to_owned())
}

/// What it said last of all for programs, if that is a summary.
pub(crate) fn summary(dir: &Path) -> Option<Value> {
    last_event(dir).filter(|last| last["event"] == "summary")
}

/// What it had still to move when it said that last.
pub(crate) fn left(dir: &Path) -> Option<u64> {
    let progress = last_such(dir, |event| event["event"] == "progress")?;
    let total = progress["total_bytes"].as_u64()?;
    Some(total.saturating_sub(progress["bytes"].as_u64()?))
}

fn last_event(dir: &Path) -> Option<Value> {
    last_such(dir, |_| true)
}

fn last_such(dir: &Path, wanted: impl Fn(&Value) -> bool) -> Option<Value> {
    let events = tail(&dir.join(EVENTS));
    let mut lines = events.lines().rev();
    lines.find_map(|line| serde_json::from_str(line).ok().filter(&wanted))
}

/// The end of a file, as far as it can be read.
fn tail(path: &Path) -> String {
    const BYTES: u64 = 64 << 10;
    let read = || {
        let mut file = File::open(path)?;
        let from = file.metadata()?.len().saturating_sub(BYTES);
        file.seek(SeekFrom::Start(from))?;
        let mut bytes = Vec::new();
        file.take(BYTES).read_to_end(&mut bytes)?;
        io::Result::Ok(bytes)
    };
    String::from_utf8_lossy(&read().unwrap_or_default()).into_owned()
}

/// Whether a process has taken it up.
pub(crate) fn is_taken(dir: &Path) -> bool {
    let claim = fs::read(dir.join(CLAIM)).ok();
    !matches!(
        claim.map(|text| serde_json::from_slice(&text)),
        None | Some(Ok(Claim::Abandoned))
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_is_taken_up_once() {
        let dir = tempfile::tempdir().unwrap();
        let me = Identity::of(std::process::id()).unwrap();
        assert!(me.is_alive());
        assert!(claim(dir.path(), &Claim::By(me.clone())).unwrap());
        assert!(!claim(dir.path(), &Claim::Abandoned).unwrap());
        assert!(matches!(look(dir.path()).unwrap(), Look::Alive(found) if found == me));
        let gone = Identity {
            start_ticks: me.start_ticks + 1,
            ..me.clone()
        };
        assert!(!gone.is_alive());
        assert!(
            !Identity {
                boot: "another".into(),
                ..me
            }
            .is_alive()
        );
    }

    #[test]
    fn what_nobody_took_up_is_given_up_for_ever() {
        let dir = tempfile::tempdir().unwrap();
        for _ in 0..2 {
            assert!(matches!(
                look(dir.path()).unwrap(),
                Look::Ended(Ended::NeverBegan)
            ));
        }
        assert!(matches!(take_up_without_session(dir.path()), Ok(false)));
        assert!(!is_taken(dir.path()));
    }

    fn take_up_without_session(dir: &Path) -> io::Result<bool> {
        claim(dir, &Claim::By(Identity::of(std::process::id())?))
    }

    #[test]
    fn what_somebody_said_last_is_known_where_no_event_tells_it() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        assert_eq!(last_words(dir), None);
        fs::write(dir.join(LOG), "one\n\ntwo\nthree  \nfour").unwrap();
        assert_eq!(last_words(dir).as_deref(), Some("two; three; four"));
        fs::write(dir.join(EVENTS), "{\"event\":\"start\"}\n{\"ev").unwrap();
        assert!(last_words(dir).is_some());
        fs::write(dir.join(EVENTS), "{\"event\":\"error\"}\n").unwrap();
        assert_eq!(last_words(dir), None);
        fs::remove_file(dir.join(EVENTS)).unwrap();
        fs::write(dir.join(LOG), "ä".repeat(1 << 20)).unwrap();
        let words = last_words(dir).unwrap();
        assert_eq!(words.chars().count(), 500);
    }

    #[test]
    fn the_place_of_its_end_is_there_before_it_begins_and_tells_of_none() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        reserve_end(dir).unwrap();
        reserve_end(dir).unwrap();
        assert_eq!(fs::metadata(dir.join(ENDED)).unwrap().len(), 64);
        assert_eq!(told(dir), None);
        put_down(dir, 255).unwrap();
        assert_eq!(fs::metadata(dir.join(ENDED)).unwrap().len(), 64);
        assert_eq!(told(dir), Some(Ended::Code(255)));
        reserve_end(dir).unwrap();
        assert_eq!(told(dir), Some(Ended::Code(255)));
        assert_eq!(fs::read_dir(dir).unwrap().count(), 1);
    }

    #[test]
    fn who_is_gone_has_ended_as_it_said_or_vanished() {
        let dir = tempfile::tempdir().unwrap();
        let mut me = Identity::of(std::process::id()).unwrap();
        me.start_ticks += 1;
        claim(dir.path(), &Claim::By(me)).unwrap();
        assert!(matches!(
            look(dir.path()).unwrap(),
            Look::Ended(Ended::Vanished)
        ));
        put_down(dir.path(), 6).unwrap();
        assert!(matches!(
            look(dir.path()).unwrap(),
            Look::Ended(Ended::Code(6))
        ));
        fs::write(dir.path().join(CLAIM), "").unwrap();
        assert!(matches!(
            look(dir.path()).unwrap(),
            Look::Ended(Ended::Code(6))
        ));
    }
}
