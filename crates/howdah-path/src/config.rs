//! What a path is asked to be.

use crate::{Aqm, Jitter, LossModel, RateTrace};
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
    /// A rate that changes by itself; [`rate`](Self::rate) is then not used. Implies a
    /// [stored queue](Self::stores_packets).
    pub rate_trace: Option<RateTrace>,
    /// A token bucket in front of the link: packets leave at [`rate`](Self::rate) (or a trace's) as
    /// long as it has tokens, and at the bucket's rate in the long run. Implies a
    /// [stored queue](Self::stores_packets).
    pub token_bucket: Option<TokenBucket>,
    /// How much may wait in front of the bottleneck.
    pub queue: QueueLimit,
    /// Which packets the queue drops before it is full.
    pub aqm: Aqm,
    /// Keep the packets that wait in a real queue, instead of computing on arrival when each will
    /// leave. Every packet fares the same either way, at the price of one event more for each one
    /// that waits; but only what is stored can still be served at another rate, moved or dropped
    /// when the path changes ([`OneWay::switch`](crate::OneWay::switch)). To be set when the path
    /// is made; a queue that is stored once stays so.
    pub stored_queue: bool,
    /// Random loss behind the bottleneck.
    pub loss: LossModel,
    /// Constant one-way delay.
    pub delay: Span,
    /// Packets that the path may hold from entrance to exit; a packet that finds as many is refused
    /// as if the queue were full. This is netem's `limit` (1000 by default), which counts the packets
    /// that only wait for their delay: rate <= limit / delay.
    pub delay_packets: Option<u64>,
    /// Largest IP packet in bytes; larger ones are dropped. 0 is no limit.
    pub mtu: u32,
    /// Extra delay on top of [`delay`](Self::delay). Without [`reorder`](Self::reorder) a packet
    /// never overtakes its predecessor, so packets that follow each other more closely than the
    /// jitter bunch up behind the slowest.
    pub jitter: Jitter,
    /// Probability that a packet is exempt from that order: it is delivered at its own time and
    /// holds up nobody. Only jitter makes a difference between the two. At 1 every packet has a
    /// delay of its own, whatever happens to its neighbours.
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
            rate_trace: None,
            token_bucket: None,
            queue: QueueLimit::Unlimited,
            aqm: Aqm::None,
            stored_queue: false,
            loss: LossModel::None,
            delay: Span::ZERO,
            delay_packets: None,
            mtu: 0,
            jitter: Jitter::None,
            reorder: 0.0,
            duplicate: 0.0,
            corrupt: 0.0,
            link_overhead_bytes: ETHERNET_OVERHEAD_BYTES,
        }
    }
}

impl PathConfig {
    /// Whether the fate of a packet that waits is open until it leaves, so that
    /// [`OneWay::offer`](crate::OneWay::offer) may answer
    /// [`Verdict::Queued`](crate::Verdict::Queued): asked for, or needed by `CoDel`, FQ-`CoDel` and `DualPI2` (which decide
    /// when a packet leaves the queue), by a rate trace or by a token bucket.
    pub fn stores_packets(&self) -> bool {
        self.stored_queue
            || self.rate_trace.is_some()
            || self.token_bucket.is_some()
            || matches!(self.aqm, Aqm::CoDel(_) | Aqm::DualPi2(_) | Aqm::FqCoDel(_))
    }

    /// The highest rate that the path ever has; `None` is unlimited.
    pub fn peak_rate(&self) -> Option<Rate> {
        match &self.rate_trace {
            Some(trace) => trace.peak(),
            None => self.rate,
        }
    }
}

/// A shaper that lets short bursts through: it holds at most `burst_bytes` of tokens (link bytes),
/// gains them at `rate`, and gives a packet as many as it has bytes. It begins full. A packet larger
/// than the bucket waits until that is full, and leaves it in debt.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TokenBucket {
    /// Rate in the long run. At [`Rate::ZERO`] nothing leaves once the bucket is empty.
    pub rate: Rate,
    /// What may leave at once after a pause.
    pub burst_bytes: u64,
}

/// How much a queue holds at most. A packet that finds the link idle is always accepted, so no
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
    /// Time that a packet would wait until its own first bit leaves. Under a rate trace at the
    /// trace's mean rate, behind a token bucket at the bucket's rate.
    Time(Span),
}

impl QueueLimit {
    /// A share of the bandwidth-delay product of a path: `share` times what `rate` carries in
    /// `rtt`, in bytes, rounded down. 1.0 is the old rule of thumb for one flow (Villamizar and
    /// Song 1994), 1/sqrt(n) that for n flows (Appenzeller, Keslassy and `McKeown` 2004).
    pub fn bdp_share(rate: Rate, rtt: Span, share: f64) -> Self {
        Self::Bytes((rate.bytes_in(rtt) as f64 * share) as u64)
    }
}
