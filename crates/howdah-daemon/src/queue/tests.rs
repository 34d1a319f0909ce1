use super::*;
use proptest::prelude::*;

fn entry(id: i64) -> Entry {
    Entry {
        id: JobId(id),
        priority: 0,
        hosts: Vec::new(),
        after: BTreeSet::new(),
        retries: 3,
        failures: 0,
        false_starts: 0,
        not_before: 0,
        cancelling: false,
        deadline: None,
        overdue: false,
        state: State::Waiting,
    }
}

fn queue(running: usize, per_host: usize) -> Queue {
    Queue::new(Limits { running, per_host })
}

fn started(queue: &mut Queue, now: u64) -> Vec<i64> {
    std::iter::from_fn(|| queue.start(now))
        .map(|id| id.0)
        .collect()
}

#[test]
fn priority_goes_before_age_and_a_full_host_holds_up_only_its_own() {
    let mut queue = queue(3, 1);
    let at = |id, host: &str, priority| Entry {
        hosts: vec![host.to_owned()],
        priority,
        ..entry(id)
    };
    for job in [
        at(1, "a", 0),
        at(2, "a", 5),
        at(3, "b", 0),
        at(4, "c", 0),
        at(5, "d", 0),
    ] {
        queue.insert(job);
    }
    assert_eq!(started(&mut queue, 0), [2, 3, 4]);
    queue.ended(JobId(2), &Ended::Code(0), 0);
    assert_eq!(started(&mut queue, 0), [1]);
}

#[test]
fn what_may_pass_is_tried_again_at_growing_distances_and_nothing_else() {
    for ended in [
        Ended::Code(5),
        Ended::Code(13),
        Ended::Code(12),
        Ended::Signal(9),
        Ended::Vanished,
    ] {
        let mut queue = queue(1, 1);
        queue.insert(entry(1));
        let (mut now, mut waits) = (1_000, Vec::new());
        loop {
            assert_eq!(started(&mut queue, now), [1], "{ended:?}");
            let changes = queue.ended(JobId(1), &ended, now);
            if changes[0].state == State::Failed {
                break;
            }
            let wake = queue.wake().unwrap();
            assert!(started(&mut queue, wake - 1).is_empty());
            waits.push(wake - now);
            now = wake;
        }
        assert_eq!(waits.len(), 3, "{ended:?}");
        assert!(waits.is_sorted_by(|a, b| a < b), "{waits:?}");
    }
    for code in [1, 2, 3, 4, 6, 7, 8, 10, 11, 14, 15, 137] {
        let mut queue = queue(1, 1);
        queue.insert(entry(1));
        queue.start(0);
        let changes = queue.ended(JobId(1), &Ended::Code(code), 0);
        assert_eq!(changes[0].state, State::Failed, "{code}");
    }
}

#[test]
fn an_attempt_that_never_began_costs_no_retry_and_does_not_go_round_for_ever() {
    let mut queue = queue(1, 1);
    queue.insert(Entry {
        retries: 0,
        ..entry(1)
    });
    let mut starts = 0;
    while queue.start(0).is_some() {
        starts += 1;
        queue.ended(JobId(1), &Ended::NeverBegan, 0);
    }
    assert_eq!(starts, FALSE_STARTS);
    assert!(queue.get(JobId(1)).is_none());
}

#[test]
fn who_follows_a_failure_fails_and_who_follows_success_begins() {
    let follows = |id, after: &[i64]| Entry {
        after: after.iter().map(|id| JobId(*id)).collect(),
        ..entry(id)
    };
    let mut queue = queue(9, 9);
    for job in [
        entry(1),
        entry(2),
        follows(3, &[1, 2]),
        follows(4, &[3]),
        follows(5, &[1]),
    ] {
        queue.insert(job);
    }
    assert_eq!(started(&mut queue, 0), [1, 2]);
    queue.ended(JobId(1), &Ended::Code(0), 0);
    assert_eq!(started(&mut queue, 0), [5]);
    let changes = queue.ended(JobId(2), &Ended::Code(3), 0);
    let ids: Vec<_> = changes
        .iter()
        .map(|change| (change.id.0, change.state))
        .collect();
    assert_eq!(
        ids,
        [(2, State::Failed), (3, State::Failed), (4, State::Failed)]
    );
    assert!(changes[1].reason.as_ref().unwrap().contains("job 2"));
}

#[test]
fn a_job_that_is_done_before_the_cancelling_reaches_it_is_done() {
    for (ended, state) in [
        (Ended::Code(0), State::Done),
        (Ended::Code(12), State::Cancelled),
        (Ended::Signal(9), State::Cancelled),
    ] {
        let mut queue = queue(1, 1);
        queue.insert(entry(1));
        queue.start(0);
        assert_eq!(queue.cancel(JobId(1)), Ok(Vec::new()));
        assert_eq!(queue.ended(JobId(1), &ended, 0)[0].state, state);
        assert_eq!(queue.cancel(JobId(1)), Err(Refused::Over));
    }
}

#[test]
fn a_deadline_ends_what_waits_and_stops_what_runs() {
    let mut queue = queue(1, 1);
    let by = |id, deadline| Entry {
        deadline: Some(deadline),
        ..entry(id)
    };
    for job in [
        by(1, 50),
        by(2, 50),
        by(3, 90),
        Entry {
            after: [JobId(2)].into(),
            ..entry(4)
        },
    ] {
        queue.insert(job);
    }
    assert_eq!(started(&mut queue, 0), [1]);
    assert_eq!(queue.wake(), Some(50));
    assert!(!queue.is_late(49) && queue.is_late(50));
    let (changes, running) = queue.expire(50);
    let ids: Vec<_> = changes
        .iter()
        .map(|change| (change.id.0, change.state))
        .collect();
    assert_eq!(
        (ids, running),
        (vec![(2, State::Failed), (4, State::Failed)], vec![JobId(1)])
    );
    // It is tried again neither now nor later.
    let changes = queue.ended(JobId(1), &Ended::Code(12), 60);
    assert_eq!(
        (changes[0].state, changes[0].reason.as_deref()),
        (State::Failed, Some(LATE))
    );
    assert_eq!(started(&mut queue, 60), [3]);
    queue.ended(JobId(3), &Ended::Code(0), 70);
    assert_eq!(
        (queue.expire(100), queue.wake()),
        ((Vec::new(), Vec::new()), None)
    );
}

#[test]
fn a_clock_that_is_set_back_makes_nobody_wait_for_its_return() {
    const DAY: u64 = 86_400_000;
    let mut queue = queue(1, 1);
    queue.insert(entry(1));
    assert_eq!(started(&mut queue, 10 * DAY), [1]);
    queue.ended(JobId(1), &Ended::Code(5), 10 * DAY);
    assert!(started(&mut queue, 10 * DAY).is_empty());
    assert_eq!(started(&mut queue, 9 * DAY), [1]);
}

#[derive(Clone, Debug)]
enum Step {
    Submit {
        priority: i32,
        hosts: Vec<u8>,
        after: Vec<usize>,
        held: bool,
        deadline: Option<u64>,
    },
    Start,
    End {
        which: usize,
        ended: Ended,
    },
    Cancel(usize),
    Hold(usize),
    Release(usize),
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let hosts = proptest::collection::btree_set(0..3u8, 0..3);
    let ended = prop_oneof![
        3 => Just(Ended::Code(0)),
        2 => prop::sample::select(vec![1, 5, 12, 13]).prop_map(Ended::Code),
        1 => Just(Ended::Vanished),
        1 => Just(Ended::NeverBegan),
    ];
    prop_oneof![
        4 => (-2..3, hosts, proptest::collection::vec(0..20usize, 0..3), any::<bool>(), proptest::option::of(0..200_000u64)).prop_map(
            |(priority, hosts, after, held, deadline)| Step::Submit { priority, hosts: hosts.into_iter().collect(), after, held, deadline }
        ),
        6 => Just(Step::Start),
        4 => (0..20usize, ended).prop_map(|(which, ended)| Step::End { which, ended }),
        1 => (0..20usize).prop_map(Step::Cancel),
        1 => (0..20usize).prop_map(Step::Hold),
        2 => (0..20usize).prop_map(Step::Release),
        2 => (0..100_000u64).prop_map(Step::Pass),
    ]
}

fn apply(states: &mut BTreeMap<JobId, State>, changes: Vec<Change>) {
    for change in changes {
        let old = states.insert(change.id, change.state);
        assert!(
            old.is_some_and(|old| !old.is_final()),
            "{change:?} of {old:?}"
        );
    }
}

proptest! {
    /// Whatever happens: limits hold, nothing waits beyond its deadline, nothing that may not start does, what starts is the best that may, nothing is lost,
    /// nothing that is over comes back, and in the end everything is over.
    #[test]
    fn the_queue_keeps_its_word(steps in proptest::collection::vec(step(), 1..200)) {
        let limits = Limits { running: 3, per_host: 2 };
        let mut queue = Queue::new(limits);
        let mut states: BTreeMap<JobId, State> = BTreeMap::new();
        let mut needs: BTreeMap<JobId, Vec<JobId>> = BTreeMap::new();
        let mut now = 0;
        let pick = |states: &BTreeMap<JobId, State>, n: usize| states.keys().nth(n % states.len().max(1)).copied();
        let begin = |queue: &mut Queue, states: &mut BTreeMap<JobId, State>, needs: &BTreeMap<JobId, Vec<JobId>>, now| {
            let busy = |queue: &Queue, host: &String, states: &BTreeMap<JobId, State>| states
                .iter()
                .filter(|(id, state)| **state == State::Running && queue.get(**id).unwrap().hosts.contains(host))
                .count();
            let may: Vec<_> = states
                .iter()
                .filter(|(id, state)| {
                    let Some(entry) = queue.get(**id) else { return false };
                    **state == State::Waiting
                        && entry.not_before <= now
                        && needs[*id].iter().all(|other| states[other] == State::Done)
                        && entry.hosts.iter().all(|host| busy(queue, host, states) < limits.per_host)
                })
                .map(|(id, _)| (Reverse(queue.get(*id).unwrap().priority), *id))
                .collect();
            let free = queue.running() < limits.running;
            let want = may.into_iter().min().map(|(_, id)| id).filter(|_| free);
            let got = queue.start(now);
            assert_eq!(got, want);
            if let Some(id) = got {
                states.insert(id, State::Running);
            }
            got
        };
        for step in steps {
            match step {
                Step::Submit { priority, hosts, after, held, deadline } => {
                    let id = JobId(i64::try_from(states.len()).unwrap() + 1);
                    let after: BTreeSet<_> = after.iter().filter_map(|n| pick(&states, *n)).collect();
                    // As whoever drives it does.
                    if after.iter().any(|id| matches!(states[id], State::Failed | State::Cancelled)) {
                        continue;
                    }
                    let state = if held { State::Held } else { State::Waiting };
                    let hosts = hosts.iter().map(|host| format!("host{host}")).collect();
                    needs.insert(id, after.iter().copied().collect());
                    states.insert(id, state);
                    let deadline = deadline.map(|wait| now + wait + 1);
                    queue.insert(Entry { priority, hosts, after, deadline, state, ..entry(id.0) });
                }
                Step::Start => {
                    begin(&mut queue, &mut states, &needs, now);
                }
                Step::End { which, ended } => {
                    let running: Vec<_> = states.iter().filter(|(_, s)| **s == State::Running).map(|(id, _)| *id).collect();
                    if let Some(id) = running.get(which % running.len().max(1)) {
                        let late = queue.get(*id).unwrap().overdue;
                        let changes = queue.ended(*id, &ended, now);
                        prop_assert!(!changes.is_empty());
                        prop_assert!(!late || changes[0].state.is_final());
                        apply(&mut states, changes);
                    }
                }
                Step::Cancel(n) => if let Some(id) = pick(&states, n) {
                    match queue.cancel(id) {
                        Ok(changes) => apply(&mut states, changes),
                        Err(_) => prop_assert!(states[&id].is_final()),
                    }
                },
                Step::Hold(n) => if let Some(id) = pick(&states, n) && let Ok(changes) = queue.hold(id) {
 apply(&mut states, changes);
},
                Step::Release(n) => if let Some(id) = pick(&states, n) && let Ok(changes) = queue.release(id) {
 apply(&mut states, changes);
},
                Step::Pass(ms) => {
                    now += ms;
                    let (changes, late) = queue.expire(now);
                    apply(&mut states, changes);
                    prop_assert!(late.iter().all(|id| states[id] == State::Running));
                }
            }
            for (id, state) in &states {
                prop_assert_eq!(queue.get(*id).map(|entry| entry.state), Some(*state).filter(|s| !s.is_final()));
                let kept = queue.get(*id).and_then(|entry| entry.deadline).is_none_or(|when| when > now);
                prop_assert!(kept || *state == State::Running);
            }
        }
        // Let it run out.
        let ids: Vec<_> = states.keys().copied().collect();
        for id in ids {
            if states[&id] == State::Held {
                let changes = queue.release(id).unwrap();
                apply(&mut states, changes);
            }
        }
        now += 10_000_000;
        apply(&mut states, queue.expire(now).0);
        loop {
            while begin(&mut queue, &mut states, &needs, now).is_some() {}
            let Some(id) = states.iter().find(|(_, s)| **s == State::Running).map(|(id, _)| *id) else { break };
            let changes = queue.ended(id, &Ended::Code(0), now);
            apply(&mut states, changes);
        }
        prop_assert!(states.values().all(|state| state.is_final()), "{:?}", states);
        prop_assert_eq!(queue.wake(), None);
    }
}
