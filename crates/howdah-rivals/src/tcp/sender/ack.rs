//! What an acknowledgement says.

use super::scoreboard::{Departure, EVER_RETRANSMITTED, SACKED};
use super::{Sender, stamp_is_before};
use crate::tcp::cc::{Ack, Phase, SlowStartCounting};
use crate::tcp::segment::{Segment, unwrap_near};
use howdah_core::{Span, Time};
use smallvec::SmallVec;

/// What one acknowledgement brought.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct News {
    pub(super) prior_in_flight: u32,
    /// End of the highest sacked run before it: what arrives below was overtaken. One
    /// acknowledgement may tell of a segment that waited for it and of the one after the hole.
    pub(super) prior_top: u64,
    /// Segments by which the cumulative acknowledgement advanced.
    pub(super) acked: u32,
    /// What is being gone through is what it covers, and not what is reported behind holes.
    pub(super) in_order: bool,
    /// Segments newly known to have arrived.
    pub(super) delivered: u32,
    /// Segments newly concluded to be lost.
    pub(super) lost: u32,
    /// A duplicate was reported.
    pub(super) dsack: bool,
    /// Our timestamp that came back.
    pub(super) echo: Option<u32>,
    /// Without SACK: a retransmission is among what is acknowledged, so the rest may have
    /// arrived long ago.
    pub(super) ambiguous: bool,
    /// The newly delivered segment that left last.
    pub(super) newest: Option<(u64, Departure)>,
}

impl Sender {
    pub(super) fn on_ack(&mut self, now: Time, segment: &Segment) {
        let una_bytes = self.position_of(self.board.una);
        let relative = segment
            .ack
            .wrapping_sub(self.config.initial_sequence)
            .wrapping_sub(1);
        let Some(ack) = unwrap_near(una_bytes, relative) else {
            return;
        };
        if ack > self.position_of(self.board.nxt) {
            return;
        }
        let edge = ack + (u64::from(segment.window) << self.window_shift);
        let same_window = edge <= self.window_edge;
        self.window_edge = self.window_edge.max(edge);

        let mut news = News {
            prior_in_flight: self.board.in_flight(),
            prior_top: self.board.runs.last().map_or(0, |run| run.end),
            echo: segment.timestamps.map(|stamps| stamps.echo),
            ..News::default()
        };
        if self.sack && !segment.sack.as_slice().is_empty() {
            self.take_sack(now, segment, ack, &mut news);
        }
        if ack > una_bytes {
            let reached = self.index_below(ack, una_bytes);
            self.take_cumulative(now, reached, &mut news);
        } else if !self.sack && ack == una_bytes && same_window {
            self.take_duplicate(&mut news);
        }
        if news.delivered == 0 && news.acked == 0 && !news.dsack {
            return;
        }
        let rtt = self.take_rtt(now, segment, &news);
        self.find_losses(now, &mut news);
        self.advance_phase(now, &news);
        self.tell(now, &news, rtt);
        self.refresh_window();
        if self.finished_at == Some(now) {
            self.leave_metrics();
        }
        if news.acked > 0 {
            self.rtt.progress();
            self.rearm(now);
        }
        self.arm();
        #[cfg(debug_assertions)]
        if self.board.outstanding() < 200 {
            self.board.check(self.sack);
        }
    }

    /// The connection is over: what it found remains with the host.
    #[cold]
    fn leave_metrics(&self) {
        if let Some(cache) = &self.cache
            && self.rtt.backoff() == 0
        {
            let open = self.phase == Phase::Open;
            cache.save(f64::from(self.window), self.cc.ssthresh(), open);
        }
    }

    /// Where a segment begins in the sequence space, FIN being one byte long.
    pub(super) fn position_of(&self, index: u64) -> u64 {
        if index == self.total_segments {
            self.total_bytes + 1
        } else {
            self.offset_of(index)
        }
    }

    /// The segment in which `position` lies: all before it end at or below.
    fn index_below(&self, position: u64, una_bytes: u64) -> u64 {
        if position > self.total_bytes {
            return self.total_segments;
        }
        // No window is larger than a gibibyte, so 32 bits hold the difference.
        let index = self.board.una + u64::from((position - una_bytes) as u32 / self.mss);
        // The last segment is not complete without its FIN.
        index.min(self.board.nxt).min(self.total_segments - 1)
    }

    fn take_sack(&mut self, now: Time, segment: &Segment, ack: u64, news: &mut News) {
        let una_bytes = self.position_of(self.board.una);
        let end_bytes = self.position_of(self.board.nxt);
        let base = self.config.initial_sequence.wrapping_add(1);
        let blocks = segment.sack.as_slice();
        let known = self.last_blocks;
        for (nth, &(left, right)) in blocks.iter().enumerate() {
            let unwrapped = (
                unwrap_near(una_bytes, left.wrapping_sub(base)),
                unwrap_near(una_bytes, right.wrapping_sub(base)),
            );
            let (Some(start), Some(end)) = unwrapped else {
                continue;
            };
            if start >= end || end > end_bytes {
                continue;
            }
            // RFC 2883: below the acknowledgement, or inside the block that follows.
            let inside_next = || {
                blocks.get(1).is_some_and(|&(l, r)| {
                    left.wrapping_sub(l).cast_signed() >= 0
                        && r.wrapping_sub(right).cast_signed() >= 0
                })
            };
            if nth == 0 && (end <= ack || inside_next()) {
                news.dsack = true;
                let index = start / u64::from(self.mss);
                self.on_dsack(index);
                continue;
            }
            if end <= una_bytes || known.as_slice().contains(&(left, right)) {
                continue;
            }
            self.take_block(now, start.max(una_bytes), end, una_bytes, news);
        }
        self.last_blocks = segment.sack;
    }

    fn take_block(&mut self, now: Time, start: u64, end: u64, una_bytes: u64, news: &mut News) {
        let first = self.board.una + u64::from(((start - una_bytes) as u32).div_ceil(self.mss));
        let past = self.index_below(end, una_bytes);
        if first >= past {
            return;
        }
        let top = news.prior_top;
        let mut fresh: SmallVec<[(u64, u64); 4]> = SmallVec::new();
        self.board
            .runs
            .insert(first, past, |start, end| fresh.push((start, end)));
        for (start, end) in fresh {
            for index in start..end {
                let sent = self.board.get_mut(index);
                sent.flags |= SACKED;
                let was = *sent;
                self.board.settle(was.flags);
                self.board.get_mut(index).flags &=
                    !(super::scoreboard::LOST | super::scoreboard::RETRANSMITTED);
                self.board.sacked += 1;
                if index < top && !was.has(EVER_RETRANSMITTED) {
                    self.finder.on_reordering(top - index);
                }
                self.deliver(now, index, &was, news);
            }
        }
    }

    fn take_cumulative(&mut self, now: Time, reached: u64, news: &mut News) {
        let una = self.board.una;
        if reached <= una {
            return;
        }
        news.acked = (reached - una) as u32;
        news.in_order = true;
        if self.board.is_plain() {
            // Everything arrived as it was sent: the last one stands for all.
            let last = *self.board.get(reached - 1);
            news.delivered = news.acked - 1;
            self.deliver(now, reached - 1, &last, news);
        } else {
            self.take_mixed(now, reached, news);
        }
        self.board.una = reached;
        if self.sack {
            self.board.runs.trim_below(reached);
        }
        if reached == self.total_segments {
            self.finished_at.get_or_insert(now);
        }
    }

    /// A cumulative acknowledgement while something is missing.
    fn take_mixed(&mut self, now: Time, reached: u64, news: &mut News) {
        let una = self.board.una;
        // Without SACK, duplicate acknowledgements stood for arrivals: all but the first of what
        // is acknowledged now, as far as they go.
        let mut counted = if self.sack {
            0
        } else {
            self.board.sacked.min(news.acked - 1)
        };
        if !self.sack {
            self.board.sacked -= counted;
        }
        let top = news.prior_top;
        for index in una..reached {
            let sent = *self.board.get(index);
            self.board.settle(sent.flags);
            news.ambiguous |= !self.sack && sent.has(EVER_RETRANSMITTED);
            if sent.has(SACKED) {
                self.board.sacked -= 1;
            } else if counted > 0 {
                counted -= 1;
            } else {
                if index < top && !sent.has(EVER_RETRANSMITTED) {
                    self.finder.on_reordering(top - index);
                }
                self.deliver(now, index, &sent, news);
            }
        }
        if !self.sack {
            // Arrivals cannot be more than what is outstanding and not lost.
            let room = (self.board.nxt - reached) as u32 - self.board.lost;
            self.board.sacked = self.board.sacked.min(room);
        }
    }

    /// A duplicate acknowledgement without SACK: something has arrived, nobody knows what.
    fn take_duplicate(&mut self, news: &mut News) {
        if self.board.sacked + self.board.lost < self.board.outstanding() {
            self.board.sacked += 1;
            news.delivered += 1;
        }
    }

    /// A segment is newly known to have arrived.
    #[inline]
    fn deliver(&mut self, now: Time, index: u64, sent: &Departure, news: &mut News) {
        news.delivered += 1;
        // RFC 8985 section 6.2 step 2: an echo from before the retransmission tells of the original, and
        // nothing about what left between the two. Only of what arrived in order: what waits behind a
        // hole is reported with the stamp of an earlier segment (RFC 7323 section 4.3).
        let is_original = sent.has(EVER_RETRANSMITTED)
            && news.in_order
            && news
                .echo
                .is_some_and(|echo| stamp_is_before(echo, self.clock.tick_of(sent.sent_at())));
        if self.rack && !is_original {
            let min_rtt = self.rtt.min_rtt();
            self.finder.on_delivered(now, index, sent, min_rtt);
        }
        if news
            .newest
            .is_none_or(|(other, newest)| (sent.sent_ns, index) > (newest.sent_ns, other))
        {
            news.newest = Some((index, *sent));
        }
    }

    /// Takes a round-trip time from the newest segment, if it was sent once (Karn); failing that,
    /// from the timestamp that came back, which is good enough for the timer only.
    fn take_rtt(&mut self, now: Time, segment: &Segment, news: &News) -> Option<Span> {
        if let Some((_, newest)) = news.newest
            && !newest.has(EVER_RETRANSMITTED)
            && !news.ambiguous
        {
            let rtt = now.since(newest.sent_at());
            self.rtt.sample(rtt);
            return Some(rtt);
        }
        if news.acked > 0
            && self.timestamps
            && let Some(stamps) = segment.timestamps
        {
            let ticks = self.clock.at(now).wrapping_sub(stamps.echo);
            let rtt = self.config.timestamp_tick * u64::from(ticks);
            // A day is nobody's round trip: an echo that makes no sense.
            if ticks > 0 && rtt < Span::from_secs(86_400) {
                self.rtt.coarse_sample(rtt);
            }
        }
        None
    }

    /// Finds what is lost now and notes it.
    pub(super) fn find_losses(&mut self, now: Time, news: &mut News) {
        let found = if self.rack {
            let rtts = (self.rtt.srtt(), self.rtt.min_rtt());
            let recovering = self.phase != Phase::Open;
            self.finder.by_time(now, &mut self.board, rtts, recovering)
        } else if self.sack {
            if self.board.runs.is_empty() {
                0
            } else {
                self.finder.by_count(&mut self.board)
            }
        } else {
            self.find_without_sack(news)
        };
        news.lost += found;
        self.delivery.lost += u64::from(found);
    }

    /// RFC 6582: three duplicates, unless they may be echoes of the last repair; then the next
    /// hole with each partial acknowledgement.
    fn find_without_sack(&mut self, news: &News) -> u32 {
        let una = self.board.una;
        let head_is_lost = match self.phase {
            Phase::Open => {
                self.board.sacked >= self.finder.threshold()
                    && (una > self.repair.end || self.repair.end == 0)
            }
            Phase::Recovery => news.acked > 0 && una < self.repair.end,
            Phase::Loss => false,
        };
        if head_is_lost {
            let room = self.board.outstanding() - self.board.lost;
            // The head has not arrived, whatever the count of arrivals says.
            self.board.sacked = self.board.sacked.min(room.saturating_sub(1));
            self.finder.mark_head(&mut self.board)
        } else {
            0
        }
    }

    /// Tells the congestion control.
    fn tell(&mut self, now: Time, news: &News, rtt: Option<Span>) {
        let min_rtt = self.rtt.min_rtt();
        let newest = news.newest.map(|(_, sent)| sent);
        let rate = if let Some(sent) = &newest {
            self.delivery
                .on_delivered(now, news.delivered, sent, min_rtt)
        } else {
            self.delivery.delivered += u64::from(news.delivered);
            None
        };
        let cwnd = self.cc.cwnd();
        // While a window doubles in a round trip, half of it used is all that can be: so today's
        // Linux (tcp_is_cwnd_limited since 3.14). The older ones asked for a full window always, or
        // a slow start that the receiver's window holds would grow to several times that window.
        let doubles = matches!(
            self.config.slow_start.counting,
            SlowStartCounting::Segments { .. }
        );
        let filled = self.cwnd_limited
            || (doubles
                && cwnd < self.cc.ssthresh()
                && cwnd < 2.0 * f64::from(self.most_outstanding));
        let ack = Ack {
            now,
            acked_segments: news.acked,
            delivered_segments: news.delivered,
            total_delivered_segments: self.delivery.delivered,
            lost_segments: news.lost + std::mem::take(&mut self.untold_losses),
            rtt,
            srtt: self.rtt.srtt(),
            min_rtt,
            in_flight_segments: self.board.in_flight(),
            prior_in_flight_segments: news.prior_in_flight,
            in_flight_when_sent_segments: newest.map_or(0, |sent| sent.in_flight),
            cwnd_limited: filled && self.repair.cap.is_none(),
            phase: self.phase,
            rate,
        };
        self.cc.on_ack(&ack);
    }

    /// Starts the retransmission timer anew (RFC 6298 section 5.3).
    fn rearm(&mut self, now: Time) {
        self.probe_fresh = true;
        self.rto_at = (self.board.outstanding() > 0).then(|| now + self.rtt.rto());
    }
}
