//! What would be copied: how much it is, and how fast it is read.

use howdah::{Error, ErrorKind};
use howdah_core::Span;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const BLOCK_BYTES: usize = 4 << 20;
/// Files that are read from, the largest ones.
const READ_FILES: usize = 32;
/// Less than that says nothing of a disk, in bytes.
const LEAST_READ: u64 = 1 << 20;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Source {
    pub(super) bytes: u64,
    /// Regular files; 0 if it is made up.
    pub(super) files: u64,
    /// In bit/s, if there was enough to read.
    pub(super) read_bps: Option<f64>,
}

impl Source {
    pub(super) fn made_up(bytes: u64) -> Self {
        Self {
            bytes,
            ..Self::default()
        }
    }

    /// Adds up what is there, and reads of the largest files for half of that time at most.
    pub(super) fn look(places: &[PathBuf], time: Span) -> anyhow::Result<Self> {
        let mut all = Self::default();
        let mut largest: Vec<(u64, PathBuf)> = Vec::new();
        let mut waiting: Vec<(PathBuf, bool)> =
            places.iter().map(|place| (place.clone(), true)).collect();
        while let Some((path, named)) = waiting.pop() {
            // What is named is followed, as howdah cp does; what lies below is not.
            let found = if named {
                path.metadata()
            } else {
                path.symlink_metadata()
            };
            let found = match found {
                Ok(found) => found,
                // Gone meanwhile.
                Err(_) if !named => continue,
                Err(error) => return Err(failed(&path, &error).into()),
            };
            if found.is_dir() {
                match std::fs::read_dir(&path) {
                    Ok(entries) => {
                        waiting.extend(entries.flatten().map(|entry| (entry.path(), false)));
                    }
                    Err(error) => return Err(failed(&path, &error).into()),
                }
            } else if found.is_file() {
                all.files += 1;
                all.bytes = all.bytes.saturating_add(found.len());
                largest.push((found.len(), path));
                if largest.len() >= 2 * READ_FILES {
                    largest.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
                    largest.truncate(READ_FILES);
                }
            }
        }
        largest.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
        largest.truncate(READ_FILES);
        let files: Vec<PathBuf> = largest.into_iter().map(|(_, path)| path).collect();
        all.read_bps = read(&files, Duration::from(time) / 2)?;
        Ok(all)
    }
}

fn failed(path: &Path, error: &std::io::Error) -> Error {
    let kind = match error.kind() {
        std::io::ErrorKind::NotFound => ErrorKind::NotFound,
        std::io::ErrorKind::PermissionDenied => ErrorKind::Refused,
        _ => ErrorKind::Io,
    };
    Error::new(kind, format!("cannot read {}: {error}", path.display()))
}

/// The rate of reading these for that time, in bit/s; from the disk, as far as the kernel obeys.
fn read(files: &[PathBuf], time: Duration) -> Result<Option<f64>, Error> {
    let mut buffer = vec![0; BLOCK_BYTES];
    let (mut bytes, begun) = (0u64, Instant::now());
    for path in files {
        let mut file = File::open(path).map_err(|error| failed(path, &error))?;
        // Of a file system without it the figure is that of the cache.
        let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
        loop {
            if begun.elapsed() >= time {
                return Ok(rate(bytes, begun.elapsed()));
            }
            match file
                .read(&mut buffer)
                .map_err(|error| failed(path, &error))?
            {
                0 => break,
                n => bytes += n as u64,
            }
        }
    }
    Ok(rate(bytes, begun.elapsed()))
}

fn rate(bytes: u64, time: Duration) -> Option<f64> {
    (bytes >= LEAST_READ).then(|| bytes as f64 * 8.0 / time.as_secs_f64().max(1e-9))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_what_lies_below_it() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("a/b")).unwrap();
        std::fs::write(dir.path().join("a/b/large"), vec![7; 3 << 20]).unwrap();
        std::fs::write(dir.path().join("a/small"), "small").unwrap();
        std::os::unix::fs::symlink("/", dir.path().join("a/link")).unwrap();
        let look = |name: &str| Source::look(&[dir.path().join(name)], Span::from_secs(2));
        let found = look("a").unwrap();
        assert_eq!((found.bytes, found.files), ((3 << 20) + 5, 2));
        assert!(found.read_bps.is_some_and(|bps| bps > 0.0));
        let small = look("a/small").unwrap();
        assert_eq!((small.bytes, small.files, small.read_bps), (5, 1, None));
        let none = look("none").unwrap_err().to_string();
        assert!(
            none.contains("cannot read") && none.contains("none"),
            "{none}"
        );
    }
}
