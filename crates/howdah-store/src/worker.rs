//! Threads that work beside the engine's own.

use crate::threads;
use std::io;
use std::thread::JoinHandle;

/// How much they step back, on the scale of `nice`.
#[cfg(target_os = "linux")]
const NICE: i32 = 10;
/// The end of that scale.
#[cfg(target_os = "linux")]
const LEAST: i32 = 19;

/// Starts a thread that gives way to the engine's.
///
/// Where processors are few, a thread that hashes or writes would keep the engine from its socket
/// for milliseconds, the socket would overflow, and the sender would take that for a full path. The
/// other way round nothing is lost: a sink that falls behind says so and the sender waits.
pub fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    threads::start(name, move || {
        step_back();
        work()
    })
}

/// Best effort: work that is not niced is as right as work that is.
fn step_back() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{getpriority_process, setpriority_process};
        // On Linux a priority belongs to a thread (sched(7)).
        let thread = Some(rustix::thread::gettid());
        let before = getpriority_process(thread).unwrap_or(0);
        let _ = setpriority_process(thread, (before + NICE).min(LEAST));
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #[test]
    fn a_worker_steps_back_and_its_maker_does_not() {
        let thread = || Some(rustix::thread::gettid());
        let mine = move || rustix::process::getpriority_process(thread()).unwrap_or(i32::MAX);
        let before = mine();
        let theirs = super::spawn("test", mine).unwrap().join().unwrap();
        let least = before == super::LEAST;
        assert!(theirs > before || least, "{theirs} {before}");
        assert_eq!(mine(), before);
    }
}
