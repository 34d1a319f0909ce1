//! The threads that answer questions about files: no disk may hold up the network.

use super::attest::{Attested, Witness};
use super::{protocol, shown};
use crate::access::{Place, Rights};
use crate::error::from_store;
use crate::session::dialogue;
use crate::session::places::{NoPlace, ONE, ONE_BYTES, Place as Taken, Places};
use crate::session::plans;
use crate::{Error, ErrorKind, PathBytes};
use howdah_session::files::{DirEntry, FilesRequest, Header, Part, cost, deed, paths};
use howdah_session::message::Message;
use howdah_store::{Found, FoundKind, SourceIdentity, StoreError, Wake};
use howdah_tree::PipeWriter;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Room for the header of bytes.
const HEADER_ROOM: usize = 64;
/// Bytes of a file in one piece of an answer.
const PIECE: usize = PipeWriter::CHUNK_BYTES - HEADER_ROOM;
/// Names in one piece of an answer, in bytes.
const ENTRIES_BYTES: usize = 24 << 10;
/// A file is hashed in pieces of that many bytes.
const HASH_PIECE: usize = 256 << 10;

/// Places that a session takes at the most: what is answered and not confirmed is no more than they stand for.
pub(super) const PLACES_MAX: usize = 4;

/// Something that a client has had changed.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) verb: &'static str,
    pub(crate) paths: Vec<PathBytes>,
    pub(crate) result: Result<(), Error>,
}

/// What the threads of a session share.
pub(super) struct Shared {
    pub(super) state: Mutex<State>,
    pub(super) rights: Rights,
    pub(super) witness: Witness,
    pub(super) attested: Attested,
    tap: Mutex<PipeWriter>,
    wake: Wake,
    /// Of which account its places are, and of whom there.
    places: (Places, String),
    /// Something was confirmed, or everything is over.
    confirmed: Condvar,
    pub(super) stop: AtomicBool,
    /// Bytes that are written for the client.
    pub(super) written: AtomicU64,
    /// Grows as long as something moves.
    pub(super) moved: AtomicU64,
    /// Questions that were answered with a failure.
    pub(super) failed: AtomicU64,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) waiting: VecDeque<(u64, FilesRequest)>,
    /// Of what is not answered.
    pub(super) cost: u64,
    pub(super) workers: usize,
    pub(super) changes: Vec<Change>,
    /// Of what was written, the client has that.
    acked: u64,
    /// Each stands for a thread, and for so many bytes that are not confirmed.
    taken: Vec<Taken>,
}

impl State {
    /// Whether so many bytes have places.
    fn has_room_for(&self, bytes: u64) -> bool {
        bytes <= ONE_BYTES * self.taken.len() as u64
    }

    /// Gives back places that stand for nothing.
    fn give_back(&mut self, written: u64) {
        let bytes = written.saturating_sub(self.acked).div_ceil(ONE_BYTES);
        let kept = usize::try_from(bytes).unwrap_or(usize::MAX);
        self.taken.truncate(kept.max(self.workers));
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Shared")
    }
}

/// Why a question is not answered to its end.
pub(super) enum Trouble {
    /// The client hears of it.
    Failed(Error),
    /// Nobody hears anything any more.
    Gone,
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        Self::Failed(from_store(&error))
    }
}

impl Shared {
    pub(super) fn new(
        rights: Rights,
        witness: Witness,
        places: (Places, String),
        tap: PipeWriter,
        wake: Wake,
    ) -> Self {
        Self {
            state: Mutex::default(),
            rights,
            witness,
            attested: Attested::default(),
            tap: Mutex::new(tap),
            wake,
            places,
            confirmed: Condvar::new(),
            stop: AtomicBool::new(false),
            written: AtomicU64::new(0),
            moved: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place for one thread more, unless there is one that it can have.
    pub(super) fn take_for_thread(&self, state: &mut State) -> Result<(), NoPlace> {
        if state.taken.len() <= state.workers {
            let (places, key) = &self.places;
            state.taken.push(places.take(key, ONE)?);
        }
        Ok(())
    }

    /// The client has so much of what was written.
    pub(super) fn on_acked(&self, acked: u64) {
        let mut state = self.lock();
        let more = std::mem::replace(&mut state.acked, acked) != acked;
        state.give_back(self.written.load(Ordering::Relaxed));
        drop(state);
        if more {
            self.confirmed.notify_all();
        }
    }

    /// Nobody wants anything any more.
    pub(super) fn stop(&self) {
        let state = self.lock();
        self.stop.store(true, Ordering::Relaxed);
        drop(state);
        self.confirmed.notify_all();
    }

    /// Waits until so many bytes more have a place, which they keep until they are confirmed.
    fn wait_for_place(&self, len: u64) -> Result<(), Trouble> {
        let written = self.written.load(Ordering::Relaxed);
        let mut state = self.lock();
        loop {
            if self.is_stopped() {
                return Err(Trouble::Gone);
            }
            if state.has_room_for((written + len).saturating_sub(state.acked)) {
                return Ok(());
            }
            let (places, key) = &self.places;
            let more = (state.taken.len() < PLACES_MAX).then(|| places.take(key, ONE));
            if let Some(Ok(place)) = more {
                state.taken.push(place);
                continue;
            }
            let woken = self.confirmed.wait(state);
            state = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Answers until nothing is asked.
    pub(super) fn work(&self) {
        loop {
            let mut state = self.lock();
            let next = state.waiting.pop_front();
            let Some((id, request)) = next.filter(|_| !self.is_stopped()) else {
                state.workers -= 1;
                // Whoever is idle holds none, however long nothing is heard of him.
                state.give_back(self.written.load(Ordering::Relaxed));
                return;
            };
            drop(state);
            let answer = catch_unwind(AssertUnwindSafe(|| self.answer(id, &request)));
            let fault = |_| {
                let text = "a fault of this program ended this answer (its log says where; please report it)";
                Err(Trouble::Failed(Error::new(ErrorKind::Io, text)))
            };
            match answer.unwrap_or_else(fault) {
                Ok(part) => {
                    self.note(&request, Ok(()));
                    let _ = self.say(id, part);
                }
                Err(Trouble::Failed(error)) => {
                    self.failed.fetch_add(1, Ordering::Relaxed);
                    if let Message::Fail { kind, message } = dialogue::fail(&error) {
                        self.note(&request, Err(error));
                        let _ = self.say(id, Part::Failed { kind, message });
                    }
                }
                Err(Trouble::Gone) => {}
            }
            let mut state = self.lock();
            state.cost = state.cost.saturating_sub(cost(&request));
            drop(state);
            (self.wake)();
        }
    }

    /// Remembers what became of a change.
    fn note(&self, request: &FilesRequest, result: Result<(), Error>) {
        if let Some(verb) = deed(request) {
            let paths = paths(request);
            self.lock().changes.push(Change {
                verb,
                paths,
                result,
            });
        }
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// The same, asked by who is at work: what takes long and is told of at its end only does not stand still.
    pub(super) fn at_work(&self) -> bool {
        self.moved.fetch_add(1, Ordering::Relaxed);
        self.is_stopped()
    }

    fn say(&self, id: u64, part: Part) -> Result<(), Trouble> {
        self.give(Header { id, part }.encode())
    }

    /// Waits while the client is behind.
    fn give(&self, chunk: Vec<u8>) -> Result<(), Trouble> {
        if self.is_stopped() {
            return Err(Trouble::Gone);
        }
        let len = chunk.len() as u64;
        let mut tap = self.tap.lock().unwrap_or_else(PoisonError::into_inner);
        self.wait_for_place(len)?;
        tap.give(chunk).map_err(|_| Trouble::Gone)?;
        // Counted before the next one can be: what is written is never less than what has left.
        self.written.fetch_add(len, Ordering::Relaxed);
        self.moved.fetch_add(1, Ordering::Relaxed);
        drop(tap);
        Ok(())
    }

    fn answer(&self, id: u64, request: &FilesRequest) -> Result<Part, Trouble> {
        match request {
            FilesRequest::Stat { path } => self.stat(path),
            FilesRequest::List { path } => self.list(id, path),
            FilesRequest::Read {
                path,
                version,
                ranges,
            } => self.read(id, path, (*version).map(SourceIdentity::from), ranges),
            FilesRequest::Hash { path } => self.hash(path),
            FilesRequest::MakeDir { path, parents } => {
                let place = self.rights.entry(path.as_path())?;
                self.make_dir(&place, *parents)
            }
            FilesRequest::Remove { path, is_dir } => {
                let (root, at) = self.rights.entry(path.as_path())?;
                self.rights.check_change(&at)?;
                root.remove(&at, *is_dir)?;
                Ok(Part::Done)
            }
            FilesRequest::Rename { path, to } => {
                let (root, at) = self.rights.entry(path.as_path())?;
                let (there, target) = self.rights.entry(to.as_path())?;
                self.rights.check_change(&at)?;
                root.rename(&at, &there, &target)?;
                Ok(Part::Done)
            }
            FilesRequest::Attest { place, part, files } => self.attest(place, *part, files),
            FilesRequest::Sign { statement, .. } => self.sign(statement),
            FilesRequest::Plan(request) => {
                let who = (&self.rights, &*self.places.1);
                let tell = &mut |part| self.say(id, Part::Plan(part));
                let last = plans::answer(who, request, &|| self.at_work(), tell)?;
                Ok(last.map_or(Part::Done, Part::Plan))
            }
            _ => Err(Trouble::Failed(protocol(
                "the client asks what is not known here",
            ))),
        }
    }

    fn make_dir(&self, (root, at): &Place, parents: bool) -> Result<Part, Trouble> {
        let quota = &self.rights.quota;
        if !quota.is_bounded() {
            root.make_dir(at, parents)?;
            return Ok(Part::Done);
        }
        // One by one: each of them must fit before it is made.
        let mut above: Vec<&Path> = at.ancestors().collect();
        above.retain(|dir| !dir.as_os_str().is_empty() && (parents || *dir == at));
        for dir in above.into_iter().rev() {
            quota.take_directories(dir, 1)?;
            let made = root.make_dir(dir, parents);
            if !matches!(made, Ok(1..)) {
                quota.give_back_directories(1);
            }
            made?;
        }
        Ok(Part::Done)
    }

    fn stat(&self, path: &PathBytes) -> Result<Part, Trouble> {
        let (root, at) = self.rights.source(without_slash(path).as_path())?;
        let found = root.look(&at)?;
        if found.kind == FoundKind::Directory {
            self.rights.check_list()?;
        }
        Ok(Part::Info(shown(&found, self.rights.shows())))
    }

    fn list(&self, id: u64, path: &PathBytes) -> Result<Part, Trouble> {
        self.rights.check_list()?;
        let (root, at) = self.rights.source(without_slash(path).as_path())?;
        let shows = self.rights.shows();
        let (mut part, mut bytes, mut gone) = (Vec::new(), 0, false);
        let listed = root.look_into(&at, &mut |name, found| {
            let name = PathBytes::from(name);
            bytes += name.as_bytes().len() + 96;
            part.push(DirEntry {
                name,
                info: shown(&found, shows),
            });
            if bytes >= ENTRIES_BYTES {
                bytes = 0;
                gone = self
                    .say(id, Part::Entries(std::mem::take(&mut part)))
                    .is_err();
            }
            if gone || self.is_stopped() {
                return Err(StoreError::Aborted);
            }
            Ok(())
        });
        match listed {
            Err(StoreError::Aborted) => return Err(Trouble::Gone),
            listed => listed?,
        }
        self.say(id, Part::Entries(part))?;
        Ok(Part::Done)
    }

    /// A file that is there, and what it is now.
    fn open(&self, path: &PathBytes) -> Result<(File, PathBuf, SourceIdentity), Trouble> {
        let (root, at) = self.rights.source(path.as_path())?;
        let file = root.open_read(&at)?;
        let found = Found::of(&file, &at)?;
        Ok((file, at, found.identity))
    }

    fn read(
        &self,
        id: u64,
        path: &PathBytes,
        version: Option<SourceIdentity>,
        ranges: &[(u64, u64)],
    ) -> Result<Part, Trouble> {
        let (file, at, now) = self.open(path)?;
        if let Some(difference) = version.and_then(|version| version.difference(&now)) {
            let text = format!(
                "{} has changed since it was looked at ({difference}); look at it again",
                at.display()
            );
            return Err(Trouble::Failed(Error::new(ErrorKind::SourceChanged, text)));
        }
        for (range, &(start, len)) in (0..).zip(ranges) {
            let end = start.saturating_add(len).min(now.size);
            let mut at_byte = start;
            while at_byte < end {
                let len = (end - at_byte).min(PIECE as u64) as u32;
                let part = Part::Bytes { range, len };
                let mut chunk = Header { id, part }.encode();
                let header = chunk.len();
                chunk.resize(header + len as usize, 0);
                match file.read_exact_at(&mut chunk[header..], at_byte) {
                    Ok(()) => {}
                    Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Err(changed(&at)),
                    Err(e) => return Err(unreadable(&at, &e)),
                }
                self.give(chunk)?;
                at_byte += u64::from(len);
            }
        }
        if Found::of(&file, &at)?.identity != now {
            return Err(changed(&at));
        }
        Ok(Part::Read {
            version: now.into(),
        })
    }

    pub(super) fn found(&self, path: &PathBytes) -> Result<SourceIdentity, Trouble> {
        self.open(path).map(|(_, _, identity)| identity)
    }

    pub(super) fn hash(&self, path: &PathBytes) -> Result<Part, Trouble> {
        let (file, at, now) = self.open(path)?;
        let mut hasher = blake3::Hasher::new();
        let mut piece = vec![0; HASH_PIECE];
        let mut offset = 0;
        loop {
            match file.read_at(&mut piece, offset) {
                Ok(0) => break,
                Ok(len) => {
                    hasher.update(&piece[..len]);
                    offset += len as u64;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(unreadable(&at, &e)),
            }
            self.moved.fetch_add(1, Ordering::Relaxed);
            if self.is_stopped() {
                return Err(Trouble::Gone);
            }
        }
        if Found::of(&file, &at)?.identity != now {
            return Err(changed(&at));
        }
        Ok(Part::Hash {
            blake3: *hasher.finalize().as_bytes(),
            version: now.into(),
        })
    }
}

/// A directory is the same one with a slash behind its name.
fn without_slash(path: &PathBytes) -> PathBytes {
    let bytes = path.as_bytes();
    let end = bytes
        .iter()
        .rposition(|&b| b != b'/')
        .map_or(0, |at| at + 1);
    // The root of a machine is nothing else.
    let end = if end == 0 { bytes.len().min(1) } else { end };
    PathBytes::from(&bytes[..end])
}

fn changed(path: &Path) -> Trouble {
    let path = path.to_path_buf();
    Trouble::from(StoreError::SourceChanged { path })
}

fn unreadable(path: &Path, error: &io::Error) -> Trouble {
    let text = format!("cannot read {}: {error}", path.display());
    Trouble::Failed(Error::new(ErrorKind::Io, text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::places::Bounds;
    use howdah_tree::pipe;
    use std::sync::Arc;
    use std::sync::mpsc::{RecvTimeoutError, channel};
    use std::time::Duration;

    fn shared(places: &Places) -> Arc<Shared> {
        let dir = std::env::temp_dir();
        let account = (places.clone(), "anna".to_owned());
        let (tap, _) = pipe();
        let (rights, witness) = (Rights::of_user(dir), Witness::default());
        Arc::new(Shared::new(rights, witness, account, tap, Arc::new(|| ())))
    }

    /// What is answered and not confirmed is on the account of its key, as what is under way is: many sessions hold no more than a key may.
    #[test]
    fn h11_answers_that_nobody_takes_are_on_the_account_of_their_key() {
        let places = Places::new(Bounds { all: 12, of_key: 3 });
        let shared = shared(&places);
        let mut state = shared.lock();
        assert!(shared.take_for_thread(&mut state).is_ok());
        state.workers = 1;
        drop(state);
        // Its thread's place stands for so much.
        assert!(shared.wait_for_place(ONE_BYTES).is_ok());
        assert!(places.take("anna", 3).is_err());
        drop(places.take("anna", 2).expect("one is taken"));
        shared.written.store(ONE_BYTES, Ordering::Relaxed);
        assert!(shared.wait_for_place(1).is_ok());
        assert!(places.take("anna", 2).is_err());
        // The key has one left, which somebody else takes: what is answered waits until something is confirmed.
        let others = places.take("anna", 1).expect("two are taken");
        shared.written.store(2 * ONE_BYTES, Ordering::Relaxed);
        let (tell, told) = channel();
        let waiting = Arc::clone(&shared);
        let thread = std::thread::spawn(move || tell.send(waiting.wait_for_place(1).is_ok()));
        let early = told.recv_timeout(Duration::from_millis(50));
        assert_eq!(early, Err(RecvTimeoutError::Timeout));
        shared.on_acked(1);
        assert_eq!(told.recv(), Ok(true));
        thread.join().expect("it ends").expect("it is heard");
        // All is confirmed, and the thread's is left.
        shared.on_acked(2 * ONE_BYTES);
        drop(others);
        drop(places.take("anna", 2).expect("one is taken"));
        // Who waits hears of the end.
        shared.written.store(9 * ONE_BYTES, Ordering::Relaxed);
        let waiting = Arc::clone(&shared);
        let thread = std::thread::spawn(move || waiting.wait_for_place(1).is_err());
        shared.stop();
        assert!(thread.join().expect("it ends"));
    }

    #[test]
    fn h11_who_is_idle_holds_no_place() {
        let places = Places::new(Bounds { all: 12, of_key: 3 });
        let shared = shared(&places);
        let mut state = shared.lock();
        assert!(shared.take_for_thread(&mut state).is_ok());
        state.workers = 1;
        drop(state);
        assert!(places.are_taken_beside(None));
        // Nothing is asked.
        shared.work();
        assert!(!places.are_taken_beside(None));
    }
}
