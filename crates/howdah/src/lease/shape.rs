//! Permissions and times that directories and large files of a tree have at the end. While it is unfinished its owner may write to all of
//! them, or nobody but root could put files into a directory that is to be read only; and each file that is put there changes the time
//! of its directory.

use super::beneath::{self, Dir, Seen};
use super::room::{Room, led_elsewhere};
use super::{failed, interrupted, path_of};
use crate::{Error, ErrorKind};
use howdah_lease::{Name, Time, sealed, unsealed};
use serde::{Deserialize, Serialize};
use std::io;
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
pub struct Shapes<'a> {
    room: &'a Room,
    next: u64,
    waiting: Vec<Shape>,
}

impl<'a> Shapes<'a> {
    /// Those of all directories that are there.
    ///
    /// # Errors
    ///
    /// The file system's; it is to stop.
    pub fn of_directories(room: &'a Room, is_stopped: &dyn Fn() -> bool) -> Result<Self, Error> {
        let mut shapes = Self {
            room,
            next: 0,
            waiting: Vec::new(),
        };
        let top = room.tree()?;
        let mut todo = vec![PathBuf::new()];
        while let Some(dir) = todo.pop() {
            if is_stopped() {
                return Err(interrupted());
            }
            shapes.open(&top, &dir, DIRECTORY)?;
            let unlisted = |e: io::Error| trouble("list", &top, &dir, &e);
            let names = top.dir(&dir).and_then(|dir| dir.names());
            for name in names.map_err(unlisted)? {
                if is_stopped() {
                    return Err(interrupted());
                }
                let below = dir.join(name);
                if top.look(&below).map_err(unlisted)?.is_dir() {
                    todo.push(below);
                }
            }
        }
        Ok(shapes)
    }

    /// Further ones behind those that an earlier step wrote down.
    pub fn further(room: &'a Room) -> Self {
        Self {
            room,
            next: count(room),
            waiting: Vec::new(),
        }
    }

    /// That of a large file.
    pub fn file(&mut self, top: &Dir, name: &Name) -> Result<(), Error> {
        self.open(top, path_of(name), FILE)
    }

    /// Notes it, and has its owner write to it.
    fn open(&mut self, top: &Dir, below: &Path, least: u32) -> Result<(), Error> {
        let name = match below.as_os_str().as_encoded_bytes() {
            b"" => None,
            bytes => Some(Name::new(bytes).ok_or_else(|| {
                let path = top.path().join(below);
                let text = format!("{} is no name that a plan can have", path.display());
                Error::new(ErrorKind::Usage, text)
            })?),
        };
        let seen = open(top, below, least)?;
        self.waiting.push(Shape {
            name,
            mode: seen.mode,
            mtime: seen.mtime,
        });
        match self.waiting.len() {
            MANY => self.flush(),
            _ => Ok(()),
        }
    }

    /// All are written down.
    pub fn end(mut self) -> Result<(), Error> {
        self.flush()
    }

    fn flush(&mut self) -> Result<(), Error> {
        let name = format!("shape-{}", self.next);
        self.next += 1;
        let waiting = std::mem::take(&mut self.waiting);
        self.room.write(&name, sealed(&waiting).as_bytes())
    }
}

fn trouble(what: &str, top: &Dir, below: &Path, error: &io::Error) -> Error {
    let path = top.path().join(below);
    if beneath::is_no_way(error) {
        return led_elsewhere(&path);
    }
    failed(what, &path, error)
}

/// What it is like before its owner may do at least that to it.
fn open(top: &Dir, below: &Path, least: u32) -> Result<Seen, Error> {
    let seen = top.look(below);
    let seen = seen.map_err(|e| trouble("look at", top, below, &e))?;
    if seen.mode & least != least && !seen.is_link() {
        top.set_mode(below, seen.mode | least)
            .map_err(|e| trouble("change permissions of", top, below, &e))?;
    }
    Ok(seen)
}

/// Its owner may put files into all directories on the way from `top` to the file `name` in it, and take them out.
pub fn open_way(top: &Dir, name: &Path) -> Result<(), Error> {
    let mut path = PathBuf::new();
    open(top, &path, DIRECTORY)?;
    for part in name.parent().into_iter().flat_map(Path::iter) {
        path.push(part);
        open(top, &path, DIRECTORY)?;
    }
    Ok(())
}

/// Files with shapes.
fn count(room: &Room) -> u64 {
    let mut count = 0;
    while room.at().has(format!("shape-{count}")) {
        count += 1;
    }
    count
}

/// Sets what was written down of everything but the top.
///
/// # Errors
///
/// What was written down is not there, it is to stop, or the file system does not do it.
pub fn restore(room: &Room, is_stopped: &dyn Fn() -> bool) -> Result<(), Error> {
    let top = room.tree()?;
    for number in (0..count(room)).rev() {
        for shape in read(room, number)?.iter().rev() {
            if is_stopped() {
                return Err(interrupted());
            }
            if let Some(name) = &shape.name {
                set(&top, path_of(name), shape)?;
            }
        }
    }
    Ok(())
}

/// The same of the top, which has its name now.
///
/// # Errors
///
/// As [`restore`].
pub fn restore_top(room: &Room) -> Result<(), Error> {
    let shapes = read(room, 0)?;
    let Some(shape) = shapes.iter().find(|shape| shape.name.is_none()) else {
        return Ok(());
    };
    set(room.above(), room.target(), shape)
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

fn set(top: &Dir, below: &Path, shape: &Shape) -> Result<(), Error> {
    let seen = match top.look(below) {
        // A file that could not be had, and is done without.
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        seen => seen.map_err(|e| trouble("look at", top, below, &e))?,
    };
    if seen.is_link() {
        return Err(led_elsewhere(&top.path().join(below)));
    }
    top.set_mtime(below, shape.mtime)
        .map_err(|e| trouble("set the time of", top, below, &e))?;
    if seen.mode != shape.mode {
        top.set_mode(below, shape.mode)
            .map_err(|e| trouble("change permissions of", top, below, &e))?;
    }
    Ok(())
}
