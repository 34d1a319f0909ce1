//! What the `.gitignore` files of the source leave out stays at the destination, also what only that one has. They come with everything
//! else, so they are read there when nothing else is to come, each if it is the source's.

use super::ignores::{Ignores, NAME};
use super::names::kind;
use super::shared::Shared;
use super::source_dir::SourceDir;
use super::stamps::modified;
use howdah_session::entry::Stamp;
use rustix::fs::{AtFlags, FileType};
use std::path::PathBuf;
use std::sync::Arc;

/// What the source has told of such a file.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Version {
    /// Its bytes, and when it was modified.
    Of(u64, Stamp),
    /// It is a further name of a file that has been told, or what is there and may be told yet.
    Any,
    /// It is not copied.
    Kept,
}

/// That a directory of the source has one.
#[derive(Debug)]
pub(crate) struct Told {
    /// And the nearest one above that.
    pub(crate) above: Option<Arc<Self>>,
    /// The directory at the destination, below the root.
    pub(crate) path: PathBuf,
    /// And below the top of the copy.
    pub(crate) below: PathBuf,
    pub(crate) version: Version,
}

impl Told {
    /// Bytes of memory that it takes.
    pub(crate) fn weight(&self) -> usize {
        size_of::<Self>() + self.path.as_os_str().len() + self.below.as_os_str().len()
    }

    /// Its rules, before those above.
    #[allow(
        clippy::unnecessary_cast,
        clippy::cast_lossless,
        reason = "the field's type differs between systems"
    )]
    fn read(
        &self,
        shared: &Shared,
        above: Option<Arc<Ignores>>,
    ) -> Result<Option<Arc<Ignores>>, Unknown> {
        let unknown = || Unknown {
            file: self.below.join(NAME),
            is_kept: matches!(self.version, Version::Kept),
        };
        let fd = shared.root.open_dir(&self.path).map_err(|_| unknown())?;
        let stat = rustix::fs::statat(&fd, NAME, AtFlags::SYMLINK_NOFOLLOW);
        let stat = stat.map_err(|_| unknown())?;
        let is_it = match self.version {
            Version::Of(size, mtime) => {
                let clock = &shared.keeper.clock;
                stat.st_size as u64 == size && clock.is_same(&fd, modified(&stat), mtime)
            }
            Version::Any => true,
            Version::Kept => false,
        };
        if !is_it || kind(&stat) != FileType::RegularFile {
            return Err(unknown());
        }
        let dir = SourceDir {
            root: Arc::clone(&shared.root),
            path: self.path.clone(),
            below: self.below.clone(),
        };
        Ignores::there(&dir, above).map_err(|_| unknown())
    }
}

/// What is there is not what the source has, so what that leaves out is not known.
#[derive(Debug)]
pub(crate) struct Unknown {
    /// Below the top of the copy.
    pub(crate) file: PathBuf,
    /// It is not copied, as it leaves itself out, or something else does.
    pub(crate) is_kept: bool,
}

/// The rules of one directory after the other: those of the directories that the last one lies in are kept.
#[derive(Default)]
pub(crate) struct Rules {
    known: Vec<(Arc<Told>, Option<Arc<Ignores>>)>,
}

impl Rules {
    /// Those that hold where that was told last.
    pub(crate) fn of(
        &mut self,
        shared: &Shared,
        told: Option<&Arc<Told>>,
    ) -> Result<Option<Arc<Ignores>>, Unknown> {
        let mut way: Vec<&Arc<Told>> =
            std::iter::successors(told, |told| told.above.as_ref()).collect();
        way.reverse();
        let known = self.known.iter().zip(&way);
        let known = known.take_while(|((known, _), told)| Arc::ptr_eq(known, told));
        let known = known.count();
        self.known.truncate(known);
        for told in way.into_iter().skip(known) {
            let above = self.known.last().and_then(|(_, rules)| rules.clone());
            let rules = told.read(shared, above)?;
            self.known.push((Arc::clone(told), rules));
        }
        Ok(self.known.last().and_then(|(_, rules)| rules.clone()))
    }
}
