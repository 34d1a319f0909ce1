//! What a peer may write at most, as docs/protocol.md says; one more of anything is no packet.

use super::{
    CodecError, Coverage, EcnCounts, Frame, FrameWriter, Reader, Report, Run, RxSample, SinkState,
    TrainSeen, Writer, frames, limits, run_len,
};
use howdah_core::{Ecn, ObjectId};

#[test]
fn limits_are_those_of_the_specification() {
    assert_eq!(limits::MAX_CRYPTO_BYTES, 16_384);
    assert_eq!(limits::MAX_CONTROL_AHEAD, 262_144);
    assert_eq!(limits::MAX_CONTROL_MESSAGE, 65_536);
    assert_eq!(
        (limits::MAX_DATAGRAM, limits::MIN_DATAGRAM),
        (65_000, 1_200)
    );
    assert_eq!((limits::MAX_REASON, limits::MAX_OPEN_OBJECTS), (256, 64));
    assert_eq!(
        (limits::MAX_RANGES, limits::MAX_OFFSET),
        (1_048_576, 1 << 62)
    );
    assert_eq!(
        (limits::MAX_COVERAGE_BLOCKS, limits::MAX_COVERAGE_SPAN),
        (16, 16_777_216)
    );
    assert_eq!((limits::MAX_LATE, limits::MAX_SAMPLES), (64, 8));
}

fn report() -> Report {
    Report {
        number: 1,
        largest: 1 << 30,
        largest_rx_time_us: 1 << 30,
        ..Report::default()
    }
}

fn read(report: &Report) -> Result<Report, CodecError> {
    let mut bytes = Vec::new();
    report.encode(&mut Writer::new(&mut bytes));
    Report::decode(&mut Reader::new(&bytes))
}

fn covers(from: u64, received: u64, lost: u64) -> Coverage {
    Coverage {
        from,
        len: received + lost,
        runs: vec![Run { received, lost }],
    }
}

#[test]
fn reports_are_bounded() {
    let blocks = |count: u64| Report {
        coverage: (0..count).map(|n| covers(10 * n, 3, 2)).collect(),
        ..report()
    };
    assert_eq!(read(&blocks(16)), Ok(blocks(16)));
    assert!(read(&blocks(17)).is_err());
    let late = |count: u64| Report {
        late: (0..count).collect(),
        ..report()
    };
    assert_eq!(read(&late(64)), Ok(late(64)));
    assert!(read(&late(65)).is_err());
    let samples = |count: u64| Report {
        samples: (0..count)
            .map(|number| RxSample {
                number,
                rx_time_us: number,
            })
            .collect(),
        ..report()
    };
    assert_eq!(read(&samples(8)), Ok(samples(8)));
    assert!(read(&samples(9)).is_err());
    let span = |from: u64, received: u64, lost: u64| Report {
        coverage: [covers(from, received, lost)].into_iter().collect(),
        ..report()
    };
    let most = limits::MAX_COVERAGE_SPAN;
    for (received, lost) in [(most, 0), (1, most - 1), (0, most), (most - 1, 1)] {
        let whole = span(5, received, lost);
        assert_eq!(read(&whole), Ok(whole), "{received} {lost}");
        assert!(
            read(&span(5, received + 1, lost)).is_err(),
            "{received} {lost}"
        );
    }
    // Up to the largest number that has arrived, and none behind it.
    let last = (1 << 30) - 9;
    assert_eq!(read(&span(last, 10, 0)), Ok(span(last, 10, 0)));
    assert_eq!(read(&span(last, 11, 0)), Err(CodecError::Inconsistent));
    for flag in [0x20u8, 0x40, 0x80] {
        let mut bytes = Vec::new();
        report().encode(&mut Writer::new(&mut bytes));
        bytes[0] |= flag;
        assert_eq!(
            Report::decode(&mut Reader::new(&bytes)),
            Err(CodecError::Inconsistent)
        );
    }
}

#[test]
fn the_longest_report_is_as_long_as_it_says() {
    let largest = u64::MAX;
    let whole = Report {
        number: u64::MAX,
        largest,
        largest_rx_time_us: u64::MAX,
        delay_us: u64::MAX,
        packets: u64::MAX,
        bytes: u64::MAX,
        socket_drops: u64::MAX,
        sink_drops: u64::MAX,
        late: (0..limits::MAX_LATE).collect(),
        samples: (0..limits::MAX_SAMPLES)
            .map(|number| RxSample {
                number,
                rx_time_us: 0,
            })
            .collect(),
        sink: Some(SinkState {
            queued_bytes: u64::MAX,
            capacity_bytes: u64::MAX,
            drain_kb_per_s: u64::MAX,
        }),
        marks: EcnCounts {
            ect0: 1 << 62,
            ect1: 0,
            ce: 1 << 63,
        },
        ..Report::default()
    };
    let mut bytes = Vec::new();
    whole.encode(&mut Writer::new(&mut bytes));
    // No two of the counts of marks can be ten bytes long, as their sum is no more than all packets; ten more are left over.
    assert_eq!(bytes.len() + 2 + 10, Report::MAX_FIXED_LEN);
    assert_eq!(Report::decode(&mut Reader::new(&bytes)), Ok(whole));
}

#[test]
fn a_report_says_what_there_is_and_no_more() {
    let mut bytes = Vec::new();
    Report::default().encode(&mut Writer::new(&mut bytes));
    // Flags, six numbers, and how many stretches there are.
    assert_eq!(bytes, [0; 8]);
}

#[test]
fn runs_do_not_reach_beyond_their_stretch() {
    // Of five packets: two received, one lost and three received; two received and four lost.
    for runs in [[0, 5, 2 << 1, 3 << 1], [0, 5, 2 << 1 | 1, 4 - 2]] {
        let read = Coverage::decode(&mut Reader::new(&runs));
        assert_eq!(read, Err(CodecError::Inconsistent));
    }
}

fn first(frame: &Frame<'_>) -> Result<usize, CodecError> {
    let mut body = Vec::new();
    FrameWriter::new(&mut body).frame(frame);
    let read = frames(&body).next().expect("a frame");
    read.map(|again| {
        assert_eq!(&again, frame);
        body.len()
    })
}

#[test]
fn frames_are_bounded() {
    let many = vec![0; limits::MAX_CRYPTO_BYTES as usize + 1];
    let crypto = |offset: u64, len: usize| {
        first(&Frame::Crypto {
            offset,
            bytes: &many[..len],
        })
    };
    assert!(crypto(16_384, 0).is_ok() && crypto(0, 16_384).is_ok());
    assert!(crypto(16_385, 0).is_err() && crypto(0, 16_385).is_err());
    assert!(first(&Frame::CryptoAck(16_384)).is_ok());
    assert!(first(&Frame::CryptoAck(16_385)).is_err());
    let train = |from, last, packets| {
        let span_us = u32::MAX;
        let seen = TrainSeen {
            first: from,
            last,
            packets,
            rx_time_us: u64::MAX,
            span_us,
        };
        first(&Frame::Train(seen)).is_ok()
    };
    assert!(train(0, 19, 20) && train(18, 19, 0));
    assert!(!train(0, 20, 1) && !train(7, 7, 1) && !train(8, 7, 1) && !train(4, 7, 5));
    let most = limits::MAX_OFFSET;
    for (offset, is_fine) in [(most, true), (most + 1, false)] {
        let control = Frame::Control {
            offset,
            bytes: b"x",
        };
        assert_eq!(first(&control).is_ok(), is_fine);
        let data = Frame::Data {
            object: ObjectId::new(1),
            offset,
        };
        assert_eq!(first(&data).is_ok(), is_fine);
        let window_end = offset;
        let credit = Frame::Credit {
            object: ObjectId::new(1),
            window_end,
        };
        assert_eq!(first(&credit).is_ok(), is_fine);
    }
    // A reason is cut where a character begins.
    let long = "é".repeat(200);
    let mut body = Vec::new();
    FrameWriter::new(&mut body).frame(&Frame::Close {
        code: 1,
        reason: &long,
    });
    let Some(Ok(Frame::Close { reason, .. })) = frames(&body).next() else {
        panic!("a close");
    };
    assert_eq!(reason, "é".repeat(128));
    let odd = format!("x{long}");
    body.clear();
    FrameWriter::new(&mut body).frame(&Frame::Close {
        code: 1,
        reason: &odd,
    });
    let Some(Ok(Frame::Close { reason, .. })) = frames(&body).next() else {
        panic!("a close");
    };
    assert_eq!(reason.len(), 255);
}

/// How long a run is said to be decides how many are put into a report.
#[test]
fn runs_are_as_long_as_they_are_said_to_be() {
    let len = |runs: &[Run]| {
        let len = runs.iter().map(|run| run.received + run.lost).sum();
        let runs = runs.to_vec();
        let report = Report {
            coverage: [Coverage { from: 0, len, runs }].into_iter().collect(),
            ..Report::default()
        };
        let mut out = Vec::new();
        report.encode(&mut Writer::new(&mut out));
        (out.len(), len)
    };
    // Lengths of the block that take one byte more are counted, too.
    let of_block = |len: u64| (64 - len.leading_zeros()).div_ceil(7).max(1) as usize;
    for received in [1, 63, 64, 8_191, 8_192] {
        for lost in [0, 1, 2, 129, 130, 16_385, 16_386] {
            let run = Run { received, lost };
            let (one, of_one) = len(&[run]);
            let (two, of_two) = len(&[run, run]);
            let grown = two - one - (of_block(of_two) - of_block(of_one));
            assert_eq!(run_len(run), grown, "{run:?}");
        }
    }
}

#[test]
fn what_is_counted_and_how_full_a_sink_is() {
    let mut counts = EcnCounts::default();
    for ecn in [
        Ecn::Ect0,
        Ecn::Ect0,
        Ecn::Ect1,
        Ecn::Ect1,
        Ecn::Ect1,
        Ecn::Ce,
        Ecn::NotEct,
    ] {
        counts.count(ecn);
    }
    assert_eq!((counts.ect0, counts.ect1, counts.ce), (2, 3, 1));
    let sink = |queued_bytes, capacity_bytes| SinkState {
        queued_bytes,
        capacity_bytes,
        drain_kb_per_s: 0,
    };
    assert!((sink(3, 4).fill() - 0.75).abs() < 1e-9);
    assert!((sink(3, 0).fill() - 3.0).abs() < 1e-9);
}
