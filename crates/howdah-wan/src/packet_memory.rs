//! Memory in which the kernel keeps packets, used once before the first of them comes.
//!
//! A virtual machine may have given free memory back to its host (free page reporting, balloons). The first to write to it waits for the
//! host, page by page: a sender's calls then copy at 3 Gbit/s for as long as the kernel takes memory that it has not used lately,
//! which looks like a slow network.

use crate::sys;
use std::io::{ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Instant;

/// Room that is asked for in a socket.
const ROOM_BYTES: libc::c_int = 1 << 29;
/// Without the right to that much, a socket has some hundred KiB; more of them than these are not made.
const MAX_PAIRS: usize = 64;
static PIECE: [u8; 1 << 16] = [0; 1 << 16];

/// What was written to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PacketMemory {
    /// Less than what was asked for where the kernel gave no more.
    pub(crate) bytes: u64,
    /// How long it took, in seconds: 0.14 for 768 MiB that are there; 0.6 was seen where the host had to find some of them.
    pub(crate) seconds: f64,
}

impl PacketMemory {
    /// Fills sockets that nobody reads with `bytes` in all, and closes them: what comes next gets that memory.
    pub(crate) fn touch(bytes: u64) -> Self {
        let began = Instant::now();
        let mut pairs = Vec::new();
        let mut written = 0;
        while written < bytes && pairs.len() < MAX_PAIRS {
            let Ok(pair) = UnixStream::pair() else { break };
            if pair.0.set_nonblocking(true).is_err() {
                break;
            }
            // Refused without the right to it, and then it is what it is.
            let _ = sys::set_socket_int(
                pair.0.as_fd(),
                libc::SOL_SOCKET,
                libc::SO_SNDBUFFORCE,
                ROOM_BYTES,
            );
            written += fill(&pair.0, bytes - written);
            pairs.push(pair);
        }
        drop(pairs);
        Self {
            bytes: written,
            seconds: began.elapsed().as_secs_f64(),
        }
    }
}

/// Writes until `bytes` are written or the socket takes no more; returns how many it took.
fn fill(mut socket: &UnixStream, bytes: u64) -> u64 {
    let mut written = 0;
    while written < bytes {
        let wanted = PIECE.len().min((bytes - written) as usize);
        match socket.write(&PIECE[..wanted]) {
            Ok(taken) if taken > 0 => written += taken as u64,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            _ => break,
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_much_is_written_as_was_asked_for() {
        // As much as 64 sockets take without any right.
        let touched = PacketMemory::touch(4 << 20);
        assert_eq!(touched.bytes, 4 << 20);
        assert!(touched.seconds > 0.0);
        assert_eq!(PacketMemory::touch(0).bytes, 0);
    }
}
