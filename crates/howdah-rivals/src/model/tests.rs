//! Objects arrive whole over rough paths, whatever is lost.

use super::*;
use howdah_core::Rate;
use howdah_path::{Jitter, LossModel, PathConfig, QueueLimit};
use howdah_sim::{Flow, FlowEnds, World};

/// Small enough for thousands of runs.
fn small(mut settings: Settings) -> Settings {
    settings.unit_bytes = 1000;
    settings.window_bytes = settings.window_bytes.min(200_000);
    if let Drive::Push(push) = &mut settings.drive {
        push.report_interval = push.report_interval.min(Span::from_millis(20));
        push.report_units = push.report_units.map(|_| 64);
    }
    settings.law = match settings.law {
        RateLaw::Fixed(_) => RateLaw::Fixed(Rate::from_mbit_per_sec(90)),
        RateLaw::Delay { gain, .. } => RateLaw::Delay {
            initial: Rate::from_mbit_per_sec(5),
            target: Rate::from_mbit_per_sec(90),
            queue_bytes: 20_000,
            gain,
        },
    };
    settings
}

fn models() -> [Settings; 4] {
    [rwtp_like(), filecatalyst_like(), fasp_like(), mtp_like()].map(small)
}

fn world(
    settings: &Settings,
    size: Option<u64>,
    forward: &PathConfig,
    backward: &PathConfig,
    seed: u64,
) -> (World<ModelEndpoint>, FlowEnds) {
    let mut world = World::new(seed);
    let (left, right) = (world.add_host("left"), world.add_host("right"));
    let link = world.add_link(forward, backward);
    let near = ModelEndpoint::sender(settings, size).unwrap();
    let far = ModelEndpoint::receiver(settings).unwrap();
    let ends = world.add_flow(Flow::between((left, near), (right, far)).over(link));
    (world, ends)
}

fn path(delay_ms: u64, loss: LossModel) -> PathConfig {
    PathConfig {
        rate: Some(Rate::from_mbit_per_sec(100)),
        queue: QueueLimit::Packets(100),
        delay: Span::from_millis(delay_ms),
        loss,
        ..PathConfig::default()
    }
}

fn after(seconds: u64) -> Time {
    Time::ZERO + Span::from_secs(seconds)
}

/// Runs until both ends know, and checks that every byte came once.
fn moves(settings: &Settings, size: u64, there: &PathConfig, back: &PathConfig, seed: u64) {
    let name = settings.name;
    let (mut world, ends) = world(settings, Some(size), there, back, seed);
    world.run_until(after(120));
    for end in [ends.a, ends.b] {
        let snapshot = world.endpoint(end).snapshot();
        assert_eq!(snapshot.failed, None, "{name}, seed {seed}");
        assert!(
            snapshot.finished_at.is_some(),
            "{name}, seed {seed}, {size} bytes: hangs"
        );
    }
    assert_eq!(
        world.endpoint(ends.b).delivered_bytes(),
        size,
        "{name}, seed {seed}"
    );
}

#[test]
fn objects_arrive_over_rough_paths() {
    for settings in models() {
        for seed in 0..250 {
            let mut there = path(seed % 40, LossModel::Bernoulli(0.03 * (seed % 5) as f64));
            if seed % 3 == 0 {
                there.jitter = Jitter::Uniform(Span::from_millis(3));
                there.reorder = 0.2;
                there.duplicate = 0.02;
                there.corrupt = 0.01;
            }
            let back = PathConfig {
                rate: None,
                ..there.clone()
            };
            let size = [1, 999, 1000, 1001, 64_000, 100_001, 300_000][(seed % 7) as usize];
            moves(&settings, size, &there, &back, seed);
        }
    }
}

/// Exactly one packet is lost, each in turn: hello, its answer, the first and the last unit, the end
/// and the goodbye are among them.
#[test]
fn any_single_packet_may_be_lost() {
    for settings in models() {
        for lost in 0..40_u64 {
            for forward in [true, false] {
                let clean = path(20, LossModel::None);
                let hit = path(20, LossModel::List(vec![lost]));
                let (there, back) = if forward {
                    (&hit, &clean)
                } else {
                    (&clean, &hit)
                };
                moves(&settings, 20_500, there, back, lost);
            }
        }
    }
}

#[test]
fn a_peer_that_never_answers_is_reported() {
    for settings in models() {
        let dead = path(10, LossModel::Bernoulli(1.0));
        let clean = path(10, LossModel::None);
        for (there, back) in [(&dead, &clean), (&clean, &dead)] {
            let (mut world, ends) = world(&settings, Some(1_000_000), there, back, 1);
            world.run_until(after(60));
            let failed = |end| world.endpoint(end).snapshot().failed.is_some();
            assert!(failed(ends.a), "{}", settings.name);
        }
    }
}

#[test]
fn an_endless_object_fills_the_link() {
    for settings in models() {
        let (mut world, ends) = world(
            &settings,
            None,
            &path(5, LossModel::None),
            &path(5, LossModel::None),
            3,
        );
        world.run_until(after(10));
        let mbit = world.endpoint(ends.b).delivered_bytes() as f64 * 8e-6 / 10.0;
        assert!((75.0..91.0).contains(&mbit), "{}: {mbit}", settings.name);
    }
}

/// A slow disk at either end sets the rate, and nothing is sent that has no place.
#[test]
fn disks_set_the_rate() {
    for settings in models() {
        for (read, write) in [(Some(20), None), (None, Some(20))] {
            let settings = Settings {
                read: read.map(Rate::from_mbit_per_sec),
                write: write.map(Rate::from_mbit_per_sec),
                ..settings.clone()
            };
            let clean = path(10, LossModel::None);
            let (mut world, ends) = world(&settings, Some(5_000_000), &clean, &clean, 4);
            world.run_until(after(20));
            let took = world.endpoint(ends.a).finished_at().unwrap().as_secs_f64();
            assert!(
                (2.0..2.4).contains(&took),
                "{} {read:?}: {took}",
                settings.name
            );
        }
    }
}

/// RWTP-like, clean, at 9.8 Gbit/s: 100 reports of 66 bytes a second are 5.6 KiB/GiB (K14proto).
#[test]
fn clean_feedback_is_as_stated() {
    let mut there = path(0, LossModel::None);
    there.rate = Some(Rate::from_gbit_per_sec(10));
    let (mut world, ends) = world(&rwtp_like(), None, &there, &path(0, LossModel::None), 5);
    world.run_until(after(2));
    let back = world.counters(ends.b);
    let feedback = back.sent_bytes + 42 * back.sent_datagrams;
    let per_gib =
        feedback as f64 / (world.endpoint(ends.b).delivered_bytes() as f64 / f64::from(1 << 30));
    assert!((5.3..6.0).contains(&(per_gib / 1024.0)), "{per_gib}");
}

mod messages {
    use super::super::wire::{Data, Hello, Message, Report, Request, decode, goodbye};
    use proptest::prelude::*;

    #[test]
    fn bytes_are_as_documented() {
        let data = Data {
            again: true,
            bytes: 0x2260,
            stamp_us: 0x0102_0304,
            unit: 0x0a0b_0c0d,
        };
        assert_eq!(
            data.encode()[..],
            [
                1, 1, 0x22, 0x60, 1, 2, 3, 4, 0, 0, 0, 0, 0x0a, 0x0b, 0x0c, 0x0d
            ]
        );
        assert_eq!(decode(&data.encode()), Some(Message::Data(data)));
        let hello = Hello {
            stamp_us: 5,
            unit_bytes: 8800,
            size_bytes: None,
        };
        let mut want = vec![2, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0x22, 0x60];
        want.extend([0xff; 8]);
        assert_eq!(hello.encode()[..], want);
        assert_eq!(decode(&want), Some(Message::Hello(hello)));
        let report = Report {
            done: false,
            echo_us: 7,
            next: 9,
            end: 4,
            credit: 300,
            holes: &[0, 0, 0, 0, 0, 0, 0, 2],
        };
        let want = [
            3, 0, 0, 2, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 4, 0, 0, 1, 44, 0, 0, 0, 0, 0,
            0, 0, 2,
        ];
        assert_eq!(report.encode()[..], want);
        assert_eq!(decode(&want), Some(Message::Report(report)));
        assert_eq!(report.missing().collect::<Vec<_>>(), [9, 11]);
        let request = Request {
            again: false,
            stamp_us: 1,
            first: 2,
            count: 3,
            ahead: 1,
        };
        let want = [
            4, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 1,
        ];
        assert_eq!(request.encode()[..], want);
        assert_eq!(decode(&want), Some(Message::Request(request)));
        assert_eq!(goodbye()[..], [5, 0, 0, 0, 0, 0, 0, 0]);
    }

    proptest! {
        /// Neither the decoder nor the endpoints mind what a stranger sends.
        #[test]
        fn nonsense_does_no_harm(packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 1..40)) {
            use super::*;
            for settings in models() {
                let mut ends = [
                    ModelEndpoint::sender(&settings, Some(50_000)).unwrap(),
                    ModelEndpoint::receiver(&settings).unwrap(),
                ];
                let hello = Hello { stamp_us: 0, unit_bytes: 1000, size_bytes: Some(50_000) }.encode();
                let mut out = Vec::new();
                for (at, packet) in packets.iter().enumerate() {
                    let mut packet = packet.clone();
                    // Kinds that exist, so that it gets further than the first byte.
                    if let Some(kind) = packet.first_mut() {
                        *kind %= 6;
                    }
                    let now = Time::from_nanos(at as u64 * 1_000_000);
                    for end in &mut ends {
                        for bytes in [&packet[..], &hello[..]] {
                            end.handle_datagram(now, Arrival { bytes, absent: 1000, corrupt: false });
                            while end.poll_transmit(now, 64, &mut out) > 0 && out.len() < 10_000 {}
                            out.clear();
                            end.handle_timeout(now);
                            let _ = end.poll_timeout();
                        }
                    }
                }
            }
        }
    }
}
