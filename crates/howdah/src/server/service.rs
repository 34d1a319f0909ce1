//! The sessions of a server, as the endpoint's loop drives them.

use super::company::Company;
use super::session::Session;
use super::strangers::Crowd;
use super::{
    LOOK_EVERY, Log, ServerControl, ServerEvent, ServerRefusal, Signing, Strangers, watch_lists,
};
use crate::access::{Authority, not_good_from};
use crate::error::from_store;
use crate::session::blocking::BlockingJobs;
use crate::session::dialogue::{self, side_report};
use crate::session::from_connection;
use crate::session::lanes::all_counted;
use crate::session::places::Places;
use crate::session::putting::Put;
use crate::{Cancel, Error, ErrorKind};
use howdah_audit::{AuditLog, Level};
use howdah_core::{ObjectId, Rate, Span, Time};
use howdah_net::{
    Allowance, Application, Attended, ConnKey, Full, Placement, TunnelListener, Waker,
};
use howdah_proto::error::CloseCode;
use howdah_proto::{Connection, Event};
use howdah_session::Wait;
use howdah_session::message::Message;
use howdah_session::server::{Does, Order};
use howdah_session::transfer::End;
use howdah_store::{RoomWait, Wake};
use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;
use std::time::Duration;

mod deeds;
mod files;
mod lanes;
mod leases;
mod opening;
mod stay;
mod tree;
mod under_way;
mod waiting;

use deeds::may_act;
pub(super) use deeds::{Deed, Happened, Outcome, Who};
pub(super) use opening::MOMENTS;
pub(super) use stay::Stay;
use under_way::Get;
pub(super) use under_way::{Landing, Opening, Request};
use waiting::{close_if_busy, no_room};

pub(super) struct Service {
    pub(super) authority: Arc<dyn Authority>,
    /// Where tunnels come in.
    pub(super) door: Option<Arc<TunnelListener>>,
    /// Which of the server's loops this is. The first one has the door, the lists and the last word.
    pub(super) index: usize,
    pub(super) company: Company,
    pub(super) stay: Stay,
    /// When it began.
    pub(super) since: Option<Time>,
    /// Whether there was a session.
    pub(super) met: bool,
    pub(super) waker: Waker,
    /// How often the loop waits a moment for what is opened, so that most requests lose no round.
    pub(super) moments: Allowance,
    /// What waits for disks.
    pub(super) errands: BlockingJobs,
    /// What may be under way.
    pub(super) places: Places,
    pub(super) sessions: BTreeMap<ConnKey, Session>,
    /// Those with a transfer under way.
    pub(super) active: BTreeSet<ConnKey>,
    /// Buffers that sessions need no more, as of the last look at each: a packet must not ask them all.
    pub(super) spares: Vec<Vec<u8>>,
    pub(super) cancel: Cancel,
    pub(super) log: Log,
    pub(super) audit: Option<Arc<AuditLog>>,
    pub(super) strangers: Strangers,
    /// Who signs receipts.
    pub(super) signing: Option<Signing>,
    pub(super) crowd: Crowd,
    pub(super) control: ServerControl,
    /// What all may move together, in each direction.
    pub(super) max_rate: Option<Rate>,
    /// So many of this loop share it, anew after so many changes on all loops.
    pub(super) sharing: usize,
    pub(super) told: u64,
    /// When its sessions are shown again.
    pub(super) next_show: Time,
    pub(super) next_share: Time,
    pub(super) next_look: Time,
    /// Threads that give what came its names.
    pub(super) ending: Vec<JoinHandle<()>>,
    /// Whoever reads lists again ends with it.
    pub(super) lists: Option<Sender<()>>,
}

/// What a line about a file that is there says of its content.
fn content(told: Option<End>) -> String {
    match told {
        Some(End {
            size,
            blake3: Some(hash),
        }) => {
            let (high, low) = hash.split_at(16);
            let number = |half: &[u8]| {
                half.iter()
                    .fold(0u128, |n, &byte| n << 8 | u128::from(byte))
            };
            format!(
                ", {size} bytes, blake3 {:032x}{:032x}",
                number(high),
                number(low)
            )
        }
        Some(End { size, blake3: None }) => format!(", {size} bytes"),
        None => String::new(),
    }
}

/// Whoever has asked for nothing for so long is asked seldom whether he is there.
const QUIET_AFTER: Span = Span::from_secs(10);
/// More would only be memory.
const SPARES_MAX: usize = 64;

/// For what threads do for that session.
fn wake(waker: &Waker, key: ConnKey) -> Wake {
    let waker = waker.clone();
    Arc::new(move || waker.wake_for(key))
}

impl Service {
    pub(super) fn log(&self, text: &str) {
        self.log.line(text);
    }

    /// That somebody did not get what he wanted.
    pub(super) fn warn(&self, text: &str) {
        self.log.at(Level::Warning, text);
    }

    /// What a key comes for and does not get, as often as the log has room for it.
    pub(super) fn tell_of(&self, client: &str, level: Level, text: &str) {
        if let Some(line) = self.company.talk().line(client, text) {
            self.log.at(level, &line);
        }
    }

    /// Notes whether that session has a transfer under way, and whether it has had none for long.
    fn note_active(&mut self, now: Time, key: ConnKey, connection: &mut Connection) {
        let session = self.sessions.get_mut(&key);
        let attended = session.is_some_and(|session| {
            let idle_since = session.idle_since.or(Some(now));
            session.idle_since = idle_since.filter(|_| !session.is_busy());
            let idle_since = session.idle_since;
            connection.set_quiet(
                now,
                idle_since.is_some_and(|at| now.since(at) >= QUIET_AFTER),
            );
            if !session.is_busy() {
                session.place = None;
            }
            if !session.keeps_within_bounds(connection.kept_bytes()) {
                close_if_busy(now, connection, &no_room());
            }
            self.company.see(key, session, &self.waker);
            session.is_busy() || session.cut_at.is_some()
        });
        if attended {
            self.active.insert(key);
        } else {
            self.active.remove(&key);
        }
    }

    /// The same client sends the same once more: the copy that it began before has lost it, and
    /// this end has not noticed yet. Whether there is one, which will end soon.
    fn supersede(&mut self, by: ConnKey, client: &str, put: &Put) -> bool {
        let mut found = false;
        for (&key, session) in &self.sessions {
            let same = session.put.as_ref().is_some_and(|other| other.is_same(put));
            if key != by && same && session.key == client && session.putting().is_some() {
                session.superseded.store(true, Ordering::Relaxed);
                self.waker.wake_for(key);
                found = true;
            }
        }
        found | self.company.supersede(by, client, put)
    }

    fn on_message(
        &mut self,
        now: Time,
        key: ConnKey,
        connection: &mut Connection,
        message: Message,
    ) -> Result<(), Error> {
        let Some(session) = self.sessions.get_mut(&key) else {
            return Ok(());
        };
        match session.machine.hear(message)? {
            Order::Nothing => {}
            Order::Join(token, object) => self.join(key, connection, (token, object))?,
            Order::Pace(pace) => {
                session.pace = pace;
                session.keep_pace(now, connection);
            }
            Order::Put(asked, lease) => {
                self.begin_put(now, key, connection, (*asked, lease.as_deref()))?;
            }
            Order::Get(path, hash, wanted) => {
                session.deed = Deed::new("get", std::slice::from_ref(&path));
                may_act(self.audit.as_deref())?;
                let ask = Get { path, hash, wanted };
                self.begin(now, key, connection, Request::Get(ask))?;
            }
            Order::Ask(question) => {
                let (verb, about) = question.what();
                session.deed = Deed::new(verb, about);
                may_act(self.audit.as_deref())?;
                self.begin(now, key, connection, Request::Ask(question))?;
            }
            Order::Tree(message, into) => {
                session.into_plan = into;
                self.begin_tree(now, key, connection, message)?;
            }
            Order::OfTree(message) => self.on_tree_message(key, connection, message)?,
            Order::OpenFiles => self.open_files(key, connection)?,
            Order::AskFiles(questions) => {
                may_act(self.audit.as_deref())?;
                if let Some(files) = session.does().files() {
                    files.ask(questions)?;
                }
            }
            Order::Values(first, values) => {
                if let Some(receiving) = session.does().receiving() {
                    receiving.on_values(first, &values)?;
                }
            }
            Order::Size(end) => {
                if let Some(receiving) = session.does().receiving() {
                    receiving.limit(connection, end)?;
                }
            }
            Order::Thank(sending, end) => {
                connection.finish_sending(sending.object);
                let counted = all_counted(sending.hub(), connection);
                let mut side = side_report(session.start, &counted);
                side.hashed = sending.hashed();
                side.bottleneck = session
                    .at_cap
                    .verdict(connection, sending.waits.verdict(false));
                connection.send_control(&Message::Thanks { side }.encode());
                self.note_done(key, Some(end));
            }
            Order::Failed(kind, message) => {
                let error = dialogue::failure(kind, &message, "the client");
                return Err(match session.does().sending() {
                    Some(sending) => sending.why_other(error),
                    None => error,
                });
            }
        }
        Ok(())
    }

    /// A file has come or gone.
    fn note_done(&mut self, key: ConnKey, told: Option<End>) {
        let Some(session) = self.sessions.get(&key) else {
            return;
        };
        let line = format!("{}: {} done{}", session.peer, session.deed, content(told));
        self.log(&line);
        self.note_end(Happened::Done, key, Outcome::file(told));
        self.control.tell(ServerEvent::Done);
    }

    pub(super) fn give_up(&mut self, key: ConnKey, connection: &mut Connection, error: &Error) {
        self.name_files(key);
        let session = self.sessions.get_mut(&key);
        let Some(session) = session.filter(|session| !session.fails_too_often()) else {
            return;
        };
        session.failures += 1;
        session.put = None;
        session.opening = None;
        (session.waiting, session.request) = (None, None);
        session.into_plan = None;
        session.is_told_to_wait = false;
        // Nobody wants to hear how its waits end.
        session.room = RoomWait::default();
        let early = session.early.take().map(|early| early.object);
        let mut what = session.machine.end();
        let object = match &mut what {
            Does::Sends(sending) => Some(sending.object),
            Does::Receives(receiving) => Some(receiving.object),
            Does::Files(files) => Some(files.object()),
            Does::Lane(lane) => Some(lane.object()),
            Does::Tree(tree) => {
                tree.finish(connection);
                None
            }
            _ => early,
        };
        if let Some(object) = object {
            connection.finish_sending(object);
            connection.finish_receiving(object);
        }
        let place = session.place.take();
        if !error.is_busy() {
            connection.send_control(&dialogue::fail(error).encode());
        }
        let line = format!("{}: {} failed: {error}", session.peer, session.deed);
        let client = session.key.clone();
        self.control.tell(ServerEvent::Failed);
        self.put_away(what, place);
        self.tell_of(&client, Level::Warning, &line);
        self.note_end(Happened::Failed, key, Outcome::error(error));
    }

    fn move_on(
        &mut self,
        now: Time,
        key: ConnKey,
        connection: &mut Connection,
    ) -> Result<(), Error> {
        self.go_on_opening(now, key, connection, Duration::ZERO)?;
        self.try_again(now, key, connection)?;
        self.open_put(now, key, connection)?;
        let Some(session) = self.sessions.get_mut(&key) else {
            return Ok(());
        };
        if session.superseded.load(Ordering::Relaxed) {
            session.superseded.store(false, Ordering::Relaxed);
            return Err(Error::new(
                ErrorKind::Refused,
                "another copy of the same file to the same place has taken over",
            ));
        }
        if let Some(files) = session.machine.now_mut().files() {
            files.poll(now, connection)?;
            let lacks = files.lacks();
            self.note_changes(key, Some(now));
            match lacks {
                Some(why) if self.is_in_vain(now, key) => {
                    return Err(Error::new(ErrorKind::Network, why));
                }
                Some(why) => self.has_to_wait(now, key, connection, &why),
                None => self.has_begun(key, connection),
            }
            return Ok(());
        }
        if let Some(sending) = session.machine.now_mut().sending() {
            sending.poll(now, connection)?;
        }
        let told = session.room.take_news().map(|news| {
            connection.send_control(&dialogue::room(news.as_ref()).encode());
            let text = match &news {
                Some(error) => {
                    self.control.tell(ServerEvent::NoRoom);
                    format!("waits: {error}")
                }
                None => "goes on, there is room again".to_owned(),
            };
            format!("{}: {} {text}", session.peer, session.deed)
        });
        if let Some(line) = told {
            self.log.line(&line);
        }
        match session.machine.now_mut() {
            Does::Answers(chore) => {
                if let Some(sum) = chore.poll(connection)? {
                    session.machine.end();
                    let line = format!(
                        "{}: {} done, {} found",
                        session.peer, session.deed, sum.names
                    );
                    connection.send_control(&Message::Answered(sum).encode());
                    self.control.tell(ServerEvent::Done);
                    self.log(&line);
                    self.note_end(Happened::Done, key, Outcome::default());
                }
            }
            Does::Tree(tree) => {
                if let Some(report) = tree.poll(now, connection)? {
                    tree.finish(connection);
                    let mut side = side_report(session.start, &connection.stats());
                    side.hashed = true;
                    side.reread = tree.is_reread();
                    side.bottleneck = session.at_cap.verdict(connection, 0);
                    let outcome = Outcome::tree(&report);
                    let renamed = report.renamed;
                    let done = Message::TreeDone {
                        side,
                        report,
                        renamed,
                    };
                    connection.send_control(&done.encode());
                    self.end_tree(key, outcome);
                } else if session.removing && tree.has_removed() && tree.is_answered() {
                    // What cannot be read of what was asked for last is said, too.
                    self.thank(key, connection);
                }
            }
            Does::Lands(_) => return self.on_landing(key, connection),
            Does::Receives(_) => return self.receive(now, key, connection),
            Does::Lane(_) => self.move_lane(key, connection),
            _ => {}
        }
        Ok(())
    }

    /// Goes on with a file that comes.
    fn receive(
        &mut self,
        now: Time,
        key: ConnKey,
        connection: &mut Connection,
    ) -> Result<(), Error> {
        let Some(session) = self.sessions.get_mut(&key) else {
            return Ok(());
        };
        let Some(receiving) = session.machine.now_mut().receiving() else {
            return Ok(());
        };
        if let Some(put) = &mut session.put {
            let came = connection.received_bytes(receiving.object);
            let more = came.saturating_sub(put.counted);
            let path = put.asked.path.as_path();
            let taken = session.rights.quota.take_bytes(path, more);
            taken.map_err(|e| from_store(&e))?;
            put.counted = came;
        }
        let Some(arrived) = receiving.poll(now, connection)? else {
            return Ok(());
        };
        let (object, told) = (receiving.object, receiving.told());
        let hub = receiving.hub();
        session.machine.end();
        let put = session.put.take();
        if let Some(lease) = put.and_then(|put| put.lease) {
            return self.land(key, (connection, object), lease);
        }
        connection.finish_receiving(object);
        let mut side = side_report(session.start, &all_counted(hub, connection));
        side.hashed = arrived.hashed;
        side.reread = arrived.reread;
        side.bottleneck = session.at_cap.verdict(connection, 0);
        connection.send_control(&Message::Done { object, side }.encode());
        self.note_done(key, told);
        Ok(())
    }

    fn handle_event(&mut self, now: Time, key: ConnKey, connection: &mut Connection, event: Event) {
        match event {
            Event::Connected { peer_key } => self.on_connected(now, key, connection, &peer_key),
            Event::Control(_) if !connection.is_established() => {}
            Event::Control(bytes) => {
                let result = dialogue::decode(&bytes).and_then(|message| {
                    self.note_more(key, &message, &bytes);
                    let stays = message.stays_with_a_session();
                    self.on_message(now, key, connection, message)?;
                    if stays { self.has_room(key) } else { Ok(()) }
                });
                if let Err(error) = result {
                    self.give_up(key, connection, &error);
                    if error.kind() == ErrorKind::Protocol {
                        connection.close(now, CloseCode::Protocol, &error.to_string());
                    }
                    close_if_busy(now, connection, &error);
                }
            }
            Event::ObjectComplete(object) => {
                let Some(session) = self.sessions.get_mut(&key) else {
                    return;
                };
                session.machine.on_complete(object);
                if let Some(tree) = session.does().tree() {
                    tree.on_complete(object);
                }
            }
            Event::PathChanged(address) => {
                let Some(session) = self.sessions.get_mut(&key) else {
                    return;
                };
                let origin = self.door.as_ref().and_then(|door| door.origin(address));
                let from = origin.unwrap_or(address).ip();
                if !session.rights.is_good_from(from) {
                    let text = not_good_from(from);
                    self.log
                        .line(&format!("{}: turned away: {text}", session.peer));
                    connection.close(now, CloseCode::Unauthorized, &text);
                } else if session.tells_of_move(now) {
                    self.log(&format!("a client moved to {address}"));
                }
            }
            Event::Closed(error) => {
                let remote = connection.remote();
                let origin = self.door.as_ref().and_then(|door| door.origin(remote));
                if let Some(door) = &self.door {
                    door.close(remote);
                }
                self.note_files(key, &error);
                if let Some(mut session) = self.sessions.remove(&key) {
                    self.control.tell(session.moved(connection, Span::ZERO));
                    // A copy goes on without one of its lanes.
                    let busy = session.is_busy() && session.does().lane().is_none();
                    if origin.is_none() && !busy && !session.was_held {
                        self.remember_path(&session.key, connection);
                    }
                    let kept = session.does().receiving();
                    let kept = kept.map_or(0, |receiving| receiving.kept_bytes());
                    self.put_away(session.machine.end(), session.place.take());
                    if busy {
                        let why = from_connection(&error, "the client");
                        self.control.tell(ServerEvent::Failed);
                        let kept = match kept {
                            0 => String::new(),
                            bytes => format!("; {} MiB are kept for the next copy", bytes >> 20),
                        };
                        let line =
                            format!("{}: {} failed: {why}{kept}", session.peer, session.deed);
                        self.tell_of(&session.key, Level::Info, &line);
                        let (deed, outcome) = (&session.deed, Outcome::error(&why));
                        self.note(Happened::Failed, &session.who, Some(deed), outcome);
                    } else {
                        let line = format!("{}: gone", session.peer);
                        self.tell_of(&session.key, Level::Info, &line);
                    }
                    self.note(
                        Happened::Disconnected,
                        &session.who,
                        None,
                        Outcome::default(),
                    );
                } else {
                    self.strangers
                        .line(&format!("{}: {error}", origin.unwrap_or(remote)));
                }
            }
            _ => {}
        }
    }

    /// What was sent to a client has shown what the path carries.
    fn remember_path(&self, client: &str, connection: &Connection) {
        let learnt = connection.path_knowledge();
        if let Some(learnt) = learnt.filter(|_| connection.stats().data_bytes_sent > 0) {
            let address = connection.remote().ip();
            self.company.paths().remember(client, address, learnt);
        }
    }

    fn poll_session(&mut self, now: Time, key: ConnKey, connection: &mut Connection) {
        if self.cancel.is_cancelled() {
            // The last round: nobody shall wait for a server that is gone.
            connection.close(now, CloseCode::Application, "the server was stopped");
            return;
        }
        if self.steer(now, key, connection) {
            return;
        }
        if let Some(session) = self.sessions.get_mut(&key).filter(|s| s.is_busy()) {
            if session.cap() != session.applied {
                session.keep_pace(now, connection);
            }
            if session.receives() {
                let cap = session.cap();
                session.at_cap.watch_received(now, connection, cap);
            } else {
                session.at_cap.watch_sent(now, connection);
            }
        }
        if let Err(error) = self.move_on(now, key, connection) {
            self.give_up(key, connection, &error);
            close_if_busy(now, connection, &error);
            return;
        }
        let Some(session) = self.sessions.get_mut(&key) else {
            return;
        };
        let wait = session.waits_for();
        if let Some(wait) = session.wait.check(now, wait) {
            let seconds = wait.limit().as_millis() / 1000;
            let text = match wait {
                Wait::End => format!("the client has not said the end within {seconds} s"),
                Wait::Progress => format!("nothing of it has moved for {seconds} s"),
                Wait::Taking => format!(
                    "the client has not taken an answer, or the disk not given one, for {seconds} s"
                ),
                _ => format!("the client has not asked for anything within {seconds} s"),
            };
            if matches!(wait, Wait::End | Wait::Progress | Wait::Taking) {
                self.give_up(key, connection, &Error::new(ErrorKind::Network, text));
            } else {
                connection.close(now, CloseCode::Application, &text);
            }
        }
    }
}

impl Application for Service {
    fn on_event(&mut self, now: Time, key: ConnKey, connection: &mut Connection, event: Event) {
        self.handle_event(now, key, connection, event);
        self.note_active(now, key, connection);
    }

    fn read(&mut self, key: ConnKey, object: ObjectId, offset: u64, buffer: &mut [u8]) {
        match self.sessions.get_mut(&key).map(Session::does) {
            Some(Does::Tree(tree)) => tree.read(object, offset, buffer),
            Some(Does::Files(files)) => files.read(object, offset, buffer),
            Some(Does::Lane(lane)) => lane.read(object, offset, buffer),
            Some(Does::Sends(sending)) if sending.object == object => sending.read(offset, buffer),
            _ => buffer.fill(0),
        }
    }

    fn accepts_data(&mut self, key: ConnKey) -> bool {
        self.sessions.get(&key).is_none_or(|session| {
            session.keeps_early()
                && match session.machine.now() {
                    Does::Receives(receiving) => receiving.accepts_data(),
                    Does::Tree(tree) => tree.accepts_data(),
                    Does::Lane(lane) => lane.accepts_data(),
                    _ => true,
                }
        })
    }

    fn place(&mut self, key: ConnKey, object: ObjectId, buffer: &mut Vec<u8>, parts: &[Placement]) {
        let Some(session) = self.sessions.get_mut(&key) else {
            return;
        };
        match session.machine.now_mut() {
            Does::Tree(tree) => tree.place(object, buffer, parts),
            Does::Lane(lane) => lane.place(object, buffer, parts),
            Does::Receives(receiving) if receiving.object == object => {
                receiving.place(buffer, parts);
            }
            _ => {
                if let Some(early) = session.early.as_mut().filter(|e| e.object == object) {
                    early.kept.place(buffer, parts);
                }
            }
        }
    }

    fn take_spare(&mut self) -> Option<Vec<u8>> {
        self.spares.pop()
    }

    fn poll(&mut self, now: Time, key: ConnKey, connection: &mut Connection) {
        if connection.is_closed() {
            // Its end is told next. What has stood still since long ago must not have a turn before, and go on.
            return;
        }
        if let Some(session) = self.sessions.get_mut(&key) {
            let room = SPARES_MAX.saturating_sub(self.spares.len());
            let theirs = std::iter::from_fn(|| session.take_spare());
            self.spares.extend(theirs.take(room));
        }
        self.poll_session(now, key, connection);
        self.note_active(now, key, connection);
    }

    fn on_panic(&mut self, key: ConnKey, remote: Option<SocketAddr>) {
        let door = self.door.as_ref();
        let origin = remote.and_then(|remote| door?.origin(remote));
        if let (Some(door), Some(remote)) = (door, remote) {
            door.close(remote);
        }
        let remote = origin.or(remote);
        self.active.remove(&key);
        let who = remote.map_or_else(|| "a client".to_owned(), |remote| remote.to_string());
        let what = match self.sessions.remove(&key) {
            None => who,
            Some(mut session) => {
                self.put_away(session.machine.end(), session.place.take());
                format!("{}: {}", session.peer, session.deed)
            }
        };
        let text = format!(
            "{what}: ended by a fault of this program (the message above says where; please report it); the others go on"
        );
        self.log.at(Level::Error, &text);
    }

    fn on_full(&mut self, now: Time, full: Full) {
        self.control.tell(ServerEvent::Refused(ServerRefusal::Busy));
        if let Some(line) = self.crowd.line(now, full) {
            self.warn(&line);
        }
    }

    fn group(&self, key: ConnKey) -> u64 {
        self.sessions
            .get(&key)
            .map_or(key.0, |session| session.group)
    }

    fn gives_way(&self, key: ConnKey) -> bool {
        match self.sessions.get(&key) {
            Some(session) => session.gives_way(),
            None => self.company.gives_way(key),
        }
    }

    fn hand_over(&mut self, key: ConnKey) -> Option<Box<dyn Any + Send>> {
        // Whoever was turned away goes from here.
        let session = self.sessions.remove(&key)?;
        self.active.remove(&key);
        Some(Box::new(session))
    }

    fn take_in(&mut self, _now: Time, key: ConnKey, guest: Box<dyn Any + Send>) {
        if let Ok(mut session) = guest.downcast::<Session>() {
            // It shares a rate with those of this loop from now on.
            session.shares = None;
            self.sessions.insert(key, *session);
        }
    }

    fn attended(&self) -> Attended<'_> {
        Attended::Only(&self.active)
    }

    fn keep_running(&mut self, now: Time) -> bool {
        let is_look = now >= self.next_look;
        if is_look {
            self.next_look = now + LOOK_EVERY;
        }
        if is_look && self.index == 0 {
            if self.lists.is_none() && self.authority.changes() {
                self.lists = watch_lists(&self.authority).ok();
            }
            if self.lists.is_none() {
                // No thread is to be had. Whoever was struck out must not stay in.
                self.authority.refresh();
            }
        }
        self.look_after(now);
        if self.index > 0 || self.company.is_over() {
            return !self.company.is_over() && !self.cancel.is_cancelled();
        }
        let since = *self.since.get_or_insert(now);
        let has_sessions = !self.company.is_empty();
        let stays = self.stay.lasts(now.since(since), self.met, has_sessions);
        let is_drained = self.control.is_draining() && !has_sessions;
        if is_drained {
            self.log("the last session has ended, and no other one may begin: the server ends");
        }
        stays && !is_drained && !self.cancel.is_cancelled()
    }

    fn next_deadline(&self) -> Option<Time> {
        Some(self.next_look)
    }
}
