//! How a receiver is told: everything in its order, again after growing distances, and not for ever.

use super::notice::{Kind, Notice};
use super::{Named, NotTaken, ONCE};
use crate::Level;
use crate::metrics::{Metrics, NoticeEnd};
use crate::position::Position;
use crate::state::{Happening, Reader, StateError};
use crate::time::now_ms;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::sync::watch;

/// Until the second try; doubled for each one after.
pub(super) const FIRST: Duration = Duration::from_secs(5);
const LONGEST: Duration = Duration::from_hours(1);
/// What is older than that is tried once.
const OLD_MS: u64 = 24 * 60 * 60 * 1000;
/// Until the database is asked again that could not be read.
const UNREADABLE: Duration = Duration::from_secs(10);

/// Of one receiver, in a thread of its own.
pub(super) struct Course {
    pub(super) named: Named,
    pub(super) database: PathBuf,
    pub(super) position: Position,
    pub(super) written: watch::Receiver<u64>,
    pub(super) log: fn(Level, &str),
    pub(super) metrics: Arc<Metrics>,
    pub(super) instance: String,
    pub(super) first: Duration,
    /// Since something arrived.
    pub(super) failures: u32,
    pub(super) runtime: Runtime,
}

/// The daemon ends.
struct Ends;

impl Course {
    /// Until the daemon ends.
    pub(super) fn run(&mut self) {
        let mut reader = None;
        loop {
            let told = self.tell_new(&mut reader);
            let ends = match told {
                Ok(Ok(())) => self
                    .runtime
                    .block_on(self.written.changed())
                    .map_err(|_| Ends),
                Ok(Err(ends)) => Err(ends),
                Err(error) => {
                    reader = None;
                    self.say(
                        Level::Error,
                        &format!("cannot read what there is to tell: {error}"),
                    );
                    self.stay(UNREADABLE)
                }
            };
            if ends.is_err() {
                return;
            }
        }
    }

    fn say(&self, level: Level, text: &str) {
        (self.log)(level, &format!("{}: {text}", self.named.shown));
    }

    /// Waits that long, if the daemon does not end before.
    fn stay(&mut self, time: Duration) -> Result<(), Ends> {
        let written = &mut self.written;
        let ended = async { while written.changed().await.is_ok() {} };
        let waited = self
            .runtime
            .block_on(async { tokio::time::timeout(time, ended).await });
        waited.map_or(Ok(()), |()| Err(Ends))
    }

    /// All that has happened and was not told.
    fn tell_new(&mut self, reader: &mut Option<Reader>) -> Result<Result<(), Ends>, StateError> {
        let reader = match reader {
            Some(reader) => reader,
            None => reader.insert(Reader::open(&self.database)?),
        };
        let kinds: Vec<_> = self
            .named
            .kinds
            .iter()
            .map(|kind| Kind::name(*kind))
            .collect();
        loop {
            // What comes in between is seen the next time.
            let last = reader.last_happened()?;
            let happened = reader.happenings_after(self.position.get(), &kinds)?;
            if happened.is_empty() {
                self.position.pass(last);
                return Ok(Ok(()));
            }
            for each in &happened {
                if let Err(ends) = self.tell(each) {
                    return Ok(Err(ends));
                }
            }
        }
    }

    /// Until it is told, or given up.
    fn tell(&mut self, happened: &Happening) -> Result<(), Ends> {
        let notice = Notice::new(&self.instance, happened);
        let title = notice.title();
        let mut tries = 0;
        loop {
            match self.named.receiver.tell(&notice, &self.runtime) {
                Ok(said) => {
                    if self.failures > 0 {
                        self.say(Level::Info, &format!("has been told again: {title}"));
                    }
                    if !said.is_empty() {
                        self.say(Level::Info, &format!("{title}; it says: {said}"));
                    }
                    self.failures = 0;
                    self.metrics.noticed(NoticeEnd::Told);
                    break;
                }
                Err(NotTaken { why, tries: ONCE }) => {
                    self.metrics.noticed(NoticeEnd::GivenUp);
                    self.say(Level::Warning, &format!("{title}: {why}"));
                    break;
                }
                Err(NotTaken { why, tries: most }) => {
                    tries += 1;
                    self.failures = self.failures.saturating_add(1);
                    let is_old = now_ms().saturating_sub(notice.happened_ms) > OLD_MS;
                    let given_up = tries >= most || is_old;
                    let distance = distance(self.first, self.failures);
                    let next = if given_up {
                        "given up".to_owned()
                    } else {
                        format!("again in {} s", distance.as_secs())
                    };
                    let text = format!("could not be told that {title}: {why}; {next}");
                    self.say(Level::Warning, &text);
                    self.metrics.noticed(if given_up {
                        NoticeEnd::GivenUp
                    } else {
                        NoticeEnd::Failed
                    });
                    if given_up {
                        // The next one need not come at once, either.
                        self.passed(happened.event);
                        return self.stay(distance);
                    }
                    self.stay(distance)?;
                }
            }
        }
        self.passed(happened.event);
        Ok(())
    }

    fn passed(&mut self, event: i64) {
        if let Err(error) = self.position.set_durably(event) {
            let text = format!(
                "cannot write down how far it was told, and would be told again after a restart: {error}"
            );
            self.say(Level::Error, &text);
        }
    }
}

/// After so many failures without anything that went well.
fn distance(first: Duration, failures: u32) -> Duration {
    let doubled = 1_u32.checked_shl(failures.saturating_sub(1));
    doubled
        .and_then(|times| first.checked_mul(times))
        .map_or(LONGEST, |time| time.min(LONGEST))
}

#[cfg(test)]
mod tests {
    use super::super::{FEW, MANY, Receiver};
    use super::*;
    use crate::job::{Spec, State};
    use crate::queue::Change;
    use crate::state::Store;
    use std::sync::Mutex;

    #[test]
    fn distances_grow_to_an_hour() {
        let seconds = |failures| distance(FIRST, failures).as_secs();
        let all: Vec<_> = [1, 2, 3, 10, 11, 30, 33, u32::MAX].map(seconds).into();
        assert_eq!(all, [5, 10, 20, 2560, 3600, 3600, 3600, 3600]);
    }

    /// What each try is answered, and what arrived.
    struct Script {
        answers: Vec<Option<u32>>,
        told: Arc<Mutex<Vec<String>>>,
    }

    impl Receiver for Script {
        fn tell(&mut self, notice: &Notice, _: &Runtime) -> Result<String, NotTaken> {
            self.told.lock().unwrap().push(notice.title());
            let answer = (!self.answers.is_empty()).then(|| self.answers.remove(0));
            match answer.flatten() {
                Some(tries) => Err(NotTaken::new(tries, "no")),
                None => Ok(String::new()),
            }
        }
    }

    struct Place {
        dir: tempfile::TempDir,
        store: Store,
    }

    impl Place {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let store = Store::open(&dir.path().join("db")).unwrap();
            Self { dir, store }
        }

        /// A job that was submitted and is over at that time.
        fn job(&mut self, state: State, now: u64) {
            let spec = r#"{"kind":"cp","arguments":["a","h:b"],"directory":"/"}"#;
            let spec: Spec = serde_json::from_str(spec).unwrap();
            let writing = self.store.write().unwrap();
            let id = writing.insert_job(&spec, &[], now).unwrap();
            let change = Change {
                id,
                state,
                reason: None,
            };
            writing.change(&change, None, now).unwrap();
            writing.commit().unwrap();
        }

        /// A daemon that tells all that there is and ends; what was tried, in its order.
        fn tell(&self, answers: &[Option<u32>]) -> Vec<String> {
            let told = Arc::default();
            let reader = Reader::open(&self.dir.path().join("db")).unwrap();
            let place = self.dir.path().join("ops");
            let (writes, written) = watch::channel(0);
            let mut course = Course {
                named: Named {
                    name: "ops".to_owned(),
                    shown: "webhook 'ops'".to_owned(),
                    kinds: vec![Kind::Done, Kind::Failed],
                    receiver: Box::new(Script {
                        answers: answers.to_vec(),
                        told: Arc::clone(&told),
                    }),
                },
                database: self.dir.path().join("db"),
                position: Position::load(place, reader.last_happened().unwrap()),
                written,
                log: |_, _| (),
                metrics: Arc::new(Metrics::new()),
                instance: "0".to_owned(),
                first: Duration::from_millis(1),
                failures: 0,
                runtime: tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .unwrap(),
            };
            let told_all = course.tell_new(&mut None).unwrap();
            assert!(told_all.is_ok(), "the daemon is there");
            drop(writes);
            // Nothing more, and it ends.
            course.run();
            let told = told.lock().unwrap();
            told.clone()
        }

        fn begin(&self) {
            let reader = Reader::open(&self.dir.path().join("db")).unwrap();
            let last = reader.last_happened().unwrap();
            let position = Position::load(self.dir.path().join("ops"), last);
            position.save_durably().unwrap();
        }
    }

    #[test]
    fn what_happened_is_told_once_in_its_order_by_whatever_daemon() {
        let mut place = Place::new();
        place.job(State::Done, now_ms());
        place.begin();
        assert!(place.tell(&[]).is_empty(), "what was before is old");
        place.job(State::Failed, now_ms());
        place.job(State::Cancelled, now_ms());
        place.job(State::Done, now_ms());
        let again = [Some(MANY), Some(MANY), None];
        let told = place.tell(&again);
        assert_eq!(
            told,
            [
                "job 2 failed",
                "job 2 failed",
                "job 2 failed",
                "job 4 is done"
            ]
        );
        assert!(place.tell(&[]).is_empty());
        place.job(State::Done, now_ms());
        assert_eq!(place.tell(&[]), ["job 5 is done"]);
    }

    #[test]
    fn it_is_given_up_one_day_and_the_next_one_is_told() {
        let mut place = Place::new();
        place.begin();
        place.job(State::Done, now_ms());
        place.job(State::Done, now_ms());
        let told = place.tell(&[Some(FEW); FEW as usize]);
        let first = vec!["job 1 is done"; FEW as usize];
        assert_eq!(told, [&first[..], &["job 2 is done"]].concat());
        // Refused for good.
        place.job(State::Done, now_ms());
        place.job(State::Done, now_ms());
        assert_eq!(
            place.tell(&[Some(ONCE)]),
            ["job 3 is done", "job 4 is done"]
        );
        // Too old to be tried again.
        place.job(State::Done, now_ms() - OLD_MS - 1000);
        assert_eq!(place.tell(&[Some(MANY)]), ["job 5 is done"]);
    }

    #[test]
    fn a_daemon_that_ends_meanwhile_leaves_it_to_the_next_one() {
        let mut place = Place::new();
        place.begin();
        place.job(State::Failed, now_ms());
        let told = Arc::default();
        let (writes, written) = watch::channel(0);
        let mut course = Course {
            named: Named {
                name: "ops".to_owned(),
                shown: "webhook 'ops'".to_owned(),
                kinds: vec![Kind::Failed],
                receiver: Box::new(Script {
                    answers: vec![Some(MANY)],
                    told: Arc::clone(&told),
                }),
            },
            database: place.dir.path().join("db"),
            position: Position::load(place.dir.path().join("ops"), i64::MAX),
            written,
            log: |_, _| (),
            metrics: Arc::new(Metrics::new()),
            instance: "0".to_owned(),
            // Whoever waited for that would never end.
            first: LONGEST,
            failures: 0,
            runtime: tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap(),
        };
        drop(writes);
        course.run();
        assert_eq!(told.lock().unwrap().len(), 1);
        assert_eq!(place.tell(&[]), ["job 1 failed"]);
    }
}
