//! Small files are read in one piece.

use super::bounds::PACKED_MAX;
use super::buffers::Buffers;
use super::names::kind;
use super::sent::Sent;
use super::stamps::modified;
use super::walk::Offered;
use howdah_session::entry::Stamp;
use howdah_store::StoreError;
use howdah_store::identity::Identity;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// A file that changes while it is read is read that often.
const READS: usize = 3;

/// What was read of a file.
#[derive(Debug)]
pub(super) struct Content {
    pub(super) bytes: Vec<u8>,
    pub(super) hash: [u8; 32],
    /// If it is not the manifest's.
    pub(super) mtime: Option<Stamp>,
    pub(super) shown: PathBuf,
    /// Its path below the top, where that counts.
    pub(super) below: Option<PathBuf>,
    /// Its number, and what is to be done when it is in place.
    pub(super) told: Option<(u64, Sent)>,
    /// If it grew while it was read.
    pub(super) grown: bool,
}

/// Reads a whole file, again if somebody writes to it meanwhile. Of one that may grow, what stands there at first, as much as
/// goes into a pack. And the version that was read, if it was all of that.
pub(super) fn read_small(
    file: &Offered,
    growing: bool,
    buffers: &Buffers,
) -> Result<(Content, Option<Identity>), StoreError> {
    let path = file.dir.path.join(&file.name);
    let shown = file.dir.shown(&file.name);
    let open = file.dir.root.open_plain(&path)?;
    for _ in 0..READS {
        let before = Identity::of(&open, &shown)?;
        // Longer by one: the end is seen without more room.
        let mut bytes = buffers.take(before.size().max(file.size).min(PACKED_MAX) as usize + 1);
        read_all(&open, &mut bytes, growing, &shown)?;
        // A small one is not sent as a large one.
        let stood = before.size().min(PACKED_MAX) as usize;
        let generated = |open| {
            howdah_store::is_generated(open).map_err(|e| StoreError::from_io(&shown, "read", e))
        };
        let stat = rustix::fs::fstat(&open);
        let stat = stat.map_err(|e| StoreError::from_io(&shown, "examine", e))?;
        debug_assert!(kind(&stat) == rustix::fs::FileType::RegularFile);
        let after = Identity::new(&stat);
        let mut grown = false;
        if after == before && before.size() <= PACKED_MAX {
            if bytes.len() as u64 != before.size() && !generated(&open)? {
                buffers.put(bytes);
                continue;
            }
        } else if growing && before.may_have_grown_to(&after) && bytes.len() >= stood {
            bytes.truncate(stood);
            grown = after.size() > stood as u64;
        } else {
            buffers.put(bytes);
            continue;
        }
        let now = modified(&stat);
        let content = Content {
            hash: *blake3::hash(&bytes).as_bytes(),
            bytes,
            mtime: (now != file.mtime).then_some(now),
            shown,
            below: None,
            told: None,
            grown,
        };
        let is_whole = before.size() <= PACKED_MAX;
        return Ok((content, is_whole.then_some(before)));
    }
    Err(StoreError::SourceChanged { path: shown })
}

fn read_all(
    mut file: &File,
    bytes: &mut Vec<u8>,
    growing: bool,
    shown: &Path,
) -> Result<(), StoreError> {
    use std::io::Seek as _;
    let failed = |e| StoreError::from_io(shown, "read", e);
    file.rewind().map_err(failed)?;
    let limit = PACKED_MAX + 1;
    file.take(limit).read_to_end(bytes).map_err(failed)?;
    if bytes.len() as u64 > PACKED_MAX && !growing {
        // It was small when it was told; now it needs another way.
        return Err(StoreError::SourceChanged {
            path: shown.to_path_buf(),
        });
    }
    Ok(())
}
