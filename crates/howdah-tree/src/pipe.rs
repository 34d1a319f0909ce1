//! Byte streams between the threads of a tree transfer and the engine, in bounded chunks.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};

/// Bytes that a [`PipeWriter`] gathers before they leave by themselves.
const CHUNK: usize = 64 << 10;
/// Chunks between the two ends, none longer than `CHUNK`.
const CHUNKS: usize = 16;

/// A pipe of at most 32 chunks of 64 KiB.
pub fn pipe() -> (PipeWriter, PipeReader) {
    let (sender, receiver) = sync_channel(CHUNKS);
    let tap = PipeWriter {
        sender,
        buffer: Vec::new(),
    };
    let spout = PipeReader {
        receiver,
        queued: VecDeque::new(),
        chunk: Vec::new(),
        at: 0,
    };
    (tap, spout)
}

/// The writing end. Waits while the reader is behind. Dropping it is the end of the stream.
#[derive(Debug)]
pub struct PipeWriter {
    sender: SyncSender<Vec<u8>>,
    buffer: Vec<u8>,
}

impl PipeWriter {
    /// What [`give`](Self::give) takes at the most, in bytes.
    pub const CHUNK_BYTES: usize = CHUNK;

    /// Sends a whole chunk, without a copy of it.
    ///
    /// # Errors
    /// `BrokenPipe` if nobody reads any more, `InvalidInput` if it is longer than [`CHUNK_BYTES`](Self::CHUNK_BYTES).
    pub fn give(&mut self, chunk: Vec<u8>) -> io::Result<()> {
        if chunk.len() > CHUNK {
            return Err(ErrorKind::InvalidInput.into());
        }
        self.flush()?;
        if chunk.is_empty() {
            return Ok(());
        }
        self.sender.send(chunk).map_err(|_| broken())
    }

    /// Appends to what leaves with the next flush, and flushes if that has become a chunk.
    pub(crate) fn put(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let (head, tail) = bytes.split_at(bytes.len().min(CHUNK - self.buffer.len()));
            self.buffer.extend_from_slice(head);
            bytes = tail;
            if self.buffer.len() == CHUNK {
                self.flush()?;
            }
        }
        Ok(())
    }
}

fn broken() -> io::Error {
    ErrorKind::BrokenPipe.into()
}

/// For the engine: what is written leaves at once.
impl Write for PipeWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let len = slices.iter().map(|slice| slice.len()).sum::<usize>();
        let len = len.min(CHUNK);
        let mut chunk = Vec::with_capacity(len);
        for slice in slices {
            let room = len - chunk.len();
            chunk.extend_from_slice(&slice[..slice.len().min(room)]);
        }
        if len > 0 {
            self.sender.send(chunk).map_err(|_| broken())?;
        }
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let next = Vec::with_capacity(if self.buffer.len() == CHUNK { CHUNK } else { 0 });
        let chunk = std::mem::replace(&mut self.buffer, next);
        self.sender.send(chunk).map_err(|_| broken())
    }
}

impl Drop for PipeWriter {
    fn drop(&mut self) {
        // Nobody who is gone needs the rest.
        let _ = self.flush();
    }
}

/// The reading end.
#[derive(Debug)]
pub struct PipeReader {
    receiver: Receiver<Vec<u8>>,
    queued: VecDeque<Vec<u8>>,
    chunk: Vec<u8>,
    at: usize,
}

impl PipeReader {
    /// Whether there is something to read, or the end, without waiting.
    pub(crate) fn is_ready(&mut self) -> bool {
        if self.at < self.chunk.len() || !self.queued.is_empty() {
            return true;
        }
        match self.receiver.try_recv() {
            Ok(chunk) => {
                self.queued.push_back(chunk);
                true
            }
            Err(TryRecvError::Empty) => false,
            Err(TryRecvError::Disconnected) => true,
        }
    }

    /// Waits for more; `false` at the end.
    fn refill(&mut self) -> bool {
        while self.at >= self.chunk.len() {
            let Some(chunk) = self.next_chunk() else {
                return false;
            };
            self.chunk = chunk;
            self.at = 0;
        }
        true
    }

    /// What has come and was not read, without waiting.
    pub(crate) fn waiting(&self) -> &[u8] {
        self.chunk.get(self.at..).unwrap_or_default()
    }

    /// So much of [that](Self::waiting) has been read.
    pub(crate) fn consume(&mut self, bytes: usize) {
        self.at += bytes;
    }

    /// Waits for more behind what was not read; `false` at the end.
    pub(crate) fn more(&mut self) -> bool {
        if self.at >= self.chunk.len() {
            return self.refill();
        }
        let Some(next) = self.next_chunk() else {
            return false;
        };
        self.chunk.drain(..self.at);
        self.at = 0;
        self.chunk.extend_from_slice(&next);
        true
    }

    fn next_chunk(&mut self) -> Option<Vec<u8>> {
        let first = self.queued.pop_front();
        first.or_else(|| self.receiver.recv().ok())
    }

    /// One byte; `UnexpectedEof` at the end.
    pub(crate) fn byte(&mut self) -> io::Result<u8> {
        let mut byte = [0];
        self.read_exact(&mut byte)?;
        Ok(byte[0])
    }
}

impl Read for PipeReader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if !self.refill() {
            return Ok(0);
        }
        let len = buf.len().min(self.chunk.len() - self.at);
        buf[..len].copy_from_slice(&self.chunk[self.at..self.at + len]);
        self.at += len;
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_out_as_they_went_in() {
        let (mut tap, mut spout) = pipe();
        assert!(!spout.is_ready());
        tap.put(b"abc").unwrap();
        assert!(!spout.is_ready(), "gathered until it is flushed");
        tap.flush().unwrap();
        assert!(spout.is_ready());
        let slices = [IoSlice::new(b"de"), IoSlice::new(b""), IoSlice::new(b"f")];
        assert_eq!(tap.write_vectored(&slices).unwrap(), 3);
        tap.put(b"g").unwrap();
        drop(tap);
        let mut all = Vec::new();
        assert_eq!(spout.byte().unwrap(), b'a');
        spout.read_to_end(&mut all).unwrap();
        assert_eq!(all, b"bcdefg");
        assert!(spout.is_ready() && spout.byte().is_err());
    }

    #[test]
    fn t34_no_chunk_is_longer_than_it_may_be() {
        let (mut tap, mut spout) = pipe();
        let bytes = vec![7; CHUNK + 5];
        let slices = [IoSlice::new(b"abc"), IoSlice::new(&bytes)];
        assert_eq!(tap.write_vectored(&slices).unwrap(), CHUNK);
        assert_eq!(tap.write(&bytes).unwrap(), CHUNK);
        tap.put(&bytes).unwrap();
        tap.put(&bytes).unwrap();
        drop(tap);
        let mut lens = Vec::new();
        while spout.refill() {
            lens.push(spout.chunk.len());
            spout.at = spout.chunk.len();
        }
        assert_eq!(lens, [CHUNK, CHUNK, CHUNK, CHUNK, 10]);
    }

    #[test]
    fn a_reader_that_is_gone_is_noticed() {
        let (mut tap, spout) = pipe();
        drop(spout);
        assert_eq!(tap.write(b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
    }
}
