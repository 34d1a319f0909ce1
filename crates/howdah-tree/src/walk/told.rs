//! What is told goes into the manifest in its order, behind the hashes that it waits for.

use super::super::bounds::PACKED_MAX;
use super::super::hashing::Hashers;
use super::super::meta;
use super::super::names::kind;
use super::super::queue::lock;
use super::super::sent::SentFiles;
use super::super::source_dir::SourceDir;
use super::item::{ManifestItem, Offered};
use super::{Gone, PATIENCE, Walker};
use howdah_session::entry::{Entry, Meta, bounds};
use howdah_store::{StoreError, unwritable};
use rustix::fd::OwnedFd;
use rustix::fs::{FileType, Stat};
use std::ffi::OsStr;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Mutex;
use std::time::Instant;

impl<'a> Walker<'a> {
    /// What this side is to be told goes there.
    pub(crate) fn telling(mut self, sent: &'a Mutex<SentFiles>) -> Self {
        self.sent = Some(sent);
        self
    }

    /// What its `stat` tells, as far as it may be shown.
    pub(super) fn meta_of(&self, stat: &Stat) -> Meta {
        let mut meta = meta::of_stat(stat, self.options.archive);
        self.shows
            .show(&mut meta, kind(stat) == FileType::Directory);
        meta
    }

    /// The bytes of a file: for a comparison those that reading gives, where the kernel makes them and says something else.
    #[allow(
        clippy::unnecessary_cast,
        clippy::cast_lossless,
        reason = "the field's type differs between systems"
    )]
    pub(super) fn size(
        &self,
        fd: &OwnedFd,
        dir: &SourceDir,
        name: &[u8],
        stat: &Stat,
    ) -> Result<u64, StoreError> {
        if !self.compares || stat.st_blocks > 0 || !unwritable::is_view(fd) {
            return Ok(stat.st_size as u64);
        }
        let path = dir.path.join(OsStr::from_bytes(name));
        let file = dir.root.open_plain(&path)?;
        let read = io::copy(&mut file.take(PACKED_MAX + 1), &mut io::sink());
        let read = read.map_err(|e| StoreError::from_io(&path, "read", e))?;
        if read > PACKED_MAX {
            let why = "the kernel makes more of it than can be compared";
            return Err(StoreError::other(&path, "compare", why));
        }
        Ok(read)
    }

    /// In a dry run, which reads nothing: why that file could not be read.
    pub(super) fn unread(&self, dir: &SourceDir, name: &[u8]) -> Option<Box<StoreError>> {
        if self.compares || !self.options.dry_run {
            return None;
        }
        let path = dir.path.join(OsStr::from_bytes(name));
        dir.root.open_plain(&path).err().map(Box::new)
    }

    /// Says once what a user or group is called.
    pub(super) fn learn_owner(&mut self, meta: &Meta) -> Result<(), Gone> {
        let owner = meta.owner.iter();
        let owner = owner.flat_map(|&(user, group)| [(false, user), (true, group)]);
        for (is_group, id) in owner.chain(meta::named_in_acls(&meta.xattrs)) {
            if self.owners.len() < bounds::OWNERS
                && self.owners.insert((is_group, id))
                && let Some(name) = meta::owner_name(is_group, id)
            {
                self.put(Entry::Owner {
                    group: is_group,
                    id,
                    name,
                })?;
            }
        }
        Ok(())
    }

    /// Tells of further names to whoever wants to hear of everything on this side.
    pub(super) fn tell_further(&self, dir: &SourceDir, called: &[u8]) {
        if let Some(sent) = self.sent.filter(|_| self.options.tells_all) {
            lock(sent).keep(dir.below.join(OsStr::from_bytes(called)));
        }
    }

    pub(super) fn put(&mut self, entry: Entry) -> Result<(), Gone> {
        if self.line.is_empty() {
            return Ok(self.manifest.put(&entry)?);
        }
        self.line.push_back(ManifestItem::Entry(entry));
        let ahead = self.hashers.as_ref().map_or(0, Hashers::ahead);
        self.tell(ahead)
    }

    /// A file that may be asked for from now on.
    pub(super) fn offer(&mut self, entry: &Entry, offered: Offered) -> Result<(), Gone> {
        if offered.unread.is_some() {
            self.manifest.put(&Entry::Unread)?;
        }
        self.manifest.put(entry)?;
        if self.offered.is_full() {
            self.flush()?;
        }
        self.offered.push(offered).map_err(|_| Gone)
    }

    /// Tells what is known, and waits for hashes while more than `waiting` entries wait in line.
    pub(super) fn tell(&mut self, waiting: usize) -> Result<(), Gone> {
        while let Some(next) = self.line.pop_front() {
            let (mut entry, offered, hash) = match next {
                ManifestItem::Entry(entry) => {
                    self.manifest.put(&entry)?;
                    continue;
                }
                ManifestItem::File {
                    entry,
                    offered,
                    hash,
                } => (entry, offered, hash),
            };
            let outcome = if self.line.len() >= waiting {
                // What has been told leaves meanwhile.
                let patience = PATIENCE.saturating_sub(self.flushed.elapsed());
                if let Some(outcome) = hash.wait_for(patience) {
                    outcome
                } else {
                    self.flush()?;
                    hash.wait()
                }
            } else if let Some(outcome) = hash.poll() {
                outcome
            } else {
                let told = ManifestItem::File {
                    entry,
                    offered,
                    hash,
                };
                self.line.push_front(told);
                return Ok(());
            };
            match (outcome, &mut entry) {
                (Ok(found), Entry::File { hash, .. }) => {
                    *hash = Some(found);
                    self.offer(&entry, offered)?;
                }
                (Err(error), Entry::File { name, .. }) => {
                    let name = std::mem::take(name);
                    self.unreadable(&offered.dir.shown(&offered.name), &error);
                    self.manifest.put(&Entry::Kept { name })?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    pub(super) fn flush(&mut self) -> Result<(), Gone> {
        self.flushed = Instant::now();
        Ok(self.manifest.flush()?)
    }
}
