//! Files that nobody else may read.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Bytes of a file.
const LONGEST: u64 = 64 << 10;

/// Writes a file that nobody else may read, whole or not at all: somebody may read it at any time.
///
/// # Errors
///
/// Those of the file system.
pub fn write_new(path: &Path, text: &str) -> io::Result<()> {
    let new = path.with_extension("new");
    let _ = fs::remove_file(&new);
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&new, path)
}

/// What is in it, if it is nobody else's.
pub(crate) fn read(path: &Path) -> io::Result<String> {
    // A pipe that nobody writes to must not hold anybody up.
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let file = fs::OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path)?;
    let found = file.metadata()?;
    let own = found.uid() == rustix::process::geteuid().as_raw();
    if !found.is_file() || !own || found.mode() & 0o077 != 0 {
        return Err(io::Error::other(
            "it must be a file of this user's that nobody else can read: chmod 600 it",
        ));
    }
    let mut text = String::new();
    file.take(LONGEST + 1).read_to_string(&mut text)?;
    if text.len() as u64 > LONGEST {
        return Err(io::Error::other("it is longer than 64 KiB"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    #[test]
    fn a_pipe_that_nobody_writes_to_holds_nobody_up() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tokens");
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let (sender, told) = mpsc::channel();
        thread::spawn(move || sender.send(read(&path).map_err(|error| error.to_string())));
        let why = told.recv_timeout(Duration::from_mins(1)).unwrap();
        assert!(why.unwrap_err().contains("must be a file"));
    }
}
