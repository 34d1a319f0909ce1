//! Plain kernel TCP from memory to memory: what `howdah demo` compares with.
//!
//! Each end is a process of its own in the namespace of its host, so that its CPU time can be told
//! apart. It prints one JSON object at the end.

mod receive;
mod report;
mod send;

pub(crate) use receive::receive;
pub(crate) use report::{ReceiveReport, SendReport};
pub(crate) use send::send;

use rustix::time::{ClockId, clock_gettime};
use std::fs;

/// Bytes that one system call moves at most.
const CHUNK: usize = 1 << 20;

/// First line of the receiver's output.
pub(crate) const READY: &str = "ready";

/// User and system time of this process so far, in seconds.
fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Lets the kernel grow the buffers of this namespace's connections to `bytes`; without that, the
/// buffers rather than the congestion control would limit a long fat path. Gives back what holds.
fn grow_buffers(name: &str, bytes: u64) -> u64 {
    let path = format!("/proc/sys/net/ipv4/{name}");
    // Where /proc/sys is read-only the report shows the smaller figure.
    let _ = fs::write(&path, format!("4096 131072 {bytes}"));
    fs::read_to_string(&path)
        .ok()
        .and_then(|text| text.split_whitespace().nth(2)?.parse().ok())
        .unwrap_or(0)
}
