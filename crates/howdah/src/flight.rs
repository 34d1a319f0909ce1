//! The flight recorder of a copy, and where recordings are kept.
//!
//! What is recorded names no files, contents, hosts or addresses (`howdah_recording`).

use crate::{Error, ErrorKind, RatePolicy, Summary, whole};
use howdah_core::{Rate, Span};
use howdah_recording::{Facts, Held, Recorder, Recording, Sample, Sharing, Totals};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Recordings that are kept by themselves.
const MOST_KEPT: usize = 16;
/// How their names end.
const SUFFIX: &str = "howdah-flight";

/// Keeps what the path of one copy does, in bounded memory. Clones are the same recorder.
#[derive(Clone, Debug)]
pub struct FlightRecorder(Arc<Mutex<Inner>>);

#[derive(Debug)]
struct Inner {
    started: Instant,
    recorder: Recorder,
    facts: Facts,
    /// What connections before this one moved.
    before_bytes: u64,
    now_bytes: u64,
    connections: u32,
}

/// What a connection knows at a moment.
pub(crate) struct Look {
    pub(crate) totals: Totals,
    /// For how long nothing has been heard of what is delivered.
    pub(crate) unheard: Span,
    pub(crate) pacing: Rate,
    pub(crate) capacity: Option<Rate>,
    pub(crate) base_rtt: Span,
    pub(crate) rtt: Span,
    pub(crate) queue: Span,
}

impl Inner {
    fn at(&self) -> Span {
        let nanos = self.started.elapsed().as_nanos();
        Span::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

impl FlightRecorder {
    /// One for a copy that begins now and shares the path that way.
    pub fn new(policy: RatePolicy) -> Self {
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        let facts = Facts {
            recorder: concat!("howdah ", env!("CARGO_PKG_VERSION")).to_owned(),
            sharing: match policy {
                RatePolicy::Fair => Sharing::Fair,
                RatePolicy::Fixed(_) => Sharing::Fixed,
                RatePolicy::Background => Sharing::Background,
            },
            cores: u32::try_from(cores).unwrap_or(u32::MAX),
            ..Facts::default()
        };
        Self(Arc::new(Mutex::new(Inner {
            started: Instant::now(),
            recorder: Recorder::default(),
            facts,
            before_bytes: 0,
            now_bytes: 0,
            connections: 0,
        })))
    }

    fn with<T>(&self, work: impl FnOnce(&mut Inner) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A connection is made, for the first time or again: it counts from 0.
    pub(crate) fn connects(&self, tunnelled: bool) {
        self.with(|inner| {
            let at = inner.at();
            if inner.connections == 0 {
                inner.recorder.pass(at, Held::Talk);
            } else {
                inner.recorder.next_connection(at);
            }
            inner.connections += 1;
            inner.facts.tunnelled = tunnelled;
            inner.before_bytes += std::mem::take(&mut inner.now_bytes);
        });
    }

    /// Takes in what the connection knows, what holds it back, and the bytes of files that it has moved. How long to wait for the next look.
    pub(crate) fn look(&self, look: impl FnOnce(&mut Facts) -> (Look, Held, u64)) -> Span {
        self.with(|inner| {
            let at = inner.at();
            let (look, held, bytes) = look(&mut inner.facts);
            inner.now_bytes = bytes;
            inner.recorder.push(&Sample {
                at,
                told_at: at.saturating_sub(look.unheard),
                totals: look.totals,
                pacing: look.pacing,
                capacity: look.capacity,
                base_rtt: look.base_rtt,
                rtt: look.rtt,
                queue: look.queue,
                held,
            });
            inner.recorder.look_every()
        })
    }

    /// All until now. `end`: how the copy ended, if it did and well.
    pub fn recording(&self, end: Option<&Summary>) -> Recording {
        self.with(|inner| {
            let mut facts = inner.facts.clone();
            facts.moved_bytes = inner.before_bytes + inner.now_bytes;
            facts.reconnects = inner.connections.saturating_sub(1);
            if let Some(summary) = end {
                facts.completed = true;
                facts.moved_bytes = summary.bytes.saturating_sub(summary.resumed_bytes);
                facts.reconnects = summary.reconnects;
            }
            Recording {
                facts,
                intervals: inner.recorder.intervals(),
            }
        })
    }
}

/// Writes a recording whole or not at all. `mode` is without the umask.
fn write_to(path: &Path, recording: &Recording, mode: u32) -> io::Result<()> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    let dir = File::open(dir.unwrap_or_else(|| Path::new(".")))?;
    whole::write(&dir, path, mode, |out| out.write_all(&recording.encode()))
}

impl FlightRecorder {
    /// Writes the [recording](Self::recording) to `path`, whole or not at all.
    pub fn write(&self, path: &Path, end: Option<&Summary>) -> Result<(), Error> {
        write_to(path, &self.recording(end), 0o666).map_err(|e| {
            let kind = match e.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorKind::NoSpace,
                io::ErrorKind::PermissionDenied => ErrorKind::Refused,
                io::ErrorKind::NotFound => ErrorKind::NotFound,
                _ => ErrorKind::Io,
            };
            Error::new(
                kind,
                format!("cannot write the recording {}: {e}", path.display()),
            )
        })
    }
}

/// Where recordings of copies are kept that were held up for long.
#[derive(Clone, Debug)]
pub struct Kept {
    dir: PathBuf,
}

/// `$HOWDAH_CONFIG_DIR/recordings`, else `$XDG_STATE_HOME/howdah/recordings`, else `$HOME/.local/state/howdah/recordings`.
pub fn default_recordings() -> Option<Kept> {
    crate::paths::state_dir().map(|dir| Kept::new(dir.join("recordings")))
}

impl Kept {
    /// Keeps in that directory, which is made when there is something to keep.
    pub fn new(dir: PathBuf) -> Self {
        Self { dir }
    }

    /// Where they are.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Keeps one, readable by its owner only; the oldest go when there are too many. Where it is.
    pub fn keep(&self, recording: &Recording) -> io::Result<PathBuf> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.dir)?;
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let millis = since.map_or(0, |since| since.as_millis());
        let path = self
            .dir
            .join(format!("{millis:015}-{}.{SUFFIX}", std::process::id()));
        write_to(&path, recording, 0o600)?;
        self.prune(&path);
        Ok(path)
    }

    /// Away with the oldest above the bound: their names begin with when they were made.
    fn prune(&self, newest: &Path) {
        let entries = fs::read_dir(&self.dir).into_iter().flatten().flatten();
        let mut kept: Vec<PathBuf> = entries
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|have| have == SUFFIX) && path != newest)
            .collect();
        kept.sort();
        let surplus = (kept.len() + 1).saturating_sub(MOST_KEPT);
        for path in kept.iter().take(surplus) {
            let _ = fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt as _;

    #[test]
    fn the_newest_are_kept_and_nobody_else_reads_them() {
        let home = tempfile::tempdir().unwrap();
        let kept = Kept::new(home.path().join("state/recordings"));
        let recording = FlightRecorder::new(RatePolicy::Fair).recording(None);
        fs::create_dir_all(&kept.dir).unwrap();
        for old in 0..20 {
            let name = format!("{old:015}-7.{SUFFIX}");
            fs::write(kept.dir.join(name), "").unwrap();
        }
        fs::write(kept.dir.join("somebody's"), "").unwrap();
        let path = kept.keep(&recording).unwrap();
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
        assert_eq!(Recording::decode(&fs::read(&path).unwrap()), Ok(recording));
        let names = fs::read_dir(&kept.dir).unwrap().count();
        assert_eq!(names, MOST_KEPT + 1);
        assert!(!kept.dir.join(format!("{:015}-7.{SUFFIX}", 4)).exists());
        assert!(kept.dir.join(format!("{:015}-7.{SUFFIX}", 19)).exists());
    }

    #[test]
    fn a_recording_is_written_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let flight = FlightRecorder::new(RatePolicy::Background);
        let path = dir.path().join("a.flight");
        flight.write(&path, None).unwrap();
        flight.write(&path, None).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        // As long as names can be: what it is called until then must fit, too.
        flight
            .write(&dir.path().join("x".repeat(255)), None)
            .unwrap();
        fs::remove_file(dir.path().join("x".repeat(255))).unwrap();
        let missing = flight
            .write(&dir.path().join("no/a.flight"), None)
            .unwrap_err();
        assert!(missing.to_string().contains("no/a.flight"), "{missing}");
        assert!(flight.write(dir.path(), None).is_err(), "a directory");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
