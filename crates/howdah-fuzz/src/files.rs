//! Files that hosts and people hand each other: plans and what movers leave beside them, recordings, and what is asked of a daemon.

use howdah_daemon::job::{Kind, Spec};
use howdah_daemon::limits::{HostSpec, LimitSpec};
use howdah_daemon::schedule::{self, ScheduleSpec};
use howdah_daemon::times;
use howdah_daemon::watch::WatchSpec;
use howdah_lease::{
    Cover, Fetched, Found, LEASE_MIN, Name, NotFinished, Plan, Planned, Record, RunAction,
    RunMover, Share, Sheet, TreePlan, TreeRecord, Value,
};
use howdah_recording::{Facts, Interval, MOST_BYTES, MOST_INTERVALS, Recording};
use jiff::{Timestamp, tz::TimeZone};
use std::path::Path;

/// What stands between parts of an input.
const BETWEEN: u8 = 0;

/// A plan: what is read is written the same, its leases cover the file once, and its id is a name.
pub fn plan(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let Ok(planned) = Planned::decode(&text) else {
        return;
    };
    assert_eq!(Planned::decode(&planned.encode()).as_ref(), Ok(&planned));
    assert!(!planned.id().contains(['/', '.', '\0']) && !planned.id().is_empty());
    let count = planned.leases();
    assert!((1..=1 << 20).contains(&count));
    let Planned::File(plan) = &planned else {
        return;
    };
    assert_eq!(plan.lease(count), None);
    let of = |id| plan.lease(id).expect("it is one of them").range;
    assert_eq!(of(0).start, 0);
    assert_eq!(of(count - 1).end, plan.version().size);
    for id in 1..count.min(100) {
        assert_eq!(of(id - 1).end, of(id).start);
    }
}

pub(crate) fn plan_samples() -> Vec<Vec<u8>> {
    let plan = r#"{"howdah_plan":1,"id":"a-1","source":"h:x","destination":"/x","version":{"size":5000000,"mtime":[1,2],"ctime":[3,4],"inode":5},"lease_bytes":1048576,"mode":420}"#;
    vec![plan.as_bytes().to_vec(), TREE.as_bytes().to_vec()]
}

const TREE: &str = r#"{"howdah_plan":2,"id":"a-1","source":"h:x","destination":"/x","lease_bytes":1048576,"archive":true,"permissions":false,"leases":4,"files":3,"bytes":3000000}"#;

fn tree() -> TreePlan {
    match Planned::decode(TREE) {
        Ok(Planned::Tree(tree)) => tree,
        other => unreachable!("{other:?}"),
    }
}

/// A line with its hash behind it, which nobody finds by chance.
fn sealed(line: &[u8]) -> Vec<u8> {
    let hash = blake3::hash(line).to_hex();
    [line, b"\n", hash.as_bytes(), b"\n"].concat()
}

/// Names lead nowhere.
fn check_name(name: &Name) {
    let mut parts = name.as_bytes().split(|byte| *byte == b'/');
    assert!(parts.all(|part| !matches!(part, b"" | b"." | b"..") && !part.contains(&0)));
    let path = howdah::PathBytes::from(name.as_bytes());
    assert!(path.as_path().is_relative());
}

/// What a lease has: what is read is written the same, its names lead nowhere, and a mover makes a record of as many files.
pub fn sheet(bytes: &[u8]) {
    // As it is, and with the right hash.
    let _ = Sheet::decode(bytes);
    let Ok(sheet) = Sheet::decode(&sealed(bytes)) else {
        return;
    };
    assert_eq!(
        Sheet::decode(sheet.encode().as_bytes()).as_ref(),
        Ok(&sheet)
    );
    let tree = tree();
    match &sheet.share {
        Share::Part {
            name,
            version,
            first,
            ..
        } => {
            check_name(name);
            if let Ok((plan, lease)) = tree.part(sheet.lease, *version, *first) {
                assert!(lease.range.end <= version.size);
                assert!(lease.range.len() <= LEASE_MIN);
                assert!(plan.leases() > sheet.lease - first);
            }
        }
        Share::Run(members) => {
            for member in members {
                check_name(&member.name);
            }
            move_all(&tree, &sheet, members.len());
        }
    }
}

/// Every other file comes.
fn move_all(tree: &TreePlan, sheet: &Sheet, count: usize) {
    let mover = RunMover::new(tree, sheet.clone(), 3);
    let mut mover = mover.expect("these are small files");
    // A claim, a fetch, a look before each bite and after the last, a sync, a record.
    for _ in 0..10 + 2 * count {
        match mover.action() {
            RunAction::Claim => mover.on_claimed(),
            RunAction::Fetch => {
                let fetched = mover.members().iter().enumerate().map(|(at, member)| {
                    if at % 2 == 1 {
                        let why = "gone".to_owned();
                        return Fetched::Nothing { why };
                    }
                    Fetched::File {
                        size: member.size,
                        mtime: member.mtime,
                        blake3: Value::default(),
                    }
                });
                let fetched: Vec<_> = fetched.collect();
                mover.on_fetched(fetched, 1.0);
            }
            RunAction::Look => mover.on_highest(3).expect("nobody else runs it"),
            RunAction::Place(range) => {
                assert!(range.end <= count);
                for index in range {
                    mover.on_named(index, (1, (2, 3)));
                }
                mover.on_placed();
            }
            RunAction::Sync => mover.on_synced(),
            RunAction::Publish(record) => {
                assert_eq!(record.moved.len(), count);
                let read = TreeRecord::decode(record.encode().as_bytes());
                assert_eq!(read.as_ref(), Ok(&record));
                mover.on_published();
            }
            RunAction::Done => return,
        }
    }
    panic!("it does not end");
}

pub(crate) fn sheet_samples() -> Vec<Vec<u8>> {
    let sheets = [RUN, PART[0], PART[1]];
    sheets.map(|sheet| sheet.as_bytes().to_vec()).to_vec()
}

const RUN: &str = r#"{"plan":"a-1","lease":0,"share":{"run":[{"n":"a/b","s":3,"m":[1,2]},{"n":"c%FF","s":0,"m":[-1,0]}]}}"#;
const PART: [&str; 2] = [
    r#"{"plan":"a-1","lease":1,"share":{"part":{"name":"l","version":{"size":1500000,"mtime":[1,2],"ctime":[3,4],"inode":5},"first":1}}}"#,
    r#"{"plan":"a-1","lease":2,"share":{"part":{"name":"l","version":{"size":1500000,"mtime":[1,2],"ctime":[3,4],"inode":5},"first":1}}}"#,
];

/// Lines, each sealed here: sheets and records of leases, in any order. What is said to be whole has a record for each part of it.
pub fn record(bytes: &[u8]) {
    let _ = (Record::decode(bytes), TreeRecord::decode(bytes));
    let parts: Vec<_> = bytes.split(|byte| *byte == BETWEEN).map(sealed).collect();
    let records: Vec<_> = parts.iter().flat_map(|part| Record::decode(part)).collect();
    for record in &records {
        // Numbers that are none are written as no numbers.
        if record.seconds.is_finite() {
            assert_eq!(
                Record::decode(record.encode().as_bytes()).as_ref(),
                Ok(record)
            );
        }
    }
    of_file(&records);
    let sheets: Vec<_> = parts.iter().flat_map(|part| Sheet::decode(part)).collect();
    let records: Vec<_> = parts
        .iter()
        .flat_map(|part| TreeRecord::decode(part))
        .collect();
    of_tree(&sheets, &records);
}

/// A file of two leases.
fn of_file(records: &[Record]) {
    let version = howdah_lease::Version {
        size: LEASE_MIN + 7,
        mtime: (1, 2),
        ctime: (3, 4),
        inode: 5,
    };
    let plan = Plan::new("a-1".into(), "h:x".into(), "/x".into(), version, LEASE_MIN);
    let plan = plan.expect("it is one");
    let of = |lease| records.iter().filter(move |record| record.lease == lease);
    match howdah_lease::finish(&plan, records.iter().cloned()) {
        Ok(finished) => {
            assert_eq!(finished.bytes, version.size);
            let values = [0, 1].map(|lease| of(lease).next().expect("both are moved").blake3);
            assert_eq!(howdah_lease::join(&plan, &values), Some(finished.blake3));
            assert!(records.iter().all(|record| record.plan == "a-1"));
            assert!((0..2).all(|lease| of(lease).all(|r| r.blake3 == values[lease as usize])));
        }
        Err(NotFinished::Missing { count, first }) => {
            assert!(of(first).next().is_none() && (1..=2).contains(&count));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn of_tree(sheets: &[Sheet], records: &[TreeRecord]) {
    let tree = tree();
    let mut cover = Cover::new(&tree);
    let (mut files, mut lacking) = (0, 0);
    for sheet in sheets {
        let of: Vec<_> = records
            .iter()
            .filter(|record| record.lease == sheet.lease)
            .cloned()
            .collect();
        let has_none = of.is_empty();
        let mut here = 0;
        let tell = |found: Found<'_>| match found {
            Found::Small { member, .. } => {
                check_name(&member.name);
                (files, here) = (files + 1, here + 1);
            }
            Found::Large { name, .. } => {
                check_name(name);
                (files, here) = (files + 1, here + 1);
            }
            Found::Lacking { name, .. } => {
                check_name(name);
                lacking += 1;
            }
        };
        if cover.add(sheet, &of, tell).is_err() {
            return;
        }
        assert!(!has_none || here == 0, "nobody has moved it");
    }
    if let Ok(covered) = cover.end() {
        assert_eq!((covered.files, covered.lacking), (files, lacking));
    }
}

pub(crate) fn record_samples() -> Vec<Vec<u8>> {
    let hash = "00".repeat(32);
    let of = |lease: u64, bytes: u64| {
        format!(
            r#"{{"plan":"a-1","lease":{lease},"epoch":1,"bytes":{bytes},"seconds":0.5,"blake3":"{hash}"}}"#
        )
    };
    let here = format!(r#"{{"b":"{hash}","k":[7,[1,2]]}}"#);
    let moved = |lease: u64, bytes: u64, moved: &str| {
        format!(
            r#"{{"plan":"a-1","lease":{lease},"epoch":1,"bytes":{bytes},"seconds":0.5,"moved":[{moved}]}}"#
        )
    };
    let last = RUN.replace("\"lease\":0", "\"lease\":3");
    let tree = [
        RUN.to_owned(),
        PART[0].to_owned(),
        PART[1].to_owned(),
        last.clone(),
        moved(0, 3, &format!(r#"{here},{{"w":"gone"}}"#)),
        moved(1, 1 << 20, &here),
        moved(2, 451_424, &here),
        moved(3, 3, &format!("{here},{here}")),
    ];
    let files = [of(0, 1 << 20), of(1, 7)];
    let all = [files.join("\0"), tree.join("\0"), of(1, 8)];
    all.map(String::into_bytes).to_vec()
}

/// A recording: what is read is written the same, what it says are numbers, and what is replayed of it is a scenario.
pub fn recording(bytes: &[u8]) {
    // Behind the sign, which is hard to find.
    let whole = [&b"HWDFLGHT\x01"[..], bytes].concat();
    for bytes in [bytes, &whole] {
        let Ok(recording) = Recording::decode(bytes) else {
            continue;
        };
        let written = recording.encode();
        assert!(written.len() <= MOST_BYTES && recording.intervals.len() <= MOST_INTERVALS);
        assert_eq!(Recording::decode(&written).as_ref(), Ok(&recording));
        let verdict = recording.verdict();
        let numbers = [
            verdict.seconds,
            verdict.goodput_bps,
            verdict.base_rtt_ms,
            verdict.queue_ms,
            verdict.loss,
            verdict.capacity_bps.unwrap_or_default(),
        ];
        for number in numbers.into_iter().chain(verdict.held_s) {
            assert!(number.is_finite() && number >= 0.0, "{verdict:?}");
        }
        let pairs = recording.intervals.windows(2);
        for pair in pairs {
            let merged = pair[0].merged(&pair[1]);
            assert_eq!(merged.held_us.iter().sum::<u64>(), merged.span_us);
        }
        let Ok(replay) = howdah_lab::replay::Replay::new(&recording) else {
            continue;
        };
        let text = replay.scenario(&[replay.own.to_owned()]);
        if let Err(error) = howdah_lab::scenario::parse(Path::new("fuzz.toml"), &text, false) {
            panic!("{error}\n{text}");
        }
    }
}

pub(crate) fn recording_samples() -> Vec<Vec<u8>> {
    let interval = |delivered_bytes: u64| Interval {
        span_us: 1_000_000,
        delivered_bytes,
        sent_packets: 1_000,
        lost_packets: 10,
        host_drops: 1,
        repeated_bytes: 9_000,
        pacing_bps: 100_000_000,
        capacity_bps: 90_000_000,
        base_rtt_us: 20_000,
        rtt_us: 25_000,
        queue_min_us: 0,
        queue_max_us: 9_000,
        held_us: [0, 0, 1_000_000, 0, 0, 0, 0, 0],
    };
    let recording = Recording {
        facts: Facts {
            recorder: "howdah 0.1.0".to_owned(),
            moved_bytes: 30_000_000,
            datagram_bytes: 1_400,
            header_bytes: 28,
            cores: 2,
            completed: true,
            ..Facts::default()
        },
        intervals: [11_000_000, 8_000_000, 0, 11_000_000]
            .map(interval)
            .to_vec(),
    };
    let bytes = recording.encode();
    vec![bytes[9..].to_vec(), bytes]
}

/// What is asked of a daemon: a byte says which body it is. What is refused is told why; what is taken is written so that it means the same,
/// becomes the words of a command and nothing else, and times of schedules come one after the other.
pub fn daemon(bytes: &[u8]) {
    let Some((which, body)) = bytes.split_first() else {
        return;
    };
    match which % 6 {
        0 => drop(taken(body, Spec::check).map(|spec| {
            let words = spec.command_line();
            assert!(words.ends_with(&spec.arguments));
            let (kind, _) = Kind::of_words(&words).expect("it begins with its kind");
            assert_eq!(kind, spec.kind);
            assert!(spec.means(&spec));
        })),
        1 => drop(taken(body, |spec: &ScheduleSpec| {
            let plan = schedule::Plan::new(spec)?;
            let mut at = 1_700_000_000_000;
            for _ in 0..3 {
                let Some(next) = plan.next(at) else { break };
                assert!(next > at, "{spec:?}: {next} after {at}");
                let decided = schedule::decide(spec, &plan, at, next, false);
                assert!(decided.next.is_none_or(|after| after > next));
                at = next;
            }
            Ok(())
        })),
        2 => drop(taken(body, WatchSpec::check).map(|spec| {
            let list = Path::new("/list");
            if let Ok(job) = spec.job(list) {
                let own = job.arguments.len() - spec.job.arguments.len();
                assert!(own > 0 && job.arguments.last() == spec.job.arguments.last());
            }
        })),
        3 => drop(taken(body, |_: &LimitSpec| Ok(()))),
        4 => drop(taken(body, |_: &HostSpec| Ok(()))),
        _ => {
            let Ok(text) = str::from_utf8(body) else {
                return;
            };
            let now = Timestamp::from_second(1_700_000_000).expect("a time");
            let now = now.to_zoned(TimeZone::UTC);
            if let Ok(ms) = times::by(text, &now) {
                assert!(ms > 1_700_000_000_000, "{text}: {ms}");
            }
        }
    }
}

fn taken<T>(body: &[u8], check: impl Fn(&T) -> Result<(), String>) -> Option<T>
where
    T: serde::Serialize + serde::de::DeserializeOwned,
{
    let spec: T = serde_json::from_slice(body).ok()?;
    let text = serde_json::to_vec(&spec).expect("it is plain data");
    let again: T = serde_json::from_slice(&text).expect("it was written here");
    assert_eq!(serde_json::to_vec(&again).ok(), Some(text));
    match check(&spec) {
        Ok(()) => Some(spec),
        Err(why) => {
            assert!(!why.is_empty());
            None
        }
    }
}

pub(crate) fn daemon_samples() -> Vec<Vec<u8>> {
    let job = r#"{"kind":"cp","arguments":["--limit","1gbit","h:x","/y"],"directory":"/","labels":["a"],"priority":3,"retries":2,"after":[1]}"#;
    let plain = r#"{"kind":"sync","arguments":["a/","h:x"],"directory":"/"}"#;
    let bodies = [
        format!("\0{job}"),
        format!(
            "\u{1}{{\"cron\":\"30 2 * * 1-5\",\"zone\":\"UTC\",\"job\":{plain},\"times\":{{\"by\":\"06:00\",\"deadline_seconds\":9}},\"missed\":\"skip\",\"overlap\":\"allow\"}}"
        ),
        format!("\u{1}{{\"cron\":\"@daily\",\"job\":{plain}}}"),
        format!("\u{1}{{\"cron\":\"*/7 0 L * 5#2\",\"zone\":\"Europe/Berlin\",\"job\":{plain}}}"),
        format!("\u{2}{{\"path\":\"/in\",\"quiet_seconds\":5,\"job\":{plain}}}"),
        "\u{5}06:00".to_owned(),
        "\u{5}8h".to_owned(),
    ];
    bodies.map(String::into_bytes).to_vec()
}
