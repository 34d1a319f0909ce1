//! `--log-file`: lines for people who look later. It is appended to and never rotated.

use super::events::now_utc;
use super::{printable, say};
use crate::own_file::failed;
use howdah::Error;
use std::fs::{File, Metadata};
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// An open log.
#[derive(Debug)]
pub(crate) struct LogFile {
    file: File,
    path: PathBuf,
    /// Half a line may be at its end: of a disk that was full, or of a process that was killed.
    is_torn: bool,
    /// Of a line it was said that it is not in it.
    has_failed: bool,
}

/// What cannot be read, or is no file, is taken for whole.
fn is_torn(log: &File, path: &Path) -> bool {
    let end = log.metadata().ok().filter(Metadata::is_file);
    let mut last = [b'\n'];
    if let Some(before_last) = end.and_then(|end| end.len().checked_sub(1)) {
        let _ = File::open(path).and_then(|file| file.read_exact_at(&mut last, before_last));
    }
    last != *b"\n"
}

impl LogFile {
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let file = File::options().append(true).create(true).open(path);
        let file = file.map_err(|e| failed("write the log", path, &e))?;
        Ok(Self {
            is_torn: is_torn(&file, path),
            file,
            path: path.to_path_buf(),
            has_failed: false,
        })
    }

    /// One line, written at once and in one piece, so that several programs can share a file.
    pub(crate) fn line(&mut self, text: &str) {
        let text = printable(text);
        let end = if self.is_torn { "\n" } else { "" };
        let line = format!("{end}{} howdah[{}] {text}\n", now_utc(), std::process::id());
        let written = self.file.write_all(line.as_bytes());
        self.is_torn = written.is_err();
        // A full disk under the log must not end the copy. Who relies on the log hears of it once.
        if let Err(error) = written
            && !std::mem::replace(&mut self.has_failed, true)
        {
            let path = self.path.display();
            say(&format!("warning: the log {path} lacks lines: {error}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_appended_with_the_time_and_without_control_characters() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        // A process that was killed has left half a line.
        std::fs::write(&path, "2026-11-26T13:0").unwrap();
        for text in ["one", "two\nthree\x1b"] {
            LogFile::open(&path).unwrap().line(text);
        }
        let log = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = log.lines().collect();
        assert_eq!(lines.len(), 3, "{log}");
        assert!(lines[1].ends_with(" one"), "{log}");
        let (time, rest) = lines[2].split_once(' ').unwrap();
        let _: jiff::Timestamp = time.parse().unwrap();
        assert!(time.ends_with('Z'), "{time}");
        assert!(rest.ends_with(r"two\nthree\u{1b}"), "{rest}");
    }
}
