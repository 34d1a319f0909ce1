//! One direction of a path: in from a device or from another lane, through the stages, out again.

use super::LaneReport;
use super::way::Traffic;
use crate::delay_line::{Arrival, DelayLine, Part, RECORD_BYTES, Record, Stage};
use crate::surgery::{self, Layout};
use crate::tun::Tun;
use crate::vnet::{VNET_HEADER_LEN, VnetHeader};
use howdah_core::{Rate, Span, Time};
use howdah_path::{DelayHistogram, OneWay, PathConfig, QueueLimit, SegmentVerdicts, Switch};

/// Longest time between the first and the last arrival in a piece: what a first segment may be
/// late by. A full super-packet at 10 Gbit/s takes 53 us and stays whole.
const MAX_PIECE_SPAN: Span = Span::from_micros(100);
/// The beginning of a run, which the certificate judges for itself.
const FIRST: Span = Span::from_secs(1);
/// Assumed for a path without a rate, to bound its memory.
const UNLIMITED: Rate = Rate::from_gbit_per_sec(40);
/// Memory on top of twice what path and queue hold: a super-packet is kept up to its last segment
/// that survives, lost ones before it included, and every packet begins on a cache line.
const SLACK_BYTES: u64 = 64 << 20;
/// No direction takes more than this.
const MAX_MEMORY_BYTES: u64 = 4 << 30;

#[derive(Debug)]
pub(crate) struct Lane {
    path: OneWay,
    delay: Span,
    /// The shortest of the run.
    queue_limit: Option<Span>,
    line: DelayLine,
    verdicts: SegmentVerdicts,
    lateness: DelayHistogram,
    /// When the first packet arrived, and how late those of the first second were.
    began: Option<Time>,
    first_lateness: DelayHistogram,
    /// What had overflowed or been refused by the end of that second.
    first_unplanned: u64,
    /// Memory taken before the first packet.
    populated_bytes: u64,
    taken_in: u64,
    handed_over: u64,
    overflow: u64,
    refused: u64,
    /// When the last packet was offered: the path's time does not go back.
    offered_at: Time,
    /// Packets that found no room are read here to get rid of them.
    overflow_room: Box<[u8]>,
}

impl Lane {
    pub(crate) fn new(config: &PathConfig, seed: u64) -> Self {
        let mut path = OneWay::new(config, seed);
        path.count_waits();
        Self {
            path,
            delay: config.delay,
            queue_limit: longest_wait(config),
            line: DelayLine::new(memory_for(config)),
            verdicts: SegmentVerdicts::new(MAX_PIECE_SPAN),
            lateness: DelayHistogram::default(),
            began: None,
            first_lateness: DelayHistogram::default(),
            first_unplanned: 0,
            populated_bytes: 0,
            taken_in: 0,
            handed_over: 0,
            overflow: 0,
            refused: 0,
            offered_at: Time::ZERO,
            overflow_room: vec![0; RECORD_BYTES].into_boxed_slice(),
        }
    }

    /// What a full path holds, in bytes: under way, and in a queue with an end.
    pub(crate) fn full_bytes(config: &PathConfig) -> u64 {
        let Some(rate) = config.peak_rate() else {
            return 0;
        };
        let waiting = match config.queue {
            QueueLimit::Unlimited => 0,
            _ => longest_wait(config).map_or(0, |span| rate.bytes_in(span)),
        };
        rate.bytes_in(config.delay).saturating_add(waiting)
    }

    /// Takes memory for so many bytes of packets before the first one comes.
    pub(crate) fn populate(&mut self, bytes: u64) {
        self.populated_bytes = self.line.populate(bytes);
    }

    /// Makes it another path; `switch` says what becomes of the packets that are on it. `None` is
    /// [`OneWay::set_config`].
    pub(crate) fn set_config(&mut self, now: Time, config: &PathConfig, switch: Option<Switch>) {
        match switch {
            None => self.path.set_config(config),
            // No stored queue: nobody's fate is decided here.
            Some(switch) => drop(self.path.switch(now, config, switch)),
        }
        self.delay = config.delay;
        self.queue_limit = [self.queue_limit, longest_wait(config)]
            .into_iter()
            .flatten()
            .min();
        self.line.set_max_bytes(memory_for(config));
    }

    /// The constant delay.
    pub(crate) fn delay(&self) -> Span {
        self.delay
    }

    pub(crate) fn next_at(&self) -> Option<Time> {
        self.line.next_at()
    }

    /// Counts up whenever a packet comes in or goes out.
    pub(crate) fn work_done(&self) -> u64 {
        self.taken_in + self.handed_over + self.overflow + self.refused
    }

    pub(crate) fn report(&self) -> LaneReport {
        LaneReport {
            path: self.path.counters(),
            lateness: self.lateness.clone(),
            first_lateness: self.first_lateness.clone(),
            first_unplanned: self.first_unplanned,
            populated_bytes: self.populated_bytes,
            waits: [0.5, 0.95, 0.99].map(|share| {
                let waits = self.path.waits();
                waits.map_or(Span::ZERO, |waits| waits.quantile(share))
            }),
            queue_limit: self.queue_limit,
            taken_in: self.taken_in,
            handed_over: self.handed_over,
            overflow: self.overflow,
            refused: self.refused,
            memory_bytes: self.line.memory_bytes(),
        }
    }

    /// Reads one packet and decides its fate; false if there is none. `sent` counts it.
    pub(crate) fn take_in(
        &mut self,
        from: &Tun,
        stage: Stage,
        sent: &mut Traffic,
        clock: impl Fn() -> Time,
    ) -> bool {
        let has_room = self.line.room().is_some();
        let room = if has_room { self.line.room() } else { None };
        let room = room.unwrap_or(&mut self.overflow_room);
        let Ok(Some(len)) = from.read(room) else {
            return false;
        };
        if !has_room {
            if let Some((layout, packet)) = layout(&self.overflow_room[..len]) {
                sent.count(&layout, packet);
                self.overflow += u64::from(layout.segments);
            }
            return true;
        }
        let now = clock();
        let (bytes, record) = self.line.in_room(len);
        let Some((layout, packet)) = layout(bytes) else {
            return true;
        };
        self.taken_in += 1;
        sent.count(&layout, packet);
        self.offer(now, record, &layout, stage);
        true
    }

    /// As [`take_in`](Self::take_in), for a piece that another lane lets go at `at`.
    pub(crate) fn relay(&mut self, at: Time, head: &[u8], rest: &[u8], stage: Stage) {
        let len = head.len() + rest.len();
        let Some(room) = self.line.room() else {
            if let Some((layout, _)) = layout(&[head, rest].concat()) {
                self.overflow += u64::from(layout.segments);
            }
            return;
        };
        room[..head.len()].copy_from_slice(head);
        room[head.len()..len].copy_from_slice(rest);
        let (bytes, record) = self.line.in_room(len);
        let Some((layout, _)) = layout(bytes) else {
            return;
        };
        self.taken_in += 1;
        self.offer(at, record, &layout, stage);
    }

    /// Decides the fate of what stands in the room.
    fn offer(&mut self, now: Time, record: Record, layout: &Layout, stage: Stage) {
        let now = now.max(self.offered_at);
        self.offered_at = now;
        self.path.offer_segments(
            now,
            layout.segment_ip_bytes(),
            layout.segments,
            layout.last_segment_ip_bytes(),
            &mut self.verdicts,
        );
        if self.verdicts.runs().is_empty() {
            return;
        }
        // A full queue often refuses the end of a super-packet: do not keep those bytes.
        let end = self
            .verdicts
            .runs()
            .last()
            .map_or(0, |run| run.first + run.count);
        let record = record.shortened(VNET_HEADER_LEN + layout.bytes_before(end));
        self.line.keep(record);
        for run in self.verdicts.runs() {
            let part = if run.count == layout.segments && !run.corrupt {
                Part::Whole
            } else {
                Part::Run {
                    first: run.first,
                    count: run.count,
                    damaged: run.corrupt,
                }
            };
            self.line.schedule(run.at, record, part, stage);
            if let Some(at) = run.duplicate_at {
                self.line.schedule(at, record, part, stage);
            }
        }
    }

    /// The next arrival, if it is due at `now`; to be [released](Self::release) when it is dealt with.
    pub(crate) fn pop(&mut self, now: Time) -> Option<Arrival> {
        let arrival = self.line.pop(now)?;
        let late = now.since(arrival.at);
        self.lateness.record(late);
        let began = *self.began.get_or_insert(arrival.at);
        if arrival.at.since(began) < FIRST {
            self.first_lateness.record(late);
            self.first_unplanned = self.overflow + self.refused;
        }
        Some(arrival)
    }

    /// Forgets a [popped](Self::pop) arrival; `passed` tells whether it was taken.
    pub(crate) fn release(&mut self, arrival: &Arrival, passed: bool) {
        self.line.release(arrival.record);
        if passed {
            self.handed_over += 1;
        } else {
            self.refused += 1;
        }
    }

    /// Gives `take` the bytes of an arrival in two parts, the `virtio_net_hdr` first.
    pub(crate) fn with_bytes<T>(
        &self,
        arrival: &Arrival,
        take: impl FnOnce(&[u8], &[u8]) -> T,
    ) -> T {
        let bytes = self.line.bytes(arrival.record);
        let Part::Run {
            first,
            count,
            damaged,
        } = arrival.part
        else {
            return take(bytes, &[]);
        };
        let Some((head, packet)) = bytes.split_first_chunk::<VNET_HEADER_LEN>() else {
            return take(bytes, &[]);
        };
        let vnet = VnetHeader::parse(head);
        let layout = Layout::of_beginning(&vnet, packet);
        let piece = surgery::cut(&vnet, &layout, packet, first, count);
        if !damaged {
            return take(piece.head(), piece.payload(packet));
        }
        let mut copy = piece.head().to_vec();
        copy.extend_from_slice(piece.payload(packet));
        // Any bit will do, as long as it is not always the same one (a multiplicative hash).
        let salt = self.handed_over.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        surgery::damage(&mut copy, salt);
        take(&copy, &[])
    }
}

/// How the packet behind a `virtio_net_hdr` divides into segments, and the packet.
fn layout(bytes: &[u8]) -> Option<(Layout, &[u8])> {
    let (head, packet) = bytes.split_first_chunk::<VNET_HEADER_LEN>()?;
    Some((Layout::of(&VnetHeader::parse(head), packet), packet))
}

/// Counts a piece that is handed to a device.
pub(super) fn count(delivered: &mut Traffic, head: &[u8], rest: &[u8]) {
    if let Some((vnet, packet)) = head.split_first_chunk::<VNET_HEADER_LEN>() {
        // The head of a piece that was cut is its headers alone, whose length field tells the rest.
        let vnet = VnetHeader::parse(vnet);
        let layout = if rest.is_empty() {
            Layout::of(&vnet, packet)
        } else {
            Layout::of_piece(&vnet, packet, packet.len() + rest.len())
        };
        delivered.count(&layout, packet);
    }
}

/// How long a packet waits at most; `None` if the queue has no limit, or there is none.
fn longest_wait(config: &PathConfig) -> Option<Span> {
    let rate = config.rate?;
    match config.queue {
        QueueLimit::Unlimited => None,
        QueueLimit::Bytes(bytes) => Some(rate.span_for(bytes)),
        QueueLimit::Packets(packets) => {
            Some(rate.span_for(packets.saturating_mul(u64::from(config.mtu))))
        }
        QueueLimit::Time(span) => Some(span),
    }
}

/// What can be under way or waiting at once, with room to spare.
fn memory_for(config: &PathConfig) -> u64 {
    let rate = config
        .rate
        .unwrap_or(UNLIMITED)
        .min(Rate::from_gbit_per_sec(400));
    let on_the_way = rate.bytes_in(config.delay + config.jitter.max());
    let waiting = match config.queue {
        // A queue without limit is limited by memory.
        QueueLimit::Unlimited if config.rate.is_some() => MAX_MEMORY_BYTES,
        QueueLimit::Unlimited => 0,
        QueueLimit::Bytes(bytes) => bytes,
        QueueLimit::Packets(packets) => packets.saturating_mul(u64::from(u16::MAX)),
        QueueLimit::Time(span) => rate.bytes_in(span),
    };
    let wanted = on_the_way.saturating_add(waiting);
    wanted
        .saturating_add(wanted / 4)
        .saturating_add(SLACK_BYTES)
        .min(MAX_MEMORY_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_a_bandwidth_delay_product_and_a_queue() {
        let config = PathConfig {
            rate: Some(Rate::from_gbit_per_sec(10)),
            delay: Span::from_millis(100),
            queue: QueueLimit::Bytes(50 << 20),
            ..PathConfig::default()
        };
        let memory = memory_for(&config);
        assert!(
            memory > 125_000_000 + (50 << 20) && memory < 500 << 20,
            "{memory}"
        );
        let endless = PathConfig {
            delay: Span::MAX,
            ..PathConfig::default()
        };
        assert_eq!(memory_for(&endless), MAX_MEMORY_BYTES);
    }
}
