//! Real sockets on the loopback address.

use super::*;
use std::net::TcpListener;

/// An endpoint of a test: answers each datagram with itself, reversed.
fn echo() -> UdpSocket {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let echo = socket.try_clone().expect("a descriptor");
    echo.set_read_timeout(Some(Duration::from_secs(20)))
        .expect("a limit");
    std::thread::spawn(move || {
        let mut buffer = [0; 10_000];
        while let Ok((len, from)) = echo.recv_from(&mut buffer) {
            buffer[..len].reverse();
            if echo.send_to(&buffer[..len], from).is_err() {
                break;
            }
        }
    });
    socket
}

fn client() -> UdpSocket {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    socket
        .set_read_timeout(Some(Duration::from_secs(20)))
        .expect("a limit");
    socket
}

fn door(endpoint: &UdpSocket) -> (TcpDoor, SocketAddr) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("it has one");
    let bound = endpoint.local_addr().expect("it has one");
    (TcpDoor::open(listener, bound).expect("a door"), address)
}

#[test]
fn datagrams_pass_a_tcp_connection_both_ways() {
    let endpoint = echo();
    let (_door, address) = door(&endpoint);
    let tunnel = Tunnel::connect(address).expect("a tunnel");
    let client = client();
    client.connect(tunnel.address()).expect("a way");
    for len in [1, 1200, 8972] {
        let sent: Vec<u8> = (0..len).map(|n| n as u8).collect();
        client.send(&sent).expect("sent");
        let mut got = vec![0; 10_000];
        let n = client.recv(&mut got).expect("an answer");
        assert!(got[..n].iter().rev().eq(&sent), "{len}");
    }
    assert!(!tunnel.has_ended());
}

#[test]
fn datagrams_pass_any_stream() {
    let endpoint = echo();
    let bound = endpoint.local_addr().expect("it has one");
    let pipe = || {
        let (read, write) = rustix::pipe::pipe().expect("a pipe");
        (std::fs::File::from(read), std::fs::File::from(write))
    };
    let ((here_in, there_out), (there_in, here_out)) = (pipe(), pipe());
    let _far = Tunnel::over(there_in, there_out, Near::Answers(bound)).expect("a tunnel");
    let near = Tunnel::over(here_in, here_out, Near::Opens).expect("a tunnel");
    let client = client();
    client.send_to(b"abc", near.address()).expect("sent");
    let mut got = [0; 10];
    assert_eq!(client.recv(&mut got).expect("an answer"), 3);
    assert_eq!(&got[..3], b"cba");
}

#[test]
fn a31_a_stranger_at_the_door_is_turned_away() {
    let endpoint = echo();
    let (_door, address) = door(&endpoint);
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
    let endpoint = echo();
    let (door, address) = door(&endpoint);
    let flood: Vec<TcpStream> = (0..100)
        .map(|_| TcpStream::connect(address).expect("listens"))
        .collect();
    let tunnel = Tunnel::connect(address).expect("a tunnel");
    let client = client();
    client.send_to(b"ab", tunnel.address()).expect("sent");
    let mut got = [0; 10];
    assert_eq!(client.recv(&mut got).expect("an answer"), 2);
    assert!(door.addresses().len() <= 33);
    drop(flood);
}

#[test]
fn a_tunnel_that_is_closed_ends_at_both_sides() {
    let endpoint = echo();
    let (door, address) = door(&endpoint);
    let tunnel = Tunnel::connect(address).expect("a tunnel");
    let client = client();
    client.send_to(b"ab", tunnel.address()).expect("sent");
    client.recv(&mut [0; 10]).expect("an answer");
    let local = door.addresses()[0];
    let origin = door.prove(local).expect("known");
    assert_eq!(origin.ip(), Ipv4Addr::LOCALHOST);
    assert_ne!(origin, local);
    door.close(local);
    assert_eq!(door.prove(local), None);
    let start = Instant::now();
    while !tunnel.has_ended() {
        assert!(start.elapsed() < Duration::from_secs(20));
        std::thread::yield_now();
    }
}
