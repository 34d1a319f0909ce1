//! A target, and what an interrupted copy has left of it.

use crate::SourceIdentity;
use crate::calls::retry;
use crate::descriptors::opened;
use crate::durable::{Links, PartFile, Place, Prepare};
use crate::journal::{Journal, speaks_of};
use crate::root;
use crate::stale::{self, Lock};
use crate::tree::Node;
use crate::way::Way;
use crate::{Root, StoreError};
use howdah_core::RangeSet;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::Path;

/// A file that is to be written, opened before it is decided what with.
///
/// If an earlier copy to the same name was interrupted, its unfinished file is found, locked and read
/// about: [`held`](Self::held). [`Sink::resume`](crate::Sink::resume) goes on with it or begins anew.
pub struct Target {
    pub(crate) place: Place,
    found: Found,
    prepare: Option<Prepare>,
}

impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Target")
            .field("place", &self.place)
            .field("found", &self.found)
            .finish_non_exhaustive()
    }
}

#[derive(Debug)]
enum Found {
    Nothing,
    /// Another process or another sink of this one writes it; so says its journal.
    Busy(Option<SourceIdentity>),
    /// Something that we may not touch has the name.
    Foreign,
    /// An interrupted copy. It is locked.
    Left(Box<Left>),
}

/// What an interrupted copy has left.
#[derive(Debug)]
struct Left {
    file: File,
    temp: OsString,
    /// `None`: nothing in it can be used.
    past: Option<(Journal, Held, Vec<Node>)>,
}

/// What of a source is at its target already: verified and on the disk.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Held {
    /// The source as it was.
    pub source: SourceIdentity,
    /// The bytes, by whole MiB. Bounded in number.
    pub ranges: RangeSet,
}

/// The file that a sink writes to.
pub(crate) struct Started {
    pub(crate) part: PartFile,
    /// Verified subtrees, and the journal that says so.
    pub(crate) past: Option<(Journal, RangeSet, Vec<Node>)>,
    /// The next copy can find it.
    pub(crate) found_again: bool,
}

impl Target {
    /// A path from the network, below a root. No symbolic link is followed; its directory must exist.
    pub fn open(root: &Root, path: &Path) -> Result<Self, StoreError> {
        let (dir, name) = root.open_parent(path).map_err(no_directory)?;
        let place = Place::new(dir, name, &root.path().join(path), Links::Stay)?;
        Ok(Self::find(place.found_by(Way::above_in(root, path))))
    }

    /// A name in an open directory; `path` is for messages. When its content is complete, `prepare` gives it
    /// its mode and so on. A symbolic link of that name is replaced.
    pub fn placed(
        dir: OwnedFd,
        name: &OsStr,
        path: &Path,
        prepare: Prepare,
    ) -> Result<Self, StoreError> {
        let mut target = Self::find(Place::new(dir, name, path, Links::Give)?);
        target.prepare = Some(prepare);
        Ok(target)
    }

    /// A path that the user of this process names.
    pub fn open_local(path: &Path) -> Result<Self, StoreError> {
        let (dir, name) = root::open_local_parent(path).map_err(no_directory)?;
        let place = Place::new(dir, name, path, Links::Stay)?;
        Ok(Self::find(place.found_by(Way::above(path))))
    }

    /// Whether something has the name already and would be replaced.
    pub fn is_taken(&self) -> bool {
        self.place.is_taken()
    }

    /// What an interrupted copy left and can be gone on with.
    pub fn held(&self) -> Option<&Held> {
        match &self.found {
            Found::Left(left) => left.past.as_ref().map(|(_, held, _)| held),
            _ => None,
        }
    }

    /// Whether a copy of that very source to the same place is under way: perhaps one whose end
    /// was not noticed yet. It is let go of with its [`Sink`](crate::Sink) or its process.
    pub fn is_being_written_from(&self, source: &SourceIdentity) -> bool {
        matches!(&self.found, Found::Busy(Some(theirs)) if theirs == source)
    }

    /// Whether any copy to the same place is under way.
    pub fn is_being_written(&self) -> bool {
        matches!(&self.found, Found::Busy(_))
    }

    /// Forgets what an interrupted copy left: it goes when the sink begins.
    #[must_use]
    pub fn anew(mut self) -> Self {
        if let Found::Left(left) = &mut self.found {
            left.past = None;
        }
        self
    }

    fn find(place: Place) -> Self {
        let temp = stale::resume_name(place.dir(), place.name());
        let found = look(&place, temp).unwrap_or(Found::Foreign);
        Self {
            place,
            found,
            prepare: None,
        }
    }

    /// Goes on with what is there if it is of that `source`; otherwise removes it and begins anew.
    pub(crate) fn start(self, source: Option<&SourceIdentity>) -> Result<Started, StoreError> {
        let wanted = source.is_some();
        let mut found_again = wanted;
        match self.found {
            Found::Nothing => {}
            Found::Busy(_) | Found::Foreign => found_again = false,
            Found::Left(left) => {
                let Left { file, temp, past } = *left;
                let fits = past.filter(|(_, held, _)| Some(&held.source) == source);
                if let Some((journal, held, nodes)) = fits
                    && journal.cut().is_ok()
                    && retry(|| rustix::fs::fchmod(&file, Mode::RUSR | Mode::WUSR)).is_ok()
                {
                    return Ok(Started {
                        part: PartFile::adopt(self.place, file, temp, held.ranges.byte_count())
                            .prepared_by(self.prepare),
                        past: Some((journal, held.ranges, nodes)),
                        found_again: true,
                    });
                }
                remove(&self.place, &temp);
                // Another process that has it open sees by the name that it is gone.
                let _ = file.set_len(0);
            }
        }
        Ok(Started {
            part: PartFile::create(self.place, found_again)?.prepared_by(self.prepare),
            past: None,
            found_again,
        })
    }
}

fn remove(place: &Place, temp: &OsString) {
    if let Some(journal) = stale::journal_name(temp) {
        let _ = rustix::fs::unlinkat(place.dir(), &journal, AtFlags::empty());
    }
    let _ = rustix::fs::unlinkat(place.dir(), temp, AtFlags::empty());
}

fn look(place: &Place, temp: OsString) -> Option<Found> {
    const FLAGS: OFlags = OFlags::RDWR
        .union(OFlags::NOFOLLOW)
        .union(OFlags::NONBLOCK)
        .union(OFlags::NOCTTY)
        .union(OFlags::CLOEXEC);
    let dir = place.dir();
    let journal = stale::journal_name(&temp)?;
    let fd = match opened(|| rustix::fs::openat(dir, &temp, FLAGS, Mode::empty())) {
        Ok(fd) => fd,
        Err(Errno::NOENT) => return Some(Found::Nothing),
        Err(_) => return None,
    };
    let stat = rustix::fs::fstat(&fd).ok()?;
    if !stale::is_plain(&stat) {
        return None;
    }
    let file = File::from(fd);
    match stale::lock(&file) {
        Lock::Ours => {}
        Lock::Taken => return Some(Found::Busy(Journal::source_of(dir, &journal, &file))),
        Lock::Unknown => return None,
    }
    if !stale::is_named(dir, &temp, &file) {
        // It was published or removed since it was opened.
        return Some(Found::Nothing);
    }
    let past = Journal::open(dir, &journal, &file).filter(|(_, past)| speaks_of(past, &file));
    // A complete file gets its mode and owner before its name; its journal still tells whose it is.
    if past.is_none() && !crate::ours::is_ours(dir, &stat) {
        return None;
    }
    if !stale::locks_are_seen_by_all(dir)
        && !past
            .as_ref()
            .is_some_and(|(_, past)| past.header.is_of_this_host())
    {
        // A writer on another host may be alive, and its lock not seen here.
        return None;
    }
    let past = past.map(|(journal, past)| {
        let held = Held {
            source: past.header.source,
            ranges: past.ranges,
        };
        (journal, held, past.nodes)
    });
    Some(Found::Left(Box::new(Left { file, temp, past })))
}

fn no_directory(error: StoreError) -> StoreError {
    match error {
        StoreError::NotFound { path } => StoreError::NoDirectory { path },
        error => error,
    }
}
