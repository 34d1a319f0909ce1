//! Standard streams that are closed or full: what was to be said there is not lost without a word.

use std::io::{self, Write as _};
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

/// Which of the descriptors 0, 1 and 2 were closed when the program was started. Before `main` begins, Rust opens
/// /dev/null in their places, which takes everything and gives nothing.
static CLOSED: AtomicU8 = AtomicU8::new(0);

/// The first failure of writing to standard output.
static TROUBLE: Mutex<Option<io::Error>> = Mutex::new(None);

#[cfg(target_os = "linux")]
mod early {
    #![expect(
        unsafe_code,
        reason = "only what runs before main can see that a descriptor is closed"
    )]

    use super::{CLOSED, Ordering};
    use rustix::fd::BorrowedFd;

    extern "C" fn look() {
        for fd in 0..3u8 {
            // SAFETY: the borrowed number is given to one system call that says whether it is open.
            let open = rustix::io::fcntl_getfd(unsafe { BorrowedFd::borrow_raw(i32::from(fd)) });
            if open == Err(rustix::io::Errno::BADF) {
                CLOSED.fetch_or(1 << fd, Ordering::Relaxed);
            }
        }
    }

    // SAFETY: the loader calls each function in this section once, before main, when nothing else runs; this one
    // needs nothing that is set up later: no memory, no thread, no standard stream.
    #[used]
    #[unsafe(link_section = ".init_array")]
    static LOOK: extern "C" fn() = look;
}

fn is_closed(fd: u8) -> bool {
    CLOSED.load(Ordering::Relaxed) & 1 << fd != 0
}

/// An error if standard input was closed from the beginning.
pub(crate) fn check_input() -> io::Result<()> {
    if is_closed(0) {
        return Err(io::Error::other("standard input is closed"));
    }
    Ok(())
}

/// An error if standard output was closed from the beginning.
pub(crate) fn check_output() -> io::Result<()> {
    if is_closed(1) {
        return Err(io::Error::other("standard output is closed"));
    }
    Ok(())
}

/// Called whenever so much more was printed.
static EACH: OnceLock<fn()> = OnceLock::new();
const SO_MUCH: usize = 4 << 20;
static PRINTED: AtomicUsize = AtomicUsize::new(0);

/// Has that called after each 4 MiB that are printed.
#[cfg(target_os = "linux")]
pub(crate) fn after_much(then: fn()) {
    // The first one stays.
    let _ = EACH.set(then);
}

fn count(bytes: usize) {
    let before = PRINTED.fetch_add(bytes, Ordering::Relaxed);
    if let Some(then) = EACH.get()
        && before / SO_MUCH != before.wrapping_add(bytes) / SO_MUCH
    {
        then();
    }
}

/// A line on standard output. What cannot be written is remembered, whether or not the caller cares.
pub(crate) fn print(line: &str) -> io::Result<()> {
    let written = check_output().and_then(|()| {
        let mut out = io::stdout().lock();
        writeln!(out, "{line}")?;
        out.flush()
    });
    count(line.len() + 1);
    written.map_err(|error| {
        let again = io::Error::new(error.kind(), error.to_string());
        let mut trouble = TROUBLE
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        trouble.get_or_insert(again);
        let text = format!("cannot write to standard output: {error}");
        io::Error::new(error.kind(), text)
    })
}

/// What could not be written to standard output, if that is a failure: a reader that has seen enough is none.
pub(crate) fn trouble() -> Option<anyhow::Error> {
    let mut trouble = TROUBLE
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let error = trouble
        .take()
        .filter(|error| error.kind() != io::ErrorKind::BrokenPipe)?;
    Some(anyhow::anyhow!(
        "cannot write to standard output: {error}; what was to be written there is lost"
    ))
}
