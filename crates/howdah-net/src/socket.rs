//! One UDP socket, with everything that the host can do for it.

use howdah_core::{Ecn, Rate};
use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr, SocketAddrV6, TcpListener, UdpSocket};

/// Receive buffer to ask for: 25 ms at 10 Gbit/s.
pub const WANTED_RECEIVE_BUFFER: usize = 32 << 20;
/// Send buffer to ask for: enough for some trains.
pub const WANTED_SEND_BUFFER: usize = 4 << 20;
/// Datagrams that one GSO train may have in all, in bytes (UDP's length field, less headers).
pub(crate) const MAX_TRAIN_BYTES: usize = 65_000;
/// A receive buffer below this overflows within a millisecond at 10 Gbit/s.
pub const ENOUGH_RECEIVE_BUFFER: usize = 4 << 20;

/// What the host granted.
#[derive(Clone, Copy, Debug)]
pub struct SocketReport {
    /// Receive buffer, in bytes.
    pub receive_buffer: usize,
    /// Send buffer, in bytes.
    pub send_buffer: usize,
    /// Datagrams per system call when sending.
    pub gso_segments: usize,
    /// Datagrams per buffer when receiving.
    pub gro_segments: usize,
}

impl SocketReport {
    /// What is missing, in plain words, if something is.
    pub fn advice(&self) -> Option<String> {
        (self.receive_buffer < ENOUGH_RECEIVE_BUFFER).then(|| {
            let rate = Rate::from_bits_per_sec(self.receive_buffer as u64 * 8 * 200);
            format!(
                "the UDP receive buffer is {} KiB, enough for about {rate}; \
                 'sysctl -w net.core.rmem_max={WANTED_RECEIVE_BUFFER}' lets it grow",
                self.receive_buffer / 1024
            )
        })
    }
}

/// What this host would grant a transfer now: makes a socket as one does, and closes it.
pub fn socket_report() -> io::Result<SocketReport> {
    let socket = bind((std::net::Ipv4Addr::UNSPECIFIED, 0).into())?;
    Ok(UdpPort::new(socket)?.report())
}

/// A bound socket.
#[derive(Debug)]
pub(crate) struct UdpPort {
    socket: UdpSocket,
    state: UdpSocketState,
    report: SocketReport,
    local: SocketAddr,
    /// What arrives here is for whoever has this, and not for another one of the same socket.
    reads: bool,
}

/// Binds a UDP socket; an IPv6 wildcard takes IPv4 as well.
pub fn bind(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::DGRAM,
        Some(Protocol::UDP),
    )?;
    if address.is_ipv6() && address.ip().is_unspecified() {
        socket.set_only_v6(false)?;
    }
    socket.bind(&SockAddr::from(address))?;
    Ok(socket.into())
}

/// Listens for TCP connections; an IPv6 wildcard takes IPv4 as well.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    const WAITING_MAX: i32 = 64;
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    if address.is_ipv6() && address.ip().is_unspecified() {
        socket.set_only_v6(false)?;
    }
    // Connections of an earlier server may linger.
    socket.set_reuse_address(true)?;
    socket.bind(&SockAddr::from(address))?;
    socket.listen(WAITING_MAX)?;
    Ok(socket.into())
}

impl UdpPort {
    pub(crate) fn new(socket: UdpSocket) -> io::Result<Self> {
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        // Privileged processes may pass the system's limit.
        #[cfg(target_os = "linux")]
        {
            use rustix::net::sockopt;
            let _ = sockopt::set_socket_recv_buffer_size_force(&socket, WANTED_RECEIVE_BUFFER);
            let _ = sockopt::set_socket_send_buffer_size_force(&socket, WANTED_SEND_BUFFER);
        }
        let sock = UdpSockRef::from(&socket);
        if state.recv_buffer_size(sock)? < WANTED_RECEIVE_BUFFER {
            let _ = state.set_recv_buffer_size(UdpSockRef::from(&socket), WANTED_RECEIVE_BUFFER);
        }
        if state.send_buffer_size(UdpSockRef::from(&socket))? < WANTED_SEND_BUFFER {
            let _ = state.set_send_buffer_size(UdpSockRef::from(&socket), WANTED_SEND_BUFFER);
        }
        let report = SocketReport {
            receive_buffer: state.recv_buffer_size(UdpSockRef::from(&socket))?,
            send_buffer: state.send_buffer_size(UdpSockRef::from(&socket))?,
            gso_segments: state.max_gso_segments(),
            gro_segments: state.gro_segments(),
        };
        let local = socket.local_addr()?;
        Ok(Self {
            socket,
            state,
            report,
            local,
            reads: true,
        })
    }

    /// Whether what arrives at its socket is read by it.
    pub(crate) fn reads(&self) -> bool {
        self.reads
    }

    pub(crate) fn set_reads(&mut self, reads: bool) {
        self.reads = reads;
    }

    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.local
    }

    pub(crate) fn report(&self) -> SocketReport {
        self.report
    }

    pub(crate) fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// Hands datagrams over one by one, as they came.
    pub(crate) fn receive_one_by_one(&self) -> io::Result<()> {
        use std::os::fd::AsFd;
        crate::sys::receive_one_by_one(self.socket.as_fd())
    }

    /// Datagrams that one call may send; 1 where the host cannot segment.
    pub(crate) fn max_segments(&self) -> usize {
        self.state.max_gso_segments()
    }

    pub(crate) fn recv(
        &self,
        buffers: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> io::Result<usize> {
        #[cfg(target_os = "linux")]
        {
            use std::os::fd::AsFd;
            crate::receive::receive(self.socket.as_fd(), buffers, meta)
        }
        #[cfg(not(target_os = "linux"))]
        {
            self.state
                .recv(UdpSockRef::from(&self.socket), buffers, meta)
        }
    }

    pub(crate) fn send(
        &self,
        destination: SocketAddr,
        src_ip: Option<IpAddr>,
        contents: &[u8],
        segment_size: usize,
        ecn: Ecn,
    ) -> io::Result<()> {
        let transmit = Transmit {
            destination: self.map(destination),
            ecn: EcnCodepoint::from_bits(ecn as u8),
            contents,
            segment_size: (segment_size < contents.len()).then_some(segment_size),
            src_ip,
        };
        self.state
            .try_send(UdpSockRef::from(&self.socket), &transmit)
    }

    /// The ECN field of what one receive call gave; the kernel joins only datagrams of the same.
    pub(crate) fn ecn_of(meta: &RecvMeta) -> Ecn {
        match meta.ecn {
            None => Ecn::NotEct,
            Some(EcnCodepoint::Ect0) => Ecn::Ect0,
            Some(EcnCodepoint::Ect1) => Ecn::Ect1,
            Some(EcnCodepoint::Ce) => Ecn::Ce,
        }
    }

    /// An IPv6 socket reaches IPv4 peers through mapped addresses.
    fn map(&self, address: SocketAddr) -> SocketAddr {
        match address {
            SocketAddr::V4(v4) if self.local.is_ipv6() => {
                SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port())
            }
            address => address,
        }
    }

    /// The peer's address as people write it.
    pub(crate) fn canonical(address: SocketAddr) -> SocketAddr {
        match address {
            SocketAddr::V6(v6) => match v6.ip().to_ipv4_mapped() {
                Some(v4) => SocketAddr::new(v4.into(), v6.port()),
                // The flow label is nobody's name; the scope is part of a link-local address.
                None => SocketAddrV6::new(*v6.ip(), v6.port(), 0, v6.scope_id()).into(),
            },
            v4 @ SocketAddr::V4(_) => v4,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};
    use std::time::Duration;

    fn port() -> UdpPort {
        let socket = bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        UdpPort::new(socket).unwrap()
    }

    /// Lengths of what single receive calls return.
    fn lengths(port: &UdpPort, total: usize) -> Vec<usize> {
        port.socket.set_nonblocking(false).unwrap();
        let patience = Some(Duration::from_secs(10));
        port.socket.set_read_timeout(patience).unwrap();
        let mut lengths = Vec::new();
        let mut buffer = vec![0; MAX_TRAIN_BYTES];
        while lengths.iter().sum::<usize>() < total {
            let mut meta = [RecvMeta::default()];
            port.recv(&mut [IoSliceMut::new(&mut buffer)], &mut meta)
                .unwrap();
            lengths.push(meta[0].len);
        }
        lengths
    }

    #[test]
    fn a_train_is_read_one_by_one_by_those_who_measure_gaps() {
        let (sender, receiver) = (port(), port());
        if sender.max_segments() < 4 {
            eprintln!("skipped: this host sends no trains");
            return;
        }
        receiver.receive_one_by_one().unwrap();
        sender
            .send(receiver.local_addr(), None, &[7; 400], 100, Ecn::NotEct)
            .unwrap();
        assert_eq!(lengths(&receiver, 400), [100; 4]);
    }

    /// In trains and alone, over IPv4, IPv6 and an IPv6 socket that reaches an IPv4 peer.
    #[test]
    fn the_ecn_field_leaves_and_arrives() {
        let both_v4 = (
            (Ipv4Addr::LOCALHOST, 0).into(),
            (Ipv4Addr::LOCALHOST, 0).into(),
        );
        let both_v6: (SocketAddr, SocketAddr) = (
            (Ipv6Addr::LOCALHOST, 0).into(),
            (Ipv6Addr::LOCALHOST, 0).into(),
        );
        let mapped = (
            (Ipv6Addr::UNSPECIFIED, 0).into(),
            (Ipv4Addr::LOCALHOST, 0).into(),
        );
        let unmapped = (mapped.1, mapped.0);
        for (from, to) in [both_v4, both_v6, mapped, unmapped] {
            let (Ok(sender), Ok(receiver)) = (bind(from), bind(to)) else {
                eprintln!("skipped {from} to {to}: this host has no such address");
                continue;
            };
            let (sender, receiver) = (
                UdpPort::new(sender).unwrap(),
                UdpPort::new(receiver).unwrap(),
            );
            let mut to = receiver.local_addr();
            if to.ip().is_unspecified() {
                to.set_ip(Ipv4Addr::LOCALHOST.into());
            }
            // A host that cannot segment sends them one by one.
            let train = if sender.max_segments() < 4 { 100 } else { 400 };
            let sent = [Ecn::Ect1, Ecn::NotEct, Ecn::Ce, Ecn::Ect1, Ecn::Ect0];
            for ecn in sent {
                sender.send(to, None, &[7; 100], 100, ecn).unwrap();
                sender.send(to, None, &[7; 400][..train], 100, ecn).unwrap();
            }
            let mut came = Vec::new();
            receiver.socket.set_nonblocking(false).unwrap();
            let patience = Some(Duration::from_secs(10));
            receiver.socket.set_read_timeout(patience).unwrap();
            let mut buffer = vec![0; MAX_TRAIN_BYTES];
            while came.len() < sent.len() * (1 + train / 100) {
                let mut meta = [RecvMeta::default()];
                receiver
                    .recv(&mut [IoSliceMut::new(&mut buffer)], &mut meta)
                    .unwrap();
                let [meta] = meta;
                let packets = meta.len.div_ceil(meta.stride);
                came.extend(std::iter::repeat_n(UdpPort::ecn_of(&meta), packets));
            }
            let expected: Vec<Ecn> = sent
                .iter()
                .flat_map(|&ecn| std::iter::repeat_n(ecn, 1 + train / 100))
                .collect();
            assert_eq!(came, expected, "{from} to {to}");
        }
    }
}
