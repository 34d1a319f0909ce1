//! Watched directories, and the files that were part of a job.

use super::{Reader, StateError, Writing, ms};
use crate::job::{JobId, State};
use crate::watch::{Look, WatchSpec, WatchView};
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// A file that is gone is known for so long: a disk may be away for some days.
const KEPT_MS: u64 = 7 * 24 * 3_600_000;

/// A watched directory with what its jobs speak with and how the last ones ended.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    pub(crate) view: WatchView,
    pub(crate) hosts: Vec<String>,
    /// Jobs in a row that failed.
    pub(crate) failures: u32,
}

/// What is known of a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Known {
    /// It looks as it did when it became part of a job.
    Same,
    /// It does, but that job failed.
    Failed,
    /// Nothing, or it looked otherwise.
    New,
}

const ALL: &str = "SELECT id, spec, hosts, paused, last_job, note, failures,
    (SELECT COUNT(*) FROM watch_files WHERE watch = watches.id AND gone_ms IS NULL) FROM watches";

fn watched(row: &Row<'_>) -> Result<Watched, StateError> {
    let spec: WatchSpec = serde_json::from_str(&row.get::<_, String>(1)?)?;
    Ok(Watched {
        view: WatchView {
            id: row.get(0)?,
            spec,
            paused: row.get(3)?,
            files: row.get::<_, i64>(7)?.unsigned_abs(),
            last_job: row.get::<_, Option<i64>>(4)?.map(JobId),
            note: row.get(5)?,
            // Who looks knows.
            settled: false,
        },
        hosts: serde_json::from_str(&row.get::<_, String>(2)?)?,
        failures: row.get(6)?,
    })
}

fn one(db: &Connection, id: i64) -> Result<Option<Watched>, StateError> {
    let sql = format!("{ALL} WHERE id = ?1");
    let mut query = db.prepare_cached(&sql)?;
    let found = query.query_row([id], |row| Ok(watched(row))).optional()?;
    found.transpose()
}

/// Paths are any bytes.
fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

impl Reader {
    pub(crate) fn watches(&self) -> Result<Vec<Watched>, StateError> {
        let sql = format!("{ALL} ORDER BY id");
        let mut query = self.db.prepare_cached(&sql)?;
        let mut rows = query.query([])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(watched(row)?);
        }
        Ok(found)
    }

    pub(crate) fn watch(&self, id: i64) -> Result<Option<Watched>, StateError> {
        one(&self.db, id)
    }

    /// How a job stands, since when if it is over, and the code of its last attempt that ended by itself.
    pub(crate) fn end_of(
        &self,
        job: JobId,
    ) -> Result<Option<(State, u64, Option<u8>)>, StateError> {
        let mut query = self.db.prepare_cached(
            "SELECT state, COALESCE(ended_ms, 0), exit_code FROM jobs WHERE id = ?1",
        )?;
        let row = query.query_row([job.0], |row| {
            let ended = row.get::<_, i64>(1)?.unsigned_abs();
            Ok((row.get::<_, String>(0)?, ended, row.get(2)?))
        });
        let row = row.optional()?;
        Ok(row.and_then(|(name, ended, code)| Some((State::of_name(&name)?, ended, code))))
    }

    /// The same of one that was submitted by that name.
    pub(crate) fn state_of_submission(&self, name: &str) -> Result<Option<State>, StateError> {
        let mut query = self
            .db
            .prepare_cached("SELECT state FROM jobs WHERE submission = ?1")?;
        let state = query.query_row([name], |row| row.get::<_, String>(0));
        Ok(state.optional()?.and_then(|name| State::of_name(&name)))
    }

    /// What is known of a file of that directory.
    pub(crate) fn file(&self, watch: i64, path: &Path, look: Look) -> Result<Known, StateError> {
        let mut query = self.db.prepare_cached(
            "SELECT size, modified_ns, inode, (SELECT state FROM jobs WHERE id = job)
             FROM watch_files WHERE watch = ?1 AND path = ?2",
        )?;
        let row = query.query_row(params![watch, bytes(path)], |row| {
            let known = Look {
                size: row.get::<_, i64>(0)?.cast_unsigned(),
                modified_ns: row.get(1)?,
                inode: row.get::<_, i64>(2)?.cast_unsigned(),
            };
            Ok((known, row.get::<_, Option<String>>(3)?))
        });
        Ok(match row.optional()? {
            Some((known, state)) if known == look => match state.as_deref() {
                Some("failed") => Known::Failed,
                _ => Known::Same,
            },
            _ => Known::New,
        })
    }

    /// Files of that directory that are known, whether or not they are there.
    pub(crate) fn files(&self, watch: i64) -> Result<Vec<(PathBuf, bool)>, StateError> {
        let mut query = self
            .db
            .prepare_cached("SELECT path, gone_ms IS NOT NULL FROM watch_files WHERE watch = ?1")?;
        let rows = query.query_map([watch], |row| {
            let path: Vec<u8> = row.get(0)?;
            let path = PathBuf::from(std::ffi::OsStr::from_bytes(&path));
            Ok((path, row.get(1)?))
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}

impl Writing<'_> {
    pub(crate) fn insert_watch(
        &self,
        spec: &WatchSpec,
        hosts: &[String],
    ) -> Result<i64, StateError> {
        self.tx.execute(
            "INSERT INTO watches (spec, hosts) VALUES (?1, ?2)",
            params![serde_json::to_string(spec)?, serde_json::to_string(hosts)?],
        )?;
        Ok(self.tx.last_insert_rowid())
    }

    pub(crate) fn watch(&self, id: i64) -> Result<Option<Watched>, StateError> {
        one(&self.tx, id)
    }

    pub(crate) fn pause_watch(&self, id: i64, paused: bool) -> Result<bool, StateError> {
        let changed = self.tx.execute(
            "UPDATE watches SET paused = ?2 WHERE id = ?1",
            params![id, paused],
        )?;
        Ok(changed == 1)
    }

    /// False if there is none.
    pub(crate) fn remove_watch(&self, id: i64) -> Result<bool, StateError> {
        self.tx
            .execute("DELETE FROM watch_files WHERE watch = ?1", [id])?;
        Ok(self.tx.execute("DELETE FROM watches WHERE id = ?1", [id])? == 1)
    }

    /// What is wrong with it, or that nothing is.
    pub(crate) fn note_watch(&self, id: i64, note: Option<&str>) -> Result<(), StateError> {
        self.tx.execute(
            "UPDATE watches SET note = ?2 WHERE id = ?1",
            params![id, note],
        )?;
        Ok(())
    }

    /// These are part of that job.
    pub(crate) fn watch_job(
        &self,
        id: i64,
        job: JobId,
        failures: u32,
        files: &[(PathBuf, Look)],
    ) -> Result<(), StateError> {
        let mut insert = self.tx.prepare_cached(
            "INSERT INTO watch_files (watch, path, size, modified_ns, inode, job) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
             ON CONFLICT (watch, path) DO UPDATE SET size = excluded.size, modified_ns = excluded.modified_ns,
                 inode = excluded.inode, job = excluded.job, gone_ms = NULL",
        )?;
        for (path, look) in files {
            insert.execute(params![
                id,
                bytes(path),
                look.size.cast_signed(),
                look.modified_ns,
                look.inode.cast_signed(),
                job.0
            ])?;
        }
        self.tx.execute(
            "UPDATE watches SET last_job = ?2, failures = ?3, note = NULL WHERE id = ?1",
            params![id, job.0, failures],
        )?;
        Ok(())
    }

    /// These are not there any more, and those are again. What is gone since long is forgotten.
    pub(crate) fn watch_gone(
        &self,
        id: i64,
        gone: &[PathBuf],
        back: &[PathBuf],
        now: u64,
    ) -> Result<(), StateError> {
        let mut set = self
            .tx
            .prepare_cached("UPDATE watch_files SET gone_ms = ?3 WHERE watch = ?1 AND path = ?2")?;
        for (paths, when) in [(gone, Some(ms(now))), (back, None)] {
            for path in paths {
                set.execute(params![id, bytes(path), when])?;
            }
        }
        self.tx.execute(
            "DELETE FROM watch_files WHERE watch = ?1 AND gone_ms <= ?2",
            params![id, ms(now.saturating_sub(KEPT_MS))],
        )?;
        Ok(())
    }
}
