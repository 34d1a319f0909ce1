//! The path MTU: found by probes, followed when it shrinks, not lowered by ordinary loss.

use crate::support::{Net, at, config, for_seeds, ms, path, secs};
use howdah_core::Rate;
use howdah_path::{LossModel, PathConfig};
use howdah_proto::{Config, Policy};

fn with_mtu(mtu: u32) -> PathConfig {
    path(Rate::from_mbit_per_sec(500), ms(20), mtu)
}

#[test]
fn common_sizes_are_found_exactly_and_others_closely() {
    for (mtu, least) in [
        (9_000, 8_972),
        (1_500, 1_472),
        (1_280, 1_252),
        (3_000, 2_948),
        (1_228, 1_200),
    ] {
        let mut net = Net::symmetric(1, &with_mtu(mtu));
        net.upload(20_000_000);
        net.run_to_end(secs(20), "search");
        net.world.run_until(at(secs(22)));
        for node in [net.client(), net.server()] {
            let size = node.connection().datagram_size();
            assert!(
                (least..=mtu as u16 - 28).contains(&size),
                "MTU {mtu}: {size}"
            );
            assert_eq!(node.connection().stats().black_holes, 0);
        }
        // Probes are few: the search is over after a handful of round trips.
        let dropped = net.world.path(net.link.forward).counters().dropped_mtu;
        assert!(dropped <= 40, "MTU {mtu}: {dropped} probes lost");
    }
}

#[test]
fn no_datagram_is_larger_than_the_peer_takes() {
    let small = Config {
        max_datagram: 1_300,
        ..config()
    };
    let mut net = Net::with(1, &with_mtu(9_000), &with_mtu(9_000), config(), small);
    net.upload(1_000_000);
    net.download(1_000_000);
    net.run_to_end(secs(10), "small peer");
    for node in [net.client(), net.server()] {
        assert_eq!(node.connection().datagram_size(), 1_300);
    }
}

#[test]
fn a_path_that_shrinks_without_a_word_is_followed() {
    for (from, to) in [
        (9_000, 1_500),
        (9_000, 1_280),
        (1_500, 1_280),
        (9_000, 3_000),
    ] {
        let mut net = Net::symmetric(2, &with_mtu(from));
        let id = net.upload(80_000_000);
        net.world.run_until(at(ms(500)));
        assert_eq!(
            u32::from(net.client().connection().datagram_size()),
            from - 28
        );
        for path in [net.link.forward, net.link.backward] {
            net.world.set_path_config(path, &with_mtu(to));
        }
        let before = net.server().connection().received_bytes(id);
        // Three probe timeouts (F46): each an RTT and the longest time between reports.
        net.world.run_until(at(ms(500) + ms(3 * 100)));
        let size = u32::from(net.client().connection().datagram_size());
        assert!(size <= to - 28, "{from} -> {to}: still {size}");
        net.world.run_until(at(ms(1_300)));
        assert!(net.server().connection().received_bytes(id) > before);
        let spent = net.run_to_end(secs(20), "shrunken path");
        println!("{from} -> {to}: {spent}");
        let size = u32::from(net.client().connection().datagram_size());
        assert!(
            size > to - 28 - 60 && size <= to - 28,
            "{from} -> {to}: {size}"
        );
        assert_eq!(net.client().connection().stats().black_holes, 1);
    }
}

#[test]
fn ordinary_loss_never_lowers_the_mtu() {
    for_seeds("MTU under loss", 60, |seed| {
        let lossy = PathConfig {
            loss: match seed % 3 {
                0 => LossModel::Bernoulli(0.02),
                1 => LossModel::Bernoulli(0.10),
                _ => LossModel::GilbertElliott {
                    p_enter_bad: 0.002,
                    p_leave_bad: 0.04,
                    loss_good: 0.001,
                    loss_bad: 1.0,
                },
            },
            ..with_mtu(9_000)
        };
        // A burst of the model ends after so many packets, and a handshake sends few.
        let patient = Config {
            handshake_timeout: secs(50),
            // This is not about rate control.
            policy: Policy::Fixed(Rate::from_mbit_per_sec(300)),
            ..config()
        };
        let mut net = Net::with(seed, &lossy, &lossy, patient.clone(), patient);
        net.upload(20_000_000);
        let mut largest = 0;
        while !net.is_done() {
            let now = net.world.now();
            assert!(now < at(secs(60)), "{}", net.client());
            net.world.run_until(now + ms(20));
            let size = net.client().connection().datagram_size();
            assert!(size >= largest, "from {largest} to {size}");
            largest = size;
        }
        assert_eq!(net.client().connection().stats().black_holes, 0);
    });
}
