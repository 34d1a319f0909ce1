//! Permissions and times that directories and large files of a tree have at the end. While it is unfinished its owner may write to all of
//! them, or nobody but root could put files into a directory that is to be read only; and each file that is put there changes the time
//! of its directory.

use super::room::Room;
use super::{failed, path_of};
use howdah::{Error, ErrorKind};
use howdah_lease::{Name, Time, sealed, unsealed};
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_OMIT};
use serde::{Deserialize, Serialize};
use std::fs::{self, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Of one file with shapes.
const MANY: usize = 4096;
/// What the owner may do until then.
const DIRECTORY: u32 = 0o700;
const FILE: u32 = 0o600;

#[derive(Debug, Deserialize, Serialize)]
struct Shape {
    /// `None`: the top.
    #[serde(rename = "n")]
    name: Option<Name>,
    #[serde(rename = "p")]
    mode: u32,
    #[serde(rename = "m")]
    mtime: Time,
}

/// Writes them down: a directory before what is in it.
pub(super) struct Shapes<'a> {
    room: &'a Room,
    next: u64,
    waiting: Vec<Shape>,
}

impl<'a> Shapes<'a> {
    /// Those of all directories that are there.
    pub(super) fn of_directories(room: &'a Room) -> Result<Self, Error> {
        let mut shapes = Self {
            room,
            next: 0,
            waiting: Vec::new(),
        };
        let top = room.work();
        let mut todo = vec![PathBuf::new()];
        while let Some(dir) = todo.pop() {
            let path = top.join(&dir);
            shapes.open(&dir, &path, DIRECTORY)?;
            let list = || -> io::Result<()> {
                for entry in fs::read_dir(&path)? {
                    let entry = entry?;
                    if entry.file_type()?.is_dir() {
                        todo.push(dir.join(entry.file_name()));
                    }
                }
                Ok(())
            };
            let mut list = list;
            list().map_err(|e| failed("list", &path, &e))?;
        }
        Ok(shapes)
    }

    /// That of a large file.
    pub(super) fn file(&mut self, name: &Name) -> Result<(), Error> {
        let path = self.room.work().join(path_of(name));
        self.open(path_of(name), &path, FILE)
    }

    /// Notes it, and has its owner write to it.
    fn open(&mut self, below: &Path, path: &Path, least: u32) -> Result<(), Error> {
        let name = match below.as_os_str().as_encoded_bytes() {
            b"" => None,
            bytes => Some(Name::new(bytes).ok_or_else(|| {
                let text = format!("{} is no name that a plan can have", path.display());
                Error::new(ErrorKind::Usage, text)
            })?),
        };
        let meta = open(path, least)?;
        self.waiting.push(Shape {
            name,
            mode: meta.mode() & 0o7777,
            mtime: (meta.mtime(), u32::try_from(meta.mtime_nsec()).unwrap_or(0)),
        });
        match self.waiting.len() {
            MANY => self.flush(),
            _ => Ok(()),
        }
    }

    /// All are written down.
    pub(super) fn end(mut self) -> Result<(), Error> {
        self.flush()
    }

    fn flush(&mut self) -> Result<(), Error> {
        let name = format!("shape-{}", self.next);
        self.next += 1;
        let waiting = std::mem::take(&mut self.waiting);
        self.room.write(&name, sealed(&waiting).as_bytes())
    }
}

/// What it is like before its owner may do at least that to it.
fn open(path: &Path, least: u32) -> Result<Metadata, Error> {
    let meta = fs::symlink_metadata(path).map_err(|e| failed("look at", path, &e))?;
    let mode = meta.mode() & 0o7777;
    if mode & least != least && !meta.is_symlink() {
        let more = Permissions::from_mode(mode | least);
        fs::set_permissions(path, more).map_err(|e| failed("change permissions of", path, &e))?;
    }
    Ok(meta)
}

/// Its owner may put files into all directories on the way from `top` to the file `name` in it, and take them out.
pub(super) fn open_way(top: &Path, name: &Path) -> Result<(), Error> {
    open(top, DIRECTORY)?;
    let mut path = top.to_path_buf();
    for part in name.parent().into_iter().flat_map(Path::iter) {
        path.push(part);
        open(&path, DIRECTORY)?;
    }
    Ok(())
}

/// Sets what was written down of everything but the top.
pub(super) fn restore(room: &Room) -> Result<(), Error> {
    let mut count = 0;
    while room.path(format!("shape-{count}")).exists() {
        count += 1;
    }
    let top = room.work();
    for number in (0..count).rev() {
        for shape in read(room, number)?.iter().rev() {
            if let Some(name) = &shape.name {
                set(&top.join(path_of(name)), shape)?;
            }
        }
    }
    Ok(())
}

/// The same of the top, which has its name now.
pub(super) fn restore_top(room: &Room, path: &Path) -> Result<(), Error> {
    let shapes = read(room, 0)?;
    let top = shapes.iter().find(|shape| shape.name.is_none());
    top.map_or(Ok(()), |shape| set(path, shape))
}

fn read(room: &Room, number: u64) -> Result<Vec<Shape>, Error> {
    let name = format!("shape-{number}");
    let text = room.read(&name)?.unwrap_or_default();
    unsealed(text.as_bytes()).map_err(|_| {
        let path = room.path(name);
        let text = format!(
            "{} is not what 'howdah plan' wrote there; plan anew",
            path.display()
        );
        Error::new(ErrorKind::Usage, text)
    })
}

fn set(path: &Path, shape: &Shape) -> Result<(), Error> {
    let meta = match fs::symlink_metadata(path) {
        // A file that could not be had, and is done without.
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        meta => meta.map_err(|e| failed("look at", path, &e))?,
    };
    if meta.is_symlink() {
        let text = format!(
            "{} is a link now: somebody else wrote to it; plan anew",
            path.display()
        );
        return Err(Error::new(ErrorKind::Integrity, text));
    }
    let at = |tv_sec, tv_nsec| Timespec { tv_sec, tv_nsec };
    let times = Timestamps {
        last_access: at(0, UTIME_OMIT),
        last_modification: at(shape.mtime.0, shape.mtime.1.into()),
    };
    rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)
        .map_err(|e| failed("set the time of", path, &e.into()))?;
    if meta.mode() & 0o7777 != shape.mode {
        fs::set_permissions(path, Permissions::from_mode(shape.mode))
            .map_err(|e| failed("change permissions of", path, &e))?;
    }
    Ok(())
}
