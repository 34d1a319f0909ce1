//! How much memory one side of a tree transfer takes, and for what.
//!
//! What is under way between two hosts is a round trip's worth, and both sides hold it: the sender until it is confirmed, the
//! receiver while the disk or a gap holds it up. So the memory is the rate, and by default both stay small; who wants more
//! says so.

use super::TreeOptions;

/// See the module. In bytes.
#[derive(Clone, Copy, Debug)]
pub struct Memory(u64);

impl Memory {
    /// What a side takes unless somebody says otherwise, all that the program is included.
    pub const DEFAULT: u64 = 48 << 20;
    /// With less nothing goes.
    pub const LEAST: u64 = 40 << 20;
    /// The program, its threads and buffers, and names that are on their way.
    const FIXED: u64 = 16 << 20;

    /// What those options say.
    pub fn of(options: &TreeOptions) -> Self {
        Self(options.memory.unwrap_or(Self::DEFAULT).max(Self::LEAST))
    }

    fn share(self) -> u64 {
        (self.0 - Self::FIXED) / 8
    }

    /// Packed contents that are sent and not confirmed, or have arrived and are not unpacked.
    pub fn window_bytes(self) -> u64 {
        self.share() * 6
    }

    /// Packed contents beyond what was sent.
    pub fn ahead_bytes(self) -> u64 {
        self.share()
    }

    /// Files that are read and not packed, or unpacked and not written.
    pub fn files_bytes(self) -> u64 {
        self.share()
    }

    /// What of large files has arrived and is not written.
    pub fn large_bytes(self) -> u64 {
        self.share() * 3
    }

    /// Names that were asked for, and what is kept of them besides their content.
    pub(crate) fn names_bytes(self) -> u64 {
        self.share() * 2
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
            // The first window, which both sides know without a word.
            assert!(memory.window_bytes() >= 16 << 20, "{wanted:?}");
        }
    }
}
