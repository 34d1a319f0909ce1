//! Many short flows of kernel TCP, each with a connection of its own.

use crate::LoadError;
use crate::tcp::connect;
use serde::{Deserialize, Serialize};
use socket2::Socket;
use std::io::{ErrorKind, Read as _};
use std::mem::MaybeUninit;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Flows under way at once: more would need more threads than a small machine likes.
const MOST_AT_ONCE: usize = 2000;
/// How often a waiting thread looks whether it is over.
const LOOK: Duration = Duration::from_millis(50);

/// One flow.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct ShortFlow {
    /// Start, in nanoseconds from the beginning.
    pub start_ns: u64,
    /// Bytes to carry.
    pub size_bytes: u64,
}

/// What became of them.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct ShortReport {
    /// Congestion control, read back.
    pub congestion: String,
    /// Flows started.
    pub started: u64,
    /// Flows that could not start because too many were under way, or could not connect.
    pub refused: u64,
    /// Bytes, and seconds from the start to the moment when the receiver had taken all, of each flow that finished.
    pub finished: Vec<(u64, f64)>,
}

/// Starts each flow at its time; ends when all have finished or `stop` is set. A flow's time counts from its planned
/// start, so a late thread makes it longer, not shorter.
pub fn send(
    to: SocketAddr,
    congestion: &str,
    flows: &[ShortFlow],
    stop: &AtomicBool,
) -> Result<ShortReport, LoadError> {
    // Whether the kernel has it at all is known before the first flow.
    let (socket, used) = connect(to, congestion)?;
    drop(socket);
    let begin = Instant::now();
    let finished = Mutex::new(Vec::new());
    let (running, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let mut started = 0;
    std::thread::scope(|scope| {
        for flow in flows {
            let at = begin + Duration::from_nanos(flow.start_ns);
            while !stop.load(Ordering::Relaxed) && Instant::now() < at {
                std::thread::sleep(LOOK.min(at.saturating_duration_since(Instant::now())));
            }
            if stop.load(Ordering::Relaxed) {
                break;
            }
            started += 1;
            if running.load(Ordering::Relaxed) >= MOST_AT_ONCE {
                refused.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            running.fetch_add(1, Ordering::Relaxed);
            let (finished, running, refused) = (&finished, &running, &refused);
            scope.spawn(move || {
                match carry(to, congestion, flow.size_bytes, stop) {
                    Ok(true) => {
                        let took = at.elapsed().as_secs_f64();
                        let mut finished = finished
                            .lock()
                            .unwrap_or_else(std::sync::PoisonError::into_inner);
                        finished.push((flow.size_bytes, took));
                    }
                    Ok(false) => {}
                    Err(_) => {
                        refused.fetch_add(1, Ordering::Relaxed);
                    }
                }
                running.fetch_sub(1, Ordering::Relaxed);
            });
        }
    });
    Ok(ShortReport {
        congestion: used,
        started,
        refused: refused.into_inner() as u64,
        finished: finished
            .into_inner()
            .unwrap_or_else(std::sync::PoisonError::into_inner),
    })
}

/// Whether all bytes were taken before `stop`.
fn carry(
    to: SocketAddr,
    congestion: &str,
    size_bytes: u64,
    stop: &AtomicBool,
) -> Result<bool, LoadError> {
    let failed = || LoadError::io("carry a short flow");
    let (socket, _) = connect(to, congestion)?;
    let timeouts = socket
        .set_write_timeout(Some(LOOK))
        .and_then(|()| socket.set_read_timeout(Some(LOOK)));
    timeouts.map_err(failed())?;
    let chunk = vec![0x5a; 1 << 16];
    let mut left = size_bytes;
    while left > 0 {
        match socket.send(&chunk[..left.min(chunk.len() as u64) as usize]) {
            Ok(n) => left -= n as u64,
            Err(error) if is_wait(&error) => {}
            Err(error) => return Err(failed()(error)),
        }
        if stop.load(Ordering::Relaxed) {
            return abandon(&socket);
        }
    }
    socket.shutdown(Shutdown::Write).map_err(failed())?;
    let mut byte = [MaybeUninit::uninit(); 1];
    loop {
        match socket.recv(&mut byte) {
            Ok(0) => return Ok(true),
            Ok(_) => {}
            Err(error) if is_wait(&error) => {}
            Err(error) => return Err(failed()(error)),
        }
        if stop.load(Ordering::Relaxed) {
            return abandon(&socket);
        }
    }
}

/// What is still on the way dies with the connection.
fn abandon(socket: &Socket) -> Result<bool, LoadError> {
    let reset = socket.set_linger(Some(Duration::ZERO));
    reset.map_err(LoadError::io("abandon a short flow"))?;
    Ok(false)
}

fn is_wait(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
    )
}

/// Takes every connection to its end until `stop` is set; returns how many bytes came.
pub fn receive(
    listen: SocketAddr,
    stop: &AtomicBool,
    ready: impl FnOnce(),
) -> Result<u64, LoadError> {
    let listener =
        TcpListener::bind(listen).map_err(LoadError::io(format!("listen on TCP {listen}")))?;
    ready();
    let total = std::sync::atomic::AtomicU64::new(0);
    let mut failure = None;
    std::thread::scope(|scope| {
        loop {
            match crate::tcp::accept(&listener, stop) {
                Ok(Some(socket)) => {
                    let total = &total;
                    scope.spawn(move || {
                        total.fetch_add(take(socket, stop), Ordering::Relaxed);
                    });
                }
                Ok(None) => break,
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            }
        }
    });
    match failure {
        None => Ok(total.into_inner()),
        Some(error) => Err(error),
    }
}

fn take(mut socket: TcpStream, stop: &AtomicBool) -> u64 {
    let mut buffer = vec![0; 1 << 16];
    let mut bytes = 0;
    if socket.set_read_timeout(Some(LOOK)).is_err() {
        return 0;
    }
    loop {
        match socket.read(&mut buffer) {
            Ok(0) => return bytes,
            Ok(n) => bytes += n as u64,
            Err(error) if is_wait(&error) => {
                if stop.load(Ordering::Relaxed) {
                    return bytes;
                }
            }
            Err(_) => return bytes,
        }
    }
}
