//! Inputs that are nearly others, the same for a seed.

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

/// Longest input that is made, in bytes.
const MAX: usize = 4096;
/// Bytes on which things turn.
const EDGES: [u8; 12] = [0, 1, 2, 3, 0x7f, 0x80, 0xff, b'"', b'/', b'\n', b' ', b'.'];

/// Makes inputs out of others.
pub struct Mutator(ChaCha8Rng);

impl Mutator {
    /// One that makes the same again for the same seed.
    pub fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    fn below(&mut self, bound: usize) -> usize {
        self.0.random_range(0..bound.max(1))
    }

    /// One of `corpus` with some changes, or nothing that was there before.
    pub fn next(&mut self, corpus: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = match corpus.len() {
            0 => Vec::new(),
            n => corpus[self.below(n)].clone(),
        };
        if self.below(8) == 0 {
            bytes = (0..self.below(200)).map(|_| self.0.random()).collect();
        }
        for _ in 0..=self.below(4) {
            self.change(&mut bytes, corpus);
        }
        bytes.truncate(MAX);
        bytes
    }

    fn change(&mut self, bytes: &mut Vec<u8>, corpus: &[Vec<u8>]) {
        let at = self.below(bytes.len());
        let len = self.below(16);
        let end = (at + len).min(bytes.len());
        match self.below(9) {
            0 => bytes.truncate(at),
            1 => {
                drop(bytes.drain(at..end));
            }
            2 => {
                let part = bytes[at..end].to_vec();
                bytes.splice(at..at, part);
            }
            3 => {
                let new: Vec<u8> = (0..len).map(|_| self.0.random()).collect();
                bytes.splice(at..at, new);
            }
            4 if !corpus.is_empty() => {
                let other = &corpus[self.below(corpus.len())];
                let from = self.below(other.len());
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from.min(other.len())..]);
            }
            _ if bytes.is_empty() => bytes.push(self.0.random()),
            5 => bytes[at] ^= 1 << self.below(8),
            6 => bytes[at] = EDGES[self.below(EDGES.len())],
            7 => {
                bytes[at] = bytes[at]
                    .wrapping_add(self.0.random_range(0..9))
                    .wrapping_sub(4);
            }
            _ => bytes[at] = self.0.random(),
        }
    }
}
