//! What has arrived against a plain set, with packets in any order, reports with room and without, and confirmations that are lost.

use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Copy, Debug)]
enum Op {
    /// The next number but so many, after so many microseconds.
    Arrive {
        ahead: u64,
        us: u64,
    },
    /// One of so long ago.
    Late {
        back: u64,
        us: u64,
    },
    /// A report with so many bytes for runs; whether it is confirmed.
    Report {
        budget: usize,
        is_confirmed: bool,
    },
    Wait {
        ms: u64,
    },
    /// The peer asks for a report, and for samples.
    Ask,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0..3u64, 0..400u64).prop_map(|(ahead, us)| Op::Arrive { ahead, us }),
        1 => (0..90u64, 0..400u64).prop_map(|(back, us)| Op::Late { back, us }),
        1 => (4..400usize, any::<bool>()).prop_map(|(budget, is_confirmed)| Op::Report { budget, is_confirmed }),
        1 => (1..40u64).prop_map(|ms| Op::Wait { ms }),
        1 => Just(Op::Ask),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn what_is_told_is_what_has_arrived(ops in prop::collection::vec(op(), 1..300)) {
        let timeout = Span::from_millis(30);
        let mut received = Received::default();
        let mut now = Time::ZERO + Span::from_millis(5);
        // Numbers that are there, with their bytes; what came once more.
        let mut there: BTreeMap<u64, u64> = BTreeMap::new();
        let (mut again, mut reports, mut largest_at) = (0, 0, now);
        let mut sampled_to = SAMPLED_REPORTS;
        let mut told_lost: BTreeSet<u64> = BTreeSet::new();
        let mut late: Vec<u64> = Vec::new();
        for op in ops {
            let next = there.last_key_value().map_or(0, |(number, _)| number + 1);
            let arriving = match op {
                Op::Arrive { ahead, us } => Some((next + ahead, us)),
                Op::Late { back, us } => Some((next.saturating_sub(back), us)),
                Op::Wait { ms } => {
                    now += Span::from_millis(ms);
                    None
                }
                Op::Ask => {
                    received.sample_again();
                    sampled_to = sampled_to.max(reports + 8);
                    None
                }
                Op::Report { budget, is_confirmed } => {
                    let Some(report) = received.report(now, budget, timeout) else {
                        prop_assert!(there.is_empty());
                        continue;
                    };
                    reports += 1;
                    prop_assert_eq!((report.number, received.next_report()), (reports, reports + 1));
                    prop_assert_eq!(Some(report.largest), there.keys().last().copied());
                    prop_assert_eq!(report.largest_rx_time_us, largest_at.as_micros());
                    prop_assert_eq!(report.delay_us, now.since(largest_at).as_micros());
                    prop_assert_eq!(report.packets, there.len() as u64);
                    prop_assert_eq!(report.bytes, there.values().sum::<u64>());
                    for block in &report.coverage {
                        let mut number = block.from;
                        for run in &block.runs {
                            for at in number..number + run.received {
                                prop_assert!(there.contains_key(&at), "{} is not there", at);
                            }
                            number += run.received;
                            for at in number..number + run.lost {
                                prop_assert!(!there.contains_key(&at), "{} is there", at);
                                told_lost.insert(at);
                            }
                            number += run.lost;
                        }
                        prop_assert_eq!(number, block.from + block.len);
                        prop_assert!(number <= report.largest + 1);
                    }
                    late.truncate(limits::MAX_LATE as usize);
                    prop_assert_eq!(&report.late[..], &late[..]);
                    late.clear();
                    let samples = &report.samples;
                    prop_assert!(samples.len() <= limits::MAX_SAMPLES as usize);
                    prop_assert!(samples.iter().all(|sample| there.contains_key(&sample.number)));
                    prop_assert!(samples.windows(2).all(|pair| pair[1].rx_time_us >= pair[0].rx_time_us + 100));
                    prop_assert!(reports <= sampled_to || samples.is_empty() || reports == sampled_to + 1);
                    let waits = !report.coverage.is_empty();
                    if waits {
                        let due = received.next_repeat(timeout).expect("it is not confirmed");
                        prop_assert!(due <= now + timeout);
                    }
                    if budget > 350 {
                        prop_assert!(!received.has_more_to_report(now));
                    }
                    if is_confirmed {
                        let sent_at = received.confirm(report.number);
                        prop_assert_eq!(sent_at, waits.then_some(now));
                        prop_assert_eq!(received.confirm(report.number), None);
                    }
                    None
                }
            };
            if let Some((number, us)) = arriving {
                now += Span::from_micros(us);
                let is_new = number >= received.base && !there.contains_key(&number);
                prop_assert_eq!(received.is_new(number), is_new);
                let bytes = 1_000 + number % 7;
                let arrived = received.insert(now, number, bytes);
                prop_assert_eq!(arrived, Ok(if is_new { Arrived::New } else { Arrived::Duplicate }));
                prop_assert!(!received.is_new(number));
                if is_new {
                    if number >= next {
                        largest_at = now;
                    } else if told_lost.contains(&number) || number < received.covered_to {
                        late.push(number);
                    }
                    there.insert(number, bytes);
                } else {
                    again += 1;
                }
            }
            prop_assert_eq!(received.packets(), there.len() as u64);
            prop_assert_eq!(received.bytes(), there.values().sum::<u64>());
            prop_assert_eq!(received.duplicates(), again);
            prop_assert_eq!(received.largest(), there.keys().last().copied());
            let window = received.reorder_window();
            prop_assert!((REORDER_WINDOW_MIN..=REORDER_WINDOW_MAX).contains(&window));
            // In time everything is settled, and only a hole has to wait for it.
            prop_assert!(!received.has_unsettled(now + REORDER_WINDOW_MAX));
            let rest = received.covered_to..received.largest().unwrap_or(0);
            let has_hole = rest.into_iter().any(|number| !there.contains_key(&number));
            prop_assert!(has_hole || !received.has_unsettled(now));
        }
    }
}

/// The window for what comes late shrinks again, and numbers that are too far ahead are an offence.
#[test]
fn the_window_shrinks_and_numbers_are_bounded() {
    let at = |ms| Time::ZERO + Span::from_millis(ms);
    let mut received = Received::default();
    received.insert(at(0), 0, 1).unwrap();
    received.insert(at(1), 2, 1).unwrap();
    received.report(at(5), 500, Span::from_secs(1)).unwrap();
    received.insert(at(81), 1, 1).unwrap();
    assert_eq!(received.reorder_window(), Span::from_millis(100));
    received
        .report(at(10_081), 500, Span::from_secs(1))
        .unwrap();
    assert_eq!(received.reorder_window(), Span::from_millis(100));
    received
        .report(at(10_082), 500, Span::from_secs(1))
        .unwrap();
    assert_eq!(received.reorder_window(), Span::from_micros(93_750));
    received
        .report(at(10_083), 500, Span::from_secs(1))
        .unwrap();
    assert_eq!(received.reorder_window(), Span::from_micros(93_750));
    let far = received.base + limits::MAX_COVERAGE_SPAN;
    assert!(received.insert(at(10_090), far - 1, 1).is_ok());
    assert_eq!(
        received.insert(at(10_090), far, 1),
        Err(PeerMisbehaved::NumberTooFar)
    );
}
