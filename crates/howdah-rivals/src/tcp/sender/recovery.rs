//! What is done about losses: recovery and its window, timeouts, probes, and taking it all back.

use super::ack::News;
use super::scoreboard::{RETRANSMITTED, Scoreboard};
use super::{Sender, stamp_is_before};
use crate::tcp::cc::{Phase, SlowStartCounting};
use crate::tcp::{LossDetection, Recovery};
use howdah_core::{Span, Time};

/// RFC 8985 section 7.2: the other side may hold back the acknowledgement of a single segment.
const PROBE_ACK_DELAY: Span = Span::from_millis(200);

/// What may leave at once when a reduction is taken back (Linux: `tcp_max_burst`).
const UNDO_BURST_SEGMENTS: u32 = 3;

/// A tail-loss probe that is out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probe {
    /// First index not sent when it left.
    pub(super) end: u64,
    /// It repeated the last segment, rather than bringing a new one.
    pub(super) retransmission: bool,
}

/// The state of a repair.
#[derive(Clone, Debug, Default)]
pub(super) struct Repair {
    /// First index that had not been sent when it began: it ends when that is reached.
    pub(super) end: u64,
    /// Window while it lasts, in segments.
    pub(super) window: f64,
    /// Window after it, where less than what the congestion control allows is in flight: it grows
    /// as in slow start until it has caught up.
    pub(super) cap: Option<f64>,
    /// PRR: segments delivered and sent since it began, and what was outstanding then.
    delivered: u64,
    pub(super) sent: u64,
    flight: u64,
    /// Rate halving: an acknowledgement that has not yet counted.
    half: bool,
    /// In flight when a timeout began it, and not concluded to be lost.
    pub(super) spared: u32,
    /// It answers a full queue of the host and not a loss.
    local: bool,
    /// The last segment was repeated speculatively (RFC 6675, `NextSeg` rule 4).
    pub(super) rescued: bool,
    /// It can be taken back: first index outstanding when it began.
    undo_from: Option<u64>,
    /// Retransmissions since then that have not been reported as duplicates.
    undo_left: u32,
    /// When it began, segments were outstanding that had been sent twice already: what is reported
    /// as a duplicate may be one of those.
    ambiguous: bool,
    /// Our clock at the first of them, or at an earlier one that may still be acknowledged.
    first_stamp: Option<u32>,
    pub(super) probe: Option<Probe>,
}

impl Repair {
    pub(super) fn on_retransmission(&mut self, stamp: u32) {
        self.undo_left += 1;
        self.first_stamp.get_or_insert(stamp);
    }

    /// The last retransmission has not left.
    pub(super) fn take_back_retransmission(&mut self) {
        self.undo_left = self.undo_left.saturating_sub(1);
    }

    fn begin(&mut self, board: &Scoreboard) {
        let (una, nxt) = (board.una, board.nxt);
        self.end = nxt;
        self.cap = None;
        self.delivered = 0;
        self.sent = 0;
        self.flight = (nxt - una).max(1);
        self.half = false;
        self.local = false;
        self.rescued = false;
        self.undo_from = Some(una);
        self.undo_left = 0;
        // Repetitions of the repair before (those that a timeout has given up included) will still
        // be acknowledged, with stamps that are older than the first of this one.
        self.ambiguous = board.una < board.retransmitted_below;
        if !self.ambiguous {
            self.first_stamp = None;
        }
        self.probe = None;
    }

    /// RFC 6937: what left since the repair began keeps its proportion to what arrived.
    fn proportional(&mut self, news: &News, in_flight: u32, ssthresh: f64) {
        self.delivered += u64::from(news.delivered);
        let pipe = f64::from(in_flight);
        let sent = self.sent as f64;
        let delivered = self.delivered as f64;
        let mut count = if pipe > ssthresh {
            (delivered * ssthresh / self.flight as f64).ceil() - sent
        } else {
            // Slow-start reduction bound, as long as the repair makes progress.
            let mut limit = delivered - sent;
            if news.acked > 0 && news.lost == 0 {
                limit = limit.max(f64::from(news.delivered)) + 1.0;
            }
            limit.min(ssthresh - pipe)
        };
        if self.sent == 0 {
            // The fast retransmission itself.
            count = count.max(1.0);
        }
        self.window = pipe + count.max(0.0);
    }

    /// Rate halving: one less for every second acknowledgement, and no more than is in flight
    /// and one.
    fn halve(&mut self, in_flight: u32, ssthresh: f64) {
        if self.half && self.window > ssthresh {
            self.window = (self.window - 1.0).max(ssthresh);
        }
        self.half = !self.half;
        self.window = self.window.min(f64::from(in_flight + 1));
    }
}

impl Sender {
    /// Moves on between open, recovery and loss after an acknowledgement or a timer.
    pub(super) fn advance_phase(&mut self, now: Time, news: &News) {
        self.judge_probe(now, news);
        if self.is_unfounded(news) {
            self.undo(now);
        }
        if self.board.una >= self.repair.end {
            match self.phase {
                Phase::Recovery => self.leave_recovery(now),
                Phase::Loss => self.phase = Phase::Open,
                Phase::Open => {}
            }
        }
        if self.phase == Phase::Recovery && self.repair.local && self.board.lost > 0 {
            // The window is coming down already: the losses are repaired and not answered again.
            self.repair.local = false;
            self.repair.end = self.board.nxt;
            self.congestion_events += 1;
        }
        if self.phase == Phase::Open && self.board.lost > 0 {
            self.enter_recovery(now, news.prior_in_flight);
        }
        if self.phase == Phase::Recovery && !self.cc.owns_recovery() {
            let (in_flight, ssthresh) = (self.board.in_flight(), self.cc.ssthresh());
            match self.config.recovery {
                Recovery::Proportional => self.repair.proportional(news, in_flight, ssthresh),
                Recovery::RateHalving => self.repair.halve(in_flight, ssthresh),
            }
        }
        if let Some(cap) = &mut self.repair.cap
            && self.phase == Phase::Open
        {
            *cap += match self.config.slow_start.counting {
                SlowStartCounting::Acks => f64::from(news.acked.min(1)),
                SlowStartCounting::Segments { limit } => f64::from(news.acked.min(limit)),
            };
            if *cap >= self.cc.cwnd() {
                self.repair.cap = None;
            }
        }
    }

    fn enter_recovery(&mut self, now: Time, in_flight: u32) {
        self.phase = Phase::Recovery;
        self.repair.begin(&self.board);
        self.repair.window = f64::from(self.window);
        self.probe_at = None;
        self.congestion_events += 1;
        let event = self.congestion(now, in_flight);
        self.cc.on_congestion(&event);
    }

    /// The host's own queue is full (Linux 2.4 and 2.6: `tcp_enter_cwr`): the window comes down as
    /// for a loss, at once to what is in flight and then by the halving of recovery, until all that
    /// is outstanding now is acknowledged. Cannot be taken back.
    pub(super) fn enter_local_congestion(&mut self, now: Time) {
        if self.phase != Phase::Open {
            return;
        }
        self.phase = Phase::Recovery;
        let in_flight = self.board.in_flight();
        self.repair.begin(&self.board);
        self.repair.undo_from = None;
        self.repair.local = true;
        self.repair.window = f64::from(self.window.min(in_flight + 1));
        self.probe_at = None;
        let event = self.congestion(now, in_flight);
        self.cc.on_congestion(&event);
        self.refresh_window();
    }

    fn leave_recovery(&mut self, now: Time) {
        self.phase = Phase::Open;
        if self.config.recovery == Recovery::RateHalving && !self.cc.owns_recovery() {
            let cap = self.repair.window.min(self.cc.ssthresh()).max(1.0);
            self.repair.cap = (cap < self.cc.cwnd()).then_some(cap);
        }
        if !self.sack {
            // What duplicate acknowledgements are left belong to segments that are acknowledged.
            self.board.sacked = 0;
        }
        self.finder.on_recovered();
        self.cc.on_recovered(now);
    }

    /// Whether the last reduction answered a loss that was none: an acknowledgement that echoes a
    /// time before the first retransmission (Eifel, RFC 3522), or every retransmission reported
    /// as a duplicate (RFC 3708).
    fn is_unfounded(&self, news: &News) -> bool {
        if self.repair.undo_from.is_none() {
            return false;
        }
        let Some(first) = self.repair.first_stamp else {
            return false;
        };
        let early = self.phase != Phase::Open
            && news.acked > 0
            && news.echo.is_some_and(|echo| stamp_is_before(echo, first));
        early || (news.dsack && !self.repair.ambiguous && self.repair.undo_left == 0)
    }

    fn undo(&mut self, now: Time) {
        self.finder.acquit_all(&mut self.board);
        self.repair.undo_from = None;
        self.repair.cap = None;
        self.phase = Phase::Open;
        self.cc.on_undo(now);
        if self.config.recovery == Recovery::RateHalving && !self.cc.owns_recovery() {
            // The window is given back, but not to be filled in one burst: Linux 2.4 and 2.6
            // (tcp_undo_cwr, tcp_moderate_cwnd) go on from what is in flight, in slow start.
            let cap = f64::from(self.board.in_flight() + UNDO_BURST_SEGMENTS);
            self.repair.cap = (cap < self.cc.cwnd()).then_some(cap);
        }
    }

    /// A duplicate was reported at `index`.
    pub(super) fn on_dsack(&mut self, index: u64) {
        self.finder.on_dsack(&self.board);
        if self.repair.undo_from.is_some_and(|from| index >= from) {
            self.repair.undo_left = self.repair.undo_left.saturating_sub(1);
        }
    }

    /// RFC 8985 section 7.4: a probe that repeated the last segment and was needed has hidden a
    /// loss, which is answered like any other.
    fn judge_probe(&mut self, now: Time, news: &News) {
        let Some(probe) = self.repair.probe else {
            return;
        };
        if news.dsack || (!probe.retransmission && self.board.una >= probe.end) {
            self.repair.probe = None;
        } else if self.board.una > probe.end {
            self.repair.probe = None;
            if self.phase == Phase::Open {
                self.congestion_events += 1;
                let event = self.congestion(now, news.prior_in_flight);
                self.cc.on_congestion(&event);
                self.cc.on_recovered(now);
            }
        }
    }

    /// When to probe the tail, if nothing is heard (RFC 8985 section 7.2).
    pub(super) fn arm_probe(&mut self, now: Time) {
        self.probe_at = None;
        let board = &self.board;
        if !self.rack
            || self.phase != Phase::Open
            || board.outstanding() == 0
            || board.sacked > 0
            || board.lost > 0
            || self.repair.probe.is_some()
            || !self.rtt.has_sample()
        {
            return;
        }
        let mut wait = self.rtt.srtt() * 2;
        if board.outstanding() == 1 {
            wait += PROBE_ACK_DELAY;
        }
        let at = now + wait;
        // Later than the timeout it would be of no use.
        if self.rto_at.is_some_and(|rto| at < rto) {
            self.probe_at = Some(at);
            self.arm();
        }
    }

    pub(super) fn on_probe_timer(&mut self, now: Time) {
        self.probe_at = None;
        self.probe_due = self.board.outstanding() > 0;
        if let Some(rto) = &mut self.rto_at {
            *rto = (*rto).max(now + self.rtt.rto());
        }
    }

    /// RACK's timer: what did not arrive within the reordering window is lost.
    pub(super) fn on_reorder_timer(&mut self, now: Time) {
        self.finder.reorder_at = None;
        let mut news = News {
            prior_in_flight: self.board.in_flight(),
            ..News::default()
        };
        self.find_losses(now, &mut news);
        if news.lost > 0 {
            self.untold_losses += news.lost;
            self.advance_phase(now, &news);
            self.refresh_window();
        }
        self.arm();
    }

    /// The retransmission timer ran out (RFC 6298 section 5.4 to 5.6, RFC 5681 section 3.1).
    pub(super) fn on_timeout(&mut self, now: Time) {
        self.rto_at = None;
        self.probe_at = None;
        self.probe_due = false;
        if self.finished_at.is_some() {
            return;
        }
        if self.rtt.backoff() >= self.config.max_retries {
            let failure = format!("{} timeouts in a row", self.config.max_retries + 1);
            self.fail(failure);
            return;
        }
        let repeated = self.rtt.backoff() > 0 && self.phase == Phase::Loss;
        self.rtt.back_off();
        self.timeouts += 1;
        if self.board.outstanding() == 0 {
            // The receiver's window is closed: one segment looks whether it still is.
            self.persist_due = true;
            return;
        }
        let in_flight = self.board.in_flight();
        if !self.sack {
            self.board.sacked = 0;
        }
        let rtts = (self.rtt.srtt(), self.rtt.min_rtt());
        let rtts = self.rack.then_some(rtts);
        let lost = self.finder.lose_all(now, &mut self.board, rtts);
        self.delivery.lost += u64::from(lost);
        if !repeated {
            self.repair.begin(&self.board);
            self.congestion_events += 1;
            let event = self.congestion(now, in_flight);
            self.cc.on_timeout(&event);
        }
        // A retransmission that timed out in its turn changes nothing but the time of the next.
        self.repair.end = self.board.nxt;
        self.phase = Phase::Loss;
        // What is still on its way does not stand in the way of the first retransmission.
        self.repair.spared = self.board.in_flight();
        self.timeout_due = true;
        self.refresh_window();
        self.rto_at = Some(now + self.rtt.rto());
        self.arm();
    }

    /// The last segment, if repeating it once may show what is lost behind the last arrival.
    pub(super) fn rescue(&self) -> Option<u64> {
        let wanted = matches!(
            self.config.loss_detection,
            LossDetection::DuplicateAcks { rescue: true, .. }
        );
        if !wanted || self.phase != Phase::Recovery || !self.sack || self.repair.rescued {
            return None;
        }
        let last = self.board.nxt - 1;
        let flags = self.board.get(last).flags;
        (flags & (super::scoreboard::SACKED | RETRANSMITTED) == 0).then_some(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repair(window: f64) -> Repair {
        Repair {
            flight: 20,
            window,
            ..Repair::default()
        }
    }

    /// Drives a repair of one lost segment of twenty, a delivery for each acknowledgement, and
    /// says after which of them something left.
    fn sends(mut step: impl FnMut(&mut Repair, u32), mut repair: Repair) -> (Vec<u32>, u32) {
        let mut in_flight = 20 - 4;
        let mut left = Vec::new();
        for ack in 0..16 {
            in_flight -= u32::from(ack > 0);
            step(&mut repair, in_flight);
            while f64::from(in_flight + 1) <= repair.window {
                in_flight += 1;
                repair.sent += 1;
                left.push(ack);
            }
        }
        (left, in_flight)
    }

    #[test]
    fn prr_sends_one_for_every_two_that_arrive() {
        let news = News {
            delivered: 1,
            ..News::default()
        };
        let step = |repair: &mut Repair, pipe: u32| repair.proportional(&news, pipe, 10.0);
        let (left, in_flight) = sends(step, repair(20.0));
        // RFC 6937: the retransmission at once, then every second acknowledgement.
        assert_eq!(left[..5], [0, 2, 4, 6, 8]);
        assert!((9..=10).contains(&in_flight), "{in_flight}");
    }

    #[test]
    fn rate_halving_sends_one_for_every_two_that_arrive() {
        let step = |repair: &mut Repair, pipe: u32| repair.halve(pipe, 10.0);
        let (left, in_flight) = sends(step, repair(20.0));
        assert_eq!(left[..4], [0, 2, 4, 6]);
        assert!((9..=10).contains(&in_flight), "{in_flight}");
    }

    #[test]
    fn prr_below_the_threshold_grows_only_while_the_repair_advances() {
        let stuck = News {
            delivered: 1,
            ..News::default()
        };
        let mut slow = Repair {
            sent: 1,
            ..repair(20.0)
        };
        slow.proportional(&stuck, 4, 10.0);
        assert!((slow.window - 4.0).abs() < 1e-9, "{}", slow.window);
        let mut fast = Repair {
            sent: 1,
            ..repair(20.0)
        };
        fast.proportional(&News { acked: 1, ..stuck }, 4, 10.0);
        assert!((fast.window - 6.0).abs() < 1e-9, "{}", fast.window);
    }
}
