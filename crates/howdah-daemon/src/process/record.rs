//! What an attempt leaves in its directory. It is written by the process itself, so it is true whether or not a daemon is there.
//!
//! The first thing that the process does is to take its attempt up: it links `claim` there, which names it. The link can be
//! made once only. A daemon that finds an attempt without it makes it, too: either the process was first, and is found by
//! its claim, or the daemon was, and then the process ends without having done anything. So nothing ever runs twice.
//! The last thing that the process does is to write `ended`.

use crate::job::Ended;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::Path;

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
    let mine =
        Identity::of(std::process::id()).and_then(|identity| claim(dir, &Claim::By(identity)));
    match mine {
        Ok(true) => Ok(()),
        Ok(false) => Err(NotMine::Taken),
        Err(error) => Err(NotMine::System(dir.display().to_string(), error)),
    }
}

/// What it does last.
pub fn put_down(dir: &Path, code: u8) -> io::Result<()> {
    let temporary = dir.join("ended.new");
    fs::write(&temporary, serde_json::to_vec(&Ended::Code(code))?)?;
    fs::rename(temporary, dir.join(ENDED))
}

/// False if there is one.
fn claim(dir: &Path, claim: &Claim) -> io::Result<bool> {
    let temporary = dir.join(format!("claim.{}", std::process::id()));
    fs::write(&temporary, serde_json::to_vec(claim)?)?;
    let linked = fs::hard_link(&temporary, dir.join(CLAIM));
    fs::remove_file(temporary)?;
    match linked {
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
    if !dir.is_dir() || claim(dir, &Claim::Abandoned)? {
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
