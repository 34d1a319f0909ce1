//! The edges: what is settled to the microsecond, where words of bits meet, what just fits into a report.

use super::*;

fn at_us(us: u64) -> Time {
    Time::ZERO + Span::from_micros(us)
}

const FOREVER: Span = Span::from_secs(100);
const ROOM: usize = 500;

/// One byte each: none of these numbers needs more.
fn runs_of(report: &Report) -> Vec<(u64, u64)> {
    let runs = report.coverage.iter().flat_map(|block| &block.runs);
    runs.map(|run| (run.received, run.lost)).collect()
}

fn every_second(count: u64) -> Received {
    let mut received = Received::default();
    for number in 0..count {
        received.insert(at_us(0), 2 * number, 1).unwrap();
    }
    received
}

#[test]
fn marks_of_the_path_are_told() {
    let mut received = Received::default();
    for (number, ecn) in [Ecn::Ect1, Ecn::Ce, Ecn::Ce].into_iter().enumerate() {
        received.insert(at_us(0), number as u64, 1).unwrap();
        received.count_ecn(ecn);
    }
    let marks = received.report(at_us(0), ROOM, FOREVER).unwrap().marks;
    let mut expected = EcnCounts::default();
    for ecn in [Ecn::Ect1, Ecn::Ce, Ecn::Ce] {
        expected.count(ecn);
    }
    assert_eq!(marks, expected);
    assert_ne!(marks, EcnCounts::default());
}

/// Others go on arriving, so it is not the last arrival that says how long the hole has been one.
#[test]
fn a_hole_is_settled_a_window_after_the_first_packet_above_it() {
    let mut received = Received::default();
    received.insert(at_us(0), 0, 1).unwrap();
    for number in 2..9 {
        received
            .insert(at_us(1_000 + 250 * (number - 2)), number, 1)
            .unwrap();
    }
    let settled = 1_000 + REORDER_WINDOW_MIN.as_micros();
    assert!(received.has_unsettled(at_us(settled - 1)));
    let before = received.report(at_us(settled - 1), ROOM, FOREVER).unwrap();
    assert_eq!(runs_of(&before), [(1, 0)]);
    assert!(!received.has_more_to_report(at_us(settled - 1)));
    assert!(received.has_more_to_report(at_us(settled)));
    assert!(!received.has_unsettled(at_us(settled)));
    let after = received.report(at_us(settled), ROOM, FOREVER).unwrap();
    assert_eq!(runs_of(&after), [(0, 1), (7, 0)]);
    assert!(!received.has_more_to_report(at_us(settled)));
}

#[test]
fn without_a_hole_nothing_waits_and_a_run_is_one_across_words() {
    let mut received = Received::default();
    for (told, all) in [(0, 10), (10, 130), (130, 300)] {
        for number in told..all {
            received.insert(at_us(0), number, 1).unwrap();
        }
        assert!(!received.has_unsettled(at_us(0)));
        let report = received.report(at_us(0), ROOM, FOREVER).unwrap();
        assert_eq!(runs_of(&report), [(all - told, 0)]);
    }
}

#[test]
fn as_many_runs_are_told_as_fit() {
    let all: Vec<_> = [(1, 1); 3].into_iter().chain([(1, 0)]).collect();
    for budget in 0..5 {
        let mut received = every_second(4);
        let now = at_us(REORDER_WINDOW_MAX.as_micros());
        let report = received.report(now, budget, FOREVER).unwrap();
        assert_eq!(runs_of(&report), all[..budget], "{budget}");
        // Nothing is no block.
        assert_eq!(report.coverage.len(), budget.min(1));
        assert_eq!(received.has_more_to_report(now), budget < all.len());
        let rest = received.report(now, ROOM, FOREVER).unwrap();
        assert_eq!(runs_of(&rest), all[budget..], "{budget}");
    }
}

#[test]
fn what_was_not_confirmed_is_told_again_in_pieces_too() {
    let timeout = Span::from_millis(30);
    let mut received = every_second(4);
    assert_eq!(received.next_repeat(timeout), None);
    let first = at_us(REORDER_WINDOW_MAX.as_micros());
    let all = runs_of(&received.report(first, ROOM, timeout).unwrap());
    assert_eq!(received.next_repeat(timeout), Some(first + timeout));
    let again = first + timeout;
    let mut told = runs_of(&received.report(again, 2, timeout).unwrap());
    assert_eq!(told.len(), 2);
    let rest = received.report(again + timeout, ROOM, timeout).unwrap();
    for block in &rest.coverage {
        let runs = block.runs.iter().map(|run| (run.received, run.lost));
        if block.from > 0 {
            told.extend(runs);
        }
    }
    assert_eq!(told, all);
}

#[test]
fn what_is_confirmed_takes_no_memory() {
    let mut received = Received::default();
    for number in 0..6_400 {
        received.insert(at_us(0), number, 1).unwrap();
        if number % 64 == 63 {
            let report = received.report(at_us(0), ROOM, FOREVER).unwrap();
            received.confirm(report.number).unwrap();
        }
    }
    assert!(received.bits.len() <= 1, "{} words", received.bits.len());
    assert!(!received.is_new(6_399) && received.is_new(6_400));
}

#[test]
fn marks_in_time_are_kept_as_long_as_they_may_be_asked_for() {
    let mut received = Received::default();
    let (first, last) = (at_us(0), at_us(1_000));
    received.insert(first, 0, 1).unwrap();
    received.insert(last, 1, 1).unwrap();
    let kept = |received: &mut Received, now| {
        received.report(now, ROOM, FOREVER).unwrap();
        received.marks.len()
    };
    assert_eq!(kept(&mut received, first + MARK_MEMORY), 2);
    let later = first + MARK_MEMORY + Span::from_micros(1);
    assert_eq!(kept(&mut received, later), 1);
    // The last one says how old a hole above it is.
    assert_eq!(kept(&mut received, last + MARK_MEMORY * 9), 1);
}
