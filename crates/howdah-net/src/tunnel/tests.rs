//! Real TCP connections on the loopback address, and pipes.

use super::*;
use crate::buffers::BUFFER_BYTES;
use crate::waker::{self, WakeReceiver};
use quinn_udp::RecvMeta;
use rustix::event::{PollFd, PollFlags, poll};
use std::io::IoSliceMut;
use std::net::{Ipv4Addr, TcpListener};

/// What an endpoint does with its lanes.
struct End {
    lanes: Lanes,
    wakes: WakeReceiver,
}

impl End {
    fn new() -> Self {
        let (waker, wakes) = waker::pair().expect("a pipe");
        let lanes = Lanes::new(waker);
        Self { lanes, wakes }
    }

    /// The next datagrams that came by one lane, and which one; `None`: none came for long.
    fn next(&self) -> Option<(SocketAddr, Vec<u8>)> {
        const PATIENCE: Timespec = Timespec {
            tv_sec: 20,
            tv_nsec: 0,
        };
        loop {
            let mut buffer = vec![0; BUFFER_BYTES];
            let mut metas = [RecvMeta::default()];
            self.wakes.take();
            let received = {
                let mut slices = [IoSliceMut::new(&mut buffer)];
                self.lanes.recv(&mut slices, &mut metas)
            };
            if received.is_ok() {
                buffer.truncate(metas[0].len);
                return Some((metas[0].addr, buffer));
            }
            let mut fds = [PollFd::from_borrowed_fd(self.wakes.as_fd(), PollFlags::IN)];
            if poll(&mut fds, Some(&PATIENCE)).expect("a pipe") == 0 {
                return None;
            }
        }
    }
}

/// The end of a test that answers each datagram with itself, reversed.
fn echo() -> Lanes {
    let end = End::new();
    let lanes = end.lanes.clone();
    std::thread::spawn(move || {
        while let Some((from, mut datagram)) = end.next() {
            datagram.reverse();
            // It may have gone.
            let _ = end.lanes.send(from, &datagram, datagram.len());
        }
    });
    lanes
}

fn door(lanes: &Lanes) -> (TunnelListener, SocketAddr) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("it has one");
    (
        TunnelListener::open(listener, lanes).expect("a door"),
        address,
    )
}

#[test]
fn datagrams_pass_a_tcp_connection_both_ways() {
    let (_door, address) = door(&echo());
    let near = End::new();
    let tunnel = Tunnel::connect(address, &near.lanes).expect("a tunnel");
    for len in [1, 1200, 8972, MAX_DATAGRAM] {
        let sent: Vec<u8> = (0..len).map(|n| n as u8).collect();
        let to = tunnel.address();
        near.lanes.send(to, &sent, sent.len()).expect("sent");
        let (from, got) = near.next().expect("an answer");
        assert_eq!(from, to);
        assert!(got.iter().rev().eq(&sent), "{len}");
    }
    assert!(!tunnel.has_ended());
}

#[test]
fn datagrams_pass_any_stream() {
    let pipe = || {
        let (read, write) = rustix::pipe::pipe().expect("a pipe");
        (std::fs::File::from(read), std::fs::File::from(write))
    };
    let ((here_in, there_out), (there_in, here_out)) = (pipe(), pipe());
    let near = End::new();
    let _far = Tunnel::over(there_in, there_out, &echo()).expect("a tunnel");
    let tunnel = Tunnel::over(here_in, here_out, &near.lanes).expect("a tunnel");
    near.lanes.send(tunnel.address(), b"abc", 3).expect("sent");
    assert_eq!(near.next().expect("an answer").1, b"cba");
}

#[test]
fn a31_a_stranger_at_the_door_is_turned_away() {
    let (_door, address) = door(&echo());
    for words in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        b"howdah/1\0\0",
        b"howdah/1\xff\xff",
    ] {
        let mut stream = TcpStream::connect(address).expect("listens");
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .expect("a limit");
        stream.write_all(words).expect("sent");
        let mut rest = Vec::new();
        // Reset or closed, and not a byte said.
        let _ = stream.read_to_end(&mut rest);
        assert_eq!(rest, b"");
    }
}

#[test]
fn a01_a_flood_of_connections_keeps_no_honest_client_out() {
    let (door, address) = door(&echo());
    let near = End::new();
    let flood: Vec<TcpStream> = (0..100)
        .map(|_| TcpStream::connect(address).expect("listens"))
        .collect();
    let tunnel = Tunnel::connect(address, &near.lanes).expect("a tunnel");
    near.lanes.send(tunnel.address(), b"ab", 2).expect("sent");
    assert_eq!(near.next().expect("an answer").1, b"ba");
    assert!(door.addresses().len() <= 33);
    drop(flood);
}

#[test]
fn a_tunnel_that_is_closed_ends_at_both_sides() {
    let (door, address) = door(&echo());
    let near = End::new();
    let tunnel = Tunnel::connect(address, &near.lanes).expect("a tunnel");
    near.lanes.send(tunnel.address(), b"ab", 2).expect("sent");
    near.next().expect("an answer");
    let local = door.addresses()[0];
    let Proved { origin, stays } = door.prove(local, 1).expect("known");
    assert!(stays);
    assert_eq!(origin.ip(), Ipv4Addr::LOCALHOST);
    assert_ne!(origin, local);
    door.close(local);
    assert_eq!(door.prove(local, 1), None);
    let start = Instant::now();
    while !tunnel.has_ended() {
        assert!(start.elapsed() < Duration::from_secs(20));
        std::thread::yield_now();
    }
}
