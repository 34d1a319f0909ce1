//! The one system call that no library wraps: how many datagrams a socket dropped.
#![allow(unsafe_code, reason = "getsockopt(SO_MEMINFO) has no wrapper")]

use rustix::fd::BorrowedFd;

/// Datagrams that the kernel dropped since the socket was made, because its receive buffer was
/// full (`SO_MEMINFO`, Linux only).
#[cfg(target_os = "linux")]
pub(crate) fn socket_drops(socket: BorrowedFd<'_>) -> Option<u64> {
    use rustix::fd::AsRawFd;
    // include/uapi/linux/sock_diag.h: SK_MEMINFO_DROPS is the ninth word.
    const WORDS: usize = 9;
    let mut info = [0u32; WORDS];
    let mut len = size_of_val(&info) as libc::socklen_t;
    // SAFETY: `info` and `len` live through the call, and `len` says how large `info` is.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            info.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    (result == 0 && len as usize == size_of_val(&info)).then(|| info[WORDS - 1].into())
}

/// Unknown here.
#[cfg(not(target_os = "linux"))]
pub(crate) fn socket_drops(_socket: BorrowedFd<'_>) -> Option<u64> {
    None
}
