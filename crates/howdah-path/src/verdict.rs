//! What becomes of a packet.

use howdah_core::Time;

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// It arrives.
    Deliver(Delivery),
    /// It does not.
    Drop(DropReason),
    /// It waits in a [stored queue](crate::PathConfig::stores_packets). Keep it behind those that wait
    /// already; [`OneWay::release`](crate::OneWay::release) will tell, first come first served, or so in each of two queues
    /// ([`OneWay::queue_of`](crate::OneWay::queue_of)). A path that stores nothing never says this.
    Queued,
}

/// How a packet arrives.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Delivery {
    /// When its last bit has arrived.
    pub at: Time,
    /// Whether it is damaged.
    pub corrupt: bool,
    /// When a second copy (damaged alike) arrives.
    pub duplicate_at: Option<Time>,
    /// Whether the queue marked it ([`Ecn::Ce`](howdah_core::Ecn::Ce)).
    pub marked: bool,
}

/// Why a packet does not arrive.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum DropReason {
    /// The queue in front of the bottleneck was full (or the link dead).
    QueueFull,
    /// Active queue management dropped it.
    Aqm,
    /// It waited in a queue that a change of the path threw away.
    Switched,
    /// Lost at random behind the bottleneck.
    Loss,
    /// Larger than the MTU.
    TooBig,
}
