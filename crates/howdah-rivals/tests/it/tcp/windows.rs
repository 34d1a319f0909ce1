//! Windows, their limits, and sequence numbers that wrap.

use crate::tcp::support::{Run, back, path, secs};
use howdah_core::{Rate, Span};
use howdah_path::{LossModel, PathConfig};
use howdah_rivals::tcp::{ReceiverConfig, Supply, TcpConfig};

/// Goodput of a flow that only windows hold back, in Mbit/s.
fn limited(config: &TcpConfig, receiver: &ReceiverConfig, rtt: Span) -> f64 {
    let forward = path(Rate::from_gbit_per_sec(10), rtt, 100_000);
    let mut run = Run::new(
        1,
        (&forward, &back(rtt)),
        (config, receiver),
        Supply::Endless,
    );
    let goodput = run.goodput(secs(3), secs(5));
    assert_eq!(run.sender().lost_packets, 0);
    goodput
}

#[test]
fn a_receive_window_gives_window_over_round_trip() {
    let rtt = Span::from_millis(50);
    for buffer in [65_536_u64, 1 << 20, 16 << 20] {
        let receiver = ReceiverConfig {
            receive_buffer_bytes: buffer,
            ..ReceiverConfig::linux24()
        };
        let goodput = limited(&TcpConfig::modern(), &receiver, rtt);
        let segments = buffer / 1448;
        let expected = segments as f64 * 1448.0 * 8e-6 / rtt.as_secs_f64();
        // The window is used in whole segments; serialisation adds a little to the round trip.
        assert!(
            (goodput / expected - 1.0).abs() < 0.03,
            "{buffer}: {goodput} against {expected}"
        );
    }
}

/// Linux's waiting for larger bursts costs a window of tens of segments some per cent, and one of hundreds
/// nothing (docs/rivals/tcp.md). The same packets are lost in both runs.
#[test]
fn small_windows_lose_half_a_burst_by_waiting() {
    let goodput = |rtt, loss, defers_small_bursts| {
        let config = TcpConfig {
            defers_small_bursts,
            ..TcpConfig::modern()
        };
        let lossy = PathConfig {
            loss: LossModel::Bernoulli(loss),
            ..path(Rate::from_gbit_per_sec(1), rtt, 10_000)
        };
        let ends = (&config, &ReceiverConfig::modern());
        let mut run = Run::new(1, (&lossy, &back(rtt)), ends, Supply::Endless);
        run.goodput(secs(2), secs(60))
    };
    let ratio = |rtt, loss| goodput(rtt, loss, true) / goodput(rtt, loss, false);
    let small = ratio(Span::from_millis(10), 1e-3);
    assert!((0.85..0.98).contains(&small), "{small}");
    let large = ratio(Span::from_millis(50), 1e-5);
    assert!((0.95..1.05).contains(&large), "{large}");
}

#[test]
fn a_send_buffer_does_the_same() {
    let rtt = Span::from_millis(50);
    let config = TcpConfig {
        send_buffer_bytes: 4_000_000,
        ..TcpConfig::modern()
    };
    let goodput = limited(&config, &ReceiverConfig::modern(), rtt);
    let expected = 4e6 * 8e-6 / rtt.as_secs_f64();
    assert!(
        (goodput / expected - 1.0).abs() < 0.03,
        "{goodput} against {expected}"
    );
}

#[test]
fn without_scaling_the_window_ends_at_64_kib() {
    let rtt = Span::from_millis(50);
    let bare = TcpConfig {
        window_scaling: false,
        ..TcpConfig::modern()
    };
    let small = ReceiverConfig {
        max_window_scale: None,
        ..ReceiverConfig::modern()
    };
    let expected = f64::from(65_535 / 1448 * 1448) * 8e-6 / rtt.as_secs_f64();
    for goodput in [
        limited(&bare, &ReceiverConfig::modern(), rtt),
        limited(&TcpConfig::modern(), &small, rtt),
    ] {
        assert!(
            (goodput / expected - 1.0).abs() < 0.03,
            "{goodput} against {expected}"
        );
    }
}

#[test]
fn linux26_uses_three_quarters_of_its_buffer() {
    let rtt = Span::from_millis(200);
    let receiver = ReceiverConfig {
        receive_buffer_bytes: 8 << 20,
        ..ReceiverConfig::linux26()
    };
    let forward = path(Rate::from_gbit_per_sec(10), rtt, 100_000);
    let config = TcpConfig::linux26();
    let mut run = Run::new(
        1,
        (&forward, &back(rtt)),
        (&config, &receiver),
        Supply::Endless,
    );
    let goodput = run.goodput(secs(8), secs(12));
    let expected = f64::from(6 << 20) * 8e-6 / rtt.as_secs_f64();
    assert!(
        (goodput / expected - 1.0).abs() < 0.03,
        "{goodput} against {expected}"
    );
}

#[test]
fn sequence_numbers_wrap() {
    let rtt = Span::from_millis(10);
    for (near, far, loss) in [
        (u32::MAX, u32::MAX, 0.0),
        (u32::MAX - 5_000, 7, 0.01),
        ((1 << 31) - 9_000, u32::MAX - 1, 0.01),
    ] {
        let mut forward = path(Rate::from_mbit_per_sec(100), rtt, 300);
        forward.loss = LossModel::Bernoulli(loss);
        let config = TcpConfig {
            initial_sequence: near,
            ..TcpConfig::modern()
        };
        let receiver = ReceiverConfig {
            initial_sequence: far,
            ..ReceiverConfig::modern()
        };
        let mut run = Run::new(
            1,
            (&forward, &back(rtt)),
            (&config, &receiver),
            Supply::Sized { bytes: 2_000_000 },
        );
        run.world.run_until(secs(60));
        assert_eq!(run.receiver().delivered_bytes, 2_000_000);
        assert!(run.sender().finished_at.is_some());
    }
}

#[test]
fn a_file_larger_than_the_sequence_space_arrives() {
    let rtt = Span::from_millis(1);
    let mut forward = path(Rate::from_gbit_per_sec(100), rtt, 10_000);
    forward.loss = LossModel::Bernoulli(1e-5);
    let bytes = (4 << 30) + (300 << 20) + 17;
    let config = TcpConfig {
        mtu: 64_000,
        ..TcpConfig::modern()
    };
    let receiver = ReceiverConfig {
        mtu: 64_000,
        ..ReceiverConfig::modern()
    };
    let mut run = Run::new(
        1,
        (&forward, &back(rtt)),
        (&config, &receiver),
        Supply::Sized { bytes },
    );
    run.world.run_until(secs(10));
    assert_eq!(run.receiver().delivered_bytes, bytes);
    let near = run.sender();
    assert!(near.finished_at.is_some());
    assert_eq!(near.sent_bytes - near.retransmitted_bytes, bytes);
}
