//! The text of the config file, read with a bound of size, and of time where it is no file: whoever names a pipe means somebody
//! who writes to it, and a pipe that lies where the file should be has nobody.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::{Duration, Instant};

/// A larger file is a mistake.
const MAX_BYTES: u64 = 1 << 20;
/// Who writes into a pipe has that long in all.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) fn read(path: &Path) -> io::Result<String> {
    read_within(path, PATIENCE)
}

fn read_within(path: &Path, patience: Duration) -> io::Result<String> {
    let kind = path.metadata()?.file_type();
    // A disk or a tape would notice that it is opened.
    if kind.is_dir() || kind.is_block_device() || kind.is_socket() {
        return Err(io::Error::other("it is no file"));
    }
    // Opening a pipe would wait for whoever writes to it.
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path)?;
    // Whoever can change it chooses the program that is run as ssh.
    howdah::keys::check_ours(path, &file).map_err(io::Error::other)?;
    let mut bytes = Vec::new();
    if file.metadata()?.is_file() {
        file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    } else {
        read_stream(&file, &mut bytes, Instant::now() + patience)?;
    }
    if bytes.len() as u64 > MAX_BYTES {
        return Err(io::Error::other("it is too large"));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::other("it is not UTF-8"))
}

fn read_stream(mut file: &File, bytes: &mut Vec<u8>, until: Instant) -> io::Result<()> {
    let mut part = [0; 16 << 10];
    while bytes.len() as u64 <= MAX_BYTES {
        let left = until.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(io::Error::other)?;
        let mut fds = [PollFd::new(file, PollFlags::IN)];
        match poll(&mut fds, Some(&left)) {
            Ok(0) => {
                return Err(io::Error::other(
                    "it is no file, and nobody writes to it, or not all",
                ));
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        match file.read(&mut part) {
            Ok(0) => break,
            Ok(n) => bytes.extend_from_slice(&part[..n]),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::net::UnixListener;

    fn fifo(path: &Path) {
        let mode = rustix::fs::Mode::RWXU;
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, path, kind, mode, 0).unwrap();
    }

    #[test]
    fn a41_whatever_lies_where_the_config_file_should_be_ends_in_words() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("dir")).unwrap();
        fifo(&at("fifo"));
        let _socket = UnixListener::bind(at("socket")).unwrap();
        File::create(at("huge")).unwrap().set_len(1 << 40).unwrap();
        fs::write(at("latin"), b"\xff").unwrap();
        let soon = Duration::from_millis(50);
        for (path, words) in [
            (at("dir"), "no file"),
            (at("socket"), "no file"),
            (at("fifo"), "nobody writes"),
            (at("huge"), "too large"),
            ("/dev/zero".into(), "too large"),
            (at("latin"), "UTF-8"),
        ] {
            let error = read_within(&path, soon).unwrap_err().to_string();
            assert!(error.contains(words), "{path:?}: {error}");
        }
        // What people name on purpose.
        assert_eq!(read(Path::new("/dev/null")).unwrap(), "");
        let path = at("fifo");
        let writer = std::thread::spawn(move || fs::write(path, "limit = \"1M\"\n").unwrap());
        assert_eq!(read(&at("fifo")).unwrap(), "limit = \"1M\"\n");
        writer.join().unwrap();
    }
}
