//! A client's connection by the book, driven by hand: from several sockets, and its keys are at hand.

use super::fresh_id;
use howdah_core::Ecn;
use howdah_net::Clock;
use howdah_proto::codec::{ConnectionId, Frame, FrameWriter, Header, frames};
use howdah_proto::{AeadKey, Arriving, Config, Connection, Event, PacketOut, PacketSink, Role};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

/// What it takes to make packets of a session.
pub(super) struct Sealer {
    key: AeadKey,
    phase: bool,
    destination: ConnectionId,
    /// Of the last packet.
    pub(super) number: u64,
}

impl Sealer {
    /// The next packet: those frames, and bytes behind the last one if it is of data.
    pub(super) fn packet(&mut self, frames: &[Frame<'_>]) -> Vec<u8> {
        self.number += 1;
        let mut packet = Vec::new();
        Header::Data {
            phase: self.phase,
            destination: self.destination,
            number_low: self.number as u32,
        }
        .encode(&mut packet);
        let mut body = Vec::new();
        let mut writer = FrameWriter::new(&mut body);
        for frame in frames {
            writer.frame(frame);
        }
        if let Some(Frame::Data { .. }) = frames.last() {
            body.extend([7; 1_000]);
        }
        let tag = self.key.seal(self.number, &packet, &mut body);
        [packet, body, tag.to_vec()].concat()
    }
}

/// Seals, and keeps what it takes once the server is known to be in the session: when it is reported to.
#[derive(Default)]
pub(super) struct Packets {
    pub(super) built: Vec<Vec<u8>>,
    sealer: Option<Sealer>,
}

impl PacketSink for Packets {
    fn packet(&mut self, packet: &PacketOut<'_>) {
        let mut body = packet.frames.to_vec();
        body.resize(body.len() + packet.padding, 0);
        let tag = packet.key.seal(packet.number, packet.header, &mut body);
        self.built.push([packet.header, &body, &tag].concat());
        let mut said = frames(packet.frames);
        if said.any(|frame| matches!(frame, Ok(Frame::Report(_))))
            && let Ok((header, _)) = Header::decode(packet.header)
            && let Header::Data {
                phase, destination, ..
            } = header
        {
            self.sealer = Some(Sealer {
                key: packet.key.clone(),
                phase,
                destination,
                number: packet.number,
            });
        }
    }
}

/// So many sockets that do not wait.
pub(super) fn sockets(count: usize) -> Vec<UdpSocket> {
    let socket = || socket(Ipv4Addr::LOCALHOST);
    std::iter::repeat_with(socket).take(count).collect()
}

/// One at that address of this machine.
pub(crate) fn socket(at: Ipv4Addr) -> UdpSocket {
    let socket = UdpSocket::bind((at, 0)).expect("a port");
    socket.set_nonblocking(true).expect("a socket");
    socket
}

pub(super) struct ByHand<'a> {
    sockets: &'a [UdpSocket],
    target: SocketAddr,
    clock: Clock,
    pub(super) client: Connection,
    packets: Packets,
}

impl<'a> ByHand<'a> {
    pub(super) fn new(sockets: &'a [UdpSocket], target: SocketAddr, config: &Config) -> Self {
        let (clock, id) = (Clock::new(), fresh_id());
        let role = Role::Client;
        let client = Connection::new(clock.now(), role, config.clone(), id, target, id.0);
        Self {
            sockets,
            target,
            clock,
            client: client.expect("TLS begins"),
            packets: Packets::default(),
        }
    }

    /// Does what is to be done now; what it sends leaves from one of the sockets. Whether there is still a connection.
    pub(super) fn step(&mut self, from: usize) -> bool {
        let mut buffer = [0; 2_000];
        for socket in self.sockets {
            while let Ok(len) = socket.recv(&mut buffer) {
                let now = self.clock.now();
                let arriving = Arriving {
                    from: self.target,
                    rx_time: now,
                    ecn: Ecn::NotEct,
                    absent: 0,
                    accept_data: true,
                };
                self.client
                    .handle_datagram(now, &arriving, &mut buffer[..len]);
            }
        }
        let now = self.clock.now();
        if self.client.poll_timeout().is_some_and(|(at, _)| at <= now) {
            self.client.handle_timeout(now);
        }
        while self
            .client
            .poll_transmit(now, 1, 1_200, &mut self.packets)
            .is_some()
        {}
        for packet in self.packets.built.drain(..) {
            // What is lost comes again.
            let _ = self.sockets[from].send_to(&packet, self.target);
        }
        let mut events = std::iter::from_fn(|| self.client.poll_event());
        !events.any(|event| matches!(event, Event::Closed(_)))
    }

    /// Goes on until the server is in the session; `None` if it ends before.
    pub(super) fn enter(&mut self) -> Option<Sealer> {
        while self.step(0) {
            if let Some(sealer) = self.packets.sealer.take() {
                return Some(sealer);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        None
    }
}
