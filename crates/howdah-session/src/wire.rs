//! Numbers and strings of the streams of a tree, in bytes.

use crate::{SessionError, refused};

/// First byte of each stream.
pub const VERSION: u8 = 1;

/// Says which version a stream is of.
pub fn put_version(out: &mut Vec<u8>) {
    out.push(VERSION);
}

/// Takes the first byte of a stream away; `false`: it is not there yet.
///
/// # Errors
///
/// It is of a version that nobody here reads.
pub fn decode_version(bytes: &mut &[u8]) -> Result<bool, SessionError> {
    let Some((&first, rest)) = bytes.split_first() else {
        return Ok(false);
    };
    if first != VERSION {
        return Err(refused(
            "it is of another version; install the same version of howdah on both",
        ));
    }
    *bytes = rest;
    Ok(true)
}

/// Seven bits a byte, the lowest first.
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(low(value) | 0x80);
        value >>= 7;
    }
    out.push(low(value));
}

/// Takes a number away; `None`: more of it is needed.
///
/// # Errors
///
/// It has more than 64 bits.
#[expect(
    clippy::redundant_closure_for_method_calls,
    reason = "the method is of a cursor of one lifetime only"
)]
pub fn decode_varint(bytes: &mut &[u8]) -> Result<Option<u64>, SessionError> {
    whole(bytes, |from| from.varint())
}

/// The lowest eight bits.
fn low(value: u64) -> u8 {
    value.to_le_bytes()[0]
}

/// A string behind its length.
pub(crate) fn put_short(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Why something could not be read.
pub(crate) enum Unread {
    /// It is not whole: so many bytes must be there from its beginning on, or more.
    Short(usize),
    /// It makes no sense.
    Refused(SessionError),
}

impl From<SessionError> for Unread {
    fn from(error: SessionError) -> Self {
        Self::Refused(error)
    }
}

/// Takes from `bytes` what `read` reads if it is whole, and nothing otherwise.
pub(crate) fn whole<T>(
    bytes: &mut &[u8],
    read: impl FnOnce(&mut Cursor<'_>) -> Result<T, Unread>,
) -> Result<Option<T>, SessionError> {
    let mut from = Cursor::new(bytes);
    match read(&mut from) {
        Ok(read) => {
            *bytes = from.rest();
            Ok(Some(read))
        }
        Err(Unread::Short(_)) => Ok(None),
        Err(Unread::Refused(error)) => Err(error),
    }
}

/// Reads from what is there.
#[derive(Debug)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// What has not been read.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8], Unread> {
        let end = self.at.saturating_add(len);
        let taken = self.bytes.get(self.at..end).ok_or(Unread::Short(end))?;
        self.at = end;
        Ok(taken)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Unread> {
        let end = self.at + 1;
        let byte = *self.bytes.get(self.at).ok_or(Unread::Short(end))?;
        self.at = end;
        Ok(byte)
    }

    pub(crate) fn varint(&mut self) -> Result<u64, Unread> {
        let mut value = 0u64;
        for shift in (0..).step_by(7) {
            let byte = self.byte()?;
            let part = u64::from(byte & 0x7f);
            if shift >= 64 || (part << shift) >> shift != part {
                return Err(refused("a number has more than 64 bits").into());
            }
            value |= part << shift;
            if byte < 0x80 {
                break;
            }
        }
        Ok(value)
    }

    /// Bytes behind their length, which is at most `max`.
    pub(crate) fn short(&mut self, max: usize, what: &str) -> Result<&'a [u8], Unread> {
        let len = self.varint()?;
        match usize::try_from(len) {
            Ok(len) if len <= max => {
                #[cfg(test)]
                steps::count(len);
                self.take(len)
            }
            _ => Err(refused(format!("{what} is longer than {max} bytes")).into()),
        }
    }
}

/// Bytes that are handled, for tests that bound them.
#[cfg(test)]
pub(crate) mod steps {
    use std::cell::Cell;

    thread_local! {
        static STEPS: Cell<usize> = const { Cell::new(0) };
    }

    pub(crate) fn count(steps: usize) {
        STEPS.set(STEPS.get() + steps);
    }

    /// All since the last call.
    pub(crate) fn taken() -> usize {
        STEPS.take()
    }
}
