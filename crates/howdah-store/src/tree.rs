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

use crate::GROUP;
use howdah_core::ByteRange;

/// Level of the largest subtree that a node may stand for: 2^62 bytes.
pub(crate) const MAX_LEVEL: u8 = 42;

/// The chaining value of a subtree that begins and ends with groups.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Node {
    /// It has `GROUP << level` bytes ...
    pub(crate) level: u8,
    /// ... and starts at that many times as many.
    pub(crate) index: u64,
    pub(crate) value: ChainingValue,
}

impl Node {
    /// The bytes below it; `None` if no object reaches that far.
    pub(crate) fn range(&self) -> Option<ByteRange> {
        let len = GROUP.checked_shl(self.level.into())?;
        let start = self.index.checked_mul(len)?;
        Some(ByteRange::new(start, start.checked_add(len)?))
    }
}

/// Chaining value of one complete or last group, in one piece.
#[cfg(test)]
pub(crate) fn group_value(index: u64, bytes: &[u8]) -> ChainingValue {
    let mut hasher = GroupHash::new(index);
    hasher.update(bytes);
    hasher.value()
}

/// One group, fed in order by pieces.
pub(crate) struct GroupHash(Hasher);

impl GroupHash {
    pub(crate) fn new(index: u64) -> Self {
        let mut hasher = Hasher::new();
        hasher.set_input_offset(index * GROUP);
        Self(hasher)
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The group's chaining value.
    pub(crate) fn value(&self) -> ChainingValue {
        self.0.finalize_non_root()
    }

    /// The hash of an object that is this first group and no more.
    pub(crate) fn root(&self) -> [u8; 32] {
        *self.0.finalize().as_bytes()
    }
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
        self.insert_node(Node {
            level: 0,
            index,
            value,
        });
    }

    /// Adds a complete subtree.
    pub(crate) fn insert_node(&mut self, node: Node) {
        let Node {
            mut level,
            mut index,
            mut value,
        } = node;
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

    pub(crate) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// All that it consists of, merged as far as it can be, in ascending order.
    pub(crate) fn into_nodes(self) -> Vec<Node> {
        let node = |((level, index), value)| Node {
            level,
            index,
            value,
        };
        let mut nodes: Vec<_> = self.nodes.into_iter().map(node).collect();
        nodes.sort_by_key(|node| node.range().map_or(u64::MAX, |range| range.start));
        nodes
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
        #![proptest_config(ProptestConfig::with_cases(16))]
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

        /// What an earlier run had verified comes as subtrees.
        #[test]
        fn nodes_of_another_tree_do_instead_of_groups(
            order in (2..23u64).prop_flat_map(|n| Just((0..n).collect::<Vec<_>>()).prop_shuffle()),
            at in any::<prop::sample::Index>(),
        ) {
            let bytes = data(order.len() * GROUP as usize + 5);
            let group = |i: u64| group_value(i, &bytes[(i * GROUP) as usize..((i + 1) * GROUP) as usize]);
            let (before, after) = order.split_at(at.index(order.len()));
            let (mut first, mut second) = (Tree::default(), Tree::default());
            for &i in before {
                first.insert(i, group(i));
            }
            for node in first.into_nodes() {
                second.insert_node(node);
            }
            for &i in after {
                second.insert(i, group(i));
            }
            let size = bytes.len() as u64;
            let tail = group_value(size / GROUP, &bytes[(size / GROUP * GROUP) as usize..]);
            prop_assert_eq!(second.root(size, Some(tail)), Some(*blake3::hash(&bytes).as_bytes()));
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
