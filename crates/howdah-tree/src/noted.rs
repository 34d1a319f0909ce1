//! What the source has named in a directory, where that is too much for the memory: in a file that has no name.

use super::firsts::nameless;
use super::names::{PART_BYTES, Part};
use howdah_store::Root;
use howdah_store::stale;
use rustix::fd::OwnedFd;
use rustix::fs::AtFlags;
use rustix::io::Errno;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What is written at once.
const BLOCK_BYTES: usize = if cfg!(test) { 64 } else { 16 << 10 };
/// Of the whole file: some hundred million names, which nobody has by accident.
const FILE_BYTES: u64 = 4 << 30;
/// Names that are looked for once more at a time.
const SUSPECTS: usize = if cfg!(test) { 2 } else { 4096 };

/// The file, for all directories of a copy.
#[derive(Debug)]
pub(crate) struct Spool {
    file: File,
    end: AtomicU64,
}

impl Spool {
    /// Near that place below the root.
    pub(crate) fn new(root: &Root, at: &Path) -> Result<Arc<Self>, Errno> {
        Ok(Arc::new(Self {
            file: nameless((root, at))?,
            end: AtomicU64::new(0),
        }))
    }

    /// Where it stands then.
    fn put(&self, bytes: &[u8]) -> io::Result<u64> {
        let at = self.end.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        if at > FILE_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.file.write_all_at(bytes, at)?;
        Ok(at)
    }
}

/// Names in the order in which a manifest has them: sorted, and sorted anew where its directories begin.
#[derive(Debug)]
pub(crate) struct Noted {
    spool: Arc<Spool>,
    /// Where the blocks of each sorted run stand, and how long they are.
    runs: Vec<Vec<(u64, usize)>>,
    /// Of the last run, and not written: a length of two bytes and the name, each.
    waiting: Vec<u8>,
    last: Vec<u8>,
    failed: Option<io::Error>,
}

impl Noted {
    pub(crate) fn new(spool: Arc<Spool>) -> Self {
        Self {
            spool,
            runs: vec![Vec::new()],
            waiting: Vec::new(),
            last: Vec::new(),
            failed: None,
        }
    }

    pub(crate) fn push(&mut self, name: &[u8]) {
        if self.failed.is_some() {
            return;
        }
        if name < &*self.last {
            self.write();
            self.runs.push(Vec::new());
        }
        name.clone_into(&mut self.last);
        let len = name.len().min(usize::from(u16::MAX));
        self.waiting.extend((len as u16).to_le_bytes());
        self.waiting.extend(&name[..len]);
        if self.waiting.len() >= BLOCK_BYTES {
            self.write();
        }
    }

    fn write(&mut self) {
        let block = std::mem::take(&mut self.waiting);
        if block.is_empty() {
            return;
        }
        match self.spool.put(&block) {
            Ok(at) => {
                if let Some(run) = self.runs.last_mut() {
                    run.push((at, block.len()));
                }
            }
            Err(e) => self.failed = Some(e),
        }
    }

    /// No more come.
    pub(crate) fn finish(mut self) -> io::Result<Seen> {
        self.write();
        match self.failed {
            Some(e) => Err(e),
            None => Ok(Seen {
                spool: self.spool,
                runs: self.runs,
            }),
        }
    }
}

/// All of them.
#[derive(Debug)]
pub(crate) struct Seen {
    spool: Arc<Spool>,
    runs: Vec<Vec<(u64, usize)>>,
}

impl Seen {
    /// Calls `each` with the names in that directory that are not among them, until it fails.
    pub(crate) fn each_other(
        &self,
        dir: &OwnedFd,
        each: &mut dyn FnMut(&[u8]),
    ) -> Result<(), Errno> {
        let mut runs = self.open();
        each_part(dir, |part, _| {
            for (name, _) in part.all() {
                let mut is_seen = false;
                for run in &mut runs {
                    while run.name()?.is_some_and(|seen| seen < name) {
                        run.pass();
                    }
                    is_seen |= run.name()? == Some(name);
                }
                if !is_seen {
                    each(name);
                }
            }
            Ok(())
        })
    }

    /// Whether the disk has one of them and lists it under another name.
    pub(crate) fn is_respelt(&self, dir: &OwnedFd) -> Result<bool, Errno> {
        let mut runs = self.open();
        let mut suspects = Suspects(HashSet::new());
        let mut found = false;
        each_part(dir, |part, is_last| {
            let end = part.last();
            for run in &mut runs {
                while let Some(name) = run.name()? {
                    if !is_last && end.is_none_or(|end| name > end) {
                        break;
                    }
                    if part.names.find(name).is_none() {
                        found |= suspects.look(dir, name)?;
                    }
                    run.pass();
                }
            }
            Ok(())
        })?;
        Ok(found || suspects.are_respelt(dir)?)
    }

    fn open(&self) -> Vec<Run<'_>> {
        let open = |blocks| Run {
            file: &self.spool.file,
            blocks,
            block: Vec::new(),
            at: 0,
        };
        self.runs.iter().map(|blocks| open(blocks)).collect()
    }
}

/// Reads one run from its beginning.
struct Run<'a> {
    file: &'a File,
    blocks: &'a [(u64, usize)],
    block: Vec<u8>,
    at: usize,
}

impl Run<'_> {
    /// The next name.
    fn name(&mut self) -> Result<Option<&[u8]>, Errno> {
        if self.at >= self.block.len() {
            let Some((&(at, len), rest)) = self.blocks.split_first() else {
                return Ok(None);
            };
            self.blocks = rest;
            self.at = 0;
            self.block.resize(len, 0);
            let read = self.file.read_exact_at(&mut self.block, at);
            read.map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))?;
        }
        let len = self.len();
        Ok(self.block.get(self.at + 2..self.at + 2 + len))
    }

    fn pass(&mut self) {
        self.at += 2 + self.len();
    }

    fn len(&self) -> usize {
        let len = self.block.get(self.at..).and_then(<[u8]>::first_chunk);
        len.map_or(0, |len| usize::from(u16::from_le_bytes(*len)))
    }
}

/// Names that are there and were not in the list: since then somebody may have made them.
struct Suspects(HashSet<Vec<u8>>);

impl Suspects {
    fn look(&mut self, dir: &OwnedFd, name: &[u8]) -> Result<bool, Errno> {
        match rustix::fs::statat(dir, OsStr::from_bytes(name), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => {
                self.0.insert(name.to_vec());
            }
            // Not there, or no name that this disk could have.
            Err(Errno::NOENT | Errno::NAMETOOLONG | Errno::INVAL | Errno::ILSEQ) => {}
            Err(e) => return Err(e),
        }
        Ok(self.0.len() >= SUSPECTS && self.are_respelt(dir)?)
    }

    /// Whether one of them is still not in the list.
    fn are_respelt(&mut self, dir: &OwnedFd) -> Result<bool, Errno> {
        if !self.0.is_empty() {
            super::names::read_names(dir, |name, _| {
                self.0.remove(name);
            })?;
        }
        let are_some = !self.0.is_empty();
        self.0.clear();
        Ok(are_some)
    }
}

/// A directory part by part; the last one is marked.
pub(super) fn each_part(
    dir: &OwnedFd,
    mut each: impl FnMut(&Part, bool) -> Result<(), Errno>,
) -> Result<(), Errno> {
    let mut after: Option<Vec<u8>> = None;
    loop {
        let part = Part::read(dir, after.as_deref(), PART_BYTES, |_, _| Some(0));
        if let Some(e) = part.error {
            return Err(e);
        }
        after = part.next();
        each(&part, after.is_none())?;
        if after.is_none() {
            return Ok(());
        }
    }
}

/// Unfinished files that were in a directory, by what is in their names of those of their targets.
#[derive(Debug, Default)]
pub(crate) struct Unfinished {
    by_target: std::collections::HashMap<Vec<u8>, Vec<Vec<u8>>>,
    bytes: usize,
}

impl Unfinished {
    /// What is kept of each besides its name.
    const EACH: usize = 64;

    /// Whether it is one, and is remembered.
    pub(crate) fn note(&mut self, name: &[u8]) -> bool {
        let Some(target) = stale::target_in(name).filter(|_| self.bytes < PART_BYTES) else {
            return false;
        };
        self.bytes += 2 * name.len() + Self::EACH;
        let of_target = self.by_target.entry(target.to_vec()).or_default();
        of_target.push(name.to_vec());
        true
    }

    /// The next copy of that name goes on with these.
    pub(crate) fn take(&mut self, name: &[u8], room: usize) -> Vec<Vec<u8>> {
        if self.by_target.is_empty() {
            return Vec::new();
        }
        let taken = self.by_target.remove(stale::kept_of(name, room));
        taken.unwrap_or_default()
    }

    /// Whether that name of one is among those that nobody has taken.
    pub(crate) fn has(&self, name: &[u8]) -> bool {
        let of_target = stale::target_in(name).and_then(|target| self.by_target.get(target));
        of_target.is_some_and(|names| names.iter().any(|other| other == name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn t34_what_was_not_named_is_found_however_much_was() {
        let dir = tempfile::tempdir().unwrap();
        let (root, fd) = (
            Root::open(dir.path()).unwrap(),
            OwnedFd::from(File::open(dir.path()).unwrap()),
        );
        let name = |i: u32| format!("{i:06}-{}", "n".repeat(i as usize % 50));
        for i in 0..600 {
            fs::write(dir.path().join(name(i)), "").unwrap();
        }
        let spool = Spool::new(&root, Path::new("")).unwrap();
        // Files, then directories; two at a time, as directories in each other are, and names that are not there.
        let (mut noted, mut other) = (Noted::new(Arc::clone(&spool)), Noted::new(spool));
        for i in (0..900)
            .filter(|i| i % 3 == 0)
            .chain((0..900).filter(|i| i % 3 == 1))
        {
            noted.push(name(i).as_bytes());
            other.push(b"another");
        }
        let seen = noted.finish().unwrap();
        assert_eq!(seen.runs.len(), 2);
        for _ in 0..2 {
            let mut others = Vec::new();
            let found = seen.each_other(&fd, &mut |name| {
                others.push(String::from_utf8(name.to_vec()).unwrap());
            });
            assert_eq!(found, Ok(()));
            let left: Vec<_> = (0..600).filter(|i| i % 3 == 2).map(name).collect();
            assert_eq!(others, left);
            assert_eq!(seen.is_respelt(&fd), Ok(false));
        }
        let mut all = 0;
        other
            .finish()
            .unwrap()
            .each_other(&fd, &mut |_| all += 1)
            .unwrap();
        assert_eq!(all, 600);
        // What the disk answers to and does not list: the directory itself will do.
        let spool = Spool::new(&root, Path::new("")).unwrap();
        let mut noted = Noted::new(spool);
        noted.push(b".");
        assert_eq!(noted.finish().unwrap().is_respelt(&fd), Ok(true));
    }
}
