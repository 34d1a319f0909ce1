//! Kernel TCP from memory to memory, over one connection or several.

mod receive;
mod report;
mod send;

pub(crate) use receive::accept;
pub use receive::{ReceiveOptions, receive};
pub use report::{ReceiveReport, SendReport, TcpSample};
pub use send::{SendOptions, send};

use crate::LoadError;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

/// Bytes that one system call moves at most.
const CHUNK: usize = 1 << 20;
/// How often the ends look at the connection.
const SAMPLE: Duration = Duration::from_millis(100);

/// Lets the kernel grow the buffers of this namespace's connections to `bytes`; without that, the
/// buffers rather than the congestion control would limit a long fat path. Gives back what holds.
fn grow_buffers(name: &str, bytes: u64) -> u64 {
    let path = format!("/proc/sys/net/ipv4/{name}");
    // Where /proc/sys is read-only the report shows the smaller figure.
    let _ = fs::write(&path, format!("4096 131072 {bytes}"));
    fs::read_to_string(&path)
        .ok()
        .and_then(|text| text.split_whitespace().nth(2)?.parse().ok())
        .unwrap_or(0)
}

/// A connection under that congestion control, which is read back: an unset socket has whatever the
/// kernel's default is.
pub(crate) fn connect(to: SocketAddr, congestion: &str) -> Result<(Socket, String), LoadError> {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP))
        .map_err(LoadError::io("make a TCP socket"))?;
    socket
        .set_tcp_congestion(congestion.as_bytes())
        .map_err(|error| LoadError::NoCongestionControl(congestion.to_owned(), error))?;
    let used = socket
        .tcp_congestion()
        .map_err(LoadError::io("read TCP_CONGESTION"))?;
    let used = String::from_utf8_lossy(&used)
        .trim_end_matches('\0')
        .to_owned();
    if used != congestion {
        return Err(LoadError::OtherCongestionControl {
            asked: congestion.to_owned(),
            used,
        });
    }
    socket
        .connect_timeout(&SockAddr::from(to), Duration::from_secs(10))
        .map_err(LoadError::io(format!("connect to TCP {to}")))?;
    Ok((socket, used))
}
