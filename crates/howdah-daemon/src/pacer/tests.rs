//! Who is told what, and in which order.

use super::*;
use crate::job::Spec;
use crate::limits::HostFacts;
use crate::state::{HostLimits, Store};
use crate::time::now_ms;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;

/// Knows numbers, and writes down what it told whom.
#[derive(Default)]
struct Recorder {
    told: Mutex<Vec<(u32, Option<u64>)>>,
}

impl Outside for Recorder {
    fn allowed(&self, limit: &str) -> Result<Option<u64>, String> {
        limit.parse().map(Some).map_err(|_| "no limit".to_owned())
    }

    fn share(&self, pid: u32, limit: Option<u64>) -> Result<Standing, String> {
        self.told.lock().unwrap().push((pid, limit));
        Ok(Standing {
            bytes: 0,
            total_bytes: Some(1 << 30),
            goodput_bps: 0,
            wire_bps: 0,
        })
    }

    fn hosts(&self, names: &[String]) -> Vec<HostFacts> {
        vec![HostFacts::default(); names.len()]
    }
}

struct House {
    dir: tempfile::TempDir,
    store: Store,
    outside: Arc<Recorder>,
}

/// Two processes that are there: this one and its parent.
fn pids() -> [u32; 2] {
    let parent = rustix::process::getppid().unwrap().as_raw_nonzero().get();
    [std::process::id(), u32::try_from(parent).unwrap()]
}

impl House {
    fn new(by_ms: Option<u64>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::open(&dir.path().join("db")).unwrap();
        let spec = r#"{"kind":"cp","arguments":["a","h:b"],"directory":"/"}"#;
        let mut spec: Spec = serde_json::from_str(spec).unwrap();
        spec.by_ms = by_ms;
        let writing = store.write().unwrap();
        for pid in pids() {
            let job = writing.insert_job(&spec, &["h".to_owned()], 1).unwrap();
            writing.begin_attempt(job, 1).unwrap();
            let start = Identity::of(pid).unwrap().start_ticks;
            writing.attempt_identity(job, pid, start).unwrap();
        }
        writing.commit().unwrap();
        Self {
            dir,
            store,
            outside: Arc::default(),
        }
    }

    fn pacer(&self, limit: Option<&str>) -> (Pacer, std::sync::mpsc::Receiver<Message>) {
        self.pacer_by(limit, Arc::new(now_ms))
    }

    fn pacer_by(
        &self,
        limit: Option<&str>,
        clock: Clock,
    ) -> (Pacer, std::sync::mpsc::Receiver<Message>) {
        let outside: Arc<dyn Outside> = Arc::clone(&self.outside) as _;
        let (manager, messages) = sync_channel(8);
        let pacer = Pacer {
            pace: Arc::new(Pace::new(outside, limit.map(str::to_owned))),
            database: self.dir.path().join("db"),
            manager,
            clock,
        };
        (pacer, messages)
    }

    fn told(&self) -> Vec<Option<u64>> {
        let mut told = self.outside.told.lock().unwrap();
        told.drain(..).map(|(_, limit)| limit).collect()
    }

    fn set_total(&mut self, limit: Option<&str>) {
        let writing = self.store.write().unwrap();
        writing.set_total(limit).unwrap();
        writing.commit().unwrap();
    }
}

#[test]
fn who_was_found_running_is_told_once_that_nothing_holds_it_any_more() {
    let house = House::new(None);
    let (pacer, _messages) = house.pacer(None);
    let mut reader = None;
    assert_eq!(pacer.look(&mut reader).unwrap(), IDLE);
    assert_eq!(house.told(), [None, None]);
    assert_eq!(pacer.look(&mut reader).unwrap(), IDLE);
    assert_eq!(house.told(), []);
}

#[test]
fn a_limit_is_shared_and_whatever_begins_keeps_to_what_is_left() {
    let mut house = House::new(None);
    let (pacer, _messages) = house.pacer(Some("1000000"));
    let mut reader = None;
    assert_eq!(pacer.look(&mut reader).unwrap(), TICK);
    assert_eq!(house.told(), [Some(500_000); 2]);
    // Nothing is left until the others have given.
    assert_eq!(pacer.pace.begin(JobId(9), 1, &[], None, None), Some(LEAST));
    house.set_total(Some("3000000"));
    pacer.pace.set(&reader.as_ref().unwrap().limits().unwrap());
    let begun = pacer.pace.begin(JobId(10), 1, &[], None, None);
    assert_eq!(begun, Some(2_000_000 - LEAST));
    assert_eq!(
        pacer.pace.begin(JobId(11), 1, &[], Some("70000"), None),
        Some(LEAST)
    );
    // Its own limit, if that is less.
    house.set_total(Some("9000000"));
    pacer.pace.set(&reader.as_ref().unwrap().limits().unwrap());
    assert_eq!(
        pacer.pace.begin(JobId(12), 1, &[], Some("70000"), None),
        Some(70_000)
    );
    // Nothing at all.
    house.set_total(Some("0"));
    pacer.look(&mut reader).unwrap();
    assert_eq!(house.told(), [Some(0); 2]);
    assert_eq!(pacer.pace.begin(JobId(13), 1, &[], None, None), Some(0));
}

#[test]
fn what_somebody_had_who_is_over_is_for_who_begins_next() {
    let house = House::new(None);
    let (pacer, _messages) = house.pacer(Some("1000000"));
    pacer.look(&mut None).unwrap();
    assert_eq!(pacer.pace.begin(JobId(9), 1, &[], None, None), Some(LEAST));
    for job in [JobId(2), JobId(9)] {
        pacer.pace.end(job, 1);
        assert!(pacer.pace.of(job).is_none());
    }
    assert_eq!(
        pacer.pace.begin(JobId(10), 1, &[], None, None),
        Some(500_000)
    );
}

#[test]
fn a_machine_has_a_share_of_its_own() {
    let mut house = House::new(None);
    let writing = house.store.write().unwrap();
    let limits = HostLimits {
        rate: Some("200000".to_owned()),
        running: None,
    };
    writing.set_host("h", &limits).unwrap();
    writing.commit().unwrap();
    let (pacer, _messages) = house.pacer(None);
    pacer.look(&mut None).unwrap();
    assert_eq!(house.told(), [Some(100_000); 2]);
    assert_eq!(
        pacer.pace.begin(JobId(9), 1, &["h".to_owned()], None, None),
        Some(LEAST)
    );
    assert_eq!(
        pacer
            .pace
            .begin(JobId(10), 1, &["other".to_owned()], None, None),
        None
    );
}

#[test]
fn a_job_with_a_time_begins_with_what_is_seen_and_goes_on_with_what_it_says() {
    const HOUR: u64 = 3_600_000;
    let now = now_ms();
    let house = House::new(Some(now + HOUR));
    let (pacer, _messages) = house.pacer_by(None, Arc::new(move || now));
    let guess = Plan::guess(1 << 29, now, now + HOUR).unwrap();
    let needed = guess.needed.unwrap();
    // More than it needs it does not get, less it does.
    let begin = |own| pacer.pace.begin(JobId(1), 1, &[], own, Some(guess.clone()));
    assert_eq!(begin(Some("70000")), Some(70_000));
    assert_eq!(begin(None), Some(needed));
    assert_eq!(pacer.pace.of(JobId(1)).unwrap().needed_bps, Some(needed));
    // The other one, of which nothing was seen, as fast as it may. Both are looked at again at once.
    let mut reader = None;
    assert_eq!(pacer.look(&mut reader).unwrap(), SOON);
    assert_eq!(house.told(), [Some(needed), None]);
    // Each says that it has twice as much before it.
    assert_eq!(pacer.look(&mut reader).unwrap(), TICK);
    let told = house.told();
    assert_eq!(told[0], told[1]);
    assert!(told[0].unwrap().abs_diff(2 * needed) < 2, "{told:?}");
}

#[test]
fn who_cannot_be_done_by_its_time_is_said() {
    let house = House::new(Some(now_ms() + 3_600_000));
    let (pacer, messages) = house.pacer(Some("1000000"));
    let mut reader = None;
    // It must first be known how much there is.
    pacer.look(&mut reader).unwrap();
    pacer.look(&mut reader).unwrap();
    let mut noted = Vec::new();
    while let Ok(Message::Asked(Order::Note { job, note }, _)) = messages.try_recv() {
        noted.push((job, note.unwrap()));
    }
    assert_eq!(noted.len(), 2, "{noted:?}");
    assert!(noted[0].1.contains("it needs 2."), "{noted:?}");
    let pace = pacer.pace.of(JobId(1)).unwrap();
    assert_eq!((pace.meets, pace.share_bps), (Some(false), Some(500_000)));
    // With more than enough it is the least that does it.
    let house = House::new(Some(now_ms() + 3_600_000));
    let (pacer, messages) = house.pacer(Some("1000000000"));
    let mut reader = None;
    pacer.look(&mut reader).unwrap();
    pacer.look(&mut reader).unwrap();
    assert!(messages.try_recv().is_err());
    let pace = pacer.pace.of(JobId(2)).unwrap();
    assert_eq!((pace.meets, pace.share_bps), (Some(true), pace.needed_bps));
}

#[test]
fn a_clock_that_is_set_changes_what_is_needed_and_what_is_said() {
    const HOUR: u64 = 3_600_000;
    let began = now_ms();
    let clock = Arc::new(AtomicU64::new(began));
    let house = House::new(Some(began + HOUR));
    let read = Arc::clone(&clock);
    let (pacer, messages) = house.pacer_by(
        Some("1000000000"),
        Arc::new(move || read.load(Ordering::Relaxed)),
    );
    let mut reader = None;
    let mut at = |time: u64| {
        clock.store(time, Ordering::Relaxed);
        pacer.look(&mut reader).unwrap();
        let notes = std::iter::from_fn(|| match messages.try_recv() {
            Ok(Message::Asked(Order::Note { note, .. }, _)) => Some(note),
            _ => None,
        });
        (notes.collect::<Vec<_>>(), pacer.pace.of(JobId(1)).unwrap())
    };
    at(began);
    let (notes, pace) = at(began);
    let needed = pace.needed_bps.unwrap();
    assert!(notes.is_empty() && pace.meets == Some(true), "{pace:?}");
    // Half of the time is gone at once: it needs twice as much, and it is not said that nothing came in that time.
    let (notes, pace) = at(began + HOUR / 2);
    assert!(notes.is_empty() && pace.meets == Some(true), "{pace:?}");
    assert!(
        pace.needed_bps.unwrap().abs_diff(needed * 2) < 2,
        "{pace:?}"
    );
    // Its time has come, and was not that.
    let (notes, pace) = at(began + 2 * HOUR);
    assert!(
        notes.len() == 2 && notes.iter().all(Option::is_some),
        "{notes:?}"
    );
    assert_eq!((pace.meets, pace.needed_bps), (Some(false), None));
    let (notes, pace) = at(began);
    assert_eq!(notes, [None, None]);
    assert_eq!((pace.meets, pace.needed_bps), (Some(true), Some(needed)));
}
