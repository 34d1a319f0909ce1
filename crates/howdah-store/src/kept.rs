//! Directories that nothing is read from or written to by this process, whatever names, links and races lead there: each
//! descriptor that is opened is asked where it lies.

use rustix::fd::AsFd;
use rustix::io::Errno;
use std::path::PathBuf;
use std::sync::OnceLock;

static KEPT: OnceLock<Vec<PathBuf>> = OnceLock::new();

/// Keeps this process out of these directories, and all below them, for good; real paths, without links. What lies there
/// cannot be opened any more by what copies and compares (`EACCES`). The first call counts. It needs `/proc`.
#[cfg(target_os = "linux")]
pub fn keep_out_of(directories: Vec<PathBuf>) {
    let _ = KEPT.set(directories);
}

/// What was opened, unless it lies there.
#[cfg(target_os = "linux")]
pub(crate) fn outside<T: AsFd>(fd: T) -> Result<T, Errno> {
    use rustix::fd::AsRawFd as _;
    let Some(kept) = KEPT.get().filter(|kept| !kept.is_empty()) else {
        return Ok(fd);
    };
    let number = fd.as_fd().as_raw_fd();
    match std::fs::read_link(format!("/proc/self/fd/{number}")) {
        Ok(real) if !kept.iter().any(|dir| real.starts_with(dir)) => Ok(fd),
        // Where nobody can say where it lies it may lie there.
        _ => Err(Errno::ACCESS),
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn outside<T: AsFd>(fd: T) -> Result<T, Errno> {
    let _ = &KEPT;
    Ok(fd)
}
