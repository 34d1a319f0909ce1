//! The end that has the destination: decides about what is named, asks for what it wants of it, and gives it its place, its name and its
//! metadata. What to decide is asked of `howdah-session`; threads and calls of the real one are steps here.

mod placing;

use super::fs::{Data, Failed, Fs, Node, Version};
use super::sender::{Pack, Streams, is_large, os, size_of};
use super::wrong::Wrong;
use crate::sessions::disk::{self, Content, Disk, Place, Trouble};
use crate::sessions::sides::{Failure, NAME, Piece, Receiving, Said};
use howdah_core::{ObjectId, RangeSet};
use howdah_session::deletion::{Named, may_delete, may_delete_so_many};
use howdah_session::doubts::{Doubt, gives_names, lets_names_go};
use howdah_session::entry::{Entry, Meta};
use howdah_session::holes::Announced;
use howdah_session::message::Message;
use howdah_session::resume::WireRanges;
use howdah_session::transfer::End;
use howdah_session::unconfirmed::{LINK_NUMBERS, runs_of};
use howdah_session::verdict::{Rights, There, Verdict, verdict};
use howdah_session::{
    AnswerEncoder, Asked, Filter, Gate, ManifestDecoder, Metadata, Misbehaved, SourceIdentity,
    TreeOptions, TreeReport,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};

/// Files of a batch, and numbers in one message.
const BATCH: usize = 3;
/// What came of an object before its place is open.
type Early = (Vec<Piece>, Option<End>);

impl From<Failed> for Failure {
    fn from(_: Failed) -> Self {
        Self::Disk(Trouble::Io)
    }
}

/// The destination.
#[derive(Default)]
pub(crate) struct Destination {
    pub(crate) fs: Fs,
    /// What is on its way, by its name.
    pub(crate) disks: BTreeMap<PathBuf, Disk>,
    pub(crate) is_full: bool,
    /// What gave way to something of another kind.
    pub(crate) cleared: BTreeSet<PathBuf>,
    /// How often a large file was gone on with.
    pub(crate) resumed: u64,
}

impl Destination {
    fn disk(&mut self, path: &Path) -> &mut Disk {
        let is_full = self.is_full;
        let disk = self.disks.entry(path.to_owned()).or_default();
        disk.is_full = is_full;
        disk
    }

    /// Whoever wrote is gone.
    pub(crate) fn let_go(&mut self, owner: u64) {
        for disk in self.disks.values_mut() {
            disk.let_go(owner);
            self.resumed += std::mem::take(&mut disk.resumed);
        }
        self.disks.retain(|_, disk| !disk.parts.is_empty());
    }
}

/// What a copy may do here, and how.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    pub(crate) options: TreeOptions,
    pub(crate) rights: Rights,
    pub(crate) allowed: Metadata,
    pub(crate) wrong: Wrong,
}

impl Terms {
    /// Permissions are made equal.
    pub(crate) fn is_exact(&self) -> bool {
        (self.options.archive || self.options.permissions) && self.allowed >= Metadata::Modes
    }

    /// What something that came is to have.
    pub(crate) fn wanted(&self, meta: &Meta, is_dir: bool) -> Node {
        let mut meta = meta.clone();
        self.allowed.admit(&mut meta, is_dir);
        Node {
            data: Data::Dir,
            mode: match (self.is_exact(), is_dir) {
                (true, _) => meta.mode,
                (false, true) => 0o755,
                (false, false) => 0o644,
            },
            mtime: meta.mtime.secs,
            xattrs: meta.xattrs,
        }
    }

    fn apply(&self, node: &mut Node, meta: &Meta) {
        let wanted = self.wanted(meta, node.is_dir());
        if self.is_exact() {
            node.mode = wanted.mode;
        }
        if self.allowed >= Metadata::Times {
            node.mtime = wanted.mtime;
        }
        if self.options.archive && self.allowed == Metadata::All {
            node.xattrs = wanted.xattrs;
        }
    }
}

#[derive(Clone, Debug)]
struct Wanted {
    index: u64,
    path: PathBuf,
    size: u64,
    meta: Meta,
    before: Option<Version>,
    link: Option<u64>,
}

/// Whether a file is wanted, and in the place of what.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Wish {
    None,
    Of(Option<Version>),
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum DirState {
    Fresh,
    There,
    Broken,
}

#[derive(Debug)]
struct Level {
    path: PathBuf,
    state: DirState,
    meta: Option<Meta>,
    /// What is there, if what was not named is to go.
    inventory: Option<BTreeSet<PathBuf>>,
}

#[derive(Debug)]
struct In {
    receiving: Receiving,
    wanted: Wanted,
}

#[derive(Debug)]
struct Opening {
    object: ObjectId,
    wanted: Wanted,
    source: Option<SourceIdentity>,
    holes: Option<RangeSet>,
    early: Early,
}

#[derive(Debug)]
struct LinkLater {
    path: PathBuf,
    link: u64,
    number: u64,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, PartialOrd)]
enum Stage {
    Naming,
    /// Files come.
    Coming,
    Links,
    Dirs,
    Sync,
    Done,
}

#[derive(Debug)]
pub(crate) struct Receiver {
    id: u64,
    terms: Terms,
    filter: Filter,
    gate: Gate,
    decoder: ManifestDecoder,
    manifest: Vec<u8>,
    encoder: AnswerEncoder,
    levels: Vec<Level>,
    index: u64,
    links_seen: u64,
    any: bool,
    linked: BTreeMap<u64, PathBuf>,
    /// By their numbers, what is wrong with first names.
    doubts: BTreeMap<u64, Doubt>,
    links: Vec<LinkLater>,
    expected: VecDeque<Wanted>,
    packs_ended: bool,
    large: BTreeMap<u64, Wanted>,
    holes: Announced,
    opening: Vec<Opening>,
    into: Vec<In>,
    batch: Vec<(Wanted, u64)>,
    settled: Vec<u64>,
    unsettled: u64,
    extras: Vec<PathBuf>,
    /// Names that gave way.
    gone: u64,
    /// The source was named in whole.
    is_complete: bool,
    dirs: Vec<(PathBuf, Meta)>,
    /// In place, and not told; on the device only when it is moved to `placed`.
    unsafe_yet: Vec<u64>,
    placed: Vec<u64>,
    stage: Stage,
    /// The sender has said that something does not come.
    pub(crate) lacks: bool,
    report: TreeReport,
}

impl Receiver {
    pub(crate) fn new(id: u64, terms: &Terms, asked: Asked) -> Result<Self, Failure> {
        terms.options.check()?;
        Ok(Self {
            id,
            filter: Filter::new(&terms.options)?,
            terms: terms.clone(),
            gate: Gate::new(asked),
            decoder: ManifestDecoder::default(),
            manifest: Vec::new(),
            encoder: AnswerEncoder::default(),
            levels: Vec::new(),
            index: 0,
            links_seen: 0,
            any: false,
            linked: BTreeMap::new(),
            doubts: BTreeMap::new(),
            links: Vec::new(),
            expected: VecDeque::new(),
            packs_ended: false,
            large: BTreeMap::new(),
            holes: Announced::default(),
            opening: Vec::new(),
            into: Vec::new(),
            batch: Vec::new(),
            settled: Vec::new(),
            unsettled: 0,
            extras: Vec::new(),
            gone: 0,
            is_complete: false,
            dirs: Vec::new(),
            unsafe_yet: Vec::new(),
            placed: Vec::new(),
            stage: Stage::Naming,
            lacks: false,
            report: TreeReport::default(),
        })
    }

    pub(crate) fn is_done(&self) -> bool {
        self.stage == Stage::Done
    }

    pub(crate) fn report(&self) -> TreeReport {
        self.report.clone()
    }

    /// Whether small files have been asked for.
    pub(crate) fn expects(&self) -> bool {
        !self.expected.is_empty()
    }

    /// Whether something of the packs is to come, or their end.
    pub(crate) fn expects_packs(&self) -> bool {
        self.expects() || self.stage == Stage::Coming
    }

    /// Objects whose bytes are taken.
    pub(crate) fn admits(&self, object: ObjectId) -> bool {
        self.opening.iter().any(|o| o.object == object)
            || self.into.iter().any(|i| i.receiving.inc.object() == object)
    }

    pub(crate) fn hear_manifest(
        &mut self,
        bytes: impl Iterator<Item = u8>,
        to: &mut Destination,
        streams: &mut Streams,
    ) -> Result<(), Failure> {
        self.manifest.extend(bytes);
        let manifest = std::mem::take(&mut self.manifest);
        let (mut rest, mut out) = (&manifest[..], Vec::new());
        while self.stage == Stage::Naming
            && let Some(mut entry) = self.decoder.decode(&mut rest)?
        {
            if self.terms.wrong != Wrong::NoGate {
                self.gate.admit(&entry, &self.terms.options, &self.filter)?;
            }
            if let Some((meta, is_dir)) = entry.meta_mut() {
                self.terms.allowed.admit(meta, is_dir);
            }
            self.entry(entry, to, &mut out)?;
        }
        self.encoder.end_run(&mut out);
        self.manifest = rest.to_owned();
        streams.answers.extend(out);
        Ok(())
    }

    fn at(&mut self) -> Result<&mut Level, Failure> {
        let level = self.levels.last_mut();
        level.ok_or_else(|| Misbehaved::new("it has no top").into())
    }

    /// That name in the directory that the manifest is in; the source has it.
    fn see(&mut self, name: &[u8]) -> Result<PathBuf, Failure> {
        self.any = true;
        let level = self.at()?;
        let path = level.path.join(os(name));
        if let Some(inventory) = &mut level.inventory {
            inventory.remove(&path);
        }
        Ok(path)
    }

    fn entry(
        &mut self,
        entry: Entry,
        to: &mut Destination,
        out: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        if self.levels.is_empty() {
            let ours = matches!(entry, Entry::Top { .. });
            let meta = match &entry {
                Entry::Top { meta } if !self.terms.rights.add_only => Some(meta.clone()),
                _ => None,
            };
            self.push(PathBuf::new(), DirState::There, meta, ours, to);
        }
        match entry {
            Entry::Dir { name, meta } => self.enter(&name, meta, to)?,
            Entry::Up { complete } => {
                let level = self.levels.pop();
                self.leave(level, complete);
            }
            Entry::File {
                name,
                size,
                meta,
                link,
                hash,
            } => self.file(&name, (size, meta, link, hash), to, out)?,
            Entry::Symlink { name, target, meta } => {
                let target = String::from_utf8_lossy(&target).into_owned();
                self.symlink(&name, &target, &meta, to)?;
            }
            Entry::Link { name, link, .. } => {
                let path = self.see(&name)?;
                let number = self.link_number();
                self.links.push(LinkLater { path, link, number });
            }
            Entry::Kept { name } => drop(self.see(&name)?),
            Entry::End { complete } => {
                let level = self.levels.pop();
                self.leave(level, self.terms.options.contents);
                self.lacks |= !complete;
                self.is_complete = complete;
                self.encoder.end(out);
                self.stage = Stage::Coming;
            }
            Entry::Top { .. } | Entry::Owner { .. } | Entry::Place { .. } | Entry::Unread => {}
            Entry::Other { .. } | Entry::Ahead { .. } | Entry::Gap => {
                return Err(Misbehaved::new("a record that only comparisons have").into());
            }
        }
        Ok(())
    }

    fn push(
        &mut self,
        path: PathBuf,
        state: DirState,
        meta: Option<Meta>,
        ours: bool,
        to: &Destination,
    ) {
        let is_mirrored = ours && self.terms.options.delete && state == DirState::There;
        let inventory = is_mirrored.then(|| to.fs.list(&path).into_iter().collect());
        self.levels.push(Level {
            path,
            state,
            meta,
            inventory,
        });
    }

    fn leave(&mut self, level: Option<Level>, complete: bool) {
        let Some(level) = level else { return };
        if let (DirState::Fresh | DirState::There, Some(meta)) = (level.state, level.meta) {
            self.dirs.push((level.path, meta));
        }
        if complete || self.terms.wrong == Wrong::DeletesAnyway {
            self.extras.extend(level.inventory.unwrap_or_default());
        }
    }

    /// What is to go: nothing if the source could not be read in whole, or if it is too much.
    fn deletions(&mut self, to: &Destination) {
        let options = &self.terms.options;
        self.extras.retain(|path| !is_left_out(path));
        if self.extras.is_empty() {
            return;
        }
        let named = Named {
            complete: self.is_complete || self.terms.wrong == Wrong::DeletesAnyway,
            any: self.any,
        };
        let names = self
            .extras
            .iter()
            .map(|path| to.fs.below(path).len() as u64);
        let is_allowed = may_delete(options, named).is_ok()
            && may_delete_so_many(options, self.gone, names.sum()).is_ok();
        if !is_allowed {
            self.extras.clear();
            self.report.refused_deletes += 1;
        }
    }

    /// What stands where something else is to be gives way. False: it stays, and that is said.
    fn clear(&mut self, path: &Path, to: &mut Destination) -> Result<bool, Failure> {
        let options = &self.terms.options;
        let is_dir = to.fs.node(path).is_some_and(Node::is_dir);
        let below = to.fs.below(path);
        let count = below.len() as u64;
        let may = options.mirror
            && !options.ignore_existing
            && !self.terms.rights.add_only
            && (!is_dir || count == 1 || options.delete)
            && !below.iter().any(|path| is_left_out(path))
            && may_delete_so_many(options, self.gone, count).is_ok();
        if !may {
            self.report.failed += 1;
            return Ok(false);
        }
        self.gone += count;
        for path in below {
            to.fs.remove(&path)?;
            to.cleared.insert(path);
        }
        Ok(true)
    }

    fn enter(&mut self, name: &[u8], meta: Meta, to: &mut Destination) -> Result<(), Failure> {
        let path = self.see(name)?;
        let mut state = self.at()?.state;
        let there = to.fs.node(&path).map(Node::is_dir);
        if state != DirState::Broken {
            state = match there {
                Some(true) => DirState::There,
                Some(false) if !self.clear(&path, to)? => DirState::Broken,
                _ if to.is_full => return Err(Failure::Disk(Trouble::NoSpace)),
                _ => {
                    let node = Node {
                        data: Data::Dir,
                        mode: if self.terms.is_exact() { 0o700 } else { 0o755 },
                        mtime: 0,
                        xattrs: Vec::new(),
                    };
                    to.fs.make(&path, node)?;
                    DirState::Fresh
                }
            };
        }
        let keeps = self.terms.rights.add_only && state == DirState::There;
        self.push(path, state, (!keeps).then_some(meta), true, to);
        Ok(())
    }

    fn link_number(&mut self) -> u64 {
        self.links_seen += 1;
        LINK_NUMBERS + self.links_seen - 1
    }

    /// In a move: it is there, which is said when it is on the device.
    fn settle(&mut self, number: u64) {
        if self.terms.options.remove_source {
            self.unsettled += 1;
            self.settled.push(number);
        }
    }

    fn symlink(
        &mut self,
        name: &[u8],
        target: &str,
        meta: &Meta,
        to: &mut Destination,
    ) -> Result<(), Failure> {
        let path = self.see(name)?;
        let number = self.link_number();
        if self.at()?.state == DirState::Broken {
            return Ok(());
        }
        let there = to.fs.node(&path).cloned();
        if there.is_some() && self.terms.options.ignore_existing {
            return Ok(());
        }
        let is_same = |node: &Node| node.data == Data::Link(target.to_owned());
        match &there {
            Some(node) if is_same(node) => {
                if !self.terms.rights.add_only {
                    let terms = self.terms.clone();
                    to.fs
                        .change(&path, |node| terms.apply_to_link(node, meta))?;
                }
                self.settle(number);
                return Ok(());
            }
            Some(node) if node.is_dir() && !self.clear(&path, to)? => return Ok(()),
            Some(_) if self.terms.rights.add_only => {
                self.report.failed += 1;
                return Ok(());
            }
            _ => {}
        }
        if to.is_full {
            return Err(Failure::Disk(Trouble::NoSpace));
        }
        let mut node = Node {
            data: Data::Link(target.to_owned()),
            mode: 0o777,
            mtime: 0,
            xattrs: Vec::new(),
        };
        self.terms.apply_to_link(&mut node, meta);
        to.fs.make(&path, node)?;
        self.settle(number);
        Ok(())
    }

    fn file(
        &mut self,
        name: &[u8],
        (size, meta, link, hash): (u64, Meta, Option<u64>, Option<[u8; 32]>),
        to: &mut Destination,
        out: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        let path = self.see(name)?;
        let index = self.index;
        self.index += 1;
        if let Some(link) = link {
            self.linked.insert(link, path.clone());
            // Until it is in place, or found to be.
            self.doubts.insert(link, Doubt::Absent);
        }
        let wish = self.decide(&path, (size, &meta, hash), (index, link), to)?;
        self.encoder.file(wish != Wish::None, out);
        let Wish::Of(before) = wish else {
            return Ok(());
        };
        let wanted = Wanted {
            index,
            path,
            size,
            meta,
            before,
            link,
        };
        self.unsettled += 1;
        if is_large(size) {
            self.large.insert(index, wanted);
        } else {
            self.expected.push_back(wanted);
        }
        Ok(())
    }

    /// Whether it is wanted.
    fn decide(
        &mut self,
        path: &Path,
        (size, meta, hash): (u64, &Meta, Option<[u8; 32]>),
        (index, link): (u64, Option<u64>),
        to: &mut Destination,
    ) -> Result<Wish, Failure> {
        if self.at()?.state == DirState::Broken {
            return Ok(Wish::None);
        }
        let Some(node) = to.fs.node(path).cloned() else {
            return Ok(Wish::Of(None));
        };
        let there = match &node.data {
            Data::Dir => There::Other,
            Data::Link(_) => There::Link,
            Data::File(content) => There::File {
                same_size: size_of(content) == size,
                same_time: node.mtime == meta.mtime.secs,
                is_newer: node.mtime > meta.mtime.secs,
            },
        };
        let mut decided = verdict(
            there,
            hash.is_some(),
            &self.terms.options,
            self.terms.rights,
        );
        if decided == Verdict::Hash {
            let is_same = node.content().map(|content| disk::root(content)) == hash;
            decided = if is_same {
                Verdict::Same
            } else {
                Verdict::Replace
            };
        }
        match decided {
            Verdict::Stays | Verdict::Hash => {
                if let Some(link) = link {
                    self.doubts.insert(link, Doubt::Stays);
                }
                Ok(Wish::None)
            }
            Verdict::Same => {
                if self.keep(path, &node, meta, to)? {
                    self.is_in_place(link);
                    self.settle(index);
                    return Ok(Wish::None);
                }
                Ok(Wish::Of(to.fs.version(path)))
            }
            Verdict::Replace if self.terms.rights.add_only => {
                self.report.failed += 1;
                Ok(Wish::None)
            }
            Verdict::Replace | Verdict::Compare => Ok(Wish::Of(to.fs.version(path))),
            Verdict::Clear if self.clear(path, to)? => Ok(Wish::Of(None)),
            Verdict::Clear => Ok(Wish::None),
        }
    }

    /// A file has its name.
    fn is_in_place(&mut self, link: Option<u64>) {
        if let Some(link) = link {
            self.doubts.remove(&link);
        }
    }

    /// A file that is right. False: a new one takes its place, for others have its inode.
    fn keep(
        &self,
        path: &Path,
        node: &Node,
        meta: &Meta,
        to: &mut Destination,
    ) -> Result<bool, Failure> {
        if self.terms.rights.add_only || self.terms.wrong == Wrong::LeavesMetadata {
            return Ok(true);
        }
        let mut wanted = node.clone();
        self.terms.apply(&mut wanted, meta);
        if wanted == *node {
            return Ok(true);
        }
        if to.fs.links(path) > 1 && self.terms.wrong != Wrong::ChangesOtherNames {
            return Ok(false);
        }
        to.fs.change(path, |node| *node = wanted)?;
        Ok(true)
    }
}

/// Rules leave it out.
pub(crate) fn is_left_out(path: &Path) -> bool {
    path.to_string_lossy().ends_with(".key")
}

impl Terms {
    /// Of a link only the time is kept.
    pub(crate) fn apply_to_link(&self, node: &mut Node, meta: &Meta) {
        if self.allowed >= Metadata::Times {
            node.mtime = meta.mtime.secs;
        }
    }
}
