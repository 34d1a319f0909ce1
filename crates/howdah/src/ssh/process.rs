//! The ssh process here: that it ends, what it says, and what its end means.

use super::{SshConfig, sharing};
use crate::{Error, ErrorKind, Log};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ChildStderr, ExitStatus};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Longest line of the far side's that is shown, in bytes; more lines are made of the rest.
const SHOWN_MAX: u64 = 1_000;
/// Last lines that are kept to explain a failure.
const KEPT_LINES: usize = 4;
/// ssh's own failures, as opposed to the command's.
const SSH_FAILED: i32 = 255;

/// The process, for whoever wants to know or to end it.
#[derive(Debug)]
pub(super) struct Ssh {
    pid: Pid,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
pub(super) struct State {
    /// It has been waited for; its id may belong to another process now.
    pub(super) ended: bool,
    status: Option<ExitStatus>,
    /// Its last words.
    words: VecDeque<String>,
    /// Nobody writes to its standard error any more.
    pub(super) silent: bool,
}

impl Ssh {
    pub(super) fn new(pid: Pid) -> Self {
        Self {
            pid,
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No half-made state can be in there.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for its end on a thread of its own.
    pub(super) fn watch(self: &Arc<Self>, mut child: Child) -> std::io::Result<()> {
        let ssh = Arc::clone(self);
        let wait = move || {
            // First without taking its id away, so that nobody signals a stranger.
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            let wait = || rustix::process::waitid(WaitId::Pid(ssh.pid), options);
            while wait().is_err_and(|e| e == rustix::io::Errno::INTR) {}
            let mut state = ssh.lock();
            state.ended = true;
            state.status = child.wait().ok();
            ssh.changed.notify_all();
        };
        std::thread::Builder::new()
            .name("howdah-ssh".into())
            .spawn(wait)
            .map(|_| ())
    }

    /// Shows each line of its standard error, and keeps the last ones.
    pub(super) fn listen(
        self: &Arc<Self>,
        stderr: ChildStderr,
        name: &str,
        log: &Log,
    ) -> std::io::Result<()> {
        let (ssh, name, log) = (Arc::clone(self), name.to_owned(), log.clone());
        let listen = move || {
            let mut stderr = BufReader::new(stderr);
            loop {
                let mut line = Vec::new();
                let read = stderr.by_ref().take(SHOWN_MAX).read_until(b'\n', &mut line);
                if read.is_err() || line.is_empty() {
                    break;
                }
                let line = String::from_utf8_lossy(&line);
                let line = line.trim_end_matches(['\n', '\r']);
                if line.is_empty() || sharing::is_about_it(line) {
                    continue;
                }
                log.line(&format!("{name}: {line}"));
                let mut state = ssh.lock();
                if state.words.len() == KEPT_LINES {
                    state.words.pop_front();
                }
                state.words.push_back(line.to_owned());
            }
            ssh.lock().silent = true;
            ssh.changed.notify_all();
        };
        std::thread::Builder::new()
            .name("howdah-ssh-words".into())
            .spawn(listen)
            .map(|_| ())
    }

    pub(super) fn has_ended(&self) -> bool {
        self.lock().ended
    }

    /// Whether ssh itself failed.
    pub(super) fn has_failed(&self) -> bool {
        let code = self.lock().status.and_then(|status| status.code());
        code == Some(SSH_FAILED)
    }

    /// Waits at most that long for `done`.
    pub(super) fn wait_until(&self, limit: Duration, done: impl Fn(&State) -> bool) {
        let state = self.lock();
        // A time-out shows in the state.
        let _ = self
            .changed
            .wait_timeout_while(state, limit, |state| !done(state));
    }

    /// Ends it, if it has not ended.
    pub(super) fn end(&self) {
        let state = self.lock();
        if !state.ended {
            // It may just be ending.
            let _ = rustix::process::kill_process(self.pid, Signal::TERM);
        }
    }
}

impl Ssh {
    pub(super) fn ending(&self) -> String {
        let state = self.lock();
        let status = state
            .status
            .map_or_else(|| "no status".to_owned(), describe);
        match state.words.back() {
            Some(words) => format!("{status}: {words}"),
            None => status,
        }
    }

    /// Why no far end came about.
    pub(super) fn why(&self, host: &str, config: &SshConfig) -> Error {
        let state = self.lock();
        let words: Vec<&str> = state.words.iter().map(String::as_str).collect();
        why(host, config, state.status, &words)
    }
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "no exit status".to_owned(),
    }
}

/// Sorts the end of ssh without an answer by what its user can do about it.
fn why(host: &str, config: &SshConfig, status: Option<ExitStatus>, words: &[&str]) -> Error {
    let last = words
        .last()
        .map_or(String::new(), |last| format!(": {last}"));
    let said = |part: &str| words.iter().any(|line| line.contains(part));
    let code = status.and_then(|status| status.code());
    let absent =
        said("ommand not found") || said("o such file or directory") || said(": not found");
    match code {
        Some(SSH_FAILED) => {
            let keys = [
                "ermission denied",
                "erification failed",
                "uthentication",
                "DENTIFICATION",
                "no matching",
                "Unable to negotiate",
            ];
            let kind = if keys.iter().any(|part| said(part)) {
                ErrorKind::Auth
            } else {
                ErrorKind::Network
            };
            Error::new(kind, format!("ssh cannot reach {host}{last}"))
        }
        Some(126 | 127 | 1) if code != Some(1) || absent => {
            let what = match &config.remote_howdah {
                Some(howdah) => format!("{host} cannot start {howdah:?}{last}"),
                None => format!("{host} has no program 'howdah' that a command over ssh finds"),
            };
            Error::new(
                ErrorKind::Protocol,
                format!(
                    "{what}; if its system is like this one's, this installs it: {} {host} 'mkdir -p \
                     .local/bin && cat >.local/bin/howdah && chmod +x .local/bin/howdah' <\"$(command -v \
                     howdah)\"; else build it there, or say where it is with --remote-howdah PATH",
                    config.program().join(" ")
                ),
            )
        }
        // The argument parser of a version that knows nothing of far ends.
        Some(2) => Error::new(
            ErrorKind::Protocol,
            format!(
                "the howdah on {host} is too old to be started over ssh; install the same version on both{last}"
            ),
        ),
        _ => {
            let status = status.map_or_else(|| "it has not ended".to_owned(), describe);
            Error::new(
                ErrorKind::Network,
                format!("ssh to {host} ended before the other end said anything ({status}){last}"),
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f70_each_way_to_fail_has_its_words() {
        let config = SshConfig::default();
        for (code, words, kind, part) in [
            (
                255,
                &["anna@h: Permission denied (publickey)."][..],
                ErrorKind::Auth,
                "Permission denied",
            ),
            (
                255,
                &["Host key verification failed."],
                ErrorKind::Auth,
                "verification",
            ),
            (
                255,
                &["ssh: connect to host h port 22: Connection refused"],
                ErrorKind::Network,
                "refused",
            ),
            (
                127,
                &["sh: 1: exec: howdah: not found"],
                ErrorKind::Protocol,
                "cat >.local/bin/howdah",
            ),
            (
                1,
                &["howdah: Command not found."],
                ErrorKind::Protocol,
                "--remote-howdah",
            ),
            (
                2,
                &["error: unrecognized subcommand 'far-end'"],
                ErrorKind::Protocol,
                "too old",
            ),
            (1, &["no quota"], ErrorKind::Network, "exit status 1"),
        ] {
            let status = ExitStatus::from_raw(code << 8);
            let error = why("h", &config, Some(status), words);
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.to_string().contains(part), "{error}");
        }
        let killed = why("h", &config, Some(ExitStatus::from_raw(9)), &[]);
        assert!(killed.to_string().contains("signal 9"), "{killed}");
    }
}
