//! What a client has moved by several connections at a time.

use super::deeds::{Deed, may_act};
use super::{Service, wake};
use crate::Error;
use crate::server::lanes::Token;
use crate::server::session::Session;
use howdah_core::ObjectId;
use howdah_net::ConnKey;
use howdah_proto::Connection;
use howdah_session::message::Message;
use howdah_session::server::Does;

impl Session {
    /// Where the lanes of what it moves meet, if it has some.
    pub(in crate::server) fn hub(&self) -> Option<crate::session::lanes::Hub> {
        match self.machine.now() {
            Does::Sends(sending) => sending.hub(),
            Does::Receives(receiving) => receiving.hub(),
            Does::Lane(lane) => Some(lane.hub().clone()),
            _ => None,
        }
    }
}

impl Service {
    /// How many connections may move what that session has asked for.
    pub(super) fn lanes_of(&self, key: ConnKey) -> u8 {
        let session = self.sessions.get(&key);
        session.map_or(1, |session| self.company.lanes(session.lanes_wanted))
    }

    /// Tells a client that more of its connections may join, if what it has asked for can be moved that way.
    pub(super) fn offer_lanes(&mut self, key: ConnKey, connection: &mut Connection) {
        let most = self.lanes_of(key);
        let Some(session) = self.sessions.get_mut(&key).filter(|_| most > 1) else {
            return;
        };
        let Some(hub) = session.hub() else { return };
        let path = session.deed.first();
        let token = self.company.offers().offer(&session.key, &hub, most, path);
        if let Some(token) = token {
            connection.send_control(&Message::Lanes { token, most }.encode());
        }
    }

    /// A connection joins the session of another one.
    pub(super) fn join(
        &mut self,
        key: ConnKey,
        connection: &mut Connection,
        (token, object): (Token, ObjectId),
    ) -> Result<(), Error> {
        let wake = wake(&self.waker, key);
        let Some(session) = self.sessions.get_mut(&key) else {
            return Ok(());
        };
        session.deed = Deed::new("join what moves", &[]);
        may_act(self.audit.as_deref())?;
        let joining = self.company.offers().join(&session.key, &token, wake)?;
        session.deed = Deed::new("move a part of", std::slice::from_ref(&joining.path));
        let is_sender = matches!(joining.hub, crate::session::lanes::Hub::Sends(_));
        let object = if is_sender {
            connection.allocate_object()
        } else {
            object
        };
        let lane = joining.hub.open(connection, object, joining.ticket)?;
        session.machine.does(Does::Lane(lane));
        connection.send_control(&Message::Joined { object }.encode());
        Ok(())
    }

    /// Moves a part along.
    pub(super) fn move_lane(&mut self, key: ConnKey, connection: &mut Connection) {
        let Some(session) = self.sessions.get_mut(&key) else {
            return;
        };
        let Some(lane) = session.does().lane() else {
            return;
        };
        if lane.poll(connection) {
            lane.finish(connection);
            session.machine.end();
            session.deed = Deed::default();
        }
    }
}
