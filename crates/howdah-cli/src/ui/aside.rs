//! The log of what goes on for long, written by a thread: whoever reads it may stand still (a terminal after Ctrl-S, a pager, a disk that gives no
//! answer), and nobody who is served waits for him.

use howdah::Level;
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// Lines that wait for whoever reads them, at most.
const WAITING: usize = 1_024;
/// Whoever reads them has that long for the last ones when the program ends.
const LAST_WORDS: Duration = Duration::from_secs(1);

static ASIDE: OnceLock<Aside> = OnceLock::new();

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<(Level, String)>,
    /// Lines that did not fit, behind those that wait.
    lost: u64,
    is_writing: bool,
}

#[derive(Clone, Debug, Default)]
struct Aside(Arc<(Mutex<State>, Condvar)>);

impl Aside {
    fn begin(write: impl Fn(Level, &str) + Send + 'static) -> io::Result<Self> {
        let aside = Self::default();
        let theirs = aside.clone();
        let thread = std::thread::Builder::new().name("howdah-log".to_owned());
        thread.spawn(move || theirs.work(&write))?;
        Ok(aside)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Never waits for whoever reads.
    fn push(&self, level: Level, text: String) {
        let mut state = self.lock();
        if state.waiting.len() < WAITING && state.lost == 0 {
            state.waiting.push_back((level, text));
        } else {
            state.lost += 1;
        }
        drop(state);
        self.0.1.notify_all();
    }

    fn work(&self, write: &dyn Fn(Level, &str)) {
        loop {
            let mut state = self.lock();
            while state.waiting.is_empty() && state.lost == 0 {
                let woken = self.0.1.wait(state);
                state = woken.unwrap_or_else(PoisonError::into_inner);
            }
            let (level, text) = state.waiting.pop_front().unwrap_or_else(|| {
                let lost = std::mem::take(&mut state.lost);
                let text = format!("{lost} lines are missing here: nobody took them in time");
                (Level::Warning, text)
            });
            state.is_writing = true;
            drop(state);
            write(level, &text);
            self.lock().is_writing = false;
            self.0.1.notify_all();
        }
    }

    /// Waits until all of it is written, that long at most.
    fn settle(&self, patience: Duration) {
        let waits =
            |state: &mut State| state.is_writing || state.lost > 0 || !state.waiting.is_empty();
        let _ = self.0.1.wait_timeout_while(self.lock(), patience, waits);
    }
}

/// Lines go by way of the thread until the program ends. Whoever drops this waits for the last ones a little.
#[derive(Debug)]
pub(crate) struct LogAside(());

impl Drop for LogAside {
    fn drop(&mut self) {
        if let Some(aside) = ASIDE.get() {
            aside.settle(LAST_WORDS);
        }
    }
}

/// From now on [`super::log`] waits for nobody. Without a thread it is as before.
pub(crate) fn log_aside() -> LogAside {
    if let Ok(aside) = Aside::begin(super::log_line) {
        // The first one stays.
        let _ = ASIDE.set(aside);
    }
    LogAside(())
}

pub(super) fn log(level: Level, text: String) {
    match ASIDE.get() {
        Some(aside) => aside.push(level, text),
        None => super::log_line(level, &text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn nobody_waits_for_whoever_reads_and_what_did_not_fit_is_counted_in_its_place() {
        let (begun, has_begun) = channel();
        let (read, reads) = channel::<()>();
        let (written, lines) = channel();
        let aside = Aside::begin(move |_, text: &str| {
            let _ = begun.send(());
            let _ = reads.recv();
            let _ = written.send(text.to_owned());
        });
        let aside = aside.unwrap();
        aside.push(Level::Info, "first".to_owned());
        has_begun.recv().unwrap();
        for number in 0..WAITING + 3 {
            aside.push(Level::Info, number.to_string());
        }
        assert_eq!(aside.lock().waiting.len(), WAITING);
        // Somebody reads again.
        drop(read);
        aside.settle(Duration::MAX);
        aside.push(Level::Info, "last".to_owned());
        aside.settle(Duration::MAX);
        let lines: Vec<String> = lines.try_iter().collect();
        assert_eq!(lines.len(), 1 + WAITING + 1 + 1);
        assert_eq!((&*lines[0], &*lines[1]), ("first", "0"));
        assert!(lines[WAITING + 1].starts_with("3 lines are missing"));
        assert_eq!(lines[WAITING + 2], "last");
    }
}
