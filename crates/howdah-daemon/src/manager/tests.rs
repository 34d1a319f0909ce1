//! The manager with what goes wrong around it. Whole jobs are tested with the real program (howdah-cli, tests/daemon/daemon.rs).

mod clock;

use super::*;
use crate::job::{JobView, Kind, State};
use crate::outside::tests::Nobody;
use crate::schedule::ScheduleSpec;
use crate::state::{Reader, Wanted};
use crate::time::now_ms;
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;

/// One that keeps nothing that is over.
const FORGETFUL: &str = "forgetful";
const PATIENCE: Duration = Duration::from_mins(1);

struct House {
    dir: tempfile::TempDir,
    sender: SyncSender<Message>,
    working: JoinHandle<Result<(), StateError>>,
}

impl House {
    fn new(dir: tempfile::TempDir, program: &str, trouble: Option<(&str, u32)>) -> Self {
        let keep = if trouble.is_some_and(|(name, _)| name == FORGETFUL) {
            Duration::ZERO
        } else {
            Duration::MAX
        };
        Self::with(dir, program, trouble, keep, Arc::new(now_ms))
    }

    fn with(
        dir: tempfile::TempDir,
        program: &str,
        trouble: Option<(&str, u32)>,
        keep: Duration,
        clock: Clock,
    ) -> Self {
        let store = Store::open(&dir.path().join("db")).unwrap();
        if let Some((name, value)) = trouble.filter(|(name, _)| *name != FORGETFUL) {
            store.pragma(name, value);
        }
        let (sender, messages) = sync_channel(64);
        let manager = Manager {
            store,
            grammar: Arc::new(Nobody),
            bounds: Arc::default(),
            program: program.into(),
            attempts: dir.path().join("attempts"),
            limits: Limits::default(),
            messages,
            sender: sender.clone(),
            keep,
            written: watch::channel(0).0,
            pace: Arc::new(Pace::new(Arc::new(Nobody), None)),
            clock,
        };
        let working = std::thread::spawn(move || manager.run());
        Self {
            dir,
            sender,
            working,
        }
    }

    fn order(&self, order: Order) -> Result<Answer, String> {
        let (reply, answer) = oneshot::channel();
        self.sender.send(Message::Asked(order, reply)).unwrap();
        answer.blocking_recv().unwrap()
    }

    fn submit(&self, spec: &Spec) -> Result<JobId, String> {
        match self.order(Order::Submit {
            spec: Box::new(spec.clone()),
            hosts: Vec::new(),
        })? {
            Answer::Submitted { id, .. } => Ok(id),
            other => panic!("{other:?}"),
        }
    }

    fn job(&self, id: JobId) -> JobView {
        Reader::open(&self.dir.path().join("db"))
            .unwrap()
            .job(id)
            .unwrap()
            .unwrap()
    }

    #[track_caller]
    fn await_end(&self, id: JobId) -> JobView {
        let end = Instant::now() + PATIENCE;
        loop {
            let job = self.job(id);
            if job.state.is_final() {
                return job;
            }
            assert!(Instant::now() < end, "{job:?}");
            std::thread::yield_now();
        }
    }

    fn stop(self) -> tempfile::TempDir {
        self.sender.send(Message::Stop).unwrap();
        self.working.join().unwrap().unwrap();
        self.dir
    }
}

fn house(program: &str) -> House {
    House::new(tempfile::tempdir().unwrap(), program, None)
}

fn spec(directory: &str) -> Spec {
    Spec {
        retries: 3,
        ..Spec::new(Kind::Verify, vec!["a".into(), "b".into()], directory)
    }
}

#[test]
fn what_cannot_be_started_fails_and_says_why() {
    let house = house("/nonexistent/howdah");
    let id = house.submit(&spec("/")).unwrap();
    let job = house.await_end(id);
    assert_eq!(job.state, State::Failed);
    assert!(
        job.reason
            .unwrap()
            .contains("could not be started: the program"),
        "{:?}",
        job.attempts
    );
    let id = house.submit(&spec("/nonexistent")).unwrap();
    let job = house.await_end(id);
    assert!(
        job.reason.unwrap().contains("/nonexistent"),
        "{:?}",
        job.attempts
    );
    house.stop();
}

#[test]
fn a_program_that_takes_nothing_up_is_not_started_for_ever() {
    let house = house("/bin/true");
    let id = house.submit(&spec("/")).unwrap();
    let job = house.await_end(id);
    assert_eq!(job.state, State::Failed);
    assert!(
        job.attempts
            .iter()
            .all(|attempt| attempt.ended == Some(Ended::NeverBegan)),
        "{job:?}"
    );
    house.stop();
}

#[test]
fn a_full_disk_loses_nothing_that_was_answered_and_answers_nothing_that_is_lost() {
    let house = House::new(
        tempfile::tempdir().unwrap(),
        "/bin/true",
        Some(("max_page_count", 40)),
    );
    let held = |n: usize| Spec {
        hold: true,
        arguments: vec!["x".repeat(1_000)],
        submission: Some(n.to_string()),
        ..spec("/")
    };
    let mut answered = Vec::new();
    let mut refused = 0;
    for n in 0..1_000 {
        match house.submit(&held(n)) {
            Ok(id) => answered.push((n, id)),
            Err(why) => {
                assert!(
                    why.contains("full") || why.contains("cannot write"),
                    "{why}"
                );
                refused += 1;
            }
        }
        if refused > 5 {
            break;
        }
    }
    assert!(!answered.is_empty() && refused > 5);
    let house = House::new(house.stop(), "/bin/true", None);
    let all = Reader::open(&house.dir.path().join("db"))
        .unwrap()
        .jobs(&Wanted::default(), None, 10_000)
        .unwrap();
    assert_eq!(all.len(), answered.len());
    for (n, id) in &answered {
        assert_eq!(house.submit(&held(*n)), Ok(*id));
    }
    let (_, last) = answered.last().unwrap();
    let new = house.submit(&held(5_000)).unwrap();
    assert!(new > *last);
    assert_eq!(house.order(Order::Cancel(new)), Ok(Answer::Done));
    house.stop();
}

#[test]
fn an_end_that_cannot_be_written_is_written_later() {
    // The job fails to start, and there is no room for saying so until the next daemon.
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::open(&dir.path().join("db")).unwrap();
    let writing = store.write().unwrap();
    let id = writing.insert_job(&spec("/"), &[], 1).unwrap();
    writing.begin_attempt(id, 2).unwrap();
    writing.commit().unwrap();
    drop(store);
    let house = House::new(dir, "/nonexistent", Some(("query_only", 1)));
    assert!(house.order(Order::Hold(id)).is_err());
    assert_eq!(house.job(id).state, State::Running);
    let house = House::new(house.stop(), "/nonexistent", None);
    let job = house.await_end(id);
    assert_eq!(job.attempts[0].ended, Some(Ended::NeverBegan), "{job:?}");
    assert_eq!(job.attempts.len(), 2, "{job:?}");
    house.stop();
}

#[test]
fn many_jobs_are_submitted_at_once_and_each_has_a_number_of_its_own() {
    let house = house("/bin/true");
    let mut numbers: Vec<_> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    let held = Spec {
                        hold: true,
                        ..spec("/")
                    };
                    (0..50)
                        .map(|_| house.submit(&held).unwrap())
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        clients
            .into_iter()
            .flat_map(|client| client.join().unwrap())
            .collect()
    });
    numbers.sort_unstable();
    assert!(numbers.iter().map(|id| id.0).eq(1..=400));
    house.stop();
}

#[test]
fn a_job_that_misses_its_deadline_has_failed() {
    let house = house("/bin/true");
    let id = house
        .submit(&Spec {
            hold: true,
            deadline_ms: Some(now_ms() + 50),
            ..spec("/")
        })
        .unwrap();
    let job = house.await_end(id);
    assert_eq!(job.state, State::Failed);
    assert!(job.reason.unwrap().contains("deadline"));
    let words: Vec<_> = job
        .history
        .iter()
        .map(|happened| happened.what.as_str())
        .collect();
    assert_eq!(words, ["submitted", "failed"]);
    house.stop();
}

#[test]
fn what_is_over_since_long_is_forgotten_and_nothing_else() {
    let house = house("/bin/true");
    let over = house.submit(&spec("/")).unwrap();
    let held = house
        .submit(&Spec {
            hold: true,
            ..spec("/")
        })
        .unwrap();
    house.await_end(over);
    let files = attempt_dir(&house.dir.path().join("attempts"), over, 1);
    assert!(files.is_dir());
    let house = House::new(house.stop(), "/bin/true", Some((FORGETFUL, 0)));
    // It is answered after the tidying.
    assert_eq!(house.order(Order::Hold(held)), Ok(Answer::Done));
    let left = Reader::open(&house.dir.path().join("db"))
        .unwrap()
        .jobs(&Wanted::default(), None, 10)
        .unwrap();
    assert_eq!(left.iter().map(|job| job.id).collect::<Vec<_>>(), [held]);
    assert!(!files.exists());
    assert_eq!(house.order(Order::Cancel(over)), Ok(Answer::NoSuchJob));
    assert!(
        house
            .submit(&Spec {
                hold: true,
                ..spec("/")
            })
            .unwrap()
            > held
    );
    house.stop();
}

fn schedule(cron: &str) -> ScheduleSpec {
    ScheduleSpec {
        cron: cron.to_owned(),
        zone: "UTC".to_owned(),
        job: spec("/"),
        times: crate::times::Times::default(),
        missed: crate::schedule::Missed::Once,
        overlap: crate::schedule::Overlap::Skip,
    }
}

#[test]
fn what_was_missed_is_one_job_and_never_two() {
    // Its time came a day ago, and many times since.
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::open(&dir.path().join("db")).unwrap();
    let writing = store.write().unwrap();
    let yesterday = now_ms() - 86_400_000;
    let skipping = ScheduleSpec {
        missed: crate::schedule::Missed::Skip,
        ..schedule("* * * * *")
    };
    writing
        .insert_schedule(&schedule("0 * * * *"), &[], Some(yesterday))
        .unwrap();
    writing
        .insert_schedule(&skipping, &[], Some(yesterday))
        .unwrap();
    writing.commit().unwrap();
    drop(store);
    let mut dir = dir;
    for _ in 0..3 {
        let house = House::new(dir, "/bin/true", None);
        // It is answered when what has come is written.
        assert_eq!(house.order(Order::Unschedule(77)), Ok(Answer::NoSuchJob));
        let reader = Reader::open(&house.dir.path().join("db")).unwrap();
        let submitted: Vec<_> = reader
            .jobs(&Wanted::default(), None, 10)
            .unwrap()
            .iter()
            .filter_map(|job| job.spec.submission.clone())
            .collect();
        assert_eq!(submitted, [format!("schedule-1-{yesterday}")]);
        let schedules = reader.schedules().unwrap();
        assert_eq!(schedules[0].last_job, Some(JobId(1)));
        assert!(
            schedules
                .iter()
                .all(|schedule| schedule.next_ms.unwrap() > yesterday)
        );
        assert!(
            schedules[1].note.as_ref().unwrap().contains("no daemon"),
            "{schedules:?}"
        );
        assert_eq!(schedules[1].last_job, None);
        dir = house.stop();
    }
}

#[test]
fn a_schedule_is_added_and_removed() {
    let house = house("/bin/true");
    let add = |spec| {
        house.order(Order::Schedule {
            spec: Box::new(spec),
            hosts: Vec::new(),
        })
    };
    assert_eq!(add(schedule("0 6 * * 1")), Ok(Answer::Scheduled(1)));
    assert!(matches!(add(schedule("nonsense")), Ok(Answer::Conflict(_))));
    assert_eq!(house.order(Order::Unschedule(1)), Ok(Answer::Done));
    assert_eq!(house.order(Order::Unschedule(1)), Ok(Answer::NoSuchJob));
    assert_eq!(add(schedule("0 6 * * 1")), Ok(Answer::Scheduled(2)));
    house.stop();
}

#[test]
fn a_schedule_that_rests_brings_no_job_and_goes_on_from_when_it_is_resumed() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::open(&dir.path().join("db")).unwrap();
    let writing = store.write().unwrap();
    let id = writing
        .insert_schedule(&schedule("0 6 * * *"), &[], Some(now_ms() + 86_400_000))
        .unwrap();
    writing.commit().unwrap();
    drop(store);
    let house = House::new(dir, "/bin/true", None);
    let pause = |paused| house.order(Order::PauseSchedule { id, paused });
    assert_eq!(pause(true), Ok(Answer::Done));
    assert_eq!(pause(true), Ok(Answer::Done));
    let dir = house.stop();
    // Also for the next one, and although times come.
    let house = House::new(dir, "/bin/true", None);
    let reader = Reader::open(&house.dir.path().join("db")).unwrap();
    let known = || reader.schedules().unwrap().remove(0);
    assert!(known().paused && known().next_ms.is_none());
    let before = now_ms();
    let resumed = house.order(Order::PauseSchedule { id, paused: false });
    assert_eq!(resumed, Ok(Answer::Done));
    assert!(!known().paused && known().next_ms.unwrap() > before);
    let other = house.order(Order::PauseSchedule {
        id: 77,
        paused: true,
    });
    assert_eq!(other, Ok(Answer::NoSuchJob));
    assert!(
        reader
            .jobs(&Wanted::default(), None, 10)
            .unwrap()
            .is_empty()
    );
    house.stop();
}
