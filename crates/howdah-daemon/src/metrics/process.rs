//! What every process tells of itself, by the names that Prometheus' own clients use.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use rustix::time::{ClockId, clock_gettime};
use std::fmt;
use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

/// This process. What the system does not tell, as in a sandbox, is left out.
#[derive(Debug)]
pub struct Process {
    started: f64,
}

impl Process {
    /// It begins now.
    pub fn new() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            started: since.map_or(0.0, |since| since.as_secs_f64()),
        }
    }
}

impl Default for Process {
    fn default() -> Self {
        Self::new()
    }
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        let cpu = ConstCounter::new(time.tv_sec as f64 + time.tv_nsec as f64 / 1e9);
        let help = "CPU time of this process, user and system";
        cpu.encode(encoder.encode_descriptor(
            "process_cpu_seconds",
            help,
            None,
            cpu.metric_type(),
        )?)?;
        let mut gauge = |name: &str, help: &str, value: f64| {
            let value = ConstGauge::new(value);
            value.encode(encoder.encode_descriptor(name, help, None, value.metric_type())?)
        };
        gauge(
            "process_start_time_seconds",
            "When this process began, in seconds since 1970",
            self.started,
        )?;
        if let Some(bytes) = resident_bytes() {
            let help = "Memory that this process has";
            gauge("process_resident_memory_bytes", help, bytes as f64)?;
        }
        if let Ok(open) = fs::read_dir("/proc/self/fd") {
            gauge(
                "process_open_fds",
                "Files that this process has open",
                open.count() as f64,
            )?;
        }
        Ok(())
    }
}

fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib << 10)
}
