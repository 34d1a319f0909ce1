//! A file that appears under its name whole, verified and durable, or not at all.

use crate::StoreError;
use crate::calls::retry;
use crate::descriptors::opened;
use crate::identity::Identity;
use crate::journal::Journal;
use crate::names::{rename_file, sync_dir};
use crate::plain::irregular;
use crate::rights;
use crate::same;
use crate::stale::{self, Lock, temp_name};
use crate::times::keeping_times;
use crate::unwritable;
use crate::way::Way;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Where a file is to appear.
#[derive(Debug)]
pub(crate) struct Place {
    dir: OwnedFd,
    name: OsString,
    /// For messages.
    path: PathBuf,
    /// What had the target's name when we began.
    before: Option<Identity>,
    links: Links,
    /// How the directory was found, if nobody else looks whether it is still there.
    way: Option<Way>,
}

/// What becomes of a symbolic link that has the target's name. It is never followed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Links {
    /// An error: of a single file it is not known which of both is meant to go.
    Stay,
    /// The file takes its place, as in every tree.
    Give,
}

impl Place {
    /// An error if something has the name that must not be replaced.
    pub(crate) fn new(
        dir: OwnedFd,
        name: &OsStr,
        path: &Path,
        links: Links,
    ) -> Result<Self, StoreError> {
        unwritable::check(&dir, path)?;
        unwritable::check_names(&dir, path)?;
        Ok(Self {
            before: target(&dir, name, path, links)?,
            links,
            dir,
            name: name.to_owned(),
            path: path.to_path_buf(),
            way: None,
        })
    }

    /// It is an error if that leads elsewhere when the file is complete.
    pub(crate) fn found_by(mut self, way: Way) -> Self {
        self.way = Some(way);
        self
    }

    /// Whether something had the name.
    pub(crate) fn is_taken(&self) -> bool {
        self.before.is_some()
    }

    /// Bytes of what had it.
    pub(crate) fn taken_bytes(&self) -> Option<u64> {
        self.before.as_ref().map(Identity::size)
    }

    pub(crate) fn dir(&self) -> &OwnedFd {
        &self.dir
    }

    pub(crate) fn name(&self) -> &OsStr {
        &self.name
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// An unfinished file beside its target.
///
/// 1. [`create`](Self::create): `.<name>.<digits>.howdah-part`, `O_EXCL | O_NOFOLLOW`, mode 0600,
///    and an exclusive `flock` for as long as it is open.
/// 2. [`keep`](Self::keep), once a journal says what is right in it: from now on it stays, whatever
///    happens, for the next copy to go on with.
/// 3. [`publish`](Self::publish): `fchmod`, `fsync(file)`, `rename` over the target, `fsync(directory)`.
/// 4. [`remove`](Self::remove) at any time before the rename: nothing is left, unless it is kept.
///
/// Only the process's own death leaves a file that is not kept behind; the next writer of the same
/// target finds it without a lock and [removes](Self::remove_stale) it.
#[derive(Debug)]
pub(crate) struct PartFile {
    file: File,
    temp: OsString,
    /// The directory that it has that name in, if it is not that of its target.
    apart: Option<OwnedFd>,
    place: Place,
    state: Mutex<State>,
    prepare: Mutex<Preparation>,
    /// Permission bits of its source.
    mode: Option<u32>,
}

/// Gives a complete file its mode, times and so on, before it takes a name in a directory.
pub type Prepare = Box<dyn FnOnce(&File, &OwnedFd, &OsStr) + Send>;

struct Preparation(Option<Prepare>);

impl std::fmt::Debug for Preparation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Preparation")
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    Temporary,
    /// So many bytes of it are right and on the disk: it stays.
    Kept(u64),
    Published,
    Removed,
}

impl PartFile {
    /// With the name that the next copy looks for, if `to_be_found` and nobody has that one;
    /// otherwise with a random one.
    pub(crate) fn create(place: Place, to_be_found: bool) -> Result<Self, StoreError> {
        const FLAGS: OFlags = OFlags::RDWR
            .union(OFlags::CREATE)
            .union(OFlags::EXCL)
            .union(OFlags::NOFOLLOW)
            .union(OFlags::CLOEXEC);
        let (mut attempts, mut short) = (0, false);
        loop {
            let temp = if short {
                stale::short_temp_name()
            } else if to_be_found && attempts == 0 {
                let temp = stale::resume_name(&place.dir, &place.name);
                // A journal without its file speaks of one that is gone.
                stale::remove_orphan(&place.dir, &temp);
                temp
            } else {
                temp_name(&place.dir, &place.name)
            };
            let mode = Mode::RUSR | Mode::WUSR;
            match opened(|| rustix::fs::openat(&place.dir, &temp, FLAGS, mode)) {
                // Somebody who tidies up saw the file before it had its lock, and takes it away.
                Ok(fd)
                    if attempts < 16
                        && (stale::lock(&fd) == Lock::Taken
                            || !stale::is_named(&place.dir, &temp, &fd)) =>
                {
                    attempts += 1;
                    let _ = rustix::fs::unlinkat(&place.dir, &temp, AtFlags::empty());
                }
                Ok(fd) => return Ok(Self::adopt(place, File::from(fd), temp, 0)),
                Err(Errno::EXIST) if attempts < 16 => attempts += 1,
                Err(Errno::NAMETOOLONG) if !short => short = true,
                Err(e) => {
                    let (dir, path) = (&place.dir, &place.path);
                    return Err(unwritable::from_making(dir, path, "create a file for", e));
                }
            }
        }
    }

    /// Before the file is synced, that is done to it instead of the usual mode.
    pub(crate) fn prepared_by(mut self, prepare: Option<Prepare>) -> Self {
        self.prepare = Mutex::new(Preparation(prepare));
        self
    }

    /// What is done otherwise: the rights of a source with these permission bits.
    pub(crate) fn with_mode(mut self, mode: Option<u32>) -> Self {
        self.mode = mode;
        self
    }

    /// Takes over an open and locked file, of which so many bytes are worth keeping.
    pub(crate) fn adopt(place: Place, file: File, temp: OsString, kept_bytes: u64) -> Self {
        let state = match kept_bytes {
            0 => State::Temporary,
            bytes => State::Kept(bytes),
        };
        Self {
            file,
            temp,
            apart: None,
            place,
            state: Mutex::new(state),
            prepare: Mutex::new(Preparation(None)),
            mode: None,
        }
    }

    /// Removes unfinished files of the same target whose writers were killed. Takes as long as it
    /// takes to read the directory.
    ///
    /// Not what the next copy looks for: it was looked at when this one began, and if somebody wrote it then who has died
    /// since, it has what the next copy goes on with. It goes when this one is published.
    pub(crate) fn remove_stale(&self) {
        let Place { dir, name, .. } = &self.place;
        stale::remove_stale(dir, name, Some(&stale::resume_name(dir, name)));
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    pub(crate) fn path(&self) -> &Path {
        &self.place.path
    }

    pub(crate) fn dir(&self) -> &OwnedFd {
        &self.place.dir
    }

    /// Where it has its name until it is published.
    fn home(&self) -> &OwnedFd {
        self.apart.as_ref().unwrap_or_else(|| self.dir())
    }

    /// Its name until it is published.
    pub(crate) fn temp(&self) -> &OsStr {
        &self.temp
    }

    fn lock_state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// So many more bytes are worth keeping: from now on it stays until it is published. `false`:
    /// too late.
    pub(crate) fn keep(&self, bytes: u64) -> bool {
        let mut state = self.lock_state();
        let kept = match *state {
            State::Temporary => bytes,
            State::Kept(before) => before + bytes,
            State::Published | State::Removed => return false,
        };
        *state = State::Kept(kept);
        true
    }

    /// Bytes that the next copy need not send.
    pub(crate) fn kept_bytes(&self) -> u64 {
        let state = if howdah_core::must_not_wait() {
            // Whoever holds it waits for the disk.
            self.state.try_lock().ok()
        } else {
            Some(self.lock_state())
        };
        match state.as_deref() {
            Some(State::Kept(bytes)) => *bytes,
            _ => 0,
        }
    }

    /// It is of no use to anybody: the next [`remove`](Self::remove) is in earnest.
    pub(crate) fn forsake(&self) {
        let mut state = self.lock_state();
        if matches!(*state, State::Kept(_)) {
            *state = State::Temporary;
        }
    }

    /// Makes the file what its name promises. The content must be complete and verified.
    pub(crate) fn publish(&self, size: u64) -> Result<(), StoreError> {
        let path = self.path();
        let failed = |operation| move |e: Errno| StoreError::from_io(path, operation, e);
        // Gives back what was reserved beyond the end.
        retry(|| rustix::fs::ftruncate(&self.file, size)).map_err(failed("truncate"))?;
        let preparation = self
            .prepare
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .0
            .take();
        if let Some(prepare) = preparation {
            prepare(&self.file, &self.place.dir, &self.place.name);
        } else {
            // Those that cannot be read or have no room are less than the content, which is there.
            let _ = rights::carry_attributes(&self.file, &self.place.dir, &self.place.name);
            rights::settle(&self.file, &self.place.dir, &self.place.name, self.mode)
                .map_err(failed("set the rights of"))?;
        }
        // A second fsync may succeed although the first one lost pages: never repeated.
        sync_file(&self.file).map_err(|e| StoreError::from_io(path, "sync", e))?;
        match self.rename() {
            Err(error @ StoreError::TargetChanged { .. }) => self.yield_to_same(size, error)?,
            result => result?,
        }
        sync_dir(self.dir()).map_err(|e| StoreError::from_io(path, "sync the directory of", e))?;
        self.remove_journal();
        let usual = stale::resume_name(self.dir(), &self.place.name);
        if self.temp != usual {
            // Somebody had it when this copy began, perhaps one whose peer is gone. He finds another file in his place whenever he ends.
            stale::condemn_part(self.dir(), &usual);
        }
        match &self.place.way {
            Some(way) if !way.leads_to(self.dir()) => Err(StoreError::Elsewhere {
                path: path.to_path_buf(),
            }),
            _ => Ok(()),
        }
    }

    /// Removes the journal, if there is one.
    pub(crate) fn remove_journal(&self) {
        if let Some(journal) = stale::journal_name(&self.temp) {
            // One that stays finds no file to speak of.
            let _ = rustix::fs::unlinkat(self.dir(), &journal, AtFlags::empty());
        }
    }

    fn rename(&self) -> Result<(), StoreError> {
        let mut state = self.lock_state();
        let Place {
            dir,
            name,
            path,
            before,
            links,
            ..
        } = &self.place;
        if !matches!(*state, State::Temporary | State::Kept(_)) {
            return Err(StoreError::other(path, "publish", "the copy was aborted"));
        }
        let now = target(dir, name, path, *links)?;
        if now != *before {
            return Err(StoreError::TargetChanged { path: path.clone() });
        }
        rename_file(self.home(), &self.temp, dir, name, now.is_some()).map_err(|e| match e {
            Errno::EXIST => StoreError::TargetChanged { path: path.clone() },
            e => unwritable::from_naming(dir, path, e),
        })?;
        *state = State::Published;
        Ok(())
    }

    /// Somebody else made a file of that name meanwhile. If it is the very same it stays, and ours goes; otherwise it is
    /// `error`.
    fn yield_to_same(&self, size: u64, error: StoreError) -> Result<(), StoreError> {
        let mut state = self.lock_state();
        let Some(theirs) = same::same_file(self.dir(), &self.place.name, &self.file, size) else {
            return Err(error);
        };
        sync_file(&theirs).map_err(|e| StoreError::from_io(self.path(), "sync", e))?;
        *state = State::Removed;
        self.unlink();
        Ok(())
    }

    /// Removes the unfinished file unless it has been published or is kept. Frees the name at once;
    /// the space follows when the last descriptor is closed.
    pub(crate) fn remove(&self) {
        let mut state = self.lock_state();
        if *state == State::Temporary {
            *state = State::Removed;
            self.unlink();
        }
    }

    /// Whether it is neither published nor removed, as far as that is known without waiting.
    pub(crate) fn is_unfinished(&self) -> bool {
        let state = self.state.try_lock();
        // Whoever holds it waits for the disk, which this must not.
        state.map_or(true, |state| {
            matches!(*state, State::Temporary | State::Kept(_))
        })
    }

    fn unlink(&self) {
        // The journal first: it would speak of a file that is gone. Nobody is left to tell of
        // a failure; the names say what they are.
        // Somebody else may have finished this directory.
        keeping_times(self.dir(), || {
            self.remove_journal();
            let _ = rustix::fs::unlinkat(self.home(), &self.temp, AtFlags::empty());
        });
    }

    /// Leaves it to the next copy, unless there is nothing left to do for one: another copy of the same source, or of a later version of
    /// it, may have been published meanwhile, as when this one's peer lost it and began again.
    ///
    /// Whoever publishes takes away what nobody has locked. Unlocked first and looked at afterwards, one of both sees
    /// the other.
    fn leave(&self) {
        let _ = retry(|| rustix::fs::flock(&self.file, FlockOperation::NonBlockingUnlock));
        let Place { dir, name, .. } = &self.place;
        let now = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW);
        let is_other = now.is_ok_and(|stat| Some(Identity::new(&stat)) != self.place.before);
        if !is_other {
            return;
        }
        let journal = stale::journal_name(&self.temp);
        let journal = journal.and_then(|journal| Journal::open(dir, &journal, &self.file));
        let is_needless = match journal {
            Some((_, past)) => same::is_likely_part_of(
                dir,
                name,
                &self.file,
                past.header.source.size,
                &past.ranges,
            ),
            None => stale::is_condemned(dir, &self.temp),
        };
        if is_needless {
            keeping_times(dir, || stale::remove_part(dir, &self.temp));
        }
    }

    /// [`remove`](Self::remove) that also gives the space back at once, although others still
    /// hold the descriptor. May take a while for a large file.
    pub(crate) fn discard(&self) {
        self.remove();
        if *self.lock_state() == State::Removed {
            let _ = rustix::fs::ftruncate(&self.file, 0);
        }
    }
}

impl Drop for PartFile {
    fn drop(&mut self) {
        self.remove();
        if matches!(*self.lock_state(), State::Kept(_)) {
            self.leave();
        }
    }
}

/// Makes a file that is complete and verified one of that name in the open directory `dir`: rights of a source with these permission
/// bits, synced, renamed. Until then it has the name `temp` in the directory `apart`, and keeps it if this fails. `path` is for messages.
pub fn publish(
    file: File,
    (apart, temp): (OwnedFd, OsString),
    (dir, name, path): (OwnedFd, &OsStr, &Path),
    size: u64,
    mode: Option<u32>,
) -> Result<(), StoreError> {
    let place = Place::new(dir, name, path, Links::Stay)?;
    publish_at(place, file, (apart, temp), size, mode)
}

/// The same, if nothing has that name: what is there stays.
pub fn publish_new(
    file: File,
    from: (OwnedFd, OsString),
    (dir, name, path): (OwnedFd, &OsStr, &Path),
    size: u64,
    mode: Option<u32>,
) -> Result<(), StoreError> {
    let place = Place::new(dir, name, path, Links::Stay)?;
    if place.before.is_some() {
        let path = path.to_path_buf();
        return Err(StoreError::MayOnlyAdd { path });
    }
    publish_at(place, file, from, size, mode)
}

fn publish_at(
    place: Place,
    file: File,
    (apart, temp): (OwnedFd, OsString),
    size: u64,
    mode: Option<u32>,
) -> Result<(), StoreError> {
    let mut part = PartFile::adopt(place, file, temp, size.max(1));
    part.apart = Some(apart);
    part.with_mode(mode).publish(size)
}

/// What has the target's name; an error if it is something that must not be replaced.
fn target(
    dir: &OwnedFd,
    name: &OsStr,
    path: &Path,
    links: Links,
) -> Result<Option<Identity>, StoreError> {
    match rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => match (FileType::from_raw_mode(stat.st_mode), links) {
            (FileType::RegularFile, _) | (FileType::Symlink, Links::Give) => {
                Ok(Some(Identity::new(&stat)))
            }
            (FileType::Symlink, Links::Stay) => Err(StoreError::TargetIsLink {
                path: path.to_path_buf(),
            }),
            (kind, _) => Err(StoreError::TargetNotAFile {
                path: path.to_path_buf(),
                what: irregular(kind).unwrap_or("of an unknown kind"),
            }),
        },
        Err(Errno::NOENT) => Ok(None),
        Err(e) => Err(StoreError::from_io(path, "examine", e)),
    }
}

// The calls whose failure matters, one each, so that a fault injector can name them.

fn sync_file(file: &File) -> std::io::Result<()> {
    // F_FULLFSYNC on macOS.
    file.sync_all()
}

/// Reserves space so that a full disk shows before the bytes are sent. `Ok` where it cannot.
pub(crate) fn reserve(file: &File, size: u64) -> Result<(), Errno> {
    #[cfg(target_os = "linux")]
    if size > 0 && !is_tmpfs(file) {
        use rustix::fs::FallocateFlags;
        return match retry(|| rustix::fs::fallocate(file, FallocateFlags::KEEP_SIZE, 0, size)) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => Ok(()),
            result => result,
        };
    }
    let _ = (file, size);
    Ok(())
}

/// Lets the page cache give up `[start, end)`, as far as it is on the disk already.
pub(crate) fn forget_pages(file: &File, start: u64, end: u64) {
    #[cfg(target_os = "linux")]
    if let Some(len) = std::num::NonZeroU64::new(end.saturating_sub(start)) {
        let _ = rustix::fs::fadvise(file, start, Some(len), rustix::fs::Advice::DontNeed);
    }
    let _ = (file, start, end);
}

/// tmpfs does not reserve but really allocates: seconds in which nothing could be written.
#[cfg(target_os = "linux")]
fn is_tmpfs(file: &File) -> bool {
    const TMPFS_MAGIC: u32 = 0x0102_1994;
    rustix::fs::fstatfs(file).is_ok_and(|fs| fs.f_type as u32 == TMPFS_MAGIC)
}
