//! Goes through both manifests at once. Both name what is in a directory in the same order: everything
//! sorted by name, then its directories with all that is in them, sorted again.

use super::cursor::Cursor;
use super::difference::{Difference, DifferenceKind, EntryKind};
use super::{Item, Shared};
use crate::codec::refused;
use crate::pipe::{PipeReader, PipeWriter};
use crate::queue::lock;
use howdah_session::entry::{Entry, Meta, Stamp, Xattrs};
use howdah_store::StoreError;
use std::cmp::Ordering;
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) fn run(shared: &Shared, talk: [(PipeReader, PipeWriter); 2]) -> Result<(), StoreError> {
    let [a, b] = talk;
    let mut merge = Merge {
        shared,
        sides: [Cursor::new(a)?, Cursor::new(b)?],
        levels: Vec::new(),
        files: 0,
    };
    merge.start()?;
    for side in &mut merge.sides {
        side.end()?;
    }
    *lock(&shared.parked) = Some(merge.sides);
    shared.items.close();
    Ok(())
}

/// A directory on the way down, which is on both sides.
struct Level {
    path: Arc<PathBuf>,
    /// Which sides could not read all of it: what they do not name may be there.
    gaps: [bool; 2],
    /// Names of directories whose name is that of something else on the other side, which has been told.
    told: HashSet<Vec<u8>>,
}

struct Merge<'a> {
    shared: &'a Shared,
    sides: [Cursor; 2],
    levels: Vec<Level>,
    /// Files on both sides so far.
    files: u64,
}

impl Merge<'_> {
    /// Reads the next entry of both sides. Whoever waits for an answer gets it before this side waits.
    fn fill(&mut self) -> Result<(), StoreError> {
        if self.sides.iter_mut().any(Cursor::would_wait) {
            self.flush()?;
        }
        let state = &self.shared.state;
        self.sides.iter_mut().try_for_each(|side| side.fill(state))
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        self.sides.iter_mut().try_for_each(Cursor::flush)
    }

    /// The next entry of a side that [`fill`](Self::fill) has seen.
    fn take(&mut self, side: usize) -> Result<Entry, StoreError> {
        let cursor = &mut self.sides[side];
        if cursor.peek().is_none() {
            if cursor.would_wait() {
                self.flush()?;
            }
            self.sides[side].fill(&self.shared.state)?;
        }
        self.sides[side].take().ok_or(StoreError::Aborted)
    }

    fn start(&mut self) -> Result<(), StoreError> {
        self.fill()?;
        let (a, b) = (self.take(0)?, self.take(1)?);
        match (a, b) {
            (Entry::Top { meta: a }, Entry::Top { meta: b }) => {
                self.enter(PathBuf::new(), &a, &b)?;
                self.walk()
            }
            // A place that was there when it was named, and could not be opened.
            (a, b) if [&a, &b].iter().any(|x| matches!(x, Entry::End { .. })) => {
                let [a, b] = [a, b].map(|entry| matches!(entry, Entry::End { .. }));
                self.tell(PathBuf::new(), true, DifferenceKind::Unread { a, b })
            }
            (a @ Entry::Top { .. }, b) | (a, b @ Entry::Top { .. }) => {
                self.kinds(PathBuf::new(), &a, &b)
            }
            (a, b) => {
                // Files may have different names.
                let name = OsStr::from_bytes(name_of(&a)).to_owned();
                self.both(&Arc::default(), &name, a, b)
            }
        }
    }

    /// Goes through a directory and everything below it.
    fn walk(&mut self) -> Result<(), StoreError> {
        loop {
            self.fill()?;
            if self.take_gaps()? {
                continue;
            }
            let (Some(a), Some(b)) = (self.sides[0].peek(), self.sides[1].peek()) else {
                return Err(StoreError::Aborted);
            };
            match place(a).cmp(&place(b)) {
                Ordering::Less => self.only(0)?,
                Ordering::Greater => self.only(1)?,
                Ordering::Equal => match (self.take(0)?, self.take(1)?) {
                    (Entry::End { .. }, Entry::End { .. }) => return Ok(()),
                    (Entry::Up { .. }, Entry::Up { .. }) => {
                        self.levels.pop();
                    }
                    (Entry::Dir { name, meta: a }, Entry::Dir { meta: b, .. }) => {
                        let path = self.path(&name);
                        if self.shared.filter.admits(&path, true) {
                            self.enter(path, &a, &b)?;
                        } else {
                            self.skip(0)?;
                            self.skip(1)?;
                        }
                    }
                    (a, b) if place(&a).0 == 0 => {
                        let dir = self.dir();
                        let name = OsString::from_vec(name_of(&a).to_vec());
                        let is_dir = [&a, &b].iter().any(|x| matches!(x, Entry::Ahead { .. }));
                        if self.shared.filter.admits(&dir.join(&name), is_dir) {
                            self.both(&dir, &name, a, b)?;
                        } else {
                            self.leave_out(&a, &b)?;
                        }
                    }
                    _ => return Err(refused("the two sides' directories do not nest alike")),
                },
            }
        }
    }

    fn dir(&self) -> Arc<PathBuf> {
        let level = self.levels.last();
        level.map_or_else(Arc::default, |level| Arc::clone(&level.path))
    }

    fn path(&self, name: &[u8]) -> PathBuf {
        self.dir().join(OsStr::from_bytes(name))
    }

    /// A directory that is on both sides.
    fn enter(&mut self, path: PathBuf, a: &Meta, b: &Meta) -> Result<(), StoreError> {
        lock(&self.shared.tally).directories += 1;
        self.attributes(&path, true, a, b)?;
        self.levels.push(Level {
            path: Arc::new(path),
            gaps: [false; 2],
            told: HashSet::new(),
        });
        self.fill()?;
        self.take_gaps()?;
        Ok(())
    }

    /// Whether a side says, before the names that come next, that it cannot read all of this directory.
    fn take_gaps(&mut self) -> Result<bool, StoreError> {
        let mut found = [false; 2];
        for (side, found) in self.sides.iter_mut().zip(&mut found) {
            *found = matches!(side.peek(), Some(Entry::Gap));
            if *found {
                side.take();
            }
        }
        let [a, b] = found;
        if !a && !b {
            return Ok(false);
        }
        let level = self.levels.last_mut();
        // Once in each directory.
        let level = level.filter(|level| !(a && level.gaps[0] || b && level.gaps[1]));
        let level = level.ok_or_else(|| refused("a record in the wrong place"))?;
        level.gaps[0] |= a;
        level.gaps[1] |= b;
        let path = PathBuf::clone(&level.path);
        self.tell(path, true, DifferenceKind::Unread { a, b })?;
        Ok(true)
    }

    /// Passes what is in a directory; how many names that are.
    fn skip(&mut self, side: usize) -> Result<u64, StoreError> {
        let (mut depth, mut names) = (1, 0);
        while depth > 0 {
            match self.take(side)? {
                Entry::Dir { .. } => {
                    depth += 1;
                    names += 1;
                }
                Entry::Up { .. } => depth -= 1,
                Entry::File { .. } => {
                    self.sides[side].answer(false)?;
                    names += 1;
                }
                Entry::Symlink { .. } | Entry::Other { .. } => names += 1,
                Entry::Ahead { .. } | Entry::Gap => {}
                _ => return Err(refused("a record in the wrong place")),
            }
        }
        Ok(names)
    }

    /// Something that the other side does not name.
    fn only(&mut self, side: usize) -> Result<(), StoreError> {
        let entry = self.take(side)?;
        // Its directory comes later.
        if matches!(entry, Entry::Ahead { .. }) {
            return Ok(());
        }
        let is_dir = matches!(entry, Entry::Dir { .. });
        if EntryKind::of(&entry).is_none() && !matches!(entry, Entry::Other { .. }) {
            return Err(refused("a record in the wrong place"));
        }
        let name = name_of(&entry);
        let path = self.path(name);
        let mut counts = self.shared.filter.admits(&path, is_dir);
        if let Some(level) = self.levels.last_mut() {
            counts &= !level.gaps[1 - side] && !level.told.remove(name);
        }
        let mut inside = 0;
        match &entry {
            Entry::Dir { .. } => inside = self.skip(side)?,
            Entry::File { size, meta, .. } => {
                counts &= self.shared.options.admits(*size, meta.mtime.secs);
                self.sides[side].answer(false)?;
            }
            _ => {}
        }
        if !counts {
            return Ok(());
        }
        let what = if side == 0 {
            DifferenceKind::MissingInB { inside }
        } else {
            DifferenceKind::MissingInA { inside }
        };
        self.tell(path, is_dir, what)
    }

    /// Two things of the same name that are not compared.
    fn leave_out(&mut self, a: &Entry, b: &Entry) -> Result<(), StoreError> {
        for (side, entry) in self.sides.iter_mut().zip([a, b]) {
            if matches!(entry, Entry::File { .. }) {
                side.answer(false)?;
            }
        }
        Ok(())
    }

    /// The same name on both sides, in this directory or announced for later.
    fn both(
        &mut self,
        dir: &Arc<PathBuf>,
        name: &OsStr,
        a: Entry,
        b: Entry,
    ) -> Result<(), StoreError> {
        match (a, b) {
            (
                Entry::File {
                    size: size_a,
                    meta: a,
                    link: link_a,
                    ..
                },
                Entry::File {
                    size: size_b,
                    meta: b,
                    link: link_b,
                    ..
                },
            ) => {
                let sizes = (size_a, size_b);
                self.files(dir, name, sizes, (&a, &b), (link_a, link_b))
            }
            (
                Entry::Symlink {
                    target: to_a,
                    meta: a,
                    ..
                },
                Entry::Symlink {
                    target: to_b,
                    meta: b,
                    ..
                },
            ) => {
                lock(&self.shared.tally).others += 1;
                let path = dir.join(name);
                if to_a != to_b {
                    let what = DifferenceKind::Target { a: to_a, b: to_b };
                    self.tell(path.clone(), false, what)?;
                }
                self.attributes(&path, false, &a, &b)
            }
            (Entry::Ahead { .. }, Entry::Ahead { .. }) => Ok(()),
            (a, b) => {
                self.leave_out(&a, &b)?;
                if let (true, Some(level)) = (
                    [&a, &b].iter().any(|x| matches!(x, Entry::Ahead { .. })),
                    self.levels.last_mut(),
                ) {
                    level.told.insert(name.as_bytes().to_vec());
                }
                self.kinds(dir.join(name), &a, &b)
            }
        }
    }

    /// Whether two things are of the same kind, which is all that is compared of them.
    fn kinds(&mut self, path: PathBuf, a: &Entry, b: &Entry) -> Result<(), StoreError> {
        let is_dir = false;
        match (EntryKind::of(a), EntryKind::of(b)) {
            (Some(a), Some(b)) if a == b => {
                lock(&self.shared.tally).others += 1;
                Ok(())
            }
            (Some(a), Some(b)) => self.tell(path, is_dir, DifferenceKind::Kind { a, b }),
            (a, b) => {
                let (a, b) = (a.is_none(), b.is_none());
                self.tell(path, is_dir, DifferenceKind::Unread { a, b })
            }
        }
    }

    fn files(
        &mut self,
        dir: &Arc<PathBuf>,
        name: &OsStr,
        (size_a, size_b): (u64, u64),
        (a, b): (&Meta, &Meta),
        (link_a, link_b): (Option<u64>, Option<u64>),
    ) -> Result<(), StoreError> {
        let options = &self.shared.options;
        let admitted = options.admits(size_a, a.mtime.secs) || options.admits(size_b, b.mtime.secs);
        let hashed = admitted && options.checksum && size_a == size_b && size_a > 0;
        // What the other thread waits for before what the sides do.
        if hashed {
            lock(&self.shared.tally).wanted_bytes += size_a;
            self.push(Item::Hashes {
                dir: Arc::clone(dir),
                name: name.to_owned(),
                size: size_a,
            })?;
        }
        for side in &mut self.sides {
            side.answer(hashed)?;
        }
        if !admitted {
            return Ok(());
        }
        let path = dir.join(name);
        if !hashed {
            lock(&self.shared.tally).files += 1;
        }
        if size_a != size_b {
            let (a, b) = (size_a, size_b);
            self.tell(path.clone(), false, DifferenceKind::Size { a, b })?;
        }
        self.attributes(&path, false, a, b)?;
        if !options.checksum && !options.archive {
            self.time(&path, false, a, b)?;
        }
        let index = self.files;
        self.files += 1;
        let [side_a, side_b] = &mut self.sides;
        if side_a.twin(link_a, index) != side_b.twin(link_b, index) {
            self.tell(path, false, DifferenceKind::HardLinks)?;
        }
        Ok(())
    }

    /// What `-a` compares.
    fn attributes(
        &mut self,
        path: &Path,
        is_dir: bool,
        a: &Meta,
        b: &Meta,
    ) -> Result<(), StoreError> {
        if !self.shared.options.archive {
            return Ok(());
        }
        // A side that has no owners may not show more than permissions.
        let shown = a.owner.is_some() && b.owner.is_some();
        let compared = if shown { 0o7777 } else { 0o777 };
        let mut tell = |what| self.tell(path.to_path_buf(), is_dir, what);
        if a.mode & compared != b.mode & compared {
            let (a, b) = (a.mode, b.mode);
            tell(DifferenceKind::Mode { a, b })?;
        }
        self.time(path, is_dir, a, b)?;
        let owners = (
            a.owner.map(|owner| self.sides[0].owner(owner)),
            b.owner.map(|owner| self.sides[1].owner(owner)),
        );
        if let (Some(a), Some(b)) = owners
            && !(is_same(&a.user, &b.user) && is_same(&a.group, &b.group))
        {
            self.tell(path.to_path_buf(), is_dir, DifferenceKind::Owner { a, b })?;
        }
        let (a, b) = (self.sides[0].attributes(a), self.sides[1].attributes(b));
        if shown && a != b {
            let differ = |x: &Xattrs, y: &Xattrs| {
                let only = x.iter().filter(|pair| !y.contains(pair));
                only.map(|(name, _)| name.clone()).collect::<Vec<_>>()
            };
            let mut names = [differ(&a, &b), differ(&b, &a)].concat();
            names.sort();
            names.dedup();
            self.tell(
                path.to_path_buf(),
                is_dir,
                DifferenceKind::Attributes(names),
            )?;
        }
        Ok(())
    }

    fn time(&mut self, path: &Path, is_dir: bool, a: &Meta, b: &Meta) -> Result<(), StoreError> {
        if a.mtime.is_held_as(b.mtime, self.shared.options.checksum) {
            return Ok(());
        }
        let pair = |stamp: Stamp| (stamp.secs, stamp.nanos);
        let (a, b) = (pair(a.mtime), pair(b.mtime));
        self.tell(path.to_path_buf(), is_dir, DifferenceKind::Time { a, b })
    }

    fn tell(
        &mut self,
        path: PathBuf,
        is_dir: bool,
        what: DifferenceKind,
    ) -> Result<(), StoreError> {
        let path = path.into_os_string().into_vec();
        self.push(Item::Found(Difference { path, is_dir, what }))
    }

    fn push(&mut self, item: Item) -> Result<(), StoreError> {
        if self.shared.items.is_full() {
            self.flush()?;
        }
        let pushed = self.shared.items.push(item);
        pushed.map_err(|_| StoreError::Aborted)
    }
}

/// Where an entry stands in its directory: what is named, directories, the end.
fn place(entry: &Entry) -> (u8, &[u8]) {
    match entry {
        Entry::Dir { name, .. } => (1, name),
        Entry::Up { .. } | Entry::End { .. } => (2, b""),
        entry => (0, name_of(entry)),
    }
}

fn name_of(entry: &Entry) -> &[u8] {
    match entry {
        Entry::Dir { name, .. }
        | Entry::File { name, .. }
        | Entry::Symlink { name, .. }
        | Entry::Link { name, .. }
        | Entry::Kept { name }
        | Entry::Other { name, .. }
        | Entry::Ahead { name } => name,
        _ => b"",
    }
}

/// By name where both have one: the numbers of two machines mean nothing to each other.
fn is_same(a: &(u32, Option<Vec<u8>>), b: &(u32, Option<Vec<u8>>)) -> bool {
    match (&a.1, &b.1) {
        (Some(a), Some(b)) => a == b,
        _ => a.0 == b.0,
    }
}
