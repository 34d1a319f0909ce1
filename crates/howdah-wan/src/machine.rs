//! Whether the machine had processor time to spare: `/proc/stat`, sampled.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

const INTERVAL: Duration = Duration::from_millis(250);
/// An interval in which all processors together were this busy counts as saturated.
const SATURATED: f64 = 0.95;

/// What was seen so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Usage {
    intervals: u64,
    saturated: u64,
    all: Sum,
    /// Each processor apart.
    cores: Vec<Sum>,
}

/// Ticks that passed.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    busy: u64,
    stolen: u64,
    total: u64,
}

impl Sum {
    fn add(&mut self, before: Ticks, after: Ticks) {
        self.busy += after.busy.saturating_sub(before.busy);
        self.stolen += after.stolen.saturating_sub(before.stolen);
        self.total += after.total.saturating_sub(before.total);
    }
}

impl Usage {
    /// Share of intervals in which no processor time was left.
    pub(crate) fn saturated_share(&self) -> f64 {
        share(self.saturated, self.intervals)
    }

    /// Share of processor time in use.
    pub(crate) fn busy_share(&self) -> f64 {
        share(self.all.busy, self.all.total)
    }

    /// Share of processor time that the hypervisor gave to others.
    pub(crate) fn stolen_share(&self) -> f64 {
        share(self.all.stolen, self.all.total)
    }

    /// Of each processor: share of its time in use, and share that the hypervisor gave to others.
    pub(crate) fn cores(&self) -> Vec<(f64, f64)> {
        let shares = |sum: &Sum| (share(sum.busy, sum.total), share(sum.stolen, sum.total));
        self.cores.iter().map(shares).collect()
    }
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}

/// Ticks since boot.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Ticks {
    busy: u64,
    stolen: u64,
    total: u64,
}

impl Ticks {
    /// All processors together, then each.
    fn parse(stat: &str) -> Vec<Self> {
        stat.lines()
            .take_while(|line| line.starts_with("cpu"))
            .filter_map(Self::line)
            .collect()
    }

    fn line(line: &str) -> Option<Self> {
        let mut fields = [0u64; 8];
        let mut numbers = line.split_ascii_whitespace().skip(1);
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

    /// `None` if there is nothing to read.
    fn read() -> Option<Vec<Self>> {
        let ticks = Self::parse(&std::fs::read_to_string("/proc/stat").ok()?);
        (!ticks.is_empty()).then_some(ticks)
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
            .clone()
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
        let (mut sums, mut step) = (Vec::new(), Sum::default());
        step.add(last[0], now[0]);
        usage.all.add(last[0], now[0]);
        std::mem::swap(&mut sums, &mut usage.cores);
        // A processor that was switched off or on moves the others: then nobody's share is known.
        if now.len() == last.len() {
            sums.resize_with(now.len() - 1, Sum::default);
            for (sum, (before, after)) in sums.iter_mut().zip(last.iter().zip(&now).skip(1)) {
                sum.add(*before, *after);
            }
        }
        usage.cores = sums;
        if step.total > 0 {
            usage.intervals += 1;
            usage.saturated += u64::from(share(step.busy, step.total) >= SATURATED);
        }
        last = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_all_processors_and_each() {
        let stat = "cpu  10 1 20 900 5 2 3 4 0 0\ncpu0 1 0 0 9 0 0 0 2\nintr 5\n";
        let ticks = |busy, stolen, total| Ticks {
            busy,
            stolen,
            total,
        };
        assert_eq!(Ticks::parse(stat), [ticks(40, 4, 945), ticks(3, 2, 12)]);
        assert_eq!(Ticks::parse("intr 5\n"), []);
    }

    #[test]
    fn a_watch_stops_at_once() {
        let watch = Watch::start().unwrap();
        assert!(watch.usage().saturated_share() <= 1.0);
        drop(watch);
    }
}
