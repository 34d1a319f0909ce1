//! BLAKE3 of an object whose pieces arrive in any order.
//!
//! BLAKE3 is a binary tree over chunks of 1 KiB in which every left subtree is complete (a power
//! of two of chunks): section 2.1 of the BLAKE3 paper. So any aligned group of 2^k chunks is a
//! subtree whose chaining value depends on its bytes and its position only, and two neighbours
//! merge into their parent whenever the second of them is known.

use blake3::Hasher;
use blake3::hazmat::{
    ChainingValue, HasherExt, Mode, left_subtree_len, merge_subtrees_non_root, merge_subtrees_root,
};
use std::collections::HashMap;

/// Bytes that are hashed at a time: 2^8 chunks, which stay in a core's own cache between the
/// copy from the page cache and the hashing.
pub(crate) const GROUP: u64 = 256 << 10;

/// Chaining value of one complete or last group.
pub(crate) fn group_value(index: u64, bytes: &[u8]) -> ChainingValue {
    let mut hasher = Hasher::new();
    hasher.set_input_offset(index * GROUP).update(bytes);
    hasher.finalize_non_root()
}

/// The chaining values of an object's complete groups, merged as far as they can be.
///
/// Memory: 64 values for data in order, one more per separate run of groups otherwise.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    /// (level, index): the subtree of `GROUP << level` bytes at `index * (GROUP << level)`.
    nodes: HashMap<(u8, u64), ChainingValue>,
}

impl Tree {
    /// Adds a complete group.
    pub(crate) fn insert(&mut self, index: u64, value: ChainingValue) {
        let (mut level, mut index, mut value) = (0, index, value);
        // A parent with index 0 may be the root, which merges differently: left to `root`.
        while index > 1 {
            let Some(sibling) = self.nodes.remove(&(level, index ^ 1)) else {
                break;
            };
            let (left, right) = if index & 1 == 0 {
                (&value, &sibling)
            } else {
                (&sibling, &value)
            };
            value = merge_subtrees_non_root(left, right, Mode::Hash);
            level += 1;
            index >>= 1;
        }
        self.nodes.insert((level, index), value);
    }

    /// The hash of an object of `size` bytes, more than one group; `tail` is the value of its last,
    /// incomplete group if it has one. `None` if a group is missing.
    pub(crate) fn root(&self, size: u64, tail: Option<ChainingValue>) -> Option<[u8; 32]> {
        debug_assert!(size > GROUP);
        let left = left_subtree_len(size);
        let (a, b) = (
            self.subtree(0, left, tail)?,
            self.subtree(left, size - left, tail)?,
        );
        Some(*merge_subtrees_root(&a, &b, Mode::Hash).as_bytes())
    }

    fn subtree(&self, start: u64, len: u64, tail: Option<ChainingValue>) -> Option<ChainingValue> {
        if len < GROUP {
            return tail;
        }
        let groups = len / GROUP;
        if len.is_multiple_of(GROUP) && groups.is_power_of_two() {
            let key = (groups.trailing_zeros() as u8, start / len);
            if let Some(value) = self.nodes.get(&key) {
                return Some(*value);
            }
            if len == GROUP {
                return None;
            }
        }
        let left = left_subtree_len(len);
        let a = self.subtree(start, left, tail)?;
        let b = self.subtree(start + left, len - left, tail)?;
        Some(merge_subtrees_non_root(&a, &b, Mode::Hash))
    }

    #[cfg(test)]
    fn node_count(&self) -> usize {
        self.nodes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn data(len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        Hasher::new().finalize_xof().fill(&mut bytes);
        bytes
    }

    fn out_of_order(bytes: &[u8], order: &[u64]) -> Option<[u8; 32]> {
        let mut tree = Tree::default();
        let group = |i: u64| &bytes[(i * GROUP) as usize..((i + 1) * GROUP) as usize];
        for &i in order {
            tree.insert(i, group_value(i, group(i)));
        }
        let size = bytes.len() as u64;
        let tail = &bytes[(size / GROUP * GROUP) as usize..];
        let tail = (!tail.is_empty()).then(|| group_value(size / GROUP, tail));
        tree.root(size, tail)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn any_order_gives_the_hash_of_the_whole(
            order in (2..23u64).prop_flat_map(|n| Just((0..n).collect::<Vec<_>>()).prop_shuffle()),
            extra in prop_oneof![Just(0), Just(1), Just(1024), 0..GROUP as usize],
        ) {
            let bytes = data(order.len() * GROUP as usize + extra);
            prop_assert_eq!(out_of_order(&bytes, &order), Some(*blake3::hash(&bytes).as_bytes()));
            let missing = &order[1..];
            prop_assert_eq!(out_of_order(&bytes, missing), None);
        }
    }

    #[test]
    fn in_order_memory_is_logarithmic() {
        let mut tree = Tree::default();
        for i in 0..100_000 {
            tree.insert(i, [0; 32]);
        }
        assert!(tree.node_count() <= 64, "{}", tree.node_count());
    }
}
