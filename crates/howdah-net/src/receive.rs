//! Reading a UDP socket with room for everything that the kernel tells of a datagram.
//!
//! For each buffer Linux tells the time of arrival, how long the datagrams are that it joined (`UDP_GRO`), the address that they
//! came to, and the ECN field. That is 112 bytes over IPv4 and 128 over IPv6, and what does not fit is cut off: the ECN field
//! first, exactly where datagrams were joined. quinn-udp 0.6 leaves room for 88, which is enough without times of arrival.
#![allow(unsafe_code, reason = "recvmmsg has no wrapper")]

use quinn_udp::{EcnCodepoint, RecvMeta};
use rustix::fd::{AsRawFd, BorrowedFd};
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::time::Duration;

/// Buffers that one call fills.
const BATCH: usize = 16;
/// Room for what is told of one.
const CONTROL_BYTES: usize = 192;

#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control([u8; CONTROL_BYTES]);

/// Reads what has arrived, at least one buffer, if the socket does not say that there is nothing.
pub(crate) fn receive(
    socket: BorrowedFd<'_>,
    buffers: &mut [IoSliceMut<'_>],
    metas: &mut [RecvMeta],
) -> io::Result<usize> {
    let count = buffers.len().min(metas.len()).min(BATCH);
    let mut controls = [Control([0; CONTROL_BYTES]); BATCH];
    // SAFETY: for these structures of numbers and pointers all zeros are a value.
    let (mut names, mut headers): ([libc::sockaddr_storage; BATCH], [libc::mmsghdr; BATCH]) =
        unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    for (((header, name), control), buffer) in headers
        .iter_mut()
        .zip(&mut names)
        .zip(&mut controls)
        .zip(buffers.iter_mut())
    {
        let header = &mut header.msg_hdr;
        header.msg_name = std::ptr::from_mut(name).cast();
        header.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
        // An `IoSliceMut` is an `iovec` (its documentation says so).
        header.msg_iov = std::ptr::from_mut(buffer).cast();
        header.msg_iovlen = 1;
        header.msg_control = control.0.as_mut_ptr().cast();
        header.msg_controllen = CONTROL_BYTES as _;
    }
    // SAFETY: the first `count` headers point to names, control buffers and buffers that live through the call, with their
    // lengths, and no two of them to the same.
    let received = unsafe {
        libc::recvmmsg(
            socket.as_raw_fd(),
            headers.as_mut_ptr(),
            count as libc::c_uint,
            libc::MSG_WAITFORONE as _,
            std::ptr::null_mut(),
        )
    };
    let received = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
    for (((meta, header), name), control) in metas
        .iter_mut()
        .zip(&headers)
        .zip(&names)
        .zip(&controls)
        .take(received)
    {
        *meta = RecvMeta::default();
        meta.addr = address(name)?;
        meta.len = header.msg_len as usize;
        meta.stride = meta.len;
        // What was not written is zeros, and they end it.
        read_control(&control.0, meta);
    }
    Ok(received)
}

fn address(name: &libc::sockaddr_storage) -> io::Result<SocketAddr> {
    match libc::c_int::from(name.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says that it is one, and the storage is large enough and aligned for all.
            let v4 = unsafe { &*std::ptr::from_ref(name).cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes());
            Ok((ip, u16::from_be(v4.sin_port)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let v6 = unsafe { &*std::ptr::from_ref(name).cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            let port = u16::from_be(v6.sin6_port);
            Ok(SocketAddrV6::new(ip, port, v6.sin6_flowinfo, v6.sin6_scope_id).into())
        }
        family => Err(io::Error::other(format!(
            "a datagram came from an address of family {family}"
        ))),
    }
}

/// Goes through control messages: length of header and data, level, type, data, each padded to words.
fn read_control(mut control: &[u8], meta: &mut RecvMeta) {
    const WORD: usize = size_of::<usize>();
    const HEADER: usize = WORD + 8;
    while let Some((length, rest)) = control.split_first_chunk::<WORD>() {
        let length = usize::from_ne_bytes(*length);
        let (Some((level, rest)), Some(data)) =
            (rest.split_first_chunk::<4>(), control.get(HEADER..length))
        else {
            return;
        };
        let Some((kind, _)) = rest.split_first_chunk::<4>() else {
            return;
        };
        let kind = (i32::from_ne_bytes(*level), i32::from_ne_bytes(*kind));
        note(kind, data, meta);
        control = control.get(length.next_multiple_of(WORD)..).unwrap_or(&[]);
    }
}

fn note((level, kind): (i32, i32), data: &[u8], meta: &mut RecvMeta) {
    let number = || data.first_chunk().map(|bytes| i32::from_ne_bytes(*bytes));
    match (level, kind) {
        (libc::IPPROTO_IP, libc::IP_TOS) => {
            meta.ecn = data.first().and_then(|&tos| EcnCodepoint::from_bits(tos));
        }
        (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
            meta.ecn = number().and_then(|class| EcnCodepoint::from_bits(class as u8));
        }
        // struct in_pktinfo: interface, local address, destination of the packet.
        (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
            let to: Option<&[u8; 4]> = data.get(8..).and_then(|at| at.first_chunk());
            meta.dst_ip = to.map(|&to| IpAddr::from(to)).or(meta.dst_ip);
        }
        // struct in6_pktinfo: destination, interface.
        (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
            let to: Option<&[u8; 16]> = data.first_chunk();
            meta.dst_ip = to.map(|&to| IpAddr::from(to)).or(meta.dst_ip);
        }
        (libc::SOL_UDP, libc::UDP_GRO) => {
            let stride = number().and_then(|n| usize::try_from(n).ok());
            meta.stride = stride.filter(|&n| n > 0).unwrap_or(meta.stride);
        }
        (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
            let half = size_of::<libc::timespec>() / 2;
            let word = |at: usize| -> Option<u64> {
                let bytes = data.get(at..at + half)?;
                match half {
                    8 => Some(u64::from_ne_bytes(*bytes.first_chunk()?)),
                    _ => Some(u32::from_ne_bytes(*bytes.first_chunk()?).into()),
                }
            };
            if let (Some(seconds), Some(nanos)) = (word(0), word(half)) {
                let nanos = u32::try_from(nanos).unwrap_or(0);
                meta.timestamp = Some(Duration::new(seconds, nanos));
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(level: i32, kind: i32, data: &[u8]) -> Vec<u8> {
        let length = size_of::<usize>() + 8 + data.len();
        let mut bytes = length.to_ne_bytes().to_vec();
        bytes.extend(level.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(data);
        bytes.resize(length.next_multiple_of(size_of::<usize>()), 0);
        bytes
    }

    #[test]
    fn everything_that_is_told_is_read_and_what_is_cut_off_is_not() {
        let pktinfo = [&[0; 16][..], &[9; 4]].concat();
        let mut all = message(libc::SOL_UDP, libc::UDP_GRO, &1_400i32.to_ne_bytes());
        all.extend(message(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &pktinfo));
        all.extend(message(libc::IPPROTO_IP, 999, b"unknown"));
        let before_last = all.len();
        all.extend(message(libc::IPPROTO_IP, libc::IP_TOS, &[0x03]));
        let mut meta = RecvMeta::default();
        read_control(&all, &mut meta);
        assert_eq!(meta.stride, 1_400);
        assert_eq!(meta.dst_ip, Some(Ipv6Addr::UNSPECIFIED.into()));
        assert_eq!(meta.ecn, Some(EcnCodepoint::Ce));
        for end in 0..all.len() {
            let mut meta = RecvMeta::default();
            read_control(&all[..end], &mut meta);
            assert_eq!(
                meta.ecn.is_some(),
                end > before_last + size_of::<usize>() + 8
            );
        }
        // Lengths that make no sense end it.
        for length in [0usize, 1, 15, 4_000, usize::MAX] {
            let mut bad = all.clone();
            bad[..size_of::<usize>()].copy_from_slice(&length.to_ne_bytes());
            let mut meta = RecvMeta::default();
            read_control(&bad, &mut meta);
            assert_eq!(meta.ecn, None);
        }
    }
}
