//! What a path is asked to be.

use howdah_core::{Rate, Span};

/// Ethernet bytes on the wire around an IP packet: preamble and start delimiter 8, header 14,
/// frame check sequence 4, inter-frame gap 12 (IEEE 802.3).
const ETHERNET_OVERHEAD_BYTES: u32 = 38;

/// One direction of a path. [`Default`] is a wire without limits, delay or impairment.
#[derive(Clone, Debug, PartialEq)]
pub struct PathConfig {
    /// Bottleneck rate, in bits on the wire (see [`link_overhead_bytes`](Self::link_overhead_bytes));
    /// `None` is unlimited. At [`Rate::ZERO`] the link is dead: the queue refuses every packet.
    pub rate: Option<Rate>,
    /// How much may wait in front of the bottleneck.
    pub queue: QueueLimit,
    /// Random loss behind the bottleneck.
    pub loss: LossModel,
    /// Constant one-way delay.
    pub delay: Span,
    /// Largest IP packet in bytes; larger ones are dropped. 0 is no limit.
    pub mtu: u32,
    /// Extra delay, uniform in 0 to this much, drawn per packet. Without
    /// [`reorder`](Self::reorder) a packet never overtakes its predecessor, so packets that follow
    /// each other more closely than the jitter bunch up behind the slowest.
    pub jitter: Span,
    /// Probability that a packet is exempt from that order: it is delivered at its own time and
    /// holds up nobody. Only jitter makes a difference between the two.
    pub reorder: f64,
    /// Probability that a delivered packet is delivered twice.
    pub duplicate: f64,
    /// Probability that a delivered packet is damaged.
    pub corrupt: f64,
    /// Bytes per packet that the rate stage and [`QueueLimit::Bytes`] count on top of the IP packet.
    pub link_overhead_bytes: u32,
}

impl Default for PathConfig {
    fn default() -> Self {
        Self {
            rate: None,
            queue: QueueLimit::Unlimited,
            loss: LossModel::None,
            delay: Span::ZERO,
            mtu: 0,
            jitter: Span::ZERO,
            reorder: 0.0,
            duplicate: 0.0,
            corrupt: 0.0,
            link_overhead_bytes: ETHERNET_OVERHEAD_BYTES,
        }
    }
}

/// How much a droptail queue holds. A packet that finds the link idle is always accepted, so no
/// limit is small enough to block a path.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum QueueLimit {
    /// Nothing is ever refused.
    #[default]
    Unlimited,
    /// Bytes on the link (IP bytes plus link overhead), counting what is left of the packet that
    /// is being sent.
    Bytes(u64),
    /// Packets, counting the one that is being sent.
    Packets(u64),
    /// Time that a packet would wait until its own first bit leaves.
    Time(Span),
}

/// Which packets are lost behind the bottleneck.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum LossModel {
    /// None.
    #[default]
    None,
    /// Each one independently with this probability.
    Bernoulli(f64),
    /// A chain of two states (E. N. Gilbert 1960, E. O. Elliott 1963). Each packet is lost with the
    /// probability of the state it meets; after it the chain may change state. The chain starts in
    /// its stationary distribution.
    GilbertElliott {
        /// Probability of the step from good to bad, per packet.
        p_enter_bad: f64,
        /// Probability of the step from bad to good, per packet: 1 / mean length of a bad period.
        p_leave_bad: f64,
        /// Probability of loss in the good state.
        loss_good: f64,
        /// Probability of loss in the bad state.
        loss_bad: f64,
    },
    /// Exactly these packets: 0 is the first one offered to the path. For tests. Packets that the
    /// MTU or the queue drops are counted too.
    List(Vec<u64>),
}

impl LossModel {
    /// Long-run share of packets lost; 0 for a [`List`](Self::List).
    pub fn stationary_loss(&self) -> f64 {
        match *self {
            Self::None | Self::List(_) => 0.0,
            Self::Bernoulli(p) => p.clamp(0.0, 1.0),
            Self::GilbertElliott {
                p_enter_bad,
                p_leave_bad,
                loss_good,
                loss_bad,
            } => {
                let bad = stationary_bad(p_enter_bad, p_leave_bad);
                loss_good.clamp(0.0, 1.0) * (1.0 - bad) + loss_bad.clamp(0.0, 1.0) * bad
            }
        }
    }
}

/// Share of packets that meet the bad state. A chain that never moves counts as good.
pub(crate) fn stationary_bad(p_enter_bad: f64, p_leave_bad: f64) -> f64 {
    let (enter, leave) = (p_enter_bad.clamp(0.0, 1.0), p_leave_bad.clamp(0.0, 1.0));
    if enter > 0.0 {
        enter / (enter + leave)
    } else {
        0.0
    }
}
