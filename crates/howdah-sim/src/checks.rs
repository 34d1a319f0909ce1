//! What is checked in every run, also in release builds.

use crate::{EndpointId, PathId};
use howdah_core::{Span, Time, WakeReason};
use howdah_path::{PathConfig, PathCounters};

/// A transport may be woken this often at one instant, send nothing and want to be woken again
/// before the run is stopped.
pub(crate) const BUSY_LIMIT: u32 = 10_000;

/// A transport may hand out this many datagrams in one go before the run is stopped: five seconds
/// of 1500-byte packets at 10 Gbit/s are not a burst but a `poll_transmit` that never ends.
pub(crate) const BURST_LIMIT: usize = 1 << 22;

/// The world may handle this many events at one instant before the run is stopped: endpoints that
/// answer each other over a path without delay or rate would do so for ever.
pub(crate) const INSTANT_LIMIT: u64 = 1 << 24;

/// What happened, for the fingerprint.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Sent = 1,
    Dropped = 2,
    Delivered = 3,
    Corrupt = 4,
    Timer = 5,
    Action = 6,
    Discarded = 7,
    SocketFull = 8,
    Refused = 9,
}

/// A running hash of all events: equal runs have equal fingerprints.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fingerprint(u64);

impl Fingerprint {
    pub(crate) const fn new() -> Self {
        Self(0x6877_6468_6168_2121)
    }

    /// Two rounds of the Fx hash: a few cycles, and it need not resist an attacker.
    #[inline]
    pub(crate) fn mix(&mut self, time: Time, kind: Kind, endpoint: u32, length: u32) {
        const ODD: u64 = 0x517c_c1b7_2722_0a95;
        let what = (kind as u64) << 56 ^ u64::from(endpoint) << 32 ^ u64::from(length);
        let hash = (self.0.rotate_left(5) ^ time.as_nanos()).wrapping_mul(ODD);
        self.0 = (hash.rotate_left(5) ^ what).wrapping_mul(ODD);
    }

    /// The hash so far, with the high bits (which multiplication favours) folded into the low.
    pub(crate) const fn value(self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }
}

/// The engine's own books of one path, kept apart from the path's so that one audits the other.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Ledger {
    pub(crate) offered: u64,
    pub(crate) duplicated: u64,
    pub(crate) dropped: u64,
    pub(crate) delivered: u64,
}

impl Ledger {
    /// Every datagram that went in came out, was dropped or is still there, and the path says so
    /// too.
    ///
    /// `in_flight` and `waiting` are the engine's counts of datagrams behind and in the queue,
    /// `they_wait` is the path's.
    pub(crate) fn audit(
        &self,
        path: PathId,
        in_flight: usize,
        waiting: usize,
        theirs: &PathCounters,
        they_wait: usize,
    ) {
        assert_eq!(
            self.offered + self.duplicated,
            self.delivered + self.dropped + (in_flight + waiting) as u64,
            "{path} does not conserve datagrams: {self:?}, {waiting} waiting, {in_flight} in flight"
        );
        assert_eq!(
            (self.offered, self.dropped, self.duplicated, waiting),
            (
                theirs.offered,
                theirs.dropped(),
                theirs.duplicated,
                they_wait
            ),
            "{path} counts other packets than the engine: {theirs:?}"
        );
        let settled = theirs.delivered + theirs.dropped();
        let settled_bytes = theirs.bytes_delivered + theirs.bytes_dropped();
        assert!(
            theirs.offered == settled + waiting as u64
                && theirs.bytes_offered >= settled_bytes
                && (waiting > 0 || theirs.bytes_offered == settled_bytes),
            "{path} does not account for every packet: {theirs:?}, {waiting} waiting"
        );
    }
}

/// The least time that a packet can take over a path, computed apart from the path: its constant
/// delay (and the least of a delay trace) and its own serialisation at the highest rate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Floor {
    delay: Span,
    /// Zero stands for unlimited here; a path of rate zero delivers nothing.
    bits_per_sec: u64,
    overhead_bytes: u32,
}

impl Floor {
    pub(crate) fn of(config: &PathConfig) -> Self {
        Self {
            delay: config.delay + config.jitter.min(),
            // Beyond this, the path does not compute serialisation either.
            bits_per_sec: config
                .peak_rate()
                .map_or(0, |rate| match rate.bits_per_sec() {
                    bits if bits < 1 << 62 => bits,
                    _ => 0,
                }),
            overhead_bytes: config.link_overhead_bytes,
        }
    }

    /// Panics if a packet offered at `now` cannot have arrived at `at`.
    #[inline]
    pub(crate) fn check(&self, now: Time, at: Time, ip_bytes: u32) {
        let soonest = now + self.delay;
        let bytes = u64::from(ip_bytes) + u64::from(self.overhead_bytes);
        // Multiplied out: exact, and no division.
        let served = u128::from(at.since(soonest).as_nanos()) * u128::from(self.bits_per_sec);
        assert!(
            at >= soonest
                && (self.bits_per_sec == 0 || served >= u128::from(bytes) * 8_000_000_000),
            "{ip_bytes} IP bytes that enter at {now} leave at {at}: faster than {self:?}"
        );
    }
}

/// Counts wake-ups that change nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BusyGuard {
    at: Time,
    times: u32,
}

impl BusyGuard {
    /// Notes that a wake-up at `now` sent nothing and that another is wanted at `due`.
    ///
    /// Arrivals are not counted: thousands may come at one instant, before the wake-up that the
    /// first of them asked for has had its turn.
    #[inline]
    pub(crate) fn idle_wake(&mut self, id: EndpointId, now: Time, due: Time, why: WakeReason) {
        if due > now {
            self.times = 0;
            return;
        }
        if now != self.at {
            *self = Self { at: now, times: 0 };
        }
        self.times += 1;
        assert!(
            self.times < BUSY_LIMIT,
            "busy loop: {id} was woken {BUSY_LIMIT} times at {now}, sent nothing and still wants \
             to be woken at {due} for \"{why}\""
        );
    }
}

/// A stream of seeds and of the few random numbers that the engine itself needs (`SplitMix64`,
/// Steele, Lea and Flood, OOPSLA 2014).
#[derive(Clone, Copy, Debug)]
pub(crate) struct SplitMix(u64);

impl SplitMix {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which must not be zero; biased by at most `bound / 2^64`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_core::Rate;
    use howdah_path::{DelayTrace, Jitter, RateTrace};

    #[test]
    fn fingerprints_depend_on_every_part_and_on_the_order() {
        let base = |kind, endpoint, length, time| {
            let mut print = Fingerprint::new();
            print.mix(Time::from_nanos(time), kind, endpoint, length);
            print.value()
        };
        let all = [
            base(Kind::Sent, 1, 2, 3),
            base(Kind::Timer, 1, 2, 3),
            base(Kind::Sent, 2, 2, 3),
            base(Kind::Sent, 1, 3, 3),
            base(Kind::Sent, 1, 2, 4),
        ];
        for (at, print) in all.iter().enumerate() {
            assert!(!all[at + 1..].contains(print));
        }
        let (mut ab, mut ba) = (Fingerprint::new(), Fingerprint::new());
        ab.mix(Time::ZERO, Kind::Sent, 0, 1);
        ab.mix(Time::ZERO, Kind::Sent, 0, 2);
        ba.mix(Time::ZERO, Kind::Sent, 0, 2);
        ba.mix(Time::ZERO, Kind::Sent, 0, 1);
        assert_ne!(ab.value(), ba.value());
    }

    /// Five in, one of them twice; two too large, three out, one on the way.
    fn books() -> (Ledger, PathCounters) {
        let ledger = Ledger {
            offered: 5,
            duplicated: 1,
            dropped: 2,
            delivered: 3,
        };
        let theirs = PathCounters {
            offered: 5,
            delivered: 3,
            duplicated: 1,
            dropped_mtu: 2,
            bytes_offered: 500,
            bytes_delivered: 300,
            bytes_dropped_mtu: 200,
            ..PathCounters::default()
        };
        (ledger, theirs)
    }

    #[test]
    #[should_panic(expected = "does not conserve")]
    fn a_lost_datagram_is_noticed() {
        let (ledger, theirs) = books();
        ledger.audit(PathId::nth(0), 1, 0, &theirs, 0);
        ledger.audit(PathId::nth(0), 0, 0, &theirs, 0);
    }

    #[test]
    #[should_panic(expected = "counts other packets")]
    fn a_path_that_counts_otherwise_is_noticed() {
        let (ledger, theirs) = books();
        let theirs = PathCounters {
            dropped_aqm: 1,
            ..theirs
        };
        ledger.audit(PathId::nth(0), 1, 0, &theirs, 0);
    }

    #[test]
    #[should_panic(expected = "counts other packets")]
    fn a_queue_of_another_length_is_noticed() {
        let (ledger, theirs) = books();
        ledger.audit(PathId::nth(0), 0, 1, &theirs, 0);
    }

    #[test]
    #[should_panic(expected = "does not account for every packet")]
    fn a_packet_without_a_fate_is_noticed() {
        let (ledger, theirs) = books();
        let theirs = PathCounters {
            delivered: 2,
            ..theirs
        };
        ledger.audit(PathId::nth(0), 1, 0, &theirs, 0);
    }

    #[test]
    #[should_panic(expected = "does not account for every packet")]
    fn bytes_without_a_fate_are_noticed() {
        let (ledger, theirs) = books();
        let theirs = PathCounters {
            bytes_dropped_mtu: 199,
            ..theirs
        };
        ledger.audit(PathId::nth(0), 1, 0, &theirs, 0);
    }

    fn ten_gbit() -> Floor {
        Floor::of(&PathConfig {
            rate: Some(Rate::from_gbit_per_sec(10)),
            delay: Span::from_micros(1),
            link_overhead_bytes: 0,
            ..PathConfig::default()
        })
    }

    #[test]
    fn a_packet_may_take_its_delay_and_its_serialisation() {
        // 1250 bytes take 1 us at 10 Gbit/s.
        ten_gbit().check(Time::ZERO, Time::from_nanos(2_000), 1_250);
    }

    #[test]
    #[should_panic(expected = "faster than")]
    fn a_packet_may_not_be_faster_than_its_path() {
        ten_gbit().check(Time::ZERO, Time::from_nanos(1_999), 1_250);
    }

    #[test]
    #[should_panic(expected = "faster than")]
    fn a_packet_may_not_be_faster_than_the_least_delay_of_a_trace() {
        let trace = DelayTrace::parse("0s 5us\n1s 3us", None).expect("a trace");
        let config = PathConfig {
            delay: Span::from_micros(1),
            jitter: Jitter::Trace(trace),
            ..PathConfig::default()
        };
        let floor = Floor::of(&config);
        floor.check(Time::ZERO, Time::from_nanos(4_000), 1_250);
        floor.check(Time::ZERO, Time::from_nanos(3_999), 1_250);
    }

    #[test]
    #[should_panic(expected = "faster than")]
    fn a_packet_may_not_be_faster_than_the_peak_of_a_trace() {
        let trace = RateTrace::parse_steps("0s 1gbit\n1s 10gbit\n2s 5gbit", None);
        let config = PathConfig {
            rate_trace: Some(trace.expect("a trace")),
            link_overhead_bytes: 0,
            ..PathConfig::default()
        };
        let floor = Floor::of(&config);
        floor.check(Time::ZERO, Time::from_nanos(1_000), 1_250);
        floor.check(Time::ZERO, Time::from_nanos(999), 1_250);
    }

    #[test]
    fn waking_often_is_no_busy_loop_if_time_passes() {
        let mut guard = BusyGuard::default();
        for wake in 0..u64::from(BUSY_LIMIT) * 3 {
            // Each instant has its own few thousand, all of them due.
            let now = Time::from_nanos(wake / u64::from(BUSY_LIMIT - 1));
            guard.idle_wake(EndpointId(0), now, Time::ZERO, WakeReason::Pacing);
        }
        for _ in 0..BUSY_LIMIT * 2 {
            guard.idle_wake(
                EndpointId(0),
                Time::ZERO,
                Time::from_nanos(1),
                WakeReason::Pacing,
            );
        }
    }

    #[test]
    fn splitmix_is_the_published_one() {
        // First outputs of the reference implementation for seed 1234567.
        let mut stream = SplitMix::new(1_234_567);
        assert_eq!(stream.next(), 6_457_827_717_110_365_317);
        assert_eq!(stream.next(), 3_203_168_211_198_807_973);
    }
}
