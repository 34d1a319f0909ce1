//! Network namespaces that leave nothing behind.

use crate::{WanError, sys};
use rustix::fs::{Mode, OFlags};
use rustix::thread::LinkNameSpaceType;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

const DIRECTORY: &str = "/run/netns";
/// Every name begins like this and goes on with the owner's process id.
const PREFIX: &str = "howdah-";

/// One of the two ends: a network namespace with loopback and the emulated link in it.
#[derive(Debug)]
pub struct Namespace {
    name: String,
    path: PathBuf,
    fd: Arc<OwnedFd>,
}

impl Namespace {
    /// Opens a namespace that `ip netns add` made.
    fn open(name: String) -> Result<Self, WanError> {
        let path = Path::new(DIRECTORY).join(&name);
        let fd = rustix::fs::open(&path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .map_err(io::Error::from)
            .map_err(WanError::system(format!("open {}", path.display())))?;
        Ok(Self {
            name,
            path,
            fd: Arc::new(fd),
        })
    }

    /// Its name, for `ip netns exec NAME`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The file that stands for it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A command that will run in this namespace. The program sees this namespace's network; its
    /// files and processes are the caller's.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        sys::enter_before_exec(&mut command, Arc::clone(&self.fd));
        command
    }

    /// Runs `work` on a thread inside the namespace and waits for it. Sockets that it opens stay
    /// in the namespace wherever they are used later.
    pub fn run_in<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        std::thread::scope(|scope| {
            let inside = || {
                rustix::thread::move_into_link_name_space(
                    self.fd.as_fd(),
                    Some(LinkNameSpaceType::Network),
                )?;
                Ok(work())
            };
            match scope.spawn(inside).join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }
}

/// Namespaces and the process that removes them when this one ends, however it ends.
#[derive(Debug)]
pub(crate) struct Family {
    pub members: Vec<Namespace>,
    // After the namespaces' own descriptors.
    _guardian: Guardian,
}

impl Family {
    /// Makes a namespace for each ending of a name.
    pub(crate) fn create(endings: &[String]) -> Result<Self, WanError> {
        if !rustix::process::geteuid().is_root() {
            return Err(WanError::NotPermitted);
        }
        remove_stale();
        // More than one family may live in a process: count them.
        let base = unused_base();
        let names: Vec<String> = endings
            .iter()
            .map(|ending| format!("{base}-{ending}"))
            .collect();
        // The guardian comes first: there is no moment without one.
        let guardian = Guardian::start(names.clone())?;
        let mut batch = String::new();
        for name in &names {
            // Writing to a string cannot fail.
            let _ = writeln!(batch, "netns add {name}");
        }
        ip(&["-batch", "-"], &batch)?;
        let members: Result<Vec<_>, _> = names.into_iter().map(Namespace::open).collect();
        Ok(Self {
            members: members?,
            _guardian: guardian,
        })
    }
}

/// A shell that waits until its standard input closes, which happens when this process drops the
/// pipe or dies of anything, SIGKILL included, and then removes the namespaces. It is a process
/// group of its own, so the terminal's signals do not reach it.
#[derive(Debug)]
struct Guardian {
    shell: Child,
    names: Vec<String>,
}

impl Guardian {
    fn start(names: Vec<String>) -> Result<Self, WanError> {
        let script = "trap '' HUP INT TERM QUIT; read -r _; \
                      for name in \"$@\"; do ip netns delete \"$name\"; done";
        let shell = Command::new("sh")
            .args(["-c", script, "howdah-wan-guardian"])
            .args(&names)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(WanError::system(
                "start the shell that cleans up behind the emulator",
            ))?;
        Ok(Self { shell, names })
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
        // In case somebody has killed the guardian.
        for name in &self.names {
            if Path::new(DIRECTORY).join(name).exists() {
                let _ = ip(&["netns", "delete", name], "");
            }
        }
    }
}

fn unused_base() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static WORLDS: AtomicU32 = AtomicU32::new(0);
    let pid = std::process::id();
    match WORLDS.fetch_add(1, Ordering::Relaxed) {
        0 => format!("{PREFIX}{pid}"),
        number => format!("{PREFIX}{pid}-{number}"),
    }
}

/// Removes namespaces whose owner no longer lives (its guardian must have been killed too).
fn remove_stale() {
    let Ok(entries) = std::fs::read_dir(DIRECTORY) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        let Some(owner) = owner(name) else { continue };
        if !Path::new("/proc").join(owner.to_string()).exists() {
            let _ = ip(&["netns", "delete", name], "");
        }
    }
}

/// The process id in `howdah-<pid>[-<n>]-<ending>`.
fn owner(name: &str) -> Option<u32> {
    let (pid, rest) = name.strip_prefix(PREFIX)?.split_once('-')?;
    let ending = rest.rsplit('-').next()?;
    ending
        .starts_with(|first: char| first.is_ascii_lowercase())
        .then(|| pid.parse().ok())?
}

/// Runs `ip` with these arguments and this standard input.
pub(crate) fn ip(arguments: &[&str], input: &str) -> Result<(), WanError> {
    let mut child = Command::new("ip")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(WanError::NoIproute)?;
    if let Some(mut stdin) = child.stdin.take() {
        // A broken pipe means that `ip` gave up; its exit status says so better.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(WanError::NoIproute)?;
    if output.status.success() {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if message.contains("Operation not permitted") || message.contains("Permission denied") {
        return Err(WanError::NotPermitted);
    }
    Err(WanError::Ip {
        command: format!("ip {}", arguments.join(" ")),
        message,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_names_have_an_owner() {
        assert_eq!(owner("howdah-12-near"), Some(12));
        assert_eq!(owner("howdah-12-3-far"), Some(12));
        assert_eq!(owner("howdah-12-h0a"), Some(12));
        for foreign in [
            "howdah-near",
            "howdah-x-near",
            "howdah-12",
            "other-12-near",
            "howdah--far",
        ] {
            assert_eq!(owner(foreign), None, "{foreign}");
        }
    }
}
