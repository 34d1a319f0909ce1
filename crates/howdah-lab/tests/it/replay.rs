//! What is recorded of a copy is enough to run it again: in virtual time, where chance is the seed's, and of recordings that make no sense.

use howdah_core::{ObjectId, Rate, Span, Time};
use howdah_lab::replay::{Change, NotReplayable, Replay, ReplayError, predict};
use howdah_lab::scenario::parse;
use howdah_path::{Jitter, LossModel, PathConfig, QueueLimit, RateTrace};
use howdah_proto::sim::{SimEndpoint, SlowSink, sim_config};
use howdah_proto::{Config, SendLimit};
use howdah_recording::{Facts, Held, Interval, Recorder, Recording, Sample, Totals};
use howdah_sim::{Flow, World};
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// Ethernet, IP and UDP of a simulated packet.
const IP_UDP: u32 = 28;

struct Network {
    forward: PathConfig,
    rtt_ms: u64,
    /// What the receiver takes, if that is less.
    sink: Option<Rate>,
    bytes: u64,
}

impl Network {
    fn new(mbit: u64, rtt_ms: u64, queue_ms: u64, bytes: u64) -> Self {
        let forward = PathConfig {
            rate: Some(Rate::from_mbit_per_sec(mbit)),
            queue: QueueLimit::Time(Span::from_millis(queue_ms)),
            delay: Span::from_millis(rtt_ms) / 2,
            mtu: 1_500,
            ..PathConfig::default()
        };
        Self {
            forward,
            rtt_ms,
            sink: None,
            bytes,
        }
    }

    /// A copy over it, recorded as the facade does, and how long it took.
    fn record(&self) -> (Recording, f64) {
        let mut world = World::new(11);
        let (near, far) = (world.add_host("near"), world.add_host("far"));
        let backward = PathConfig {
            delay: Span::from_millis(self.rtt_ms) / 2,
            mtu: 1_500,
            ..PathConfig::default()
        };
        let link = world.add_link(&self.forward, &backward);
        let size = Some(self.bytes);
        // As copies of that size begin.
        let config = Config {
            train: true,
            ..sim_config()
        };
        let sender = SimEndpoint::sender(Time::ZERO, config, 1, size);
        let mut receiver = SimEndpoint::receiver(Time::ZERO, sim_config(), 1, 2, size);
        if let Some(rate) = self.sink {
            receiver.set_slow_sink(SlowSink::new(rate, 4 << 20));
        }
        let flow = Flow::between((near, sender), (far, receiver))
            .over(link)
            .header_bytes(IP_UDP);
        let ends = world.add_flow(flow);
        let (mut recorder, mut at, mut took) = (Recorder::default(), Span::ZERO, None);
        while took.is_none() {
            assert!(at < Span::from_secs(200), "the copy never ends");
            at = Span::from_nanos(at.as_nanos() + recorder.look_every().as_nanos());
            world.run_until(Time::ZERO + at);
            let connection = world.endpoint(ends.a).connection();
            let stats = connection.stats();
            let done = connection.acked_bytes(ObjectId::new(0)) >= self.bytes;
            took = done.then(|| at.as_secs_f64());
            recorder.push(&Sample {
                at,
                told_at: stats.reported_at.since(Time::ZERO),
                totals: Totals {
                    delivered_bytes: stats.bytes_acked,
                    sent_packets: stats.datagrams_sent,
                    lost_packets: stats.packets_lost,
                    host_drops: stats.peer_sink_drops,
                    repeated_bytes: stats.data_bytes_repeated,
                },
                pacing: stats.pacing_rate,
                capacity: (!stats.in_startup).then_some(stats.capacity),
                base_rtt: stats.rtt_min,
                rtt: stats.rtt_latest,
                queue: stats.queue_delay,
                held: match connection.send_limit() {
                    SendLimit::Source => Held::Source,
                    SendLimit::Sink => Held::Sink,
                    SendLimit::Path if stats.in_startup => Held::Startup,
                    _ => Held::Path,
                },
            });
        }
        let facts = Facts {
            moved_bytes: self.bytes,
            datagram_bytes: 1_472,
            header_bytes: 28,
            completed: true,
            ..Facts::default()
        };
        let intervals = recorder.intervals();
        (Recording { facts, intervals }, took.unwrap())
    }
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

/// The recorded and the replayed goodput, in Mbit/s.
fn replayed(network: &Network) -> (f64, f64) {
    let (recording, took) = network.record();
    let bytes = recording.encode();
    let replay = Replay::new(&Recording::decode(&bytes).unwrap()).unwrap();
    let outcomes = replay
        .run(&names(&["howdah"]), 1, &AtomicBool::new(false))
        .unwrap();
    let [outcome] = &outcomes[..] else {
        panic!("{outcomes:?}");
    };
    assert!(
        outcome.seconds.is_some(),
        "{outcome:?}\n{}",
        replay.scenario(&names(&["howdah"]))
    );
    let recorded = network.bytes as f64 * 8.0 / took / 1e6;
    println!(
        "recorded {recorded:.1}, replayed {:.1}",
        outcome.goodput_bps / 1e6
    );
    (recorded, outcome.goodput_bps / 1e6)
}

fn assert_near(network: &Network, share: f64) {
    let (recorded, replayed) = replayed(network);
    let off = replayed / recorded - 1.0;
    assert!(
        off.abs() <= share,
        "recorded {recorded:.1}, replayed {replayed:.1} Mbit/s"
    );
}

#[test]
fn a_constant_path_gives_the_same_rate_again() {
    assert_near(&Network::new(100, 40, 25, 40_000_000), 0.05);
    let mut lossy = Network::new(50, 100, 10, 20_000_000);
    lossy.forward.loss = LossModel::Bernoulli(0.01);
    assert_near(&lossy, 0.07);
}

#[test]
fn a_path_that_changes_gives_the_same_rate_again() {
    let mut network = Network::new(100, 20, 25, 30_000_000);
    let steps = [(0, 100), (1_000, 20), (2_500, 60)];
    let steps = steps.map(|(ms, mbit)| (Span::from_millis(ms), Rate::from_mbit_per_sec(mbit)));
    network.forward.rate_trace = Some(RateTrace::steps(steps.to_vec(), None).unwrap());
    assert_near(&network, 0.1);
}

#[test]
fn jitter_and_bursts_give_the_same_rate_again() {
    let mut jittery = Network::new(100, 40, 30, 40_000_000);
    jittery.forward.jitter = Jitter::Uniform(Span::from_millis(3));
    assert_near(&jittery, 0.1);
    let mut bursty = Network::new(100, 40, 25, 40_000_000);
    bursty.forward.loss = LossModel::GilbertElliott {
        p_enter_bad: 0.001,
        p_leave_bad: 0.1,
        loss_good: 0.0,
        loss_bad: 1.0,
    };
    assert_near(&bursty, 0.1);
}

#[test]
fn a_slow_sink_is_not_taken_for_the_path() {
    let mut network = Network::new(200, 40, 25, 30_000_000);
    network.sink = Some(Rate::from_mbit_per_sec(50));
    let (recording, _) = network.record();
    assert_eq!(
        recording.verdict().slow.map(|slow| slow.held),
        Some(Held::Sink)
    );
    assert!(Replay::new(&recording).unwrap().model.has_programs());
    assert_near(&network, 0.1);
}

/// What comes behind the end of a recording is not known, and not the trickle in which it ended: a replay that is a little late would take for ever.
#[test]
fn behind_its_end_a_recording_goes_on_as_before() {
    let (mut recording, _) = Network::new(50, 20, 25, 10_000_000).record();
    let last = recording.intervals.last_mut().unwrap();
    // The last round trips that were measured were long: as if a queue limited what comes now.
    (last.queue_min_us, last.queue_max_us) = (2_000, 2_000);
    let trickle = Interval {
        delivered_bytes: 30,
        sent_packets: 1,
        lost_packets: 0,
        ..*last
    };
    recording.intervals.extend([trickle; 3]);
    recording.intervals.push(Interval {
        delivered_bytes: 25_000,
        ..trickle
    });
    let text = Replay::new(&recording)
        .unwrap()
        .scenario(&names(&["howdah"]));
    let rates = text.split("forward.rate").nth(1).unwrap();
    let rates = rates.lines().filter_map(|line| {
        let bits = line.split_once("us ")?.1.strip_suffix("bit")?;
        bits.parse::<u64>().ok()
    });
    let least = rates.clone().min().unwrap();
    assert!(least > 30_000_000, "{least} of {}", rates.count());
}

/// What a probe of a few seconds says of a copy that takes longer: on a constant path, on a lossy one, and where it is run in part only.
#[test]
fn a_probe_tells_how_long_a_longer_copy_takes() {
    let stop = AtomicBool::new(false);
    let mut lossy = Network::new(100, 40, 25, 30_000_000);
    lossy.forward.loss = LossModel::Bernoulli(0.005);
    // Of the last more is asked than is run.
    for (mut network, times) in [
        (Network::new(50, 20, 25, 18_000_000), 4),
        (lossy, 4),
        (Network::new(20, 100, 10, 7_000_000), 25),
    ] {
        let (probe, _) = network.record();
        network.bytes *= times;
        let told = predict(&probe, network.bytes, 1, &stop).unwrap();
        let (_, took) = network.record();
        println!("{took:.2} s, {:?}", told.as_is);
        assert!(
            told.as_is.least_s <= took && took <= told.as_is.most_s,
            "{took} s, {:?}",
            told.as_is
        );
        assert!(
            told.as_is.most_s < told.as_is.least_s * 1.6,
            "that says little: {:?}",
            told.as_is
        );
        let with = |wanted| told.changed.iter().find(|(change, _)| *change == wanted);
        let (_, jumbo) = with(Change::Jumbo).unwrap();
        assert!(*jumbo < told.as_is.likely_s, "fewer headers");
        assert!(with(Change::Cubic).is_some());
        // Only where one was seen that was too short.
        assert_eq!(with(Change::Deeper).is_some(), told.path.overflowed);
    }
    // Nothing is told of nothing.
    let none = predict(&Recording::default(), 1, 1, &stop).unwrap_err();
    assert_eq!(none, ReplayError::Recording(NotReplayable::NoRoundTrip));
}

/// Who does not know the path from the losses of a queue that overflows would call it a lossy one.
#[test]
fn an_overflowing_queue_is_a_short_one_and_no_lossy_path() {
    let (recording, _) = Network::new(100, 40, 4, 40_000_000).record();
    let lost: u64 = recording.intervals.iter().map(|i| i.lost_packets).sum();
    let model = Replay::new(&recording).unwrap().model;
    println!(
        "{lost} lost, queue {} us, mean loss {}",
        model.buffer_us,
        model.mean_loss()
    );
    assert!(model.mean_loss() < 0.01);
}

#[test]
fn the_scenario_can_be_run_by_itself_and_others_run_in_it() {
    let (recording, _) = Network::new(50, 20, 25, 10_000_000).record();
    let replay = Replay::new(&recording).unwrap();
    let protocols = names(&["howdah", "cubic", "howdah-fixed"]);
    let text = replay.scenario(&protocols);
    let plan = parse(Path::new("replay.toml"), &text, false).unwrap();
    assert_eq!(plan.cells().count(), 3);
    let never = AtomicBool::new(false);
    let outcomes = replay.run(&protocols, 2, &never).unwrap();
    let of: Vec<&str> = outcomes
        .iter()
        .map(|outcome| outcome.protocol.as_str())
        .collect();
    assert_eq!(of, ["howdah", "cubic", "howdah-fixed"]);
    assert_eq!(
        outcomes,
        replay.run(&protocols, 1, &never).unwrap(),
        "the same again"
    );
    for (name, part) in [("cubik", "no protocol 'cubik'"), ("srt", "real program")] {
        let error = replay.run(&names(&[name]), 1, &never).unwrap_err();
        assert!(
            matches!(&error, ReplayError::Protocol(text) if text.contains(part)),
            "{error}"
        );
    }
    let stopped = replay.run(&protocols, 1, &AtomicBool::new(true));
    assert_eq!(stopped, Err(ReplayError::Stopped));
}

#[test]
fn what_says_nothing_of_a_path_is_refused_and_nothing_makes_it_panic() {
    let short = Recording::default();
    assert_eq!(Replay::new(&short).unwrap_err(), NotReplayable::NoRoundTrip);
    let interval = |number: u64| {
        let mut made = Interval {
            span_us: number,
            delivered_bytes: number,
            sent_packets: number,
            lost_packets: number,
            pacing_bps: u64::MAX,
            capacity_bps: u64::MAX,
            base_rtt_us: number,
            rtt_us: u64::MAX,
            queue_max_us: u64::MAX,
            ..Interval::default()
        };
        made.held_us[Held::Path.index()] = number;
        made
    };
    // As large as a recording may say, and still a scenario or an error.
    for number in [1, 1_000, 1 << 40, u64::MAX / 8] {
        let facts = Facts {
            moved_bytes: u64::MAX,
            datagram_bytes: u16::MAX,
            header_bytes: u16::MAX,
            ..Facts::default()
        };
        let recording = Recording {
            facts,
            intervals: vec![interval(number); 4],
        };
        let recording = Recording::decode(&recording.encode()).unwrap();
        match Replay::new(&recording) {
            Ok(replay) => {
                let text = replay.scenario(&names(&["howdah"]));
                parse(Path::new("r.toml"), &text, false).expect("it can be simulated");
            }
            Err(why) => assert!(number != 1 << 40 || why == NotReplayable::OutOfRange),
        }
    }
}
