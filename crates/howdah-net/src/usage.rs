//! What this process has used.

use howdah_core::Span;
use rustix::time::{ClockId, clock_gettime};
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::OnceLock;

/// CPU time and memory of this process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// User and system time, in seconds.
    pub cpu_seconds: f64,
    /// Peak resident set, in bytes; 0 where it is not known.
    pub peak_rss_bytes: u64,
}

/// What this process has used since it began.
pub fn usage() -> Usage {
    let cpu = clock_gettime(ClockId::ProcessCPUTime);
    Usage {
        cpu_seconds: cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9,
        peak_rss_bytes: peak_rss().unwrap_or(0),
    }
}

/// CPU time of the calling thread.
pub fn thread_cpu() -> Span {
    let cpu = clock_gettime(ClockId::ThreadCPUTime);
    Span::from_nanos(cpu.tv_sec as u64 * 1_000_000_000 + cpu.tv_nsec as u64)
}

/// How busy the processors of this machine are, whoever uses them (Linux: `/proc/stat`).
#[derive(Clone, Copy, Debug, Default)]
pub struct MachineLoad {
    /// Ticks so far: not idle, and all.
    before: Option<(u64, u64)>,
}

impl MachineLoad {
    /// Share of all processors' time that was used since the last call; `None` the first time, and
    /// where it is not known.
    pub fn take_busy_share(&mut self) -> Option<f64> {
        let now = read_ticks()?;
        let (busy, all) = self.before.replace(now)?;
        let all = now.1.saturating_sub(all);
        (all > 0).then(|| now.0.saturating_sub(busy) as f64 / all as f64)
    }
}

fn read_ticks() -> Option<(u64, u64)> {
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    // user nice system idle iowait irq softirq steal (proc(5)).
    let fields: Vec<u64> = text
        .lines()
        .next()?
        .split_whitespace()
        .skip(1)
        .take(8)
        .map(str::parse)
        .collect::<Result<_, _>>()
        .ok()?;
    let all: u64 = fields.iter().sum();
    let idle = fields.get(3)? + fields.get(4)?;
    Some((all.saturating_sub(idle), all))
}

/// Opened once: a thread that opens no files may ask, too.
fn peak_rss() -> Option<u64> {
    static STATUS: OnceLock<Option<File>> = OnceLock::new();
    let file = STATUS.get_or_init(|| File::open("/proc/self/status").ok());
    let mut text = [0; 4_096];
    let len = file.as_ref()?.read_at(&mut text, 0).ok()?;
    let status = str::from_utf8(text.get(..len)?).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_costs_time_and_memory() {
        let before = usage();
        let block = std::hint::black_box(vec![1u8; 32 << 20]);
        let sum: u64 = block.iter().map(|&b| u64::from(b)).sum();
        assert_eq!(std::hint::black_box(sum), 32 << 20);
        let after = usage();
        assert!(after.cpu_seconds > before.cpu_seconds);
        if cfg!(target_os = "linux") {
            assert!(after.peak_rss_bytes > 32 << 20);
        }
    }
}
