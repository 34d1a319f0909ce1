//! A queue whose packets stay open until they leave.
//!
//! Packets wait here and their fate is decided when the link is ready for them. That costs its
//! driver one event more for each packet that waits, so the computed queue
//! ([`Server`](crate::server::Server)) is used where it can be; as long as no packet is dropped
//! from within and nothing changes, both give every packet the same times, to the nanosecond.

use crate::aqm::{Aqm, RedUnit};
use crate::bucket::Bucket;
use crate::codel::CoDel;
use crate::dualpi2::{CLASSIC, DualPi2, Fate, Head, L4S};
use crate::fq_codel::FqCoDel;
use crate::link::Link;
use crate::red::Red;
use crate::waiting::Waiting;
use crate::work::{NANOS_PER_BYTE_AT_1_BIT_PER_SEC, packets_in};
use crate::{DropReason, PathConfig, QueueLimit};
use howdah_core::{Ecn, Rate, Span, Time};
use std::collections::VecDeque;

/// The lines of FQ-`CoDel` are numbered behind the two others.
const FIRST_FLOW_LINE: usize = 2;

/// A packet that has had its turn.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Released {
    pub(crate) packet: Waiting,
    /// Where it waited.
    pub(crate) queue: usize,
    /// When its last bit has left, or why it is dropped.
    pub(crate) left: Result<Time, DropReason>,
    pub(crate) marked: bool,
}

/// What becomes of a packet that is offered.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Offered {
    /// The link was idle: the last bit has left then, and the packet is marked or not.
    Sent(Time, bool),
    /// It waits.
    Waits,
    Dropped(DropReason),
}

#[derive(Clone, Debug)]
pub(crate) struct Stored {
    link: Link,
    bucket: Option<Bucket>,
    limit: QueueLimit,
    codel: Option<CoDel>,
    red: Option<Red>,
    dual: Option<DualPi2>,
    fq: Option<Box<FqCoDel>>,
    /// Packets no longer go to flow lines: those that are there are served first.
    fq_drains: bool,
    rate: Option<Rate>,
    overhead_bytes: u32,
    /// The queue; with a dual queue the classic one and the L4S one.
    queues: [VecDeque<Waiting>; 2],
    waiting_link_bytes: u64,
}

impl Stored {
    /// An empty queue in front of a link that is busy until then.
    pub(crate) fn new(config: &PathConfig, seed: u64, busy_until: Time) -> Self {
        let mut stored = Self {
            link: Link::new(config, busy_until),
            bucket: config.token_bucket.map(Bucket::new),
            limit: config.queue,
            codel: None,
            red: None,
            dual: None,
            fq: None,
            fq_drains: false,
            rate: config.rate,
            overhead_bytes: config.link_overhead_bytes,
            queues: [VecDeque::new(), VecDeque::new()],
            waiting_link_bytes: 0,
        };
        stored.set_aqm(config.aqm, seed);
        stored
    }

    /// What waits goes on waiting, and leaves at the new rate; the packet that is being sent goes
    /// at the old one.
    pub(crate) fn reconfigure(&mut self, config: &PathConfig, seed: u64) {
        let packets = self.len() as u64;
        self.waiting_link_bytes -= packets * u64::from(self.overhead_bytes);
        self.waiting_link_bytes += packets * u64::from(config.link_overhead_bytes);
        self.link.reconfigure(config);
        if config.token_bucket != self.bucket.as_ref().map(Bucket::config) {
            self.bucket = config.token_bucket.map(Bucket::new);
        }
        self.limit = config.queue;
        self.rate = config.rate;
        self.overhead_bytes = config.link_overhead_bytes;
        self.set_aqm(config.aqm, seed);
    }

    /// A fresh link, idle. What waits must have been taken out.
    pub(crate) fn restart(&mut self, config: &PathConfig, seed: u64) {
        self.link = Link::new(config, Time::ZERO);
        self.bucket = None;
        self.codel = None;
        self.red = None;
        self.dual = None;
        self.fq = None;
        self.reconfigure(config, seed);
    }

    fn set_aqm(&mut self, aqm: Aqm, seed: u64) {
        match (aqm, &mut self.codel) {
            (Aqm::CoDel(config), Some(codel)) => codel.reconfigure(config),
            (Aqm::CoDel(config), none) => *none = Some(CoDel::new(config)),
            (_, some) => *some = None,
        }
        match (aqm, &mut self.red) {
            (Aqm::Red(config), Some(red)) => red.reconfigure(config),
            (Aqm::Red(config), none) => *none = Some(Red::new(seed, config)),
            (_, some) => *some = None,
        }
        match (aqm, &mut self.dual) {
            (Aqm::DualPi2(config), Some(dual)) => dual.reconfigure(config),
            (Aqm::DualPi2(config), none) => *none = Some(DualPi2::new(config)),
            (_, some) => *some = None,
        }
        self.fq_drains = !matches!(aqm, Aqm::FqCoDel(_));
        let overhead_bytes = self.overhead_bytes;
        match (aqm, &mut self.fq) {
            (Aqm::FqCoDel(config), Some(fq)) => fq.reconfigure(config, overhead_bytes),
            (Aqm::FqCoDel(config), none) => {
                *none = Some(Box::new(FqCoDel::new(seed, config, overhead_bytes)));
            }
            (_, some) => {
                if some.as_ref().is_some_and(|fq| fq.len() == 0) {
                    *some = None;
                }
            }
        }
    }

    /// The flow lines, if packets that come go there.
    fn flow_lines(&mut self) -> Option<&mut FqCoDel> {
        self.fq.as_deref_mut().filter(|_| !self.fq_drains)
    }

    /// Which queue a packet waits in.
    pub(crate) fn queue_of(&self, ecn: Ecn, flow: u64) -> usize {
        if let Some(fq) = self.fq.as_ref().filter(|_| !self.fq_drains) {
            return FIRST_FLOW_LINE + fq.line_of(flow);
        }
        self.dual_line(ecn)
    }

    fn dual_line(&self, ecn: Ecn) -> usize {
        if self.dual.is_some() && ecn.is_l4s() {
            L4S
        } else {
            CLASSIC
        }
    }

    /// Which of the two queues is served next.
    fn next_queue(&self) -> usize {
        let waiting = [CLASSIC, L4S].map(|queue| !self.queues[queue].is_empty());
        match &self.dual {
            Some(dual) => dual.next(waiting),
            // What waited when a dual queue became another one.
            None if !waiting[CLASSIC] => L4S,
            None => CLASSIC,
        }
    }

    /// Whether the link takes from the flow lines: what waited before a change of the queue's kind goes first.
    fn flow_lines_are_next(&self) -> bool {
        let waits = self.fq.as_ref().is_some_and(|fq| fq.len() > 0);
        waits && (self.fq_drains || self.queues.iter().all(VecDeque::is_empty))
    }

    fn head(&self, packet: &Waiting) -> Head {
        Head {
            arrived: packet.arrived,
            link_bytes: u64::from(packet.ip_bytes) + u64::from(self.overhead_bytes),
        }
    }

    /// What the AQM makes of a packet at its queue's head that has been taken out.
    fn judge(&mut self, now: Time, packet: &Waiting) -> Fate {
        let head = self.head(packet);
        let queue = self.dual_line(packet.ecn);
        if let Some(dual) = &mut self.dual {
            let behind = self.queues[queue].len();
            let other = !self.queues[1 - queue].is_empty();
            return dual.decide(now, head, packet.ecn, (behind, other));
        }
        if let Some(codel) = &mut self.codel {
            let sojourn = now.since(packet.arrived).as_nanos();
            if codel.drops(now.as_nanos(), sojourn, self.waiting_link_bytes) {
                if packet.ecn.is_capable() {
                    codel.was_marked(now.as_nanos());
                    return Fate::Mark;
                }
                return Fate::Drop;
            }
        }
        Fate::Send
    }

    /// Lets the dual queue's controller do what it would have done by now.
    fn catch_up(&mut self, now: Time) {
        let head = self.queues[CLASSIC].front().map(|packet| self.head(packet));
        if let Some(dual) = &mut self.dual {
            dual.catch_up(now, head);
        }
    }

    pub(crate) fn offer(&mut self, packet: Waiting) -> Offered {
        let (now, ip_bytes) = (packet.arrived, packet.ip_bytes);
        let link_bytes = u64::from(ip_bytes) + u64::from(self.overhead_bytes);
        if self.link.is_dead() {
            return Offered::Dropped(DropReason::QueueFull);
        }
        self.catch_up(now);
        let is_empty = self.len() == 0;
        let idle = is_empty && now >= self.ready_at(link_bytes);
        if self.red_drops(now, idle) {
            return Offered::Dropped(DropReason::Aqm);
        }
        if idle {
            return self.pass(now, packet, link_bytes);
        }
        // A packet that has the link to itself but no tokens yet is accepted, too.
        let alone = is_empty && now >= self.link.free_at();
        let accepted = alone || self.has_room(now, link_bytes);
        if let Some(fq) = self.flow_lines() {
            fq.push(packet);
            if !accepted {
                fq.overflow();
            }
        } else if accepted {
            if let Some(codel) = &mut self.codel {
                codel.arrived(link_bytes);
            }
            let queue = self.dual_line(packet.ecn);
            self.queues[queue].push_back(packet);
        } else {
            return Offered::Dropped(DropReason::QueueFull);
        }
        self.waiting_link_bytes += link_bytes;
        Offered::Waits
    }

    /// A packet finds the link idle.
    fn pass(&mut self, now: Time, packet: Waiting, link_bytes: u64) -> Offered {
        if let Some(fq) = self.flow_lines() {
            // It goes through its line, as that then is one that has begun.
            fq.idle();
            fq.push(packet);
            fq.pop(now.as_nanos());
        } else if let Some(codel) = &mut self.codel {
            codel.arrived(link_bytes);
            codel.empty();
        } else if self.dual.is_some() {
            match self.judge(now, &packet) {
                Fate::Drop => return Offered::Dropped(DropReason::Aqm),
                Fate::Mark => return Offered::Sent(self.send(now, packet.ip_bytes, false), true),
                Fate::Send => {}
            }
        }
        Offered::Sent(self.send(now, packet.ip_bytes, false), packet.marked)
    }

    fn has_room(&self, now: Time, link_bytes: u64) -> bool {
        match self.limit {
            QueueLimit::Unlimited => true,
            QueueLimit::Bytes(limit) => {
                let with_it = self.waiting_link_bytes + link_bytes;
                self.link.backlog(now, with_it)
                    <= u128::from(limit) * NANOS_PER_BYTE_AT_1_BIT_PER_SEC
            }
            QueueLimit::Packets(limit) => self.packets(now) < limit,
            QueueLimit::Time(limit) => !self.exceeds(now, limit),
        }
    }

    fn red_drops(&mut self, now: Time, idle: bool) -> bool {
        if self.red.is_none() {
            return false;
        }
        let packets = self.packets(now);
        let backlog = self.link.backlog(now, self.waiting_link_bytes);
        let rate = self.link.mean_rate(self.rate);
        let idle_ns = now.since(self.link.free_at()).as_nanos();
        let Some(red) = &mut self.red else {
            return false;
        };
        if idle {
            let rate = rate.map_or(u64::MAX, Rate::bits_per_sec);
            red.idle(packets_in(idle_ns, rate, red.mean_packet_bytes()));
        }
        red.drops(match red.unit() {
            RedUnit::Packets => packets as f64,
            RedUnit::Bytes => backlog as f64 / NANOS_PER_BYTE_AT_1_BIT_PER_SEC as f64,
        })
    }

    /// When link and bucket are ready for a packet.
    fn ready_at(&self, link_bytes: u64) -> Time {
        let free_at = self.link.free_at();
        match &self.bucket {
            Some(bucket) => free_at.max(bucket.ready_at(link_bytes)),
            None => free_at,
        }
    }

    fn send(&mut self, now: Time, ip_bytes: u32, has_waited: bool) -> Time {
        if let Some(bucket) = &mut self.bucket {
            bucket.take(now, u64::from(ip_bytes) + u64::from(self.overhead_bytes));
        }
        self.link.send(now, ip_bytes, has_waited)
    }

    /// Whether a packet that comes now has to wait longer than `limit`.
    fn exceeds(&self, now: Time, limit: Span) -> bool {
        match &self.bucket {
            Some(_) => self.queue_delay(now) > limit,
            None => self.link.exceeds(now, self.waiting_link_bytes, limit),
        }
    }

    /// Packets in the queue and on the link.
    fn packets(&self, now: Time) -> u64 {
        self.len() as u64 + u64::from(now < self.link.free_at())
    }

    /// When the packet that is served next is to be [released](Self::release).
    pub(crate) fn next_release(&self) -> Option<Time> {
        if self.fq.as_ref().is_some_and(|fq| fq.is_overfull()) {
            return Some(Time::ZERO);
        }
        let link_bytes = if self.flow_lines_are_next() {
            // Which of them is settled when they are asked; a bucket has tokens for any of them then.
            self.fq.as_ref()?.largest_bytes()
        } else {
            let head = self.queues[self.next_queue()].front()?;
            u64::from(head.ip_bytes) + u64::from(self.overhead_bytes)
        };
        let ready = self.ready_at(link_bytes);
        (!self.link.is_dead() && ready != Time::MAX).then_some(ready)
    }

    /// The fate of the packet that is served next.
    pub(crate) fn release(&mut self, now: Time) -> Option<Released> {
        self.catch_up(now);
        if let Some((line, packet)) = self.fq.as_mut().and_then(|fq| fq.pop_excess()) {
            self.waiting_link_bytes -= self.head(&packet).link_bytes;
            return Some(Released {
                packet,
                queue: FIRST_FLOW_LINE + line,
                left: Err(DropReason::QueueFull),
                marked: false,
            });
        }
        let queue = self.next_queue();
        let (queue, packet, fate) = if self.flow_lines_are_next() {
            let (line, packet, hit) = self.fq.as_mut()?.pop(now.as_nanos())?;
            self.waiting_link_bytes -= self.head(&packet).link_bytes;
            let fate = match (hit, packet.ecn.is_capable()) {
                (false, _) => Fate::Send,
                (true, true) => Fate::Mark,
                (true, false) => Fate::Drop,
            };
            (FIRST_FLOW_LINE + line, packet, fate)
        } else {
            let packet = self.queues[queue].pop_front()?;
            self.waiting_link_bytes -= self.head(&packet).link_bytes;
            let fate = self.judge(now, &packet);
            (queue, packet, fate)
        };
        let left = match fate {
            Fate::Drop => Err(DropReason::Aqm),
            // What came when the link had just become free, and before what had waited for that, does not begin in the fraction of a
            // nanosecond before it came.
            Fate::Mark | Fate::Send => {
                let has_waited = packet.arrived < self.link.free_at();
                Ok(self.send(now, packet.ip_bytes, has_waited))
            }
        };
        Some(Released {
            packet,
            queue,
            left,
            marked: packet.marked || fate == Fate::Mark,
        })
    }

    /// Takes the packet that is served next out, whatever the link does, and says where it waited.
    pub(crate) fn discard(&mut self) -> Option<(usize, Waiting)> {
        let queue = self.next_queue();
        let (queue, packet) = if self.flow_lines_are_next() {
            let (line, packet) = self.fq.as_mut()?.discard()?;
            (FIRST_FLOW_LINE + line, packet)
        } else {
            (queue, self.queues[queue].pop_front()?)
        };
        self.waiting_link_bytes -= self.head(&packet).link_bytes;
        Some((queue, packet))
    }

    pub(crate) fn len(&self) -> usize {
        let lines = self.fq.as_ref().map_or(0, |fq| fq.len());
        self.queues[CLASSIC].len() + self.queues[L4S].len() + lines
    }

    /// How long the queue is in time at a moment since it was last changed: exact where the rate is, else how long the first packet
    /// has waited.
    pub(crate) fn standing(&self, now: Time) -> Span {
        if self.link.is_steady() && self.bucket.is_none() {
            return self.queue_delay(now);
        }
        let heads = self.queues.iter().filter_map(VecDeque::front);
        let first = heads.map(|packet| packet.arrived).min();
        first.map_or(Span::ZERO, |arrived| now.since(arrived))
    }

    /// How long a packet that comes now would wait before its first bit leaves: at a trace's mean
    /// rate, behind what is left of a bucket's tokens. [`Span::MAX`] if the link is dead.
    pub(crate) fn queue_delay(&self, now: Time) -> Span {
        let shaped = match &self.bucket {
            // One byte more than waits: the first of the next packet.
            Some(bucket) => bucket
                .ready_at_unlimited(self.waiting_link_bytes + 1)
                .since(now),
            None => Span::ZERO,
        };
        self.link_delay(now).max(shaped)
    }

    fn link_delay(&self, now: Time) -> Span {
        let Some(rate) = self.link.mean_rate(self.rate) else {
            return self.link.free_at().since(now);
        };
        let bits = self.link.backlog(now, self.waiting_link_bytes);
        if bits == 0 {
            return Span::ZERO;
        }
        match u128::from(rate.bits_per_sec()) {
            0 => Span::MAX,
            rate => Span::from_nanos(u64::try_from(bits.div_ceil(rate)).unwrap_or(u64::MAX)),
        }
    }

    /// Link bytes not yet sent, rounded up.
    pub(crate) fn queued_bytes(&self, now: Time) -> u64 {
        let bits = self.link.backlog(now, self.waiting_link_bytes);
        u64::try_from(bits.div_ceil(NANOS_PER_BYTE_AT_1_BIT_PER_SEC)).unwrap_or(u64::MAX)
    }
}
