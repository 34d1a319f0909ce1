//! A move onto itself: what is told is already what has its name here, by another way to the same directory. As the
//! destination has it, its source would go, and with it the only one.

use super::super::inside::{number, number_of};
use super::super::report::Trouble;
use super::super::stamps::modified;
use super::super::target::TargetDir;
use super::Placer;
use howdah_session::entry::Stamp;
use howdah_store::StoreError;
use rustix::fs::{AtFlags, Stat};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

impl Placer<'_> {
    /// In a move: notes whether the directory that was entered last is `place`, the one at the source.
    pub(super) fn meet_source(&mut self, place: Option<(u64, u64)>) {
        let moves = self.shared.options.remove_source;
        if let Some(level) = self.levels.last_mut().filter(|_| moves) {
            level.is_source = place.is_some() && level.fd.as_deref().map(number_of) == place;
        }
    }

    /// In a move: whether what is told next as `told` and would be called `name` here is already that. `is_like`: whether what
    /// is there cannot be told from it, where the names differ: a disk may take two spellings for one.
    pub(super) fn is_source(
        &mut self,
        told: &[u8],
        is_like: impl FnOnce(&Stat) -> bool,
    ) -> Result<bool, StoreError> {
        if !self.shared.options.remove_source {
            return Ok(false);
        }
        let is_top = self.levels.len() == 1;
        let is_here = if is_top && !self.shared.options.contents {
            // It comes from wherever somebody named it.
            let place = self.place;
            place.is_some() && self.fd()?.map(number_of) == place
        } else {
            self.levels.last().is_some_and(|level| level.is_source)
        };
        if !is_here {
            return Ok(false);
        }
        let renamed = self.rename_top.clone().filter(|_| is_top);
        let Some(new) = renamed.filter(|new| new.as_bytes() != told) else {
            return Ok(true);
        };
        let Some(fd) = self.fd()? else {
            return Ok(false);
        };
        let at = |name: &OsStr| rustix::fs::statat(fd, name, AtFlags::SYMLINK_NOFOLLOW).ok();
        let (there, source) = (at(&new), at(OsStr::from_bytes(told)));
        let is_one = |there: &Stat| {
            let source = source.as_ref().map(number);
            there.st_nlink == 1 && source == Some(number(there))
        };
        Ok(there.is_some_and(|there| is_one(&there) || is_like(&there)))
    }

    /// The same of a file of that size and time.
    pub(super) fn is_source_file(
        &mut self,
        told: &[u8],
        size: u64,
        mtime: Stamp,
    ) -> Result<bool, StoreError> {
        // What was named may have been a link to it.
        self.is_source(told, |there| {
            there.st_size as u64 == size && modified(there) == mtime
        })
    }

    pub(super) fn tell_same(&self, dir: &TargetDir, name: &OsStr) {
        let path = dir.named().join(name);
        let what = "is its own source, which stays: both are one file in one directory";
        self.shared.book.trouble(Trouble::Failed, &path, what);
    }
}
