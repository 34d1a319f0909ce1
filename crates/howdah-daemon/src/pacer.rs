//! Keeps running jobs to their shares: asks each, some times a minute, how it stands, and tells it what it may take.

use crate::job::{JobId, JobPace, Kind};
use crate::order::{Message, Order};
use crate::outside::{Outside, Standing};
use crate::pace::{self, Flow, LEAST, Plan, UNLIMITED};
use crate::process::record::Identity;
use crate::state::{AtWork, Reader, Set, StateError};
use crate::time::Clock;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// While something is limited.
const TICK: Duration = Duration::from_secs(1);
/// While nothing is: timetables may begin.
const IDLE: Duration = Duration::from_secs(30);
/// While somebody who has just begun cannot be asked yet.
const SOON: Duration = Duration::from_millis(100);
/// A job shows what it can take within that time.
const SETTLED: Duration = Duration::from_secs(5);
/// How long somebody is left alone who did not answer.
const LEFT_ALONE: Duration = Duration::from_mins(1);

/// What is shared between who limits and who is asked.
pub(crate) struct Pace {
    outside: Arc<dyn Outside>,
    /// What the daemon was started with.
    limit: Option<String>,
    inner: Mutex<Inner>,
    poked: Condvar,
}

#[derive(Debug, Default)]
struct Inner {
    poked: bool,
    stop: bool,
    jobs: BTreeMap<(JobId, u32), Known>,
    pools: Pools,
}

/// What is shared, as far as it is limited: of everything, and with machines.
#[derive(Clone, Debug, Default)]
struct Pools {
    total: Option<u64>,
    hosts: BTreeMap<String, u64>,
}

/// What is known of a running attempt.
#[derive(Clone, Debug)]
struct Known {
    hosts: Vec<String>,
    /// None: nobody of us has told it anything.
    share: Option<u64>,
    since: Instant,
    alone_until: Option<Instant>,
    standing: Option<Standing>,
    plan: Option<Plan>,
}

impl Known {
    fn new(hosts: &[String], share: Option<u64>) -> Self {
        Self {
            hosts: hosts.to_vec(),
            share,
            since: Instant::now(),
            alone_until: None,
            standing: None,
            plan: None,
        }
    }

    /// Whether there is something to learn of it soon: how it stands, and what its time takes.
    fn is_unsure(&self, found: &AtWork) -> bool {
        let is_planned = self.plan.as_ref().is_some_and(|plan| !plan.is_guess);
        self.standing.is_none() || found.by_ms.is_some() && !is_planned
    }
}

impl Pace {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For limits of that daemon.
    pub(crate) fn new(outside: Arc<dyn Outside>, limit: Option<String>) -> Self {
        Self {
            outside,
            limit,
            inner: Mutex::default(),
            poked: Condvar::new(),
        }
    }

    /// Something has changed that must be seen now.
    pub(crate) fn poke(&self) {
        self.lock().poked = true;
        self.poked.notify_all();
    }

    /// That is set from now on: whatever begins keeps to it, and what runs will at once.
    pub(crate) fn set(&self, set: &Set) {
        self.lock().pools = self.pools(set);
        self.poke();
    }

    fn pools(&self, set: &Set) -> Pools {
        let limited = |text: &String| Some(self.allowed(text)).filter(|pool| *pool != UNLIMITED);
        let hosts = set.hosts.iter();
        Pools {
            total: set.total.as_ref().or(self.limit.as_ref()).and_then(limited),
            hosts: hosts
                .filter_map(|(name, of)| Some((name.clone(), limited(of.rate.as_ref()?)?)))
                .collect(),
        }
    }

    /// Words that made sense when they were set; if they do not any more, nothing is allowed by mistake.
    fn allowed(&self, text: &str) -> u64 {
        match self.outside.allowed(text) {
            Ok(allowed) => allowed.unwrap_or(UNLIMITED),
            Err(_) => LEAST,
        }
    }

    pub(crate) fn stop(&self) {
        self.lock().stop = true;
        self.poked.notify_all();
    }

    /// What an attempt that begins may take until it is looked at: what the others leave, and no more than its time takes. None: as much as it can.
    pub(crate) fn begin(
        &self,
        job: JobId,
        number: u32,
        hosts: &[String],
        own: Option<&str>,
        plan: Option<Plan>,
    ) -> Option<u64> {
        let needed = plan.as_ref().and_then(|plan| plan.needed);
        let own = own.map(|limit| self.allowed(limit));
        let mut inner = self.lock();
        let shares = |host: Option<&String>| -> u64 {
            inner
                .jobs
                .values()
                .filter(|known| host.is_none_or(|host| known.hosts.contains(host)))
                .map(|known| known.share.unwrap_or(0))
                .fold(0, u64::saturating_add)
        };
        let total = inner.pools.total.map(|pool| (pool, shares(None)));
        let of_hosts = hosts.iter().filter_map(|host| {
            let pool = inner.pools.hosts.get(host)?;
            Some((*pool, shares(Some(host))))
        });
        let left = |(pool, taken): (u64, u64)| match pool {
            0 => 0,
            _ => pool.saturating_sub(taken).max(LEAST),
        };
        let pools = total.into_iter().chain(of_hosts).map(left);
        let share = pools.chain(own).chain(needed).min();
        let share = share.filter(|share| *share != UNLIMITED);
        let known = Known {
            plan,
            ..Known::new(hosts, Some(share.unwrap_or(UNLIMITED)))
        };
        inner.jobs.insert((job, number), known);
        share
    }

    /// An attempt is over: what it had is for the others, and for who begins next.
    pub(crate) fn end(&self, job: JobId, number: u32) {
        let mut inner = self.lock();
        if inner.jobs.remove(&(job, number)).is_some() {
            inner.poked = true;
            self.poked.notify_all();
        }
    }

    /// How a job stands.
    pub(crate) fn of(&self, job: JobId) -> Option<JobPace> {
        let inner = self.lock();
        let of_job = (job, 0)..=(job, u32::MAX);
        inner.jobs.range(of_job).next_back().map(|(_, k)| view(k))
    }

    /// How all stand.
    pub(crate) fn all(&self) -> BTreeMap<JobId, JobPace> {
        let inner = self.lock();
        let jobs = inner.jobs.iter();
        jobs.map(|((job, _), known)| (*job, view(known))).collect()
    }
}

fn view(known: &Known) -> JobPace {
    let standing = known.standing.unwrap_or_default();
    JobPace {
        share_bps: known.share.filter(|share| *share != UNLIMITED),
        needed_bps: known.plan.as_ref().and_then(|plan| plan.needed),
        meets: known.plan.as_ref().map(|plan| plan.meets),
        bytes: standing.bytes,
        total_bytes: standing.total_bytes,
        goodput_bps: standing.goodput_bps,
        wire_bps: standing.wire_bps,
    }
}

/// The one who limits.
pub(crate) struct Pacer {
    pub(crate) pace: Arc<Pace>,
    pub(crate) database: PathBuf,
    pub(crate) manager: SyncSender<Message>,
    pub(crate) clock: Clock,
}

impl Pacer {
    /// Until it is stopped.
    pub(crate) fn run(self) {
        let mut reader = None;
        loop {
            let patience = self.look(&mut reader).unwrap_or_else(|_| {
                // It is opened anew the next time.
                reader = None;
                TICK
            });
            let inner = self.pace.lock();
            let waited = self
                .pace
                .poked
                .wait_timeout_while(inner, patience, |inner| !inner.poked && !inner.stop);
            let (mut inner, _) = waited.unwrap_or_else(PoisonError::into_inner);
            if inner.stop {
                return;
            }
            inner.poked = false;
        }
    }

    /// Until when there is nothing to do, if nothing changes.
    fn look(&self, reader: &mut Option<Reader>) -> Result<Duration, StateError> {
        let reader = match reader {
            Some(reader) => reader,
            None => reader.insert(Reader::open(&self.database)?),
        };
        let set = reader.limits()?;
        let at_work: Vec<_> = reader
            .at_work()?
            .into_iter()
            .filter(|found| matches!(found.kind, Kind::Cp | Kind::Sync))
            .collect();
        let pools = self.pace.pools(&set);
        let mut jobs = self.take(&at_work, &pools);
        let limited = |found: &AtWork| {
            found.limit.is_some()
                || found.by_ms.is_some()
                || found
                    .hosts
                    .iter()
                    .any(|host| pools.hosts.contains_key(host))
        };
        let active = pools.total.is_some() || at_work.iter().any(limited);
        let stale = |known: &Known| known.share != Some(UNLIMITED);
        if active || jobs.values().any(stale) {
            self.share(&at_work, &mut jobs, &pools);
        }
        let done = jobs.values().all(|known| known.share == Some(UNLIMITED));
        let is_new = |found: &AtWork| {
            let known = jobs.get(&(found.job, found.number));
            known.is_some_and(|known| known.since.elapsed() < SETTLED && known.is_unsure(found))
        };
        let soon = active && at_work.iter().any(is_new);
        let mut inner = self.pace.lock();
        for (id, known) in jobs {
            // It may have ended meanwhile.
            if let Some(own) = inner.jobs.get_mut(&id) {
                *own = known;
            }
        }
        Ok(match (at_work.is_empty(), soon) {
            (false, true) => SOON,
            (false, false) if active || !done => TICK,
            _ => IDLE,
        })
    }

    /// What is known of those that are at work. Others are forgotten, but for those that have just begun.
    fn take(&self, at_work: &[AtWork], pools: &Pools) -> BTreeMap<(JobId, u32), Known> {
        let mut inner = self.pace.lock();
        // A timetable goes on.
        inner.pools = pools.clone();
        inner.jobs.retain(|(job, number), known| {
            known.since.elapsed() < SETTLED
                || at_work
                    .iter()
                    .any(|found| (found.job, found.number) == (*job, *number))
        });
        at_work
            .iter()
            .map(|found| {
                let id = (found.job, found.number);
                let known = inner.jobs.entry(id);
                let known = known.or_insert_with(|| Known::new(&found.hosts, None));
                (id, known.clone())
            })
            .collect()
    }

    fn share(&self, at_work: &[AtWork], jobs: &mut BTreeMap<(JobId, u32), Known>, limits: &Pools) {
        let mut pools = Vec::from_iter(limits.total);
        let of_all = pools.len();
        let names: BTreeMap<_, _> = limits.hosts.keys().zip(of_all..).collect();
        pools.extend(limits.hosts.values());
        let now = (self.clock)();
        let mut flows = Vec::new();
        for found in at_work {
            let Some(known) = jobs.get_mut(&(found.job, found.number)) else {
                continue;
            };
            let own = found
                .limit
                .as_ref()
                .map_or(UNLIMITED, |l| self.pace.allowed(l));
            let of_hosts = found.hosts.iter().filter_map(|host| names.get(host));
            let under: Vec<usize> = (0..of_all).chain(of_hosts.copied()).collect();
            let most = under.iter().map(|pool| pools[*pool]).fold(own, u64::min);
            let mut flow = Flow {
                most: own,
                first: 0,
                pools: under,
            };
            if let Some(by_ms) = found.by_ms {
                self.plan(found, known, by_ms, most, now);
                if let Some(needed) = known.plan.as_ref().and_then(|plan| plan.needed) {
                    flow.most = flow.most.min(needed);
                    flow.first = needed;
                }
            }
            if let (Some(share), Some(standing)) = (known.share, known.standing)
                && known.since.elapsed() >= SETTLED
                && !flow.pools.is_empty()
            {
                flow.most = flow
                    .most
                    .min(pace::can_take(share, standing.wire_bps).max(flow.first));
            }
            flows.push(flow);
        }
        let shares = pace::divide(&pools, &flows);
        let mut turns: Vec<_> = at_work.iter().zip(shares).collect();
        // Who gets less first: the sum is kept at any time.
        let before = |found: &AtWork| {
            let known = jobs.get(&(found.job, found.number));
            known.and_then(|known| known.share).unwrap_or(UNLIMITED)
        };
        turns.sort_by_key(|(found, share)| (*share > before(found), found.job));
        for (found, share) in turns {
            if let Some(known) = jobs.get_mut(&(found.job, found.number)) {
                self.tell(found, known, share);
            }
        }
    }

    fn tell(&self, found: &AtWork, known: &mut Known, share: u64) {
        let now = Instant::now();
        if known.alone_until.is_some_and(|until| now < until) {
            return;
        }
        // Another process may have its number by now.
        let same = Identity::of(found.pid).is_ok_and(|is| is.start_ticks == found.start_ticks);
        if !same {
            return;
        }
        let limit = (share != UNLIMITED).then_some(share);
        match self.pace.outside.share(found.pid, limit) {
            Ok(standing) => {
                known.standing = Some(standing);
                if known.share != Some(share) {
                    known.share = Some(share);
                    known.since = Instant::now();
                }
            }
            // It has only begun, or is about to end; one that hangs is not waited for again and again.
            Err(_) if now.elapsed() > TICK => known.alone_until = Some(now + LEFT_ALONE),
            Err(_) => {}
        }
    }

    fn plan(&self, found: &AtWork, known: &mut Known, by_ms: u64, most: u64, now: u64) {
        let Some(standing) = known.standing else {
            return;
        };
        let at = pace::Standing {
            now_ms: now,
            by_ms,
            bytes: standing.bytes,
            total: standing.total_bytes,
            allowed: most,
        };
        let before = known.plan.take();
        known.plan = pace::plan(before.as_ref(), at);
        let met = |plan: &Option<Plan>| plan.as_ref().is_none_or(|plan| plan.meets);
        if met(&before) == met(&known.plan) {
            return;
        }
        let note = if met(&known.plan) {
            None
        } else {
            let needed = known.plan.as_ref().and_then(|plan| plan.needed);
            Some(match needed {
                Some(needed) => format!(
                    "cannot be done by its time: it needs {} Mbit/s, and gets {}",
                    mbit(needed),
                    mbit(standing.wire_bps)
                ),
                None => "was not done by its time, and goes on".to_owned(),
            })
        };
        let (reply, _) = oneshot::channel();
        let order = Order::Note {
            job: found.job,
            note,
        };
        // It is said in the answers of the API anyhow.
        let _ = self.manager.try_send(Message::Asked(order, reply));
    }
}

fn mbit(bps: u64) -> String {
    format!("{:.1}", bps as f64 / 1e6)
}

#[cfg(test)]
mod tests;
