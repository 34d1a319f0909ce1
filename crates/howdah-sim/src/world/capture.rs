//! Every packet at the interfaces of hosts, for whoever wants to see them.

use super::World;
use crate::lane::Flight;
use howdah_core::{Datagram, Ecn, Time, Transport};

/// A packet that passes the interface of a host.
#[derive(Clone, Copy, Debug)]
pub struct Captured<'a> {
    /// When it leaves, or when it arrives: before the socket, whose buffer may be full.
    pub at: Time,
    /// The flow, in the order in which they were added.
    pub flow: usize,
    /// The interface is that of the flow's first end, [`FlowEnds::a`](crate::FlowEnds::a).
    pub at_a: bool,
    /// It leaves the host; otherwise it comes.
    pub leaves: bool,
    /// The transport's own header. A packet that was damaged on its way is shown as it was sent.
    pub bytes: &'a [u8],
    /// Bytes behind those, which nobody looks at and which are not carried.
    pub absent: u32,
    /// Bytes of the headers in front of them: IP, and UDP where there is one.
    pub header_bytes: u32,
    /// Its ECN field.
    pub ecn: Ecn,
}

/// Looks at packets.
pub(crate) type Capture = Box<dyn FnMut(&Captured<'_>)>;

impl<T: Transport> World<T> {
    /// Shows every packet at the interfaces of all hosts to `look`, which replaces an earlier one. Looking changes nothing, not even
    /// the [`fingerprint`](Self::fingerprint).
    pub fn capture(&mut self, look: impl FnMut(&Captured<'_>) + 'static) {
        self.capture = Some(Box::new(look));
    }

    #[cold]
    pub(crate) fn show_leaving(&mut self, index: usize, datagram: &Datagram, ecn: Ecn) {
        let endpoint = &self.endpoints[index];
        let captured = Captured {
            at: self.now,
            flow: index / 2,
            at_a: index.is_multiple_of(2),
            leaves: true,
            bytes: &datagram.bytes,
            absent: datagram.absent,
            header_bytes: endpoint.header_bytes,
            ecn,
        };
        if let Some(look) = &mut self.capture {
            look(&captured);
        }
    }

    #[cold]
    pub(crate) fn show_coming(&mut self, flight: &Flight, index: usize) {
        let (bytes, absent) = self.pool.get(flight.parcel);
        let captured = Captured {
            at: self.now,
            flow: index / 2,
            at_a: index.is_multiple_of(2),
            leaves: false,
            bytes,
            absent,
            header_bytes: self.endpoints[flight.sender as usize].header_bytes,
            ecn: flight.ecn,
        };
        if let Some(look) = &mut self.capture {
            look(&captured);
        }
    }
}
