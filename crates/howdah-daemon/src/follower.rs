//! Follows all jobs at once: what changed, and what their processes say. Each look reads what is new, and not more than it may.

use crate::job::{Ended, JobId, JobView};
use crate::lines::lines_from;
use crate::manager::attempt_dir;
use crate::process::record::EVENTS;
use crate::state::{Reader, Set, StateError};
use crate::time::now_ms;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Of more that change at once is told that there are many.
const MANY: usize = 500;
/// Bytes of arguments; of a job that has more is told that it has changed.
const LONG: usize = 16 << 10;
/// Of the file of one attempt, in one look; of more the end is what counts.
const MUCH: u64 = 1 << 20;
const TAIL: u64 = 1 << 16;

/// What there is to tell.
#[derive(Debug)]
pub(crate) enum Told {
    /// It changed.
    Job(Box<JobView>),
    /// So many did.
    Many(usize),
    /// How a running copy does: its last `progress` (docs/json.md).
    Progress {
        job: JobId,
        attempt: u32,
        event: Value,
    },
    /// The process of an attempt is gone; its last event, if that is a `summary` or an `error`.
    Ended {
        job: JobId,
        attempt: u32,
        how: Ended,
        last: Option<Value>,
    },
    /// Somebody set limits.
    Limits,
}

/// How far the file of an attempt is read, and its last word, if that was said before its end was known.
#[derive(Debug, Default)]
struct Followed {
    offset: u64,
    last_word: Option<Value>,
}

/// Whoever is followed from its beginning on is told of from the next event on.
pub(crate) struct Follower {
    database: PathBuf,
    attempts: PathBuf,
    reader: Option<Reader>,
    began_ms: u64,
    /// The last that happened as far as it was told.
    happened: i64,
    /// Some of that could not be read.
    behind: bool,
    limits: Set,
    /// Attempts that run.
    running: BTreeMap<(JobId, u32), Followed>,
    /// The last attempt of each unfinished job whose end was told.
    ended: BTreeMap<JobId, u32>,
}

impl Follower {
    pub(crate) fn new(
        database: PathBuf,
        attempts: PathBuf,
        reader: Reader,
    ) -> Result<Self, StateError> {
        Ok(Self {
            happened: reader.last_happened()?,
            limits: reader.limits()?,
            database,
            attempts,
            reader: Some(reader),
            began_ms: now_ms(),
            behind: false,
            running: BTreeMap::new(),
            ended: BTreeMap::new(),
        })
    }

    /// Whether there may be something new without anything being written in the database.
    pub(crate) fn is_busy(&self) -> bool {
        self.behind || !self.running.is_empty()
    }

    /// What is new. After an error it is told the next time.
    pub(crate) fn look(&mut self) -> Result<Vec<Told>, StateError> {
        let reader = match self.reader.take() {
            Some(reader) => reader,
            None => Reader::open(&self.database)?,
        };
        let told = self.read(&reader)?;
        self.reader = Some(reader);
        Ok(told)
    }

    fn read(&mut self, reader: &Reader) -> Result<Vec<Told>, StateError> {
        let mut told = Vec::new();
        // An end that came between two of these would be told twice.
        let _of_one_moment = reader.snapshot()?;
        let changed = reader.happened_after(self.happened)?;
        let at_work = reader.at_work()?;
        let limits = reader.limits()?;
        for found in at_work {
            let end = |path: PathBuf| path.metadata().map_or(0, |found| found.len());
            let key = (found.job, found.number);
            // What was said before somebody followed is old, but for its end.
            let start = || end(self.file(key)).saturating_sub(TAIL);
            let before = self.running.get(&key).map(|followed| followed.offset);
            let offset = before.unwrap_or_else(start);
            let (last, offset) = self.last(key, offset);
            let followed = self.running.entry(key).or_default();
            followed.offset = offset;
            match last {
                Some(event) if event["event"] == "progress" => told.push(Told::Progress {
                    job: key.0,
                    attempt: key.1,
                    event,
                }),
                // It is about to end.
                Some(event) => followed.last_word = Some(event),
                None => {}
            }
        }
        self.behind = true;
        // One by one: any number may have changed, and each may be long.
        for (id, event) in &changed {
            let Ok(job) = reader.job(*id) else {
                // It is told the next time, with all that follow.
                return Ok(told);
            };
            self.happened = *event;
            let Some(mut job) = job else {
                continue;
            };
            self.ends(&job, &mut told);
            if changed.len() > MANY {
                continue;
            }
            let bytes: usize = job.spec.arguments.iter().map(String::len).sum();
            if bytes > LONG {
                told.push(Told::Many(1));
                continue;
            }
            job.attempts = Vec::new();
            job.history = Vec::new();
            told.push(Told::Job(Box::new(job)));
        }
        self.behind = false;
        if changed.len() > MANY {
            told.push(Told::Many(changed.len()));
        }
        if limits != self.limits {
            self.limits = limits;
            told.push(Told::Limits);
        }
        Ok(told)
    }

    /// Attempts of a job whose end was not told yet.
    fn ends(&mut self, job: &JobView, told: &mut Vec<Told>) {
        let known = self.ended.get(&job.id).copied();
        for attempt in &job.attempts {
            let (Some(how), Some(when)) = (&attempt.ended, attempt.ended_ms) else {
                continue;
            };
            let key = (job.id, attempt.number);
            let followed = self.running.remove(&key);
            // Without anything known of it, what was over before is old.
            let is_new = match known {
                Some(last) => attempt.number > last,
                None => followed.is_some() || when >= self.began_ms,
            };
            if !is_new {
                continue;
            }
            let Followed { offset, last_word } = followed.unwrap_or_default();
            let (last, _) = self.last(key, offset);
            let last = last.filter(|event| event["event"] != "progress");
            told.push(Told::Ended {
                job: job.id,
                attempt: attempt.number,
                how: how.clone(),
                last: last.or(last_word),
            });
        }
        if job.state.is_final() {
            self.ended.remove(&job.id);
        } else if let Some(last) = job.attempts.iter().rfind(|a| a.ended.is_some()) {
            self.ended.insert(job.id, last.number);
        }
    }

    fn file(&self, (job, number): (JobId, u32)) -> PathBuf {
        attempt_dir(&self.attempts, job, number).join(EVENTS)
    }

    /// The last event of interest from there on, and where the next ones begin.
    fn last(&self, key: (JobId, u32), offset: u64) -> (Option<Value>, u64) {
        last(&self.file(key), offset)
    }
}

/// What cannot be read now is read the next time.
fn last(path: &Path, mut offset: u64) -> (Option<Value>, u64) {
    let length = path.metadata().map_or(0, |found| found.len());
    if length > offset + MUCH {
        offset = length - TAIL;
    }
    let of_interest = |line: &&String| {
        ["progress", "summary", "error"]
            .iter()
            .any(|kind| line.contains(&format!(r#""event":"{kind}""#)))
    };
    let mut found = None;
    while let Ok((lines, next)) = lines_from(path, offset)
        && next > offset
    {
        let mut events = lines.iter().rev().filter(of_interest);
        // The beginning of a tail is no whole line.
        let event = events.find_map(|line| serde_json::from_str(line).ok());
        found = event.or(found);
        offset = next;
    }
    (found, offset)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::State;
    use crate::queue::Change;
    use crate::state::Store;
    use std::fs;
    use std::io::Write as _;

    /// A daemon's directory with a job whose first attempt runs.
    struct Place {
        dir: tempfile::TempDir,
        store: Store,
        job: JobId,
    }

    impl Place {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let mut store = Store::open(&dir.path().join("db")).unwrap();
            let spec = r#"{"kind":"cp","arguments":["a","h:b"],"directory":"/"}"#;
            let writing = store.write().unwrap();
            let spec = serde_json::from_str(spec).unwrap();
            let job = writing.insert_job(&spec, &[], now_ms()).unwrap();
            writing.begin_attempt(job, now_ms()).unwrap();
            writing.attempt_identity(job, 1, 1).unwrap();
            writing.commit().unwrap();
            fs::create_dir_all(dir.path().join(format!("attempts/{job}-1"))).unwrap();
            Self { dir, store, job }
        }

        fn follower(&self) -> Follower {
            let path = self.dir.path().join("db");
            let reader = Reader::open(&path).unwrap();
            Follower::new(path, self.dir.path().join("attempts"), reader).unwrap()
        }

        fn say(&self, line: &str) {
            let path = self
                .dir
                .path()
                .join(format!("attempts/{}-1/events", self.job));
            let file = fs::File::options().create(true).append(true).open(path);
            writeln!(file.unwrap(), "{line}").unwrap();
        }

        fn end(&mut self) {
            let writing = self.store.write().unwrap();
            let ended = Ended::Code(0);
            assert!(writing.end_attempt(self.job, 1, &ended, now_ms()).unwrap());
            let change = Change {
                id: self.job,
                state: State::Done,
                reason: None,
            };
            writing.change(&change, None, now_ms()).unwrap();
            writing.commit().unwrap();
        }
    }

    #[test]
    fn the_last_word_is_told_with_the_end_whenever_it_was_read() {
        for early in [false, true] {
            let mut place = Place::new();
            let mut follower = place.follower();
            place.say(r#"{"event":"progress","bytes":1}"#);
            let told = follower.look().unwrap();
            assert!(matches!(&told[..], [Told::Progress { .. }]), "{told:?}");
            assert!(follower.is_busy() && follower.look().unwrap().is_empty());
            place.say(r#"{"event":"summary","bytes":2}"#);
            if early {
                // Before anybody knows that the process is gone.
                assert!(follower.look().unwrap().is_empty());
            }
            place.end();
            let told = follower.look().unwrap();
            let [Told::Ended { last, .. }, Told::Job(job)] = &told[..] else {
                panic!("{told:?}");
            };
            assert_eq!(last.as_ref().unwrap()["bytes"], 2, "{early}");
            assert_eq!(job.state, State::Done);
            assert!(follower.look().unwrap().is_empty() && !follower.is_busy());
            // The next daemon does not tell it again.
            assert!(place.follower().look().unwrap().is_empty());
        }
    }

    #[test]
    fn the_last_event_is_found_in_bounded_work() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events");
        assert_eq!(last(&path, 0), (None, 0));
        let mut file = fs::File::create(&path).unwrap();
        writeln!(file, r#"{{"event":"start"}}"#).unwrap();
        let (found, first) = last(&path, 0);
        assert_eq!(found, None);
        writeln!(file, r#"{{"event":"progress","bytes":1}}"#).unwrap();
        writeln!(file, r#"{{"event":"progress","bytes":2}}"#).unwrap();
        writeln!(file, r#"{{"event":"change"}}"#).unwrap();
        write!(file, r#"{{"event":"progress","by"#).unwrap();
        let (found, next) = last(&path, first);
        assert_eq!(found.unwrap()["bytes"], 2);
        assert_eq!(last(&path, next), (None, next));
        // A list of a million changes is passed over.
        writeln!(file, r#"tes":3}}"#).unwrap();
        file.write_all(&b"{\"event\":\"change\"}\n".repeat(100_000))
            .unwrap();
        writeln!(file, r#"{{"event":"summary"}}"#).unwrap();
        let (found, next) = last(&path, next);
        assert_eq!(found.unwrap()["event"], "summary");
        assert_eq!(next, path.metadata().unwrap().len());
    }
}
