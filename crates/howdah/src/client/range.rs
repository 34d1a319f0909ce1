//! A client that asks which version of a file is there, or for a range of it.

use super::{Client, Task};
use crate::SourceFile;
use crate::error::from_store;
use crate::lease::source_changed;
use crate::session::dialogue::side_report;
use crate::session::receiving::Place;
use crate::session::sending::Sending;
use crate::task::LeaseTask;
use crate::{Error, PathBytes};
use howdah_core::{RangeSet, Time};
use howdah_proto::Connection;
use howdah_proto::error::CloseCode;
use howdah_session::message::{Message, SideReport};
use howdah_session::plans::LeasePut;
use howdah_session::resume::WireHeld;
use howdah_store::{RangeFile, Sink, SinkOptions, Source, SourceIdentity, SourceSpec, StoreError};
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
        self.machine.asked();
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

    /// Puts one lease of a plan.
    pub(super) fn begin_lease(
        &mut self,
        connection: &mut Connection,
        lease: &LeaseTask,
    ) -> Result<(), Error> {
        let name = lease.source.file_name().map(PathBytes::from);
        self.progress.current = name.iter().map(PathBytes::to_string).collect();
        let spec = SourceSpec::LocalFile(&lease.source);
        let source = Source::open(spec, true, self.wake()).map_err(|error| match error {
            StoreError::NotAFile { what, .. } => source_changed(&format!("it is {what} now")),
            _ => from_store(&error),
        })?;
        let Some(identity) = source.identity() else {
            return Err(source_changed("it is no regular file any more"));
        };
        if let Some(difference) = lease.identity.difference(&identity) {
            return Err(source_changed(&difference));
        }
        let object = connection.allocate_object();
        self.total = source.size();
        let mut sending = Sending::new(connection, object, source, true, None);
        sending.leave_out_holes(connection);
        sending.wait_for_ready();
        let put = Message::PutLease(LeasePut {
            object,
            path: lease.path.clone(),
            plan: lease.plan.clone(),
            lease: lease.lease,
            epoch: lease.epoch,
            source: identity,
            run: lease.run,
        });
        connection.send_control(&put.encode_patient(self.config.wait_for_space));
        self.machine.sends(sending);
        Ok(())
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
            return Err(source_changed(&changed));
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

/// What of `target` must not come again.
fn held(target: &RangeFile) -> Option<howdah_store::Held> {
    let held = target.held();
    (!held.ranges.is_empty()).then_some(held)
}
