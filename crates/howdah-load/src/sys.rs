//! The one system call that no library wraps: what the kernel knows of a TCP connection.
#![allow(unsafe_code, reason = "getsockopt(TCP_INFO) has no wrapper")]

use std::os::fd::{AsRawFd, BorrowedFd};

/// `TCP_INFO` (tcp(7)). Fields that an older kernel does not know are 0.
pub(crate) fn tcp_info(socket: BorrowedFd<'_>) -> Option<libc::tcp_info> {
    // SAFETY: all-zero bytes are a valid `tcp_info`, which is numbers only.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut len = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: `info` and `len` live through the call, and `len` says how large `info` is.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut len,
        )
    };
    (result == 0).then_some(info)
}
