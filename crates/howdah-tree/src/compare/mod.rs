//! Compares two described trees: goes through both manifests at once, as both are sorted alike, and through
//! the hashes of the files that are on both sides.
//!
//! ```text
//! describer A --manifest--> merge <--manifest-- describer B
//!             <--answers---   |   ---answers-->              (hash these)
//!                             | items, in order
//!                             v
//! describer A ---packs---> hashes <---packs---- describer B
//!                             |
//!                             v  differences, in order
//! ```
//!
//! Neither side knows of the other. Where each is does not matter in here: its three streams come from a
//! thread of this process or from a connection.

mod cursor;
mod difference;
mod hashes;
mod listing;
mod merge;

#[cfg(test)]
mod tests;

pub use difference::{Difference, DifferenceKind, EntryKind, OwnerSeen, Tally};
pub use listing::{Listed, Listing, TreeListing};

use self::cursor::Cursor;
use super::pipe::pipe;
use super::queue::{Queue, lock};
use super::receive::ReceiverEnds;
use super::send::SenderEnds;
use super::workers::{self, FirstError, Workers};
use howdah_session::{Filter, TreeOptions};
use howdah_store::{StoreError, Wake};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// Differences and files to be compared between the two threads: as many as a side may be ahead of the
/// answers.
const ITEMS: usize = super::bounds::WAITING_FILES;
/// Differences that nobody has taken yet.
const DIFFERENCES: usize = 1024;

/// Joins an engine to a comparison: what the engine feeds, and what the comparison reads.
pub fn comparison_ends() -> (ReceiverEnds, SenderEnds) {
    let (manifest_tap, manifest) = pipe();
    let (packs_tap, packs) = pipe();
    let (answers, answers_spout) = pipe();
    let engine = ReceiverEnds {
        manifest: manifest_tap,
        packs: packs_tap,
        answers: answers_spout,
    };
    let comparison = SenderEnds {
        manifest,
        packs,
        answers,
    };
    (engine, comparison)
}

/// How a comparison stands, for whoever carries its streams.
#[derive(Clone, Default)]
pub struct ComparisonState(Arc<State>);

#[derive(Default)]
struct State {
    done: AtomicBool,
    moved: AtomicU64,
    wakes: Mutex<Vec<Wake>>,
}

impl std::fmt::Debug for ComparisonState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ComparisonState")
            .field("done", &self.is_done())
            .finish_non_exhaustive()
    }
}

impl ComparisonState {
    /// Whether nothing more is needed of either side.
    pub fn is_done(&self) -> bool {
        self.0.done.load(Ordering::Acquire)
    }

    /// A number that grows while the comparison goes on.
    pub fn moved(&self) -> u64 {
        self.0.moved.load(Ordering::Relaxed)
    }

    /// `wake` is called when it is done.
    pub fn on_done(&self, wake: Wake) {
        lock(&self.0.wakes).push(wake);
    }

    fn note_move(&self) {
        self.0.moved.fetch_add(1, Ordering::Relaxed);
    }

    fn finish(&self) {
        self.0.done.store(true, Ordering::Release);
        for wake in &*lock(&self.0.wakes) {
            wake();
        }
    }
}

/// What came next.
#[derive(Debug)]
pub enum Next {
    /// A difference.
    Found(Difference),
    /// Nothing within that time.
    Nothing,
    /// All differences have been told, or the comparison has failed.
    End,
}

/// A comparison under way. Dropping it ends it.
#[derive(Debug)]
pub struct TreeComparison {
    shared: Arc<Shared>,
    differences: Receiver<Difference>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    options: TreeOptions,
    filter: Filter,
    state: ComparisonState,
    items: Queue<Item>,
    tally: Mutex<Tally>,
    error: FirstError,
    /// What is left of the manifests. Whoever feeds them must not take their end for a failure.
    parked: Mutex<Option<[Cursor; 2]>>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

/// What is told next, or looked at before that.
#[derive(Debug)]
enum Item {
    Found(Difference),
    /// Both sides hash that file.
    Hashes {
        dir: Arc<PathBuf>,
        name: OsString,
        size: u64,
    },
}

impl TreeComparison {
    /// Starts to compare. With [`TreeOptions::checksum`] by content, else by size and time of modification;
    /// with [`TreeOptions::archive`] attributes as well. The rules are applied to both sides here, whatever
    /// the sides have left out already.
    pub fn start(a: SenderEnds, b: SenderEnds, options: &TreeOptions) -> Result<Self, StoreError> {
        let (out, differences) = sync_channel(DIFFERENCES);
        let shared = Arc::new(Shared {
            options: options.clone(),
            filter: Filter::new(options)?,
            state: ComparisonState::default(),
            items: Queue::new(ITEMS),
            tally: Mutex::default(),
            error: FirstError::default(),
            parked: Mutex::new(None),
        });
        let mut comparison = Self {
            shared,
            differences,
            threads: Vec::new(),
        };
        let packs = [a.packs, b.packs];
        let talk = [(a.manifest, a.answers), (b.manifest, b.answers)];
        comparison.spawn("howdah-merge", move |shared| merge::run(shared, talk))?;
        comparison.spawn("howdah-compare", move |shared| {
            let result = hashes::run(shared, packs, &out);
            // The end of the differences is seen after the reason for it.
            result.inspect_err(|error| shared.fail(error.clone()))
        })?;
        Ok(comparison)
    }

    fn spawn(
        &mut self,
        name: &str,
        work: impl FnOnce(&Shared) -> Result<(), StoreError> + Send + 'static,
    ) -> Result<(), StoreError> {
        let thread = workers::start(&self.shared, name, |shared| work(shared))?;
        self.threads.push(thread);
        Ok(())
    }

    /// The next difference, after a wait of at most `patience`.
    pub fn next(&self, patience: Duration) -> Next {
        match self.differences.recv_timeout(patience) {
            Ok(difference) => Next::Found(difference),
            Err(RecvTimeoutError::Timeout) => Next::Nothing,
            Err(RecvTimeoutError::Disconnected) => Next::End,
        }
    }

    /// What ended it early. That nothing did so is certain once [`ComparisonState::is_done`] says so.
    pub fn error(&self) -> Option<StoreError> {
        self.shared.error.get()
    }

    /// What has been compared so far.
    pub fn tally(&self) -> Tally {
        lock(&self.shared.tally).clone()
    }

    /// For whoever carries its streams.
    pub fn state(&self) -> ComparisonState {
        self.shared.state.clone()
    }

    /// Tells paths that were listed and are on neither side; known at the end.
    pub fn tell_missing(&self, tell: impl FnMut(&Path)) {
        self.shared.filter.tell_missing(tell);
    }
}

impl Drop for TreeComparison {
    fn drop(&mut self) {
        self.shared.items.stop();
        drop(lock(&self.shared.parked).take());
    }
}

impl Workers for Shared {
    fn fail(&self, error: StoreError) {
        self.error.note(error);
        self.items.stop();
    }
}
