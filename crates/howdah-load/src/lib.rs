//! Real senders and sinks to measure with: kernel TCP with any congestion control, many short flows,
//! constant-rate UDP.
//!
//! Each function here is one end of a flow and runs in a process of its own in its host's
//! namespace, so that its processor time can be told apart. It gives back a report that another
//! process can read.

#![cfg(target_os = "linux")]

pub mod host;
pub mod short_flows;
pub mod stream;
mod sys;
pub mod tcp;

use rustix::time::{ClockId, clock_gettime};
use std::io;

/// First line of output of an end that waits for the other one.
pub const READY: &str = "ready";

/// Why an end gave up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The kernel does not have that congestion control, or does not give it to this user.
    #[error("this kernel offers no congestion control '{0}'")]
    NoCongestionControl(String, #[source] io::Error),
    /// The kernel uses another one.
    #[error("asked for '{asked}', the kernel uses '{used}'")]
    OtherCongestionControl {
        /// What was asked for.
        asked: String,
        /// What `TCP_CONGESTION` says.
        used: String,
    },
    /// A system call.
    #[error("cannot {what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
}

impl LoadError {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}

/// User and system time of this process so far, in seconds.
fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
