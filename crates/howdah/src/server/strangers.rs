//! Lines about people who did not come in. Anybody can cause them, so they are few.

use super::Log;
use howdah_audit::Level;
use howdah_core::{Span, Time};
use howdah_net::Full;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Lines at once, and then one in that time.
const BURST: u32 = 20;
const ONE_IN: Duration = Duration::from_secs(1);

#[derive(Debug)]
struct State {
    left: u32,
    refilled_at: Option<Instant>,
    untold: u64,
}

/// See the module. Clones share the count.
#[derive(Clone, Debug)]
pub(super) struct Strangers {
    log: Log,
    state: Arc<Mutex<State>>,
}

impl Strangers {
    pub(super) fn new(log: Log) -> Self {
        let state = State {
            left: BURST,
            refilled_at: None,
            untold: 0,
        };
        Self {
            log,
            state: Arc::new(Mutex::new(state)),
        }
    }

    pub(super) fn line(&self, text: &str) {
        self.line_at(Instant::now(), text);
    }

    fn line_at(&self, now: Instant, text: &str) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let since = *state.refilled_at.get_or_insert(now);
        let earned = now.saturating_duration_since(since).as_secs() / ONE_IN.as_secs();
        if earned > 0 {
            state.left =
                u32::try_from(earned).map_or(BURST, |n| state.left.saturating_add(n).min(BURST));
            state.refilled_at = Some(now);
        }
        if state.left == 0 {
            state.untold += 1;
            return;
        }
        state.left -= 1;
        match std::mem::take(&mut state.untold) {
            0 => self.log.at(Level::Warning, text),
            untold => {
                let text = format!("{text} ({untold} others who did not come in are not named)");
                self.log.at(Level::Warning, &text);
            }
        }
    }
}

/// Whether the log has a word about those who were told to come again: the first one, and then now and then.
#[derive(Debug, Default)]
pub(super) struct Crowd {
    told_at: Option<Time>,
}

/// Between two lines about it.
const CROWD_EVERY: Span = Span::from_secs(60);

impl Crowd {
    pub(super) fn line(&mut self, now: Time, full: Full) -> Option<String> {
        if self.told_at.is_some_and(|at| now.since(at) < CROWD_EVERY) {
            return None;
        }
        self.told_at = Some(now);
        let why = match full {
            Full::Handshakes(number) => format!("{number} handshakes are under way at once"),
            Full::Connections(number) => format!("{number} connections are there"),
        };
        Some(format!(
            "busy: {why}; who comes is told to try again in some seconds (not said again within {} s)",
            CROWD_EVERY.as_millis() / 1_000
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn o1_a_server_that_is_full_says_so_once_a_minute() {
        let mut crowd = Crowd::default();
        let at = |s| Time::ZERO + Span::from_secs(s);
        let line = crowd.line(at(5), Full::Handshakes(256)).expect("the first");
        assert!(line.starts_with("busy: 256 handshakes"), "{line}");
        for second in 5..65 {
            assert_eq!(crowd.line(at(second), Full::Connections(9)), None);
        }
        assert!(crowd.line(at(65), Full::Connections(9)).is_some());
    }

    #[test]
    fn a_crowd_at_the_door_gets_a_few_lines_and_a_count() {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&lines);
        let log = Log::new(move |line| kept.lock().expect("no panic").push(line.to_owned()));
        let strangers = Strangers::new(log);
        let start = Instant::now();
        for n in 0..10_000 {
            strangers.line_at(start, &format!("{n} did not answer"));
        }
        strangers.line_at(start + ONE_IN * 3, "the last");
        let lines = lines.lock().expect("no panic");
        assert_eq!(lines.len(), BURST as usize + 1);
        assert_eq!(
            lines.last().map(String::as_str),
            Some("the last (9980 others who did not come in are not named)")
        );
    }
}
