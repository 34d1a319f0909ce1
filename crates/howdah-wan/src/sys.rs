//! Every call that the compiler cannot check, in one place.
#![allow(
    unsafe_code,
    reason = "ioctls, pre_exec and socket options without a safe wrapper"
)]

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;

/// `virtio_net_hdr` without the count of merged buffers.
const VNET_HEADER_BYTES: libc::c_int = 10;

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Turns a freshly opened `/dev/net/tun` into the device `name`, in the calling thread's network
/// namespace, without packet information and with the 10-byte `virtio_net_hdr`, little-endian.
pub(crate) fn tun_attach(fd: BorrowedFd<'_>, name: &str) -> io::Result<()> {
    // SAFETY: all-zero bytes are a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    if name.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    let flags = libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
    request.ifr_ifru.ifru_flags = flags as libc::c_short;
    // SAFETY: TUNSETIFF reads and writes one `ifreq`, which lives until the call returns.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETIFF, &raw mut request) })?;
    let header_bytes = VNET_HEADER_BYTES;
    // SAFETY: TUNSETVNETHDRSZ reads one int.
    check(unsafe {
        libc::ioctl(
            fd.as_raw_fd(),
            libc::TUNSETVNETHDRSZ,
            &raw const header_bytes,
        )
    })?;
    let little_endian: libc::c_int = 1;
    // SAFETY: TUNSETVNETLE reads one int.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETVNETLE, &raw const little_endian) })
}

/// Says which super-packets this program is ready to read (`TUN_F_*`).
pub(crate) fn tun_set_offload(fd: BorrowedFd<'_>, flags: libc::c_uint) -> io::Result<()> {
    // SAFETY: TUNSETOFFLOAD takes its argument by value.
    check(unsafe {
        libc::ioctl(
            fd.as_raw_fd(),
            libc::TUNSETOFFLOAD,
            libc::c_ulong::from(flags),
        )
    })
}

/// Sets an integer option of a socket.
pub(crate) fn set_socket_int(
    fd: BorrowedFd<'_>,
    level: libc::c_int,
    option: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    // SAFETY: the option is one int; pointer and length describe `value`.
    check(unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    })
}

/// Makes `command` run in the network namespace behind `namespace`.
pub(crate) fn enter_before_exec(command: &mut Command, namespace: Arc<OwnedFd>) {
    // SAFETY: the closure runs between fork and exec and makes one system call, which is
    // async-signal-safe; it allocates nothing.
    unsafe {
        command.pre_exec(move || check(libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET)));
    }
}

/// Makes the child of `command` join the control group whose `cgroup.procs` this is.
pub(crate) fn join_group_before_exec(command: &mut Command, procs: std::fs::File) {
    // SAFETY: write is async-signal-safe; nothing is allocated. "0" stands for the writing process.
    unsafe {
        command.pre_exec(move || {
            let written = libc::write(procs.as_raw_fd(), c"0".as_ptr().cast(), 1);
            check(written as libc::c_int)
        });
    }
}

/// For a child before it becomes its program: whoever started this process may ignore the terminal's signals (`nohup`, `&` in
/// a script), and what it starts is asked to end by one of them.
fn hear_signals() -> io::Result<()> {
    for signal in [libc::SIGINT, libc::SIGQUIT] {
        // SAFETY: SIG_DFL is a valid disposition and runs no code; `signal` is async-signal-safe.
        if unsafe { libc::signal(signal, libc::SIG_DFL) } == libc::SIG_ERR {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Makes the child of `command` a session of its own, which the terminal's signals do not reach, that
/// dies with the thread that starts it.
pub(crate) fn detach_before_exec(command: &mut Command) {
    // SAFETY: setsid, prctl and signal are async-signal-safe; nothing is allocated.
    unsafe {
        command.pre_exec(|| {
            check(libc::setsid())?;
            check(libc::prctl(
                libc::PR_SET_PDEATHSIG,
                libc::SIGKILL as libc::c_ulong,
            ))?;
            hear_signals()
        });
    }
}

/// Makes the child of `command` die with the thread that starts it, and listen to the terminal's
/// signals even if this process ignores them.
pub(crate) fn tie_before_exec(command: &mut Command) {
    // SAFETY: prctl and signal are async-signal-safe; nothing is allocated.
    unsafe {
        command.pre_exec(|| {
            check(libc::prctl(
                libc::PR_SET_PDEATHSIG,
                libc::SIGKILL as libc::c_ulong,
            ))?;
            hear_signals()
        });
    }
}

/// While it lives, this process ignores the terminal's interrupt and quit, as `system(3)` does:
/// the program in the foreground decides what they mean.
pub(crate) struct IgnoreTerminalSignals([(libc::c_int, libc::sighandler_t); 2]);

impl IgnoreTerminalSignals {
    pub(crate) fn new() -> Self {
        Self([libc::SIGINT, libc::SIGQUIT].map(|signal| {
            // SAFETY: SIG_IGN is a valid disposition and runs no code.
            (signal, unsafe { libc::signal(signal, libc::SIG_IGN) })
        }))
    }
}

impl Drop for IgnoreTerminalSignals {
    fn drop(&mut self) {
        for (signal, before) in self.0 {
            if before != libc::SIG_ERR {
                // SAFETY: puts back the disposition that was in force.
                unsafe { libc::signal(signal, before) };
            }
        }
    }
}

/// Asks for the lowest real-time priority for the calling thread.
///
/// Few and noisy comparisons on a shared 2-core machine, 10 Gbit/s of TCP, p99 of lateness: 0.1 to
/// 0.2 ms against 1.3 to 9 ms at ordinary priority (no loss); 0.3 to 1.8 ms against 1.3 to 11 ms at
/// the highest ordinary priority with 100 us slices (1 % loss), but 14 to 24 ms against 11 to 20 ms
/// without loss. The price: a spinning real-time thread was seen to lose its processor for about
/// 50 ms once a second, so an overrun emulator stalls.
pub(crate) fn make_thread_realtime() -> io::Result<()> {
    // SAFETY: all-zero bytes are a valid `sched_param`.
    let mut parameters: libc::sched_param = unsafe { mem::zeroed() };
    parameters.sched_priority = 1;
    // SAFETY: 0 is the calling thread; the kernel reads one `sched_param`.
    check(unsafe { libc::sched_setscheduler(0, libc::SCHED_RR, &raw const parameters) })
}

/// Memory that programs can have without others' being pushed out; 1 GiB where the kernel does not tell.
pub(crate) fn available_memory_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.map_or(1 << 30, |kib| kib * 1024)
}
