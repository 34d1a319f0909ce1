//! Queue and rate: one server that sends packets one after the other.
//!
//! No packet is stored: the time at which the last accepted packet will have left says all there
//! is to know about a droptail queue in front of a constant-rate link.

use crate::aqm::RedUnit;
use crate::red::Red;
use crate::work::{NANOS_PER_BYTE_AT_1_BIT_PER_SEC, packets_in};
use crate::{DropReason, QueueLimit};
use howdah_core::{Rate, Span, Time};
use std::collections::VecDeque;

/// Rates from here on count as unlimited; below it no sum of remainders overflows.
const UNLIMITED_BITS_PER_SEC: u64 = 1 << 62;

#[derive(Clone, Debug)]
pub(crate) struct Server {
    /// `None` is unlimited.
    bits_per_sec: Option<u64>,
    limit: QueueLimit,
    red: Option<Box<Red>>,
    overhead_bytes: u32,
    /// When the last accepted packet has left: whole nanoseconds, and a remainder in units of
    /// 1/rate nanoseconds so that nothing drifts.
    free_at_ns: u64,
    remainder: u64,
    /// Service time of the packet size seen last: sizes repeat, and this saves the division.
    last_link_bytes: u64,
    last_whole_ns: u64,
    last_remainder: u64,
    /// Departure times of the packets in the system; kept only where packets are counted.
    departures: VecDeque<u64>,
    /// Backlog accepted under earlier rates: (its last departure, rate). Empty unless the rate
    /// changed while packets were waiting.
    earlier: VecDeque<(u64, u64)>,
}

impl Server {
    pub(crate) fn new(rate: Option<Rate>, limit: QueueLimit, overhead_bytes: u32) -> Self {
        Self {
            bits_per_sec: limited(rate),
            limit,
            red: None,
            overhead_bytes,
            free_at_ns: 0,
            remainder: 0,
            last_link_bytes: 0,
            last_whole_ns: 0,
            last_remainder: 0,
            departures: VecDeque::new(),
            earlier: VecDeque::new(),
        }
    }

    /// Packets accepted before keep their departure times; the new rate serves what comes after.
    pub(crate) fn reconfigure(
        &mut self,
        rate: Option<Rate>,
        limit: QueueLimit,
        overhead_bytes: u32,
    ) {
        let bits_per_sec = limited(rate);
        if bits_per_sec != self.bits_per_sec {
            self.free_at_ns = self.free_at().as_nanos();
            self.remainder = 0;
            self.last_link_bytes = 0;
            self.last_whole_ns = 0;
            self.last_remainder = 0;
            let already = self.earlier.back().map_or(0, |&(until, _)| until);
            if let Some(old) = self.bits_per_sec
                && self.free_at_ns > already
            {
                self.earlier.push_back((self.free_at_ns, old));
            }
            self.bits_per_sec = bits_per_sec;
        }
        self.limit = limit;
        self.overhead_bytes = overhead_bytes;
        if !self.counts_packets() {
            self.departures.clear();
        }
    }

    /// Drops some packets before the queue is full, or no longer.
    pub(crate) fn set_red(&mut self, red: Option<Red>) {
        self.red = red.map(Box::new);
        if !self.counts_packets() {
            self.departures.clear();
        }
    }

    pub(crate) fn red_mut(&mut self) -> Option<&mut Red> {
        self.red.as_deref_mut()
    }

    /// Forgets what waits: the next packet finds the link idle.
    pub(crate) fn restart(&mut self) {
        self.free_at_ns = 0;
        self.remainder = 0;
        self.departures.clear();
        self.earlier.clear();
    }

    /// The link is busy until then with something that is not counted.
    pub(crate) fn busy_until(&mut self, until: Time) {
        self.free_at_ns = until.as_nanos();
        self.remainder = 0;
    }

    fn counts_packets(&self) -> bool {
        matches!(self.limit, QueueLimit::Packets(_))
            || self
                .red
                .as_ref()
                .is_some_and(|red| red.unit() == RedUnit::Packets)
    }

    /// Whether nothing ever leaves.
    pub(crate) fn is_dead(&self) -> bool {
        self.bits_per_sec == Some(0)
    }

    /// When the link becomes idle, rounded up.
    pub(crate) fn free_at(&self) -> Time {
        Time::from_nanos(
            self.free_at_ns
                .saturating_add(u64::from(self.remainder > 0)),
        )
    }

    /// Offers a packet: when its last bit leaves (rounded up), or why it is dropped.
    #[inline]
    pub(crate) fn offer(&mut self, now: Time, ip_bytes: u32) -> Result<Time, DropReason> {
        let Some(rate) = self.bits_per_sec else {
            // Behind what an earlier, finite rate still has to send.
            return Ok(now.max(self.free_at()));
        };
        if rate == 0 {
            return Err(DropReason::QueueFull);
        }
        let now_ns = now.as_nanos();
        let link_bytes = u64::from(ip_bytes) + u64::from(self.overhead_bytes);
        while self
            .earlier
            .front()
            .is_some_and(|&(until, _)| until <= now_ns)
        {
            self.earlier.pop_front();
        }
        let idle = now >= self.free_at();
        if self.red.is_some() && self.red_drops(now, idle, rate) {
            return Err(DropReason::Aqm);
        }
        if idle {
            self.free_at_ns = now_ns;
            self.remainder = 0;
        }
        let accepted = match self.limit {
            QueueLimit::Unlimited => true,
            QueueLimit::Bytes(limit) => {
                idle || self.backlog(now) + u128::from(link_bytes) * NANOS_PER_BYTE_AT_1_BIT_PER_SEC
                    <= u128::from(limit) * NANOS_PER_BYTE_AT_1_BIT_PER_SEC
            }
            QueueLimit::Packets(limit) => {
                while self.departures.front().is_some_and(|&at| at <= now_ns) {
                    self.departures.pop_front();
                }
                idle || (self.departures.len() as u64) < limit
            }
            QueueLimit::Time(limit) => idle || self.free_at_ns - now_ns <= limit.as_nanos(),
        };
        if !accepted {
            return Err(DropReason::QueueFull);
        }
        let leaves = self.advance(rate, link_bytes);
        if matches!(self.limit, QueueLimit::Packets(_)) || self.red.is_some() {
            self.departures.push_back(leaves.as_nanos());
        }
        Ok(leaves)
    }

    /// Sends a packet that has waited right after the last one, or one that has just come (or has
    /// waited for something else) at `now`; there is no queue to be full.
    pub(crate) fn follow(&mut self, now: Time, ip_bytes: u32, has_waited: bool) -> Time {
        let Some(rate) = self.bits_per_sec else {
            return now.max(self.free_at());
        };
        // A link that became idle within this nanosecond goes on where it was, to the fraction.
        if now > self.free_at() || !has_waited {
            self.free_at_ns = now.as_nanos();
            self.remainder = 0;
        }
        while self
            .earlier
            .front()
            .is_some_and(|&(until, _)| until <= now.as_nanos())
        {
            self.earlier.pop_front();
        }
        self.advance(rate, u64::from(ip_bytes) + u64::from(self.overhead_bytes))
    }

    /// Takes the service time of a packet; when that has passed, rounded up.
    #[inline]
    fn advance(&mut self, rate: u64, link_bytes: u64) -> Time {
        if link_bytes != self.last_link_bytes {
            let bits = u128::from(link_bytes) * NANOS_PER_BYTE_AT_1_BIT_PER_SEC;
            self.last_link_bytes = link_bytes;
            self.last_whole_ns = u64::try_from(bits / u128::from(rate)).unwrap_or(u64::MAX);
            self.last_remainder = (bits % u128::from(rate)) as u64;
        }
        self.free_at_ns = self.free_at_ns.saturating_add(self.last_whole_ns);
        self.remainder += self.last_remainder;
        if self.remainder >= rate {
            self.remainder -= rate;
            self.free_at_ns = self.free_at_ns.saturating_add(1);
        }
        self.free_at()
    }

    fn red_drops(&mut self, now: Time, idle: bool, rate: u64) -> bool {
        let now_ns = now.as_nanos();
        while self.departures.front().is_some_and(|&at| at <= now_ns) {
            self.departures.pop_front();
        }
        let backlog = self.backlog(now);
        // From the whole nanosecond on at which the link is free, as in the stored queue: the
        // fraction before it decides now and then whether one packet more was missed.
        let idle_ns = now.since(self.free_at()).as_nanos();
        let Some(red) = &mut self.red else {
            return false;
        };
        if idle {
            red.idle(packets_in(idle_ns, rate, red.mean_packet_bytes()));
        }
        red.drops(match red.unit() {
            RedUnit::Packets => self.departures.len() as f64,
            RedUnit::Bytes => backlog as f64 / NANOS_PER_BYTE_AT_1_BIT_PER_SEC as f64,
        })
    }

    /// How long a packet that comes now would wait before its first bit leaves.
    pub(crate) fn queue_delay(&self, now: Time) -> Span {
        self.free_at().since(now)
    }

    /// Link bytes not yet sent, rounded up.
    pub(crate) fn queued_bytes(&self, now: Time) -> u64 {
        let bytes = self.backlog(now).div_ceil(NANOS_PER_BYTE_AT_1_BIT_PER_SEC);
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// What is not yet sent, in bits times 10^9, with `more` behind it: exact also when the link
    /// became idle within this nanosecond.
    pub(crate) fn backlog_with(&self, now: Time, more: u128) -> u128 {
        let now_ns = now.as_nanos();
        if self.earlier.is_empty()
            && self.free_at_ns < now_ns
            && self.free_at_ns + 1 == now_ns
            && self.remainder > 0
        {
            let sent = u128::from(self.bits_per_sec.unwrap_or(0)) - u128::from(self.remainder);
            return more.saturating_sub(sent);
        }
        self.backlog(now) + more
    }

    /// Whether a packet behind `more` (in bits times 10^9) would have to wait longer than `limit`.
    pub(crate) fn exceeds(&self, now: Time, more: u128, limit: Span) -> bool {
        let Some(rate) = self.bits_per_sec.map(u128::from) else {
            return false;
        };
        let begin = u128::from(self.free_at_ns) * rate + u128::from(self.remainder) + more;
        let latest = u128::from(now.as_nanos()) + u128::from(limit.as_nanos());
        begin >= (latest + 1) * rate
    }

    /// What is not yet sent, in bits times 10^9: exact, without a division.
    #[inline]
    pub(crate) fn backlog(&self, now: Time) -> u128 {
        let mut from = now.as_nanos();
        let mut total = 0;
        for &(until, rate) in &self.earlier {
            if until > from {
                total += u128::from(until - from) * u128::from(rate);
                from = until;
            }
        }
        let rate = self.bits_per_sec.unwrap_or(0);
        match self.free_at_ns.checked_sub(from) {
            Some(ns) => total + u128::from(ns) * u128::from(rate) + u128::from(self.remainder),
            None => total,
        }
    }
}

fn limited(rate: Option<Rate>) -> Option<u64> {
    rate.map(Rate::bits_per_sec)
        .filter(|&bits| bits < UNLIMITED_BITS_PER_SEC)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GBIT: u64 = 1_000_000_000;

    fn server(rate: u64, limit: QueueLimit) -> Server {
        Server::new(Some(Rate::from_bits_per_sec(rate)), limit, 0)
    }

    /// 10^6 packets of 9018 + 38 bytes at rates that divide nothing: no drift of a nanosecond.
    #[test]
    fn a_million_packets_do_not_drift() {
        for rate in [10 * GBIT, 7_777_777_777, 3, 999_999_937] {
            let mut server = Server::new(
                Some(Rate::from_bits_per_sec(rate)),
                QueueLimit::Unlimited,
                38,
            );
            let mut last = Time::ZERO;
            let packets = 1_000_000u64;
            for _ in 0..packets {
                last = server.offer(Time::ZERO, 9018).unwrap();
            }
            let exact = (u128::from(packets) * 9056 * 8_000_000_000).div_ceil(u128::from(rate));
            assert_eq!(
                u128::from(last.as_nanos()),
                exact.min(u128::from(u64::MAX)),
                "{rate}"
            );
        }
    }

    #[test]
    fn an_idle_link_starts_at_once_and_takes_any_packet() {
        let mut server = server(8 * GBIT, QueueLimit::Bytes(1));
        for at in [0, 5000, 1_000_000] {
            let now = Time::from_nanos(at);
            assert_eq!(server.offer(now, 1000), Ok(Time::from_nanos(at + 1000)));
            assert_eq!(server.offer(now, 1000), Err(DropReason::QueueFull));
        }
    }

    #[test]
    fn limit_in_bytes() {
        // 1 byte per nanosecond.
        let mut server = server(8 * GBIT, QueueLimit::Bytes(3000));
        let at = Time::from_nanos;
        for _ in 0..3 {
            assert!(server.offer(at(0), 1000).is_ok());
        }
        assert!(server.offer(at(0), 1).is_err());
        assert_eq!(server.queued_bytes(at(0)), 3000);
        assert!(server.offer(at(499), 500).is_err());
        assert!(server.offer(at(500), 500).is_ok());
        assert_eq!(server.queued_bytes(at(500)), 3000);
        assert_eq!(server.queue_delay(at(500)), Span::from_nanos(3000));
    }

    #[test]
    fn limit_in_packets() {
        let mut server = server(8 * GBIT, QueueLimit::Packets(2));
        let at = Time::from_nanos;
        assert!(server.offer(at(0), 1000).is_ok());
        assert!(server.offer(at(0), 9000).is_ok());
        assert!(server.offer(at(999), 1).is_err());
        assert!(server.offer(at(1000), 1).is_ok());
        assert!(server.offer(at(1000), 1).is_err());
    }

    #[test]
    fn limit_in_time() {
        let mut server = server(8 * GBIT, QueueLimit::Time(Span::from_nanos(1500)));
        let at = Time::from_nanos;
        assert!(server.offer(at(0), 1000).is_ok());
        assert!(server.offer(at(0), 1000).is_ok());
        assert!(server.offer(at(0), 1).is_err());
        assert!(server.offer(at(499), 1).is_err());
        assert!(server.offer(at(500), 1).is_ok());
    }

    #[test]
    fn a_dead_link_refuses_and_an_unlimited_one_never_waits() {
        let mut dead = server(0, QueueLimit::Unlimited);
        assert_eq!(dead.offer(Time::ZERO, 1), Err(DropReason::QueueFull));
        let mut open = Server::new(None, QueueLimit::Packets(1), 38);
        let at = Time::from_nanos(5);
        for _ in 0..10 {
            assert_eq!(open.offer(at, 1500), Ok(at));
        }
        assert_eq!(open.queued_bytes(at), 0);
    }

    /// The backlog stays what it is in bytes when the rate changes under it.
    #[test]
    fn a_change_of_rate_keeps_the_bytes_that_wait() {
        let mut server = server(8 * GBIT, QueueLimit::Unlimited);
        let at = Time::from_nanos;
        server.offer(at(0), 10_000).unwrap();
        server.reconfigure(Some(Rate::from_gbit_per_sec(4)), QueueLimit::Unlimited, 0);
        assert_eq!(server.queued_bytes(at(2000)), 8000);
        assert_eq!(server.offer(at(2000), 1000), Ok(at(12_000)));
        assert_eq!(server.queued_bytes(at(2000)), 9000);
        assert_eq!(server.queued_bytes(at(11_000)), 500);
        server.reconfigure(None, QueueLimit::Unlimited, 0);
        // What waits goes first.
        assert_eq!(server.offer(at(11_000), 1000), Ok(at(12_000)));
        assert_eq!(server.queued_bytes(at(11_000)), 500);
        assert_eq!(server.queued_bytes(at(12_000)), 0);
    }

    /// Mean wait of an M/D/1 queue at load 0.8: rho / (2 mu (1 - rho)) = 2 service times
    /// (Pollaczek-Khinchine).
    #[test]
    fn m_d_1_waits_as_theory_says() {
        use rand_chacha::ChaCha8Rng;
        use rand_chacha::rand_core::{Rng, SeedableRng};
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        let mut server = server(8 * GBIT, QueueLimit::Unlimited);
        let mut now = 0.0f64;
        let mut waited = 0.0;
        let packets = 400_000;
        for _ in 0..packets {
            let uniform = ((rng.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
            now += -uniform.ln() * 1000.0 / 0.8;
            let at = Time::from_nanos(now as u64);
            waited += server.queue_delay(at).as_nanos() as f64;
            server.offer(at, 1000).unwrap();
        }
        let mean = waited / f64::from(packets);
        assert!((mean - 2000.0).abs() < 60.0, "{mean}");
    }
}
