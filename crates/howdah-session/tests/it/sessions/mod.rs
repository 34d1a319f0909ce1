//! Sessions of one file, up or down, and questions, in virtual time: connections that break, hosts that die at any step, disks that fail or are full, a source
//! that changes, and peers that say anything. Whatever happens, what has the file's name is one whole version of it, nothing else has a
//! name, both ends end, and once nothing happens any more the same command succeeds.
//!
//! Below a session a connection gives messages in order, each once, and bytes of objects in any order and more than once. Loss is no hole
//! there; it is delay and the end of a connection. So a [`Link`] does the worst that a connection may: messages of each direction and
//! bytes overtake each other, do not come for minutes, come twice if they are bytes, and at any step it all ends, after which each end
//! notices at another time. Some links have [real endpoints](Net) under them, where packets are lost, overtake and are doubled.
//!
//! A seed that fails is printed and brings the failure back: `HOWDAH_SEED=17`. `HOWDAH_SEEDS=1000000` tries more (`make sim-sessions`).

#![expect(clippy::cast_possible_truncation, reason = "numbers of groups")]

mod client;
mod copies;
mod disk;
mod net;
mod plans;
mod sides;

use client::{CLIENT, Client};
use disk::{Content, Disk, File, HOLE, Named, Wrong, root};
use howdah_core::{ObjectId, RangeSet, Span, Time};
use howdah_session::FailureKind;
use howdah_session::client::Wants;
use howdah_session::message::{Message, SideReport};
use howdah_session::questions::Sum;
use net::Net;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};
use sides::{Failure, LONG, NAME, Piece, Reach, Said, Server};
use std::collections::VecDeque;

/// What an end can reach.
macro_rules! reach {
    ($world:ident) => {
        Reach {
            file: &$world.file,
            disk: &mut $world.disk,
            wrong: $world.wrong,
        }
    };
}

/// The same command is given so often; the last times nothing happens.
const ATTEMPTS: u32 = 12;
const QUIET_ATTEMPTS: u32 = 3;
/// One in so many of the sessions of honest ends has a real connection under it.
const REAL: u64 = 32;
/// More steps of one attempt are none that anybody needs.
const STEPS_MAX: u32 = 20_000;

/// Who says what he wants.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Hostile {
    Nobody,
    Client,
    Server,
}

/// A connection, as long as it lives.
#[derive(Default)]
struct Link {
    to_server: VecDeque<Vec<u8>>,
    to_client: VecDeque<Vec<u8>>,
    /// In no order, and some twice.
    pieces: Vec<Piece>,
    /// Nothing of these three comes before then.
    silent_until: [Time; 3],
    /// What is under it, if that is real.
    net: Option<Box<Net>>,
}

struct World {
    random: ChaCha8Rng,
    wrong: Wrong,
    hostile: Hostile,
    is_real: bool,
    wants: Wants,
    is_put: bool,
    is_file: bool,
    file: File,
    disk: Disk,
    now: Time,
    faults: u32,
    /// Steps that were done, and what happens at one of them.
    step: u64,
    planned: Option<(u64, usize)>,
    next_id: u64,
    /// The last one is that of the connection of now; those before have lost theirs.
    servers: Vec<Server>,
    link: Option<Link>,
    /// What had the name before, if anything had.
    old: Option<Content>,
    /// The last answer to a question.
    found: Vec<String>,
    tally: Tally,
}

/// What has happened, to see that it does.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    resumed: u64,
    faults: u64,
    protocol: u64,
    stalled: u64,
    succeeded: u64,
    /// Sessions over real connections, and the packets that these have lost.
    real: u64,
    drops: u64,
}

impl World {
    fn new(seed: u64, wrong: Wrong) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let groups = 1 + random.next_u64() % 9;
        let is_put = random.next_u64().is_multiple_of(2);
        let is_file = !is_put || !random.next_u64().is_multiple_of(8);
        let wants = match random.next_u64() % 8 {
            _ if is_put => Wants::Put,
            0 => Wants::Ask,
            _ => Wants::Get,
        };
        let hostile = match random.next_u64() % 4 {
            0 => Hostile::Client,
            1 => Hostile::Server,
            _ => Hostile::Nobody,
        };
        let is_real = hostile == Hostile::Nobody && random.next_u64().is_multiple_of(REAL);
        let has_holes = random.next_u64().is_multiple_of(3);
        let content = (0..groups).map(|_| {
            let is_hole = has_holes && random.next_u64().is_multiple_of(3);
            if is_hole {
                HOLE
            } else {
                1 + random.next_u64() % 1_000
            }
        });
        let file = File {
            versions: vec![content.collect()],
            mtime: 7,
        };
        let faults = (random.next_u64() % 9) as u32;
        let mut disk = Disk::default();
        // No version has these numbers.
        let old = random.next_u64().is_multiple_of(2).then(|| vec![5_000; 3]);
        if let Some(old) = &old {
            disk.names.insert(NAME.to_owned(), Named::durable(old));
        }
        Self {
            random,
            wrong,
            hostile,
            is_real,
            wants,
            is_put,
            is_file,
            file,
            disk,
            now: Time::ZERO,
            faults,
            step: 0,
            planned: None,
            next_id: 1,
            servers: Vec::new(),
            link: None,
            old,
            found: Vec::new(),
            tally: Tally::default(),
        }
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.random.next_u64().is_multiple_of(n)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.random.next_u64() % n.max(1) as u64) as usize
    }

    /// Everything, and what became of it. An error says what must never be.
    fn run(mut self) -> Result<Tally, String> {
        for attempt in 0..ATTEMPTS {
            if attempt + QUIET_ATTEMPTS >= ATTEMPTS {
                self.faults = 0;
                self.disk.is_full = false;
            }
            let result = self.attempt()?;
            self.check_names()?;
            match result {
                Some(Ok(())) if self.hostile == Hostile::Nobody && self.wants == Wants::Ask => {
                    if !self.found.iter().eq(self.disk.names.keys()) {
                        return Err(format!("{:?} is the answer", self.found));
                    }
                    self.tally.succeeded += 1;
                    return Ok(self.tally);
                }
                Some(Ok(())) if self.hostile == Hostile::Nobody => {
                    // Whoever hears that it is done has it.
                    let named = self.disk.names.get(NAME);
                    let named = named.ok_or("it is done, and nothing is there")?;
                    if !self.file.versions.contains(&named.content) {
                        return Err(format!("it is done, and {named:?} is there"));
                    }
                    self.tally.succeeded += 1;
                    self.tally.resumed = self.disk.resumed;
                    return Ok(self.tally);
                }
                Some(Ok(())) => return Ok(self.tally),
                Some(Err(Failure::Protocol(what))) if self.hostile == Hostile::Nobody => {
                    return Err(format!("both are honest, and one says: {what}"));
                }
                Some(Err(Failure::Protocol(_))) => self.tally.protocol += 1,
                Some(Err(_)) => {}
                None => self.tally.stalled += 1,
            }
        }
        if self.hostile == Hostile::Nobody {
            return Err("it does not succeed although nothing happens any more".to_owned());
        }
        Ok(self.tally)
    }

    /// Nothing but the file has a name, and that is one whole version, or what it was before.
    fn check_names(&self) -> Result<(), String> {
        if self.old.is_some() && !self.disk.names.contains_key(NAME) {
            return Err("what was there has no name any more".to_owned());
        }
        for (name, named) in &self.disk.names {
            if name != NAME {
                return Err(format!("{name} has a name"));
            }
            let is_whole = self.file.versions.contains(&named.content)
                || self.old.as_ref() == Some(&named.content);
            let sender_is_honest = match self.hostile {
                Hostile::Nobody => true,
                Hostile::Client => !self.is_put,
                Hostile::Server => self.is_put,
            };
            if !is_whole && sender_is_honest {
                return Err(format!(
                    "{named:?} is there ({:?}, put: {})",
                    self.hostile, self.is_put
                ));
            }
        }
        Ok(())
    }

    /// The same command once more. How the client ended; none: a hostile server says nothing more.
    fn attempt(&mut self) -> Result<Option<Result<(), Failure>>, String> {
        let id = self.next_id;
        self.next_id += 1;
        self.servers.push(Server::new(id));
        let net = self.is_real.then(|| {
            self.tally.real += 1;
            Box::new(Net::new(self.random.next_u64(), self.now))
        });
        self.link = Some(Link {
            net,
            ..Link::default()
        });
        let mut said = Said::default();
        let mut client = Client::new(self.wants, self.is_file, &mut reach!(self), &mut said);
        self.send(said, true);
        for _ in 0..STEPS_MAX {
            if client.is_over() {
                self.part();
                self.found = client.found;
                return Ok(client.result);
            }
            if self.flow(self.now, &mut client)? {
                continue;
            }
            self.step += 1;
            if let Some((_, what)) = self.planned.take_if(|(step, _)| *step == self.step) {
                self.fault(what, &mut client);
                continue;
            }
            if self.faults > 0 && self.one_in(25) {
                self.faults -= 1;
                let what = self.below(8);
                self.fault(what, &mut client);
                continue;
            }
            if self.link.is_none() && self.one_in(20) {
                // The client notices that its connection is lost.
                client.end(Err(Failure::Lost), &mut self.disk);
                continue;
            }
            let first = self.below(8);
            let did = (0..8).any(|n| self.act((first + n) % 8, &mut client));
            if did {
                self.now += Span::from_millis(7);
            } else if !self.wait(&mut client)? {
                if self.hostile == Hostile::Nobody {
                    return Err("both wait for ever".to_owned());
                }
                client.end(Err(Failure::Lost), &mut self.disk);
                self.part();
                return Ok(None);
            }
        }
        Err("it goes on and on".to_owned())
    }

    /// The connection ends; the server may notice later.
    fn part(&mut self) {
        self.link = None;
        if self.one_in(2) {
            self.end_servers();
        }
    }

    /// Servers notice that their connections are gone.
    fn end_servers(&mut self) {
        let keep = usize::from(self.link.is_some());
        let gone = self.servers.len() - keep.min(self.servers.len());
        for server in self.servers.drain(..gone) {
            self.disk.let_go(server.id);
        }
    }

    /// Nothing can be done now: time passes. Whether anybody's patience ended.
    fn wait(&mut self, client: &mut Client) -> Result<bool, String> {
        if self.link.is_none() {
            client.end(Err(Failure::Lost), &mut self.disk);
            return Ok(true);
        }
        if self.flow(self.now + Span::from_secs(1), client)? {
            return Ok(true);
        }
        if self.disk.is_full {
            self.disk.is_full = false;
            return Ok(true);
        }
        for _ in 0..LONG.as_millis() / 1_000 {
            self.now += Span::from_secs(1);
            if self.flow(self.now, client)? || (0..7).any(|what| self.act(what, client)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Has a real connection go on until then, or until something comes. Whether it did.
    fn flow(&mut self, until: Time, client: &mut Client) -> Result<bool, String> {
        let Some(link) = &mut self.link else {
            return Ok(false);
        };
        let Some(net) = &mut link.net else {
            return Ok(false);
        };
        let expected = match self.servers.last_mut() {
            Some(server) if self.is_put => server.expected(),
            _ => client.expected(),
        };
        let receiver = usize::from(self.is_put);
        if let Some(expected) = expected
            && !net.admit(receiver, &expected)
        {
            return Err(format!("a connection does not let in {expected:?}"));
        }
        let [at_client, at_server] = net.run(until);
        self.now = self.now.max(net.time());
        let came = !at_client.messages.is_empty() || !at_server.messages.is_empty();
        let pieces = at_client.pieces.into_iter().chain(at_server.pieces);
        let before = link.pieces.len();
        link.pieces.extend(pieces);
        let came = came || link.pieces.len() > before;
        link.to_client.extend(at_client.messages);
        link.to_server.extend(at_server.messages);
        self.tally.drops += std::mem::take(&mut net.drops);
        if at_server.is_lost {
            // Its client will notice by itself.
            self.link = None;
        }
        if at_client.is_lost {
            client.end(Err(Failure::Lost), &mut self.disk);
        }
        Ok(came || at_client.is_lost || at_server.is_lost)
    }

    /// Whether that of the connection, 0 to 2, comes through.
    fn comes(&self, what: usize) -> bool {
        let link = self.link.as_ref();
        link.is_some_and(|link| self.now >= link.silent_until[what])
    }

    /// One thing that may happen. Whether it did.
    fn act(&mut self, what: usize, client: &mut Client) -> bool {
        let mut said = Said::default();
        match what {
            0 | 1 if !self.comes(0) => return false,
            2 | 3 if !self.comes(1) => return false,
            6 if !self.comes(2) => return false,
            0 | 1 => {
                let queue = self.link.as_mut().map(|link| &mut link.to_server);
                let Some(bytes) = queue.and_then(VecDeque::pop_front) else {
                    return false;
                };
                if let Some(server) = self.servers.last_mut() {
                    server.hear(&bytes, &mut reach!(self), &mut said);
                }
                self.send(said, false);
            }
            2 | 3 => {
                let queue = self.link.as_mut().map(|link| &mut link.to_client);
                let Some(bytes) = queue.and_then(VecDeque::pop_front) else {
                    return false;
                };
                client.hear(&bytes, &mut reach!(self));
            }
            4 => {
                if self.link.is_none() {
                    return false;
                }
                let did = client.go_on(self.now, &mut reach!(self), &mut said);
                self.send(said, true);
                return did;
            }
            5 => return self.serve(),
            6 => return self.deliver(client),
            _ => {
                // What was written is synced now and then.
                let sink = if self.is_put {
                    let receiving = self.servers.last_mut().and_then(Server::receiving);
                    receiving.map(|receiving| &mut receiving.sink)
                } else {
                    client.sink()
                };
                if let Some(sink) = sink.filter(|sink| !sink.is_finishing()) {
                    let _ = sink.sync(&mut self.disk);
                }
                return false;
            }
        }
        true
    }

    /// The server goes on, or opens what was asked for.
    fn serve(&mut self) -> bool {
        let mut said = Said::default();
        let is_linked = self.link.is_some();
        let Some(mut server) = self.servers.pop() else {
            return false;
        };
        if !is_linked {
            self.servers.push(server);
            return false;
        }
        if let Some(other) = server.open(&mut reach!(self), &mut said) {
            // The copy that the same client began before has lost it.
            for before in self.servers.iter_mut().filter(|s| s.id == other) {
                before.superseded = true;
                before.go_on(self.now, &mut reach!(self), &mut Said::default());
            }
            self.servers.push(server);
            return true;
        }
        let did = server.go_on(self.now, &mut reach!(self), &mut said) || !said.messages.is_empty();
        let is_closed = server.is_closed;
        self.servers.push(server);
        self.send(said, false);
        if is_closed && self.one_in(4) {
            self.link = None;
        }
        did
    }

    /// Something of the object comes, or comes twice.
    fn deliver(&mut self, client: &mut Client) -> bool {
        let Some(link) = &mut self.link else {
            return false;
        };
        let is_taken = |piece: &Piece| match self.servers.last() {
            Some(server) if self.is_put => server.admits(piece.object),
            _ => client.admits(piece.object),
        };
        let all = link.pieces.iter().enumerate();
        let taken: Vec<_> = all.filter(|(_, p)| is_taken(p)).map(|(at, _)| at).collect();
        if taken.is_empty() {
            return false;
        }
        let at = taken[(self.random.next_u64() % taken.len() as u64) as usize];
        let piece = if self.random.next_u64().is_multiple_of(9) {
            link.pieces[at]
        } else {
            link.pieces.swap_remove(at)
        };
        let mut said = Said::default();
        if self.is_put {
            if let Some(server) = self.servers.last_mut() {
                server.place(piece, &mut reach!(self), &mut said);
            }
        } else {
            client.place(piece, &mut self.disk);
        }
        self.send(said, false);
        true
    }

    /// Puts what one end says on its way; a hostile one says something else.
    fn send(&mut self, said: Said, by_client: bool) {
        let is_hostile = match self.hostile {
            Hostile::Nobody => false,
            Hostile::Client => by_client,
            Hostile::Server => !by_client,
        };
        let mut messages = Vec::new();
        for mut message in said.messages {
            if is_hostile && self.one_in(4) {
                match self.below(4) {
                    0 => continue,
                    1 => messages.push(message.clone()),
                    2 => {
                        let at = self.below(message.len());
                        message[at] = self.random.next_u64() as u8;
                    }
                    _ => messages.push(self.anything()),
                }
            }
            messages.push(message);
        }
        let mut pieces = said.pieces;
        if is_hostile && self.one_in(4) {
            messages.push(self.anything());
            let (group, number) = (self.below(12) as u64, self.random.next_u64() % 99);
            let object = ObjectId::new(self.below(3) as u64);
            pieces.push(Piece {
                object,
                group,
                number,
                size: disk::size(12),
            });
        }
        if let Some(link) = &mut self.link {
            if let Some(net) = &mut link.net {
                let end = usize::from(!by_client);
                net.say(end, messages);
                for piece in pieces {
                    net.read(end, piece);
                }
                return;
            }
            let queue = if by_client {
                &mut link.to_server
            } else {
                &mut link.to_client
            };
            queue.extend(messages);
            link.pieces.extend(pieces);
        }
    }

    /// A message that may or may not make sense now.
    fn anything(&mut self) -> Vec<u8> {
        let object = ObjectId::new(self.below(3) as u64);
        let side = SideReport::default();
        let size = disk::size(1 + self.below(9));
        let mut ranges = RangeSet::new();
        let start = self.below(9) as u64;
        ranges.insert(howdah_core::ByteRange::with_len(start << 20, 1 << 20));
        let content = self.file.versions[0].clone();
        let message = match self.below(14) {
            0 => Message::Done { object, side },
            1 => Message::Thanks { side },
            2 => Message::End {
                object,
                size,
                blake3: Some(root(&content)),
            },
            3 => Message::End {
                object,
                size,
                blake3: None,
            },
            4 => Message::fail(FailureKind::Io, "no"),
            5 => Message::Ready {
                object,
                held: (&ranges).into(),
                values: true,
                changed: None,
            },
            6 => Message::Holes {
                object,
                ranges: (&ranges).into(),
            },
            7 => Message::Values {
                object,
                first: start,
                values: vec![[7; 32]; 3],
            },
            8 => Message::Sending {
                object,
                size: Some(size),
                hash: self.one_in(2),
                source: Some(self.file.identity()),
                resumed: self.one_in(2),
                mode: None,
            },
            9 => Message::Put {
                object,
                path: if self.one_in(2) { NAME } else { "other" }.into(),
                name: Some("x".into()),
                size: Some(size),
                hash: self.one_in(2),
                source: Some(self.file.identity()),
                resume: true,
                reread: false,
                mode: None,
            },
            10 => Message::Room { lack: None },
            11 => Message::Answered(Sum::default()),
            12 => Message::Findings(Vec::new()),
            _ => Message::OpenFiles,
        };
        message.encode()
    }

    fn fault(&mut self, what: usize, client: &mut Client) {
        self.tally.faults += 1;
        match what {
            // Messages one way, or the other, or all bytes, do not come for a while; of a real connection nothing comes.
            7 => {
                let (what, time) = (self.below(3), Span::from_millis(self.below(200_000) as u64));
                if let Some(link) = &mut self.link {
                    link.silent_until[what] = self.now + time;
                    if let Some(net) = &mut link.net {
                        net.fall_silent(time / 10);
                    }
                }
            }
            // The connection breaks.
            0 => self.link = None,
            // The client's host dies.
            1 => {
                if !self.is_put {
                    self.disk.crash();
                }
                client.end(Err(Failure::Lost), &mut self.disk);
            }
            // The server's does.
            2 => {
                if self.is_put {
                    self.disk.crash();
                }
                self.servers.clear();
                self.link = None;
            }
            3 => self.disk.is_full = true,
            // The source is written to.
            4 => {
                let mut next = self.file.versions.last().cloned().unwrap_or_default();
                let at = self.below(next.len());
                next[at] = 1 + self.random.next_u64() % 1_000;
                self.file.versions.push(next);
            }
            // A group is another one when it comes to the disk.
            5 => {
                if let Some(link) = &mut self.link
                    && let Some(piece) = link.pieces.first_mut()
                {
                    piece.number ^= 1 << 40;
                }
            }
            // A write, a sync or a rename fails.
            _ => {
                let owner = if self.is_put {
                    self.servers.last().map_or(CLIENT, |server| server.id)
                } else {
                    CLIENT
                };
                self.disk.let_go(owner);
            }
        }
        self.end_servers_sometimes();
    }

    fn end_servers_sometimes(&mut self) {
        if self.one_in(3) {
            self.end_servers();
        }
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// The first of them, and how many.
pub(crate) fn seeds() -> (u64, u64) {
    match number("HOWDAH_SEED") {
        Some(seed) => (seed, 1),
        None => (0, number("HOWDAH_SEEDS").unwrap_or(20_000)),
    }
}

#[test]
fn a_file_is_whole_or_not_there() {
    let (from, count) = seeds();
    let mut all = Tally::default();
    for seed in from..from + count {
        let run = std::panic::catch_unwind(|| World::new(seed, Wrong::Nothing).run());
        match run {
            Ok(Ok(tally)) => {
                all.resumed += tally.resumed;
                all.faults += tally.faults;
                all.protocol += tally.protocol;
                all.stalled += tally.stalled;
                all.succeeded += tally.succeeded;
                all.real += tally.real;
                all.drops += tally.drops;
            }
            Ok(Err(what)) => panic!("HOWDAH_SEED={seed}: {what}"),
            Err(panic) => {
                println!("HOWDAH_SEED={seed}");
                std::panic::resume_unwind(panic);
            }
        }
    }
    println!("{count} sessions: {all:?}");
}

/// Not by chance: everything that can happen, at each step of a copy.
#[test]
fn whatever_happens_at_whatever_step_the_same_command_succeeds() {
    let mut runs = 0;
    for seed in 0..300 {
        for what in 0..8 {
            for step in 1.. {
                let mut world = World::new(seed, Wrong::Nothing);
                if world.hostile != Hostile::Nobody || world.is_real {
                    break;
                }
                world.faults = 0;
                world.planned = Some((step, what));
                let tally = world.run();
                let tally = tally.unwrap_or_else(|why| panic!("{seed}, {what} at {step}: {why}"));
                if tally.faults == 0 {
                    // It was over before.
                    break;
                }
                runs += 1;
            }
        }
    }
    println!("{runs} sessions");
    assert!(runs > 20_000);
}

/// The model is one in which these would matter.
#[test]
fn what_is_done_wrong_is_found() {
    for wrong in [
        Wrong::GoesOnWithAnything,
        Wrong::NeverSyncs,
        Wrong::NeverVerifies,
        Wrong::ClaimsEverything,
    ] {
        let found = (0..5_000)
            .filter(|seed| World::new(*seed, wrong).run().is_err())
            .count();
        assert!(found > 0, "{wrong:?} goes unseen");
    }
}
