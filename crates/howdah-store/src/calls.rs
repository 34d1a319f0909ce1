//! Calls of the system that a signal may interrupt.

use rustix::io::Errno;

/// Repeats a call that a signal interrupted.
pub fn retry<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    howdah_core::may_wait();
    loop {
        match call() {
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}
