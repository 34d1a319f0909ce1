//! A destination that lies in the source is left out of the copy, which would never end otherwise.

use super::super::inside::{Above, Way, here};
use super::super::queue::lock;
use super::super::report::Trouble;
use super::super::target::{DirState, TargetDir};
use super::Placer;
use howdah_session::entry::{DirId, bounds};
use howdah_store::StoreError;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::Arc;

impl Placer<'_> {
    /// Which directory of the sender's system comes next.
    pub(super) fn note_place(&mut self, id: DirId) {
        self.place = here(id);
        // In a move all directories are told, and those in what was named go with it.
        let is_named = !self.shared.options.remove_source || self.levels.len() < 2;
        if self.shared.options.mirror && is_named {
            let mut sources = lock(&self.shared.sources);
            if sources.len() < bounds::OWNERS {
                sources.extend(self.place.map(|id| (id, false)));
            }
        }
    }

    /// The way from that directory of the source, in the one where we are, to the destination if it lies in it.
    pub(super) fn way_to_destination(&mut self, name: &[u8]) -> Result<Option<Way>, StoreError> {
        let shared = self.shared;
        if let Some(id) = self.place.take() {
            let above = self
                .above
                .get_or_init(|| Above::of(&shared.root, &shared.at));
            let way = above.as_ref().and_then(|above| above.way_from(id));
            if let Some(way) = way {
                let way = way.map_err(|e| {
                    let at = shared.root.path().join(&shared.at);
                    StoreError::from_io(&at, "find in the source, which it lies in,", e)
                })?;
                if !way.is_empty() && self.is_admitted(name, &way) {
                    self.tell_left_out();
                }
                return Ok(Some(way));
            }
        }
        let way = self.levels.last().and_then(|level| level.avoid.as_ref());
        Ok(way.and_then(|way| {
            let (next, rest) = way.split_last()?;
            (next.as_bytes() == name).then(|| rest.to_vec())
        }))
    }

    /// Says it once, also where the source was read before the destination was made.
    fn tell_left_out(&mut self) {
        let shared = self.shared;
        if !std::mem::replace(&mut self.told_inside, true) {
            let shown = shared.root.path().join(&shared.at);
            let what = "lies in what is copied to it, and was left out";
            shared.book.trouble(Trouble::Notice, &shown, what);
        }
    }

    /// Whether no rule leaves the destination out anyway.
    fn is_admitted(&self, name: &[u8], way: &Way) -> bool {
        let mut path = PathBuf::from(OsStr::from_bytes(name));
        way.iter().rev().all(|part| {
            path.push(part);
            self.filter.is_empty() || self.filter.admits(&path, true)
        })
    }

    /// That is the way from the directory that was entered last.
    pub(super) fn avoid(&mut self, way: Option<Way>) {
        if let Some(level) = self.levels.last_mut() {
            level.avoid = way;
        }
    }

    /// Goes into the destination as a part of the source: nothing of it is copied.
    pub(super) fn leave_out(&mut self, parent: &Arc<TargetDir>, path: PathBuf) {
        let shared = self.shared;
        if self.levels.len() == 1 && !shared.several && !shared.options.contents {
            let shown = shared.root.path().join(&shared.at);
            let what = "a directory cannot be copied into itself";
            shared.book.trouble(Trouble::Failed, &shown, what);
        } else {
            self.tell_left_out();
        }
        let dir = TargetDir {
            number: None,
            path,
            called: None,
            state: DirState::Broken,
            sync: parent.sync,
            meta: None,
            finished: Arc::clone(&shared.finished),
            early: None,
            parent: Some(Arc::clone(parent)),
        };
        self.push(dir, None, false);
    }
}
