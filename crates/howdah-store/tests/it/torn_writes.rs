//! F08: the power goes, and the device has kept some of what was not synced: in any order, torn anywhere.
//!
//! A copy runs under strace. Whatever a device can have of it at any moment follows from the calls: all that a
//! completed sync covers, and of everything else any pieces. Such images are drawn by the thousand, and the journal
//! of each must claim no byte that the image lacks.
#![cfg(target_os = "linux")]

use crate::common::trace;
use crate::common::trace::Call;
use crate::common::{Engine, batch, hash, names_in, random_bytes};
use howdah_core::{ByteRange, RangeSet};
use howdah_store::{GROUP, Limits, Sink, SinkOptions, Source, SourceSpec, Target};
use std::fs;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const CHILD_DIR: &str = "HOWDAH_STORE_TORN_DIR";
const MIB: usize = GROUP as usize;
/// Groups of the source; the child stops before the last one.
const GROUPS: usize = 13;
const IMAGES: u64 = 2_000;
/// Groups that are written before the first of them is kept.
const AHEAD: i64 = 2;
const PART: &str = ".howdah-part";
const JOURNAL: &str = ".howdah-journal";

/// A source, and a directory for its copy.
struct Places {
    source: PathBuf,
    there: PathBuf,
}

impl Places {
    fn below(dir: &Path) -> Self {
        Self {
            source: dir.join("source"),
            there: dir.join("there"),
        }
    }

    fn target(&self) -> Target {
        Target::open_local(&self.there.join("file")).unwrap()
    }

    fn sink(&self, engine: &Engine, size: usize) -> Sink {
        let spec = SourceSpec::LocalFile(&self.source);
        let source = Source::open(spec, true, engine.wake()).unwrap();
        let options = SinkOptions {
            size: Some(size as u64),
            source: source.identity(),
            limits: Limits {
                // A claim for each MiB.
                dirty_bytes: GROUP,
                ..Limits::default()
            },
            ..SinkOptions::default()
        };
        Sink::resume(self.target(), &options, engine.wake()).unwrap()
    }

    fn only(&self, suffix: &str) -> PathBuf {
        let names = names_in(&self.there);
        let name = names.iter().find(|name| name.ends_with(suffix));
        self.there.join(name.unwrap())
    }
}

fn write(engine: &Engine, sink: &mut Sink, data: &[u8], group: usize) {
    use blake3::hazmat::HasherExt as _;
    let bytes = &data[group * MIB..data.len().min((group + 1) * MIB)];
    let mut hasher = blake3::Hasher::new();
    hasher.set_input_offset((group * MIB) as u64).update(bytes);
    let value = hasher.finalize_non_root();
    sink.tell_values(group as u64, &[value]).unwrap();
    for at in (0..bytes.len()).step_by(60_000) {
        let len = 60_000.min(bytes.len() - at);
        engine.submit(sink, batch(data, &[(group * MIB + at, len)]));
    }
}

fn wait_until_kept(sink: &Sink, groups: i64) {
    let since = Instant::now();
    while (sink.kept_bytes() as i64) < groups * GROUP as i64
        && since.elapsed() < Duration::from_mins(1)
    {
        std::thread::yield_now();
    }
}

/// Run by [`f08_no_torn_or_reordered_write_is_believed`] under strace; alone it does nothing.
#[test]
fn child_copies_until_its_end() {
    let Ok(dir) = std::env::var(CHILD_DIR) else {
        return;
    };
    let (places, engine) = (Places::below(Path::new(&dir)), Engine::new());
    let data = fs::read(&places.source).unwrap();
    let mut sink = places.sink(&engine, data.len());
    // Not in order, as packets that are sent again.
    for (before, group) in (0..).zip([0, 1, 3, 2, 5, 4, 7, 6, 8, 11, 10, 9]) {
        write(&engine, &mut sink, &data, group);
        // Claims come in the course of all of it, however busy the machine is.
        wait_until_kept(&sink, before - AHEAD);
    }
    wait_until_kept(&sink, GROUPS as i64 - 1);
    println!("KEPT {}", sink.kept_bytes());
    // Nothing is tidied up.
    std::process::exit(0);
}

/// What chance there is, the same each time.
struct Chance(blake3::OutputReader);

impl Chance {
    fn new(seed: u64) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("howdah-store torn writes");
        Self(hasher.update(&seed.to_le_bytes()).finalize_xof())
    }

    fn below(&mut self, end: u64) -> u64 {
        let mut bytes = [0; 8];
        self.0.fill(&mut bytes);
        u64::from_le_bytes(bytes) % end
    }
}

/// When the power goes, and what the device made of the writes until then.
struct Cut {
    /// The number of a line of the trace.
    at: usize,
    /// Bytes that are written together or not at all.
    unit: u64,
    /// Of 4, how many of these are.
    luck: u64,
    chance: Chance,
}

impl Cut {
    fn draw(seed: u64, lines: Range<usize>) -> Self {
        let mut chance = Chance::new(seed);
        Self {
            at: lines.start + chance.below(lines.len() as u64) as usize,
            unit: [512, 4_096, 65_536][chance.below(3) as usize],
            luck: chance.below(5),
            chance,
        }
    }

    /// Which parts of a write are on the device.
    fn pieces(&mut self, is_durable: bool, write: ByteRange) -> Vec<ByteRange> {
        if is_durable {
            return vec![write];
        }
        let first = write.start - write.start % self.unit;
        let units = (first..write.end).step_by(self.unit as usize);
        units
            .map(|unit| ByteRange::new(unit.max(write.start), (unit + self.unit).min(write.end)))
            .filter(|_| self.chance.below(4) < self.luck)
            .collect()
    }
}

/// The calls that concern one file.
struct History<'a> {
    path: Vec<u8>,
    writes: Vec<&'a Call>,
    calls: &'a [Call],
    is_synced: bool,
}

impl<'a> History<'a> {
    /// `is_synced`: if not, a device is played that confirms syncs and does nothing.
    fn of(path: &Path, calls: &'a [Call], is_synced: bool) -> Self {
        let path = path.as_os_str().as_encoded_bytes().to_vec();
        let writes = calls
            .iter()
            .filter(|call| call.name.starts_with("pwrite") && call.path() == path)
            .collect();
        Self {
            path,
            writes,
            calls,
            is_synced,
        }
    }

    fn is_durable(&self, what: &Call, at: usize, path: &[u8]) -> bool {
        self.is_synced
            && self
                .calls
                .iter()
                .any(|sync| sync.syncs(path) && what.ended < sync.began && sync.ended < at)
    }

    /// The pieces on the device, and the write that each is of.
    fn pieces(&self, cut: &mut Cut) -> Vec<(&'a Call, ByteRange)> {
        let mut pieces = Vec::new();
        let at = cut.at;
        for write in self.writes.iter().filter(|write| write.began < at) {
            let range = ByteRange::new(write.offset(), write.offset() + write.result);
            let durable = self.is_durable(write, at, &self.path);
            let of_it = cut.pieces(durable, range);
            pieces.extend(of_it.into_iter().map(|piece| (*write, piece)));
        }
        pieces
    }

    /// Whether the file has its name.
    fn is_named(&self, cut: &mut Cut) -> bool {
        let created = self.calls.iter().find(|call| {
            call.name == "openat" && call.texts().iter().any(|name| self.path.ends_with(name))
        });
        let Some(created) = created.filter(|created| created.began < cut.at) else {
            return false;
        };
        let dir = Path::new(std::str::from_utf8(&self.path).unwrap())
            .parent()
            .unwrap();
        let dir = dir.as_os_str().as_encoded_bytes();
        self.is_durable(created, cut.at, dir) || cut.chance.below(2) == 0
    }
}

/// A device after a cut.
struct Image {
    part: RangeSet,
    /// `None`: one of both files is not there.
    journal: Option<Vec<u8>>,
}

impl Image {
    fn draw(cut: &mut Cut, part: &History<'_>, journal: &History<'_>) -> Self {
        let named = part.is_named(cut) & journal.is_named(cut);
        let mut ranges = RangeSet::new();
        for (_, piece) in part.pieces(cut) {
            ranges.insert(piece);
        }
        let mut bytes = Vec::new();
        for (write, piece) in journal.pieces(cut) {
            let text = write.texts().remove(0);
            assert_eq!(text.len() as u64, write.result, "strace cut it short");
            if bytes.len() < piece.end as usize {
                bytes.resize(piece.end as usize, 0);
            }
            let at = (piece.start - write.offset()) as usize;
            bytes[piece.start as usize..piece.end as usize]
                .copy_from_slice(&text[at..at + piece.len() as usize]);
        }
        // The length can be there before the content.
        if cut.chance.below(2) == 0 {
            let end = bytes.len().next_multiple_of(cut.unit as usize);
            bytes.resize(end, 0);
        }
        Self {
            part: ranges,
            journal: named.then_some(bytes),
        }
    }

    /// The bytes that its journal claims, and the first of its claims that is false.
    fn claims(&self, places: &Places, journal: &Path) -> (u64, Option<ByteRange>) {
        let Some(bytes) = &self.journal else {
            return (0, None);
        };
        fs::write(journal, bytes).unwrap();
        let target = places.target();
        let Some(held) = target.held() else {
            return (0, None);
        };
        let lies = |range: &ByteRange| !self.part.contains(*range);
        (held.ranges.byte_count(), held.ranges.iter().find(lies))
    }
}

#[test]
fn f08_no_torn_or_reordered_write_is_believed() {
    let dir = tempfile::tempdir().unwrap();
    let places = Places::below(dir.path());
    fs::create_dir(&places.there).unwrap();
    let data = random_bytes(GROUPS * MIB - 77);
    fs::write(&places.source, &data).unwrap();
    let log = dir.path().join("trace");
    let variable = (CHILD_DIR, dir.path());
    let Some(output) = trace::run_test("torn_writes::child_copies_until_its_end", variable, &log)
    else {
        return;
    };
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        said.contains(&format!("KEPT {}", (GROUPS - 1) * MIB)),
        "{output:?}"
    );
    let log = fs::read_to_string(log).unwrap();
    let calls = trace::parse(&log);
    let (part, journal) = (places.only(PART), places.only(JOURNAL));
    let whole_journal = fs::read(&journal).unwrap();

    let look = |is_synced| {
        let part_calls = History::of(&part, &calls, is_synced);
        let journal_calls = History::of(&journal, &calls, true);
        assert!(part_calls.writes.len() >= GROUPS - 1);
        assert!(journal_calls.writes.len() >= 4, "several claims");
        let lines = part_calls.writes[0].began..log.lines().count() + 1;
        let mut images = Vec::new();
        for seed in 0..IMAGES {
            let mut cut = Cut::draw(seed, lines.clone());
            let image = Image::draw(&mut cut, &part_calls, &journal_calls);
            let (claimed, lie) = image.claims(&places, &journal);
            images.push((seed, image, claimed, lie));
        }
        images
    };
    let images = look(true);
    for (seed, image, _, lie) in &images {
        assert_eq!(*lie, None, "image {seed}: it has {:?}", image.part);
    }
    let claiming = images
        .iter()
        .filter(|(_, _, claimed, _)| *claimed > 0)
        .count();
    println!("{claiming} of {IMAGES} images claim something, all of it is there");
    assert!(claiming as u64 > IMAGES / 4);
    // A device that lies is found out by this test, so it looks at what matters.
    let lies = look(false)
        .iter()
        .filter(|(_, _, _, lie)| lie.is_some())
        .count();
    println!("{lies} would claim what is not there, if syncs did nothing");
    assert!(lies as u64 > IMAGES / 8);

    // From some of them the copy goes on to its end.
    let engine = Engine::new();
    for (seed, image, claimed, _) in images
        .iter()
        .filter(|(_, _, claimed, _)| *claimed > 0)
        .step_by(100)
    {
        // What was not written is not even zero.
        let mut bytes = vec![0xA5; data.len()];
        for range in image.part.iter() {
            let range = range.start as usize..range.end as usize;
            bytes[range.clone()].copy_from_slice(&data[range]);
        }
        let file = fs::File::options().write(true).open(&part).unwrap();
        file.write_all_at(&bytes, 0).unwrap();
        drop(file);
        fs::write(&journal, image.journal.as_ref().unwrap_or(&whole_journal)).unwrap();
        // The threads of the copy before hold the lock for a moment longer than it takes.
        while places.target().is_being_written() {
            std::thread::yield_now();
        }
        let mut sink = places.sink(&engine, data.len());
        let held = sink.held();
        assert_eq!(held.byte_count(), *claimed, "image {seed}");
        for group in 0..GROUPS {
            let start = (group * MIB) as u64;
            if !held.contains(ByteRange::new(start, start + 1)) {
                write(&engine, &mut sink, &data, group);
            }
        }
        sink.finish(data.len() as u64, None);
        let outcome = engine.outcome(&mut sink).unwrap();
        assert_eq!(outcome.hash, Some(hash(&data)), "image {seed}");
        let target = places.there.join("file");
        assert!(fs::read(&target).unwrap() == data, "image {seed}");
        // The same file is the unfinished one again, as the journal names it.
        fs::rename(&target, &part).unwrap();
        restore(&journal, &whole_journal);
    }
}

/// A journal that only its owner can change.
fn restore(path: &Path, bytes: &[u8]) {
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut options = fs::File::options();
    let file = options.write(true).create_new(true).mode(0o600).open(path);
    file.unwrap().write_all_at(bytes, 0).unwrap();
}
