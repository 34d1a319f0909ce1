//! What others may see of it, at any time.

use super::{StateError, attempt};
use crate::job::{Happened, JobId, JobView, Spec, State};
use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, Row, Transaction, params_from_iter};
use std::fmt::Write as _;
use std::path::Path;

/// Bytes of descriptions that are read together, and no more than one beyond: a job may have 256 KiB of arguments.
const LARGE: usize = 1 << 20;

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

    /// What is read until that is dropped is of one moment.
    pub(crate) fn snapshot(&self) -> Result<Transaction<'_>, StateError> {
        Ok(self.db.unchecked_transaction()?)
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

    /// A page of those that are wanted, the newest first.
    #[cfg(test)]
    pub(crate) fn jobs(
        &self,
        wanted: &Wanted,
        before: Option<JobId>,
        limit: u32,
    ) -> Result<Vec<JobView>, StateError> {
        Ok(self.page(wanted, before, limit)?.0)
    }

    /// The same, and whether there may be more: such a page has so many, or is as large as it may be.
    pub(crate) fn page(
        &self,
        wanted: &Wanted,
        before: Option<JobId>,
        limit: u32,
    ) -> Result<(Vec<JobView>, bool), StateError> {
        let mut values = vec![Value::from(before.map_or(i64::MAX, |id| id.0))];
        let mut sql = format!("SELECT {COLUMNS} FROM jobs WHERE id < ?1");
        if !wanted.states.is_empty() {
            let names: Vec<_> = wanted.states.iter().map(|state| state.name()).collect();
            let _ = write!(sql, " AND state IN ('{}')", names.join("', '"));
        }
        let mut also = |condition: &str, value: &str| {
            values.push(Value::from(value.to_owned()));
            let _ = write!(
                sql,
                " AND {}",
                condition.replace("{}", &format!("?{}", values.len()))
            );
        };
        if let Some(label) = &wanted.label {
            also(OF_LABEL, label);
        }
        if let Some(host) = &wanted.host {
            also(OF_HOST, &host.to_ascii_lowercase());
        }
        for word in wanted.text.split_whitespace() {
            also(OF_TEXT, &word.to_ascii_lowercase());
        }
        let _ = write!(sql, " ORDER BY id DESC LIMIT {limit}");
        let mut query = self.db.prepare_cached(&sql)?;
        let mut rows = query.query(params_from_iter(values))?;
        let (mut found, mut bytes) = (Vec::new(), 0);
        while let Some(row) = rows.next()? {
            bytes += row.get_ref(1)?.as_bytes().map_or(0, <[u8]>::len);
            found.push(view(row)?);
            if bytes > LARGE {
                return Ok((found, true));
            }
        }
        let is_full = found.len() == usize::try_from(limit).unwrap_or(usize::MAX);
        Ok((found, is_full))
    }

    /// How many jobs are in each state, but for those that none is in.
    pub(crate) fn count(&self) -> Result<Vec<(State, u64)>, StateError> {
        let mut query = self
            .db
            .prepare_cached("SELECT state, COUNT(*) FROM jobs GROUP BY state")?;
        let rows = query.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get(1)?)))?;
        let rows = rows.collect::<Result<Vec<(String, i64)>, _>>()?;
        let known =
            |(name, count): (String, i64)| Some((State::of_name(&name)?, count.unsigned_abs()));
        Ok(rows.into_iter().filter_map(known).collect())
    }

    /// Jobs to which something happened after that event, each once, in the order of the last that did, whose number is beside it.
    pub(crate) fn happened_after(&self, event: i64) -> Result<Vec<(JobId, i64)>, StateError> {
        let mut query = self.db.prepare_cached(
            "SELECT job, MAX(id) FROM events WHERE id > ?1 GROUP BY job ORDER BY 2",
        )?;
        let rows = query.query_map([event], |row| Ok((JobId(row.get(0)?), row.get(1)?)))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// What became of jobs after that event, of what has one of these names, in its order, some of it.
    pub(crate) fn happenings_after(
        &self,
        event: i64,
        names: &[&'static str],
    ) -> Result<Vec<Happening>, StateError> {
        let sql = format!(
            "SELECT events.id, jobs.id, spec, what, why, exit_code, time_ms FROM events JOIN jobs ON jobs.id = job
             WHERE events.id > ?1 AND what IN ('{}') ORDER BY events.id LIMIT 256",
            names.join("', '")
        );
        let mut query = self.db.prepare_cached(&sql)?;
        let mut rows = query.query([event])?;
        let (mut found, mut bytes) = (Vec::new(), 0);
        while let Some(row) = rows.next()? {
            bytes += row.get_ref(2)?.as_bytes().map_or(0, <[u8]>::len);
            found.push(Happening {
                event: row.get(0)?,
                job: JobId(row.get(1)?),
                spec: serde_json::from_str(&row.get::<_, String>(2)?)?,
                what: row.get(3)?,
                why: row.get(4)?,
                exit_code: row.get(5)?,
                time_ms: row.get::<_, i64>(6)?.unsigned_abs(),
            });
            if bytes > LARGE {
                break;
            }
        }
        Ok(found)
    }

    /// The number of the last thing that happened; 0 before anything did.
    pub(crate) fn last_happened(&self) -> Result<i64, StateError> {
        let mut query = self
            .db
            .prepare_cached("SELECT COALESCE(MAX(id), 0) FROM events")?;
        Ok(query.query_row([], |row| row.get(0))?)
    }
}

/// Something that happened to a job.
#[derive(Debug)]
pub(crate) struct Happening {
    /// Later ones have a greater number.
    pub(crate) event: i64,
    pub(crate) job: JobId,
    pub(crate) spec: Spec,
    /// As in the history.
    pub(crate) what: String,
    pub(crate) why: Option<String>,
    pub(crate) exit_code: Option<u8>,
    pub(crate) time_ms: u64,
}

/// What jobs are looked for: nothing is said, all of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) states: Vec<State>,
    pub(crate) label: Option<String>,
    pub(crate) host: Option<String>,
    /// Words, each of which is somewhere in what was asked for, or in the reason.
    pub(crate) text: String,
}

const OF_LABEL: &str = "EXISTS (SELECT 1 FROM json_each(spec, '$.labels') WHERE value = {})";
const OF_HOST: &str = "EXISTS (SELECT 1 FROM json_each(hosts) WHERE value = {})";
/// Of ASCII, capitals do not matter.
const OF_TEXT: &str = "instr(lower(id || ' ' || json_extract(spec, '$.kind') || ' ' || json_extract(spec, '$.directory')
    || ' ' || COALESCE((SELECT group_concat(value, ' ') FROM json_each(spec, '$.arguments')), '')
    || ' ' || COALESCE((SELECT group_concat(value, ' ') FROM json_each(spec, '$.labels')), '')
    || ' ' || COALESCE(reason, '')), {}) > 0";

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
