//! The streams of a tree over pipes, between threads that wait for each other. What is in them is
//! [`howdah_session`]'s.

use super::pipe::{PipeReader, PipeWriter};
use howdah_session::entry::Entry;
pub(crate) use howdah_session::wire::put_varint;
use howdah_session::wire::{VERSION, decode_varint, decode_version};
use howdah_session::{
    Answer, AnswerEncoder, Change, ManifestDecoder, ManifestEncoder, SessionError, decode_answer,
};
use howdah_store::StoreError;
use std::io::{self, Write as _};

/// What the peer sent makes no sense.
pub(crate) fn refused(what: impl Into<String>) -> StoreError {
    howdah_session::refused(what).into()
}

/// Gives `decode` what has come, and more as long as it needs more. The stream's end belongs to the connection, which says why.
fn read<T>(
    spout: &mut PipeReader,
    mut decode: impl FnMut(&mut &[u8]) -> Result<Option<T>, SessionError>,
) -> Result<T, StoreError> {
    loop {
        let mut rest = spout.waiting();
        let before = rest.len();
        let decoded = decode(&mut rest)?;
        let taken = before - rest.len();
        spout.consume(taken);
        if let Some(decoded) = decoded {
            return Ok(decoded);
        }
        if !spout.more() {
            return Err(StoreError::Aborted);
        }
    }
}

pub(crate) fn get_varint(from: &mut PipeReader) -> Result<u64, StoreError> {
    read(from, decode_varint)
}

pub(crate) fn expect_version(spout: &mut PipeReader) -> Result<(), StoreError> {
    read(spout, |bytes| Ok(decode_version(bytes)?.then_some(())))
}

pub(crate) fn put_version(tap: &mut PipeWriter) -> io::Result<()> {
    tap.put(&[VERSION])
}

pub(crate) fn read_answer(spout: &mut PipeReader) -> Result<Answer, StoreError> {
    read(spout, decode_answer)
}

/// Writes a manifest.
#[derive(Debug)]
pub(crate) struct ManifestWriter {
    tap: PipeWriter,
    out: Vec<u8>,
    encoder: ManifestEncoder,
}

impl ManifestWriter {
    pub(crate) fn new(mut tap: PipeWriter) -> io::Result<Self> {
        put_version(&mut tap)?;
        Ok(Self {
            tap,
            out: Vec::new(),
            encoder: ManifestEncoder::default(),
        })
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.tap.flush()
    }

    pub(crate) fn put(&mut self, entry: &Entry) -> io::Result<()> {
        self.out.clear();
        self.encoder.encode(entry, &mut self.out);
        self.tap.put(&self.out)
    }
}

/// Reads a manifest and refuses what must not be in one.
#[derive(Debug)]
pub(crate) struct ManifestReader {
    spout: PipeReader,
    decoder: ManifestDecoder,
}

impl ManifestReader {
    pub(crate) fn new(spout: PipeReader) -> Self {
        Self {
            spout,
            decoder: ManifestDecoder::default(),
        }
    }

    /// Whether [`next`](Self::next) has something to begin with.
    pub(crate) fn is_ready(&mut self) -> bool {
        self.spout.is_ready()
    }

    pub(crate) fn next(&mut self) -> Result<Entry, StoreError> {
        read(&mut self.spout, |bytes| self.decoder.decode(bytes))
    }
}

/// Writes answers, equal ones together.
#[derive(Debug)]
pub(crate) struct AnswerWriter {
    tap: PipeWriter,
    out: Vec<u8>,
    encoder: AnswerEncoder,
}

impl AnswerWriter {
    pub(crate) fn new(mut tap: PipeWriter) -> io::Result<Self> {
        put_version(&mut tap)?;
        Ok(Self {
            tap,
            out: Vec::new(),
            encoder: AnswerEncoder::default(),
        })
    }

    pub(crate) fn file(&mut self, wanted: bool) -> io::Result<()> {
        self.encoder.file(wanted, &mut self.out);
        self.put()
    }

    pub(crate) fn note(&mut self, change: &Change) -> io::Result<()> {
        self.encoder.note(change, &mut self.out);
        self.put()
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.encoder.end_run(&mut self.out);
        self.put()?;
        self.tap.flush()
    }

    pub(crate) fn end(&mut self) -> io::Result<()> {
        self.encoder.end(&mut self.out);
        self.put()?;
        self.tap.flush()
    }

    fn put(&mut self) -> io::Result<()> {
        let put = self.tap.put(&self.out);
        self.out.clear();
        put
    }
}

#[cfg(test)]
mod tests;
