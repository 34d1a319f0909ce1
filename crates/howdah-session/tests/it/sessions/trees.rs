//! Sessions of a tree, up or down, in virtual time: the manifest, the answers to it and packs of small files as streams of bytes that come
//! in any portions, lost connections, hosts that die, and peers that say anything. The machines, the manifest, the gate and the answers are
//! those of the real ends; walking and writing is a model. Nothing has a name that was not asked for, and once nothing happens any more
//! the same command makes both sides equal.

use crate::sessions::seeds;
use crate::sessions::sides::{Failure, Receiving, Sending};
use howdah_core::ObjectId;
use howdah_session::client::{self, Stage, Wants};
use howdah_session::entry::{Entry, Meta, Stamp};
use howdah_session::message::{Message, SideReport};
use howdah_session::server::{Does, Order, Parts, Server};
use howdah_session::wire::put_version;
use howdah_session::{
    Answer, AnswerEncoder, Asked, FailureKind, Filter, Gate, ManifestDecoder, ManifestEncoder,
    Misbehaved, PathBytes, Rule, SessionError, TreeOptions, TreeReport, decode_answer, reserved,
};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};
use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// Files by their paths, and which version of each it is.
type Files = BTreeMap<PathBuf, i64>;

/// What is at the top of what is asked for, and what else a hostile server has.
const ASKED: [&str; 2] = ["photos", "notes"];
const NAMES: [&str; 8] = ["a", "b", "c.key", "d", "notes", "photos", ".ssh", ".."];
const LARGEST: u64 = 1_000;
const ATTEMPTS: u32 = 8;
const STEPS_MAX: u32 = 5_000;

impl From<SessionError> for Failure {
    fn from(error: SessionError) -> Self {
        Self::Protocol(error.to_string())
    }
}

#[derive(Debug)]
struct Model;

impl Parts for Model {
    type Sending = Sending;
    type Receiving = Receiving;
    type Landing = Infallible;
    type Question = Infallible;
    type Tree = Tree;
    type Files = Infallible;
}

#[derive(Debug)]
enum Tree {
    Sends(TreeSender),
    Receives(Box<TreeReceiver>),
}

fn options() -> TreeOptions {
    let rule = Rule {
        include: false,
        pattern: "*.key".into(),
        listed: false,
    };
    TreeOptions {
        recursive: true,
        rules: vec![rule].into(),
        max_size: Some(LARGEST),
        ..TreeOptions::default()
    }
}

fn file(name: &OsStr, version: i64, size: u64) -> Entry {
    Entry::File {
        name: name.as_bytes().to_owned(),
        size,
        meta: Meta {
            mtime: Stamp {
                secs: version,
                nanos: 0,
            },
            ..Meta::default()
        },
        link: None,
        hash: None,
    }
}

/// Records of what lies in a directory, and the files among them: files first, then directories.
fn walk(
    files: &Files,
    at: &Path,
    depth: usize,
    entries: &mut VecDeque<Entry>,
    found: &mut Vec<i64>,
) {
    let is_inside = |path: &Path| path.starts_with(at) && path.components().count() > depth;
    let inside = files.iter().filter(|(path, _)| is_inside(path));
    let mut dirs: Vec<PathBuf> = Vec::new();
    for (path, version) in inside {
        if path.components().count() == depth + 1 {
            entries.push_back(file(path.file_name().unwrap_or_default(), *version, 7));
            found.push(*version);
        } else {
            let dir: PathBuf = path.components().take(depth + 1).collect();
            if dirs.last() != Some(&dir) {
                dirs.push(dir);
            }
        }
    }
    dirs.sort_by(|a, b| a.as_os_str().as_bytes().cmp(b.as_os_str().as_bytes()));
    for dir in dirs {
        entries.push_back(Entry::Dir {
            name: dir.file_name().unwrap_or_default().as_bytes().to_owned(),
            meta: Meta::default(),
        });
        walk(files, &dir, depth + 1, entries, found);
        entries.push_back(Entry::Up { complete: true });
    }
}

/// What is on its way between the two, each in order.
#[derive(Debug, Default)]
struct Link {
    /// To the server, and to the client.
    messages: [VecDeque<Vec<u8>>; 2],
    manifest: VecDeque<u8>,
    answers: VecDeque<u8>,
    packs: VecDeque<(usize, i64)>,
}

/// Names what it has, and sends what is wanted of it.
#[derive(Debug)]
struct TreeSender {
    entries: VecDeque<Entry>,
    encoder: ManifestEncoder,
    files: Vec<i64>,
    answers: Vec<u8>,
    answered: usize,
    wanted: VecDeque<usize>,
}

impl TreeSender {
    fn new(files: &Files, link: &mut Link) -> Self {
        let (mut entries, mut found) = (VecDeque::new(), Vec::new());
        walk(files, Path::new(""), 0, &mut entries, &mut found);
        entries.push_back(Entry::End { complete: true });
        let mut version = Vec::new();
        put_version(&mut version);
        link.manifest.extend(version);
        Self {
            entries,
            encoder: ManifestEncoder::default(),
            files: found,
            answers: Vec::new(),
            answered: 0,
            wanted: VecDeque::new(),
        }
    }

    fn say(&mut self, entry: &Entry, link: &mut Link) {
        let mut bytes = Vec::new();
        self.encoder.encode(entry, &mut bytes);
        link.manifest.extend(bytes);
    }

    fn go_on(&mut self, link: &mut Link) -> bool {
        if let Some(entry) = self.entries.pop_front() {
            self.say(&entry, link);
        } else if let Some(index) = self.wanted.pop_front() {
            link.packs.push_back((index, self.files[index]));
        } else {
            return false;
        }
        true
    }

    fn hear(&mut self, bytes: impl Iterator<Item = u8>) -> Result<(), Failure> {
        self.answers.extend(bytes);
        let mut rest = &self.answers[..];
        while let Some(answer) = decode_answer(&mut rest)? {
            if let Answer::Files { wanted, count } = answer {
                let count = usize::try_from(count).unwrap_or(usize::MAX);
                let end = self.answered.saturating_add(count);
                if end > self.files.len() {
                    return Err(Misbehaved::new("answers more files than there are").into());
                }
                if wanted {
                    self.wanted.extend(self.answered..end);
                }
                self.answered = end;
            }
        }
        self.answers = rest.to_owned();
        Ok(())
    }
}

/// Says what it wants of what is named, and writes it.
#[derive(Debug)]
struct TreeReceiver {
    options: TreeOptions,
    filter: Filter,
    gate: Option<Gate>,
    decoder: ManifestDecoder,
    manifest: Vec<u8>,
    at: PathBuf,
    /// Where files go that are wanted, by their numbers.
    files: Vec<Option<PathBuf>>,
    encoder: AnswerEncoder,
    missing: usize,
    is_named: bool,
}

impl TreeReceiver {
    fn new(asked: Asked, options: TreeOptions, has_gate: bool) -> Result<Self, Failure> {
        Ok(Self {
            filter: Filter::new(&options)?,
            options,
            gate: has_gate.then(|| Gate::new(asked)),
            decoder: ManifestDecoder::default(),
            manifest: Vec::new(),
            at: PathBuf::new(),
            files: Vec::new(),
            encoder: AnswerEncoder::default(),
            missing: 0,
            is_named: false,
        })
    }

    fn hear(
        &mut self,
        bytes: impl Iterator<Item = u8>,
        here: &Files,
        link: &mut Link,
    ) -> Result<(), Failure> {
        self.manifest.extend(bytes);
        let manifest = std::mem::take(&mut self.manifest);
        let (mut rest, mut out) = (&manifest[..], Vec::new());
        while !self.is_named
            && let Some(entry) = self.decoder.decode(&mut rest)?
        {
            if let Some(gate) = &mut self.gate {
                gate.admit(&entry, &self.options, &self.filter)?;
            }
            match entry {
                Entry::Dir { name, .. } => self.at.push(OsStr::from_bytes(&name)),
                Entry::Up { .. } => drop(self.at.pop()),
                Entry::File { name, meta, .. } => {
                    let path = self.at.join(OsStr::from_bytes(&name));
                    let is_wanted = here.get(&path) != Some(&meta.mtime.secs);
                    self.encoder.file(is_wanted, &mut out);
                    self.missing += usize::from(is_wanted);
                    self.files.push(Some(path).filter(|_| is_wanted));
                }
                Entry::End { .. } => {
                    self.is_named = true;
                    self.encoder.end(&mut out);
                }
                _ => {}
            }
        }
        self.encoder.end_run(&mut out);
        self.manifest = rest.to_owned();
        link.answers.extend(out);
        Ok(())
    }

    fn place(&mut self, (index, version): (usize, i64), here: &mut Files) -> Result<(), Failure> {
        let path = self.files.get_mut(index).and_then(Option::take);
        let path = path.ok_or_else(|| Misbehaved::new("sends what nobody wanted"))?;
        here.insert(path, version);
        self.missing -= 1;
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.is_named && self.missing == 0
    }
}

/// How one end has ended, if it has.
type Ended = Option<Result<(), Failure>>;

struct World {
    random: ChaCha8Rng,
    /// Nobody, the client or the server says anything.
    hostile: Option<usize>,
    /// One in so many words of the hostile one is another.
    noise: usize,
    is_put: bool,
    has_gate: bool,
    faults: u32,
    source: Files,
    here: Files,
    link: Link,
    /// Sessions that were refused.
    refused: u64,
}

impl World {
    fn new(seed: u64, has_gate: bool) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut below = |n: u64| random.next_u64() % n;
        let mut source = Files::new();
        for _ in 0..=below(12) {
            let mut path = PathBuf::from(ASKED[0]);
            for _ in 0..below(3) {
                path.push(["a", "b", "x-rather-long-name"][below(3) as usize]);
            }
            path.push(["f", "g", "h"][below(3) as usize]);
            source.insert(path, below(50) as i64);
        }
        source.insert(ASKED[1].into(), 1);
        let mut here = Files::new();
        for (path, version) in &source {
            if below(3) == 0 {
                here.insert(path.clone(), version + below(2) as i64);
            }
        }
        let hostile = [None, None, Some(0), Some(1)][below(4) as usize];
        let noise = [6, 40, 1_000][below(3) as usize];
        let (is_put, faults) = (below(2) == 0, below(6) as u32);
        Self {
            random,
            hostile,
            noise,
            is_put,
            has_gate,
            faults,
            source,
            here,
            link: Link::default(),
            refused: 0,
        }
    }

    fn below(&mut self, n: usize) -> usize {
        (self.random.next_u64() % n.max(1) as u64) as usize
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn run(mut self) -> Result<u64, String> {
        let before = self.here.clone();
        for attempt in 0..ATTEMPTS {
            if attempt + 2 >= ATTEMPTS {
                self.faults = 0;
            }
            let ended = self.attempt()?;
            self.check(&before)?;
            match ended {
                Some(Ok(())) if self.hostile.is_none() => {
                    if self.here != self.source {
                        return Err(format!("{:?} is there of {:?}", self.here, self.source));
                    }
                    return Ok(self.refused);
                }
                Some(Ok(())) => return Ok(self.refused),
                Some(Err(Failure::Protocol(what))) if self.hostile.is_none() => {
                    return Err(format!("both are honest, and one says: {what}"));
                }
                Some(Err(Failure::Protocol(_))) => self.refused += 1,
                _ => {}
            }
        }
        match self.hostile {
            None => Err("it does not succeed although nothing happens any more".to_owned()),
            Some(_) => Ok(self.refused),
        }
    }

    /// Nothing has a name that was not asked for.
    fn check(&self, before: &Files) -> Result<(), String> {
        for path in self.here.keys().filter(|path| !before.contains_key(*path)) {
            let mut names = path.components().map(|part| part.as_os_str().as_bytes());
            let first = names.clone().next().unwrap_or_default();
            // Whoever puts may choose the names at the top.
            let is_asked = self.is_put || ASKED.iter().any(|name| name.as_bytes() == first);
            let is_bad = |name: &[u8]| {
                name == b".."
                    || name.is_empty()
                    || name.contains(&b'/')
                    || reserved::is_unfinished(name)
            };
            let is_excluded = names.clone().skip(1).any(|name| name.ends_with(b".key"));
            if !is_asked || names.any(is_bad) || is_excluded {
                return Err(format!("{} has a name", path.display()));
            }
        }
        Ok(())
    }

    /// A hostile one has more than it was asked for.
    fn sender(&mut self) -> TreeSender {
        let mut files = self.source.clone();
        if self.is_hostile(self.is_put) && self.one_in(2) {
            let mut path = PathBuf::from([".ssh", "elsewhere", ASKED[0]][self.below(3)]);
            path.push(NAMES[self.below(NAMES.len())]);
            files.insert(path, 99);
        }
        TreeSender::new(&files, &mut self.link)
    }

    fn receiver(&self) -> Result<Box<TreeReceiver>, Failure> {
        let asked = if self.is_put {
            Asked::Anything
        } else {
            Asked::Names(ASKED.iter().map(OsString::from).collect())
        };
        Ok(Box::new(TreeReceiver::new(
            asked,
            options(),
            self.has_gate,
        )?))
    }

    fn say(&mut self, to: usize, message: &Message) {
        let mut bytes = message.encode();
        // What the client says goes to the server.
        if self.is_hostile(to == 0) && self.one_in(self.noise) {
            let at = self.below(bytes.len());
            bytes[at] = self.random.next_u64() as u8;
        }
        self.link.messages[to].push_back(bytes);
    }

    /// The same command once more. How the client ended; none: it never did.
    fn attempt(&mut self) -> Result<Ended, String> {
        self.link = Link::default();
        let mut server: Server<Model> = Server::new(None);
        let mut client: client::Client<Sending, Receiving> =
            client::Client::new(Wants::Tree { removes: false });
        let paths: Vec<PathBytes> = ASKED.iter().map(|name| PathBytes::from(*name)).collect();
        let mut tree = if self.is_put {
            self.say(
                0,
                &Message::TreePut {
                    manifest: ObjectId::new(0),
                    packs: ObjectId::new(2),
                    path: "to".into(),
                    several: true,
                    options: options(),
                },
            );
            client.moves();
            Tree::Sends(self.sender())
        } else {
            self.say(
                0,
                &Message::TreeGet {
                    answers: ObjectId::new(0),
                    paths,
                    options: options(),
                },
            );
            client.asked();
            Tree::Receives(self.receiver().map_err(|e| format!("{e:?}"))?)
        };
        for _ in 0..STEPS_MAX {
            if self.faults > 0 && self.one_in(40) {
                // A connection breaks, or a host dies: what has a name keeps it, and the rest is gone with the session.
                self.faults -= 1;
                let is_here = client.has_all();
                return Ok(Some(if is_here { Ok(()) } else { Err(Failure::Lost) }));
            }
            let first = self.below(6);
            let mut did = false;
            for n in 0..6 {
                let served = match (first + n) % 6 {
                    0 | 1 => self.serve(&mut server),
                    2 | 3 => match self.go_on(&mut client, &mut tree) {
                        Ok(did) => Ok(did),
                        Err(failure) => return Ok(Some(Err(failure))),
                    },
                    4 => {
                        let is_open = client.stage() != Stage::Asked;
                        match self.stream(Some(&mut tree).filter(|_| is_open)) {
                            Ok(did) => Ok(did),
                            Err(failure) => return Ok(Some(Err(failure))),
                        }
                    }
                    _ => self.stream(server.now_mut().tree()),
                };
                match served {
                    Ok(false) => {}
                    Ok(true) => did = true,
                    Err(failure) if self.hostile.is_none() => {
                        return Err(format!("both are honest, and the server says: {failure:?}"));
                    }
                    Err(failure) => {
                        self.refused += 1;
                        server.end();
                        self.say(
                            1,
                            &Message::fail(FailureKind::Protocol, &format!("{failure:?}")),
                        );
                        did = true;
                    }
                }
                if client.stage() == Stage::Over {
                    return Ok(Some(Ok(())));
                }
                if did {
                    break;
                }
            }
            if !did {
                return match self.hostile {
                    None => Err("both wait for ever".to_owned()),
                    Some(_) => Ok(None),
                };
            }
        }
        Err("it goes on and on".to_owned())
    }

    /// The server hears a message, or ends.
    fn serve(&mut self, server: &mut Server<Model>) -> Result<bool, Failure> {
        let side = SideReport::default();
        let report = TreeReport::default();
        if let Does::Tree(Tree::Receives(receiver)) = server.now()
            && receiver.is_done()
        {
            server.end();
            let renamed = None;
            self.say(
                1,
                &Message::TreeDone {
                    side,
                    report,
                    renamed,
                },
            );
            return Ok(true);
        }
        let Some(bytes) = self.link.messages[0].pop_front() else {
            return Ok(false);
        };
        let message = Message::decode(&bytes).map_err(|e| Failure::Protocol(e.to_string()))?;
        match server.hear(message)? {
            Order::Tree(Message::TreePut { .. }, None) if self.is_put => {
                server.does(Does::Tree(Tree::Receives(self.receiver()?)));
                self.say(
                    1,
                    &Message::TreeAccepted {
                        answers: ObjectId::new(1),
                    },
                );
            }
            Order::Tree(Message::TreeGet { .. }, None) if !self.is_put => {
                let comes = Message::TreeComes {
                    manifest: ObjectId::new(1),
                    packs: ObjectId::new(3),
                };
                self.say(1, &comes);
                server.does(Does::Tree(Tree::Sends(self.sender())));
            }
            Order::OfTree(Message::TreeDone { .. }) if !self.is_put => {
                server.end();
                self.say(1, &Message::TreeThanks { side, report });
            }
            Order::Nothing | Order::Pace(_) | Order::OfTree(Message::TreeThanks { .. }) => {}
            order => return Err(Failure::Protocol(format!("{order:?}"))),
        }
        Ok(true)
    }

    /// The client hears a message, or ends.
    fn go_on(
        &mut self,
        client: &mut client::Client<Sending, Receiving>,
        tree: &mut Tree,
    ) -> Result<bool, Failure> {
        let side = SideReport::default();
        let report = TreeReport::default();
        if let Tree::Receives(receiver) = tree
            && client.stage() == Stage::Moving
            && receiver.is_done()
        {
            let renamed = None;
            self.say(
                0,
                &Message::TreeDone {
                    side,
                    report,
                    renamed,
                },
            );
            client.thanks();
            return Ok(true);
        }
        let Some(bytes) = self.link.messages[1].pop_front() else {
            return Ok(false);
        };
        let message = Message::decode(&bytes).map_err(|e| Failure::Protocol(e.to_string()))?;
        let message = match client.hear(message, true)? {
            client::Order::OfTree(message) => *message,
            client::Order::Failed(kind, _) => {
                return Err(Failure::Told(FailureKind::from_number(kind)));
            }
            client::Order::Room(_) => return Ok(true),
            order => return Err(Failure::Protocol(format!("{order:?}"))),
        };
        match (message, client.stage()) {
            (Message::TreeAccepted { .. }, _) if self.is_put => {}
            (Message::TreeComes { .. }, Stage::Asked) => client.moves(),
            (Message::TreeDone { .. }, _) if self.is_put => {
                self.say(0, &Message::TreeThanks { side, report });
                client.end();
            }
            (Message::TreeThanks { .. }, Stage::Thanking) => client.end(),
            (message, _) => return Err(Failure::Protocol(format!("{message:?}"))),
        }
        Ok(true)
    }

    /// A portion of a stream comes to one end, or it goes on with its own.
    fn stream(&mut self, tree: Option<&mut Tree>) -> Result<bool, Failure> {
        let mut some = 1 + self.below(40);
        let Some(tree) = tree else {
            return Ok(false);
        };
        match tree {
            Tree::Sends(sender) => {
                some = some.min(self.link.answers.len());
                let bytes: Vec<u8> = self.link.answers.drain(..some).collect();
                let by_client = self.is_put;
                if some > 0 && self.one_in(2) {
                    sender.hear(self.worse(bytes, !by_client).into_iter())?;
                    return Ok(true);
                }
                for byte in bytes.into_iter().rev() {
                    self.link.answers.push_front(byte);
                }
                if self.is_hostile(by_client) && self.one_in(self.noise) {
                    let entry = self.any_entry();
                    sender.say(&entry, &mut self.link);
                }
                if self.is_hostile(by_client) && self.one_in(3 * self.noise) {
                    let pack = (self.below(9), 99);
                    self.link.packs.push_back(pack);
                }
                Ok(sender.go_on(&mut self.link) || some > 0)
            }
            Tree::Receives(receiver) => {
                if self.one_in(3)
                    && let Some(pack) = self.link.packs.pop_front()
                {
                    receiver.place(pack, &mut self.here)?;
                    return Ok(true);
                }
                some = some.min(self.link.manifest.len());
                if some == 0 {
                    let Some(pack) = self.link.packs.pop_front() else {
                        return Ok(false);
                    };
                    receiver.place(pack, &mut self.here)?;
                    return Ok(true);
                }
                let bytes: Vec<u8> = self.link.manifest.drain(..some).collect();
                let bytes = self.worse(bytes, self.is_put);
                receiver.hear(bytes.into_iter(), &self.here, &mut self.link)?;
                Ok(true)
            }
        }
    }

    fn is_hostile(&self, client: bool) -> bool {
        self.hostile == Some(usize::from(!client))
    }

    /// Bytes of a stream, as a hostile one of the two has them now and then.
    fn worse(&mut self, mut bytes: Vec<u8>, by_client: bool) -> Vec<u8> {
        if self.is_hostile(by_client) && self.one_in(2 * self.noise) {
            let at = self.below(bytes.len());
            bytes[at] = self.random.next_u64() as u8;
        }
        bytes
    }

    /// A record that may be one that was not asked for.
    fn any_entry(&mut self) -> Entry {
        let name = NAMES[self.below(NAMES.len())];
        let meta = Meta::default();
        match self.below(8) {
            0 | 1 => Entry::Dir {
                name: name.into(),
                meta,
            },
            2 => Entry::Up { complete: true },
            3 => Entry::Top { meta },
            4 => Entry::Symlink {
                name: name.into(),
                target: "/etc".into(),
                meta,
            },
            5 => Entry::End { complete: true },
            6 => file(OsStr::new(name), 99, 2 * LARGEST),
            _ => file(OsStr::new(name), 99, 7),
        }
    }
}

#[test]
fn a_tree_is_equal_in_the_end_and_nothing_else_has_a_name() {
    let (from, count) = seeds();
    let mut refused = 0;
    for seed in from..from + count {
        match std::panic::catch_unwind(|| World::new(seed, true).run()) {
            Ok(Ok(times)) => refused += times,
            Ok(Err(what)) => panic!("HOWDAH_SEED={seed}: {what}"),
            Err(panic) => {
                println!("HOWDAH_SEED={seed}");
                std::panic::resume_unwind(panic);
            }
        }
    }
    println!("{count} sessions of trees, {refused} refused");
}

/// The gate is what keeps names out.
#[test]
fn without_the_gate_names_come_that_nobody_asked_for() {
    let is_found = |seed| World::new(seed, false).run().is_err();
    let found = (0..2_000).filter(|seed| is_found(*seed)).count();
    assert!(found > 50, "{found}");
}
