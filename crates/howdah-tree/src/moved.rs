//! A move: what is at the destination for good goes at the source, if it is still what was read.

use super::queue::{Queue, lock};
use super::report::{Book, Trouble, add};
use super::sent::{Leaver, Sent, SentFiles};
use super::source_dir::SourceDir;
use howdah_session::unconfirmed::LINK_NUMBERS;
use howdah_store::identity::Identity;
use howdah_store::{StoreError, Wake, unwritable};
use rustix::fs::{AtFlags, Stat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// What a walker notes of a move: links, which have numbers of their own. Of files, whoever sends them does.
#[derive(Default)]
pub(crate) struct MovedLinks<'a> {
    sent: Option<&'a Mutex<SentFiles>>,
    told: u64,
    /// In a dry run: where is noted what could not go.
    dry: Option<&'a Book>,
    /// What is told now was named.
    pub(crate) at_tops: bool,
}

impl<'a> MovedLinks<'a> {
    pub(crate) fn new(sent: Option<&'a Mutex<SentFiles>>) -> Self {
        Self {
            sent,
            ..Self::default()
        }
    }

    /// The same of a dry run, of links that the destination takes whatever it has.
    pub(crate) fn dry(book: &'a Book) -> Self {
        Self {
            dry: Some(book),
            ..Self::default()
        }
    }

    /// What a file is, if it is to go.
    pub(crate) fn version(&self, stat: &Stat) -> Option<Box<Identity>> {
        self.sent.map(|_| Box::new(Identity::new(stat)))
    }

    /// A link is told, which goes when it is in place.
    pub(crate) fn note(&mut self, dir: &Arc<SourceDir>, name: &[u8], stat: &Stat) {
        if let Some(book) = self.dry {
            would_remove(dir, OsStr::from_bytes(name), book);
        }
        let Some(sent) = self.sent else { return };
        let number = LINK_NUMBERS + self.told;
        self.told += 1;
        let leaver = Leaver {
            dir: Arc::clone(dir),
            name: OsStr::from_bytes(name).to_owned(),
            version: Identity::new(stat),
            is_top: self.at_tops,
        };
        let link = Sent {
            path: None,
            bytes: 0,
            hash: None,
            leaver: Some(leaver),
        };
        lock(sent).put(number, link);
    }
}

/// Those that may go, behind a queue: a disk is waited for.
pub(crate) struct Leaving {
    queue: Queue<Leaver>,
    tops: Mutex<Vec<Leaver>>,
    left: AtomicU64,
}

impl Leaving {
    pub(crate) fn new() -> Self {
        Self {
            // Who says that they may go does not wait. Bounded by what is sent and not in place.
            queue: Queue::new(usize::MAX),
            tops: Mutex::default(),
            left: AtomicU64::new(0),
        }
    }

    pub(crate) fn put(&self, leavers: Vec<Leaver>) {
        for leaver in leavers {
            if leaver.is_top {
                lock(&self.tops).push(leaver);
                continue;
            }
            self.left.fetch_add(1, Ordering::AcqRel);
            if self.queue.push(leaver).is_err() {
                self.left.fetch_sub(1, Ordering::AcqRel);
            }
        }
    }

    /// Everything is in place: those that were named may go, too.
    pub(crate) fn release_tops(&self) {
        let mut tops = std::mem::take(&mut *lock(&self.tops));
        for leaver in &mut tops {
            leaver.is_top = false;
        }
        self.put(tops);
    }

    /// Whether all that may go is gone.
    pub(crate) fn is_empty(&self) -> bool {
        self.left.load(Ordering::Acquire) == 0
    }

    pub(crate) fn stop(&self) {
        self.queue.stop();
    }

    /// A thread's work.
    pub(crate) fn work(&self, growing: bool, book: &Book, wake: &Wake) {
        while let Some(leaver) = self.queue.pop() {
            remove(&leaver, growing, book);
            if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
                wake();
            }
        }
    }
}

/// In a dry run: notes what could not be removed, as far as that is known without trying.
pub(crate) fn would_remove(dir: &SourceDir, name: &OsStr, book: &Book) {
    // Whoever reads what is in it says why it cannot be opened.
    let Ok(open) = dir.open() else { return };
    if let Err(e) = unwritable::lets_go(&open, name, false) {
        let why = unwritable::will_protect(&open, name).unwrap_or_else(|| e.to_string().into());
        let what =
            format!("would be at the destination, and could not be removed from the source: {why}");
        book.trouble(Trouble::Failed, &dir.shown(name), what);
    }
}

fn remove(leaver: &Leaver, growing: bool, book: &Book) {
    let shown = leaver.dir.shown(&leaver.name);
    let failed = |e| StoreError::from_io(&shown, "remove", e);
    let dir = match leaver.dir.open() {
        Ok(dir) => dir,
        Err(StoreError::NotFound { .. }) => return,
        Err(error) => return book.note(Trouble::Failed, || error.to_string()),
    };
    let now = match rustix::fs::statat(&dir, &leaver.name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Identity::new(&stat),
        Err(Errno::NOENT) => return,
        Err(e) => return book.note(Trouble::Failed, || failed(e).to_string()),
    };
    if !leaver.version.is_still(&now) {
        if growing && leaver.version.may_have_grown_to(&now) {
            return book.trouble(
                Trouble::Grown,
                &shown,
                "grew after it was read, and is kept",
            );
        }
        let what = "was changed after it was read, and is kept";
        return book.trouble(Trouble::Changed, &shown, what);
    }
    match rustix::fs::unlinkat(&dir, &leaver.name, AtFlags::empty()) {
        Ok(()) => add(&book.removed, 1),
        Err(Errno::NOENT) => {}
        Err(e) => {
            let why = unwritable::protection(&dir, &leaver.name).filter(|_| e == Errno::PERM);
            let why = why.unwrap_or_else(|| e.to_string().into());
            let what =
                format!("is at the destination, and could not be removed from the source: {why}");
            book.trouble(Trouble::Failed, &shown, what);
        }
    }
}
