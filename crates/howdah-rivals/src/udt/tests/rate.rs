//! The rate control driven by itself: a clock of SYNs, losses drawn per packet.

use crate::udt::config::{LaterCuts, Rules, SYN};
use crate::udt::control::{OnLoss, PathState, RateControl};
use howdah_core::Time;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

const PATH: PathState = PathState {
    rtt_us: 1000,
    arrival_pps: 10_000,
    capacity_pps: 142_857,
};

fn at(syns: u64) -> Time {
    Time::ZERO + SYN * syns
}

/// Out of the start, at the speed of arrival.
fn started(rules: Rules, packet_bytes: u32) -> RateControl {
    let mut control = RateControl::new(rules, packet_bytes, 25_600, 1, Time::ZERO);
    control.on_loss(0, 10, &PATH);
    control
}

fn rate_pps(control: &RateControl) -> f64 {
    1e6 / control.period_us()
}

#[test]
fn the_increase_is_the_published_one() {
    // draft-gg-udt-03, section 3.6: with 1500-byte packets and spare capacity in (10^(k-1), 10^k]
    // bit/s, 10^(k-9) packets per SYN.
    for (spare_mbit, inc) in [
        (9_000, 10.0),
        (1_001, 10.0),
        (999, 1.0),
        (101, 1.0),
        (99, 0.1),
        (9, 0.01),
        (0, 0.01),
    ] {
        let mut control = RateControl::new(Rules::v4_11(), 1500, 25_600, 1, Time::ZERO);
        let slow = PathState {
            arrival_pps: 10,
            ..PATH
        };
        control.on_loss(0, 10, &slow);
        let before = rate_pps(&control);
        // After the start, as after a cut, a ninth of the capacity counts at most.
        let spare_pps = f64::from(spare_mbit) * 1e6 / (1500.0 * 8.0);
        let path = PathState {
            capacity_pps: (9.0 * spare_pps).round() as u32,
            ..PATH
        };
        control.on_ack(at(1), 100, &path, None);
        let grown = (rate_pps(&control) - before) * SYN.as_secs_f64();
        assert!((grown / inc - 1.0).abs() < 1e-6, "{spare_mbit}: {grown}");
        // Once per SYN, and not in one in which a loss was reported.
        let rate = rate_pps(&control);
        control.on_ack(at(1), 200, &path, None);
        assert!((rate_pps(&control) - rate).abs() < 1e-9);
        control.on_loss(300, 400, &path);
        let rate = rate_pps(&control);
        control.on_ack(at(2), 300, &path, None);
        assert!((rate_pps(&control) - rate).abs() < 1e-9);
    }
}

#[test]
fn cuts_are_a_ninth_and_five_in_an_epoch_at_most() {
    let rules = Rules {
        whole_microseconds: false,
        ..Rules::v4_11()
    };
    let mut control = started(rules, 1500);
    let before = control.period_us();
    control.on_loss(100, 1000, &PATH);
    assert!((control.period_us() / before - 1.125).abs() < 1e-12);
    // Later reports of the same epoch: those of which one in a random number cuts; all of them
    // together five cuts at most, whatever comes.
    for lost in 101..400 {
        control.on_loss(lost, 1000, &PATH);
    }
    let least = 1.125_f64.powi(5);
    let period = control.period_us() / before;
    assert!(period > 1.125 && period <= least + 1e-9, "{period}");
    let period = control.period_us();
    control.on_loss(1001, 2000, &PATH);
    assert!((control.period_us() / period - 1.125).abs() < 1e-12);
}

#[test]
fn version_4_rounds_cuts_up_to_microseconds() {
    let path = PathState {
        arrival_pps: 142_857,
        ..PATH
    };
    let mut control = RateControl::new(Rules::v4_11(), 8800, 25_600, 1, Time::ZERO);
    control.on_loss(0, 10, &path);
    assert!((control.period_us() - 7.0).abs() < 1e-3);
    control.on_loss(11, 20, &path);
    assert!((control.period_us() - 8.0).abs() < 1e-9);
}

#[test]
fn after_a_cut_spare_capacity_counts_as_a_ninth() {
    let mut control = started(Rules::v4_11(), 8800);
    // 132 857 packets per second of spare capacity are 9.4 Gbit/s: 10^10 * 1.5e-6 / 8800.
    let before = rate_pps(&control);
    control.on_ack(at(1), 100, &PATH, None);
    let grown = (rate_pps(&control) - before) * SYN.as_secs_f64();
    assert!((grown / 1.704_545 - 1.0).abs() < 1e-4, "{grown}");
    // A ninth of 142 857 are 1.117 Gbit/s: the same decade. A ninth of 125 000 are not.
    let path = PathState {
        capacity_pps: 125_000,
        ..PATH
    };
    control.on_loss(200, 300, &path);
    control.on_ack(at(2), 300, &path, None);
    let before = rate_pps(&control);
    control.on_ack(at(3), 400, &path, None);
    let grown = (rate_pps(&control) - before) * SYN.as_secs_f64();
    assert!((grown / 0.170_454_5 - 1.0).abs() < 1e-4, "{grown}");
}

#[test]
fn version_2_freezes_and_cuts_again_by_one_of_three_rules() {
    let mut control = RateControl::new(Rules::v2_bracket(), 1500, 25_600, 1, Time::ZERO);
    assert_eq!(control.on_loss(0, 10, &PATH), OnLoss::Freeze);
    // The first announced window sets the period: (RTT + SYN) / window.
    control.on_ack(at(1), 5, &PATH, Some(110));
    assert!(!control.is_starting());
    assert!((control.period_us() - 100.0).abs() < 1e-9);
    assert_eq!(control.on_loss(11, 1000, &PATH), OnLoss::Freeze);
    // 388 later reports of one epoch: five cuts at most (3), those of the 16th to the 256th (1), or,
    // were there no limit, dozens.
    for (later_cuts, least, most) in [
        (LaterCuts::Random { reports: 5 }, 0, 4),
        (LaterCuts::Doubling, 5, 5),
        (LaterCuts::Random { reports: u32::MAX }, 20, 388),
    ] {
        let rules = Rules {
            later_cuts,
            ..Rules::v2_bracket()
        };
        let mut control = started(rules, 1500);
        control.on_loss(11, 1000, &PATH);
        let before = control.cuts();
        for lost in 12..400 {
            assert_eq!(control.on_loss(lost, 1000, &PATH), OnLoss::Nothing);
        }
        let cuts = control.cuts() - before;
        assert!((least..=most).contains(&cuts), "{later_cuts:?}: {cuts}");
    }
}

/// Cuts by a ninth with probability p per packet against `inc` packets per SYN per SYN: in
/// equilibrium R = sqrt(9 inc / (SYN^2 p)) packets per second where acknowledgements are never
/// blocked and each loss cuts.
#[test]
fn the_equilibrium_is_where_theory_has_it() {
    // A ninth of the capacity, and nearly all of it, in the same decade: one increase for all rates.
    for (capacity_pps, inc) in [(142_857, 15_000.0 / 8800.0), (13_000, 1_500.0 / 8800.0)] {
        for loss in [0.001, 0.003, 0.01] {
            let rules = Rules {
                whole_microseconds: false,
                ..Rules::v4_11()
            };
            let mut control = started(rules, 8800);
            let path = PathState {
                capacity_pps,
                ..PATH
            };
            let mut rng = ChaCha8Rng::seed_from_u64(7);
            let (mut sent, mut due, mut sum) = (100, 0.0, 0.0);
            let (warm, syns) = (5_000_u64, 65_000_u64);
            for syn in 1..syns {
                due += rate_pps(&control) * SYN.as_secs_f64();
                while due >= 1.0 {
                    due -= 1.0;
                    sent += 1;
                    let unit = (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
                    if unit < loss {
                        // Reported at once: a report reaches the sender before it sends on.
                        control.on_loss(sent, sent, &path);
                    }
                }
                control.on_ack(at(syn), sent, &path, None);
                if syn >= warm {
                    sum += rate_pps(&control);
                }
            }
            let mean = sum / (syns - warm) as f64;
            // No increase in a SYN with a loss report: the share of such SYNs is 1 - exp(-R p SYN).
            let share = (-mean * loss * SYN.as_secs_f64()).exp();
            let syn = SYN.as_secs_f64();
            let theory = (9.0 * inc * share / (syn * syn * loss)).sqrt();
            let error = mean / theory - 1.0;
            assert!(
                error.abs() < 0.06,
                "p {loss}: {mean:.0} against {theory:.0} packets/s"
            );
        }
    }
}
