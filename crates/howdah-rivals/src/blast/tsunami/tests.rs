//! The control law by itself: Tsunami's map E -> delay.

use super::law::{Law, error_rate};
use super::messages::Parameters;

fn law(block_bytes: u32) -> Law {
    Law::new(&Parameters {
        block_bytes,
        target_bps: 650_000_000,
        error_threshold: 7500,
        slower: (25, 24),
        faster: (5, 6),
    })
}

#[test]
fn seven_clean_reports_lead_from_the_start_to_the_target() {
    for (block_bytes, least_us) in [(1024, 12.0), (32_768, 403.0)] {
        let mut law = law(block_bytes);
        assert!((law.current_us - 3.0 * least_us).abs() < 1e-9);
        let mut reports = 0;
        while law.current_us > least_us {
            law.report(0);
            reports += 1;
        }
        assert_eq!(reports, 7);
        // The bounds are fixed points.
        law.report(7500);
        assert!(
            (law.current_us - least_us).abs() < 1e-9,
            "the threshold itself is no error"
        );
        for _ in 0..100_000 {
            law.report(100_000);
        }
        assert!((law.current_us - 10_000.0).abs() < 1e-9);
    }
}

#[test]
fn slowing_down_takes_as_long_as_the_map_says() {
    // Reports until the rate is halved at a constant error rate.
    for (error, stated) in [
        (8000, 3072),
        (10_000, 616),
        (15_000, 206),
        (25_000, 88),
        (50_000, 37),
    ] {
        let mut law = law(32_768);
        while law.current_us > 403.0 {
            law.report(0);
        }
        let mut reports = 0;
        while law.current_us < 806.0 {
            law.report(error);
            reports += 1;
        }
        assert!(
            u32::abs_diff(reports, stated) <= 1,
            "{error}: {reports}, stated {stated}"
        );
    }
}

#[test]
fn the_error_rate_has_its_fixed_points() {
    let settled = |requests, blocks, fill| {
        let mut error = 0.0;
        for _ in 0..60 {
            error = error_rate(error, requests, blocks, fill);
        }
        error
    };
    // 15 % of requests and blocks, or 15 % of the ring, are the threshold.
    assert!((settled(1500, 8499, 0.0) - 7500.0_f64).abs() < 1e-6);
    assert!((settled(0, 10_000, 0.15) - 7500.0_f64).abs() < 1e-6);
    assert!((settled(0, 10_000, 1.0) - 50_000.0_f64).abs() < 1e-6);
    // A quarter of what was is left after a clean interval.
    assert!((error_rate(8000.0, 0, 1000, 0.0) - 2000.0).abs() < 1e-9);
}

#[test]
fn a_steady_loss_below_the_threshold_keeps_the_target() {
    // Requests are repeated each interval; with a share s of them, E settles at 50 000 s. A share
    // of 15 % divides the two regimes, whatever the delay was.
    for (share, slows) in [(0.10, false), (0.14, false), (0.16, true), (0.4, true)] {
        let (mut law, mut error) = (law(1024), 0.0);
        for _ in 0..5000 {
            let requests = (share * 10_000.0) as u64;
            error = error_rate(error, requests, 9999 - requests, 0.0);
            law.report(error as u32);
        }
        assert_eq!(
            law.current_us > 12.5,
            slows,
            "{share}: {} us",
            law.current_us
        );
    }
}
