//! An ssh that is started, until the far end has spoken.

use super::handover::{self, Answer, Ask, HandoverError};
use super::process::{Ssh, Wordy};
use super::verdict::Heard;
use crate::SshConfig;
use crate::sandbox::keep_what_is_open;
use crate::{Cancel, Error, ErrorKind, Log};
use rustix::process::Pid;
use std::io::BufReader;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often it is looked whether the user has had enough.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// When the channel is closed, ssh has that long to end by itself.
pub(super) const FAREWELL: Duration = Duration::from_secs(2);

/// A far end that has said nothing for that long after ssh's log-in is told of.
const SAY_AFTER: Duration = Duration::from_secs(10);
/// And for that long, it is given up: login scripts may be slow, and some ask for a second factor on a telephone.
const LOGGED_IN_MAX: Duration = Duration::from_secs(45);
/// So many lines of a login script are shown.
const SHOWN_LINES: usize = 200;

/// For whom it is started, and who may end that or listen to it.
#[derive(Clone, Copy)]
pub(super) struct Caller<'a> {
    pub(super) config: &'a SshConfig,
    /// How the user calls the other side.
    pub(super) name: &'a str,
    pub(super) cancel: &'a Cancel,
    /// Hears what ssh and the other side say.
    pub(super) log: &'a Log,
    /// Hears what its user should know.
    pub(super) warn: &'a Log,
    /// What of ssh's own words it hears.
    pub(super) wordy: Wordy,
    /// The threads that listen to it have nothing else.
    pub(super) confined: bool,
}

/// How long an answer is waited for.
#[derive(Clone, Copy)]
pub(super) struct Patience {
    /// In all.
    pub(super) whole: Duration,
    /// The connection is there, and nobody has to log in any more.
    pub(super) logged_in: bool,
}

/// An ssh, and what came through it first.
pub(super) struct Launched {
    pub(super) guard: Guard,
    pub(super) stdin: ChildStdin,
    pub(super) stdout: BufReader<ChildStdout>,
    pub(super) answer: Result<Answer, HandoverError>,
    /// What came before it.
    pub(super) heard: Heard,
}

impl Launched {
    /// Runs `command`, tells the far end `ask`, and waits for its answer; `None`: there was none for so long.
    pub(super) fn start(
        mut command: Command,
        caller: Caller<'_>,
        ask: &Ask,
        patience: Patience,
    ) -> Result<Option<Self>, Error> {
        let Caller {
            config,
            name,
            log,
            wordy,
            confined,
            ..
        } = caller;
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| {
                let program = config.program().first().map_or("ssh", String::as_str);
                let instead = match e.kind() {
                    std::io::ErrorKind::NotFound => {
                        "; install OpenSSH's client, or name another program with --ssh"
                    }
                    _ => "",
                };
                Error::new(
                    ErrorKind::Io,
                    format!("cannot start {program:?} to reach {name}: {e}{instead}"),
                )
            })?;
        let trouble = |e| Error::new(ErrorKind::Io, format!("cannot talk to ssh: {e}"));
        let missing = || std::io::Error::other("it has no pipes");
        let process = Arc::new(Ssh::new(Pid::from_child(&child)));
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let guard = Guard {
            ssh: Arc::clone(&process),
            armed: true,
        };
        process.watch(child).map_err(trouble)?;
        let (Some(mut stdin), Some(stdout), Some(stderr)) = (stdin, stdout, stderr) else {
            return Err(trouble(missing()));
        };
        if patience.logged_in {
            process.has_logged_in();
        }
        process
            .listen(stderr, name, (wordy, confined), log)
            .map_err(trouble)?;
        // Said at once: it waits in the pipe until ssh has opened the channel, and costs no round trip.
        // Should ssh have ended already, its own words say more than a broken pipe.
        let _ = handover::write_ask(&mut stdin, ask);
        let answered = await_answer(stdout, caller, &process, patience)?;
        Ok(answered.map(|(answer, stdout, heard)| Self {
            guard,
            stdin,
            stdout,
            answer,
            heard,
        }))
    }

    /// Whether there is no answer because ssh itself failed.
    pub(super) fn ssh_failed(&self) -> bool {
        self.answer.is_err() && self.guard.ssh.has_failed()
    }
}

/// Ends ssh if the far end does not come about.
pub(super) struct Guard {
    ssh: Arc<Ssh>,
    armed: bool,
}

impl Guard {
    pub(super) fn ssh(&self) -> &Ssh {
        &self.ssh
    }

    /// It has come about.
    pub(super) fn disarm(mut self) -> Arc<Ssh> {
        self.armed = false;
        Arc::clone(&self.ssh)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if self.armed {
            self.ssh.end();
        }
    }
}

type Answered = (Result<Answer, HandoverError>, BufReader<ChildStdout>, Heard);

/// Waits for the far end's first words, or for the user to give up; `None`: none came in that time.
fn await_answer(
    stdout: ChildStdout,
    caller: Caller<'_>,
    process: &Arc<Ssh>,
    patience: Patience,
) -> Result<Option<Answered>, Error> {
    let Caller {
        name,
        cancel,
        log,
        confined,
        ..
    } = caller;
    let (tell, answer) = channel();
    let heard = Arc::new(Mutex::new(Heard::default()));
    let (ears, ssh) = (Arc::clone(&heard), Arc::clone(process));
    let (noise_name, log) = (name.to_owned(), log.clone());
    let read = move || {
        keep_what_is_open(confined);
        let mut stdout = BufReader::new(stdout);
        let mut lines = 0;
        let answer = handover::read_answer(&mut stdout, |line| {
            // What the other side says is said after the log-in.
            ssh.has_logged_in();
            let shown = lock(&ears).hear(line);
            if let Some(line) = shown.filter(|_| lines < SHOWN_LINES) {
                lines += 1;
                log.line(&format!("{noise_name}: {line:.1000}"));
            }
        });
        // Whoever waited may have given up.
        let _ = tell.send((answer, stdout));
    };
    std::thread::Builder::new()
        .name("howdah-ssh-answer".into())
        .spawn(read)
        .map_err(|e| Error::new(ErrorKind::Io, format!("cannot start a thread: {e}")))?;
    let (start, mut told) = (Instant::now(), false);
    loop {
        match answer.recv_timeout(LOOK_EVERY) {
            Ok((Err(HandoverError::Closed), stdout)) if !cancel.is_cancelled() => {
                // It ends, and says why, within a moment.
                process.wait_until(FAREWELL, |state| state.ended && state.silent);
                if !cancel.is_cancelled() {
                    let heard = lock(&heard).clone();
                    return Ok(Some((Err(HandoverError::Closed), stdout, heard)));
                }
            }
            Ok((answer, stdout)) if !cancel.is_cancelled() => {
                return Ok(Some((answer, stdout, lock(&heard).clone())));
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Error::new(
                    ErrorKind::Io,
                    format!("ssh to {name}: nobody listens to it"),
                ));
            }
            Ok(_) | Err(RecvTimeoutError::Timeout) => {}
        }
        if cancel.is_cancelled() {
            return Err(Error::new(
                ErrorKind::Cancelled,
                format!("interrupted while ssh connected to {name}"),
            ));
        }
        if start.elapsed() > patience.whole {
            return Ok(None);
        }
        let silence = process
            .logged_in()
            .map_or(Duration::ZERO, |at| at.elapsed());
        if silence > SAY_AFTER && !std::mem::replace(&mut told, true) {
            let cause = likely_cause(&lock(&heard), caller);
            caller.warn.line(&format!(
                "ssh has logged in to {name}, but no howdah has answered there for {} s: {cause} (Ctrl-C ends it)",
                SAY_AFTER.as_secs()
            ));
        }
        if silence > LOGGED_IN_MAX {
            let cause = likely_cause(&lock(&heard), caller);
            let text = format!(
                "ssh has logged in to {name}, but no howdah has answered there within {} s: {cause}",
                LOGGED_IN_MAX.as_secs()
            );
            return Err(Error::new(ErrorKind::Network, text));
        }
    }
}

/// What keeps a far end from answering that ssh has reached.
fn likely_cause(heard: &Heard, caller: Caller<'_>) -> String {
    const SCRIPT: &str = "a login script there (.bashrc, .profile, config.fish, .cshrc, ...)";
    let (ssh, name) = (caller.config.program().join(" "), caller.name);
    let try_it = format!("'{ssh} {name} true' should end at once and print nothing");
    match heard.noise.back() {
        _ if heard.begun => {
            "the login scripts there are through, so the howdah there, its disk or its machine hangs".to_owned()
        }
        None => format!(
            "{SCRIPT} may wait for input, or for something that does not come, or start another program; {try_it}"
        ),
        Some(last) => format!(
            "{SCRIPT} may wait for input or print without end (last: {last:?}); {try_it}"
        ),
    }
}

fn lock(heard: &Mutex<Heard>) -> MutexGuard<'_, Heard> {
    // There is no half of it.
    heard.lock().unwrap_or_else(PoisonError::into_inner)
}
