//! Children: started in a session of their own, watched, and found again by a daemon that was not there when they began.

pub mod bounded;
pub mod record;

use crate::bounds::{self, Bounds};
use crate::job::{Ended, Spec};
use record::{Identity, Look};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;

/// The option in front of a command that makes it the attempt of a job, and names the directory of that.
pub const OPTION: &str = "--job-record";

/// A process that works on a job.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    pub(crate) identity: Identity,
    handle: Arc<OwnedFd>,
}

impl Running {
    /// Nobody else's process gets it, even if this one is gone.
    pub(crate) fn signal(&self, signal: Signal) {
        // That it is gone will be told by who watches it.
        let _ = pidfd_send_signal(&*self.handle, signal);
    }
}

/// The variable with what a copy may take of the wire until the daemon tells it something else: bits per second, 0 is nothing.
pub const SHARE: &str = "HOWDAH_JOB_SHARE";

/// Where keys and state are.
const CONFIG: &str = "HOWDAH_CONFIG_DIR";

/// What an attempt is started with.
pub(crate) struct Start<'a> {
    pub(crate) program: &'a Path,
    pub(crate) dir: &'a Path,
    pub(crate) spec: &'a Spec,
    pub(crate) share: Option<u64>,
    pub(crate) bounds: &'a Bounds,
}

/// Starts an attempt. `told` hears of its end.
pub(crate) fn start(
    start: &Start<'_>,
    told: impl FnOnce(Ended) + Send + 'static,
) -> Result<Running, Ended> {
    let Start { dir, spec, .. } = *start;
    let failed = |what: &str| {
        let what = what.to_owned();
        move |error: io::Error| Ended::CannotStart(format!("{what}: {error}"))
    };
    fs::DirBuilder::new()
        .mode(0o700)
        .recursive(true)
        .create(dir)
        .map_err(failed("its directory"))?;
    let file = |name: &str| {
        let mut options = fs::OpenOptions::new();
        options
            .create(true)
            .append(true)
            .mode(0o600)
            .open(dir.join(name))
    };
    let events = file(record::EVENTS).map_err(failed("its events"))?;
    let log = file(record::LOG).map_err(failed("its log"))?;
    if !spec.directory.is_dir() {
        return Err(Ended::CannotStart(format!(
            "there is no directory {}",
            spec.directory.display()
        )));
    }
    let mut option = std::ffi::OsString::from(format!("{OPTION}="));
    option.push(dir);
    let bounds = serde_json::to_string(start.bounds)
        .map_err(|error| failed("its bounds")(io::Error::other(error)))?;
    let mut command = Command::new(start.program);
    match start.share {
        Some(share) => command.env(SHARE, share.to_string()),
        None => command.env_remove(SHARE),
    };
    // It means the same where the job runs.
    if let Some(Ok(dir)) = std::env::var_os(CONFIG).map(std::path::absolute) {
        command.env(CONFIG, dir);
    }
    if !start.bounds.allow.is_empty() {
        // Threads that read and write files are bounded by it, too.
        command.env_remove("HOWDAH_SANDBOX");
    }
    let mut child = command
        .arg(option)
        .args(spec.command_line())
        .current_dir(&spec.directory)
        .env(bounds::VARIABLE, bounds)
        // Of demonstrations, whose parts end with them.
        .env_remove("HOWDAH_DIE_WITH_PARENT")
        .stdin(Stdio::null())
        .stdout(events)
        .stderr(log)
        .spawn()
        .map_err(failed("the program"))?;
    // Its number is its own until it is waited for, below.
    let pid = child.id();
    let opened = open(pid).and_then(|handle| Ok((Arc::new(handle), Identity::of(pid)?)));
    let dir = dir.to_owned();
    let watched = opened.as_ref().ok().map(|(handle, _)| Arc::clone(handle));
    let wait = move || {
        if let Some(watched) = watched {
            watch(&watched, &dir);
        }
        let ended = match child.wait() {
            Ok(status) => record::told(&dir).unwrap_or_else(|| {
                match (record::is_taken(&dir), status.code(), status.signal()) {
                    (false, ..) => Ended::NeverBegan,
                    (_, Some(code), _) => Ended::Code(u8::try_from(code).unwrap_or(1)),
                    (_, _, Some(signal)) => Ended::Signal(signal),
                    _ => Ended::Vanished,
                }
            }),
            Err(_) => Ended::Vanished,
        };
        told(ended);
    };
    match opened {
        Ok((handle, identity)) => {
            thread::spawn(wait);
            Ok(Running { identity, handle })
        }
        // Too many descriptors: it cannot be watched as it should.
        Err(error) => {
            let _ = child_kill(pid);
            thread::spawn(wait);
            Err(failed("it cannot be watched")(error))
        }
    }
}

fn child_kill(pid: u32) -> io::Result<()> {
    let pid = i32::try_from(pid)
        .ok()
        .and_then(Pid::from_raw)
        .ok_or(Errno::SRCH)?;
    Ok(rustix::process::kill_process(pid, Signal::KILL)?)
}

fn open(pid: u32) -> io::Result<OwnedFd> {
    let pid = i32::try_from(pid)
        .ok()
        .and_then(Pid::from_raw)
        .ok_or(Errno::SRCH)?;
    Ok(pidfd_open(pid, PidfdFlags::empty())?)
}

/// Until a process is gone. What it says is kept within bounds meanwhile, and then once more.
fn watch(process: &OwnedFd, dir: &Path) {
    const LOOK: Timespec = Timespec {
        tv_sec: 1,
        tv_nsec: 0,
    };
    loop {
        let gone = poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&LOOK));
        bounded::keep_within_bounds(dir);
        if !matches!(gone, Ok(0) | Err(Errno::INTR)) {
            return;
        }
    }
}

/// What is left of an attempt that began before this daemon.
pub(crate) enum Found {
    Running(Running),
    Ended(Ended),
}

/// Finds it, or makes sure that it never begins. `told` hears of its end if it runs.
pub(crate) fn find(dir: &Path, told: impl FnOnce(Ended) + Send + 'static) -> io::Result<Found> {
    let identity = match record::look(dir)? {
        Look::Ended(ended) => return Ok(Found::Ended(ended)),
        Look::Alive(identity) => identity,
    };
    let opened = open(identity.pid);
    // The number could have become another's between looking and opening.
    let handle = match opened {
        Ok(handle) if identity.is_alive() => handle,
        _ => return Ok(Found::Ended(record::told(dir).unwrap_or(Ended::Vanished))),
    };
    let handle = Arc::new(handle);
    let (watched, dir) = (Arc::clone(&handle), dir.to_owned());
    thread::spawn(move || {
        watch(&watched, &dir);
        told(record::told(&dir).unwrap_or(Ended::Vanished));
    });
    Ok(Found::Running(Running { identity, handle }))
}
