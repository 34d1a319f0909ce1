//! What a request is about is opened on a thread of its own: a disk that stands still must not hold up the clients of others.

use super::deeds::{Deed, may_act};
use super::under_way::{Get, Opening};
use super::{Service, wake};
use crate::access::Rights;
use crate::error::from_store;
use crate::server::session::Session;
use crate::session::kept::{Early, Kept};
use crate::session::places::ONE;
use crate::session::plans;
use crate::session::putting::Put;
use crate::session::receiving::{Place, Receiving};
use crate::session::sending::Sending;
use crate::{Error, ErrorKind, Location, PathBytes};
use howdah_core::{Span, Time};
use howdah_net::ConnKey;
use howdah_proto::Connection;
use howdah_session::Metadata;
use howdah_session::lanes::wanted;
use howdah_session::message::Message;
use howdah_session::plans::LeasePut;
use howdah_session::server::{self, Does};
use howdah_store::{RoomWait, Source, SourceSpec, StoreError, Wake};
use std::sync::Arc;
use std::time::Duration;

/// The loop waits that long for what is opened, if that has not happened often of late: most disks answer at once, and what
/// follows the request need not come again.
const MOMENT: Duration = Duration::from_millis(1);
/// So often at once, and per second.
pub(in crate::server) const MOMENTS: u64 = 50;
/// A place that was taken is looked at again after that time.
const TAKEN_AGAIN: Span = Span::from_millis(20);

fn open_source(
    rights: &Rights,
    path: &PathBytes,
    (hash, growing): (bool, bool),
    is_known: bool,
    wake: &Wake,
) -> Result<(Source, bool), Error> {
    let failed = |error: StoreError| match error {
        // A file it was when the client last saw it.
        StoreError::NotAFile { .. } if is_known => {
            let text = format!("the source has changed: {error}");
            Error::new(ErrorKind::SourceChanged, text)
        }
        _ => from_store(&error),
    };
    let open = |spec, hash| {
        let open = if growing {
            Source::open_growing
        } else {
            Source::open
        };
        open(spec, hash, Arc::clone(wake)).map_err(failed)
    };
    if let Ok(Location::Zero(size)) = Location::try_from(path.as_os_str()) {
        rights.check_read()?;
        return Ok((open(SourceSpec::Zero(size), false)?, false));
    }
    let (root, path) = rights.source(path.as_path())?;
    let source = open(SourceSpec::File(&path, &root), hash)?;
    Ok((source, hash))
}

impl Session {
    fn begin_get(
        &mut self,
        connection: &mut Connection,
        (source, hash): (Source, bool),
        (ask, lanes): (&Get, u8),
    ) -> Result<(), Error> {
        let object = connection.allocate_object();
        let shows_mode = self.rights.shows() >= Metadata::Modes;
        let mode = source.mode().filter(|_| shows_mode);
        let window_end = ask.wanted.window_end;
        let mut sending = Sending::new(connection, object, source, hash, window_end);
        if window_end.is_none() && lanes > 1 {
            sending.share_out();
        }
        // A pipe wants every byte.
        if window_end.is_none() {
            sending.leave_out_holes(connection);
        }
        let opened = sending.opened(mode);
        let answer = self.machine.sends(sending, &ask.wanted, &opened)?;
        connection.send_control(&answer.message.encode());
        if let Some(sending) = self.does().sending() {
            sending.leave_out(connection, answer.held);
        }
        Ok(())
    }

    /// Takes what was put to its place. Returns what is there already, in bytes.
    fn begin_put(
        &mut self,
        connection: &mut Connection,
        (place, ready): (Place, &Message),
        (lanes, wake): (u8, Wake),
    ) -> u64 {
        let (Some(put), Some(early)) = (&self.put, self.early.take()) else {
            return 0;
        };
        let asked = &put.asked;
        let mut receiving = Receiving::of_admitted(connection, asked.object, place, asked.hash);
        let held = receiving.held().byte_count();
        let is_lease = put.lease.is_some();
        if lanes > 1 && !is_lease {
            receiving.share_in(asked.size, asked.holes.as_ref(), wake);
        }
        let there = connection.received_bytes(asked.object);
        if asked.source.is_some() {
            connection.send_control(&ready.encode());
        }
        early.kept.give(&mut receiving);
        self.machine.receives(receiving);
        if is_lease && let Some(put) = &mut self.put {
            // All but the lease, which comes another way.
            put.counted = there;
            return 0;
        }
        held
    }
}

impl Service {
    /// Before a request is answered: how long its client would wait for space, whether a file may grow.
    pub(super) fn note_more(&mut self, key: ConnKey, message: &Message, bytes: &[u8]) {
        let session = self.sessions.get_mut(&key);
        let Some(session) = session.filter(|session| !session.is_busy()) else {
            return;
        };
        match message {
            Message::Put { .. } | Message::PutLease(_) | Message::TreePut { .. } => {
                session.room = RoomWait::new(Message::patience(bytes), wake(&self.waker, key));
                let said = Message::more(bytes).map(|(_, lanes): (u64, u8)| lanes);
                session.lanes_wanted = wanted(said);
            }
            Message::Get { .. } => {
                session.growing = Message::more(bytes).unwrap_or(false);
                let said = Message::more(bytes).map(|(_, lanes): (bool, u8)| lanes);
                session.lanes_wanted = wanted(said);
            }
            _ => {}
        }
    }

    /// How long the loop may wait for something now.
    pub(super) fn moment(&mut self, now: Time) -> Duration {
        if self.moments.take(now) {
            MOMENT
        } else {
            Duration::ZERO
        }
    }

    pub(super) fn open_get(&mut self, key: ConnKey, ask: Get) -> Result<(), Error> {
        let Some(session) = self.sessions.get_mut(&key) else {
            return Ok(());
        };
        let (rights, wake) = (session.rights.clone(), wake(&self.waker, key));
        let (path, how) = (ask.path.clone(), (ask.hash, session.growing));
        let (of_source, place) = (Arc::clone(&wake), session.place.clone());
        let is_known = ask.wanted.held.is_some();
        let work = move || {
            let source = open_source(&rights, &path, how, is_known, &of_source);
            drop(place);
            source
        };
        let errand = self.errands.start(&session.key, wake, work)?;
        session.opening = Some(Opening::Get(errand, ask));
        Ok(())
    }

    /// Begins what a client wants to put: a file, or the lease of a plan.
    pub(super) fn begin_put(
        &mut self,
        now: Time,
        key: ConnKey,
        connection: &mut Connection,
        (asked, lease): (server::Put, Option<&LeasePut>),
    ) -> Result<(), Error> {
        let Some(session) = self.sessions.get_mut(&key) else {
            return Ok(());
        };
        let verb = lease.map_or("put", |_| "put a lease of");
        session.deed = Deed::new(verb, std::slice::from_ref(&asked.path));
        may_act(self.audit.as_deref())?;
        let lease = lease.map(|lease| plans::Put::new(lease, &session.key));
        let lease = lease.transpose()?.map(Arc::new);
        let taken = session.rights.quota.take_file(asked.path.as_path());
        taken.map_err(|e| from_store(&e))?;
        session.put = Some(Put {
            asked,
            since: now,
            took_over: false,
            counted: 0,
            lease,
        });
        self.open_put(now, key, connection)
    }

    /// Opens the place of what a client wants to put, unless somebody else is still there.
    pub(super) fn open_put(
        &mut self,
        now: Time,
        key: ConnKey,
        connection: &mut Connection,
    ) -> Result<(), Error> {
        let Some(session) = self.sessions.get_mut(&key) else {
            return Ok(());
        };
        let waits = session.machine.now().begins()
            && session.opening.is_none()
            && now >= session.open_again_at;
        let is_late = session.is_told_to_wait;
        let Some(put) = session.put.as_mut().filter(|_| waits) else {
            return Ok(());
        };
        if is_late {
            // Its own patience begins when it can.
            put.since = now;
        }
        let (client, put) = (session.key.clone(), put.clone());
        if session.early.is_none() {
            // Its first bytes may be here before its place is open.
            let object = put.asked.object;
            Receiving::admit(connection, object, put.asked.size, None)?;
            if let Some(holes) = &put.asked.holes {
                connection.note_present(object, holes);
            }
            session.early = Some(Early {
                object,
                kept: Kept::default(),
            });
        }
        // Who waits for a place has been through that, and looks often.
        if !is_late && put.may_wait(now) && self.supersede(key, &client, &put) {
            if let Some(put) = self.sessions.get_mut(&key).and_then(|s| s.put.as_mut()) {
                put.took_over = true;
            }
            return Ok(());
        }
        let patience = self.moment(now);
        let Some(session) = self.sessions.get_mut(&key) else {
            return Ok(());
        };
        if session.place.is_none() {
            match self.places.take(&session.key, ONE) {
                Ok(place) => session.place = Some(place),
                Err(why) => {
                    self.has_no_place(now, key, connection, why);
                    return Ok(());
                }
            }
        }
        let (rights, room) = (session.rights.clone(), session.room.clone());
        let (sink_wake, place) = (wake(&self.waker, key), session.place.clone());
        let work = move || {
            let opened = put.open(&rights, now, &room, sink_wake);
            drop(place);
            opened
        };
        let begun = self
            .errands
            .start(&session.key, wake(&self.waker, key), work);
        let begun = begun.map(|errand| session.opening = Some(Opening::Put(errand)));
        self.unless_busy(now, key, connection, begun)?;
        self.go_on_opening(now, key, connection, patience)
    }

    /// Goes on with what is open now, or will be within that time.
    pub(super) fn go_on_opening(
        &mut self,
        now: Time,
        key: ConnKey,
        connection: &mut Connection,
        patience: Duration,
    ) -> Result<(), Error> {
        let session = self.sessions.get(&key);
        if session.is_none_or(|session| session.opening.is_none() && session.request.is_none()) {
            return Ok(());
        }
        let opened = self.take_opened(now, key, connection, patience);
        self.unless_busy(now, key, connection, opened)?;
        self.catch_up(now, key, connection)
    }

    /// Takes what is open, if it is.
    fn take_opened(
        &mut self,
        now: Time,
        key: ConnKey,
        connection: &mut Connection,
        patience: Duration,
    ) -> Result<(), Error> {
        let lanes = self.lanes_of(key);
        let Some(session) = self.sessions.get_mut(&key) else {
            return Ok(());
        };
        match session.opening.take() {
            None => {}
            Some(Opening::Get(errand, ask)) => match errand.poll(patience) {
                None => {
                    session.opening = Some(Opening::Get(errand, ask));
                    return Ok(());
                }
                Some(source) => {
                    session.begin_get(connection, source??, (&ask, lanes))?;
                    self.offer_lanes(key, connection);
                }
            },
            Some(Opening::Put(errand)) => match errand.poll(patience) {
                None => {
                    session.opening = Some(Opening::Put(errand));
                    return Ok(());
                }
                Some(place) => match place?? {
                    None => session.open_again_at = now + TAKEN_AGAIN,
                    Some((place, ready)) => {
                        let wake = wake(&self.waker, key);
                        let held = session.begin_put(connection, (place, &ready), (lanes, wake));
                        if held > 0 {
                            let text = format!(
                                "{}: {} goes on; {} MiB are there already",
                                session.peer,
                                session.deed,
                                held >> 20
                            );
                            self.log.line(&text);
                        }
                        self.offer_lanes(key, connection);
                    }
                },
            },
            Some(Opening::Tree(errand)) => match errand.poll(patience) {
                None => {
                    session.opening = Some(Opening::Tree(errand));
                    return Ok(());
                }
                Some(prepared) => {
                    let prepared = prepared??;
                    // Once its streams are told, only its client can begin it anew.
                    session.request = None;
                    let tree = prepared.begin(connection, &wake(&self.waker, key))?;
                    session.machine.does(Does::Tree(tree));
                }
            },
        }
        self.has_begun(key, connection);
        Ok(())
    }

    /// Acts upon what came while something was being opened.
    fn catch_up(
        &mut self,
        now: Time,
        key: ConnKey,
        connection: &mut Connection,
    ) -> Result<(), Error> {
        while let Some(session) = self.sessions.get_mut(&key)
            && let Some(message) = session.machine.catch_up()
        {
            self.on_message(now, key, connection, message)?;
        }
        Ok(())
    }
}
