//! Whether the machine had processor time to spare: `/proc/stat`, sampled.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

const INTERVAL: Duration = Duration::from_millis(250);
/// An interval in which all processors together were this busy counts as saturated.
const SATURATED: f64 = 0.95;

/// What was seen so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    intervals: u64,
    saturated: u64,
    busy: u64,
    stolen: u64,
    total: u64,
}

impl Usage {
    /// Share of intervals in which no processor time was left.
    pub(crate) fn saturated_share(&self) -> f64 {
        share(self.saturated, self.intervals)
    }

    /// Share of processor time in use.
    pub(crate) fn busy_share(&self) -> f64 {
        share(self.busy, self.total)
    }

    /// Share of processor time that the hypervisor gave to others.
    pub(crate) fn stolen_share(&self) -> f64 {
        share(self.stolen, self.total)
    }
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}

/// Ticks since boot, all processors together.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Ticks {
    busy: u64,
    stolen: u64,
    total: u64,
}

impl Ticks {
    fn parse(stat: &str) -> Option<Self> {
        let line = stat.lines().next()?.strip_prefix("cpu ")?;
        let mut fields = [0u64; 8];
        let mut numbers = line.split_ascii_whitespace();
        for field in &mut fields {
            *field = numbers.next()?.parse().ok()?;
        }
        // user nice system idle iowait irq softirq steal
        let total: u64 = fields.iter().sum();
        let idle = fields[3] + fields[4];
        Some(Self {
            busy: total - idle,
            stolen: fields[7],
            total,
        })
    }

    fn read() -> Option<Self> {
        Self::parse(&std::fs::read_to_string("/proc/stat").ok()?)
    }
}

#[derive(Debug, Default)]
struct Shared {
    usage: Mutex<(Usage, bool)>,
    stop: Condvar,
}

/// Samples until it is dropped.
#[derive(Debug)]
pub(crate) struct Watch {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    pub(crate) fn start() -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let inside = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("howdah-wan-cpu".to_owned())
            .spawn(move || sample(&inside))?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    pub(crate) fn usage(&self) -> Usage {
        self.shared
            .usage
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .0
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.shared
            .usage
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .1 = true;
        self.shared.stop.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn sample(shared: &Shared) {
    let Some(mut last) = Ticks::read() else {
        return;
    };
    let mut state = shared.usage.lock().unwrap_or_else(PoisonError::into_inner);
    while !state.1 {
        state = shared
            .stop
            .wait_timeout(state, INTERVAL)
            .unwrap_or_else(PoisonError::into_inner)
            .0;
        let Some(now) = Ticks::read() else { return };
        let usage = &mut state.0;
        let (busy, total) = (now.busy - last.busy.min(now.busy), now.total - last.total);
        usage.busy += busy;
        usage.total += total;
        usage.stolen += now.stolen - last.stolen.min(now.stolen);
        if total > 0 {
            usage.intervals += 1;
            usage.saturated += u64::from(share(busy, total) >= SATURATED);
        }
        last = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_first_line() {
        let stat = "cpu  10 1 20 900 5 2 3 4 0 0\ncpu0 1 2 3\n";
        assert_eq!(
            Ticks::parse(stat),
            Some(Ticks {
                busy: 40,
                stolen: 4,
                total: 945
            })
        );
        assert_eq!(Ticks::parse("intr 5\n"), None);
    }

    #[test]
    fn a_watch_stops_at_once() {
        let watch = Watch::start().unwrap();
        assert!(watch.usage().saturated_share() <= 1.0);
        drop(watch);
    }
}
