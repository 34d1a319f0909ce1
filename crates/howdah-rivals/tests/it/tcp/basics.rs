//! What any connection does.

use crate::tcp::support::{Run, back, ms, path, secs};
use howdah_core::{Observe, Rate, Span};
use howdah_rivals::tcp::{ReceiverConfig, Supply, TcpConfig, cc};

#[test]
fn a_file_arrives_and_both_sides_know_when() {
    let rtt = Span::from_millis(20);
    let forward = path(Rate::from_mbit_per_sec(100), rtt, 1000);
    for bytes in [0, 1, 1447, 1448, 1449, 1_000_000] {
        let mut run = Run::new(
            1,
            (&forward, &back(rtt)),
            (&TcpConfig::modern(), &ReceiverConfig::modern()),
            Supply::Sized { bytes },
        );
        run.world.run_until(secs(5));
        let (sender, receiver) = (run.sender(), run.receiver());
        assert_eq!(receiver.delivered_bytes, bytes);
        let (known, arrived) = (sender.finished_at.unwrap(), receiver.finished_at.unwrap());
        assert!(known > arrived && known <= arrived + rtt, "{bytes} bytes");
        assert_eq!(sender.retransmitted_bytes, 0);
        assert_eq!((sender.timeouts, sender.lost_packets), (0, 0));
        // A round trip for the handshake, half of one for the data: nothing waits for more.
        if bytes < 1500 {
            assert!(arrived < ms(31), "{bytes} bytes at {arrived}");
        }
    }
}

#[test]
fn a_snapshot_names_the_live_algorithm() {
    let rtt = Span::from_millis(20);
    for entry in cc::ALL {
        let mut run = Run::new(
            1,
            (&path(Rate::from_mbit_per_sec(100), rtt, 100), &back(rtt)),
            (
                &TcpConfig::modern().with(*entry),
                &ReceiverConfig::winxp_sp2(),
            ),
            Supply::Endless,
        );
        run.world.run_until(secs(2));
        let near = run.sender();
        assert!(near.algorithm.starts_with(entry.name), "{}", near.algorithm);
        assert!(near.cwnd_bytes > Some(10 * 1448), "{near:?}");
        assert!(near.srtt >= Some(rtt), "{near:?}");
        assert_eq!(run.receiver().algorithm, "receiver/winxp_sp2");
    }
}

/// A cached threshold ends slow start where it says, and limited slow start (RFC 3742) adds at
/// most half of its limit in a round trip.
#[test]
fn slow_start_can_be_cut_short_or_limited() {
    let rtt = Span::from_millis(100);
    let forward = path(Rate::from_gbit_per_sec(1), rtt, 100_000);
    let cwnd_after = |slow_start: cc::SlowStart| {
        let config = TcpConfig {
            slow_start,
            ..TcpConfig::modern()
        };
        let mut run = Run::new(
            1,
            (&forward, &back(rtt)),
            (&config, &ReceiverConfig::modern()),
            Supply::Endless,
        );
        run.world.run_until(ms(1050));
        run.sender().cwnd_bytes.expect("a window") / 1448
    };
    let free = cwnd_after(cc::SlowStart::default());
    assert!((4000..=5120).contains(&free), "{free}");
    let cached = cwnd_after(cc::SlowStart {
        initial_ssthresh_segments: Some(300),
        ..cc::SlowStart::default()
    });
    assert!((300..=306).contains(&cached), "{cached}");
    let limited = cwnd_after(cc::SlowStart {
        max_ssthresh_segments: Some(100),
        ..cc::SlowStart::default()
    });
    // 10, 20, 40, 80, 160 and then about 50 in each of four or five round trips.
    assert!((280..=420).contains(&limited), "{limited}");
}

/// The engine's own pacing: the link is full, bursts or not, and slow start loses less in a short
/// queue than without.
#[test]
fn pacing_spares_a_short_queue() {
    let rtt = Span::from_millis(50);
    let forward = path(Rate::from_mbit_per_sec(100), rtt, 60);
    let run = |config: TcpConfig| {
        let mut run = Run::new(
            1,
            (&forward, &back(rtt)),
            (&config, &ReceiverConfig::modern()),
            Supply::Endless,
        );
        run.world.run_until(secs(2));
        let early = run.sender().cwnd_bytes;
        (early, run.goodput(secs(20), secs(80)), run.sender())
    };
    let (burst_early, ..) = run(TcpConfig::modern());
    for burst_segments in [1, 8] {
        let (early, goodput, near) = run(TcpConfig {
            pacing: true,
            burst_segments,
            ..TcpConfig::modern()
        });
        assert!(near.pacing_rate.is_some());
        // 60 packets are a seventh of the path's product: halving from there leaves 57 % of the
        // rate, so a sawtooth's mean is just above three quarters of 94 Mbit/s.
        assert!(goodput > 0.75 * 94.1, "{goodput}: {near:?}");
        assert!(
            early > burst_early.map(|bytes| bytes * 3 / 2),
            "{early:?} {burst_early:?}"
        );
        assert_eq!(near.timeouts, 0);
    }
}

/// Two flows of the same kind share a link; the one that starts later gets its part.
#[test]
fn two_flows_share_a_link() {
    let rtt = Span::from_millis(20);
    let mut run = Run::new(
        1,
        (&path(Rate::from_mbit_per_sec(100), rtt, 100), &back(rtt)),
        (&TcpConfig::modern(), &ReceiverConfig::modern()),
        Supply::Endless,
    );
    let late = run.add(
        secs(5),
        (&TcpConfig::modern(), &ReceiverConfig::modern()),
        Supply::Endless,
    );
    run.world.run_until(secs(30));
    let delivered = |run: &Run| {
        [run.ends.b, late.b].map(|end| run.world.endpoint(end).snapshot().delivered_bytes)
    };
    let before = delivered(&run);
    run.world.run_until(secs(150));
    let after = delivered(&run);
    let share = [0, 1].map(|at| (after[at] - before[at]) as f64 * 8e-6 / 120.0);
    let fairness = (share[0] + share[1]).powi(2) / (2.0 * (share[0].powi(2) + share[1].powi(2)));
    assert!(share[0] + share[1] > 90.0, "{share:?}");
    assert!(fairness > 0.9, "{share:?}");
}

#[test]
fn a_clean_link_is_filled() {
    let rtt = Span::from_millis(20);
    let rate = Rate::from_mbit_per_sec(100);
    for (config, receiver) in [
        (TcpConfig::linux24(), ReceiverConfig::linux24()),
        (TcpConfig::linux26(), ReceiverConfig::linux26()),
        (TcpConfig::modern(), ReceiverConfig::modern()),
        (TcpConfig::modern(), ReceiverConfig::freebsd53()),
        (TcpConfig::modern(), ReceiverConfig::winxp_sp2()),
    ] {
        let mut run = Run::new(
            1,
            (&path(rate, rtt, 200), &back(rtt)),
            (&config, &receiver),
            Supply::Endless,
        );
        let goodput = run.goodput(secs(4), secs(10));
        let ceiling = 100.0 * 1448.0 / 1538.0;
        assert!(
            goodput > 0.98 * ceiling && goodput <= ceiling * 1.001,
            "{}: {goodput} of {ceiling}; {:?}",
            receiver.acks.name,
            run.sender()
        );
    }
}
