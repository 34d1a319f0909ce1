//! One direction of a path: the stages in their order.

use crate::chance::{Chance, Purpose, stream, uniform};
use crate::loss::Loss;
use crate::server::Server;
use crate::{PathConfig, PathCounters};
use howdah_core::{Span, Time};
use rand_chacha::ChaCha8Rng;

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// It arrives.
    Deliver(Delivery),
    /// It does not.
    Drop(DropReason),
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
}

/// Why a packet does not arrive.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum DropReason {
    /// The queue in front of the bottleneck was full (or the link dead).
    QueueFull,
    /// Lost at random behind the bottleneck.
    Loss,
    /// Larger than the MTU.
    TooBig,
}

/// One direction of a path.
///
/// `now` must not go back from one [`offer`](Self::offer) to the next. The same configuration,
/// seed and offers give the same verdicts.
#[derive(Clone, Debug)]
pub struct OneWay {
    mtu: u32,
    delay: Span,
    jitter: Span,
    server: Server,
    loss: Loss,
    jitter_rng: ChaCha8Rng,
    reorder: Chance,
    duplicate: Chance,
    corrupt: Chance,
    /// No packet that keeps the order arrives before this.
    not_before: Time,
    counters: PathCounters,
}

impl OneWay {
    /// A path as configured. Give the two directions of a path different seeds, or they lose
    /// packets in lock-step.
    pub fn new(config: &PathConfig, seed: u64) -> Self {
        Self {
            mtu: config.mtu,
            delay: config.delay,
            jitter: config.jitter,
            server: Server::new(config.rate, config.queue, config.link_overhead_bytes),
            loss: Loss::new(seed, &config.loss),
            jitter_rng: stream(seed, Purpose::Jitter),
            reorder: Chance::new(seed, Purpose::Reorder, config.reorder),
            duplicate: Chance::new(seed, Purpose::Duplicate, config.duplicate),
            corrupt: Chance::new(seed, Purpose::Corrupt, config.corrupt),
            not_before: Time::ZERO,
            counters: PathCounters::default(),
        }
    }

    /// Changes the path for the packets offered from now on.
    ///
    /// Packets already accepted keep their times. A change of `delay` is a change of route: packets
    /// on a shorter route may overtake those still on the longer one. Random streams go on; those
    /// of unchanged stages are not touched.
    pub fn set_config(&mut self, config: &PathConfig) {
        self.mtu = config.mtu;
        if config.delay != self.delay {
            self.delay = config.delay;
            self.not_before = Time::ZERO;
        }
        self.jitter = config.jitter;
        self.server
            .reconfigure(config.rate, config.queue, config.link_overhead_bytes);
        self.loss.set_model(&config.loss);
        self.reorder.set_probability(config.reorder);
        self.duplicate.set_probability(config.duplicate);
        self.corrupt.set_probability(config.corrupt);
    }

    /// Offers one packet of `ip_bytes` (IP header included, link header not).
    pub fn offer(&mut self, now: Time, ip_bytes: u32) -> Verdict {
        self.offer_inner(now, ip_bytes).0
    }

    /// The verdict, and whether the packet kept the order of its predecessors.
    #[inline]
    pub(crate) fn offer_inner(&mut self, now: Time, ip_bytes: u32) -> (Verdict, bool) {
        let index = self.counters.offered;
        let bytes = u64::from(ip_bytes);
        self.counters.offered += 1;
        self.counters.bytes_offered += bytes;
        if self.mtu != 0 && ip_bytes > self.mtu {
            self.counters.dropped_mtu += 1;
            self.counters.bytes_dropped_mtu += bytes;
            return (Verdict::Drop(DropReason::TooBig), true);
        }
        let Some(left) = self.server.offer(now, ip_bytes) else {
            self.counters.dropped_queue += 1;
            self.counters.bytes_dropped_queue += bytes;
            return (Verdict::Drop(DropReason::QueueFull), true);
        };
        if self.loss.next(index) {
            self.counters.dropped_loss += 1;
            self.counters.bytes_dropped_loss += bytes;
            return (Verdict::Drop(DropReason::Loss), true);
        }
        let mut at = left + self.delay;
        if !self.jitter.is_zero() {
            at += Span::from_nanos(uniform(&mut self.jitter_rng, self.jitter.as_nanos()));
        }
        let ordered = !self.reorder.next();
        if ordered {
            at = at.max(self.not_before);
            self.not_before = at;
        }
        let corrupt = self.corrupt.next();
        let duplicate = self.duplicate.next();
        self.counters.delivered += 1;
        self.counters.bytes_delivered += bytes;
        self.counters.corrupted += u64::from(corrupt);
        self.counters.duplicated += u64::from(duplicate);
        let delivery = Delivery {
            at,
            corrupt,
            duplicate_at: duplicate.then_some(at),
        };
        (Verdict::Deliver(delivery), ordered)
    }

    /// How long a packet offered now would wait before its first bit leaves.
    pub fn queue_delay(&self, now: Time) -> Span {
        self.server.queue_delay(now)
    }

    /// Bytes (link overhead included) accepted and not yet sent, rounded up.
    pub fn queued_bytes(&self, now: Time) -> u64 {
        self.server.queued_bytes(now)
    }

    /// What happened so far.
    pub fn counters(&self) -> PathCounters {
        self.counters
    }
}
