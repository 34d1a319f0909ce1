//! What a client waits for, and what it says while it does.

use super::{Client, Step, Task};
use crate::session::dialogue;
use crate::{Error, ErrorKind};
use howdah_core::Time;
use howdah_proto::Connection;
use howdah_proto::error::CloseCode;
use howdah_session::Wait;
use howdah_session::message::{SideReport, shown};
use howdah_session::questions::Finding;

impl Client<'_> {
    /// What of the other side (or of somebody who is asked) is missing now.
    pub(super) fn waits_for(&self, connection: &Connection) -> Option<Wait> {
        if let Step::Judging(_) = self.step {
            return Some(Wait::Judgement);
        }
        if self.doubt.is_some() {
            return Some(Wait::Thanks);
        }
        let has_all = match (&self.task, self.machine.sending()) {
            (Task::Files { desk }, _) => desk.is_waiting(),
            (_, Some(sending)) => {
                let arrived = sending.arrived_bytes(connection);
                sending.told().is_some_and(|end| end.size == arrived)
            }
            (_, None) => false,
        };
        // Before it asks, the connection has clocks of its own; a tree moves or not.
        let wait = self.machine.waits_for(has_all);
        wait.filter(|_| !self.moves() || self.tree.is_none())
    }

    /// Nothing came within the time that it may take.
    pub(super) fn on_wait_over(&mut self, now: Time, connection: &mut Connection, wait: Wait) {
        if let Some(doubt) = self.doubt.take() {
            return self.fail(now, connection, doubt);
        }
        if self.machine.has_all() {
            // The bytes are here and right; only the server's figures are missing.
            self.end(now, Ok((self.local, SideReport::default())));
            connection.close(now, CloseCode::Done, "");
            return;
        }
        let (peer, seconds) = (self.peer(), wait.limit().as_millis() / 1000);
        let (kind, what) = match wait {
            Wait::Judgement => (
                ErrorKind::Auth,
                format!("nobody has judged the key of {peer}"),
            ),
            Wait::Verdict => (
                ErrorKind::Network,
                format!("{peer} has all bytes but does not say that they are stored"),
            ),
            Wait::End => (
                ErrorKind::Network,
                format!("{peer} has sent all bytes but not their end"),
            ),
            _ => (
                ErrorKind::Network,
                format!("{peer} is there but does not answer the request"),
            ),
        };
        let error = Error::new(kind, format!("{what} within {seconds} s; try again later"));
        self.fail(now, connection, error.stuck());
    }

    /// What came is not what was hashed. Whether its source is still what it was only the server knows, who is told and answers.
    pub(super) fn ask_why(&mut self, connection: &mut Connection, error: Error) {
        connection.send_control(&dialogue::client_fails(&error).encode());
        self.doubt = Some(error);
    }

    /// The failure that the server tells, as it is known here.
    pub(super) fn why_other(&mut self, told: Error) -> Error {
        match (self.doubt.take(), self.machine.sending()) {
            (Some(_), _) if told.kind() == ErrorKind::SourceChanged => told,
            (Some(doubt), _) => doubt,
            (None, Some(sending)) => sending.why_other(told),
            (None, None) => told,
        }
    }

    /// Something that was asked for was found.
    pub(super) fn on_findings(&mut self, part: Vec<Finding>) -> Result<(), Error> {
        let Task::Ask { answers, .. } = &self.task else {
            return Ok(());
        };
        answers.found(part)
    }

    /// Tells of a source that others wrote to behind its end.
    pub(super) fn tell_grown(&self, size: u64) {
        let name = self.progress.current.first().map_or("", String::as_str);
        let text = format!("{name:?} grew while it was read; its first {size} bytes were copied");
        self.config.warn.line(&text);
    }

    /// Tells that what was asked for waits for others at the server.
    pub(super) fn tell_busy(&mut self, why: &str, again_s: u16) {
        (self.peer_waits, self.peer_is_busy) = (true, true);
        self.config.warn.line(&format!(
            "{} is busy ({}); it tries again within {again_s} s, until this begins (Ctrl-C ends it)",
            self.peer(),
            shown(why)
        ));
    }

    /// Tells of a full disk that is waited for, or that there is room again.
    pub(super) fn tell_room(&self, lack: Option<&str>) {
        let Some(lack) = lack else {
            let note = &self.config.note;
            return note.line("there is room again; the copy goes on");
        };
        let seconds = self.config.wait_for_space.as_millis().div_ceil(1000);
        self.config.warn.line(&format!(
            "{lack}; waiting up to {seconds} s until somebody makes room there, and the copy goes on by itself (Ctrl-C \
             ends it)"
        ));
    }
}
