//! The end that has the source: names what is there, sends what is wanted of it, and in a move removes what is in place.

use super::fs::{Data, Fs, Node, Version};
use super::wrong::Wrong;
use crate::sessions::disk::{Content, File, Source};
use crate::sessions::sides::{Failure, Said, Sending};
use howdah_core::ObjectId;
use howdah_session::entry::Entry;
use howdah_session::message::Message;
use howdah_session::resume::RESUMABLE_MIN;
use howdah_session::transfer::Outgoing;
use howdah_session::unconfirmed::{LINK_NUMBERS, Noted, Unconfirmed, each_run};
use howdah_session::wire::put_version;
use howdah_session::{
    Answer, ManifestEncoder, Misbehaved, SessionError, TreeOptions, TreeReport, decode_answer,
};
use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// Large files that are under way at a time.
const LARGE_OPEN: usize = 2;
/// What waits for the word that it is in place.
const UNCONFIRMED: usize = 64;

impl From<SessionError> for Failure {
    fn from(error: SessionError) -> Self {
        Self::Protocol(error.to_string())
    }
}

/// Bytes of a file.
pub(crate) fn size_of(content: &Content) -> u64 {
    match content[..] {
        [number] => 5 + number % 3,
        _ => crate::sessions::disk::size(content.len()),
    }
}

pub(crate) fn is_large(size: u64) -> bool {
    size > RESUMABLE_MIN
}

/// Why not everything in a directory is named.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Gap {
    /// It cannot be read.
    Unread,
    /// Something is mounted there that does not take part.
    Mounted,
}

/// The source.
#[derive(Debug, Default)]
pub(crate) struct Origin {
    pub(crate) fs: Fs,
    /// Large files in all their versions.
    pub(crate) larges: BTreeMap<PathBuf, File>,
    /// Directories of which a part is not named.
    pub(crate) gaps: BTreeMap<PathBuf, Gap>,
    /// The next of its files cannot be read.
    pub(crate) fails: u32,
}

/// A small file, or none, in the order in which they were asked for.
#[derive(Clone, Debug)]
pub(crate) enum Pack {
    File {
        content: Content,
        /// If it is not that of the manifest.
        mtime: Option<i64>,
        /// It is still what was read.
        is_right: bool,
    },
    /// A small one that does not come.
    Missing,
    /// A large one.
    MissingLarge(u64),
    End,
}

/// The three streams.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    pub(crate) manifest: VecDeque<u8>,
    pub(crate) answers: VecDeque<u8>,
    pub(crate) packs: VecDeque<Pack>,
}

#[derive(Clone, Debug)]
pub(crate) struct Offered {
    path: PathBuf,
    size: u64,
    mtime: i64,
    version: Version,
}

/// What goes when it is in place.
#[derive(Clone, Debug)]
pub(crate) struct Leaver {
    pub(crate) path: PathBuf,
    pub(crate) version: Version,
    /// Of files.
    pub(crate) content: Option<Content>,
}

#[derive(Debug)]
struct Out {
    sending: Sending,
    index: u64,
    leaver: Leaver,
}

#[derive(Debug)]
pub(crate) struct Sender {
    options: TreeOptions,
    wrong: Wrong,
    entries: VecDeque<Entry>,
    encoder: ManifestEncoder,
    files: Vec<Offered>,
    answers: Vec<u8>,
    answered: usize,
    is_answered: bool,
    wanted: VecDeque<usize>,
    packs_ended: bool,
    out: Vec<Out>,
    next_object: u64,
    sent: Unconfirmed<Leaver>,
    leaving: Vec<Leaver>,
    all_placed: bool,
    report: TreeReport,
}

impl Sender {
    /// `tops`: what was named, or all that is in the top itself.
    pub(crate) fn new(
        origin: &Origin,
        options: &TreeOptions,
        tops: &[&str],
        objects: u64,
        wrong: Wrong,
        streams: &mut Streams,
    ) -> Self {
        let mut sender = Self {
            options: options.clone(),
            wrong,
            entries: VecDeque::new(),
            encoder: ManifestEncoder::default(),
            files: Vec::new(),
            answers: Vec::new(),
            answered: 0,
            is_answered: false,
            wanted: VecDeque::new(),
            packs_ended: false,
            out: Vec::new(),
            next_object: objects,
            sent: Unconfirmed::new(UNCONFIRMED),
            leaving: Vec::new(),
            all_placed: false,
            report: TreeReport::default(),
        };
        sender.walk_all(origin, tops);
        let mut version = Vec::new();
        put_version(&mut version);
        streams.manifest.extend(version);
        sender
    }

    fn walk_all(&mut self, origin: &Origin, tops: &[&str]) {
        let top = Path::new("");
        let mut links = Links::default();
        let mut complete = true;
        if self.options.contents {
            if let Some(node) = origin.fs.node(top) {
                let meta = node.meta(self.options.archive);
                self.entries.push_back(Entry::Top { meta });
            }
            complete = self.walk(origin, top, &mut links);
        } else {
            let there = tops.iter().map(PathBuf::from);
            let mut there: Vec<_> = there.filter(|top| origin.fs.node(top).is_some()).collect();
            there.sort_by_key(|top| origin.fs.node(top).is_some_and(Node::is_dir));
            for path in there {
                complete &= self.name(origin, &path, &mut links);
            }
        }
        let complete = complete && !origin.gaps.values().any(|gap| *gap == Gap::Unread);
        self.report.failed += u64::from(!complete);
        self.entries.push_back(Entry::End { complete });
    }

    /// What is in a directory: files first, then directories. Whether that is all.
    fn walk(&mut self, origin: &Origin, dir: &Path, links: &mut Links) -> bool {
        let mut inside = origin.fs.list(dir);
        let gap = origin.gaps.get(dir);
        if gap.is_some() {
            inside.clear();
        }
        let is_dir = |path: &PathBuf| origin.fs.node(path).is_some_and(Node::is_dir);
        inside.sort_by(|a, b| {
            let name = |path: &PathBuf| path.file_name().map(|name| name.as_bytes().to_owned());
            (is_dir(a), name(a)).cmp(&(is_dir(b), name(b)))
        });
        for path in inside {
            self.name(origin, &path, links);
        }
        gap.is_none()
    }

    /// One name, with all that is in it. Whether something of it is not known.
    fn name(&mut self, origin: &Origin, path: &Path, links: &mut Links) -> bool {
        let Some(node) = origin.fs.node(path) else {
            return true;
        };
        let name = path.file_name().unwrap_or_default().as_bytes().to_owned();
        let meta = node.meta(self.options.archive);
        let version = origin.fs.version(path).unwrap_or_default();
        // Rules leave it out.
        if name.ends_with(b".key") {
            self.entries.push_back(Entry::Kept { name });
            return true;
        }
        match &node.data {
            Data::Dir => {
                self.entries.push_back(Entry::Dir { name, meta });
                let complete = self.walk(origin, path, links);
                let complete = complete || self.wrong == Wrong::TellsAllComplete;
                self.entries.push_back(Entry::Up { complete });
            }
            Data::Link(target) => {
                let target = target.clone().into_bytes();
                self.note_link(links, path, version);
                self.entries
                    .push_back(Entry::Symlink { name, target, meta });
            }
            Data::File(content) => {
                let mut link = None;
                let count = origin.fs.links(path);
                if self.options.archive && count > 1 {
                    let next = links.files.len() as u64;
                    match links.files.entry(version.0) {
                        std::collections::btree_map::Entry::Vacant(entry) => {
                            entry.insert((next, count - 1));
                            link = Some(next);
                        }
                        std::collections::btree_map::Entry::Occupied(mut entry) => {
                            let (link, left) = entry.get_mut();
                            *left -= 1;
                            let (link, last) = (*link, *left == 0);
                            self.note_link(links, path, version);
                            self.entries.push_back(Entry::Link { name, link, last });
                            return true;
                        }
                    }
                }
                let size = size_of(content);
                self.files.push(Offered {
                    path: path.to_owned(),
                    size,
                    mtime: node.mtime,
                    version,
                });
                let hash = self
                    .options
                    .checksum
                    .then(|| crate::sessions::disk::root(content));
                self.entries.push_back(Entry::File {
                    name,
                    size,
                    meta,
                    link,
                    hash,
                });
            }
        }
        true
    }

    fn note_link(&mut self, links: &mut Links, path: &Path, version: Version) {
        let number = LINK_NUMBERS + links.told;
        links.told += 1;
        if self.options.remove_source {
            let leaver = Leaver {
                path: path.to_owned(),
                version,
                content: None,
            };
            self.put(number, leaver);
        }
    }

    fn put(&mut self, number: u64, leaver: Leaver) {
        if let Noted::IsPlaced(leaver) = self.sent.put(number, leaver) {
            self.leaving.push(leaver);
        }
    }

    pub(crate) fn say(&mut self, entry: &Entry, streams: &mut Streams) {
        let mut bytes = Vec::new();
        self.encoder.encode(entry, &mut bytes);
        streams.manifest.extend(bytes);
    }

    pub(crate) fn report(&self) -> TreeReport {
        self.report.clone()
    }

    /// The receiver has everything.
    pub(crate) fn all_placed(&mut self) {
        self.all_placed = true;
    }

    pub(crate) fn has_removed(&self) -> bool {
        self.leaving.is_empty()
    }

    /// The receiver has everything, and what is to go is gone.
    pub(crate) fn may_end(&self) -> bool {
        self.all_placed && self.is_answered && self.leaving.is_empty()
    }

    /// What was to go is another one now, and stays.
    pub(crate) fn note_changed(&mut self) {
        self.report.changed += 1;
    }

    /// The next thing that goes from the source.
    pub(crate) fn take_leaver(&mut self) -> Option<Leaver> {
        self.leaving.pop()
    }

    /// Does something with what is wanted. Whether it did.
    pub(crate) fn go_on(
        &mut self,
        origin: &mut Origin,
        said: &mut Said,
        streams: &mut Streams,
        choice: u64,
    ) -> bool {
        for n in 0..3 {
            let did = match (choice + n) % 3 {
                0 => self.go_on_naming(streams),
                1 => self.go_on_small(origin, said, streams),
                _ => self.go_on_large(origin, said, choice),
            };
            if did {
                return true;
            }
        }
        false
    }

    fn go_on_naming(&mut self, streams: &mut Streams) -> bool {
        let entry = self.entries.pop_front();
        if let Some(entry) = &entry {
            self.say(entry, streams);
        }
        entry.is_some()
    }

    fn go_on_small(&mut self, origin: &mut Origin, said: &mut Said, streams: &mut Streams) -> bool {
        let Some(&index) = self.wanted.front() else {
            let is_over = self.is_answered && !self.packs_ended;
            if is_over {
                self.packs_ended = true;
                streams.packs.push_back(Pack::End);
            }
            return is_over;
        };
        let offered = self.files[index].clone();
        if is_large(offered.size) {
            if self.out.len() >= LARGE_OPEN {
                return false;
            }
            self.wanted.pop_front();
            if !self.open_large(index, &offered, origin, said) {
                self.report.changed += 1;
                streams.packs.push_back(Pack::MissingLarge(index as u64));
            }
            return true;
        }
        self.wanted.pop_front();
        streams
            .packs
            .push_back(self.read_small(index, &offered, origin));
        true
    }

    fn read_small(&mut self, index: usize, offered: &Offered, origin: &mut Origin) -> Pack {
        if origin.fails > 0 {
            origin.fails -= 1;
            self.report.failed += 1;
            return Pack::Missing;
        }
        let node = origin.fs.node(&offered.path);
        let content = node.and_then(Node::content);
        let Some((node, content)) = node.zip(content).filter(|(_, c)| !is_large(size_of(c))) else {
            self.report.changed += 1;
            return Pack::Missing;
        };
        if self.options.remove_source {
            let leaver = Leaver {
                path: offered.path.clone(),
                version: origin.fs.version(&offered.path).unwrap_or_default(),
                content: Some(content.clone()),
            };
            self.put(index as u64, leaver);
        }
        Pack::File {
            content: content.clone(),
            mtime: (node.mtime != offered.mtime).then_some(node.mtime),
            is_right: true,
        }
    }

    /// Whether it can be.
    fn open_large(
        &mut self,
        index: usize,
        offered: &Offered,
        origin: &mut Origin,
        said: &mut Said,
    ) -> bool {
        let node = origin.fs.node(&offered.path);
        let content = node.and_then(Node::content);
        let content = content.filter(|content| size_of(content) == offered.size);
        let (Some(content), Some(file)) = (content, origin.larges.get(&offered.path)) else {
            return false;
        };
        let object = ObjectId::new(self.next_object);
        self.next_object += 2;
        let source = Source::open(file, true);
        let leaver = Leaver {
            path: offered.path.clone(),
            version: origin.fs.version(&offered.path).unwrap_or_default(),
            content: Some(content.clone()),
        };
        let identity = source.identity;
        let out = Outgoing::new(object, true);
        let mut sending = Sending { out, source };
        sending.leave_out_holes(said);
        let message = Message::TreeFile {
            object,
            index: index as u64,
            size: offered.size,
            source: sending.out.offer(Some(identity)),
        };
        said.say(&message);
        self.out.push(Out {
            sending,
            index: index as u64,
            leaver,
        });
        true
    }

    fn go_on_large(&mut self, origin: &mut Origin, said: &mut Said, choice: u64) -> bool {
        let many = self.out.len();
        for n in 0..many {
            let at = (choice as usize / 3 + n) % many;
            let out = &mut self.out[at];
            let Some(file) = origin.larges.get(&out.leaver.path) else {
                continue;
            };
            let failed = origin.fails > 0;
            let result = if failed {
                origin.fails -= 1;
                Err(Failure::Source)
            } else {
                out.sending.go_on(file, said)
            };
            match result {
                Ok(true) => return true,
                Ok(false) => {}
                Err(_) => {
                    let object = out.sending.out.object();
                    self.out.remove(at);
                    said.say(&Message::TreeFileMissing { object });
                    self.report.changed += 1;
                    return true;
                }
            }
        }
        false
    }

    /// What of the source goes now that it is in place: once it is known what the receiver had already.
    pub(crate) fn hear_answers(&mut self, bytes: impl Iterator<Item = u8>) -> Result<(), Failure> {
        self.answers.extend(bytes);
        let mut rest = &self.answers[..];
        while let Some(answer) = decode_answer(&mut rest)? {
            match answer {
                Answer::Files { wanted, count } => {
                    let count = usize::try_from(count).unwrap_or(usize::MAX);
                    let end = self.answered.saturating_add(count);
                    if end > self.files.len() {
                        return Err(Misbehaved::new("answers more files than there are").into());
                    }
                    for index in self.answered..end {
                        if wanted {
                            self.wanted.push_back(index);
                        } else if self.options.remove_source {
                            let offered = &self.files[index];
                            let leaver = Leaver {
                                path: offered.path.clone(),
                                version: offered.version,
                                content: None,
                            };
                            if let Noted::IsPlaced(leaver) = self.sent.put(index as u64, leaver) {
                                self.leaving.push(leaver);
                            }
                        }
                        self.sent.set_answered(index as u64 + 1);
                    }
                    self.answered = end;
                }
                Answer::Note(_) => {
                    return Err(Misbehaved::new("a note of a dry run, which this is not").into());
                }
                Answer::End => self.is_answered = true,
            }
        }
        self.answers = rest.to_owned();
        Ok(())
    }

    pub(crate) fn on_message(&mut self, message: &Message) -> Result<(), Failure> {
        match message {
            Message::Ready {
                object,
                held,
                values,
                ..
            } => {
                let mut out = self.out.iter_mut();
                if let Some(out) = out.find(|out| out.sending.out.object() == *object) {
                    let held = out.sending.out.on_ready(held, *values)?;
                    out.sending.skip(&held);
                }
            }
            Message::TreeSettled { object, stored } => {
                let at = self
                    .out
                    .iter()
                    .position(|out| out.sending.out.object() == *object);
                if let Some(at) = at {
                    let out = self.out.remove(at);
                    out.sending.out.on_settled(*stored)?;
                    if *stored && self.options.remove_source {
                        self.put(out.index, out.leaver);
                        self.are_placed(out.index, 1);
                    }
                }
            }
            Message::TreePlaced { runs } => {
                for (first, count) in each_run(runs) {
                    self.are_placed(first, count);
                }
            }
            _ => return Err(Misbehaved::new("says something about a tree out of turn").into()),
        }
        Ok(())
    }

    fn are_placed(&mut self, first: u64, count: u64) {
        let placed = self.sent.are_placed(first, count);
        self.leaving
            .extend(placed.into_iter().map(|(_, leaver)| leaver));
    }
}

/// Files with several names, and links so far.
#[derive(Default)]
struct Links {
    /// By inode: which one it is, and how many names are still to come.
    files: BTreeMap<u64, (u64, usize)>,
    told: u64,
}

/// What a name of a manifest is called.
pub(crate) fn os(name: &[u8]) -> &OsStr {
    OsStr::from_bytes(name)
}
