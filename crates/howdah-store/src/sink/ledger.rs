//! What the sender says that groups hash to, beside what they hash to here.

use crate::tree::{Node, Tree};
use blake3::hazmat::ChainingValue;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Values that may wait for their other half: 16 GiB of data, in 2 MiB or so of memory. A sender is
/// never that far ahead, and a receiver not that far behind.
const MAX_WAITING: usize = 16_384;

/// Shared between the engine, which hears the sender's values, the thread that hashes, and the one
/// that writes the journal.
#[derive(Debug, Default)]
pub(super) struct Ledger(Mutex<Books>);

#[derive(Debug, Default)]
struct Books {
    told: HashMap<u64, ChainingValue>,
    found: HashMap<u64, ChainingValue>,
    /// Both agree; not in the journal yet.
    verified: Tree,
    verified_count: u64,
    differs: bool,
}

/// The sender tells more values than it can have data on the way.
#[derive(Debug)]
pub(super) struct TooMany;

impl Ledger {
    fn books(&self) -> MutexGuard<'_, Books> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The sender's value of a group.
    pub(super) fn tell(&self, index: u64, value: ChainingValue) -> Result<(), TooMany> {
        let mut books = self.books();
        if let Some(found) = books.found.remove(&index) {
            books.compare(index, found, value);
        } else if books.told.len() < MAX_WAITING {
            books.told.insert(index, value);
        } else {
            return Err(TooMany);
        }
        Ok(())
    }

    /// The value of what the file gives back. `false`: it is not what the sender said.
    pub(super) fn find(&self, index: u64, value: ChainingValue) -> bool {
        let mut books = self.books();
        if let Some(told) = books.told.remove(&index) {
            books.compare(index, value, told);
        } else if books.found.len() < MAX_WAITING {
            books.found.insert(index, value);
        }
        // Otherwise the sender does not tell any: then nothing can be claimed.
        !books.differs
    }

    /// A group that the sender has told in another way, and that is so.
    pub(super) fn know(&self, index: u64, value: ChainingValue) {
        let mut books = self.books();
        books.verified.insert(index, value);
        books.verified_count += 1;
    }

    /// What has been verified since the last call, in as few subtrees as possible.
    pub(super) fn take_verified(&self) -> Vec<Node> {
        std::mem::take(&mut self.books().verified).into_nodes()
    }

    pub(super) fn has_verified(&self) -> bool {
        !self.books().verified.is_empty()
    }

    /// How many groups were verified one by one.
    pub(super) fn verified_count(&self) -> u64 {
        self.books().verified_count
    }

    /// Whether any group is not what the sender said.
    pub(super) fn differs(&self) -> bool {
        self.books().differs
    }

    /// The sender's value of the last, incomplete group.
    pub(super) fn take_told(&self, index: u64) -> Option<ChainingValue> {
        self.books().told.remove(&index)
    }
}

impl Books {
    fn compare(&mut self, index: u64, found: ChainingValue, told: ChainingValue) {
        if found == told {
            self.verified.insert(index, found);
            self.verified_count += 1;
        } else {
            self.differs = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_verified_when_both_have_spoken_in_any_order() {
        let ledger = Ledger::default();
        ledger.tell(0, [0; 32]).unwrap();
        assert!(ledger.find(1, [1; 32]));
        assert!(ledger.take_verified().is_empty());
        assert!(ledger.find(0, [0; 32]));
        ledger.tell(1, [1; 32]).unwrap();
        assert_eq!(ledger.take_verified().len(), 2);
        assert!(ledger.take_verified().is_empty(), "once");
        assert_eq!(ledger.verified_count(), 2);
        // Also when the sender speaks last.
        assert!(ledger.find(2, [2; 32]));
        ledger.tell(2, [3; 32]).unwrap();
        assert!(ledger.differs());
        assert!(!ledger.find(4, [4; 32]));
        assert_eq!(ledger.verified_count(), 2);
    }

    #[test]
    fn memory_is_bounded_on_both_sides() {
        let ledger = Ledger::default();
        for index in 0..MAX_WAITING as u64 {
            ledger.tell(index, [0; 32]).unwrap();
        }
        assert!(ledger.tell(1 << 40, [0; 32]).is_err());
        for index in 0..3 * MAX_WAITING as u64 {
            assert!(ledger.find(index, [0; 32]));
        }
        assert_eq!(ledger.books().found.len(), MAX_WAITING);
    }
}
