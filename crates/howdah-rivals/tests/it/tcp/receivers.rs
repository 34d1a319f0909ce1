//! When each system acknowledges, and what that does to a sender.

use crate::tcp::support::{Run, back, ms, path, secs};
use howdah_core::{Rate, Span};
use howdah_path::PathConfig;
use howdah_rivals::tcp::{ReceiverConfig, Supply, TcpConfig};

/// Acknowledgements for `bytes` that arrive without loss.
fn acks(receiver: &ReceiverConfig, bytes: u64) -> u64 {
    let rtt = Span::from_millis(20);
    let forward = path(Rate::from_mbit_per_sec(100), rtt, 10_000);
    let mut run = Run::new(
        1,
        (&forward, &back(rtt)),
        (&TcpConfig::modern(), receiver),
        Supply::Sized { bytes },
    );
    run.world.run_until(secs(10));
    assert!(run.sender().finished_at.is_some());
    // Without SYN-ACK and FIN.
    run.world.endpoint(run.ends.b).acks_sent() - 2
}

#[test]
fn acknowledgements_per_segment() {
    let segments = 1000;
    let bytes = segments * 1448;
    for (receiver, expected) in [
        (ReceiverConfig::winxp_sp2(), segments / 2),
        (ReceiverConfig::freebsd53(), segments / 2),
        (ReceiverConfig::linux24(), 16 + (segments - 16) / 2),
        (ReceiverConfig::modern(), 16 + (segments - 16) / 2),
        (ReceiverConfig::modern().acking_every(1), segments),
        (ReceiverConfig::winxp_sp2().acking_every(8), segments / 8),
    ] {
        let seen = acks(&receiver, bytes);
        // The delayed-ACK timer cuts in a few times while the window is small.
        assert!(
            seen.abs_diff(expected) <= 6,
            "{}: {seen} against {expected}",
            receiver.acks.name
        );
    }
}

/// One segment in flight: each waits for the timer, and that is what the transfer takes.
#[test]
fn a_single_segment_waits_for_the_timer_of_its_system() {
    let rtt = Span::from_millis(20);
    for (receiver, wait_ms) in [
        (ReceiverConfig::freebsd53(), 100),
        (ReceiverConfig::winxp_sp2(), 200),
    ] {
        let config = TcpConfig {
            initial_window_segments: 1,
            send_buffer_bytes: 1448,
            // No probes or timeouts in between.
            min_rto: Span::from_secs(1),
            ..TcpConfig::linux26()
        };
        let mut run = Run::new(
            1,
            (&PathConfig::default(), &back(rtt * 2)),
            (&config, &receiver),
            Supply::Sized { bytes: 11 * 1448 },
        );
        run.world.run_until(secs(10));
        let finished = run.sender().finished_at.unwrap();
        // Ten rounds wait; FIN, in the eleventh, does not.
        let expected = ms(10 * (wait_ms + 20) + 2 * 20);
        assert!(
            finished.nanos_after(expected).abs() < 1_000_000,
            "{}: {finished} against {expected}",
            receiver.acks.name
        );
        assert_eq!(run.sender().timeouts, 0);
    }
}

/// A sender that counts acknowledgements climbs more slowly when they are fewer (facts: the slower
/// start with Windows XP receivers).
#[test]
fn ack_counting_makes_slow_start_slower() {
    let reached = |config: &TcpConfig, receiver: &ReceiverConfig| {
        let rtt = Span::from_millis(100);
        let forward = path(Rate::from_gbit_per_sec(1), rtt, 100_000);
        let mut run = Run::new(
            1,
            (&forward, &back(rtt)),
            (config, receiver),
            Supply::Endless,
        );
        run.world.run_until(ms(1050));
        run.sender().cwnd_bytes.unwrap() / 1448
    };
    let counting = TcpConfig::linux24();
    let every = reached(&counting, &ReceiverConfig::linux24().acking_every(1));
    let quick = reached(&counting, &ReceiverConfig::linux24());
    let slow = reached(&counting, &ReceiverConfig::winxp_sp2());
    let bytes = reached(
        &TcpConfig {
            initial_window_segments: 2,
            ..TcpConfig::modern()
        },
        &ReceiverConfig::winxp_sp2(),
    );
    // Nine round trips of data: times 2 each, times 1.5 each.
    assert!((900..=1100).contains(&every), "{every}");
    assert!(slow < quick && quick < every, "{slow} {quick} {every}");
    assert!(slow < 110, "{slow}");
    assert!(bytes > 800, "{bytes}");
}

#[test]
fn an_on_off_source_sends_its_bursts() {
    let rtt = Span::from_millis(20);
    let forward = path(Rate::from_mbit_per_sec(100), rtt, 10_000);
    let mut run = Run::new(
        1,
        (&forward, &back(rtt)),
        (&TcpConfig::modern(), &ReceiverConfig::modern()),
        Supply::OnOff {
            burst_bytes: 144_800,
            period: Span::from_secs(1),
            total_bytes: Some(448_880),
        },
    );
    run.world.run_until(ms(900));
    assert_eq!(run.receiver().delivered_bytes, 144_800);
    run.world.run_until(ms(1900));
    assert_eq!(run.receiver().delivered_bytes, 289_600);
    run.world.run_until(ms(4500));
    assert_eq!(run.receiver().delivered_bytes, 448_880);
    assert!(run.sender().finished_at.is_some());
    assert_eq!(run.sender().retransmitted_bytes, 0);
}
