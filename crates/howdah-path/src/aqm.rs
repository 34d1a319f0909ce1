//! Active queue management: which packets a queue drops before it is full.

use howdah_core::Span;

/// What a queue does before it is full. All but RED mark packets that can be marked (ECN) instead of dropping them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Aqm {
    /// Nothing: droptail.
    #[default]
    None,
    /// Controlled Delay (RFC 8289). It decides when a packet leaves the queue, so the queue is
    /// [stored](crate::PathConfig::stores_packets).
    CoDel(CoDelConfig),
    /// Random Early Detection. It decides when a packet arrives.
    Red(RedConfig),
    /// Two coupled queues, one of them for L4S (RFC 9332). It decides when a packet leaves, so the queue is
    /// [stored](crate::PathConfig::stores_packets).
    DualPi2(DualPi2Config),
    /// A line for each flow, each with `CoDel` (RFC 8290). The queue is [stored](crate::PathConfig::stores_packets), and flows are
    /// told apart by what [`OneWay::offer_flow`](crate::OneWay::offer_flow) says.
    FqCoDel(FqCoDelConfig),
    /// Proportional Integral controller Enhanced (RFC 8033). It decides when a packet arrives.
    Pie(PieConfig),
}

/// Constants of FQ-`CoDel`. [`Default`] is that of RFC 8290 (section 5.2). What the queue holds is the path's
/// [limit](crate::PathConfig::queue).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FqCoDelConfig {
    /// Of each line's own `CoDel`.
    pub codel: CoDelConfig,
    /// Bytes on the link that a line may send before the next one's turn.
    pub quantum_bytes: u32,
    /// Lines into which flows are hashed.
    pub lines: u32,
}

impl Default for FqCoDelConfig {
    fn default() -> Self {
        Self {
            codel: CoDelConfig::default(),
            quantum_bytes: 1514,
            lines: 1024,
        }
    }
}

/// Constants of PIE. [`Default`] is that of RFC 8033 (sections 4.1 to 4.4).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PieConfig {
    /// Delay at which the queue is held.
    pub target: Span,
    /// For how long a burst into a queue that was lightly loaded is let through.
    pub max_burst: Span,
    /// Size of a typical packet on the link: two of them are no queue.
    pub mean_packet_bytes: u32,
}

impl Default for PieConfig {
    fn default() -> Self {
        Self {
            target: Span::from_millis(15),
            max_burst: Span::from_millis(150),
            mean_packet_bytes: 1538,
        }
    }
}

/// Constants of `DualPI2`. [`Default`] is that of RFC 9332, appendix A.1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DualPi2Config {
    /// Delay at which the classic queue is held.
    pub target: Span,
    /// The largest round-trip time to serve well.
    pub rtt_max: Span,
    /// The coupling factor k.
    pub coupling: f64,
    /// Delay of the L4S queue from which on its own marks begin, ...
    pub ramp_from: Span,
    /// ... and over how much more they become certain.
    pub ramp_range: Span,
}

impl Default for DualPi2Config {
    fn default() -> Self {
        Self {
            target: Span::from_millis(15),
            rtt_max: Span::from_millis(100),
            coupling: 2.0,
            ramp_from: Span::from_micros(800),
            ramp_range: Span::from_micros(400),
        }
    }
}

impl DualPi2Config {
    /// `Tupdate`: how often the controller looks.
    pub(crate) fn update(&self) -> Span {
        self.target.min(self.rtt_max / 3).max(Span::from_micros(10))
    }

    /// The integral gain, in 1/s.
    pub(crate) fn alpha(&self) -> f64 {
        0.1 * self.update().as_secs_f64() / self.rtt_max.as_secs_f64().powi(2)
    }

    /// The proportional gain, in 1/s.
    pub(crate) fn beta(&self) -> f64 {
        0.3 / self.rtt_max.as_secs_f64()
    }
}

/// `CoDel`'s two times. [`Default`] is that of RFC 8289 (sections 4.2 and 4.3).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CoDelConfig {
    /// Waiting time that may stand in the queue for good.
    pub target: Span,
    /// How long the least waiting time must be above the target before a packet is dropped; about
    /// the largest round-trip time to serve well.
    pub interval: Span,
}

impl Default for CoDelConfig {
    fn default() -> Self {
        Self {
            target: Span::from_millis(5),
            interval: Span::from_millis(100),
        }
    }
}

/// RED (S. Floyd and V. Jacobson, Random Early Detection Gateways for Congestion Avoidance, 1993,
/// figures 1 and 2), with Floyd's "gentle" variant of 2000 as an option.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RedConfig {
    /// Below this mean queue nothing is dropped.
    pub min: f64,
    /// From this mean queue on everything is, or, if gentle, everything from twice this on.
    pub max: f64,
    /// What `min` and `max` count.
    pub unit: RedUnit,
    /// Probability that the mean reaches at `max`.
    pub max_probability: f64,
    /// Weight of one arrival in the mean queue.
    pub weight: f64,
    /// Let the probability rise from `max_probability` to 1 between `max` and `2 max` instead of
    /// at once.
    pub gentle: bool,
    /// Size of a typical packet on the link, for the decay of the mean while the link is idle: it
    /// decays as if this many bytes at a time had found an empty queue.
    pub mean_packet_bytes: u32,
}

/// What a queue's length is counted in.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum RedUnit {
    /// Packets, the one that is being sent included.
    #[default]
    Packets,
    /// Bytes on the link, what is left of the packet that is being sent included.
    Bytes,
}

impl RedConfig {
    /// The authors' advice for a queue of `packets`: thresholds at a tenth and three tenths of it,
    /// probability 0.1, weight 0.002, gentle (Floyd, "RED: Discussions of Setting Parameters",
    /// 1997, and "Recommendation on using the gentle variant of RED", 2000, after the paper's own
    /// `max = 3 min`).
    pub fn for_queue_of(packets: u64) -> Self {
        let min = (packets as f64 * 0.1).max(5.0);
        Self {
            min,
            max: 3.0 * min,
            unit: RedUnit::Packets,
            max_probability: 0.1,
            weight: 0.002,
            gentle: true,
            mean_packet_bytes: 1538,
        }
    }
}
