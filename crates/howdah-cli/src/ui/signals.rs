//! SIGINT and SIGTERM: the first asks to stop, the second stops at once. SIGHUP only asks: a shell that ends sends it beside
//! the terminal's; a server reads its keys again. What was ignored when the process began (nohup, a script's background) stays so. SIGUSR1 asks how it
//! stands, SIGUSR2 to read the configuration again.

use howdah::Cancel;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGXFSZ};
use signal_hook::flag;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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
    /// Whether the next signal ends the process.
    at_once: Arc<AtomicBool>,
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
            at_once: Arc::default(),
            asked: Arc::default(),
            reload: Arc::default(),
        };
        let ignored = ignored();
        for signal in [SIGINT, SIGTERM] {
            if !is_heard(signal, ignored) {
                continue;
            }
            // The order matters: the first signal finds the switch off, then turns it on.
            flag::register_conditional_shutdown(
                signal,
                128 + signal,
                Arc::clone(&signals.at_once),
            )?;
            flag::register(signal, Arc::clone(&signals.at_once))?;
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
