//! What the host had no time to send, by what was sent after it.

use std::collections::VecDeque;

/// As many such times are remembered: at least half a second of them.
const TIMES: usize = 128;

#[derive(Debug, Default)]
pub(crate) struct Unsent {
    /// Bytes that had been sent when it was noticed, and the bytes that were not, both since the beginning.
    times: VecDeque<(u64, u64)>,
    /// What was not sent before the first of them.
    before: u64,
}

impl Unsent {
    /// After `sent` bytes that much in all has not been sent.
    pub(crate) fn on_train(&mut self, sent: u64, unsent: u64) {
        if self.times.back().map_or(self.before, |&(_, last)| last) == unsent {
            return;
        }
        if self.times.len() >= TIMES
            && let Some((_, first)) = self.times.pop_front()
        {
            self.before = first;
        }
        self.times.push_back((sent, unsent));
    }

    /// What had not been sent before the packet in front of which `sent` bytes were.
    pub(crate) fn until(&self, sent: u64) -> u64 {
        let after = self.times.partition_point(|&(at, _)| at <= sent);
        let last = after.checked_sub(1).and_then(|n| self.times.get(n));
        last.map_or(self.before, |&(_, unsent)| unsent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_sent_belongs_to_what_follows() {
        let mut unsent = Unsent::default();
        unsent.on_train(0, 0);
        unsent.on_train(10_000, 500);
        unsent.on_train(12_000, 500);
        unsent.on_train(20_000, 700);
        let seen = [0, 9_999, 10_000, 19_999, 20_000, 50_000].map(|sent| unsent.until(sent));
        assert_eq!(seen, [0, 0, 500, 500, 700, 700]);
        // Of what was long ago only the sum is known.
        for n in 0..TIMES as u64 {
            unsent.on_train(100_000 + n, 800 + n);
        }
        assert_eq!(unsent.until(0), 700);
        assert_eq!(unsent.until(100_000), 800);
        assert_eq!(unsent.times.len(), TIMES);
    }
}
