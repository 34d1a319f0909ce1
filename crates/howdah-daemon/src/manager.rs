//! The one thread that decides and writes. What it is asked is answered when it is on the disk, and a process is started when it
//! is written down that it will be.

mod orders;
mod schedules;
mod submitting;
mod watches;

use crate::bounds::Bounds;
use crate::extent;
use crate::job::{Ended, Grammar, JobId, Kind, Meaning, Spec};
use crate::order::{Answer, AttemptEnded, Message, Order};
use crate::pace::Plan;
use crate::pacer::Pace;
use crate::process::{self, Found, Running};
use crate::queue::{Change, Limits, Queue};
use crate::state::{Beginning, Old, Scheduled, StateError, Store};
use crate::time::Clock;
use orders::{apply, write_changes};
use rustix::process::Signal;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};
use tokio::sync::{oneshot, watch};

/// How long a process may take to end in good order.
const GRACE: Duration = Duration::from_secs(30);
/// Until what could not be written is tried again.
const AGAIN: Duration = Duration::from_secs(1);
/// How often is looked for jobs that are over since long.
const TIDY: Duration = Duration::from_hours(1);
/// No clock goes so far ahead by itself, from one look at it to the next.
const LEAP: Duration = Duration::from_hours(30 * 24);
/// So long nothing is forgotten after that: somebody may see it, and set it right.
const DOUBT: Duration = Duration::from_hours(24);
/// So many orders are written at once at the most.
const BATCH: usize = 256;

pub(crate) struct Manager {
    pub(crate) store: Store,
    pub(crate) grammar: Arc<dyn Grammar>,
    pub(crate) bounds: Arc<Bounds>,
    pub(crate) program: PathBuf,
    pub(crate) attempts: PathBuf,
    pub(crate) limits: Limits,
    pub(crate) messages: Receiver<Message>,
    /// For those who watch processes.
    pub(crate) sender: SyncSender<Message>,
    /// How long what is over is kept.
    pub(crate) keep: Duration,
    /// Counts what was written.
    pub(crate) written: watch::Sender<u64>,
    /// What running jobs may take.
    pub(crate) pace: Arc<Pace>,
    pub(crate) clock: Clock,
}

/// Where an attempt has its files.
pub(crate) fn attempt_dir(attempts: &Path, job: JobId, number: u32) -> PathBuf {
    attempts.join(format!("{job}-{number}"))
}

impl Manager {
    /// Finds what an earlier one has left, then works until it is stopped; processes go on.
    pub(crate) fn run(self) -> Result<(), StateError> {
        let queue = load(&self.store, self.limits)?;
        let schedules = self.store.schedules()?;
        let seen_ms = self.store.last_time()?.unwrap_or_else(|| (self.clock)());
        let now = Instant::now();
        let mut working = Working {
            queue,
            schedules,
            stale: false,
            running: HashMap::new(),
            owed: Vec::new(),
            to_kill: Vec::new(),
            seen: (seen_ms, now),
            // Nobody knows what became of the clock while there was no daemon.
            went_back: true,
            tidy_at: now,
            own: self,
        };
        working.find_again()?;
        working.work();
        Ok(())
    }
}

/// How long may be slept until then. Clocks are set, and machines sleep: it is looked at all the same.
fn until(when: u64, now: u64) -> Duration {
    const A_LOOK_AT_THE_CLOCK: Duration = Duration::from_mins(1);
    Duration::from_millis(when.saturating_sub(now)).min(A_LOOK_AT_THE_CLOCK)
}

fn load(store: &Store, limits: Limits) -> Result<Queue, StateError> {
    let mut queue = Queue::new(limits);
    for entry in store.unfinished()? {
        queue.insert(entry);
    }
    for (host, most) in store.host_limits()? {
        queue.limit_host(&host, Some(most));
    }
    Ok(queue)
}

/// Why a job's attempt ended so, where it said that itself and no event tells it.
fn put_into_words(job: JobId, attempt: &Path, ended: &Ended, changes: &mut [Change]) {
    let mine = changes.iter_mut().find(|change| change.id == job);
    if let Some(reason) = mine.and_then(|change| change.reason.as_mut())
        && reason.ends_with(&ended.to_string())
        && let Some(words) = process::record::last_words(attempt)
    {
        *reason = format!("{reason}: {words}");
    }
}

struct Working {
    own: Manager,
    queue: Queue,
    schedules: Vec<Scheduled>,
    /// The queue may say what was never written.
    stale: bool,
    running: HashMap<JobId, Running>,
    /// Ends that are not written yet.
    owed: Vec<AttemptEnded>,
    to_kill: Vec<(Instant, JobId)>,
    /// What the clock said when it was last looked at.
    seen: (u64, Instant),
    /// Times of schedules may be meant by a clock that was ahead.
    went_back: bool,
    /// When is looked again for what can be forgotten.
    tidy_at: Instant,
}

impl Working {
    fn find_again(&mut self) -> Result<(), StateError> {
        for attempt in self.own.store.open_attempts()? {
            let (job, number) = (attempt.job, attempt.number);
            let dir = attempt_dir(&self.own.attempts, job, number);
            match process::find(&dir, self.teller(job, number)) {
                Ok(Found::Running(running)) => {
                    if attempt.cancelling {
                        // Nobody knows whether the one before came to that.
                        running.signal(Signal::TERM);
                        self.to_kill.push((Instant::now() + GRACE, job));
                    }
                    self.running.insert(job, running);
                }
                Ok(Found::Ended(ended)) => self.owed.push(AttemptEnded { job, number, ended }),
                // It cannot be known whether it runs, so it must not be started again.
                Err(error) => {
                    let why = format!("the record of attempt {number} cannot be read: {error}");
                    self.owed.push(AttemptEnded {
                        job,
                        number,
                        ended: Ended::CannotStart(why),
                    });
                }
            }
        }
        Ok(())
    }

    fn teller(&self, job: JobId, number: u32) -> impl FnOnce(Ended) + Send + use<> {
        let sender = self.own.sender.clone();
        move |ended| {
            // Without a manager the next daemon finds it.
            let _ = sender.send(Message::Ended(AttemptEnded { job, number, ended }));
        }
    }

    fn work(&mut self) {
        loop {
            if self.stale
                && let Ok(queue) = load(&self.own.store, self.own.limits)
                && let Ok(schedules) = self.own.store.schedules()
            {
                self.queue = queue;
                self.schedules = schedules;
                self.stale = false;
            }
            if !self.stale && self.handle(Vec::new()).is_ok() {
                self.start_what_may();
                self.tidy();
            }
            self.kill_what_must();
            let mut batch = Vec::new();
            match self.own.messages.recv_timeout(self.patience()) {
                Ok(message) => batch.push(message),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            while batch.len() < BATCH {
                match self.own.messages.try_recv() {
                    Ok(message) => batch.push(message),
                    Err(_) => break,
                }
            }
            let mut asked = Vec::new();
            let mut stop = false;
            for message in batch {
                match message {
                    Message::Asked(order, reply) => asked.push((order, reply)),
                    Message::Ended(ended) => self.owed.push(ended),
                    Message::Stop => stop = true,
                }
            }
            if self.stale {
                for (_, reply) in asked {
                    let _ = reply.send(Err(
                        "the daemon cannot write its database just now".to_owned()
                    ));
                }
            } else {
                // What failed is tried again above.
                let _ = self.handle(asked);
            }
            if stop {
                return;
            }
        }
    }

    fn now(&self) -> u64 {
        (self.own.clock)()
    }

    /// Sees whether it was set.
    fn look_at_clock(&mut self) {
        let now = self.now();
        let (seen_ms, seen) = std::mem::replace(&mut self.seen, (now, Instant::now()));
        self.went_back |= now < seen_ms;
        if Duration::from_millis(now.saturating_sub(seen_ms)) > LEAP + seen.elapsed() {
            self.tidy_at = self.tidy_at.max(Instant::now() + DOUBT);
        }
    }

    /// Whether something has come without anybody's asking.
    fn is_time(&self, now: u64) -> bool {
        self.went_back
            || self.queue.is_late(now)
            || schedules::first(&self.schedules).is_some_and(|when| when <= now)
    }

    fn patience(&self) -> Duration {
        const LONG: Duration = Duration::from_hours(1);
        let now = self.now();
        let scheduled = schedules::first(&self.schedules).map(|when| until(when, now));
        let wake = self.queue.wake().map(|when| until(when, now));
        let kill = self
            .to_kill
            .iter()
            .map(|(when, _)| when.saturating_duration_since(Instant::now()))
            .min();
        let again = (self.stale || !self.owed.is_empty()).then_some(AGAIN);
        // Jobs that are due may wait for others: then the end of these wakes us.
        let wake = wake.map(|wait| wait.max(Duration::from_millis(10)));
        [wake, scheduled, kill, again]
            .into_iter()
            .flatten()
            .min()
            .unwrap_or(LONG)
    }

    /// Writes what ended and what is asked, then answers.
    fn handle(
        &mut self,
        asked: Vec<(Order, oneshot::Sender<Result<Answer, String>>)>,
    ) -> Result<(), StateError> {
        self.look_at_clock();
        if asked.is_empty() && self.owed.is_empty() && !self.is_time(self.now()) {
            return Ok(());
        }
        let (orders, replies): (Vec<_>, Vec<_>) = asked.into_iter().unzip();
        match self.write(&orders) {
            Ok((answers, to_end)) => {
                for ended in self.owed.drain(..) {
                    self.running.remove(&ended.job);
                    self.own.pace.end(ended.job, ended.number);
                }
                for job in to_end {
                    if let Some(running) = self.running.get(&job) {
                        running.signal(Signal::TERM);
                        self.to_kill.push((Instant::now() + GRACE, job));
                    }
                }
                self.own.written.send_modify(|n| *n += 1);
                for (reply, answer) in replies.into_iter().zip(answers) {
                    // Who asked may be gone.
                    let _ = reply.send(Ok(answer));
                }
                Ok(())
            }
            Err(error) => {
                self.stale = true;
                for reply in replies {
                    let _ = reply.send(Err(error.to_string()));
                }
                Err(error)
            }
        }
    }

    /// The answers, and whose process is to end.
    fn write(&mut self, orders: &[Order]) -> Result<(Vec<Answer>, Vec<JobId>), StateError> {
        let now = self.now();
        let writing = self.own.store.write()?;
        for AttemptEnded { job, number, ended } in &self.owed {
            if writing.end_attempt(*job, *number, ended, now)? {
                let mut changes = self.queue.ended(*job, ended, now);
                let dir = attempt_dir(&self.own.attempts, *job, *number);
                put_into_words(*job, &dir, ended, &mut changes);
                write_changes(&writing, &self.queue, &changes, now)?;
            }
        }
        let (changes, mut to_end) = self.queue.expire(now);
        write_changes(&writing, &self.queue, &changes, now)?;
        if self.went_back {
            schedules::plan_again(&writing, &mut self.schedules, now)?;
        }
        schedules::run(&writing, &mut self.queue, &mut self.schedules, now)?;
        let mut answers = Vec::new();
        for order in orders {
            answers.push(match order {
                Order::PauseSchedule { id, paused } => {
                    schedules::pause(&writing, &mut self.schedules, *id, *paused, now)?
                }
                _ => apply(&writing, &mut self.queue, order, now, &mut to_end)?,
            });
        }
        writing.commit()?;
        self.went_back = false;
        if orders.iter().any(Order::is_about_schedules) {
            // It is written, whether or not it can be read just now.
            match self.own.store.schedules() {
                Ok(schedules) => self.schedules = schedules,
                Err(_) => self.stale = true,
            }
        }
        Ok((answers, to_end))
    }

    fn start_what_may(&mut self) {
        let now = self.now();
        let jobs: Vec<_> = std::iter::from_fn(|| self.queue.start(now)).collect();
        if jobs.is_empty() {
            return;
        }
        match self.write_starts(&jobs, now) {
            Ok(starts) => {
                self.own.written.send_modify(|n| *n += 1);
                for (job, (number, spec, limit)) in starts {
                    self.start(job, number, &spec, limit.as_deref());
                }
                if self.write_identities().is_err() {
                    self.stale = true;
                }
            }
            Err(_) => self.stale = true,
        }
    }

    fn write_starts(
        &mut self,
        jobs: &[JobId],
        now: u64,
    ) -> Result<Vec<(JobId, Beginning)>, StateError> {
        let writing = self.own.store.write()?;
        let mut starts = Vec::new();
        for job in jobs {
            starts.push((*job, writing.begin_attempt(*job, now)?));
        }
        writing.commit()?;
        Ok(starts)
    }

    fn start(&mut self, job: JobId, number: u32, spec: &Spec, limit: Option<&str>) {
        let dir = attempt_dir(&self.own.attempts, job, number);
        let meaning = match self.check_again(spec) {
            Ok(meaning) => meaning,
            Err(ended) => return self.owed.push(AttemptEnded { job, number, ended }),
        };
        let hosts = self.queue.get(job).map(|entry| entry.hosts.as_slice());
        let share = match spec.kind {
            Kind::Cp | Kind::Sync => {
                let hosts = hosts.unwrap_or_default();
                let plan = self.plan(job, number, spec, &meaning);
                self.own.pace.begin(job, number, hosts, limit, plan)
            }
            Kind::Verify | Kind::LabRun => None,
        };
        let start = process::Start {
            program: &self.own.program,
            dir: &dir,
            spec,
            share,
            bounds: &self.own.bounds,
        };
        match process::start(&start, self.teller(job, number)) {
            Ok(running) => {
                self.running.insert(job, running);
            }
            Err(ended) => self.owed.push(AttemptEnded { job, number, ended }),
        }
    }

    /// What its names lead to may have changed since it was submitted.
    fn check_again(&self, spec: &Spec) -> Result<Meaning, Ended> {
        let meaning = self.own.grammar.check(spec).map_err(Ended::CannotStart)?;
        let checked = self.own.bounds.check_again(&spec.directory, &meaning.paths);
        checked.map_err(Ended::CannotStart).map(|()| meaning)
    }

    /// The least rate that meets its time, as far as is known what it has to move: what the attempt before has left, or the size of what is
    /// here. Otherwise it begins as fast as it may, until it says that itself.
    fn plan(&self, job: JobId, number: u32, spec: &Spec, meaning: &Meaning) -> Option<Plan> {
        let by_ms = spec.by_ms?;
        let before = number.checked_sub(1).and_then(|before| {
            process::record::left(&attempt_dir(&self.own.attempts, job, before))
        });
        let bytes = before.or_else(|| extent::of(&spec.directory, &meaning.sources))?;
        Plan::guess(bytes, self.now(), by_ms)
    }

    /// For people; whether a process is an attempt's own is decided by what it claims.
    fn write_identities(&mut self) -> Result<(), StateError> {
        let writing = self.own.store.write()?;
        for (job, running) in &self.running {
            writing.attempt_identity(*job, running.identity.pid, running.identity.start_ticks)?;
        }
        writing.commit()?;
        // Before this nobody could find them.
        self.own.pace.poke();
        Ok(())
    }

    /// Forgets what is over since long. What cannot be done now is done the next time.
    fn tidy(&mut self) {
        if Instant::now() < self.tidy_at {
            return;
        }
        if self.forget_some().unwrap_or(0) == 0 {
            self.tidy_at = Instant::now() + TIDY;
            // What it was not known by may be there by now.
            self.went_back |= schedules::is_lost(&self.schedules);
        }
    }

    fn forget_some(&mut self) -> Result<usize, StateError> {
        let keep = u64::try_from(self.own.keep.as_millis()).unwrap_or(u64::MAX);
        let Some(before) = self.now().checked_sub(keep) else {
            return Ok(0);
        };
        let writing = self.own.store.write()?;
        let old = writing.over_by(before)?;
        for Old { job, attempts } in &old {
            // Files first: of what is still written down they will be found again.
            for number in 1..=*attempts {
                let _ = std::fs::remove_dir_all(attempt_dir(&self.own.attempts, *job, number));
            }
            writing.forget(*job)?;
        }
        writing.commit()?;
        Ok(old.len())
    }

    fn kill_what_must(&mut self) {
        let now = Instant::now();
        let running = &self.running;
        self.to_kill.retain(|(when, job)| {
            let Some(process) = running.get(job) else {
                return false;
            };
            if *when <= now {
                process.signal(Signal::KILL);
            }
            *when > now
        });
    }
}

#[cfg(test)]
mod tests;
