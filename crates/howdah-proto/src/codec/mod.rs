//! The wire format: headers, frames, reports. docs/protocol.md is its specification.
//!
//! Every length that is read has a written limit ([`limits`]); no decoder allocates by a length
//! that it has not yet seen the bytes of.

#[cfg(test)]
mod bounds_tests;
mod frame;
mod header;
mod primitives;
mod report;
mod retry;

pub use frame::{Frame, FrameWriter, TrainSeen, frames};
pub(crate) use frame::{data_frame, leading_data};
pub use header::{ConnectionId, DATA_HEADER_LEN, HANDSHAKE_HEADER_LEN, Header, Level};
pub use header::{VERSION, expand_packet_number};
pub(crate) use header::{data_header, read_data_header};
pub use primitives::{CodecError, Reader, Writer};
pub use report::{Coverage, EcnCounts, Report, Run, RxSample, SinkState, run_len};
pub use retry::{COOKIE_LEN, Cookie, KnockKey, RetryAnswer, RetryPacket};

/// Limits on everything that is read from the wire.
pub mod limits {
    /// Largest UDP payload that is ever sent or accepted, in bytes.
    pub const MAX_DATAGRAM: usize = 65_000;
    /// Every path must carry UDP payloads of this size (as QUIC requires, RFC 9000 section 14).
    pub const MIN_DATAGRAM: usize = 1_200;
    /// Handshake bytes buffered at one level, in bytes.
    pub const MAX_CRYPTO_BYTES: u64 = 16 * 1024;
    /// Control-stream bytes received ahead of a hole, in bytes.
    pub const MAX_CONTROL_AHEAD: u64 = 256 * 1024;
    /// One control message, in bytes.
    pub const MAX_CONTROL_MESSAGE: usize = 64 * 1024;
    /// Reason text of a close, in bytes.
    pub const MAX_REASON: usize = 256;
    /// Objects open at the same time in one direction.
    pub const MAX_OPEN_OBJECTS: usize = 64;
    /// Separate ranges of one object that may have arrived; losses on any real path make far fewer.
    pub const MAX_RANGES: usize = 1 << 20;
    /// Last byte offset of an object: 2^62, as a signed 64-bit file offset must hold it.
    pub const MAX_OFFSET: u64 = 1 << 62;
    /// Coverage blocks in one report.
    pub const MAX_COVERAGE_BLOCKS: u64 = 16;
    /// Packets that one coverage block may span.
    pub const MAX_COVERAGE_SPAN: u64 = 1 << 24;
    /// Late packets named in one report.
    pub const MAX_LATE: u64 = 64;
    /// Arrival samples in one report.
    pub const MAX_SAMPLES: u64 = 8;
    /// Packets of a client's first flight that are looked at as a train.
    pub const MAX_TRAIN: u32 = 20;
}
