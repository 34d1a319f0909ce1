//! Reads both sides' hashes and tells the differences in their order.

use super::difference::{Difference, DifferenceKind};
use super::{Item, Shared};
use crate::codec::{expect_version, get_varint, refused};
use crate::pipe::PipeReader;
use crate::queue::lock;
use crate::ranges;
use crate::send::{PACK_END, PACK_MISSING, PACK_RANGE};
use howdah_store::StoreError;
use std::io::Read as _;
use std::os::unix::ffi::OsStringExt as _;
use std::sync::mpsc::SyncSender;

pub(super) fn run(
    shared: &Shared,
    mut packs: [PipeReader; 2],
    out: &SyncSender<Difference>,
) -> Result<(), StoreError> {
    for spout in &mut packs {
        expect_version(spout)?;
    }
    while let Some(item) = shared.items.pop() {
        let difference = match item {
            Item::Found(difference) => Some(difference),
            Item::Hashes { dir, name, size } => {
                let what = compare(shared, &mut packs, size)?;
                lock(&shared.tally).files += 1;
                what.map(|what| Difference {
                    path: dir.join(&name).into_os_string().into_vec(),
                    is_dir: false,
                    what,
                })
            }
        };
        if let Some(difference) = difference {
            lock(&shared.tally).add(&difference.what);
            out.send(difference).map_err(|_| StoreError::Aborted)?;
        }
    }
    if shared.error.is_some() {
        return Err(StoreError::Aborted);
    }
    for spout in &mut packs {
        match spout.byte() {
            Ok(PACK_END) => {}
            Ok(_) => return Err(refused("hashes that nobody asked for")),
            Err(_) => return Err(StoreError::Aborted),
        }
    }
    // While the packs are open: whoever feeds them must not take their end for a failure.
    shared.state.finish();
    Ok(())
}

/// A file of that size on both sides.
fn compare(
    shared: &Shared,
    packs: &mut [PipeReader; 2],
    size: u64,
) -> Result<Option<DifferenceKind>, StoreError> {
    let length = ranges::length(size);
    let mut readable = [true; 2];
    let mut different = None;
    for index in 0..ranges::count(size) {
        let start = index * length;
        let end = size.min(start + length);
        let mut found = [None; 2];
        for ((spout, readable), found) in packs.iter_mut().zip(&mut readable).zip(&mut found) {
            // What cannot be read ends there.
            if *readable {
                *found = next(spout)?;
                shared.state.note_move();
                *readable = found.is_some();
            }
        }
        let [Some(a), Some(b)] = found else { continue };
        lock(&shared.tally).bytes += end - start;
        if a != b && different.is_none() {
            different = Some(DifferenceKind::Contents { start, end });
        }
    }
    let [a, b] = readable.map(|readable| !readable);
    if a || b {
        return Ok(Some(DifferenceKind::Unread { a, b }));
    }
    Ok(different)
}

/// The hash of the next range; `None`: this file cannot be read any further.
fn next(spout: &mut PipeReader) -> Result<Option<[u8; 32]>, StoreError> {
    match spout.byte().map_err(|_| StoreError::Aborted)? {
        PACK_RANGE => {
            let mut hash = [0; 32];
            let read = spout.read_exact(&mut hash);
            read.map_err(|_| StoreError::Aborted)?;
            Ok(Some(hash))
        }
        PACK_MISSING if get_varint(spout)? == 0 => Ok(None),
        PACK_END => Err(refused("the hashes end before all have come")),
        kind => Err(refused(format!("hashes with a record of kind {kind}"))),
    }
}
