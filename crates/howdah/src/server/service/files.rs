//! The server's part in a session that stays open for single files.

use super::deeds::{Deed, Happened, Outcome, may_act};
use super::{Service, wake};
use crate::Error;
use crate::server::ServerEvent;
use crate::session::files::attest::Witness;
use crate::session::files::serving::Serving;
use howdah_audit::Level;
use howdah_core::Time;
use howdah_net::ConnKey;
use howdah_proto::Connection;
use howdah_proto::error::{CloseCode, ConnectionError};
use howdah_session::message::Message;
use howdah_session::server::Does;

impl Service {
    pub(super) fn open_files(
        &mut self,
        key: ConnKey,
        connection: &mut Connection,
    ) -> Result<(), Error> {
        let Some(session) = self.sessions.get_mut(&key) else {
            return Ok(());
        };
        session.deed = Deed::new("files", &[]);
        may_act(self.audit.as_deref())?;
        let announce = |connection: &mut Connection, answers| {
            connection.send_control(&Message::FilesOpen { answers }.encode());
        };
        let witness = Witness {
            signer: self.signing.as_ref().map(|signing| signing.key.clone()),
            client: session.public.filter(|_| {
                let signing = self.signing.as_ref();
                signing.is_some_and(|signing| signing.knows_clients)
            }),
            address: session.who.address().to_owned(),
        };
        let rights = (session.rights.clone(), witness);
        let files = Serving::start(
            connection,
            rights,
            (self.places.clone(), session.key.clone()),
            &wake(&self.waker, key),
            announce,
        )?;
        session.machine.does(Does::Files(files));
        Ok(())
    }

    /// Writes down what was changed lately, each by itself. `now`: if that is known.
    pub(super) fn note_changes(&mut self, key: ConnKey, now: Option<Time>) {
        let Some(session) = self.sessions.get_mut(&key) else {
            return;
        };
        let changes = session.does().files().map(|files| files.take_changes());
        let changes = changes.into_iter().flatten();
        let changes = changes.map(|change| (session.tells_of_change(now), change));
        let changes: Vec<_> = changes.collect();
        let (peer, who) = (session.peer.clone(), session.who.clone());
        let client = session.key.clone();
        for (told, change) in changes {
            let deed = Deed::new(change.verb, &change.paths);
            let (event, outcome) = match &change.result {
                Ok(()) => (Happened::Done, Outcome::default()),
                Err(error) => (Happened::Failed, Outcome::error(error)),
            };
            match (told, &change.result) {
                (None, _) => {}
                (Some(more), Ok(())) => {
                    let line = format!("{peer}: {deed} done{more}");
                    self.tell_of(&client, Level::Info, &line);
                }
                (Some(more), Err(error)) => {
                    let line = format!("{peer}: {deed} failed: {error}{more}");
                    self.tell_of(&client, Level::Warning, &line);
                }
            }
            self.note(event, &who, Some(&deed), outcome);
        }
    }

    /// Writes down what was changed, and has what was read in what it is doing.
    pub(super) fn name_files(&mut self, key: ConnKey) {
        self.note_changes(key, None);
        let Some(session) = self.sessions.get_mut(&key) else {
            return;
        };
        if let Some(files) = session.machine.now_mut().files() {
            session.deed = std::mem::take(&mut session.deed).about(files.names());
        }
    }

    /// Its client is gone: writes down what was read.
    pub(super) fn note_files(&mut self, key: ConnKey, error: &ConnectionError) {
        self.name_files(key);
        let Some(session) = self.sessions.get_mut(&key) else {
            return;
        };
        let Some(files) = session.machine.now_mut().files() else {
            return;
        };
        // Who says so has all that it wanted, whether this side has heard of its last bytes or not.
        let is_done = matches!(
            error,
            ConnectionError::ClosedByPeer {
                code: CloseCode::Done,
                ..
            }
        );
        if files.is_busy() && !is_done {
            // That it ended early is said by whoever calls.
            return;
        }
        let (bytes, failed) = (files.written(), files.failed());
        session.machine.end();
        let line = format!(
            "{}: {} done, {bytes} bytes of answers",
            session.peer, session.deed
        );
        let outcome = Outcome {
            bytes: Some(bytes),
            failed: (failed > 0).then_some(failed),
            ..Outcome::default()
        };
        self.control.tell(ServerEvent::Done);
        self.log(&line);
        self.note_end(Happened::Done, key, outcome);
    }
}
