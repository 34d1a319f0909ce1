//! BLAKE3 of a whole from the hashes of its parts (section 2.1 of the BLAKE3 paper: every left subtree is a power of two of chunks).

use crate::{Lease, Plan, Value};
use blake3::Hasher;
use blake3::hazmat::{
    HasherExt as _, Mode, left_subtree_len, merge_subtrees_non_root, merge_subtrees_root,
};

/// Hashes the bytes of one lease, in order.
#[derive(Clone, Debug)]
pub struct SubtreeHasher {
    hasher: Hasher,
    /// There is no other: its value is the file's hash.
    is_whole: bool,
}

impl SubtreeHasher {
    /// Of a lease of that plan.
    pub fn new(plan: &Plan, lease: Lease) -> Self {
        let mut hasher = Hasher::new();
        hasher.set_input_offset(lease.range.start);
        Self {
            hasher,
            is_whole: plan.leases() == 1,
        }
    }

    /// The next bytes; no more than the lease has.
    pub fn update(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
    }

    /// The value of all bytes so far.
    pub fn value(&self) -> Value {
        if self.is_whole {
            *self.hasher.finalize().as_bytes()
        } else {
            self.hasher.finalize_non_root()
        }
    }
}

/// The hash of the file whose leases have these values, in their order; `None` if they are not as many as it has.
pub fn join(plan: &Plan, values: &[Value]) -> Option<Value> {
    if u64::try_from(values.len()).ok()? != plan.leases() {
        return None;
    }
    let (size, lease_bytes) = (plan.version().size, plan.lease(0)?.range.len());
    match values {
        [whole] => Some(*whole),
        values => {
            let (left, right) = halves(values, size, lease_bytes)?;
            Some(*merge_subtrees_root(&left, &right, Mode::Hash).as_bytes())
        }
    }
}

/// The values of the two subtrees below that of `size` bytes.
fn halves(values: &[Value], size: u64, lease_bytes: u64) -> Option<(Value, Value)> {
    // A power of two that is not less than a lease: both are, and there are several leases.
    let left_bytes = left_subtree_len(size);
    let middle = usize::try_from(left_bytes / lease_bytes).ok()?;
    let (left, right) = values.split_at_checked(middle)?;
    Some((
        subtree(left, left_bytes, lease_bytes)?,
        subtree(right, size - left_bytes, lease_bytes)?,
    ))
}

fn subtree(values: &[Value], size: u64, lease_bytes: u64) -> Option<Value> {
    match values {
        [] => None,
        [one] => Some(*one),
        values => {
            let (left, right) = halves(values, size, lease_bytes)?;
            Some(merge_subtrees_non_root(&left, &right, Mode::Hash))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LEASE_MIN, Version};

    #[test]
    fn parts_make_the_hash_of_the_whole() {
        let m = LEASE_MIN as usize;
        for size in [
            0,
            1,
            1024,
            m - 1,
            m,
            m + 1,
            2 * m,
            3 * m,
            5 * m + 7,
            8 * m,
            9 * m - 1,
        ] {
            let bytes: Vec<u8> = (0..size).map(|i| (i * 31 % 251) as u8).collect();
            let version = Version {
                size: size as u64,
                mtime: (0, 0),
                ctime: (0, 0),
                inode: 0,
            };
            for lease_bytes in [LEASE_MIN, 2 * LEASE_MIN, 4 * LEASE_MIN] {
                let plan = Plan::new("p".into(), "s".into(), "d".into(), version, lease_bytes);
                let plan = plan.unwrap();
                let value = |id| {
                    let lease = plan.lease(id).unwrap();
                    let mut hasher = SubtreeHasher::new(&plan, lease);
                    hasher.update(&bytes[lease.range.start as usize..lease.range.end as usize]);
                    hasher.value()
                };
                let values: Vec<_> = (0..plan.leases()).map(value).collect();
                let whole = *blake3::hash(&bytes).as_bytes();
                assert_eq!(join(&plan, &values), Some(whole), "{size} {lease_bytes}");
                assert_eq!(join(&plan, &values[1..]), None);
            }
        }
    }
}
