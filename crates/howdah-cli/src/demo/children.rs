//! Processes on the hosts of the emulated world.

use crate::ui;
use anyhow::{Context as _, bail};
use howdah::{Cancel, Error, ErrorKind};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead as _, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Environment variable that ties a howdah process to its parent.
pub(crate) const DIE_WITH_PARENT: &str = "HOWDAH_DIE_WITH_PARENT";
/// How often a waiting loop looks at the cancel switch.
const LOOK: Duration = Duration::from_millis(50);
/// Lines of a process that are kept; none of ours says as much.
const MAX_LINES: usize = 1000;

/// A process whose output is collected. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Running {
    name: String,
    child: Child,
    lines: Receiver<Line>,
    out: Vec<String>,
    err: Vec<String>,
}

#[derive(Debug)]
enum Line {
    Out(String),
    Err(String),
}

impl Running {
    /// Starts `command`; `name` says in messages which one it is.
    pub(crate) fn start(name: &str, mut command: Command) -> anyhow::Result<Self> {
        let mut child = command
            .env(DIE_WITH_PARENT, "1")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        let (sender, lines) = channel();
        if let Some(out) = child.stdout.take() {
            collect(out, sender.clone(), Line::Out);
        }
        if let Some(err) = child.stderr.take() {
            collect(err, sender, Line::Err);
        }
        Ok(Self {
            name: name.to_owned(),
            child,
            lines,
            out: Vec::new(),
            err: Vec::new(),
        })
    }

    /// Waits until it prints a line that contains `text`.
    pub(crate) fn wait_for(
        &mut self,
        text: &str,
        patience: Duration,
        cancel: &Cancel,
    ) -> anyhow::Result<()> {
        let end = Instant::now() + patience;
        loop {
            match self.next_line(end, cancel)? {
                Next::Line(line) if line.contains(text) => return Ok(()),
                Next::Line(_) => {}
                Next::Ended => return Err(self.failure("ended too early", cancel)),
            }
        }
    }

    /// Waits until it ends well; gives back its standard output.
    pub(crate) fn finish(
        mut self,
        patience: Duration,
        cancel: &Cancel,
    ) -> anyhow::Result<Vec<String>> {
        let end = Instant::now() + patience;
        while let Next::Line(_) = self.next_line(end, cancel)? {}
        let status = self.child.wait()?;
        if !status.success() {
            return Err(self.failure(&format!("failed ({status})"), cancel));
        }
        Ok(std::mem::take(&mut self.out))
    }

    /// Asks it to end, waits a moment for that, then kills it.
    pub(crate) fn stop(mut self) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // It may have ended by itself meanwhile.
            let _ = kill_process(pid, Signal::TERM);
        }
        let end = Instant::now() + Duration::from_secs(3);
        while let Ok(Next::Line(_)) = self.next_line(end, &Cancel::new()) {}
    }

    fn next_line(&mut self, end: Instant, cancel: &Cancel) -> anyhow::Result<Next> {
        loop {
            if cancel.is_cancelled() {
                return Err(stopped().into());
            }
            match self.lines.recv_timeout(LOOK) {
                Ok(line) => {
                    let (kept, text) = match line {
                        Line::Out(text) => (&mut self.out, text),
                        Line::Err(text) => (&mut self.err, text),
                    };
                    if kept.len() < MAX_LINES {
                        kept.push(text.clone());
                    }
                    return Ok(Next::Line(text));
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(Next::Ended),
                Err(RecvTimeoutError::Timeout) if Instant::now() >= end => {
                    bail!("{} takes too long", self.name);
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// With what it said last.
    fn failure(&self, what: &str, cancel: &Cancel) -> anyhow::Error {
        if cancel.is_cancelled() {
            // The terminal's interrupt went to the process as well.
            return stopped().into();
        }
        let from = self.err.len().saturating_sub(3);
        let said: Vec<&str> = self.err[from..]
            .iter()
            .map(|line| line.strip_prefix("howdah: ").unwrap_or(line))
            .collect();
        anyhow::anyhow!("{} {what}: {}", self.name, said.join("; "))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only if it has ended and was waited for.
        let _ = self.child.kill();
        if let Err(error) = self.child.wait() {
            ui::say(&format!("cannot wait for {}: {error}", self.name));
        }
    }
}

fn stopped() -> Error {
    Error::new(ErrorKind::Cancelled, "stopped by a signal")
}

#[derive(Debug)]
enum Next {
    Line(String),
    Ended,
}

fn collect(from: impl Read + Send + 'static, to: Sender<Line>, wrap: fn(String) -> Line) {
    thread::spawn(move || {
        for line in BufReader::new(from).lines() {
            let Ok(line) = line else { break };
            if to.send(wrap(line)).is_err() {
                break;
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Running {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Running::start("the script", command).unwrap()
    }

    const SOON: Duration = Duration::from_secs(20);

    #[test]
    fn output_and_failures_come_back() {
        let cancel = Cancel::new();
        assert_eq!(
            shell("echo a; echo b").finish(SOON, &cancel).unwrap(),
            ["a", "b"]
        );
        let mut running = shell("echo up >&2; read x; echo 'howdah: bad' >&2; exit 5");
        running.wait_for("up", SOON, &cancel).unwrap();
        let error = running.finish(SOON, &cancel).unwrap_err().to_string();
        assert_eq!(error, "the script failed (exit status: 5): up; bad");
        let error = shell("echo no")
            .wait_for("up", SOON, &cancel)
            .unwrap_err()
            .to_string();
        assert_eq!(error, "the script ended too early: ");
    }

    #[test]
    fn waiting_ends_by_time_and_by_the_switch() {
        let cancel = Cancel::new();
        let error = shell("exec sleep 60")
            .finish(Duration::ZERO, &cancel)
            .unwrap_err();
        assert_eq!(error.to_string(), "the script takes too long");
        let running = shell("exec sleep 60");
        cancel.cancel();
        assert_eq!(
            running.finish(SOON, &cancel).unwrap_err().to_string(),
            "stopped by a signal"
        );
        shell("exec sleep 60").stop();
    }
}
