//! What is to start next, and what the end of an attempt means. It has no clock and touches nothing: whoever drives it
//! writes down each [`Change`] before acting on it.

use crate::job::{Ended, JobId, State};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// What may run at a time.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// In all.
    pub running: usize,
    /// With one machine.
    pub per_host: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            running: 4,
            per_host: 2,
        }
    }
}

/// A job that is not over.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Which one.
    pub id: JobId,
    /// Higher ones go first.
    pub priority: i32,
    /// Machines that it speaks with, each once.
    pub hosts: Vec<String>,
    /// Jobs that it waits for and that are not done.
    pub after: BTreeSet<JobId>,
    /// How often it may be tried again.
    pub retries: u32,
    /// Attempts that failed in a way that may pass.
    pub failures: u32,
    /// Attempts in a row that never began.
    pub false_starts: u32,
    /// Not before that time, in milliseconds.
    pub not_before: u64,
    /// Somebody does not want it any more, but its process has not ended yet.
    pub cancelling: bool,
    /// If it is not done by then, it has failed. In milliseconds.
    pub deadline: Option<u64>,
    /// That has passed, but its process has not ended yet.
    pub overdue: bool,
    /// One of those that are not final.
    pub state: State,
}

/// What becomes of a job.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Change {
    /// Which one.
    pub id: JobId,
    /// Its state from now on.
    pub state: State,
    /// Why, if there is something to say.
    pub reason: Option<String>,
}

/// Why something cannot be done with a job.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Refused {
    /// It is over, or was never there.
    #[error("the job is over")]
    Over,
    /// A process works on it.
    #[error("the job is running; it can be cancelled")]
    Running,
}

const LATE: &str = "it was not done by its deadline";

/// Attempts in a row that may fail to begin before the job is given up.
const FALSE_STARTS: u32 = 5;

/// The longest time between two attempts.
const LONGEST: u64 = 3_600_000;

/// How long until the next attempt, if another one may help.
pub fn distance(ended: &Ended, failures: u32) -> Option<u64> {
    const SECOND: u64 = 1_000;
    let first = match ended {
        // The network; a source that changes.
        Ended::Code(5) => 10 * SECOND,
        Ended::Code(13) => 60 * SECOND,
        // Stopped or killed by somebody else, as when the machine goes down.
        Ended::Code(12) | Ended::Signal(_) | Ended::Vanished => 5 * SECOND,
        _ => return None,
    };
    Some(first.saturating_mul(1 << failures.min(20)).min(LONGEST))
}

/// All jobs that are not over.
#[derive(Debug)]
pub struct Queue {
    limits: Limits,
    /// Machines with limits of their own.
    of_host: BTreeMap<String, usize>,
    jobs: BTreeMap<JobId, Entry>,
    /// Those whose turn it may be: the highest priority first, then the oldest.
    ready: BTreeSet<(Reverse<i32>, JobId)>,
    /// Those that wait for a time.
    later: BTreeSet<(u64, JobId)>,
    /// Those that are to be done by a time.
    deadlines: BTreeSet<(u64, JobId)>,
    running: usize,
    with_host: HashMap<String, usize>,
    followers: HashMap<JobId, BTreeSet<JobId>>,
}

impl Queue {
    /// Nothing yet.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            of_host: BTreeMap::new(),
            jobs: BTreeMap::new(),
            ready: BTreeSet::new(),
            later: BTreeSet::new(),
            deadlines: BTreeSet::new(),
            running: 0,
            with_host: HashMap::new(),
            followers: HashMap::new(),
        }
    }

    /// A job that is not over.
    pub fn get(&self, id: JobId) -> Option<&Entry> {
        self.jobs.get(&id)
    }

    /// How many run.
    pub fn running(&self) -> usize {
        self.running
    }

    /// So many run with that machine from now on; none: as with all.
    pub fn limit_host(&mut self, host: &str, most: Option<usize>) {
        match most {
            Some(most) => self.of_host.insert(host.to_owned(), most),
            None => self.of_host.remove(host),
        };
    }

    /// Takes a job in. What it waits for must be in here.
    pub fn insert(&mut self, mut entry: Entry) {
        let id = entry.id;
        entry.after.retain(|other| self.jobs.contains_key(other));
        for other in &entry.after {
            self.followers.entry(*other).or_default().insert(id);
        }
        if entry.state == State::Running {
            self.count(&entry.hosts, true);
        }
        self.deadlines.extend(entry.deadline.map(|when| (when, id)));
        self.jobs.insert(id, entry);
        self.place(id);
    }

    /// The next one to start, which counts as running from now on.
    pub fn start(&mut self, now: u64) -> Option<JobId> {
        // What is further away than any distance was meant for now by a clock that has been set back since.
        let far = now.saturating_add(LONGEST).saturating_add(1);
        let due = self.later.range(..=(now, JobId(i64::MAX)));
        let due: Vec<_> = due
            .chain(self.later.range((far, JobId(i64::MIN))..))
            .copied()
            .collect();
        for (when, id) in due {
            self.later.remove(&(when, id));
            if let Some(entry) = self.jobs.get(&id) {
                self.ready.insert((Reverse(entry.priority), id));
            }
        }
        if self.running >= self.limits.running {
            return None;
        }
        let fits = |id: &JobId| {
            let entry = self.jobs.get(id)?;
            let free = |host: &String| {
                let most = self.of_host.get(host).unwrap_or(&self.limits.per_host);
                self.with_host.get(host).is_none_or(|n| n < most)
            };
            entry.hosts.iter().all(free).then(|| entry.clone())
        };
        let entry = self.ready.iter().find_map(|(_, id)| fits(id))?;
        self.unplace(entry.id);
        self.count(&entry.hosts, true);
        if let Some(own) = self.jobs.get_mut(&entry.id) {
            own.state = State::Running;
        }
        Some(entry.id)
    }

    /// When somebody should ask again, if nothing else happens.
    pub fn wake(&self) -> Option<u64> {
        let first = |set: &BTreeSet<(u64, JobId)>| set.first().map(|(when, _)| *when);
        [first(&self.later), first(&self.deadlines)]
            .into_iter()
            .flatten()
            .min()
    }

    /// Whether a deadline has passed.
    pub fn is_late(&self, now: u64) -> bool {
        self.deadlines.first().is_some_and(|(when, _)| *when <= now)
    }

    /// Ends what has missed its deadline. The processes of those that it names second are to end.
    pub fn expire(&mut self, now: u64) -> (Vec<Change>, Vec<JobId>) {
        let (mut changes, mut running) = (Vec::new(), Vec::new());
        while let Some((_, id)) = self
            .deadlines
            .first()
            .copied()
            .filter(|(when, _)| *when <= now)
        {
            self.deadlines.pop_first();
            match self.jobs.get_mut(&id) {
                Some(entry) if entry.state == State::Running => {
                    entry.overdue = true;
                    running.push(id);
                }
                Some(_) => {
                    let reason = Some(LATE.to_owned());
                    changes.extend(self.finish(Change {
                        id,
                        state: State::Failed,
                        reason,
                    }));
                }
                None => {}
            }
        }
        (changes, running)
    }

    /// The process of a running job is gone.
    pub fn ended(&mut self, id: JobId, ended: &Ended, now: u64) -> Vec<Change> {
        let Some(entry) = self
            .jobs
            .get_mut(&id)
            .filter(|entry| entry.state == State::Running)
        else {
            return Vec::new();
        };
        let hosts = entry.hosts.clone();
        entry.false_starts = match ended {
            Ended::NeverBegan => entry.false_starts + 1,
            _ => 0,
        };
        let over = match ended {
            Ended::Code(0) => Some((State::Done, None)),
            _ if entry.cancelling => Some((State::Cancelled, None)),
            _ if entry.overdue => Some((State::Failed, Some(LATE.to_owned()))),
            Ended::NeverBegan if entry.false_starts < FALSE_STARTS => {
                entry.not_before = now;
                None
            }
            _ => match distance(ended, entry.failures) {
                Some(wait) if entry.failures < entry.retries => {
                    entry.failures += 1;
                    entry.not_before = now.saturating_add(wait);
                    None
                }
                _ => Some((State::Failed, Some(ended.to_string()))),
            },
        };
        self.count(&hosts, false);
        if let Some((state, reason)) = over {
            return self.finish(Change { id, state, reason });
        }
        if let Some(entry) = self.jobs.get_mut(&id) {
            entry.state = State::Waiting;
        }
        self.place(id);
        let reason = Some(format!("the last attempt {ended}"));
        vec![Change {
            id,
            state: State::Waiting,
            reason,
        }]
    }

    /// Nobody wants it any more. One that runs goes on until its process has ended.
    pub fn cancel(&mut self, id: JobId) -> Result<Vec<Change>, Refused> {
        let entry = self.jobs.get_mut(&id).ok_or(Refused::Over)?;
        if entry.state == State::Running {
            entry.cancelling = true;
            return Ok(Vec::new());
        }
        Ok(self.finish(Change {
            id,
            state: State::Cancelled,
            reason: None,
        }))
    }

    /// It does not start before it is released.
    pub fn hold(&mut self, id: JobId) -> Result<Vec<Change>, Refused> {
        self.hold_or_release(id, State::Held)
    }

    /// It may start again, now if it waits for the time of another attempt.
    pub fn release(&mut self, id: JobId) -> Result<Vec<Change>, Refused> {
        self.hold_or_release(id, State::Waiting)
    }

    fn hold_or_release(&mut self, id: JobId, state: State) -> Result<Vec<Change>, Refused> {
        let entry = self.jobs.get(&id).ok_or(Refused::Over)?;
        if entry.state == State::Running {
            return Err(Refused::Running);
        }
        // By the time that it was placed with.
        self.unplace(id);
        if let Some(entry) = self.jobs.get_mut(&id) {
            entry.state = state;
            if state == State::Waiting {
                entry.not_before = 0;
            }
        }
        self.place(id);
        Ok(vec![Change {
            id,
            state,
            reason: None,
        }])
    }

    /// It is over, and so are those that can never begin without it.
    fn finish(&mut self, change: Change) -> Vec<Change> {
        let mut changes = vec![change];
        let mut at = 0;
        while let Some(Change { id, state, .. }) = changes.get(at).cloned() {
            at += 1;
            self.unplace(id);
            if let Some(entry) = self.jobs.remove(&id) {
                if let Some(when) = entry.deadline {
                    self.deadlines.remove(&(when, id));
                }
                for other in &entry.after {
                    if let Some(followers) = self.followers.get_mut(other) {
                        followers.remove(&id);
                    }
                }
            }
            for follower in self.followers.remove(&id).unwrap_or_default() {
                let Some(entry) = self.jobs.get_mut(&follower) else {
                    continue;
                };
                entry.after.remove(&id);
                if state == State::Done {
                    self.place(follower);
                } else if !changes.iter().any(|change| change.id == follower) {
                    let reason = Some(format!("job {id}, which it was to follow, is {state}"));
                    changes.push(Change {
                        id: follower,
                        state: State::Failed,
                        reason,
                    });
                }
            }
        }
        changes
    }

    /// Where it belongs, by what it waits for.
    fn place(&mut self, id: JobId) {
        let Some(entry) = self.jobs.get(&id) else {
            return;
        };
        if entry.state == State::Waiting && entry.after.is_empty() {
            self.later.insert((entry.not_before, id));
        }
    }

    fn unplace(&mut self, id: JobId) {
        if let Some(entry) = self.jobs.get(&id) {
            self.ready.remove(&(Reverse(entry.priority), id));
            self.later.remove(&(entry.not_before, id));
        }
    }

    fn count(&mut self, hosts: &[String], begins: bool) {
        let step = |n: usize| if begins { n + 1 } else { n.saturating_sub(1) };
        self.running = step(self.running);
        for host in hosts {
            let n = self.with_host.entry(host.clone()).or_default();
            *n = step(*n);
            if *n == 0 {
                self.with_host.remove(host);
            }
        }
    }
}

#[cfg(test)]
mod tests;
