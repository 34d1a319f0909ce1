//! Who is let in.

use super::service::Service;
use super::service::{Happened, Outcome, Who};
use super::session::{Session, group};
use super::{ServerEvent, ServerRefusal};
use crate::keys::PublicKey;
use crate::{Error, ErrorKind};
use howdah_audit::Level;
use howdah_core::{Rate, Time};
use howdah_net::ConnKey;
use howdah_proto::Connection;
use howdah_proto::error::CloseCode;

/// What a client is told that comes, or does nothing, while the server waits for its last session to end.
pub(super) const GOING_AWAY: &str = "the server is going away; try again later";

impl Service {
    /// A client has proved its key: lets it in, or says why not.
    pub(super) fn on_connected(
        &mut self,
        now: Time,
        key: ConnKey,
        connection: &mut Connection,
        peer_key: &[u8],
    ) {
        let public = PublicKey::from_spki_der(peer_key);
        let client = public.map_or_else(String::new, |key| key.fingerprint());
        let comment = public.map_or_else(String::new, |key| self.authority.comment(&key));
        let key_name = match (&*client, &*comment) {
            ("", _) => String::new(),
            (client, "") => format!(" ({client})"),
            (client, comment) => format!(" ({client} {comment})"),
        };
        let remote = connection.remote();
        let door = self.door.as_ref();
        let proved = door.and_then(|door| door.prove(remote, group(&client)));
        let origin = proved.map(|proved| proved.origin);
        let from = origin.unwrap_or(remote).ip();
        let peer = match origin {
            Some(origin) => format!("{origin} over TCP{key_name}"),
            None => format!("{remote}{key_name}"),
        };
        let address = origin.unwrap_or(remote);
        let who = Who::new(key.0, address, origin.is_some(), client.clone(), comment);
        let rights = public
            .ok_or_else(|| Error::new(ErrorKind::Auth, "no Ed25519 key"))
            .and_then(|key| self.authority.enter(&key, from));
        let rights = match rights {
            Ok(rights) => rights,
            Err(error) => {
                let line = format!("{peer}: turned away: {error}");
                self.tell_of(&client, Level::Warning, &line);
                self.note(Happened::Refused, &who, None, Outcome::error(&error));
                self.control
                    .tell(ServerEvent::Refused(ServerRefusal::Rights));
                connection.close(now, CloseCode::Unauthorized, &error.to_string());
                return;
            }
        };
        if self.control.is_draining() {
            let line = format!("{peer}: turned away: the server is going away");
            self.tell_of(&client, Level::Info, &line);
            self.control
                .tell(ServerEvent::Refused(ServerRefusal::Draining));
            connection.close(now, CloseCode::Application, GOING_AWAY);
            return;
        }
        let open = || self.company.sessions_of(&client);
        let counted = rights.max_sessions.map(|most| (most, open()));
        if let Some((most, open)) = counted.filter(|&(most, open)| open >= most as usize) {
            self.control
                .tell(ServerEvent::Refused(ServerRefusal::Sessions));
            let line = format!("{peer}: turned away: it has {open} sessions already");
            self.tell_of(&client, Level::Warning, &line);
            let text = format!(
                "this key may have {most} sessions at a time and has them already; try again when one has ended"
            );
            connection.close(now, CloseCode::Application, &text);
            return;
        }
        if proved.is_some_and(|proved| !proved.stays) {
            self.control.tell(ServerEvent::Refused(ServerRefusal::Busy));
            let line = format!("{peer}: turned away: too many sessions over TCP");
            self.tell_of(&client, Level::Warning, &line);
            let text = "this key has as many sessions over TCP as it may, or others need them; try again later, or let UDP through";
            connection.close(now, CloseCode::Application, text);
            return;
        }
        self.tell_of(&client, Level::Info, &format!("{peer}: connected"));
        self.note(Happened::Connected, &who, None, Outcome::default());
        self.control.tell(ServerEvent::Session);
        self.met = true;
        let entered = self.company.enter(key, &client);
        let mut session = Session::new(now, (peer, who), client, rights, entered);
        // Until it is known what it wants.
        let among = self.company.sharing() as u64 + 1;
        let share = |total: Rate| Rate::from_bits_per_sec(total.bits_per_sec() / among);
        session.share = self.max_rate.map(share);
        session.public = public;
        session.keep_pace(now, connection);
        // Over TCP it is the kernel that paces.
        if origin.is_none()
            && let Some(known) = self.company.paths().recall(&session.key, remote.ip())
        {
            connection.begin_with(now, &known);
        }
        self.sessions.insert(key, session);
    }
}
