//! The directory beside the destination in which the hosts of a plan meet.
//!
//! ```text
//! .NAME.ID.howdah-plan/plan         the plan, as it was made
//!                      part         the unfinished file
//!                      7/claim-2    lease 7 is run in epoch 2
//!                      7/record-2   that run has moved it
//!                      finished     hash and inode of the file, before it gets its name
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
//! ```
//!
//! No lock is taken, so that it may lie on a file system that has none (NFS); everything appears by a rename or is empty.

use super::failed;
use howdah::{Error, ErrorKind};
use howdah_lease::{Plan, Planned, Record, Sheet, TreePlan, TreeRecord};
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

/// Bytes of the destination's name in that of the directory: it says whose it is, and fits.
const NAME_MAX: usize = 100;
/// Longest record that is read, in bytes.
const RECORD_MAX: u64 = 4096;
/// The same of a tree, and the longest list of what a lease has: 8192 files whose paths are as long as they can be.
const TREE_MAX: u64 = 128 << 20;

pub(super) struct Room {
    dir: PathBuf,
    /// The same, seen from the directory of the destination.
    name: OsString,
    /// What is unfinished in it.
    work: &'static str,
}

impl Room {
    fn of(destination: &str, id: &str, work: &'static str) -> Result<Self, Error> {
        let destination = Path::new(destination);
        let named = destination.parent().zip(destination.file_name());
        let Some((parent, name)) = named else {
            let text = format!("{} names no file", destination.display());
            return Err(Error::new(ErrorKind::Usage, text));
        };
        let name = name.to_string_lossy();
        let name = &name[..name.floor_char_boundary(NAME_MAX)];
        let name = OsString::from(format!(".{name}.{id}.howdah-plan"));
        let dir = parent.join(&name);
        Ok(Self { dir, name, work })
    }

    /// Makes it, with an unfinished file that has its space where the file system can give it.
    pub(super) fn create(plan: &Plan) -> Result<Self, Error> {
        let room = Self::of(plan.destination(), plan.id(), "part")?;
        let made = fs::create_dir(&room.dir);
        made.map_err(|e| failed("make the directory", &room.dir, &e))?;
        let filled = room.fill(plan);
        if filled.is_err() {
            room.remove();
        }
        filled.map(|()| room)
    }

    fn fill(&self, plan: &Plan) -> Result<(), Error> {
        let path = self.dir.join("part");
        let size = plan.version().size;
        let part = new_file(&path).map_err(|e| failed("create", &path, &e))?;
        part.set_len(size)
            .and_then(|()| reserve(&part, size))
            .and_then(|()| part.sync_all())
            .map_err(|e| failed("reserve space for", &path, &e))?;
        self.begin(&Planned::File(plan.clone()))
    }

    /// Makes that of a tree, for this user alone: what is in there is to be seen by others when it is finished. It is none until it has
    /// [begun](Self::begin).
    pub(super) fn create_for_tree(destination: &str, id: &str) -> Result<Self, Error> {
        let room = Self::of(destination, id, "tree")?;
        let mut options = fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut options, 0o700);
        let made = options.create(&room.dir);
        made.map_err(|e| failed("make the directory", &room.dir, &e))?;
        Ok(room)
    }

    /// Everything is in it that movers want.
    pub(super) fn begin(&self, planned: &Planned) -> Result<(), Error> {
        self.write("plan", planned.encode().as_bytes())
    }

    /// That of a plan whose destination is seen from here.
    pub(super) fn open(planned: &Planned) -> Result<Self, Error> {
        let work = match planned {
            Planned::File(_) => "part",
            Planned::Tree(_) => "tree",
        };
        let room = Self::of(planned.destination(), planned.id(), work)?;
        let path = room.dir.join("plan");
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Err(room.is_gone()),
            Err(e) => return Err(failed("read", &path, &e)),
        };
        if Planned::decode(&text).as_ref() == Ok(planned) {
            return Ok(room);
        }
        let dir = room.dir.display();
        let text = format!(
            "{dir} is of another plan than this one: take the plan that it was made for, or plan anew"
        );
        Err(Error::new(ErrorKind::Usage, text))
    }

    pub(super) fn is_gone(&self) -> Error {
        let text = format!(
            "there is no {}: the plan is finished, was forgotten, or this host does not see the destination under that name",
            self.dir.display()
        );
        Error::new(ErrorKind::NotFound, text)
    }

    pub(super) fn lease_dir(&self, lease: u64) -> PathBuf {
        self.dir.join(lease.to_string())
    }

    /// What is unfinished, and everything else that has a name in there.
    pub(super) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.dir.join(name)
    }

    /// The unfinished file, or the unfinished directory of a tree.
    pub(super) fn work(&self) -> PathBuf {
        self.dir.join(self.work)
    }

    /// Its name below the directory of the destination.
    pub(super) fn work_name(&self) -> OsString {
        Path::new(&self.name).join(self.work).into_os_string()
    }

    /// An unfinished file, to be written to.
    pub(super) fn open_part(&self, path: &Path) -> Result<File, Error> {
        let opened = OpenOptions::new().read(true).write(true).open(path);
        opened.map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => self.is_gone(),
            _ => failed("open", path, &e),
        })
    }

    /// A file that nobody else sees and that goes with its last descriptor.
    pub(super) fn scratch(&self) -> Result<File, Error> {
        let file = tempfile::tempfile_in(&self.dir);
        file.map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => self.is_gone(),
            _ => failed("create a file in", &self.dir, &e),
        })
    }

    /// Makes it known that this epoch of a lease has begun.
    pub(super) fn claim(&self, lease: u64, epoch: u64) -> Result<(), Error> {
        let dir = self.lease_dir(lease);
        let claim = || -> io::Result<()> {
            match fs::create_dir(&dir) {
                Ok(()) => sync_dir(&self.dir)?,
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(e),
            }
            let claim = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(false)
                .open(dir.join(format!("claim-{epoch}")))?;
            claim.sync_all()?;
            sync_dir(&dir)
        };
        claim().map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => self.is_gone(),
            _ => failed("claim a lease in", &dir, &e),
        })
    }

    /// The highest epoch that anybody claimed; 0 if nobody did.
    pub(super) fn highest(&self, lease: u64) -> Result<u64, Error> {
        // A late mover must not go on when the file has its name.
        if !self.work().exists() {
            return Err(self.is_gone());
        }
        let claims = self.epochs(lease, "claim-")?;
        Ok(claims.into_iter().max().unwrap_or(0))
    }

    fn epochs(&self, lease: u64, prefix: &str) -> Result<Vec<u64>, Error> {
        let dir = self.lease_dir(lease);
        let listed = match fs::read_dir(&dir) {
            Ok(listed) => listed,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(failed("list", &dir, &e)),
        };
        let mut epochs = Vec::new();
        for entry in listed {
            let name = entry.map_err(|e| failed("list", &dir, &e))?.file_name();
            let number = name.to_str().and_then(|name| name.strip_prefix(prefix));
            epochs.extend(number.and_then(|number| number.parse::<u64>().ok()));
        }
        epochs.sort_unstable();
        Ok(epochs)
    }

    /// Publishes what was moved.
    pub(super) fn publish(&self, record: &Record) -> Result<(), Error> {
        let name = format!("{}/record-{}", record.lease, record.epoch);
        self.write(&name, record.encode().as_bytes())
    }

    /// The same of a tree.
    pub(super) fn publish_of_tree(&self, record: &TreeRecord) -> Result<(), Error> {
        let name = format!("{}/record-{}", record.lease, record.epoch);
        self.write(&name, record.encode().as_bytes())
    }

    /// The records of a lease. A torn one is none.
    pub(super) fn records(&self, lease: u64) -> Result<Vec<Record>, Error> {
        self.decoded(lease, RECORD_MAX, |text| Record::decode(text).ok())
    }

    /// The same of a tree.
    pub(super) fn tree_records(&self, lease: u64) -> Result<Vec<TreeRecord>, Error> {
        self.decoded(lease, TREE_MAX, |text| TreeRecord::decode(text).ok())
    }

    fn decoded<T>(
        &self,
        lease: u64,
        longest: u64,
        decode: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<Vec<T>, Error> {
        let mut records = Vec::new();
        for epoch in self.epochs(lease, "record-")? {
            let path = self.lease_dir(lease).join(format!("record-{epoch}"));
            match bounded(&path, longest) {
                Ok(text) => records.extend(decode(&text)),
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(failed("read", &path, &e)),
            }
        }
        Ok(records)
    }

    /// What a lease of a tree has.
    pub(super) fn sheet(&self, plan: &TreePlan, lease: u64) -> Result<Sheet, Error> {
        let path = self.lease_dir(lease).join("sheet");
        let text = bounded(&path, TREE_MAX).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => self.is_gone(),
            _ => failed("read", &path, &e),
        })?;
        match Sheet::decode(&text) {
            Ok(sheet) if sheet.plan == plan.id() && sheet.lease == lease => Ok(sheet),
            _ => {
                let path = path.display();
                let text = format!("{path} is not what 'howdah plan' wrote there; plan anew");
                Err(Error::new(ErrorKind::Usage, text))
            }
        }
    }

    /// Writes it down, and reserves space for that much: it is given back by whoever moves the lease.
    pub(super) fn put_sheet(&self, sheet: &Sheet, bytes: u64) -> Result<(), Error> {
        let dir = self.lease_dir(sheet.lease);
        fs::create_dir(&dir).map_err(|e| failed("make the directory", &dir, &e))?;
        self.write(&format!("{}/sheet", sheet.lease), sheet.encode().as_bytes())?;
        if bytes > 0 {
            let path = dir.join("reserve");
            new_file(&path)
                .and_then(|file| reserve(&file, bytes))
                .map_err(|e| failed("reserve space for", &path, &e))?;
        }
        Ok(())
    }

    /// Another mover may have been first.
    pub(super) fn give_back_reserve(&self, lease: u64) {
        let _ = fs::remove_file(self.lease_dir(lease).join("reserve"));
    }

    /// All there are, of leases that the plan has.
    pub(super) fn all_records(&self, plan: &Plan) -> Result<Vec<Record>, Error> {
        let mut all = Vec::new();
        for lease in 0..plan.leases() {
            all.append(&mut self.records(lease)?);
        }
        Ok(all)
    }

    /// A small file that appears whole and stays.
    pub(super) fn write(&self, name: &str, text: &[u8]) -> Result<(), Error> {
        let path = self.dir.join(name);
        let dir = path.parent().unwrap_or(&self.dir);
        let write = || -> io::Result<()> {
            let mut file = tempfile::NamedTempFile::new_in(dir)?;
            file.write_all(text)?;
            file.as_file().sync_all()?;
            file.persist(&path).map_err(|e| e.error)?;
            sync_dir(dir)
        };
        write().map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => self.is_gone(),
            _ => failed("write", &path, &e),
        })
    }

    /// What [`write`](Self::write) wrote; `None` if it did not.
    pub(super) fn read(&self, name: &str) -> Result<Option<String>, Error> {
        let path = self.dir.join(name);
        match fs::read_to_string(&path) {
            Ok(text) => Ok(Some(text)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(failed("read", &path, &e)),
        }
    }

    /// Forgets the plan. What cannot be removed stays, and says by its name what it is.
    pub(super) fn remove(&self) {
        // Who is late finds no plan, not half of one.
        let _ = fs::remove_file(self.dir.join("plan"));
        let _ = fs::remove_dir_all(&self.dir);
    }
}

fn bounded(path: &Path, longest: u64) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    File::open(path)?.take(longest + 1).read_to_end(&mut text)?;
    if text.len() as u64 > longest {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(text)
}

/// Nobody else's before it has its name.
fn new_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

pub(super) fn sync_dir(dir: &Path) -> io::Result<()> {
    match File::open(dir)?.sync_all() {
        // Some file systems have no such thing.
        Err(e) if e.kind() == io::ErrorKind::InvalidInput => Ok(()),
        result => result,
    }
}

/// Makes everything durable that is below a directory, and perhaps more.
pub(super) fn sync_all(dir: &Path) -> Result<(), Error> {
    let sync = || -> io::Result<()> {
        #[cfg(target_os = "linux")]
        rustix::fs::syncfs(File::open(dir)?)?;
        #[cfg(not(target_os = "linux"))]
        rustix::fs::sync();
        Ok(())
    };
    sync().map_err(|e| failed("sync", dir, &e))
}

/// A full disk shows before anything is moved.
pub(super) fn reserve(file: &File, size: u64) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    if size > 0 {
        use rustix::fs::FallocateFlags;
        use rustix::io::Errno;
        return match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, size) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => Ok(()),
            result => Ok(result?),
        };
    }
    let _ = (file, size);
    Ok(())
}
