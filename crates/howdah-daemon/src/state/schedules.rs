//! Schedules.

use super::{Reader, StateError, Store, Writing, ms};
use crate::job::JobId;
use crate::schedule::{ScheduleSpec, ScheduleView};
use rusqlite::{Row, params};

/// A schedule with the hosts of its job.
#[derive(Clone, Debug)]
pub(crate) struct Scheduled {
    pub(crate) view: ScheduleView,
    pub(crate) hosts: Vec<String>,
}

const ALL: &str =
    "SELECT id, spec, next_ms, last_job, note, paused, hosts FROM schedules ORDER BY id";

fn scheduled(row: &Row<'_>) -> Result<Scheduled, StateError> {
    let view = ScheduleView {
        id: row.get(0)?,
        spec: serde_json::from_str(&row.get::<_, String>(1)?)?,
        next_ms: row.get::<_, Option<i64>>(2)?.map(i64::unsigned_abs),
        last_job: row.get::<_, Option<i64>>(3)?.map(JobId),
        note: row.get(4)?,
        paused: row.get(5)?,
    };
    Ok(Scheduled {
        view,
        hosts: serde_json::from_str(&row.get::<_, String>(6)?)?,
    })
}

fn all(db: &rusqlite::Connection) -> Result<Vec<Scheduled>, StateError> {
    let mut query = db.prepare_cached(ALL)?;
    let mut rows = query.query([])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(scheduled(row)?);
    }
    Ok(found)
}

impl Store {
    pub(crate) fn schedules(&self) -> Result<Vec<Scheduled>, StateError> {
        all(&self.db)
    }
}

impl Reader {
    pub(crate) fn schedules(&self) -> Result<Vec<ScheduleView>, StateError> {
        Ok(all(&self.db)?.into_iter().map(|found| found.view).collect())
    }

    pub(crate) fn schedule(&self, id: i64) -> Result<Option<ScheduleView>, StateError> {
        let found = self.schedules()?;
        Ok(found.into_iter().find(|schedule| schedule.id == id))
    }
}

impl Writing<'_> {
    pub(crate) fn schedule(&self, id: i64) -> Result<Option<ScheduleView>, StateError> {
        let found = all(&self.tx)?.into_iter().map(|found| found.view);
        Ok(found.into_iter().find(|schedule| schedule.id == id))
    }

    pub(crate) fn insert_schedule(
        &self,
        spec: &ScheduleSpec,
        hosts: &[String],
        next: Option<u64>,
    ) -> Result<i64, StateError> {
        self.tx.execute(
            "INSERT INTO schedules (spec, hosts, next_ms) VALUES (?1, ?2, ?3)",
            params![
                serde_json::to_string(spec)?,
                serde_json::to_string(hosts)?,
                next.map(ms)
            ],
        )?;
        Ok(self.tx.last_insert_rowid())
    }

    /// What became of a time that came.
    pub(crate) fn schedule_came(
        &self,
        id: i64,
        job: Option<JobId>,
        note: Option<&str>,
        next: Option<u64>,
    ) -> Result<(), StateError> {
        self.tx.execute(
            "UPDATE schedules SET last_job = COALESCE(?2, last_job), note = ?3, next_ms = ?4 WHERE id = ?1",
            params![id, job.map(|job| job.0), note, next.map(ms)],
        )?;
        Ok(())
    }

    /// Lets it rest, or go on from now.
    pub(crate) fn pause_schedule(
        &self,
        id: i64,
        paused: bool,
        next: Option<u64>,
    ) -> Result<(), StateError> {
        self.tx.execute(
            "UPDATE schedules SET paused = ?2, note = NULL, next_ms = ?3 WHERE id = ?1",
            params![id, paused, next.map(ms)],
        )?;
        Ok(())
    }

    /// False if there is none.
    pub(crate) fn remove_schedule(&self, id: i64) -> Result<bool, StateError> {
        Ok(self
            .tx
            .execute("DELETE FROM schedules WHERE id = ?1", [id])?
            == 1)
    }
}
