//! A prefix code (Huffman's) for the bytes of many paths. Names without order have nothing in common that could be left out, but
//! few byte values: hexadecimal ones take half of their length.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

const BYTES: usize = 256;
/// Longest code word, in bits: a table of all that can stand in so many says which byte comes first.
const LONGEST: u32 = 12;

/// How often each byte occurs.
#[derive(Clone, Debug)]
pub(super) struct Counts(Vec<u64>);

impl Default for Counts {
    fn default() -> Self {
        Self(vec![0; BYTES])
    }
}

impl Counts {
    pub(super) fn count(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0[usize::from(byte)] += 1;
        }
    }

    pub(super) fn add(&mut self, other: &Self) {
        for (count, more) in self.0.iter_mut().zip(&other.0) {
            *count += more;
        }
    }

    /// A code that makes little of what occurs often. It has a word for each byte, also for those that did not occur.
    pub(super) fn code(&self) -> Code {
        let mut weights: Vec<u64> = self.0.iter().map(|count| count + 1).collect();
        loop {
            let lengths = lengths(&weights);
            if lengths.iter().all(|&len| len <= LONGEST) {
                return Code::new(&lengths);
            }
            // More alike, until the words are short enough: at the latest with weights of one and two.
            for weight in &mut weights {
                *weight = *weight / 2 + 1;
            }
        }
    }
}

/// The lengths of the words for bytes of these weights, in bits.
fn lengths(weights: &[u64]) -> Vec<u32> {
    let leaves = weights.iter().enumerate();
    let mut roots: BinaryHeap<_> = leaves.map(|(at, &weight)| Reverse((weight, at))).collect();
    let mut parents = vec![0; 2 * weights.len()];
    let mut next = weights.len();
    while let (Some(Reverse((light, one))), Some(Reverse((heavy, other)))) =
        (roots.pop(), roots.pop())
    {
        (parents[one], parents[other]) = (next, next);
        // The last pair is the root, which has none above.
        if roots.is_empty() {
            break;
        }
        roots.push(Reverse((light + heavy, next)));
        next += 1;
    }
    let mut depths = vec![0; next + 1];
    // Whatever is above another was made later.
    for at in (0..next).rev() {
        depths[at] = depths[parents[at]] + 1;
    }
    depths.truncate(weights.len());
    depths
}

/// The lowest eight bits.
pub(super) fn low(value: usize) -> u8 {
    value.to_le_bytes()[0]
}

/// See the module.
#[derive(Debug)]
pub(super) struct Code {
    /// Of each byte: its bits, and how many these are.
    words: Vec<(u16, u8)>,
    /// Of each [`LONGEST`] bits: the byte that comes first in them, and the length of its word.
    meanings: Vec<(u8, u8)>,
}

impl Code {
    fn new(lengths: &[u32]) -> Self {
        let mut order: Vec<usize> = (0..lengths.len()).collect();
        order.sort_by_key(|&byte| (lengths[byte], byte));
        let mut words = vec![(0, 0); lengths.len()];
        let mut meanings = Vec::with_capacity(1 << LONGEST);
        for byte in order {
            let len = lengths[byte];
            // Words of one length follow each other, and longer ones them: what is filled by now is the next word.
            let word = u16::try_from(meanings.len() >> (LONGEST - len)).unwrap_or(u16::MAX);
            words[byte] = (word, low(len as usize));
            let meaning = (low(byte), low(len as usize));
            meanings.extend(std::iter::repeat_n(meaning, 1 << (LONGEST - len)));
        }
        Self { words, meanings }
    }

    /// Bytes of memory that it takes.
    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.words) + size_of_val(&*self.meanings)
    }

    /// Appends the words for `bytes`, and what fills up the last byte.
    pub(super) fn encode(&self, bytes: &[u8], out: &mut Vec<u8>) {
        let (mut waiting, mut count) = (0u32, 0u32);
        for &byte in bytes {
            let (bits, len) = self.words[usize::from(byte)];
            waiting = waiting << len | u32::from(bits);
            count += u32::from(len);
            while count >= 8 {
                count -= 8;
                out.push(low((waiting >> count) as usize));
            }
        }
        if count > 0 {
            out.push(low((waiting << (8 - count)) as usize));
        }
    }

    /// Appends the `len` bytes whose words begin at that position of `coded`, and moves it behind them.
    pub(super) fn decode(&self, coded: &[u8], position: &mut usize, len: usize, out: &mut Vec<u8>) {
        let (mut waiting, mut count) = (0u32, 0u32);
        for _ in 0..len {
            while count < LONGEST {
                let next = coded.get(*position).copied().unwrap_or_default();
                waiting = waiting << 8 | u32::from(next);
                count += 8;
                *position += 1;
            }
            let first = waiting >> (count - LONGEST) & ((1 << LONGEST) - 1);
            let (byte, word) = self.meanings[first as usize];
            out.push(byte);
            count -= u32::from(word);
        }
        // What was looked at and is not of these words.
        *position -= (count / 8) as usize;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_coded_comes_back(
            counted in prop::collection::vec(any::<u8>(), 0..200),
            weight in 1u32..40,
            parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..50), 0..20),
        ) {
            let mut counts = Counts::default();
            counts.count(&counted);
            // Some that are far apart make words that would be too long.
            for (at, byte) in (0..).zip(&counted) {
                counts.0[usize::from(*byte)] += 1 << (at % weight);
            }
            let code = counts.code();
            let mut coded = Vec::new();
            for part in &parts {
                code.encode(part, &mut coded);
            }
            let mut position = 0;
            for part in &parts {
                let mut found = vec![1];
                code.decode(&coded, &mut position, part.len(), &mut found);
                prop_assert_eq!(&found[1..], &part[..]);
            }
            prop_assert_eq!(position, coded.len());
        }
    }

    #[test]
    fn what_occurs_often_is_short() {
        let mut counts = Counts::default();
        counts.count(&b"0123456789abcdef".repeat(1000));
        let (code, mut coded) = (counts.code(), Vec::new());
        code.encode(&b"0123456789abcdef".repeat(10), &mut coded);
        assert!((80..=90).contains(&coded.len()), "{}", coded.len());
    }
}
