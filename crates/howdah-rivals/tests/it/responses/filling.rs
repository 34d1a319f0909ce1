//! How a long path with a short queue is filled, and FAST's queue.

use crate::responses::support::{Run, Stack, jgn_path};
use howdah_core::{Rate, Span};
use howdah_path::{PathConfig, QueueLimit};
use howdah_rivals::tcp::cc;

const RTT: Span = Span::from_millis(180);

fn stack(name: &str) -> Stack {
    let entry = *cc::find(name).expect("a registered algorithm");
    if name == "cubic" {
        Stack::modern(entry)
    } else {
        Stack::linux24(entry).acking_every(2)
    }
}

/// Share of the bottleneck's payload rate, and the run itself, after so many seconds.
fn filled(name: &str, path: &[PathConfig], seconds: f64) -> (f64, Run) {
    let mut run = Run::new(&stack(name), 1, path, RTT);
    run.run_until(seconds);
    let wire = path[path.len() - 1].rate.map_or(0.0, Rate::as_f64);
    let payload = wire * 1448.0 / 1538.0;
    let share = run.delivered_bytes() as f64 * 8.0 / seconds / payload;
    (share, run)
}

/// alpha is 200 packets: it fits into 512, and JGN06 saw no loss there; it does not fit into 127,
/// and JGN06 saw losses. The host's interface takes the bursts.
#[test]
fn fast_keeps_alpha_packets_in_the_queue() {
    let gigabit = Rate::from_gbit_per_sec(1);
    let (share, mut run) = filled("fast", &jgn_path(gigabit, RTT, 512), 30.0);
    let mut queued = 0.0;
    for step in 1..=20 {
        run.run_until(30.0 + 0.25 * f64::from(step));
        let path = run.world.path(run.bottleneck);
        // 1538 bytes on the wire at 0.995 Gbit/s.
        let packet_s = 1538.0 * 8.0 / 0.995e9;
        queued += path.queue_delay(run.world.now()).as_secs_f64() / packet_s / 20.0;
    }
    let dropped = run.world.path(run.bottleneck).counters().dropped_queue;
    println!("fast, 512 packets: {share:.3} in 30 s, {queued:.1} queued, {dropped} dropped");
    assert!((queued - 200.0).abs() < 20.0, "{queued} packets queued");
    assert_eq!(dropped, 0);
    assert!(share > 0.75, "{share}");

    let (share, run) = filled("fast", &jgn_path(gigabit, RTT, 127), 20.0);
    let dropped = run.world.path(run.bottleneck).counters().dropped_queue;
    println!("fast, 127 packets: {share:.3} in 20 s, {dropped} dropped");
    assert!(dropped > 100, "{dropped}");
}

/// 100 Mbit/s, 180 ms (1463 segments), a router with 127 packets of queue, two minutes; the host
/// has no interface that would spread its bursts. So slow start ends at some 400 segments, a third of
/// which wait in the queue at once, and each law has to climb from 200 to 300 segments by itself:
///
/// * Reno, whose host counts acknowledgements of two segments each, adds one segment in two round
///   trips: 330 in two minutes, which leaves it at a third of the path;
/// * the others are there in 10 to 50 s, and from then on lose 1/8 (Scalable) to a half (H-TCP,
///   before it trusts its measurements) of the window at a loss, of which the queue pays for 8 %, and
///   are back in 5 to 15 s. That leaves 0.7 and more of the two minutes.
///
/// Vegas's slow start ends at its first queue, and from there it climbs as Reno does, though by its rounds and not by what the
/// receiver acknowledges: a segment a round trip.
#[test]
fn high_speed_algorithms_fill_a_path_that_reno_does_not() {
    let router = PathConfig {
        rate: Some(Rate::from_mbit_per_sec(100)),
        queue: QueueLimit::Packets(127),
        delay: RTT / 2,
        ..PathConfig::default()
    };
    for entry in cc::ALL {
        if entry.name.starts_with("bbr") || entry.name == "fast" {
            continue;
        }
        let (share, run) = filled(entry.name, std::slice::from_ref(&router), 120.0);
        let sender = run.sender();
        assert_eq!(sender.algorithm, entry.name);
        println!(
            "{:<16} {share:.3}, {} lost, {} reductions, {} timeouts",
            entry.name, sender.lost_packets, sender.congestion_events, sender.timeouts
        );
        let range = match entry.name {
            "reno" => 0.2..0.45,
            "vegas" => 0.2..0.7,
            // Its steps of a few segments a round trip make it the slowest climber at this size.
            "hstcp" => 0.65..1.0,
            _ => 0.7..1.0,
        };
        assert!(
            range.contains(&share),
            "{}: {share:.3} of the path, not in {range:?}",
            entry.name
        );
        assert!(sender.timeouts <= 2, "{}: {sender:?}", entry.name);
    }
}

/// Slow start fills the host's interface so fast that the timer runs out while everything is still
/// under way. What is then sent twice, and acknowledged and reported twice, must not make the engine
/// take back reductions that later losses are answered with, again and again.
#[test]
fn there_is_one_reduction_in_a_round_trip_at_most() {
    let gigabit = Rate::from_gbit_per_sec(1);
    for (name, queue, modern) in [
        ("reno", 512, false),
        ("reno", 512, true),
        ("cubic", 127, true),
    ] {
        let entry = *cc::find(name).expect("a registered algorithm");
        let stack = if modern {
            Stack::modern(entry)
        } else {
            Stack::linux24(entry)
        };
        let mut run = Run::new(
            &stack.acking_every(2),
            1,
            &jgn_path(gigabit, RTT, queue),
            RTT,
        );
        run.run_until(12.0);
        let sender = run.sender();
        println!(
            "{name}, {queue} packets: {} reductions, {} timeouts, {} lost",
            sender.congestion_events, sender.timeouts, sender.lost_packets
        );
        let round_trips = 12.0 / RTT.as_secs_f64();
        assert!(
            (sender.congestion_events as f64) < round_trips / 2.0,
            "{name}: {sender:?}"
        );
    }
}
