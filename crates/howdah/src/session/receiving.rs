//! The half of a transfer that receives and writes.

use super::lanes::{Hub, Landed, WORTH_IT};
use crate::{Error, ErrorKind};
use howdah_core::{ObjectId, RangeSet, Time};
use howdah_net::Placement;
use howdah_proto::Connection;
use howdah_proto::SinkState;
use howdah_session::Window;
use howdah_session::transfer::{Arrived, End, Incoming, contradiction};
use howdah_store::{Batch, Limits, Part, Sink, Wake};

/// Room that must be left for accepting data: one receive buffer and its copy.
const ROOM_BYTES: u64 = 2 * 65_536;
/// A window is granted in steps of that many bytes.
const WINDOW_STEP: u64 = 1 << 20;

/// Where received bytes go.
#[derive(Debug)]
pub(crate) enum Place {
    /// Counted and forgotten.
    Null { bytes: u64 },
    /// To a file or a pipe.
    Store(Sink),
}

impl AsRef<Incoming> for Receiving {
    fn as_ref(&self) -> &Incoming {
        &self.incoming
    }
}

impl AsMut<Incoming> for Receiving {
    fn as_mut(&mut self) -> &mut Incoming {
        &mut self.incoming
    }
}

fn window_of(place: &Place) -> Option<u64> {
    match place {
        Place::Null { .. } => None,
        Place::Store(sink) => sink.window_end(),
    }
}

/// An object on its way in.
#[derive(Debug)]
pub(crate) struct Receiving {
    pub(crate) object: ObjectId,
    /// What of it has been said and has come.
    incoming: Incoming,
    place: Place,
    granted: u64,
    /// Of a sink that writes in order.
    window: Option<Window>,
    /// If others may bring a part of it.
    landed: Option<Landed>,
    failed: Option<Error>,
}

impl Receiving {
    /// Opens the object in `connection`. Its `holes` do not come.
    pub(crate) fn new(
        connection: &mut Connection,
        object: ObjectId,
        place: Place,
        size: Option<u64>,
        hash_promised: bool,
        holes: Option<&RangeSet>,
    ) -> Result<Self, Error> {
        Self::admit(connection, object, size, window_of(&place))?;
        if let Some(holes) = holes {
            connection.note_present(object, holes);
        }
        Ok(Self::of_admitted(connection, object, place, hash_promised))
    }

    /// Lets an object come whose place may not be open yet.
    pub(crate) fn admit(
        connection: &mut Connection,
        object: ObjectId,
        size: Option<u64>,
        window: Option<u64>,
    ) -> Result<(), Error> {
        if connection.receive_object(object, size, window) {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Protocol,
            "the sender may not use that object id, or send so much in one object",
        ))
    }

    /// Of an object that may come already; now its place is open.
    pub(crate) fn of_admitted(
        connection: &mut Connection,
        object: ObjectId,
        place: Place,
        hash_promised: bool,
    ) -> Self {
        let window = window_of(&place);
        let held = match &place {
            Place::Null { .. } => RangeSet::new(),
            Place::Store(sink) => sink.held(),
        };
        connection.note_present(object, &held);
        Self {
            object,
            incoming: Incoming::new(object, held, hash_promised),
            place,
            granted: window.unwrap_or(0),
            // At the beginning its end is its length.
            window: window.map(|bytes| Window::new(bytes, Limits::default().reorder_bytes)),
            landed: None,
            failed: None,
        }
    }

    /// Other connections may bring some of its `size` bytes from now on, if it is worth it; `holes` do not come. `wake` wakes this one. Before
    /// anything of it is placed.
    pub(crate) fn share_in(&mut self, size: Option<u64>, holes: Option<&RangeSet>, wake: Wake) {
        let Some(size) = size.filter(|size| *size >= WORTH_IT) else {
            return;
        };
        let side = match &self.place {
            Place::Null { .. } => None,
            Place::Store(sink) => match sink.side() {
                Some(side) => Some(side),
                None => return,
            },
        };
        let mut there = self.incoming.held().clone();
        for range in holes.iter().flat_map(|holes| holes.iter()) {
            there.insert(range);
        }
        self.landed = Some(Landed::new(size, there, side, wake));
    }

    /// Where others may join, if they may.
    pub(crate) fn hub(&self) -> Option<Hub> {
        let landed = self.landed.as_ref()?;
        Some(Hub::Receives(landed.inlet().clone()))
    }

    /// A window of so many bytes already, before it is known what can be written out in a round trip.
    pub(crate) fn lengthen_window(&mut self, bytes: u64) {
        if let (Some(window), Place::Store(sink)) = (&mut self.window, &self.place) {
            window.lengthen(bytes);
            sink.lengthen_window(window.bytes());
        }
    }

    /// A window that gets no longer than that, in bytes.
    pub(crate) fn with_window_of(mut self, most: u64) -> Self {
        self.window = self.window.map(|window| window.at_most(most));
        self
    }

    /// Whether one more receive buffer can be taken.
    pub(crate) fn accepts_data(&self) -> bool {
        match &self.place {
            Place::Null { .. } => true,
            Place::Store(sink) => {
                let backlog = sink.backlog();
                let has_room = match &self.landed {
                    Some(landed) => landed.inlet().has_room(Some(backlog)),
                    None => backlog.queued_bytes + ROOM_BYTES <= backlog.capacity_bytes,
                };
                self.failed.is_none() && has_room
            }
        }
    }

    /// Takes received bytes, and perhaps the buffer that they stand in.
    pub(crate) fn place(&mut self, buffer: &mut Vec<u8>, parts: &[Placement]) {
        // What others have brought is not written again.
        let claimed = self.landed.as_ref().map(|l| l.inlet().claim(parts));
        match &mut self.place {
            Place::Null { bytes } => *bytes += parts.iter().map(|p| p.range.len()).sum::<u64>(),
            Place::Store(sink) => {
                let as_part = |p: &Placement| Part {
                    at: p.at as u32,
                    len: p.range.len() as u32,
                    offset: p.range.start,
                };
                let parts = claimed.unwrap_or_else(|| parts.iter().map(as_part).collect());
                if parts.is_empty() {
                    return;
                }
                let batch = Batch {
                    buf: std::mem::take(buffer),
                    parts,
                };
                if let Err(batch) = sink.submit(batch) {
                    // Room was asked for, so the sink has failed and will say why.
                    *buffer = batch.buf;
                    self.failed.get_or_insert_with(|| {
                        Error::new(ErrorKind::Io, "the destination takes no more data")
                    });
                }
            }
        }
    }

    pub(crate) fn take_spare(&mut self) -> Option<Vec<u8>> {
        match &mut self.place {
            Place::Null { .. } => None,
            Place::Store(sink) => sink.take_spare(),
        }
    }

    /// What was here before.
    pub(crate) fn held(&self) -> &RangeSet {
        self.incoming.held()
    }

    /// Size and hash, once the sender has told them.
    pub(crate) fn told(&self) -> Option<End> {
        self.incoming.told()
    }

    /// The sender told size and hash.
    pub(crate) fn on_end(&mut self, connection: &mut Connection, end: End) -> Result<(), Error> {
        self.incoming.on_end(end)?;
        self.limit(connection, end)
    }

    /// Where it ends, as the machine of the session has heard.
    pub(crate) fn limit(&self, connection: &mut Connection, end: End) -> Result<(), Error> {
        if connection.set_incoming_size(self.object, end.size) {
            return Ok(());
        }
        Err(contradiction().into())
    }

    /// The sender's values of groups.
    pub(crate) fn on_values(&mut self, first: u64, values: &[[u8; 32]]) -> Result<(), Error> {
        match &mut self.place {
            Place::Null { .. } => Ok(()),
            Place::Store(sink) => sink
                .tell_values(first, values)
                .map_err(|e| Error::new(ErrorKind::Protocol, e.to_string())),
        }
    }

    /// Bytes that stay for the next copy if this one ends now.
    pub(crate) fn kept_bytes(&self) -> u64 {
        match &self.place {
            Place::Null { .. } => 0,
            Place::Store(sink) => sink.kept_bytes(),
        }
    }

    /// All bytes have arrived.
    pub(crate) fn on_complete(&mut self) {
        self.incoming.on_complete();
    }

    /// Moves connection and sink along. `Some`: verified as it says, durable, in place.
    pub(crate) fn poll(
        &mut self,
        now: Time,
        connection: &mut Connection,
    ) -> Result<Option<Arrived>, Error> {
        if let Some(state) = self.sink_state() {
            connection.set_sink_state(state);
        }
        if let Some(landed) = &self.landed {
            let news = landed.take_news();
            let news = news.map_err(|why| Error::new(ErrorKind::Protocol, why))?;
            if !news.is_empty() {
                connection.note_present(self.object, &news);
            }
        }
        self.advance(now, connection)
    }

    /// Whether the sink of a bounded window has half of that still to write, so that the sender has little to send into.
    pub(crate) fn holds_back(&self, connection: &Connection) -> bool {
        let ahead = self
            .granted
            .saturating_sub(connection.received_bytes(self.object));
        let window = self.window.as_ref().map_or(0, Window::bytes);
        2 * ahead < window && !self.incoming.is_whole()
    }

    /// How far its sink is behind, for the sender.
    pub(crate) fn sink_state(&self) -> Option<SinkState> {
        let Place::Store(sink) = &self.place else {
            return None;
        };
        let backlog = sink.backlog();
        if let Some(landed) = &self.landed {
            return Some(landed.inlet().sink_state(&backlog));
        }
        Some(SinkState {
            queued_bytes: backlog.queued_bytes,
            capacity_bytes: backlog.capacity_bytes,
            drain_kb_per_s: backlog
                .drain_rate
                .map_or(0, |rate| rate.bits_per_sec() / 8_000),
        })
    }

    /// [`poll`](Self::poll) for one of several objects: the sender is not told of its sink.
    pub(crate) fn advance(
        &mut self,
        now: Time,
        connection: &mut Connection,
    ) -> Result<Option<Arrived>, Error> {
        let Place::Store(sink) = &mut self.place else {
            let is_here = self.incoming.take_finish().is_some();
            return Ok(is_here.then_some(Arrived::default()));
        };
        match sink.poll_outcome() {
            Some(Ok(outcome)) => {
                return Ok(Some(self.incoming.stored(outcome.reread, outcome.hash)));
            }
            Some(Err(error)) => return Err(crate::error::from_store(&error)),
            None => {}
        }
        if let Some(window) = &mut self.window {
            let backlog = sink.backlog();
            let held = (backlog.written_bytes, backlog.early_bytes);
            if let Some(longer) = window.on_written(now, connection.rtt(), held) {
                sink.lengthen_window(longer);
            }
        }
        if let Some(window) = sink.window_end()
            && window >= self.granted + WINDOW_STEP
        {
            self.granted = window;
            connection.grant_window(self.object, window);
        }
        // What another connection brought as well may be on its way into the sink: its end comes behind that.
        let is_landing = self.landed.as_ref().is_some_and(Landed::is_landing);
        if !is_landing && let Some(End { size, blake3 }) = self.incoming.take_finish() {
            sink.finish(size, blake3);
        }
        match &self.failed {
            // The sink's own words come through its outcome; do not wait for them for ever.
            Some(error) if self.incoming.is_whole() => Err(error.clone()),
            _ => Ok(None),
        }
    }
}
