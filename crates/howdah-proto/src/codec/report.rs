//! Feedback: what has arrived, when, and what the receiving host can take.
//!
//! Lost packets are named as gaps in runs of received ones. At 2 % random loss a gap costs about
//! 1.3 bytes; Shannon's bound is 0.88 bytes (`H(0.02) / 0.02 / 8`).

use crate::codec::{CodecError, Reader, Writer, limits};
use howdah_core::Ecn;
use howdah_core::num::saturating_usize;
use smallvec::SmallVec;

const HAS_DROPS: u8 = 1;
const HAS_LATE: u8 = 2;
const HAS_SAMPLES: u8 = 4;
const HAS_SINK: u8 = 8;
const HAS_MARKS: u8 = 16;

/// `received` packets arrived, then `lost` did not.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Run {
    /// Packets that arrived.
    pub received: u64,
    /// Packets behind them that did not.
    pub lost: u64,
}

/// The fate of every packet number in `from..from + len`, which is settled: nothing that is
/// missing there is still awaited.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Coverage {
    /// First packet number.
    pub from: u64,
    /// How many packet numbers.
    pub len: u64,
    /// Their fates in order; only the last run may have `lost == 0`.
    pub runs: Vec<Run>,
}

/// When one packet arrived, by the receiver's clock.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RxSample {
    /// Packet number.
    pub number: u64,
    /// Receiver's clock, in microseconds since its origin.
    pub rx_time_us: u64,
}

/// State of the place where received bytes go (WTRL10: the disk is part of the path).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct SinkState {
    /// Bytes received but not yet taken by the sink.
    pub queued_bytes: u64,
    /// Bytes that may be queued before packets are refused.
    pub capacity_bytes: u64,
    /// How fast the sink took bytes lately, in kB/s; 0 if it was not busy.
    pub drain_kb_per_s: u64,
}

impl SinkState {
    /// Share of the queue that is filled.
    pub fn fill(&self) -> f64 {
        self.queued_bytes as f64 / self.capacity_bytes.max(1) as f64
    }
}

/// What the ECN field of the packets said that came, since the connection began, without duplicates.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct EcnCounts {
    /// Packets that came as ECT(0).
    pub ect0: u64,
    /// Packets that came as ECT(1).
    pub ect1: u64,
    /// Packets that came as CE: marked on the way.
    pub ce: u64,
}

impl EcnCounts {
    /// One more packet.
    pub fn count(&mut self, ecn: Ecn) {
        match ecn {
            Ecn::NotEct => {}
            Ecn::Ect0 => self.ect0 += 1,
            Ecn::Ect1 => self.ect1 += 1,
            Ecn::Ce => self.ce += 1,
        }
    }

    /// All of them; `None` if they are more than a peer can mean.
    fn total(&self) -> Option<u64> {
        self.ect0.checked_add(self.ect1)?.checked_add(self.ce)
    }
}

/// A feedback report.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Report {
    /// Reports count from 1.
    pub number: u64,
    /// Largest packet number received.
    pub largest: u64,
    /// Arrival of `largest`, by the receiver's clock, in microseconds since its origin.
    pub largest_rx_time_us: u64,
    /// From the arrival of `largest` to the sending of this report, in microseconds.
    pub delay_us: u64,
    /// Packets received since the connection began, without duplicates.
    pub packets: u64,
    /// UDP payload bytes of those packets.
    pub bytes: u64,
    /// Datagrams that the receiver's socket dropped for want of buffer, since the beginning.
    pub socket_drops: u64,
    /// Packets refused because the sink's queue was full, since the beginning.
    pub sink_drops: u64,
    /// Fates of packet numbers.
    pub coverage: SmallVec<[Coverage; 2]>,
    /// Packets that arrived after an earlier report had called them lost.
    pub late: SmallVec<[u64; 4]>,
    /// Arrival times inside trains, oldest first.
    pub samples: SmallVec<[RxSample; 8]>,
    /// The sink, if data is being received.
    pub sink: Option<SinkState>,
    /// How many of `packets` came with which ECN field.
    pub marks: EcnCounts,
}

fn varint_len(value: u64) -> usize {
    (64 - value.leading_zeros()).div_ceil(7).max(1) as usize
}

/// Encoded length of one run, in bytes.
pub fn run_len(run: Run) -> usize {
    varint_len(run.received << 1)
        + if run.lost > 1 {
            varint_len(run.lost - 2)
        } else {
            0
        }
}

impl Coverage {
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.varint(self.from);
        writer.varint(self.len);
        for run in &self.runs {
            writer.varint(run.received << 1 | u64::from(run.lost > 1));
            if run.lost > 1 {
                writer.varint(run.lost - 2);
            }
        }
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, CodecError> {
        let from = reader.varint()?;
        let len = reader.varint_at_most(limits::MAX_COVERAGE_SPAN)?;
        from.checked_add(len).ok_or(CodecError::LimitExceeded)?;
        let mut runs = Vec::new();
        let mut covered = 0;
        while covered < len {
            let token = reader.varint()?;
            let received = token >> 1;
            if received > len - covered {
                return Err(CodecError::Inconsistent);
            }
            covered += received;
            let mut lost = u64::from(covered < len);
            if token & 1 == 1 {
                lost = reader.varint_at_most(limits::MAX_COVERAGE_SPAN)? + 2;
            }
            if lost > len - covered {
                return Err(CodecError::Inconsistent);
            }
            covered += lost;
            runs.push(Run { received, lost });
        }
        Ok(Self { from, len, runs })
    }
}

impl Report {
    /// Longest report without coverage, in bytes.
    pub const MAX_FIXED_LEN: usize = 7 * 10
        + 1
        + 2 * 10
        + 1
        + saturating_usize(limits::MAX_LATE) * 10
        + 1
        + saturating_usize(limits::MAX_SAMPLES) * 20
        + 3 * 10
        + 3 * 10
        + 1;

    /// Reads a report.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, CodecError> {
        let flags = reader.u8()?;
        if flags & !(HAS_DROPS | HAS_LATE | HAS_SAMPLES | HAS_SINK | HAS_MARKS) != 0 {
            return Err(CodecError::Inconsistent);
        }
        let mut report = Self {
            number: reader.varint()?,
            largest: reader.varint()?,
            largest_rx_time_us: reader.varint()?,
            delay_us: reader.varint()?,
            packets: reader.varint()?,
            bytes: reader.varint()?,
            ..Self::default()
        };
        if flags & HAS_DROPS != 0 {
            report.socket_drops = reader.varint()?;
            report.sink_drops = reader.varint()?;
        }
        for _ in 0..reader.varint_at_most(limits::MAX_COVERAGE_BLOCKS)? {
            let coverage = Coverage::decode(reader)?;
            if coverage.from + coverage.len > report.largest.saturating_add(1) {
                return Err(CodecError::Inconsistent);
            }
            report.coverage.push(coverage);
        }
        if flags & HAS_LATE != 0 {
            for _ in 0..reader.varint_at_most(limits::MAX_LATE)? {
                let back = reader.varint()?;
                let number = report
                    .largest
                    .checked_sub(back)
                    .ok_or(CodecError::Inconsistent)?;
                report.late.push(number);
            }
        }
        if flags & HAS_SAMPLES != 0 {
            for _ in 0..reader.varint_at_most(limits::MAX_SAMPLES)? {
                let number = report.largest.checked_sub(reader.varint()?);
                let rx_time_us = report.largest_rx_time_us.checked_sub(reader.varint()?);
                report.samples.push(RxSample {
                    number: number.ok_or(CodecError::Inconsistent)?,
                    rx_time_us: rx_time_us.ok_or(CodecError::Inconsistent)?,
                });
            }
        }
        if flags & HAS_SINK != 0 {
            report.sink = Some(SinkState {
                queued_bytes: reader.varint()?,
                capacity_bytes: reader.varint()?,
                drain_kb_per_s: reader.varint()?,
            });
        }
        if flags & HAS_MARKS != 0 {
            let (ce, ect0, plain) = (reader.varint()?, reader.varint()?, reader.varint()?);
            // All others came as ECT(1): these are the most, and this way they cost nothing.
            let ect1 = [ce, ect0, plain]
                .iter()
                .try_fold(report.packets, |left, &n| left.checked_sub(n))
                .ok_or(CodecError::Inconsistent)?;
            report.marks = EcnCounts { ect0, ect1, ce };
        }
        Ok(report)
    }

    /// Writes a report. Numbers in `late` and `samples` must not be above `largest`, nor `marks` above `packets`.
    pub fn encode(&self, writer: &mut Writer<'_>) {
        let has_drops = self.socket_drops > 0 || self.sink_drops > 0;
        let marked = self.marks.total().filter(|&total| total > 0);
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        writer.u8(flag(has_drops, HAS_DROPS)
            | flag(!self.late.is_empty(), HAS_LATE)
            | flag(!self.samples.is_empty(), HAS_SAMPLES)
            | flag(self.sink.is_some(), HAS_SINK)
            | flag(marked.is_some(), HAS_MARKS));
        for value in [
            self.number,
            self.largest,
            self.largest_rx_time_us,
            self.delay_us,
            self.packets,
            self.bytes,
        ] {
            writer.varint(value);
        }
        if has_drops {
            writer.varint(self.socket_drops);
            writer.varint(self.sink_drops);
        }
        writer.varint(self.coverage.len() as u64);
        for coverage in &self.coverage {
            coverage.encode(writer);
        }
        if !self.late.is_empty() {
            writer.varint(self.late.len() as u64);
            for &number in &self.late {
                writer.varint(self.largest - number);
            }
        }
        if !self.samples.is_empty() {
            writer.varint(self.samples.len() as u64);
            for sample in &self.samples {
                writer.varint(self.largest - sample.number);
                writer.varint(self.largest_rx_time_us - sample.rx_time_us);
            }
        }
        if let Some(sink) = &self.sink {
            writer.varint(sink.queued_bytes);
            writer.varint(sink.capacity_bytes);
            writer.varint(sink.drain_kb_per_s);
        }
        if let Some(marked) = marked {
            writer.varint(self.marks.ce);
            writer.varint(self.marks.ect0);
            writer.varint(self.packets.saturating_sub(marked));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_coverage() -> impl Strategy<Value = Coverage> {
        (
            0..1u64 << 40,
            prop::collection::vec((0..5_000u64, 1..50u64), 0..40),
            0..100u64,
        )
            .prop_map(|(from, pairs, tail)| {
                let mut runs: Vec<_> = pairs
                    .into_iter()
                    .map(|(received, lost)| Run { received, lost })
                    .collect();
                if tail > 0 {
                    runs.push(Run {
                        received: tail,
                        lost: 0,
                    });
                }
                Coverage {
                    from,
                    len: runs.iter().map(|r| r.received + r.lost).sum(),
                    runs,
                }
            })
    }

    proptest! {
        #[test]
        fn reports_round_trip(
            number in 1..1u64 << 50,
            coverage in prop::collection::vec(any_coverage(), 0..4),
            late in prop::collection::vec(0..1u64 << 20, 0..5),
            samples in prop::collection::vec((0..1000u64, 0..1000u64), 0..8),
            sink in prop::option::of((any::<u64>(), any::<u64>(), any::<u64>())),
            drops in (0..3u64, 0..3u64),
            marks in (0..1u64 << 40, 0..3u64, 0..1u64 << 20, 0..1u64 << 12),
        ) {
            let largest = 1u64 << 41;
            let report = Report {
                number,
                largest,
                largest_rx_time_us: 1 << 40,
                delay_us: 77,
                packets: marks.0 + marks.1 + marks.2 + marks.3,
                bytes: number,
                socket_drops: drops.0,
                sink_drops: drops.1,
                coverage: coverage.into(),
                late: late.into_iter().map(|back| largest - back).collect(),
                samples: samples.into_iter()
                    .map(|(n, t)| RxSample { number: largest - n, rx_time_us: (1 << 40) - t })
                    .collect(),
                sink: sink.map(|(queued_bytes, capacity_bytes, drain_kb_per_s)| SinkState { queued_bytes, capacity_bytes, drain_kb_per_s }),
                marks: EcnCounts { ect1: marks.0, ect0: marks.1, ce: marks.2 },
            };
            let mut bytes = Vec::new();
            report.encode(&mut Writer::new(&mut bytes));
            let runs: usize = report.coverage.iter().flat_map(|c| &c.runs).map(|&r| run_len(r)).sum();
            prop_assert!(bytes.len() <= Report::MAX_FIXED_LEN + runs + 20 * report.coverage.len());
            let mut reader = Reader::new(&bytes);
            prop_assert_eq!(Report::decode(&mut reader).unwrap(), report);
            prop_assert!(reader.is_empty());
        }

        #[test]
        fn any_bytes_decode_or_fail(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(report) = Report::decode(&mut Reader::new(&bytes)) {
                for coverage in &report.coverage {
                    prop_assert_eq!(coverage.runs.iter().map(|r| r.received + r.lost).sum::<u64>(), coverage.len);
                }
            }
        }
    }

    /// At 10 Gbit/s there are some ninety reports per GiB.
    #[test]
    fn counts_of_marks_cost_a_few_bytes() {
        let mut report = Report {
            packets: 100_000_000,
            ..Report::default()
        };
        let len = |report: &Report| {
            let mut bytes = Vec::new();
            report.encode(&mut Writer::new(&mut bytes));
            bytes.len()
        };
        let without = len(&report);
        report.marks = EcnCounts {
            ect0: 0,
            ect1: report.packets - 120 - 15_000,
            ce: 15_000,
        };
        assert!(len(&report) - without <= 5);
        report.marks.ect1 += 120 + 15_000;
        report.marks.ce = 0;
        assert!(len(&report) - without <= 3);
    }

    #[test]
    fn more_marks_than_packets_are_refused() {
        let report = Report {
            packets: 10,
            marks: EcnCounts {
                ce: 3,
                ect0: 0,
                ect1: 7,
            },
            ..Report::default()
        };
        let mut bytes = Vec::new();
        report.encode(&mut Writer::new(&mut bytes));
        let ce_at = bytes.len() - 3;
        for (ce, good) in [(3, true), (10, true), (11, false), (127, false)] {
            bytes[ce_at] = ce;
            assert_eq!(Report::decode(&mut Reader::new(&bytes)).is_ok(), good);
        }
    }

    #[test]
    fn a_gap_at_two_percent_loss_costs_less_than_one_and_a_half_bytes() {
        // Geometric runs with mean 49, the quantiles of an exponential.
        let runs: Vec<_> = (0..1000)
            .map(|i| Run {
                received: (-(1.0 - (f64::from(i) + 0.5) / 1000.0).ln() * 49.0) as u64,
                lost: 1,
            })
            .collect();
        let bytes: usize = runs.iter().map(|&run| run_len(run)).sum();
        assert!(bytes < 1_500, "{bytes} bytes for 1000 gaps");
    }
}
