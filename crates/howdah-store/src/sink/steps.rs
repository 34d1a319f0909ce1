//! How much of the disk a file takes before its content: what a peer only announces must not cost the others their space.

/// So much is taken ahead of what has come.
pub(super) const STEP: u64 = 64 << 20;

/// See the module.
#[derive(Debug)]
pub(super) struct Steps {
    size: u64,
    taken: u64,
}

impl Steps {
    /// Of a file that is to become so long.
    pub(super) fn new(size: u64) -> Self {
        Self { size, taken: 0 }
    }

    /// How many bytes from its start the file should have space for, now that so many have come. `None`: it has them.
    pub(super) fn next(&mut self, come: u64) -> Option<u64> {
        let is_enough = self.taken >= self.size || come.saturating_add(STEP / 2) <= self.taken;
        (!is_enough).then(|| {
            self.taken = self.size.min(come.saturating_add(STEP));
            self.taken
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h9_space_is_taken_as_content_comes_and_never_much_ahead_of_it() {
        for size in [0, 1, STEP - 1, STEP, STEP + 1, 10 * STEP + 7, 10 << 40] {
            let mut steps = Steps::new(size);
            let (mut come, mut taken, mut calls) = (0, 0, 0);
            let end = size.min(20 * STEP);
            loop {
                if let Some(to) = steps.next(come) {
                    assert!(to > taken && to <= size && to <= come + STEP);
                    (taken, calls) = (to, calls + 1);
                }
                assert!(taken >= size.min(come), "what comes finds its space");
                if come == end {
                    break;
                }
                come = end.min(come + (1 << 20));
            }
            assert!(calls <= 2 + end / (STEP / 2), "{calls} calls");
        }
        // What is there from an earlier copy counts as come.
        assert_eq!(Steps::new(10 * STEP).next(5 * STEP), Some(6 * STEP));
        assert_eq!(Steps::new(u64::MAX).next(u64::MAX - 1), Some(u64::MAX));
    }
}
