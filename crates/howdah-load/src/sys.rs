//! System calls that no library wraps: what the kernel knows of a TCP connection, and datagrams that it cuts out of one call.
#![allow(
    unsafe_code,
    reason = "getsockopt(TCP_INFO) and setsockopt(UDP_SEGMENT) have no wrapper"
)]

use rustix::net::{RecvFlags, recv};
use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, BorrowedFd};

/// From now on each call sends datagrams of so many bytes (udp(7), `UDP_SEGMENT`).
pub(crate) fn segment(socket: &UdpSocket, bytes: u16) -> io::Result<()> {
    let bytes = libc::c_int::from(bytes);
    // SAFETY: `bytes` lives through the call, and the length is its size.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_UDP,
            libc::UDP_SEGMENT,
            (&raw const bytes).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Takes in a datagram if one is there.
pub(crate) fn receive_now(socket: &UdpSocket, buffer: &mut [u8]) -> bool {
    recv(socket, buffer, RecvFlags::DONTWAIT).is_ok()
}

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
