//! The receiving process.

use super::{CHUNK, READY, ReceiveReport, cpu_seconds, grow_buffers};
use crate::args::TcpRecvArgs;
use crate::ui;
use anyhow::Context as _;
use std::io::{ErrorKind, Read as _};
use std::net::TcpListener;
use std::time::{Duration, Instant};

const SAMPLE: Duration = Duration::from_millis(100);

/// Reads one connection into nothing until its end or for the given time.
pub(crate) fn receive(args: &TcpRecvArgs) -> anyhow::Result<()> {
    let mut report = ReceiveReport {
        buffer_limit: grow_buffers("tcp_rmem", args.buffer),
        ..Default::default()
    };
    let listener = TcpListener::bind(args.listen)
        .with_context(|| format!("cannot listen on TCP {}", args.listen))?;
    ui::print(READY)?;
    let (mut socket, _) = listener.accept()?;
    let start = Instant::now();
    let (end, cpu) = (start + Duration::from(args.time), cpu_seconds());
    // So that a stalled connection is sampled as well.
    socket.set_read_timeout(Some(SAMPLE / 2))?;
    let mut chunk = vec![0; CHUNK];
    let mut next_sample = start + SAMPLE;
    loop {
        let ended = match socket.read(&mut chunk) {
            Ok(0) => true,
            Ok(n) => {
                report.bytes += n as u64;
                false
            }
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => false,
                ErrorKind::ConnectionReset => true,
                _ => return Err(error).context("cannot read from the TCP connection"),
            },
        };
        let now = Instant::now();
        if now >= next_sample || ended {
            report
                .samples
                .push(((now - start).as_secs_f64(), report.bytes));
            while next_sample <= now {
                next_sample += SAMPLE;
            }
        }
        if ended || now >= end {
            report.seconds = (now - start).as_secs_f64();
            break;
        }
    }
    report.cpu_seconds = cpu_seconds() - cpu;
    ui::print(&serde_json::to_string(&report)?)?;
    Ok(())
}
