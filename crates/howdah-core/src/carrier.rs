//! What a driver must know of a transport to move real bytes with it.

use crate::{ByteRange, Datagram, Transport};

/// Where the payload of a datagram that has arrived belongs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Place {
    /// These bytes of the object. What the payload holds beyond them is padding.
    Bytes(ByteRange),
    /// So many places from the first packet, from 0, in a transport whose headers number packets and
    /// not bytes: the bytes follow those of the packet before.
    Packet(u64),
}

/// A [`Transport`] whose payload, absent in simulations, can be filled in by a driver with a socket.
///
/// On the wire the header bytes come first and the payload follows. Before
/// [`handle_datagram`](Transport::handle_datagram) the driver cuts what has come with
/// [`split`](Self::split), passes on the header as `bytes` and the length of the rest as `absent`,
/// and asks [`take_accepted`](Self::take_accepted) where the rest belongs.
pub trait Carrier: Transport {
    /// The driver puts a byte before each datagram with payload that says how long the header is
    /// ([`tag_of`]): for protocols that cannot tell data from control messages because their programs
    /// use two sockets. Their control messages begin with a byte below 128, and headers are shorter.
    const TAGGED: bool;

    /// Whether it measures the time between two packets. Then they must leave and be read one by one: in a train that the
    /// host sends or hands over as one there are no gaps.
    const READS_GAPS: bool = false;

    /// Header and payload of a datagram; `None` for what this protocol never sends.
    fn split<'w>(&self, wire: &'w [u8]) -> Option<(&'w [u8], &'w [u8])>;

    /// The bytes of the object for which a datagram stands, to be asked before the transport is called
    /// again; `None` for one without payload. If it stands for less than is absent, zeros follow.
    fn payload_of(&self, datagram: &Datagram) -> Option<ByteRange>;

    /// Where the payload of the last arrival belongs, if it was wanted; once.
    fn take_accepted(&mut self) -> Option<Place>;
}

/// Set in a tag; the other bits are the header's length.
const TAG: u8 = 0x80;

/// Header and payload of a datagram of a [tagged](Carrier::TAGGED) protocol: a first byte from 128 on
/// is a tag, and says how long the header behind it is; any other begins a datagram without payload. For
/// implementations of [`Carrier::split`].
pub fn split_tagged(wire: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&first, rest) = wire.split_first()?;
    if first & TAG == 0 {
        Some((wire, &[]))
    } else {
        rest.split_at_checked(usize::from(first & !TAG))
    }
}

/// The tag of a datagram, if it has one: see [`split_tagged`].
pub fn tag_of(datagram: &Datagram) -> Option<u8> {
    let header = u8::try_from(datagram.bytes.len()).ok()?;
    (datagram.absent > 0 && header < TAG).then_some(TAG | header)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HeaderBytes;

    #[test]
    fn tags_tell_headers_from_payload() {
        let data = Datagram {
            bytes: HeaderBytes::from_slice(&[1, 2, 3, 4]),
            absent: 2,
        };
        assert_eq!(tag_of(&data), Some(0x84));
        assert_eq!(
            split_tagged(&[0x84, 1, 2, 3, 4, 9, 9]),
            Some((&[1, 2, 3, 4][..], &[9, 9][..]))
        );
        let control = Datagram { absent: 0, ..data };
        assert_eq!(tag_of(&control), None);
        assert_eq!(split_tagged(&[7, 8]), Some((&[7, 8][..], &[][..])));
        assert_eq!(split_tagged(&[]), None);
        assert_eq!(
            split_tagged(&[0x85, 1, 2]),
            None,
            "cut off within the header"
        );
    }
}
