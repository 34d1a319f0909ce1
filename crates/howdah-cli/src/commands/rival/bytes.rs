//! Where a rival's bytes come from and go to, and their hash.

use anyhow::Context as _;
use howdah::{Error, ErrorKind, Location};
use howdah_net::plain::Bytes;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Seek as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// Without a file, bytes that arrive early wait in memory until they can be hashed in order.
const MOST_EARLY_BYTES: usize = 1 << 30;

/// What is sent.
pub(super) enum Source {
    File(File, u64),
    Zero(u64),
}

impl Source {
    pub(super) fn open(location: &Location) -> anyhow::Result<Self> {
        let source = match location {
            Location::Zero(size) => Self::Zero(*size),
            Location::File(path) => {
                let file = File::open(path).map_err(|error| {
                    let kind = match error.kind() {
                        io::ErrorKind::NotFound => ErrorKind::NotFound,
                        io::ErrorKind::PermissionDenied => ErrorKind::Refused,
                        _ => ErrorKind::Io,
                    };
                    Error::new(kind, format!("cannot open {}: {error}", path.display()))
                })?;
                let about = file.metadata().context("cannot look at the source")?;
                if !about.is_file() {
                    return usage(format!("{} is not a file", path.display()));
                }
                Self::File(file, about.len())
            }
            other => return usage(format!("a rival sends a file or zero:SIZE, not {other}")),
        };
        if source.len() == 0 {
            return usage("the source is empty: there is nothing to measure".to_owned());
        }
        Ok(source)
    }

    pub(super) const fn len(&self) -> u64 {
        match self {
            Self::File(_, size) | Self::Zero(size) => *size,
        }
    }

    pub(super) fn hash(&mut self) -> io::Result<blake3::Hash> {
        let mut hasher = blake3::Hasher::new();
        match self {
            Self::File(file, _) => {
                file.rewind()?;
                hasher.update_reader(file)?;
            }
            Self::Zero(size) => {
                let zeros = vec![0; 1 << 16];
                let mut left = *size;
                while left > 0 {
                    let part = left.min(zeros.len() as u64);
                    hasher.update(&zeros[..part as usize]);
                    left -= part;
                }
            }
        }
        Ok(hasher.finalize())
    }
}

fn usage<T>(text: String) -> anyhow::Result<T> {
    Err(Error::new(ErrorKind::Usage, text).into())
}

impl Bytes for Source {
    fn read(&mut self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        match self {
            Self::File(file, _) => file.read_exact_at(out, offset),
            Self::Zero(_) => {
                out.fill(0);
                Ok(())
            }
        }
    }

    fn write(&mut self, _: u64, _: &[u8]) -> io::Result<()> {
        Err(io::Error::other("bytes came to the side that sends"))
    }
}

/// Where it goes.
pub(super) enum Sink {
    /// Placed as it comes; removed if it is not [kept](Sink::finish).
    File { file: File, path: Option<PathBuf> },
    /// Hashed in order.
    Hash(Box<InOrder>),
    /// Thrown away.
    Nothing,
}

/// A hash of pieces that come in any order.
#[derive(Default)]
pub(super) struct InOrder {
    hasher: blake3::Hasher,
    next: u64,
    early: BTreeMap<u64, Vec<u8>>,
    early_bytes: usize,
}

impl Sink {
    pub(super) fn create(path: Option<&Path>, hashes: bool) -> anyhow::Result<Self> {
        let Some(path) = path else {
            return Ok(if hashes {
                Self::Hash(Box::default())
            } else {
                Self::Nothing
            });
        };
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)
            .map_err(|error| {
                let kind = match error.kind() {
                    io::ErrorKind::AlreadyExists
                    | io::ErrorKind::NotFound
                    | io::ErrorKind::PermissionDenied => ErrorKind::Refused,
                    _ => ErrorKind::Io,
                };
                Error::new(kind, format!("cannot create {}: {error}", path.display()))
            })?;
        Ok(Self::File {
            file,
            path: Some(path.to_owned()),
        })
    }

    /// All is there: keeps the file. Gives back the hash of what lies in it, if it is asked for.
    pub(super) fn finish(&mut self, hashes: bool) -> io::Result<Option<blake3::Hash>> {
        Ok(match self {
            Self::File { file, path } => {
                let mut hasher = blake3::Hasher::new();
                if hashes {
                    file.rewind()?;
                    hasher.update_reader(&*file)?;
                }
                *path = None;
                hashes.then(|| hasher.finalize())
            }
            Self::Hash(order) => Some(order.hasher.finalize()),
            Self::Nothing => None,
        })
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        if let Self::File {
            path: Some(path), ..
        } = self
        {
            // Half an object under the name of a whole one would mislead.
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Bytes for Sink {
    fn read(&mut self, _: u64, _: &mut [u8]) -> io::Result<()> {
        Err(io::Error::other("the side that receives has no bytes"))
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::File { file, .. } => file.write_all_at(bytes, offset),
            Self::Hash(order) => order.add(offset, bytes),
            Self::Nothing => Ok(()),
        }
    }
}

impl InOrder {
    fn add(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if offset != self.next {
            self.early_bytes += bytes.len();
            if self.early_bytes > MOST_EARLY_BYTES {
                return Err(io::Error::other(
                    "too much arrived out of order to hash it in memory; give a file with -o",
                ));
            }
            self.early.insert(offset, bytes.to_vec());
            return Ok(());
        }
        self.append(bytes);
        while let Some(bytes) = self.early.remove(&self.next) {
            self.early_bytes -= bytes.len();
            self.append(&bytes);
        }
        Ok(())
    }

    fn append(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
        self.next += bytes.len() as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_does_not_depend_on_the_order() {
        let mut sink = Sink::create(None, true).unwrap();
        for (offset, part) in [(4, "of "), (0, "row "), (7, "words")] {
            sink.write(offset, part.as_bytes()).unwrap();
        }
        assert_eq!(
            sink.finish(true).unwrap().unwrap(),
            blake3::hash(b"row of words")
        );
    }

    #[test]
    fn a_file_is_placed_and_only_a_finished_one_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("object");
        let mut sink = Sink::create(Some(&path), true).unwrap();
        sink.write(2, b"cd").unwrap();
        drop(sink);
        assert!(!path.exists());
        let mut sink = Sink::create(Some(&path), true).unwrap();
        assert!(
            Sink::create(Some(&path), true).is_err(),
            "nothing is overwritten"
        );
        sink.write(2, b"cd").unwrap();
        sink.write(0, b"ab").unwrap();
        assert_eq!(sink.finish(true).unwrap().unwrap(), blake3::hash(b"abcd"));
        drop(sink);
        assert_eq!(std::fs::read(&path).unwrap(), b"abcd");
    }

    #[test]
    fn zeros_hash_as_zeros() {
        let mut source = Source::Zero(100_000);
        assert_eq!(source.hash().unwrap(), blake3::hash(&vec![0; 100_000]));
    }
}
