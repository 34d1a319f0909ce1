//! Several sockets of one port, one for each loop that serves it.

use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, Type};
use std::io;
use std::net::UdpSocket;

/// Loops that a server has unless it is told another number: one for each core that this process may use, as far as there are so many.
pub fn usual_loops() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    cores.min(howdah_proto::endpoint::LOOPS_MAX)
}

/// Further sockets of the port of `socket`, so that there is one for each of `loops`. All belong to one user, the one who has made
/// the first one. Whatever reaches the wrong one of them is handed over; where the kernel lets itself be told, nothing does.
///
/// # Errors
///
/// If this system makes no further one: the first one, which can be used as before, belongs to another user, or to one device.
pub fn share(socket: &UdpSocket, loops: usize) -> io::Result<Vec<UdpSocket>> {
    if loops < 2 {
        return Ok(Vec::new());
    }
    let shared = share_port(socket, loops.min(howdah_proto::endpoint::LOOPS_MAX));
    #[cfg(target_os = "linux")]
    if shared.is_err() {
        let _ = SockRef::from(socket).set_reuse_port(false);
    }
    shared
}

#[cfg(target_os = "linux")]
fn share_port(socket: &UdpSocket, loops: usize) -> io::Result<Vec<UdpSocket>> {
    use std::os::fd::AsFd;
    let first = SockRef::from(socket);
    if first.device()?.is_some() {
        return Err(io::Error::other("it is a socket of one device"));
    }
    let address = socket.local_addr()?;
    // Only now, and not when it was bound: so a second server finds the port taken.
    first.set_reuse_port(true)?;
    let mut others = Vec::new();
    for _ in 1..loops {
        let other = Socket::new(
            Domain::for_address(address),
            Type::DGRAM,
            Some(Protocol::UDP),
        )?;
        if address.is_ipv6() {
            other.set_only_v6(first.only_v6()?)?;
        }
        other.set_reuse_port(true)?;
        other.bind(&SockAddr::from(address))?;
        others.push(other.into());
    }
    // Without, a hash of the addresses decides, and most packets are handed over.
    let _ = crate::sys::steer(socket.as_fd(), loops as u32);
    Ok(others)
}

#[cfg(not(target_os = "linux"))]
fn share_port(_socket: &UdpSocket, _loops: usize) -> io::Result<Vec<UdpSocket>> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
    use std::time::Duration;

    /// Which of these sockets a datagram comes to.
    fn comes_to(sockets: &[UdpSocket], from: &UdpSocket, datagram: &[u8]) -> usize {
        let mut to = sockets[0].local_addr().unwrap();
        if to.ip().is_unspecified() {
            to.set_ip(Ipv4Addr::LOCALHOST.into());
        }
        from.send_to(datagram, to).unwrap();
        let mut buffer = [0; 64];
        loop {
            for (at, socket) in sockets.iter().enumerate() {
                socket.set_nonblocking(true).unwrap();
                match socket.recv(&mut buffer) {
                    Ok(len) => {
                        assert_eq!(&buffer[..len], datagram);
                        return at;
                    }
                    Err(e) => assert_eq!(e.kind(), io::ErrorKind::WouldBlock),
                }
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn data_packets_come_to_the_loop_in_their_id_and_all_others_to_the_first() {
        let both: [SocketAddr; 2] = [
            (Ipv4Addr::LOCALHOST, 0).into(),
            (Ipv6Addr::UNSPECIFIED, 0).into(),
        ];
        for address in both {
            let Ok(first) = crate::bind(address) else {
                eprintln!("skipped {address}: this host has no such address");
                continue;
            };
            let others = share(&first, 3).unwrap();
            let sockets: Vec<UdpSocket> = std::iter::once(first).chain(others).collect();
            assert_eq!(sockets.len(), 3);
            for _ in 0..8 {
                // Whatever addresses they come from.
                let from = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
                for id in 0..32u8 {
                    let home = usize::from(id % 8);
                    let home = if home < 3 { home } else { 0 };
                    for (first, expected) in [(0x40, home), (0x41, home), (0xc0, 0), (0xc1, 0)] {
                        let mut datagram = [7; 20];
                        (datagram[0], datagram[8]) = (first, id);
                        let at = comes_to(&sockets, &from, &datagram);
                        assert_eq!(at, expected, "{first:#x} {id}");
                    }
                }
                assert_eq!(comes_to(&sockets, &from, &[0x40, 0, 0, 1]), 0, "too short");
            }
        }
    }

    #[test]
    fn a_port_that_is_shared_is_taken_for_everybody_else() {
        let first = crate::bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let address = first.local_addr().unwrap();
        let _others = share(&first, 2).unwrap();
        let error = crate::bind(address).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    }
}
