//! What this machine does to datagrams beside carrying them, measured where a sender and a receiver would run: over loopback, so that no
//! network has a part in it.
//!
//! Each function takes some seconds at most, uses up to all cores for that time, and gives back raw times; [`figures`] makes of them
//! what a simulated host is described by.

pub mod figures;

use crate::{LoadError, sys};
use rustix::thread::CpuSet;
use rustix::time::{ClockId, clock_gettime};
use socket2::SockRef;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// A thread that only reads the clock, and misses so much of it, did not run.
const GAP_MIN: Duration = Duration::from_micros(100);
/// Datagrams that one call sends, as our own sender does with jumbo frames.
pub const SEGMENTS: usize = 7;
/// Their payload.
pub const SEGMENT_BYTES: usize = 8_972;

/// How long each core stood still, each time, in the course of `window`; beside that the number of cores that were watched.
///
/// # Errors
///
/// The system gives no threads.
pub fn gaps(window: Duration) -> Result<(Vec<Duration>, usize), LoadError> {
    let ours = rustix::thread::sched_getaffinity(None).map_err(io::Error::from);
    let ours = ours.map_err(LoadError::io("see which cores are ours"))?;
    let ours = (0..CpuSet::MAX_CPU).filter(|core| ours.is_set(*core));
    let ours: Vec<usize> = ours.collect();
    let watch = move |core: usize| {
        let mut own = CpuSet::new();
        own.set(core);
        // Where it may not choose its core, the kernel spreads them.
        let _ = rustix::thread::sched_setaffinity(None, &own);
        let (begun, mut gaps) = (Instant::now(), Vec::new());
        let mut last = begun;
        while last - begun < window {
            let now = Instant::now();
            if now - last >= GAP_MIN {
                gaps.push(now - last);
            }
            last = now;
        }
        gaps
    };
    let cores = ours.len();
    let threads: Result<Vec<_>, _> = ours
        .into_iter()
        .map(|core| thread::Builder::new().spawn(move || watch(core)))
        .collect();
    let threads = threads.map_err(LoadError::io("start a thread for each core"))?;
    let gaps = threads.into_iter().filter_map(|thread| thread.join().ok());
    Ok((gaps.flatten().collect(), cores))
}

/// Two sockets of this host, the first connected to the second.
fn pair() -> io::Result<(UdpSocket, UdpSocket)> {
    let bind = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0));
    let (from, to) = (bind()?, bind()?);
    from.connect(to.local_addr()?)?;
    Ok((from, to))
}

/// Does `send` while another thread takes in what comes; `take` is given each datagram's moment and whether it was waited for.
fn beside<T>(
    socket: &UdpSocket,
    take: impl FnMut(Instant, bool) + Send,
    send: impl FnOnce() -> T,
) -> io::Result<T> {
    // It looks whether all is over.
    socket.set_read_timeout(Some(Duration::from_millis(20)))?;
    let over = AtomicBool::new(false);
    let mut take = take;
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut buffer = vec![0; 1 << 16];
            while !over.load(Ordering::Relaxed) {
                if socket.recv(&mut buffer).is_err() {
                    continue;
                }
                take(Instant::now(), true);
                while sys::receive_now(socket, &mut buffer) {
                    take(Instant::now(), false);
                }
            }
            // What came while this thread had no processor.
            while sys::receive_now(socket, &mut buffer) {
                take(Instant::now(), false);
            }
        });
        let sent = send();
        over.store(true, Ordering::Relaxed);
        let _ = reader.join();
        Ok(sent)
    })
}

/// How long each of so many calls took that send [`SEGMENTS`] datagrams at once.
///
/// # Errors
///
/// There is no UDP over loopback, or no segmentation (Linux 4.18).
pub fn sending_calls(many: usize) -> Result<Vec<Duration>, LoadError> {
    let (from, to) = pair().map_err(LoadError::io("send over loopback"))?;
    sys::segment(&from, SEGMENT_BYTES as u16)
        .map_err(LoadError::io("have datagrams segmented (UDP_SEGMENT)"))?;
    let train = vec![0; SEGMENTS * SEGMENT_BYTES];
    let calls = || {
        let call = |_| {
            let begun = Instant::now();
            let sent = from.send(&train);
            let took = begun.elapsed();
            // Nobody is hurried: what is measured is a call, and not a race.
            while begun.elapsed() < took * 2 {
                std::hint::spin_loop();
            }
            sent.map(|_| took)
        };
        (0..many).map(call).collect::<io::Result<Vec<_>>>()
    };
    beside(&to, |_, _| (), calls)
        .flatten()
        .map_err(LoadError::io("send over loopback"))
}

/// When datagrams were read that left one by one every `apart`, for `window`, and which of them the reader had slept for.
///
/// # Errors
///
/// There is no UDP over loopback.
pub fn reads(window: Duration, apart: Duration) -> Result<Vec<(Instant, bool)>, LoadError> {
    let (from, to) = pair().map_err(LoadError::io("send over loopback"))?;
    let mut reads = Vec::new();
    let send = || {
        let begun = Instant::now();
        let mut next = begun;
        while next - begun < window {
            while Instant::now() < next {
                std::hint::spin_loop();
            }
            // One that is refused is one less.
            let _ = from.send(&[0; SEGMENT_BYTES]);
            next += apart;
        }
    };
    beside(&to, |at, slept| reads.push((at, slept)), send)
        .map_err(LoadError::io("send over loopback"))?;
    Ok(reads)
}

/// The processor time that each of so many sleeps of `each` costs, and how much longer than asked for each lasted.
#[must_use]
pub fn sleeps(many: u32, each: Duration) -> (Duration, Vec<Duration>) {
    let cpu = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(
            time.tv_sec.unsigned_abs(),
            time.tv_nsec.unsigned_abs() as u32,
        )
    };
    let before = cpu();
    let sleep = |_| {
        let begun = Instant::now();
        thread::sleep(each);
        begun.elapsed().saturating_sub(each)
    };
    let late = (0..many).map(sleep).collect();
    (cpu().saturating_sub(before) / many.max(1), late)
}

/// The receive buffer that a socket is granted that asks for `wanted`, and how much payload of [`SEGMENT_BYTES`] each it holds: both in
/// bytes.
///
/// # Errors
///
/// There is no UDP over loopback.
pub fn receive_buffer(wanted: usize) -> Result<(usize, usize), LoadError> {
    let filled = || -> io::Result<(usize, usize)> {
        let (from, to) = pair()?;
        let buffer = SockRef::from(&to);
        buffer.set_recv_buffer_size(wanted)?;
        // Linux tells what it charges against, which is twice what was asked for.
        let granted = buffer.recv_buffer_size()?;
        for _ in 0..=granted / SEGMENT_BYTES {
            match from.send(&[0; SEGMENT_BYTES]) {
                Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
                _ => {}
            }
        }
        let (mut taken, mut datagram) = (0, vec![0; SEGMENT_BYTES]);
        while sys::receive_now(&to, &mut datagram) {
            taken += SEGMENT_BYTES;
        }
        Ok((granted, taken))
    };
    filled().map_err(LoadError::io("fill a socket over loopback"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What they bring is a matter of the machine; that they bring it, and how much, is not.
    #[test]
    fn each_measurement_gives_what_it_was_asked_for() {
        assert_eq!(sending_calls(20).unwrap().len(), 20);
        let (cost, late) = sleeps(5, Duration::from_micros(50));
        assert!(!cost.is_zero() && late.len() == 5);
        let (gaps, cores) = gaps(Duration::from_millis(5)).unwrap();
        assert!(cores > 0 && gaps.iter().all(|gap| *gap >= GAP_MIN));
        let reads = reads(Duration::from_millis(20), Duration::from_micros(500)).unwrap();
        assert!(!reads.is_empty() && reads.len() <= 40);
        assert!(reads.is_sorted_by_key(|(at, _)| *at));
    }

    #[test]
    fn a_receive_buffer_is_charged_with_more_than_the_payload() {
        let (granted, held) = receive_buffer(1 << 20).unwrap();
        assert!(held > 0 && held < granted, "{held} of {granted}");
        assert_eq!(held % SEGMENT_BYTES, 0);
    }
}
