//! RBUDP against its closed form.

use crate::blast::support::{Run, path, rbudp_pair, secs};
use howdah_core::{Rate, Span};
use howdah_path::{LossModel, PathConfig};
use howdah_rivals::blast::{RbudpMode, RbudpSettings};

/// Expected number of blasts until each of `packets` has arrived at least once, if each is lost
/// with probability `loss`: the mean maximum of as many geometric variables.
fn expected_blasts(packets: u64, loss: f64) -> f64 {
    (0..500)
        .map(|k| 1.0 - (1.0 - loss.powi(k)).powf(packets as f64))
        .sum()
}

/// Blasts of 140 ms: longer than a round trip and a delayed acknowledgement, behind which Nagle
/// would hold the end of a shorter one.
const PACKETS: u64 = 2000;
const BYTES: u64 = 8800 * PACKETS;

#[test]
fn blasts_are_as_many_as_the_closed_form_says() {
    // The values of the fact sheet, for 64 MiB in packets of 8800 bytes.
    for (loss, stated) in [(0.001, 2.01), (0.002, 2.07), (0.005, 2.17), (0.01, 2.54)] {
        let ours = expected_blasts(7626, loss);
        assert!((ours - stated).abs() < 0.12, "{loss}: {ours}");
    }
    let settings = RbudpSettings {
        payload_bytes: 8800,
        ..RbudpSettings::file(Rate::from_gbit_per_sec(1), BYTES)
    };
    for loss in [0.01, 0.05] {
        let runs = 300;
        let (mut blasts, mut seconds) = (0.0, 0.0);
        for seed in 0..runs {
            let way = PathConfig {
                loss: LossModel::Bernoulli(loss),
                mtu: 9000,
                ..path(Rate::from_gbit_per_sec(10), Span::from_millis(60))
            };
            let mut run = Run::new(seed, &way, rbudp_pair(&settings));
            // Only data are lost here: what loss does to the control channel is not in the formula.
            run.world.set_path_config(
                run.link.backward,
                &path(Rate::from_gbit_per_sec(10), Span::from_millis(60)),
            );
            let (near, far) = run.run_to_end(secs(600));
            assert_eq!(far.delivered_bytes, BYTES, "seed {seed}");
            // A lost message waits for the timer; such runs say nothing about blasts.
            let displayed = run
                .world
                .endpoint(run.ends.a)
                .displayed_rate()
                .expect("done");
            let took = 8.0 * BYTES as f64 / displayed.as_f64();
            let sent = near.sent_bytes as f64 / BYTES as f64;
            if near.timeouts == 0 {
                assert!(
                    (sent - 1.0 / (1.0 - loss)).abs() < 0.08,
                    "seed {seed}: {sent}"
                );
                blasts += 1.0;
                // T = (S / B) / (1 - p) + k RTT
                let gap_s = 70e-6;
                seconds += (took - PACKETS as f64 * sent * gap_s) / 0.06;
            }
        }
        let k = seconds / blasts;
        let expected = expected_blasts(PACKETS, loss);
        assert!(
            (k - expected).abs() < 0.12,
            "{loss}: {k} blasts, {expected} expected"
        );
    }
}

/// 1.2 million packets: the report is larger than what TCP holds for a reader.
#[test]
fn a_large_report_is_read_in_parts() {
    let settings = RbudpSettings {
        payload_bytes: 100,
        ..RbudpSettings::file(Rate::from_mbit_per_sec(800), 120_000_000)
    };
    let way = PathConfig {
        loss: LossModel::Bernoulli(0.001),
        ..path(Rate::from_gbit_per_sec(4), Span::from_millis(10))
    };
    let mut run = Run::new(1, &way, rbudp_pair(&settings));
    let (near, far) = run.run_to_end(secs(60));
    assert_eq!(far.delivered_bytes, 120_000_000, "{near:?} {far:?}");
    assert!(near.finished_at.is_some());
}

#[test]
fn a_file_that_does_not_fit_fails_on_both_sides() {
    for (bytes, memory, fits) in [
        (1_600_000, Some(1_620_000), true),
        (2_000_000, Some(1_620_000), false),
        // The program's C int, whatever the memory.
        (1 << 31, None, false),
    ] {
        let settings = RbudpSettings {
            memory_bytes: memory,
            ..RbudpSettings::file(Rate::from_mbit_per_sec(600), bytes)
        };
        let way = path(Rate::from_gbit_per_sec(1), Span::from_millis(10));
        let mut run = Run::new(1, &way, rbudp_pair(&settings));
        let (near, far) = run.run_to_end(secs(60));
        assert_eq!(near.failed.is_none(), fits, "{near:?}");
        assert_eq!(far.failed.is_none(), fits, "{far:?}");
        assert_eq!(far.delivered_bytes, if fits { bytes } else { 0 });
    }
}

/// K14proto's table of chunks of 64 MiB at 9.4 to 9.6 Gbit/s (here a gap of 7.33 us cannot be had,
/// so 7 us on a link that carries them), without loss.
#[test]
fn chunks_pay_a_round_trip_and_nagle_each() {
    let settings = RbudpSettings {
        payload_bytes: 8800,
        mode: RbudpMode::Stream {
            chunk_bytes: 64 << 20,
        },
        ..RbudpSettings::stream(Rate::from_gbit_per_sec(10), Some(10 * (64 << 20)))
    };
    let blast_s = 7627.0 * 7e-6;
    for rtt_ms in [50, 100, 200] {
        let way = PathConfig {
            mtu: 9000,
            ..path(Rate::from_gbit_per_sec(11), Span::from_millis(rtt_ms))
        };
        let mut run = Run::new(1, &way, rbudp_pair(&settings));
        let (near, _) = run.run_to_end(secs(60));
        assert_eq!(near.retransmitted_bytes, 0);
        let displayed = run
            .world
            .endpoint(run.ends.a)
            .displayed_rate()
            .expect("done");
        let per_chunk_s = 8.0 * f64::from(64 << 20) / displayed.as_f64();
        let rtt_s = rtt_ms as f64 / 1e3;
        // The end of the blast waits until the size of the chunk is acknowledged, which takes a
        // round trip and the 40 ms of a delayed acknowledgement.
        let hold_s = (rtt_s + 0.04 - blast_s).max(0.0);
        let expected = blast_s + rtt_s + hold_s;
        assert!(
            (per_chunk_s / expected - 1.0).abs() < 0.03,
            "{rtt_ms} ms: {per_chunk_s} s a chunk, {expected} expected"
        );
    }
}
