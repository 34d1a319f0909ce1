//! What the network hands over for writing.

/// One receive buffer and the payload slices in it.
#[derive(Debug, Default)]
pub struct Batch {
    /// The buffer; it comes back through [`Sink::take_spare`](crate::Sink::take_spare).
    pub buf: Vec<u8>,
    /// Slices of `buf`. Parts never overlap in the object, also not with those of other batches.
    pub parts: Vec<Part>,
}

/// A slice of a batch's buffer and its place in the object.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Part {
    /// First byte in the buffer.
    pub at: u32,
    /// Number of bytes.
    pub len: u32,
    /// First byte in the object.
    pub offset: u64,
}

impl Batch {
    /// Sum of the parts' lengths, in bytes.
    pub fn payload_bytes(&self) -> u64 {
        self.parts.iter().map(|part| u64::from(part.len)).sum()
    }

    /// What it is charged for in a queue: the memory it holds, not the payload.
    pub(crate) fn charge(&self) -> usize {
        /// A batch costs something even if it is empty.
        const OVERHEAD: usize = 256;
        self.buf.capacity() + self.parts.len() * size_of::<Part>() + OVERHEAD
    }

    /// A part's bytes; `None` if it lies outside of the buffer.
    pub(crate) fn bytes(&self, part: Part) -> Option<&[u8]> {
        self.buf.get(part.at as usize..)?.get(..part.len as usize)
    }

    /// Whether every part lies in the buffer and below 2^63 in the object.
    pub(crate) fn is_sound(&self) -> bool {
        self.parts.iter().all(|part| {
            self.bytes(*part).is_some()
                && part
                    .offset
                    .checked_add(u64::from(part.len))
                    .is_some_and(|end| end < 1 << 63)
        })
    }

    /// One past the last byte of the object that it touches.
    pub(crate) fn end(&self) -> u64 {
        self.parts
            .iter()
            .map(|part| part.offset + u64::from(part.len))
            .max()
            .unwrap_or(0)
    }

    /// The same parts in a buffer of their own size, and the old buffer. For one small packet in
    /// a large buffer: so the queue holds payload, not empty space.
    pub(crate) fn compacted(self) -> (Self, Vec<u8>) {
        let mut buf = Vec::with_capacity(self.payload_bytes() as usize);
        let parts = self
            .parts
            .iter()
            .map(|part| {
                let at = buf.len() as u32;
                buf.extend_from_slice(self.bytes(*part).unwrap_or_default());
                Part { at, ..*part }
            })
            .collect();
        (Self { buf, parts }, self.buf)
    }
}
