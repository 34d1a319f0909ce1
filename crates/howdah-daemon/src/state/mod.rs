//! The truth: jobs, attempts and what happened, in `SQLite`.
//!
//! One thread writes, through a [`Store`]; others read through [`Reader`]s of their own, which never wait for it (WAL).

mod limits;
mod read;
mod schedules;
mod schema;
mod watches;

pub(crate) use limits::{AtWork, HostLimits, Set};
pub(crate) use read::{Happening, Reader, Wanted};
pub(crate) use schedules::Scheduled;
pub(crate) use watches::{Known, Watched};

use crate::job::{AttemptView, Ended, JobId, Spec, State};
use crate::queue::{Change, Entry};
use rusqlite::{Connection, OptionalExtension as _, Transaction, params};
use std::collections::BTreeMap;
use std::path::Path;

/// Why the truth cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// `SQLite` says so.
    #[error("the daemon's database: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// Somebody wrote what makes no sense here.
    #[error("the daemon's database: {0}")]
    Json(#[from] serde_json::Error),
    /// A later version of this program made it.
    #[error(
        "the daemon's database is of a newer version ({found}; this one knows {known}): use that howdah, or another directory"
    )]
    Newer {
        /// Of the file.
        found: i64,
        /// The last one known here.
        known: i64,
    },
}

/// What happened to a job, kept for each at most so many times.
const EVENTS_OF_A_JOB: i64 = 200;

/// An attempt that has no end yet.
#[derive(Clone, Debug)]
pub(crate) struct OpenAttempt {
    pub(crate) job: JobId,
    pub(crate) number: u32,
    pub(crate) cancelling: bool,
}

/// The one that writes.
#[derive(Debug)]
pub(crate) struct Store {
    db: Connection,
}

impl Store {
    /// Opens it, or makes it.
    pub(crate) fn open(path: &Path) -> Result<Self, StateError> {
        let mut db = Connection::open(path)?;
        db.pragma_update(None, "journal_mode", "WAL")?;
        // What is answered is on the disk.
        db.pragma_update(None, "synchronous", "FULL")?;
        db.pragma_update(None, "foreign_keys", "ON")?;
        schema::migrate(&mut db)?;
        // Of what is written again and again nothing is parsed twice.
        db.set_prepared_statement_cache_capacity(64);
        Ok(Self { db })
    }

    /// Makes trouble: `max_page_count` is a full disk, `query_only` one that became read-only.
    #[cfg(test)]
    pub(crate) fn pragma(&self, name: &str, value: u32) {
        self.db.pragma_update(None, name, value).expect("a pragma");
    }

    /// All that is written in it is there, or nothing of it.
    pub(crate) fn write(&mut self) -> Result<Writing<'_>, StateError> {
        Ok(Writing {
            tx: self.db.transaction()?,
        })
    }

    /// All jobs that are not over, as the queue knows them; whom they follow first.
    pub(crate) fn unfinished(&self) -> Result<Vec<Entry>, StateError> {
        let mut query = self.db.prepare(
            "SELECT id, spec, hosts, state, failures, false_starts, not_before_ms, cancelling FROM jobs
             WHERE state IN ('waiting', 'held', 'running') ORDER BY id",
        )?;
        let mut rows = query.query([])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let spec: Spec = serde_json::from_str(&row.get::<_, String>(1)?)?;
            let state: String = row.get(3)?;
            found.push(Entry {
                id: JobId(row.get(0)?),
                priority: spec.priority,
                hosts: serde_json::from_str(&row.get::<_, String>(2)?)?,
                after: spec.after.iter().copied().collect(),
                retries: spec.retries,
                failures: row.get(4)?,
                false_starts: row.get(5)?,
                not_before: row.get::<_, i64>(6)?.unsigned_abs(),
                cancelling: row.get(7)?,
                deadline: spec.deadline_ms,
                overdue: false,
                state: State::of_name(&state).unwrap_or(State::Held),
            });
        }
        Ok(found)
    }

    /// When something last happened, in milliseconds since 1970.
    pub(crate) fn last_time(&self) -> Result<Option<u64>, StateError> {
        let sql = "SELECT time_ms FROM events ORDER BY id DESC LIMIT 1";
        let time = self.db.query_row(sql, [], |row| row.get::<_, i64>(0));
        Ok(time.optional()?.map(i64::unsigned_abs))
    }

    /// How many jobs may run with a machine, where that is set.
    pub(crate) fn host_limits(&self) -> Result<BTreeMap<String, usize>, StateError> {
        let hosts = limits::hosts(&self.db)?.into_iter();
        Ok(hosts
            .filter_map(|(name, limits)| Some((name, usize::try_from(limits.running?).ok()?)))
            .collect())
    }

    /// Attempts that somebody must look for.
    pub(crate) fn open_attempts(&self) -> Result<Vec<OpenAttempt>, StateError> {
        let mut query = self.db.prepare(
            "SELECT job, number, cancelling FROM attempts JOIN jobs ON jobs.id = job
             WHERE attempts.ended IS NULL ORDER BY job, number",
        )?;
        let rows = query.query_map([], |row| {
            Ok(OpenAttempt {
                job: JobId(row.get(0)?),
                number: row.get(1)?,
                cancelling: row.get(2)?,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}

/// A job that is over since long, and how many attempts it had.
pub(crate) struct Old {
    pub(crate) job: JobId,
    pub(crate) attempts: u32,
}

/// The number of an attempt, what it is to do, and the limit of its job.
pub(crate) type Beginning = (u32, Spec, Option<String>);

/// Something being written.
pub(crate) struct Writing<'a> {
    tx: Transaction<'a>,
}

impl Writing<'_> {
    pub(crate) fn commit(self) -> Result<(), StateError> {
        Ok(self.tx.commit()?)
    }

    /// The job that was submitted by that name.
    pub(crate) fn submitted(&self, name: &str) -> Result<Option<(JobId, Spec)>, StateError> {
        let mut query = self
            .tx
            .prepare_cached("SELECT id, spec FROM jobs WHERE submission = ?1")?;
        let row = query.query_row([name], |row| {
            Ok((JobId(row.get(0)?), row.get::<_, String>(1)?))
        });
        row.optional()?
            .map(|(id, spec)| Ok((id, serde_json::from_str(&spec)?)))
            .transpose()
    }

    pub(crate) fn state_of(&self, id: JobId) -> Result<Option<State>, StateError> {
        let mut query = self
            .tx
            .prepare_cached("SELECT state FROM jobs WHERE id = ?1")?;
        let row = query.query_row([id.0], |row| row.get::<_, String>(0));
        Ok(row.optional()?.and_then(|name| State::of_name(&name)))
    }

    pub(crate) fn insert_job(
        &self,
        spec: &Spec,
        hosts: &[String],
        now: u64,
    ) -> Result<JobId, StateError> {
        let state = if spec.hold {
            State::Held
        } else {
            State::Waiting
        };
        self.tx.prepare_cached(
            "INSERT INTO jobs (spec, hosts, state, submission, submitted_ms) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?.execute(params![
            serde_json::to_string(spec)?,
            serde_json::to_string(hosts)?,
            state.name(),
            spec.submission,
            ms(now)
        ])?;
        let id = JobId(self.tx.last_insert_rowid());
        self.note(id, now, "submitted", None)?;
        Ok(id)
    }

    /// A change of the queue, with the counters that its entry has now.
    pub(crate) fn change(
        &self,
        change: &Change,
        entry: Option<&Entry>,
        now: u64,
    ) -> Result<(), StateError> {
        let ended = change.state.is_final().then(|| ms(now));
        self.tx
            .prepare_cached("UPDATE jobs SET state = ?2, reason = ?3, ended_ms = ?4 WHERE id = ?1")?
            .execute(params![
                change.id.0,
                change.state.name(),
                change.reason,
                ended
            ])?;
        if let Some(entry) = entry {
            self.tx.prepare_cached(
                "UPDATE jobs SET failures = ?2, false_starts = ?3, not_before_ms = ?4 WHERE id = ?1",
            )?.execute(params![change.id.0, entry.failures, entry.false_starts, ms(entry.not_before)])?;
        }
        self.note(
            change.id,
            now,
            change.state.name(),
            change.reason.as_deref(),
        )
    }

    /// Something to be said of a job while it runs; none: not any more.
    pub(crate) fn remark(&self, id: JobId, note: Option<&str>, now: u64) -> Result<(), StateError> {
        let changed = self.tx.execute(
            "UPDATE jobs SET reason = ?2 WHERE id = ?1 AND state = 'running'",
            params![id.0, note],
        )?;
        if changed == 1 {
            let what = if note.is_some() { "behind" } else { "on_time" };
            self.note(id, now, what, note)?;
        }
        Ok(())
    }

    pub(crate) fn cancelling(&self, id: JobId, now: u64) -> Result<(), StateError> {
        self.tx
            .execute("UPDATE jobs SET cancelling = 1 WHERE id = ?1", [id.0])?;
        self.note(id, now, "cancelling", None)
    }

    /// Before its process is started.
    pub(crate) fn begin_attempt(&self, id: JobId, now: u64) -> Result<Beginning, StateError> {
        self.tx
            .prepare_cached("UPDATE jobs SET state = 'running', reason = NULL WHERE id = ?1")?
            .execute([id.0])?;
        let mut query = self.tx.prepare_cached(
            "SELECT (SELECT COALESCE(MAX(number), 0) + 1 FROM attempts WHERE job = ?1), spec, rate_limit FROM jobs WHERE id = ?1",
        )?;
        let (number, spec, limit): (u32, String, Option<String>) =
            query.query_row([id.0], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        self.tx
            .prepare_cached("INSERT INTO attempts (job, number, started_ms) VALUES (?1, ?2, ?3)")?
            .execute(params![id.0, number, ms(now)])?;
        self.note(id, now, "running", None)?;
        Ok((number, serde_json::from_str(&spec)?, limit))
    }

    /// The process of the attempt that is under way.
    pub(crate) fn attempt_identity(
        &self,
        id: JobId,
        pid: u32,
        start: u64,
    ) -> Result<(), StateError> {
        self.tx.prepare_cached(
            "UPDATE attempts SET pid = ?2, start_ticks = ?3 WHERE job = ?1 AND ended IS NULL AND pid IS NULL",
        )?.execute(params![id.0, pid, ms(start)])?;
        Ok(())
    }

    /// Some jobs that were over by then.
    pub(crate) fn over_by(&self, time: u64) -> Result<Vec<Old>, StateError> {
        let mut query = self.tx.prepare_cached(
            "SELECT id, (SELECT COALESCE(MAX(number), 0) FROM attempts WHERE job = id) FROM jobs
             WHERE state IN ('done', 'failed', 'cancelled') AND ended_ms <= ?1 ORDER BY id LIMIT 100",
        )?;
        let rows = query.query_map([ms(time)], |row| {
            Ok(Old {
                job: JobId(row.get(0)?),
                attempts: row.get(1)?,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// As if it had never been; its number is not given again.
    pub(crate) fn forget(&self, id: JobId) -> Result<(), StateError> {
        self.tx
            .execute("DELETE FROM events WHERE job = ?1", [id.0])?;
        self.tx
            .execute("DELETE FROM attempts WHERE job = ?1", [id.0])?;
        self.tx.execute("DELETE FROM jobs WHERE id = ?1", [id.0])?;
        Ok(())
    }

    /// False if its end is known already.
    pub(crate) fn end_attempt(
        &self,
        id: JobId,
        number: u32,
        ended: &Ended,
        now: u64,
    ) -> Result<bool, StateError> {
        let changed = self.tx.prepare_cached(
            "UPDATE attempts SET ended = ?3, ended_ms = ?4 WHERE job = ?1 AND number = ?2 AND ended IS NULL",
        )?.execute(params![id.0, number, serde_json::to_string(ended)?, ms(now)])?;
        if let Ended::Code(code) = ended {
            self.tx.execute(
                "UPDATE jobs SET exit_code = ?2 WHERE id = ?1",
                params![id.0, code],
            )?;
        }
        Ok(changed == 1)
    }

    fn note(&self, id: JobId, now: u64, what: &str, why: Option<&str>) -> Result<(), StateError> {
        self.tx
            .prepare_cached("INSERT INTO events (job, time_ms, what, why) VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![id.0, ms(now), what, why])?;
        // Jobs that are tried again a thousand times, or held and released by a script.
        self.tx.prepare_cached(
            "DELETE FROM events WHERE job = ?1 AND id <= (SELECT id FROM events WHERE job = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)",
        )?.execute(params![id.0, EVENTS_OF_A_JOB])?;
        Ok(())
    }
}

/// `SQLite`'s integers have a sign.
fn ms(time: u64) -> i64 {
    i64::try_from(time).unwrap_or(i64::MAX)
}

fn attempt(row: &rusqlite::Row<'_>) -> Result<AttemptView, StateError> {
    let ended: Option<String> = row.get(4)?;
    Ok(AttemptView {
        number: row.get(0)?,
        pid: row.get(1)?,
        started_ms: row.get::<_, i64>(2)?.unsigned_abs(),
        ended_ms: row.get::<_, Option<i64>>(3)?.map(i64::unsigned_abs),
        ended: ended.map(|text| serde_json::from_str(&text)).transpose()?,
    })
}

#[cfg(test)]
mod tests;
