//! Names of inodes that have several, at the sender.

/// The number that an inode was told by, and how many of its names have not come yet: in eight bytes, as
/// there may be millions.
pub(super) struct Linked(u64);

/// A name of an inode that has several.
pub(super) enum OneOf {
    First { link: u64 },
    Further { link: u64, last: bool },
}

impl Linked {
    const COUNT_BITS: u32 = 24;
    /// As many or more: they are not counted.
    const MANY: u64 = (1 << Self::COUNT_BITS) - 1;

    pub(super) fn new(link: u64, names: u64) -> Self {
        Self(link << Self::COUNT_BITS | names.saturating_sub(1).min(Self::MANY))
    }

    pub(super) fn link(&self) -> u64 {
        self.0 >> Self::COUNT_BITS
    }

    /// One more name has come. Whether it was the last.
    pub(super) fn count(&mut self) -> bool {
        match self.0 & Self::MANY {
            Self::MANY | 0 => false,
            left => {
                self.0 -= 1;
                left == 1
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inode_is_forgotten_with_its_last_name() {
        let mut three = Linked::new(5, 3);
        assert_eq!(
            (three.link(), three.count(), three.count()),
            (5, false, true)
        );
        // A name that was given meanwhile.
        assert!(!three.count());
        assert_eq!(three.link(), 5);
        let mut many = Linked::new(1 << 39, u64::MAX);
        assert!(!many.count());
        assert_eq!(many.link(), 1 << 39);
    }
}
