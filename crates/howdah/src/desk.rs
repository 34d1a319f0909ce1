//! What is asked about files and not answered yet: shared by those who ask, the connection, and whoever reads the answers.

mod incoming;

use crate::{Error, ErrorKind, PathBytes};
use howdah_session::files::{
    DirEntry, FileInfo, FileVersion, FilesRequest, MESSAGE_COST, OPEN_COST, cost,
};
use howdah_session::message::Message;
use howdah_session::plans::{PlanAnswer, PlanRecord};
use howdah_store::{Wake, threads};
use howdah_tree::PipeReader;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// What is answered.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum FilesAnswer {
    /// To [`FilesRequest::Stat`].
    Info(FileInfo),
    /// To [`FilesRequest::List`]: in no order, without `.`, `..` and unfinished copies.
    Entries(Vec<DirEntry>),
    /// To [`FilesRequest::Read`].
    Bytes {
        /// Of each range, in their order. Shorter than asked for where the file ends.
        parts: Vec<Vec<u8>>,
        /// The version of the file that they are of.
        version: FileVersion,
    },
    /// To [`FilesRequest::Hash`].
    Hash {
        /// BLAKE3 of the content.
        blake3: [u8; 32],
        /// The version of the file that it is of.
        version: FileVersion,
    },
    /// To what makes, removes or renames, and to [`FilesRequest::Attest`].
    Done,
    /// To [`FilesRequest::Sign`].
    Signed {
        /// A [`Statement`](crate::Statement) as JSON.
        statement: Vec<u8>,
        /// Of the server's key.
        signature: Vec<u8>,
    },
    /// To what is asked about a plan, but where that is done with [`Done`](Self::Done).
    #[doc(hidden)]
    Plan(PlanAnswer),
}

/// A question is asked again on so many new connections.
const AGAIN_MAX: u32 = 2;

type Tell = Box<dyn FnOnce(Result<FilesAnswer, Error>) + Send>;

/// A question, and what has come of its answer.
pub(crate) struct Open {
    pub(crate) request: FilesRequest,
    tell: Tell,
    again: u32,
    pub(crate) parts: Vec<Vec<u8>>,
    pub(crate) entries: Vec<DirEntry>,
    pub(crate) records: Vec<PlanRecord>,
    pub(crate) text: Vec<u8>,
}

#[derive(Default)]
struct State {
    next_id: u64,
    open: BTreeMap<u64, Open>,
    /// Those that this connection has not been told.
    waiting: VecDeque<u64>,
    /// Of those that it has.
    cost: u64,
    /// The server has said that it answers.
    is_open: bool,
    /// Somebody wants it no more.
    is_closed: bool,
    /// Why the first connection failed.
    failed: Option<Error>,
    /// What the server says makes no sense.
    broken: Option<Error>,
    reader: Option<JoinHandle<()>>,
    wake: Option<Wake>,
}

/// See the module. Clones are the same one.
#[derive(Clone, Default)]
pub(crate) struct Desk(Arc<(Mutex<State>, Condvar)>, Option<Arc<[PathBytes]>>);

impl std::fmt::Debug for Desk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Desk")
    }
}

impl Desk {
    /// One that asks for a receipt of what lies at these places, and for nothing else.
    pub(crate) fn for_receipt(places: Vec<PathBytes>) -> Self {
        Self(Arc::default(), Some(places.into()))
    }

    /// The places, if it asks for a receipt.
    pub(crate) fn receipt_of(&self) -> Option<&[PathBytes]> {
        self.1.as_deref()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the connection and its keeper look again.
    fn rouse(&self, state: MutexGuard<'_, State>) {
        let wake = state.wake.clone();
        drop(state);
        self.0.1.notify_all();
        if let Some(wake) = wake {
            wake();
        }
    }

    /// Asks. `tell` is called with the answer, by the thread that reads answers.
    pub(crate) fn ask(&self, request: FilesRequest, tell: Tell) {
        let mut state = self.lock();
        if state.is_closed {
            drop(state);
            return tell(Err(closed()));
        }
        let id = state.next_id;
        state.next_id += 1;
        let open = Open {
            request,
            tell,
            again: 0,
            parts: Vec::new(),
            entries: Vec::new(),
            records: Vec::new(),
            text: Vec::new(),
        };
        state.open.insert(id, open);
        state.waiting.push_back(id);
        self.rouse(state);
    }

    /// Waits until the server answers, or says why it does not.
    pub(crate) fn wait_open(&self) -> Result<(), Error> {
        let mut state = self.lock();
        loop {
            if state.is_open {
                return Ok(());
            }
            if let Some(error) = &state.failed {
                return Err(error.clone());
            }
            state = self.0.1.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until something is to be asked; `false`: nobody asks any more.
    pub(crate) fn wait_for_work(&self) -> bool {
        let mut state = self.lock();
        while state.open.is_empty() && !state.is_closed {
            state = self.0.1.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        !state.is_closed
    }

    /// Ends it: what is not answered is an error.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        let open = std::mem::take(&mut state.open);
        state.waiting.clear();
        self.rouse(state);
        for open in open.into_values() {
            (open.tell)(Err(closed()));
        }
    }

    /// A connection is over. What was read on it and can be asked again is asked on the next one.
    pub(crate) fn on_end(&self, error: Option<Error>) {
        let reader = self.lock().reader.take();
        if let Some(reader) = reader {
            let _ = reader.join();
        }
        let mut state = self.lock();
        let error = state.broken.take().or(error);
        let was_open = std::mem::take(&mut state.is_open);
        (state.wake, state.cost) = (None, 0);
        let asks_again = was_open && error.as_ref().is_none_or(Error::is_lost_connection);
        let error =
            error.unwrap_or_else(|| Error::new(ErrorKind::Network, "the session has ended"));
        if !was_open {
            state.failed = Some(error.clone());
        }
        let (mut over, mut again) = (Vec::new(), BTreeMap::new());
        // What was not told may be told the next one, whatever it is.
        let untold: Vec<u64> = state.waiting.drain(..).collect();
        for (id, mut open) in std::mem::take(&mut state.open) {
            let was_told = untold.binary_search(&id).is_err();
            let repeats = open.again < AGAIN_MAX && !(was_told && open.request.changes());
            if asks_again && repeats {
                open.again += 1;
                (open.parts, open.entries) = (Vec::new(), Vec::new());
                open.records = Vec::new();
                open.text = Vec::new();
                again.insert(id, open);
            } else {
                over.push(open);
            }
        }
        state.waiting = again.keys().copied().collect();
        state.open = again;
        drop(state);
        self.0.1.notify_all();
        for open in over {
            (open.tell)(Err(error.clone()));
        }
    }

    /// A new connection may fail anew.
    pub(crate) fn forget_failure(&self) {
        self.lock().failed = None;
    }

    /// For the connection: whom to wake.
    pub(crate) fn on_connected(&self, wake: Wake) {
        self.lock().wake = Some(wake);
    }

    /// For the connection: the server answers into `spout`.
    pub(crate) fn on_open(&self, spout: PipeReader) -> Result<(), Error> {
        let desk = self.clone();
        let reader = threads::start("howdah-answers", move || incoming::read(&desk, spout));
        let reader =
            reader.map_err(|e| Error::new(ErrorKind::Io, format!("cannot start a thread: {e}")))?;
        let mut state = self.lock();
        state.reader = Some(reader);
        state.is_open = true;
        drop(state);
        self.0.1.notify_all();
        Ok(())
    }

    /// For the connection: whether it is to end.
    pub(crate) fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    /// For the connection: whether something is asked and not answered.
    pub(crate) fn is_waiting(&self) -> bool {
        self.lock().cost > 0
    }

    /// For the connection: what makes no sense of what came.
    pub(crate) fn broken(&self) -> Option<Error> {
        self.lock().broken.clone()
    }

    /// For the connection: what to ask next, as much as may be open.
    pub(crate) fn take_questions(&self) -> Vec<Message> {
        let mut state = self.lock();
        let (mut messages, mut part, mut part_cost) = (Vec::new(), Vec::new(), 0);
        while let Some(&id) = state.waiting.front() {
            let Some(request) = state.open.get(&id).map(|open| open.request.clone()) else {
                state.waiting.pop_front();
                continue;
            };
            let cost = cost(&request);
            if state.cost > 0 && state.cost + cost > OPEN_COST {
                break;
            }
            state.waiting.pop_front();
            state.cost += cost;
            if part_cost + cost > MESSAGE_COST && !part.is_empty() {
                messages.push(Message::AskFiles(std::mem::take(&mut part)));
                part_cost = 0;
            }
            part_cost += cost;
            part.push((id, request));
        }
        if !part.is_empty() {
            messages.push(Message::AskFiles(part));
        }
        messages
    }

    /// For whoever reads the answers: a question that was asked on this connection, taken away.
    pub(crate) fn take(&self, id: u64) -> Option<Open> {
        let mut state = self.lock();
        if state.waiting.binary_search(&id).is_ok() {
            return None;
        }
        state.open.remove(&id)
    }

    /// The same, put back: more of its answer comes.
    pub(crate) fn put_back(&self, id: u64, open: Open) {
        let mut state = self.lock();
        if !state.is_closed {
            state.open.insert(id, open);
            return;
        }
        drop(state);
        (open.tell)(Err(closed()));
    }

    /// It is answered.
    pub(crate) fn answer(&self, open: Open, result: Result<FilesAnswer, Error>) {
        let mut state = self.lock();
        state.cost = state.cost.saturating_sub(cost(&open.request));
        if state.waiting.is_empty() {
            drop(state);
        } else {
            self.rouse(state);
        }
        (open.tell)(result);
    }

    /// What the server says makes no sense.
    pub(crate) fn fail(&self, error: Error) {
        let mut state = self.lock();
        state.broken = Some(error);
        self.rouse(state);
    }
}

fn closed() -> Error {
    Error::new(ErrorKind::Cancelled, "this session of files was closed")
}

#[cfg(test)]
impl Desk {
    pub(crate) fn on_open_for_test(&self) {
        self.lock().is_open = true;
    }
}
