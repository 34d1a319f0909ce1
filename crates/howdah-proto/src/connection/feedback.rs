//! Reports: made by the receiver, read by the sender.

use super::{Connection, ReportWish};
use crate::codec::{EcnCounts, Report};
use crate::error::PeerMisbehaved;
use crate::pmtud::MIN_SIZE;
use crate::rate::{Feedback, Point, TrainPoint, sink};
use crate::sent::{Content, Fate, SentPacket};
use howdah_core::{ByteRange, ObjectId, Span, Time};
use smallvec::SmallVec;

/// Reports are sent every eighth of an RTT, but not further apart than this ...
const INTERVAL_MAX: Span = Span::from_millis(25);
/// ... and not closer together than this; at 10 Gbit/s this is about 86 reports per GiB.
const INTERVAL_MIN: Span = Span::from_millis(10);
/// Where the peer says that nothing happens they are half a round trip apart, or a little more, but no further than what its window has to spare for
/// late ones. (On a shorter path a change would be seen round trips later.)
const SPARSE_RTT: f64 = 0.6;
const SPARSE_INTERVAL_MAX: Span = Span::from_millis(30);
/// The first reports come closer together, as start-up learns from each.
const EARLY_INTERVAL_MIN: Span = Span::from_millis(1);
const EARLY_REPORTS: u64 = 32;
/// What comes after a pause is seldom alone. A report of one packet would have the rest of its burst wait for the next one, so that much is
/// waited for it, unless the next one comes about as soon.
const FIRST_OF_MORE: Span = Span::from_millis(3);
const SOON: Span = Span::from_millis(4);
/// Those that tell of bursts that the peer asked about: each has room for the ends of a few.
const ASKED_INTERVAL: Span = Span::from_millis(5);
/// Reports that somebody waits for are at least that far apart.
const URGENT_SPACING: Span = Span::from_micros(500);
/// How far back packets called lost are remembered, in case they turn up.
const LATE_MEMORY_MIN: Span = Span::from_millis(200);

impl Connection {
    fn report_interval(&self) -> Span {
        if self.reporting.received.is_asked() {
            return ASKED_INTERVAL;
        }
        let rtt = self.pace.rtt.smoothed();
        let is_early = self.reporting.received.next_report() <= EARLY_REPORTS;
        if self.reporting.sparse && !is_early {
            return rtt
                .mul_f64(SPARSE_RTT)
                .clamp(INTERVAL_MIN, SPARSE_INTERVAL_MAX);
        }
        let min = if is_early {
            EARLY_INTERVAL_MIN
        } else {
            INTERVAL_MIN
        };
        (rtt / 8).clamp(min, INTERVAL_MAX)
    }

    /// Longest time that a peer may take to report.
    pub(super) fn max_report_delay() -> Span {
        INTERVAL_MAX * 2
    }

    fn confirm_timeout(&self) -> Span {
        self.pace.rtt.smoothed() * 5 / 4 + INTERVAL_MAX + Span::from_millis(10)
    }

    /// When the next report is due.
    pub(super) fn report_due_at(&self) -> Option<Time> {
        self.reporting.received.largest()?;
        let wished = match self.reporting.wish {
            ReportWish::None => None,
            ReportWish::Now => Some(self.reporting.last_report_at + URGENT_SPACING),
            ReportWish::Eliciting => {
                let interval = self.report_interval();
                let first =
                    self.reporting.wished_at + interval.saturating_sub(SOON).min(FIRST_OF_MORE);
                Some(first.max(self.reporting.last_report_at + interval))
            }
        };
        let repeat = self
            .reporting
            .received
            .next_repeat(self.confirm_timeout())
            .map(|at| at.max(self.reporting.last_report_at + self.report_interval()));
        match (wished, repeat) {
            (Some(wished), Some(repeat)) => Some(wished.min(repeat)),
            (wished, repeat) => wished.or(repeat),
        }
    }

    /// The report that is due, if one is, within `budget` bytes.
    pub(super) fn take_report(&mut self, now: Time, budget: usize) -> Option<Report> {
        if self.report_due_at().is_none_or(|at| now < at) {
            return None;
        }
        let budget = budget.checked_sub(Report::MAX_FIXED_LEN.min(budget / 2))?;
        let timeout = self.confirm_timeout();
        let mut report = self.reporting.received.report(now, budget, timeout)?;
        report.socket_drops = self.taking.socket_drops;
        report.sink_drops = self.taking.sink_drops;
        if !self.heard.peer_counts_marks {
            report.marks = EcnCounts::default();
        }
        let sink = match &mut self.taking.meter {
            Some(meter) => Some(meter.combine(now, self.taking.sink)),
            None => self.taking.sink,
        };
        report.sink = sink.filter(|_| self.streams.incoming.is_receiving());
        self.reporting.last_report_at = now;
        self.reporting.passive_received = 0;
        // A hole that is visible but not settled keeps the wish alive.
        self.reporting.wish = if self.reporting.received.has_more_to_report(now) {
            ReportWish::Now
        } else if self.reporting.received.has_unsettled(now) {
            ReportWish::Eliciting
        } else {
            ReportWish::None
        };
        self.stats.reports_sent += 1;
        Some(report)
    }

    /// The sender holds those reports, and says whether there is need of many.
    pub(super) fn on_report_ack(&mut self, now: Time, newest: u64, earlier: u64, sparse: bool) {
        if newest == 0 || newest >= self.reporting.received.next_report() {
            return;
        }
        self.reporting.sparse = sparse;
        if let Some(sent_at) = self.reporting.received.confirm(newest) {
            self.pace.rtt.on_sample(now, now.since(sent_at));
        }
        for back in 0..64 {
            if earlier >> back & 1 == 1 && newest > back + 1 {
                let _ = self.reporting.received.confirm(newest - 1 - back);
            }
        }
    }

    /// Whether the peer may report less often. What is missing at the end of a transfer is to be known soon.
    pub(super) fn wants_sparse_reports(&self, now: Time) -> bool {
        self.heard.peer_thins_reports
            && !self.heard.sink_limited
            && self.pace.tail.is_none()
            && self.streams.outgoing.has_data()
            && self.pace.rate.is_calm(now)
    }

    /// What arrived, as the peer sees it.
    pub(super) fn on_report(&mut self, now: Time, report: &Report) -> Result<(), PeerMisbehaved> {
        let lies = report.bytes > self.stats.bytes_sent;
        if report.largest >= self.sent.next_number() || report.number == 0 || lies {
            return Err(PeerMisbehaved::ReportedUnsent);
        }
        let claims = report.late.iter().chain([&report.largest]);
        let sampled = report.samples.iter().map(|sample| &sample.number);
        if claims.chain(sampled).any(|&n| self.sent.is_skipped(n)) {
            return Err(PeerMisbehaved::ReportedUnsent);
        }
        self.note_report_number(report.number);
        self.stats.reports_received += 1;
        self.alive.last_feedback_at = now;
        self.alive.probe_count = 0;
        self.alive.blackout_told = false;

        let newest = self.sent.get(report.largest).copied();
        let is_newer = self
            .heard
            .largest_reported
            .is_none_or(|n| report.largest > n);
        let rtt = newest.filter(|_| is_newer).map(|packet| {
            now.since(packet.time)
                .saturating_sub(Span::from_micros(report.delay_us))
        });
        if let Some(rtt) = rtt {
            self.pace.rtt.on_sample(now, rtt);
        }
        if is_newer {
            self.heard.largest_reported = Some(report.largest);
        }
        // Before the packets are forgotten.
        let witness = &mut self.heard.witness;
        let train = report
            .samples
            .iter()
            .filter_map(|sample| {
                self.sent.get(sample.number).map(|packet| TrainPoint {
                    sent_time: packet.time,
                    sent_bytes: packet.sent_before,
                    rx_time: witness.arrival(now, packet.time, sample.rx_time_us),
                })
            })
            .collect();
        let socket_drops = newest.map_or(0, |newest| {
            let arrived = now - self.pace.rtt.min_recent();
            self.heard
                .peer_socket
                .on_report(report.socket_drops, newest.time, arrived)
        });
        let mut merge = Merge::default();
        self.heard.lost_sent_at.clear();
        for coverage in &report.coverage {
            let mut number = coverage.from;
            for run in &coverage.runs {
                let middle = number + run.received;
                let end = middle + run.lost;
                self.on_acked(now, ByteRange::new(number, middle), &mut merge)?;
                for numbers in self.sent.take_lost(ByteRange::new(middle, end)) {
                    for number in numbers.start..numbers.end {
                        self.on_packet_lost(now, number);
                    }
                }
                number = end;
            }
        }
        for &number in &report.late {
            self.on_acked(now, ByteRange::with_len(number, 1), &mut merge)?;
        }
        merge.flush(&mut self.streams.outgoing);
        self.heard
            .marking
            .on_counts(now, self.pace.rtt.smoothed(), report.marks);
        if let Some(keys) = &mut self.keys {
            keys.on_confirmed(now, report.largest);
        }
        self.sent.trim(now - self.late_memory());
        if let Some(newest) = newest {
            self.feed_rate_control(now, report, &newest, socket_drops, rtt, train);
        }
        Ok(())
    }

    /// What was sent so long ago is not late any more, but lost.
    pub(super) fn late_memory(&self) -> Span {
        (self.pace.rtt.smoothed() * 2).max(LATE_MEMORY_MIN)
    }

    fn feed_rate_control(
        &mut self,
        now: Time,
        report: &Report,
        newest: &SentPacket,
        socket_drops: u64,
        rtt: Option<Span>,
        train: SmallVec<[TrainPoint; 8]>,
    ) {
        let under_way_bytes = self.stats.bytes_sent.saturating_sub(newest.sent_before);
        let known = self.stats.peer_sink_drops;
        let refused = report.sink_drops.saturating_sub(known);
        let arriving = self.pace.rate.delivery_rate();
        let sink_limit = report.sink.and_then(|sink| {
            sink::limit(&sink, under_way_bytes, self.pace.rtt.smoothed(), arriving)
        });
        self.stats.peer_sink_drops = known.max(report.sink_drops);
        let lost = self
            .heard
            .lost_packets
            .saturating_sub(self.heard.peer_socket.lost());
        let lost_on_path = self.heard.blame.lost_on_path(lost, refused);
        let refusing = refused > 0 || self.heard.blame.is_waiting();
        let acked_bytes = self.sent.acked_bytes();
        self.heard
            .refusing
            .on_acked(now, self.pace.rtt.smoothed(), acked_bytes);
        let refused_limit = self.heard.refusing.limit(now, refusing);
        let sink_limit = [sink_limit, refused_limit].into_iter().flatten().min();
        let rx_time = self
            .heard
            .witness
            .arrival(now, newest.time, report.largest_rx_time_us);
        let sent_bytes = newest.sent_before + u64::from(newest.size);
        let possible_bytes = sent_bytes.saturating_sub(self.sent.lost_bytes());
        let delivered_bytes = self.heard.witness.delivered(report.bytes, possible_bytes);
        self.pace.rate.on_feedback(&Feedback {
            now,
            point: Point {
                rx_time,
                sent_time: newest.time,
                sent_bytes: newest.sent_before,
                delivered_bytes,
                acked_packets: self.heard.acked_packets,
                lost_packets: lost_on_path,
                app_limited: newest.sent_before < self.pace.app_limited_below,
                unsent_bytes: self.pace.unsent.until(newest.sent_before),
            },
            rtt,
            min_rtt: self.pace.rtt.min_recent(),
            smoothed_rtt: self.pace.rtt.smoothed(),
            socket_drops,
            sink_limit,
            cap: self.payload_cap(),
            host_drops: socket_drops > 0 || refused > 0,
            refusing,
            lost_sent_at: &self.heard.lost_sent_at,
            marks: self.heard.marking.counts(),
            train,
        });
        self.heard.sink_limited =
            sink_limit.is_some_and(|limit| limit <= self.pace.rate.pacing_rate());
        self.apply_rate(now);
    }

    fn note_report_number(&mut self, number: u64) {
        let ahead = number.saturating_sub(self.reporting.last_report_number);
        if ahead > 0 {
            // The former newest becomes bit `ahead - 1`.
            let shifted = if ahead >= 64 {
                0
            } else {
                self.reporting.ack_bits << ahead
            };
            let former = if ahead <= 64 && self.reporting.last_report_number > 0 {
                1 << (ahead - 1)
            } else {
                0
            };
            self.reporting.ack_bits = shifted | former;
            self.reporting.last_report_number = number;
        } else {
            let back = self.reporting.last_report_number - number;
            if (1..=64).contains(&back) {
                self.reporting.ack_bits |= 1 << (back - 1);
            }
        }
        self.reporting.ack_due = true;
    }

    fn on_acked(
        &mut self,
        now: Time,
        numbers: ByteRange,
        merge: &mut Merge,
    ) -> Result<(), PeerMisbehaved> {
        for fresh in self.sent.take_acked(numbers) {
            for number in fresh.start..fresh.end {
                if self.sent.is_skipped(number) {
                    return Err(PeerMisbehaved::ReportedUnsent);
                }
                self.on_packet_acked(now, number, merge);
            }
        }
        Ok(())
    }

    fn on_packet_acked(&mut self, now: Time, number: u64, merge: &mut Merge) {
        let Some(packet) = self.sent.settle(number, Fate::Acked) else {
            return;
        };
        let was_lost = packet.fate == Fate::Lost;
        if packet.capable {
            self.heard.marking.on_acked(was_lost);
        }
        if packet.content == Content::Passive {
            return;
        }
        // Lost probes for the MTU are not counted as lost.
        if was_lost && packet.content != Content::MtuProbe {
            self.stats.packets_late += 1;
            self.heard.lost_packets -= 1;
            self.heard.peer_socket.on_late(packet.time);
        }
        self.heard.acked_packets += 1;
        if packet.size > MIN_SIZE {
            self.mtu.on_full_size(packet.size, 1, 0);
        }
        match packet.content {
            Content::Data { object, range, .. } => {
                merge.add(object, range, &mut self.streams.outgoing);
            }
            Content::Control(range) => self.streams.control_tx.on_acked(range),
            Content::MtuProbe => self.mtu.on_probe_acked(now, packet.size),
            Content::Passive | Content::HandshakeDone | Content::Credit | Content::Probe => {}
        }
    }

    fn on_packet_lost(&mut self, now: Time, number: u64) {
        let Some(packet) = self.sent.settle(number, Fate::Lost) else {
            return;
        };
        if packet.capable {
            self.heard.marking.on_lost();
        }
        match packet.content {
            // A lost probe says something about its size, not about the path's load.
            Content::MtuProbe => {
                self.mtu.on_probe_lost(now, packet.size);
                return;
            }
            Content::Passive => return,
            Content::Data {
                object,
                range,
                repeat,
            } => {
                // The first copy's fate is known by itself.
                if !repeat || self.streams.outgoing.wants_repeat(object, range) {
                    self.streams.outgoing.on_lost(object, range);
                }
            }
            Content::Control(range) => self.streams.control_tx.on_lost(range),
            Content::HandshakeDone => self.opening.done_due = true,
            Content::Credit => {
                for (_, due) in self.streams.credits.values_mut() {
                    *due = true;
                }
            }
            Content::Probe => {}
        }
        self.heard.lost_packets += 1;
        if self.heard.peer_socket.on_lost(packet.time) {
            self.heard.lost_sent_at.push(packet.time);
        }
        if packet.size > MIN_SIZE {
            self.mtu.on_full_size(packet.size, 0, 1);
        }
    }
}

/// Joins ranges of neighbouring packets before they go into a range set.
#[derive(Default)]
struct Merge {
    pending: Option<(ObjectId, ByteRange)>,
}

impl Merge {
    fn add(&mut self, object: ObjectId, range: ByteRange, outgoing: &mut crate::objects::Outgoing) {
        match &mut self.pending {
            Some((id, joined)) if *id == object && joined.end == range.start => {
                joined.end = range.end;
            }
            _ => {
                self.flush(outgoing);
                self.pending = Some((object, range));
            }
        }
    }

    fn flush(&mut self, outgoing: &mut crate::objects::Outgoing) {
        if let Some((id, range)) = self.pending.take() {
            outgoing.on_acked(id, range);
        }
    }
}
