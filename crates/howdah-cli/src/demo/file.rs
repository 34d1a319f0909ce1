//! The file that the demo moves.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::Path;

const CHUNK: usize = 1 << 20;

/// Writes `bytes` random bytes to a new file and syncs it; gives back their hash.
pub(crate) fn make_random(path: &Path, bytes: u64, seed: u64) -> io::Result<blake3::Hash> {
    let mut file = File::create_new(path)?;
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut hasher = blake3::Hasher::new();
    let mut chunk = vec![0; CHUNK];
    let mut left = bytes;
    while left > 0 {
        let part = &mut chunk[..left.min(CHUNK as u64) as usize];
        random.fill_bytes(part);
        hasher.update(part);
        file.write_all(part)?;
        left -= part.len() as u64;
    }
    file.sync_all()?;
    Ok(hasher.finalize())
}

/// The hash of a file's content.
pub(crate) fn hash(path: &Path) -> io::Result<blake3::Hash> {
    let mut file = File::open(path)?;
    let mut hasher = blake3::Hasher::new();
    let mut chunk = vec![0; CHUNK];
    loop {
        match file.read(&mut chunk)? {
            0 => return Ok(hasher.finalize()),
            n => hasher.update(&chunk[..n]),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_makes_the_same_file_and_the_hash_is_of_what_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let a = make_random(&path("a"), (1 << 20) + 7, 1).unwrap();
        let b = make_random(&path("b"), (1 << 20) + 7, 1).unwrap();
        let c = make_random(&path("c"), (1 << 20) + 7, 2).unwrap();
        assert_eq!(a, b);
        assert_ne!(a, c);
        assert_eq!(hash(&path("a")).unwrap(), a);
        assert_eq!(path("a").metadata().unwrap().len(), (1 << 20) + 7);
    }
}
