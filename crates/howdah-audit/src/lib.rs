//! An audit log: a line of JSON for each thing that was done for somebody, in a file that only grows.
//!
//! Lines are written by a thread, so that no disk holds up the network. What cannot be written is tried again each second, and
//! what does not fit into memory meanwhile is counted, and the count is written. Nothing is ever removed: a file that is long is renamed.

mod output;

use output::Output;
use serde::Serialize;
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Lines that wait for the disk at most, and their bytes: how long one is, somebody else says, by the names in it.
const WAITING_MAX: usize = 8_192;
const WAITING_BYTES: usize = 64 << 20;
/// A disk that took nothing is tried again after that.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// How much a line of a log matters to whoever runs the program.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Level {
    /// What happens.
    Info,
    /// What somebody may have to look at: refusals, failures of what others asked for.
    Warning,
    /// What does not work here.
    Error,
}

/// A file that an audit log is written to, opened and not begun.
#[derive(Debug)]
pub struct AuditFile {
    output: Output,
    is_required: bool,
}

impl AuditFile {
    /// Opens it, or makes it for its owner only (mode 0600). Once it has that many bytes it is renamed (`FILE.20261126T093000Z`), and a new
    /// one is begun.
    ///
    /// Fails if it cannot be written, or is no regular file; the error names it.
    pub fn open(path: &Path, rotate_bytes: u64) -> io::Result<Self> {
        let output = Output::open(path, rotate_bytes).map_err(|e| {
            let text = format!("cannot open the audit log {}: {e}", path.display());
            io::Error::new(e.kind(), text)
        })?;
        Ok(Self {
            output,
            is_required: false,
        })
    }

    /// While it cannot be written, nothing is done for anybody.
    #[must_use]
    pub fn required(mut self) -> Self {
        self.is_required = true;
        self
    }

    /// The directory in which it is renamed.
    pub fn directory(&self) -> PathBuf {
        self.output.directory()
    }

    /// Begins to write; `log` hears when that fails, and when it goes on. Fails if there is no thread for it.
    pub fn begin(self, log: impl Fn(Level, &str) + Send + 'static) -> io::Result<AuditLog> {
        let shared = Arc::new(Shared::default());
        let (theirs, mut output) = (Arc::clone(&shared), self.output);
        let thread = std::thread::Builder::new().name("howdah-audit".to_owned());
        let writer = thread.spawn(move || theirs.write_all(&mut output, &log))?;
        Ok(AuditLog {
            shared,
            is_required: self.is_required,
            writer: Mutex::new(Some(writer)),
        })
    }
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Vec<u8>>,
    /// Bytes of lines that are not on the disk.
    bytes: usize,
    /// Lines that were ever put there, and how many of them are on the disk.
    said: u64,
    settled: u64,
    /// Lines that did not fit.
    lost: u64,
    /// The disk took nothing the last time.
    failed: bool,
    closed: bool,
    /// Nothing is written any more.
    ended: bool,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    news: Condvar,
    /// More is on the disk, or nothing will be.
    progress: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Until it is closed: what could be written then is.
    fn write_all(&self, output: &mut Output, log: &dyn Fn(Level, &str)) {
        loop {
            let mut state = self.lock();
            while state.waiting.is_empty() && state.lost == 0 && !state.closed {
                state = self
                    .news
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
            }
            let (lines, lost, closed) =
                (std::mem::take(&mut state.waiting), state.lost, state.closed);
            state.lost = 0;
            drop(state);
            let written = self.write_these(output, lines, lost, log);
            if closed && (!written || self.lock().waiting.is_empty()) {
                self.lock().ended = true;
                self.progress.notify_all();
                return;
            }
        }
    }

    /// Whether all of it is written. What is not waits again.
    fn write_these(
        &self,
        output: &mut Output,
        mut lines: VecDeque<Vec<u8>>,
        lost: u64,
        log: &dyn Fn(Level, &str),
    ) -> bool {
        let (mut lost_now, mut written) = (lost, 0);
        let result = loop {
            let Some(line) = lines.front() else {
                // They came after those that fitted.
                let told = match lost_now {
                    0 => Ok(()),
                    count => output.append(&line_of(&Lost {
                        schema: 1,
                        time_utc: now_utc(),
                        event: "lost",
                        count,
                    })),
                };
                lost_now = if told.is_ok() { 0 } else { lost_now };
                break told.and_then(|()| output.sync());
            };
            if let Err(e) = output.append(line) {
                break Err(e);
            }
            written += line.len();
            lines.pop_front();
        };
        let mut state = self.lock();
        state.lost += lost_now;
        state.bytes = state.bytes.saturating_sub(written);
        let later = std::mem::replace(&mut state.waiting, lines);
        state.waiting.extend(later);
        let failed_before = std::mem::replace(&mut state.failed, result.is_err());
        if result.is_ok() {
            state.settled = state.said - state.waiting.len() as u64;
            self.progress.notify_all();
        }
        // Whoever reads the log may be slow.
        drop(state);
        let path = output.path().display();
        let Err(error) = result else {
            if failed_before {
                let text = format!("the audit log {path} is written again");
                log(Level::Info, &text);
            }
            return true;
        };
        if !failed_before {
            let text = format!(
                "the audit log {path} cannot be written: {error}; it is tried again each second"
            );
            log(Level::Error, &text);
        }
        let _wait = self
            .news
            .wait_timeout_while(self.lock(), AGAIN_AFTER, |state| !state.closed);
        false
    }
}

/// What did not fit.
#[derive(Serialize)]
struct Lost {
    schema: u32,
    time_utc: String,
    event: &'static str,
    count: u64,
}

/// It is required, and cannot be written just now.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Unwritable;

impl fmt::Display for Unwritable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this server cannot write its audit log, and does nothing without it; whoever runs it has to see to that")
    }
}

impl std::error::Error for Unwritable {}

/// An audit log that is being written. Whoever drops it waits for what the disk takes.
#[derive(Debug)]
pub struct AuditLog {
    shared: Arc<Shared>,
    is_required: bool,
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl AuditLog {
    /// Adds a line, soon; never waits for the disk.
    pub fn write(&self, event: &impl Serialize) {
        let line = line_of(event);
        let mut state = self.shared.lock();
        let fits = state.bytes == 0 || state.bytes + line.len() <= WAITING_BYTES;
        if fits && state.waiting.len() < WAITING_MAX {
            state.bytes += line.len();
            state.waiting.push_back(line);
            state.said += 1;
        } else {
            state.lost += 1;
        }
        drop(state);
        self.shared.news.notify_one();
    }

    /// Waits until all that was added so far is on the disk (what did not fit: is counted there), as long as that takes. `false`: it was
    /// closed before.
    pub fn settle(&self) -> bool {
        let state = self.shared.lock();
        let said = state.said;
        let waits = |state: &mut State| {
            let is_written = state.settled >= said && state.lost == 0;
            !is_written && !state.ended
        };
        let waited = self.shared.progress.wait_while(state, waits);
        waited.unwrap_or_else(PoisonError::into_inner).settled >= said
    }

    /// Ends it for all who have it, and waits for what the disk takes: for programs that end while others may still hold it. What is added
    /// later is not written.
    pub fn close(&self) {
        self.shared.lock().closed = true;
        self.shared.news.notify_one();
        // Who comes second waits here.
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(writer) = writer.take() {
            let _ = writer.join();
        }
    }

    /// Whether something may be done now, of which it is to tell.
    pub fn check(&self) -> Result<(), Unwritable> {
        let state = self.shared.lock();
        if self.is_required && (state.failed || state.lost > 0) {
            return Err(Unwritable);
        }
        Ok(())
    }
}

impl Drop for AuditLog {
    fn drop(&mut self) {
        self.close();
    }
}

fn line_of(event: &impl Serialize) -> Vec<u8> {
    // Text, numbers and lists: nothing that JSON does not have.
    let mut line = serde_json::to_vec(event).unwrap_or_default();
    line.push(b'\n');
    line
}

/// The time of day, UTC, as in all that this project writes: `2026-11-26T13:05:49.123Z`.
pub fn now_utc() -> String {
    let now = jiff::Timestamp::now();
    now.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    fn event(number: u64) -> serde_json::Value {
        serde_json::json!({ "event": "done", "number": number })
    }

    fn lines(text: &[u8]) -> Vec<serde_json::Value> {
        let lines = text.split(|&b| b == b'\n').filter(|line| !line.is_empty());
        lines
            .map(|line| serde_json::from_slice(line).expect("a line of JSON"))
            .collect()
    }

    #[test]
    fn what_was_said_is_there_when_it_ends_and_more_is_added_later() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("audit");
        for from in [0, 100] {
            let file = AuditFile::open(&path, 1 << 20).expect("it opens");
            let log = file.begin(|_, _: &str| ()).expect("a thread");
            for number in from..from + 100 {
                log.write(&event(number));
            }
        }
        let found = lines(&std::fs::read(&path).expect("it is there"));
        let wanted: Vec<_> = (0..200).map(event).collect();
        assert_eq!(found, wanted);
    }

    #[test]
    fn what_was_said_is_there_when_it_is_closed_though_others_still_have_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("audit");
        let file = AuditFile::open(&path, 1 << 20).expect("it opens");
        let log = Arc::new(file.begin(|_, _: &str| ()).expect("a thread"));
        let other = Arc::clone(&log);
        for number in 0..1_000 {
            other.write(&event(number));
        }
        log.close();
        let found = lines(&std::fs::read(&path).expect("it is there"));
        assert_eq!(found, (0..1_000).map(event).collect::<Vec<_>>());
        // Twice is no harm.
        other.close();
    }

    #[test]
    fn a_long_one_is_renamed_and_nothing_of_it_is_lost() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("audit");
        let file = AuditFile::open(&path, 100).expect("it opens");
        let log = file.begin(|_, _: &str| ()).expect("a thread");
        for number in 0..50 {
            log.write(&event(number));
        }
        drop(log);
        let names = std::fs::read_dir(dir.path()).expect("a directory");
        let mut numbers = Vec::new();
        for entry in names {
            let bytes = std::fs::read(entry.expect("an entry").path()).expect("a file");
            assert!(bytes.len() <= 100, "{}", bytes.len());
            numbers.extend(lines(&bytes).iter().map(|line| line["number"].as_u64()));
        }
        numbers.sort_unstable();
        assert_eq!(numbers, (0..50).map(Some).collect::<Vec<_>>());
    }

    /// Logs are rotated at midnight, and packed at once; the next client comes in the morning.
    #[test]
    fn a_line_goes_to_no_file_that_somebody_has_taken_away() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("audit");
        let file = AuditFile::open(&path, 1 << 20).expect("it opens");
        let log = file.begin(|_, _: &str| ()).expect("a thread");
        let mut found = Vec::new();
        for number in 0..4 {
            log.write(&event(number));
            assert!(log.settle());
            let packed = dir.path().join("packed");
            std::fs::rename(&path, &packed).expect("it is there");
            found.extend(lines(&std::fs::read(&packed).expect("a file")));
            std::fs::remove_file(&packed).expect("it is there");
        }
        assert_eq!(found, (0..4).map(event).collect::<Vec<_>>());
    }

    /// The disk was full when a long file had been renamed and the next one was to be made.
    #[test]
    fn a_log_whose_next_file_could_not_be_made_goes_on_when_it_can_be() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("audit");
        let mut output = Output::open(&path, 100).expect("it opens");
        let line = [&[b'x'; 79][..], b"\n"].concat();
        output.append(&line).expect("a line");
        std::fs::rename(&path, dir.path().join("renamed")).expect("it is there");
        for number in 1..4 {
            output.append(&line).expect("a line");
            let names = std::fs::read_dir(dir.path()).expect("a directory").count();
            assert_eq!(
                (names, std::fs::read(&path).expect("a file")),
                (1 + number, line.clone())
            );
        }
    }

    /// A disk that is full, as the kernel has one.
    #[test]
    fn what_cannot_be_written_stops_who_requires_it_and_is_told_once() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("audit");
        let (said, heard) = mpsc::channel();
        let log = move |_, line: &str| {
            let _ = said.send(line.to_owned());
        };
        let mut file = AuditFile::open(&path, 1 << 20)
            .expect("it opens")
            .required();
        file.output.put_on_full_disk();
        let audit = file.begin(log).expect("a thread");
        assert!(audit.check().is_ok(), "nothing is known yet");
        audit.write(&event(1));
        let line = heard.recv().expect("it is told");
        assert!(line.contains("cannot be written"), "{line}");
        let error = audit.check().expect_err("it is required");
        assert!(error.to_string().contains("audit log"), "{error}");
        for number in 0..WAITING_MAX as u64 + 10 {
            audit.write(&event(number));
        }
        let state = audit.shared.lock();
        assert!(
            state.waiting.len() <= WAITING_MAX + 1,
            "{}",
            state.waiting.len()
        );
        assert!(state.lost >= 9, "{}", state.lost);
        drop(state);
        drop(audit);
        assert!(heard.recv().is_err(), "it is told once");
    }

    /// A line has up to a thousand names, which somebody else has chosen, and a disk may stand still for long.
    #[test]
    fn h19_lines_that_wait_for_a_disk_are_bounded_in_bytes() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut file = AuditFile::open(&dir.path().join("audit"), 1 << 20).expect("it opens");
        file.output.put_on_full_disk();
        let audit = file.begin(|_, _: &str| ()).expect("a thread");
        let event = "x".repeat(1 << 20);
        for _ in 0..2 * (WAITING_BYTES >> 20) {
            audit.write(&event);
        }
        let state = audit.shared.lock();
        assert!(state.bytes <= WAITING_BYTES, "{}", state.bytes);
        let waiting: usize = state.waiting.iter().map(Vec::len).sum();
        assert!(waiting <= WAITING_BYTES, "{waiting}");
        assert!(state.lost > 60, "{}", state.lost);
    }

    #[test]
    fn half_a_line_of_a_process_that_was_killed_takes_no_other_line_with_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("audit");
        let begun = [line_of(&event(1)), br#"{"event":"do"#.to_vec()].concat();
        std::fs::write(&path, &begun).expect("a file");
        for number in [2, 3] {
            let file = AuditFile::open(&path, 1 << 20).expect("it opens");
            let log = file.begin(|_, _: &str| ()).expect("a thread");
            log.write(&event(number));
        }
        let text = std::fs::read_to_string(&path).expect("it is there");
        let (whole, torn): (Vec<_>, Vec<_>) = text
            .lines()
            .map(serde_json::from_str::<serde_json::Value>)
            .partition(Result::is_ok);
        let whole: Vec<_> = whole.into_iter().flatten().collect();
        assert_eq!(whole, [event(1), event(2), event(3)]);
        assert_eq!(torn.len(), 1, "{text}");
    }

    #[test]
    fn who_waits_hears_of_what_is_on_the_disk_and_of_nothing_else() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("audit");
        let file = AuditFile::open(&path, 1 << 20).expect("it opens");
        let log = file.begin(|_, _: &str| ()).expect("a thread");
        assert!(log.settle(), "nothing was said");
        for number in 0..100 {
            log.write(&event(number));
            assert!(log.settle());
            let found = lines(&std::fs::read(&path).expect("it is there"));
            assert_eq!(found.len() as u64, number + 1);
        }
        // A disk that takes nothing.
        let mut file = AuditFile::open(&path, 1 << 20).expect("it opens");
        file.output.put_on_full_disk();
        let (said, heard) = mpsc::channel();
        let log = file.begin(move |_, _: &str| {
            let _ = said.send(());
        });
        let log = log.expect("a thread");
        log.write(&event(100));
        heard.recv().expect("it cannot be written");
        log.close();
        assert!(!log.settle());
    }

    #[test]
    fn what_did_not_fit_is_counted_in_its_place() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("audit");
        let mut output = Output::open(&path, 1 << 20).expect("it opens");
        let shared = Shared::default();
        let waiting = VecDeque::from([line_of(&event(1))]);
        assert!(shared.write_these(&mut output, waiting, 7, &|_, _: &str| ()));
        let found = lines(&std::fs::read(&path).expect("it is there"));
        assert_eq!(found.len(), 2);
        assert_eq!(
            (&found[1]["event"], &found[1]["count"]),
            (&"lost".into(), &7.into())
        );
    }
}
