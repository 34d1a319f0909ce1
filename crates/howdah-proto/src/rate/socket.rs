//! Tells the losses of the path from packets that the receiving socket dropped.
//!
//! A host that stands still for some milliseconds drops what does not fit its socket buffer. It tells so at
//! once, but the packets are called lost later, when their holes have settled. The count that it tells is
//! no measure of how many will be: Linux counts joined datagrams (GRO) as one drop, and others may use
//! the socket. What is known is when: between two reports. So what was sent to arrive in between is
//! taken for the host's loss if it is called lost.

use howdah_core::Time;
use std::collections::VecDeque;

/// Older times are forgotten; packets of theirs have been called lost long ago.
const MOST_WINDOWS: usize = 16;

/// When packets were sent that may have been dropped by the receiving socket.
#[derive(Debug, Default)]
pub(crate) struct SocketDrops {
    /// First and last time of sending.
    windows: VecDeque<(Time, Time)>,
    told: u64,
    /// When the newest packet was sent that the report before knew.
    newest_before: Time,
    lost: u64,
}

impl SocketDrops {
    /// A report says that the socket has dropped `told` since the beginning and knows packets up to one that was
    /// sent at `newest`; when it was written, nothing had arrived that was sent after `arrived`. Returns how many
    /// drops are new.
    pub(crate) fn on_report(&mut self, told: u64, newest: Time, arrived: Time) -> u64 {
        let more = told.saturating_sub(self.told);
        self.told = self.told.max(told);
        if more > 0 {
            // What the socket held stands before what it dropped.
            let until = arrived.max(newest);
            match self.windows.back_mut() {
                Some((_, end)) if *end >= self.newest_before => *end = until.max(*end),
                _ => self.windows.push_back((self.newest_before, until)),
            }
            if self.windows.len() > MOST_WINDOWS {
                self.windows.pop_front();
            }
        }
        self.newest_before = self.newest_before.max(newest);
        more
    }

    /// Whether a packet that was sent then and did not arrive is one of them.
    fn explain(&self, sent: Time) -> bool {
        let after = self.windows.partition_point(|&(_, end)| end < sent);
        self.windows
            .get(after)
            .is_some_and(|&(start, _)| start <= sent)
    }

    /// A packet that was sent then is called lost. Returns whether the path lost it.
    pub(crate) fn on_lost(&mut self, sent: Time) -> bool {
        let explained = self.explain(sent);
        self.lost += u64::from(explained);
        !explained
    }

    /// It has arrived after all.
    pub(crate) fn on_late(&mut self, sent: Time) {
        self.lost = self.lost.saturating_sub(u64::from(self.explain(sent)));
    }

    /// Drops that were told of so far.
    pub(crate) fn told(&self) -> u64 {
        self.told
    }

    /// Packets lost at the socket so far.
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_core::Span;

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::from_millis(ms)
    }

    #[test]
    fn what_was_to_arrive_between_two_reports_is_the_hosts() {
        let mut drops = SocketDrops::default();
        assert_eq!(drops.on_report(0, at(100), at(102)), 0);
        assert!(drops.on_lost(at(99)), "nothing was dropped");
        // A host that stood still: it has read up to 105 and dropped what came after that.
        assert_eq!(drops.on_report(64, at(105), at(111)), 64);
        assert_eq!(drops.on_report(80, at(112), at(121)), 16);
        assert_eq!(drops.on_report(80, at(130), at(131)), 0);
        for (sent, on_path) in [(99, true), (100, false), (111, false), (121, false)] {
            assert_eq!(drops.on_lost(at(sent)), on_path, "{sent}");
        }
        assert!(drops.on_lost(at(122)));
        assert_eq!(drops.lost(), 3);
        drops.on_late(at(111));
        drops.on_late(at(122));
        assert_eq!(drops.lost(), 2);
        // A second time, and the first is still known.
        assert_eq!(drops.on_report(81, at(140), at(142)), 1);
        assert!(!drops.on_lost(at(121)));
        assert!(drops.on_lost(at(125)));
        assert!(!drops.on_lost(at(141)));
    }

    #[test]
    fn times_that_follow_each_other_are_one_and_few_are_kept() {
        let mut drops = SocketDrops::default();
        for n in 0..1_000 {
            drops.on_report(n + 1, at(10 * n), at(10 * n + 2));
        }
        assert!(drops.windows.len() <= MOST_WINDOWS);
        let mut drops = SocketDrops::default();
        for n in 0..1_000 {
            drops.on_report(n + 1, at(10 * n), at(10 * n + 11));
        }
        assert_eq!(drops.windows.len(), 1);
        assert!(!drops.on_lost(at(5)) && !drops.on_lost(at(9_999)));
    }
}
