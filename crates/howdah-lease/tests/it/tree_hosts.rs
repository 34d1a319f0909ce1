//! Hosts that move the small files of a tree, and die, stall, come back and run leases twice; files that change, also so that size and
//! time do not show it; records that are torn: whatever happens, each file of the tree is one that the records tell of, or there is no
//! tree. What is done for ranges of large files is in `hosts.rs`.
//!
//! A seed that fails is printed and brings the failure back: `HOWDAH_SEED=17`. `HOWDAH_SEEDS=1000000` tries more.

use howdah_lease::{
    Cover, Cutter, Fetched, Found, LEASE_MIN, Member, Name, RunAction, RunMover, Share, Sheet,
    TreeOrder, TreePlan, TreeRecord, Value,
};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};
use std::collections::BTreeMap;

/// Of each lease.
const FILES: usize = 3;
const LEASES: usize = 2;
const ALL: usize = LEASES * FILES;
const SIZE: u64 = 300_000;

/// What is done wrong, to see that it is found.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Wrong {
    Nothing,
    /// Whatever was fetched gets its name.
    TakesAnyVersion,
    /// Names are not durable when the record appears.
    NeverSyncs,
    /// Who finishes believes that what has a name is what a record tells of.
    NeverLooks,
}

/// A file, somewhere: what is in it, and when it says that it was modified.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Content {
    version: u64,
    mtime: i64,
}

const PLANNED: Content = Content {
    version: 0,
    mtime: 7,
};

fn value(file: usize, version: u64) -> Value {
    *blake3::hash(format!("{file} {version}").as_bytes()).as_bytes()
}

struct Host {
    mover: RunMover,
    lease: usize,
    epoch: u64,
    /// Numbers of the files that it has fetched.
    fetched: Vec<usize>,
    /// Names that it gave and that are not durable: whose, the number of the file, and what had them before.
    unsynced: Vec<(usize, usize, Option<usize>)>,
    /// How many of those that it was told to place have their names.
    placed: usize,
    stalled: u64,
}

struct World {
    random: ChaCha8Rng,
    wrong: Wrong,
    plan: TreePlan,
    sheets: Vec<Sheet>,
    source: [Content; ALL],
    may_change: bool,
    /// May be written to without that it shows.
    may_lie: bool,
    /// All files that any host has made, by their numbers.
    disk: Vec<Content>,
    tree: [Option<usize>; ALL],
    claims: BTreeMap<usize, u64>,
    records: BTreeMap<(usize, u64), Vec<u8>>,
    hosts: Vec<Host>,
    /// What the list says that came with the tree's name.
    published: Option<Vec<Value>>,
}

fn tree() -> (TreePlan, Vec<Sheet>) {
    let order = TreeOrder {
        id: "p".into(),
        source: "s".into(),
        destination: "d".into(),
        lease_bytes: LEASE_MIN,
        archive: true,
        permissions: false,
    };
    let mut cutter = Cutter::new(order).unwrap();
    let mut sheets = Vec::new();
    for number in 0..ALL {
        let name = Name::new(format!("{number}")).unwrap();
        // One that fills the first lease.
        let size = match number {
            0 => LEASE_MIN - (FILES as u64 - 1) * SIZE,
            _ => SIZE,
        };
        let mtime = (PLANNED.mtime, 0);
        sheets.extend(cutter.small(Member { name, size, mtime }).unwrap());
    }
    sheets.extend(cutter.close().unwrap());
    assert_eq!(sheets.len(), LEASES);
    (cutter.end(), sheets)
}

fn members(sheet: &Sheet) -> &[Member] {
    match &sheet.share {
        Share::Run(members) => members,
        Share::Part { .. } => &[],
    }
}

impl World {
    fn new(seed: u64, wrong: Wrong, (plan, sheets): &(TreePlan, Vec<Sheet>)) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let may_change = random.next_u64().is_multiple_of(4);
        let may_lie = random.next_u64().is_multiple_of(4);
        Self {
            random,
            wrong,
            plan: plan.clone(),
            sheets: sheets.clone(),
            source: [PLANNED; ALL],
            may_change,
            may_lie,
            disk: Vec::new(),
            tree: [None; ALL],
            claims: BTreeMap::new(),
            records: BTreeMap::new(),
            hosts: Vec::new(),
            published: None,
        }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random.next_u64() % bound
    }

    fn one_in(&mut self, bound: u64) -> bool {
        self.below(bound) == 0
    }

    fn whole_record(&self, lease: usize) -> bool {
        let of_lease = self.records.range((lease, 0)..(lease + 1, 0));
        let mut decoded = of_lease.filter_map(|(_, text)| TreeRecord::decode(text).ok());
        decoded.any(|record| record.is_complete())
    }

    /// The scheduler runs a lease: in a new epoch, or, as it lost count, in one that runs already. One that was moved is left as it is.
    fn start(&mut self, lease: usize) {
        if self.whole_record(lease) {
            return;
        }
        let claimed = self.claims.get(&lease).copied().unwrap_or(0);
        let epoch = claimed + u64::from(claimed == 0 || !self.one_in(5));
        let sheet = self.sheets[lease].clone();
        self.hosts.push(Host {
            mover: RunMover::new(&self.plan, sheet, epoch).unwrap(),
            lease,
            epoch,
            fetched: Vec::new(),
            unsynced: Vec::new(),
            placed: 0,
            stalled: 0,
        });
    }

    /// One thing that one host does; whether it goes on.
    fn step(&mut self, host: &mut Host) -> bool {
        let first = host.lease * FILES;
        match host.mover.action() {
            RunAction::Claim => {
                let claim = self.claims.entry(host.lease).or_default();
                *claim = host.epoch.max(*claim);
                host.mover.on_claimed();
            }
            RunAction::Fetch => {
                if host.fetched.len() < FILES {
                    let found = self.source[first + host.fetched.len()];
                    host.fetched.push(self.disk.len());
                    self.disk.push(found);
                    return true;
                }
                let came = members(&self.sheets[host.lease]).iter().enumerate();
                let came = came.map(|(index, member)| {
                    let inode = host.fetched[index];
                    let found = self.disk[inode];
                    let mtime = match self.wrong {
                        Wrong::TakesAnyVersion => PLANNED.mtime,
                        _ => found.mtime,
                    };
                    Fetched::File {
                        size: member.size,
                        mtime: (mtime, 0),
                        blake3: value(first + index, found.version),
                    }
                });
                host.mover.on_fetched(came.collect::<Vec<_>>(), 1.0);
            }
            RunAction::Look => {
                let highest = self.claims[&host.lease];
                return self.published.is_none() && host.mover.on_highest(highest).is_ok();
            }
            RunAction::Place(range) => {
                // Its place is gone.
                if self.published.is_some() {
                    return false;
                }
                // One after the other: it may die or stall between any two.
                let index = range.start + host.placed;
                if index < range.end {
                    host.placed += 1;
                    if host.mover.is_placed(index) {
                        let (file, inode) = (first + index, host.fetched[index]);
                        host.unsynced.push((file, inode, self.tree[file]));
                        self.tree[file] = Some(inode);
                        host.mover.on_named(index, (inode as u64, (0, 0)));
                    }
                    return true;
                }
                host.placed = 0;
                host.mover.on_placed();
            }
            RunAction::Sync => {
                if self.wrong != Wrong::NeverSyncs {
                    host.unsynced.clear();
                }
                host.mover.on_synced();
            }
            RunAction::Publish(record) => {
                let text = record.encode().into_bytes();
                self.records.insert((host.lease, host.epoch), text);
                host.mover.on_published();
            }
            RunAction::Done => return false,
        }
        true
    }

    /// The host dies, and with it names that were not durable; a record that it was publishing may be cut.
    fn die(&mut self, host: Host) {
        for (file, inode, before) in host.unsynced {
            if self.tree[file] == Some(inode) && self.published.is_none() && self.one_in(2) {
                self.tree[file] = before;
            }
        }
        if let RunAction::Publish(record) = host.mover.action()
            && self.one_in(2)
        {
            let mut text = record.encode().into_bytes();
            let end = self.below(text.len() as u64) as usize;
            text.truncate(end);
            self.records.insert((host.lease, host.epoch), text);
        }
    }

    /// Somebody tries to finish; whether the tree has its name then.
    fn finish(&mut self) -> bool {
        if self.published.is_some() {
            return true;
        }
        let mut cover = Cover::new(&self.plan);
        let (mut is_so, mut list) = (true, Vec::new());
        for (lease, sheet) in self.sheets.iter().enumerate() {
            let of_lease = self.records.range((lease, 0)..(lease + 1, 0));
            let records: Vec<_> = of_lease
                .filter_map(|(_, text)| TreeRecord::decode(text).ok())
                .collect();
            let mut index = lease * FILES;
            let told = cover.add(sheet, &records, |found| {
                let file = index;
                index += 1;
                let Found::Small { blake3, marks, .. } = found else {
                    is_so = false;
                    return;
                };
                // What no record tells of in this place is read, and may be equal all the same.
                let is_it = self.tree[file].is_some_and(|inode| {
                    self.wrong == Wrong::NeverLooks
                        || marks.contains(&(inode as u64, (0, 0)))
                        || value(file, self.disk[inode].version) == blake3
                });
                is_so &= is_it;
                list.push(blake3);
            });
            if told.is_err() {
                return false;
            }
        }
        let Ok(covered) = cover.end() else {
            return false;
        };
        if !is_so || covered.lacking > 0 {
            return false;
        }
        assert_eq!(covered.files, ALL as u64);
        self.published = Some(list);
        true
    }

    /// Whether each file is the one that the list has, and nothing but the planned ones is in it unless nobody could tell.
    fn is_right(&self) -> bool {
        let Some(list) = &self.published else {
            return true;
        };
        (0..ALL).all(|file| {
            let Some(found) = self.tree[file].map(|inode| self.disk[inode]) else {
                return false;
            };
            let is_planned = found == PLANNED || self.may_lie && found.mtime == PLANNED.mtime;
            list.get(file) == Some(&value(file, found.version)) && is_planned
        })
    }

    fn change(&mut self) {
        let file = self.below(ALL as u64) as usize;
        let lies = self.may_lie && (!self.may_change || self.one_in(2));
        if !lies && !self.may_change {
            return;
        }
        let is = &mut self.source[file];
        is.version += 1;
        is.mtime += i64::from(!lies);
    }

    fn run(mut self) -> bool {
        for _ in 0..300 {
            if self.hosts.len() < 4 && self.one_in(4) {
                let lease = self.below(LEASES as u64) as usize;
                self.start(lease);
            }
            if self.one_in(40) {
                self.change();
            }
            if self.one_in(20) {
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
        // Those that stalled come back, whatever has become of the tree.
        for mut host in std::mem::take(&mut self.hosts) {
            while self.step(&mut host) {}
            self.die(host);
        }
        // If nothing has changed, whoever runs what is missing can finish.
        if self.source == [PLANNED; ALL] && self.published.is_none() {
            for lease in 0..LEASES {
                self.claims.entry(lease).and_modify(|epoch| *epoch += 1);
                self.start(lease);
                while let Some(mut host) = self.hosts.pop() {
                    while self.step(&mut host) {}
                    self.die(host);
                }
            }
            if !self.finish() {
                return false;
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
fn each_file_is_one_that_the_records_tell_of_or_there_is_no_tree() {
    let (from, count) = match number("HOWDAH_SEED") {
        Some(seed) => (seed, 1),
        None => (0, number("HOWDAH_SEEDS").unwrap_or(3_000)),
    };
    let tree = tree();
    for seed in from..from + count {
        let right = std::panic::catch_unwind(|| World::new(seed, Wrong::Nothing, &tree).run());
        assert!(matches!(right, Ok(true)), "HOWDAH_SEED={seed}");
    }
}

/// The model is one in which these would matter.
#[test]
fn what_is_done_wrong_is_found() {
    let tree = tree();
    for wrong in [Wrong::TakesAnyVersion, Wrong::NeverSyncs, Wrong::NeverLooks] {
        let found = (0..3_000).any(|seed| !World::new(seed, wrong, &tree).run());
        assert!(found, "{wrong:?} goes unseen");
    }
}
