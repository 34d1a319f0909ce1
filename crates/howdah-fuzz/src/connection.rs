//! Two connections in the clear, an attacker between them who holds all keys, and applications
//! that do as they like: nothing panics, nothing loops for ever.

use crate::structured;
use arbitrary::Arbitrary;
use howdah_core::{Arrival, Datagram, Ecn, ObjectId, Span, Time, Transport as _};
use howdah_proto::TransmitInfo;
use howdah_proto::codec::{
    ConnectionId, Coverage, EcnCounts, Frame, FrameWriter, Header, Level, Report, Run, RxSample,
    SinkState, VERSION,
};
use howdah_proto::error::CloseCode;
use howdah_proto::sim::{SimEndpoint, sim_config};
use std::collections::VecDeque;
use std::net::SocketAddr;

const SEED: u64 = 1;
/// Datagrams on the way in one direction.
const MAX_IN_FLIGHT: usize = 2_000;
/// Datagrams that one endpoint may want to send at one moment.
const MAX_AT_ONCE: usize = 20_000;

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Side {
    Client,
    Server,
}

#[derive(Arbitrary, Debug)]
enum Op<'a> {
    /// Datagrams reach `to`, in order.
    Deliver {
        to: Side,
        count: u8,
    },
    /// Both sides talk for some round trips.
    Talk {
        rounds: u8,
    },
    /// The datagram at `index` is lost, doubled, or overtakes the others.
    Lose {
        to: Side,
        index: u8,
    },
    Double {
        to: Side,
        index: u8,
    },
    Hurry {
        to: Side,
        index: u8,
    },
    /// A genuine datagram arrives with a byte changed.
    Damage {
        to: Side,
        index: u8,
        at: u16,
        xor: u8,
    },
    /// Any bytes at all.
    Raw {
        to: Side,
        bytes: &'a [u8],
        absent: u16,
    },
    /// A data packet with any body, `ahead` of the last genuine one.
    Body {
        to: Side,
        phase: bool,
        ahead: i16,
        body: &'a [u8],
        absent: u16,
    },
    /// A data packet with frames that can be read.
    Frames {
        to: Side,
        phase: bool,
        ahead: i16,
        frames: Vec<AnyFrame<'a>>,
        absent: u16,
    },
    /// A handshake packet with any frames.
    Handshake {
        to: Side,
        late: bool,
        source: u8,
        number: u8,
        frames: Vec<AnyFrame<'a>>,
    },
    /// Time passes.
    Wait {
        us: u32,
    },
    // What an application does.
    Send {
        from: Side,
        size: Option<u32>,
        credit: Option<u32>,
        ready: u32,
    },
    Resize {
        from: Side,
        object: u8,
        size: u32,
    },
    Ready {
        from: Side,
        object: u8,
        end: u32,
    },
    Expect {
        to: Side,
        object: u8,
        size: Option<u32>,
        window: Option<u32>,
    },
    ExpectSize {
        to: Side,
        object: u8,
        size: u32,
    },
    Grant {
        to: Side,
        object: u8,
        end: u32,
    },
    Finish {
        side: Side,
        object: u8,
        sending: bool,
    },
    Control {
        from: Side,
        len: u16,
    },
    Sink {
        to: Side,
        queued: u32,
        capacity: u32,
        drain: u32,
    },
    Drops {
        to: Side,
        drops: u32,
    },
    TooBig {
        from: Side,
        size: u16,
    },
    Unreachable {
        from: Side,
    },
    Close {
        from: Side,
    },
}

#[derive(Arbitrary, Debug)]
enum AnyFrame<'a> {
    Ping,
    Padding,
    Crypto {
        offset: u16,
        bytes: &'a [u8],
    },
    CryptoAck(u16),
    Report(AnyReport),
    ReportAck {
        newest: u64,
        earlier: u64,
        sparse: bool,
    },
    Control {
        offset: u64,
        bytes: &'a [u8],
    },
    Message(&'a [u8]),
    Data {
        object: u8,
        offset: u64,
    },
    Challenge(u64),
    Response(u64),
    Close {
        code: u16,
        reason: &'a str,
    },
    HandshakeDone,
    Credit {
        object: u8,
        window_end: u64,
    },
}

#[derive(Arbitrary, Debug)]
struct AnyReport {
    number: u64,
    largest: u16,
    rx_time: u64,
    delay: u64,
    packets: u64,
    bytes: u64,
    drops: (u64, u64),
    coverage: Vec<(u16, Vec<(u8, u8)>)>,
    late: Vec<u16>,
    samples: Vec<(u16, u64)>,
    sink: Option<(u64, u64, u64)>,
}

impl AnyReport {
    fn report(&self) -> Report {
        let coverage = |(from, runs): &(u16, Vec<(u8, u8)>)| {
            let mut runs: Vec<Run> = runs
                .iter()
                .map(|&(received, lost)| Run {
                    received: received.into(),
                    lost: u64::from(lost).max(1),
                })
                .collect();
            if let Some(last) = runs.last_mut() {
                last.lost = 0;
                last.received = last.received.max(1);
            }
            Coverage {
                from: (*from).into(),
                len: runs.iter().map(|run| run.received + run.lost).sum(),
                runs,
            }
        };
        let below = |number: u16| u64::from(number.min(self.largest));
        Report {
            number: self.number,
            largest: self.largest.into(),
            largest_rx_time_us: self.rx_time,
            delay_us: self.delay,
            packets: self.packets,
            bytes: self.bytes,
            socket_drops: self.drops.0,
            sink_drops: self.drops.1,
            coverage: self.coverage.iter().take(16).map(coverage).collect(),
            late: self.late.iter().take(64).map(|&n| below(n)).collect(),
            samples: self
                .samples
                .iter()
                .take(8)
                .map(|&(number, rx_time)| RxSample {
                    number: below(number),
                    rx_time_us: rx_time.min(self.rx_time),
                })
                .collect(),
            sink: self.sink.map(|(queued, capacity, drain)| SinkState {
                queued_bytes: queued,
                capacity_bytes: capacity,
                drain_kb_per_s: drain,
            }),
            // (No input of its own, so that the corpora mean what they meant.)
            marks: EcnCounts {
                ect0: self.packets % 2,
                ect1: self.packets / 2,
                ce: self.packets / 3,
            },
        }
    }
}

fn id(number: u8) -> ObjectId {
    ObjectId::new(number.into())
}

impl AnyFrame<'_> {
    fn write(&self, out: &mut Vec<u8>) {
        let message;
        let frame = match *self {
            Self::Ping => Frame::Ping,
            Self::Padding => Frame::Padding,
            Self::Crypto { offset, bytes } => Frame::Crypto {
                offset: offset.into(),
                bytes,
            },
            Self::CryptoAck(offset) => Frame::CryptoAck(offset.into()),
            Self::Report(ref report) => Frame::Report(report.report().into()),
            Self::ReportAck {
                newest,
                earlier,
                sparse,
            } => Frame::ReportAck {
                newest,
                earlier,
                sparse,
            },
            Self::Control { offset, bytes } => Frame::Control { offset, bytes },
            Self::Message(bytes) => {
                message = [&(bytes.len() as u32).to_be_bytes(), bytes].concat();
                Frame::Control {
                    offset: 0,
                    bytes: &message,
                }
            }
            Self::Data { object, offset } => Frame::Data {
                object: id(object),
                offset,
            },
            Self::Challenge(token) => Frame::PathChallenge(token),
            Self::Response(token) => Frame::PathResponse(token),
            Self::Close { code, reason } => Frame::Close { code, reason },
            Self::HandshakeDone => Frame::HandshakeDone,
            Self::Credit { object, window_end } => Frame::Credit {
                object: id(object),
                window_end,
            },
        };
        FrameWriter::new(out).frame(&frame);
    }
}

struct World {
    now: Time,
    /// Client, server.
    ends: Vec<SimEndpoint>,
    /// On the way to the client, to the server.
    wires: [VecDeque<Datagram>; 2],
    /// Low half of the newest data packet's number, to the client, to the server.
    newest: [u32; 2],
}

impl World {
    fn new() -> Self {
        Self {
            now: Time::ZERO,
            ends: vec![
                SimEndpoint::client(sim_config(), SEED),
                SimEndpoint::server(sim_config(), SEED, SEED + 1),
            ],
            wires: Default::default(),
            newest: [0; 2],
        }
    }

    fn end(&mut self, side: Side) -> &mut howdah_proto::Connection {
        self.ends[side as usize].connection_mut()
    }

    fn arrive(&mut self, to: Side, bytes: &[u8], absent: u32) {
        let arrival = Arrival {
            bytes,
            absent,
            corrupt: false,
        };
        self.ends[to as usize].handle_datagram(self.now, arrival);
    }

    /// As a driver does after every call.
    fn drain(&mut self) {
        for side in [Side::Client, Side::Server] {
            let end = &mut self.ends[side as usize];
            if end.poll_timeout().is_some_and(|(at, _)| at <= self.now) {
                end.handle_timeout(self.now);
            }
            let to = 1 - side as usize;
            let mut sent = Vec::new();
            while end.poll_transmit(self.now, 64, &mut sent) > 0 {
                assert!(sent.len() < MAX_AT_ONCE, "it never stops sending");
            }
            let _ = end.take_events();
            for datagram in sent {
                if let Ok((Header::Data { number_low, .. }, _)) = Header::decode(&datagram.bytes) {
                    self.newest[to] = number_low;
                }
                if self.wires[to].len() < MAX_IN_FLIGHT {
                    self.wires[to].push_back(datagram);
                }
            }
        }
    }

    fn deliver(&mut self, to: Side, count: usize) {
        for _ in 0..count {
            let Some(datagram) = self.wires[to as usize].pop_front() else {
                return;
            };
            self.arrive(to, &datagram.bytes, datagram.absent);
        }
    }

    fn pick(&mut self, to: Side, index: u8) -> Option<Datagram> {
        let wire = &self.wires[to as usize];
        wire.get(usize::from(index) % wire.len().max(1)).cloned()
    }

    fn data_packet(&mut self, to: Side, phase: bool, ahead: i16, body: &[u8], absent: u16) {
        let header = Header::Data {
            phase,
            destination: ConnectionId(1 + to as u64),
            number_low: self.newest[to as usize].wrapping_add_signed(ahead.into()),
        };
        let mut bytes = Vec::new();
        header.encode(&mut bytes);
        bytes.extend_from_slice(body);
        self.arrive(to, &bytes, absent.into());
    }

    fn apply(&mut self, op: &Op<'_>) {
        let some = |size: Option<u32>| size.map(u64::from);
        match *op {
            Op::Deliver { to, count } => self.deliver(to, count.into()),
            Op::Talk { rounds } => {
                for _ in 0..rounds % 16 {
                    self.now += Span::from_millis(5);
                    self.deliver(Side::Server, MAX_IN_FLIGHT);
                    self.deliver(Side::Client, MAX_IN_FLIGHT);
                    self.drain();
                }
            }
            Op::Lose { to, index } => {
                let wire = &mut self.wires[to as usize];
                wire.remove(usize::from(index) % wire.len().max(1));
            }
            Op::Double { to, index } => {
                if let Some(datagram) = self.pick(to, index) {
                    self.wires[to as usize].push_back(datagram);
                }
            }
            Op::Hurry { to, index } => {
                let wire = &mut self.wires[to as usize];
                if let Some(datagram) = wire.remove(usize::from(index) % wire.len().max(1)) {
                    wire.push_front(datagram);
                }
            }
            Op::Damage { to, index, at, xor } => {
                if let Some(mut datagram) = self.pick(to, index) {
                    let at = usize::from(at) % datagram.bytes.len().max(1);
                    if let Some(byte) = datagram.bytes.get_mut(at) {
                        *byte ^= xor;
                    }
                    self.arrive(to, &datagram.bytes, datagram.absent);
                }
            }
            Op::Raw { to, bytes, absent } => self.arrive(to, bytes, absent.into()),
            Op::Body {
                to,
                phase,
                ahead,
                body,
                absent,
            } => {
                self.data_packet(to, phase, ahead, body, absent);
            }
            Op::Frames {
                to,
                phase,
                ahead,
                ref frames,
                absent,
            } => {
                let mut body = Vec::new();
                for frame in frames {
                    frame.write(&mut body);
                }
                self.data_packet(to, phase, ahead, &body, absent);
            }
            Op::Handshake {
                to,
                late,
                source,
                number,
                ref frames,
            } => {
                let header = Header::Handshake {
                    level: if late {
                        Level::Handshake
                    } else {
                        Level::Initial
                    },
                    version: VERSION,
                    destination: ConnectionId(1 + to as u64),
                    source: ConnectionId(source.into()),
                    number: number.into(),
                    cookie: None,
                };
                let mut bytes = Vec::new();
                header.encode(&mut bytes);
                for frame in frames {
                    frame.write(&mut bytes);
                }
                self.arrive(to, &bytes, 16);
            }
            Op::Wait { us } => self.now += Span::from_micros(us.into()),
            Op::Send {
                from,
                size,
                credit,
                ready,
            } => {
                let end = self.end(from);
                let object = end.allocate_object();
                end.send_object(object, some(size), some(credit).unwrap_or(u64::MAX));
                // Not more than there is.
                end.set_readable(object, u64::from(ready.min(size.unwrap_or(u32::MAX))));
            }
            Op::Resize { from, object, size } => {
                // A source ends behind what was read from it.
                let end = self.end(from);
                let size = end.sent_end(id(object)).max(size.into());
                end.set_outgoing_size(id(object), size);
            }
            Op::Ready { from, object, end } => {
                self.end(from).set_readable(id(object), end.into());
            }
            Op::Expect {
                to,
                object,
                size,
                window,
            } => {
                let now = self.now;
                let end = self.end(to);
                let _ = end.receive_object(id(object), some(size), some(window));
                // What came before, and may break what has been said now.
                while end.poll_early(now).is_some() {}
            }
            Op::ExpectSize { to, object, size } => {
                let _ = self.end(to).set_incoming_size(id(object), size.into());
            }
            Op::Grant { to, object, end } => {
                self.end(to).grant_window(id(object), end.into());
            }
            Op::Finish {
                side,
                object,
                sending: true,
            } => {
                self.end(side).finish_sending(id(object));
            }
            Op::Finish {
                side,
                object,
                sending: false,
            } => {
                self.end(side).finish_receiving(id(object));
            }
            Op::Control { from, len } => self.end(from).send_control(&vec![7; len.into()]),
            Op::Sink {
                to,
                queued,
                capacity,
                drain,
            } => self.end(to).set_sink_state(SinkState {
                queued_bytes: queued.into(),
                capacity_bytes: capacity.into(),
                drain_kb_per_s: drain.into(),
            }),
            Op::Drops { to, drops } => self.end(to).set_socket_drops(drops.into()),
            Op::TooBig { from, size } => {
                let now = self.now;
                let refused = TransmitInfo {
                    destination: SocketAddr::from(([192, 0, 2, 1], 1)),
                    segment_size: size.into(),
                    segments: 1,
                    bytes: size.into(),
                    ecn: Ecn::NotEct,
                    is_mtu_probe: true,
                    is_paced: false,
                };
                self.end(from).on_datagram_too_big(now, &refused);
            }
            Op::Unreachable { from } => self.end(from).on_unreachable(),
            Op::Close { from } => {
                let now = self.now;
                self.end(from).close(now, CloseCode::Application, "enough");
            }
        }
        self.drain();
    }
}

/// See the module.
pub fn connection(bytes: &[u8]) {
    let Some(ops) = structured::<Vec<Op<'_>>>(bytes) else {
        return;
    };
    let mut world = World::new();
    world.drain();
    for op in ops.iter().take(64) {
        world.apply(op);
    }
}
