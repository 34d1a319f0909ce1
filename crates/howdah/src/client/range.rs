//! A client that asks which version of a file is there, or for a range of it.

use super::{Client, Step, Task};
use crate::range::{SourceFile, held};
use crate::session::dialogue::side_report;
use crate::session::from_store;
use crate::session::receiving::Place;
use crate::{Error, ErrorKind, PathBytes};
use howdah_core::{RangeSet, Time};
use howdah_proto::Connection;
use howdah_proto::error::CloseCode;
use howdah_session::message::{Message, SideReport};
use howdah_session::resume::WireHeld;
use howdah_store::{RangeFile, Sink, SinkOptions, SourceIdentity};
use std::sync::Arc;

impl Client<'_> {
    /// Asks for a file: for nothing of it, to see which it is, or for what is missing of a range.
    pub(super) fn ask_for(
        &mut self,
        connection: &mut Connection,
        path: PathBytes,
        range: Option<&RangeFile>,
    ) {
        self.progress.current = vec![path.to_string()];
        let get = Message::Get {
            path,
            window_end: range.is_none().then_some(0),
            hash: true,
            held: range
                .and_then(held)
                .map(|held| WireHeld::new(held.source, &held.ranges)),
            values: true,
        };
        connection.send_control(&get.encode());
        self.step = Step::Asked;
    }

    /// The file is that one. `false`: that was not all that was asked for.
    pub(super) fn on_looked(
        &mut self,
        now: Time,
        connection: &mut Connection,
        (source, mode): (Option<SourceIdentity>, Option<u32>),
    ) -> bool {
        let Task::Look(_, seen) = &self.task else {
            return false;
        };
        if let Some(identity) = source {
            seen.set(SourceFile { identity, mode });
        }
        let local = side_report(self.start, &connection.stats());
        self.end(now, Ok((local, SideReport::default())));
        connection.close(now, CloseCode::Done, "it only asked which version is there");
        true
    }

    /// Where a range of that source goes.
    pub(super) fn place_of_range(
        &mut self,
        target: &Arc<RangeFile>,
        source: Option<SourceIdentity>,
        holes: Option<RangeSet>,
    ) -> Result<Place, Error> {
        let changed = match source {
            Some(source) => target.source().difference(&source),
            None => Some("it is no regular file any more".to_owned()),
        };
        if let Some(changed) = changed {
            let text = format!("the source is not the one that was planned ({changed}); plan anew");
            return Err(Error::new(ErrorKind::SourceChanged, text));
        }
        let options = SinkOptions {
            holes,
            ..SinkOptions::default()
        };
        let sink =
            Sink::range(Arc::clone(target), &options, self.wake()).map_err(|e| from_store(&e))?;
        self.held_bytes = sink.held().byte_count();
        Ok(Place::Store(sink))
    }
}
