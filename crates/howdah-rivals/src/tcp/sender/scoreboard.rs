//! What the sender knows of every segment that is outstanding.

use crate::tcp::runs::Runs;
use howdah_core::Time;

/// Selectively acknowledged.
pub(crate) const SACKED: u8 = 1;
/// Concluded to be lost, and not sacked since.
pub(crate) const LOST: u8 = 2;
/// A retransmission of it is out that has not been concluded to be lost.
pub(crate) const RETRANSMITTED: u8 = 4;
/// Departure more than once: its round trip is ambiguous (Karn).
pub(crate) const EVER_RETRANSMITTED: u8 = 8;
/// The application had nothing more to send when it left.
pub(crate) const APP_LIMITED: u8 = 16;

/// One segment, as of its last departure: 32 bytes, two to a cache line.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Departure {
    /// Departure, ns.
    pub(crate) sent_ns: u64,
    /// Connection's count of delivered segments at departure, low half.
    pub(crate) delivered: u32,
    /// From the last delivery to departure, in units of 16 ns.
    pub(crate) since_delivered: u32,
    /// From the start of the sending interval (draft: `first_sent_time`) to departure, likewise.
    pub(crate) since_first_sent: u32,
    /// In flight at departure, itself included.
    pub(crate) in_flight: u32,
    /// Connection's count of segments concluded to be lost, at departure, low half.
    pub(crate) lost: u32,
    pub(crate) flags: u8,
}

/// A length of time in units of 16 ns: 68 s fit.
pub(crate) fn coarse(ns: u64) -> u32 {
    u32::try_from(ns >> 4).unwrap_or(u32::MAX)
}

/// Its length in nanoseconds.
pub(crate) const fn fine(coarse: u32) -> u64 {
    (coarse as u64) << 4
}

impl Departure {
    pub(crate) const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    pub(crate) const fn sent_at(&self) -> Time {
        Time::from_nanos(self.sent_ns)
    }
}

/// Segments by index, counted from 0 at the start of the stream.
///
/// The counts follow RFC 6675's pipe in the form that Linux gave it: outstanding, less those that
/// arrived (`sacked`), less those that are lost, plus retransmissions of lost ones that are out.
#[derive(Clone, Debug)]
pub(crate) struct Scoreboard {
    ring: Vec<Departure>,
    mask: u64,
    /// First segment not cumulatively acknowledged.
    pub(crate) una: u64,
    /// First segment never sent.
    pub(crate) nxt: u64,
    pub(crate) sacked: u32,
    pub(crate) lost: u32,
    pub(crate) retransmitted: u32,
    /// No segment from this one on was sent twice.
    pub(crate) retransmitted_below: u64,
    /// The sacked segments, as runs of indexes.
    pub(crate) runs: Runs,
}

impl Scoreboard {
    pub(crate) fn new() -> Self {
        let capacity = 64;
        Self {
            ring: vec![Departure::default(); capacity],
            mask: capacity as u64 - 1,
            una: 0,
            nxt: 0,
            sacked: 0,
            lost: 0,
            retransmitted: 0,
            retransmitted_below: 0,
            runs: Runs::default(),
        }
    }

    /// Segments sent and not cumulatively acknowledged.
    #[inline]
    pub(crate) const fn outstanding(&self) -> u32 {
        (self.nxt - self.una) as u32
    }

    /// Segments in flight.
    #[inline]
    pub(crate) const fn in_flight(&self) -> u32 {
        self.outstanding() + self.retransmitted - self.sacked - self.lost
    }

    #[inline]
    pub(crate) fn get(&self, index: u64) -> &Departure {
        debug_assert!(index >= self.una && index < self.nxt);
        &self.ring[(index & self.mask) as usize]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, index: u64) -> &mut Departure {
        debug_assert!(index >= self.una && index < self.nxt);
        &mut self.ring[(index & self.mask) as usize]
    }

    /// Makes the next index; its entry is still to be written.
    #[inline]
    pub(crate) fn push(&mut self, sent: Departure) {
        if u64::from(self.outstanding()) > self.mask {
            self.grow();
        }
        self.ring[(self.nxt & self.mask) as usize] = sent;
        self.nxt += 1;
    }

    #[cold]
    fn grow(&mut self) {
        let capacity = self.ring.len() * 2;
        let mask = capacity as u64 - 1;
        let mut ring = vec![Departure::default(); capacity];
        for index in self.una..self.nxt {
            ring[(index & mask) as usize] = self.ring[(index & self.mask) as usize];
        }
        self.ring = ring;
        self.mask = mask;
    }

    /// Nothing outstanding is sacked, lost or was sent twice: an acknowledgement then needs to
    /// look at one segment only.
    #[inline]
    pub(crate) const fn is_plain(&self) -> bool {
        self.sacked == 0 && self.lost == 0 && self.una >= self.retransmitted_below
    }

    /// Whether this is outstanding, lost, and not out again.
    pub(crate) fn needs_retransmission(&self, index: u64) -> bool {
        index >= self.una
            && index < self.nxt
            && self.get(index).flags & (SACKED | LOST | RETRANSMITTED) == LOST
    }

    /// Concludes that the original is lost. False if that was known, or is wrong.
    pub(crate) fn mark_lost(&mut self, index: u64) -> bool {
        let sent = self.get_mut(index);
        if sent.flags & (SACKED | LOST) != 0 {
            return false;
        }
        sent.flags |= LOST;
        self.lost += 1;
        true
    }

    /// Concludes that the retransmission is lost, and with it the segment.
    pub(crate) fn mark_retransmission_lost(&mut self, index: u64) {
        let sent = self.get_mut(index);
        debug_assert!(sent.flags & (SACKED | RETRANSMITTED) == RETRANSMITTED);
        sent.flags &= !RETRANSMITTED;
        let newly = sent.flags & LOST == 0;
        sent.flags |= LOST;
        self.retransmitted -= 1;
        self.lost += u32::from(newly);
    }

    /// A segment that was sacked or acknowledged leaves the counts of what is missing.
    #[inline]
    pub(crate) fn settle(&mut self, flags: u8) {
        self.lost -= u32::from(flags & LOST != 0);
        self.retransmitted -= u32::from(flags & RETRANSMITTED != 0);
    }

    /// The segment index such that exactly `count - 1` sacked ones lie above it and it is sacked
    /// itself: everything missing below has `count` arrivals above. `None` if fewer are sacked.
    pub(crate) fn nth_sacked_from_top(&self, count: u32) -> Option<u64> {
        let mut left = u64::from(count.max(1));
        for run in self.runs.iter_down() {
            let len = run.end - run.start;
            if len >= left {
                return Some(run.end - left);
            }
            left -= len;
        }
        None
    }

    /// Recounts everything the slow way: debug builds do it while windows are small.
    #[cfg(debug_assertions)]
    pub(crate) fn check(&self, sack: bool) {
        let count = |flag| {
            (self.una..self.nxt)
                .filter(|&index| self.get(index).has(flag))
                .count() as u32
        };
        assert_eq!(self.lost, count(LOST), "lost");
        assert_eq!(self.retransmitted, count(RETRANSMITTED), "retransmitted");
        assert!(self.sacked + self.lost <= self.outstanding(), "sacked");
        if sack {
            let from_runs: u64 = self.runs.iter_down().map(|run| run.end - run.start).sum();
            assert_eq!(u64::from(self.sacked), from_runs, "runs");
            assert_eq!(self.sacked, count(SACKED), "sacked");
        }
    }
}
