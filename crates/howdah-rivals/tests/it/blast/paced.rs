//! `PA-UDP` and GTP over the simulator.

use crate::blast::support::{Run, paced_pair, path, secs};
use howdah_core::{Observe, Rate, Span};
use howdah_path::QueueLimit;
use howdah_rivals::blast::{PacedSettings, SharedBudget, pa_udp_rate};
use howdah_sim::{Flow, FlowEnds};

const MB: u64 = 1_000_000;

fn mbit(mbit: u64) -> Rate {
    Rate::from_mbit_per_sec(mbit)
}

/// The closed form: r = disk x size / (size - memory) from the first byte to the last, no packet
/// without memory, and the disk busy all the time.
#[test]
fn pa_udp_keeps_the_rate_of_its_closed_form() {
    for (memory, disk, rtt_ms) in [(50, 400, 10), (50, 400, 100), (100, 300, 40), (10, 500, 80)] {
        let settings = PacedSettings {
            memory_bytes: memory * MB,
            disk: Some(mbit(disk)),
            ..PacedSettings::pa_udp(mbit(900), Some(200 * MB))
        };
        let what = format!("{memory} MB, {disk} Mbit/s, {rtt_ms} ms");
        let way = path(mbit(1000), Span::from_millis(rtt_ms));
        let mut run = Run::new(1, &way, paced_pair(&settings, None));
        let expected = pa_udp_rate(mbit(900), Some(mbit(disk)), 200 * MB, memory * MB).as_f64();
        run.world.run_until(secs(1));
        let before = run.receiver().delivered_bytes;
        run.world.run_until(secs(2));
        let bps = (run.receiver().delivered_bytes - before) as f64 * 8.0;
        assert!(
            (bps / expected - 1.0).abs() < 0.02,
            "{what}: {bps}, {expected}"
        );
        let (near, far) = run.run_to_end(secs(60));
        // Memory is exactly full at the end: a packet or two may be one too many.
        assert!(
            far.lost_packets <= 2 && near.retransmitted_bytes <= 2920,
            "{what}: {far:?}"
        );
        assert_eq!(far.delivered_bytes, 200 * MB, "{what}");
        // The disk works from the first packet to the last one and is what takes the time.
        let took = far.finished_at.expect("done").as_secs_f64();
        let disk_s = 200e6 * 8.0 / (disk as f64 * 1e6);
        let start_s = 2.5 * rtt_ms as f64 / 1e3;
        assert!(
            (took - disk_s - start_s).abs() < 0.02 * disk_s,
            "{what}: {took}, {disk_s}"
        );
    }
}

#[test]
fn pa_udp_does_not_feel_the_round_trip() {
    for rtt_ms in [0, 80, 200] {
        let settings = PacedSettings::pa_udp(mbit(650), Some(512 * MB));
        let way = path(mbit(1000), Span::from_millis(rtt_ms));
        let mut run = Run::new(1, &way, paced_pair(&settings, None));
        let (near, _) = run.run_to_end(secs(60));
        assert_eq!(near.retransmitted_bytes, 0);
        let displayed = run
            .world
            .endpoint(run.ends.b)
            .displayed_rate()
            .expect("done");
        assert!(
            (displayed.as_f64() / 650e6 - 1.0).abs() < 0.01,
            "{rtt_ms} ms: {displayed}"
        );
    }
}

/// Two flows over one link of 1 Gbit/s, the second from 3 s on; Mbit/s of each from 3.5 to 5.5 s.
fn two(settings: &PacedSettings, budget: Option<&SharedBudget>) -> ([f64; 2], [u64; 2]) {
    let mut way = path(mbit(1000), Span::from_millis(80));
    way.queue = QueueLimit::Packets(100);
    let mut run = Run::new(1, &way, paced_pair(settings, budget));
    let (left, right) = (run.world.host_of(run.ends.a), run.world.host_of(run.ends.b));
    let (near, far) = paced_pair(settings, budget);
    let flow = Flow::between((left, near), (right, far)).over(run.link);
    let second = run.world.add_flow(flow.start_at(secs(3)));
    let delivered =
        |run: &Run, ends: FlowEnds| run.world.endpoint(ends.b).snapshot().delivered_bytes;
    let from = secs(3) + Span::from_millis(500);
    run.world.run_until(from);
    let before = [delivered(&run, run.ends), delivered(&run, second)];
    run.world.run_until(from + Span::from_secs(2));
    let after = [delivered(&run, run.ends), delivered(&run, second)];
    let rates = [0, 1].map(|at| (after[at] - before[at]) as f64 * 8.0 / 2e6);
    let repeated =
        [run.ends, second].map(|ends| run.world.endpoint(ends.a).snapshot().retransmitted_bytes);
    (rates, repeated)
}

#[test]
fn a_shared_budget_divides_cleanly() {
    let settings = PacedSettings::pa_udp(mbit(650), None);
    let budget = SharedBudget::new(mbit(650));
    let (rates, repeated) = two(&settings, Some(&budget));
    assert!(
        rates.iter().all(|rate| (rate - 325.0).abs() < 7.0),
        "{rates:?}"
    );
    // But for the round trip in which the first does not know of the second.
    assert!(
        repeated[0] < 300_000 && repeated[1] < 300_000,
        "{repeated:?}"
    );
    // Without one the two overflow the link and lose packets for good.
    let (rates, repeated) = two(&settings, None);
    assert!(rates.iter().sum::<f64>() < 960.0, "{rates:?}");
    assert!(
        repeated.iter().all(|&bytes| bytes > 3_000_000),
        "{repeated:?}"
    );
}

#[test]
fn gtp_divides_its_receiver() {
    let settings = PacedSettings::gtp(mbit(900), None);
    let budget = SharedBudget::new(mbit(900));
    let (rates, _) = two(&settings, Some(&budget));
    assert!(
        rates.iter().all(|rate| (rate - 450.0).abs() < 15.0),
        "{rates:?}"
    );
}
