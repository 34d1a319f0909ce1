//! The sending process.

use super::{CHUNK, SendReport, cpu_seconds, grow_buffers};
use crate::args::TcpSendArgs;
use crate::ui;
use anyhow::{Context as _, ensure};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io::ErrorKind;
use std::time::{Duration, Instant};

/// Sends from memory for the given time, then drops the connection with what is still queued.
pub(crate) fn send(args: &TcpSendArgs) -> anyhow::Result<()> {
    let buffer_limit = grow_buffers("tcp_wmem", args.buffer);
    let socket = Socket::new(
        Domain::for_address(args.to),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    let wanted = &args.congestion;
    socket
        .set_tcp_congestion(wanted.as_bytes())
        .with_context(|| format!("this kernel offers no congestion control '{wanted}'"))?;
    let congestion = socket.tcp_congestion()?;
    let congestion = String::from_utf8_lossy(&congestion)
        .trim_end_matches('\0')
        .to_owned();
    ensure!(
        congestion == *wanted,
        "asked for '{wanted}', the kernel uses '{congestion}'"
    );
    socket
        .connect_timeout(&SockAddr::from(args.to), Duration::from_secs(10))
        .with_context(|| format!("cannot connect to TCP {}", args.to))?;
    // A full send buffer must not keep us beyond the end.
    socket.set_write_timeout(Some(Duration::from_millis(100)))?;
    let chunk = vec![0x5a; CHUNK];
    let (end, cpu) = (Instant::now() + Duration::from(args.time), cpu_seconds());
    while Instant::now() < end {
        if let Err(error) = socket.send(&chunk) {
            match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => {}
                // The receiver's clock was a little faster.
                ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => break,
                _ => return Err(error).context("cannot write to the TCP connection"),
            }
        }
    }
    let report = SendReport {
        congestion,
        cpu_seconds: cpu_seconds() - cpu,
        buffer_limit,
    };
    ui::print(&serde_json::to_string(&report)?)?;
    socket.set_linger(Some(Duration::ZERO))?;
    Ok(())
}
