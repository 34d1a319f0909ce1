//! The directory beside the destination in which the hosts of a plan meet.
//!
//! ```text
//! .NAME.ID.howdah-plan/plan         the plan, as it was made
//!                      part         the unfinished file
//!                      7/claim-2    lease 7 is run in epoch 2
//!                      7/record-2   that run has moved it
//!                      7/come-2     what has come over the network of a range in that epoch, with 7/held-2, what of it is right
//!                      finished     hash and inode of the file, before it gets its name
//!                      key          at a server: whose it is
//! ```
//!
//! That of a tree has, instead of `part`:
//!
//! ```text
//!                      tree         the unfinished directory, in which large files have their places already
//!                      shape-0      permissions and times that its directories and large files get at the end
//!                      7/sheet      what lease 7 has
//!                      7/reserve    space for it, until somebody moves it
//!                      7/run-…      what a run of it has fetched
//!                      draft        at a server: the plan, until everything is there that movers want
//!                      laid         at a server: large files have got their places, and no sheet comes any more
//! ```
//!
//! No lock is taken, so that it may lie on a file system that has none (NFS); everything appears by a rename or is empty.

use super::beneath::{self, Dir};
pub use super::sheets::reserve;
use super::{failed, no_directory};
use crate::{Error, ErrorKind};
use howdah_lease::{Plan, Planned, TreePlan};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Hash and inode of what is finished, before it gets its name.
pub const MARK: &str = "finished";
/// Whose it is, if a server made it for the holder of a key.
const KEY: &str = "key";
/// The plan of a tree that is being made for somebody else.
const DRAFT: &str = "draft";
/// The sheets of that are all there.
const LAID: &str = "laid";
/// Epochs of a lease that are remembered. No lock and no clock is asked, so there may be any number; the highest ones count.
pub(super) const EPOCHS_MAX: usize = 64;
/// Bytes of the destination's name in that of the directory: it says whose it is, and fits.
const NAME_MAX: usize = 100;
/// Longest text that is read of anything else: a plan, shapes.
const TEXT_MAX: u64 = 64 << 20;

/// Whoever may write to the directory that the destination lies in can give the room's name to something else at any time: so it is opened
/// once, found to be ours, and everything that is done with it is done from there.
pub struct Room {
    /// What the destination lies in.
    above: Dir,
    at: Dir,
    /// Its name in there.
    name: OsString,
    /// The name that the destination gets there.
    target: OsString,
    /// What is unfinished in it.
    work: &'static str,
}

impl std::fmt::Debug for Room {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Room({:?})", self.at.path())
    }
}

/// Where a destination is to lie: the open directory, and its name in there.
#[derive(Debug)]
pub struct Spot {
    /// The directory.
    pub above: Dir,
    /// The name.
    pub target: OsString,
}

impl Spot {
    /// Of a path of this machine; `missing` is what it means that there is no such directory.
    fn of(destination: &str, missing: impl FnOnce(&Path, &OsStr) -> Error) -> Result<Self, Error> {
        let destination = Path::new(destination);
        let named = destination.parent().zip(destination.file_name());
        let Some((parent, target)) = named else {
            let text = format!("{} names no file", destination.display());
            return Err(Error::new(ErrorKind::Usage, text));
        };
        let above = Dir::open(parent).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => missing(parent, target),
            _ => failed("open", parent, &e),
        })?;
        let target = target.to_owned();
        Ok(Self { above, target })
    }
}

fn claim_of(lease: u64, epoch: u64) -> String {
    format!("{lease}/claim-{epoch}")
}

/// The name of the room of a destination.
fn room_name(target: &OsStr, id: &str) -> OsString {
    let shown = target.to_string_lossy();
    let shown = &shown[..shown.floor_char_boundary(NAME_MAX)];
    OsString::from(format!(".{shown}.{id}.howdah-plan"))
}

/// What a file or a tree could not take the place of in the end is said at the beginning. (A tree takes the place of nothing: its planner asks.)
fn check_target(above: &Dir, target: &Path) -> Result<(), Error> {
    let path = above.path().join(target);
    let shown = path.display();
    if howdah_store::is_room(target.as_os_str()) {
        let text = format!(
            "{shown} is what the directory of a plan is called, which copies leave out: give it another name"
        );
        return Err(Error::new(ErrorKind::Usage, text));
    }
    match above.look(target) {
        Ok(seen) if seen.is_file() || seen.is_dir() => Ok(()),
        Ok(_) => {
            let text = format!(
                "{shown} is there and is no regular file, and nothing takes its place: name another"
            );
            Err(Error::new(ErrorKind::Refused, text))
        }
        Err(e) if e.kind() == io::ErrorKind::InvalidFilename => {
            let text = format!("the name of {shown} is too long");
            Err(Error::new(ErrorKind::Usage, text))
        }
        Err(e) if beneath::is_absent(&e) => Ok(()),
        Err(e) => Err(failed("look at", &path, &e)),
    }
}

impl Room {
    /// Makes it, for this user alone: whatever is in there is to be seen by others when it is finished.
    fn make(spot: Spot, id: &str, work: &'static str) -> Result<Self, Error> {
        let Spot { above, target } = spot;
        let name = room_name(&target, id);
        let path = above.path().join(&name);
        check_target(&above, Path::new(&target))?;
        let made = above.make_own_dir(Path::new(&name));
        let made = made.and_then(|()| above.dir(Path::new(&name)));
        let at = made.map_err(|e| failed("make the directory", &path, &e))?;
        let room = Self::of((above, at), (name, target), work)?;
        let names = room.at.names().map_err(|e| failed("list", &path, &e))?;
        if !names.is_empty() {
            // Somebody has put it where ours was made just now.
            return Err(led_elsewhere(&path));
        }
        Ok(room)
    }

    /// That directory in the one above it, if it is this user's own.
    fn of(
        (above, at): (Dir, Dir),
        (name, target): (OsString, OsString),
        work: &'static str,
    ) -> Result<Self, Error> {
        let room = Self {
            above,
            at,
            name,
            target,
            work,
        };
        room.check_owner()?;
        Ok(room)
    }

    /// Makes it, with an unfinished file that has its space where the file system can give it.
    pub fn create(plan: &Plan) -> Result<Self, Error> {
        let spot = Spot::of(plan.destination(), |parent, _| no_directory(parent))?;
        Self::create_at(spot, plan, None)
    }

    /// The same there, for the holder of that key alone.
    pub fn create_at(spot: Spot, plan: &Plan, key: Option<&str>) -> Result<Self, Error> {
        let room = Self::make(spot, plan.id(), "part")?;
        let of_key = key.map_or(Ok(()), |key| room.write(KEY, key.as_bytes()));
        let filled = of_key.and_then(|()| room.fill(plan));
        if filled.is_err() {
            room.remove();
        }
        filled.map(|()| room)
    }

    fn fill(&self, plan: &Plan) -> Result<(), Error> {
        let path = self.work();
        let size = plan.version().size;
        let part = self.at.create(Path::new(self.work), 0o600);
        let part = part.map_err(|e| failed("create", &path, &e))?;
        part.set_len(size)
            .and_then(|()| reserve(&part, size))
            .and_then(|()| part.sync_all())
            .map_err(|e| failed("reserve space for", &path, &e))?;
        self.begin(&Planned::File(plan.clone()))
    }

    /// Makes that of a tree. It is none until it has [begun](Self::begin).
    pub fn create_for_tree(destination: &str, id: &str) -> Result<Self, Error> {
        let spot = Spot::of(destination, |parent, _| no_directory(parent))?;
        Self::make(spot, id, "tree")
    }

    /// The same there, for the holder of that key alone: nothing may have the name.
    pub fn create_for_tree_at(
        spot: Spot,
        plan: &TreePlan,
        key: Option<&str>,
    ) -> Result<Self, Error> {
        if spot.above.has(&spot.target) {
            return Err(is_there_already(&spot.above.path().join(&spot.target)));
        }
        let room = Self::make(spot, plan.id(), "tree")?;
        let of_key = key.map_or(Ok(()), |key| room.write(KEY, key.as_bytes()));
        let planned = Planned::Tree(plan.clone());
        let drafted = of_key.and_then(|()| room.write(DRAFT, planned.encode().as_bytes()));
        if drafted.is_err() {
            room.remove();
        }
        drafted.map(|()| room)
    }

    /// One of a tree that is being made there.
    pub fn open_draft_at(spot: Spot, planned: &Planned, key: Option<&str>) -> Result<Self, Error> {
        let room = Self::find_at(spot, planned, key)?;
        // One that has begun may have both, if the server ended just then.
        let text = if room.has_plan() {
            None
        } else {
            room.read(DRAFT)?
        };
        let Some(text) = text else {
            let path = room.at.path().display();
            let text = format!("{path} is not being planned any more; plan anew");
            return Err(Error::new(ErrorKind::Usage, text));
        };
        room.is_of(&text, planned)?;
        Ok(room)
    }

    /// Whether all sheets are there, and none comes any more.
    pub fn is_laid(&self) -> bool {
        self.at.has(LAID)
    }

    /// All sheets are there: what follows from them is made once.
    ///
    /// # Errors
    ///
    /// Somebody has done so before; the file system's.
    pub fn lay_once(&self) -> Result<(), Error> {
        match self.at.create(Path::new(LAID), 0o600) {
            Ok(_) => Ok(()),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Err(self.was_laid()),
            Err(e) => Err(self.trouble("write", Path::new(LAID), &e)),
        }
    }

    /// Nothing can be added to what it has.
    pub fn was_laid(&self) -> Error {
        let path = self.at.path().display();
        let text = format!("{path} has all that leases have already, and its space: plan anew");
        Error::new(ErrorKind::Usage, text)
    }

    /// It has begun.
    pub fn end_draft(&self) {
        let _ = self.at.remove_file(Path::new(DRAFT));
    }

    /// Everything is in it that movers want.
    pub fn begin(&self, planned: &Planned) -> Result<(), Error> {
        self.write("plan", planned.encode().as_bytes())
    }

    /// That of a plan whose destination is seen from here.
    pub fn open(planned: &Planned) -> Result<Self, Error> {
        Self::open_found(Self::find(planned)?, planned)
    }

    /// The same there, if it is one of the holder of that key.
    pub fn open_at(spot: Spot, planned: &Planned, key: Option<&str>) -> Result<Self, Error> {
        Self::open_found(Self::find_at(spot, planned, key)?, planned)
    }

    fn open_found(room: Self, planned: &Planned) -> Result<Self, Error> {
        let Some(text) = room.read("plan")? else {
            return Err(room.has_no_plan());
        };
        room.is_of(&text, planned)?;
        room.is_whole()?;
        Ok(room)
    }

    /// The same, or what is left of it where a run that finished the plan was ended while it cleared up.
    pub fn open_to_finish(planned: &Planned) -> Result<Self, Error> {
        Self::open_found_to_finish(Self::find(planned)?, planned)
    }

    /// The same there, if it is one of the holder of that key.
    pub fn open_at_to_finish(
        spot: Spot,
        planned: &Planned,
        key: Option<&str>,
    ) -> Result<Self, Error> {
        Self::open_found_to_finish(Self::find_at(spot, planned, key)?, planned)
    }

    fn open_found_to_finish(room: Self, planned: &Planned) -> Result<Self, Error> {
        match room.read("plan")? {
            Some(text) => {
                room.is_of(&text, planned)?;
                room.is_whole()?;
            }
            None if room.at.has(MARK) => {}
            None => {
                // One that was ended as the last thing has left it empty.
                room.remove_empty();
                return Err(room.has_no_plan());
            }
        }
        Ok(room)
    }

    /// It is being planned, or that was ended by force; or its end has begun.
    fn has_no_plan(&self) -> Error {
        if !self.at.has(DRAFT) {
            return self.is_gone();
        }
        let path = self.at.path().display();
        let text = format!(
            "{path} is not planned to its end: wait for 'howdah plan'; if that was ended, plan anew (what is left goes after 30 days, or by \
             rm -r {path} there)"
        );
        Error::new(ErrorKind::NotFound, text)
    }

    /// What is unfinished is there, or has got its name.
    fn is_whole(&self) -> Result<(), Error> {
        if self.is_there() || self.at.has(MARK) {
            return Ok(());
        }
        Err(self.is_gone())
    }

    fn find(planned: &Planned) -> Result<Self, Error> {
        let is_gone =
            |parent: &Path, target: &OsStr| gone(&parent.join(room_name(target, planned.id())));
        Self::find_in(Spot::of(planned.destination(), is_gone)?, planned)
    }

    fn find_at(spot: Spot, planned: &Planned, key: Option<&str>) -> Result<Self, Error> {
        let room = Self::find_in(spot, planned)?;
        if room.read(KEY)?.as_deref() == key {
            return Ok(room);
        }
        let text = format!(
            "{} is the room of another key: all hosts of a plan come with the key that has made it",
            room.at.path().display()
        );
        Err(Error::new(ErrorKind::Refused, text))
    }

    fn find_in(spot: Spot, planned: &Planned) -> Result<Self, Error> {
        let work = match planned {
            Planned::File(_) => "part",
            Planned::Tree(_) => "tree",
        };
        let Spot { above, target } = spot;
        let name = room_name(&target, planned.id());
        let path = above.path().join(&name);
        let at = above.dir(Path::new(&name)).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => gone(&path),
            _ if beneath::is_no_way(&e) => led_elsewhere(&path),
            _ => failed("open", &path, &e),
        })?;
        Self::of((above, at), (name, target), work)
    }

    fn is_of(&self, text: &str, planned: &Planned) -> Result<(), Error> {
        if Planned::decode(text).as_ref() == Ok(planned) {
            return Ok(());
        }
        let dir = self.at.path().display();
        let text = format!(
            "{dir} is of another plan than this one: take the plan that it was made for, or plan anew"
        );
        Err(Error::new(ErrorKind::Usage, text))
    }

    /// What lies in there is believed, and given names as if this user had made it: so nobody else may have.
    fn check_owner(&self) -> Result<(), Error> {
        let path = self.at.path();
        let shown = path.display();
        let seen = self.at.look(Path::new(""));
        let seen = seen.map_err(|e| failed("look at", path, &e))?;
        let text = if self
            .at
            .is_of_others()
            .map_err(|e| failed("look at", path, &e))?
        {
            format!(
                "{shown} belongs to another user ({}), who could have other files written to: all hosts of a plan run as the user who \
                 has made it; plan anew as this one",
                seen.owner
            )
        } else if seen.mode & 0o022 != 0 {
            format!(
                "others may write to {shown} and could have other files written to; if nobody has: chmod go-w {shown}"
            )
        } else {
            return Ok(());
        };
        Err(Error::new(ErrorKind::Refused, text))
    }

    /// Why what should be in there is not.
    pub fn is_gone(&self) -> Error {
        if !self.above.has_that(Path::new(&self.name), &self.at) {
            return gone(self.at.path());
        }
        let text = if self.has_plan() && !self.at.has(MARK) {
            format!(
                "there is no {}: somebody has removed it; plan anew",
                self.work().display()
            )
        } else {
            format!(
                "the plan of {} is finished or was forgotten; 'howdah finish' removes what is left of one that is finished",
                self.at.path().display()
            )
        };
        Error::new(ErrorKind::NotFound, text)
    }

    /// The room itself.
    pub fn at(&self) -> &Dir {
        &self.at
    }

    /// What the destination lies in.
    pub fn above(&self) -> &Dir {
        &self.above
    }

    /// The name of the destination in there.
    pub fn target(&self) -> &Path {
        Path::new(&self.target)
    }

    /// The destination, for messages.
    pub fn destination(&self) -> PathBuf {
        self.above.path().join(&self.target)
    }

    /// The unfinished directory of a tree.
    pub fn tree(&self) -> Result<Dir, Error> {
        let tree = self.at.dir(Path::new(self.work));
        tree.map_err(|e| self.trouble("open", Path::new(self.work), &e))
    }

    /// What went wrong with something in there.
    pub fn trouble(&self, what: &str, name: &Path, error: &io::Error) -> Error {
        let path = self.at.path().join(name);
        if beneath::is_absent(error) && !self.is_there() {
            self.is_gone()
        } else if beneath::is_no_way(error) {
            led_elsewhere(&path)
        } else {
            failed(what, &path, error)
        }
    }

    /// Whether it is unfinished still.
    pub fn is_there(&self) -> bool {
        self.at.has(self.work)
    }

    /// Whether nobody has begun to clear it up.
    pub fn has_plan(&self) -> bool {
        self.at.has("plan")
    }

    /// What is unfinished, and everything else that has a name in there, for messages.
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.at.path().join(name)
    }

    /// The unfinished file, or the unfinished directory of a tree.
    pub fn work(&self) -> PathBuf {
        self.path(self.work)
    }

    /// Its name in there.
    pub fn work_in(&self) -> &'static Path {
        Path::new(self.work)
    }

    /// An unfinished file in there, to be written to.
    pub fn open_part(&self, name: &Path) -> Result<File, Error> {
        let opened = match self.at.write(name) {
            // A run of `finish` that failed just before the rename has left it with the permissions of the source.
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                let opened = self.at.set_mode(name, 0o600);
                opened.and_then(|()| self.at.write(name)).map_err(|_| e)
            }
            opened => opened,
        };
        opened.map_err(|e| self.trouble("open", name, &e))
    }

    /// A file that nobody else sees and that goes with its last descriptor.
    pub fn scratch(&self) -> Result<File, Error> {
        let file = self.at.nameless();
        file.map_err(|e| self.trouble("create a file in", Path::new(""), &e))
    }

    /// Makes it known that this epoch of a lease has begun.
    pub fn claim(&self, lease: u64, epoch: u64) -> Result<(), Error> {
        self.forget_claims(lease)?;
        let dir = PathBuf::from(lease.to_string());
        let claim = || -> io::Result<()> {
            self.make_lease_dir(lease)?;
            let dir = self.at.dir(&dir)?;
            dir.touch(format!("claim-{epoch}").as_ref())?.sync_all()?;
            dir.sync()
        };
        claim().map_err(|e| self.trouble("claim a lease in", &dir, &e))
    }

    /// Where everything about a lease lies: durably, as what comes into it.
    pub(super) fn make_lease_dir(&self, lease: u64) -> io::Result<()> {
        match self.at.make_dir(Path::new(&lease.to_string())) {
            Ok(()) => self.at.sync(),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(e) => Err(e),
        }
    }

    /// Of so many claims only the highest one counts, and whoever looks finds that one all the time.
    fn forget_claims(&self, lease: u64) -> Result<(), Error> {
        let claims = self.epochs(lease, "claim-")?;
        if claims.len() < EPOCHS_MAX {
            return Ok(());
        }
        for epoch in claims.iter().rev().skip(1) {
            let _ = self.at.remove_file(claim_of(lease, *epoch).as_ref());
        }
        Ok(())
    }

    /// Has what came of a lease in that epoch put into its place by one at a time, as long as the file is kept. `None`: somebody does so now.
    ///
    /// # Errors
    ///
    /// That epoch was not begun.
    pub fn alone(&self, lease: u64, epoch: u64) -> Result<Option<File>, Error> {
        let name = PathBuf::from(claim_of(lease, epoch));
        let file = self.at.write(&name).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound if self.is_there() => {
                let text = format!("lease {lease} was not begun in epoch {epoch}: run it again");
                Error::new(ErrorKind::Usage, text)
            }
            _ => self.trouble("open", &name, &e),
        })?;
        // Where there are no locks two of them do the same.
        Ok(beneath::lock(&file).unwrap_or(true).then_some(file))
    }

    /// The highest epoch that anybody claimed; 0 if nobody did.
    pub fn highest(&self, lease: u64) -> Result<u64, Error> {
        // A late mover must not go on when the file has its name.
        if !self.is_there() {
            return Err(self.is_gone());
        }
        let claims = self.epochs(lease, "claim-")?;
        Ok(claims.into_iter().max().unwrap_or(0))
    }

    pub(super) fn epochs(&self, lease: u64, prefix: &str) -> Result<Vec<u64>, Error> {
        let dir = PathBuf::from(lease.to_string());
        let listed = match self.at.dir(&dir).and_then(|dir| dir.names()) {
            Ok(listed) => listed,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(self.trouble("list", &dir, &e)),
        };
        let mut epochs = Vec::new();
        for name in listed {
            let number = name.to_str().and_then(|name| name.strip_prefix(prefix));
            epochs.extend(number.and_then(|number| number.parse::<u64>().ok()));
        }
        epochs.sort_unstable();
        Ok(epochs)
    }

    /// A small file that appears whole and stays.
    pub fn write(&self, name: &str, text: &[u8]) -> Result<(), Error> {
        let rename = |beside: &Path| self.at.rename(beside, &self.at, Path::new(name));
        self.write_beside(name, text, &rename)
            .map_err(|e| self.unwritten(name, &e))
    }

    /// The same of one that replaces nothing; whether there was none.
    pub(super) fn write_new(&self, name: &str, text: &[u8]) -> Result<bool, Error> {
        let rename = |beside: &Path| self.at.rename_new(beside, &self.at, Path::new(name));
        match self.write_beside(name, text, &rename) {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(e) => Err(self.unwritten(name, &e)),
        }
    }

    fn write_beside(
        &self,
        name: &str,
        text: &[u8],
        rename: &dyn Fn(&Path) -> io::Result<()>,
    ) -> io::Result<()> {
        let name = Path::new(name);
        let (mut file, beside) = self.at.create_beside(name)?;
        let written = file.write_all(text).and_then(|()| file.sync_all());
        let named = written.and_then(|()| rename(&beside));
        if named.is_err() {
            let _ = self.at.remove_file(&beside);
        }
        named?;
        let dir = name.parent().unwrap_or_else(|| Path::new(""));
        self.at.dir(dir)?.sync()
    }

    fn unwritten(&self, name: &str, error: &io::Error) -> Error {
        match error.kind() {
            io::ErrorKind::NotFound => self.is_gone(),
            _ => self.trouble("write", Path::new(name), error),
        }
    }

    /// What [`write`](Self::write) wrote; `None` if it did not.
    pub fn read(&self, name: &str) -> Result<Option<String>, Error> {
        let name = Path::new(name);
        let text = self.at.content(name, TEXT_MAX).and_then(|text| {
            String::from_utf8(text).map_err(|_| io::ErrorKind::InvalidData.into())
        });
        match text {
            Ok(text) => Ok(Some(text)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(self.trouble("read", name, &e)),
        }
    }

    /// Forgets the plan. What cannot be removed stays, and says by its name what it is.
    pub fn remove(&self) {
        // Who is late finds no plan, not half of one; and a run that goes on with this finds what was finished, until nothing else is left.
        let _ = self.at.remove_file(Path::new("plan"));
        for name in self.at.names().unwrap_or_default() {
            let name = Path::new(&name);
            if name == Path::new(MARK) || name == Path::new(KEY) {
                continue;
            }
            let _ = match self.at.look(name) {
                Ok(seen) if seen.is_dir() => self.at.clear(name),
                _ => self.at.remove_file(name),
            };
        }
        let _ = self.at.clear(Path::new(""));
        self.remove_empty();
    }

    fn remove_empty(&self) {
        let name = Path::new(&self.name);
        if self.above.has_that(name, &self.at) {
            let _ = self.above.remove_dir(name);
        }
    }
}

/// A tree takes the place of nothing.
pub fn is_there_already(path: &Path) -> Error {
    let text = format!(
        "{} is there already, and a tree is planned as a new one: name another, or use 'howdah sync'",
        path.display()
    );
    Error::new(ErrorKind::Refused, text)
}

fn gone(path: &Path) -> Error {
    let text = format!(
        "there is no {}: the plan is finished, was forgotten, or this host does not see the destination under that name",
        path.display()
    );
    Error::new(ErrorKind::NotFound, text)
}

/// Something is a link, or lies behind one, where nobody has made any.
pub fn led_elsewhere(path: &Path) -> Error {
    let text = format!(
        "{} is a link, lies behind one or is no directory any more, and is left alone: somebody else made it; plan anew",
        path.display()
    );
    Error::new(ErrorKind::Integrity, text)
}

/// Makes everything durable that is below a directory, and perhaps more.
pub fn sync_all(dir: &Dir) -> Result<(), Error> {
    let sync = || -> io::Result<()> {
        #[cfg(target_os = "linux")]
        rustix::fs::syncfs(dir.as_fd())?;
        #[cfg(not(target_os = "linux"))]
        rustix::fs::sync();
        Ok(())
    };
    sync().map_err(|e| failed("sync", dir.path(), &e))
}
