//! A large file that comes is opened, which may wait for its disk.

use super::LargeTarget;
use crate::open::from_opening_home;
use crate::report::Trouble;
use crate::shared::Shared;
use crate::target::Wanted;
use howdah_core::RangeSet;
use howdah_store::{Sink, SinkOptions, SourceIdentity, StoreError, Target};
use rustix::fd::OwnedFd;
use std::ffi::OsStr;
use std::sync::Arc;

/// A large file that was asked for and comes; its place is not open yet.
#[derive(Debug)]
pub struct LargeOpening {
    pub(super) shared: Arc<Shared>,
    pub(super) wanted: Wanted,
    pub(super) source: Option<SourceIdentity>,
    pub(super) holes: Option<RangeSet>,
}

impl LargeOpening {
    /// Where it goes, and what is there already; see [`open_large`](super::TreeReceiver::open_large).
    pub fn open(self) -> Result<Option<(LargeTarget, Sink)>, StoreError> {
        let Self {
            shared,
            wanted,
            source,
            holes,
        } = self;
        let sink = placed(&shared, &wanted).and_then(|mut target| {
            // What a copy has that was interrupted is let go of by threads that still write and hash when its end is told.
            while let Some(source) = &source
                && target.is_being_written_from(source)
                && !shared.turns.has_ended()
                && shared.busy.wait()
            {
                target = placed(&shared, &wanted)?;
            }
            if shared.options.anew {
                target = target.anew();
            }
            let options = SinkOptions {
                size: Some(wanted.size),
                source,
                reread: shared.options.reread,
                holes,
                room: shared.room.clone(),
                limits: shared.large_limits,
                ..SinkOptions::default()
            };
            if shared.add_only && target.is_taken() {
                return Sink::compare(target, &options, Arc::clone(&shared.wake));
            }
            Sink::resume(target, &options, Arc::clone(&shared.wake))
        });
        match sink {
            Ok(sink) => {
                let held_bytes = sink.held().byte_count();
                Ok(Some((LargeTarget { wanted, held_bytes }, sink)))
            }
            Err(error @ StoreError::NoSpace { .. }) => Err(error),
            Err(error) => {
                shared.book.unwritten(&error);
                wanted.stays_away();
                drop(wanted);
                shared.unsettled.release(1);
                Ok(None)
            }
        }
    }
}

/// Where it goes, and what lies there.
fn placed(shared: &Shared, wanted: &Wanted) -> Result<Target, StoreError> {
    let path = wanted.path();
    let (keeper, book) = (Arc::clone(&shared.keeper), Arc::clone(&shared.book));
    let (meta, shown) = (wanted.meta.clone(), path.clone());
    let prepare = Box::new(move |file: &std::fs::File, dir: &OwnedFd, name: &OsStr| {
        for (what, e) in keeper.apply_to_file(file, dir, name, &meta) {
            book.trouble(Trouble::NotKept, &shown, format!("{what} not kept: {e}"));
        }
    });
    let dir = shared.root.open_dir(&wanted.dir.path);
    let dir = dir.map_err(|error| from_opening_home(&path, error))?;
    Target::placed(dir, &wanted.name, &path, prepare)
}
