//! A path that the last connection knew: it is begun where that one was, and soon found out if it is not what it was.

use howdah_core::{Rate, Span, Time};
use howdah_path::{PathConfig, QueueLimit};
use howdah_proto::sim::{SimEndpoint, sim_config};
use howdah_proto::{Event, PathKnowledge};
use howdah_sim::{Flow, FlowEnds, World};

const RTT: Span = Span::from_millis(80);

struct Start {
    world: World<SimEndpoint>,
    ends: FlowEnds,
    forward: howdah_sim::PathId,
    rate: Rate,
}

impl Start {
    /// A flow over a path of that rate and a queue of 25 ms, begun with `known`.
    fn new(rate: Rate, known: Option<PathKnowledge>, others: u64) -> Self {
        Self::begun(rate, known, others, false)
    }

    /// As copies of much begin: with a train ahead.
    fn of_much(rate: Rate, known: Option<PathKnowledge>, others: u64) -> Self {
        Self::begun(rate, known, others, true)
    }

    fn begun(rate: Rate, known: Option<PathKnowledge>, others: u64, train: bool) -> Self {
        Self::over(rate, known, others, (train, 9_000))
    }

    /// The same over a path of that MTU.
    fn over(
        rate: Rate,
        known: Option<PathKnowledge>,
        others: u64,
        (train, mtu): (bool, u32),
    ) -> Self {
        let path = PathConfig {
            rate: Some(rate),
            delay: RTT / 2,
            queue: QueueLimit::Time(Span::from_millis(25)),
            mtu,
            ..PathConfig::default()
        };
        let mut world = World::new(3);
        let (near, far) = (world.add_host("near"), world.add_host("far"));
        let link = world.add_link(&path, &path);
        for seed in 0..others {
            let sender = SimEndpoint::sender(Time::ZERO, sim_config(), seed, None);
            let receiver = SimEndpoint::receiver(Time::ZERO, sim_config(), seed, seed + 50, None);
            world.add_flow(Flow::between((near, sender), (far, receiver)).over(link));
        }
        let from = Time::ZERO + Span::from_secs(10 * others.min(1));
        let mut config = sim_config();
        config.path = known;
        config.train = train;
        let sender = SimEndpoint::sender(from, config, 90, None);
        let receiver = SimEndpoint::receiver(from, sim_config(), 90, 190, None);
        let flow = Flow::between((near, sender), (far, receiver)).over(link);
        let ends = world.add_flow(flow.start_at(from));
        world.run_until(from);
        Self {
            world,
            ends,
            forward: link.forward,
            rate,
        }
    }

    /// Round trips until nine tenths of the link arrive for half of one.
    fn round_trips(&mut self) -> f64 {
        let (begin, step) = (self.world.now(), RTT / 16);
        let mut arrived = vec![0];
        for looks in 1..=16 * 30 {
            self.world.run_until(begin + step * looks);
            arrived.push(self.world.endpoint(self.ends.b).delivered_bytes());
            let at = arrived.len() - 1;
            let Some(before) = at.checked_sub(8) else {
                continue;
            };
            let rate = Rate::from_bytes_over(arrived[at] - arrived[before], step * 8);
            if rate >= self.rate.mul_f64(0.9 * 0.97) {
                return looks as f64 / 16.0;
            }
        }
        f64::INFINITY
    }

    fn dropped(&self) -> u64 {
        self.world.path(self.forward).counters().dropped_queue
    }

    fn knowledge(&self) -> Option<PathKnowledge> {
        let sender = self.world.endpoint(self.ends.a);
        sender.connection().path_knowledge()
    }
}

fn gbit(n: u64) -> Rate {
    Rate::from_gbit_per_sec(n)
}

fn known(capacity: Rate) -> PathKnowledge {
    PathKnowledge {
        capacity,
        rtt: RTT,
        loss: 0.0,
        age: Span::ZERO,
        datagram_bytes: 0,
    }
}

#[test]
fn what_one_connection_learnt_the_next_one_begins_with() {
    for rate in [gbit(1), gbit(10)] {
        let mut cold = Start::new(rate, None, 0);
        assert_eq!(
            cold.knowledge(),
            None,
            "nothing is known before it was seen"
        );
        let cold_rtts = cold.round_trips();
        cold.world.run_until(Time::ZERO + Span::from_secs(4));
        let learnt = cold.knowledge().expect("a path that was filled is known");
        let share = learnt.capacity.as_f64() / rate.as_f64();
        assert!((0.9..=1.02).contains(&share), "{learnt:?}");
        let mut warm = Start::new(rate, Some(learnt), 0);
        let warm_rtts = warm.round_trips();
        println!("{rate}: cold {cold_rtts}, warm {warm_rtts}");
        // (The first half a round trip and the window of half of one count, too.)
        assert!(
            warm_rtts <= 3.6 && warm_rtts < cold_rtts,
            "{rate}: {warm_rtts}, cold {cold_rtts}"
        );
        assert_eq!(warm.dropped(), 0, "{rate}");
    }
}

/// Bytes of a server that had come three round trips after the client began, begun with what is known when it knows the client; and what overflowed until much later.
fn served(rate: Rate, known: Option<PathKnowledge>, late: bool) -> (u64, u64) {
    let path = PathConfig {
        rate: Some(rate),
        delay: RTT / 2,
        queue: QueueLimit::Time(Span::from_millis(25)),
        mtu: 9_000,
        ..PathConfig::default()
    };
    let mut world = World::new(3);
    let (near, far) = (world.add_host("near"), world.add_host("far"));
    let link = world.add_link(&path, &path);
    let client = SimEndpoint::client(sim_config(), 90);
    let server = SimEndpoint::server(sim_config(), 90, 190);
    let ends = world.add_flow(Flow::between((near, client), (far, server)).over(link));
    let mut object = None;
    let mut came = 0;
    for step in 1..=16 * 30 {
        let now = Time::ZERO + RTT / 16 * step;
        world.run_until(now);
        let events = world.endpoint_mut(ends.b).take_events();
        let met = |event: &Event| matches!(event, Event::Connected { .. });
        let server = world.endpoint_mut(ends.b).connection_mut();
        if object.is_none() && events.iter().any(met) {
            if let Some(known) = known.filter(|_| !late) {
                server.begin_with(now, &known);
            }
            let id = server.allocate_object();
            server.send_object(id, None, u64::MAX);
            server.set_readable(id, 1 << 60);
            object = Some(id);
            let client = world.endpoint_mut(ends.a).connection_mut();
            client.receive_object(id, None, None);
        } else if let Some(known) = known.filter(|_| late) {
            server.begin_with(now, &known);
        }
        if step == 16 * 3 {
            came = world
                .endpoint(ends.a)
                .connection()
                .stats()
                .data_bytes_received;
        }
    }
    (came, world.path(link.backward).counters().dropped_queue)
}

/// A server knows the path when it knows who has come: it begins with half of it, or cold if data was sent before.
#[test]
fn a_server_begins_with_what_it_knows_of_a_client() {
    let rate = gbit(1);
    let cold = served(rate, None, false);
    let warm = served(rate, Some(known(rate.mul_f64(0.97))), false);
    let late = served(rate, Some(known(rate.mul_f64(0.97))), true);
    let share = |(came, _): (u64, u64)| came as f64 / rate.bytes_in(RTT) as f64;
    println!(
        "cold {}, warm {}, late {}",
        share(cold),
        share(warm),
        share(late)
    );
    assert!(share(warm) > 1.3 * share(cold), "{warm:?}, cold {cold:?}");
    assert_eq!(late, cold);
    assert_eq!(warm.1, 0);
    let other = PathKnowledge {
        rtt: RTT * 2,
        ..known(rate)
    };
    assert_eq!(served(rate, Some(other), false), cold);
}

/// What leaves in a round trip at the rate that is paced at first, in packets: those are small until larger ones have been tried.
fn first_round(then: Rate) -> u64 {
    then.mul_f64(0.5).bytes_in(RTT) / 1_200
}

/// What the handshake sees of it speaks for a path that was known lately: nearly all of it is used at once, so that the cost is about the
/// round trip of the handshake, and its way.
#[test]
fn a_path_that_looks_as_it_did_is_used_at_once() {
    for rate in [gbit(1), gbit(10)] {
        let arrived = |known: PathKnowledge| {
            let mut start = Start::of_much(rate, Some(known), 0);
            let from = start.world.now();
            start.world.run_until(from + RTT * 2);
            let arrived = start.world.endpoint(start.ends.b).delivered_bytes();
            start.world.run_until(from + RTT * 12);
            assert_eq!(start.dropped(), 0, "{rate}");
            arrived as f64 / rate.bytes_in(RTT) as f64
        };
        let lately = PathKnowledge {
            age: Span::from_secs(600),
            ..known(rate.mul_f64(0.97))
        };
        let old = PathKnowledge {
            age: Span::from_secs(7_200),
            ..lately
        };
        // In the half a round trip that is left of two when the first data arrive.
        let (lately, old) = (arrived(lately), arrived(old));
        println!("{rate}: {lately} round trips' worth, of an old path {old}");
        assert!((0.40..0.50).contains(&lately), "{rate}: {lately}");
        assert!((0.20..0.28).contains(&old), "{rate}: {old}");
    }
}

/// Packets as large as were carried then go out at once; where the path carries less now (9000 bytes are more than it had, too), that is found
/// out as a black hole is, and it goes on from small ones.
#[test]
fn packets_are_as_large_as_then_and_smaller_where_they_do_not_come() {
    let sizes = |mtu: u32, then: u16| {
        let known = PathKnowledge {
            datagram_bytes: then,
            ..known(gbit(1))
        };
        let mut start = Start::over(gbit(1), Some(known), 0, (true, mtu));
        let from = start.world.now();
        let size = |start: &Start| {
            let sender = start.world.endpoint(start.ends.a);
            sender.connection().stats().datagram_size
        };
        start.world.run_until(from + RTT * 3 / 2);
        let first = size(&start);
        start.world.run_until(from + RTT * 40);
        let before = start.world.endpoint(start.ends.b).delivered_bytes();
        start.world.run_until(from + RTT * 60);
        let after = start.world.endpoint(start.ends.b).delivered_bytes();
        let share = (after - before) as f64 / gbit(1).bytes_in(RTT * 20) as f64;
        (first, size(&start), share > 0.85)
    };
    assert_eq!(sizes(9_000, 0), (1_200, 8_972, true));
    assert_eq!(sizes(9_000, 8_972), (8_972, 8_972, true));
    assert_eq!(sizes(9_000, 1_472), (1_472, 8_972, true));
    assert_eq!(sizes(1_500, 8_972), (8_972, 1_472, true));
}

/// Where it has half the rate now, no more than a round trip overflows; where the train shows that, nothing does.
#[test]
fn half_of_a_path_that_looks_as_it_did_is_found_out() {
    for (rate, then) in [(1, 2), (5, 10)] {
        let mut start = Start::of_much(gbit(rate), Some(known(gbit(then))), 0);
        let rtts = start.round_trips();
        start.world.run_until(Time::ZERO + RTT * 12);
        let lost = start.dropped() * 1_200;
        let lost = lost as f64 / gbit(rate).bytes_in(RTT) as f64;
        println!("{then} Gbit/s are {rate}: {rtts} round trips, {lost} overflow");
        assert!(
            lost < if rate == 1 { 0.05 } else { 1.0 },
            "{rate} of {then}: {lost}"
        );
        assert!(rtts < 5.0, "{rate} of {then}: {rtts}");
    }
}

/// Of a path that has become slower, less than a round trip overflows, and then it is found.
#[test]
fn a_path_that_became_slower_is_found_out() {
    for (rate, then) in [(1, 2), (1, 10), (5, 10)] {
        let mut start = Start::new(gbit(rate), Some(known(gbit(then))), 0);
        let rtts = start.round_trips();
        start.world.run_until(Time::ZERO + RTT * 12);
        let (lost, first) = (start.dropped(), first_round(gbit(then)));
        println!("{then} Gbit/s are {rate}: {rtts} round trips, {lost} packets of {first} dropped");
        assert!(lost < first, "{rate} of {then}: {lost} of {first}");
        assert!(rtts < 5.0, "{rate} of {then}: {rtts}");
    }
}

/// Others fill the link now: no more is lost than in a cold start and a round trip of what is paced at first.
#[test]
fn a_path_that_others_fill_now_is_not_flooded() {
    for begin in [Start::new, Start::of_much] {
        let [cold, warm] = [None, Some(known(gbit(1)))].map(|known| {
            let mut start = begin(gbit(1), known, 2);
            let (before, from) = (start.dropped(), start.world.now());
            start.world.run_until(from + Span::from_secs(3));
            start.dropped() - before
        });
        let first = first_round(gbit(1));
        println!("cold {cold} packets dropped, warm {warm}, {first} in the first round trip");
        assert!(warm < cold + first, "{warm}, cold {cold}, {first}");
    }
}

/// Nothing that is remembered is believed because it is there.
#[test]
fn another_path_and_nonsense_begin_cold() {
    let mut cold = Start::new(gbit(1), None, 0);
    let rtts = cold.round_trips();
    let good = known(gbit(1));
    for odd in [
        PathKnowledge {
            rtt: RTT * 2,
            ..good
        },
        PathKnowledge {
            rtt: RTT / 2,
            ..good
        },
        PathKnowledge {
            rtt: Span::ZERO,
            ..good
        },
        PathKnowledge {
            capacity: Rate::MAX,
            ..good
        },
        PathKnowledge {
            capacity: Rate::ZERO,
            ..good
        },
        PathKnowledge {
            loss: f64::NAN,
            ..good
        },
    ] {
        let mut start = Start::new(gbit(1), Some(odd), 0);
        assert!((start.round_trips() - rtts).abs() < 1e-9, "{odd:?}");
    }
}
