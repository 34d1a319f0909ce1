//! What any connection does.

use crate::support::{Run, back, ms, path, secs};
use howdah_core::{Rate, Span};
use howdah_rivals::tcp::{ReceiverConfig, Supply, TcpConfig};

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
