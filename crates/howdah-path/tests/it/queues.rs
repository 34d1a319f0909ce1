//! Stored queues against computed ones, against the RFC's text, and against theory.

use howdah_core::{Rate, Span, Time};
use howdah_path::{
    Aqm, CoDelConfig, Delivery, DropReason, Jitter, LossModel, OneWay, PathConfig, QueueLimit,
    RateTrace, RedConfig, RedUnit, TokenBucket, Verdict,
};
use proptest::prelude::*;
use std::collections::VecDeque;

/// Offers packets and releases those that wait when they are due; the verdicts in the order of
/// the offers. `eager` decides who goes first when a release and an offer fall together.
fn run(config: &PathConfig, seed: u64, packets: &[(Time, u32)], eager: bool) -> Vec<Verdict> {
    let mut path = OneWay::new(config, seed);
    let mut verdicts = Vec::new();
    let mut waiting = VecDeque::new();
    let release =
        |path: &mut OneWay, waiting: &mut VecDeque<usize>, verdicts: &mut Vec<Verdict>, due| {
            let verdict = path.release(due).expect("somebody waits");
            verdicts[waiting.pop_front().expect("so do we say")] = verdict;
        };
    for (index, &(now, bytes)) in packets.iter().enumerate() {
        while let Some(due) = path.next_release()
            && (due < now || (eager && due == now))
        {
            release(&mut path, &mut waiting, &mut verdicts, due);
        }
        verdicts.push(path.offer(now, bytes));
        if verdicts[index] == Verdict::Queued {
            waiting.push_back(index);
        }
        assert_eq!(path.waiting(), waiting.len());
    }
    while let Some(due) = path.next_release() {
        release(&mut path, &mut waiting, &mut verdicts, due);
    }
    assert!(waiting.is_empty());
    verdicts
}

fn queue() -> impl Strategy<Value = QueueLimit> {
    prop_oneof![
        Just(QueueLimit::Unlimited),
        (0u64..60_000).prop_map(QueueLimit::Bytes),
        (0u64..20).prop_map(QueueLimit::Packets),
        (0u64..200_000).prop_map(|ns| QueueLimit::Time(Span::from_nanos(ns))),
    ]
}

fn red() -> impl Strategy<Value = Aqm> {
    (0u8..2, 1.0..5.0f64, 0.05..1.0f64, any::<bool>()).prop_map(
        |(unit, min, max_probability, gentle)| {
            let (unit, scale) = if unit == 0 {
                (RedUnit::Packets, 1.0)
            } else {
                (RedUnit::Bytes, 1500.0)
            };
            Aqm::Red(RedConfig {
                min: min * scale,
                max: 3.0 * min * scale,
                unit,
                max_probability,
                weight: 0.1,
                gentle,
                mean_packet_bytes: 1500,
            })
        },
    )
}

prop_compose! {
    fn config()(
        rate in prop_oneof![
            Just(None),
            Just(Some(Rate::from_gbit_per_sec(8))),
            (1u64..20_000_000_000).prop_map(|bits| Some(Rate::from_bits_per_sec(bits))),
        ],
        queue in queue(),
        aqm in prop_oneof![Just(Aqm::None), red()],
        loss in prop_oneof![Just(LossModel::None), (0.0..0.3f64).prop_map(LossModel::Bernoulli),
            prop::collection::vec(0u64..100, 0..20).prop_map(LossModel::List)],
        delay_us in 0u64..1_000,
        mtu in prop_oneof![Just(0u32), 500u32..9100],
        jitter_us in prop_oneof![Just(0u64), 0u64..100],
        reorder in prop_oneof![Just(0.0), 0.0..1.0f64],
        duplicate in prop_oneof![Just(0.0), 0.0..0.2f64],
        link_overhead_bytes in 0u32..60,
    ) -> PathConfig {
        PathConfig {
            rate, queue, aqm, loss, mtu, reorder, duplicate, link_overhead_bytes,
            delay: Span::from_micros(delay_us),
            jitter: Jitter::Uniform(Span::from_micros(jitter_us)),
            ..PathConfig::default()
        }
    }
}

/// Packets: many at one instant, many a whole number of service times apart.
fn packets() -> impl Strategy<Value = Vec<(Time, u32)>> {
    let gap = prop_oneof![Just(0u64), Just(1_000), 0u64..3_000, 0u64..60_000];
    let size = prop_oneof![Just(1_000u32), 40u32..9018];
    prop::collection::vec((gap, size), 1..300).prop_map(|gaps| {
        let mut now = Time::ZERO;
        gaps.into_iter()
            .map(|(gap, size)| {
                now += Span::from_nanos(gap);
                (now, size)
            })
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn stored_and_computed_queues_are_equal(
        config in config(), packets in packets(), seed: u64, eager: bool,
    ) {
        let stored = PathConfig { stored_queue: true, ..config.clone() };
        prop_assert_eq!(run(&config, seed, &packets, eager), run(&stored, seed, &packets, eager));
    }

    /// The fraction of a nanosecond before the link is free is no time in which RED's mean decays:
    /// here it would be one packet more.
    #[test]
    fn both_queues_decay_the_mean_by_the_same_idle_time(seed: u64, gap in 1u64..3_000) {
        let config = PathConfig {
            rate: Some(Rate::from_bits_per_sec(16_010_673_783)),
            aqm: Aqm::Red(RedConfig {
                min: 1.0,
                max: 3.0,
                unit: RedUnit::Bytes,
                max_probability: 0.5,
                weight: 0.1,
                gentle: true,
                mean_packet_bytes: 1,
            }),
            ..PathConfig::default()
        };
        let stored = PathConfig { stored_queue: true, ..config.clone() };
        let packets: Vec<(Time, u32)> = (0..200)
            .map(|n| (Time::from_nanos(n / 4 * gap), 1_000))
            .collect();
        prop_assert_eq!(run(&config, seed, &packets, true), run(&stored, seed, &packets, true));
    }

    /// A trace whose rate never changes is a constant rate, but for what its limits count.
    #[test]
    fn a_constant_trace_is_a_constant_rate(
        config in config(), packets in packets(), seed: u64, period_us in 1u64..1_000,
    ) {
        let config = PathConfig { queue: QueueLimit::Unlimited, aqm: Aqm::None, ..config };
        let steps = vec![(Span::ZERO, config.rate.unwrap_or(Rate::MAX))];
        let trace = RateTrace::steps(steps, None).expect("a rate");
        let traced = PathConfig { rate_trace: Some(trace), ..config.clone() };
        prop_assert_eq!(run(&config, seed, &packets, true), run(&traced, seed, &packets, true));
        // Cut into pieces, each end of a piece rounds up by a nanosecond at most.
        let steps = vec![(Span::ZERO, config.rate.unwrap_or(Rate::MAX))];
        let trace = RateTrace::steps(steps, Some(Span::from_micros(period_us))).expect("a rate");
        let traced = PathConfig { rate_trace: Some(trace), ..config.clone() };
        for (plain, cut) in run(&config, seed, &packets, true).iter().zip(run(&traced, seed, &packets, true)) {
            match (plain, cut) {
                (Verdict::Deliver(plain), Verdict::Deliver(cut)) => {
                    prop_assert!(cut.at.nanos_after(plain.at).abs() <= 1);
                }
                (plain, cut) => prop_assert_eq!(*plain, cut),
            }
        }
    }

    /// In no stretch of time does more leave than a full bucket and what its rate adds; and a link
    /// that has something to send gets no less.
    #[test]
    fn a_token_bucket_lets_through_what_it_may(
        packets in packets(), burst_bytes in 9_100u64..100_000, rate_mbit in 100u64..9_000,
        link_gbit in prop_oneof![Just(None), Just(Some(10u64))],
    ) {
        let rate = Rate::from_mbit_per_sec(rate_mbit);
        let config = PathConfig {
            rate: link_gbit.map(Rate::from_gbit_per_sec),
            token_bucket: Some(TokenBucket { rate, burst_bytes }),
            link_overhead_bytes: 0,
            ..PathConfig::default()
        };
        let verdicts = run(&config, 1, &packets, true);
        let left: Vec<(u64, u64)> = deliveries(&verdicts)
            .iter()
            .zip(&packets)
            .map(|(delivery, &(_, bytes))| (delivery.at.as_nanos(), u64::from(bytes)))
            .collect();
        prop_assert_eq!(left.len(), packets.len());
        // With a finite link, times are those of the last bit: allow for one packet's service.
        let slack = link_gbit.map_or(0, |gbit| 9_018 * 8 / gbit);
        for from in 0..left.len() {
            let mut bytes = 0;
            for &(at, size) in &left[from..] {
                bytes += size;
                let span = Span::from_nanos(at - left[from].0 + slack + 1);
                prop_assert!(bytes <= burst_bytes + rate.bytes_in(span) + 1);
            }
        }
        // All waited for tokens from the beginning to the end at most as long as they cost.
        let total: u64 = packets.iter().map(|&(_, bytes)| u64::from(bytes)).sum();
        let last_came = packets[packets.len() - 1].0;
        let latest = last_came + rate.span_for(total) + Span::from_nanos(slack * packets.len() as u64);
        prop_assert!(left[left.len() - 1].0 <= latest.as_nanos() + 1);
    }

    #[test]
    fn codel_is_the_rfcs(
        packets in packets(), limit in 0u64..100, target_us in 1u64..100, interval_us in 1u64..1_000,
        rate_mbit in 100u64..10_000, eager: bool,
    ) {
        let codel = CoDelConfig {
            target: Span::from_micros(target_us),
            interval: Span::from_micros(interval_us),
        };
        let rate = Rate::from_mbit_per_sec(rate_mbit);
        let config = PathConfig {
            rate: Some(rate),
            queue: QueueLimit::Packets(limit),
            aqm: Aqm::CoDel(codel),
            link_overhead_bytes: 0,
            ..PathConfig::default()
        };
        let mut oracle = rfc8289::Queue::new(codel, rate, limit);
        let expected = oracle.run(&packets);
        let seen: Vec<Option<DropReason>> = run(&config, 1, &packets, eager)
            .into_iter()
            .map(|verdict| match verdict {
                Verdict::Drop(reason) => Some(reason),
                _ => None,
            })
            .collect();
        prop_assert_eq!(seen, expected);
    }
}

/// RFC 8289, section 5, as it is written there: a queue that is asked for the next packet and drops
/// others in a loop. Times in exact nanoseconds over the rate, so that rounding is no matter.
mod rfc8289 {
    use super::*;

    struct Packet {
        index: usize,
        bytes: u64,
        arrived: u64,
    }

    pub(super) struct Queue {
        target: u64,
        interval: u64,
        rate: u128,
        limit: u64,
        packets: VecDeque<Packet>,
        max_packet: u64,
        first_above: u64,
        dropping: bool,
        drop_next: u64,
        count: u32,
        last_count: u32,
        fates: Vec<Option<DropReason>>,
        /// When the link has sent what it is sending, in 1/rate nanoseconds.
        free_at: u128,
    }

    impl Queue {
        pub(super) fn new(config: CoDelConfig, rate: Rate, limit: u64) -> Self {
            Self {
                target: config.target.as_nanos(),
                interval: config.interval.as_nanos(),
                rate: u128::from(rate.bits_per_sec()),
                limit,
                packets: VecDeque::new(),
                max_packet: 0,
                first_above: 0,
                dropping: false,
                drop_next: 0,
                count: 0,
                last_count: 0,
                fates: Vec::new(),
                free_at: 0,
            }
        }

        fn free_ns(&self) -> u64 {
            self.free_at.div_ceil(self.rate) as u64
        }

        pub(super) fn run(&mut self, packets: &[(Time, u32)]) -> Vec<Option<DropReason>> {
            for (index, &(now, bytes)) in packets.iter().enumerate() {
                let now = now.as_nanos();
                self.fates.push(None);
                self.work_until(now, false);
                let in_system = self.packets.len() as u64 + u64::from(self.free_ns() > now);
                let idle = self.packets.is_empty() && self.free_ns() <= now;
                if !idle && in_system >= self.limit {
                    self.fates[index] = Some(DropReason::QueueFull);
                    continue;
                }
                let bytes = u64::from(bytes);
                self.max_packet = self.max_packet.max(bytes);
                self.packets.push_back(Packet {
                    index,
                    bytes,
                    arrived: now,
                });
                if idle {
                    self.send(now, false);
                }
            }
            self.work_until(u64::MAX, true);
            std::mem::take(&mut self.fates)
        }

        /// The link asks for packets whenever it is free.
        fn work_until(&mut self, end: u64, last: bool) {
            while self.free_ns() < end && !self.packets.is_empty() {
                self.send(self.free_ns(), true);
            }
            // An idle link has asked in vain.
            if self.packets.is_empty() && (last || self.free_ns() < end) {
                self.dequeue(self.free_ns());
            }
        }

        /// A packet that waited follows the last one to the fraction of a nanosecond; one that has
        /// just come begins when it comes.
        fn send(&mut self, now: u64, has_waited: bool) {
            if let Some(packet) = self.dequeue(now) {
                let start = if has_waited && now <= self.free_ns() {
                    self.free_at
                        .max(u128::from(now.saturating_sub(1)) * self.rate)
                } else {
                    u128::from(now) * self.rate
                };
                self.free_at = start + u128::from(packet.bytes) * 8_000_000_000;
            }
        }

        fn do_dequeue(&mut self, now: u64) -> (Option<Packet>, bool) {
            let Some(packet) = self.packets.pop_front() else {
                self.first_above = 0;
                return (None, false);
            };
            let mut ok_to_drop = false;
            let left: u64 = self.packets.iter().map(|packet| packet.bytes).sum();
            if now - packet.arrived < self.target || left <= self.max_packet {
                self.first_above = 0;
            } else if self.first_above == 0 {
                self.first_above = now + self.interval;
            } else if now >= self.first_above {
                ok_to_drop = true;
            }
            (Some(packet), ok_to_drop)
        }

        fn drop(&mut self, packet: Option<Packet>) {
            if let Some(packet) = packet {
                self.fates[packet.index] = Some(DropReason::Aqm);
            }
        }

        fn control_law(&self, t: u64) -> u64 {
            t + (self.interval as f64 / f64::from(self.count).sqrt()) as u64
        }

        fn dequeue(&mut self, now: u64) -> Option<Packet> {
            let (mut packet, mut ok_to_drop) = self.do_dequeue(now);
            if self.dropping {
                if !ok_to_drop {
                    self.dropping = false;
                }
                while now >= self.drop_next && self.dropping {
                    self.drop(packet);
                    self.count += 1;
                    (packet, ok_to_drop) = self.do_dequeue(now);
                    if ok_to_drop {
                        self.drop_next = self.control_law(self.drop_next);
                    } else {
                        self.dropping = false;
                    }
                }
            } else if ok_to_drop {
                self.drop(packet);
                (packet, _) = self.do_dequeue(now);
                self.dropping = true;
                let delta = self.count.wrapping_sub(self.last_count);
                self.count = 1;
                if delta > 1 && now.saturating_sub(self.drop_next) < 16 * self.interval {
                    self.count = delta;
                }
                self.drop_next = self.control_law(now);
                self.last_count = self.count;
            }
            packet
        }
    }
}

fn deliveries(verdicts: &[Verdict]) -> Vec<Delivery> {
    verdicts
        .iter()
        .filter_map(|verdict| match verdict {
            Verdict::Deliver(delivery) => Some(*delivery),
            _ => None,
        })
        .collect()
}

/// An unresponsive flow at twice the rate: `CoDel` cannot hold the target then, but its drops
/// follow the square-root law, and the limit does the rest.
#[test]
fn codel_drops_of_a_flow_that_does_not_listen_follow_the_square_root_law() {
    let config = PathConfig {
        rate: Some(Rate::from_mbit_per_sec(80)),
        aqm: Aqm::CoDel(CoDelConfig::default()),
        link_overhead_bytes: 0,
        ..PathConfig::default()
    };
    // 1000 bytes take 100 us; one comes every 50.
    let packets: Vec<(Time, u32)> = (0..60_000u64)
        .map(|at| (Time::from_nanos(at * 50_000), 1_000))
        .collect();
    let mut path = OneWay::new(&config, 1);
    let mut drops = Vec::new();
    for (now, bytes) in packets {
        while let Some(due) = path.next_release()
            && due <= now
        {
            if path.release(due) == Some(Verdict::Drop(DropReason::Aqm)) {
                drops.push(due.as_secs_f64());
            }
        }
        path.offer(now, bytes);
    }
    // The wait passes 5 ms after 10 ms; the first drop is 100 ms later.
    let mut due = 0.110;
    for (n, &at) in drops.iter().enumerate() {
        assert!(
            (at - due).abs() < 0.000_4,
            "drop {n} at {at} and not at {due}"
        );
        due += 0.1 / ((n + 1) as f64).sqrt();
    }
    assert!(drops.len() > 200, "{}", drops.len());
}

/// A burst that waits long but is followed by nothing is not dropped; a droptail path agrees.
#[test]
fn codel_leaves_a_lone_burst_alone() {
    let config = PathConfig {
        rate: Some(Rate::from_mbit_per_sec(10)),
        aqm: Aqm::CoDel(CoDelConfig::default()),
        ..PathConfig::default()
    };
    let burst: Vec<(Time, u32)> = (0..80).map(|_| (Time::ZERO, 1_500)).collect();
    let verdicts = run(&config, 1, &burst, true);
    assert_eq!(deliveries(&verdicts).len(), 80);
    let droptail = PathConfig {
        aqm: Aqm::None,
        ..config
    };
    assert_eq!(verdicts, run(&droptail, 1, &burst, true));
}

/// RED under a steady overload drops what is too much, spread out, and keeps its mean queue where
/// its line says: at load 1.25, a fifth must go, so the mean queue is where one packet in five is.
#[test]
fn red_settles_where_its_line_says() {
    let red = RedConfig {
        min: 50.0,
        max: 150.0,
        unit: RedUnit::Packets,
        max_probability: 0.2,
        weight: 0.002,
        gentle: true,
        mean_packet_bytes: 1_000,
    };
    let config = PathConfig {
        rate: Some(Rate::from_gbit_per_sec(8)),
        aqm: Aqm::Red(red),
        link_overhead_bytes: 0,
        ..PathConfig::default()
    };
    let mut path = OneWay::new(&config, 3);
    let (mut waited, mut samples) = (0.0, 0.0);
    for packet in 0..400_000u64 {
        let now = Time::from_nanos(packet * 800);
        path.offer(now, 1_000);
        if packet > 100_000 {
            waited += path.queue_delay(now).as_nanos() as f64 / 1_000.0;
            samples += 1.0;
        }
    }
    let counters = path.counters();
    let share = counters.dropped_aqm as f64 / counters.offered as f64;
    assert!((share - 0.2).abs() < 0.01, "{share}");
    assert_eq!(counters.dropped_queue, 0);
    // Uniform in 1..1/p has the mean (1/p + 1) / 2, so one in five means p = 1/9.
    let expected = 50.0 + 100.0 * (1.0 / 9.0) / 0.2;
    let mean = waited / samples;
    assert!(
        (mean - expected).abs() < 0.06 * expected,
        "{mean} and not {expected}"
    );
}

#[test]
fn the_histogram_of_waits_is_that_of_the_queue() {
    for stored_queue in [false, true] {
        let config = PathConfig {
            rate: Some(Rate::from_gbit_per_sec(8)),
            link_overhead_bytes: 0,
            stored_queue,
            ..PathConfig::default()
        };
        let mut path = OneWay::new(&config, 1);
        path.offer(Time::ZERO, 1_000);
        path.count_waits();
        // Each waits a microsecond longer.
        for _ in 1..1_000 {
            path.offer(Time::ZERO, 1_000);
        }
        while let Some(due) = path.next_release() {
            path.release(due);
        }
        let waits = path.waits().expect("counted");
        assert_eq!(waits.count(), 999);
        assert_eq!(waits.max(), Span::from_micros(999));
        let median = waits.quantile(0.5).as_nanos();
        assert!((500_000..520_000).contains(&median), "{median}");
        assert_eq!(path.sent_link_bytes(Time::from_nanos(500_000)), 500_000);
    }
}

#[test]
fn a_share_of_the_bandwidth_delay_product() {
    let limit = QueueLimit::bdp_share(Rate::from_gbit_per_sec(10), Span::from_millis(100), 0.1);
    assert_eq!(limit, QueueLimit::Bytes(12_500_000));
    let sqrt_n = QueueLimit::bdp_share(Rate::from_gbit_per_sec(1), Span::from_millis(180), 0.5);
    assert_eq!(sqrt_n, QueueLimit::Bytes(11_250_000));
}
