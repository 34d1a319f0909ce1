//! Directories that the destination is to lie in, and that are not there (`--mkpath`).

use super::super::disks::SyncWay;
use super::super::existing::until_room;
use super::super::target::{DirState, TargetDir};
use super::Placer;
use howdah_session::{Act, Reasons};
use howdah_store::calls::retry;
use howdah_store::unwritable::{self, takes_names};
use howdah_store::{StoreError, names};
use rustix::fs::Mode;
use rustix::io::Errno;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

impl Placer<'_> {
    /// Makes what the destination is to lie in, and the destination itself if it is to be a directory. A dry run makes
    /// nothing: if something is missing, it goes on from there, and this says so.
    pub(super) fn make_path(&mut self, is_contents: bool) -> Result<bool, StoreError> {
        let shared = self.shared;
        let at = &*shared.at;
        let above = at.parent().unwrap_or_else(|| Path::new(""));
        let is_whole = !is_contents && (shared.makes_whole || shared.several);
        let place = if is_whole { at } else { above };
        if !shared.options.dry_run {
            return self.make_all(place).map(|()| false);
        }
        match shared.root.open_dir(place) {
            Err(StoreError::NotFound { .. }) => {
                let missing = self.check_way(place)? + u64::from(is_contents);
                shared.quota.take_directories(at, missing)?;
            }
            // It is there, or what is wrong is told of later.
            _ => return Ok(false),
        }
        let top = if is_whole || is_contents { at } else { above };
        shared.set_top(top);
        if is_whole || is_contents {
            self.tell(Act::Mkdir, Reasons::NEW, top)?;
        } else {
            self.rename_top = at.file_name().map(OsStr::to_owned);
        }
        let dir = TargetDir {
            number: None,
            path: top.to_path_buf(),
            called: None,
            state: DirState::Absent,
            sync: SyncWay::Each,
            meta: None,
            finished: Arc::clone(&shared.finished),
            early: None,
            parent: None,
        };
        self.push(dir, None, is_contents);
        Ok(true)
    }

    /// In a dry run: what of `place` is there must take what is not. How many directories that is.
    fn check_way(&self, place: &Path) -> Result<u64, StoreError> {
        let (mut missing, mut count) = (place, 1);
        while let Some(above) = missing.parent() {
            match self.shared.root.open_dir(above) {
                Err(StoreError::NotFound { .. }) => (missing, count) = (above, count + 1),
                Ok(dir) => {
                    let operation = "make the directory";
                    takes_names(&dir, false)
                        .map_err(|e| unwritable::from_making(&dir, missing, operation, e))?;
                    break;
                }
                Err(_) => break,
            }
        }
        Ok(count)
    }

    /// Makes a directory and all that it lies in, durably. No link is followed.
    fn make_all(&self, place: &Path) -> Result<(), StoreError> {
        let shared = self.shared;
        let mut made = PathBuf::new();
        for part in place {
            let parent = shared.root.open_dir(&made)?;
            made.push(part);
            let make = || {
                let mode = Mode::RWXU | Mode::RWXG | Mode::RWXO;
                match retry(|| rustix::fs::mkdirat(&parent, part, mode)) {
                    Ok(()) => Ok(true),
                    Err(Errno::EXIST) => Ok(false),
                    Err(e) => Err(e),
                }
            };
            let failed = |e| StoreError::from_io(&made, "make the directory", e);
            shared.quota.take_directories(&made, 1)?;
            if until_room(shared, &made, "make the directory", make)?.map_err(failed)? {
                names::sync_dir(&parent).map_err(failed)?;
            } else {
                shared.quota.give_back_directories(1);
            }
        }
        Ok(())
    }
}
