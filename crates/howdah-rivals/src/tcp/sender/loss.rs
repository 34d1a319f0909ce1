//! Which segments are lost.
//!
//! Every rule here is a frontier that moves forwards: over the originals in the order in which
//! they were first sent, and over the retransmissions in the order in which they were sent again.
//! What a frontier has passed is judged and not looked at again, so the work per acknowledgement
//! does not grow with the window.

use super::scoreboard::{Departure, EVER_RETRANSMITTED, LOST, RETRANSMITTED, SACKED, Scoreboard};
use crate::tcp::{LossDetection, TcpConfig};
use howdah_core::{Span, Time};
use std::collections::VecDeque;

/// RFC 5681's three duplicate acknowledgements.
const DUP_THRESHOLD: u32 = 3;
/// Linux's `TCP_MAX_REORDERING` of the time.
const MAX_REORDERING: u32 = 127;
/// RFC 8985 section 6.2 step 4: after so many recoveries without a D-SACK the window is small again.
const REORDER_WINDOW_PERSIST: u32 = 16;

/// What has been found out, and what is to be sent again.
#[derive(Clone, Debug)]
pub(super) struct LossFinder {
    /// Arrivals above that make a segment lost.
    reordering: u32,
    fack: bool,
    adapt: bool,
    lost_retransmissions: bool,
    reordering_seen: bool,
    /// Originals below are judged.
    judged: u64,
    /// Retransmissions under way, in the order in which they left, each with the first index
    /// that had never been sent at that time.
    out: VecDeque<(u64, u64)>,
    /// Segments to send again: those whose retransmission was lost first, for they are oldest.
    again: VecDeque<u64>,
    fresh: VecDeque<u64>,
    /// RACK: departure, index and round-trip time of the delivered segment that left last.
    rack: Option<(u64, u64, u64)>,
    /// RACK: quarters of the least round-trip time in the reordering window.
    window_steps: u32,
    window_persist: u32,
    window_round: u64,
    /// RACK: when a segment's reordering window ends.
    pub(super) reorder_at: Option<Time>,
}

impl LossFinder {
    pub(super) fn new(config: &TcpConfig) -> Self {
        let (fack, adapt, lost_retransmissions) = match config.loss_detection {
            LossDetection::DuplicateAcks {
                fack,
                adapt_reordering,
                lost_retransmissions,
                ..
            } => (fack, adapt_reordering, lost_retransmissions),
            LossDetection::RackTlp => (false, false, true),
        };
        Self {
            reordering: DUP_THRESHOLD,
            fack,
            adapt,
            lost_retransmissions,
            reordering_seen: false,
            judged: 0,
            out: VecDeque::new(),
            again: VecDeque::new(),
            fresh: VecDeque::new(),
            rack: None,
            window_steps: 1,
            window_persist: 0,
            window_round: 0,
            reorder_at: None,
        }
    }

    pub(super) const fn threshold(&self) -> u32 {
        self.reordering
    }

    /// The next segment to send again; it stays the next until [`Self::take_lost`].
    #[inline]
    pub(super) fn next_lost(&mut self, board: &Scoreboard) -> Option<u64> {
        if board.lost == 0 {
            return None;
        }
        for queue in [&mut self.again, &mut self.fresh] {
            while let Some(&index) = queue.front() {
                if board.needs_retransmission(index) {
                    return Some(index);
                }
                queue.pop_front();
            }
        }
        None
    }

    /// The segment that [`Self::next_lost`] named leaves now.
    pub(super) fn retransmitted(&mut self, index: u64, nxt: u64) {
        for queue in [&mut self.again, &mut self.fresh] {
            if queue.front() == Some(&index) {
                queue.pop_front();
                break;
            }
        }
        self.out.push_back((index, nxt));
    }

    /// The segment that left again last has not left.
    pub(super) fn take_back(&mut self, index: u64) {
        if self.out.back().is_some_and(|&(last, _)| last == index) {
            self.out.pop_back();
        }
        self.again.push_front(index);
    }

    /// A segment that was sent once arrived after `distance` later ones.
    pub(super) fn on_reordering(&mut self, distance: u64) {
        self.reordering_seen = true;
        if self.adapt {
            self.fack = false;
            let distance = u32::try_from(distance).unwrap_or(u32::MAX);
            self.reordering = self.reordering.max(distance.min(MAX_REORDERING));
        }
    }

    /// RFC 8985 section 6.2 step 2: the delivered segment that left last. An acknowledgement that
    /// comes sooner than the path allows is of an earlier copy.
    #[inline]
    pub(super) fn on_delivered(&mut self, now: Time, index: u64, sent: &Departure, min_rtt: Span) {
        let rtt = now.as_nanos().saturating_sub(sent.sent_ns);
        if sent.has(EVER_RETRANSMITTED) && rtt < min_rtt.as_nanos() {
            return;
        }
        if self
            .rack
            .is_none_or(|(at, newest, _)| (sent.sent_ns, index) > (at, newest))
        {
            self.rack = Some((sent.sent_ns, index, rtt));
        }
    }

    /// RFC 8985 section 6.2 step 4: a D-SACK says that the reordering window was too short; it is
    /// widened once in a round trip.
    pub(super) fn on_dsack(&mut self, board: &Scoreboard) {
        if board.una >= self.window_round {
            self.window_round = board.nxt;
            self.window_steps = (self.window_steps + 1).min(255);
            self.window_persist = REORDER_WINDOW_PERSIST;
        }
    }

    /// A recovery ended.
    pub(super) fn on_recovered(&mut self) {
        self.window_persist = self.window_persist.saturating_sub(1);
        if self.window_persist == 0 {
            self.window_steps = 1;
        }
    }

    /// Without SACK: the first missing segment is lost.
    pub(super) fn mark_head(&mut self, board: &mut Scoreboard) -> u32 {
        let head = board.una;
        if board.outstanding() == 0 || board.get(head).has(RETRANSMITTED) || !board.mark_lost(head)
        {
            return 0;
        }
        self.fresh.push_back(head);
        1
    }

    /// Three arrivals above (RFC 6675), or one three places further on (FACK).
    pub(super) fn by_count(&mut self, board: &mut Scoreboard) -> u32 {
        let Some(last) = board.runs.last() else {
            return 0;
        };
        let mut found = 0;
        let edge = if self.fack {
            last.end.saturating_sub(u64::from(self.reordering))
        } else {
            board.nth_sacked_from_top(self.reordering).unwrap_or(0)
        };
        self.judged = self.judged.max(board.una);
        while self.judged < edge {
            let flags = board.get(self.judged).flags;
            if flags & (SACKED | LOST | RETRANSMITTED) == 0 && board.mark_lost(self.judged) {
                self.fresh.push_back(self.judged);
                found += 1;
            }
            self.judged += 1;
        }
        if self.lost_retransmissions {
            let slack = if self.fack {
                0
            } else {
                u64::from(self.reordering)
            };
            while let Some(&(index, nxt)) = self.out.front() {
                let under_way = is_under_way(board, index);
                if under_way && last.end <= nxt + slack {
                    break;
                }
                self.out.pop_front();
                if under_way {
                    board.mark_retransmission_lost(index);
                    self.again.push_back(index);
                    found += 1;
                }
            }
        }
        found
    }

    /// RFC 8985 section 6.2 step 5.
    pub(super) fn by_time(
        &mut self,
        now: Time,
        board: &mut Scoreboard,
        (srtt, min_rtt): (Span, Span),
        recovering: bool,
    ) -> u32 {
        let Some((rack_ns, rack_index, rack_rtt)) = self.rack else {
            return 0;
        };
        let window = self.reorder_window(board, (srtt, min_rtt), recovering);
        let deadline = |sent: &Departure| sent.sent_ns + rack_rtt + window;
        let left_before = |sent: &Departure, index| (sent.sent_ns, index) < (rack_ns, rack_index);
        let mut found = 0;
        let mut next = u64::MAX;
        self.judged = self.judged.max(board.una);
        while self.judged < board.nxt {
            let sent = board.get(self.judged);
            if sent.flags & (SACKED | LOST | EVER_RETRANSMITTED) == 0 {
                if !left_before(sent, self.judged) {
                    break;
                }
                if deadline(sent) > now.as_nanos() {
                    next = next.min(deadline(sent));
                    break;
                }
                board.mark_lost(self.judged);
                self.fresh.push_back(self.judged);
                found += 1;
            }
            self.judged += 1;
        }
        while let Some(&(index, _)) = self.out.front() {
            if is_under_way(board, index) {
                let sent = board.get(index);
                if !left_before(sent, index) {
                    break;
                }
                if deadline(sent) > now.as_nanos() {
                    next = next.min(deadline(sent));
                    break;
                }
                board.mark_retransmission_lost(index);
                self.again.push_back(index);
                found += 1;
            }
            self.out.pop_front();
        }
        self.reorder_at = (next < u64::MAX).then(|| Time::from_nanos(next));
        found
    }

    /// RFC 8985 section 6.2 step 4.
    fn reorder_window(
        &self,
        board: &Scoreboard,
        (srtt, min_rtt): (Span, Span),
        recovering: bool,
    ) -> u64 {
        if !self.reordering_seen && (recovering || board.sacked >= DUP_THRESHOLD) {
            return 0;
        }
        let quarters = min_rtt.as_nanos() / 4 * u64::from(self.window_steps);
        quarters.min(srtt.as_nanos())
    }

    /// A timeout: what has not arrived is lost. RACK spares what may still be on its way (RFC 8985
    /// section 6.3): what left later than a round trip and a reordering window ago, but never the
    /// first segment. Returns how many were not known to be lost.
    pub(super) fn lose_all(
        &mut self,
        now: Time,
        board: &mut Scoreboard,
        rtts: Option<(Span, Span)>,
    ) -> u32 {
        let spared_from = match (self.rack, rtts) {
            (Some((_, _, rack_rtt)), Some(rtts)) => {
                let window = self.reorder_window(board, rtts, true);
                now.as_nanos().saturating_sub(rack_rtt + window)
            }
            _ => u64::MAX,
        };
        self.again.clear();
        self.fresh.clear();
        self.reorder_at = None;
        let mut found = 0;
        for index in board.una..board.nxt {
            let sent = board.get(index);
            if sent.has(SACKED) {
                continue;
            }
            let may_arrive = sent.sent_ns > spared_from && index != board.una;
            if sent.has(RETRANSMITTED) {
                if may_arrive {
                    continue;
                }
                board.mark_retransmission_lost(index);
                found += 1;
            } else if sent.has(LOST) {
                // Known, and waiting to be sent again.
            } else if may_arrive {
                continue;
            } else {
                found += u32::from(board.mark_lost(index));
            }
            self.fresh.push_back(index);
        }
        if rtts.is_none() {
            self.judged = board.nxt;
        }
        self.out.retain(|&(index, _)| is_under_way(board, index));
        found
    }

    /// Nothing was lost after all: what is outstanding is judged anew.
    pub(super) fn acquit_all(&mut self, board: &mut Scoreboard) {
        self.again.clear();
        self.fresh.clear();
        for index in board.una..board.nxt {
            board.get_mut(index).flags &= !LOST;
        }
        board.lost = 0;
        self.judged = board.una;
    }
}

/// A retransmission that has neither arrived nor been given up.
fn is_under_way(board: &Scoreboard, index: u64) -> bool {
    index >= board.una && board.get(index).flags & (SACKED | RETRANSMITTED) == RETRANSMITTED
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Time {
        Time::ZERO + Span::from_millis(ms)
    }

    /// Ten segments, one a millisecond.
    fn ten() -> Scoreboard {
        let mut board = Scoreboard::new();
        for at in 0..10 {
            board.push(Departure {
                sent_ns: ms(at).as_nanos(),
                ..Departure::default()
            });
        }
        board
    }

    fn sack(board: &mut Scoreboard, index: u64) {
        board.get_mut(index).flags |= SACKED;
        board.sacked += 1;
        board.runs.insert(index, index + 1, |_, _| {});
    }

    fn finder(fack: bool) -> LossFinder {
        LossFinder::new(&TcpConfig {
            loss_detection: LossDetection::DuplicateAcks {
                fack,
                adapt_reordering: true,
                lost_retransmissions: true,
                rescue: false,
            },
            ..TcpConfig::modern()
        })
    }

    #[test]
    fn three_arrivals_or_three_places() {
        let (mut board, mut counting) = (ten(), finder(false));
        sack(&mut board, 5);
        sack(&mut board, 7);
        assert_eq!(counting.by_count(&mut board), 0);
        // Two above are not enough for segment 6; three are, for all below 5.
        sack(&mut board, 9);
        assert_eq!(counting.by_count(&mut board), 5);
        assert!(!board.get(6).has(LOST));
        assert_eq!(counting.next_lost(&board), Some(0));

        let (mut board, mut forward) = (ten(), finder(true));
        sack(&mut board, 7);
        assert_eq!(forward.by_count(&mut board), 5);
        assert!(board.get(4).has(LOST) && !board.get(5).has(LOST));
    }

    #[test]
    fn reordering_raises_the_threshold_and_ends_fack() {
        let (mut board, mut finder) = (ten(), finder(true));
        finder.on_reordering(6);
        for index in 4..9 {
            sack(&mut board, index);
        }
        assert_eq!(finder.by_count(&mut board), 0);
        sack(&mut board, 9);
        assert_eq!(finder.by_count(&mut board), 4);
    }

    #[test]
    fn a_timeout_under_rack_spares_what_may_still_arrive() {
        let rtts = Some((Span::from_millis(97), Span::from_millis(97)));
        for (now, lost) in [(104, 7), (108, 9)] {
            let mut board = ten();
            let mut finder = LossFinder::new(&TcpConfig::modern());
            sack(&mut board, 3);
            // Left at 3 ms, arrived at 100: a round trip of 97.
            let departure = *board.get(3);
            finder.on_delivered(ms(100), 3, &departure, Span::ZERO);
            assert_eq!(finder.lose_all(ms(now), &mut board, rtts), lost);
            assert_eq!(board.in_flight(), 9 - lost);
            assert!(board.get(0).has(LOST));
        }
        let mut board = ten();
        assert_eq!(finder(false).lose_all(ms(104), &mut board, None), 10);
    }
}
