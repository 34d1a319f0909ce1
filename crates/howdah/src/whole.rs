//! Files that are there whole or not at all.

use howdah_store::names::sync_dir;
use howdah_store::temp_name;
use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Writes the file at `path`, which lies in `dir`: under another name there first, synced. What was there goes. `mode` is without the umask.
pub(crate) fn write(
    dir: &File,
    path: &Path,
    mode: u32,
    content: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> io::Result<()> {
    let name = path
        .file_name()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "it has no name"))?;
    let temporary = path.with_file_name(temp_name(dir, name));
    let write = || {
        let mut options = File::options();
        let file = options.write(true).create_new(true).mode(mode);
        let mut out = BufWriter::new(file.open(&temporary)?);
        content(&mut out)?;
        out.into_inner()?.sync_all()?;
        fs::rename(&temporary, path)?;
        Ok(sync_dir(dir)?)
    };
    write().inspect_err(|_| {
        let _ = fs::remove_file(&temporary);
    })
}
