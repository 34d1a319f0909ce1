//! What sends the packets of a stored queue: one at a time, at a rate that may change by itself.

use crate::server::Server;
use crate::trace::{RateShape, RateTrace, StepCursor, Steps};
use crate::work::NANOS_PER_BYTE_AT_1_BIT_PER_SEC;
use crate::{PathConfig, QueueLimit};
use howdah_core::{Rate, Span, Time};
use std::sync::Arc;

/// Beyond this a rate counts as unlimited (as in [`Server`]).
const UNLIMITED_BITS_PER_SEC: u64 = 1 << 62;

#[derive(Clone, Debug)]
pub(crate) enum Link {
    Constant(Server),
    Traced(Traced),
}

impl Link {
    /// A link as configured that is busy until `busy_until`.
    pub(crate) fn new(config: &PathConfig, busy_until: Time) -> Self {
        let overhead_bytes = config.link_overhead_bytes;
        if let Some(trace) = &config.rate_trace {
            return Self::Traced(Traced::new(trace.clone(), overhead_bytes, busy_until));
        }
        let mut server = Server::new(config.rate, QueueLimit::Unlimited, overhead_bytes);
        server.busy_until(busy_until);
        Self::Constant(server)
    }

    /// Another rate after the packet that is being sent.
    pub(crate) fn reconfigure(&mut self, config: &PathConfig) {
        match (&mut *self, &config.rate_trace) {
            (Self::Constant(server), None) => server.reconfigure(
                config.rate,
                QueueLimit::Unlimited,
                config.link_overhead_bytes,
            ),
            (Self::Traced(traced), Some(trace)) if traced.trace == *trace => {
                traced.overhead_bytes = config.link_overhead_bytes;
            }
            _ => *self = Self::new(config, self.free_at()),
        }
    }

    /// When it will have sent what it is sending, rounded up.
    pub(crate) fn free_at(&self) -> Time {
        match self {
            Self::Constant(server) => server.free_at(),
            Self::Traced(traced) => traced.free_at(),
        }
    }

    /// Whether nothing ever leaves.
    pub(crate) fn is_dead(&self) -> bool {
        match self {
            Self::Constant(server) => server.is_dead(),
            Self::Traced(_) => false,
        }
    }

    /// Sends a packet that has waited right after the last one, or one that has just come at `now`:
    /// when its last bit has left, rounded up. The link must be free.
    pub(crate) fn send(&mut self, now: Time, ip_bytes: u32, has_waited: bool) -> Time {
        match self {
            Self::Constant(server) => server.follow(now, ip_bytes, has_waited),
            Self::Traced(traced) => traced.send(now, ip_bytes, has_waited),
        }
    }

    /// What is left of the packet that is being sent, and `waiting` link bytes behind it, in bits
    /// times 10^9. Of a packet under a trace all is left until it has gone.
    pub(crate) fn backlog(&self, now: Time, waiting: u64) -> u128 {
        let waiting = u128::from(waiting) * NANOS_PER_BYTE_AT_1_BIT_PER_SEC;
        match self {
            Self::Constant(server) => server.backlog_with(now, waiting),
            Self::Traced(traced) if traced.free_at() > now => {
                waiting + u128::from(traced.sending_link_bytes) * NANOS_PER_BYTE_AT_1_BIT_PER_SEC
            }
            Self::Traced(_) => waiting,
        }
    }

    /// Whether a packet behind `waiting` link bytes has to wait longer than `limit`.
    pub(crate) fn exceeds(&self, now: Time, waiting: u64, limit: Span) -> bool {
        match self {
            Self::Constant(server) => {
                let waiting = u128::from(waiting) * NANOS_PER_BYTE_AT_1_BIT_PER_SEC;
                server.exceeds(now, waiting, limit)
            }
            Self::Traced(traced) => {
                let bits = self.backlog(now, waiting);
                let rate = u128::from(traced.mean.bits_per_sec());
                bits > u128::from(limit.as_nanos()) * rate
            }
        }
    }

    /// Whether its rate changes only when somebody changes it.
    pub(crate) const fn is_steady(&self) -> bool {
        matches!(self, Self::Constant(_))
    }

    /// Rate of the moment, in bit/s; `None` is unlimited.
    pub(crate) fn mean_rate(&self, config_rate: Option<Rate>) -> Option<Rate> {
        match self {
            Self::Constant(_) => config_rate,
            Self::Traced(traced) => Some(traced.mean),
        }
    }
}

/// A link whose rate follows a trace.
#[derive(Clone, Debug)]
pub(crate) struct Traced {
    trace: RateTrace,
    mean: Rate,
    overhead_bytes: u32,
    sending_link_bytes: u64,
    clock: Clock,
}

#[derive(Clone, Debug)]
enum Clock {
    Steps {
        steps: Steps<Rate>,
        cursor: StepCursor,
        /// As in [`Server`]: whole nanoseconds, and a remainder in units of 1/rate of the moment.
        free_at_ns: u64,
        remainder: u64,
    },
    Opportunities(Opportunities),
}

/// Moments at which so many bytes leave at once.
#[derive(Clone, Debug)]
struct Opportunities {
    at_ns: Arc<[u64]>,
    bytes: u64,
    period_ns: u64,
    /// The opportunity that is used next, or what is left of it.
    index: usize,
    base_ns: u64,
    left_bytes: u64,
    free_at_ns: u64,
}

impl Opportunities {
    fn when(&self) -> u64 {
        self.base_ns.saturating_add(self.at_ns[self.index])
    }

    fn next(&mut self) {
        self.index += 1;
        if self.index == self.at_ns.len() {
            self.index = 0;
            self.base_ns = self.base_ns.saturating_add(self.period_ns);
        }
        self.left_bytes = self.bytes;
    }

    fn send(&mut self, now_ns: u64, link_bytes: u64) {
        let ready = now_ns.max(self.free_at_ns);
        // What came before the packet has passed unused; whole periods at a time.
        let periods = ready.saturating_sub(self.base_ns) / self.period_ns;
        if periods > 2 {
            self.base_ns += (periods - 1) * self.period_ns;
            self.index = 0;
            self.left_bytes = self.bytes;
        }
        while self.when() < ready {
            self.next();
        }
        let mut need = link_bytes;
        loop {
            let used = need.min(self.left_bytes);
            need -= used;
            self.left_bytes -= used;
            if need == 0 || self.when() == u64::MAX {
                break;
            }
            self.next();
        }
        self.free_at_ns = self.when();
    }
}

impl Traced {
    fn new(trace: RateTrace, overhead_bytes: u32, busy_until: Time) -> Self {
        let free_at_ns = busy_until.as_nanos();
        let clock = match &trace.0 {
            RateShape::Steps(steps) => Clock::Steps {
                steps: steps.clone(),
                cursor: StepCursor::default(),
                free_at_ns,
                remainder: 0,
            },
            RateShape::Opportunities {
                at_ns,
                bytes,
                period_ns,
            } => Clock::Opportunities(Opportunities {
                at_ns: at_ns.clone(),
                bytes: u64::from(*bytes),
                period_ns: *period_ns,
                index: 0,
                base_ns: 0,
                left_bytes: u64::from(*bytes),
                free_at_ns,
            }),
        };
        Self {
            mean: trace.mean(),
            trace,
            overhead_bytes,
            sending_link_bytes: 0,
            clock,
        }
    }

    fn free_at(&self) -> Time {
        Time::from_nanos(match self.clock {
            Clock::Steps {
                free_at_ns,
                remainder,
                ..
            } => free_at_ns.saturating_add(u64::from(remainder > 0)),
            Clock::Opportunities(ref opportunities) => opportunities.free_at_ns,
        })
    }

    fn send(&mut self, now: Time, ip_bytes: u32, has_waited: bool) -> Time {
        let late = now > self.free_at() || !has_waited;
        let link_bytes = u64::from(ip_bytes) + u64::from(self.overhead_bytes);
        self.sending_link_bytes = link_bytes;
        match &mut self.clock {
            Clock::Steps {
                steps,
                cursor,
                free_at_ns,
                remainder,
            } => {
                if late {
                    (*free_at_ns, *remainder) = (now.as_nanos(), 0);
                }
                let mut work = u128::from(link_bytes) * NANOS_PER_BYTE_AT_1_BIT_PER_SEC;
                // Ends: a trace that repeats moves something in each period, one that does not has
                // a last rate that moves.
                loop {
                    let (rate, until) = cursor.at(steps, *free_at_ns);
                    let rate = rate.bits_per_sec();
                    if rate >= UNLIMITED_BITS_PER_SEC {
                        *remainder = 0;
                        break;
                    }
                    if rate > 0 {
                        let wanted = work + u128::from(*remainder);
                        let end = u128::from(*free_at_ns) + wanted / u128::from(rate);
                        let rest = wanted % u128::from(rate);
                        if end < u128::from(until) || (end == u128::from(until) && rest == 0) {
                            *free_at_ns = u64::try_from(end).unwrap_or(u64::MAX);
                            *remainder = rest as u64;
                            break;
                        }
                        work = wanted - u128::from(until - *free_at_ns) * u128::from(rate);
                    }
                    (*free_at_ns, *remainder) = (until, 0);
                    if until == u64::MAX {
                        break;
                    }
                }
            }
            Clock::Opportunities(opportunities) => opportunities.send(now.as_nanos(), link_bytes),
        }
        self.free_at()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traced(trace: RateTrace) -> Link {
        let config = PathConfig {
            rate_trace: Some(trace),
            link_overhead_bytes: 0,
            ..PathConfig::default()
        };
        Link::new(&config, Time::ZERO)
    }

    fn at(us: u64) -> Time {
        Time::from_nanos(us * 1_000)
    }

    /// 1 byte per microsecond for 1 ms, then 4, then nothing for 1 ms, and again.
    #[test]
    fn a_packet_is_sent_across_steps() {
        let text = "0ms 8mbit\n1ms 32mbit\n2ms 0mbit";
        let trace = RateTrace::parse_steps(text, Some(Span::from_millis(3))).unwrap();
        let mut link = traced(trace);
        assert_eq!(link.send(at(0), 400, false), at(400));
        // 600 in the first ms, 400 in the second.
        assert_eq!(link.send(at(400), 1_000, true), at(1_100));
        // 3600 in the second, none in the third, the last in the fourth.
        assert_eq!(link.send(at(1_100), 4_000, false), at(3_400));
        assert_eq!(link.send(at(4_999), 8, false), at(5_000 + 1_000 + 4));
        // Idle for long.
        assert_eq!(link.send(at(300_500), 100, false), at(300_600));
    }

    /// A million packets over a thousand changes of rates that divide nothing: what was served is
    /// what the rates add up to.
    #[test]
    fn steps_do_not_drift() {
        let period = Span::from_micros(997);
        let steps = vec![
            (Span::ZERO, Rate::from_bits_per_sec(7_777_777_777)),
            (
                Span::from_nanos(331_331),
                Rate::from_bits_per_sec(999_999_937),
            ),
        ];
        let mut link = traced(RateTrace::steps(steps, Some(period)).unwrap());
        let packets = 1_000_000u64;
        let mut last = Time::ZERO;
        for _ in 0..packets {
            last = link.send(last, 1_111, true);
        }
        let per_period = 331_331u128 * 7_777_777_777 + (997_000 - 331_331) * 999_999_937u128;
        let work = u128::from(packets) * 1_111 * NANOS_PER_BYTE_AT_1_BIT_PER_SEC;
        let (whole, rest) = (work / per_period, work % per_period);
        let first = 331_331 * 7_777_777_777u128;
        let tail = if rest <= first {
            rest as f64 / 7_777_777_777.0
        } else {
            331_331.0 + (rest - first) as f64 / 999_999_937.0
        };
        let exact = whole as f64 * 997_000.0 + tail;
        let error = last.as_nanos() as f64 - exact;
        // One nanosecond a change of rate may be lost to rounding, none is per packet.
        assert!((-1.0..=2.0).contains(&error), "{error} ns");
    }

    #[test]
    fn opportunities_are_used_lost_and_shared() {
        let ms = |ms: u64| at(ms * 1_000);
        let mut link = traced(RateTrace::parse_mahimahi("1\n1\n4\n", 1_504).unwrap());
        // Waits for the first, shares it with the next one, which takes the second, too.
        assert_eq!(link.send(at(0), 1_000, false), ms(1));
        assert_eq!(link.send(ms(1), 1_500, false), ms(1));
        // 508 bytes are left at 1 ms; this one came too late for them.
        assert_eq!(link.send(at(1_500), 400, false), ms(4));
        // Again from 4 ms on: 5, 5, 8, ...; 4 ms has 1104 left.
        assert_eq!(link.send(ms(4), 1_504, false), ms(5));
        assert_eq!(link.send(ms(5), 4_000, false), ms(8));
        assert_eq!(link.send(ms(4_000), 1_504, false), ms(4_000));
        assert_eq!(link.send(ms(4_000), 1, false), ms(4_001));
    }

    /// Saturated, the link carries the mean of its trace.
    #[test]
    fn a_busy_link_carries_the_mean_of_its_trace() {
        let trace = RateTrace::parse_mahimahi("0\n3\n3\n7\n10\n", 1_504).unwrap();
        let mean = trace.mean();
        let mut link = traced(trace);
        let mut last = Time::ZERO;
        for _ in 0..100_000 {
            last = link.send(last, 1_000, true);
        }
        let rate = Rate::from_bytes_over(100_000 * 1_000, last.since(Time::ZERO));
        assert!(
            (rate.as_f64() / mean.as_f64() - 1.0).abs() < 1e-3,
            "{rate} and not {mean}"
        );
    }
}
