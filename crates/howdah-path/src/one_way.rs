//! One direction of a path: the stages in their order.

use crate::aqm::Aqm;
use crate::chance::{Chance, Purpose};
use crate::jitter::JitterStage;
use crate::loss::Loss;
use crate::pie::{Early, Pie};
use crate::red::Red;
use crate::server::Server;
use crate::stored::{Offered, Released, Stored};
use crate::switch::{Backlog, Order, Switch};
use crate::verdict::{Delivery, DropReason, Verdict};
use crate::waiting::Waiting;
use crate::{DelayHistogram, PathConfig, PathCounters};
use howdah_core::{Ecn, Span, Time};
use std::collections::VecDeque;

/// The packets that the path holds behind its queue, and how many it may hold.
#[derive(Clone, Debug)]
struct Holding {
    limit: u64,
    /// When each leaves. Where packets overtake one another, one is counted until those before it
    /// have left.
    exits: VecDeque<Time>,
}

impl Holding {
    fn new(limit: u64) -> Self {
        Self {
            limit,
            exits: VecDeque::new(),
        }
    }

    fn is_full(&mut self, now: Time, waiting: usize) -> bool {
        while self.exits.front().is_some_and(|&at| at <= now) {
            self.exits.pop_front();
        }
        (self.exits.len() + waiting) as u64 >= self.limit
    }
}

/// In front of the bottleneck.
#[derive(Clone, Debug)]
enum Queue {
    /// When each packet leaves is computed as it arrives.
    Computed(Server),
    /// Packets wait.
    Stored(Box<Stored>),
}

impl Queue {
    /// How long it is in time, at a moment since it was last changed.
    fn standing(&self, now: Time) -> Span {
        match self {
            Self::Computed(server) => server.queue_delay(now),
            Self::Stored(stored) => stored.standing(now),
        }
    }

    fn bytes(&self, now: Time) -> u64 {
        match self {
            Self::Computed(server) => server.queued_bytes(now),
            Self::Stored(stored) => stored.queued_bytes(now),
        }
    }
}

/// One direction of a path.
///
/// `now` must not go back from one call to the next. The same configuration, seed and offers give
/// the same verdicts.
#[derive(Clone, Debug)]
pub struct OneWay {
    mtu: u32,
    delay: Span,
    jitter: JitterStage,
    queue: Queue,
    /// In front of it.
    pie: Option<Box<Pie>>,
    loss: Loss,
    reorder: Chance,
    duplicate: Chance,
    corrupt: Chance,
    /// No packet that keeps the order arrives before this.
    not_before: Time,
    holding: Option<Box<Holding>>,
    counters: PathCounters,
    waits: Option<Box<DelayHistogram>>,
    overhead_bytes: u32,
    seed: u64,
}

impl OneWay {
    /// A path as configured. Give the two directions of a path different seeds, or they lose
    /// packets in lock-step.
    pub fn new(config: &PathConfig, seed: u64) -> Self {
        let queue = if config.stores_packets() {
            Queue::Stored(Box::new(Stored::new(config, seed, Time::ZERO)))
        } else {
            let mut server = Server::new(config.rate, config.queue, config.link_overhead_bytes);
            set_red(&mut server, config.aqm, seed);
            Queue::Computed(server)
        };
        let mut path = Self {
            mtu: config.mtu,
            delay: config.delay,
            pie: None,
            jitter: JitterStage::new(seed, &config.jitter),
            queue,
            loss: Loss::new(seed, &config.loss),
            reorder: Chance::new(seed, Purpose::Reorder, config.reorder),
            duplicate: Chance::new(seed, Purpose::Duplicate, config.duplicate),
            corrupt: Chance::new(seed, Purpose::Corrupt, config.corrupt),
            not_before: Time::ZERO,
            holding: config
                .delay_packets
                .map(|limit| Box::new(Holding::new(limit))),
            counters: PathCounters::default(),
            waits: None,
            overhead_bytes: config.link_overhead_bytes,
            seed,
        };
        path.set_pie(config.aqm);
        path
    }

    fn set_pie(&mut self, aqm: Aqm) {
        match (aqm, &mut self.pie) {
            (Aqm::Pie(config), Some(pie)) => pie.reconfigure(config),
            (Aqm::Pie(config), none) => *none = Some(Box::new(Pie::new(self.seed, config))),
            (_, some) => *some = None,
        }
    }

    /// Changes the path for the packets offered from now on: a [`switch`](Self::switch) that keeps
    /// the queue, and keeps the order unless the constant delay changes, which is then taken for a
    /// change of route.
    pub fn set_config(&mut self, config: &PathConfig) {
        if config.delay != self.delay {
            self.not_before = Time::ZERO;
        }
        self.inherit(config);
    }

    /// Changes the path and says what that does to the packets that are already on it. Random
    /// streams go on; those of unchanged stages are not touched.
    ///
    /// Returns the fates of the packets at the head of the stored queue, in the order in which they
    /// waited: of all of them if the backlog is not inherited, of none if it is. Their times may lie
    /// anywhere after `now`.
    ///
    /// # Panics
    /// If a backlog is to be dropped that is not stored: its packets have got their times already.
    pub fn switch(&mut self, now: Time, config: &PathConfig, switch: Switch) -> Vec<Verdict> {
        let fates = self.switch_queues(now, config, switch);
        fates.into_iter().map(|(_, verdict)| verdict).collect()
    }

    /// The same, with the line ([`queue_of`](Self::queue_of)) at whose head each of them stood.
    ///
    /// # Panics
    /// As [`switch`](Self::switch).
    pub fn switch_queues(
        &mut self,
        now: Time,
        config: &PathConfig,
        switch: Switch,
    ) -> Vec<(usize, Verdict)> {
        let mut fates = Vec::new();
        match switch.backlog {
            Backlog::Inherited => {}
            Backlog::DrainsOnOldPath => {
                while let Some(due) = self.next_release() {
                    fates.extend(self.release_from(now.max(due)));
                }
                // On a dead link nothing drains.
                self.discard_all(&mut fates);
                self.restart(config);
            }
            Backlog::Dropped => {
                assert!(
                    matches!(self.queue, Queue::Stored(_)),
                    "only a stored queue can be dropped"
                );
                self.discard_all(&mut fates);
                self.restart(config);
            }
        }
        if switch.order == Order::MayOvertake {
            self.not_before = Time::ZERO;
        }
        self.inherit(config);
        fates
    }

    fn discard_all(&mut self, fates: &mut Vec<(usize, Verdict)>) {
        if let Queue::Stored(stored) = &mut self.queue {
            while let Some((queue, packet)) = stored.discard() {
                self.counters.dropped_switch += 1;
                self.counters.bytes_dropped_switch += u64::from(packet.ip_bytes);
                fates.push((queue, Verdict::Drop(DropReason::Switched)));
            }
        }
    }

    fn restart(&mut self, config: &PathConfig) {
        self.pie = None;
        match &mut self.queue {
            Queue::Computed(server) => {
                server.restart();
                server.set_red(None);
            }
            Queue::Stored(stored) => stored.restart(config, self.seed),
        }
    }

    fn inherit(&mut self, config: &PathConfig) {
        self.mtu = config.mtu;
        self.delay = config.delay;
        match (&mut self.holding, config.delay_packets) {
            (Some(holding), Some(limit)) => holding.limit = limit,
            (holding, limit) => *holding = limit.map(|limit| Box::new(Holding::new(limit))),
        }
        self.jitter.set(&config.jitter);
        match &mut self.queue {
            Queue::Stored(stored) => stored.reconfigure(config, self.seed),
            Queue::Computed(server) if config.stores_packets() => {
                let busy_until = server.free_at();
                let stored = Stored::new(config, self.seed, busy_until);
                self.queue = Queue::Stored(Box::new(stored));
            }
            Queue::Computed(server) => {
                server.reconfigure(config.rate, config.queue, config.link_overhead_bytes);
                set_red(server, config.aqm, self.seed);
            }
        }
        self.set_pie(config.aqm);
        self.loss.set_model(&config.loss);
        self.reorder.set_probability(config.reorder);
        self.duplicate.set_probability(config.duplicate);
        self.corrupt.set_probability(config.corrupt);
        self.overhead_bytes = config.link_overhead_bytes;
    }

    /// Offers one packet of `ip_bytes` (IP header included, link header not).
    pub fn offer(&mut self, now: Time, ip_bytes: u32) -> Verdict {
        self.offer_ecn(now, ip_bytes, Ecn::NotEct)
    }

    /// The same of a packet with such an ECN field.
    pub fn offer_ecn(&mut self, now: Time, ip_bytes: u32, ecn: Ecn) -> Verdict {
        self.offer_inner(now, ip_bytes, ecn, 0).0
    }

    /// The same of a packet of such a flow: any number that its packets share (their addresses and ports, hashed), for queues that
    /// tell flows apart.
    #[inline]
    pub fn offer_flow(&mut self, now: Time, ip_bytes: u32, ecn: Ecn, flow: u64) -> Verdict {
        self.offer_inner(now, ip_bytes, ecn, flow).0
    }

    /// In which waiting line of a stored queue such a packet stands: always 0 but with `DualPI2`, which has two, and FQ-`CoDel`,
    /// which has more than a thousand.
    pub fn queue_of(&self, ecn: Ecn, flow: u64) -> usize {
        match &self.queue {
            Queue::Computed(_) => 0,
            Queue::Stored(stored) => stored.queue_of(ecn, flow),
        }
    }

    /// The verdict, and whether the packet kept the order of its predecessors.
    #[allow(
        clippy::inline_always,
        reason = "it is called for each packet, and its answer is slow to move"
    )]
    #[inline(always)]
    pub(crate) fn offer_inner(
        &mut self,
        now: Time,
        ip_bytes: u32,
        ecn: Ecn,
        flow: u64,
    ) -> (Verdict, bool) {
        let index = self.counters.offered;
        let bytes = u64::from(ip_bytes);
        self.counters.offered += 1;
        self.counters.bytes_offered += bytes;
        if self.mtu != 0 && ip_bytes > self.mtu {
            self.counters.dropped_mtu += 1;
            self.counters.bytes_dropped_mtu += bytes;
            return (Verdict::Drop(DropReason::TooBig), true);
        }
        if let Some(holding) = &mut self.holding {
            let waiting = match &self.queue {
                Queue::Computed(_) => 0,
                Queue::Stored(stored) => stored.len(),
            };
            if holding.is_full(now, waiting) {
                return (self.refuse(DropReason::QueueFull, bytes), true);
            }
        }
        let mut marked = false;
        if self.pie.is_some() {
            match self.arrives_early(now, ecn) {
                Early::Enter => {}
                Early::Mark => marked = true,
                Early::Drop => return (self.refuse(DropReason::Aqm, bytes), true),
            }
        }
        let left = match &mut self.queue {
            Queue::Computed(server) => {
                let wait = match &self.waits {
                    Some(_) => server.queue_delay(now),
                    None => Span::ZERO,
                };
                match server.offer(now, ip_bytes) {
                    Ok(left) => {
                        if let Some(waits) = &mut self.waits {
                            waits.record(wait);
                        }
                        left
                    }
                    Err(reason) => return (self.refuse(reason, bytes), true),
                }
            }
            Queue::Stored(stored) => match stored.offer(Waiting {
                arrived: now,
                ip_bytes,
                index,
                ecn,
                flow,
                marked,
            }) {
                Offered::Sent(left, mark) => {
                    marked = mark;
                    if let Some(waits) = &mut self.waits {
                        waits.record(Span::ZERO);
                    }
                    left
                }
                Offered::Waits => return (Verdict::Queued, true),
                Offered::Dropped(reason) => return (self.refuse(reason, bytes), true),
            },
        };
        self.behind_the_bottleneck(left, ip_bytes, index, marked)
    }

    /// What PIE makes of a packet that arrives.
    fn arrives_early(&mut self, now: Time, ecn: Ecn) -> Early {
        self.catch_up(now);
        let bytes = self.queue.bytes(now);
        let pie = self.pie.as_mut();
        pie.map_or(Early::Enter, |pie| pie.arrives(ecn, bytes))
    }

    fn catch_up(&mut self, now: Time) {
        if let Some(pie) = &mut self.pie {
            pie.catch_up(now, |moment| self.queue.standing(moment));
        }
    }

    #[cold]
    fn refuse(&mut self, reason: DropReason, bytes: u64) -> Verdict {
        if reason == DropReason::Aqm {
            self.counters.dropped_aqm += 1;
            self.counters.bytes_dropped_aqm += bytes;
        } else {
            self.counters.dropped_queue += 1;
            self.counters.bytes_dropped_queue += bytes;
        }
        Verdict::Drop(reason)
    }

    /// The stages after queue and rate, for a packet whose last bit has left at `left`.
    #[allow(
        clippy::inline_always,
        reason = "it is called for each packet, and its answer is slow to move"
    )]
    #[inline(always)]
    fn behind_the_bottleneck(
        &mut self,
        left: Time,
        ip_bytes: u32,
        index: u64,
        marked: bool,
    ) -> (Verdict, bool) {
        let bytes = u64::from(ip_bytes);
        self.counters.marked += u64::from(marked);
        if self.loss.next(index, left.as_nanos()) {
            self.counters.dropped_loss += 1;
            self.counters.bytes_dropped_loss += bytes;
            return (Verdict::Drop(DropReason::Loss), true);
        }
        let mut at = left + self.delay + self.jitter.next(left.as_nanos());
        let ordered = !self.reorder.next();
        if ordered {
            at = at.max(self.not_before);
            self.not_before = at;
        }
        if let Some(holding) = &mut self.holding {
            holding.exits.push_back(at);
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
            marked,
        };
        (Verdict::Deliver(delivery), ordered)
    }

    /// When the packet at the head of the stored queue is to be [released](Self::release); `None`
    /// if none waits, or on a dead link. It may lie in the past after a change of the path: then
    /// the packet is to be released at once. Ask again after every other call.
    pub fn next_release(&self) -> Option<Time> {
        match &self.queue {
            Queue::Computed(_) => None,
            Queue::Stored(stored) => stored.next_release(),
        }
    }

    /// Decides about the packet at the head of the stored queue, at the time that
    /// [`next_release`](Self::next_release) named; `None` if none waits. The verdict is never
    /// [`Verdict::Queued`].
    pub fn release(&mut self, now: Time) -> Option<Verdict> {
        self.release_from(now).map(|(_, verdict)| verdict)
    }

    /// The same, with the line ([`queue_of`](Self::queue_of)) at whose head the packet stood.
    pub fn release_from(&mut self, now: Time) -> Option<(usize, Verdict)> {
        self.catch_up(now);
        let Queue::Stored(stored) = &mut self.queue else {
            return None;
        };
        let Released {
            packet,
            queue,
            left,
            marked,
        } = stored.release(now)?;
        let left = match left {
            Ok(left) => left,
            Err(reason) => return Some((queue, self.refuse(reason, u64::from(packet.ip_bytes)))),
        };
        if let Some(waits) = &mut self.waits {
            waits.record(now.since(packet.arrived));
        }
        let (verdict, _) = self.behind_the_bottleneck(left, packet.ip_bytes, packet.index, marked);
        Some((queue, verdict))
    }

    /// Packets in the stored queue; 0 in a computed one, which holds none.
    pub fn waiting(&self) -> usize {
        match &self.queue {
            Queue::Computed(_) => 0,
            Queue::Stored(stored) => stored.len(),
        }
    }

    /// How long a packet offered now would wait before its first bit leaves. Under a rate trace an
    /// estimate, at the trace's mean rate.
    pub fn queue_delay(&self, now: Time) -> Span {
        match &self.queue {
            Queue::Computed(server) => server.queue_delay(now),
            Queue::Stored(stored) => stored.queue_delay(now),
        }
    }

    /// Bytes (link overhead included) accepted and not yet sent, rounded up.
    pub fn queued_bytes(&self, now: Time) -> u64 {
        self.queue.bytes(now)
    }

    /// Bytes (link overhead included) that the bottleneck has sent up to now. Their increase over
    /// an interval, as a share of what the rate carries in it, is the utilisation.
    pub fn sent_link_bytes(&self, now: Time) -> u64 {
        let counters = &self.counters;
        let packets = counters.delivered + counters.dropped_loss + self.waiting() as u64;
        let ip_bytes = counters.bytes_offered
            - counters.bytes_dropped_queue
            - counters.bytes_dropped_aqm
            - counters.bytes_dropped_switch
            - counters.bytes_dropped_mtu;
        (ip_bytes + packets * u64::from(self.overhead_bytes)).saturating_sub(self.queued_bytes(now))
    }

    /// Counts from now on how long each packet waits until its first bit leaves, dropped ones
    /// apart. Begins anew if it was counting already.
    pub fn count_waits(&mut self) {
        self.waits = Some(Box::default());
    }

    /// How long packets waited, if that is [counted](Self::count_waits).
    pub fn waits(&self) -> Option<&DelayHistogram> {
        self.waits.as_deref()
    }

    /// How many of the next packets would be lost at random, if none of them were dropped before. Nothing changes: those packets will meet
    /// these dice. Where losses follow the time instead of the packets it is what this moment says.
    pub fn losses_ahead(&self, packets: u64) -> u64 {
        let mut loss = self.loss.clone();
        let left = self.not_before.as_nanos();
        let ahead = self.counters.offered..self.counters.offered + packets;
        ahead.filter(|&index| loss.next(index, left)).count() as u64
    }

    /// What happened so far.
    pub fn counters(&self) -> PathCounters {
        self.counters
    }
}

/// RED as configured; it goes on where it was if it is there already.
fn set_red(server: &mut Server, aqm: Aqm, seed: u64) {
    match (aqm, server.red_mut()) {
        (Aqm::Red(config), Some(red)) => red.reconfigure(config),
        (Aqm::Red(config), None) => server.set_red(Some(Red::new(seed, config))),
        (_, Some(_)) => server.set_red(None),
        (_, None) => {}
    }
}
