use super::*;
use howdah_core::Span;
use proptest::prelude::*;

fn ms(ms: u64) -> Time {
    Time::ZERO + Span::from_millis(ms)
}

/// Drives a source alone until `end` and returns the departure of each packet.
fn departures(source: &mut UdpEndpoint, end: Time) -> Vec<Time> {
    let mut times = Vec::new();
    let mut out = Vec::new();
    source.handle_timeout(Time::ZERO);
    while let Some((at, _)) = source.poll_timeout() {
        if at > end {
            break;
        }
        source.handle_timeout(at);
        while source.poll_transmit(at, 3, &mut out) > 0 {}
        times.extend(out.drain(..).map(|_| at));
    }
    times
}

fn arrive(sink: &mut UdpEndpoint, sequence: u64, sent: Time, now: Time) {
    let bytes = encode(sequence, sent);
    let arrival = Arrival {
        bytes: &bytes,
        absent: 84,
        corrupt: false,
    };
    sink.handle_datagram(now, arrival);
}

fn received(sink: &UdpEndpoint) -> Received {
    *sink.received().expect("a sink")
}

#[test]
fn the_header_has_sixteen_bytes_and_comes_back() {
    let bytes = encode(0x0102_0304_0506_0708, Time::from_nanos(9));
    assert_eq!(bytes.len(), HEADER_BYTES as usize);
    assert_eq!(bytes[..8], [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(
        decode(&bytes),
        Some((0x0102_0304_0506_0708, Time::from_nanos(9)))
    );
    assert_eq!(decode(&bytes[..15]), None);
}

#[test]
fn the_rate_is_exact() {
    // 1472 bytes at 940 Mbit/s are 12527.66 ns: rounding alone would be 27 ppm off.
    let settings = CbrSettings::new(Rate::from_mbit_per_sec(940), 1472);
    let mut source = UdpEndpoint::cbr(&settings).unwrap();
    let times = departures(&mut source, ms(1000));
    let last = times.len() as u64 - 1;
    let exact = u128::from(last) * 1472 * 8_000 / 940;
    assert_eq!(u128::from(times[last as usize].as_nanos()), exact);
    for pair in times.windows(2) {
        assert!((12_527..=12_528).contains(&pair[1].since(pair[0]).as_nanos()));
    }
}

#[test]
fn jgn06_voice_is_5000_packets_a_second() {
    let settings = CbrSettings {
        extent: Extent {
            start: ms(100),
            stop: Some(ms(1100)),
            packets: None,
        },
        ..CbrSettings::new(Rate::from_mbit_per_sec(8), 200)
    };
    let mut source = UdpEndpoint::cbr(&settings).unwrap();
    assert_eq!(source.poll_timeout().map(|t| t.0), Some(ms(100)));
    let times = departures(&mut source, ms(5000));
    assert_eq!(times.len(), 5000);
    assert_eq!(times[0], ms(100));
    assert_eq!(times[4999], ms(1100) - Span::from_micros(200));
    // It has ended, says so, and asks for nothing more.
    assert_eq!(source.poll_timeout(), None);
    let snapshot = source.snapshot();
    assert_eq!(snapshot.algorithm, "udp/cbr");
    assert_eq!(snapshot.sent_bytes, 1_000_000);
    assert_eq!(snapshot.finished_at, Some(times[4999]));
}

#[test]
fn a_stream_may_be_limited_in_packets() {
    let mut settings = CbrSettings::new(Rate::from_mbit_per_sec(8), 1000);
    settings.extent.packets = Some(3);
    let mut source = UdpEndpoint::cbr(&settings).unwrap();
    assert_eq!(
        departures(&mut source, ms(100)),
        [ms(0), ms(1), ms(2)].to_vec()
    );
    assert!(source.snapshot().finished_at.is_some());
}

#[test]
fn settings_without_a_stream_are_refused() {
    let rate = Rate::from_mbit_per_sec(1);
    let refused = |settings: CbrSettings| UdpEndpoint::cbr(&settings).unwrap_err();
    assert_eq!(
        refused(CbrSettings::new(rate, 15)),
        SettingsError::PayloadBytes(15)
    );
    assert_eq!(
        refused(CbrSettings::new(rate, 65_508)),
        SettingsError::PayloadBytes(65_508)
    );
    assert_eq!(
        refused(CbrSettings::new(Rate::ZERO, 100)),
        SettingsError::Rate(Rate::ZERO)
    );
    let silent = OnOffSettings {
        rate,
        payload_bytes: 100,
        periods: Periods::Fixed {
            on: Span::ZERO,
            off: Span::from_secs(1),
        },
        seed: 0,
        extent: Extent::default(),
    };
    assert_eq!(
        UdpEndpoint::on_off(&silent).unwrap_err(),
        SettingsError::OnPeriod
    );
}

#[test]
fn fixed_periods_alternate() {
    let settings = OnOffSettings {
        rate: Rate::from_mbit_per_sec(8),
        payload_bytes: 1000,
        periods: Periods::Fixed {
            on: Span::from_millis(10),
            off: Span::from_millis(30),
        },
        seed: 0,
        extent: Extent::default(),
    };
    let times = departures(&mut UdpEndpoint::on_off(&settings).unwrap(), ms(99));
    let expected: Vec<Time> = (0..10).chain(40..50).chain(80..90).map(ms).collect();
    assert_eq!(times, expected);
}

#[test]
fn a_gap_longer_than_the_on_period_keeps_the_mean_rate() {
    // A packet every 25 ms of on-time, of which there are 10 ms in 40.
    let settings = OnOffSettings {
        rate: Rate::from_bits_per_sec(320_000),
        payload_bytes: 1000,
        periods: Periods::Fixed {
            on: Span::from_millis(10),
            off: Span::from_millis(30),
        },
        seed: 0,
        extent: Extent::default(),
    };
    let times = departures(&mut UdpEndpoint::on_off(&settings).unwrap(), ms(9_999));
    assert_eq!(times.len(), 100);
    assert_eq!(times[1], ms(85));
}

#[test]
fn exponential_periods_have_their_means_and_their_seed() {
    let settings = |seed| OnOffSettings {
        rate: Rate::from_mbit_per_sec(80),
        payload_bytes: 1000,
        periods: Periods::Exponential {
            mean_on: Span::from_millis(20),
            mean_off: Span::from_millis(60),
        },
        seed,
        extent: Extent::default(),
    };
    let run = |seed| {
        departures(
            &mut UdpEndpoint::on_off(&settings(seed)).unwrap(),
            ms(400_000),
        )
    };
    let times = run(1);
    // 10000 packets a second a quarter of the time. 5000 periods: 3 sigma are 6 %.
    let share = times.len() as f64 / 4_000_000.0;
    assert!((share - 0.25).abs() < 0.015, "{share}");
    let gap = Span::from_micros(100);
    let bursts = times.windows(2).filter(|p| p[1].since(p[0]) > gap).count();
    assert!((4_500..5_500).contains(&bursts), "{bursts}");
    assert_eq!(times, run(1));
    assert_ne!(times, run(2));
}

#[test]
fn jitter_is_that_of_rfc_3550() {
    let mut sink = UdpEndpoint::sink();
    // Transit times of 50, 66, 50 and 50 ms: differences of 16, 16 and 0.
    for (n, transit) in [50, 66, 50, 50].into_iter().enumerate() {
        let sent = ms(n as u64 * 20);
        arrive(&mut sink, n as u64, sent, sent + Span::from_millis(transit));
    }
    let got = received(&sink);
    // 1, then 1 + 15/16, then 15/16 of that.
    let after = [1.0, 1.937_5, 1.816_406_25];
    assert!((got.smoothed_jitter_ns - after[2] * 1e6).abs() < 1e-3);
    assert_eq!(got.jitter_samples, 3);
    assert_eq!(got.mean_jitter(), Span::from_nanos(32_000_000 / 3));
    let mean = after.iter().sum::<f64>() / 3.0 * 1e6;
    assert!((got.mean_smoothed_jitter().as_nanos() as f64 - mean).abs() < 2.0);
    assert_eq!(got.mean_transit(), Span::from_millis(54));
    assert_eq!(got.transit_min_ns, Some(50_000_000));
    assert_eq!(got.transit_max_ns, Some(66_000_000));
}

#[test]
fn equal_transit_times_are_no_jitter() {
    let mut sink = UdpEndpoint::sink();
    for n in 0..100 {
        arrive(&mut sink, n, ms(n * n), ms(n * n + 7));
    }
    assert_eq!(received(&sink).smoothed_jitter(), Span::ZERO);
    assert_eq!(received(&sink).mean_jitter(), Span::ZERO);
}

#[test]
fn losses_duplicates_and_reordering_are_told_apart() {
    let mut sink = UdpEndpoint::sink();
    for sequence in [0, 1, 4, 2, 4, 2, 7, 7] {
        arrive(&mut sink, sequence, ms(0), ms(10));
    }
    let got = received(&sink);
    assert_eq!(got.packets, 5);
    assert_eq!(got.bytes, 500);
    assert_eq!(got.expected, 8);
    assert_eq!(got.lost(), 3);
    assert_eq!(got.duplicates, 3);
    assert_eq!(got.reordered, 1);
    assert!((got.loss_ratio() - 3.0 / 8.0).abs() < 1e-12);
    let snapshot = sink.snapshot();
    assert_eq!(snapshot.delivered_bytes, 500);
    assert_eq!(snapshot.lost_packets, 3);
}

#[test]
fn damaged_and_foreign_datagrams_are_counted_apart() {
    let mut sink = UdpEndpoint::sink();
    let bytes = encode(u64::MAX, Time::ZERO);
    let cases = [
        (&bytes[..], true),
        (&bytes[..], false),
        (&bytes[..3], false),
        (&[], false),
    ];
    for (bytes, corrupt) in cases {
        let arrival = Arrival {
            bytes,
            absent: 10,
            corrupt,
        };
        sink.handle_datagram(ms(1), arrival);
    }
    let got = received(&sink);
    assert_eq!((got.corrupt, got.malformed, got.packets), (1, 3, 0));
    assert_eq!(got.expected, 0);
    // A wild sequence number is no reason to panic.
    arrive(&mut sink, 1 << 62, Time::MAX, ms(1));
    arrive(&mut sink, 1 << 62, Time::ZERO, ms(1));
    arrive(&mut sink, 5, Time::ZERO, ms(1));
    assert_eq!(received(&sink).packets, 2);
}

#[test]
fn intervals_add_up() {
    let mut sink = UdpEndpoint::sink();
    let mut before = received(&sink);
    let mut packets = 0;
    let mut lost = 0;
    for n in 0..1000u64 {
        if n % 7 != 3 {
            arrive(&mut sink, n, ms(n), ms(n + n % 5));
        }
        if n % 100 == 99 {
            let now = received(&sink);
            let interval = now.since(&before);
            packets += interval.packets;
            lost += interval.lost();
            assert!(interval.mean_jitter() > Span::ZERO);
            before = now;
        }
    }
    assert_eq!(packets, received(&sink).packets);
    assert_eq!(lost, received(&sink).lost());
}

proptest! {
    /// Against a plain list of what arrived.
    #[test]
    fn counting_agrees_with_a_list(numbers in proptest::collection::vec(0u64..300_000, 1..400)) {
        let mut sink = UdpEndpoint::sink();
        let mut seen: Vec<u64> = Vec::new();
        let (mut duplicates, mut reordered, mut highest) = (0, 0, 0);
        for (i, number) in numbers.iter().enumerate() {
            arrive(&mut sink, *number, ms(0), ms(1));
            let old = i > 0 && *number < highest;
            // What is older than the window cannot be told from a duplicate.
            let told = highest + 1 - (*number).min(highest) <= 1 << 16;
            if seen.contains(number) && told {
                duplicates += 1;
            } else {
                reordered += u64::from(old);
                seen.push(*number);
            }
            highest = highest.max(*number);
        }
        let got = received(&sink);
        prop_assert_eq!(got.duplicates, duplicates);
        prop_assert_eq!(got.reordered, reordered);
        prop_assert_eq!(got.packets, seen.len() as u64);
        prop_assert_eq!(got.expected, highest + 1);
    }
}
