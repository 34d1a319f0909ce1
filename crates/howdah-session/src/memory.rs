//! How much memory one side of a tree transfer takes, and for what.
//!
//! What is under way between two hosts is a round trip's worth, and both sides hold it: the sender until it is confirmed, the
//! receiver while the disk or a gap holds it up. So the memory is the rate, and by default both stay small; who wants more
//! says so.

use crate::TreeOptions;

/// The first window, which both sides know without a word.
const FIRST_WINDOW: u64 = 16 << 20;

/// See the module. In bytes.
#[derive(Clone, Copy, Debug)]
pub struct Memory(u64);

impl Memory {
    /// What a side takes unless somebody says otherwise, all that the program is included.
    pub const DEFAULT: u64 = 48 << 20;
    /// With less nothing goes.
    pub const LEAST: u64 = 40 << 20;
    /// The program (13 MiB of a release build are touched by a copy), its threads and buffers, and chunks on their way
    /// between them.
    const FIXED: u64 = 20 << 20;

    /// What those options say.
    pub fn of(options: &TreeOptions) -> Self {
        Self(options.memory.unwrap_or(Self::DEFAULT).max(Self::LEAST))
    }

    /// Of 28 parts of what is left, a MiB each by default.
    fn parts(self, parts: u64) -> u64 {
        (self.0 - Self::FIXED) / 28 * parts
    }

    /// Packed contents that are sent and not confirmed, or have arrived and are not unpacked.
    pub fn window_bytes(self) -> u64 {
        self.parts(20).max(FIRST_WINDOW)
    }

    /// Packed contents beyond what was sent.
    pub fn ahead_bytes(self) -> u64 {
        self.parts(1)
    }

    /// Files that are read and not packed, or unpacked and not written.
    pub fn files_bytes(self) -> u64 {
        self.parts(4)
    }

    /// What of large files has arrived and is not written.
    pub fn large_bytes(self) -> u64 {
        self.parts(12)
    }

    /// Names that were asked for, and what is kept of them besides their content.
    pub fn names_bytes(self) -> u64 {
        self.parts(4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t34_the_shares_are_within_the_whole() {
        for (wanted, bytes) in [
            (None, Memory::DEFAULT),
            (Some(0), Memory::LEAST),
            (Some(1 << 30), 1 << 30),
        ] {
            let memory = Memory::of(&TreeOptions {
                memory: wanted,
                ..TreeOptions::default()
            });
            let sender = memory.window_bytes() + memory.ahead_bytes() + memory.files_bytes();
            assert!(Memory::FIXED + sender <= bytes, "{wanted:?}");
            assert!(memory.window_bytes() >= FIRST_WINDOW, "{wanted:?}");
        }
    }
}
