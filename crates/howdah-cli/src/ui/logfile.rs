//! `--log-file`: lines for people who look later. It is appended to and never rotated.

use super::events::now_utc;
use super::{printable, say};
use crate::own_file::failed;
use howdah::Error;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// An open log.
#[derive(Debug)]
pub(crate) struct LogFile {
    file: File,
    path: PathBuf,
    /// Of a line it was said that it is not in it.
    has_failed: bool,
}

impl LogFile {
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let file = File::options().append(true).create(true).open(path);
        let file = file.map_err(|e| failed("write the log", path, &e))?;
        Ok(Self {
            file,
            path: path.to_path_buf(),
            has_failed: false,
        })
    }

    /// One line, written at once and in one piece, so that several programs can share a file.
    pub(crate) fn line(&mut self, text: &str) {
        let text = printable(text);
        let line = format!("{} howdah[{}] {text}\n", now_utc(), std::process::id());
        // A full disk under the log must not end the copy. Who relies on the log hears of it once.
        if let Err(error) = self.file.write_all(line.as_bytes())
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
        for text in ["one", "two\nthree\x1b"] {
            LogFile::open(&path).unwrap().line(text);
        }
        let log = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = log.lines().collect();
        assert_eq!(lines.len(), 2, "{log}");
        let (time, rest) = lines[1].split_once(' ').unwrap();
        let _: jiff::Timestamp = time.parse().unwrap();
        assert!(time.ends_with('Z'), "{time}");
        assert!(rest.ends_with(r"two\nthree\u{1b}"), "{rest}");
    }
}
