//! The socket options that no library wraps.
#![allow(
    unsafe_code,
    reason = "SO_MEMINFO, SO_ATTACH_REUSEPORT_CBPF and switching UDP_GRO off have no wrapper"
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

/// Has the kernel choose the socket of a port for each datagram: data packets go to the one whose number is the rest of their
/// destination id by [`LOOPS_MAX`](howdah_proto::endpoint::LOOPS_MAX), and everything else to the first one
/// (`SO_ATTACH_REUSEPORT_CBPF`, Linux only). It takes no rights. A datagram that is too short goes to the first one, too.
#[cfg(target_os = "linux")]
pub(crate) fn steer(socket: BorrowedFd<'_>, sockets: u32) -> std::io::Result<()> {
    use howdah_proto::endpoint::LOOPS_MAX;
    use rustix::fd::AsRawFd;
    // docs/protocol.md, 4.2: the first byte of a data packet, whose lowest bit is the key phase, and where its id ends.
    const DATA: u32 = 0x40;
    const PHASE: u32 = 1;
    const LAST_OF_ID: u32 = 8;
    const _: () = assert!(LOOPS_MAX.is_power_of_two());
    let load = (libc::BPF_LD | libc::BPF_B | libc::BPF_ABS) as u16;
    let and = (libc::BPF_ALU | libc::BPF_AND | libc::BPF_K) as u16;
    let (eq, ge) = (
        (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16,
        (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16,
    );
    let (ret_a, ret_k) = (
        (libc::BPF_RET | libc::BPF_A) as u16,
        (libc::BPF_RET | libc::BPF_K) as u16,
    );
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut program = [
        step(load, 0, 0, 0),
        step(and, 0, 0, !PHASE),
        step(eq, 0, 4, DATA),
        step(load, 0, 0, LAST_OF_ID),
        step(and, 0, 0, LOOPS_MAX as u32 - 1),
        step(ge, 1, 0, sockets),
        step(ret_a, 0, 0, 0),
        step(ret_k, 0, 0, 0),
    ];
    let filter = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: the program and what points to it live through the call, and the length is that of the latter.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_REUSEPORT_CBPF,
            (&raw const filter).cast(),
            size_of_val(&filter) as libc::socklen_t,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(std::io::Error::last_os_error())
    }
}
