//! Further connections of a client, each on a loop of its own, which join its session to move a part of its one object.

use super::Client;
use crate::session::dialogue;
use crate::session::lanes::{Hub, Lane, Ticket};
use crate::session::pace;
use crate::{CopyConfig, RatePolicy, Throttle};
use howdah_core::{ObjectId, Span, Time};
use howdah_net::{Application, Attended, ConnKey, Endpoint, Placement};
use howdah_proto::error::CloseCode;
use howdah_proto::{Connection, Event, Share};
use howdah_session::message::Message;
use howdah_session::pace::Pace;
use howdah_store::threads;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

/// How often it is looked at what pace the user wants.
const TICK: Span = Span::from_millis(100);

/// What a client has of them.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    /// Loops that have nothing to do yet, and whom they will speak to.
    spares: Vec<Endpoint>,
    server: Option<SocketAddr>,
    /// Of the session's connection.
    server_key: Vec<u8>,
    threads: Vec<JoinHandle<()>>,
}

/// How a user wants a copy to go.
#[derive(Clone, Debug)]
struct Manner {
    policy: RatePolicy,
    share: Share,
    throttle: Throttle,
}

impl Manner {
    fn of(config: &CopyConfig) -> Self {
        Self {
            policy: config.policy,
            share: config.share,
            throttle: config.throttle.clone(),
        }
    }

    /// What one of so many connections keeps.
    fn pace(&self, lanes: u16) -> Pace {
        pace::wanted(self.policy, self.share, &self.throttle).split(lanes)
    }
}

impl Lanes {
    /// Nobody joins any more, and those that did have ended.
    pub(super) fn end(&mut self) {
        self.spares.clear();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }

    pub(super) fn is_of(&mut self, server_key: &[u8]) {
        self.server_key = server_key.to_vec();
    }
}

impl Client<'_> {
    /// Connections that it would use beside that of the session.
    pub(crate) fn lanes_wanted(&self) -> usize {
        let wanted = usize::from(self.config.loops.clamp(1, howdah_session::lanes::MOST)) - 1;
        if self.task.is_one_object() { wanted } else { 0 }
    }

    /// Loops for these connections, to the server at that address.
    pub(crate) fn lend(&mut self, spares: Vec<Endpoint>, server: SocketAddr) {
        self.lanes.spares = spares;
        self.lanes.server = Some(server);
    }

    /// How many connections it asks for, this one included.
    pub(super) fn lanes_asked(&self) -> u8 {
        let spares = u8::try_from(self.lanes.spares.len()).unwrap_or(0);
        let lasts = self.config.duration_limit.is_none();
        if lasts { 1 + spares } else { 1 }
    }

    /// Where the lanes of what it moves meet, if it has some.
    pub(super) fn hub(&self) -> Option<Hub> {
        match (self.machine.sending(), self.machine.receiving()) {
            (Some(sending), _) => sending.hub(),
            (None, Some(receiving)) => receiving.hub(),
            (None, None) => None,
        }
    }

    /// So many connections may move its object, with that token.
    pub(super) fn begin_lanes(&mut self, token: [u8; 32], most: u8) {
        let Some((hub, server)) = self.hub().zip(self.lanes.server) else {
            return;
        };
        let manner = Manner::of(self.config);
        for mut endpoint in std::mem::take(&mut self.lanes.spares) {
            let waker = endpoint.waker();
            let Some(ticket) = hub.enter(most, Arc::new(move || waker.wake())) else {
                return;
            };
            if endpoint.connect(server).is_err() {
                continue;
            }
            let mut lane = Joiner {
                is_put: self.task.is_put(),
                token,
                server_key: self.lanes.server_key.clone(),
                manner: manner.clone(),
                pace: Pace::default(),
                next_tick: Time::ZERO,
                object: None,
                state: State::Joining(ticket),
                hub: hub.clone(),
            };
            let begin = move || {
                // What it says is the session's to say, which goes on without it.
                let _ = endpoint.run(&mut lane);
            };
            if let Ok(thread) = threads::start("howdah-lane", begin) {
                self.lanes.threads.push(thread);
            }
        }
    }
}

#[derive(Debug)]
enum State {
    Joining(Ticket),
    Moves(Lane),
    Over,
}

/// One connection that joins.
#[derive(Debug)]
struct Joiner {
    is_put: bool,
    token: [u8; 32],
    /// Nobody else is told the token.
    server_key: Vec<u8>,
    manner: Manner,
    /// That is in force.
    pace: Pace,
    next_tick: Time,
    /// In which it sends.
    object: Option<ObjectId>,
    state: State,
    hub: Hub,
}

impl Joiner {
    fn end(&mut self, now: Time, connection: &mut Connection) {
        if let State::Moves(lane) = &self.state {
            lane.finish(connection);
        }
        self.state = State::Over;
        connection.close(now, CloseCode::Done, "");
    }

    fn keep_pace(&mut self, now: Time, connection: &mut Connection) {
        let pace = self.manner.pace(self.hub.count());
        if pace == self.pace {
            return;
        }
        self.pace = pace;
        if self.is_put {
            pace::apply(pace, now, connection, None, true);
        } else {
            connection.send_control(&Message::Pace(pace).encode());
        }
    }

    fn join(&mut self, now: Time, connection: &mut Connection, server_key: &[u8]) {
        if server_key != self.server_key {
            return self.end(now, connection);
        }
        self.keep_pace(now, connection);
        let object = connection.allocate_object();
        self.object = Some(object);
        let token = self.token;
        connection.send_control(&Message::Join { token, object }.encode());
    }

    fn hear(&mut self, now: Time, connection: &mut Connection, message: &Message) {
        let Message::Joined { object } = *message else {
            return self.end(now, connection);
        };
        let is_expected = !self.is_put || self.object == Some(object);
        let ticket = match std::mem::replace(&mut self.state, State::Over) {
            State::Joining(ticket) if is_expected => ticket,
            other => {
                self.state = other;
                return self.end(now, connection);
            }
        };
        match self.hub.open(connection, object, ticket) {
            Ok(lane) => self.state = State::Moves(lane),
            Err(_) => self.end(now, connection),
        }
    }
}

impl Application for Joiner {
    fn on_event(&mut self, now: Time, _key: ConnKey, connection: &mut Connection, event: Event) {
        match event {
            Event::Connected { peer_key } => self.join(now, connection, &peer_key),
            Event::Control(bytes) => match dialogue::decode(&bytes) {
                Ok(message) => self.hear(now, connection, &message),
                Err(_) => self.end(now, connection),
            },
            Event::Closed(_) => self.state = State::Over,
            _ => {}
        }
    }

    fn read(&mut self, _key: ConnKey, object: ObjectId, offset: u64, buffer: &mut [u8]) {
        match &mut self.state {
            State::Moves(lane) => lane.read(object, offset, buffer),
            State::Joining(_) | State::Over => buffer.fill(0),
        }
    }

    fn accepts_data(&mut self, _key: ConnKey) -> bool {
        match &self.state {
            State::Moves(lane) => lane.accepts_data(),
            State::Joining(_) | State::Over => true,
        }
    }

    fn place(
        &mut self,
        _key: ConnKey,
        object: ObjectId,
        buffer: &mut Vec<u8>,
        parts: &[Placement],
    ) {
        if let State::Moves(lane) = &mut self.state {
            lane.place(object, buffer, parts);
        }
    }

    fn take_spare(&mut self) -> Option<Vec<u8>> {
        match &mut self.state {
            State::Moves(lane) => lane.take_spare(),
            State::Joining(_) | State::Over => None,
        }
    }

    fn poll(&mut self, now: Time, _key: ConnKey, connection: &mut Connection) {
        if self.hub.is_over() {
            return self.end(now, connection);
        }
        if now >= self.next_tick {
            self.next_tick = now + TICK;
            if connection.is_established() && self.object.is_some() {
                self.keep_pace(now, connection);
            }
        }
        if let State::Moves(lane) = &mut self.state {
            lane.poll(connection);
        }
    }

    fn attended(&self) -> Attended<'_> {
        Attended::All
    }

    fn keep_running(&mut self, _now: Time) -> bool {
        !matches!(self.state, State::Over)
    }

    fn next_deadline(&self) -> Option<Time> {
        Some(self.next_tick)
    }
}
