//! A daemon of the client of a site.

use super::process::{Done, Input, Process, ok};
use super::{HOWDAH, Host, Site};
use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// A daemon of the client of a site; its jobs outlive it, as they should, but not the test.
pub(crate) struct Service<'a> {
    site: &'a Site,
    process: Option<Process>,
    /// Where its jobs run, if that is not where the test does.
    runs_in: Option<String>,
}

impl<'a> Service<'a> {
    pub(crate) fn new(site: &'a Site, args: &[&str]) -> Self {
        let mut service = Self {
            site,
            process: None,
            runs_in: None,
        };
        service.start(args);
        service
    }

    /// One whose jobs touch nothing outside of that directory.
    pub(crate) fn allowing(site: &'a Site, dir: String) -> Self {
        let mut service = Self::new(site, &["--allow", &dir]);
        service.runs_in = Some(dir);
        service
    }

    /// The same, started by a command that ends in howdah's name.
    pub(crate) fn allowing_by(site: &'a Site, command: Command, dir: String) -> Self {
        let mut service = Self {
            site,
            process: None,
            runs_in: None,
        };
        service.start_by(command, &["--allow", &dir]);
        service.runs_in = Some(dir);
        service
    }

    pub(crate) fn start(&mut self, args: &[&str]) {
        self.start_by(Command::new(HOWDAH), args);
    }

    fn start_by(&mut self, command: Command, args: &[&str]) {
        let args = [&["daemon"], args].concat();
        let mut daemon = self.site.start_by(command, "client", &args, Input::None);
        daemon.await_line("taking jobs", PATIENCE);
        self.process = Some(daemon);
    }

    /// As kill -9 does.
    pub(crate) fn kill(&mut self) {
        if let Some(daemon) = self.process.take() {
            daemon.signal(Signal::KILL);
            assert_eq!(daemon.finish().code, None);
        }
    }

    /// Of the daemon.
    pub(crate) fn pid(&self) -> i32 {
        self.process.as_ref().unwrap().pid().as_raw_nonzero().get()
    }

    /// Waits until the daemon has said that.
    pub(crate) fn await_line(&mut self, part: &str) -> String {
        self.process.as_mut().unwrap().await_line(part, PATIENCE)
    }

    pub(crate) fn dir(&self) -> PathBuf {
        self.site.config("client").join("daemon")
    }

    pub(crate) fn job(&self, args: &[&str]) -> Done {
        self.ask(&[&["job"], args].concat())
    }

    /// Any command of its user.
    pub(crate) fn ask(&self, args: &[&str]) -> Done {
        self.site.run(Host::Here, "client", args, Input::None)
    }

    #[track_caller]
    pub(crate) fn submit(&self, options: &[&str], command: &[&str]) -> String {
        ok(&self.submitted(options, command))
    }

    pub(crate) fn submitted(&self, options: &[&str], command: &[&str]) -> Done {
        let place = self.runs_in.as_ref().map(|dir| ["--directory", dir]);
        let place = place.as_ref().map_or(&[][..], |place| place);
        self.job(&[&["submit"], place, options, &["--"], command].concat())
    }

    #[track_caller]
    pub(crate) fn show(&self, job: &str) -> Value {
        let done = self.job(&["show", "--json", job]);
        assert_eq!(done.code, Some(0), "{}", done.err);
        done.json()
    }

    /// Waits until it is as wanted.
    #[track_caller]
    pub(crate) fn await_job(&self, job: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + PATIENCE;
        loop {
            let found = self.show(job);
            if wanted(&found) {
                return found;
            }
            assert!(Instant::now() < end, "{found}");
        }
    }

    /// How often each job was really begun: who works on one says so first, whatever a daemon believes.
    pub(crate) fn starts(&self) -> BTreeMap<String, usize> {
        let mut found = BTreeMap::new();
        let attempts = self.dir().join("attempts");
        for entry in fs::read_dir(attempts).into_iter().flatten() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            let (job, _) = name.split_once('-').unwrap();
            let events = fs::read_to_string(path.join("events")).unwrap_or_default();
            let begun = events
                .lines()
                .filter(|line| line.contains(r#""event":"start""#))
                .count();
            *found.entry(job.to_owned()).or_default() += begun;
        }
        found
    }
}

impl Drop for Service<'_> {
    fn drop(&mut self) {
        // Its jobs are in sessions of their own.
        for entry in fs::read_dir(self.dir().join("attempts"))
            .into_iter()
            .flatten()
            .flatten()
        {
            let Ok(claim) = fs::read(entry.path().join("claim")) else {
                continue;
            };
            let Ok(claim) = serde_json::from_slice::<Value>(&claim) else {
                continue;
            };
            let Some(pid) = claim["by"]["pid"].as_i64() else {
                continue;
            };
            // Only if it is still what it was.
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            if String::from_utf8_lossy(&line).contains(&*self.dir().to_string_lossy()) {
                let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
                let _ = rustix::process::kill_process(pid, Signal::KILL);
            }
        }
    }
}
