//! UDT over simulated paths: whole objects through loss and reordering, and the loss of single
//! messages.

use howdah_core::{
    Arrival, Carrier, Datagram, HeaderBytes, Observe, Place, Rate, Snapshot, Span, Time, Transport,
    WakeReason,
};
use howdah_path::{Jitter, LossModel, PathConfig, QueueLimit};
use howdah_rivals::udt::wire::{Body, Control, Format, Packet, decode};
use howdah_rivals::udt::{Repeat, Rules, UdtConfig, UdtEndpoint};
use howdah_sim::{EndpointCounters, Fate, Flow, FlowEnds, World};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// An endpoint whose datagrams are compared with what they stand for.
struct Checked {
    inner: UdtEndpoint,
    /// A receiver's payload bytes by place, `None` before they come.
    packets: Vec<Option<u32>>,
    /// Puts another packet in the place of one that arrives.
    forge: Option<Forge>,
}

type Forge = Box<dyn FnMut(Time, &Datagram) -> Option<HeaderBytes>>;

impl Checked {
    fn new(inner: UdtEndpoint) -> Self {
        Self {
            inner,
            packets: Vec::new(),
            forge: None,
        }
    }
}

impl Transport for Checked {
    fn handle_datagram(&mut self, now: Time, arrival: Arrival<'_>) {
        let forged = self.forge.as_mut().and_then(|forge| {
            let bytes = HeaderBytes::from_slice(arrival.bytes);
            forge(
                now,
                &Datagram {
                    bytes,
                    absent: arrival.absent,
                },
            )
        });
        if let Some(bytes) = forged {
            let arrival = Arrival {
                bytes: &bytes,
                absent: 0,
                corrupt: false,
            };
            self.inner.handle_datagram(now, arrival);
            // What it places is not of the object.
            self.inner.take_accepted();
            return;
        }
        self.inner.handle_datagram(now, arrival);
        let Some(Place::Packet(at)) = self.inner.take_accepted() else {
            return;
        };
        let bytes = arrival.absent;
        let at = at as usize;
        if self.packets.len() <= at {
            self.packets.resize(at + 1, None);
        }
        assert_eq!(self.packets[at], None, "packet {at} was placed twice");
        self.packets[at] = Some(bytes);
    }

    fn handle_timeout(&mut self, now: Time) {
        self.inner.handle_timeout(now);
    }

    fn poll_transmit(&mut self, now: Time, max: usize, out: &mut Vec<Datagram>) -> usize {
        let from = out.len();
        let count = self.inner.poll_transmit(now, max, out);
        for datagram in &out[from..] {
            let range = self.inner.payload_of(datagram);
            let expected = range.map_or(0, howdah_core::ByteRange::len);
            assert_eq!(u64::from(datagram.absent), expected);
        }
        count
    }

    fn poll_timeout(&self) -> Option<(Time, WakeReason)> {
        self.inner.poll_timeout()
    }
}

struct Trial {
    world: World<Checked>,
    ends: FlowEnds,
    bytes: u64,
}

impl Trial {
    fn new(
        config: &UdtConfig,
        bytes: u64,
        seed: u64,
        forward: &PathConfig,
        backward: &PathConfig,
    ) -> Self {
        let mut world = World::new(seed);
        let (left, right) = (world.add_host("left"), world.add_host("right"));
        let link = world.add_link(forward, backward);
        let near = UdtEndpoint::sender(config, Some(bytes), world.next_seed());
        let far = UdtEndpoint::receiver(config, world.next_seed());
        let flow = Flow::between((left, Checked::new(near)), (right, Checked::new(far))).over(link);
        let ends = world.add_flow(flow);
        Self { world, ends, bytes }
    }

    fn sender(&self) -> Snapshot {
        self.world.endpoint(self.ends.a).inner.snapshot()
    }

    fn receiver(&self) -> Snapshot {
        self.world.endpoint(self.ends.b).inner.snapshot()
    }

    fn counters(&self) -> EndpointCounters {
        self.world.counters(self.ends.a)
    }

    /// Until the sender has finished or given up; panics after `most` seconds.
    fn run(&mut self, most: u64, what: &str) {
        for second in 1..=most {
            self.world.run_until(Time::ZERO + Span::from_secs(second));
            let sender = self.sender();
            if sender.finished_at.is_some() || sender.failed.is_some() {
                return;
            }
        }
        panic!(
            "{what}: nothing decided after {most} s: {:?}",
            self.sender()
        );
    }

    fn assert_whole(&self, what: &str) {
        let (sender, receiver) = (self.sender(), self.receiver());
        assert_eq!(sender.failed, None, "{what}");
        assert!(sender.finished_at.is_some(), "{what}: {sender:?}");
        assert_eq!(receiver.delivered_bytes, self.bytes, "{what}");
        let packets = &self.world.endpoint(self.ends.b).packets;
        let sum: u64 = packets
            .iter()
            .enumerate()
            .map(|(at, bytes)| u64::from(bytes.unwrap_or_else(|| panic!("{what}: no packet {at}"))))
            .sum();
        assert_eq!(sum, self.bytes, "{what}");
    }
}

fn path(rtt: Span) -> PathConfig {
    PathConfig {
        rate: Some(Rate::from_gbit_per_sec(1)),
        queue: QueueLimit::Packets(200),
        delay: rtt / 2,
        ..PathConfig::default()
    }
}

/// Loss, duplicates, damage and reordering in both directions.
fn bad_path(rtt: Span, loss: f64) -> PathConfig {
    PathConfig {
        loss: LossModel::Bernoulli(loss),
        jitter: Jitter::Uniform(rtt / 4),
        reorder: 0.02,
        duplicate: 0.01,
        corrupt: 0.01,
        ..path(rtt)
    }
}

fn versions() -> [UdtConfig; 3] {
    let small = UdtConfig {
        // Short buffers, so that windows and rings go round.
        flight_packets: 300,
        send_buffer_packets: 200,
        receive_buffer_packets: 160,
        ..UdtConfig::default()
    };
    [UdtConfig::default(), UdtConfig::v2(), small]
}

#[test]
fn thousands_of_seeds_move_an_object_whole() {
    for seed in 0..1500 {
        for (nth, config) in versions().into_iter().enumerate() {
            let bytes = [1, 1456, 99_999, 100_000, 250_001][seed as usize % 5];
            let rtt = Span::from_millis([1, 10, 40][seed as usize % 3]);
            let loss = [0.0, 0.02, 0.1, 0.2][seed as usize % 4];
            let path = bad_path(rtt, loss);
            let mut trial = Trial::new(&config, bytes, seed, &path, &path);
            let what = format!("seed {seed}, configuration {nth}");
            trial.run(120, &what);
            let sender = trial.sender();
            if sender.failed.is_some() {
                // A fifth of the handshakes lost, four messages in three seconds: that happens.
                assert!(loss >= 0.2, "{what}: {sender:?}");
                continue;
            }
            trial.assert_whole(&what);
        }
    }
}

#[test]
fn an_empty_object_is_only_a_handshake() {
    for config in versions() {
        let path = path(Span::from_millis(10));
        let mut trial = Trial::new(&config, 0, 1, &path, &path);
        trial.run(2, "empty");
        let sender = trial.sender();
        assert_eq!(sender.sent_bytes, 0);
        trial.world.run_until(Time::ZERO + Span::from_secs(3));
        assert!(trial.receiver().finished_at.is_some());
    }
}

#[test]
fn a_clean_gigabit_is_filled_and_nothing_is_sent_twice() {
    for config in [UdtConfig::default(), UdtConfig::v2()] {
        let deep = PathConfig {
            queue: QueueLimit::Unlimited,
            ..path(Span::from_millis(20))
        };
        let mut trial = Trial::new(&config, 500_000_000, 1, &deep, &deep);
        trial.run(30, config.rules.name);
        trial.assert_whole(config.rules.name);
        let sender = trial.sender();
        let took = sender.finished_at.unwrap().as_secs_f64();
        let mbit = 500.0 * 8.0 / took;
        assert!(mbit > 750.0, "{}: {mbit:.0} Mbit/s", config.rules.name);
        assert_eq!(sender.retransmitted_bytes, 0, "{}", config.rules.name);
    }
}

/// What a datagram is, for those who throw single ones away.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    Handshake,
    KeepAlive,
    LightAck,
    Ack,
    Nak,
    Ack2,
    Shutdown,
    Data,
    FirstData,
    LastData,
}

fn kinds(format: Format, datagram: &Datagram, last: u32) -> Kind {
    match decode(format, &datagram.bytes) {
        Ok(Packet::Data(_)) if datagram.absent == last => Kind::LastData,
        Ok(Packet::Data(_)) => Kind::Data,
        Ok(Packet::Control(Control { body, .. })) => match body {
            Body::Handshake(_) => Kind::Handshake,
            Body::Ack(ack) if ack.report.is_none() => Kind::LightAck,
            Body::Ack(_) => Kind::Ack,
            Body::Nak(_) => Kind::Nak,
            Body::Ack2(_) => Kind::Ack2,
            Body::Shutdown => Kind::Shutdown,
            _ => Kind::KeepAlive,
        },
        Err(error) => panic!("we sent {datagram:?}: {error}"),
    }
}

/// Every message of each kind lost once, and the first two of each; the object arrives all the same.
#[test]
fn the_loss_of_any_message_is_survived() {
    const BYTES: u64 = 3_000_000 + 77;
    for config in [UdtConfig::default(), UdtConfig::v2()] {
        let format = config.rules.format;
        let last = ((BYTES % 100_000) % u64::from(config.payload_bytes())) as u32;
        let last = if config.rules.write_bytes.is_some() {
            last
        } else {
            (BYTES % u64::from(config.payload_bytes())) as u32
        };
        for kind in [
            Kind::Handshake,
            Kind::LightAck,
            Kind::Ack,
            Kind::Nak,
            Kind::Ack2,
            Kind::Shutdown,
            Kind::FirstData,
            Kind::LastData,
            Kind::Data,
        ] {
            for lost in [1, 2, 3, 5, 10] {
                if kind == Kind::Handshake && lost > 3 {
                    // Within three seconds the connecting side gives up, as the library does.
                    continue;
                }
                let what = format!("{}: {kind:?} {lost}", config.rules.name);
                let clean = path(Span::from_millis(20));
                // Some loss where reports are to be lost.
                let forward = PathConfig {
                    loss: LossModel::Bernoulli(if kind == Kind::Nak { 0.02 } else { 0.0 }),
                    ..clean.clone()
                };
                let mut trial = Trial::new(&config, BYTES, 5, &forward, &clean);
                for end in [trial.ends.a, trial.ends.b] {
                    let mut seen = 0;
                    trial.world.on_arrival(end, move |_, datagram| {
                        let is = kinds(format, datagram, last);
                        let hit = match kind {
                            Kind::FirstData => is == Kind::Data,
                            kind => is == kind,
                        };
                        seen += u32::from(hit);
                        let gone = match kind {
                            // One in the middle; all others are the first so many.
                            Kind::Data => hit && seen == lost * 100,
                            _ => hit && seen <= lost,
                        };
                        if gone { Fate::Discard } else { Fate::Deliver }
                    });
                }
                trial.run(60, &what);
                trial.assert_whole(&what);
                // The receiver learns of the end, or that nobody is there any more.
                trial.world.run_until(Time::ZERO + Span::from_secs(180));
                let receiver = trial.receiver();
                assert!(
                    receiver.finished_at.is_some() || receiver.failed.is_some(),
                    "{what}: {receiver:?}"
                );
                if kind == Kind::Shutdown && lost <= 2 {
                    assert!(receiver.finished_at.is_some(), "{what}: {receiver:?}");
                }
                for end in [trial.ends.a, trial.ends.b] {
                    assert!(trial.world.endpoint(end).poll_timeout().is_none());
                }
            }
        }
    }
}

#[test]
fn a_peer_that_vanishes_is_reported() {
    for config in [UdtConfig::default(), UdtConfig::v2()] {
        // Before the handshake, and in the middle.
        for from_ms in [0, 500] {
            let path = path(Span::from_millis(20));
            let mut trial = Trial::new(&config, 1 << 40, 5, &path, &path);
            for end in [trial.ends.a, trial.ends.b] {
                trial.world.on_arrival(end, move |now, _| {
                    if now >= Time::ZERO + Span::from_millis(from_ms) {
                        Fate::Discard
                    } else {
                        Fate::Deliver
                    }
                });
            }
            trial.run(120, config.rules.name);
            let failed = trial.sender().failed.unwrap();
            assert!(
                failed.contains("silent") || failed.contains("3 s"),
                "{failed}"
            );
            trial.world.run_until(Time::ZERO + Span::from_secs(200));
            assert!(trial.world.endpoint(trial.ends.a).poll_timeout().is_none());
        }
    }
}

#[test]
fn repeated_reports_repair_what_is_lost_twice() {
    // The same packet lost twice: 4.11 waits for its timer, the draft's receiver asks again.
    let mut took = Vec::new();
    for repeat in [Repeat::Never, Repeat::Draft] {
        let config = UdtConfig {
            rules: Rules {
                repeat,
                write_bytes: None,
                ..Rules::v4_11()
            },
            ..UdtConfig::default()
        };
        let path = path(Span::from_millis(20));
        let mut trial = Trial::new(&config, 10_000_000, 5, &path, &path);
        let mut victim = None;
        let mut seen = 0;
        trial.world.on_arrival(trial.ends.b, move |_, datagram| {
            let Ok(Packet::Data(header)) = decode(Format::Udt4, &datagram.bytes) else {
                return Fate::Deliver;
            };
            seen += 1;
            if seen == 3000 {
                victim = Some(header.sequence);
                return Fate::Discard;
            }
            if victim == Some(header.sequence) {
                victim = None;
                return Fate::Discard;
            }
            Fate::Deliver
        });
        trial.run(20, "lost twice");
        trial.assert_whole("lost twice");
        let sender = trial.sender();
        took.push((sender.finished_at.unwrap().as_secs_f64(), sender.timeouts));
        assert!(trial.counters().sent_datagrams > 6800);
    }
    assert_eq!((took[0].1, took[1].1), (1, 0), "{took:?}");
    assert!(took[1].0 + 0.1 < took[0].0, "{took:?}");
}

/// A stranger who knows the socket's number: any control packet, in an open connection. The connection
/// may end, with a reason; nothing panics and nothing hangs.
#[test]
fn any_control_packet_is_survived_or_ends_the_connection() {
    let mut rng = ChaCha8Rng::seed_from_u64(11);
    let mut ended = 0;
    for seed in 0..400 {
        let config = versions()[seed as usize % 3];
        let path = path(Span::from_millis(4));
        let mut trial = Trial::new(&config, 1 << 40, seed, &path, &path);
        // Each replaces a real datagram, behind whose header it hides.
        let mut word = {
            let mut rng = ChaCha8Rng::seed_from_u64(rng.next_u64());
            move || rng.next_u32()
        };
        let end = if seed % 2 == 0 {
            trial.ends.a
        } else {
            trial.ends.b
        };
        let mut nth = 0;
        let header = config.rules.format.header_bytes() as usize;
        let forged = move |_, datagram: &Datagram| {
            nth += 1;
            if nth < 20 || nth % 7 != 0 {
                return None;
            }
            let mut bytes = datagram.bytes.clone();
            bytes.truncate(header);
            bytes[0] = 0x80 | if header == 4 { word() as u8 & 0x70 } else { 0 };
            if header == 16 {
                bytes[1] = word() as u8 % 9;
                bytes[2..8].fill_with(|| word() as u8);
            }
            for _ in 0..word() % 14 {
                // Small numbers, large ones and ranges.
                let value = match word() % 3 {
                    0 => word() % 1000,
                    1 => word(),
                    _ => (1 << 31) | (word() % 100_000),
                };
                bytes.extend_from_slice(&value.to_be_bytes());
            }
            Some(bytes)
        };
        trial.world.endpoint_mut(end).forge = Some(Box::new(forged));
        trial.world.run_until(Time::ZERO + Span::from_secs(1));
        let (sender, receiver) = (trial.sender(), trial.receiver());
        ended += u32::from(sender.failed.is_some() || receiver.failed.is_some());
    }
    assert!(ended > 20, "{ended}");
}
