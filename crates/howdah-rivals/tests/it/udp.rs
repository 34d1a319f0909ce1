//! UDP streams over simulated paths: what the sink counts is what the path did.

use howdah_core::{Observe, Rate, Span, Time};
use howdah_path::{Jitter, LossModel, PathConfig, QueueLimit};
use howdah_rivals::udp::{
    CbrSettings, Extent, OnOffSettings, Periods, Received, SettingsError, UdpEndpoint,
};
use howdah_sim::{Flow, FlowEnds, Link, World};

fn after(span: Span) -> Time {
    Time::ZERO + span
}

fn gigabit() -> PathConfig {
    PathConfig {
        rate: Some(Rate::from_gbit_per_sec(1)),
        queue: QueueLimit::Packets(127),
        delay: Span::from_millis(90),
        ..PathConfig::default()
    }
}

fn world(
    path: &PathConfig,
    sources: Vec<UdpEndpoint>,
) -> (World<UdpEndpoint>, Link, Vec<FlowEnds>) {
    let mut world = World::new(11);
    let (left, right) = (world.add_host("left"), world.add_host("right"));
    let link = world.add_link(path, &PathConfig::default());
    let flows = sources
        .into_iter()
        .map(|source| {
            let flow = Flow::between((left, source), (right, UdpEndpoint::sink())).over(link);
            world.add_flow(flow)
        })
        .collect();
    (world, link, flows)
}

fn received(world: &World<UdpEndpoint>, flow: FlowEnds) -> Received {
    *world.endpoint(flow.b).received().expect("a sink")
}

/// From the start to `stop`.
fn cbr(rate: Rate, payload_bytes: u32, stop: Span) -> Result<UdpEndpoint, SettingsError> {
    let mut settings = CbrSettings::new(rate, payload_bytes);
    settings.extent.stop = Some(after(stop));
    UdpEndpoint::cbr(&settings)
}

#[test]
fn two_voice_streams_lose_nothing_alone() {
    let rate = Rate::from_mbit_per_sec(8);
    let stop = Span::from_secs(10);
    let sources = vec![cbr(rate, 200, stop).unwrap(), cbr(rate, 200, stop).unwrap()];
    let (mut world, _, flows) = world(&gigabit(), sources);
    world.run_until(after(Span::from_secs(11)));
    for flow in flows {
        let got = received(&world, flow);
        assert_eq!(got.packets, 50_000);
        assert_eq!(got.lost(), 0);
        assert_eq!(world.endpoint(flow.a).sent_packets(), Some(50_000));
        // In step with each other, the second waits behind the first each time: no variation.
        assert_eq!(got.mean_jitter(), Span::ZERO);
        let snapshot = world.endpoint(flow.a).snapshot();
        assert!(snapshot.finished_at.is_some_and(|at| at < after(stop)));
    }
}

#[test]
fn an_overload_loses_what_is_too_much() {
    // 1472 bytes of payload are 1538 on the wire: 1200 Mbit/s of payload are 1253.8 there.
    let stop = Span::from_secs(2);
    let source = cbr(Rate::from_mbit_per_sec(1200), 1472, stop).unwrap();
    let (mut world, link, flows) = world(&gigabit(), vec![source]);
    world.run_until(after(Span::from_secs(3)));
    let got = received(&world, flows[0]);
    let expected = 1.0 - 1000.0 / (1200.0 * 1538.0 / 1472.0);
    assert!((got.loss_ratio() - expected).abs() < 2e-3, "{got:?}");
    let sent = world.endpoint(flows[0].a).sent_packets().expect("a source");
    let path = world.path(link.forward).counters();
    assert_eq!(sent - got.packets, path.dropped_queue);
}

#[test]
fn the_sink_counts_what_the_path_did() {
    let path = PathConfig {
        loss: LossModel::Bernoulli(0.01),
        jitter: Jitter::Uniform(Span::from_millis(2)),
        reorder: 1.0,
        duplicate: 0.02,
        corrupt: 0.01,
        ..gigabit()
    };
    let source = cbr(Rate::from_mbit_per_sec(80), 1000, Span::from_secs(5)).unwrap();
    let (mut world, link, flows) = world(&path, vec![source]);
    world.run_until(after(Span::from_secs(6)));
    let got = received(&world, flows[0]);
    let did = world.path(link.forward).counters();
    assert!(did.dropped_loss > 300 && did.duplicated > 600, "{did:?}");
    let arrived = got.packets + got.duplicates + got.corrupt;
    assert_eq!(arrived, did.delivered + did.duplicated);
    // A damaged packet is lost, and so is its second copy.
    assert!(got.corrupt >= did.corrupted);
    assert_eq!(got.lost(), did.dropped_loss + did.corrupted);
    assert!(got.reordered > 10_000, "{got:?}");
}

#[test]
fn uniform_jitter_comes_out_as_its_mean_difference() {
    // The mean difference of two uniform variables is a third of their range; a packet a
    // millisecond, so that none catches up with another.
    let path = PathConfig {
        jitter: Jitter::Uniform(Span::from_micros(600)),
        ..gigabit()
    };
    let source = cbr(Rate::from_mbit_per_sec(8), 1000, Span::from_secs(60)).unwrap();
    let (mut world, _, flows) = world(&path, vec![source]);
    world.run_until(after(Span::from_secs(61)));
    let got = received(&world, flows[0]);
    let mean = got.mean_jitter().as_nanos() as f64;
    assert!((mean / 200e3 - 1.0).abs() < 0.02, "{mean}");
    let smoothed = got.mean_smoothed_jitter().as_nanos() as f64;
    assert!((smoothed / 200e3 - 1.0).abs() < 0.02, "{smoothed}");
    assert_eq!(got.reordered, 0);
    let range = got.transit_max_ns.unwrap() - got.transit_min_ns.unwrap();
    assert!((590_000..=600_000).contains(&range), "{range}");
}

#[test]
fn on_off_sources_share_a_queue_and_end() {
    let on_off = |seed| {
        UdpEndpoint::on_off(&OnOffSettings {
            rate: Rate::from_mbit_per_sec(400),
            payload_bytes: 1000,
            periods: Periods::Exponential {
                mean_on: Span::from_millis(5),
                mean_off: Span::from_millis(10),
            },
            seed,
            extent: Extent {
                start: after(Span::from_secs(1)),
                stop: Some(after(Span::from_secs(5))),
                packets: None,
            },
        })
        .unwrap()
    };
    let run = || {
        let (mut world, link, flows) = world(&gigabit(), (0..5).map(on_off).collect());
        world.run_until(after(Span::from_secs(6)));
        let got: Vec<Received> = flows.iter().map(|f| received(&world, *f)).collect();
        let dropped = world.path(link.forward).counters().dropped_queue;
        // Nothing is left to happen.
        assert!(world.step().is_none());
        (got, dropped)
    };
    let (got, dropped) = run();
    let packets: u64 = got.iter().map(|r| r.packets).sum();
    // Five thirds of 400 Mbit/s fit the link on average, five times 400 do not.
    assert!((250_000..420_000).contains(&packets), "{packets}");
    assert!(dropped > 1_000, "{dropped}");
    assert!(got.iter().all(|r| r.mean_jitter() > Span::ZERO));
    assert_eq!(run(), (got, dropped));
}
