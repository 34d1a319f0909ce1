//! Where the lanes of an object that leaves get its pieces.

use super::{Common, WORTH_IT};
use howdah_core::{ByteRange, ObjectId, RangeSet};
use howdah_proto::Connection;
use howdah_session::lanes::Pieces;
use howdah_store::{Source, SourceReader, StoreError};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A lane that has less than that left to send takes another piece: more than it sends between two looks.
const AHEAD: u64 = 2 << 20;
/// What was confirmed is told in such steps.
const TOLD_STEP: u64 = 256 << 10;

/// See the module.
#[derive(Debug)]
pub(crate) struct Outlet {
    pub(super) common: Arc<Common>,
    reader: SourceReader,
    size: u64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    pieces: Pieces,
    /// What each lane has brought, in bytes; those that are gone included.
    brought: BTreeMap<u32, u64>,
    /// Lanes that wait until more can be read.
    hungry: BTreeSet<u32>,
    failed: Option<StoreError>,
}

impl Outlet {
    /// Of a source that can be read from several places and is large enough.
    pub(crate) fn of(source: &Source) -> Option<Arc<Self>> {
        let reader = source.reader()?;
        let size = source.size().filter(|size| *size >= WORTH_IT)?;
        Some(Arc::new(Self {
            common: Arc::default(),
            reader,
            size,
            state: Mutex::new(State {
                pieces: Pieces::new(size),
                brought: BTreeMap::new(),
                hungry: BTreeSet::new(),
                failed: None,
            }),
        }))
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    pub(super) fn reader(&self) -> &SourceReader {
        &self.reader
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is there, in bytes: held before, or brought by any lane.
    pub(crate) fn there(&self) -> u64 {
        let state = self.state();
        let brought: u64 = state.brought.values().sum();
        (state.pieces.held_bytes() + brought).min(self.size)
    }

    /// What a lane could not read.
    pub(crate) fn take_failed(&self) -> Option<StoreError> {
        self.state().failed.take()
    }
}

/// One lane's end of an outlet.
#[derive(Debug)]
pub(crate) struct Feed {
    outlet: Arc<Outlet>,
    lane: u32,
    is_first: bool,
    object: ObjectId,
    /// Below that, what is not its own was passed over.
    cursor: u64,
    /// Bytes that count as confirmed in its connection and that it did not bring.
    passed_over: u64,
    given: u64,
    /// Confirmed, as it was told.
    told: (u64, u64),
}

impl Drop for Feed {
    fn drop(&mut self) {
        let mut state = self.outlet.state();
        let back = state.pieces.leave(self.lane);
        state
            .brought
            .insert(self.lane, self.given.saturating_sub(back));
        state.hungry.remove(&self.lane);
        drop(state);
        if self.is_first {
            self.outlet.common.end();
        } else if back > 0 {
            self.outlet.common.wake_all();
        }
    }
}

impl Feed {
    /// That of the connection of the session.
    pub(crate) fn first(outlet: &Arc<Outlet>, object: ObjectId) -> Self {
        Self::new(outlet, object, true)
    }

    pub(super) fn beside(outlet: &Arc<Outlet>, object: ObjectId) -> Self {
        Self::new(outlet, object, false)
    }

    fn new(outlet: &Arc<Outlet>, object: ObjectId, is_first: bool) -> Self {
        Self {
            lane: outlet.state().pieces.join(),
            outlet: Arc::clone(outlet),
            is_first,
            object,
            cursor: 0,
            passed_over: 0,
            given: 0,
            told: (0, 0),
        }
    }

    pub(crate) fn outlet(&self) -> &Arc<Outlet> {
        &self.outlet
    }

    pub(super) fn fail(&self, error: StoreError) {
        self.outlet.state().failed.get_or_insert(error);
    }

    /// The receiver has that: no lane sends it.
    pub(crate) fn leave_out(&mut self, connection: &mut Connection, ranges: &RangeSet) {
        self.skip(connection, ranges);
        self.outlet.state().pieces.leave_out(ranges);
    }

    fn skip(&mut self, connection: &mut Connection, ranges: &RangeSet) {
        let before = connection.acked_bytes(self.object);
        connection.skip_sending(self.object, ranges);
        self.passed_over += connection.acked_bytes(self.object) - before;
    }

    fn pass_to(&mut self, connection: &mut Connection, end: u64) {
        let mut others = RangeSet::new();
        others.insert(ByteRange::new(self.cursor, end));
        self.skip(connection, &others);
        self.cursor = self.cursor.max(end);
    }

    /// Takes more if it has little left, of what can be read: below `ready_end`. How far all has been given out, if it was looked at.
    pub(crate) fn poll(&mut self, connection: &mut Connection, ready_end: u64) -> Option<u64> {
        let object = self.object;
        let prefix = connection.acked_prefix(object);
        let brought = connection
            .acked_bytes(object)
            .saturating_sub(self.passed_over);
        let mut left = self.cursor.saturating_sub(connection.sent_end(object));
        let (told_prefix, told_brought) = self.told;
        let is_news =
            prefix >= told_prefix + TOLD_STEP || brought.abs_diff(told_brought) >= TOLD_STEP;
        if left >= AHEAD && !is_news {
            return None;
        }
        let outlet = Arc::clone(&self.outlet);
        let mut state = outlet.state();
        self.told = (prefix, brought);
        state.pieces.confirm(self.lane, prefix);
        state.brought.insert(self.lane, brought);
        while left < AHEAD
            && let Some(piece) = state.pieces.take(self.lane, ready_end)
        {
            self.given += piece.len();
            left += piece.len();
            if piece.start >= self.cursor {
                self.pass_to(connection, piece.start);
                self.cursor = piece.end;
                connection.set_readable(object, piece.end);
            } else {
                // Of a lane that was lost.
                let before = connection.acked_bytes(object);
                connection.send_after_all(object, piece);
                self.passed_over -= before - connection.acked_bytes(object);
            }
        }
        if !state.pieces.has_more() {
            // All others bring the rest.
            self.pass_to(connection, outlet.size);
            connection.set_readable(object, outlet.size);
        } else if left < AHEAD {
            state.hungry.insert(self.lane);
        }
        let next = state.pieces.next();
        let feeds_others = ready_end > next && !state.hungry.is_empty();
        if feeds_others {
            state.hungry.clear();
        }
        drop(state);
        if feeds_others {
            outlet.common.wake_all();
        }
        Some(next)
    }
}
