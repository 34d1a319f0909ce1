//! Reads what the device has of a file, not what memory remembers of it.

use crate::StoreError;
use crate::durable::forget_pages;
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes per read of a whole file; a multiple of any device's block.
const BLOCK: usize = 4 << 20;
/// Alignment that direct reading asks for, at most: of memory, places and lengths.
const ALIGN: usize = 4_096;

/// Memory that direct reading may fill.
pub struct Aligned {
    memory: Vec<u8>,
    start: usize,
    len: usize,
}

impl Aligned {
    /// At least so many bytes.
    pub fn new(len: usize) -> Self {
        let len = len.next_multiple_of(ALIGN);
        let memory = vec![0; len + ALIGN];
        let start = memory.as_ptr().align_offset(ALIGN).min(ALIGN);
        Self { memory, start, len }
    }

    /// The `len` bytes of a file from `at` on, wherever they come from. `len` is what fits.
    pub fn read_exact_at(&mut self, file: &File, at: u64, len: usize) -> io::Result<&[u8]> {
        let bytes = &mut self.bytes()[..len];
        file.read_exact_at(bytes, at)?;
        Ok(bytes)
    }

    fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.len]
    }
}

/// Reads a file whose descriptor nobody else reads or writes meanwhile, from its device if possible.
///
/// The page cache is passed by (`O_DIRECT`); where the file system cannot, it is told to forget the
/// file first. A device's own cache is not seen through.
pub struct DeviceReader<'a> {
    file: &'a File,
    /// What the descriptor had, if it reads directly now.
    cached: Option<OFlags>,
}

impl<'a> DeviceReader<'a> {
    /// Syncs first, as what is not there yet would come from memory.
    pub fn new(file: &'a File, size: u64) -> io::Result<Self> {
        match file.sync_data() {
            // A file system that is never written has nothing to sync.
            Err(e) if is_refusal(&e) => {}
            result => result?,
        }
        forget_pages(file, 0, size);
        let flags = rustix::fs::fcntl_getfl(file)?;
        // Some file systems know no such thing.
        let direct = rustix::fs::fcntl_setfl(file, flags | OFlags::DIRECT).is_ok();
        let cached = direct.then_some(flags);
        Ok(Self { file, cached })
    }

    /// The `len` bytes from `at` on. `at` and the memory's length are multiples of a block; `len` is
    /// one, too, or ends with the file.
    pub fn read<'m>(
        &mut self,
        memory: &'m mut Aligned,
        at: u64,
        len: usize,
    ) -> io::Result<&'m [u8]> {
        let bytes = memory.bytes();
        let len = len.min(bytes.len());
        let whole = len.next_multiple_of(ALIGN);
        let mut filled = 0;
        while filled < len {
            match self
                .file
                .read_at(&mut bytes[filled..whole], at + filled as u64)
            {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(more) => filled += more,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                // Some file systems take the flag and do not read that way.
                Err(e) if is_refusal(&e) && self.cached.is_some() => self.leave_direct(),
                Err(e) => return Err(e),
            }
        }
        Ok(&bytes[..len])
    }

    fn leave_direct(&mut self) {
        if let Some(flags) = self.cached.take() {
            // It held a moment ago; if not now, the next read says so.
            let _ = rustix::fs::fcntl_setfl(self.file, flags);
        }
    }
}

impl Drop for DeviceReader<'_> {
    fn drop(&mut self) {
        self.leave_direct();
    }
}

fn is_refusal(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::INVAL.raw_os_error())
}

/// The BLAKE3 of what the device gives back of a file.
pub fn hash_of_device(file: &File, size: u64, path: &Path) -> Result<[u8; 32], StoreError> {
    let failed = |e: io::Error| StoreError::from_io(path, "read again", e);
    let block = (BLOCK as u64).min(size) as usize;
    let mut memory = Aligned::new(block);
    let mut reader = DeviceReader::new(file, size).map_err(failed)?;
    let mut hasher = blake3::Hasher::new();
    let mut at = 0;
    while at < size {
        let len = (block as u64).min(size - at) as usize;
        hasher.update(reader.read(&mut memory, at, len).map_err(failed)?);
        at += len as u64;
    }
    Ok(*hasher.finalize().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_comes_back_from_a_device_and_the_descriptor_is_as_it_was() {
        // The build's own disk can read directly, a memory disk may not: both must give the same.
        for at in [std::env::temp_dir(), "/dev/shm".into()] {
            if !at.is_dir() {
                println!("skipped: no {}", at.display());
                continue;
            }
            let dir = tempfile::tempdir_in(&at).unwrap();
            for len in [
                0,
                1,
                4095,
                4096,
                4097,
                BLOCK - 1,
                BLOCK,
                BLOCK + 1,
                3 * BLOCK + 77,
            ] {
                let path = dir.path().join(len.to_string());
                let data: Vec<u8> = (0..len).map(|i| ((i * 31) >> 7) as u8).collect();
                std::fs::write(&path, &data).unwrap();
                let file = File::open(&path).unwrap();
                let flags = rustix::fs::fcntl_getfl(&file).unwrap();
                let hash = hash_of_device(&file, len as u64, &path).unwrap();
                assert_eq!(hash, *blake3::hash(&data).as_bytes(), "{len} in {at:?}");
                assert_eq!(rustix::fs::fcntl_getfl(&file).unwrap(), flags);
                // One that is shorter than it is said to be has no hash.
                let error = hash_of_device(&file, len as u64 + 1, &path).unwrap_err();
                assert!(error.to_string().contains("read again"), "{error}");
            }
        }
    }
}
