//! One hash for all files that a copy has moved, in whatever order they came, in memory that does not grow with them.
//!
//! It is a sum (`LtHash`: Bellare and Micciancio, Eurocrypt 1997; Lewi and others, ePrint 2019/227): of each file BLAKE3 gives 2,048
//! bytes of its content's hash, its size and its path. These are 1,024 numbers of 16 bits, which are added up, each by itself
//! and without carry, and the sum is hashed once more. Two sets of files with the same sum are as hard to find as two texts with the same hash.

use super::queue::lock;
use std::path::Path;
use std::sync::Mutex;

const LANES: usize = 1_024;

/// What was added up so far; nothing if somebody could not say what a file's content is.
#[derive(Debug)]
pub(crate) struct FilesSum(Mutex<Option<Vec<u16>>>);

impl FilesSum {
    /// Of no file.
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Some(vec![0; LANES])))
    }

    /// A file has been moved that is there by that path, below the top of the copy as the sender calls it.
    pub(crate) fn add(&self, path: &Path, bytes: u64, hash: Option<[u8; 32]>) {
        let part = hash.map(|hash| {
            let mut hasher = blake3::Hasher::new();
            hasher.update(&hash);
            hasher.update(&bytes.to_be_bytes());
            hasher.update(path.as_os_str().as_encoded_bytes());
            let mut part = vec![0; 2 * LANES];
            hasher.finalize_xof().fill(&mut part);
            part
        });
        let mut sum = lock(&self.0);
        let (Some(lanes), Some(part)) = (sum.as_mut(), part) else {
            *sum = None;
            return;
        };
        for (lane, bytes) in lanes.iter_mut().zip(part.as_chunks().0) {
            *lane = lane.wrapping_add(u16::from_le_bytes(*bytes));
        }
    }

    /// The hash of all that was added.
    pub(crate) fn hash(&self) -> Option<[u8; 32]> {
        let sum = lock(&self.0);
        let bytes: Vec<u8> = sum
            .as_ref()?
            .iter()
            .flat_map(|lane| lane.to_le_bytes())
            .collect();
        Some(*blake3::hash(&bytes).as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type File = (String, u64, [u8; 32]);

    fn of<'a>(files: impl IntoIterator<Item = &'a File>) -> [u8; 32] {
        let sum = FilesSum::new();
        for (path, bytes, hash) in files {
            sum.add(Path::new(path), *bytes, Some(*hash));
        }
        sum.hash().expect("all are known")
    }

    /// As docs/serve.md has it, with blake3 for Python; whoever computes it by himself must get the same.
    #[test]
    fn it_is_what_is_written_down() {
        let hash = *blake3::hash(b"a").as_bytes();
        let hex = |hash: [u8; 32]| blake3::Hash::from_bytes(hash).to_hex().to_string();
        let one = of(&[("tree/a".to_owned(), 1, hash)]);
        assert_eq!(
            hex(one),
            "0cd27e0c48b88f513cf5ad7f37f5b5e9d68e7f0c6826f85fa5112a691709a8d1"
        );
        assert_eq!(
            hex(of(&[])),
            "be2a8de3dcf46c94ce85cdc8e07ac308f4d8a95490d956c38d780fd610db0813"
        );
    }

    #[test]
    fn what_is_not_known_makes_the_whole_unknown() {
        let sum = FilesSum::new();
        sum.add(Path::new("a"), 1, None);
        sum.add(Path::new("b"), 1, Some([1; 32]));
        assert_eq!(sum.hash(), None);
    }

    proptest! {
        #[test]
        fn the_order_is_nothing_and_everything_else_counts(
            files in proptest::collection::vec(("[a-z]{1,9}", 0..99_u64, any::<[u8; 32]>()), 1..9),
        ) {
            let whole = of(&files);
            prop_assert_eq!(of(files.iter().rev()), whole);
            prop_assert_ne!(of(&files[1..]), whole);
            prop_assert_ne!(of(files.iter().chain(&files[..1])), whole);
            for change in 0..3 {
                let mut other = files.clone();
                match change {
                    0 => other[0].0.push('x'),
                    1 => other[0].1 += 1,
                    _ => other[0].2[31] ^= 1,
                }
                prop_assert_ne!(of(&other), whole);
            }
        }
    }
}
