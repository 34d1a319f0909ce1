//! Limits that people have set, and who runs under them.

use super::{Reader, StateError, Writing};
use crate::job::{JobId, Kind, Spec, State};
use crate::limits::{HostFacts, HostSpec, HostView};
use rusqlite::{Connection, OptionalExtension as _, params};
use std::collections::BTreeMap;

/// The name of the limit of everything among the settings.
const TOTAL: &str = "limit";

/// What is set for a machine.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct HostLimits {
    pub(crate) rate: Option<String>,
    pub(crate) running: Option<u32>,
}

/// What people have set.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Set {
    pub(crate) total: Option<String>,
    pub(crate) hosts: BTreeMap<String, HostLimits>,
}

/// A process that works on a job.
#[derive(Clone, Debug)]
pub(crate) struct AtWork {
    pub(crate) job: JobId,
    pub(crate) kind: Kind,
    pub(crate) hosts: Vec<String>,
    pub(crate) limit: Option<String>,
    pub(crate) by_ms: Option<u64>,
    pub(crate) number: u32,
    pub(crate) pid: u32,
    pub(crate) start_ticks: u64,
}

pub(super) fn hosts(db: &Connection) -> Result<BTreeMap<String, HostLimits>, StateError> {
    let mut query = db.prepare_cached("SELECT name, rate_limit, max_running FROM hosts")?;
    let rows = query.query_map([], |row| {
        let limits = HostLimits {
            rate: row.get(1)?,
            running: row.get(2)?,
        };
        Ok((row.get(0)?, limits))
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

impl Reader {
    pub(crate) fn limits(&self) -> Result<Set, StateError> {
        let total = self
            .db
            .prepare_cached("SELECT value FROM settings WHERE name = ?1")?
            .query_row([TOTAL], |row| row.get(0))
            .optional()?;
        Ok(Set {
            total,
            hosts: hosts(&self.db)?,
        })
    }

    /// All processes that are known to work.
    pub(crate) fn at_work(&self) -> Result<Vec<AtWork>, StateError> {
        let mut query = self.db.prepare_cached(
            "SELECT jobs.id, spec, hosts, rate_limit, number, attempts.pid, start_ticks
             FROM attempts JOIN jobs ON jobs.id = job
             WHERE attempts.ended IS NULL AND attempts.pid IS NOT NULL ORDER BY jobs.id",
        )?;
        let mut rows = query.query([])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let spec: Spec = serde_json::from_str(&row.get::<_, String>(1)?)?;
            found.push(AtWork {
                job: JobId(row.get(0)?),
                kind: spec.kind,
                hosts: serde_json::from_str(&row.get::<_, String>(2)?)?,
                limit: row.get(3)?,
                by_ms: spec.by_ms,
                number: row.get(4)?,
                pid: row.get(5)?,
                start_ticks: row.get::<_, i64>(6)?.unsigned_abs(),
            });
        }
        Ok(found)
    }
}

impl Writing<'_> {
    /// None: what the daemon was started with.
    pub(crate) fn set_total(&self, limit: Option<&str>) -> Result<(), StateError> {
        match limit {
            Some(limit) => self.tx.execute(
                "INSERT INTO settings (name, value) VALUES (?1, ?2)
                 ON CONFLICT (name) DO UPDATE SET value = excluded.value",
                params![TOTAL, limit],
            )?,
            None => self
                .tx
                .execute("DELETE FROM settings WHERE name = ?1", [TOTAL])?,
        };
        Ok(())
    }

    pub(crate) fn limit_job(
        &self,
        id: JobId,
        limit: Option<&str>,
        now: u64,
    ) -> Result<(), StateError> {
        self.tx.execute(
            "UPDATE jobs SET rate_limit = ?2 WHERE id = ?1",
            params![id.0, limit],
        )?;
        self.note(id, now, "limited", limit)
    }

    pub(crate) fn set_host(&self, name: &str, limits: &HostLimits) -> Result<(), StateError> {
        if *limits == HostLimits::default() {
            self.tx
                .execute("DELETE FROM hosts WHERE name = ?1", [name])?;
            return Ok(());
        }
        self.tx.execute(
            "INSERT INTO hosts (name, rate_limit, max_running) VALUES (?1, ?2, ?3)
             ON CONFLICT (name) DO UPDATE SET rate_limit = excluded.rate_limit, max_running = excluded.max_running",
            params![name, limits.rate, limits.running],
        )?;
        Ok(())
    }
}

impl Reader {
    /// Machines that jobs speak with, and those that something is set for, by name.
    pub(crate) fn hosts(&self) -> Result<Vec<HostView>, StateError> {
        let mut found: BTreeMap<String, HostView> = BTreeMap::new();
        let view = |name: &str| HostView {
            name: name.to_owned(),
            set: HostSpec::default(),
            allowed_bps: None,
            running: 0,
            waiting: 0,
            jobs: 0,
            last_job: None,
            facts: HostFacts::default(),
        };
        let mut query = self.db.prepare_cached(
            "SELECT value, state, COUNT(*), MAX(jobs.id) FROM jobs, json_each(jobs.hosts) GROUP BY value, state",
        )?;
        let mut rows = query.query([])?;
        while let Some(row) = rows.next()? {
            let name: String = row.get(0)?;
            let host = found.entry(name).or_insert_with_key(|name| view(name));
            let n: u32 = row.get(2)?;
            host.jobs += n;
            match State::of_name(&row.get::<_, String>(1)?) {
                Some(State::Running) => host.running += n,
                Some(State::Waiting) => host.waiting += n,
                _ => {}
            }
            host.last_job = host.last_job.max(Some(JobId(row.get(3)?)));
        }
        for (name, limits) in hosts(&self.db)? {
            let host = found.entry(name).or_insert_with_key(|name| view(name));
            host.set = HostSpec {
                limit: limits.rate,
                max_running: limits.running,
            };
        }
        Ok(found.into_values().collect())
    }
}
