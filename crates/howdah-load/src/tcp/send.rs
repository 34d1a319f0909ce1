//! The sending end.

use super::{CHUNK, SAMPLE, SendReport, TcpSample, connect, grow_buffers};
use crate::{LoadError, cpu_seconds, sys};
use howdah_core::Span;
use socket2::Socket;
use std::io::ErrorKind;
use std::mem::MaybeUninit;
use std::net::{Shutdown, SocketAddr};
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// What to send.
#[derive(Clone, Debug)]
pub struct SendOptions {
    /// Receiver.
    pub to: SocketAddr,
    /// Connections that share the work.
    pub streams: u32,
    /// How long to send; the most for a sized transfer.
    pub time: Span,
    /// Bytes to send, all connections together; `None` sends as much as the time allows.
    pub size_bytes: Option<u64>,
    /// Kernel congestion control.
    pub congestion: String,
    /// Largest send buffer that the kernel may grow to, in bytes.
    pub buffer_bytes: u64,
}

/// Sends from memory, then drops the connections with what is still queued; a sized transfer ends when the
/// receiver has taken everything.
pub fn send(options: &SendOptions, stop: &AtomicBool) -> Result<SendReport, LoadError> {
    let mut report = SendReport {
        buffer_limit: grow_buffers("tcp_wmem", options.buffer_bytes),
        ..SendReport::default()
    };
    let mut sockets = Vec::new();
    for _ in 0..options.streams.max(1) {
        let (socket, congestion) = connect(options.to, &options.congestion)?;
        report.congestion = congestion;
        sockets.push(socket);
    }
    let (start, cpu) = (Instant::now(), cpu_seconds());
    let end = start + Duration::from(options.time);
    let (sent, running) = (AtomicU64::new(0), AtomicUsize::new(sockets.len()));
    let over = AtomicBool::new(false);
    let mut error = None;
    std::thread::scope(|scope| {
        let streams = sockets.len() as u64;
        let (sent, running, over) = (&sent, &running, &over);
        let writers: Vec<_> = (0_u64..)
            .zip(&sockets)
            .map(|(index, socket)| {
                // The last one takes what does not divide.
                let share = options.size_bytes.map(|size| {
                    size / streams
                        + if index + 1 == streams {
                            size % streams
                        } else {
                            0
                        }
                });
                scope.spawn(move || {
                    let result = write(socket, share, sent, over);
                    running.fetch_sub(1, Ordering::Release);
                    result
                })
            })
            .collect();
        let mut next_sample = start + SAMPLE;
        while running.load(Ordering::Acquire) > 0 {
            let now = Instant::now();
            if now >= end || stop.load(Ordering::Relaxed) {
                over.store(true, Ordering::Relaxed);
            }
            if now >= next_sample {
                report.samples.push(sample(&sockets, start));
                while next_sample <= now {
                    next_sample += SAMPLE;
                }
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        report.seconds = start.elapsed().as_secs_f64();
        for writer in writers {
            if let Ok(Err(failure)) = writer.join() {
                error.get_or_insert(failure);
            }
        }
    });
    if let Some(error) = error {
        return Err(error);
    }
    let last = sample(&sockets, start);
    report.retransmitted_segments = last.retransmitted_segments;
    report.samples.push(last);
    report.mss_bytes = sockets
        .first()
        .and_then(|socket| sys::tcp_info(socket.as_fd()))
        .map_or(0, |info| info.tcpi_snd_mss);
    report.bytes = sent.load(Ordering::Relaxed);
    report.cpu_seconds = cpu_seconds() - cpu;
    for socket in sockets {
        let _ = socket.set_linger(Some(Duration::ZERO));
    }
    Ok(report)
}

/// Writes until the share is taken, the time is over, or the other end is gone.
fn write(
    socket: &Socket,
    share: Option<u64>,
    sent: &AtomicU64,
    over: &AtomicBool,
) -> Result<(), LoadError> {
    // A full send buffer must not keep us beyond the end.
    let timeouts = socket
        .set_write_timeout(Some(SAMPLE))
        .and_then(|()| socket.set_read_timeout(Some(SAMPLE)));
    timeouts.map_err(LoadError::io("set up the TCP connection"))?;
    let chunk = vec![0x5a; CHUNK];
    let mut left = share.unwrap_or(u64::MAX);
    while left > 0 && !over.load(Ordering::Relaxed) {
        let part = left.min(CHUNK as u64) as usize;
        match socket.send(&chunk[..part]) {
            Ok(n) => {
                left -= n as u64;
                sent.fetch_add(n as u64, Ordering::Relaxed);
            }
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => {}
                // The receiver's clock was a little faster.
                ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => return Ok(()),
                _ => return Err(LoadError::io("write to the TCP connection")(error)),
            },
        }
    }
    if share.is_some() && left == 0 {
        wait_until_taken(socket, over)?;
    }
    Ok(())
}

/// Says that no more comes, and waits until the receiver, which has then read everything, says the same.
pub(crate) fn wait_until_taken(socket: &Socket, over: &AtomicBool) -> Result<(), LoadError> {
    let failed = || LoadError::io("end the TCP connection");
    socket.shutdown(Shutdown::Write).map_err(failed())?;
    let mut byte = [MaybeUninit::uninit(); 1];
    while !over.load(Ordering::Relaxed) {
        match socket.recv(&mut byte) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => {}
                ErrorKind::ConnectionReset => return Ok(()),
                _ => return Err(failed()(error)),
            },
        }
    }
    Ok(())
}

fn sample(sockets: &[Socket], start: Instant) -> TcpSample {
    let mut sum = TcpSample {
        t_s: start.elapsed().as_secs_f64(),
        ..TcpSample::default()
    };
    for socket in sockets {
        let Some(info) = sys::tcp_info(socket.as_fd()) else {
            continue;
        };
        let mss = u64::from(info.tcpi_snd_mss);
        sum.cwnd_bytes += u64::from(info.tcpi_snd_cwnd) * mss;
        sum.in_flight_bytes += u64::from(info.tcpi_unacked) * mss;
        sum.srtt_ms += f64::from(info.tcpi_rtt) / 1e3 / sockets.len() as f64;
        sum.retransmitted_segments += u64::from(info.tcpi_total_retrans);
    }
    sum
}
