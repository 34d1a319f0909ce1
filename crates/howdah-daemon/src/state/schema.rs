//! The tables, and how older ones become today's.

use super::StateError;
use rusqlite::Connection;

/// Each makes the next version out of the one before; never changed once shipped.
const MIGRATIONS: [&str; 5] = [
    "
    CREATE TABLE jobs (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        spec TEXT NOT NULL,
        hosts TEXT NOT NULL,
        state TEXT NOT NULL,
        reason TEXT,
        exit_code INTEGER,
        failures INTEGER NOT NULL DEFAULT 0,
        false_starts INTEGER NOT NULL DEFAULT 0,
        not_before_ms INTEGER NOT NULL DEFAULT 0,
        cancelling INTEGER NOT NULL DEFAULT 0,
        submission TEXT UNIQUE,
        submitted_ms INTEGER NOT NULL,
        ended_ms INTEGER
    ) STRICT;
    CREATE INDEX jobs_by_state ON jobs (state, id);
    CREATE TABLE attempts (
        job INTEGER NOT NULL REFERENCES jobs (id),
        number INTEGER NOT NULL,
        pid INTEGER,
        start_ticks INTEGER,
        started_ms INTEGER NOT NULL,
        ended_ms INTEGER,
        ended TEXT,
        PRIMARY KEY (job, number)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX attempts_without_end ON attempts (job) WHERE ended IS NULL;
    CREATE TABLE events (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        job INTEGER NOT NULL REFERENCES jobs (id),
        time_ms INTEGER NOT NULL,
        what TEXT NOT NULL,
        why TEXT
    ) STRICT;
    CREATE INDEX events_by_job ON events (job, id);
",
    "
    CREATE TABLE schedules (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        spec TEXT NOT NULL,
        hosts TEXT NOT NULL,
        next_ms INTEGER,
        last_job INTEGER,
        note TEXT
    ) STRICT;
",
    "
    ALTER TABLE schedules ADD COLUMN paused INTEGER NOT NULL DEFAULT 0;
",
    "
    CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE hosts (name TEXT PRIMARY KEY, rate_limit TEXT, max_running INTEGER) STRICT, WITHOUT ROWID;
    ALTER TABLE jobs ADD COLUMN rate_limit TEXT;
",
    "
    CREATE TABLE watches (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        spec TEXT NOT NULL,
        hosts TEXT NOT NULL,
        paused INTEGER NOT NULL DEFAULT 0,
        last_job INTEGER,
        failures INTEGER NOT NULL DEFAULT 0,
        note TEXT
    ) STRICT;
    CREATE TABLE watch_files (
        watch INTEGER NOT NULL,
        path BLOB NOT NULL,
        size INTEGER NOT NULL,
        modified_ns INTEGER NOT NULL,
        inode INTEGER NOT NULL,
        job INTEGER NOT NULL,
        gone_ms INTEGER,
        PRIMARY KEY (watch, path)
    ) STRICT, WITHOUT ROWID;
",
];

/// Brings the file up to date.
pub(super) fn migrate(db: &mut Connection) -> Result<(), StateError> {
    migrate_to(db, MIGRATIONS.len())
}

/// Brings it as far as that version.
pub(super) fn migrate_to(db: &mut Connection, last: usize) -> Result<(), StateError> {
    let known = i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX);
    let found: i64 = db.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if found > known {
        return Err(StateError::Newer { found, known });
    }
    for (version, migration) in (1..)
        .zip(MIGRATIONS.into_iter().take(last))
        .filter(|(version, _)| *version > found)
    {
        let tx = db.transaction()?;
        tx.execute_batch(migration)?;
        tx.pragma_update(None, "user_version", version)?;
        tx.commit()?;
    }
    Ok(())
}
