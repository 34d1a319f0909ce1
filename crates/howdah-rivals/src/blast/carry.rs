//! What a driver asks of a blasting tool to move real bytes: see [`Carrier`].

use super::endpoint::Tool as _;
use super::{BlastEndpoint, Side};
use howdah_core::carrier::split_tagged;
use howdah_core::{ByteRange, Carrier, Datagram, Place};

impl Carrier for BlastEndpoint {
    /// The programs keep data and control apart by their ports. A segment of the control channel begins
    /// with its flags, which are below 8.
    const TAGGED: bool = true;

    fn split<'w>(&self, wire: &'w [u8]) -> Option<(&'w [u8], &'w [u8])> {
        split_tagged(wire)
    }

    fn payload_of(&self, datagram: &Datagram) -> Option<ByteRange> {
        if datagram.absent == 0 {
            return None;
        }
        each!(&self.0, side => side.tool().payload_of(&datagram.bytes, datagram.absent))
    }

    fn take_accepted(&mut self) -> Option<Place> {
        each!(&mut self.0, side => side.tool_mut().take_accepted()).map(Place::Bytes)
    }
}
