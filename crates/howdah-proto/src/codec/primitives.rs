//! Integers on the wire.

use crate::codec::limits;
use howdah_core::ObjectId;

/// Bytes that are not what the specification allows.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum CodecError {
    /// The input ends inside a field.
    #[error("the packet ends inside a field")]
    Truncated,
    /// A variable-length integer is longer than 64 bits or not in its shortest form.
    #[error("an integer is not in its shortest form")]
    BadInteger,
    /// A value is above its limit.
    #[error("a value is above its limit")]
    LimitExceeded,
    /// A frame type that this version does not know.
    #[error("frame type {0:#x} is unknown")]
    UnknownFrame(u8),
    /// A first byte that starts no packet.
    #[error("the first byte starts no packet")]
    UnknownPacket,
    /// Text that is not UTF-8.
    #[error("text is not UTF-8")]
    BadText,
    /// Fields contradict each other.
    #[error("fields contradict each other")]
    Inconsistent,
}

/// Reads fields off the front of a slice.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Starts at the front of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// What has not been read.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Whether all was read.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next `len` bytes.
    pub fn bytes(&mut self, len: usize) -> Result<&'a [u8], CodecError> {
        let (head, rest) = self
            .rest
            .split_at_checked(len)
            .ok_or(CodecError::Truncated)?;
        self.rest = rest;
        Ok(head)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], CodecError> {
        let (head, rest) = self
            .rest
            .split_first_chunk::<N>()
            .ok_or(CodecError::Truncated)?;
        self.rest = rest;
        Ok(*head)
    }

    /// One byte.
    pub fn u8(&mut self) -> Result<u8, CodecError> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// Two bytes, big endian.
    pub fn u16(&mut self) -> Result<u16, CodecError> {
        self.array().map(u16::from_be_bytes)
    }

    /// Four bytes, big endian.
    pub fn u32(&mut self) -> Result<u32, CodecError> {
        self.array().map(u32::from_be_bytes)
    }

    /// Eight bytes, big endian.
    pub fn u64(&mut self) -> Result<u64, CodecError> {
        self.array().map(u64::from_be_bytes)
    }

    /// An unsigned LEB128 integer in its shortest form.
    pub fn varint(&mut self) -> Result<u64, CodecError> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err(CodecError::BadInteger);
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                // A last byte of zero adds nothing: only the integer 0 may end so.
                return if byte == 0 && shift > 0 {
                    Err(CodecError::BadInteger)
                } else {
                    Ok(value)
                };
            }
        }
        Err(CodecError::BadInteger)
    }

    /// A [`varint`](Self::varint) that must not exceed `limit`.
    pub fn varint_at_most(&mut self, limit: u64) -> Result<u64, CodecError> {
        let value = self.varint()?;
        if value > limit {
            Err(CodecError::LimitExceeded)
        } else {
            Ok(value)
        }
    }

    /// The id of an object.
    pub fn object(&mut self) -> Result<ObjectId, CodecError> {
        self.varint().map(ObjectId::new)
    }

    /// An object offset, below [`limits::MAX_OFFSET`].
    pub fn offset(&mut self) -> Result<u64, CodecError> {
        let offset = self.u64()?;
        if offset > limits::MAX_OFFSET {
            Err(CodecError::LimitExceeded)
        } else {
            Ok(offset)
        }
    }
}

/// Writes fields to the end of a vector.
#[derive(Debug)]
pub struct Writer<'a> {
    out: &'a mut Vec<u8>,
}

impl<'a> Writer<'a> {
    /// Appends to `out`.
    pub fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out }
    }

    /// Raw bytes.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// One byte.
    pub fn u8(&mut self, value: u8) {
        self.out.push(value);
    }

    /// Two bytes, big endian.
    pub fn u16(&mut self, value: u16) {
        self.bytes(&value.to_be_bytes());
    }

    /// Four bytes, big endian.
    pub fn u32(&mut self, value: u32) {
        self.bytes(&value.to_be_bytes());
    }

    /// Eight bytes, big endian.
    pub fn u64(&mut self, value: u64) {
        self.bytes(&value.to_be_bytes());
    }

    /// An unsigned LEB128 integer.
    pub fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.out.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.out.push((value & 0x7f) as u8);
    }

    /// A varint length and the bytes.
    pub fn prefixed(&mut self, bytes: &[u8]) {
        self.varint(bytes.len() as u64);
        self.bytes(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn varints_round_trip_in_their_shortest_form(value in any::<u64>(), shift in 0..64u32) {
            let value = value >> shift;
            let mut bytes = Vec::new();
            Writer::new(&mut bytes).varint(value);
            prop_assert_eq!(bytes.len(), (64 - value.leading_zeros()).div_ceil(7).max(1) as usize);
            let mut reader = Reader::new(&bytes);
            prop_assert_eq!(reader.varint(), Ok(value));
            prop_assert!(reader.is_empty());
            for cut in 0..bytes.len() {
                prop_assert_eq!(Reader::new(&bytes[..cut]).varint(), Err(CodecError::Truncated));
            }
        }
    }

    #[test]
    fn padded_and_oversized_varints_are_refused() {
        let two = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02];
        for bytes in [&[0x80u8, 0x00][..], &[0xff; 10], &two, &[0x81, 0x80, 0x00]] {
            assert_eq!(Reader::new(bytes).varint(), Err(CodecError::BadInteger));
        }
        let max = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(Reader::new(&max).varint(), Ok(u64::MAX));
    }
}
