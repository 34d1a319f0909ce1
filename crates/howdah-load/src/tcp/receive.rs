//! The receiving end.

use super::{CHUNK, ReceiveReport, SAMPLE, grow_buffers};
use crate::{LoadError, cpu_seconds};
use howdah_core::Span;
use std::io::{ErrorKind, Read as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// What to receive.
#[derive(Clone, Debug)]
pub struct ReceiveOptions {
    /// Address and port.
    pub listen: SocketAddr,
    /// Connections that belong to the flow.
    pub streams: u32,
    /// How long to receive, from the first connection.
    pub time: Span,
    /// Largest receive buffer that the kernel may grow to, in bytes.
    pub buffer_bytes: u64,
}

/// Reads the connections into nothing until all have ended, the time is over or `stop` is set. `ready` is called
/// when the sender may come.
pub fn receive(
    options: &ReceiveOptions,
    stop: &AtomicBool,
    ready: impl FnOnce(),
) -> Result<ReceiveReport, LoadError> {
    let mut report = ReceiveReport {
        buffer_limit: grow_buffers("tcp_rmem", options.buffer_bytes),
        ..ReceiveReport::default()
    };
    let listen = options.listen;
    let listener =
        TcpListener::bind(listen).map_err(LoadError::io(format!("listen on TCP {listen}")))?;
    ready();
    let Some(first) = accept(&listener, stop)? else {
        return Ok(report);
    };
    let (start, cpu) = (Instant::now(), cpu_seconds());
    let end = start + Duration::from(options.time);
    let (bytes, open) = (AtomicU64::new(0), AtomicUsize::new(1));
    let over = AtomicBool::new(false);
    let mut error = None;
    std::thread::scope(|scope| {
        let read = |socket: TcpStream| {
            let ended = drain(socket, &bytes, &over);
            open.fetch_sub(1, Ordering::Release);
            ended
        };
        let mut readers = vec![scope.spawn(move || read(first))];
        for _ in 1..options.streams {
            match accept(&listener, stop) {
                Ok(Some(socket)) => {
                    open.fetch_add(1, Ordering::Relaxed);
                    readers.push(scope.spawn(move || read(socket)));
                }
                Ok(None) => break,
                Err(failure) => {
                    error = Some(failure);
                    break;
                }
            }
        }
        let mut next_sample = start + SAMPLE;
        while error.is_none() && open.load(Ordering::Acquire) > 0 {
            let now = Instant::now();
            if now >= end || stop.load(Ordering::Relaxed) {
                break;
            }
            if now >= next_sample {
                let so_far = bytes.load(Ordering::Relaxed);
                report.samples.push(((now - start).as_secs_f64(), so_far));
                while next_sample <= now {
                    next_sample += SAMPLE;
                }
            }
            // A sized transfer's end is seen at once.
            std::thread::sleep(Duration::from_millis(2).min(next_sample - now));
        }
        report.seconds = start.elapsed().as_secs_f64();
        report.bytes = bytes.load(Ordering::Relaxed);
        over.store(true, Ordering::Relaxed);
        for reader in readers {
            if let Ok(Err(failure)) = reader.join() {
                error.get_or_insert(failure);
            }
        }
    });
    if let Some(error) = error {
        return Err(error);
    }
    report.samples.push((report.seconds, report.bytes));
    report.cpu_seconds = cpu_seconds() - cpu;
    Ok(report)
}

/// Waits for a connection; `None` if it is told to stop first.
pub(crate) fn accept(
    listener: &TcpListener,
    stop: &AtomicBool,
) -> Result<Option<TcpStream>, LoadError> {
    let failed = || LoadError::io("accept a TCP connection");
    listener.set_nonblocking(true).map_err(failed())?;
    loop {
        match listener.accept() {
            Ok((socket, _)) => {
                socket.set_nonblocking(false).map_err(failed())?;
                return Ok(Some(socket));
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if stop.load(Ordering::Relaxed) {
                    return Ok(None);
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(failed()(error)),
        }
    }
}

fn drain(mut socket: TcpStream, bytes: &AtomicU64, over: &AtomicBool) -> Result<(), LoadError> {
    let failed = || LoadError::io("read from the TCP connection");
    // So that a stalled connection hears of the end as well.
    socket
        .set_read_timeout(Some(SAMPLE / 2))
        .map_err(failed())?;
    let mut chunk = vec![0; CHUNK];
    while !over.load(Ordering::Relaxed) {
        match socket.read(&mut chunk) {
            Ok(0) => return Ok(()),
            Ok(n) => {
                bytes.fetch_add(n as u64, Ordering::Relaxed);
            }
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => {}
                ErrorKind::ConnectionReset => return Ok(()),
                _ => return Err(failed()(error)),
            },
        }
    }
    Ok(())
}
