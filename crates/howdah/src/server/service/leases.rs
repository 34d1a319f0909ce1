//! Leases of plans that come.

use super::deeds::{Happened, Outcome};
use super::under_way::Landing;
use super::{Service, wake};
use crate::Error;
use crate::server::ServerEvent;
use crate::session::dialogue::side_report;
use crate::session::plans;
use howdah_core::ObjectId;
use howdah_net::ConnKey;
use howdah_proto::Connection;
use howdah_session::message::Message;
use howdah_session::server::Does;
use std::sync::Arc;
use std::time::Duration;

impl Service {
    /// All of it has come: it goes to its place on a thread of its own.
    pub(super) fn land(
        &mut self,
        key: ConnKey,
        (connection, object): (&mut Connection, ObjectId),
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
        let landing = Landing {
            object,
            bytes,
            errand,
        };
        session.machine.does(Does::Lands(landing));
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
        let Some(landing) = session.does().landing() else {
            return Ok(());
        };
        let Some(landed) = landing.errand.poll(Duration::ZERO) else {
            return Ok(());
        };
        let (object, bytes) = (landing.object, landing.bytes);
        session.machine.end();
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
