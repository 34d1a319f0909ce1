//! Compares files with such a list.

use super::ManifestHash;
use super::hashing::{for_each, hash};
use super::line::{LINE_MAX, Line, read};
use crate::{Cancel, Error, ErrorKind, Progress, Verification};
use howdah_core::text::remove_byte_order_mark;
use howdah_core::{Rate, Span};
use howdah_store::{Root, StoreError, open_file};
use howdah_tree::{Difference, DifferenceKind, EntryKind, NOTES, Tally};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// What a list says.
#[derive(Clone, Debug)]
pub struct Sums {
    lines: Vec<Line>,
    /// Its paths are those below a directory.
    below: bool,
}

impl Sums {
    /// Reads a list that is called `name`. `hash`: what lines have that do not say it themselves. `below`: its paths are to be
    /// below a directory; absolute ones and those with `..` are no good then.
    ///
    /// A line that is none is an error of the whole, before any file is looked at.
    pub fn read(
        mut list: impl BufRead,
        name: &str,
        hash: ManifestHash,
        below: bool,
    ) -> Result<Self, Error> {
        /// Bad lines that are named.
        const NAMED: usize = 5;
        let mut lines = Vec::new();
        let mut ends = LineEnds::default();
        let (mut bad, mut named) = (0u64, Vec::new());
        let mut bytes = Vec::new();
        for number in 1u64.. {
            bytes.clear();
            let mut one = (&mut list).take(LINE_MAX as u64 + 1);
            let got = one.read_until(b'\n', &mut bytes).map_err(|e| {
                Error::new(ErrorKind::Io, format!("cannot read the list {name}: {e}"))
            })?;
            if got == 0 {
                break;
            }
            if got > LINE_MAX {
                let text = format!(
                    "{name}: line {number} is longer than {LINE_MAX} bytes; this is no list as of b3sum or sha256sum"
                );
                return Err(Error::new(ErrorKind::Usage, text));
            }
            if number == 1 {
                remove_byte_order_mark(&mut bytes);
            }
            let had_return = ends.cut(&mut bytes);
            match read(&bytes, hash, below) {
                Ok(line) => {
                    let is_tagged = bytes.starts_with(b"BLAKE3 (");
                    if let Some(line) = line {
                        if had_return && !is_tagged && line.kind == ManifestHash::Blake3 {
                            ends.names.push(lines.len());
                        }
                        lines.push(line);
                    }
                }
                Err(why) => {
                    bad += 1;
                    if named.len() < NAMED {
                        named.push(format!("line {number}: {why}"));
                    }
                }
            }
        }
        let usage = |text: String| Err(Error::new(ErrorKind::Usage, text));
        if bad > 0 {
            let more = match bad - named.len() as u64 {
                0 => String::new(),
                more => format!("; and {more} lines more"),
            };
            return usage(format!(
                "{name} is refused, and no file was looked at: {}{more}",
                named.join("; ")
            ));
        }
        if lines.is_empty() {
            return usage(format!("{name} names no file: nothing can be said"));
        }
        ends.give_back(&mut lines);
        Ok(Self { lines, below })
    }

    /// BLAKE3 of files below a directory.
    pub(crate) fn of_files(files: impl Iterator<Item = (PathBuf, [u8; 32])>) -> Self {
        let kind = ManifestHash::Blake3;
        let lines = files.map(|(path, hash)| Line { path, hash, kind });
        Self {
            lines: lines.collect(),
            below: true,
        }
    }

    fn compared_by(&self) -> &'static str {
        let has = |kind| self.lines.iter().any(|line| line.kind == kind);
        match (has(ManifestHash::Blake3), has(ManifestHash::Sha256)) {
            (true, true) => "blake3_and_sha256",
            (false, true) => "sha256",
            _ => "blake3",
        }
    }
}

/// Carriage returns before the ends of lines. `sha256sum -c` takes them for a part of that, as it escapes those of names; `b3sum` does not
/// escape them: there they are a part of that if all lines have one.
#[derive(Debug, Default)]
struct LineEnds {
    /// There is a line without one.
    is_plain: bool,
    /// Lines whose name they may belong to.
    names: Vec<usize>,
}

impl LineEnds {
    /// Removes the end of a line; whether it has a carriage return.
    fn cut(&mut self, line: &mut Vec<u8>) -> bool {
        // The last line may have no end.
        if line.pop_if(|byte| *byte == b'\n').is_none() {
            return false;
        }
        let had_return = line.pop_if(|byte| *byte == b'\r').is_some();
        self.is_plain |= !had_return;
        had_return
    }

    /// What names have.
    fn give_back(self, lines: &mut [Line]) {
        if !self.is_plain {
            return;
        }
        for index in self.names {
            if let Some(line) = lines.get_mut(index) {
                line.path.as_mut_os_string().push("\r");
            }
        }
    }
}

/// What was found of one file.
enum Found {
    Equal,
    Differs(DifferenceKind),
    Unread(String),
}

/// Compares the files that a list names with what it says: they are A, what is in `dir` (without: what the paths mean as they are)
/// is B. Below `dir` nothing leads out of it, links neither.
///
/// `on_difference` is called for each difference in the order of the list, and `on_progress` about ten times a second, both
/// on the calling thread. A success may still have a [`Verification::shortfall`].
pub fn check_manifest(
    sums: &Sums,
    dir: Option<&Path>,
    cancel: &Cancel,
    on_difference: &mut dyn FnMut(&Difference),
    on_progress: &mut dyn FnMut(&Progress),
) -> Result<Verification, Error> {
    let started = Instant::now();
    if dir.is_some() && !sums.below {
        return Err(Error::new(
            ErrorKind::Usage,
            "the list was read for no directory",
        ));
    }
    let root = dir.map(Root::open).transpose();
    let root = root.map_err(|e| crate::error::from_store(&e))?;
    let open = |path: &Path| match &root {
        Some(root) => root.open_read(path),
        None => open_file(path),
    };
    let done = AtomicU64::new(0);
    let mut all = Verification {
        compared_by: sums.compared_by(),
        ..Verification::default()
    };
    let (mut waiting, mut told) = (BTreeMap::new(), 0);
    let mut settled = 0;
    for_each(
        &sums.lines,
        cancel,
        |line| look(line, open(&line.path), cancel, &done),
        |found| {
            if let Some((at, found)) = found {
                settled += 1;
                waiting.insert(at, found);
            }
            // In the order of the list.
            while let Some(found) = waiting.remove(&told)
                && let Some(line) = sums.lines.get(told)
            {
                told += 1;
                note(&mut all, line, found, on_difference);
            }
            let bytes = done.load(Ordering::Relaxed);
            let elapsed = started.elapsed();
            on_progress(&Progress {
                bytes,
                files_done: settled,
                files_total: Some(sums.lines.len() as u64),
                elapsed: Span::from_micros(
                    u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX / 2),
                ),
                goodput_now: Rate::from_bits_per_sec(
                    (bytes as f64 * 8.0 / elapsed.as_secs_f64().max(0.001)) as u64,
                ),
                answered: true,
                ..Progress::default()
            });
            Ok(())
        },
    )?;
    all.tally.bytes = done.load(Ordering::Relaxed);
    all.equal = all.tally.is_equal() && all.failed == 0;
    all.seconds = started.elapsed().as_secs_f64();
    Ok(all)
}

fn note(
    all: &mut Verification,
    line: &Line,
    found: Found,
    on_difference: &mut dyn FnMut(&Difference),
) {
    let tally: &mut Tally = &mut all.tally;
    let what = match found {
        Found::Equal => {
            tally.files += 1;
            return;
        }
        Found::Differs(what) => {
            if matches!(what, DifferenceKind::MissingInB { .. }) {
                tally.missing_in_b += 1;
            } else {
                tally.files += 1;
                tally.differing += 1;
            }
            what
        }
        Found::Unread(why) => {
            tally.unread += 1;
            all.failed += 1;
            if all.notes.len() < NOTES {
                all.notes.push(why);
            }
            DifferenceKind::Unread { a: false, b: true }
        }
    };
    on_difference(&Difference {
        path: line.path.as_os_str().as_bytes().to_vec(),
        is_dir: false,
        what,
    });
}

fn look(line: &Line, opened: Result<File, StoreError>, cancel: &Cancel, done: &AtomicU64) -> Found {
    let other = |b| {
        Found::Differs(DifferenceKind::Kind {
            a: EntryKind::File,
            b,
        })
    };
    let file = match opened {
        Ok(file) => file,
        Err(StoreError::NotFound { .. } | StoreError::Dangling { .. }) => {
            return Found::Differs(DifferenceKind::MissingInB { inside: 0 });
        }
        // A part of its path is a file.
        Err(StoreError::Io { source, .. }) if source.kind() == io::ErrorKind::NotADirectory => {
            return Found::Differs(DifferenceKind::MissingInB { inside: 0 });
        }
        Err(StoreError::NotAFile {
            what: "a directory",
            ..
        }) => return other(EntryKind::Directory),
        Err(StoreError::NotAFile { what: "a fifo", .. }) => return other(EntryKind::Fifo),
        Err(StoreError::NotAFile {
            what: "a socket", ..
        }) => return other(EntryKind::Socket),
        Err(error) => return Found::Unread(error.to_string()),
    };
    let size = file.metadata().map_or(0, |found| found.len());
    match hash(file, &[line.kind], cancel, done) {
        Ok(found) if found.get(line.kind) == Some(line.hash) => Found::Equal,
        Ok(_) => Found::Differs(DifferenceKind::Contents {
            start: 0,
            end: size,
        }),
        Err(e) => {
            let path = line.path.display().to_string();
            Found::Unread(format!("{path:?} cannot be read: {e}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str, hash: ManifestHash) -> Vec<String> {
        let hex = "0123456789abcdef".repeat(4);
        let text = text.replace("HEX", &hex);
        let sums = Sums::read(text.as_bytes(), "list", hash, true).unwrap();
        let name = |line: &Line| line.path.to_str().unwrap().to_owned();
        sums.lines.iter().map(name).collect()
    }

    #[test]
    fn ends_of_lines_may_be_those_of_another_system() {
        use ManifestHash::{Blake3, Sha256};
        let both = ["a", "b"];
        for text in [
            "HEX  a\r\nHEX  b\r\n",
            "\u{feff}# list\r\nHEX  a\r\n\r\nHEX  b",
            "BLAKE3 (a) = HEX\r\nSHA256 (b) = HEX\r\n",
        ] {
            assert_eq!(names(text, Blake3), both, "{text:?}");
            assert_eq!(names(text, Sha256), both, "{text:?}");
        }
        // One of them is not: then it is what names have, of which sha256sum escapes it.
        let mixed = "HEX  a\r\nHEX  b\nSHA256 (c) = HEX\r\n";
        assert_eq!(names(mixed, Blake3), ["a\r", "b", "c"]);
        assert_eq!(names(mixed, Sha256), ["a", "b", "c"]);
        assert_eq!(names("\\HEX  a\\r\r\nHEX  b\r\n", Sha256), ["a\r", "b"]);
    }
}
