//! What surrounds a command that moves or compares: who tells of it while it runs, and how it ended.

use crate::args::{ArrivalArgs, Cli, PaceArgs, TellingArgs, Verify};
use crate::control::Control;
use crate::exit::Passed;
use crate::own_file;
use crate::settings;
use crate::ui::{Reporter, Signals, Start, Wishes};
use howdah::{ChangeLog, CopyConfig, Error, FileLog, Progress, Summary, Verification};
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

/// Who tells of a copy.
pub(super) fn reporter(
    args: &TellingArgs,
    data_on_stdout: bool,
    dry_run: bool,
) -> anyhow::Result<Reporter> {
    Reporter::new(Wishes {
        json: args.json,
        quiet: args.quiet,
        progress: args.progress,
        log_file: args.log_file.as_deref(),
        data_on_stdout,
        dry_run,
        data_on_terminal: data_on_stdout && io::stdout().is_terminal(),
    })
}

/// Tells how it ended. Files of a tree that could not be copied make it a failure after all.
pub(super) fn finish(reporter: &Reporter, result: anyhow::Result<Summary>) -> anyhow::Result<()> {
    if let Ok(summary) = &result {
        let trees = summary.tree.iter();
        for note in trees.flat_map(|tree| tree.notes.iter().chain(&tree.notices)) {
            reporter.warn(note);
        }
    }
    reporter.finish(&result);
    match result?.shortfall() {
        Some(error) => Err(error.into()),
        None => Ok(()),
    }
}

/// Tells how a comparison ended; `different` is the exit code if it found something.
pub(super) fn finish_verification(
    reporter: &Reporter,
    result: anyhow::Result<Verification>,
    different: u8,
) -> anyhow::Result<()> {
    if let Ok(verification) = &result {
        for note in &verification.notes {
            reporter.warn(note);
        }
    }
    reporter.finish_verification(&result);
    let verification = result?;
    match verification.shortfall() {
        Some(error) => Err(error.into()),
        None if verification.equal => Ok(()),
        None => Err(Passed(different).into()),
    }
}

/// What files go through before they appear, and who hears of it.
pub(super) fn arrival(config: &mut CopyConfig, args: &ArrivalArgs, reporter: &Reporter) {
    config.resume = !args.no_resume;
    config.reread = args.verify == Verify::Reread;
    config.sums = reporter.is_json();
    (config.wait_for_space, config.reconnect) = (args.wait_for_space, args.reconnect);
    (config.warn, config.note) = (reporter.as_log(), reporter.as_note());
    config.heard = reporter.as_ear();
    config.ssh.wordy = args.each_file;
    if args.each_file {
        let verified = if config.reread { "reread" } else { "blake3" };
        let reporter = reporter.clone();
        config.files = FileLog::new(move |files| reporter.files(files, verified));
    }
}

/// What surrounds a copy.
pub(super) struct Run<'a> {
    pub(super) config: &'a CopyConfig,
    pub(super) signals: &'a Signals,
    pub(super) reporter: &'a Reporter,
    pub(super) pace: &'a PaceArgs,
    /// Of the same command line, read again.
    pub(super) pace_of: fn(&Cli) -> Option<PaceArgs>,
    pub(super) trace: Option<&'a Path>,
}

impl Run<'_> {
    /// Tells of a copy, or whatever else takes its time, while it runs, and lets others change its pace.
    pub(super) fn copy<T>(
        &self,
        start: &Start,
        copy: impl FnOnce(&mut dyn FnMut(&Progress)) -> Result<T, Error>,
    ) -> anyhow::Result<T> {
        let mut trace = self.trace.map(Trace::create).transpose()?;
        let control = Control::begin(&self.config.throttle, self.pace, self.reporter, start);
        self.reporter.start(start);
        let mut show = |progress: &Progress| {
            control.attend(self.signals, || {
                settings::reread().map(|cli| (self.pace_of)(&cli))
            });
            if let Some(trace) = &mut trace {
                trace.write(progress);
            }
            self.reporter.progress(progress);
        };
        let result = copy(&mut show);
        let traced = trace.map_or(Ok(()), Trace::finish);
        match (result, traced) {
            (result, Ok(())) => Ok(result?),
            (Ok(_), Err(error)) => {
                let text = format!("the copy is done, and {error}");
                Err(Error::new(error.kind(), text).into())
            }
            (Err(first), Err(error)) => {
                self.reporter.warn(&error.to_string());
                Err(first.into())
            }
        }
    }
}

/// Progress as JSON lines.
struct Trace {
    out: BufWriter<File>,
    path: PathBuf,
    lines: u64,
    error: Option<io::Error>,
}

impl Trace {
    fn create(path: &Path) -> Result<Self, Error> {
        own_file::check("--trace", path, is_trace)?;
        let file = File::create(path).map_err(|e| own_file::failed("write the trace", path, &e))?;
        Ok(Self {
            out: BufWriter::new(file),
            path: path.to_owned(),
            lines: 0,
            error: None,
        })
    }

    fn write(&mut self, progress: &Progress) {
        let line = serde_json::json!({
            "seconds": progress.elapsed.as_secs_f64(),
            "bytes": progress.bytes,
            "goodput_bps": progress.goodput_now.bits_per_sec(),
            "rtt_us": progress.rtt.as_micros(),
            "loss": progress.loss,
            "pacing_bps": progress.pacing_rate.bits_per_sec(),
            "queue_us": progress.queue_delay.as_micros(),
        });
        self.lines += 1;
        if self.error.is_none() {
            // A full disk under the trace must not end the copy.
            self.error = writeln!(self.out, "{line}").err();
        }
    }

    fn finish(mut self) -> Result<(), Error> {
        if self.lines == 0 {
            // It was over before anybody looked: all that is known is how it began.
            self.write(&Progress::default());
        }
        let written = self.error.map_or_else(|| self.out.flush(), Err);
        written.map_err(|e| own_file::failed("write the trace", &self.path, &e))
    }
}

/// Whether a file begins as one does.
fn is_trace(head: &[u8]) -> bool {
    let line = head.split(|byte| *byte == b'\n').next().unwrap_or(head);
    serde_json::from_slice(line)
        .is_ok_and(|line: serde_json::Value| line.get("pacing_bps").is_some())
}

/// What a dry run would do, a line or an event each on standard output.
pub(super) fn changes(reporter: &Reporter) -> ChangeLog {
    let reporter = reporter.clone();
    ChangeLog::new(move |changes| reporter.changes(changes))
}
