//! How fast a local directory is written and read.

use anyhow::Context as _;
use howdah::{Error, ErrorKind};
use howdah_core::Span;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

const BLOCK_BYTES: usize = 4 << 20;
/// Space that is used at most, and written at least.
const MAX_BYTES: u64 = 4 << 30;
const MIN_BYTES: u64 = 64 << 20;

/// What would fail after the network has been measured fails now.
///
/// # Errors
///
/// That no file can be made in `dir`, and why.
pub(super) fn check(dir: &Path) -> Result<(), Error> {
    let refused = |why: &dyn std::fmt::Display| {
        let text = format!(
            "--disk {}: {why}; name a directory in which you may make files",
            dir.display()
        );
        Error::new(ErrorKind::Refused, text)
    };
    match dir.metadata() {
        Ok(found) if !found.is_dir() => return Err(refused(&"it is no directory")),
        Err(error) => return Err(refused(&error)),
        Ok(_) => {}
    }
    match tempfile::tempfile_in(dir) {
        Ok(_) => Ok(()),
        // How the kernel says it of what it makes itself.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(refused(&"it takes no files")),
        Err(error) => Err(refused(&error)),
    }
}

/// Bits per second of writing (with fsync) and of reading (not from memory, as far as the kernel obeys). The file has no
/// name and is gone afterwards.
pub(super) fn measure(dir: &Path, time: Span) -> anyhow::Result<(f64, f64)> {
    let about = |what: &str| format!("cannot {what} in {}", dir.display());
    let mut file = tempfile::tempfile_in(dir).with_context(|| about("write"))?;
    let block: Vec<u8> = (0..BLOCK_BYTES)
        .map(|i| ((i * 31) >> 3) as u8 | 1)
        .collect();
    let limit = Duration::from(time);
    let begun = Instant::now();
    let mut bytes = 0;
    while bytes < MAX_BYTES && (bytes < MIN_BYTES || begun.elapsed() < limit) {
        file.write_all(&block).with_context(|| about("write"))?;
        bytes += BLOCK_BYTES as u64;
    }
    file.sync_all().with_context(|| about("write"))?;
    let write = rate(bytes, begun.elapsed());

    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
    file.seek(SeekFrom::Start(0))?;
    let mut buffer = block;
    let begun = Instant::now();
    let mut read = 0;
    loop {
        match file.read(&mut buffer).with_context(|| about("read"))? {
            0 => break,
            n => read += n as u64,
        }
    }
    Ok((write, rate(read, begun.elapsed())))
}

fn rate(bytes: u64, time: Duration) -> f64 {
    bytes as f64 * 8.0 / time.as_secs_f64().max(1e-9)
}
