//! Descriptors run out: in this process, or in the whole machine. Others of our threads give theirs back within a moment (a batch
//! of files that gets its names, a source that has been read), so whoever needs one waits for that.

use crate::calls::retry;
use crate::kept;
use rustix::fd::AsFd;
use rustix::io::Errno;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// When nothing at all could be opened for that long, nothing is waited for any more, until something can be.
const PATIENCE: Duration = Duration::from_secs(10);
const TRY_EVERY: Duration = Duration::from_millis(5);

/// All threads share the descriptors, so they share this.
static SHORTAGE: Shortage = Shortage(AtomicU64::new(0));

/// Since when everything has failed for want of one, in milliseconds; 0: that is not so.
struct Shortage(AtomicU64);

impl Shortage {
    /// There is one.
    fn end(&self) {
        if self.0.load(Ordering::Relaxed) != 0 {
            self.0.store(0, Ordering::Relaxed);
        }
    }

    /// There was none `now`. For how long that has been so.
    fn note(&self, now: Duration) -> Duration {
        let now = (now.as_millis() as u64).max(1);
        let since = self
            .0
            .compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed)
            .map_or_else(|since| since, |_| now);
        Duration::from_millis(now.saturating_sub(since))
    }
}

fn uptime() -> Duration {
    static BEGUN: OnceLock<Instant> = OnceLock::new();
    BEGUN.get_or_init(Instant::now).elapsed()
}

/// Repeats a call that makes a descriptor while there is none to be had, and when a signal interrupts it. What lies where this
/// process is kept out is not there for it.
pub fn opened<T: AsFd>(open: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    had(open).and_then(kept::outside)
}

/// The same of what lies in something that is open.
pub fn had<T>(mut open: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match retry(&mut open) {
            Err(Errno::MFILE | Errno::NFILE) if SHORTAGE.note(uptime()) < PATIENCE => {
                std::thread::sleep(TRY_EVERY);
            }
            Err(e @ (Errno::MFILE | Errno::NFILE)) => return Err(e),
            result => {
                // The kernel takes a descriptor before it looks at the name.
                SHORTAGE.end();
                return result;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f62_a_descriptor_is_waited_for_and_not_for_ever() {
        let shortage = Shortage(AtomicU64::new(0));
        let at = Duration::from_secs;
        assert_eq!(shortage.note(at(7)), at(0));
        assert_eq!(shortage.note(at(9)), at(2));
        assert!(
            shortage.note(at(17)) >= PATIENCE,
            "who comes then does not wait"
        );
        assert!(shortage.note(at(18)) >= PATIENCE);
        shortage.end();
        assert_eq!(shortage.note(at(19)), at(0));
        // The first millisecond is one, too.
        shortage.end();
        assert_eq!(shortage.note(at(0)), at(0));
        assert_eq!(
            shortage.note(Duration::from_millis(11)),
            Duration::from_millis(10)
        );
    }

    #[test]
    fn f62_what_fails_for_want_of_one_is_tried_again_and_nothing_else_is() {
        let mut left = [Errno::MFILE, Errno::INTR, Errno::NFILE].into_iter();
        assert_eq!(had(|| left.next().map_or(Ok(5), Err)), Ok(5));
        let mut left = [Errno::MFILE, Errno::NOENT].into_iter();
        assert_eq!(had(|| left.next().map_or(Ok(5), Err)), Err(Errno::NOENT));
    }
}
