//! A transfer over an emulated path under one congestion control, watched through `TCP_INFO`. Shared by the
//! tests and the example `measure`.

use howdah_core::Rate;
use howdah_wan::World;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What is asked of `TCP_INFO`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// Losses are being repaired (Linux: CWR, Recovery or Loss).
    pub(crate) reduced: bool,
    /// Segments.
    pub(crate) cwnd: u32,
    /// Segments.
    pub(crate) ssthresh: u32,
}

/// Reads `TCP_INFO`.
#[allow(
    unsafe_code,
    reason = "no crate in use wraps TCP_INFO as a socket option"
)]
fn tcp_info(socket: &TcpStream) -> Sample {
    // The fields of `struct tcp_info` that matter have had their places since Linux 2.6.
    let mut info = [0u32; 26];
    let mut len = size_of_val(&info) as libc::socklen_t;
    // SAFETY: pointer and length describe `info`.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    Sample {
        // tcpi_ca_state is the second byte: Open 0, Disorder 1.
        reduced: info[0].to_ne_bytes()[1] >= 2,
        cwnd: info[20],
        ssthresh: info[19],
    }
}

/// What a transfer showed.
pub(crate) struct Transfer {
    /// What `TCP_CONGESTION` says on the sender.
    pub(crate) congestion_control: String,
    /// What arrived.
    pub(crate) received_bytes: u64,
    /// From the first byte to the last.
    pub(crate) seconds: f64,
    /// Two a millisecond.
    pub(crate) samples: Vec<Sample>,
}

impl Transfer {
    /// Goodput.
    pub(crate) fn mbit_per_second(&self) -> f64 {
        self.received_bytes as f64 * 8e-6 / self.seconds
    }

    /// For each reduction that was seen: the window before it, and the share of it that the
    /// algorithm set as threshold.
    pub(crate) fn reductions(&self) -> Vec<(u32, f64)> {
        self.samples
            .windows(2)
            .filter(|pair| !pair[0].reduced && pair[1].reduced)
            .map(|pair| {
                let kept = f64::from(pair[1].ssthresh) / f64::from(pair[0].cwnd);
                (pair[0].cwnd, kept)
            })
            .collect()
    }
}

/// `SO_MAX_PACING_RATE`: the kernel spaces what the socket sends.
#[allow(
    unsafe_code,
    reason = "no crate in use wraps SO_MAX_PACING_RATE as a socket option"
)]
fn pace(socket: &socket2::Socket, rate: Rate) {
    let bytes_per_second: u64 = rate.bits_per_sec() / 8;
    // SAFETY: pointer and length describe `bytes_per_second`.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MAX_PACING_RATE,
            (&raw const bytes_per_second).cast(),
            size_of::<u64>() as libc::socklen_t,
        )
    };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

/// Sends through `world` under that congestion control for a while, paced at that rate at most if one is
/// given.
pub(crate) fn transfer(
    world: &World,
    congestion_control: &str,
    paced: Option<Rate>,
    duration: Duration,
) -> Transfer {
    let listener = world
        .far()
        .run_in(|| TcpListener::bind("10.88.0.2:0"))
        .unwrap()
        .unwrap();
    let to = listener.local_addr().unwrap();
    let mut sender = world
        .near()
        .run_in(|| {
            let socket =
                socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
            socket
                .set_tcp_congestion(congestion_control.as_bytes())
                .unwrap();
            if let Some(rate) = paced {
                pace(&socket, rate);
            }
            socket.connect(&to.into()).unwrap();
            TcpStream::from(socket)
        })
        .unwrap();
    let (mut receiver, _) = listener.accept().unwrap();
    let name = socket2::SockRef::from(&sender).tcp_congestion().unwrap();
    let watched = sender.try_clone().unwrap();
    let finished = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let receiving = scope.spawn(move || {
            let mut buffer = vec![0; 1 << 20];
            let mut bytes = 0;
            loop {
                match receiver.read(&mut buffer).unwrap() {
                    0 => return bytes,
                    len => bytes += len as u64,
                }
            }
        });
        let sampling = scope.spawn(|| {
            let mut samples = Vec::new();
            while !finished.load(Ordering::Relaxed) {
                samples.push(tcp_info(&watched));
                std::thread::sleep(Duration::from_micros(500));
            }
            samples
        });
        let started = Instant::now();
        let buffer = vec![0; 1 << 18];
        while started.elapsed() < duration {
            sender.write_all(&buffer).unwrap();
        }
        sender.shutdown(std::net::Shutdown::Write).unwrap();
        finished.store(true, Ordering::Relaxed);
        let received_bytes = receiving.join().unwrap();
        Transfer {
            congestion_control: String::from_utf8(name)
                .unwrap()
                .trim_end_matches('\0')
                .to_owned(),
            received_bytes,
            seconds: started.elapsed().as_secs_f64(),
            samples: sampling.join().unwrap(),
        }
    })
}
