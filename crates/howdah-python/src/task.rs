//! One run of something that takes long: the work on a thread of its own, the caller waiting with the interpreter released.

use crate::errors::raised;
use howdah::{Cancel, Error, ErrorKind, Log, Progress};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How often the caller looks whether a signal came.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// What is told and not heard yet; whoever tells more waits.
const WAITING_MAX: usize = 256;
const PANICKED: &str = "a thread of howdah's has panicked; what it said is on standard error";

enum Told {
    /// A kind, and a text or JSON.
    Item(&'static str, String),
    End(Result<String, Error>),
}

/// Where work tells what happens.
#[derive(Clone)]
pub(crate) struct Teller(SyncSender<Told>);

impl Teller {
    /// Waits for room. Nobody may listen any more, which is no failure of whoever tells.
    pub(crate) fn tell(&self, kind: &'static str, text: String) {
        let _ = self.0.send(Told::Item(kind, text));
    }

    /// If there is room: for whoever must not wait.
    pub(crate) fn mention(&self, kind: &'static str, text: String) {
        let _ = self.0.try_send(Told::Item(kind, text));
    }

    /// What is soon out of date.
    pub(crate) fn progress(&self, progress: &Progress) {
        self.mention("progress", crate::told::progress(progress));
    }

    /// Lines of a kind.
    pub(crate) fn log(&self, kind: &'static str) -> Log {
        let teller = self.clone();
        Log::new(move |line| teller.tell(kind, line.to_owned()))
    }
}

type Work = Box<dyn FnOnce(&Teller, &Cancel) -> Result<String, Error> + Send>;

/// Work that is done when it is run, once.
#[pyclass(frozen, module = "howdah._howdah")]
pub(crate) struct Task {
    cancel: Cancel,
    work: Mutex<Option<Work>>,
}

impl Task {
    pub(crate) fn new(
        work: impl FnOnce(&Teller, &Cancel) -> Result<String, Error> + Send + 'static,
    ) -> Self {
        Self {
            cancel: Cancel::new(),
            work: Mutex::new(Some(Box::new(work))),
        }
    }
}

#[pymethods]
impl Task {
    /// Ends it early, from any thread.
    fn cancel(&self) {
        self.cancel.cancel();
    }

    /// Does the work and returns its result as JSON. `hear(kind, text)` is called on this thread. What it raises, and what a
    /// signal's handler raises, ends the work and is raised when the work has ended; a second signal does not wait for that.
    #[expect(clippy::needless_pass_by_value, reason = "extracted from Python")]
    fn run(&self, py: Python<'_>, hear: Bound<'_, PyAny>) -> PyResult<String> {
        let work = self
            .work
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let work = work.ok_or_else(|| PyRuntimeError::new_err("a task is run once"))?;
        let (sender, told) = sync_channel(WAITING_MAX);
        // Not shared: only so that it may be waited for without the interpreter.
        let told = Mutex::new(told);
        let (teller, cancel) = (Teller(sender.clone()), self.cancel.clone());
        std::thread::Builder::new()
            .name("howdah-task".into())
            .spawn(move || {
                let end = catch_unwind(AssertUnwindSafe(|| work(&teller, &cancel)));
                let end = end.unwrap_or_else(|_| Err(Error::new(ErrorKind::Io, PANICKED)));
                let _ = sender.send(Told::End(end));
            })?;
        let mut raised_by_caller = None;
        loop {
            let item = next(py, &told);
            let heard = match item {
                Some(Told::End(end)) => {
                    return match raised_by_caller {
                        Some(error) => Err(error),
                        None => end.map_err(|error| raised(py, &error)),
                    };
                }
                Some(Told::Item(kind, text)) if raised_by_caller.is_none() => {
                    hear.call1((kind, text)).map(drop)
                }
                _ => Ok(()),
            };
            if let Err(error) = heard.and_then(|()| py.check_signals()) {
                self.cancel.cancel();
                if raised_by_caller.is_some() {
                    return Err(error);
                }
                raised_by_caller = Some(error);
            }
        }
    }
}

/// What comes next, or nothing for a while.
fn next(py: Python<'_>, told: &Mutex<Receiver<Told>>) -> Option<Told> {
    let next = || {
        let told = told.lock().unwrap_or_else(PoisonError::into_inner);
        told.recv_timeout(LOOK_EVERY)
    };
    match py.detach(next) {
        Ok(told) => Some(told),
        Err(RecvTimeoutError::Timeout) => None,
        // Not before the end.
        Err(RecvTimeoutError::Disconnected) => {
            Some(Told::End(Err(Error::new(ErrorKind::Io, PANICKED))))
        }
    }
}
