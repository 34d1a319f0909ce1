//! What the work of this process stands on: the stack of its first thread is as long as whoever started it lets it be (`ulimit -s`).

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::process::ExitCode;

/// The command line alone takes a hundred KiB, and more in a build without optimisation.
const LEAST: u64 = 1 << 20;
/// As long as it is where nobody says otherwise.
const USUAL: u64 = 8 << 20;

/// Does `work` where there is room for it.
pub(crate) fn with_enough(work: fn() -> ExitCode) -> ExitCode {
    let limit = getrlimit(Resource::Stack);
    let is_enough = |limit: Rlimit| limit.current.is_none_or(|bytes| bytes >= LEAST);
    // On Linux that of the first thread grows as far as the limit of the moment goes.
    let raise = |maximum: Option<u64>| {
        let raised = Rlimit {
            current: Some(maximum.map_or(USUAL, |most| most.min(USUAL))),
            maximum,
        };
        is_enough(raised) && setrlimit(Resource::Stack, raised).is_ok()
    };
    let grows = cfg!(target_os = "linux");
    let of_root = limit.maximum.map(|most| most.max(USUAL));
    if is_enough(limit) || grows && (raise(limit.maximum) || raise(of_root)) {
        return work();
    }
    beside(work)
}

/// Does it on a thread, whose stack is as long as it is asked to be. Others (`unshare` of users, Landlock) want a process of one
/// thread, which is why not everything is done so.
fn beside(work: fn() -> ExitCode) -> ExitCode {
    /// As of a program that panics.
    const PANICKED: u8 = 101;
    let thread = std::thread::Builder::new()
        .name("main".to_owned())
        .stack_size(USUAL as usize);
    match thread.spawn(work) {
        Ok(thread) => thread.join().unwrap_or_else(|_| ExitCode::from(PANICKED)),
        // It may be enough for what is asked.
        Err(_) => work(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// More than any thread has that does not ask for it.
    fn deep() -> ExitCode {
        #[inline(never)]
        fn down(left: usize) -> usize {
            let part = std::hint::black_box([left; 1_024]);
            if left == 0 {
                part[0]
            } else {
                down(left - 1) + part[1_023]
            }
        }
        // 2.4 MiB, and not more than three times that where nothing is optimised.
        assert_eq!(down(300), 45_150);
        ExitCode::from(3)
    }

    #[test]
    fn a_thread_beside_has_all_that_is_usual() {
        assert_eq!(
            format!("{:?}", beside(deep)),
            format!("{:?}", ExitCode::from(3))
        );
    }
}
