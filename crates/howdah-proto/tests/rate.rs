//! Paths on which a rate control can get stuck. Each asks for little: a tenth of what is there.

mod support;

use howdah_core::{Rate, Span};
use howdah_path::{LossModel, PathConfig, QueueLimit};
use support::{Net, at, for_seeds, ms, path, secs};

/// Rate at which object bytes arrive between two times.
fn rate_between(net: &mut Net, id: u64, from: Span, to: Span) -> Rate {
    net.world.run_until(at(from));
    let before = net.server().connection().received_bytes(id);
    net.world.run_until(at(to));
    let after = net.server().connection().received_bytes(id);
    Rate::from_bytes_over(after - before, to.saturating_sub(from))
}

/// Collects what is too slow, so that one run tells of all cases.
#[derive(Default)]
struct Findings(Vec<String>);

impl Findings {
    fn check(&mut self, case: &str, net: &mut Net, id: u64, (from, to): (Span, Span), least: Rate) {
        let rate = rate_between(net, id, from, to);
        println!("{case}: {rate}");
        if rate < least {
            let state = net.client().connection().describe_rate();
            self.0.push(format!("{case}: {rate}, at least {least}: {state}"));
        }
    }

    fn assert_none(&self) {
        assert!(self.0.is_empty(), "{}", self.0.join("\n"));
    }
}

/// Bursts of many packets do not fit into queues of a few.
#[test]
fn shallow_queues() {
    let mut findings = Findings::default();
    for (packets, mbit, rtt) in [
        (2, 30, 570),
        (2, 390, 155),
        (1, 1_500, 430),
        (4, 1_000, 100),
    ] {
        let case = format!("queue of {packets} packets at {mbit} Mbit/s, {rtt} ms");
        let rate = Rate::from_mbit_per_sec(mbit);
        let shallow = PathConfig {
            queue: QueueLimit::Packets(packets),
            ..path(rate, ms(rtt), 1_500)
        };
        let mut net = Net::symmetric(1, &shallow);
        let id = net.upload(1 << 40);
        findings.check(&case, &mut net, id, (secs(10), secs(15)), rate.mul_f64(0.1));
    }
}

/// Loss that does not fall when the rate falls is not congestion, however much it is.
#[test]
fn high_random_loss() {
    for_seeds("high loss", 6, |seed| {
        let loss = [0.05, 0.1, 0.16, 0.2, 0.25, 0.3][seed as usize % 6];
        for rtt in [ms(1), ms(50)] {
            let rate = Rate::from_mbit_per_sec(500);
            let lossy = PathConfig {
                loss: LossModel::Bernoulli(loss),
                ..path(rate, rtt, 9_000)
            };
            let mut net = Net::symmetric(seed, &lossy);
            let id = net.upload(1 << 40);
            findings.check(&case, &mut net, id, (secs(5), secs(8)), rate.mul_f64(0.1));
        }
    });
}

/// 2 % in bursts that lose everything.
#[test]
fn loss_in_bursts() {
    for_seeds("bursts", 10, |seed| {
        let rate = Rate::from_mbit_per_sec(500);
        let lossy = PathConfig {
            loss: LossModel::GilbertElliott {
                p_enter_bad: 0.001,
                p_leave_bad: 0.05,
                loss_good: 0.0,
                loss_bad: 1.0,
            },
            ..path(rate, ms(20), 9_000)
        };
        let mut net = Net::symmetric(seed, &lossy);
        let id = net.upload(1 << 40);
        findings.check(&case, &mut net, id, (secs(5), secs(8)), rate.mul_f64(0.1));
    });
}

/// A route that becomes longer is not a queue (F48).
#[test]
fn a_round_trip_time_that_jumps_up() {
    let rate = Rate::from_mbit_per_sec(100);
    let mut net = Net::symmetric(7, &path(rate, ms(1), 1_500));
    let id = net.upload(1 << 40);
    for path_id in [net.link.forward, net.link.backward] {
        let longer = path(rate, ms(400), 1_500);
        net.world.at(at(secs(3)), move |world| {
            world.set_path_config(path_id, &longer)
        });
    }
    findings.check(&case, &mut net, id, (secs(6), secs(10)), rate.mul_f64(0.1));
}

/// 1 Gbit/s, 1 Mbit/s, 1 Gbit/s (F49).
#[test]
fn a_rate_that_falls_to_a_thousandth_and_comes_back() {
    let wide = path(Rate::from_gbit_per_sec(1), ms(50), 1_500);
    let narrow = path(Rate::from_mbit_per_sec(1), ms(50), 1_500);
    let mut net = Net::symmetric(8, &wide);
    let id = net.upload(1 << 40);
    for path_id in [net.link.forward, net.link.backward] {
        for (second, config) in [(3, narrow.clone()), (9, wide.clone())] {
            net.world.at(at(secs(second)), move |world| {
                world.set_path_config(path_id, &config)
            });
        }
    }
    findings.check(&case, &mut net, id, (secs(6), secs(9)), Rate::from_bits_per_sec(300_000));
    findings.check(&case, &mut net, id, (secs(13), secs(16)), Rate::from_mbit_per_sec(100));
}
