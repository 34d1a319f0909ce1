//! Files with several names that the destination does not have, or not as the source has them: a further name of such a file would be one of
//! something else.

use std::collections::BTreeMap;

/// So many are known, whatever is sent: more than can be under way.
const MOST: usize = 1 << 16;

/// What is wrong with the first name of a file that has several.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Doubt {
    /// It has been asked for, or cannot be had: what has its name is another file, if anything has.
    Absent,
    /// What has its name stays, as it was asked for: further names are names of that, and not of what the source has.
    Stays,
}

/// See the module. By the numbers that the source tells files with several names by.
#[derive(Debug, Default)]
pub struct Doubts {
    known: BTreeMap<u64, Doubt>,
    /// There were more.
    overflowed: bool,
}

impl Doubts {
    /// There is a doubt about that one.
    pub fn note(&mut self, link: u64, doubt: Doubt) {
        if self.known.len() < MOST || self.known.contains_key(&link) {
            self.known.insert(link, doubt);
        } else {
            self.overflowed = true;
        }
    }

    /// It is in place, or nothing more is said of it.
    pub fn clear(&mut self, link: u64) {
        self.known.remove(&link);
    }

    /// What is wrong with it. Once they are too many to be known, all that are not may be absent.
    pub fn of(&self, link: u64) -> Option<Doubt> {
        match self.known.get(&link) {
            Some(doubt) => Some(*doubt),
            None => self.overflowed.then_some(Doubt::Absent),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubts_are_bounded_and_none_is_lost() {
        let mut doubts = Doubts::default();
        doubts.note(7, Doubt::Absent);
        assert_eq!(doubts.of(7), Some(Doubt::Absent));
        doubts.note(7, Doubt::Stays);
        assert_eq!(doubts.of(7), Some(Doubt::Stays));
        doubts.clear(7);
        assert_eq!(doubts.of(7), None);
        for link in 0..2 * MOST as u64 {
            doubts.note(link, Doubt::Absent);
        }
        assert_eq!(doubts.known.len(), MOST);
        assert_eq!(doubts.of(2 * MOST as u64 - 1), Some(Doubt::Absent));
        doubts.clear(3);
        doubts.note(3, Doubt::Stays);
        assert_eq!(doubts.of(3), Some(Doubt::Stays));
    }
}
