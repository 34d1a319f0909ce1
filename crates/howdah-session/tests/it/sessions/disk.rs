//! A disk and a file as a model: the content of a file is a number for each group, and what is not synced dies with its host.

use howdah_core::{ByteRange, RangeSet};
use howdah_session::SourceIdentity;
use howdah_session::resume::{GROUP, MAX_VALUES, runs};
use howdah_session::transfer::{End, resumable};
use std::collections::{BTreeMap, BTreeSet};

/// A number for each group; [`HOLE`] is a hole.
pub(crate) type Content = Vec<u64>;
/// A group that is nothing but zeros.
pub(crate) const HOLE: u64 = 0;
/// A group that was never written, or was lost.
pub(crate) const GARBAGE: u64 = u64::MAX;

/// Bytes of an object of so many groups, of which the last one is short.
pub(crate) fn size(groups: usize) -> u64 {
    (groups as u64 - 1) * GROUP + 5
}

/// What a group hashes to.
pub(crate) fn value(index: u64, number: u64) -> [u8; 32] {
    *blake3::hash(&[index.to_be_bytes(), number.to_be_bytes()].concat()).as_bytes()
}

/// What all of it hashes to.
pub(crate) fn root(content: &[u64]) -> [u8; 32] {
    let values = (0..)
        .zip(content)
        .map(|(index, number)| value(index, *number));
    *blake3::hash(&values.collect::<Vec<_>>().concat()).as_bytes()
}

fn groups_of(ranges: &RangeSet) -> BTreeSet<u64> {
    let each = ranges
        .iter()
        .flat_map(|range| range.start / GROUP..range.end / GROUP);
    each.collect()
}

fn ranges_of(groups: impl IntoIterator<Item = u64>) -> RangeSet {
    let mut ranges = RangeSet::new();
    for group in groups {
        ranges.insert(ByteRange::with_len(group * GROUP, GROUP));
    }
    ranges
}

/// The file at the sender, in all its versions.
#[derive(Clone, Debug)]
pub(crate) struct File {
    pub(crate) versions: Vec<Content>,
    pub(crate) mtime: i64,
}

impl File {
    pub(crate) fn identity(&self) -> SourceIdentity {
        let now = self.versions.len() - 1;
        SourceIdentity {
            size: size(self.versions[now].len()),
            mtime: (self.mtime, 0),
            ctime: (now as i64, 0),
            inode: 1,
        }
    }
}

/// Reads one version of a file, ahead of what is sent.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) identity: SourceIdentity,
    pub(crate) content: Content,
    /// Whether anybody says which file it is.
    pub(crate) is_file: bool,
    skipped: BTreeSet<u64>,
    sent: BTreeSet<u64>,
    told: BTreeSet<u64>,
}

impl Source {
    pub(crate) fn open(file: &File, is_file: bool) -> Self {
        Self {
            identity: file.identity(),
            content: file.versions.last().cloned().unwrap_or_default(),
            is_file,
            skipped: BTreeSet::new(),
            sent: BTreeSet::new(),
            told: BTreeSet::new(),
        }
    }

    pub(crate) fn groups(&self) -> u64 {
        self.content.len() as u64
    }

    /// Whole groups that are holes.
    pub(crate) fn holes(&self) -> Option<RangeSet> {
        let whole = (0..self.groups() - 1).filter(|group| self.content[*group as usize] == HOLE);
        let holes = ranges_of(whole);
        (self.is_file && !holes.is_empty()).then_some(holes)
    }

    pub(crate) fn skip(&mut self, held: &RangeSet) {
        self.skipped.extend(groups_of(held));
    }

    /// A group that is to be sent before `end`, and its number.
    pub(crate) fn next(&mut self, end: u64) -> Option<(u64, u64)> {
        let due = |group: &u64| !self.sent.contains(group) && !self.skipped.contains(group);
        let group = (0..self.groups().min(end)).find(due)?;
        self.sent.insert(group);
        Some((group, self.content[group as usize]))
    }

    pub(crate) fn all_sent(&self) -> bool {
        let done = |group| self.sent.contains(&group) || self.skipped.contains(&group);
        (0..self.groups()).all(done)
    }

    /// Values of groups that were read and are not told.
    pub(crate) fn take_values(&mut self) -> Vec<(u64, Vec<[u8; 32]>)> {
        let (sent, told) = (&self.sent, &self.told);
        let holes = self
            .holes()
            .map(|holes| groups_of(&holes))
            .unwrap_or_default();
        let due = sent
            .iter()
            .chain(&holes)
            .filter(|group| !told.contains(group));
        let due: BTreeSet<u64> = due.copied().take(MAX_VALUES).collect();
        let values: Vec<_> = due
            .iter()
            .map(|group| (*group, value(*group, self.content[*group as usize])))
            .collect();
        self.told.extend(due);
        runs(&values).collect()
    }

    /// Where it ends, if it is still what it was; what was left out of it is not hashed.
    pub(crate) fn finish(&self, file: &File, held: u64) -> Option<End> {
        let is_same = file.identity() == self.identity;
        is_same.then(|| End {
            size: self.identity.size,
            blake3: (held == 0).then(|| root(&self.content)),
        })
    }
}

/// An unfinished file, and the journal beside it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Part {
    source: Option<SourceIdentity>,
    synced: BTreeMap<u64, u64>,
    unsynced: BTreeMap<u64, u64>,
    /// Groups that the journal claims, each synced and of the value that was told.
    claimed: BTreeSet<u64>,
    /// Who writes to it.
    owner: Option<u64>,
}

/// What has a name.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Named {
    pub(crate) content: Content,
    /// Groups whose bytes are not on the device.
    volatile: BTreeSet<u64>,
}

impl Named {
    pub(crate) fn durable(content: &[u64]) -> Self {
        Self {
            content: content.to_owned(),
            volatile: BTreeSet::new(),
        }
    }
}

/// The disk of the receiver.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    pub(crate) names: BTreeMap<String, Named>,
    pub(crate) parts: Vec<Part>,
    pub(crate) is_full: bool,
    /// How often something was gone on with.
    pub(crate) resumed: u64,
}

/// What is done wrong, to see that it is found.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Wrong {
    Nothing,
    /// What is there of any version is gone on with.
    GoesOnWithAnything,
    /// Names appear before the bytes are on the device.
    NeverSyncs,
    /// What was told is not compared with what is there.
    NeverVerifies,
    /// The journal claims what came, and not what was compared and synced.
    ClaimsEverything,
}

/// Why a disk takes something no further.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Trouble {
    /// Somebody writes to it.
    Busy(u64),
    NoSpace,
    Io,
    Mismatch,
}

/// How far the end has got.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Ending {
    Verify(End),
    Sync,
    Name,
}

/// Writes one object.
#[derive(Clone, Debug)]
pub(crate) struct Sink {
    pub(crate) owner: u64,
    name: String,
    groups: u64,
    pub(crate) held: RangeSet,
    holes: BTreeSet<u64>,
    values: BTreeMap<u64, [u8; 32]>,
    pub(crate) wants_values: bool,
    ending: Option<Ending>,
    wrong: Wrong,
}

/// What is known when a place is opened.
pub(crate) struct Place<'a> {
    pub(crate) name: &'a str,
    pub(crate) size: u64,
    pub(crate) source: Option<SourceIdentity>,
    pub(crate) hash: bool,
    pub(crate) holes: Option<&'a RangeSet>,
}

impl Disk {
    /// What is there of an interrupted copy, for whoever asks for a file.
    pub(crate) fn held(&self) -> Option<(SourceIdentity, RangeSet)> {
        let part = self.parts.iter().find(|part| part.owner.is_none())?;
        Some((part.source?, ranges_of(part.claimed.iter().copied())))
    }

    /// Opens a place: goes on with what is there of the same source, or begins anew.
    pub(crate) fn open(
        &mut self,
        owner: u64,
        place: &Place<'_>,
        wrong: Wrong,
    ) -> Result<Sink, Trouble> {
        let source = resumable(place.source, Some(place.size), place.hash);
        let same = |part: &&mut Part| {
            part.source.is_some() && (part.source == source || wrong == Wrong::GoesOnWithAnything)
        };
        let groups = place.size.div_ceil(GROUP);
        let mut held = RangeSet::new();
        match self.parts.iter_mut().find(same) {
            Some(part) if source.is_some() => {
                if let Some(owner) = part.owner {
                    return Err(Trouble::Busy(owner));
                }
                part.owner = Some(owner);
                part.source = source;
                part.unsynced.clear();
                // What is not claimed counts for nothing, whatever it is.
                let claimed = &part.claimed;
                part.synced.retain(|group, _| claimed.contains(group));
                // The last group is short, and is not claimed.
                let claimed = part.claimed.iter().copied();
                held = ranges_of(claimed.filter(|group| group + 1 < groups));
                self.resumed += u64::from(!held.is_empty());
            }
            _ => {
                self.parts.retain(|part| part.owner.is_some());
                self.parts.push(Part {
                    source,
                    owner: Some(owner),
                    ..Part::default()
                });
            }
        }
        Ok(Sink {
            owner,
            name: place.name.to_owned(),
            groups,
            held,
            holes: place.holes.map(groups_of).unwrap_or_default(),
            values: BTreeMap::new(),
            wants_values: source.is_some(),
            ending: None,
            wrong,
        })
    }

    fn part(&mut self, owner: u64) -> Result<&mut Part, Trouble> {
        let part = self.parts.iter_mut().find(|part| part.owner == Some(owner));
        part.ok_or(Trouble::Io)
    }

    /// Whoever wrote is gone; what cannot be gone on with goes, too.
    pub(crate) fn let_go(&mut self, owner: u64) {
        for part in &mut self.parts {
            if part.owner == Some(owner) {
                part.owner = None;
                part.unsynced.clear();
            }
        }
        self.parts
            .retain(|part| part.owner.is_some() || part.source.is_some());
    }

    /// What a name stands for; it has the name no more.
    pub(crate) fn take_named(&mut self, name: &str) -> Option<Content> {
        self.names.remove(name).map(|named| named.content)
    }

    /// The host dies: what was not synced is gone, and nobody writes.
    pub(crate) fn crash(&mut self) {
        for part in &mut self.parts {
            part.owner = None;
            part.unsynced.clear();
        }
        for named in self.names.values_mut() {
            for group in std::mem::take(&mut named.volatile) {
                named.content[group as usize] = GARBAGE;
            }
        }
        self.parts.retain(|part| part.source.is_some());
    }
}

impl Sink {
    /// Takes a group that came.
    pub(crate) fn write(
        &mut self,
        disk: &mut Disk,
        group: u64,
        number: u64,
    ) -> Result<(), Trouble> {
        if disk.is_full {
            return Err(Trouble::NoSpace);
        }
        // What is right on the disk is not written again.
        if group < self.groups && !groups_of(&self.held).contains(&group) {
            disk.part(self.owner)?.unsynced.insert(group, number);
        }
        Ok(())
    }

    /// The sender's values of groups.
    pub(crate) fn tell(&mut self, first: u64, values: &[[u8; 32]]) {
        let told = (first..self.groups).zip(values.iter().copied());
        self.values.extend(told);
    }

    /// Makes durable what came, and claims what is as it was told.
    pub(crate) fn sync(&mut self, disk: &mut Disk) -> Result<(), Trouble> {
        let wrong = self.wrong;
        let part = disk.part(self.owner)?;
        let came = std::mem::take(&mut part.unsynced);
        if self.wants_values && wrong == Wrong::ClaimsEverything {
            part.claimed.extend(came.keys());
        }
        part.synced.extend(came);
        for (group, number) in &part.synced {
            let is_told = self.values.get(group) == Some(&value(*group, *number));
            // The last one is short.
            if self.wants_values && is_told && group + 1 < self.groups {
                part.claimed.insert(*group);
            }
        }
        Ok(())
    }

    /// All of it came: it is to be verified, made durable, and named.
    pub(crate) fn finish(&mut self, end: End) {
        self.ending = Some(Ending::Verify(end));
    }

    pub(crate) fn is_finishing(&self) -> bool {
        self.ending.is_some()
    }

    /// Goes one step on with the end. `true`: it has its name.
    pub(crate) fn go_on(&mut self, disk: &mut Disk) -> Result<bool, Trouble> {
        let Some(ending) = self.ending else {
            return Ok(false);
        };
        match ending {
            Ending::Verify(end) => {
                self.verify(disk, end)?;
                self.ending = Some(if self.wrong == Wrong::NeverSyncs {
                    Ending::Name
                } else {
                    Ending::Sync
                });
            }
            Ending::Sync => {
                self.sync(disk)?;
                self.ending = Some(Ending::Name);
            }
            Ending::Name => {
                let part = disk.part(self.owner)?;
                let volatile = part.unsynced.keys().copied().collect();
                let content = self.content(part);
                disk.parts.retain(|part| part.owner != Some(self.owner));
                let named = Named { content, volatile };
                disk.names.insert(self.name.clone(), named);
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn content(&self, part: &Part) -> Content {
        let number = |group| {
            let hole = self.holes.contains(&group).then_some(&HOLE);
            let number = part
                .unsynced
                .get(&group)
                .or_else(|| part.synced.get(&group))
                .or(hole);
            *number.unwrap_or(&GARBAGE)
        };
        (0..self.groups).map(number).collect()
    }

    fn verify(&self, disk: &mut Disk, end: End) -> Result<(), Trouble> {
        let content = self.content(disk.part(self.owner)?);
        if self.wrong == Wrong::NeverVerifies {
            return Ok(());
        }
        let held = groups_of(&self.held);
        let is_right = |(group, number): (u64, &u64)| {
            held.contains(&group) || self.values.get(&group) == Some(&value(group, *number))
        };
        let good = end.size.div_ceil(GROUP) == self.groups
            && match end.blake3 {
                Some(told) => told == root(&content),
                // Who did not send everything has told what its groups are.
                None => held.is_empty() || (0..).zip(&content).all(is_right),
            };
        if good { Ok(()) } else { Err(Trouble::Mismatch) }
    }
}
