//! What Linux 2.4 spends on an acknowledgement with SACK blocks.
//!
//! `tcp_sacktag_write_queue` begins for each block at the head of the retransmission queue and looks at each segment until one lies behind
//! the block. Where a window has thousands of segments and a hole is near its head, each acknowledgement is a walk over most of it, three times with
//! three blocks. Later kernels remember where they were (2.6.15 and later ones), and have a tree (4.15, whose change gives 40 ns for a segment that is in no cache).

use super::{Sender, State};
use crate::tcp::segment::{Segment, Side, unwrap_near};
use howdah_core::{Arrival, Span};

impl Sender {
    /// How long the host is busy with an arrival by [`TcpConfig::sack_walk`](crate::tcp::TcpConfig::sack_walk).
    pub(crate) fn handling_time(&self, arrival: &Arrival<'_>) -> Span {
        let walks = !self.config.sack_walk.is_zero() && self.sack && !arrival.corrupt;
        if !walks || self.state != State::Established {
            return Span::ZERO;
        }
        let Some(segment) = Segment::decode(arrival.bytes) else {
            return Span::ZERO;
        };
        if segment.side != Side::Receiver {
            return Span::ZERO;
        }
        let blocks = segment.sack.as_slice().iter();
        let walked: u64 = blocks.map(|&(_, right)| self.segments_before(right)).sum();
        self.config.sack_walk * walked
    }

    /// Segments of the retransmission queue that begin before a sequence number.
    fn segments_before(&self, sequence: u32) -> u64 {
        let una_bytes = self.position_of(self.board.una);
        let base = self.config.initial_sequence.wrapping_add(1);
        let Some(end) = unwrap_near(una_bytes, sequence.wrapping_sub(base)) else {
            return 0;
        };
        let segments = end.saturating_sub(una_bytes).div_ceil(u64::from(self.mss));
        segments.min(u64::from(self.board.outstanding()))
    }
}
