//! What a world promises: determinism, the timeline, samples, hooks, and loud failure.

use crate::toys;
use crate::toys::{Echo, Restless, StopAndWait, Toy};
use howdah_core::{Rate, Span, Time};
use howdah_path::{Jitter, LossModel, PathConfig, QueueLimit};
use howdah_sim::{Fate, Flow, FlowEnds, Link, World};
use std::cell::RefCell;
use std::rc::Rc;

fn after_ms(ms: u64) -> Time {
    Time::ZERO + Span::from_millis(ms)
}

fn path() -> PathConfig {
    PathConfig {
        rate: Some(Rate::from_gbit_per_sec(1)),
        queue: QueueLimit::Time(Span::from_millis(10)),
        delay: Span::from_millis(20),
        ..PathConfig::default()
    }
}

/// A blaster and a stop-and-wait flow over a path with every impairment.
fn messy(seed: u64) -> World<Toy> {
    let mut world = World::new(seed);
    let (left, right) = (world.add_host("left"), world.add_host("right"));
    let config = PathConfig {
        loss: LossModel::Bernoulli(0.01),
        jitter: Jitter::Uniform(Span::from_micros(500)),
        reorder: 0.2,
        duplicate: 0.01,
        corrupt: 0.01,
        ..path()
    };
    let link = world.add_link(&config, &config);
    let blaster = Toy::blaster(Rate::from_mbit_per_sec(990), 1_400, u64::MAX);
    world.add_flow(Flow::between((left, blaster), (right, Toy::sink())).over(link));
    let sender = Toy::StopAndWait(StopAndWait::new(1_000, 1_000, Span::from_millis(100)));
    let echo = Toy::Echo(Echo::new(1_000));
    world.add_flow(Flow::between((left, sender), (right, echo)).over(link));
    world
}

fn blaster(mbit: u64) -> (World<Toy>, FlowEnds, Link) {
    let mut world = World::new(1);
    let (left, right) = (world.add_host("left"), world.add_host("right"));
    let link = world.add_link(&path(), &path());
    let sender = Toy::blaster(Rate::from_mbit_per_sec(mbit), 1_000, u64::MAX);
    let ends = world.add_flow(Flow::between((left, sender), (right, Toy::sink())).over(link));
    (world, ends, link)
}

#[test]
fn equal_seeds_give_equal_runs_and_others_do_not() {
    let run = |seed| {
        let mut world = messy(seed);
        world.run_until(after_ms(500));
        (world.fingerprint(), world.events())
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1).0, run(2).0);
}

#[test]
fn it_does_not_matter_how_a_run_is_cut() {
    let mut whole = messy(5);
    whole.run_until(after_ms(300));
    let mut pieces = messy(5);
    for ms in 0..100 {
        pieces.run_until(after_ms(ms));
    }
    assert!(pieces.run_while(|world| world.events() < 30_000, after_ms(200)));
    while pieces.now() < after_ms(250) {
        pieces.step();
    }
    pieces.run_until(after_ms(300));
    assert_eq!(pieces.fingerprint(), whole.fingerprint());
    assert_eq!(pieces.events(), whole.events());
}

#[test]
fn watching_changes_nothing() {
    let mut unseen = messy(5);
    unseen.run_until(after_ms(300));
    let mut seen = messy(5);
    let samples = Rc::new(RefCell::new(Vec::new()));
    let sink = samples.clone();
    seen.sample_every(Span::from_millis(50), move |now, world| {
        let ids = world.endpoints();
        let received: u64 = ids.map(|id| world.counters(id).received_datagrams).sum();
        sink.borrow_mut().push((now, received));
    });
    seen.run_until(after_ms(300));
    assert_eq!(seen.fingerprint(), unseen.fingerprint());
    let samples = samples.borrow();
    assert_eq!(samples.len(), 6);
    assert_eq!(samples[2].0, after_ms(150));
    assert!(samples.windows(2).all(|pair| pair[0].1 < pair[1].1));
}

#[test]
fn the_timeline_changes_rate_delay_and_mtu() {
    let (mut world, ends, link) = blaster(500);
    let got = |world: &World<Toy>| world.endpoint(ends.b).as_sink().datagrams;
    world.at(after_ms(1_000), move |world| {
        let slow = PathConfig {
            rate: Some(Rate::from_mbit_per_sec(100)),
            ..path()
        };
        world.set_path_config(link.forward, &slow);
    });
    world.at(after_ms(2_000), move |world| {
        let dark = PathConfig {
            loss: LossModel::Bernoulli(1.0),
            ..path()
        };
        world.set_path_config(link.forward, &dark);
    });
    world.at(after_ms(3_000), move |world| {
        let narrow = PathConfig {
            mtu: 1_000,
            ..path()
        };
        world.set_path_config(link.forward, &narrow);
    });
    world.at(after_ms(4_000), move |world| {
        world.set_path_config(link.forward, &path());
    });

    // 62 500 datagrams a second are offered; on the wire each has 1066 bytes.
    world.run_until(after_ms(1_020));
    let whole = got(&world);
    assert!(whole.abs_diff(62_500) <= 1, "{whole}");
    world.run_until(after_ms(2_020));
    let slow = got(&world) - whole;
    assert!(slow.abs_diff(100_000_000 / 8 / 1_066) <= 1, "{slow}");
    // What waited in the slow queue comes; then nothing any more.
    world.run_until(after_ms(2_100));
    let before = got(&world);
    world.run_until(after_ms(4_000));
    assert_eq!(got(&world), before);
    assert!(
        world
            .path(link.forward)
            .counters()
            .dropped_mtu
            .abs_diff(62_500)
            <= 1
    );
    world.run_until(after_ms(5_000));
    assert!((got(&world) - before).abs_diff(62_500 * 98 / 100) <= 1);
}

#[test]
fn a_shorter_delay_overtakes_what_is_on_the_way() {
    let (mut world, ends, link) = blaster(100);
    world.at(after_ms(100), move |world| {
        let short = PathConfig {
            delay: Span::from_millis(5),
            ..path()
        };
        world.set_path_config(link.forward, &short);
    });
    world.run_until(after_ms(200));
    // 15 ms of the old route are overtaken, at 12.5 datagrams a millisecond.
    let late = world.endpoint(ends.b).as_sink().late;
    assert!((180..=189).contains(&late), "{late}");
}

#[test]
fn actions_at_one_instant_run_in_the_order_in_which_they_were_planned() {
    let (mut world, ..) = blaster(1);
    let order = Rc::new(RefCell::new(Vec::new()));
    for (name, ms) in [('b', 2), ('c', 2), ('a', 1), ('d', 2)] {
        let order = order.clone();
        world.at(after_ms(ms), move |world| {
            order.borrow_mut().push(name);
            if name == 'b' {
                // The past is now, and now is after what was planned before.
                world.at(Time::ZERO, move |_| order.borrow_mut().push('e'));
            }
        });
    }
    world.run_until(after_ms(3));
    assert_eq!(order.borrow().iter().collect::<String>(), "abcde");
}

#[test]
fn a_flow_starts_when_it_was_told_to() {
    let mut world = World::new(1);
    let host = world.add_host("host");
    let link = world.add_link(&PathConfig::default(), &PathConfig::default());
    let sender = Toy::blaster(Rate::from_mbit_per_sec(8), 1_000, 10);
    let flow = Flow::between((host, sender), (host, Toy::sink())).over(link);
    let ends = world.add_flow(flow.start_at(after_ms(30)));
    // Being touched before does not start it.
    let _ = world.endpoint_mut(ends.a);
    assert_eq!(world.step(), Some(after_ms(30)));
    world.run_until(after_ms(100));
    assert_eq!(
        world.endpoint(ends.b).as_sink().first_at,
        Some(after_ms(30))
    );
    assert_eq!(world.host_name(world.host_of(ends.a)), "host");
    assert_eq!(world.step(), None);
}

#[test]
fn an_endpoint_that_was_touched_is_driven_at_once() {
    let mut world = World::new(1);
    let host = world.add_host("host");
    let link = world.add_link(&path(), &path());
    let idle = Toy::StopAndWait(StopAndWait::new(1_000, 1, Span::from_secs(1)));
    let flow = Flow::between((host, idle), (host, Toy::Echo(Echo::new(100)))).over(link);
    let ends = world.add_flow(flow);
    world.run_until(after_ms(500));
    assert_eq!(world.endpoint(ends.a).as_stop_and_wait().done, 1);
    // Another object to send.
    *world.endpoint_mut(ends.a) = Toy::StopAndWait(StopAndWait::new(1_000, 1, Span::from_secs(1)));
    world.run_until(after_ms(600));
    let finished = world
        .endpoint(ends.a)
        .as_stop_and_wait()
        .finished_at
        .expect("finished");
    assert!(
        finished > after_ms(540) && finished < after_ms(541),
        "{finished}"
    );
}

#[test]
fn a_hook_decides_about_single_arrivals() {
    let (mut world, ends, _) = blaster(8);
    let mut count = 0;
    world.on_arrival(ends.b, move |_, datagram| {
        count += 1;
        assert_eq!(toys::number(&datagram.bytes), count - 1);
        match count {
            3 => Fate::Discard,
            5 | 6 => Fate::Corrupt,
            _ => Fate::Deliver,
        }
    });
    world.run_until(after_ms(100));
    let counters = world.counters(ends.b);
    assert_eq!(counters.discarded, 1);
    assert_eq!(counters.received_corrupt, 2);
    // One a millisecond, 20 ms on the way.
    assert_eq!(counters.received_datagrams, 79);
    assert_eq!(world.endpoint(ends.b).as_sink().datagrams, 79);
}

#[test]
fn run_while_says_whether_the_condition_ended_it() {
    let (mut world, ends, _) = blaster(8);
    let few = |world: &World<Toy>| world.endpoint(ends.b).as_sink().datagrams < 10;
    assert!(world.run_while(few, after_ms(1_000)));
    assert_eq!(world.endpoint(ends.b).as_sink().last_at, Some(world.now()));
    assert!(!world.run_while(|_| true, after_ms(500)));
    assert_eq!(world.now(), after_ms(500));
}

#[test]
#[should_panic(expected = "still wants to be woken at 0.000000s for \"pacing\"")]
fn a_busy_loop_is_noticed() {
    let mut world = World::new(1);
    let host = world.add_host("host");
    let link = world.add_link(&path(), &path());
    let restless = Toy::Restless(Restless);
    world.add_flow(Flow::between((host, restless), (host, Toy::sink())).over(link));
    world.run_until(after_ms(1));
}

#[test]
#[should_panic(expected = "at least one path")]
fn a_flow_needs_a_route() {
    let mut world = World::new(1);
    let host = world.add_host("host");
    world.add_flow(Flow::between((host, Toy::sink()), (host, Toy::sink())));
}
