use super::*;

fn spec(submission: Option<&str>) -> Spec {
    Spec {
        kind: crate::job::Kind::Verify,
        arguments: vec!["a".into(), "b".into()],
        directory: "/".into(),
        labels: Vec::new(),
        priority: 7,
        retries: 2,
        after: Vec::new(),
        deadline_ms: None,
        by_ms: None,
        submission: submission.map(str::to_owned),
        hold: false,
    }
}

#[test]
fn what_is_written_is_there_and_what_is_not_committed_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let mut store = Store::open(&path).unwrap();
    let writing = store.write().unwrap();
    let id = writing
        .insert_job(&spec(Some("x")), &["h".to_owned()], 5)
        .unwrap();
    writing.commit().unwrap();
    let writing = store.write().unwrap();
    writing.insert_job(&spec(None), &[], 6).unwrap();
    drop(writing);
    let writing = store.write().unwrap();
    assert_eq!(writing.submitted("x").unwrap(), Some((id, spec(Some("x")))));
    assert_eq!(writing.submitted("y").unwrap(), None);
    assert_eq!(writing.begin_attempt(id, 7).unwrap().0, 1);
    writing.commit().unwrap();
    drop(store);
    let mut store = Store::open(&path).unwrap();
    let found = store.unfinished().unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(
        (found[0].id, found[0].priority, found[0].state),
        (id, 7, State::Running)
    );
    assert_eq!(store.open_attempts().unwrap().len(), 1);
    let writing = store.write().unwrap();
    assert!(writing.end_attempt(id, 1, &Ended::Code(3), 8).unwrap());
    assert!(!writing.end_attempt(id, 1, &Ended::Vanished, 9).unwrap());
    let change = Change {
        id,
        state: State::Failed,
        reason: Some("why".into()),
    };
    writing.change(&change, None, 9).unwrap();
    writing.commit().unwrap();
    assert!(store.unfinished().unwrap().is_empty());
    let job = Reader::open(&path).unwrap().job(id).unwrap().unwrap();
    assert_eq!(
        (job.state, job.exit_code, job.ended_ms),
        (State::Failed, Some(3), Some(9))
    );
    assert_eq!(job.attempts[0].ended, Some(Ended::Code(3)));
}

#[test]
fn a_database_of_a_newer_version_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let store = Store::open(&path).unwrap();
    store.db.pragma_update(None, "user_version", 99).unwrap();
    drop(store);
    let error = Store::open(&path).unwrap_err();
    assert!(
        matches!(error, StateError::Newer { found: 99, .. }),
        "{error}"
    );
}

#[test]
fn events_of_a_job_are_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::open(&dir.path().join("db")).unwrap();
    let writing = store.write().unwrap();
    let id = writing.insert_job(&spec(None), &[], 0).unwrap();
    for n in 0..500 {
        writing.note(id, n, "held", None).unwrap();
    }
    writing.commit().unwrap();
    let (count, last): (i64, i64) = store
        .db
        .query_row("SELECT COUNT(*), MAX(time_ms) FROM events", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .unwrap();
    assert_eq!((count, last), (EVENTS_OF_A_JOB, 499));
}

#[test]
fn a_database_of_the_first_version_is_brought_up_to_date_with_all_that_is_in_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    // As the first version left it.
    let mut db = Connection::open(&path).unwrap();
    schema::migrate_to(&mut db, 1).unwrap();
    db.execute(
        "INSERT INTO jobs (spec, hosts, state, submission, submitted_ms) VALUES (?1, '[]', 'waiting', 'x', 5)",
        [serde_json::to_string(&spec(Some("x"))).unwrap()],
    )
    .unwrap();
    let id = JobId(db.last_insert_rowid());
    drop(db);
    let mut store = Store::open(&path).unwrap();
    assert!(store.schedules().unwrap().is_empty());
    let writing = store.write().unwrap();
    assert_eq!(writing.submitted("x").unwrap(), Some((id, spec(Some("x")))));
}

#[test]
fn jobs_are_found_by_words_labels_machines_and_states() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let mut store = Store::open(&path).unwrap();
    let writing = store.write().unwrap();
    let insert = |arguments: &[&str], labels: &[&str], host: &str, hold: bool| {
        let own = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let spec = Spec {
            arguments: own(arguments),
            labels: own(labels),
            directory: "/data".into(),
            hold,
            ..spec(None)
        };
        writing.insert_job(&spec, &[host.to_owned()], 5).unwrap()
    };
    let night = insert(
        &["-r", "Run 7", "site:Store/"],
        &["night", "a\"b"],
        "site",
        true,
    );
    let day = insert(&["-r", "run8", "other:100%_x"], &["day"], "other", false);
    writing.commit().unwrap();
    let reader = Reader::open(&path).unwrap();
    let found = |wanted: &Wanted| {
        let jobs = reader.jobs(wanted, None, 10).unwrap();
        jobs.iter().map(|job| job.id).collect::<Vec<_>>()
    };
    let text = |text: &str| {
        found(&Wanted {
            text: text.into(),
            ..Wanted::default()
        })
    };
    assert_eq!(text(""), [day, night]);
    assert_eq!(text("RUN"), [day, night]);
    assert_eq!(text("store run"), [night]);
    assert_eq!(text("/data verify night"), [night]);
    assert_eq!(text("100%_x"), [day]);
    assert_eq!(text("arguments"), []);
    assert_eq!(text("%"), [day]);
    assert_eq!(text("a\"b"), [night]);
    assert_eq!(text("' OR 1=1 --"), []);
    let label = |label: &str| {
        found(&Wanted {
            label: Some(label.into()),
            ..Wanted::default()
        })
    };
    assert_eq!((label("day"), label("da")), (vec![day], vec![]));
    let host = |host: &str| {
        found(&Wanted {
            host: Some(host.into()),
            ..Wanted::default()
        })
    };
    assert_eq!((host("Site"), host("sit")), (vec![night], vec![]));
    let states = |states: &[State]| {
        found(&Wanted {
            states: states.to_vec(),
            ..Wanted::default()
        })
    };
    assert_eq!(states(&[State::Held]), [night]);
    assert_eq!(states(&[State::Held, State::Waiting]), [day, night]);
    assert_eq!(states(&[State::Done]), []);
}

/// Who lists or follows jobs must not have all of them in memory at once.
#[test]
fn long_descriptions_are_read_some_at_a_time_and_none_is_left_out() {
    const JOBS: i64 = 50;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let mut store = Store::open(&path).unwrap();
    let long = Spec {
        arguments: vec!["x".repeat(200 << 10), "h:b".into()],
        ..spec(None)
    };
    let writing = store.write().unwrap();
    for _ in 0..JOBS {
        writing.insert_job(&long, &[], 5).unwrap();
    }
    writing.commit().unwrap();
    let reader = Reader::open(&path).unwrap();
    let bytes = |spec: &Spec| spec.arguments[0].len();
    let most = (1 << 20) + bytes(&long);
    let (mut found, mut before, mut pages) = (Vec::new(), None, 0);
    loop {
        let (page, more) = reader.page(&Wanted::default(), before, 1_000).unwrap();
        let held: usize = page.iter().map(|job| bytes(&job.spec)).sum();
        assert!(held <= most, "{held}");
        before = page.last().map(|job| job.id);
        found.extend(page.iter().map(|job| job.id.0));
        pages += 1;
        if !more {
            break;
        }
    }
    assert!(pages > 1);
    assert_eq!(found, (1..=JOBS).rev().collect::<Vec<_>>());
    let (mut found, mut after) = (Vec::new(), 0);
    loop {
        let some = reader.happenings_after(after, &["submitted"]).unwrap();
        let Some(last) = some.last() else {
            break;
        };
        let held: usize = some.iter().map(|each| bytes(&each.spec)).sum();
        assert!(held <= most, "{held}");
        after = last.event;
        found.extend(some.iter().map(|each| each.job.0));
    }
    assert_eq!(found, (1..=JOBS).collect::<Vec<_>>());
}
