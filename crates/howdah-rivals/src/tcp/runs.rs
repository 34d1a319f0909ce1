//! Sorted, disjoint, non-touching runs of positions, made for the way in which TCP meets them.
//!
//! Nearly every insertion lengthens the last run or starts one behind it, and nearly every hole
//! that is filled is the first: both ends of a ring, so both cost the same whatever the number of
//! runs. Anything else is a binary search and the shifting of the shorter side. (A tree like
//! [`howdah_core::RangeSet`] pays three searches for each.)

use std::collections::VecDeque;

/// Positions `start..end`; never empty.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Run {
    pub(crate) start: u64,
    pub(crate) end: u64,
}

/// A set of positions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Runs {
    runs: VecDeque<Run>,
}

impl Runs {
    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    pub(crate) fn first(&self) -> Option<Run> {
        self.runs.front().copied()
    }

    pub(crate) fn last(&self) -> Option<Run> {
        self.runs.back().copied()
    }

    pub(crate) fn clear(&mut self) {
        self.runs.clear();
    }

    /// The runs from the highest down.
    pub(crate) fn iter_down(&self) -> impl Iterator<Item = Run> + '_ {
        self.runs.iter().rev().copied()
    }

    /// Adds `start..end` and calls `added` with each part of it that was not in the set, in
    /// ascending order. Returns the run that contains it now.
    pub(crate) fn insert(&mut self, start: u64, end: u64, mut added: impl FnMut(u64, u64)) -> Run {
        debug_assert!(start < end);
        match self.runs.back_mut() {
            Some(last) if start >= last.start && start <= last.end => {
                if end > last.end {
                    added(last.end, end);
                    last.end = end;
                }
                *last
            }
            Some(last) if start < last.start => self.insert_inside(start, end, added),
            _ => {
                added(start, end);
                let run = Run { start, end };
                self.runs.push_back(run);
                run
            }
        }
    }

    fn insert_inside(&mut self, start: u64, end: u64, mut added: impl FnMut(u64, u64)) -> Run {
        // The first run that it touches or that lies behind it: mostly the very first.
        let at = match self.runs.front() {
            Some(first) if first.end >= start => 0,
            _ => self.runs.partition_point(|run| run.end < start),
        };
        let mut merged = Run { start, end };
        let mut done = start;
        let mut past = at;
        while let Some(run) = self.runs.get(past)
            && run.start <= end
        {
            if run.start > done {
                added(done, run.start);
            }
            done = run.end;
            merged.start = merged.start.min(run.start);
            merged.end = merged.end.max(run.end);
            past += 1;
        }
        if done < end {
            added(done, end);
        }
        if past == at {
            self.runs.insert(at, merged);
        } else {
            self.runs[at] = merged;
            self.runs.drain(at + 1..past);
        }
        merged
    }

    /// Forgets everything below `edge`.
    pub(crate) fn trim_below(&mut self, edge: u64) {
        while let Some(first) = self.runs.front_mut() {
            if first.end <= edge {
                self.runs.pop_front();
            } else {
                first.start = first.start.max(edge);
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_a_bitmap(ops in prop::collection::vec((0..120_u64, 1..30_u64, 0..8_u8), 0..80)) {
            let mut runs = Runs::default();
            let mut bits = vec![false; 150];
            for (start, len, kind) in ops {
                if kind == 0 {
                    runs.trim_below(start);
                    bits[..start as usize].fill(false);
                } else {
                    let mut news = Vec::new();
                    let merged = runs.insert(start, start + len, |a, b| news.extend(a..b));
                    let expected: Vec<u64> = (start..start + len)
                        .filter(|&at| !bits[at as usize])
                        .collect();
                    prop_assert_eq!(news, expected);
                    bits[start as usize..(start + len) as usize].fill(true);
                    prop_assert!(merged.start <= start && merged.end >= start + len);
                    prop_assert!(bits[merged.start as usize..merged.end as usize].iter().all(|&bit| bit));
                    prop_assert!(merged.start == 0 || !bits[merged.start as usize - 1]);
                    prop_assert!(!bits[merged.end as usize]);
                }
                let mut rebuilt = vec![false; 150];
                let mut above = u64::MAX;
                for run in runs.iter_down() {
                    prop_assert!(run.start < run.end && run.end < above);
                    above = run.start;
                    rebuilt[run.start as usize..run.end as usize].fill(true);
                }
                prop_assert_eq!(&rebuilt, &bits);
            }
        }
    }
}
