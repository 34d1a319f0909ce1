//! Tells of a copy, to whom it may concern: the terminal, a script that reads `--json`, a log file.

use super::events::{self, FileState, Start, fingerprint};
use super::logfile::LogFile;
use super::progress::{ProgressView, one_line};
use super::{
    Paint, change_line, difference_line, dry_run_line, print, printable, say, summary_line,
    verification_line,
};
use crate::exit::words;
use howdah::{
    Change, Difference, Direction, End, Log, Manifest, PlacedFile, Progress, Receipt, Summary,
    Verification,
};
use howdah_core::{Span, Time};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How often `--json` tells of progress.
const EVENT_EVERY: Span = Span::from_secs(1);
/// How often the log does.
const LOG_EVERY: Span = Span::from_secs(60);

/// What is wanted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wishes<'a> {
    pub(crate) json: bool,
    pub(crate) quiet: bool,
    /// Lines of progress even where there is no terminal.
    pub(crate) progress: bool,
    pub(crate) log_file: Option<&'a Path>,
    /// Standard output is for data: objects go to standard error.
    pub(crate) data_on_stdout: bool,
    /// Data is written to the terminal: nothing may be drawn there.
    pub(crate) data_on_terminal: bool,
    /// Nothing is written, so the end is told as what would be.
    pub(crate) dry_run: bool,
}

#[derive(Debug)]
struct Inner {
    json: bool,
    quiet: bool,
    data_on_stdout: bool,
    dry_run: bool,
    view: ProgressView,
    log: Option<LogFile>,
    next_event: Time,
    next_log: Time,
    last: Progress,
    /// Nobody reads the objects any more.
    deaf: bool,
}

/// See the module. Clones tell of the same copy.
#[derive(Clone, Debug)]
pub(crate) struct Reporter(Arc<Mutex<Inner>>);

impl Reporter {
    /// Whether a script reads what is told.
    pub(crate) fn is_json(&self) -> bool {
        self.lock().json
    }

    pub(crate) fn new(wishes: Wishes<'_>) -> anyhow::Result<Self> {
        let view = !wishes.quiet && !wishes.data_on_terminal;
        Ok(Self(Arc::new(Mutex::new(Inner {
            json: wishes.json,
            quiet: wishes.quiet,
            data_on_stdout: wishes.data_on_stdout,
            dry_run: wishes.dry_run,
            view: ProgressView::new(view, wishes.progress),
            log: wishes.log_file.map(LogFile::open).transpose()?,
            next_event: Time::ZERO,
            next_log: Time::ZERO + LOG_EVERY,
            last: Progress::default(),
            deaf: false,
        }))))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn start(&self, start: &Start) {
        let mut inner = self.lock();
        inner.log(|| {
            format!(
                "{} {} to {}",
                start.command,
                start.sources.join(" "),
                start.destination
            )
        });
        inner.event(|| start.to_json());
    }

    pub(crate) fn progress(&self, progress: &Progress) {
        let mut inner = self.lock();
        inner.view.show(progress);
        let now = Time::ZERO + progress.elapsed;
        if now >= inner.next_event {
            inner.next_event = now + EVENT_EVERY;
            inner.event(|| events::progress(progress));
        }
        if now >= inner.next_log {
            inner.next_log = now + LOG_EVERY;
            inner.log(|| one_line(progress));
        }
        inner.last.clone_from(progress);
    }

    /// Something that a person should know although the copy goes on.
    pub(crate) fn warn(&self, message: &str) {
        let mut inner = self.lock();
        inner.log(|| format!("warning: {message}"));
        inner.event(|| events::warning(message));
        if !inner.quiet {
            let word = Paint::stderr().warning("warning:");
            inner.view.suspend(|| super::say_marked(&word, message));
        }
    }

    /// How it stands, now.
    pub(crate) fn say_how_it_stands(&self) {
        let inner = self.lock();
        inner.view.suspend(|| say(&one_line(&inner.last)));
    }

    /// Something that is only worth a line in the log.
    pub(crate) fn note(&self, message: &str) {
        self.lock().log(|| message.to_owned());
    }

    /// Something that goes well and is worth a line. Objects have told of it as of a warning since there are any.
    pub(crate) fn tell(&self, message: &str) {
        let mut inner = self.lock();
        inner.log(|| message.to_owned());
        inner.event(|| events::warning(message));
        if !inner.quiet {
            inner.view.suspend(|| say(&printable(message)));
        }
    }

    /// What the library says that is no reason to worry.
    pub(crate) fn as_note(&self) -> Log {
        let reporter = self.clone();
        Log::new(move |line| reporter.tell(line))
    }

    /// The warnings of the library.
    pub(crate) fn as_log(&self) -> Log {
        let reporter = self.clone();
        Log::new(move |line| reporter.warn(line))
    }

    /// What ssh and the other end say: lines of others, neither warnings nor events.
    pub(crate) fn as_ear(&self) -> Log {
        let reporter = self.clone();
        Log::new(move |line| {
            let mut inner = reporter.lock();
            inner.log(|| line.to_owned());
            if !inner.quiet {
                inner.view.suspend(|| say(line));
            }
        })
    }

    /// A file is complete and in place.
    pub(crate) fn file(&self, name: &Path, bytes: u64, verified: &str) {
        let mut inner = self.lock();
        inner.log(|| done_line(name, bytes, verified));
        inner.event(|| events::file(name, FileState::Done, bytes, verified));
    }

    /// Files of a tree are in place: many at a time, there may be millions.
    pub(crate) fn files(&self, files: &[PlacedFile], verified: &str) {
        let mut inner = self.lock();
        for file in files {
            inner.log(|| done_line(&file.path, file.bytes, verified));
        }
        inner.event(|| events::files(files, verified));
        if !inner.json && !inner.quiet {
            let names = files.iter().map(|file| file.path.to_string_lossy());
            let lines: Vec<_> = names.map(|name| printable(&name).into_owned()).collect();
            // A reader that has seen enough is no failure.
            inner.view.suspend(|| {
                let _ = print(&lines.join("\n"));
            });
        }
    }

    /// The list of a copy's files is written.
    pub(crate) fn manifest(&self, manifest: &Manifest, files: u64) {
        let mut inner = self.lock();
        let (path, hash) = (manifest.path(), manifest.hash().name());
        inner.log(|| format!("manifest: {} ({files} files, {hash})", path.display()));
        inner.event(|| events::manifest(path, files, hash));
    }

    /// Both ends have signed; who that was is for the log and for people.
    pub(crate) fn receipt(&self, path: &Path, receipt: &Receipt) {
        let mut inner = self.lock();
        let line = || receipt_line(path, receipt);
        inner.log(line);
        inner.event(|| events::receipt(path, receipt));
        if !inner.json && !inner.quiet {
            inner.view.suspend(|| say(&line()));
        }
    }

    /// What a dry run would do: many at a time.
    pub(crate) fn changes(&self, changes: &[Change]) {
        let mut inner = self.lock();
        for change in changes {
            inner.log(|| change_line(change));
        }
        inner.event(|| events::changes(changes));
        if !inner.json && !inner.quiet && !inner.deaf {
            let lines: Vec<_> = changes.iter().map(change_line).collect();
            // A reader that has seen enough is no failure.
            let written = inner.view.suspend(|| print(&lines.join("\n")));
            inner.deaf = written.is_err();
        }
    }

    /// The end. An error is told by whoever ends the program; here it only becomes an event.
    pub(crate) fn finish(&self, result: &anyhow::Result<Summary>) {
        let mut inner = self.lock();
        inner.view.clear();
        match result {
            Ok(summary) => {
                let line = if inner.dry_run {
                    dry_run_line(summary)
                } else {
                    summary_line(summary)
                };
                inner.log(|| line.clone());
                inner.event(|| events::summary(summary));
                if !inner.json && !inner.quiet {
                    say(&line);
                }
            }
            Err(error) => inner.failed(error),
        }
    }

    /// Two places differ.
    pub(crate) fn difference(&self, difference: &Difference) {
        let mut inner = self.lock();
        inner.log(|| difference_line(difference));
        inner.event(|| events::difference(difference));
        if !inner.json && !inner.quiet && !inner.deaf {
            let line = difference_line(difference);
            // Whoever read this has seen enough; the comparison goes on, as its end has a meaning.
            let written = inner.view.suspend(|| print(&line));
            inner.deaf = written.is_err();
        }
    }

    /// The end of a comparison, as [`finish`](Self::finish).
    pub(crate) fn finish_verification(&self, result: &anyhow::Result<Verification>) {
        let mut inner = self.lock();
        inner.view.clear();
        match result {
            Ok(found) => {
                inner.log(|| verification_line(found));
                inner.event(|| events::verification(found));
                if !inner.json && !inner.quiet {
                    say(&verification_line(found));
                }
            }
            Err(error) => inner.failed(error),
        }
    }

    /// How it stands, for whoever asks.
    pub(crate) fn last(&self) -> Progress {
        self.lock().last.clone()
    }
}

fn done_line(name: &Path, bytes: u64, verified: &str) -> String {
    format!("done: {} ({bytes} bytes, {verified})", name.display())
}

fn receipt_line(path: &Path, receipt: &Receipt) -> String {
    let stated = receipt.statement();
    let (from, to) = match stated.direction {
        Direction::ToServer => (&stated.client, &stated.server),
        Direction::FromServer => (&stated.server, &stated.client),
    };
    let end = |end: &End| format!("{} ({})", end.address, fingerprint(&end.key));
    format!(
        "receipt: {}: {} files, {} bytes, root {}; from {} to {}, signed {}",
        path.display(),
        stated.files,
        stated.bytes,
        stated.root,
        end(from),
        end(to),
        stated.signed_utc
    )
}

impl Inner {
    fn log(&mut self, text: impl FnOnce() -> String) {
        if let Some(log) = &mut self.log {
            log.line(&text());
        }
    }

    fn failed(&mut self, error: &anyhow::Error) {
        self.log(|| format!("failed: {}", words(error)));
        self.event(|| events::error(error));
    }

    fn event(&mut self, make: impl FnOnce() -> serde_json::Result<String>) {
        if !self.json || self.deaf {
            return;
        }
        let Ok(line) = make() else { return };
        let written = if self.data_on_stdout {
            writeln!(io::stderr(), "{line}")
        } else {
            print(&line)
        };
        // Whoever read this has seen enough; the copy goes on.
        self.deaf = written.is_err();
    }
}
