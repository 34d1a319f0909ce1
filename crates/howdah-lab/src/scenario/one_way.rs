//! One direction of a path, in words that can be hashed and compared.

use howdah_core::{Rate, Span};
use howdah_path::{
    Aqm, CoDelConfig, DelayTrace, DualPi2Config, FqCoDelConfig, Jitter, LossModel, LossTrace,
    PathConfig, PieConfig, QueueLimit, RateTrace, RedConfig, RedUnit, TokenBucket,
};
use serde::Serialize;

/// One direction of a stretch of network.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OneWaySpec {
    /// Rate of the bottleneck in bit/s; `None` is unlimited.
    pub rate_bps: Option<u64>,
    /// A rate that changes by itself, instead of that.
    pub rate_trace: Option<TraceSpec<RateTrace>>,
    /// A token bucket behind the queue: rate in bit/s, and bytes that may pass at once.
    pub bucket: Option<(u64, u64)>,
    /// Room in front of the bottleneck.
    pub queue: QueueSpec,
    /// What the queue drops before it is full.
    pub aqm: AqmSpec,
    /// Waiting packets are kept in a real queue (see [`PathConfig::stored_queue`]).
    pub stored_queue: bool,
    /// Random loss behind it.
    pub loss: LossSpec,
    /// One-way delay in nanoseconds.
    pub delay_ns: u64,
    /// Packets that the path may hold, waiting for their delay included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_packets: Option<u64>,
    /// Extra delay per packet.
    pub jitter: JitterSpec,
    /// Probability that a packet may overtake (see [`PathConfig::reorder`]).
    pub reorder: f64,
    /// Probability that a packet arrives twice.
    pub duplicate: f64,
    /// Probability that a packet arrives damaged.
    pub corrupt: f64,
    /// Largest IP packet in bytes.
    pub mtu_bytes: u32,
    /// Bytes that a packet occupies on the link beyond its IP length.
    pub overhead_bytes: u32,
}

/// A trace that was read from a file. Two are equal if their files say the same.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TraceSpec<T> {
    /// BLAKE3 of the file and of how it is read.
    pub hash: String,
    /// The trace.
    #[serde(skip)]
    pub trace: T,
}

/// Room in front of a bottleneck.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueSpec {
    /// Never full.
    Unlimited,
    /// Packets.
    Packets(u64),
    /// Bytes on the link.
    Bytes(u64),
    /// Waiting time in nanoseconds.
    Ns(u64),
}

/// What a queue drops before it is full.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AqmSpec {
    /// Nothing.
    Droptail,
    /// Controlled Delay (RFC 8289).
    Codel {
        /// Waiting time that may stand, in nanoseconds.
        target_ns: u64,
        /// About the largest round-trip time to serve well, in nanoseconds.
        interval_ns: u64,
    },
    /// Two coupled queues (RFC 9332).
    #[serde(rename = "dualpi2")]
    DualPi2 {
        /// Delay at which the classic queue is held, in nanoseconds.
        target_ns: u64,
    },
    /// A line for each flow (RFC 8290).
    FqCodel {
        /// Waiting time that may stand in a line, in nanoseconds.
        target_ns: u64,
        /// About the largest round-trip time to serve well, in nanoseconds.
        interval_ns: u64,
        /// Bytes on the link that a line sends before the next one's turn.
        quantum_bytes: u32,
        /// Lines into which flows are hashed.
        lines: u32,
    },
    /// Proportional Integral controller Enhanced (RFC 8033).
    Pie {
        /// Delay at which the queue is held, in nanoseconds.
        target_ns: u64,
        /// For how long bursts are let through, in nanoseconds.
        max_burst_ns: u64,
    },
    /// Random Early Detection, in packets.
    Red {
        /// Below this mean queue nothing is dropped.
        min: f64,
        /// From this mean queue on everything is, or at twice this if gentle.
        max: f64,
        /// Probability that the mean reaches at `max`.
        probability: f64,
        /// Weight of one arrival in the mean.
        weight: f64,
        /// See [`RedConfig::gentle`].
        gentle: bool,
    },
}

/// Random loss.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LossSpec {
    /// None.
    None,
    /// Each packet independently.
    Bernoulli(f64),
    /// Two states (see [`LossModel::GilbertElliott`]).
    GilbertElliott {
        /// Probability per packet of entering the bad state.
        enter: f64,
        /// Probability per packet of leaving it.
        leave: f64,
        /// Loss in the good state.
        good: f64,
        /// Loss in the bad state.
        bad: f64,
    },
    /// Bursts in time (see [`LossModel::Outages`]).
    Outages {
        /// Share of the time.
        loss: f64,
        /// Mean length in nanoseconds.
        mean_ns: u64,
    },
    /// Single losses at normally distributed distances.
    NormalGap {
        /// Share of packets lost.
        loss: f64,
        /// Standard deviation of the distance as a share of its mean.
        deviation: f64,
    },
    /// A recorded pattern.
    Trace(TraceSpec<LossTrace>),
    /// These packets, counted from 0.
    List(Vec<u64>),
}

/// Extra delay; times in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum JitterSpec {
    /// None.
    None,
    /// Uniform in 0 to this.
    Uniform(u64),
    /// Normal around half of `max`, cut off at 0 and `max`.
    Normal {
        /// Standard deviation.
        deviation: u64,
        /// The most.
        max: u64,
    },
    /// A Pareto tail from 0 on (see [`Jitter::Pareto`]).
    Pareto {
        /// Where the tail begins.
        scale: u64,
        /// How thin it is.
        shape: f64,
        /// The most.
        max: u64,
    },
    /// As recorded.
    Trace(TraceSpec<DelayTrace>),
}

impl OneWaySpec {
    /// What the simulator and the emulator take.
    pub fn to_config(&self) -> PathConfig {
        let span = Span::from_nanos;
        PathConfig {
            rate: self.rate_bps.map(Rate::from_bits_per_sec),
            rate_trace: self.rate_trace.as_ref().map(|spec| spec.trace.clone()),
            token_bucket: self.bucket.map(|(bps, burst_bytes)| TokenBucket {
                rate: Rate::from_bits_per_sec(bps),
                burst_bytes,
            }),
            queue: match self.queue {
                QueueSpec::Unlimited => QueueLimit::Unlimited,
                QueueSpec::Packets(packets) => QueueLimit::Packets(packets),
                QueueSpec::Bytes(bytes) => QueueLimit::Bytes(bytes),
                QueueSpec::Ns(ns) => QueueLimit::Time(span(ns)),
            },
            aqm: self.aqm.to_config(self.mtu_bytes + self.overhead_bytes),
            stored_queue: self.stored_queue,
            loss: self.loss.to_model(),
            delay: span(self.delay_ns),
            delay_packets: self.delay_packets,
            mtu: self.mtu_bytes,
            jitter: match &self.jitter {
                JitterSpec::None => Jitter::None,
                JitterSpec::Uniform(max) => Jitter::Uniform(span(*max)),
                JitterSpec::Normal { deviation, max } => Jitter::Normal {
                    deviation: span(*deviation),
                    max: span(*max),
                },
                JitterSpec::Pareto { scale, shape, max } => Jitter::Pareto {
                    scale: span(*scale),
                    shape: *shape,
                    max: span(*max),
                },
                JitterSpec::Trace(spec) => Jitter::Trace(spec.trace.clone()),
            },
            reorder: self.reorder,
            duplicate: self.duplicate,
            corrupt: self.corrupt,
            link_overhead_bytes: self.overhead_bytes,
        }
    }

    /// Rate of the bottleneck in bit/s, on average; 0 is unlimited.
    pub fn mean_rate_bps(&self) -> u64 {
        match &self.rate_trace {
            Some(spec) => spec.trace.mean().bits_per_sec(),
            None => self.rate_bps.unwrap_or(0),
        }
    }
}

impl OneWaySpec {
    /// Bits that its bottleneck lets pass between two moments, in nanoseconds of the scenario; 0 is unlimited.
    pub(crate) fn capacity_bits(&self, from_ns: u64, to_ns: u64) -> f64 {
        match &self.rate_trace {
            Some(spec) => {
                let (from, to) = (Span::from_nanos(from_ns), Span::from_nanos(to_ns));
                spec.trace.bits_between(from, to)
            }
            None => self.rate_bps.unwrap_or(0) as f64 * to_ns.saturating_sub(from_ns) as f64 / 1e9,
        }
    }
}

impl AqmSpec {
    /// Whether it marks packets that can be marked (ECN).
    pub(crate) const fn marks(self) -> bool {
        !matches!(self, Self::Droptail | Self::Red { .. })
    }

    fn to_config(self, packet_bytes: u32) -> Aqm {
        match self {
            Self::Droptail => Aqm::None,
            Self::Codel {
                target_ns,
                interval_ns,
            } => Aqm::CoDel(CoDelConfig {
                target: Span::from_nanos(target_ns),
                interval: Span::from_nanos(interval_ns),
            }),
            Self::DualPi2 { target_ns } => Aqm::DualPi2(DualPi2Config {
                target: Span::from_nanos(target_ns),
                ..DualPi2Config::default()
            }),
            Self::FqCodel {
                target_ns,
                interval_ns,
                quantum_bytes,
                lines,
            } => Aqm::FqCoDel(FqCoDelConfig {
                codel: CoDelConfig {
                    target: Span::from_nanos(target_ns),
                    interval: Span::from_nanos(interval_ns),
                },
                quantum_bytes,
                lines,
            }),
            Self::Pie {
                target_ns,
                max_burst_ns,
            } => Aqm::Pie(PieConfig {
                target: Span::from_nanos(target_ns),
                max_burst: Span::from_nanos(max_burst_ns),
                mean_packet_bytes: packet_bytes,
            }),
            Self::Red {
                min,
                max,
                probability,
                weight,
                gentle,
            } => Aqm::Red(RedConfig {
                min,
                max,
                unit: RedUnit::Packets,
                max_probability: probability,
                weight,
                gentle,
                mean_packet_bytes: packet_bytes,
            }),
        }
    }
}

impl LossSpec {
    fn to_model(&self) -> LossModel {
        match self {
            Self::None => LossModel::None,
            Self::Bernoulli(p) => LossModel::Bernoulli(*p),
            Self::GilbertElliott {
                enter,
                leave,
                good,
                bad,
            } => LossModel::GilbertElliott {
                p_enter_bad: *enter,
                p_leave_bad: *leave,
                loss_good: *good,
                loss_bad: *bad,
            },
            Self::Outages { loss, mean_ns } => LossModel::Outages {
                loss: *loss,
                mean: Span::from_nanos(*mean_ns),
            },
            Self::NormalGap { loss, deviation } => LossModel::NormalGap {
                loss: *loss,
                relative_deviation: *deviation,
            },
            Self::Trace(spec) => LossModel::Trace(spec.trace.clone()),
            Self::List(packets) => LossModel::List(packets.clone()),
        }
    }
}
