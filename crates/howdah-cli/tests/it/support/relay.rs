//! A UDP relay between client and server: a NAT, a bad network, and a place to count bytes.

use rustix::event::{PollFd, PollFlags, poll};
use rustix::pipe::PipeFlags;
use std::fmt;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Instant;

/// Which way a datagram goes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Way {
    ToServer,
    ToClient,
}

/// What becomes of a datagram.
#[derive(Default)]
pub(crate) struct Fate {
    /// What is sent on, in this order.
    pub(crate) pass: Vec<Vec<u8>>,
    /// From now on the server is spoken to from another port.
    pub(crate) rebind: bool,
}

impl Fate {
    pub(crate) fn pass(datagram: Vec<u8>) -> Self {
        Self {
            pass: vec![datagram],
            rebind: false,
        }
    }
}

/// Runs until it is dropped.
pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
    /// Closing it ends the thread.
    stop: Option<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    /// Bytes that came in to be relayed, to the server and to the client.
    bytes: Mutex<[u64; 2]>,
    more: Condvar,
}

impl Relay {
    /// Relays to `server`; `decide` says what becomes of each datagram.
    pub(crate) fn start(
        server: SocketAddr,
        decide: impl FnMut(Way, Vec<u8>) -> Fate + Send + 'static,
    ) -> Self {
        let front = socket();
        let address = front.local_addr().unwrap();
        // A server started meanwhile must not hold the other end open.
        let (stopped, stop) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).unwrap();
        let shared = Arc::new(Shared::default());
        let inside = Arc::clone(&shared);
        let thread = thread::spawn(move || run(server, &front, &stopped, &inside, decide));
        Self {
            address,
            shared,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        super::process::url(self.address, path)
    }

    /// So many bytes have come in one way.
    pub(crate) fn bytes(&self, way: Way) -> u64 {
        self.shared.bytes.lock().unwrap()[way as usize]
    }

    /// Waits until so many bytes have come in one way.
    #[track_caller]
    pub(crate) fn await_bytes(&self, way: Way, bytes: u64, limit: Instant) {
        let seen = self.shared.bytes.lock().unwrap();
        let left = limit.saturating_duration_since(Instant::now());
        let few = |seen: &mut [u64; 2]| seen[way as usize] < bytes;
        let (seen, _) = self
            .shared
            .more
            .wait_timeout_while(seen, left, few)
            .unwrap();
        let came = *seen;
        drop(seen);
        assert!(came[way as usize] >= bytes, "only {came:?} bytes came");
    }
}

impl fmt::Debug for Relay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Relay({})", self.address)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_nonblocking(true).unwrap();
    // As much as is granted; what overflows is loss like any other.
    let _ = socket2::SockRef::from(&socket).set_recv_buffer_size(8 << 20);
    socket
}

fn run(
    server: SocketAddr,
    front: &UdpSocket,
    stopped: &OwnedFd,
    shared: &Shared,
    mut decide: impl FnMut(Way, Vec<u8>) -> Fate,
) {
    let mut back = socket();
    let mut client = None;
    let mut buffer = vec![0; 65_536];
    loop {
        let mut fds = [
            PollFd::new(front, PollFlags::IN),
            PollFd::new(&back, PollFlags::IN),
            PollFd::new(stopped, PollFlags::IN),
        ];
        poll(&mut fds, None).unwrap();
        if !fds[2].revents().is_empty() {
            return;
        }
        // Bounded, so that neither way starves and an end is seen.
        for _ in 0..64 {
            let mut idle = true;
            for way in [Way::ToServer, Way::ToClient] {
                let from = if way == Way::ToServer { front } else { &back };
                // Nothing is there; or the server is gone, of which the client hears nothing.
                let Ok((len, sender)) = from.recv_from(&mut buffer) else {
                    continue;
                };
                idle = false;
                if way == Way::ToServer {
                    client = Some(sender);
                }
                let fate = decide(way, buffer[..len].to_vec());
                if fate.rebind {
                    // The old port is closed: nothing that goes there comes back.
                    back = socket();
                }
                for datagram in &fate.pass {
                    // A full buffer is loss.
                    let _ = match (way, client) {
                        (Way::ToServer, _) => back.send_to(datagram, server),
                        (Way::ToClient, Some(client)) => front.send_to(datagram, client),
                        (Way::ToClient, None) => Ok(0),
                    };
                }
                shared.bytes.lock().unwrap()[way as usize] += len as u64;
                shared.more.notify_all();
            }
            if idle {
                break;
            }
        }
    }
}
