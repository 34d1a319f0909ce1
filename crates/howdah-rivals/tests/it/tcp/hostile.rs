//! Segments that no honest peer would send: nothing panics, no count goes wrong (debug builds
//! recount), and an honest transfer still ends where the lies could not have changed its state.

use howdah_core::{Arrival, Datagram, Observe, Span, Time, Transport};
use howdah_rivals::tcp::segment::{ACK, FIN, SYN, Segment, Side, Timestamps};
use howdah_rivals::tcp::{LossDetection, ReceiverConfig, Supply, TcpConfig, TcpEndpoint};
use proptest::prelude::*;

/// A lie, relative to where an honest segment would be.
#[derive(Clone, Debug)]
struct Lie {
    seq: i32,
    ack: i32,
    flags: u8,
    window: u16,
    stamp: Option<(u32, u32)>,
    blocks: Vec<(i32, i32)>,
    len: u32,
    after_us: u64,
}

fn lies() -> impl Strategy<Value = Vec<Lie>> {
    let near = prop_oneof![4 => 0..6000_i32, 2 => -3000..30_000_i32, 1 => any::<i32>()];
    let block = (-5000..60_000_i32, -3000..20_000_i32)
        .prop_map(|(left, len)| (left, left.saturating_add(len)));
    let lie = (
        (near.clone(), near, 0..32_u8, any::<u16>()),
        prop::option::of((0..100_u32, 0..100_u32)),
        prop::collection::vec(block, 0..4),
        prop_oneof![Just(0), Just(1448), 0..3000_u32],
        prop_oneof![0..2000_u64, 0..2_000_000_u64],
    )
        .prop_map(
            |((seq, ack, flags, window), stamp, blocks, len, after_us)| Lie {
                seq,
                ack,
                // Mostly plain acknowledgements.
                flags: if flags & 0x18 == 0 {
                    flags
                } else {
                    ACK | (flags & FIN)
                },
                window,
                stamp,
                blocks,
                len,
                after_us,
            },
        );
    prop::collection::vec(lie, 1..40)
}

fn tell(lie: &Lie, side: Side) -> Segment {
    let base = 2_u32;
    let mut segment = Segment {
        side,
        seq: base.wrapping_add_signed(lie.seq),
        ack: base.wrapping_add_signed(lie.ack),
        flags: lie.flags,
        window: lie.window,
        timestamps: lie.stamp.map(|(value, echo)| Timestamps { value, echo }),
        mss: (lie.flags & SYN != 0).then_some(lie.window),
        ..Segment::default()
    };
    for &(left, right) in &lie.blocks {
        segment.sack.push(
            base.wrapping_add_signed(left),
            base.wrapping_add_signed(right),
        );
    }
    segment
}

fn hand_over(now: Time, datagrams: &mut Vec<Datagram>, to: &mut TcpEndpoint) {
    for datagram in datagrams.drain(..) {
        to.handle_datagram(
            now,
            Arrival {
                bytes: &datagram.bytes,
                absent: datagram.absent,
                corrupt: false,
            },
        );
    }
}

/// All that an endpoint wants to send now.
fn drain(now: Time, endpoint: &mut TcpEndpoint, out: &mut Vec<Datagram>) {
    while endpoint.poll_transmit(now, 64, out) > 0 {
        assert!(out.len() < 100_000, "it never ends");
    }
}

fn pair(config: &TcpConfig) -> (TcpEndpoint, TcpEndpoint) {
    let supply = Supply::Sized { bytes: 200_000 };
    (
        TcpEndpoint::sender(config, supply, 1),
        TcpEndpoint::receiver(&ReceiverConfig::modern()),
    )
}

fn configs() -> Vec<TcpConfig> {
    vec![
        TcpConfig::modern(),
        TcpConfig::linux24(),
        TcpConfig {
            sack: false,
            ..TcpConfig::linux26()
        },
        TcpConfig {
            loss_detection: LossDetection::DuplicateAcks {
                fack: false,
                adapt_reordering: true,
                lost_retransmissions: true,
                rescue: true,
            },
            timestamps: false,
            ..TcpConfig::modern()
        },
    ]
}

proptest! {
    #[test]
    fn a_sender_survives_lies(lies in lies()) {
        for config in configs() {
            let (mut near, mut far) = pair(&config);
            let mut now = Time::ZERO;
            let mut out = Vec::new();
            // Handshake and the first data, honestly.
            near.handle_timeout(now);
            drain(now, &mut near, &mut out);
            hand_over(now, &mut out, &mut far);
            drain(now, &mut far, &mut out);
            now += Span::from_millis(10);
            hand_over(now, &mut out, &mut near);
            drain(now, &mut near, &mut out);
            prop_assert!(out.len() > 1);
            for lie in &lies {
                now += Span::from_micros(lie.after_us);
                let bytes = tell(lie, Side::Receiver).encode();
                near.handle_datagram(now, Arrival { bytes: &bytes, absent: lie.len, corrupt: false });
                drain(now, &mut near, &mut out);
                if near.poll_timeout().is_some_and(|(at, _)| at <= now) {
                    near.handle_timeout(now);
                    drain(now, &mut near, &mut out);
                }
                let state = near.snapshot();
                prop_assert!(state.sent_bytes >= state.retransmitted_bytes);
                prop_assert!(state.cwnd_bytes >= Some(1));
            }
        }
    }

    #[test]
    fn a_receiver_survives_lies(lies in lies()) {
        let (mut near, mut far) = pair(&TcpConfig::modern());
        let mut now = Time::ZERO;
        let mut out = Vec::new();
        near.handle_timeout(now);
        drain(now, &mut near, &mut out);
        hand_over(now, &mut out, &mut far);
        drain(now, &mut far, &mut out);
        // The first data acknowledge the handshake; the rest never comes.
        hand_over(now, &mut out, &mut near);
        drain(now, &mut near, &mut out);
        out.truncate(1);
        hand_over(now, &mut out, &mut far);
        drain(now, &mut far, &mut out);
        prop_assert!(far.snapshot().delivered_bytes > 0);
        let mut delivered = 0;
        for lie in &lies {
            now += Span::from_micros(lie.after_us);
            let bytes = tell(lie, Side::Sender).encode();
            far.handle_datagram(now, Arrival { bytes: &bytes, absent: lie.len, corrupt: false });
            drain(now, &mut far, &mut out);
            if far.poll_timeout().is_some_and(|(at, _)| at <= now) {
                far.handle_timeout(now);
                drain(now, &mut far, &mut out);
            }
            let state = far.snapshot();
            prop_assert!(state.delivered_bytes >= delivered, "what was delivered stays so");
            delivered = state.delivered_bytes;
        }
    }
}
