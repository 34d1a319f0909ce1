//! The ssh process here, and what comes through it.

use super::candidates::{Resolving, candidates};
use super::handover::{self, Answer, Ask, Errand, HandoverError, Told};
use super::{SshConfig, command};
use crate::session::pace::Pace;
use crate::{Cancel, Error, ErrorKind, Log, PublicKey, SshTarget};
use howdah_net::{Near, Tunnel};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Somebody may have to type a password, touch a key, or be asked about a host.
const PATIENCE: Duration = Duration::from_mins(10);
/// How often it is looked whether the user has had enough.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// When the channel is closed, ssh has that long to end by itself.
const FAREWELL: Duration = Duration::from_secs(2);
/// Longest line of the far side's that is shown, in bytes; more lines are made of the rest.
const SHOWN_MAX: u64 = 1_000;
/// Last lines that are kept to explain a failure.
const KEPT_LINES: usize = 4;

/// The other end of a session, and the ssh that keeps it alive. Dropping it ends both.
#[derive(Debug)]
pub(crate) struct FarEnd {
    name: String,
    process: Arc<Ssh>,
    /// To the far end and from it. Closing the first is what tells it to end.
    channel: Mutex<Channel>,
    ready: Ready,
    named: Vec<IpAddr>,
}

type Channel = (Option<ChildStdin>, Option<BufReader<ChildStdout>>);

#[derive(Debug)]
struct Ready {
    port: u16,
    key: PublicKey,
    address: Option<IpAddr>,
}

/// The process, for whoever wants to know or to end it.
#[derive(Debug)]
struct Ssh {
    pid: Pid,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// It has been waited for; its id may belong to another process now.
    ended: bool,
    status: Option<ExitStatus>,
    /// Its last words.
    words: VecDeque<String>,
    /// Nobody writes to its standard error any more.
    silent: bool,
}

impl Ssh {
    fn lock(&self) -> MutexGuard<'_, State> {
        // No half-made state can be in there.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for its end on a thread of its own.
    fn watch(self: &Arc<Self>, mut child: Child) -> std::io::Result<()> {
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
    fn listen(self: &Arc<Self>, stderr: ChildStderr, name: &str, log: &Log) -> std::io::Result<()> {
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
                if line.is_empty() {
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

    fn has_ended(&self) -> bool {
        self.lock().ended
    }

    /// Waits at most that long for `done`.
    fn wait_until(&self, limit: Duration, done: impl Fn(&State) -> bool) {
        let state = self.lock();
        // A time-out shows in the state.
        let _ = self
            .changed
            .wait_timeout_while(state, limit, |state| !done(state));
    }

    /// Ends it, if it has not ended.
    fn end(&self) {
        let state = self.lock();
        if !state.ended {
            // It may just be ending.
            let _ = rustix::process::kill_process(self.pid, Signal::TERM);
        }
    }
}

impl FarEnd {
    /// Starts ssh and the far end, which will let the holder of `key` in.
    pub(crate) fn start(
        config: &SshConfig,
        target: &SshTarget,
        key: &PublicKey,
        cancel: &Cancel,
        log: &Log,
    ) -> Result<Self, Error> {
        let ask = Ask::Serve {
            key: key.to_string(),
            ports: (*config.ports.start(), *config.ports.end()),
        };
        Self::start_with(config, target, &ask, cancel, log)
    }

    /// Starts ssh and a far end that will send to another one.
    pub(crate) fn start_sender(
        config: &SshConfig,
        target: &SshTarget,
        cancel: &Cancel,
        log: &Log,
    ) -> Result<Self, Error> {
        Self::start_with(config, target, &Ask::Send, cancel, log)
    }

    fn start_with(
        config: &SshConfig,
        target: &SshTarget,
        ask: &Ask,
        cancel: &Cancel,
        log: &Log,
    ) -> Result<Self, Error> {
        let name = target.to_string();
        let resolving = Resolving::start(config, target);
        let mut command = command::start(config, target);
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
        let pid = Pid::from_child(&child);
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let process = Arc::new(Ssh {
            pid,
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let guard = Guard(Arc::clone(&process));
        process.watch(child).map_err(trouble)?;
        let (Some(mut stdin), Some(stdout), Some(stderr)) = (stdin, stdout, stderr) else {
            return Err(trouble(missing()));
        };
        process.listen(stderr, &name, log).map_err(trouble)?;
        // Said at once: it waits in the pipe until ssh has opened the channel, and costs no round trip.
        // Should ssh have ended already, its own words say more than a broken pipe.
        let _ = handover::write_ask(&mut stdin, ask);
        let (answer, stdout) = await_answer(stdout, &name, cancel, log, &process)?;
        let answer = answer.map_err(|error| match error {
            HandoverError::Closed | HandoverError::Io(_) => process.why(&name, config),
            error => error.at(&name),
        })?;
        let ready = match answer {
            Answer::Ready { port, key, address } => Ready {
                port,
                key: handover::key(&key).map_err(|e| e.at(&name))?,
                address,
            },
            Answer::Sender { key } => Ready {
                port: 0,
                key: handover::key(&key).map_err(|e| e.at(&name))?,
                address: None,
            },
            Answer::Failed { message } => {
                let message: String = message.chars().filter(|c| !c.is_control()).collect();
                return Err(Error::new(ErrorKind::Io, format!("{name}: {message}")));
            }
        };
        std::mem::forget(guard);
        Ok(Self {
            name,
            process,
            channel: Mutex::new((Some(stdin), Some(stdout))),
            named: resolving.finish(ready.address.is_some()),
            ready,
        })
    }

    /// The key that it will show.
    pub(crate) fn key(&self) -> PublicKey {
        self.ready.key
    }

    /// Its port.
    pub(crate) fn port(&self) -> u16 {
        self.ready.port
    }

    /// How the user calls it.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Sends a sender on its errand; what it tells of it.
    pub(super) fn send_on(&self, errand: Errand) -> Result<Receiver<Told>, Error> {
        let trouble = |e| Error::new(ErrorKind::Io, format!("cannot talk to {}: {e}", self.name));
        let mut channel = self.lock_channel();
        // The first half stays: its end is the sender's.
        let stdout = channel.1.take();
        let (Some(stdin), Some(mut stdout)) = (channel.0.as_mut(), stdout) else {
            return Err(trouble(in_use()));
        };
        handover::write_ask(stdin, &Ask::Errand(Box::new(errand))).map_err(trouble)?;
        let (tell, told) = std::sync::mpsc::channel();
        let listen = move || {
            while let Some(message) = handover::read_told(&mut stdout) {
                if tell.send(message).is_err() {
                    break;
                }
            }
        };
        std::thread::Builder::new()
            .name("howdah-ssh-told".into())
            .spawn(listen)
            .map(|_| told)
            .map_err(trouble)
    }

    /// Tells a sender that the user wants another pace.
    pub(super) fn set_pace(&self, pace: Pace) {
        if let Some(stdin) = self.lock_channel().0.as_mut() {
            // If it has gone, that shows elsewhere.
            let _ = handover::write_ask(stdin, &Ask::Pace(pace));
        }
    }

    /// Where it may be reached, best first.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        candidates(&self.named, self.ready.address, self.ready.port)
    }

    fn lock_channel(&self) -> MutexGuard<'_, Channel> {
        // There is no half of either.
        self.channel.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries datagrams through the channel from now on. Once.
    pub(crate) fn tunnel(&self) -> std::io::Result<Tunnel> {
        let mut channel = self.lock_channel();
        let (Some(mut stdin), Some(stdout)) = (channel.0.take(), channel.1.take()) else {
            return Err(in_use());
        };
        handover::write_tunnel(&mut stdin)?;
        Tunnel::over(stdout, stdin, Near::Opens)
    }

    /// Whether ssh has ended, and the far end with it.
    pub(crate) fn has_ended(&self) -> bool {
        self.process.has_ended()
    }

    /// A failure of the session, in the words of whoever knows most about it.
    pub(crate) fn explain(&self, error: Error) -> Error {
        if error.kind() != ErrorKind::Network || !self.has_ended() {
            return error;
        }
        Error::new(
            ErrorKind::Network,
            format!(
                "ssh to {} ended during the copy ({}); try again",
                self.name,
                self.process.ending()
            ),
        )
    }
}

impl Drop for FarEnd {
    fn drop(&mut self) {
        self.lock_channel().0 = None;
        self.process.wait_until(FAREWELL, |state| state.ended);
        self.process.end();
    }
}

fn in_use() -> std::io::Error {
    std::io::Error::other("the channel is in use")
}

/// Ends ssh if the far end does not come about.
struct Guard(Arc<Ssh>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.end();
    }
}

type Answered = (Result<Answer, HandoverError>, BufReader<ChildStdout>);

/// Waits for the far end's first words, or for the user to give up.
fn await_answer(
    stdout: ChildStdout,
    name: &str,
    cancel: &Cancel,
    log: &Log,
    process: &Ssh,
) -> Result<Answered, Error> {
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
                    return Ok((Err(HandoverError::Closed), stdout));
                }
            }
            Ok(answered) if !cancel.is_cancelled() => return Ok(answered),
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
        if start.elapsed() > PATIENCE {
            return Err(Error::new(
                ErrorKind::Network,
                format!(
                    "ssh to {name} brought no answer within {} s",
                    PATIENCE.as_secs()
                ),
            ));
        }
    }
}

impl Ssh {
    fn ending(&self) -> String {
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
    fn why(&self, host: &str, config: &SshConfig) -> Error {
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
    const SSH_FAILED: i32 = 255;
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
