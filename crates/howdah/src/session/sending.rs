//! The half of a transfer that reads and sends.

use super::message::Message;
use crate::Error;
use howdah_proto::Connection;
use howdah_store::{Source, StoreError};

/// An object on its way out.
#[derive(Debug)]
pub(crate) struct Sending {
    pub(crate) object: u64,
    source: Source,
    hash: bool,
    /// Size, once the end has been told.
    pub(crate) ended: Option<u64>,
    read_error: Option<StoreError>,
    /// Rounds in which the source had nothing ready, and all rounds.
    pub(crate) waits: Shares,
}

/// What limited the sender, counted over samples.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Shares {
    pub(crate) samples: u32,
    pub(crate) source: u32,
    pub(crate) sink: u32,
    pub(crate) cpu: u32,
}

impl Shares {
    /// Index into [`super::message::BOTTLENECKS`]: what held for most samples.
    pub(crate) fn verdict(&self, fixed_rate: bool) -> u8 {
        let half = self.samples / 2;
        match self {
            _ if self.samples == 0 => 0,
            s if s.sink > half => 2,
            s if s.source > half => 1,
            s if s.cpu > half => 3,
            _ if fixed_rate => 4,
            _ => 0,
        }
    }
}

impl Sending {
    /// Opens the object in `connection`. Bytes below `window_end` may leave at once.
    pub(crate) fn new(
        connection: &mut Connection,
        object: u64,
        source: Source,
        hash: bool,
        window_end: Option<u64>,
    ) -> Self {
        connection.send_object(object, source.size(), window_end.unwrap_or(u64::MAX));
        Self {
            object,
            source,
            hash,
            ended: None,
            read_error: None,
            waits: Shares::default(),
        }
    }

    pub(crate) fn hashed(&self) -> bool {
        self.hash
    }

    /// Fills a packet. What cannot be read is sent as zeros and told afterwards: the receiver
    /// throws all of it away.
    pub(crate) fn read(&mut self, offset: u64, buffer: &mut [u8]) {
        if let Err(error) = self.source.read_at(offset, buffer) {
            buffer.fill(0);
            self.read_error.get_or_insert(error);
        }
    }

    /// Moves source and connection along.
    pub(crate) fn poll(&mut self, connection: &mut Connection) -> Result<(), Error> {
        if let Some(error) = &self.read_error {
            return Err(super::from_store(error));
        }
        connection.set_readable(self.object, self.source.ready_end());
        self.source
            .note_sent_through(connection.sent_end(self.object));
        self.source
            .release_through(connection.acked_prefix(self.object));
        if self.ended.is_none()
            && let Some(finished) = self.source.poll_finished()
        {
            let finished = finished.map_err(|e| super::from_store(&e))?;
            self.end(connection, finished.size, finished.hash);
        }
        Ok(())
    }

    /// Ends the object where it stands (only for made-up bytes).
    pub(crate) fn cut(&mut self, connection: &mut Connection) {
        if self
            .ended
            .is_none_or(|size| size > connection.sent_end(self.object))
            && !self.hash
        {
            let size = connection.sent_end(self.object);
            self.end(connection, size, None);
        }
    }

    fn end(&mut self, connection: &mut Connection, size: u64, blake3: Option<[u8; 32]>) {
        self.ended = Some(size);
        connection.set_outgoing_size(self.object, size);
        connection.send_control(
            &Message::End {
                object: self.object,
                size,
                blake3,
            }
            .encode(),
        );
    }
}
