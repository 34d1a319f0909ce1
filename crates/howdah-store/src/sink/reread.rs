//! Reads a finished file back from the device.

use crate::StoreError;
use crate::durable::{PartFile, forget_pages};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};

/// Bytes per read; a multiple of any device's block.
const BLOCK: usize = 4 << 20;
/// Alignment that direct reading asks for, at most.
const ALIGN: usize = 4_096;

/// The BLAKE3 of what the device gives back. The file must have been synced: otherwise what is
/// not there yet would come from memory.
///
/// The page cache is passed by (`O_DIRECT`); where the file system cannot, it is told to forget the
/// file first. A device's own cache is not seen through.
pub(super) fn hash_of_device(part: &PartFile, size: u64) -> Result<[u8; 32], StoreError> {
    let failed = |e: std::io::Error| StoreError::from_io(part.path(), "read again", e);
    forget_pages(part.file(), 0, size);
    if let Some(direct) = open_direct(part) {
        match hash(&direct, size) {
            // Some file systems open, but do not read that way.
            Err(e) if e.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {}
            result => return result.map_err(failed),
        }
    }
    hash(part.file(), size).map_err(failed)
}

/// The same file by another descriptor.
fn open_direct(part: &PartFile) -> Option<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(part.dir(), part.temp(), flags, Mode::empty()).ok()?;
    let file = File::from(fd);
    let (ours, theirs) = (part.file().metadata().ok()?, file.metadata().ok()?);
    ((ours.dev(), ours.ino()) == (theirs.dev(), theirs.ino())).then_some(file)
}

fn hash(file: &File, size: u64) -> std::io::Result<[u8; 32]> {
    let mut memory = vec![0; BLOCK + ALIGN];
    let start = memory.as_ptr().align_offset(ALIGN).min(ALIGN);
    let block = &mut memory[start..start + BLOCK];
    let mut hasher = blake3::Hasher::new();
    let mut at = 0;
    while at < size {
        let len = match file.read_at(block, at) {
            Ok(0) => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            Ok(len) => len.min((size - at) as usize),
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(e),
        };
        hasher.update(&block[..len]);
        at += len as u64;
    }
    Ok(*hasher.finalize().as_bytes())
}
