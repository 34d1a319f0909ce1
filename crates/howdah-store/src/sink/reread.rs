//! Reads a finished file back from the device.

use crate::StoreError;
use crate::durable::forget_pages;
use rustix::fd::AsFd;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

/// Bytes per read; a multiple of any device's block.
const BLOCK: usize = 4 << 20;
/// Alignment that direct reading asks for, at most.
const ALIGN: usize = 4_096;

/// A file that is open for reading, and its name.
pub(crate) struct Named<'a, D> {
    pub(crate) file: &'a File,
    pub(crate) dir: D,
    pub(crate) name: &'a OsStr,
    /// For messages.
    pub(crate) path: &'a Path,
}

/// The BLAKE3 of what the device gives back. The file must have been synced: otherwise what is
/// not there yet would come from memory.
///
/// The page cache is passed by (`O_DIRECT`); where the file system cannot, it is told to forget the
/// file first. A device's own cache is not seen through.
pub(crate) fn hash_of_device(
    named: &Named<'_, impl AsFd>,
    size: u64,
) -> Result<[u8; 32], StoreError> {
    let failed = |e: std::io::Error| StoreError::from_io(named.path, "read again", e);
    forget_pages(named.file, 0, size);
    if let Some(direct) = open_direct(named) {
        match hash(&direct, size) {
            // Some file systems open, but do not read that way.
            Err(e) if e.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {}
            result => return result.map_err(failed),
        }
    }
    hash(named.file, size).map_err(failed)
}

/// The same file by another descriptor.
fn open_direct(named: &Named<'_, impl AsFd>) -> Option<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(&named.dir, named.name, flags, Mode::empty()).ok()?;
    let file = File::from(fd);
    let (ours, theirs) = (named.file.metadata().ok()?, file.metadata().ok()?);
    ((ours.dev(), ours.ino()) == (theirs.dev(), theirs.ino())).then_some(file)
}

fn hash(file: &File, size: u64) -> std::io::Result<[u8; 32]> {
    let len = (BLOCK as u64).min(size.next_multiple_of(ALIGN as u64)) as usize;
    let mut memory = vec![0; len + ALIGN];
    let start = memory.as_ptr().align_offset(ALIGN).min(ALIGN);
    let block = &mut memory[start..start + len];
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
