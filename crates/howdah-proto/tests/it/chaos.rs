//! Any path, any objects: everything arrives exactly once, in bounded time.

use crate::support::{Dice, Net, at, config, for_seeds, ms, secs};
use howdah_core::{Rate, Span, Time};
use howdah_path::{Jitter, LossModel, PathConfig, QueueLimit};
use howdah_proto::error::{CloseCode, ConnectionError};
use howdah_proto::{Config, Policy};

/// Loss of up to 30 %, in bursts or not.
fn random_loss(dice: &mut Dice) -> LossModel {
    let share = dice.spread(0.0005, 0.3);
    match dice.below(4) {
        0 => LossModel::None,
        1 => LossModel::GilbertElliott {
            p_enter_bad: share / dice.spread(2.0, 10.0),
            p_leave_bad: dice.spread(0.1, 0.5),
            loss_good: share / 10.0,
            loss_bad: 0.3 + 0.7 * dice.share(),
        },
        _ => LossModel::Bernoulli(share),
    }
}

fn rarely(dice: &mut Dice, most: f64) -> f64 {
    if dice.chance(0.5) {
        0.0
    } else {
        dice.spread(most / 100.0, most)
    }
}

fn random_path(dice: &mut Dice, rate: Rate, delay: Span, mtu: u32) -> PathConfig {
    let packet = rate.span_for(u64::from(mtu) + 38);
    let jitter = if dice.chance(0.5) {
        Span::ZERO
    } else {
        Span::from_secs_f64(dice.spread(1e-5, 0.05)).max(packet)
    };
    PathConfig {
        rate: Some(rate),
        delay,
        mtu,
        queue: match dice.below(4) {
            0 => QueueLimit::Packets(8 + dice.below(40)),
            1 => QueueLimit::Bytes(3_000 + dice.below(1 << 20)),
            _ => QueueLimit::Time(ms(1 + dice.below(300))),
        },
        loss: random_loss(dice),
        jitter: Jitter::Uniform(jitter),
        reorder: if jitter.is_zero() { 0.0 } else { dice.share() },
        duplicate: rarely(dice, 0.2),
        corrupt: rarely(dice, 0.1),
        ..PathConfig::default()
    }
}

fn random_size(dice: &mut Dice, most: f64) -> u64 {
    match dice.below(8) {
        0 => 0,
        1 => 1,
        _ => dice.spread(2.0, most) as u64,
    }
}

fn random_config(dice: &mut Dice, policy: Policy) -> Config {
    Config {
        policy,
        idle_timeout: secs(60),
        handshake_timeout: secs(60),
        max_datagram: dice.pick(&[1_200, 1_252, 1_472, 4_000, 8_972, 8_972]),
        ..config()
    }
}

/// What a run is allowed, and what it is about.
struct Chaos {
    net: Net,
    limit: Span,
    messages: [Vec<Vec<u8>>; 2],
    about: String,
}

impl Chaos {
    /// With `paced`, a fixed rate that the path can carry, so that nothing depends on rate control.
    fn new(seed: u64, paced: bool) -> Self {
        let dice = &mut Dice::new(seed);
        let rate = Rate::from_bits_per_sec(dice.spread(1e6, 1e10) as u64);
        let delay = Span::from_secs_f64(dice.spread(50e-6, 0.4));
        let mtu = dice.pick(&[1_280, 1_400, 1_500, 3_000, 4_352, 9_000]);
        let mut forward = random_path(dice, rate, delay, mtu);
        let back = if dice.chance(0.7) {
            rate
        } else {
            Rate::from_bits_per_sec(dice.spread(1e6, 1e10) as u64)
        };
        let mut backward = random_path(dice, back, delay, mtu);
        if paced {
            // Room for the bursts that follow each pause of an application.
            forward.queue = QueueLimit::Time(ms(50));
            backward.queue = QueueLimit::Time(ms(50));
        }
        let slower = rate.min(back);
        // At most a second's worth, so that slow paths are not asked for hours.
        let most = slower.bytes_in(secs(1)).min(8 << 20) as f64;
        let policy = |rate: Rate| {
            if paced {
                Policy::Fixed(rate.mul_f64(0.5))
            } else {
                Policy::Fair
            }
        };
        let client = random_config(dice, policy(rate));
        let server = random_config(dice, policy(back));
        let mut net = Net::with(seed, &forward, &backward, client, server);
        let mut windows = 0;
        let mut bytes = 0;
        let mut pause = Span::ZERO;
        for upward in [true, false] {
            let (from, to) = if upward {
                (net.ends.a, net.ends.b)
            } else {
                (net.ends.b, net.ends.a)
            };
            for _ in 0..dice.below(3) {
                let size = random_size(dice, most);
                bytes += size;
                let window = dice.chance(0.3).then(|| 20_000 + dice.below(200_000));
                let readable = if dice.chance(0.3) { size / 3 } else { size };
                let credit = window.unwrap_or(u64::MAX);
                windows += window.map_or(0, |window| size / window + 1);
                let id = net
                    .world
                    .endpoint_mut(from)
                    .send_slowly(size, readable, credit);
                net.world.endpoint_mut(to).expect(id, size, window);
                if readable < size {
                    let later = ms(dice.below(3_000));
                    pause = pause.max(later);
                    net.world.at(at(later), move |world| {
                        world
                            .endpoint_mut(from)
                            .connection_mut()
                            .set_readable(id, size);
                    });
                }
            }
        }
        let mut chaos = Self {
            net,
            limit: Span::ZERO,
            messages: [Vec::new(), Vec::new()],
            about: format!("{bytes} bytes\nout {forward:?}\nback {backward:?}"),
        };
        let worst_jitter = forward.jitter.max() + backward.jitter.max();
        let round_trip = delay * 2 + worst_jitter + ms(50);
        let transfer = slower.span_for(bytes * 8);
        chaos.limit = pause + round_trip * (150 + 4 * windows) + transfer * 10 + secs(30);
        chaos.schedule_messages(dice);
        chaos
    }

    fn schedule_messages(&mut self, dice: &mut Dice) {
        for (side, (from, to)) in [
            (self.net.ends.a, self.net.ends.b),
            (self.net.ends.b, self.net.ends.a),
        ]
        .into_iter()
        .enumerate()
        {
            let count = dice.below(6);
            let mut time = Time::ZERO;
            for number in 0..count {
                let len = random_size(dice, 20_000.0);
                let message: Vec<u8> = (0..len).map(|i| (i + number) as u8).collect();
                self.messages[side].push(message.clone());
                time += ms(dice.below(300));
                self.net.world.at(time, move |world| {
                    let connection = world.endpoint_mut(from).connection_mut();
                    connection.send_control(&message);
                });
            }
            let to = self.net.world.endpoint_mut(to);
            to.expect_control(count as usize);
        }
    }

    /// Returns when everything was done.
    fn run(&mut self) -> Span {
        let spent = self.net.run_to_end(self.limit, &self.about);
        assert_eq!(self.net.server().control, self.messages[0]);
        assert_eq!(self.net.client().control, self.messages[1]);
        assert!(self.net.client().connection().is_established());
        assert!(self.net.server().connection().is_established());
        self.close();
        spent
    }

    fn close(&mut self) {
        let now = self.net.world.now();
        let client = self.net.world.endpoint_mut(self.net.ends.a);
        client.connection_mut().close(now, CloseCode::Done, "bye");
        let world = &mut self.net.world;
        world.run_until(now + secs(70));
        let (_, error) = self.net.client().closed.as_ref().expect("closed here");
        assert_eq!(*error, ConnectionError::ClosedLocally);
        let (_, error) = self.net.server().closed.as_ref().expect("closed there");
        let told = ConnectionError::ClosedByPeer {
            code: CloseCode::Done,
            reason: "bye".into(),
        };
        assert!(
            *error == told || *error == ConnectionError::TimedOut,
            "{error}"
        );
    }
}

fn survive(name: &str, seeds: u64, paced: bool) {
    let mut slowest = (0.0, 0);
    let (mut datagrams, mut unheard) = (0, 0);
    for_seeds(name, seeds, |seed| {
        let mut chaos = Chaos::new(seed, paced);
        let spent = chaos.run();
        let share = spent.as_secs_f64() / chaos.limit.as_secs_f64();
        if share > slowest.0 {
            slowest = (share, seed);
        }
        let (client, server) = (chaos.net.client(), chaos.net.server());
        datagrams += client.log.datagrams + server.log.datagrams;
        let (_, error) = server.closed.as_ref().expect("closed");
        unheard += u32::from(*error == ConnectionError::TimedOut);
    });
    println!(
        "{datagrams} datagrams; the slowest, seed {}, used {:.0} % of its time; {unheard} closes not heard",
        slowest.1,
        slowest.0 * 100.0
    );
}

#[test]
fn everything_arrives_once_and_in_time_on_any_path() {
    survive("chaos", 2_000, false);
}

#[test]
fn everything_arrives_once_and_in_time_at_a_fixed_rate() {
    survive("paced chaos", 1_000, true);
}

#[test]
fn equal_seeds_give_equal_runs() {
    for_seeds("determinism", 40, |seed| {
        let run = || {
            let mut chaos = Chaos::new(seed, true);
            let spent = chaos.run();
            let world = &chaos.net.world;
            (world.fingerprint(), world.events(), spent)
        };
        assert_eq!(run(), run());
    });
}
