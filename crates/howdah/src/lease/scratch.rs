//! Where the bytes of a lease come over the network, and what is known of them: so that a lost connection, or a mover that was killed, is gone on with.
//!
//! ```text
//! 7/come-2    what has come of lease 7 in epoch 2; locked by who writes to it
//! 7/held-2    which groups of it were right when they came: index and value of each, and a part of a hash of that and of the plan
//! ```
//!
//! Nothing of it is synced: a group counts if the file gives back what its value is of. Nor is the lock believed, which is of one host alone on
//! some file systems: whoever lands compares each group that it takes out of the file with what was told when that came.

use super::beneath::{self, lock};
use super::room::Room;
use howdah_lease::{Lease, Plan, Planned};
use howdah_store::GroupValue;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// Of what is known of one, in bytes: that of 5 TiB.
const HELD_MAX: u64 = 256 << 20;
/// A group in it, and that with a part of its hash, in bytes.
const ENTRY: usize = 8 + 32;
const NOTE: usize = ENTRY + 8;

/// What there is to write to.
#[derive(Debug)]
pub(crate) enum Come {
    /// A file with what has come already.
    Here(Scratch),
    /// Somebody else writes to it.
    Busy,
    /// None: this file system does not have what it takes.
    Nowhere,
}

/// What has come of a lease.
#[derive(Debug)]
pub(crate) struct Scratch {
    /// Locked.
    pub(crate) file: File,
    /// Groups that were right.
    pub(crate) held: Vec<GroupValue>,
    /// Where others are noted. Open: what talks to the network makes no files.
    pub(crate) notes: File,
}

/// What comes of a lease in an epoch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept {
    lease: u64,
    epoch: u64,
    /// What is noted of it is of this plan and lease: of another version the same groups are others.
    key: [u8; 32],
}

fn held(lease: u64, epoch: u64) -> String {
    format!("{lease}/held-{epoch}")
}

impl Kept {
    /// Of a lease of `plan`.
    pub(crate) fn new(plan: &Plan, lease: &Lease, epoch: u64) -> Self {
        let lease = lease.id;
        let plan = Planned::File(plan.clone()).encode();
        let key = blake3::Hasher::new()
            .update(&lease.to_le_bytes())
            .update(plan.as_bytes())
            .finalize();
        let key = *key.as_bytes();
        Self { lease, epoch, key }
    }

    fn come_in(&self, epoch: u64) -> PathBuf {
        PathBuf::from(format!("{}/come-{epoch}", self.lease))
    }

    /// What is there of it, in this epoch or in one before, for who begins it in this one.
    pub(crate) fn find(&self, room: &Room) -> Come {
        // What cannot be gone on with is begun anew.
        self.find_or_make(room).unwrap_or(Come::Nowhere)
    }

    fn find_or_make(&self, room: &Room) -> io::Result<Come> {
        let (at, name) = (room.at(), self.come_in(self.epoch));
        room.make_lease_dir(self.lease)?;
        match at.write(&name) {
            Ok(file) => return self.opened(room, locked(room, file, &name)?),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
        // Of a run that has ended: its epoch is over.
        let earlier = room.epochs(self.lease, "come-").unwrap_or_default();
        let earlier = earlier.into_iter().rev();
        for before in earlier.filter(|before| *before < self.epoch) {
            let old = self.come_in(before);
            let file = at.write(&old).and_then(|file| locked(room, file, &old));
            let Ok(Some(file)) = file else {
                continue;
            };
            if at.rename_new(&old, at, &name).is_ok() {
                let (old, new) = (held(self.lease, before), held(self.lease, self.epoch));
                let _ = at.rename(old.as_ref(), at, new.as_ref());
                self.forget_before(room, before);
                return self.opened(room, Some(file));
            }
        }
        match at.create(&name, 0o600) {
            Ok(file) => {
                let file = locked(room, file, &name);
                if file.is_err() {
                    // There are no locks: nobody could tell whether it is over.
                    let _ = at.remove_file(&name);
                }
                self.opened(room, file?)
            }
            // Somebody else was first.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(Come::Busy),
            Err(e) => Err(e),
        }
    }

    /// What has come in earlier epochs than that is no use any more, unless somebody still writes to it.
    fn forget_before(&self, room: &Room, epoch: u64) {
        let earlier = room.epochs(self.lease, "come-").unwrap_or_default();
        for before in earlier.into_iter().filter(|before| *before < epoch) {
            let name = self.come_in(before);
            let file = room.at().write(&name);
            if file.is_ok_and(|file| lock(&file).unwrap_or(false)) {
                let _ = room.at().remove_file(&name);
                let _ = room.at().remove_file(held(self.lease, before).as_ref());
            }
        }
    }

    /// With what is known of it; `None`: it is somebody else's.
    fn opened(&self, room: &Room, file: Option<File>) -> io::Result<Come> {
        let Some(file) = file else {
            return Ok(Come::Busy);
        };
        let name = held(self.lease, self.epoch);
        let notes = match room.at().write(name.as_ref()) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                room.at().create(name.as_ref(), 0o600)?
            }
            notes => notes?,
        };
        let text = beneath::bounded(notes.try_clone()?, HELD_MAX).unwrap_or_default();
        let held = decode(&self.key, &text);
        Ok(Come::Here(Scratch { file, held, notes }))
    }

    /// Writes down which groups are there and right. What cannot be written down comes again.
    pub(crate) fn keep(&self, notes: &File, groups: &[GroupValue]) {
        let write = || -> io::Result<()> {
            // One that was torn is written over.
            let len = notes.metadata()?.len();
            let end = len - len % NOTE as u64;
            notes.write_all_at(&encode(&self.key, groups), end)
        };
        let _ = write();
    }

    /// It is no use to anybody.
    pub(crate) fn forget(&self, room: &Room) {
        let _ = room.at().remove_file(&self.come_in(self.epoch));
        let _ = room.at().remove_file(held(self.lease, self.epoch).as_ref());
    }
}

/// Locked, if it is still the one that has the name.
fn locked(room: &Room, file: File, name: &Path) -> io::Result<Option<File>> {
    if !lock(&file)? {
        return Ok(None);
    }
    let is_it = room.at().look(name)?.inode == file.metadata()?.ino();
    Ok(is_it.then_some(file))
}

/// The lease is in its place: what has come of it in any epoch goes.
pub(crate) fn clear(room: &Room, lease: u64) {
    for (kind, prefix) in [("come", "come-"), ("held", "held-")] {
        for epoch in room.epochs(lease, prefix).unwrap_or_default() {
            let _ = room
                .at()
                .remove_file(format!("{lease}/{kind}-{epoch}").as_ref());
        }
    }
}

/// What the file of notes says of that plan and lease. What is torn or of something else says nothing.
fn decode(key: &[u8; 32], text: &[u8]) -> Vec<GroupValue> {
    let note = |note: &[u8]| {
        let (entry, check) = note.split_first_chunk::<ENTRY>()?;
        let (index, value) = entry.split_first_chunk::<8>()?;
        let is_right = blake3::keyed_hash(key, entry).as_bytes().starts_with(check);
        is_right.then_some((u64::from_le_bytes(*index), value.try_into().ok()?))
    };
    text.chunks_exact(NOTE).filter_map(note).collect()
}

fn encode(key: &[u8; 32], groups: &[GroupValue]) -> Vec<u8> {
    let mut text = Vec::with_capacity(groups.len() * NOTE);
    for (index, value) in groups {
        let begin = text.len();
        text.extend(index.to_le_bytes());
        text.extend(value);
        let check = blake3::keyed_hash(key, &text[begin..]);
        text.extend(&check.as_bytes()[..NOTE - ENTRY]);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_torn_or_wrong_or_of_something_else_is_nothing() {
        let groups = vec![(0, [1; 32]), (7, [2; 32]), (u64::MAX, [3; 32])];
        let key = [9; 32];
        let text = encode(&key, &groups);
        assert_eq!(decode(&key, &text), groups);
        assert_eq!(decode(&[8; 32], &text), []);
        for cut in 0..text.len() {
            let whole = cut / NOTE;
            assert_eq!(decode(&key, &text[..cut]), groups[..whole], "{cut}");
        }
        for at in 0..text.len() {
            let mut wrong = text.clone();
            wrong[at] ^= 1;
            let mut others = groups.clone();
            others.remove(at / NOTE);
            assert_eq!(decode(&key, &wrong), others, "{at}");
        }
    }

    #[test]
    fn notes_are_written_behind_what_is_there_and_over_what_is_torn() {
        let kept = Kept {
            lease: 7,
            epoch: 2,
            key: [9; 32],
        };
        let notes = tempfile::tempfile().unwrap();
        let group = |index| (index, [3; 32]);
        kept.keep(&notes, &[group(0), group(1)]);
        notes.set_len(2 * NOTE as u64 - 1).unwrap();
        kept.keep(&notes, &[group(2)]);
        kept.keep(&notes, &[group(3), group(4)]);
        let mut text = vec![0; 4 * NOTE];
        notes.read_exact_at(&mut text, 0).unwrap();
        let held = decode(&kept.key, &text);
        assert_eq!(held, [group(0), group(2), group(3), group(4)]);
        assert_eq!(notes.metadata().unwrap().len(), 4 * NOTE as u64);
    }

    /// The same plan in all but the version of its source, and another lease of the same plan.
    #[test]
    fn plans_and_leases_have_keys_of_their_own() {
        let plan = |ctime| {
            let version = howdah_lease::Version {
                size: 3 << 20,
                mtime: (1, 0),
                ctime,
                inode: 1,
            };
            Plan::new("p".into(), "s".into(), "d".into(), version, 1 << 20).unwrap()
        };
        let key = |ctime, lease| {
            let plan = plan(ctime);
            Kept::new(&plan, &plan.lease(lease).unwrap(), 1).key
        };
        assert_eq!(key((1, 0), 0), key((1, 0), 0));
        assert_ne!(key((1, 0), 0), key((1, 1), 0));
        assert_ne!(key((1, 0), 0), key((1, 0), 1));
    }
}
