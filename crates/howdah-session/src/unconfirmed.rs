//! What a sender has sent of a tree, by number, until the receiver says that it is in place: then somebody is told, and in a move its
//! source goes. Bounded, whatever the receiver says.

use std::collections::{BTreeMap, BTreeSet};

/// Links have numbers of their own behind those of all files.
pub const LINK_NUMBERS: u64 = 1 << 62;

/// See the module. `S` is what is done with it then.
#[derive(Debug)]
pub struct Unconfirmed<S> {
    most: usize,
    waiting: BTreeMap<u64, S>,
    /// Files before this one have been answered.
    answered: u64,
    /// Files behind it that are in place: that came before the answer.
    early: BTreeSet<u64>,
}

/// What became of something that was sent.
#[derive(Debug, Eq, PartialEq)]
pub enum Noted<S> {
    /// It waits.
    Waits,
    /// It is in place.
    IsPlaced(S),
    /// That other one is not waited for any more, for they are too many.
    Forgets(S),
}

impl<S> Unconfirmed<S> {
    /// Of which so many wait, at most.
    pub fn new(most: usize) -> Self {
        Self {
            most,
            waiting: BTreeMap::new(),
            answered: 0,
            early: BTreeSet::new(),
        }
    }

    /// It is sent, or is at the receiver already, which says so.
    pub fn put(&mut self, number: u64, sent: S) -> Noted<S> {
        if self.early.remove(&number) {
            return Noted::IsPlaced(sent);
        }
        self.waiting.insert(number, sent);
        if self.waiting.len() > self.most
            && let Some((_, sent)) = self.waiting.pop_first()
        {
            return Noted::Forgets(sent);
        }
        Noted::Waits
    }

    /// Files before that one have been answered: what is sent of them is [put](Self::put) before the receiver can have it in place.
    pub fn set_answered(&mut self, answered: u64) {
        self.answered = answered;
        self.early = self.early.split_off(&answered);
    }

    /// These are in place: what is known of them. Whatever else the receiver names is nothing.
    pub fn are_placed(&mut self, first: u64, count: u64) -> Vec<(u64, S)> {
        let end = first.saturating_add(count);
        let these: Vec<u64> = self
            .waiting
            .range(first..end)
            .map(|(number, _)| *number)
            .collect();
        let room = self.most.saturating_sub(self.early.len());
        let behind = first.max(self.answered)..end.min(LINK_NUMBERS);
        self.early.extend(
            behind
                .take(room)
                .filter(|number| these.binary_search(number).is_err()),
        );
        let known = these.into_iter();
        known
            .filter_map(|number| Some((number, self.waiting.remove(&number)?)))
            .collect()
    }

    /// What waits.
    pub fn waiting(&self) -> impl Iterator<Item = &S> {
        self.waiting.values()
    }
}

/// Numbers as a message tells them: how many are left out, and how many follow each other. Parts of so many numbers, at most.
pub fn runs_of(mut numbers: Vec<u64>, most: usize) -> Vec<Vec<(u64, u64)>> {
    numbers.sort_unstable();
    numbers.dedup();
    let part = |part: &[u64]| {
        let mut runs: Vec<(u64, u64)> = Vec::new();
        let mut end = 0;
        for &number in part {
            match runs.last_mut() {
                Some((_, count)) if number == end => *count += 1,
                _ => runs.push((number - end, 1)),
            }
            end = number + 1;
        }
        runs
    };
    numbers.chunks(most.max(1)).map(part).collect()
}

/// The first number of each run, and how many there are.
pub fn each_run(runs: &[(u64, u64)]) -> impl Iterator<Item = (u64, u64)> {
    runs.iter().scan(0u64, |at, &(skipped, count)| {
        let first = at.saturating_add(skipped);
        *at = first.saturating_add(count);
        Some((first, count))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_in_place_before_its_answer_is_not_forgotten_and_what_was_sent_is_told_once() {
        let mut sent = Unconfirmed::new(4);
        assert!(sent.are_placed(0, 2).is_empty());
        assert_eq!(sent.put(0, "a"), Noted::IsPlaced("a"));
        assert_eq!(sent.put(1, "b"), Noted::IsPlaced("b"));
        assert_eq!(sent.put(LINK_NUMBERS, "l"), Noted::Waits);
        assert_eq!(sent.are_placed(LINK_NUMBERS, 1), [(LINK_NUMBERS, "l")]);
        for (number, name) in [(2, "c"), (3, "d"), (4, "e"), (9, "f")] {
            assert_eq!(sent.put(number, name), Noted::Waits);
        }
        assert_eq!(sent.put(10, "g"), Noted::Forgets("c"));
        assert_eq!(
            sent.are_placed(0, u64::MAX),
            [(3, "d"), (4, "e"), (9, "f"), (10, "g")]
        );
        assert!(sent.are_placed(0, u64::MAX).is_empty());
        assert!(sent.early.len() <= 4, "bounded");
    }

    /// A large file is in place when its object is settled, and the receiver tells of it with the others besides: that was kept for ever,
    /// and so many of them left no room for those that come before their answers.
    #[test]
    fn what_is_told_of_files_that_are_answered_takes_no_room() {
        let mut sent = Unconfirmed::new(4);
        for large in 0..100 {
            sent.set_answered(large + 1);
            sent.put(large, "large");
            assert_eq!(sent.are_placed(large, 1), [(large, "large")]);
            assert!(sent.are_placed(large, 1).is_empty());
        }
        assert!(sent.are_placed(100, 1).is_empty());
        assert_eq!(sent.put(100, "there"), Noted::IsPlaced("there"));
    }

    proptest! {
        #[test]
        fn numbers_come_back_as_they_were(numbers in prop::collection::vec(0..200u64, 0..60), most in 1..9usize) {
            let mut told = Vec::new();
            for runs in runs_of(numbers.clone(), most) {
                for (first, count) in each_run(&runs) {
                    told.extend(first..first + count);
                }
            }
            let mut sorted = numbers;
            sorted.sort_unstable();
            sorted.dedup();
            prop_assert_eq!(told, sorted);
        }
    }
}
