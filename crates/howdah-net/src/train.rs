//! Builds trains: packets behind each other in one buffer, sealed in place.

use crate::application::Application;
use howdah_proto::endpoint::ConnKey;
use howdah_proto::{PacketOut, PacketSink};

/// Room for one GSO train.
const TRAIN_BYTES: usize = 1 << 16;

/// The buffer of the train that is being built. It never shrinks, so that no byte of it is
/// cleared only to be overwritten.
#[derive(Debug)]
pub(crate) struct TrainBuffer {
    bytes: Vec<u8>,
    len: usize,
}

impl TrainBuffer {
    pub(crate) fn new() -> Self {
        Self {
            bytes: vec![0; TRAIN_BYTES],
            len: 0,
        }
    }

    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    pub(crate) fn contents(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Fills a [`TrainBuffer`] with packets of one connection.
pub(crate) struct TrainBuilder<'a, A> {
    pub(crate) buffer: &'a mut TrainBuffer,
    pub(crate) application: &'a mut A,
    pub(crate) key: ConnKey,
}

impl<A: Application> PacketSink for TrainBuilder<'_, A> {
    fn packet(&mut self, packet: &PacketOut<'_>) {
        let start = self.buffer.len;
        let end = start + packet.wire_len();
        if self.buffer.bytes.len() < end {
            self.buffer.bytes.resize(end, 0);
        }
        let (header, rest) = self.buffer.bytes[start..end].split_at_mut(packet.header.len());
        header.copy_from_slice(packet.header);
        let body_len = rest.len() - howdah_proto::TAG_LEN;
        let (body, tag) = rest.split_at_mut(body_len);
        let (frames, behind) = body.split_at_mut(packet.frames.len());
        frames.copy_from_slice(packet.frames);
        if let Some((object, range)) = packet.payload {
            let (payload, padding) = behind.split_at_mut(range.len() as usize);
            self.application
                .read(self.key, object, range.start, payload);
            padding.fill(0);
        } else {
            behind.fill(0);
        }
        tag.copy_from_slice(&packet.key.seal(packet.number, packet.header, body));
        self.buffer.len = end;
    }
}
