//! Leases of plans that come.

use super::{Service, wake};
use crate::Error;
use crate::server::ServerEvent;
use crate::server::deeds::{Deed, Happened, Outcome, may_act};
use crate::session::dialogue::side_report;
use crate::session::errand::Errand;
use crate::session::from_store;
use crate::session::plans;
use crate::session::putting::Put;
use howdah_core::Time;
use howdah_net::ConnKey;
use howdah_proto::Connection;
use howdah_session::message::Message;
use howdah_session::plans::LeasePut;
use std::sync::Arc;
use std::time::Duration;

/// A lease that has come and goes to its place.
#[derive(Debug)]
pub(in crate::server) struct Landing {
    /// As which it came.
    object: u64,
    bytes: u64,
    errand: Errand<Result<(), Error>>,
}

impl Service {
    pub(super) fn begin_lease(
        &mut self,
        now: Time,
        key: ConnKey,
        connection: &mut Connection,
        asked: LeasePut,
    ) -> Result<(), Error> {
        let Some(session) = self.sessions.get_mut(&key) else {
            return Ok(());
        };
        session.deed = Deed::new("put a lease of", std::slice::from_ref(&asked.path));
        may_act(self.audit.as_deref())?;
        let lease = plans::Put::new(&asked, &session.key)?;
        let source = asked.source;
        let holes = session.holes.take(asked.object, Some(source.size))?;
        let taken = session.rights.quota.take_file(asked.path.as_path());
        taken.map_err(|e| from_store(&e))?;
        session.put = Some(Put {
            object: asked.object,
            path: asked.path,
            name: None,
            size: Some(source.size),
            hash: true,
            source: Some(source),
            resume: true,
            reread: false,
            mode: None,
            holes,
            since: now,
            took_over: false,
            counted: 0,
            lease: Some(Arc::new(lease)),
        });
        self.open_put(now, key, connection)
    }

    /// All of it has come: it goes to its place on a thread of its own.
    pub(super) fn land(
        &mut self,
        key: ConnKey,
        (connection, object): (&mut Connection, u64),
        lease: Arc<plans::Put>,
    ) -> Result<(), Error> {
        connection.finish_receiving(object);
        let Some(session) = self.sessions.get_mut(&key) else {
            return Ok(());
        };
        let (place, bytes) = (session.place.clone(), lease.bytes());
        let work = move || {
            let landed = lease.land();
            drop(place);
            landed
        };
        let errand = self
            .errands
            .start(&session.key, wake(&self.waker, key), work)?;
        session.landing = Some(Landing {
            object,
            bytes,
            errand,
        });
        Ok(())
    }

    /// Says that it is there, once it is.
    pub(super) fn on_landing(
        &mut self,
        key: ConnKey,
        connection: &mut Connection,
    ) -> Result<(), Error> {
        let Some(session) = self.sessions.get_mut(&key) else {
            return Ok(());
        };
        let Some(landing) = &session.landing else {
            return Ok(());
        };
        let Some(landed) = landing.errand.poll(Duration::ZERO) else {
            return Ok(());
        };
        let (object, bytes) = (landing.object, landing.bytes);
        session.landing = None;
        landed??;
        let mut side = side_report(session.start, &connection.stats());
        side.hashed = true;
        side.bottleneck = session.at_cap.verdict(connection, 0);
        connection.send_control(&Message::Done { object, side }.encode());
        let line = format!("{}: {} done, {bytes} bytes", session.peer, session.deed);
        self.control.tell(ServerEvent::Done);
        self.log(&line);
        let outcome = Outcome {
            bytes: Some(bytes),
            ..Outcome::default()
        };
        self.note_end(Happened::Done, key, outcome);
        Ok(())
    }
}
