//! Published laws, and what the papers measured.

use crate::tcp::support::{Run, back, path, secs};
use howdah_core::{Rate, Span};
use howdah_path::{LossModel, PathConfig, QueueLimit};
use howdah_rivals::tcp::{ReceiverConfig, Supply, TcpConfig};

fn reno(
    rate: Rate,
    rtt: Span,
    loss: f64,
    (config, receiver): (&TcpConfig, &ReceiverConfig),
    until_s: u64,
) -> f64 {
    let forward = PathConfig {
        loss: LossModel::Bernoulli(loss),
        queue: QueueLimit::Unlimited,
        ..path(rate, rtt, 0)
    };
    let mut run = Run::new(
        7,
        (&forward, &back(rtt)),
        (config, receiver),
        Supply::Endless,
    );
    run.goodput(secs(20), secs(until_s))
}

/// The mean window of additive increase and halving under independent losses, in segments, with b
/// segments for each acknowledgement that is counted: 1.31 / sqrt(b p) (Ott, Kemperman and Mathis
/// 1996). For periodic losses it is sqrt(3 / 2) = 1.22 (Mathis, Semke, Mahdavi and Ott 1997).
fn mean_window(segments_per_ack: f64, loss: f64) -> f64 {
    1.31 / (segments_per_ack * loss).sqrt()
}

#[test]
fn reno_follows_mathis() {
    let rtt = Span::from_millis(50);
    let rate = Rate::from_gbit_per_sec(10);
    let receiver = ReceiverConfig::modern();
    for (loss, until_s) in [(1e-4, 1500), (1e-3, 500), (4e-3, 300)] {
        for (config, per_ack) in [(TcpConfig::modern(), 1.0), (TcpConfig::linux26(), 2.0)] {
            let window = mean_window(per_ack, loss);
            let expected = window * 1448.0 * 8e-6 / rtt.as_secs_f64();
            let seen = reno(rate, rtt, loss, (&config, &receiver), until_s);
            assert!(
                (0.88..1.12).contains(&(seen / expected)),
                "p {loss}, b {per_ack}: {seen} against {expected}"
            );
        }
    }
}

/// K13app's own remark on iperf: 40 Mbit/s at 10 Gbit/s, 50 ms, 0.1 %, and up to 60 with large
/// buffers. Counting acknowledgements of two segments, as its kernel did, gives the one; counting
/// segments the other.
#[test]
fn ten_gigabit_with_a_thousandth_lost() {
    let rtt = Span::from_millis(50);
    let jumbo = |config: TcpConfig, receiver: ReceiverConfig| {
        (
            TcpConfig {
                mtu: 8900,
                ..config
            },
            ReceiverConfig {
                mtu: 8900,
                ..receiver
            },
        )
    };
    for ((config, receiver), expected) in [
        (
            jumbo(TcpConfig::linux26(), ReceiverConfig::linux26()),
            39.0..55.0,
        ),
        (
            jumbo(TcpConfig::modern(), ReceiverConfig::modern()),
            50.0..65.0,
        ),
    ] {
        assert_eq!(config.mss_bytes(), 8848);
        let seen = reno(
            Rate::from_gbit_per_sec(10),
            rtt,
            1e-3,
            (&config, &receiver),
            600,
        );
        assert!(expected.contains(&seen), "{seen}");
    }
}

#[test]
fn a_clean_ten_gigabit_link_is_full() {
    for (rtt, from, to) in [
        (Span::from_micros(150), 1, 2),
        (Span::from_millis(10), 2, 3),
    ] {
        let forward = PathConfig {
            queue: QueueLimit::Unlimited,
            ..path(Rate::from_gbit_per_sec(10), rtt, 0)
        };
        let config = TcpConfig {
            mtu: 9000,
            ..TcpConfig::modern()
        };
        let receiver = ReceiverConfig {
            mtu: 9000,
            receive_buffer_bytes: 64 << 20,
            ..ReceiverConfig::modern()
        };
        let mut run = Run::new(
            1,
            (&forward, &back(rtt)),
            (&config, &receiver),
            Supply::Endless,
        );
        let goodput = run.goodput(secs(from), secs(to));
        let ceiling = 10_000.0 * 8948.0 / 9038.0;
        assert!(
            goodput > 0.998 * ceiling && goodput < 1.001 * ceiling,
            "{rtt}: {goodput} of {ceiling}"
        );
    }
}
