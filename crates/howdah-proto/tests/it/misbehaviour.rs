//! Peers that break the protocol, and others that have no business here.

use crate::support::{Dice, Net, at, craft, for_seeds, ms, path, secs};
use howdah_core::{Arrival, ObjectId, Rate, Time, Transport};
use howdah_path::PathConfig;
use howdah_proto::codec::{
    CodecError, Coverage, Frame, Report, Run, RxSample, SinkState, TrainSeen, limits,
};
use howdah_proto::error::{CloseCode, ConnectionError, PeerMisbehaved};

fn clean() -> PathConfig {
    path(Rate::from_mbit_per_sec(100), ms(20), 1_500)
}

/// An established connection: 10 kB up and 10 kB down are through.
fn established(seed: u64) -> (Net, u64) {
    let mut net = Net::symmetric(seed, &clean());
    net.upload(10_000);
    net.download(10_000);
    net.run_to_end(secs(5), "before the offence");
    net.world.run_until(at(secs(1)));
    // A number that the client has not used, and soon will not.
    let number = net.client().log.next_number + 1_000;
    (net, number)
}

/// Gives the server a crafted packet as if it came from the client.
fn offend(net: &mut Net, bytes: &[u8], payload: u32) {
    let now = net.world.now();
    let server = net.world.endpoint_mut(net.ends.b);
    craft::deliver(server, now, bytes, payload);
}

/// The server ends the connection because of `offence`, and the client is told.
fn assert_offence(net: &mut Net, offence: PeerMisbehaved) {
    let now = net.world.now();
    net.world.run_until(now + secs(1));
    let (_, error) = net.server().closed.clone().expect("the server ends it");
    assert_eq!(error, ConnectionError::PeerMisbehaved(offence));
    match net.client().closed.clone().expect("the client is told") {
        (when, ConnectionError::ClosedByPeer { code, reason }) => {
            assert_eq!(code, CloseCode::Protocol);
            assert_eq!(reason, format!("the peer {offence}"));
            assert!(when <= now + ms(15), "{when}");
        }
        other => panic!("{other:?}"),
    }
}

fn check(frames: &[Frame<'_>], payload: u32, offence: PeerMisbehaved) {
    let (mut net, number) = established(1);
    offend(&mut net, &craft::packet(number, frames), payload);
    assert_offence(&mut net, offence);
}

fn report(largest: u64) -> Report {
    Report {
        number: 1 << 20,
        largest,
        ..Report::default()
    }
}

#[test]
fn reports_of_packets_that_were_never_sent() {
    let ahead = report(1 << 40);
    check(
        &[Frame::Report(Box::new(ahead))],
        0,
        PeerMisbehaved::ReportedUnsent,
    );
    let next = established(1).0.server().log.next_number;
    let one_ahead = report(next);
    check(
        &[Frame::Report(Box::new(one_ahead))],
        0,
        PeerMisbehaved::ReportedUnsent,
    );
    let zeroth = Report {
        number: 0,
        ..report(1)
    };
    check(
        &[Frame::Report(Box::new(zeroth))],
        0,
        PeerMisbehaved::ReportedUnsent,
    );
}

#[test]
fn reports_that_contradict_themselves() {
    let mut beyond = report(3);
    beyond.coverage.push(Coverage {
        from: 0,
        len: 50,
        runs: vec![Run {
            received: 50,
            lost: 0,
        }],
    });
    let offence = PeerMisbehaved::Malformed(CodecError::Inconsistent);
    check(&[Frame::Report(Box::new(beyond))], 0, offence);
}

#[test]
fn data_beyond_the_end_or_the_window() {
    for (offset, payload) in [(10_000, 1), (9_999, 2), (1 << 61, 1), (0, 10_001)] {
        let (mut net, number) = established(1);
        let id = net.upload(10_000);
        let data = [Frame::Data { object: id, offset }];
        offend(&mut net, &craft::packet(number, &data), payload);
        assert_offence(&mut net, PeerMisbehaved::DataBeyondEnd);
    }
    let (mut net, number) = established(1);
    let server = net.world.endpoint_mut(net.ends.b);
    server.expect(ObjectId::new(70), 1 << 30, Some(5_000));
    let data = [Frame::Data {
        object: ObjectId::new(70),
        offset: 4_500,
    }];
    offend(&mut net, &craft::packet(number, &data), 501);
    assert_offence(&mut net, PeerMisbehaved::DataBeyondEnd);
}

#[test]
fn data_at_the_last_offset_of_all() {
    let data = [Frame::Data {
        object: ObjectId::new(70),
        offset: limits::MAX_OFFSET,
    }];
    check(&data, 1, PeerMisbehaved::DataBeyondEnd);
}

#[test]
fn control_bytes_beyond_the_window_and_messages_above_the_limit() {
    let far = Frame::Control {
        offset: limits::MAX_CONTROL_AHEAD,
        bytes: b"x",
    };
    check(&[far], 0, PeerMisbehaved::ControlOverflow);
    let last = Frame::Control {
        offset: limits::MAX_OFFSET,
        bytes: b"x",
    };
    check(&[last], 0, PeerMisbehaved::ControlOverflow);
    let huge = Frame::Control {
        offset: 0,
        bytes: &(limits::MAX_CONTROL_MESSAGE as u32 + 1).to_be_bytes(),
    };
    check(&[huge], 0, PeerMisbehaved::ControlOverflow);
}

#[test]
fn frames_where_they_may_not_stand() {
    let crypto = Frame::Crypto {
        offset: 0,
        bytes: b"x",
    };
    let train = Frame::Train(TrainSeen {
        first: 0,
        last: 19,
        packets: 20,
        rx_time_us: 7,
        span_us: 300,
    });
    for frame in [crypto, Frame::CryptoAck(5), train] {
        check(&[frame], 0, PeerMisbehaved::MisplacedFrame);
    }
}

/// The peer updates its keys twice, the second time before this side could use the first.
#[test]
fn a_key_update_before_the_last_one_was_answered() {
    let (mut net, number) = established(1);
    let now = net.world.now();
    for (step, phase) in [(0, true), (1, false)] {
        let mut bytes = craft::header(number + step, phase);
        bytes.push(1); // ping
        // Without a chance to be heard in between.
        let server = net.world.endpoint_mut(net.ends.b);
        craft::deliver(server, now, &bytes, 0);
    }
    assert_offence(&mut net, PeerMisbehaved::EarlyKeyUpdate);
}

#[test]
fn packets_that_cannot_be_read() {
    for (bytes, error) in [
        (&[0x7f][..], CodecError::UnknownFrame(0x7f)),
        (&[0x06, 0x80], CodecError::Truncated),
        (&[0x06, 0x80, 0x00, 0x00], CodecError::BadInteger),
        (&[0x06, 0x00, 0x05, 0x01], CodecError::Truncated),
        (
            &[0x07, 0x00, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
            CodecError::LimitExceeded,
        ),
        (&[0x0a, 0x00, 0x00, 0x01, 0xff], CodecError::BadText),
        (&[0x04, 0xff], CodecError::Inconsistent),
    ] {
        let (mut net, number) = established(1);
        let packet = [&craft::header(number, false)[..], bytes].concat();
        offend(&mut net, &packet, 0);
        assert_offence(&mut net, PeerMisbehaved::Malformed(error));
    }
}

/// Values at the edges of what a field holds: no panic, whatever else.
#[test]
fn extreme_values_are_survived() {
    let extreme = |number: u64, edge: u64| {
        let mut report = Report {
            number,
            largest: 2,
            largest_rx_time_us: edge,
            delay_us: edge,
            packets: edge,
            bytes: edge,
            socket_drops: edge,
            sink_drops: edge,
            sink: Some(SinkState {
                queued_bytes: edge,
                capacity_bytes: edge,
                drain_kb_per_s: edge,
            }),
            ..Report::default()
        };
        report.late.push(0);
        report.samples.push(RxSample {
            number: 1,
            rx_time_us: edge,
        });
        report
    };
    for edge in [
        0,
        1,
        u64::from(u32::MAX),
        i64::MAX as u64,
        u64::MAX - 1,
        u64::MAX,
    ] {
        let (mut net, number) = established(1);
        let id = net.download(3_000_000);
        for step in 0..10 {
            let report_number = if step % 2 == 0 { edge } else { 1_000 + step };
            let frames = [
                Frame::Report(Box::new(extreme(report_number.max(1), edge))),
                Frame::ReportAck {
                    newest: edge,
                    earlier: edge,
                    sparse: edge & 1 == 1,
                },
                Frame::Credit {
                    object: id,
                    window_end: edge.min(limits::MAX_OFFSET),
                },
                Frame::PathResponse(edge),
                Frame::PathChallenge(edge),
            ];
            offend(&mut net, &craft::packet(number + step, &frames), 0);
            let now = net.world.now();
            net.world.run_until(now + ms(30));
        }
    }
}

/// A packet whose number is far ahead of all others (a peer that skips numbers).
#[test]
fn numbers_far_ahead_are_an_offence_or_harmless() {
    for ahead in [1_000, 1 << 20, 1 << 24, 1 << 31, u64::from(u32::MAX)] {
        let (mut net, number) = established(1);
        let packet = craft::packet(number + ahead, &[Frame::Ping]);
        offend(&mut net, &packet, 0);
        net.world.run_until(at(secs(3)));
        let (_, error) = net.server().closed.clone().expect("closed");
        // Below the limit the server reports it, and the client knows nothing of such a packet. The
        // last one is so far ahead that its low half is a number near by.
        let limit = (limits::MAX_COVERAGE_SPAN..u64::from(u32::MAX)).contains(&ahead);
        assert_eq!(
            error == ConnectionError::PeerMisbehaved(PeerMisbehaved::NumberTooFar),
            limit
        );
        assert!(
            limit || matches!(error, ConnectionError::ClosedByPeer { .. }),
            "{ahead}: {error}"
        );
    }
}

/// Random frames' bytes in packets that authenticate: a typed end or nothing, no panic.
#[test]
fn random_bytes_in_sealed_packets_never_panic() {
    let mut closed = 0;
    for_seeds("random frames", 500, |seed| {
        let dice = &mut Dice::new(seed);
        let (mut net, number) = established(seed);
        net.download(100_000);
        for step in 0..20 {
            let mut packet = craft::header(number + step, dice.chance(0.1));
            for _ in 0..dice.below(4) {
                packet.push(dice.below(14) as u8);
                let len = dice.below(30);
                packet.extend((0..len).map(|_| dice.pick(&[0, 1, 2, 5, 0x7f, 0x80, 0xff])));
            }
            offend(&mut net, &packet, dice.below(2_000) as u32);
        }
        net.world.run_until(at(secs(2)));
        if let Some((_, error)) = &net.server().closed {
            closed += 1;
            let allowed = matches!(
                error,
                ConnectionError::PeerMisbehaved(_) | ConnectionError::ClosedByPeer { .. }
            );
            assert!(allowed, "{error}");
        }
    });
    println!("{closed} connections ended");
}

/// Datagrams that do not authenticate, before, while and after the handshake: nothing changes but
/// a counter (A13).
#[test]
fn garbage_changes_nothing() {
    let run = |garbage: bool| {
        let mut net = Net::symmetric(1, &clean());
        net.upload(300_000);
        let mut dice = Dice::new(1);
        let mut log = Vec::new();
        for step in 0..100 {
            net.world.run_until(at(ms(step * 3)));
            let now = net.world.now();
            let connection = net.server().connection();
            let mut stats = connection.stats();
            stats.datagrams_refused = 0;
            log.push((connection.poll_timeout(), format!("{stats:?}")));
            if garbage {
                throw_garbage(&mut net, now, &mut dice);
            }
        }
        net.run_to_end(secs(5), "beside garbage");
        (log, net.server().complete.clone())
    };
    assert_eq!(run(true), run(false));
}

fn throw_garbage(net: &mut Net, now: Time, dice: &mut Dice) {
    let bytes: Vec<u8> = (0..dice.below(200))
        .map(|_| dice.below(256) as u8)
        .collect();
    for corrupt in [true, false] {
        // Not marked as damaged, but with a first byte of no packet.
        let mut bytes = bytes.clone();
        if !corrupt {
            bytes.insert(0, 0x20);
        }
        let arrival = Arrival {
            bytes: &bytes,
            absent: 16,
            corrupt,
        };
        net.world
            .endpoint_mut(net.ends.b)
            .handle_datagram(now, arrival);
    }
}
