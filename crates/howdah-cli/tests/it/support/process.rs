//! `howdah` processes: started, listened to, waited for with a limit.

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Once};
use std::thread;
use std::time::{Duration, Instant};

/// What a process gets on standard input.
pub(crate) enum Input {
    None,
    /// These bytes and the end.
    Bytes(Vec<u8>),
    /// These bytes and no end; [`Process::await_fed`] waits until they are taken.
    Held(Vec<u8>),
}

/// What a process left.
#[derive(Debug)]
pub(crate) struct Done {
    /// `None` if a signal ended it.
    pub(crate) code: Option<i32>,
    pub(crate) out: Vec<u8>,
    pub(crate) err: String,
    pub(crate) took: Duration,
}

impl Done {
    /// The object that `--json` prints, which may stand on either output.
    pub(crate) fn json(&self) -> serde_json::Value {
        let out = String::from_utf8_lossy(&self.out);
        let mut lines = out.lines().chain(self.err.lines());
        let line = lines.rfind(|line| line.starts_with('{'));
        let line = line.unwrap_or_else(|| panic!("no JSON: {}", self.err));
        serde_json::from_str(line).unwrap()
    }

    /// The kind of failure that `--json` names.
    pub(crate) fn json_error(&self) -> String {
        self.json()["error"]["kind"].as_str().unwrap().to_owned()
    }

    /// Ended well, all bytes verified.
    #[track_caller]
    pub(crate) fn assert_copied(&self, bytes: u64, verified: &str) {
        assert_eq!(self.code, Some(0), "{}", self.err);
        let json = self.json();
        assert_eq!(json["bytes"], bytes, "{json}");
        assert_eq!(json["verified"], verified, "{json}");
    }

    /// Ended with that code and says every one of `parts`.
    #[track_caller]
    pub(crate) fn assert_failed(&self, code: i32, parts: &[&str]) {
        assert_eq!(self.code, Some(code), "{}", self.err);
        for part in parts {
            assert!(self.err.contains(part), "{part:?} is not in: {}", self.err);
        }
        assert!(!self.err.contains("panicked"), "{}", self.err);
    }
}

/// A running process. Dropping it kills it.
pub(crate) struct Process {
    child: Child,
    name: String,
    started: Instant,
    limit: Instant,
    out: Receiver<Vec<u8>>,
    err: Receiver<String>,
    said: Vec<String>,
    fed: Receiver<()>,
    /// Dropping it ends a held input.
    hold: Option<std::sync::mpsc::Sender<()>>,
}

/// What a process printed that ended well, without the space around it.
#[track_caller]
pub(crate) fn ok(done: &Done) -> String {
    assert_eq!(done.code, Some(0), "{}", done.err);
    String::from_utf8(done.out.clone())
        .unwrap()
        .trim()
        .to_owned()
}

/// Whoever starts tests may ignore signals (`nohup`, `&` in a script), and so would all that they start, as it should. A signal
/// that is caught here is at its default there.
pub(crate) fn hear_signals() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        for signal in [SIGHUP, SIGINT, SIGTERM] {
            if ignored.unwrap_or(0) >> (signal - 1) & 1 == 1 {
                signal_hook::flag::register(signal, Arc::default()).unwrap();
            }
        }
    });
}

impl Process {
    pub(crate) fn start(mut command: Command, input: Input, limit: Instant) -> Self {
        let name = format!("{command:?}");
        let stdin = if matches!(input, Input::None) {
            Stdio::null()
        } else {
            Stdio::piped()
        };
        hear_signals();
        let started = Instant::now();
        let mut child = command
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (mut stdout, stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let (out_tx, out) = channel();
        thread::spawn(move || {
            let mut bytes = Vec::new();
            stdout.read_to_end(&mut bytes).unwrap();
            let _ = out_tx.send(bytes);
        });
        let (err_tx, err) = channel();
        thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                if err_tx.send(line).is_err() {
                    break;
                }
            }
        });
        let (fed_tx, fed) = channel();
        let (hold, held) = channel();
        let (bytes, stay) = match input {
            Input::None => (Vec::new(), false),
            Input::Bytes(bytes) => (bytes, false),
            Input::Held(bytes) => (bytes, true),
        };
        if let Some(mut stdin) = child.stdin.take() {
            thread::spawn(move || {
                // The process may end before it has read everything.
                if stdin.write_all(&bytes).is_ok() && stay {
                    let _ = fed_tx.send(());
                    let _ = held.recv();
                }
            });
        }
        Self {
            child,
            name,
            started,
            limit,
            out,
            err,
            said: Vec::new(),
            fed,
            hold: Some(hold),
        }
    }

    /// Waits until a held input has been taken in.
    #[track_caller]
    pub(crate) fn await_fed(&self) {
        let left = self.limit.saturating_duration_since(Instant::now());
        let fed = self.fed.recv_timeout(left);
        assert!(fed.is_ok(), "{} does not read its input", self.name);
    }

    /// Ends a held input.
    pub(crate) fn end_input(&mut self) {
        self.hold = None;
    }

    /// Waits for a line on standard error that contains `part`; earlier waits' lines are past.
    #[track_caller]
    pub(crate) fn await_line(&mut self, part: &str, patience: Duration) -> String {
        let end = self.limit.min(Instant::now() + patience);
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match self.err.recv_timeout(left) {
                Ok(line) => {
                    self.said.push(line.clone());
                    if line.contains(part) {
                        return line;
                    }
                }
                Err(why) => panic!("{}: no {part:?} ({why}):\n{}", self.name, self.text()),
            }
        }
    }

    /// Waits for such a line, or for its end: whether the line came.
    #[track_caller]
    pub(crate) fn says_before_its_end(&mut self, part: &str) -> bool {
        loop {
            let left = self.limit.saturating_duration_since(Instant::now());
            match self.err.recv_timeout(left) {
                Ok(line) => {
                    self.said.push(line.clone());
                    if line.contains(part) {
                        return true;
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return false,
                Err(RecvTimeoutError::Timeout) => {
                    panic!("{} hangs; it said:\n{}", self.name, self.text());
                }
            }
        }
    }

    /// How many lines with `part` it has said so far.
    pub(crate) fn lines_so_far(&mut self, part: &str) -> usize {
        self.said.extend(self.err.try_iter());
        self.said.iter().filter(|line| line.contains(part)).count()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap()
    }

    /// Gives it the end of its input, if that was held, and waits until it ends.
    #[track_caller]
    pub(crate) fn finish(mut self) -> Done {
        self.hold = None;
        self.ended()
    }

    /// Waits until it ends by itself: with its input held, only because of a signal or of the other side.
    #[track_caller]
    pub(crate) fn ended(mut self) -> Done {
        loop {
            let left = self.limit.saturating_duration_since(Instant::now());
            match self.err.recv_timeout(left) {
                Ok(line) => self.said.push(line),
                // It has closed its standard error: it is ending.
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    panic!("{} hangs; it said:\n{}", self.name, self.text());
                }
            }
        }
        let status = self.child.wait().unwrap();
        let out = self.out.recv_timeout(Duration::from_secs(10)).unwrap();
        Done {
            code: status.code(),
            out,
            err: self.text(),
            took: self.started.elapsed(),
        }
    }

    /// All that it said so far, as far as somebody listened.
    pub(crate) fn text(&self) -> String {
        self.said.join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            // What it started may hold its standard error open for ever.
            let end = Instant::now() + Duration::from_secs(2);
            while let Ok(line) = {
                let left = end.saturating_duration_since(Instant::now());
                self.err.recv_timeout(left)
            } {
                self.said.push(line);
            }
            println!("---- {}\n{}\n----", self.name, self.text());
        }
    }
}

/// `howdah serve`.
pub(crate) struct Server {
    pub(crate) process: Process,
    pub(crate) address: SocketAddr,
}

impl Server {
    /// Waits until it serves.
    pub(crate) fn new(mut process: Process) -> Self {
        let line = process.await_line("serving ", Duration::from_secs(20));
        let (_, address) = line.rsplit_once(" on ").unwrap();
        let address = address.parse().unwrap();
        Self { process, address }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        url(self.address, path)
    }

    #[track_caller]
    pub(crate) fn await_line(&mut self, part: &str, patience: Duration) -> String {
        self.process.await_line(part, patience)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    /// Asks it to stop, which it must do in good order.
    #[track_caller]
    pub(crate) fn stop(self) {
        self.process.signal(Signal::TERM);
        let done = self.process.finish();
        assert_eq!(done.code, Some(0), "{}", done.err);
        assert!(!done.err.contains("panicked"), "{}", done.err);
    }
}

pub(crate) fn url(address: SocketAddr, path: &str) -> String {
    format!("howdah://{address}/{path}")
}
