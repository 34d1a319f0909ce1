//! What holds for every recording: it is bounded, counts stay exact, and no bytes do harm.

use howdah_core::{Rate, Span};
use howdah_recording::{
    DecodeError, Facts, Held, Interval, MOST_BYTES, MOST_INTERVALS, Recorder, Recording, Sample,
    Totals,
};
use proptest::prelude::*;

/// A look after so many microseconds: what more has been counted, a rate, a queue, what holds it back, and for how many microseconds nothing
/// has been heard.
type Step = (u64, [u32; 5], u64, u32, usize, u64);

fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let step = (
        1u64..200_000,
        any::<[u32; 5]>(),
        any::<u64>(),
        any::<u32>(),
        0usize..8,
        0u64..300_000,
    );
    prop::collection::vec(step, 1..most)
}

fn recorded(steps: &[Step]) -> (Recorder, Totals, u64) {
    let (mut recorder, mut totals, mut us) = (Recorder::default(), Totals::default(), 0);
    for (passed, counts, rate, queue, held, unheard) in steps {
        us += passed;
        let [delivered, sent, lost, drops, repeated] = counts.map(u64::from);
        totals.delivered_bytes += delivered;
        totals.sent_packets += sent;
        totals.lost_packets += lost;
        totals.host_drops += drops;
        totals.repeated_bytes += repeated;
        recorder.push(&Sample {
            at: Span::from_micros(us),
            told_at: Span::from_micros(us.saturating_sub(*unheard)),
            totals,
            pacing: Rate::from_bits_per_sec(*rate),
            capacity: (rate % 3 > 0).then(|| Rate::from_bits_per_sec(rate / 2)),
            base_rtt: Span::from_micros(u64::from(*queue) / 2),
            rtt: Span::from_micros(u64::from(*queue)),
            queue: Span::from_micros(u64::from(*queue)),
            held: Held::ALL[*held],
        });
    }
    (recorder, totals, us)
}

fn sum(intervals: &[Interval], of: fn(&Interval) -> u64) -> u64 {
    intervals.iter().map(of).sum()
}

fn check(steps: &[Step]) -> Result<Vec<Interval>, TestCaseError> {
    let (recorder, totals, us) = recorded(steps);
    let intervals = recorder.intervals();
    prop_assert!(intervals.len() <= MOST_INTERVALS);
    prop_assert_eq!(sum(&intervals, |i| i.span_us), us);
    prop_assert_eq!(
        sum(&intervals, |i| i.delivered_bytes),
        totals.delivered_bytes
    );
    prop_assert_eq!(sum(&intervals, |i| i.sent_packets), totals.sent_packets);
    prop_assert_eq!(sum(&intervals, |i| i.lost_packets), totals.lost_packets);
    prop_assert_eq!(sum(&intervals, |i| i.host_drops), totals.host_drops);
    prop_assert_eq!(sum(&intervals, |i| i.repeated_bytes), totals.repeated_bytes);
    for interval in &intervals {
        prop_assert_eq!(interval.held_us.iter().sum::<u64>(), interval.span_us);
        prop_assert!(interval.queue_min_us <= interval.queue_max_us);
    }
    for held in Held::ALL {
        let of_steps = steps
            .iter()
            .filter(|step| Held::ALL[step.4] == held)
            .map(|step| step.0);
        let kept: u64 = intervals.iter().map(|i| i.held_us[held.index()]).sum();
        prop_assert_eq!(kept, of_steps.sum::<u64>(), "{}", held.name());
    }
    let queues = steps.iter().map(|step| u64::from(step.3));
    prop_assert_eq!(
        intervals.iter().map(|i| i.queue_max_us).max(),
        queues.clone().max()
    );
    prop_assert_eq!(intervals.iter().map(|i| i.queue_min_us).min(), queues.min());
    Ok(intervals)
}

fn facts() -> Facts {
    Facts {
        recorder: "howdah 9.9.9".to_owned(),
        moved_bytes: 12_345,
        datagram_bytes: 1_472,
        cores: 2,
        ..Facts::default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn counts_and_times_stay_exact_and_a_recording_comes_back(steps in steps(500)) {
        let recording = Recording { facts: facts(), intervals: check(&steps)? };
        let bytes = recording.encode();
        prop_assert_eq!(Recording::decode(&bytes), Ok(recording));
    }

    #[test]
    fn no_bytes_do_harm(steps in steps(40), at in any::<usize>(), byte in any::<u8>(), cut in any::<usize>()) {
        let recording = Recording { facts: facts(), intervals: check(&steps)? };
        let mut bytes = recording.encode();
        let (len, at) = (bytes.len(), at % bytes.len());
        prop_assert!(Recording::decode(&bytes[..cut % len]).is_err(), "cut off");
        bytes[at] = byte;
        if let Ok(read) = Recording::decode(&bytes) {
            // What is believed can be worked with, and written again.
            let _ = (read.verdict(), read.span_us());
            prop_assert_eq!(Recording::decode(&read.encode()), Ok(read));
        }
        bytes.truncate(9);
        bytes.extend_from_slice(&at.to_le_bytes());
        bytes.extend(std::iter::repeat_n(byte, 100));
        let _ = Recording::decode(&bytes);
    }
}

/// Days of looks, and numbers as large as they get.
#[test]
fn a_copy_of_any_length_fits() {
    let step = |at: u64| {
        (
            100_000,
            [u32::MAX; 5],
            u64::MAX - at,
            u32::MAX,
            at as usize % 8,
            at % 40_000,
        )
    };
    let steps: Vec<Step> = (0..50_000).map(step).collect();
    let intervals = check(&steps).unwrap();
    assert!(
        intervals.len() > MOST_INTERVALS / 2 - 2,
        "{}",
        intervals.len()
    );
    let worst = Interval {
        span_us: u64::MAX / MOST_INTERVALS as u64,
        held_us: [u64::MAX / MOST_INTERVALS as u64, 0, 0, 0, 0, 0, 0, 0],
        delivered_bytes: u64::MAX / MOST_INTERVALS as u64,
        pacing_bps: u64::MAX,
        capacity_bps: u64::MAX,
        base_rtt_us: u64::MAX,
        rtt_us: u64::MAX,
        queue_min_us: u64::MAX,
        queue_max_us: u64::MAX,
        ..intervals[0]
    };
    let recording = Recording {
        facts: facts(),
        intervals: vec![worst; MOST_INTERVALS],
    };
    let bytes = recording.encode();
    assert!(bytes.len() <= MOST_BYTES);
    assert!(recording.verdict().seconds > 0.0);
    let small = Recording {
        facts: facts(),
        intervals,
    };
    assert!(small.encode().len() <= MOST_BYTES);
}

#[test]
fn what_is_no_recording_is_said() {
    let whole = Recording {
        facts: facts(),
        intervals: Vec::new(),
    }
    .encode();
    assert_eq!(
        Recording::decode(b"[path.main]\n"),
        Err(DecodeError::Foreign)
    );
    assert_eq!(
        Recording::decode(&vec![0; MOST_BYTES + 1]),
        Err(DecodeError::TooLong)
    );
    let mut newer = whole.clone();
    newer[8] = 7;
    assert_eq!(Recording::decode(&newer), Err(DecodeError::Version(7)));
    let mut longer = whole.clone();
    longer.push(0);
    assert!(matches!(
        Recording::decode(&longer),
        Err(DecodeError::Damaged(_))
    ));
    let named = |recorder: &str| Recording {
        facts: Facts {
            recorder: recorder.to_owned(),
            ..facts()
        },
        intervals: Vec::new(),
    };
    assert!(Recording::decode(&named("howdah\u{1b}[31m").encode()).is_err());
    assert!(Recording::decode(&named(&"x".repeat(101)).encode()).is_err());
}

#[test]
fn a_verdict_says_what_held_it_up_and_a_cap_is_no_fault() {
    let interval = |mbit: u64, held: Held| {
        let mut made = Interval {
            span_us: 1_000_000,
            delivered_bytes: mbit * 125_000,
            sent_packets: 1_000,
            lost_packets: 20,
            host_drops: 10,
            capacity_bps: 100_000_000,
            base_rtt_us: 40_000,
            queue_max_us: 3_000,
            ..Interval::default()
        };
        made.held_us[held.index()] = 1_000_000;
        made
    };
    let intervals = [
        interval(95, Held::Path),
        interval(10, Held::Sink),
        interval(20, Held::Sink),
        interval(20, Held::Source),
        interval(1, Held::Cap),
        interval(60, Held::Sink),
    ];
    let recording = Recording {
        facts: facts(),
        intervals: intervals.to_vec(),
    };
    let verdict = recording.verdict();
    let slow = verdict.slow.unwrap();
    assert_eq!(slow.held, Held::Sink);
    assert!((slow.seconds - 3.0).abs() < 1e-9, "{slow:?}");
    assert_eq!(verdict.capacity_bps, Some(100e6));
    assert!((verdict.loss - 0.01).abs() < 1e-9);
    assert!((verdict.base_rtt_ms - 40.0).abs() < 1e-9 && (verdict.queue_ms - 3.0).abs() < 1e-9);
}

#[test]
fn a_new_connection_counts_anew_and_the_gap_is_nobodys() {
    let mut recorder = Recorder::default();
    let look = |ms: u64, bytes: u64, lost: u64| Sample {
        at: Span::from_millis(ms),
        told_at: Span::from_millis(ms),
        totals: Totals {
            delivered_bytes: bytes,
            lost_packets: lost,
            ..Totals::default()
        },
        pacing: Rate::ZERO,
        capacity: None,
        base_rtt: Span::ZERO,
        rtt: Span::ZERO,
        queue: Span::ZERO,
        held: Held::Path,
    };
    recorder.push(&look(100, 1_000, 5));
    // Three of them were late, and three others are lost.
    recorder.push(&look(200, 2_000, 2));
    recorder.push(&look(300, 3_000, 6));
    recorder.next_connection(Span::from_millis(1_000));
    recorder.push(&look(1_100, 500, 0));
    let intervals = recorder.intervals();
    assert_eq!(sum(&intervals, |i| i.delivered_bytes), 3_500);
    assert_eq!(sum(&intervals, |i| i.lost_packets), 6);
    let away: u64 = intervals
        .iter()
        .map(|i| i.held_us[Held::Away.index()])
        .sum();
    assert_eq!(away, 700_000);
}

/// Reports come each 7, 25, 30, 50 ms: intervals of 20 have what arrived in them all the same, and pauses nothing.
#[test]
fn a_steady_path_is_steady_however_often_it_is_told_of() {
    // 1 MB each millisecond, but not in the second second.
    let arrived = |ms: u64| (ms.min(1_000) + ms.saturating_sub(2_000)) * 1_000_000;
    for report_ms in [7, 25, 30, 50] {
        let mut recorder = Recorder::default();
        for at in (20..=3_000).step_by(20) {
            let told = match at {
                1_000..2_000 => 1_000,
                _ => at - at % report_ms,
            };
            recorder.push(&Sample {
                at: Span::from_millis(at),
                told_at: Span::from_millis(told),
                totals: Totals {
                    delivered_bytes: arrived(told),
                    ..Totals::default()
                },
                pacing: Rate::ZERO,
                capacity: None,
                base_rtt: Span::ZERO,
                rtt: Span::ZERO,
                queue: Span::ZERO,
                held: Held::Path,
            });
        }
        let intervals = recorder.intervals();
        let far_from = |range: std::ops::Range<usize>, bytes: u64| {
            let of = intervals[range].iter().map(|i| i.delivered_bytes);
            of.map(|have| have.abs_diff(bytes)).max().unwrap()
        };
        assert!(far_from(0..50, 20_000_000) <= 10, "{report_ms} ms");
        // A report may tell of what came since the one before, which is some time ago now.
        assert_eq!(far_from(50..96, 0), 0, "{report_ms} ms");
        // What came after the last report is not known yet.
        assert!(far_from(103..147, 20_000_000) <= 10, "{report_ms} ms");
    }
}
