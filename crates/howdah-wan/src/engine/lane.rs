//! One direction: in from one device, through the path, out of the other.

use super::LaneReport;
use crate::delay_line::{Arrival, DelayLine, Part, RECORD_BYTES};
use crate::surgery::{self, Layout};
use crate::tun::Tun;
use crate::vnet::{VNET_HEADER_LEN, VnetHeader};
use howdah_core::{Rate, Span, Time};
use howdah_path::{DelayHistogram, OneWay, PathConfig, QueueLimit, SegmentVerdicts};

/// Longest time between the first and the last arrival in a piece: what a first segment may be
/// late by. A full super-packet at 10 Gbit/s takes 53 us and stays whole.
const MAX_PIECE_SPAN: Span = Span::from_micros(100);
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
    line: DelayLine,
    verdicts: SegmentVerdicts,
    lateness: DelayHistogram,
    taken_in: u64,
    handed_over: u64,
    overflow: u64,
    refused: u64,
    /// Packets that found no room are read here to get rid of them.
    overflow_room: Box<[u8]>,
}

impl Lane {
    pub(crate) fn new(config: &PathConfig, seed: u64) -> Self {
        Self {
            path: OneWay::new(config, seed),
            delay: config.delay,
            line: DelayLine::new(memory_for(config)),
            verdicts: SegmentVerdicts::new(MAX_PIECE_SPAN),
            lateness: DelayHistogram::default(),
            taken_in: 0,
            handed_over: 0,
            overflow: 0,
            refused: 0,
            overflow_room: vec![0; RECORD_BYTES].into_boxed_slice(),
        }
    }

    pub(crate) fn set_config(&mut self, config: &PathConfig) {
        self.path.set_config(config);
        self.delay = config.delay;
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
            taken_in: self.taken_in,
            handed_over: self.handed_over,
            overflow: self.overflow,
            refused: self.refused,
            memory_bytes: self.line.memory_bytes(),
        }
    }

    /// Reads one packet and decides its fate; false if there is none.
    pub(crate) fn take_in(&mut self, from: &Tun, clock: impl Fn() -> Time) -> bool {
        let has_room = self.line.room().is_some();
        let room = if has_room { self.line.room() } else { None };
        let room = room.unwrap_or(&mut self.overflow_room);
        let Ok(Some(len)) = from.read(room) else {
            return false;
        };
        if !has_room {
            if let Some((head, packet)) =
                self.overflow_room[..len].split_first_chunk::<VNET_HEADER_LEN>()
            {
                let layout = Layout::of(&VnetHeader::parse(head), packet);
                self.overflow += u64::from(layout.segments);
            }
            return true;
        }
        let now = clock();
        let (bytes, record) = self.line.in_room(len);
        let Some((head, packet)) = bytes.split_first_chunk::<VNET_HEADER_LEN>() else {
            return true;
        };
        self.taken_in += 1;
        let layout = Layout::of(&VnetHeader::parse(head), packet);
        self.path.offer_segments(
            now,
            layout.segment_ip_bytes(),
            layout.segments,
            layout.last_segment_ip_bytes(),
            &mut self.verdicts,
        );
        if self.verdicts.runs().is_empty() {
            return true;
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
            self.line.schedule(run.at, record, part);
            if let Some(at) = run.duplicate_at {
                self.line.schedule(at, record, part);
            }
        }
        true
    }

    /// Writes the next arrival if it is due at `now`; false if none is.
    pub(crate) fn hand_over(&mut self, now: Time, to: &Tun) -> bool {
        let Some(arrival) = self.line.pop(now) else {
            return false;
        };
        self.lateness.record(now.since(arrival.at));
        let result = write(&self.line, &arrival, to, self.handed_over);
        self.line.release(arrival.record);
        match result {
            Ok(()) => self.handed_over += 1,
            Err(_) => self.refused += 1,
        }
        true
    }
}

fn write(line: &DelayLine, arrival: &Arrival, to: &Tun, salt: u64) -> std::io::Result<()> {
    let bytes = line.bytes(arrival.record);
    let Part::Run {
        first,
        count,
        damaged,
    } = arrival.part
    else {
        return to.write(bytes, &[]);
    };
    let Some((head, packet)) = bytes.split_first_chunk::<VNET_HEADER_LEN>() else {
        return Ok(());
    };
    let vnet = VnetHeader::parse(head);
    let layout = Layout::of_beginning(&vnet, packet);
    let piece = surgery::cut(&vnet, &layout, packet, first, count);
    if !damaged {
        return to.write(piece.head(), piece.payload(packet));
    }
    let mut copy = piece.head().to_vec();
    copy.extend_from_slice(piece.payload(packet));
    // Any bit will do, as long as it is not always the same one (a multiplicative hash).
    surgery::damage(&mut copy, salt.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20);
    to.write(&copy, &[])
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
