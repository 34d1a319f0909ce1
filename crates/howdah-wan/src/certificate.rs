//! How well a run was emulated, in numbers, and whether to believe it.

use crate::engine::{EngineReport, LaneReport};
use crate::machine::Usage;
use howdah_core::{Span, units};
use howdah_path::{DelayHistogram, PathCounters};
use serde::Serialize;
use std::fmt;

/// A packet in a hundred, and one in a thousand, may be handed over later than this before the run
/// is doubted. Judgement, not theory. The second is large because a receiving kernel does a host's work in the emulator's
/// thread: freeing the queue of a TCP connection that ends takes it 10 ms.
const MAX_LATENESS_P99: Span = Span::from_millis(1);
const MAX_LATENESS_P999: Span = Span::from_millis(20);
/// A stall holds back what comes in meanwhile, which then arrives as a burst. Where the queue is short, one piece in a
/// thousand must not be later than this share of the queue's longest wait, or it is the stall that fills the queue.
const MAX_LATENESS_P999_OF_QUEUE: f64 = 0.25;
/// Fewer pieces than these say nothing about the first second: one that is late would be one in a hundred.
const ENOUGH_PIECES: u64 = 1_000;
/// Share of the run without any spare processor time before the run is doubted.
const MAX_SATURATED_SHARE: f64 = 0.5;
/// Share of processor time taken by the hypervisor before the run is doubted.
const MAX_STOLEN_SHARE: f64 = 0.05;

/// What the emulator knows about its own quality, since the world was made.
#[derive(Clone, Debug, Serialize)]
pub struct Certificate {
    /// Whether nothing speaks against the run.
    pub valid: bool,
    /// What speaks against it, in words.
    pub objections: Vec<String>,
    /// Seconds since the world was made.
    pub elapsed_s: f64,
    /// Each direction of each path by name: "forward" and "backward" if there is one path,
    /// "main/forward" and so on if there are several.
    pub directions: Vec<(String, DirectionCertificate)>,
    /// Processor seconds of the emulator thread. The receiving kernel's packet processing runs in
    /// this thread too.
    pub emulator_cpu_s: f64,
    /// Whether the emulator thread ran with real-time priority.
    pub realtime_priority: bool,
    /// Memory that the kernel was made to use for packets before the first of them, in bytes, ...
    pub packet_memory_bytes: u64,
    /// ... and how long that took: 0.14 s for 768 MiB that are there, more where this machine's host has to find them first.
    pub packet_memory_s: f64,
    /// Share of all processor time that was in use, by anything on this machine.
    pub machine_busy_share: f64,
    /// Share of quarter-seconds in which no processor had time left.
    pub machine_saturated_share: f64,
    /// Share of processor time that the hypervisor gave to others.
    pub machine_stolen_share: f64,
    /// Each processor: share of its time in use, and share that the hypervisor gave to others.
    pub processors: Vec<(f64, f64)>,
}

/// One direction of a [`Certificate`].
#[derive(Clone, Debug, Default, Serialize)]
pub struct DirectionCertificate {
    /// What the path did, in wire segments. Its drops are planned.
    pub path: PathCounters,
    /// How late arrivals were.
    pub lateness: LatenessSummary,
    /// How late those of the first second were, from the first packet on: a long run would hide it.
    pub first_second: LatenessSummary,
    /// Segments and pieces lost unplanned in that second, those in the device not counted.
    pub first_second_unplanned_drops: u64,
    /// How long segments waited in the queue, in milliseconds: median, 95th and 99th percentile.
    pub queue_ms: [f64; 3],
    /// The longest wait that the queue allows, in milliseconds, if it has a limit.
    pub queue_limit_ms: Option<f64>,
    /// Super-packets that the emulator took in.
    pub super_packets_in: u64,
    /// Pieces that it handed over.
    pub pieces_out: u64,
    /// Sum of the three counts that follow: what should not have happened.
    pub unplanned_drops: u64,
    /// Super-packets dropped by the sending device because the emulator did not keep up.
    pub device_drops: u64,
    /// Wire segments dropped because the emulator's memory was full.
    pub memory_drops: u64,
    /// Pieces that the receiving device refused.
    pub refused: u64,
    /// Memory that the delay line grew to, in bytes.
    pub memory_bytes: u64,
    /// What of it was there before the first packet.
    pub populated_bytes: u64,
}

/// How much later than planned pieces were handed over, in microseconds.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LatenessSummary {
    /// Pieces.
    pub count: u64,
    /// Median.
    pub p50_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// 99.9th percentile.
    pub p999_us: f64,
    /// Largest.
    pub max_us: f64,
    /// Pieces by lateness: up to so many microseconds (and more than half as many), how many.
    pub histogram_us: Vec<(u64, u64)>,
}

impl LatenessSummary {
    pub(crate) fn of(histogram: &DelayHistogram) -> Self {
        let us = |span: Span| span.as_nanos() as f64 / 1e3;
        Self {
            count: histogram.count(),
            p50_us: us(histogram.quantile(0.5)),
            p99_us: us(histogram.quantile(0.99)),
            p999_us: us(histogram.quantile(0.999)),
            max_us: us(histogram.max()),
            histogram_us: histogram.by_powers_of_two_us(),
        }
    }
}

impl DirectionCertificate {
    pub(crate) fn new(lane: &LaneReport, device_drops: u64) -> Self {
        Self {
            path: lane.path,
            lateness: LatenessSummary::of(&lane.lateness),
            first_second: LatenessSummary::of(&lane.first_lateness),
            first_second_unplanned_drops: lane.first_unplanned,
            queue_ms: lane.waits.map(|wait| wait.as_secs_f64() * 1e3),
            queue_limit_ms: lane.queue_limit.map(|limit| limit.as_secs_f64() * 1e3),
            super_packets_in: lane.taken_in,
            pieces_out: lane.handed_over,
            unplanned_drops: device_drops + lane.overflow + lane.refused,
            device_drops,
            memory_drops: lane.overflow,
            refused: lane.refused,
            memory_bytes: lane.memory_bytes,
            populated_bytes: lane.populated_bytes,
        }
    }

    fn object(&self, name: &str, objections: &mut Vec<String>) {
        if self.unplanned_drops > 0 {
            objections.push(format!(
                "{} unplanned drops {name} ({} in the device, {} for memory, {} refused)",
                self.unplanned_drops, self.device_drops, self.memory_drops, self.refused
            ));
        }
        let mut late = |lateness: &LatenessSummary, when: &str| {
            for (share, us, limit) in [
                ("hundred", lateness.p99_us, MAX_LATENESS_P99),
                ("thousand", lateness.p999_us, MAX_LATENESS_P999),
            ] {
                if us > limit.as_micros() as f64 {
                    objections.push(format!(
                        "one piece in a {share} was more than {us:.0} us late {name}{when}"
                    ));
                }
            }
        };
        late(&self.lateness, "");
        if self.first_second.count >= ENOUGH_PIECES && self.lateness.count > self.first_second.count
        {
            late(&self.first_second, " in the first second");
        }
        let late_ms = self.lateness.p999_us / 1e3;
        if let Some(limit_ms) = self.queue_limit_ms
            && late_ms > limit_ms * MAX_LATENESS_P999_OF_QUEUE
        {
            objections.push(format!(
                "one piece in a thousand was more than {late_ms:.1} ms late {name}, where the queue holds {limit_ms:.1} ms"
            ));
        }
    }
}

impl Certificate {
    pub(crate) fn new(
        engine: &EngineReport,
        directions: Vec<(String, DirectionCertificate)>,
        usage: &Usage,
    ) -> Self {
        let mut objections = Vec::new();
        for (name, direction) in &directions {
            direction.object(name, &mut objections);
        }
        if usage.saturated_share() > MAX_SATURATED_SHARE {
            objections.push(format!(
                "the machine had no processor time left for {:.0} % of the run",
                usage.saturated_share() * 100.0
            ));
        }
        if usage.stolen_share() > MAX_STOLEN_SHARE {
            objections.push(format!(
                "the hypervisor took {:.0} % of the processor time",
                usage.stolen_share() * 100.0
            ));
        }
        Self {
            valid: objections.is_empty(),
            objections,
            elapsed_s: engine.elapsed.as_secs_f64(),
            directions,
            emulator_cpu_s: engine.cpu.as_secs_f64(),
            realtime_priority: engine.realtime,
            packet_memory_bytes: engine.packet_memory.bytes,
            packet_memory_s: engine.packet_memory.seconds,
            machine_busy_share: usage.busy_share(),
            machine_saturated_share: usage.saturated_share(),
            machine_stolen_share: usage.stolen_share(),
            processors: usage.cores(),
        }
    }
}

impl Certificate {
    /// The first path from near to far; nothing happened there if the emulator is dead.
    pub fn forward(&self) -> DirectionCertificate {
        self.side(0)
    }

    /// The first path from far to near.
    pub fn backward(&self) -> DirectionCertificate {
        self.side(1)
    }

    fn side(&self, side: usize) -> DirectionCertificate {
        let direction = self.directions.get(side);
        direction.map_or_else(DirectionCertificate::default, |(_, found)| found.clone())
    }

    pub(crate) fn of_a_dead_emulator(usage: &Usage) -> Self {
        let mut certificate = Self::new(&EngineReport::default(), Vec::new(), usage);
        certificate.valid = false;
        certificate
            .objections
            .push("the emulator thread has died".to_owned());
        certificate
    }
}

impl fmt::Display for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "emulated {:.1} s; emulator {:.2} CPU s ({:.0} % of a core); machine {:.0} % busy, \
             saturated {:.0} % of the time",
            self.elapsed_s,
            self.emulator_cpu_s,
            100.0 * self.emulator_cpu_s / self.elapsed_s.max(1e-9),
            self.machine_busy_share * 100.0,
            self.machine_saturated_share * 100.0,
        )?;
        for (name, lane) in &self.directions {
            let path = &lane.path;
            writeln!(
                f,
                "{name:8} {} packets, {} delivered; lost {}, queue full {}, too big {}; unplanned {}; \
                 late p50 {:.0} p99 {:.0} p99.9 {:.0} us",
                path.offered,
                units::format_bytes(path.bytes_delivered),
                path.dropped_loss,
                path.dropped_queue,
                path.dropped_mtu,
                lane.unplanned_drops,
                lane.lateness.p50_us,
                lane.lateness.p99_us,
                lane.lateness.p999_us,
            )?;
        }
        if self.valid {
            write!(f, "certificate: valid")
        } else {
            write!(f, "certificate: NOT VALID: {}", self.objections.join("; "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn objections(late_us: f64, queue_limit_ms: Option<f64>) -> Vec<String> {
        let direction = DirectionCertificate {
            lateness: LatenessSummary {
                p999_us: late_us,
                ..LatenessSummary::default()
            },
            queue_limit_ms,
            ..DirectionCertificate::default()
        };
        let mut objections = Vec::new();
        direction.object("forward", &mut objections);
        objections
    }

    #[test]
    fn a_stall_is_measured_by_the_queue() {
        assert!(objections(9_000.0, None).is_empty());
        assert!(objections(9_000.0, Some(50.0)).is_empty());
        assert!(objections(1_200.0, Some(5.0)).is_empty());
        let found = objections(9_000.0, Some(5.0));
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("9.0 ms late forward, where the queue holds 5.0 ms"));
    }

    /// A second of ten thousand pieces of which two hundred are late is lost in a minute of good ones.
    #[test]
    fn a_bad_first_second_is_not_hidden_by_what_follows() {
        let bad = LatenessSummary {
            count: 10_000,
            p99_us: 1_500.0,
            ..LatenessSummary::default()
        };
        let direction = |first_second: LatenessSummary, count: u64| DirectionCertificate {
            lateness: LatenessSummary {
                count,
                ..LatenessSummary::default()
            },
            first_second,
            ..DirectionCertificate::default()
        };
        let found = |direction: DirectionCertificate| {
            let mut objections = Vec::new();
            direction.object("forward", &mut objections);
            objections
        };
        let objections = found(direction(bad.clone(), 600_000));
        assert_eq!(objections.len(), 1, "{objections:?}");
        assert!(objections[0].ends_with("late forward in the first second"));
        let few = LatenessSummary { count: 500, ..bad };
        assert!(found(direction(few, 600_000)).is_empty());
    }
}
