//! Compares two places without changing either.
//!
//! Each side describes itself and hashes its own files: this process for a local one, a session for one on
//! another machine. The comparison itself is here, between the two (`howdah_tree::TreeComparison`).

use crate::connect::{Remote, leaving, run};
use crate::error::from_store;
use crate::inside::with_threads_in;
use crate::sandbox::Sandbox;
use crate::ssh::Within;
use crate::task::Task;
use crate::{Cancel, CopyConfig, Error, ErrorKind, Location, PathBytes, Progress, Verification};
use howdah_core::{Rate, Span};
use howdah_session::selection;
use howdah_session::{TreeOptions, TreeReport};
use howdah_store::StoreError;
use howdah_tree::{
    ComparisonState, Difference, NOTES, Next, ReceiverEnds, SenderEnds, TreeComparison,
    TreeDescriber, TreeSubject, comparison_ends,
};
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often progress is told and the cancel switch looked at.
pub(crate) const TICK: Duration = Duration::from_millis(100);
/// Ticks over which the rate of now is measured.
const NOW_TICKS: usize = 10;
/// How long the session that a failure came from may take to say why.
const EXPLAINS_WITHIN: Duration = Duration::from_secs(15);

/// Compares `a` with `b`: two files, or what is in two directories. Each may be here, on a machine that ssh
/// reaches, or on a server.
///
/// With [`TreeOptions::checksum`] files of the same size are compared by content: each side hashes its own,
/// and only hashes travel. With [`TreeOptions::reread`] it reads them from its device, not from memory; a
/// side that does not say that it did makes an error. Without, by size and time of modification. With
/// [`TreeOptions::archive`]
/// modes, times, owners, extended attributes and hard links are compared as well.
///
/// `on_difference` is called for each difference, in an order that depends on the names only, and
/// `on_progress` about ten times a second, both on the calling thread. A success may still have a
/// [`Verification::shortfall`].
pub fn verify(
    a: &Location,
    b: &Location,
    options: &TreeOptions,
    config: &CopyConfig,
    cancel: &Cancel,
    on_difference: &mut dyn FnMut(&Difference),
    on_progress: &mut dyn FnMut(&Progress),
) -> Result<Verification, Error> {
    let started = Instant::now();
    let confined = config.confined && (a.is_remote() || b.is_remote());
    let (plan_a, ends_a) = Plan::new(a, options, confined)?;
    let (plan_b, ends_b) = Plan::new(b, options, confined)?;
    // It hears both.
    let nothing = confined.then(Sandbox::default);
    let start = || TreeComparison::start(ends_a, ends_b, options);
    let comparison = with_threads_in(nothing.as_ref(), start)?.map_err(|e| from_store(&e))?;
    let stop = Cancel::new();
    let mut run = Run {
        state: comparison.state(),
        comparison,
        sides: Vec::new(),
        plans: VecDeque::from([plan_a, plan_b]),
        config,
        stop,
        started,
        ticks: VecDeque::new(),
    };
    let result = run.attend(cancel, on_difference, on_progress);
    // Sessions that still run have nobody to talk to any more.
    run.stop.cancel();
    let comparison = run.comparison;
    let tally = comparison.tally();
    let (mut missing, mut missing_notes) = (0u64, Vec::new());
    comparison.tell_missing(|path| {
        missing += 1;
        if missing_notes.len() < NOTES {
            let path = path.display().to_string();
            let note = format!("{path:?} is in the list of files and on neither side (nothing is looked for behind a symbolic link)");
            missing_notes.push(note);
        }
    });
    drop(comparison);
    let mut sides = run.sides;
    let ends: Vec<SideResult> = sides.iter_mut().map(Side::end).collect();
    result?;
    if options.reread {
        let doubtful = ends.iter().zip([a, b]).find(|(told, _)| !told.reread);
        if let Some((_, place)) = doubtful {
            let text = format!(
                "{place} did not say that it read from its device; if its howdah is too old for --reread, \
                 install the same version there"
            );
            return Err(Error::new(ErrorKind::Protocol, text));
        }
    }
    let mut all = Verification {
        equal: tally.is_equal(),
        compared_by: match (options.checksum, options.reread) {
            (true, true) => "reread",
            (true, false) => "blake3",
            (false, _) => "size_and_time",
        },
        tally,
        ..Verification::default()
    };
    for (SideResult { report, .. }, side) in ends.into_iter().zip(["A", "B"]) {
        all.failed = all.failed.saturating_add(report.failed);
        all.changed = all.changed.saturating_add(report.changed);
        let notes = report.notes.iter().map(|note| format!("{side}: {note}"));
        all.notes.extend(notes);
    }
    all.failed = all.failed.saturating_add(missing);
    all.notes.append(&mut missing_notes);
    all.equal &= all.failed == 0 && all.changed == 0;
    all.seconds = started.elapsed().as_secs_f64();
    Ok(all)
}

/// A side before it begins.
pub(crate) enum Plan {
    Local(TreeDescriber),
    Remote(Box<There>),
}

pub(crate) struct There {
    remote: Remote,
    path: PathBytes,
    ends: ReceiverEnds,
    options: TreeOptions,
}

impl Plan {
    pub(crate) fn new(
        location: &Location,
        options: &TreeOptions,
        confined: bool,
    ) -> Result<(Self, SenderEnds), Error> {
        if let Some((remote, path)) = Remote::of(location) {
            let options = options.clone();
            selection::check([], &options)?;
            let (engine, ends) = comparison_ends();
            let there = There {
                remote,
                path,
                ends: engine,
                options,
            };
            return Ok((Self::Remote(Box::new(there)), ends));
        }
        let Location::File(path) = location else {
            let text = format!("{location} is neither a file nor a directory");
            return Err(Error::new(ErrorKind::Usage, text));
        };
        let subject = TreeSubject::local(path).map_err(|e| from_store(&e))?;
        let sandbox =
            confined.then(|| leaving(&Within::to_compare(path, options), options.archive));
        let start = || TreeDescriber::start(subject, options, Arc::new(|| {}));
        let started = with_threads_in(sandbox.as_ref(), start)?;
        let (describer, ends) = started.map_err(|e| from_store(&e))?;
        Ok((Self::Local(describer), ends))
    }
}

/// What a side says at its end.
#[derive(Clone, Debug, Default)]
pub(crate) struct SideResult {
    pub(crate) report: TreeReport,
    /// It read its files from the device.
    reread: bool,
}

/// A side under way.
pub(crate) enum Side {
    Local(TreeDescriber),
    Remote(Box<Session>),
}

pub(crate) struct Session {
    thread: Option<JoinHandle<()>>,
    outcome: Receiver<Result<SideResult, Error>>,
    /// Once it has come.
    result: Option<Result<SideResult, Error>>,
    /// What was told last; nothing before the other machine was reached.
    progress: Arc<Mutex<Option<Progress>>>,
}

impl Session {
    fn poll(&mut self, patience: Duration) {
        if self.result.is_none() {
            self.result = match self.outcome.recv_timeout(patience) {
                Ok(result) => Some(result),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => {
                    let text = "the session with the other machine ended without a word";
                    Some(Err(Error::new(ErrorKind::Io, text)))
                }
            };
        }
    }

    fn progress(&self) -> Option<Progress> {
        let progress = self.progress.lock();
        progress.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Side {
    /// Waits until it has ended; what it could not read.
    pub(crate) fn end(&mut self) -> SideResult {
        match self {
            Self::Local(describer) => SideResult {
                report: describer.report(),
                reread: describer.is_reread(),
            },
            Self::Remote(session) => {
                if let Some(thread) = session.thread.take() {
                    let _ = thread.join();
                }
                session.poll(Duration::ZERO);
                match session.result.take() {
                    Some(Ok(told)) => told,
                    _ => SideResult::default(),
                }
            }
        }
    }

    /// What ended it early. `wait`: for so long at most.
    pub(crate) fn failure(&mut self, wait: Duration) -> Option<Error> {
        match self {
            Self::Local(describer) => match describer.poll_error() {
                None | Some(StoreError::Aborted) => None,
                Some(error) => Some(from_store(&error)),
            },
            Self::Remote(session) => {
                session.poll(wait);
                match &session.result {
                    Some(Err(error)) => Some(error.clone()),
                    _ => None,
                }
            }
        }
    }

    /// Whether somebody may be asked for a password no more.
    fn is_reached(&self) -> bool {
        match self {
            Self::Local(_) => true,
            Self::Remote(session) => session.result.is_some() || session.progress().is_some(),
        }
    }
}

struct Run<'a> {
    comparison: TreeComparison,
    state: ComparisonState,
    sides: Vec<Side>,
    /// Sides that have not begun.
    plans: VecDeque<Plan>,
    config: &'a CopyConfig,
    /// Ends the sessions.
    stop: Cancel,
    started: Instant,
    /// Bytes compared at the last ticks.
    ticks: VecDeque<u64>,
}

impl Run<'_> {
    /// One after the other: two programs that ask for a password at once confuse everybody. What is here asks for nothing, and is
    /// among those who say what they could not read however soon the others are done.
    fn next_may_begin(&self) -> bool {
        let is_local = |plan: &Plan| matches!(plan, Plan::Local(_));
        self.plans.front().is_some_and(is_local) || self.sides.iter().all(Side::is_reached)
    }

    /// Tells what is found until everything has been compared and the other machines have said so.
    fn attend(
        &mut self,
        cancel: &Cancel,
        on_difference: &mut dyn FnMut(&Difference),
        on_progress: &mut dyn FnMut(&Progress),
    ) -> Result<(), Error> {
        let mut next_tick = self.started;
        let mut over = false;
        loop {
            while self.next_may_begin()
                && let Some(plan) = self.plans.pop_front()
            {
                let side = begin(plan, &self.state, self.config, &self.stop)?;
                self.sides.push(side);
            }
            if over {
                self.sides
                    .iter_mut()
                    .for_each(|side| drop(side.failure(TICK)));
            } else {
                match self.comparison.next(TICK) {
                    Next::Found(difference) => on_difference(&difference),
                    Next::Nothing => {}
                    Next::End => over = true,
                }
            }
            if cancel.is_cancelled() {
                return Err(Error::new(ErrorKind::Cancelled, "interrupted"));
            }
            if over && !self.state.is_done() {
                return Err(self.cause());
            }
            // One that cannot go on because nobody reads what it brings is not to blame.
            let to_blame = |error: &Error| error.kind() != ErrorKind::Io;
            let mut failures = self.sides.iter_mut();
            let failure = failures.find_map(|s| s.failure(Duration::ZERO).filter(to_blame));
            if let Some(error) = failure.filter(|_| !self.state.is_done()) {
                return Err(error);
            }
            if over && self.sides.iter().all(Side::is_reported) {
                return Ok(());
            }
            if Instant::now() >= next_tick {
                next_tick = Instant::now() + TICK;
                on_progress(&self.progress());
            }
        }
    }

    /// Why the comparison ended. The session that is to blame may say so a moment later, after the other
    /// one has noticed that nobody reads what it brings.
    fn cause(&mut self) -> Error {
        let until = Instant::now() + EXPLAINS_WITHIN;
        let mut last = None;
        loop {
            let known = self.comparison.error();
            if let Some(error) = known.filter(|error| !matches!(error, StoreError::Aborted)) {
                return from_store(&error);
            }
            let mut waits = false;
            for side in &mut self.sides {
                let failure = side.failure(TICK);
                waits |= !side.is_reported() && failure.is_none();
                match failure {
                    Some(error) if error.kind() == ErrorKind::Io => last = Some(error),
                    Some(error) => return error,
                    None => {}
                }
            }
            if !waits || Instant::now() >= until {
                return last.unwrap_or_else(|| from_store(&StoreError::Aborted));
            }
        }
    }

    fn progress(&mut self) -> Progress {
        let tally = self.comparison.tally();
        self.ticks.push_back(tally.bytes);
        while self.ticks.len() > NOW_TICKS + 1 {
            self.ticks.pop_front();
        }
        let first = self.ticks.front().copied().unwrap_or_default();
        let span = Span::from_millis(TICK.as_millis() as u64 * (self.ticks.len() as u64 - 1));
        let mut all = Progress::default();
        for side in &self.sides {
            match side {
                Side::Local(describer) => all.current.push(describer.progress().current),
                Side::Remote(session) => {
                    if let Some(path) = session.progress() {
                        all = Progress {
                            current: all.current,
                            ..path
                        };
                    }
                }
            }
        }
        all.bytes = tally.bytes;
        all.resumed_bytes = 0;
        all.total_bytes = Some(tally.wanted_bytes).filter(|bytes| *bytes > 0);
        all.files_done = tally.files;
        all.files_total = None;
        all.elapsed = Span::from_millis(self.started.elapsed().as_millis() as u64);
        all.goodput_now = if span.is_zero() {
            Rate::ZERO
        } else {
            Rate::from_bytes_over(tally.bytes.saturating_sub(first), span)
        };
        all
    }
}

impl Side {
    /// Whether it has said all that it will.
    pub(crate) fn is_reported(&self) -> bool {
        match self {
            Self::Local(_) => true,
            Self::Remote(session) => session.result.is_some(),
        }
    }
}

/// Begins to describe a side, for whoever holds the other ends of its streams. `stop` ends it.
pub(crate) fn begin(
    plan: Plan,
    state: &ComparisonState,
    config: &CopyConfig,
    stop: &Cancel,
) -> Result<Side, Error> {
    let There {
        remote,
        path,
        ends,
        options,
    } = match plan {
        Plan::Local(describer) => return Ok(Side::Local(describer)),
        Plan::Remote(there) => *there,
    };
    let task = Task::Describe {
        path,
        ends: Some(ends),
        state: state.clone(),
        options,
    };
    let (config, stop) = (config.clone(), stop.clone());
    let progress = Arc::new(Mutex::new(None));
    let told = Arc::clone(&progress);
    let (out, outcome) = channel();
    let session = move || {
        let mut tell = |progress: &Progress| {
            *told.lock().unwrap_or_else(PoisonError::into_inner) = Some(progress.clone());
        };
        let done = run(task, remote, &config, &stop, &mut tell);
        // Nobody is left to be told if the whole has ended.
        let _ = out.send(done.map(|summary| SideResult {
            reread: summary.verified == "reread",
            report: summary.tree.unwrap_or_default(),
        }));
    };
    let thread = std::thread::Builder::new().name("howdah-session".to_owned());
    let thread = thread
        .spawn(session)
        .map_err(|e| Error::new(ErrorKind::Io, format!("cannot start a thread: {e}")))?;
    Ok(Side::Remote(Box::new(Session {
        thread: Some(thread),
        outcome,
        result: None,
        progress,
    })))
}
