//! The ssh process here: that it ends, what it says, and what its end means.

use super::sharing;
use crate::Log;
use crate::sandbox::keep_what_is_open;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use std::cmp::Ordering;
use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ChildStderr, ExitStatus};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Longest line of the far side's that is shown, in bytes; more lines are made of the rest.
const SHOWN_MAX: u64 = 1_000;
/// So many lines are shown: whoever prints without end fills no log.
const SHOWN_LINES: usize = 2_000;
/// Last lines that are kept to explain a failure.
const KEPT_LINES: usize = 4;
/// ssh's own failures, as opposed to the command's; of a command that ends so, ssh says the same.
pub(super) const SSH_FAILED: i32 = 255;

/// Lines of somebody else's that are shown.
#[derive(Debug, Default)]
pub(super) struct Lines(usize);

impl Lines {
    pub(super) fn show(&mut self, log: &Log, line: &str) {
        self.0 += 1;
        match self.0.cmp(&(SHOWN_LINES + 1)) {
            Ordering::Less => log.line(line),
            Ordering::Equal => log.line("there are more such lines, which are not shown"),
            Ordering::Greater => {}
        }
    }
}

/// What of ssh's own words is shown.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Wordy {
    /// All of them: they are as many as the user wants.
    AsIs,
    /// It was told to say when it has logged in, which is not the user's affair.
    MoreThanWanted,
    /// And the user wants to hear nothing but errors of it, no banners either.
    MuchMoreThanWanted,
}

/// Whether a line of ssh's says that it has logged in (`LogLevel VERBOSE`; the same in all versions of OpenSSH).
fn says_logged_in(line: &str) -> bool {
    // A banner need not end with its line.
    line.rsplit_once("Authenticated to ")
        .is_some_and(|(_, rest)| {
            rest.contains(" (") && (rest.ends_with("\".") || rest.ends_with(")."))
        })
}

/// What else ssh says only because it is to say when it has logged in.
fn is_chatter(line: &str) -> bool {
    line.starts_with("Transferred: sent ") || line.starts_with("Bytes per second: sent ")
}

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
    /// Its last words, and those of the far side: both write to its standard error.
    words: VecDeque<String>,
    /// When it had logged in, as far as it says so.
    logged_in: Option<Instant>,
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

    /// Shows each line of its standard error, and keeps the last ones. `confined`: the thread that does has nothing else.
    pub(super) fn listen(
        self: &Arc<Self>,
        stderr: ChildStderr,
        name: &str,
        (wordy, confined): (Wordy, bool),
        log: &Log,
    ) -> std::io::Result<()> {
        let (ssh, name, log) = (Arc::clone(self), name.to_owned(), log.clone());
        let listen = move || {
            keep_what_is_open(confined);
            let mut stderr = BufReader::new(stderr);
            let mut lines = Lines::default();
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
                let logged_in = says_logged_in(line);
                if logged_in {
                    ssh.has_logged_in();
                    // Banners and warnings are no words of what comes now.
                    ssh.lock().words.clear();
                }
                let chatter = logged_in || is_chatter(line);
                let shown = match wordy {
                    Wordy::AsIs => true,
                    Wordy::MoreThanWanted => !chatter,
                    Wordy::MuchMoreThanWanted => !chatter && ssh.logged_in().is_some(),
                };
                if shown {
                    lines.show(&log, &format!("{name}: {line}"));
                }
                if chatter {
                    continue;
                }
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

    /// It has: it says so, or something has come from the other side.
    pub(super) fn has_logged_in(&self) {
        self.lock().logged_in.get_or_insert_with(Instant::now);
        self.changed.notify_all();
    }

    /// When it had logged in, as far as that shows.
    pub(super) fn logged_in(&self) -> Option<Instant> {
        self.lock().logged_in
    }

    /// How it has ended, for whoever has to judge it.
    pub(super) fn last_words(&self) -> LastWords {
        let state = self.lock();
        LastWords {
            status: state.status,
            words: state.words.iter().cloned().collect(),
            logged_in: state.logged_in.is_some(),
        }
    }
}

/// What is left of an ssh that has ended.
#[derive(Clone, Debug, Default)]
pub(super) struct LastWords {
    /// If it has.
    pub(super) status: Option<ExitStatus>,
    /// The last lines of its standard error: its own, and the far side's.
    pub(super) words: Vec<String>,
    /// It has said that it had.
    pub(super) logged_in: bool,
}

pub(super) fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "no exit status".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t02_ssh_says_when_it_has_logged_in_and_banners_do_not() {
        for line in [
            "Authenticated to 127.0.0.1 ([127.0.0.1]:22) using \"publickey\".",
            "Authenticated to h (via proxy) using \"keyboard-interactive\".",
            "Authenticated to h ([::1]:22).",
            "Be welcomeAuthenticated to h ([::1]:22) using \"none\".",
        ] {
            assert!(says_logged_in(line), "{line}");
        }
        for line in [
            "Authentication attempts are logged",
            "Authenticated to nobody",
            "",
        ] {
            assert!(!says_logged_in(line), "{line}");
        }
    }

    #[test]
    fn a41_who_prints_without_end_is_not_shown_without_end() {
        let mut child = std::process::Command::new("sh")
            .args(["-c", "yes word | head -n 100000 >&2; echo last >&2"])
            .stderr(std::process::Stdio::piped())
            .spawn()
            .expect("a shell");
        let stderr = child.stderr.take().expect("a pipe");
        let ssh = Arc::new(Ssh::new(Pid::from_child(&child)));
        let lines = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&lines);
        let log = Log::new(move |line| kept.lock().expect("no panic").push(line.to_owned()));
        ssh.watch(child).expect("a thread");
        ssh.listen(stderr, "far", (Wordy::AsIs, false), &log)
            .expect("a thread");
        ssh.wait_until(Duration::from_mins(1), |state| state.silent && state.ended);
        let lines = lines.lock().expect("no panic");
        assert_eq!(lines.len(), SHOWN_LINES + 1);
        assert!(lines.last().is_some_and(|line| line.contains("not shown")));
        // What explains a failure is the end of it all the same.
        assert_eq!(
            ssh.last_words().words.last().map(String::as_str),
            Some("last")
        );
    }
}
