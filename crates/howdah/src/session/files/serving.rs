//! The server's end of a session that stays open.

use super::attest::Witness;
use super::protocol;
use super::worker::{Change, Shared};
use crate::access::Rights;
use crate::session::places::Places;
use crate::session::sending::Sending;
use crate::session::streams::send_answers;
use crate::{Error, PathBytes};
use howdah_core::{ObjectId, Time};
use howdah_proto::Connection;
use howdah_session::files::{FilesRequest, OPEN_COST, check, cost};
use howdah_store::{Wake, threads};
use howdah_tree::pipe;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Questions that a session answers at a time.
const WORKERS_MAX: usize = 4;
/// Names of a session that are written down, and their bytes; more are counted.
const NAMES_MAX: usize = 1_000;
const NAMES_BYTES: usize = 256 << 10;
/// What one takes in memory besides its bytes.
const NAME_COST: usize = 64;

/// See the module. Dropping it ends its threads.
#[derive(Debug)]
pub(crate) struct Serving {
    shared: Arc<Shared>,
    sending: Sending,
    /// Of what was written, the client has that.
    acked: u64,
    moved: u64,
    names: BTreeSet<Vec<u8>>,
    names_bytes: usize,
    left_out: usize,
    /// Why none of them is there although something is asked.
    lacks: Option<String>,
}

impl Serving {
    /// Opens the object of the answers; `announce` tells the client which it is.
    pub(crate) fn start(
        connection: &mut Connection,
        (rights, witness): (Rights, Witness),
        places: (Places, String),
        wake: &Wake,
        announce: impl FnOnce(&mut Connection, ObjectId),
    ) -> Result<Self, Error> {
        let object = connection.allocate_object();
        announce(connection, object);
        let (tap, spout) = pipe();
        let sending = send_answers(connection, object, spout, wake)?;
        Ok(Self {
            shared: Arc::new(Shared::new(rights, witness, places, tap, wake.clone())),
            sending,
            acked: 0,
            moved: 0,
            names: BTreeSet::new(),
            names_bytes: 0,
            left_out: 0,
            lacks: None,
        })
    }

    pub(crate) fn object(&self) -> ObjectId {
        self.sending.object
    }

    /// Takes questions.
    pub(crate) fn ask(&mut self, questions: Vec<(u64, FilesRequest)>) -> Result<(), Error> {
        for (_, request) in &questions {
            check(request)?;
            self.note_name(request.path());
        }
        let mut state = self.shared.lock();
        let cost: u64 = questions.iter().map(|(_, request)| cost(request)).sum();
        if state.cost > 0 && state.cost + cost > OPEN_COST {
            return Err(protocol("the client asks for more at a time than it may"));
        }
        state.cost += cost;
        state.waiting.extend(questions);
        drop(state);
        self.hire();
        Ok(())
    }

    /// Starts as many threads as there is work and place for.
    fn hire(&mut self) {
        self.lacks = None;
        let mut state = self.shared.lock();
        let wanted = state.waiting.len().min(WORKERS_MAX);
        while state.workers < wanted {
            let shared = Arc::clone(&self.shared);
            let place = self.shared.take_for_thread(&mut state);
            let started = place.map_err(|e| e.to_string()).and_then(|()| {
                let work = move || shared.work();
                threads::start("howdah-files", work).map_err(|e| Error::no_thread(&e).to_string())
            });
            match started {
                Ok(_) => state.workers += 1,
                // Those that are there do the work.
                Err(_) if state.workers > 0 => break,
                Err(why) => {
                    self.lacks = Some(why);
                    break;
                }
            }
        }
    }

    /// What is asked, and remembered of what was, in bytes of memory.
    pub(crate) fn held_bytes(&self) -> u64 {
        let names = self.names_bytes + NAME_COST * self.names.len();
        self.shared.lock().cost + names as u64 + self.shared.attested.held_bytes()
    }

    /// Why nothing that is asked is answered now, if so.
    pub(crate) fn lacks(&self) -> Option<String> {
        self.lacks.clone()
    }

    fn note_name(&mut self, path: &PathBytes) {
        let name = path.as_bytes();
        if self.names.contains(name) {
            return;
        }
        let bytes = self.names_bytes + name.len();
        if self.names.len() < NAMES_MAX && bytes <= NAMES_BYTES {
            self.names.insert(name.to_owned());
            self.names_bytes = bytes;
        } else {
            self.left_out += 1;
        }
    }

    /// The names that were asked about, and how many there were besides.
    pub(crate) fn names(&self) -> (Vec<PathBytes>, usize) {
        let names = self.names.iter().map(|name| PathBytes::from(&name[..]));
        (names.collect(), self.left_out)
    }

    /// Moves the answers along.
    pub(crate) fn poll(&mut self, now: Time, connection: &mut Connection) -> Result<(), Error> {
        if self.lacks.is_some() {
            self.hire();
        }
        self.acked = connection.acked_prefix(self.sending.object);
        self.shared.on_acked(self.acked);
        self.sending.poll(now, connection)
    }

    pub(crate) fn read(&mut self, object: ObjectId, offset: u64, buffer: &mut [u8]) {
        if object == self.sending.object {
            self.sending.read(offset, buffer);
        } else {
            buffer.fill(0);
        }
    }

    /// What was changed since the last time.
    pub(crate) fn take_changes(&self) -> Vec<Change> {
        std::mem::take(&mut self.shared.lock().changes)
    }

    /// Whether something is asked or on its way.
    pub(crate) fn is_busy(&self) -> bool {
        let state = self.shared.lock();
        state.cost > 0 || !state.changes.is_empty() || self.written() > self.acked
    }

    /// Whether a thread of it does something.
    pub(crate) fn is_at_work(&self) -> bool {
        self.shared.lock().workers > 0
    }

    /// Bytes of answers so far.
    pub(crate) fn written(&self) -> u64 {
        self.shared.written.load(Ordering::Relaxed)
    }

    /// Questions that were answered with a failure.
    pub(crate) fn failed(&self) -> u64 {
        self.shared.failed.load(Ordering::Relaxed)
    }

    /// Whether anything has moved since the last look.
    pub(crate) fn has_moved(&mut self) -> bool {
        let moved = self.shared.moved.load(Ordering::Relaxed) + self.acked;
        std::mem::replace(&mut self.moved, moved) != moved
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.shared.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;
    use crate::session::alone::connection;
    use crate::session::places::Bounds;
    use howdah_session::files::RANGES_MAX;

    /// A client of ours keeps to the bounds; another one is held to them, however slow the disk or the path.
    #[test]
    fn a71_more_than_may_be_open_is_refused() {
        let dir = tempfile::tempdir().expect("a place");
        let file = std::fs::File::create(dir.path().join("big")).expect("a file");
        file.set_len(64 << 20).expect("holes");
        let rights = Rights::of_user(dir.path().to_owned());
        let mut connection = connection();
        let wake: Wake = Arc::new(|| ());
        let serving = Serving::start(
            &mut connection,
            (rights, Witness::default()),
            (Places::new(Bounds::of_system()), String::new()),
            &wake,
            |_, _| (),
        );
        let mut serving = serving.expect("it starts");
        let question = |id, ranges| {
            let ranges = vec![(0, u64::MAX); ranges];
            let request = FilesRequest::Read {
                path: "big".into(),
                version: None,
                ranges,
            };
            vec![(id, request)]
        };
        let too_many = serving.ask(question(0, RANGES_MAX + 1));
        assert_eq!(too_many.expect_err("too many").kind(), ErrorKind::Protocol);
        // Nobody takes what is answered, so nothing of it ends.
        let most = OPEN_COST / cost(&question(0, RANGES_MAX)[0].1);
        for id in 0..most {
            serving
                .ask(question(id, RANGES_MAX))
                .expect("it may be open");
        }
        let more = serving.ask(question(most, RANGES_MAX));
        assert_eq!(more.expect_err("too much").kind(), ErrorKind::Protocol);
        assert!(serving.is_busy());
        assert_eq!(serving.shared.lock().workers, WORKERS_MAX);
        assert!(serving.written() < 64 << 20, "{}", serving.written());
        // Its threads end with it.
        let shared = Arc::downgrade(&serving.shared);
        drop(serving);
        while shared.upgrade().is_some() {
            std::thread::yield_now();
        }
    }

    /// A name may be as long as a message, and is nobody's file; what is written down of them stays as long as the session does.
    #[test]
    fn h18_names_that_were_asked_about_take_little_memory_however_long_they_are() {
        let dir = tempfile::tempdir().expect("a place");
        let rights = Rights::of_user(dir.path().to_owned());
        let mut connection = connection();
        let wake: Wake = Arc::new(|| ());
        let places = (Places::new(Bounds::of_system()), String::new());
        let witness = Witness::default();
        let serving = Serving::start(&mut connection, (rights, witness), places, &wake, |_, _| ());
        let mut serving = serving.expect("it starts");
        let mut note = |len: usize, count: usize| {
            for n in 0..count {
                let name = format!("{n:0len$}");
                serving.note_name(&name.as_str().into());
            }
            let (names, left_out) = serving.names();
            let bytes = names.iter().map(|name| name.as_bytes().len());
            (names.len(), bytes.sum::<usize>(), left_out)
        };
        let (count, bytes, left_out) = note(60_000, 100);
        assert!(
            bytes <= NAMES_BYTES && count + left_out == 100,
            "{count} of {bytes} bytes"
        );
        // Those of others find room beside them, and more of them are counted.
        let (count, bytes, left_out) = note(10, 5_000);
        assert!(
            bytes <= NAMES_BYTES && count == NAMES_MAX && left_out > 4_000,
            "{count}"
        );
        assert_eq!(count + left_out, 5_100);
    }

    /// A question whose answer takes longer than a client is waited for.
    #[test]
    fn h17_who_is_at_work_and_has_nothing_to_tell_yet_does_not_stand_still() {
        let dir = tempfile::tempdir().expect("a place");
        let rights = Rights::of_user(dir.path().to_owned());
        let mut connection = connection();
        let wake: Wake = Arc::new(|| ());
        let places = (Places::new(Bounds::of_system()), String::new());
        let witness = Witness::default();
        let serving = Serving::start(&mut connection, (rights, witness), places, &wake, |_, _| ());
        let mut serving = serving.expect("it starts");
        assert!(!serving.has_moved());
        for _ in 0..2 {
            assert!(!serving.shared.at_work());
            assert!(serving.has_moved() && !serving.has_moved());
        }
        serving.shared.stop();
        assert!(serving.shared.at_work());
    }
}
