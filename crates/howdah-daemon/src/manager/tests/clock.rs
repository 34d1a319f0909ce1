//! Clocks that are set, forward and back, while a daemon runs and while there is none.

use super::*;
use crate::queue::{Change, Entry};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
const YEAR: u64 = 365 * DAY;
const KEEP: Duration = Duration::from_hours(90 * 24);

/// A clock that says what it is told.
#[derive(Clone)]
struct Hands(Arc<AtomicU64>);

impl Hands {
    /// Noon of some day.
    const NOON: u64 = 1_795_694_400_000;

    fn new() -> Self {
        Self(Arc::new(AtomicU64::new(Self::NOON)))
    }

    fn house(&self, dir: tempfile::TempDir) -> House {
        let hands = Arc::clone(&self.0);
        let clock = Arc::new(move || hands.load(Ordering::Relaxed));
        House::with(dir, "/bin/true", None, KEEP, clock)
    }

    /// Sets it. What has come by then is written when this is back.
    fn set(&self, house: &House, time: u64) {
        self.0.store(time, Ordering::Relaxed);
        assert_eq!(house.order(Order::Unschedule(77)), Ok(Answer::NoSuchJob));
    }
}

fn held() -> Spec {
    Spec {
        hold: true,
        ..spec("/")
    }
}

/// When the times came for which there are jobs.
fn came(house: &House) -> Vec<u64> {
    let reader = Reader::open(&house.dir.path().join("db")).unwrap();
    let jobs = reader.jobs(&Wanted::default(), None, 1_000).unwrap();
    let name = |job: &JobView| job.spec.submission.clone();
    let time = |name: String| name.strip_prefix("schedule-1-")?.parse().ok();
    jobs.iter()
        .rev()
        .filter_map(name)
        .filter_map(time)
        .collect()
}

fn next(house: &House) -> Option<u64> {
    let reader = Reader::open(&house.dir.path().join("db")).unwrap();
    reader.schedules().unwrap()[0].next_ms
}

#[test]
fn each_time_of_a_schedule_is_one_job_however_the_clock_was_set() {
    let hands = Hands::new();
    let noon = Hands::NOON;
    let house = hands.house(tempfile::tempdir().unwrap());
    let daily = Order::Schedule {
        spec: Box::new(ScheduleSpec {
            overlap: crate::schedule::Overlap::Allow,
            ..schedule("30 2 * * *")
        }),
        hosts: Vec::new(),
    };
    assert_eq!(house.order(daily), Ok(Answer::Scheduled(1)));
    let first = noon + 14 * HOUR + 30 * MINUTE;
    assert_eq!(next(&house), Some(first));
    // A year ahead by mistake: what was missed is one job.
    hands.set(&house, noon + YEAR);
    assert_eq!(came(&house), [first]);
    assert_eq!(next(&house), Some(first + YEAR));
    // Nobody waits a year when that is mended; nor for a daemon that was not there then.
    hands.set(&house, noon + MINUTE);
    assert_eq!(next(&house), Some(first));
    hands.set(&house, noon + YEAR);
    let dir = house.stop();
    hands.0.store(noon + 2 * MINUTE, Ordering::Relaxed);
    let house = hands.house(dir);
    hands.set(&house, noon + 2 * MINUTE);
    assert_eq!(next(&house), Some(first));
    // That one was there already. The next ones come.
    hands.set(&house, first);
    assert_eq!(came(&house), [first]);
    hands.set(&house, first + DAY);
    assert_eq!(came(&house), [first, first + DAY]);
    // An hour back, and on again.
    hands.set(&house, first + DAY - HOUR);
    assert_eq!(next(&house), Some(first + DAY));
    hands.set(&house, first + DAY + MINUTE);
    hands.set(&house, first + 2 * DAY);
    assert_eq!(came(&house), [first, first + DAY, first + 2 * DAY]);
    assert_eq!(next(&house), Some(first + 3 * DAY));
    house.stop();
}

#[test]
fn a_deadline_has_passed_when_the_clock_says_so_and_what_is_over_stays_so() {
    let hands = Hands::new();
    let house = hands.house(tempfile::tempdir().unwrap());
    let by = |deadline_ms| {
        let deadline_ms = Some(deadline_ms);
        house
            .submit(&Spec {
                deadline_ms,
                ..held()
            })
            .unwrap()
    };
    let [soon, later] = [10 * HOUR, 20 * HOUR].map(|time| by(Hands::NOON + time));
    hands.set(&house, Hands::NOON - DAY);
    assert!(!house.job(soon).state.is_final());
    hands.set(&house, Hands::NOON + 11 * HOUR);
    assert_eq!(house.job(soon).state, State::Failed);
    assert_eq!(house.job(later).state, State::Held);
    hands.set(&house, Hands::NOON);
    assert_eq!(house.job(soon).state, State::Failed);
    house.stop();
}

#[test]
fn what_waits_for_another_attempt_does_not_wait_for_a_clock_that_was_set_back() {
    for set in [Hands::NOON + DAY, Hands::NOON - DAY] {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::open(&dir.path().join("db")).unwrap();
        let writing = store.write().unwrap();
        let id = writing.insert_job(&spec("/"), &[], Hands::NOON).unwrap();
        let entry = Entry {
            id,
            priority: 0,
            hosts: Vec::new(),
            after: BTreeSet::new(),
            retries: 3,
            failures: 1,
            false_starts: 0,
            not_before: Hands::NOON + HOUR / 2,
            cancelling: false,
            deadline: None,
            overdue: false,
            state: State::Waiting,
        };
        let change = Change {
            id,
            state: State::Waiting,
            reason: None,
        };
        writing.change(&change, Some(&entry), Hands::NOON).unwrap();
        writing.commit().unwrap();
        drop(store);
        let hands = Hands::new();
        let house = hands.house(dir);
        hands.set(&house, Hands::NOON);
        assert_eq!(house.job(id).state, State::Waiting);
        hands.set(&house, set);
        house.await_end(id);
        house.stop();
    }
    // It is looked at, whatever is waited for.
    assert_eq!(
        until(Hands::NOON + YEAR, Hands::NOON),
        Duration::from_mins(1)
    );
    assert_eq!(until(Hands::NOON, Hands::NOON + YEAR), Duration::ZERO);
}

#[test]
fn a_clock_that_leapt_ahead_has_nothing_forgotten_while_somebody_may_set_it_right() {
    let hands = Hands::new();
    let house = hands.house(tempfile::tempdir().unwrap());
    let id = house.submit(&held()).unwrap();
    assert_eq!(house.order(Order::Cancel(id)), Ok(Answer::Done));
    let is_there = |house: &House| house.order(Order::Cancel(id)) != Ok(Answer::NoSuchJob);
    hands.set(&house, Hands::NOON + YEAR);
    assert!(is_there(&house) && is_there(&house));
    // Also if nobody was there when it did.
    let house = hands.house(house.stop());
    assert!(is_there(&house) && is_there(&house));
    let mut house = Hands::new().house(house.stop());
    // What is over since long by a clock that goes as it should is forgotten.
    let hands = Hands::new();
    for days in (1..=101).step_by(20) {
        hands.0.store(Hands::NOON + days * DAY, Ordering::Relaxed);
        house = hands.house(house.stop());
        let other = house.submit(&held()).unwrap();
        assert_eq!(house.order(Order::Cancel(other)), Ok(Answer::Done));
    }
    assert!(!is_there(&house));
    house.stop();
}

/// Its time zone was not known when its time came, as after a change of the system's list of them.
#[test]
fn a_schedule_that_has_lost_its_next_time_finds_it_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::open(&dir.path().join("db")).unwrap();
    let writing = store.write().unwrap();
    let unknown = ScheduleSpec {
        zone: "Nowhere/City".to_owned(),
        ..schedule("0 6 * * *")
    };
    let due = Some(Hands::NOON);
    for spec in [&schedule("0 6 * * *"), &unknown] {
        writing.insert_schedule(spec, &[], due).unwrap();
    }
    // As it is told when that was not known.
    writing
        .schedule_came(1, None, Some("there is no time zone"), None)
        .unwrap();
    writing.commit().unwrap();
    drop(store);
    let hands = Hands::new();
    let house = hands.house(dir);
    hands.set(&house, Hands::NOON);
    assert_eq!(next(&house), Some(Hands::NOON + 18 * HOUR));
    let reader = Reader::open(&house.dir.path().join("db")).unwrap();
    let other = reader.schedule(2).unwrap().unwrap();
    assert!(other.next_ms.is_none() && other.note.is_some(), "{other:?}");
    assert!(came(&house).is_empty());
    house.stop();
}
