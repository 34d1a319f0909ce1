//! The file of an audit log: whole lines are added at its end, and a long one is renamed.

use jiff::Timestamp;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// Names that are tried for a file that is renamed within one second.
const NAMES: u32 = 10_000;

#[derive(Debug)]
pub(crate) struct Output {
    path: PathBuf,
    file: File,
    bytes: u64,
    rotate_bytes: u64,
    /// Half a line is at its end.
    torn: bool,
}

/// Half a line is at its end: of a process that was killed, or whose disk was full, while it wrote.
fn is_torn(path: &Path, bytes: u64) -> bool {
    let last = || -> io::Result<u8> {
        let mut last = [0];
        File::open(path)?.read_exact_at(&mut last, bytes - 1)?;
        Ok(last[0])
    };
    // What cannot be read (mode 0200) is taken for whole.
    bytes > 0 && last().is_ok_and(|last| last != b'\n')
}

fn open(path: &Path) -> io::Result<(File, u64, bool)> {
    // A pipe that nobody reads must not hold anybody up.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
    let file = File::options()
        .append(true)
        .create(true)
        .mode(Mode::from_bits_truncate(0o600).bits())
        .custom_flags(i32::try_from(flags).unwrap_or_default())
        .open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let bytes = metadata.len();
    Ok((file, bytes, is_torn(path, bytes)))
}

impl Output {
    pub(crate) fn open(path: &Path, rotate_bytes: u64) -> io::Result<Self> {
        // Whatever becomes of the directory this process stands in.
        let path = std::path::absolute(path)?;
        let (file, bytes, torn) = open(&path)?;
        Ok(Self {
            path,
            file,
            bytes,
            rotate_bytes,
            torn,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn directory(&self) -> PathBuf {
        self.path
            .parent()
            .unwrap_or_else(|| Path::new("/"))
            .to_owned()
    }

    /// Adds a line. If it is not added whole, none of it counts. A file that somebody else has renamed is left to him: nothing is
    /// added to what he may have packed, moved away or removed since.
    pub(crate) fn append(&mut self, line: &[u8]) -> io::Result<()> {
        let ours = self.file.metadata()?;
        let theirs = std::fs::symlink_metadata(&self.path);
        if !theirs.is_ok_and(|theirs| (theirs.dev(), theirs.ino()) == (ours.dev(), ours.ino())) {
            (self.file, self.bytes, self.torn) = open(&self.path)?;
        }
        if self.bytes > 0 && self.bytes + line.len() as u64 > self.rotate_bytes {
            self.rotate()?;
        }
        if self.torn {
            self.file.write_all(b"\n")?;
            self.torn = false;
            self.bytes += 1;
        }
        let before = self.bytes;
        let result = self.file.write_all(line);
        if result.is_ok() {
            self.bytes += line.len() as u64;
        } else {
            let now = self.file.metadata().map_or(before, |m| m.len());
            // A file that may only grow (chattr +a) keeps the half.
            if now > before && self.file.set_len(before).is_err() {
                (self.torn, self.bytes) = (true, now);
            }
        }
        result
    }

    /// What was added is on the disk.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn rotate(&mut self) -> io::Result<()> {
        self.file.sync_data()?;
        let time = Timestamp::now().strftime("%Y%m%dT%H%M%SZ").to_string();
        for number in 0..NAMES {
            let mut name = self.path.clone().into_os_string();
            name.push(format!(".{time}"));
            if number > 0 {
                name.push(format!("-{number}"));
            }
            match rename_new(&self.path, Path::new(&name)) {
                Err(Errno::EXIST) => {}
                result => {
                    result?;
                    (self.file, self.bytes, self.torn) = open(&self.path)?;
                    return Ok(());
                }
            }
        }
        Err(io::Error::other(
            "there are too many of them from this second",
        ))
    }

    #[cfg(test)]
    pub(crate) fn put_on_full_disk(&mut self) {
        self.path = PathBuf::from("/dev/full");
        let full = File::options().write(true).open(&self.path);
        self.file = full.expect("a full disk");
    }
}

/// Renames a file to a name that nobody has.
fn rename_new(from: &Path, to: &Path) -> Result<(), Errno> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
            // Some file systems know only the plain one.
            Err(Errno::INVAL) => {}
            result => return result,
        }
    }
    if to.symlink_metadata().is_ok() {
        return Err(Errno::EXIST);
    }
    rustix::fs::rename(from, to)
}
