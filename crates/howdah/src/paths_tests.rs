use super::*;
use std::os::unix::fs::{PermissionsExt as _, symlink};

const LEARNT: PathKnowledge = PathKnowledge {
    capacity: Rate::from_gbit_per_sec(9),
    rtt: Span::from_millis(100),
    loss: 0.01,
    age: Span::ZERO,
    datagram_bytes: 8_972,
};

#[test]
fn state_lies_beside_the_keys_also_where_that_is_said_from_here() {
    let with = |set: &[(&str, &str)]| {
        state_dir_from(|name| set.iter().find(|(n, _)| *n == name).map(|(_, v)| v.into()))
    };
    let home = ("HOME", "/home/a");
    let here = std::env::current_dir().unwrap();
    for (set, want) in [
        (&[home][..], "/home/a/.local/state/howdah".into()),
        (
            &[home, ("XDG_STATE_HOME", "/x")],
            PathBuf::from("/x/howdah"),
        ),
        (
            &[home, ("XDG_STATE_HOME", "x")],
            "/home/a/.local/state/howdah".into(),
        ),
        (&[home, ("HOWDAH_CONFIG_DIR", "/k")], "/k".into()),
        (&[home, ("HOWDAH_CONFIG_DIR", "k")], here.join("k")),
    ] {
        assert_eq!(with(set), Some(want), "{set:?}");
    }
}

fn memory() -> (tempfile::TempDir, PathMemory) {
    let dir = tempfile::tempdir().unwrap();
    let memory = PathMemory::new(dir.path().join("state/paths"));
    (dir, memory)
}

fn peer(n: u8) -> SocketAddr {
    ([127, 0, 0, n], 4_433).into()
}

/// Seconds may have passed.
fn just_now(known: PathKnowledge) -> PathKnowledge {
    assert!(known.age < Span::from_secs(600), "{known:?}");
    PathKnowledge {
        age: Span::ZERO,
        ..known
    }
}

fn recalled(memory: &PathMemory, n: u8) -> Option<PathKnowledge> {
    memory.recall(peer(n)).map(just_now)
}

#[test]
fn how_old_it_is_is_known() {
    let text = "howdah-path 1\npeer 10.0.0.2\nfrom 10.0.0.1\ncapacity_bps 1000000000\nrtt_us 20000\nloss_ppm 0\nat 1000000\n";
    let now = UNIX_EPOCH + Duration::from_secs(1_000_000 + 7_200);
    let found = parse(text, now).unwrap();
    assert_eq!(found.knowledge.age, Span::from_secs(7_200));
    assert_eq!(found.age, Duration::from_hours(2));
    // A file of before the size was remembered.
    assert_eq!(found.knowledge.datagram_bytes, 0);
}

fn only_file(memory: &PathMemory) -> PathBuf {
    let mut files = fs::read_dir(memory.dir()).unwrap();
    let file = files.next().unwrap().unwrap().path();
    assert!(files.next().is_none());
    file
}

#[test]
fn what_is_remembered_is_recalled_and_private() {
    let (_dir, memory) = memory();
    assert_eq!(memory.recall(peer(1)), None);
    assert!(!memory.dir().exists(), "who asks leaves nothing behind");
    memory.remember(peer(1), &LEARNT);
    assert_eq!(recalled(&memory, 1), Some(LEARNT));
    assert_eq!(memory.recall(peer(2)), None);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(
        (mode(memory.dir()), mode(&only_file(&memory))),
        (0o700, 0o600)
    );
    let all = memory.all();
    assert_eq!((all.len(), just_now(all[0].knowledge)), (1, LEARNT));
    // The next one takes its place.
    let slower = PathKnowledge {
        capacity: Rate::from_gbit_per_sec(1),
        ..LEARNT
    };
    memory.remember(peer(1), &slower);
    assert_eq!(recalled(&memory, 1), Some(slower));
    only_file(&memory);
    // Nonsense does not.
    let nonsense = PathKnowledge {
        capacity: Rate::ZERO,
        ..LEARNT
    };
    memory.remember(peer(1), &nonsense);
    assert_eq!(recalled(&memory, 1), Some(slower));
}

#[test]
fn what_is_damaged_or_not_ones_own_is_as_if_it_were_not_there() {
    let (dir, memory) = memory();
    memory.remember(peer(1), &LEARNT);
    let file = only_file(&memory);
    let good = fs::read_to_string(&file).unwrap();
    for length in 0..good.len() {
        fs::write(&file, &good[..length]).unwrap();
        assert_eq!(memory.recall(peer(1)), None, "{length} bytes");
    }
    let mut bad = vec![
        good.replace("howdah-path 1", "howdah-path 2"),
        good.replace("9000000000", "9000000000000000"),
        good.replace("9000000000", "99999999999999999999999"),
        good.replace("9000000000", "-9"),
        good.replace("rtt_us 100000", "rtt_us 18446744073709551615"),
        good.replace("loss_ppm 10000", "loss_ppm 900000"),
        good.replace("peer 127.0.0.1", "peer 127.0.0.9"),
        "\0".repeat(1_000_000),
        good.clone() + &" ".repeat(2_000),
    ];
    for at in ["0", "99999999999", "18446744073709551615"] {
        let line = good.lines().last().unwrap();
        bad.push(good.replace(line, &format!("at {at}")));
    }
    for text in bad {
        fs::write(&file, &text).unwrap();
        assert_eq!(memory.recall(peer(1)), None, "{text:.200}");
    }
    fs::write(&file, [0xff; 40]).unwrap();
    assert_eq!(memory.recall(peer(1)), None);
    // Others could have written it.
    fs::write(&file, &good).unwrap();
    assert_eq!(recalled(&memory, 1), Some(LEARNT));
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    assert_eq!(memory.recall(peer(1)), None);
    let elsewhere = dir.path().join("elsewhere");
    fs::rename(&file, &elsewhere).unwrap();
    fs::set_permissions(&elsewhere, fs::Permissions::from_mode(0o600)).unwrap();
    symlink(&elsewhere, &file).unwrap();
    assert_eq!(memory.recall(peer(1)), None);
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    memory.remember(peer(1), &LEARNT);
    assert_eq!(memory.recall(peer(1)), None);
    assert_eq!(
        fs::read_dir(memory.dir()).unwrap().count(),
        1,
        "nothing is left behind"
    );
    // A directory that cannot be made is no fault of the transfer.
    fs::write(dir.path().join("file"), "").unwrap();
    PathMemory::new(dir.path().join("file/paths")).remember(peer(1), &LEARNT);
}

#[test]
fn the_oldest_go_when_there_are_too_many() {
    let (_dir, memory) = memory();
    let from = IpAddr::from([127, 0, 0, 1]);
    for n in 0..ENTRIES as u32 + 20 {
        let peer = IpAddr::from((0x0a00_0000 + n).to_be_bytes());
        memory.write(from, peer, &LEARNT).unwrap();
    }
    assert_eq!(memory.all().len(), ENTRIES);
    let sizes = fs::read_dir(memory.dir()).unwrap();
    assert!(
        sizes
            .flatten()
            .all(|entry| entry.metadata().unwrap().len() <= ENTRY_BYTES)
    );
}

#[test]
fn two_at_a_time_leave_one_whole_entry() {
    let (_dir, memory) = memory();
    std::thread::scope(|scope| {
        for n in 1..=4_u8 {
            let memory = &memory;
            scope.spawn(move || {
                for _ in 0..50 {
                    memory.remember(peer(n % 2 + 1), &LEARNT);
                    assert!(
                        memory
                            .all()
                            .iter()
                            .all(|path| just_now(path.knowledge) == LEARNT)
                    );
                }
            });
        }
    });
    assert_eq!(memory.all().len(), 2);
    assert_eq!(fs::read_dir(memory.dir()).unwrap().count(), 2);
}
