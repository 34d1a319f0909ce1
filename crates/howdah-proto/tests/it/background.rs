//! The `background` policy: an idle link is filled, and `fair` flows hardly notice that it is there. (That TCP hardly
//! notices, either, is tested where TCP is: in howdah-lab.)

use crate::support::{Net, at, config, ms, path, secs};
use howdah_core::{ObjectId, Rate, Span};
use howdah_path::{LossModel, PathConfig, QueueLimit};
use howdah_proto::sim::SimEndpoint;
use howdah_proto::{Config, Policy};
use howdah_sim::{Flow, FlowEnds, Link, World};

fn background() -> Config {
    Config {
        policy: Policy::Background,
        ..config()
    }
}

/// Flows on one link.
struct Shared {
    world: World<SimEndpoint>,
    link: Link,
}

impl Shared {
    fn new(seed: u64, path: &PathConfig) -> Self {
        let mut world = World::new(seed);
        let link = world.add_link(path, path);
        Self { world, link }
    }

    /// A flow between hosts of its own that begins now and has `size` bytes, or no end.
    fn add(&mut self, config: &Config, size: Option<u64>) -> FlowEnds {
        let start = self.world.now();
        let (near, far) = (self.world.add_host("near"), self.world.add_host("far"));
        let (a, b) = (self.world.next_seed(), self.world.next_seed());
        let sender = SimEndpoint::sender(start, config.clone(), a, size);
        let receiver = SimEndpoint::receiver(start, config.clone(), a, b, size);
        let flow = Flow::between((near, sender), (far, receiver)).over(self.link);
        self.world.add_flow(flow)
    }

    fn received(&self, flow: FlowEnds) -> u64 {
        self.world
            .endpoint(flow.b)
            .connection()
            .received_bytes(ObjectId::new(0))
    }

    /// Goodput of each flow between two times.
    fn rates<const N: usize>(&mut self, flows: [FlowEnds; N], from: Span, to: Span) -> [Rate; N] {
        self.world.run_until(at(from));
        let before = flows.map(|flow| self.received(flow));
        self.world.run_until(at(to));
        let after = flows.map(|flow| self.received(flow));
        std::array::from_fn(|i| {
            Rate::from_bytes_over(after[i] - before[i], to.saturating_sub(from))
        })
    }
}

#[test]
fn an_idle_link_is_filled() {
    let mut findings = Vec::new();
    for (mbit, rtt, percent, mtu, queue) in [
        (20, 20, 0.0, 1_500, 25),
        (100, 10, 0.0, 1_500, 25),
        (100, 100, 0.1, 1_500, 25),
        // Start-up overshoots and loses; few packets follow.
        (200, 20, 0.0, 9_000, 20),
        (200, 20, 0.0, 9_000, 8),
        (50, 40, 0.0, 9_000, 10),
        (1_000, 2, 0.0, 1_500, 25),
        (1_000, 50, 0.0, 9_000, 25),
        (1_000, 50, 0.0, 1_500, 5),
        // A queue shorter than the target, until it has overflowed.
        (1_000, 2, 0.0, 9_000, 1),
        (1_000, 20, 0.0, 9_000, 1),
        (1_000, 100, 0.0, 1_500, 1),
        (1_000, 100, 0.0, 9_000, 5),
        (1_000, 20, 0.1, 1_500, 1),
        (1_000, 20, 0.1, 1_500, 3),
        (100, 40, 0.0, 1_500, 4),
        (10_000, 50, 0.0, 9_000, 1),
        (10_000, 2, 0.0, 9_000, 1),
        (1_000, 200, 0.5, 9_000, 25),
        (10_000, 20, 0.0, 9_000, 25),
        (10_000, 100, 0.1, 9_000, 25),
    ] {
        let rate = Rate::from_mbit_per_sec(mbit);
        let lossy = PathConfig {
            loss: LossModel::Bernoulli(percent / 100.0),
            queue: QueueLimit::Time(ms(queue)),
            ..path(rate, ms(rtt), mtu)
        };
        let mut net = Net::with(1, &lossy, &lossy, background(), background());
        let id = net.upload(1 << 42);
        net.world.run_until(at(secs(10)));
        let before = net.server().connection().received_bytes(id);
        net.world.run_until(at(secs(20)));
        let after = net.server().connection().received_bytes(id);
        let got = Rate::from_bytes_over(after - before, secs(10));
        let state = net.client().connection().describe_rate();
        println!("{mbit} Mbit/s, {rtt} ms, {percent} %: {got}; {state}");
        if got < rate.mul_f64(0.75) {
            findings.push(format!(
                "{mbit} Mbit/s, {rtt} ms, {percent} %: {got}; {state}"
            ));
        }
    }
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

#[test]
fn it_gives_way_to_a_fair_flow_and_comes_back() {
    let mut findings = Vec::new();
    for (mbit, rtt, queue, mtu) in [
        (100, 20, 25, 1_500),
        (1_000, 50, 25, 9_000),
        (1_000, 10, 100, 1_500),
        (10_000, 50, 25, 9_000),
    ] {
        let rate = Rate::from_mbit_per_sec(mbit);
        let path = PathConfig {
            queue: QueueLimit::Time(ms(queue)),
            ..path(rate, ms(rtt), mtu)
        };
        let mut shared = Shared::new(1, &path);
        let low = shared.add(&background(), None);
        let [alone] = shared.rates([low], secs(5), secs(8));
        // 20 s of the whole link.
        let fair = shared.add(&config(), Some(rate.bytes_in(secs(20))));
        let [left, taken] = shared.rates([low, fair], secs(13), secs(25));
        let [again] = shared.rates([low], secs(34), secs(38));
        let case = format!(
            "{mbit} Mbit/s, {rtt} ms, queue {queue} ms: alone {alone}, beside fair {left} ({taken} \
             for that), afterwards {again}"
        );
        println!("{case}");
        let good = alone > rate.mul_f64(0.7)
            && left < rate.mul_f64(0.1)
            && taken > rate.mul_f64(0.8)
            && again > rate.mul_f64(0.6);
        if !good {
            findings.push(case);
        }
    }
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

/// A latecomer that never saw the path without a queue.
#[test]
fn it_gives_way_when_it_comes_second() {
    let rate = Rate::from_gbit_per_sec(1);
    let mut shared = Shared::new(2, &path(rate, ms(40), 9_000));
    let fair = shared.add(&config(), None);
    shared.world.run_until(at(secs(5)));
    let low = shared.add(&background(), None);
    let [left, taken] = shared.rates([low, fair], secs(15), secs(30));
    println!("second: {left}, fair {taken}");
    assert!(left < rate.mul_f64(0.1), "{left}");
    assert!(taken > rate.mul_f64(0.8), "{taken}");
}

#[test]
fn a_cap_is_kept_and_can_be_lifted_and_a_pause_ends() {
    for policy in [
        Policy::Fair,
        Policy::Background,
        Policy::Fixed(Rate::from_mbit_per_sec(500)),
    ] {
        let config = Config { policy, ..config() };
        let rate = Rate::from_gbit_per_sec(1);
        let mut shared = Shared::new(3, &path(rate, ms(20), 1_500));
        let flow = shared.add(&config, None);
        let sender = flow.a;
        let set = |shared: &mut Shared, cap: Option<u64>, paused: bool| {
            let now = shared.world.now();
            let connection = shared.world.endpoint_mut(sender).connection_mut();
            connection.set_rate_cap(now, cap.map(Rate::from_mbit_per_sec));
            connection.set_paused(paused);
        };
        set(&mut shared, Some(50), false);
        let sent = |shared: &Shared| {
            let stats = shared.world.endpoint(sender).connection().stats();
            stats.bytes_sent + 28 * stats.datagrams_sent
        };
        shared.world.run_until(at(secs(2)));
        let before = sent(&shared);
        shared.world.run_until(at(secs(4)));
        let wire = Rate::from_bytes_over(sent(&shared) - before, secs(2));
        let range = Rate::from_mbit_per_sec(46)..=Rate::from_mbit_per_sec(51);
        assert!(
            range.contains(&wire),
            "{policy:?}: {wire} with a cap of 50 Mbit/s"
        );
        assert!(shared.world.endpoint(sender).connection().rate_is_capped());

        set(&mut shared, None, true);
        shared.world.run_until(at(secs(4) + ms(100)));
        let [rest] = shared.rates([flow], secs(5), secs(20));
        assert_eq!(rest, Rate::ZERO, "{policy:?} is paused");

        set(&mut shared, None, false);
        let [free] = shared.rates([flow], secs(25), secs(28));
        assert!(free > Rate::from_mbit_per_sec(400), "{policy:?}: {free}");
        assert!(!shared.world.endpoint(sender).connection().rate_is_capped());
    }
}

/// What is told before a copy can be very many names.
#[test]
fn control_bytes_keep_a_cap_with_data_and_without_and_pass_a_pause() {
    const MESSAGE: usize = 60_000;
    let policies = [Policy::Fair, Policy::Background];
    for (policy, mtu) in policies.into_iter().flat_map(|p| [(p, 1_500), (p, 9_000)]) {
        let config = Config { policy, ..config() };
        let path = path(Rate::from_gbit_per_sec(1), ms(20), mtu);
        let mut net = Net::with(3, &path, &path, config.clone(), config);
        let client = net.ends.a;
        let sent = |net: &Net| {
            let stats = net.client().connection().stats();
            stats.bytes_sent + 28 * stats.datagrams_sent
        };
        let tell = |net: &mut Net, messages: usize| {
            let ends = net.ends;
            let connection = net.world.endpoint_mut(ends.a).connection_mut();
            (0..messages).for_each(|_| connection.send_control(&vec![7; MESSAGE]));
            net.world.endpoint_mut(ends.b).expect_control(messages);
        };
        let case = |what: &str| format!("{policy:?}, {mtu} bytes, {what}");
        let cap = |net: &mut Net, cap: Rate, paused: bool| {
            let now = net.world.now();
            let connection = net.world.endpoint_mut(client).connection_mut();
            connection.set_rate_cap(now, Some(cap));
            connection.set_paused(paused);
        };
        let mbit = Rate::from_mbit_per_sec;
        cap(&mut net, mbit(2), false);
        tell(&mut net, 40);
        net.world.run_until(at(secs(1)));
        for what in ["alone", "with data"] {
            let (from, before) = (net.world.now(), sent(&net));
            net.world.run_until(from + secs(2));
            let wire = Rate::from_bytes_over(sent(&net) - before, secs(2));
            let range = mbit(2).mul_f64(0.95)..=mbit(2).mul_f64(1.06);
            println!("{}: {wire}", case(what));
            assert!(range.contains(&wire), "{}: {wire}", case(what));
            assert!(!net.server().is_done(), "{}: words were left", case(what));
            net.upload(1 << 20);
        }
        // A pause is no reason to say nothing: it may be the word that ends it.
        cap(&mut net, mbit(400), true);
        tell(&mut net, 1);
        net.world.run_until(at(secs(40)));
        assert_eq!(net.server().control.len(), 41, "{}", case("paused"));
        cap(&mut net, mbit(400), false);
        net.run_to_end(secs(60), &case("to its end"));
    }
}

#[test]
fn control_bytes_begin_as_slowly_as_data_in_the_background() {
    for (policy, most) in [(Policy::Background, 100_000), (Policy::Fair, 500_000)] {
        let config = Config { policy, ..config() };
        let path = path(Rate::from_gbit_per_sec(1), ms(100), 1_500);
        let mut net = Net::with(4, &path, &path, config.clone(), config);
        let ends = net.ends;
        net.world.run_while(
            |world| world.endpoint(ends.a).connected.is_none(),
            at(secs(5)),
        );
        let before = net.client().connection().stats().bytes_sent;
        let connection = net.world.endpoint_mut(ends.a).connection_mut();
        let word = vec![7; 60_000];
        for _ in 0..10 {
            connection.send_control(&word);
        }
        net.world.endpoint_mut(ends.b).expect_control(10);
        let until = net.world.now() + ms(90);
        net.world.run_until(until);
        // A window of them is 200 kB, and each goes twice.
        let sent = net.client().connection().stats().bytes_sent - before;
        println!("{policy:?}: {sent} bytes in the first round trip");
        assert!(sent <= most && sent > most / 4, "{policy:?}: {sent}");
        net.run_to_end(secs(20), &format!("{policy:?}"));
    }
}
