//! How losses are repaired, and reductions taken back.

use crate::tcp::support::{Run, back, ms, path, secs};
use howdah_core::{Rate, Span, Time};
use howdah_path::{Jitter, LossModel, PathConfig, QueueLimit};
use howdah_rivals::tcp::{LossDetection, ReceiverConfig, Recovery, Supply, TcpConfig, cc};
use howdah_sim::Fate;
use std::cell::Cell;
use std::rc::Rc;

/// Within a round trip of the loss being seen, what is in flight is at the threshold: nothing
/// falls silent, nothing overshoots.
#[test]
fn both_repairs_come_down_to_the_threshold_in_a_round_trip() {
    let rtt = Span::from_millis(100);
    for recovery in [Recovery::Proportional, Recovery::RateHalving] {
        let forward = PathConfig {
            // The 5000th packet; the window is held at 1000 by the receiver.
            loss: LossModel::List(vec![5000]),
            ..path(Rate::from_gbit_per_sec(1), rtt, 10_000)
        };
        let receiver = ReceiverConfig {
            receive_buffer_bytes: 1000 * 1448,
            ..ReceiverConfig::linux24()
        };
        let config = TcpConfig {
            recovery,
            loss_detection: TcpConfig::linux26().loss_detection,
            ..TcpConfig::modern()
        };
        let mut run = Run::new(
            1,
            (&forward, &back(rtt)),
            (&config, &receiver),
            Supply::Endless,
        );
        let a = run.ends.a;
        let began = run.world.run_while(
            |world| {
                use howdah_core::Observe;
                world.endpoint(a).snapshot().congestion_events == 0
            },
            secs(10),
        );
        assert!(began);
        let start = run.world.now();
        let ssthresh = run.sender().ssthresh_bytes.unwrap() as f64;
        assert!(
            (ssthresh / (500.0 * 1448.0) - 1.0).abs() < 0.02,
            "{ssthresh}"
        );
        run.world.run_until(start + rtt + Span::from_millis(2));
        let after = run.sender().in_flight_bytes as f64;
        assert!(
            (after / ssthresh - 1.0).abs() < 0.05,
            "{recovery:?}: {after} against {ssthresh}"
        );
        run.world.run_until(start + rtt * 3);
        let later = run.sender();
        assert!(
            (later.in_flight_bytes as f64 / ssthresh - 1.0).abs() < 0.05,
            "{recovery:?}: {later:?}"
        );
        assert_eq!(later.retransmitted_bytes, 1448);
        assert_eq!((later.congestion_events, later.timeouts), (1, 0));
    }
}

/// A burst of losses: each is sent again once, and no timer runs out.
#[test]
fn a_burst_of_losses_is_repaired_without_a_timeout() {
    let rtt = Span::from_millis(100);
    for config in [
        TcpConfig::linux24(),
        TcpConfig::linux26(),
        TcpConfig::modern(),
    ] {
        let lost: Vec<u64> = (5000..5300).step_by(2).chain(5300..5400).collect();
        let forward = PathConfig {
            loss: LossModel::List(lost.clone()),
            ..path(Rate::from_gbit_per_sec(1), rtt, 10_000)
        };
        let receiver = ReceiverConfig {
            receive_buffer_bytes: 1000 * 1448,
            ..ReceiverConfig::linux24()
        };
        let mut run = Run::new(
            1,
            (&forward, &back(rtt)),
            (&config, &receiver),
            Supply::Endless,
        );
        run.world.run_until(secs(8));
        let near = run.sender();
        assert_eq!(near.timeouts, 0, "{near:?}");
        assert_eq!(near.congestion_events, 1, "{near:?}");
        assert_eq!(near.retransmitted_bytes, lost.len() as u64 * 1448);
        assert_eq!(near.lost_packets, lost.len() as u64);
    }
}

/// The retransmission itself is lost: found by what was sent after it, where the stack can.
#[test]
fn a_lost_retransmission_is_found() {
    let rtt = Span::from_millis(100);
    let blind = TcpConfig {
        loss_detection: LossDetection::DuplicateAcks {
            fack: false,
            adapt_reordering: false,
            lost_retransmissions: false,
            rescue: true,
        },
        ..TcpConfig::modern()
    };
    for (config, timeouts) in [
        (TcpConfig::linux24(), 0),
        (TcpConfig::modern(), 0),
        (blind, 1),
    ] {
        let forward = path(Rate::from_mbit_per_sec(100), rtt, 10_000);
        // A window that stays open, so that new data follow the retransmission.
        let config = TcpConfig {
            slow_start: cc::SlowStart {
                initial_ssthresh_segments: Some(100),
                ..config.slow_start
            },
            ..config
        };
        let mut run = Run::new(
            1,
            (&forward, &back(rtt)),
            (&config, &ReceiverConfig::linux24()),
            Supply::Endless,
        );
        // The same sequence number twice.
        let victim = 1_u32.wrapping_add(1).wrapping_add(1448 * 1500);
        let times = Rc::new(Cell::new(0));
        let count = Rc::clone(&times);
        run.world.on_arrival(run.ends.b, move |_, datagram| {
            if datagram.bytes[4..8] == victim.to_be_bytes() && count.get() < 2 {
                count.set(count.get() + 1);
                return Fate::Discard;
            }
            Fate::Deliver
        });
        run.world.run_until(secs(10));
        let near = run.sender();
        assert_eq!(times.get(), 2);
        assert_eq!(
            near.timeouts, timeouts,
            "{:?}: {near:?}",
            config.loss_detection
        );
        if timeouts == 0 {
            assert_eq!(near.retransmitted_bytes, 2 * 1448);
        }
    }
}

/// The tail is lost: RACK-TLP probes after two round trips where others wait for the timer.
#[test]
fn a_probe_finds_a_lost_tail_before_the_timer() {
    let rtt = Span::from_millis(30);
    let finished = |config: &TcpConfig| {
        let forward = path(Rate::from_mbit_per_sec(100), rtt, 10_000);
        let mut run = Run::new(
            1,
            (&forward, &back(rtt)),
            (config, &ReceiverConfig::modern()),
            Supply::Sized { bytes: 20 * 1448 },
        );
        let times = Rc::new(Cell::new(0));
        run.world.on_arrival(run.ends.b, move |_, datagram| {
            // The last three of twenty, once.
            let seq = u32::from_be_bytes(datagram.bytes[4..8].try_into().expect("four bytes"));
            if seq.wrapping_sub(2) / 1448 >= 17 && datagram.absent > 0 && times.get() < 3 {
                times.set(times.get() + 1);
                return Fate::Discard;
            }
            Fate::Deliver
        });
        run.world.run_until(secs(10));
        (run.sender().finished_at.unwrap(), run.sender())
    };
    let (with, near) = finished(&TcpConfig::modern());
    assert_eq!(near.timeouts, 0, "{near:?}");
    let (without, near) = finished(&TcpConfig::linux26());
    assert_eq!(near.timeouts, 1, "{near:?}");
    assert!(with + rtt * 4 < without, "{with} {without}");
}

/// The path falls silent for longer than the timeout and then delivers everything: nothing was
/// lost, and the first acknowledgement says so.
#[test]
fn a_spurious_timeout_is_taken_back() {
    let rtt = Span::from_millis(50);
    for (config, receiver) in [
        (TcpConfig::modern(), ReceiverConfig::modern()),
        (TcpConfig::linux26(), ReceiverConfig::linux26()),
    ] {
        let receiver = ReceiverConfig {
            receive_buffer_bytes: 400 * 1448,
            window_share: 1.0,
            autotune_from_bytes: None,
            ..receiver
        };
        let forward = path(Rate::from_mbit_per_sec(100), rtt, 10_000);
        let mut run = Run::new(
            1,
            (&forward, &back(rtt)),
            (&config, &receiver),
            Supply::Endless,
        );
        let link = run.link;
        run.world.at(secs(3), move |world| {
            let slow = PathConfig {
                delay: Span::from_millis(700),
                ..path(Rate::from_mbit_per_sec(100), rtt, 10_000)
            };
            world.set_path_config(link.forward, &slow);
        });
        run.world.run_until(ms(2900));
        let before = run.sender();
        run.world.run_until(ms(3600));
        let during = run.sender();
        assert_eq!(during.timeouts, 1, "{during:?}");
        assert_eq!(during.cwnd_bytes, Some(1448));
        run.world.run_until(ms(3800));
        let after = run.sender();
        assert!(
            after.cwnd_bytes >= before.cwnd_bytes,
            "{before:?} {after:?}"
        );
        assert_eq!(after.ssthresh_bytes, before.ssthresh_bytes);
    }
}

/// Reordering without loss: the reductions it causes are taken back, and goodput is what the path
/// gives.
#[test]
fn reordering_does_not_hold_down_a_stack_that_learns() {
    let rtt = Span::from_millis(40);
    let rate = Rate::from_mbit_per_sec(100);
    for config in [TcpConfig::linux26(), TcpConfig::modern()] {
        let forward = PathConfig {
            jitter: Jitter::Uniform(Span::from_millis(3)),
            reorder: 0.01,
            ..path(rate, rtt, 500)
        };
        let receiver = ReceiverConfig {
            receive_buffer_bytes: 600 * 1448,
            ..ReceiverConfig::linux24()
        };
        let mut run = Run::new(
            1,
            (&forward, &back(rtt)),
            (&config, &receiver),
            Supply::Endless,
        );
        let goodput = run.goodput(secs(3), secs(10));
        assert!(goodput > 85.0, "{goodput}: {:?}", run.sender());
    }
}

/// Random loss: what a stack concludes to be lost is what was lost, with large windows too.
#[test]
fn what_is_concluded_to_be_lost_was_lost() {
    let rtt = Span::from_millis(50);
    for algorithm in [cc::reno::ENTRY, cc::bbr1::ENTRY, cc::bbr3::ENTRY] {
        for config in [
            TcpConfig::linux24(),
            TcpConfig::linux26(),
            TcpConfig::modern(),
        ] {
            let config = config.with(algorithm);
            let forward = PathConfig {
                loss: LossModel::Bernoulli(0.01),
                ..path(Rate::from_mbit_per_sec(300), rtt, 500)
            };
            let mut run = Run::new(
                5,
                (&forward, &back(rtt)),
                (&config, &ReceiverConfig::linux24()),
                Supply::Endless,
            );
            run.world.run_until(secs(20));
            let counters = run.world.path(run.link.forward).counters();
            let dropped = (counters.dropped_loss + counters.dropped_queue) as f64;
            let near = run.sender();
            let what = format!("{} {:?}: {near:?}", algorithm.name, config.recovery);
            let again = near.retransmitted_bytes as f64 / 1448.0;
            assert!(dropped > 20.0, "{what}");
            // What was dropped in the last round trip is not known yet.
            let close = |seen: f64| (seen - dropped).abs() < 20.0 + 0.03 * dropped;
            assert!(close(again), "{dropped} dropped, {what}");
            assert!(close(near.lost_packets as f64), "{dropped} dropped, {what}");
        }
    }
}

/// Both ends of a queue: what was dropped there is what is sent again.
#[test]
fn an_overflowing_queue_costs_what_it_drops() {
    let rtt = Span::from_millis(20);
    let forward = PathConfig {
        queue: QueueLimit::Packets(50),
        ..path(Rate::from_mbit_per_sec(100), rtt, 50)
    };
    for config in [
        TcpConfig::linux24(),
        TcpConfig::linux26(),
        TcpConfig::modern(),
    ] {
        let mut run = Run::new(
            1,
            (&forward, &back(rtt)),
            (&config, &ReceiverConfig::modern()),
            Supply::Endless,
        );
        run.world.run_until(Time::ZERO + Span::from_secs(30));
        let dropped = run.world.path(run.link.forward).counters().dropped_queue;
        let near = run.sender();
        let again = near.retransmitted_bytes / 1448;
        assert!(dropped > 20, "{dropped}");
        assert!(
            again >= dropped && again <= dropped + dropped / 20 + 2,
            "{again} sent again, {dropped} dropped: {near:?}"
        );
    }
}
