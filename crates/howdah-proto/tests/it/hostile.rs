//! Peers whose feedback lies, repeats itself or stops.

use crate::support::liar::{self, Lie};
use crate::support::{Net, at, config, craft, ms, path, secs};
use howdah_core::{Rate, Span};
use howdah_path::{LossModel, PathConfig};
use howdah_proto::Policy;
use howdah_proto::codec::{Coverage, Frame, Report, Run};
use howdah_proto::error::{ConnectionError, PeerMisbehaved};

fn clean() -> PathConfig {
    path(Rate::from_mbit_per_sec(100), ms(40), 1_500)
}

/// H7: whoever is killed in the middle of a copy at a fixed rate costs the path two round trips more, not all that
/// is left until somebody calls him dead.
#[test]
fn nobody_is_sent_to_for_long_who_has_fallen_silent() {
    for policy in [
        Policy::Fixed(Rate::from_mbit_per_sec(80)),
        Policy::Fair,
        Policy::Background,
    ] {
        let mut client = config();
        client.policy = policy;
        let mut net = Net::with(1, &clean(), &clean(), client, config());
        net.upload(1 << 40);
        net.world.run_until(at(secs(3)));
        let dead = PathConfig {
            loss: LossModel::Bernoulli(1.0),
            ..clean()
        };
        let backward = net.link.backward;
        net.world.set_path_config(backward, &dead);
        let sent = |net: &Net| net.client().connection().stats().bytes_sent;
        let (before, rate) = (sent(&net), Rate::from_mbit_per_sec(100));
        net.world.run_until(at(secs(10)));
        let more = sent(&net) - before;
        // What two round trips and 200 ms hold; half a round trip of answers was still on its way.
        let bound = rate.bytes_in(ms(40) * 3 + ms(250));
        assert!(more <= bound, "{policy:?}: {more} of {bound} bytes");
        // A peer that speaks again is served again.
        net.world.set_path_config(backward, &clean());
        let before = sent(&net);
        net.world.run_until(at(secs(13)));
        assert!(sent(&net) > before + rate.bytes_in(ms(500)), "{policy:?}");
    }
}

/// A connection on which the server sends as much as it may, and a number that the client will not use soon.
fn downloading(seed: u64, span: Span) -> (Net, u64) {
    let mut net = Net::symmetric(seed, &clean());
    net.download(1 << 40);
    net.world.run_until(at(span));
    // The honest client says nothing any more, and does not hear that somebody speaks for it.
    for path in [net.link.forward, net.link.backward] {
        let dead = PathConfig {
            loss: LossModel::Bernoulli(1.0),
            ..clean()
        };
        net.world.set_path_config(path, &dead);
    }
    let number = net.client().log.next_number + 100_000;
    (net, number)
}

fn report(number: u64, largest: u64) -> Report {
    Report {
        number,
        largest,
        ..Report::default()
    }
}

fn ends_with(net: &mut Net, offence: PeerMisbehaved) {
    let (_, error) = net.server().closed.clone().expect("the server ends it");
    assert_eq!(error, ConnectionError::PeerMisbehaved(offence));
}

#[test]
fn one_report_and_one_confirmation_stand_in_a_packet() {
    let ack = || Frame::ReportAck {
        newest: 1,
        earlier: 0,
        sparse: false,
    };
    let told = || Frame::Report(Box::new(report(1 << 20, 1)));
    for frames in [vec![ack(), ack()], vec![told(), told()]] {
        let (mut net, number) = downloading(1, ms(500));
        let now = net.world.now();
        let server = net.world.endpoint_mut(net.ends.b);
        craft::deliver(server, now, &craft::packet(number, &frames), 0);
        net.world.run_until(now + secs(1));
        ends_with(&mut net, PeerMisbehaved::Repetitious);
    }
}

/// A receiver that confirms whatever may be under way, packet by packet or all at once, confirms a number that was
/// left out.
#[test]
fn optimistic_reports_are_found_out() {
    for (seed, at_once) in [(1, true), (2, false), (3, true), (4, false)] {
        let (mut net, number) = downloading(seed, ms(300));
        let mut found_after = None;
        for step in 0..2_000 {
            let now = net.world.now();
            let next = net.server().log.next_number;
            let server = net.world.endpoint_mut(net.ends.b);
            let mut lie = report((1 << 20) + step, next - 1);
            let len = if at_once { next } else { 40 };
            let received = len.min(next);
            lie.coverage.push(Coverage {
                from: next - received,
                len: received,
                runs: vec![Run { received, lost: 0 }],
            });
            let frames = [Frame::Report(Box::new(lie))];
            craft::deliver(server, now, &craft::packet(number + step, &frames), 0);
            net.world.run_until(now + ms(2));
            if net.server().closed.is_some() {
                found_after = Some(step);
                break;
            }
        }
        println!("seed {seed}: found out after {found_after:?} reports");
        ends_with(&mut net, PeerMisbehaved::ReportedUnsent);
    }
}

/// One packet is never told of, and everything behind it is: the sender remembers a few windows and then waits, and
/// in the end it has had enough.
#[test]
fn a_hole_that_is_never_told_of_keeps_little_in_memory_and_ends_the_connection() {
    let (mut net, number) = downloading(1, ms(300));
    let hole = net.server().log.next_number;
    let mut most = 0;
    for step in 0..40_000 {
        let now = net.world.now();
        let sent = net.server().log.next_number;
        // Late enough that the last ones are there.
        let largest = sent.saturating_sub(1);
        let server = net.world.endpoint_mut(net.ends.b);
        let mut told = report((1 << 20) + step, largest);
        let lost = largest.saturating_sub(hole);
        if lost > 0 {
            told.coverage.push(Coverage {
                from: hole + 1,
                len: lost,
                runs: vec![Run { received: 0, lost }],
            });
        }
        let frames = [Frame::Report(Box::new(told))];
        craft::deliver(server, now, &craft::packet(number + step, &frames), 0);
        net.world.run_until(now + ms(2));
        most = most.max(net.server().connection().stats().packets_remembered);
        if net.server().closed.is_some() {
            break;
        }
    }
    println!("{most} packets remembered");
    assert!(most <= 1 << 16, "{most} packets remembered");
    ends_with(&mut net, PeerMisbehaved::ReportsWithheld);
}

/// H13: whoever replays what was said once does not keep a connection open whose other end is gone.
#[test]
fn h13_replayed_packets_do_not_keep_a_dead_connection_open() {
    let closed_at = |replays: bool| {
        let (mut net, number) = downloading(1, ms(300));
        let said = craft::packet(number, &[Frame::Ping]);
        for step in 0..3_000 {
            if step == 0 || replays {
                let now = net.world.now();
                let server = net.world.endpoint_mut(net.ends.b);
                craft::deliver(server, now, &said, 0);
            }
            let next = net.world.now() + ms(100);
            net.world.run_until(next);
            if let Some((at, _)) = net.server().closed {
                return at;
            }
        }
        panic!("it stays open");
    };
    // Answers to a packet may make a moment's difference.
    let (alone, replayed) = (closed_at(false), closed_at(true));
    assert!(
        replayed <= alone + secs(1),
        "{replayed:?}, and {alone:?} without"
    );
}

/// What a sender puts on a path of 100 Mbit/s in six seconds, as a share of what the path takes, when its receiver lies so.
fn pressed(policy: Policy, rtt: Span, lie: Lie) -> f64 {
    let rate = Rate::from_mbit_per_sec(100);
    let mut client = config();
    client.policy = policy;
    let clean = path(rate, rtt, 1_500);
    let mut net = Net::with(3, &clean, &clean, client, config());
    net.world.endpoint_mut(net.ends.b).lie = Some(lie);
    net.upload(1 << 40);
    net.world.run_until(at(secs(4)));
    let sent = |net: &Net| net.client().connection().stats().bytes_sent;
    let before = sent(&net);
    net.world.run_until(at(secs(10)));
    (sent(&net) - before) as f64 / rate.bytes_in(secs(6)) as f64
}

/// H7: what a receiver says of times, bytes and its own drops nobody can check; but what was sent when, and what of it is lost,
/// the sender knows by itself, and it believes no more than fits.
#[test]
fn h7_a_receiver_that_lies_makes_nobody_send_much_more_than_the_path_takes() {
    let lies: [(&str, Lie); 9] = [
        ("slow clock", liar::slow_clock),
        ("no time", liar::no_time),
        ("long delay", liar::long_delay),
        ("all bytes", liar::all_bytes),
        ("refused", liar::refused),
        ("dropped", liar::dropped),
        ("slow clock, all bytes", |report| {
            liar::slow_clock(report);
            liar::all_bytes(report);
        }),
        ("all, refused", |report| {
            liar::no_time(report);
            liar::all_bytes(report);
            liar::long_delay(report);
            liar::refused(report);
        }),
        ("all, dropped", |report| {
            liar::slow_clock(report);
            liar::all_bytes(report);
            liar::long_delay(report);
            liar::dropped(report);
        }),
    ];
    for policy in [Policy::Fair, Policy::Background] {
        for rtt in [4, 40, 200] {
            for (name, lie) in lies {
                let share = pressed(policy, ms(rtt), lie);
                println!("{policy:?} {rtt} ms {name}: {share:.2}");
                assert!(share < 2.1, "{policy:?} {rtt} ms {name}: {share:.2}");
            }
        }
    }
}
