//! Where the bytes of a lease come over the network, and what is known of them: so that a lost connection, or a mover that was killed, is gone on with.
//!
//! ```text
//! 7/come-2    what has come of lease 7 in epoch 2; locked by who writes to it
//! 7/held-2    which groups of it are there and right: index and value of each, and a hash of all that
//! ```
//!
//! Nothing of it is synced: a group counts if the file gives back what its value is of. Nor is the lock believed, which is of one host alone on
//! some file systems: whoever lands compares what the file has then with what it was told when it came.

use super::beneath::lock;
use super::room::Room;
use howdah_store::GroupValue;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

/// Of what is known of one, in bytes: that of 6 TiB.
const HELD_MAX: u64 = 256 << 20;
/// Of a group in it.
const ENTRY: usize = 8 + 32;

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
}

fn come(lease: u64, epoch: u64) -> PathBuf {
    PathBuf::from(format!("{lease}/come-{epoch}"))
}

fn held(lease: u64, epoch: u64) -> String {
    format!("{lease}/held-{epoch}")
}

/// What is there of that lease, in this epoch or in one before, for who begins it in this one.
pub(crate) fn come_of(room: &Room, lease: u64, epoch: u64) -> Come {
    // What cannot be gone on with is begun anew.
    find(room, lease, epoch).unwrap_or(Come::Nowhere)
}

fn find(room: &Room, lease: u64, epoch: u64) -> io::Result<Come> {
    let (at, name) = (room.at(), come(lease, epoch));
    match at.make_dir(&PathBuf::from(lease.to_string())) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
        _ => {}
    }
    // Locked, and the one that has the name.
    let locked = |file: File, name: &PathBuf| -> io::Result<Option<File>> {
        if !lock(&file)? {
            return Ok(None);
        }
        let is_it = at.look(name)?.inode == file.metadata()?.ino();
        Ok(is_it.then_some(file))
    };
    let here = |file: Option<File>| {
        file.map_or(Come::Busy, |file| {
            let held = known(room, lease, epoch);
            Come::Here(Scratch { file, held })
        })
    };
    match at.write(&name) {
        Ok(file) => return locked(file, &name).map(here),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        Err(e) => return Err(e),
    }
    // Of a run that has ended: its epoch is over.
    let earlier = room.epochs(lease, "come-").unwrap_or_default();
    for before in earlier.into_iter().rev().filter(|before| *before < epoch) {
        let old = come(lease, before);
        let Ok(Some(file)) = at.write(&old).and_then(|file| locked(file, &old)) else {
            continue;
        };
        if at.rename_new(&old, at, &name).is_ok() {
            let (old, new) = (held(lease, before), held(lease, epoch));
            let _ = at.rename(old.as_ref(), at, new.as_ref());
            forget_before(room, lease, before);
            return Ok(here(Some(file)));
        }
    }
    match at.create(&name, 0o600) {
        Ok(file) => locked(file, &name).map(here),
        // Somebody else was first.
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(Come::Busy),
        Err(e) => Err(e),
    }
}

/// What has come in earlier epochs than that is no use any more, unless somebody still writes to it.
fn forget_before(room: &Room, lease: u64, epoch: u64) {
    let earlier = room.epochs(lease, "come-").unwrap_or_default();
    for before in earlier.into_iter().filter(|before| *before < epoch) {
        let name = come(lease, before);
        let file = room.at().write(&name);
        if file.is_ok_and(|file| lock(&file).unwrap_or(false)) {
            let _ = room.at().remove_file(&name);
            let _ = room.at().remove_file(held(lease, before).as_ref());
        }
    }
}

/// Groups that were right; none if nobody knows.
fn known(room: &Room, lease: u64, epoch: u64) -> Vec<GroupValue> {
    let name = held(lease, epoch);
    let text = room.at().content(name.as_ref(), HELD_MAX);
    decode(&text.unwrap_or_default()).unwrap_or_default()
}

fn decode(text: &[u8]) -> Option<Vec<GroupValue>> {
    let (entries, check) = text.split_last_chunk::<32>()?;
    if blake3::hash(entries) != *check || !entries.len().is_multiple_of(ENTRY) {
        return None;
    }
    let entry = |entry: &[u8]| {
        let (index, value) = entry.split_first_chunk::<8>()?;
        Some((u64::from_le_bytes(*index), value.try_into().ok()?))
    };
    entries.chunks_exact(ENTRY).map(entry).collect()
}

fn encode(groups: &[GroupValue]) -> Vec<u8> {
    let mut text = Vec::with_capacity(groups.len() * ENTRY + 32);
    for (index, value) in groups {
        text.extend(index.to_le_bytes());
        text.extend(value);
    }
    let check = blake3::hash(&text);
    text.extend(check.as_bytes());
    text
}

/// Writes down which groups are there and right. What cannot be written down comes again.
pub(crate) fn keep(room: &Room, (lease, epoch): (u64, u64), groups: &[GroupValue]) {
    // A lease that somebody else has moved needs it no more.
    if room.at().has(come(lease, epoch)) {
        let _ = room.write(&held(lease, epoch), &encode(groups));
    }
}

/// What has come in this epoch is no use to anybody.
pub(crate) fn drop_come(room: &Room, lease: u64, epoch: u64) {
    let _ = room.at().remove_file(&come(lease, epoch));
    let _ = room.at().remove_file(held(lease, epoch).as_ref());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_torn_or_wrong_is_nothing() {
        let groups = vec![(0, [1; 32]), (7, [2; 32]), (u64::MAX, [3; 32])];
        let text = encode(&groups);
        assert_eq!(decode(&text), Some(groups));
        assert_eq!(decode(&encode(&[])), Some(Vec::new()));
        for cut in 0..text.len() {
            assert_eq!(decode(&text[..cut]), None, "{cut}");
        }
        for at in 0..text.len() {
            let mut wrong = text.clone();
            wrong[at] ^= 1;
            assert_eq!(decode(&wrong), None, "{at}");
        }
    }
}
