//! An ssh that is started, until the far end has spoken.

use super::SshConfig;
use super::handover::{self, Answer, Ask, HandoverError};
use super::process::Ssh;
use crate::{Cancel, Error, ErrorKind, Log};
use rustix::process::Pid;
use std::io::BufReader;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How often it is looked whether the user has had enough.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// When the channel is closed, ssh has that long to end by itself.
pub(super) const FAREWELL: Duration = Duration::from_secs(2);

/// For whom it is started, and who may end that or listen to it.
#[derive(Clone, Copy)]
pub(super) struct Caller<'a> {
    pub(super) config: &'a SshConfig,
    /// How the user calls the other side.
    pub(super) name: &'a str,
    pub(super) cancel: &'a Cancel,
    pub(super) log: &'a Log,
}

/// An ssh, and what came through it first.
pub(super) struct Launched {
    pub(super) guard: Guard,
    pub(super) stdin: ChildStdin,
    pub(super) stdout: BufReader<ChildStdout>,
    pub(super) answer: Result<Answer, HandoverError>,
}

impl Launched {
    /// Runs `command`, tells the far end `ask`, and waits for its answer; `None`: there was none for so long.
    pub(super) fn start(
        mut command: Command,
        caller: Caller<'_>,
        ask: &Ask,
        patience: Duration,
    ) -> Result<Option<Self>, Error> {
        let Caller {
            config,
            name,
            cancel,
            log,
        } = caller;
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| {
                let program = config.program().first().map_or("ssh", String::as_str);
                Error::new(
                    ErrorKind::Io,
                    format!(
                        "cannot start {program:?} to reach {name}: {e}; install OpenSSH's client, or \
                         name another program with --ssh"
                    ),
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
        process.listen(stderr, name, log).map_err(trouble)?;
        // Said at once: it waits in the pipe until ssh has opened the channel, and costs no round trip.
        // Should ssh have ended already, its own words say more than a broken pipe.
        let _ = handover::write_ask(&mut stdin, ask);
        let answered = await_answer(stdout, name, cancel, log, &process, patience)?;
        Ok(answered.map(|(answer, stdout)| Self {
            guard,
            stdin,
            stdout,
            answer,
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

type Answered = (Result<Answer, HandoverError>, BufReader<ChildStdout>);

/// Waits for the far end's first words, or for the user to give up; `None`: none came in that time.
fn await_answer(
    stdout: ChildStdout,
    name: &str,
    cancel: &Cancel,
    log: &Log,
    process: &Ssh,
    patience: Duration,
) -> Result<Option<Answered>, Error> {
    let (tell, answer) = channel();
    let (noise_name, log) = (name.to_owned(), log.clone());
    let read = move || {
        let mut stdout = BufReader::new(stdout);
        let answer = handover::read_answer(&mut stdout, |line| {
            let line = String::from_utf8_lossy(line);
            log.line(&format!("{noise_name}: {line:.1000}"));
        });
        // Whoever waited may have given up.
        let _ = tell.send((answer, stdout));
    };
    std::thread::Builder::new()
        .name("howdah-ssh-answer".into())
        .spawn(read)
        .map_err(|e| Error::new(ErrorKind::Io, format!("cannot start a thread: {e}")))?;
    let start = Instant::now();
    loop {
        match answer.recv_timeout(LOOK_EVERY) {
            Ok((Err(HandoverError::Closed), stdout)) if !cancel.is_cancelled() => {
                // It ends, and says why, within a moment.
                process.wait_until(FAREWELL, |state| state.ended && state.silent);
                if !cancel.is_cancelled() {
                    return Ok(Some((Err(HandoverError::Closed), stdout)));
                }
            }
            Ok(answered) if !cancel.is_cancelled() => return Ok(Some(answered)),
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
        if start.elapsed() > patience {
            return Ok(None);
        }
    }
}
