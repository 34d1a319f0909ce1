//! Looks at watched directories, and submits jobs for the files that are complete.
//!
//! What the kernel tells only says when to look: what is true is what a scan finds, so nothing is forgotten that came while
//! nobody looked, or that the kernel did not tell of. That files are part of a job is written with the job, so nothing is
//! copied twice.

mod scan;

use crate::job::{Grammar, State, of_watch};
use crate::order::{Answer, Message, Order};
use crate::state::{Known, Reader, StateError, Watched};
use crate::time::now_ms;
use crate::watch::{Look, Pending};
use jiff::tz::TimeZone;
use notify::event::{EventKind, ModifyKind, RenameMode};
use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// A look at everything, whatever the kernel tells: other machines write without its knowing.
const PERIOD: Duration = Duration::from_mins(1);
/// While a job is not over, or something has changed a moment ago.
const BREATH: Duration = Duration::from_secs(1);
/// A directory that is not there comes back.
const AWAY: Duration = Duration::from_secs(5);
/// Something was renamed into place.
const SHORT: Duration = Duration::from_millis(100);
/// A scan takes at most that part of the time.
const SHARE: u32 = 10;
/// What is gone is looked for so often.
const TIDY: Duration = Duration::from_mins(10);
/// Files of a job. More are for the next one.
const MOST: usize = 10_000;
/// The exit code of a job that has copied what can be copied.
const PARTIAL: u8 = 6;
/// Between a job that failed and the next one: this, twice this, ...
const DISTANCE_MS: u64 = 10_000;
const LONGEST_MS: u64 = 3_600_000;

/// What wakes the one who looks.
pub(crate) enum Wake {
    /// The kernel tells something.
    Told(notify::Result<notify::Event>),
    /// Directories were added, removed, paused or resumed.
    Changed,
    Stop,
}

pub(crate) struct Watcher {
    pub(crate) database: PathBuf,
    /// Where the lists of files are.
    pub(crate) lists: PathBuf,
    pub(crate) grammar: Arc<dyn Grammar>,
    pub(crate) manager: SyncSender<Message>,
    pub(crate) wakes: Receiver<Wake>,
    /// For the kernel's.
    pub(crate) sender: Sender<Wake>,
    pub(crate) settled: Settled,
}

/// The directories of which [all is done](crate::watch::WatchView::settled), for whoever asks.
pub(crate) type Settled = Arc<Mutex<BTreeSet<i64>>>;

/// Which directory has a name: device and inode.
type Inode = (u64, u64);

/// One directory.
struct Place {
    path: PathBuf,
    pending: Pending,
    /// When to look again.
    next: Instant,
    /// Not before, as looking takes its time.
    rest: Instant,
    tidied: Option<Instant>,
    /// Of which directory the kernel tells.
    told: Option<Inode>,
}

struct Working {
    own: Watcher,
    kernel: Option<RecommendedWatcher>,
    places: BTreeMap<i64, Place>,
    begin: Instant,
}

fn inode(path: &Path) -> Option<Inode> {
    let found = std::fs::metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

impl Watcher {
    /// Until it is stopped.
    pub(crate) fn run(self) {
        let sender = self.sender.clone();
        let tell = move |told| {
            // Without anybody who looks it does not matter.
            let _ = sender.send(Wake::Told(told));
        };
        let config = notify::Config::default().with_follow_symlinks(false);
        let mut working = Working {
            // Without it there is a look every minute.
            kernel: RecommendedWatcher::new(tell, config).ok(),
            own: self,
            places: BTreeMap::new(),
            begin: Instant::now(),
        };
        working.work();
    }
}

impl Working {
    fn work(&mut self) {
        let mut reader = None;
        loop {
            if self.rounds(&mut reader).is_err() {
                // It is opened anew the next time.
                reader = None;
            }
            self.tell_settled(reader.is_some());
            let next = self
                .places
                .values()
                .map(|place| place.next.max(place.rest))
                .min();
            let patience = next.map_or(Duration::from_hours(1), |next| {
                next.saturating_duration_since(Instant::now())
            });
            let patience = if reader.is_none() { BREATH } else { patience };
            match self.own.wakes.recv_timeout(patience) {
                Ok(Wake::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(wake) => {
                    self.hear(wake);
                    while let Ok(wake) = self.own.wakes.try_recv() {
                        if matches!(wake, Wake::Stop) {
                            return;
                        }
                        self.hear(wake);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Those that have nothing to be looked at for: whatever waits is looked at sooner than what only may come.
    fn tell_settled(&self, can_read: bool) {
        let soon = Instant::now() + PERIOD / 2;
        let settled = self
            .places
            .iter()
            .filter(|(_, place)| can_read && place.next > soon);
        let settled = settled.map(|(id, _)| *id).collect();
        *self
            .own
            .settled
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = settled;
    }

    fn hear(&mut self, wake: Wake) {
        let Wake::Told(told) = wake else {
            return;
        };
        let now = Instant::now();
        let Ok(event) = told else {
            // Whatever it was: a look at everything.
            for place in self.places.values_mut() {
                place.next = now;
            }
            return;
        };
        if matches!(event.kind, EventKind::Access(kind) if !is_closed(kind)) {
            return;
        }
        let into = match event.kind {
            EventKind::Modify(ModifyKind::Name(RenameMode::To)) => event.paths.first(),
            EventKind::Modify(ModifyKind::Name(RenameMode::Both)) => event.paths.get(1),
            _ => None,
        };
        for place in self.places.values_mut() {
            let ours =
                event.need_rescan() || event.paths.iter().any(|path| path.starts_with(&place.path));
            if !ours {
                continue;
            }
            let wait = match into.and_then(|path| path.strip_prefix(&place.path).ok()) {
                Some(path) => {
                    place.pending.moved_in(path.to_owned());
                    SHORT
                }
                None => BREATH,
            };
            place.next = place.next.min(now + wait);
        }
    }

    fn rounds(&mut self, reader: &mut Option<Reader>) -> Result<(), StateError> {
        let reader = if let Some(reader) = reader {
            reader
        } else {
            let reader = reader.insert(Reader::open(&self.own.database)?);
            self.tidy_lists(reader)?;
            reader
        };
        let watches = reader.watches()?;
        self.follow(&watches);
        for watch in watches.iter().filter(|watch| !watch.view.paused) {
            let now = Instant::now();
            let Some(mut place) = self.places.remove(&watch.view.id) else {
                continue;
            };
            let done = if place.next.max(place.rest) <= now {
                let done = self.round(reader, watch, &mut place);
                place.rest = Instant::now() + now.elapsed() * (SHARE - 1);
                done
            } else {
                Ok(())
            };
            self.places.insert(watch.view.id, place);
            done?;
        }
        Ok(())
    }

    /// Knows those that are there, and no others.
    fn follow(&mut self, watches: &[Watched]) {
        let active = |id: &i64| watches.iter().any(|w| w.view.id == *id && !w.view.paused);
        let gone: Vec<_> = self
            .places
            .keys()
            .filter(|id| !active(id))
            .copied()
            .collect();
        for id in gone {
            if let (Some(place), Some(kernel)) = (self.places.remove(&id), &mut self.kernel)
                && !self.places.values().any(|other| other.path == place.path)
            {
                let _ = kernel.unwatch(&place.path);
            }
        }
        for watch in watches.iter().filter(|watch| !watch.view.paused) {
            let place = self.places.entry(watch.view.id).or_insert_with(|| Place {
                path: watch.view.spec.path.clone(),
                pending: Pending::default(),
                next: Instant::now(),
                rest: Instant::now(),
                tidied: None,
                told: None,
            });
            let there = inode(&place.path);
            if there.is_none() {
                place.next = place.next.min(Instant::now() + AWAY);
            }
            if place.told != there
                && let Some(kernel) = &mut self.kernel
            {
                // Another one has the name now: it was renamed and made anew, or a disk was mounted there.
                if place.told.is_some() {
                    let _ = kernel.unwatch(&place.path);
                }
                // Too many directories for it, or none is there: then there is a look every minute.
                let watched =
                    |_: &Inode| kernel.watch(&place.path, RecursiveMode::Recursive).is_ok();
                place.told = there.filter(watched);
                if place.told.is_some() {
                    // What came before that was not told of.
                    place.next = Instant::now();
                }
            }
        }
    }

    fn round(&self, reader: &Reader, watch: &Watched, place: &mut Place) -> Result<(), StateError> {
        let now = Instant::now();
        place.next = now + PERIOD;
        // One job at a time, and some time after one that failed. Files that it had have to wait, and no others where it
        // was about them: one that can never be copied must not hold up what comes.
        let mut only_new = false;
        if let Some((state, ended, code)) = watch
            .view
            .last_job
            .map_or(Ok(None), |job| reader.end_of(job))?
        {
            if !state.is_final() {
                place.next = now + BREATH;
                return Ok(());
            }
            let since = now_ms().checked_sub(ended);
            let distance = DISTANCE_MS
                .saturating_mul(1 << watch.failures.min(20))
                .min(LONGEST_MS);
            let left = since.map_or(0, |since| distance.saturating_sub(since));
            if state == State::Failed && left > 0 {
                place.next = now + Duration::from_millis(left).min(PERIOD);
                if code != Some(PARTIAL) {
                    return Ok(());
                }
                only_new = true;
            }
        }
        let scan::Found { files, wrong } = scan::scan(&place.path);
        self.note(watch, wrong.as_deref());
        let mut new = Vec::new();
        for (path, look) in &files {
            let known = reader.file(watch.view.id, path, *look)?;
            if known == Known::New || known == Known::Failed && !only_new {
                new.push((path.clone(), *look));
            }
        }
        let quiet = u64::from(watch.view.spec.quiet_seconds) * 1_000;
        let clock = |at: Instant| {
            u64::try_from(at.duration_since(self.begin).as_millis()).unwrap_or(u64::MAX)
        };
        // From nought on everything has been quiet.
        let at = clock(now) + quiet;
        let (mut complete, next) = place.pending.complete(new, at, quiet);
        if let Some(next) = next {
            place.next = place
                .next
                .min(now + Duration::from_millis(next.saturating_sub(at)));
        }
        for (path, look) in complete.split_off(complete.len().min(MOST)) {
            place.pending.again(path, look);
            place.next = now + BREATH;
        }
        if !complete.is_empty() {
            self.submit(watch, &complete);
            place.next = place.next.min(now + BREATH);
        }
        if wrong.is_none() && place.tidied.is_none_or(|when| when.elapsed() > TIDY) {
            place.tidied = Some(now);
            self.tidy(reader, watch, &files)?;
            self.tidy_lists(reader)?;
        }
        Ok(())
    }

    fn order(&self, order: Order) -> Option<Answer> {
        let (reply, answer) = oneshot::channel();
        self.own.manager.send(Message::Asked(order, reply)).ok()?;
        answer.blocking_recv().ok()?.ok()
    }

    fn note(&self, watch: &Watched, wrong: Option<&str>) {
        if watch.view.note.as_deref() != wrong {
            // What cannot be written now is written the next time.
            self.order(Order::WatchNote {
                id: watch.view.id,
                note: wrong.map(str::to_owned),
            });
        }
    }

    /// A job for these files. What is not answered well is found again by the next look.
    fn submit(&self, watch: &Watched, files: &[(PathBuf, Look)]) {
        let id = watch.view.id;
        let name = format!("{id}-{}", now_ms());
        let list = self.own.lists.join(&name);
        let job = write_list(&self.own.lists, &list, files)
            .map_err(|error| format!("cannot write {}: {error}", list.display()))
            .and_then(|()| watch.view.spec.job(&list))
            // It made sense when it was added.
            .and_then(|job| self.own.grammar.check(&job).map(|_| job))
            .and_then(|mut job| {
                let times = &watch.view.spec.times;
                times.give(&mut job, now_ms(), TimeZone::system())?;
                Ok(job)
            });
        let answer = match job {
            Ok(mut job) => {
                job.submission = Some(of_watch(&name));
                self.order(Order::WatchFound {
                    id,
                    job: Box::new(job),
                    hosts: watch.hosts.clone(),
                    files: files.to_vec(),
                })
            }
            Err(why) => {
                self.note(watch, Some(&why));
                None
            }
        };
        if !matches!(answer, Some(Answer::Submitted { new: true, .. })) {
            let _ = std::fs::remove_file(list);
        }
    }

    /// Notes what is gone, so that it can be forgotten some day, and what is there again.
    fn tidy(
        &self,
        reader: &Reader,
        watch: &Watched,
        files: &[(PathBuf, Look)],
    ) -> Result<(), StateError> {
        let there: BTreeSet<&Path> = files.iter().map(|(path, _)| path.as_path()).collect();
        let (mut gone, mut back) = (Vec::new(), Vec::new());
        for (path, was_gone) in reader.files(watch.view.id)? {
            match (was_gone, there.contains(path.as_path())) {
                (false, false) => gone.push(path),
                (true, true) => back.push(path),
                _ => {}
            }
        }
        if !gone.is_empty() || !back.is_empty() {
            self.order(Order::WatchGone {
                id: watch.view.id,
                gone,
                back,
            });
        }
        Ok(())
    }

    /// Removes lists of jobs that are over or were never written down.
    fn tidy_lists(&self, reader: &Reader) -> Result<(), StateError> {
        for entry in std::fs::read_dir(&self.own.lists)
            .into_iter()
            .flatten()
            .flatten()
        {
            let name = entry.file_name();
            let state = reader.state_of_submission(&of_watch(&name.to_string_lossy()))?;
            if state.is_none_or(State::is_final) {
                let _ = std::fs::remove_file(entry.path());
            }
        }
        Ok(())
    }
}

fn is_closed(kind: notify::event::AccessKind) -> bool {
    use notify::event::{AccessKind, AccessMode};
    matches!(kind, AccessKind::Close(AccessMode::Write))
}

/// On the disk before the job is.
fn write_list(dir: &Path, list: &Path, files: &[(PathBuf, Look)]) -> io::Result<()> {
    std::fs::DirBuilder::new()
        .mode(0o700)
        .recursive(true)
        .create(dir)?;
    let mut text = Vec::new();
    for (path, _) in files {
        text.extend_from_slice(path.as_os_str().as_bytes());
        text.push(0);
    }
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(list)?;
    file.write_all(&text)?;
    file.sync_all()
}
