//! The socket options that no library wraps.
#![allow(
    unsafe_code,
    reason = "SO_MEMINFO and switching UDP_GRO off have no wrapper"
)]

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

/// From now on each datagram is handed over by itself (`UDP_GRO` off, Linux only).
#[cfg(target_os = "linux")]
pub(crate) fn receive_one_by_one(socket: BorrowedFd<'_>) -> std::io::Result<()> {
    use rustix::fd::AsRawFd;
    let off: libc::c_int = 0;
    // SAFETY: `off` lives through the call, and the length is its own.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_UDP,
            libc::UDP_GRO,
            (&raw const off).cast(),
            size_of_val(&off) as libc::socklen_t,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(std::io::Error::last_os_error())
    }
}

/// They always are.
#[cfg(not(target_os = "linux"))]
pub(crate) fn receive_one_by_one(_socket: BorrowedFd<'_>) -> std::io::Result<()> {
    Ok(())
}

/// Unknown here.
#[cfg(not(target_os = "linux"))]
pub(crate) fn socket_drops(_socket: BorrowedFd<'_>) -> Option<u64> {
    None
}
