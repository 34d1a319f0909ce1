//! How long a packet takes on its way through the protocol: header, frames and reports written and read, sealing and opening, and a step
//! of the rate control.
//!
//! `cargo bench -p howdah-proto`. Each case runs nine times and the best counts.

use howdah_core::ObjectId;
use howdah_proto::codec::{
    ConnectionId, Coverage, Frame, FrameWriter, Header, Report, Run, RxSample, SinkState, frames,
};
use howdah_proto::sim::RateSteps;
use howdah_proto::{AeadKey, Policy, TAG_LEN};
use rustls::Side;
use rustls::crypto::aws_lc_rs::cipher_suite::{
    TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256,
};
use rustls::quic::Version;
use std::hint::black_box;
use std::time::Instant;

const TIMES: u64 = 20_000;

/// `run` is told which time it is.
fn report(what: &str, times: u64, mut run: impl FnMut(u64)) {
    #[expect(clippy::disallowed_methods, reason = "it measures")]
    let time = |run: &mut dyn FnMut(u64)| {
        let began = Instant::now();
        (0..times).for_each(run);
        began.elapsed()
    };
    let best = (0..9).map(|_| time(&mut run)).min().unwrap_or_default();
    println!(
        "{what:<40} {:>9.1} ns",
        best.as_secs_f64() * 1e9 / times as f64
    );
}

/// What a receiver tells four times in a round trip at 10 Gbit/s, 100 ms and 1 % of loss.
fn told() -> Report {
    const LARGEST: u64 = 10_000_000;
    let runs = (0..35).map(|n| Run {
        received: 60 + n % 80,
        lost: 1,
    });
    let runs: Vec<_> = runs.collect();
    let len = runs.iter().map(|run| run.received + run.lost).sum();
    let from = LARGEST - len;
    let sample = |n: u64| RxSample {
        number: from + n,
        rx_time_us: 70_000_000 + 7 * n,
    };
    Report {
        number: 2_816,
        largest: LARGEST,
        largest_rx_time_us: 70_400_000,
        delay_us: 12,
        packets: 9_900_000,
        bytes: 9_900_000 * 8_828,
        coverage: std::iter::once(Coverage { from, len, runs }).collect(),
        samples: (0..8).map(sample).collect(),
        sink: Some(SinkState {
            queued_bytes: 4 << 20,
            capacity_bytes: 64 << 20,
            drain_kb_per_s: 1_250_000,
        }),
        ..Report::default()
    }
}

fn codec() {
    let header = |n: u64| Header::Data {
        phase: false,
        destination: ConnectionId(0x0123_4567_89ab_cdef),
        number_low: n as u32,
    };
    let data = |n: u64| Frame::Data {
        object: ObjectId::new(7),
        offset: n * 8_800,
    };
    let mut out = Vec::new();
    report("header and frame of data written", TIMES, |n| {
        out.clear();
        header(n).encode(&mut out);
        FrameWriter::new(&mut out).frame(&data(n));
        black_box(&out);
    });
    report("header and frame of data read", TIMES, |_| {
        let (header, len) = Header::decode(&out).expect("it was written before");
        let frame = frames(&out[len..]).next().expect("there is one");
        black_box((header, frame.is_ok()));
    });
    let told = Frame::Report(Box::new(told()));
    let mut body = Vec::new();
    report("report of 2,730 packets written", TIMES, |_| {
        body.clear();
        FrameWriter::new(&mut body).frame(&told);
        black_box(&body);
    });
    println!("{:<40} {:>9} bytes", "    it takes", body.len());
    report("report of 2,730 packets read", TIMES, |_| {
        let read = frames(&body).next().expect("there is one");
        assert!(read.is_ok());
        black_box(read.is_ok());
    });
}

fn sealing() {
    let suites = [
        ("AES-256-GCM", TLS13_AES_256_GCM_SHA384),
        ("ChaCha20-Poly1305", TLS13_CHACHA20_POLY1305_SHA256),
    ];
    for (name, suite) in suites {
        let suite = suite.tls13().and_then(rustls::Tls13CipherSuite::quic_suite);
        let suite = suite.expect("aws-lc-rs has it for QUIC");
        let keys = |side| suite.keys(&[7; 8], side, Version::V1);
        let seals = AeadKey::Sealed(keys(Side::Client).local.packet.into());
        let opens = AeadKey::Sealed(keys(Side::Server).remote.packet.into());
        for payload in [1_400_usize, 8_800] {
            let header = [0x40; 13];
            let mut body = vec![0; payload + TAG_LEN];
            report(&format!("{payload} bytes sealed, {name}"), TIMES, |n| {
                let tag = seals.seal(n, &header, &mut body[..payload]);
                body[payload..].copy_from_slice(&tag);
            });
            let last = TIMES - 1;
            let sealed = body.clone();
            report(&format!("{payload} bytes opened, {name}"), TIMES, |_| {
                body.copy_from_slice(&sealed);
                let opened = opens.open(last, &header, &mut body);
                assert_eq!(opened.ok(), Some(payload));
            });
        }
    }
}

fn main() {
    codec();
    sealing();
    for (name, policy) in [("fair", Policy::Fair), ("background", Policy::Background)] {
        let mut steps = RateSteps::new(policy);
        report(&format!("step of the rate control, {name}"), TIMES, |_| {
            black_box(steps.step());
        });
    }
}
