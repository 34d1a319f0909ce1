//! Where the files are whose further names may come: some in memory, the rest in a file that has no name.

use crate::codec::refused;
use crate::target::{DirState, TargetDir};
use howdah_session::doubts::Doubt;
use howdah_store::stale::temp_name;
use howdah_store::{Root, StoreError};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Of those in memory, at most.
const IN_MEMORY: usize = if cfg!(test) { 256 } else { 65_536 };
/// Of their paths and names.
const BYTES_IN_MEMORY: usize = 8 << 20;
/// The root, and where in it the copy goes.
type Place<'a> = (&'a Root, &'a Path);
/// Link number, where the directory stands, where the name stands.
const RECORD: usize = 24;
/// Of both files on the disk together: some fifty million files with several names, which nobody has by accident.
const BYTES_ON_DISK: u64 = if cfg!(test) { 64 << 20 } else { 4 << 30 };

/// What is known of a first name. A byte on the disk.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub(crate) enum State {
    /// Not in place yet, or it cannot be had.
    Absent,
    /// What has the name stays.
    Stays,
    InPlace,
    /// In a dry run: it would be copied.
    Rewritten,
}

impl State {
    fn from_byte(byte: u8) -> Self {
        let all = [Self::Stays, Self::InPlace, Self::Rewritten];
        let found = all.into_iter().find(|state| *state as u8 == byte);
        found.unwrap_or(Self::Absent)
    }
}

/// The first name of a file that has several.
pub(crate) struct First {
    /// Of its directory.
    pub(crate) path: PathBuf,
    /// There is nothing to look at, as in a dry run.
    pub(crate) is_absent: bool,
    pub(crate) name: OsString,
    pub(crate) state: State,
}

impl First {
    /// What is wrong with it.
    pub(crate) fn doubt(&self) -> Option<Doubt> {
        match self.state {
            State::Absent => Some(Doubt::Absent),
            State::Stays => Some(Doubt::Stays),
            State::InPlace | State::Rewritten => None,
        }
    }
}

/// What is kept of a directory: not the directory itself, which holds its attributes and all that it lies in.
#[derive(Debug, Eq, PartialEq)]
struct Dir {
    path: PathBuf,
    is_absent: bool,
}

#[derive(Debug)]
struct Kept {
    /// Neighbours share it.
    dir: Arc<Dir>,
    name: OsString,
    state: State,
}

impl Kept {
    fn cost(&self) -> usize {
        self.dir.path.as_os_str().len() + self.name.len()
    }
}

/// Link numbers ascend, as the sender counts: so what leaves the memory, the oldest first, is in order on the disk.
pub(crate) struct Firsts {
    /// Of those in memory.
    most: usize,
    memory: BTreeMap<u64, Kept>,
    bytes: usize,
    /// The directory of the last one.
    dir: Option<Arc<Dir>>,
    next: u64,
    spilled: Option<Spilled>,
}

struct Spilled {
    records: File,
    count: u64,
    texts: File,
    end: u64,
}

impl Default for Firsts {
    fn default() -> Self {
        Self::new(IN_MEMORY)
    }
}

impl Firsts {
    fn new(most: usize) -> Self {
        Self {
            most,
            memory: BTreeMap::new(),
            bytes: 0,
            dir: None,
            next: 0,
            spilled: None,
        }
    }

    pub(crate) fn insert(
        &mut self,
        (root, at): Place<'_>,
        link: u64,
        (dir, name): (&TargetDir, OsString),
        state: State,
    ) -> Result<(), StoreError> {
        if link < self.next {
            return Err(refused(
                "two files have the same link number, or it does not ascend",
            ));
        }
        self.next = link
            .checked_add(1)
            .ok_or_else(|| refused("a link number is too large"))?;
        let kept = Kept {
            dir: self.dir_of(dir),
            name,
            state,
        };
        self.bytes += kept.cost();
        self.memory.insert(link, kept);
        if self.memory.len() > self.most || self.bytes > BYTES_IN_MEMORY {
            self.spill((root, at)).map_err(|e| match e {
                Errno::DQUOT => refused(
                    "it has more files with several names than are kept in mind; copy it in parts",
                ),
                e => StoreError::from_io(at, "note the further names for", e),
            })?;
        }
        Ok(())
    }

    fn dir_of(&mut self, dir: &TargetDir) -> Arc<Dir> {
        let is_absent = matches!(dir.state, DirState::Absent | DirState::Broken);
        match &self.dir {
            Some(same) if same.path == dir.path && same.is_absent == is_absent => Arc::clone(same),
            _ => {
                let new = Arc::new(Dir {
                    path: dir.path.clone(),
                    is_absent,
                });
                Arc::clone(self.dir.insert(new))
            }
        }
    }

    /// That is known of it now.
    pub(crate) fn note(
        &mut self,
        (_, at): Place<'_>,
        link: u64,
        state: State,
    ) -> Result<(), StoreError> {
        if let Some(kept) = self.memory.get_mut(&link) {
            kept.state = state;
            return Ok(());
        }
        let spilled = self.spilled.as_ref();
        let noted = spilled.map(|spilled| spilled.note(link, state));
        let noted = noted.transpose().map_err(|e| errno(&e));
        noted.map_err(|e| StoreError::from_io(at, "note a further name for", e))?;
        Ok(())
    }

    /// No further name comes.
    pub(crate) fn remove(&mut self, link: u64) {
        if let Some(kept) = self.memory.remove(&link) {
            self.bytes -= kept.cost();
        }
    }

    pub(crate) fn get(&self, (_, at): Place<'_>, link: u64) -> Result<Option<First>, StoreError> {
        if let Some(kept) = self.memory.get(&link) {
            return Ok(Some(First {
                path: kept.dir.path.clone(),
                is_absent: kept.dir.is_absent,
                name: kept.name.clone(),
                state: kept.state,
            }));
        }
        let found = self.spilled.as_ref().map(|spilled| spilled.get(link));
        let found = found.transpose().map_err(|e| errno(&e));
        let found = found.map_err(|e| StoreError::from_io(at, "look up a further name for", e))?;
        Ok(found.flatten())
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::new(self.most);
    }

    /// The older half goes to the disk.
    fn spill(&mut self, (root, place): Place<'_>) -> Result<(), Errno> {
        let spilled = match &mut self.spilled {
            Some(spilled) => spilled,
            none => none.insert(Spilled {
                records: nameless((root, place))?,
                count: 0,
                texts: nameless((root, place))?,
                end: 0,
            }),
        };
        let (mut records, mut texts) = (Vec::new(), Vec::new());
        let mut last: Option<(Arc<Dir>, u64)> = None;
        let half = self.memory.len().div_ceil(2);
        for _ in 0..half {
            let Some((link, kept)) = self.memory.pop_first() else {
                break;
            };
            count_step();
            self.bytes -= kept.cost();
            let Kept { dir, name, state } = kept;
            let mut put = |flag: u8, text: &[u8]| {
                let at = spilled.end + texts.len() as u64;
                texts.push(flag);
                texts.extend((text.len() as u32).to_le_bytes());
                texts.extend(text);
                at
            };
            let dir_at = match &last {
                Some((same, at)) if Arc::ptr_eq(same, &dir) => *at,
                _ => put(u8::from(dir.is_absent), dir.path.as_os_str().as_bytes()),
            };
            let name_at = put(state as u8, name.as_bytes());
            for number in [link, dir_at, name_at] {
                records.extend(number.to_le_bytes());
            }
            last = Some((dir, dir_at));
        }
        let at = spilled.count * RECORD as u64;
        let bytes = at + spilled.end + (records.len() + texts.len()) as u64;
        if bytes > BYTES_ON_DISK {
            return Err(Errno::DQUOT);
        }
        spilled
            .texts
            .write_all_at(&texts, spilled.end)
            .map_err(|e| errno(&e))?;
        spilled
            .records
            .write_all_at(&records, at)
            .map_err(|e| errno(&e))?;
        spilled.end += texts.len() as u64;
        spilled.count += (records.len() / RECORD) as u64;
        Ok(())
    }
}

impl Spilled {
    fn get(&self, link: u64) -> io::Result<Option<First>> {
        let Some([dir_at, name_at]) = self.find(link)? else {
            return Ok(None);
        };
        let (is_absent, path) = self.text(dir_at)?;
        let (state, name) = self.text(name_at)?;
        Ok(Some(First {
            path: path.into(),
            is_absent: is_absent != 0,
            name,
            state: State::from_byte(state),
        }))
    }

    fn note(&self, link: u64, state: State) -> io::Result<()> {
        match self.find(link)? {
            Some([_, name_at]) => self.texts.write_all_at(&[state as u8], name_at),
            None => Ok(()),
        }
    }

    /// Where its directory and its name stand.
    fn find(&self, link: u64) -> io::Result<Option<[u64; 2]>> {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            count_step();
            let middle = low + (high - low) / 2;
            let mut record = [[0; 8]; 3];
            self.records
                .read_exact_at(record.as_flattened_mut(), middle * RECORD as u64)?;
            let [found, dir_at, name_at] = record.map(u64::from_le_bytes);
            if found == link {
                return Ok(Some([dir_at, name_at]));
            }
            if found < link {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(None)
    }

    fn text(&self, at: u64) -> io::Result<(u8, OsString)> {
        let mut head = [0; 5];
        self.texts.read_exact_at(&mut head, at)?;
        let [flag, len @ ..] = head;
        let mut text = vec![0; u32::from_le_bytes(len) as usize];
        self.texts.read_exact_at(&mut text, at + 5)?;
        Ok((flag, OsString::from_vec(text)))
    }
}

fn errno(e: &io::Error) -> Errno {
    Errno::from_io_error(e).unwrap_or(Errno::IO)
}

/// A file without a name: in the destination if it is there, else as near as can be.
pub(crate) fn nameless((root, at): Place<'_>) -> Result<File, Errno> {
    let found = at.ancestors();
    let dir = found
        .chain([Path::new("")])
        .find_map(|path| root.open_dir(path).ok());
    let dir: OwnedFd = dir.ok_or(Errno::NOENT)?;
    let (flags, mode) = (OFlags::RDWR | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR);
    match rustix::fs::openat(&dir, ".", flags | OFlags::TMPFILE, mode) {
        Ok(fd) => Ok(fd.into()),
        // Not every file system has such files.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT | Errno::INVAL) => {
            let name = temp_name(&dir, OsStr::new("links"));
            let new = flags | OFlags::CREATE | OFlags::EXCL;
            let fd = rustix::fs::openat(&dir, &name, new, mode)?;
            rustix::fs::unlinkat(&dir, &name, AtFlags::empty())?;
            Ok(fd.into())
        }
        Err(e) => Err(e),
    }
}

/// A record that is moved or read, for a peer decides how many there are.
fn count_step() {
    #[cfg(test)]
    tests::STEPS.set(tests::STEPS.get() + 1);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disks::SyncWay;
    use std::cell::Cell;

    thread_local! {
        pub(crate) static STEPS: Cell<u64> = const { Cell::new(0) };
    }

    #[test]
    fn h5_links_of_a_peer_are_little_work_for_each() {
        const LINKS: u64 = 50_000;
        let dir = tempfile::tempdir().unwrap();
        let root = Root::open(dir.path()).unwrap();
        let place = (&root, Path::new(""));
        let target = TargetDir {
            number: None,
            path: "a".into(),
            called: None,
            state: DirState::There,
            sync: SyncWay::Each,
            meta: None,
            finished: Arc::default(),
            early: None,
            parent: None,
        };
        let mut firsts = Firsts::default();
        STEPS.set(0);
        for link in 0..LINKS {
            // With gaps: what is asked for need not be there.
            let first = (&target, "n".into());
            firsts
                .insert(place, 2 * link, first, State::Absent)
                .unwrap();
            firsts.get(place, link * 7_919 % (2 * LINKS)).unwrap();
            firsts.note(place, link, State::InPlace).unwrap();
        }
        let (steps, log) = (STEPS.get(), u64::from(LINKS.ilog2()) + 1);
        let most = LINKS * (1 + 2 * log);
        assert!(steps <= most, "{steps} steps for {LINKS} links");
    }

    #[test]
    fn h5_what_a_manifest_numbers_does_not_stay_in_memory() {
        const STATES: [State; 4] = [
            State::Absent,
            State::Stays,
            State::InPlace,
            State::Rewritten,
        ];
        const MOST: usize = 65_536;
        let dir = tempfile::tempdir().unwrap();
        let root = Root::open(dir.path()).unwrap();
        let place = (&root, Path::new("not/there"));
        let mut firsts = Firsts::new(MOST);
        let dirs = ["a", "b/c"].map(|path| {
            Arc::new(TargetDir {
                number: None,
                path: path.into(),
                called: None,
                state: DirState::There,
                sync: SyncWay::Each,
                meta: None,
                finished: Arc::default(),
                early: None,
                parent: None,
            })
        });
        let first_state = |link: u64| STATES[(link % 4) as usize];
        let dir_of = |link: u64| &dirs[(link / 1000 % 2) as usize];
        for link in 0..300_000 {
            let name = OsString::from(format!("name-{link}"));
            let put = firsts.insert(place, link, (&**dir_of(link), name), first_state(link));
            put.unwrap();
            assert!(firsts.memory.len() <= MOST);
            assert!(firsts.bytes <= BYTES_IN_MEMORY);
        }
        // Nothing of it is to be seen.
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        for link in (0..300_000).step_by(997).chain([299_999]) {
            let first = firsts.get(place, link).unwrap().unwrap();
            assert_eq!(first.path, dir_of(link).path);
            assert_eq!(first.name, OsString::from(format!("name-{link}")));
            assert!(!first.is_absent);
            assert_eq!(first.state, first_state(link));
        }
        assert!(firsts.get(place, 300_000).unwrap().is_none());
        for link in [0, 5, 299_999, u64::MAX] {
            let again = firsts.insert(place, link, (&*dirs[0], "again".into()), State::Absent);
            assert!(again.is_err(), "{link}");
        }
        let long = OsString::from("n".repeat(255));
        for link in 300_000..400_000 {
            let put = firsts.insert(place, link, (&*dirs[1], long.clone()), State::Absent);
            put.unwrap();
            assert!(firsts.bytes <= BYTES_IN_MEMORY);
        }
        // What is known of one later is noted where the name is.
        for link in [3, 299_000, 399_999] {
            for state in STATES {
                let before = firsts.get(place, link - 1).unwrap().unwrap().state;
                firsts.note(place, link, state).unwrap();
                let states = [link, link - 1].map(|link| {
                    let first = firsts.get(place, link).unwrap();
                    first.unwrap().state
                });
                assert_eq!(states, [state, before], "{link}");
            }
        }
        firsts.note(place, u64::MAX, State::InPlace).unwrap();
        // A directory is not held: it holds its attributes.
        assert!(dirs.iter().all(|dir| Arc::strong_count(dir) == 1));
        // Those whose last name has come leave the memory.
        firsts.remove(399_999);
        assert!(firsts.get(place, 399_999).unwrap().is_none());
        // The disk has a bound, too.
        let mut links = 400_000..u64::MAX;
        let error = loop {
            let link = links.next().unwrap();
            if let Err(e) = firsts.insert(place, link, (&*dirs[1], long.clone()), State::Absent) {
                break e;
            }
            assert!(link < 2_000_000, "it has none");
        };
        assert!(error.to_string().contains("in parts"), "{error}");
        firsts.clear();
        assert_eq!((firsts.memory.len(), firsts.bytes), (0, 0));
    }
}
