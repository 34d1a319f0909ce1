//! Where the lanes of an object that comes bring it.

use super::Common;
use howdah_core::{ByteRange, RangeSet, Rate};
use howdah_net::Placement;
use howdah_proto::SinkState;
use howdah_store::{Backlog, Batch, Part, SinkSide, Wake};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Room that each lane leaves for accepting data: one receive buffer and its copy.
const ROOM_BYTES: u64 = 2 * 65_536;
/// That of the session hears of what others brought in such steps ...
const NEWS_STEP: u64 = 256 << 10;
/// ... and of all of it when so little is missing.
const NEARLY_ALL: u64 = 16 << 20;
/// Nobody who is honest leaves so many holes.
const RANGES_MAX: usize = 1 << 18;

/// See the module.
pub(crate) struct Inlet {
    pub(super) common: Arc<Common>,
    size: u64,
    side: Option<Mutex<SinkSide>>,
    /// Of the connection of the session.
    wake: Wake,
    state: Mutex<State>,
    /// Lanes that have claimed something, perhaps, which is not in the sink yet.
    landing: AtomicUsize,
}

/// A lane between its claim and the sink.
pub(super) struct Landing<'a>(&'a Inlet);

impl Drop for Landing<'_> {
    fn drop(&mut self) {
        self.0.landing.fetch_sub(1, Ordering::SeqCst);
    }
}

#[derive(Debug)]
struct State {
    /// On its way into the sink, or there.
    taken: RangeSet,
    /// Brought by others since that of the session looked.
    news: RangeSet,
    failed: Option<&'static str>,
}

impl std::fmt::Debug for Inlet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inlet").finish_non_exhaustive()
    }
}

impl Inlet {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// A way into the sink, if it is more than counted.
    pub(super) fn side(&self) -> Option<SinkSide> {
        let side = self.side.as_ref()?;
        Some(side.lock().unwrap_or_else(PoisonError::into_inner).beside())
    }

    /// How many lanes write into its sink.
    fn lanes(&self) -> u64 {
        self.common.count().into()
    }

    /// Whether one more receive buffer can be taken, whatever the other lanes take at the same time.
    pub(crate) fn has_room(&self, backlog: Option<Backlog>) -> bool {
        backlog.is_none_or(|b| b.queued_bytes + ROOM_BYTES * self.lanes() <= b.capacity_bytes)
    }

    /// How far the sink is behind, as one of its senders has to know.
    pub(crate) fn sink_state(&self, backlog: &Backlog) -> SinkState {
        let drain = backlog.drain_rate.map_or(0, Rate::bits_per_sec);
        SinkState {
            queued_bytes: backlog.queued_bytes,
            capacity_bytes: backlog.capacity_bytes,
            drain_kb_per_s: drain / 8_000 / self.lanes(),
        }
    }

    /// The parts of these that nobody has brought before: they are whoever's who asks.
    pub(crate) fn claim(&self, parts: &[Placement]) -> Vec<Part> {
        let mut fresh = Vec::with_capacity(parts.len());
        let mut state = self.state();
        for part in parts {
            for range in state.taken.missing(part.range) {
                fresh.push(Part {
                    at: (part.at as u64 + (range.start - part.range.start)) as u32,
                    len: range.len() as u32,
                    offset: range.start,
                });
            }
            state.taken.insert(part.range);
        }
        if state.taken.range_count() > RANGES_MAX {
            state.failed = Some("the sender leaves more holes than anybody needs");
        }
        fresh
    }

    /// The same for a lane beside that of the session, which has all that nobody else does while it hands this on: whoever has the rest may
    /// not end the object before.
    pub(super) fn begin(&self, parts: &[Placement]) -> (Vec<Part>, Landing<'_>) {
        self.landing.fetch_add(1, Ordering::SeqCst);
        let landing = Landing(self);
        (self.claim(parts), landing)
    }

    /// What a lane beside that of the session brings.
    pub(super) fn place(
        &self,
        side: Option<&mut SinkSide>,
        buffer: &mut Vec<u8>,
        parts: &[Placement],
    ) {
        let (fresh, landing) = self.begin(parts);
        if fresh.is_empty() {
            drop(landing);
            // Somebody may have waited for that.
            return self.tell_if_all();
        }
        let ranges: Vec<_> = fresh
            .iter()
            .map(|part| ByteRange::with_len(part.offset, part.len.into()))
            .collect();
        if let Some(side) = side {
            let batch = Batch {
                buf: std::mem::take(buffer),
                parts: fresh,
            };
            if let Err(batch) = side.submit(batch) {
                *buffer = batch.buf;
                self.state().failed = Some("the destination takes no more data");
                return (self.wake)();
            }
        }
        let mut state = self.state();
        let before = state.news.byte_count();
        for range in ranges {
            state.news.insert(range);
        }
        let now = state.news.byte_count();
        let steps = now / NEWS_STEP > before / NEWS_STEP;
        let tells = steps || self.lacks(&state) < NEARLY_ALL;
        drop((state, landing));
        if tells {
            (self.wake)();
        }
    }

    /// Bytes that nobody has brought.
    fn lacks(&self, state: &State) -> u64 {
        self.size - state.taken.byte_count().min(self.size)
    }

    fn tell_if_all(&self) {
        let is_all = self.lacks(&self.state()) == 0;
        if is_all {
            (self.wake)();
        }
    }
}

/// The end of an inlet that is that of the session's connection.
#[derive(Debug)]
pub(crate) struct Landed(Arc<Inlet>);

impl Drop for Landed {
    fn drop(&mut self) {
        self.0.common.end();
    }
}

impl Landed {
    /// For an object of that size, of which `there` does not come. `side`: of the sink; what has none is counted.
    pub(crate) fn new(size: u64, there: RangeSet, side: Option<SinkSide>, wake: Wake) -> Self {
        Self(Arc::new(Inlet {
            common: Arc::default(),
            size,
            side: side.map(Mutex::new),
            wake,
            state: Mutex::new(State {
                taken: there,
                news: RangeSet::new(),
                failed: None,
            }),
            landing: AtomicUsize::new(0),
        }))
    }

    /// Whether something that was claimed may not be in the sink yet. Who is told that all has come looks at this later than at that.
    pub(crate) fn is_landing(&self) -> bool {
        self.0.landing.load(Ordering::SeqCst) > 0
    }

    pub(crate) fn inlet(&self) -> &Arc<Inlet> {
        &self.0
    }

    /// What others have brought since the last time; what failed there.
    pub(crate) fn take_news(&self) -> Result<RangeSet, &'static str> {
        let mut state = self.0.state();
        match state.failed {
            Some(why) => Err(why),
            None => Ok(std::mem::take(&mut state.news)),
        }
    }
}
