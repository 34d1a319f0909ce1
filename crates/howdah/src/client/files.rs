//! The connection of a session that stays open.

use super::{Client, Task};
use crate::Error;
use crate::session::dialogue::side_report;
use crate::session::streams::receive_answers;
use howdah_core::{ObjectId, Time};
use howdah_proto::Connection;
use howdah_proto::error::CloseCode;
use howdah_session::message::SideReport;
use howdah_tree::pipe;

impl Client<'_> {
    /// The server says where its answers come.
    pub(super) fn on_files_open(
        &mut self,
        connection: &mut Connection,
        answers: ObjectId,
    ) -> Result<(), Error> {
        let Task::Files { desk } = &self.task else {
            return Ok(());
        };
        let (tap, spout) = pipe();
        let receiving = receive_answers(connection, answers, tap, &self.wake())?;
        desk.on_connected(self.wake());
        desk.on_open(spout)?;
        self.machine.receives(receiving);
        Ok(())
    }

    /// Asks what there is to ask; ends the session if that is wanted.
    pub(super) fn move_files(
        &mut self,
        now: Time,
        connection: &mut Connection,
    ) -> Result<(), Error> {
        let Task::Files { desk } = &self.task else {
            return Ok(());
        };
        if desk.is_closed() && self.moves() {
            let gives_up = desk.is_waiting();
            let local = side_report(self.start, &connection.stats());
            self.end(now, Ok((local, SideReport::default())));
            // The server's log has it that way.
            if gives_up {
                let why = "it no longer wants what it asked for";
                connection.close(now, CloseCode::Application, why);
            } else {
                connection.close(now, CloseCode::Done, "");
            }
            return Ok(());
        }
        if let Some(error) = desk.broken() {
            return Err(Error::new(
                error.kind(),
                format!("{}: {error}", self.peer()),
            ));
        }
        let came = self.machine.receiving();
        let came = came.map_or(0, |receiving| connection.received_bytes(receiving.object));
        if came > self.progress.bytes {
            self.wait.restart(now);
        }
        if self.moves() {
            connection.set_quiet(now, !desk.is_waiting());
            for message in desk.take_questions() {
                connection.send_control(&message.encode());
            }
        }
        Ok(())
    }
}
