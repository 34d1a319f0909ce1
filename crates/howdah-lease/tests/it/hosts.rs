//! Hosts that die, stall, come back and run leases twice, a source that changes, records that are torn: whatever happens, the file is
//! the planned one or absent.
//!
//! A seed that fails is printed and brings the failure back: `HOWDAH_SEED=17`. `HOWDAH_SEEDS=1000000` tries more.

use howdah_lease::{Action, Mover, Plan, Record, Value, Version, finish, join};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};
use std::collections::BTreeMap;

/// What a mover writes between two looks, in bytes: one block of this model.
const BLOCK: u64 = 64 << 20;
const LEASE: u64 = 2 * BLOCK;
const LEASES: u64 = 3;
/// A block that nobody wrote.
const NOTHING: u64 = u64::MAX;

/// What is done wrong, to see that it is found.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Wrong {
    Nothing,
    /// Whatever was fetched is written.
    TakesAnyVersion,
    /// Records appear before the bytes are durable.
    NeverSyncs,
}

fn version(number: u64) -> Version {
    Version {
        size: LEASES * LEASE - 1,
        mtime: (7, 0),
        ctime: (number as i64, 0),
        inode: 1,
    }
}

fn value(lease: u64, blocks: &[u64]) -> Value {
    *blake3::hash(format!("{lease} {blocks:?}").as_bytes()).as_bytes()
}

/// A host that runs one lease.
struct Host {
    mover: Mover,
    lease: u64,
    epoch: u64,
    /// While it fetches: the version before, and what it has read.
    fetching: Option<(u64, Vec<u64>)>,
    fetched: Vec<u64>,
    /// Written and not durable.
    unsynced: BTreeMap<usize, u64>,
    /// It does nothing for so many turns.
    stalled: u64,
}

struct World {
    random: ChaCha8Rng,
    wrong: Wrong,
    plan: Plan,
    source: u64,
    may_change: bool,
    /// The unfinished file, as it would be after a crash of all hosts.
    part: Vec<u64>,
    claims: BTreeMap<u64, u64>,
    records: BTreeMap<(u64, u64), Vec<u8>>,
    hosts: Vec<Host>,
    /// It has its name. What is still written to it is written to the file.
    published: bool,
}

impl World {
    fn new(seed: u64, wrong: Wrong) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let may_change = random.next_u64().is_multiple_of(4);
        let plan = Plan::new("p".into(), "s".into(), "d".into(), version(0), LEASE);
        let plan = plan.unwrap();
        Self {
            random,
            wrong,
            plan,
            source: 0,
            may_change,
            part: vec![NOTHING; (2 * LEASES) as usize],
            claims: BTreeMap::new(),
            records: BTreeMap::new(),
            hosts: Vec::new(),
            published: false,
        }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random.next_u64() % bound
    }

    fn one_in(&mut self, bound: u64) -> bool {
        self.below(bound) == 0
    }

    /// The scheduler runs a lease: in a new epoch, or, as it lost count, in one that runs already.
    fn start(&mut self, lease: u64) {
        let claimed = self.claims.get(&lease).copied().unwrap_or(0);
        let epoch = claimed + u64::from(claimed == 0 || !self.one_in(5));
        let mover = Mover::new(&self.plan, self.plan.lease(lease).unwrap(), epoch);
        self.hosts.push(Host {
            mover,
            lease,
            epoch,
            fetching: None,
            fetched: Vec::new(),
            unsynced: BTreeMap::new(),
            stalled: 0,
        });
    }

    /// One thing that one host does; whether it goes on.
    fn step(&mut self, host: &mut Host) -> bool {
        match host.mover.action() {
            Action::Claim => {
                let claim = self.claims.entry(host.lease).or_default();
                *claim = host.epoch.max(*claim);
                host.mover.on_claimed();
            }
            Action::Fetch(_) => {
                let (before, mut read) = host.fetching.take().unwrap_or((self.source, Vec::new()));
                if read.len() < 2 {
                    read.push(self.source);
                    host.fetching = Some((before, read));
                    return true;
                }
                host.fetched = read;
                let mut seen = [version(before), version(self.source)];
                if self.wrong == Wrong::TakesAnyVersion {
                    seen = [version(0); 2];
                }
                let value = value(host.lease, &host.fetched);
                return host.mover.on_fetched(value, 1.0, seen).is_ok();
            }
            Action::Look => return host.mover.on_highest(self.claims[&host.lease]).is_ok(),
            Action::Write(range) => {
                let block = (range.start / BLOCK) as usize;
                host.unsynced.insert(block, host.fetched[block % 2]);
                host.mover.on_written();
            }
            Action::Sync => {
                if self.wrong != Wrong::NeverSyncs {
                    for (block, version) in std::mem::take(&mut host.unsynced) {
                        self.part[block] = version;
                    }
                }
                host.mover.on_synced();
            }
            Action::Publish(record) => {
                let text = record.encode().into_bytes();
                self.records.insert((host.lease, host.epoch), text);
                host.mover.on_published();
            }
            Action::Done => return false,
        }
        true
    }

    /// The host dies: some of what it had not synced is on the disk, and a record that it was publishing may be cut.
    fn die(&mut self, host: Host) {
        for (block, version) in host.unsynced {
            if self.one_in(2) {
                self.part[block] = version;
            }
        }
        if let Action::Publish(record) = host.mover.action()
            && self.one_in(2)
        {
            let mut text = record.encode().into_bytes();
            let end = self.below(text.len() as u64) as usize;
            text.truncate(end);
            self.records.insert((host.lease, host.epoch), text);
        }
    }

    /// Somebody tries to finish; whether the file has its name then.
    fn finish(&mut self) -> bool {
        let records = self
            .records
            .values()
            .filter_map(|text| Record::decode(text).ok());
        let Ok(finished) = finish(&self.plan, records) else {
            return self.published;
        };
        let values: Vec<_> = (0..LEASES).map(|lease| value(lease, &[0, 0])).collect();
        let planned = join(&self.plan, &values);
        if self.wrong == Wrong::Nothing {
            assert_eq!(Some(finished.blake3), planned, "the hash of another file");
        }
        self.published = true;
        true
    }

    /// Whether what has the name is the planned file, or nothing has it.
    fn is_right(&self) -> bool {
        !self.published || self.part.iter().all(|version| *version == 0)
    }

    fn run(mut self) -> bool {
        for _ in 0..400 {
            if self.hosts.len() < 4 && self.one_in(4) {
                let lease = self.below(LEASES);
                self.start(lease);
            }
            if self.may_change && self.one_in(60) {
                self.source += 1;
            }
            if self.one_in(10) {
                self.finish();
            }
            if !self.is_right() {
                return false;
            }
            if self.hosts.is_empty() {
                continue;
            }
            let which = self.below(self.hosts.len() as u64) as usize;
            let mut host = self.hosts.swap_remove(which);
            if self.one_in(25) {
                self.die(host);
                continue;
            }
            if self.one_in(15) {
                host.stalled = self.below(100);
            }
            host.stalled = host.stalled.saturating_sub(1);
            if host.stalled > 0 || self.step(&mut host) {
                self.hosts.push(host);
            }
        }
        // Those that stalled come back, whatever has become of the file.
        for mut host in std::mem::take(&mut self.hosts) {
            while self.step(&mut host) {}
            self.die(host);
        }
        // If the source is still the planned one, whoever runs what is missing can finish.
        if self.source == 0 {
            for lease in 0..LEASES {
                self.claims.entry(lease).and_modify(|epoch| *epoch += 1);
                self.start(lease);
                let mut host = self.hosts.pop().unwrap();
                while self.step(&mut host) {}
                self.die(host);
            }
            if self.wrong == Wrong::Nothing {
                assert!(self.finish(), "it can be finished, and is not");
            }
        }
        self.finish();
        self.is_right()
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

#[test]
fn the_file_is_equal_or_absent() {
    let (from, count) = match number("HOWDAH_SEED") {
        Some(seed) => (seed, 1),
        None => (0, number("HOWDAH_SEEDS").unwrap_or(3_000)),
    };
    for seed in from..from + count {
        let right = std::panic::catch_unwind(|| World::new(seed, Wrong::Nothing).run());
        assert!(matches!(right, Ok(true)), "HOWDAH_SEED={seed}");
    }
}

/// The model is one in which these would matter.
#[test]
fn what_is_done_wrong_is_found() {
    for wrong in [Wrong::TakesAnyVersion, Wrong::NeverSyncs] {
        let found = (0..2_000)
            .filter(|seed| !World::new(*seed, wrong).run())
            .count();
        assert!(found > 0, "{wrong:?} goes unseen");
    }
}
