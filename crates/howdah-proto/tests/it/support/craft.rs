//! Packets that an honest peer would not send. Simulated connections do not seal, so their packets
//! can be written by hand.

use howdah_core::{Arrival, Time, Transport};
use howdah_proto::TAG_LEN;
use howdah_proto::codec::{ConnectionId, Frame, FrameWriter, Header};

/// The id of simulated servers.
const SERVER: ConnectionId = ConnectionId(2);

/// A data packet for the server, without payload and tag.
pub fn header(number: u64, phase: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    Header::Data {
        phase,
        destination: SERVER,
        number_low: number as u32,
    }
    .encode(&mut bytes);
    bytes
}

/// A data packet for the server that carries `frames`.
pub fn packet(number: u64, frames: &[Frame<'_>]) -> Vec<u8> {
    let mut bytes = header(number, false);
    for frame in frames {
        FrameWriter::new(&mut bytes).frame(frame);
    }
    bytes
}

/// Delivers a packet to `node` with `payload` bytes of an object behind it.
pub fn deliver(node: &mut impl Transport, now: Time, bytes: &[u8], payload: u32) {
    let arrival = Arrival {
        bytes,
        absent: payload + TAG_LEN as u32,
        corrupt: false,
    };
    node.handle_datagram(now, arrival);
}
