//! What others may see of it, at any time.

use super::{StateError, attempt};
use crate::job::{Happened, JobId, JobView, State};
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, Row, params};
use std::path::Path;

const COLUMNS: &str = "id, spec, hosts, state, reason, exit_code, not_before_ms, cancelling, submitted_ms, ended_ms, rate_limit";

/// Reads only.
#[derive(Debug)]
pub(crate) struct Reader {
    pub(super) db: Connection,
}

impl Reader {
    pub(crate) fn open(path: &Path) -> Result<Self, StateError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        Ok(Self {
            db: Connection::open_with_flags(path, flags)?,
        })
    }

    /// One job with its attempts.
    pub(crate) fn job(&self, id: JobId) -> Result<Option<JobView>, StateError> {
        let sql = format!("SELECT {COLUMNS} FROM jobs WHERE id = ?1");
        let found = self
            .db
            .prepare_cached(&sql)?
            .query_row([id.0], |row| Ok(view(row)))
            .optional()?;
        let Some(mut job) = found.transpose()? else {
            return Ok(None);
        };
        let mut query = self.db.prepare_cached(
            "SELECT number, pid, started_ms, ended_ms, ended FROM attempts WHERE job = ?1 ORDER BY number",
        )?;
        let mut rows = query.query([id.0])?;
        while let Some(row) = rows.next()? {
            job.attempts.push(attempt(row)?);
        }
        let mut query = self
            .db
            .prepare_cached("SELECT time_ms, what, why FROM events WHERE job = ?1 ORDER BY id")?;
        let rows = query.query_map([id.0], |row| {
            Ok(Happened {
                time_ms: row.get::<_, i64>(0)?.unsigned_abs(),
                what: row.get(1)?,
                why: row.get(2)?,
            })
        })?;
        job.history = rows.collect::<Result<_, _>>()?;
        Ok(Some(job))
    }

    /// A page of them, the newest first.
    pub(crate) fn jobs(
        &self,
        state: Option<State>,
        before: Option<JobId>,
        limit: u32,
    ) -> Result<Vec<JobView>, StateError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM jobs WHERE id < ?1 AND {} ORDER BY id DESC LIMIT ?3",
            if state.is_some() {
                "state = ?2"
            } else {
                "?2 IS NULL"
            }
        );
        let mut query = self.db.prepare_cached(&sql)?;
        let before = before.map_or(i64::MAX, |id| id.0);
        let mut rows = query.query(params![before, state.map(State::name), limit])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(view(row)?);
        }
        Ok(found)
    }
}

fn view(row: &Row<'_>) -> Result<JobView, StateError> {
    let state: String = row.get(3)?;
    let state = State::of_name(&state).unwrap_or(State::Held);
    let not_before = row.get::<_, i64>(6)?.unsigned_abs();
    Ok(JobView {
        id: JobId(row.get(0)?),
        spec: serde_json::from_str(&row.get::<_, String>(1)?)?,
        hosts: serde_json::from_str(&row.get::<_, String>(2)?)?,
        state,
        reason: row.get(4)?,
        exit_code: row.get(5)?,
        not_before_ms: (state == State::Waiting && not_before > 0).then_some(not_before),
        cancelling: row.get(7)?,
        submitted_ms: row.get::<_, i64>(8)?.unsigned_abs(),
        ended_ms: row.get::<_, Option<i64>>(9)?.map(i64::unsigned_abs),
        attempts: Vec::new(),
        history: Vec::new(),
        limit: row.get(10)?,
        pace: None,
        last: None,
    })
}
