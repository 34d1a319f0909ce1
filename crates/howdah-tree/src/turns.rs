//! Whether the session that all this comes from is still there, as far as a thread that writes can know.
//!
//! A process that stood still (stopped, suspended, moved to another machine) wakes with files that have come and are not written, and
//! may have a successor by now, who is through. Its session finds that out in its first turn; until then nothing more is made.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Without a turn for so long it may have stood still.
const LONG: Duration = Duration::from_secs(1);
/// Then so much is waited for one: a session has many in each second, also where nothing happens, so it is the machine that is slow.
const PATIENCE: Duration = Duration::from_secs(2);
const NAP: Duration = Duration::from_millis(2);

#[derive(Debug)]
pub(crate) struct Turns {
    began: Instant,
    /// The last one, in milliseconds after that.
    last_ms: AtomicU64,
    ended: AtomicBool,
    /// It had had none for long when it ended.
    ended_late: AtomicBool,
}

impl Turns {
    pub(crate) fn new() -> Self {
        Self {
            began: Instant::now(),
            last_ms: AtomicU64::new(0),
            ended: AtomicBool::new(false),
            ended_late: AtomicBool::new(false),
        }
    }

    /// The session has one.
    pub(crate) fn note(&self) {
        let now = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_ms.fetch_max(now, Ordering::Relaxed);
    }

    /// It has ended.
    pub(crate) fn end(&self) {
        self.ended_late.store(self.is_long_ago(), Ordering::Relaxed);
        self.ended.store(true, Ordering::Release);
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Before something is made: whether the session is there.
    pub(crate) fn go_on(&self) -> bool {
        let since = Instant::now();
        while self.is_long_ago() && !self.has_ended() {
            if since.elapsed() >= PATIENCE {
                self.note();
            } else {
                std::thread::sleep(NAP);
            }
        }
        !self.has_ended()
    }

    /// Before what was made gets its name: whether the session has stood still and then ended, so that a successor may have
    /// finished what this would change. What had come when a session ended otherwise stays.
    pub(crate) fn stood_still_and_ended(&self) -> bool {
        !self.go_on() && self.ended_late.load(Ordering::Relaxed)
    }

    fn is_long_ago(&self) -> bool {
        let last = Duration::from_millis(self.last_ms.load(Ordering::Relaxed));
        self.began.elapsed().saturating_sub(last) > LONG
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n6_who_may_have_stood_still_waits_for_a_turn_or_the_end() {
        let mut turns = Turns::new();
        assert!(turns.go_on());
        // So long ago it began, and there was no turn since.
        turns.began = turns.began.checked_sub(LONG * 3).unwrap();
        assert!(turns.go_on(), "idle for long is no end");
        turns.began = turns.began.checked_sub(LONG * 3).unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| turns.go_on());
            turns.end();
            assert!(!waiting.join().unwrap());
        });
        assert!(!turns.go_on());
        assert!(turns.stood_still_and_ended());
        // Whoever ends in time leaves what had come.
        let turns = Turns::new();
        turns.end();
        assert!(!turns.go_on() && !turns.stood_still_and_ended());
    }
}
