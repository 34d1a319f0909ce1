//! Both ends of a copy, what is between them, what happens to them, and what must hold after it.

mod checks;
mod faults;

use super::fs::{Data, Fs, Node};
use super::make::{self, TOPS, below};
use super::receiver::{Destination, Receiver, Terms, is_left_out};
use super::sender::{Gap, Leaver, Origin, Pack, Sender, Streams};
use super::wrong::Wrong;
use crate::sessions::sides::{self, Failure, Piece, Said, Sending};
use howdah_core::ObjectId;
use howdah_session::client::{self, Stage, Wants};
use howdah_session::entry::{Entry, Meta, Stamp};
use howdah_session::message::{Message, SideReport};
use howdah_session::server::{Does, Order, Parts, Server};
use howdah_session::{Asked, FailureKind, Metadata, PathBytes, TreeReport, reserved};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::convert::Infallible;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

const ATTEMPTS: u32 = 9;
const QUIET_ATTEMPTS: u32 = 3;
const STEPS_MAX: u32 = 8_000;
/// What a hostile end names.
const NAMES: [&str; 8] = ["a", "b", "c.key", "f", "notes", "photos", ".ssh", ".."];

#[derive(Debug)]
struct Model;

impl Parts for Model {
    type Sending = Sending;
    type Receiving = sides::Receiving;
    type Landing = Infallible;
    type Question = Infallible;
    type Tree = Tree;
    type Files = Infallible;
    type Lane = Infallible;
}

#[derive(Debug)]
enum Tree {
    Sends(Box<Sender>),
    Receives(Box<Receiver>),
}

type Client = client::Client<Sending, sides::Receiving>;

/// What has happened, to see that it does.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    faults: u64,
    crashes: u64,
    refused: u64,
    partly: u64,
    succeeded: u64,
    resumed: u64,
    removed: u64,
    deleted: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, other: &Self) {
        self.faults += other.faults;
        self.crashes += other.crashes;
        self.refused += other.refused;
        self.partly += other.partly;
        self.succeeded += other.succeeded;
        self.resumed += other.resumed;
        self.removed += other.removed;
        self.deleted += other.deleted;
    }
}

/// How one end has ended.
type Ended = Option<Result<TreeReport, Failure>>;

pub(crate) struct World {
    random: ChaCha8Rng,
    terms: Terms,
    /// The client or the server says anything.
    hostile: Option<usize>,
    /// One in so many words of the hostile one is another.
    noise: u64,
    is_put: bool,
    faults: u32,
    origin: Origin,
    to: Destination,
    /// What was there first.
    before: BTreeMap<PathBuf, Node>,
    /// Further names of it, given by a copy that left it as it was: they stay as it does, also when the first is gone.
    further: BTreeMap<PathBuf, Vec<Node>>,
    /// What the source has had.
    ever: BTreeMap<PathBuf, Vec<Node>>,
    /// What a source that was named in whole did not have.
    may_go: BTreeSet<PathBuf>,
    /// What was removed from the source.
    removed: Vec<(PathBuf, Node)>,
    now: i64,
    /// The source was changed in this attempt.
    is_changed: bool,
    attempts: u64,
    /// Whoever reads the source ends it.
    sender_gives_up: bool,
    /// The host of the receiver has died.
    is_dead: bool,
    messages: [VecDeque<Vec<u8>>; 2],
    pieces: Vec<Piece>,
    streams: Streams,
    tally: Tally,
}

impl World {
    pub(crate) fn new(seed: u64, wrong: Wrong) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let terms = make::terms(&mut random, wrong);
        let origin = make::origin(&mut random);
        let fs = make::before(&mut random, &origin);
        let all = |fs: &Fs| -> BTreeMap<PathBuf, Node> {
            let nodes = fs.nodes();
            nodes
                .map(|(path, node)| (path.clone(), node.clone()))
                .collect()
        };
        let ever = all(&origin.fs)
            .into_iter()
            .map(|(path, node)| (path, vec![node]));
        let hostile = [None, None, None, Some(0), Some(1)][below(&mut random, 5) as usize];
        Self {
            hostile,
            noise: [6, 40, 1_000][below(&mut random, 3) as usize],
            is_put: below(&mut random, 2) == 0,
            faults: below(&mut random, 7) as u32,
            before: all(&fs),
            further: BTreeMap::new(),
            ever: ever.collect(),
            to: Destination {
                fs,
                ..Destination::default()
            },
            origin,
            terms,
            may_go: BTreeSet::new(),
            removed: Vec::new(),
            now: 50_000,
            is_changed: false,
            attempts: 0,
            sender_gives_up: false,
            is_dead: false,
            messages: Default::default(),
            pieces: Vec::new(),
            streams: Streams::default(),
            tally: Tally::default(),
            random,
        }
    }

    fn below(&mut self, n: usize) -> usize {
        below(&mut self.random, n as u64) as usize
    }

    fn one_in(&mut self, n: u64) -> bool {
        below(&mut self.random, n) == 0
    }

    pub(crate) fn run(mut self) -> Result<Tally, String> {
        let terms = format!("{:?}, put: {}", self.terms, self.is_put);
        self.attempts_all()
            .map_err(|what| format!("{what} ({terms})"))
    }

    fn attempts_all(&mut self) -> Result<Tally, String> {
        for attempt in 0..ATTEMPTS {
            let is_quiet = attempt + QUIET_ATTEMPTS >= ATTEMPTS;
            if is_quiet {
                self.faults = 0;
                self.origin.fails = 0;
                self.to.fs.fails = 0;
            }
            self.to.is_full = false;
            self.is_changed = false;
            self.origin.gaps.clear();
            if self.faults > 0 && self.one_in(6) {
                self.faults -= 1;
                self.tally.faults += 1;
                make::gap(&mut self.random, &mut self.origin);
            }
            let ended = self.attempt()?;
            self.check_names()?;
            if self.faults > 0 && self.one_in(4) {
                self.crash();
                self.check_names()?;
            }
            match ended {
                Some(Ok(_)) if self.hostile.is_some() => return Ok(self.tally),
                Some(Ok(report)) => {
                    let is_partly = report.failed > 0 || report.changed > 0 || self.is_changed;
                    if !is_partly {
                        self.check_success(&report)?;
                        self.tally.succeeded += 1;
                        return Ok(self.tally);
                    }
                    if is_quiet && attempt + 1 == ATTEMPTS {
                        self.check_partly(&report)?;
                        self.tally.partly += 1;
                        return Ok(self.tally);
                    }
                }
                Some(Err(Failure::Protocol(what))) if self.hostile.is_none() => {
                    return Err(format!("both are honest, and one says: {what}"));
                }
                Some(Err(Failure::Protocol(_))) => self.tally.refused += 1,
                Some(Err(failure)) if is_quiet && self.hostile.is_none() => {
                    return Err(format!("{failure:?} although nothing happens any more"));
                }
                _ => {}
            }
        }
        match self.hostile {
            None => Err("it does not succeed although nothing happens any more".to_owned()),
            Some(_) => Ok(self.tally),
        }
    }

    /// The destination's host loses its power.
    fn crash(&mut self) {
        self.tally.crashes += 1;
        self.is_dead = true;
        self.to.fs.crash(&mut self.random);
        for disk in self.to.disks.values_mut() {
            disk.crash();
        }
    }

    /// Whether the one that sends may say anything.
    fn sender_is_hostile(&self) -> bool {
        self.is_hostile(self.is_put)
    }

    fn is_hostile(&self, client: bool) -> bool {
        self.hostile == Some(usize::from(!client))
    }

    fn sender(&mut self) -> Box<Sender> {
        self.note_what_may_go();
        let objects = if self.is_put { 4 } else { 5 };
        let (options, wrong) = (&self.terms.options, self.terms.wrong);
        let sender = Sender::new(
            &self.origin,
            options,
            &TOPS,
            objects,
            wrong,
            &mut self.streams,
        );
        Box::new(sender)
    }

    fn receiver(&mut self) -> Result<Box<Receiver>, Failure> {
        let asked = if self.is_put {
            Asked::Anything
        } else {
            Asked::Names(TOPS.iter().map(OsString::from).collect())
        };
        Ok(Box::new(Receiver::new(self.attempts, &self.terms, asked)?))
    }

    fn send(&mut self, to: usize, said: Said) {
        for bytes in said.messages {
            self.send_bytes(to, bytes);
        }
        self.pieces.extend(said.pieces);
    }

    fn say(&mut self, to: usize, message: &Message) {
        self.send_bytes(to, message.encode());
    }

    fn send_bytes(&mut self, to: usize, mut bytes: Vec<u8>) {
        // What the client says goes to the server.
        if self.is_hostile(to == 0) && self.one_in(self.noise) {
            match self.below(4) {
                0 => return,
                1 => bytes = self.anything().encode(),
                _ => {
                    let at = self.below(bytes.len());
                    bytes[at] = self.random.next_u64() as u8;
                }
            }
        }
        self.messages[to].push_back(bytes);
    }

    fn anything(&mut self) -> Message {
        let object = ObjectId::new(self.below(9) as u64);
        let index = self.below(5) as u64;
        match self.below(7) {
            0 => Message::TreeSettled {
                object,
                stored: self.one_in(2),
            },
            1 => Message::TreeFileMissing { object },
            2 => Message::TreePlaced {
                runs: vec![(index, 9), (u64::MAX, u64::MAX)],
            },
            3 => Message::TreeFile {
                object,
                index,
                size: crate::sessions::disk::size(5),
                source: None,
            },
            4 => Message::End {
                object,
                size: crate::sessions::disk::size(5),
                blake3: Some([7; 32]),
            },
            5 => Message::TreeDone {
                side: SideReport::default(),
                report: TreeReport::default(),
                renamed: None,
            },
            _ => Message::TreeThanks {
                side: SideReport::default(),
                report: TreeReport::default(),
            },
        }
    }

    /// The same command once more. How the client ended; none: it never did.
    fn attempt(&mut self) -> Result<Ended, String> {
        self.attempts += 1;
        self.is_dead = false;
        self.sender_gives_up = false;
        self.messages = Default::default();
        self.pieces.clear();
        self.streams = Streams::default();
        let mut server: Server<Model> = Server::new(None);
        let removes = self.terms.options.remove_source && !self.is_put;
        let mut client = Client::new(Wants::Tree { removes });
        let options = self.terms.options.clone();
        let failed = |failure: Failure| format!("{failure:?}");
        let mut tree = if self.is_put {
            let put = Message::TreePut {
                manifest: ObjectId::new(0),
                packs: ObjectId::new(2),
                path: "to".into(),
                several: true,
                options,
            };
            self.say(0, &put);
            client.moves();
            Tree::Sends(self.sender())
        } else {
            let paths = TOPS.iter().map(|name| PathBytes::from(*name)).collect();
            let get = Message::TreeGet {
                answers: ObjectId::new(0),
                paths,
                options,
            };
            self.say(0, &get);
            client.asked();
            Tree::Receives(self.receiver().map_err(failed)?)
        };
        let ended = self.steps(&mut server, &mut client, &mut tree);
        let stops = self.one_in(2) && !self.is_dead;
        for tree in [Some(&mut tree), server.now_mut().tree()]
            .into_iter()
            .flatten()
        {
            if let (Tree::Receives(receiver), true) = (tree, stops) {
                receiver.stop(&mut self.to);
            }
        }
        self.to.let_go(self.attempts);
        ended
    }

    fn steps(
        &mut self,
        server: &mut Server<Model>,
        client: &mut Client,
        tree: &mut Tree,
    ) -> Result<Ended, String> {
        let mut theirs = None;
        for _ in 0..STEPS_MAX {
            if self.faults > 0 && self.one_in(30) {
                self.faults -= 1;
                self.tally.faults += 1;
                if self.fault() {
                    // What has all knows it, whatever becomes of the other.
                    let is_here = client.has_all();
                    let report = theirs.unwrap_or_default();
                    return Ok(Some(if is_here {
                        Ok(report)
                    } else {
                        Err(Failure::Lost)
                    }));
                }
            }
            let first = self.below(7);
            let mut did = false;
            for n in 0..7 {
                let (result, by_client) = match (first + n) % 7 {
                    0 | 1 => (self.serve(server), false),
                    2 | 3 => (self.go_on(client, tree, &mut theirs), true),
                    4 if client.stage() != Stage::Asked => (self.work(tree, true), true),
                    4 => (Ok(false), true),
                    5 => match server.now_mut().tree() {
                        Some(tree) => (self.work(tree, false), false),
                        None => (Ok(false), false),
                    },
                    _ => {
                        let at_server = self.is_put;
                        let there = if at_server {
                            server.now_mut().tree()
                        } else {
                            Some(&mut *tree)
                        };
                        (
                            there.map_or(Ok(false), |tree| self.deliver(tree)),
                            !at_server,
                        )
                    }
                };
                match result {
                    Ok(some) => did = some,
                    Err(failure) if by_client => return Ok(Some(Err(failure))),
                    Err(Failure::Protocol(what)) if self.hostile.is_none() => {
                        return Err(format!("both are honest, and the server says: {what}"));
                    }
                    Err(failure) => {
                        if let Does::Tree(Tree::Receives(mut receiver)) = server.end() {
                            receiver.stop(&mut self.to);
                        }
                        let kind = match failure {
                            Failure::Protocol(_) => FailureKind::Protocol,
                            _ => FailureKind::Io,
                        };
                        self.say(1, &Message::fail(kind, "it failed"));
                        did = true;
                    }
                }
                if client.stage() == Stage::Over {
                    return Ok(Some(Ok(theirs.unwrap_or_default())));
                }
                if did {
                    break;
                }
            }
            if !did && self.to.is_full {
                self.to.is_full = false;
            } else if !did {
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
        let renamed = None;
        match server.now() {
            Does::Tree(Tree::Receives(receiver)) if receiver.is_done() => {
                let report = receiver.report();
                server.end();
                let done = Message::TreeDone {
                    side,
                    report,
                    renamed,
                };
                self.say(1, &done);
                return Ok(true);
            }
            Does::Tree(Tree::Sends(sender)) if sender.may_end() => {
                let report = sender.report();
                server.end();
                self.say(1, &Message::TreeThanks { side, report });
                return Ok(true);
            }
            _ => {}
        }
        let Some(bytes) = self.messages[0].pop_front() else {
            return Ok(false);
        };
        let message = Message::decode(&bytes).map_err(|e| Failure::Protocol(e.to_string()))?;
        let order = server.hear(message)?;
        match (order, server.now_mut().tree()) {
            (Order::Tree(Message::TreePut { .. }, None), _) if self.is_put => {
                server.does(Does::Tree(Tree::Receives(self.receiver()?)));
                self.say(
                    1,
                    &Message::TreeAccepted {
                        answers: ObjectId::new(1),
                    },
                );
            }
            (Order::Tree(Message::TreeGet { .. }, None), _) if !self.is_put => {
                let comes = Message::TreeComes {
                    manifest: ObjectId::new(1),
                    packs: ObjectId::new(3),
                };
                self.say(1, &comes);
                server.does(Does::Tree(Tree::Sends(self.sender())));
            }
            (Order::OfTree(Message::TreeDone { .. }), Some(Tree::Sends(sender))) => {
                sender.all_placed();
            }
            (Order::OfTree(message), Some(Tree::Sends(sender))) => sender.on_message(&message)?,
            (Order::OfTree(message), Some(Tree::Receives(receiver))) => {
                receiver.on_message(&message)?;
            }
            (Order::Nothing | Order::Pace(_), _) => {}
            (Order::Failed(..), _) => return Err(Failure::Told(FailureKind::Io)),
            (order, _) => return Err(Failure::Protocol(format!("{order:?}"))),
        }
        Ok(true)
    }

    /// The client hears a message, or ends.
    fn go_on(
        &mut self,
        client: &mut Client,
        tree: &mut Tree,
        theirs: &mut Option<TreeReport>,
    ) -> Result<bool, Failure> {
        let side = SideReport::default();
        let renamed = None;
        match tree {
            Tree::Receives(receiver) if client.stage() == Stage::Moving && receiver.is_done() => {
                let report = receiver.report();
                *theirs = Some(report.clone());
                let done = Message::TreeDone {
                    side,
                    report,
                    renamed,
                };
                if receiver.lacks {
                    client.lacks();
                }
                self.say(0, &done);
                client.thanks();
                return Ok(true);
            }
            Tree::Sends(sender) if sender.may_end() => {
                let report = sender.report();
                let merged = TreeReport::merged(&report, &theirs.take().unwrap_or_default());
                *theirs = Some(merged);
                self.say(0, &Message::TreeThanks { side, report });
                client.end();
                return Ok(true);
            }
            _ => {}
        }
        let Some(bytes) = self.messages[1].pop_front() else {
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
        match (message, client.stage(), tree) {
            (Message::TreeAccepted { .. }, _, Tree::Sends(_)) => {}
            (Message::TreeComes { .. }, Stage::Asked, Tree::Receives(_)) => client.moves(),
            (Message::TreeDone { report, .. }, _, Tree::Sends(sender)) => {
                *theirs = Some(report);
                sender.all_placed();
            }
            (Message::TreeThanks { report, .. }, Stage::Thanking, _) => {
                let ours = theirs.take().unwrap_or_default();
                *theirs = Some(TreeReport::merged(&report, &ours));
                client.end();
            }
            (message, _, Tree::Sends(sender)) => sender.on_message(&message)?,
            (message, _, Tree::Receives(receiver)) => receiver.on_message(&message)?,
        }
        Ok(true)
    }

    /// A piece of a large file comes, or comes twice.
    fn deliver(&mut self, tree: &mut Tree) -> Result<bool, Failure> {
        let Tree::Receives(receiver) = tree else {
            return Ok(false);
        };
        let all = self.pieces.iter().enumerate();
        let taken = all.filter(|(_, piece)| receiver.admits(piece.object));
        let taken: Vec<usize> = taken.map(|(at, _)| at).collect();
        if taken.is_empty() {
            return Ok(false);
        }
        let at = taken[self.below(taken.len())];
        let piece = if self.one_in(9) {
            self.pieces[at]
        } else {
            self.pieces.swap_remove(at)
        };
        let mut said = Said::default();
        let placed = receiver.place(piece, &mut self.to, &mut said);
        self.send(usize::from(self.is_put), said);
        placed.map(|()| true)
    }

    /// A portion of a stream comes to one end, or it goes on with its own.
    fn work(&mut self, tree: &mut Tree, by_client: bool) -> Result<bool, Failure> {
        let mut some = 1 + self.below(60);
        let choice = self.random.next_u64() >> 8;
        let peer = usize::from(!by_client);
        let mut said = Said::default();
        match tree {
            Tree::Sends(_) if std::mem::take(&mut self.sender_gives_up) => Err(Failure::Source),
            Tree::Sends(sender) => {
                some = some.min(self.streams.answers.len());
                if some > 0 && self.one_in(2) {
                    let bytes = self.streams.answers.drain(..some).collect();
                    let bytes = self.worse(bytes, !by_client);
                    sender.hear_answers(bytes.into_iter())?;
                    return Ok(true);
                }
                if self.one_in(2)
                    && let Some(leaver) = sender.take_leaver()
                {
                    return self.remove(&leaver, sender);
                }
                if self.is_hostile(by_client) && self.one_in(self.noise) {
                    let entry = self.any_entry();
                    sender.say(&entry, &mut self.streams);
                }
                if self.is_hostile(by_client) && self.one_in(3 * self.noise) {
                    self.streams.packs.push_back(Pack::File {
                        content: vec![9_999],
                        mtime: None,
                        is_right: true,
                    });
                }
                let did = sender.go_on(&mut self.origin, &mut said, &mut self.streams, choice);
                self.send(peer, said);
                Ok(did || some > 0 || !sender.has_removed())
            }
            Tree::Receives(receiver) => {
                if self.one_in(2) {
                    let did = receiver.go_on(&mut self.to, &mut said, choice);
                    self.send(peer, std::mem::take(&mut said));
                    if did? {
                        return Ok(true);
                    }
                }
                some = some.min(self.streams.manifest.len());
                // Packs do not come before it is known what they are.
                let is_wanted = receiver.expects() && self.one_in(2);
                if (some == 0 || is_wanted)
                    && receiver.expects_packs()
                    && let Some(pack) = self.streams.packs.pop_front()
                {
                    receiver.unpack(pack, &mut self.to)?;
                    return Ok(true);
                }
                if some > 0 {
                    let bytes = self.streams.manifest.drain(..some).collect();
                    let bytes = self.worse(bytes, !by_client);
                    receiver.hear_manifest(bytes.into_iter(), &mut self.to, &mut self.streams)?;
                    return Ok(true);
                }
                let did = receiver.go_on(&mut self.to, &mut said, choice);
                self.send(peer, said);
                did
            }
        }
    }

    /// What is in place goes from the source, if it is still what was read.
    fn remove(&mut self, leaver: &Leaver, sender: &mut Sender) -> Result<bool, Failure> {
        let node = self.origin.fs.node(&leaver.path).cloned();
        let (Some(node), true) = (
            node,
            self.origin.fs.version(&leaver.path) == Some(leaver.version),
        ) else {
            sender.note_changed();
            return Ok(true);
        };
        assert!(
            leaver.content.is_none() || leaver.content.as_ref() == node.content(),
            "of one version there is one content"
        );
        let safe = self.to.fs.safe_node(&leaver.path).map(|node| &node.data);
        if self.hostile.is_none() && safe != Some(&node.data) {
            let what = format!("{} goes, and only {safe:?} is safe", leaver.path.display());
            return Err(Failure::Protocol(what));
        }
        let _ = self.origin.fs.remove(&leaver.path);
        if self.hostile.is_none() {
            self.removed.push((leaver.path.clone(), node));
        }
        Ok(true)
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
        let meta = Meta {
            mtime: Stamp { secs: 99, nanos: 0 },
            ..Meta::default()
        };
        let file = |size, link| Entry::File {
            name: name.into(),
            size,
            meta: meta.clone(),
            link,
            hash: None,
        };
        match self.below(9) {
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
            6 => Entry::Link {
                name: name.into(),
                link: 0,
                last: false,
            },
            7 => file(7, Some(0)),
            _ => file(5 << 20, None),
        }
    }
}
