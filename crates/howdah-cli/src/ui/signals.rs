//! SIGINT and SIGTERM: the first asks to stop, the second stops at once. SIGHUP only asks: a shell that ends sends it beside
//! the terminal's; a server reads its keys again. What was ignored when the process began (nohup, a script's background) stays so. SIGUSR1 asks how it
//! stands, SIGUSR2 to read the configuration again.

use howdah::Cancel;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGXFSZ};
use signal_hook::{flag, low_level};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A signal that comes so soon after the first is no second one: `timeout` sends its own to the process and to the group that it
/// is in, and so do others. Nobody presses Ctrl-C twice so fast.
const SAME: Duration = Duration::from_millis(150);

/// A file that grows beyond `ulimit -f` becomes an error of that write, not the end of the process.
pub(crate) fn outlive_file_size_limit() {
    // Nobody looks at the switch. Without a handler all is as it was.
    let _ = flag::register(SIGXFSZ, Arc::default());
}

/// The signals that are ignored, a bit for each; none where nobody says so.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}

fn is_heard(signal: i32, ignored: u64) -> bool {
    ignored & 1 << (signal - 1) == 0
}

/// The handlers, from now until the process ends.
#[derive(Clone, Debug)]
pub(crate) struct Signals {
    cancel: Cancel,
    asked: Arc<AtomicBool>,
    reload: Arc<AtomicBool>,
}

impl Signals {
    pub(crate) fn install() -> std::io::Result<Self> {
        let signals = Self::without_hangup()?;
        if is_heard(SIGHUP, ignored()) {
            flag::register(SIGHUP, signals.cancel.flag())?;
        }
        Ok(signals)
    }

    /// For who stays: SIGHUP throws this switch, whatever shell began the process.
    pub(crate) fn install_with_hangup(hangup: Arc<AtomicBool>) -> std::io::Result<Self> {
        flag::register(SIGHUP, hangup)?;
        Self::without_hangup()
    }

    fn without_hangup() -> std::io::Result<Self> {
        let signals = Self {
            cancel: Cancel::new(),
            asked: Arc::default(),
            reload: Arc::default(),
        };
        let ignored = ignored();
        let stop = Arc::new(Stop::new());
        for signal in [SIGINT, SIGTERM] {
            if !is_heard(signal, ignored) {
                continue;
            }
            stop.on(signal)?;
            flag::register(signal, signals.cancel.flag())?;
        }
        flag::register(SIGUSR1, Arc::clone(&signals.asked))?;
        flag::register(SIGUSR2, Arc::clone(&signals.reload))?;
        Ok(signals)
    }

    /// Whether somebody has asked how it stands, since the last call.
    pub(crate) fn take_asked(&self) -> bool {
        self.asked.swap(false, Ordering::Relaxed)
    }

    /// Whether the configuration is to be read again, since the last call.
    pub(crate) fn take_reload(&self) -> bool {
        self.reload.swap(false, Ordering::Relaxed)
    }

    /// The switch that the first signal throws.
    pub(crate) fn cancel(&self) -> &Cancel {
        &self.cancel
    }
}

/// Ends the process at the second signal.
struct Stop {
    begin: Instant,
    /// When the first came, in milliseconds from then on; `u64::MAX`: none has come.
    first_ms: AtomicU64,
}

impl Stop {
    fn new() -> Self {
        Self {
            begin: Instant::now(),
            first_ms: AtomicU64::new(u64::MAX),
        }
    }

    /// Whether a signal that comes now is a second one.
    fn is_second(&self, elapsed: Duration) -> bool {
        let now_ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX - 1);
        let (none, order) = (u64::MAX, Ordering::Relaxed);
        let first = self.first_ms.compare_exchange(none, now_ms, order, order);
        first.is_err_and(|first_ms| Duration::from_millis(now_ms.saturating_sub(first_ms)) >= SAME)
    }

    #[expect(unsafe_code, reason = "what a handler may do is for it to keep")]
    fn on(self: &Arc<Self>, signal: i32) -> std::io::Result<()> {
        let stop = Arc::clone(self);
        let action = move || {
            if stop.is_second(stop.begin.elapsed()) {
                low_level::exit(128 + signal);
            }
        };
        // SAFETY: it reads the clock, an atomic number, and calls _exit, all of which a handler may; nothing in it can panic,
        // allocate or wait.
        unsafe { low_level::register(signal, action) }.map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_signal_that_is_sent_twice_is_one() {
        let stop = Stop::new();
        let at = |ms| stop.is_second(Duration::from_millis(ms));
        assert!(!at(5_000));
        for same in [5_000, 5_001, 5_100] {
            assert!(!at(same), "{same}");
        }
        assert!(at(5_300));
        assert!(at(60_000));
        // A clock that is behind its own look is no second signal.
        assert!(!at(4_999));
    }
}
