//! A TUN device that passes super-packets.

use crate::WanError;
use crate::sys;
use rustix::fs::{Mode, OFlags};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Reads and writes packets, each behind a [`VnetHeader`](crate::vnet::VnetHeader).
#[derive(Debug)]
pub(crate) struct Tun {
    fd: OwnedFd,
    udp_offload: bool,
}

impl Tun {
    /// Creates the device in the calling thread's network namespace. It vanishes with this value.
    pub(crate) fn create(name: &str) -> Result<Self, WanError> {
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = rustix::fs::open("/dev/net/tun", flags, Mode::empty())
            .map_err(|error| WanError::NoTun(error.into()))?;
        sys::tun_attach(fd.as_fd(), name)
            .map_err(WanError::system(format!("create the TUN device {name}")))?;
        let tcp = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
        let udp = libc::TUN_F_USO4 | libc::TUN_F_USO6;
        // UDP offload came with Linux 6.2. Without it the kernel cuts UDP super-packets before
        // they get here: the same segments, more system calls.
        let udp_offload = sys::tun_set_offload(fd.as_fd(), tcp | udp).is_ok();
        if !udp_offload {
            sys::tun_set_offload(fd.as_fd(), tcp)
                .map_err(WanError::system("turn on offload for a TUN device"))?;
        }
        Ok(Self { fd, udp_offload })
    }

    /// Whether UDP super-packets pass whole.
    pub(crate) fn udp_offload(&self) -> bool {
        self.udp_offload
    }

    /// One packet that the namespace sent; `None` if there is none.
    pub(crate) fn read(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            match rustix::io::read(&self.fd, &mut *buffer) {
                Ok(len) => return Ok(Some(len)),
                Err(rustix::io::Errno::AGAIN) => return Ok(None),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Gives the namespace one packet, which is `head` followed by `rest`.
    pub(crate) fn write(&self, head: &[u8], rest: &[u8]) -> io::Result<()> {
        loop {
            let result = if rest.is_empty() {
                rustix::io::write(&self.fd, head)
            } else {
                rustix::io::writev(&self.fd, &[IoSlice::new(head), IoSlice::new(rest)])
            };
            match result {
                Ok(_) => return Ok(()),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
