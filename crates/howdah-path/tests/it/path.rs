//! What must hold for every path, whatever its configuration.

use howdah_core::{Rate, Span, Time};
use howdah_path::{
    DropReason, Jitter, LossModel, OneWay, PathConfig, QueueLimit, SegmentVerdicts, Verdict,
};
use proptest::prelude::*;

fn queue() -> impl Strategy<Value = QueueLimit> {
    prop_oneof![
        Just(QueueLimit::Unlimited),
        (0u64..200_000).prop_map(QueueLimit::Bytes),
        (0u64..100).prop_map(QueueLimit::Packets),
        (0u64..200).prop_map(|us| QueueLimit::Time(Span::from_micros(us))),
    ]
}

fn loss() -> impl Strategy<Value = LossModel> {
    prop_oneof![
        Just(LossModel::None),
        (0.0..0.5f64).prop_map(LossModel::Bernoulli),
        (0.0..0.2f64, 0.0..1.0f64, 0.0..0.1f64, 0.0..1.0f64).prop_map(
            |(p_enter_bad, p_leave_bad, loss_good, loss_bad)| LossModel::GilbertElliott {
                p_enter_bad,
                p_leave_bad,
                loss_good,
                loss_bad
            }
        ),
        prop::collection::vec(0u64..500, 0..40).prop_map(LossModel::List),
    ]
}

prop_compose! {
    fn config()(
        rate in prop_oneof![Just(None), (1u64..20_000).prop_map(|m| Some(Rate::from_mbit_per_sec(m)))],
        queue in queue(),
        loss in loss(),
        delay_us in 0u64..100_000,
        mtu in prop_oneof![Just(0u32), 500u32..9100],
        jitter_us in prop_oneof![Just(0u64), 0u64..1000],
        reorder in prop_oneof![Just(0.0), 0.0..0.5f64],
        duplicate in prop_oneof![Just(0.0), 0.0..0.2f64],
        corrupt in prop_oneof![Just(0.0), 0.0..0.2f64],
        link_overhead_bytes in 0u32..60,
    ) -> PathConfig {
        PathConfig {
            rate, queue, loss, mtu, reorder, duplicate, corrupt, link_overhead_bytes,
            delay: Span::from_micros(delay_us),
            jitter: Jitter::Uniform(Span::from_micros(jitter_us)),
            ..PathConfig::default()
        }
    }
}

/// Super-packets: nanoseconds since the one before, segment size, number of segments, last size.
fn bursts() -> impl Strategy<Value = Vec<(u64, u32, u32, u32)>> {
    prop::collection::vec((0u64..60_000, 40u32..9018, 1u32..45, 40u32..9018), 1..60)
}

fn expand(bursts: &[(u64, u32, u32, u32)]) -> Vec<(Time, u32)> {
    let mut now = Time::ZERO;
    let mut packets = Vec::new();
    for &(gap, size, count, last) in bursts {
        now += Span::from_nanos(gap);
        packets.extend((1..count).map(|_| (now, size)));
        packets.push((now, last));
    }
    packets
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_packet_is_delivered_or_dropped_for_a_reason(config in config(), bursts in bursts(), seed: u64) {
        let mut path = OneWay::new(&config, seed);
        let (mut delivered, mut queue, mut loss, mut mtu) = (0, 0, 0, 0);
        let mut last = Time::ZERO;
        for (now, bytes) in expand(&bursts) {
            match path.offer(now, bytes) {
                Verdict::Deliver(delivery) => {
                    delivered += 1;
                    prop_assert!(delivery.at >= now + config.delay);
                    if config.reorder == 0.0 {
                        prop_assert!(delivery.at >= last, "overtaken without reordering");
                        last = delivery.at;
                    }
                    prop_assert!(delivery.duplicate_at.is_none_or(|at| at >= delivery.at));
                }
                Verdict::Drop(DropReason::QueueFull) => queue += 1,
                Verdict::Drop(DropReason::Loss) => loss += 1,
                Verdict::Drop(DropReason::TooBig) => mtu += 1,
                other => panic!("{other:?} of a droptail queue that stores nothing"),
            }
            if let QueueLimit::Time(limit) = config.queue {
                let one_packet = config.rate.map_or(Span::ZERO, |rate| rate.span_for(9018 + 60));
                prop_assert!(path.queue_delay(now) <= limit + one_packet + Span::from_nanos(1));
            }
        }
        let counters = path.counters();
        prop_assert_eq!(counters.offered, delivered + queue + loss + mtu);
        prop_assert_eq!(counters.delivered, delivered);
        prop_assert_eq!(counters.dropped_queue, queue);
        prop_assert_eq!(counters.dropped_loss, loss);
        prop_assert_eq!(counters.dropped_mtu, mtu);
        prop_assert_eq!(
            counters.bytes_offered,
            counters.bytes_delivered + counters.bytes_dropped_queue
                + counters.bytes_dropped_loss + counters.bytes_dropped_mtu
        );
    }

    #[test]
    fn the_same_seed_gives_the_same_verdicts(config in config(), bursts in bursts(), seed: u64) {
        let run = || {
            let mut path = OneWay::new(&config, seed);
            expand(&bursts).into_iter().map(|(now, bytes)| path.offer(now, bytes)).collect::<Vec<_>>()
        };
        prop_assert_eq!(run(), run());
    }

    #[test]
    fn bundled_segments_fare_as_single_ones(
        config in config(), bursts in bursts(), seed: u64,
        max_span_us in prop_oneof![Just(u64::MAX), 0u64..200],
    ) {
        let max_span = Span::from_micros(max_span_us);
        let mut single = OneWay::new(&config, seed);
        let mut bundled = OneWay::new(&config, seed);
        let mut out = SegmentVerdicts::new(max_span);
        let mut now = Time::ZERO;
        for &(gap, size, count, last) in &bursts {
            now += Span::from_nanos(gap);
            let verdicts: Vec<Verdict> = (0..count)
                .map(|index| single.offer(now, if index + 1 == count { last } else { size }))
                .collect();
            bundled.offer_segments(now, size, count, last, &mut out);
            let mut survivors = Vec::new();
            for run in out.runs() {
                let segments = run.first..run.first + run.count;
                let deliveries: Vec<_> = segments.clone().map(|index| match verdicts[index as usize] {
                    Verdict::Deliver(delivery) => delivery,
                    other => panic!("segment {index} of a run: {other:?}"),
                }).collect();
                prop_assert_eq!(run.at, deliveries.last().unwrap().at);
                prop_assert!(run.at.since(deliveries[0].at) <= max_span);
                prop_assert!(run.count == 1 || deliveries.iter().all(|d| !d.corrupt && d.duplicate_at.is_none()));
                prop_assert_eq!(run.corrupt, deliveries[0].corrupt);
                prop_assert_eq!(run.duplicate_at, deliveries[0].duplicate_at);
                survivors.extend(segments);
            }
            let expected: Vec<u32> = (0..count)
                .filter(|&index| matches!(verdicts[index as usize], Verdict::Deliver(_)))
                .collect();
            prop_assert_eq!(survivors, expected);
            prop_assert_eq!(single.counters(), bundled.counters());
        }
    }

    /// Which packets are lost does not depend on whether other stages are on.
    #[test]
    fn stages_have_separate_randomness(bursts in bursts(), seed: u64) {
        let plain = PathConfig { loss: LossModel::Bernoulli(0.1), ..PathConfig::default() };
        let full = PathConfig {
            jitter: Jitter::Uniform(Span::from_micros(10)),
            reorder: 0.2,
            duplicate: 0.1,
            corrupt: 0.1,
            ..plain.clone()
        };
        let lost = |config: &PathConfig| {
            let mut path = OneWay::new(config, seed);
            expand(&bursts)
                .into_iter()
                .map(|(now, bytes)| path.offer(now, bytes) == Verdict::Drop(DropReason::Loss))
                .collect::<Vec<_>>()
        };
        prop_assert_eq!(lost(&plain), lost(&full));
    }
}

fn delivery(verdict: Verdict) -> howdah_path::Delivery {
    match verdict {
        Verdict::Deliver(delivery) => delivery,
        other => panic!("{other:?}"),
    }
}

#[test]
fn lost_packets_consume_bandwidth_and_refused_ones_do_not() {
    let config = PathConfig {
        rate: Some(Rate::from_gbit_per_sec(8)),
        loss: LossModel::List(vec![0, 1]),
        queue: QueueLimit::Packets(4),
        link_overhead_bytes: 0,
        ..PathConfig::default()
    };
    let mut path = OneWay::new(&config, 1);
    assert_eq!(
        path.offer(Time::ZERO, 1000),
        Verdict::Drop(DropReason::Loss)
    );
    assert_eq!(
        path.offer(Time::ZERO, 1000),
        Verdict::Drop(DropReason::Loss)
    );
    assert_eq!(
        delivery(path.offer(Time::ZERO, 1000)).at,
        Time::from_nanos(3000)
    );
    assert_eq!(
        delivery(path.offer(Time::ZERO, 1000)).at,
        Time::from_nanos(4000)
    );
    assert_eq!(
        path.offer(Time::ZERO, 1000),
        Verdict::Drop(DropReason::QueueFull)
    );
    assert_eq!(
        delivery(path.offer(Time::from_nanos(1000), 1000)).at,
        Time::from_nanos(5000)
    );
}

#[test]
fn a_shorter_route_overtakes_a_longer_one() {
    let mut config = PathConfig {
        delay: Span::from_millis(200),
        ..PathConfig::default()
    };
    let mut path = OneWay::new(&config, 1);
    let before = delivery(path.offer(Time::ZERO, 1500)).at;
    config.delay = Span::from_millis(50);
    path.set_config(&config);
    let after = delivery(path.offer(Time::from_nanos(1), 1500)).at;
    assert!(after < before);
    // Anything else that changes leaves the order alone.
    config.jitter = Jitter::Uniform(Span::from_millis(5));
    path.set_config(&config);
    assert!(delivery(path.offer(Time::from_nanos(2), 1500)).at >= after);
}

#[test]
fn reordering_needs_jitter_and_shows() {
    let config = PathConfig {
        delay: Span::from_millis(10),
        jitter: Jitter::Uniform(Span::from_millis(1)),
        reorder: 0.1,
        ..PathConfig::default()
    };
    let mut path = OneWay::new(&config, 3);
    let mut latest = Time::ZERO;
    let mut overtook = 0;
    for packet in 0..10_000u64 {
        let at = delivery(path.offer(Time::from_nanos(packet * 1000), 1500)).at;
        overtook += u32::from(at < latest);
        latest = latest.max(at);
    }
    // Ordered packets sit near the upper end of the jitter, so nearly every exempt one overtakes;
    // some ordered ones are then behind an exempt late one.
    assert!((800..3000).contains(&overtook), "{overtook}");
}

#[test]
fn shares_of_duplicates_and_damage_are_as_configured() {
    let config = PathConfig {
        duplicate: 0.02,
        corrupt: 0.05,
        ..PathConfig::default()
    };
    let mut path = OneWay::new(&config, 11);
    for packet in 0..200_000u64 {
        path.offer(Time::from_nanos(packet), 1500);
    }
    let counters = path.counters();
    assert!(
        (3_700..4_300).contains(&counters.duplicated),
        "{counters:?}"
    );
    assert!(
        (9_500..10_500).contains(&counters.corrupted),
        "{counters:?}"
    );
}

/// The bundled form must stay cheap. Prints a figure; asserts only that it is not absurd.
#[test]
#[expect(clippy::disallowed_methods, reason = "a measurement needs a clock")]
fn cost_per_segment() {
    let config = PathConfig {
        rate: Some(Rate::from_gbit_per_sec(10)),
        queue: QueueLimit::Bytes(64 << 20),
        loss: LossModel::Bernoulli(0.01),
        delay: Span::from_millis(50),
        ..PathConfig::default()
    };
    let mut path = OneWay::new(&config, 1);
    let mut out = SegmentVerdicts::default();
    let started = std::time::Instant::now();
    let bursts = 20_000u64;
    for burst in 0..bursts {
        path.offer_segments(Time::from_nanos(burst * 50_000), 1500, 44, 1000, &mut out);
    }
    let each = started.elapsed().as_secs_f64() * 1e9 / (bursts * 44) as f64;
    println!("{each:.1} ns per segment");
    assert!(each < 5_000.0);
}

/// netem's limit: what waits for its delay counts. 1000 packets of 1500 bytes and 40 ms are
/// 300 Mbit/s, whatever the link could do.
#[test]
fn a_limit_on_what_the_delay_holds_bounds_the_rate() {
    for (stored_queue, rate) in [
        (false, None),
        (false, Some(Rate::from_gbit_per_sec(1))),
        (true, Some(Rate::from_gbit_per_sec(1))),
    ] {
        let config = PathConfig {
            rate,
            stored_queue,
            delay: Span::from_millis(40),
            delay_packets: Some(1000),
            ..PathConfig::default()
        };
        let mut path = OneWay::new(&config, 1);
        // 80 000 packets a second are 960 Mbit/s; 62 500 are 750.
        for n in 0..62_500_u64 {
            let now = Time::from_nanos(n * 16_000);
            while path.next_release().is_some_and(|at| at <= now) {
                path.release(now);
            }
            path.offer(now, 1500);
        }
        let counters = path.counters();
        let bps = counters.bytes_delivered as f64 * 8.0;
        assert!(
            (bps / 300e6 - 1.0).abs() < 0.04,
            "{stored_queue}, {rate:?}: {bps}"
        );
        assert_eq!(
            counters.offered,
            counters.delivered + counters.dropped_queue + path.waiting() as u64
        );
    }
}
