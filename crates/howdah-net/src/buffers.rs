//! Receive buffers: each holds what one GRO receive gives, and may be handed to a disk thread.

/// Bytes of one buffer: the largest UDP super-packet.
pub(crate) const BUFFER_BYTES: usize = 65_536;

/// Buffers that wait to be used again.
#[derive(Debug, Default)]
pub(crate) struct Spares(Vec<Vec<u8>>);

/// Spares kept beyond this are given back to the system.
const MAX_SPARES: usize = 64;

impl Spares {
    /// A buffer of [`BUFFER_BYTES`] bytes with any content. The last one that came back comes
    /// first: it is still in the processor's cache.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        self.0.pop().unwrap_or_else(|| vec![0; BUFFER_BYTES])
    }

    pub(crate) fn put(&mut self, mut buffer: Vec<u8>) {
        if self.0.len() < MAX_SPARES && buffer.capacity() >= BUFFER_BYTES {
            buffer.resize(BUFFER_BYTES, 0);
            self.0.push(buffer);
        }
    }
}
