//! Requests that wait: others have as much under way as the server takes, or this system gives it no more threads.
//!
//! The session stays, its client is told, and what it asked for is tried again by itself.

use super::under_way::Request;
use super::{Service, wake};
use crate::server::session::Session;
use crate::server::{ServerEvent, ServerRefusal};
use crate::session::chore::Chore;
use crate::session::places::{NoPlace, ONE, of_tree};
use crate::{Error, ErrorKind};
use howdah_audit::Level;
use howdah_core::{Span, Time};
use howdah_net::ConnKey;
use howdah_proto::Connection;
use howdah_proto::error::CloseCode;
use howdah_session::Memory;
use howdah_session::message::Message;
use howdah_session::questions::Question;
use howdah_session::server::Does;

/// It is tried again within that time, which the client is told.
const AGAIN_S: u16 = 2;
/// To look whether there is a place costs nearly nothing.
const PLACE_AGAIN: Span = Span::from_millis(50);
/// Who finds no thread for so long while nobody else has anything under way will find none.
const IN_VAIN: Span = Span::from_secs(6);

/// What lacked a thread when its client knew that it had begun goes on in another connection, for which a client of ours comes by itself.
pub(super) fn close_if_busy(now: Time, connection: &mut Connection, error: &Error) {
    if error.is_busy() {
        let text = format!("the server is busy ({error}); try again later");
        connection.close(now, CloseCode::Application, &text);
    }
}

/// What sessions of a key hold, or of all keys, is as much as may be.
pub(super) fn no_room() -> Error {
    let text = "what is asked by other sessions takes all the memory that is for it";
    Error::new(ErrorKind::Network, text).busy()
}

impl Request {
    fn places(&self) -> u32 {
        let Self::Tree(message) = self else {
            return ONE;
        };
        match &**message {
            Message::TreePut { options, .. }
            | Message::TreeGet { options, .. }
            | Message::TreeVerify { options, .. } => {
                of_tree(options.memory.unwrap_or(Memory::DEFAULT))
            }
            _ => ONE,
        }
    }
}

impl Service {
    /// Whether there is room for what has come and stays with its session. A client of ours comes again by itself.
    pub(super) fn has_room(&mut self, key: ConnKey) -> Result<(), Error> {
        let session = self.sessions.get_mut(&key);
        if session.is_none_or(Session::counts_luggage) {
            return Ok(());
        }
        Err(no_room())
    }

    /// Begins what was asked for, or has it wait.
    pub(super) fn begin(
        &mut self,
        now: Time,
        key: ConnKey,
        connection: &mut Connection,
        request: Request,
    ) -> Result<(), Error> {
        let patience = self.moment(now);
        let Some(session) = self.sessions.get_mut(&key) else {
            return Ok(());
        };
        match self.places.take(&session.key, request.places()) {
            Ok(place) => session.place = Some(place),
            Err(why) => {
                session.waiting = Some(request);
                self.has_no_place(now, key, connection, why);
                return Ok(());
            }
        }
        let begun = match request.clone() {
            Request::Tree(message) => self.open_tree(key, *message),
            Request::Get(ask) => self.open_get(key, ask),
            Request::Ask(question) => self.start_chore(key, question),
        };
        if let Some(session) = self.sessions.get_mut(&key) {
            session.request = Some(request);
        }
        self.unless_busy(now, key, connection, begun)?;
        self.go_on_opening(now, key, connection, patience)
    }

    fn start_chore(&mut self, key: ConnKey, question: Question) -> Result<(), Error> {
        let Some(session) = self.sessions.get_mut(&key) else {
            return Ok(());
        };
        let chore = Chore::start(question, session.rights.clone(), wake(&self.waker, key))?;
        session.machine.does(Does::Answers(chore));
        Ok(())
    }

    /// What was asked for waits if it can begin later.
    pub(super) fn unless_busy(
        &mut self,
        now: Time,
        key: ConnKey,
        connection: &mut Connection,
        result: Result<(), Error>,
    ) -> Result<(), Error> {
        let Err(error) = result else { return Ok(()) };
        let Some(session) = self.sessions.get_mut(&key) else {
            return Ok(());
        };
        let request = session.request.take();
        let can_wait = request.is_some() || session.put.is_some() && session.machine.now().begins();
        if !error.is_busy() || !can_wait {
            return Err(error);
        }
        if self.is_in_vain(now, key) {
            return Err(error);
        }
        let Some(session) = self.sessions.get_mut(&key) else {
            return Ok(());
        };
        session.waiting = request;
        self.has_to_wait(now, key, connection, &error.to_string());
        Ok(())
    }

    /// Whether it finds no thread although nobody else has anything under way, and has not for a while.
    pub(super) fn is_in_vain(&mut self, now: Time, key: ConnKey) -> bool {
        let Some(session) = self.sessions.get_mut(&key) else {
            return false;
        };
        if self.places.are_taken_beside(session.place.as_ref()) {
            session.in_vain_since = None;
            return false;
        }
        now.since(*session.in_vain_since.get_or_insert(now)) >= IN_VAIN
    }

    /// The same where there is no place.
    pub(super) fn has_no_place(
        &mut self,
        now: Time,
        key: ConnKey,
        connection: &mut Connection,
        why: NoPlace,
    ) {
        self.has_to_wait(now, key, connection, &why.to_string());
        if let Some(session) = self.sessions.get_mut(&key) {
            session.open_again_at = now + PLACE_AGAIN;
        }
    }

    /// Tells the client that it has to wait, and why, unless it knows.
    pub(super) fn has_to_wait(
        &mut self,
        now: Time,
        key: ConnKey,
        connection: &mut Connection,
        why: &str,
    ) {
        let Some(session) = self.sessions.get_mut(&key) else {
            return;
        };
        session.place = None;
        session.open_again_at = now + Span::from_secs(AGAIN_S.into());
        if std::mem::replace(&mut session.is_told_to_wait, true) {
            return;
        }
        connection.send_control(&Message::busy(why, AGAIN_S));
        let line = format!("{}: {} waits: {why}", session.peer, session.deed);
        let client = session.key.clone();
        self.control.tell(ServerEvent::Refused(ServerRefusal::Busy));
        self.tell_of(&client, Level::Info, &line);
    }

    /// What it asked for has begun.
    pub(super) fn has_begun(&mut self, key: ConnKey, connection: &mut Connection) {
        let Some(session) = self.sessions.get_mut(&key) else {
            return;
        };
        session.request = None;
        if std::mem::take(&mut session.is_told_to_wait) {
            connection.send_control(&Message::room(None).encode());
            let line = format!("{}: {} begins", session.peer, session.deed);
            let client = session.key.clone();
            self.tell_of(&client, Level::Info, &line);
        }
    }

    /// Tries again what waits.
    pub(super) fn try_again(
        &mut self,
        now: Time,
        key: ConnKey,
        connection: &mut Connection,
    ) -> Result<(), Error> {
        let session = self.sessions.get_mut(&key);
        let due = session.filter(|session| now >= session.open_again_at);
        match due.and_then(|session| session.waiting.take()) {
            Some(request) => self.begin(now, key, connection, request),
            None => Ok(()),
        }
    }
}
