//! Descriptors that whoever starts a server leaves open in it: whoever takes it over by a fault of ours could use them, and who
//! waits for the end of such a pipe would wait for that of the server.
#![allow(
    unsafe_code,
    reason = "only whoever knows that a descriptor is nobody's may close it by its number"
)]

use rustix::fd::BorrowedFd;
use std::ffi::OsStr;

/// The first that is no standard stream, and the first that a service manager hands over (`sd_listen_fds(3)`).
const FIRST: i32 = 3;

/// Closes what is neither a standard stream nor handed over, nor named by an argument (`--identity <(...)` of a shell). Comes
/// before this process has opened anything that it keeps.
pub(crate) fn close() {
    // What is no number of descriptors hands none over.
    let handed = std::env::var("LISTEN_FDS").ok();
    let handed: u16 = handed.and_then(|count| count.parse().ok()).unwrap_or(0);
    let named: Vec<i32> = std::env::args_os().filter_map(|arg| named(&arg)).collect();
    let Ok(open) = std::fs::read_dir("/proc/self/fd") else {
        return;
    };
    let open: Vec<i32> = open
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    for fd in open {
        if fd < FIRST + i32::from(handed) || named.contains(&fd) {
            continue;
        }
        // SAFETY: the borrowed number is given to one system call that says whether it is open: that of the list is not any more.
        if rustix::io::fcntl_getfd(unsafe { BorrowedFd::borrow_raw(fd) }).is_ok() {
            // SAFETY: nothing here owns it yet.
            unsafe { rustix::io::close(fd) };
        }
    }
}

/// Which descriptor an argument names: at its end, also of `--identity=/dev/fd/63`.
fn named(arg: &OsStr) -> Option<i32> {
    let arg = arg.to_str()?;
    let number = ["/dev/fd/", "/proc/self/fd/"]
        .iter()
        .find_map(|place| arg.rsplit_once(place))?
        .1;
    number.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_name_descriptors() {
        let number = |arg: &str| named(OsStr::new(arg));
        assert_eq!(number("/dev/fd/63"), Some(63));
        assert_eq!(number("--identity=/proc/self/fd/5"), Some(5));
        assert_eq!(number("/dev/fd/x"), None);
        assert_eq!(number("63"), None);
    }
}
