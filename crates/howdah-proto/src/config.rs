//! Settings of a connection, and what each side tells the other at the start.

use crate::codec::{CodecError, KnockKey, Reader, Writer, limits};
use crate::handshake::Security;
use crate::rate::{PathKnowledge, Policy, Share};
use howdah_core::Span;

/// Settings of one side.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where the secrets come from.
    pub security: Security,
    /// How this side sends.
    pub policy: Policy,
    /// With [`Policy::Fair`]: it is one of so many that count as one flow.
    pub share: Share,
    /// The peer counts as lost after this long without a packet.
    pub idle_timeout: Span,
    /// A handshake that takes longer has failed.
    pub handshake_timeout: Span,
    /// Data packets sealed under one key before it is replaced. AES-GCM allows 2^23
    /// (RFC 9001 section 6.6); the default is 2^22, half a minute at 10 Gbit/s.
    pub key_update_after: u64,
    /// Largest UDP payload to send or receive, in bytes.
    pub max_datagram: u16,
    /// Of the server: its own, or the one that a client expects, if it knows it.
    pub knock: Option<KnockKey>,
    /// Send packets that can be marked instead of dropped (ECN), where peer and path bear it.
    pub ecn: bool,
    /// What the last connection knew of the path to this peer, if somebody remembers it.
    pub path: Option<PathKnowledge>,
    /// Of a client that is about to send much: its first flight is a train of packets, 24 kB, by which the server measures the path while the
    /// handshake goes on. Without, this is known a round trip later. It pays from [`MUCH_BYTES`](Self::MUCH_BYTES) on.
    pub train: bool,
}

impl Config {
    /// Beside so much a [train](Self::train) is next to nothing.
    pub const MUCH_BYTES: u64 = 4 << 20;

    /// The defaults, which fit every path.
    pub fn new(security: Security) -> Self {
        Self {
            security,
            policy: Policy::Fair,
            share: Share::WHOLE,
            idle_timeout: Span::from_secs(8),
            handshake_timeout: Span::from_secs(10),
            key_update_after: 1 << 22,
            max_datagram: 8_972,
            knock: None,
            ecn: true,
            path: None,
            train: false,
        }
    }
}

/// What a side tells the other inside the handshake.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Parameters {
    pub(crate) max_datagram: u16,
    pub(crate) idle_timeout_ms: u64,
    /// It reads the ECN field of what comes and knows counts of marks in reports.
    pub(crate) counts_marks: bool,
    /// It knows `REPORT_ACK_SPARSE`.
    pub(crate) thins_reports: bool,
}

/// Bits of the third parameter: what a side can do beyond the first version.
const COUNTS_MARKS: u64 = 1;
const THINS_REPORTS: u64 = 2;

/// Longest idle timeout that a peer may ask for, in milliseconds.
const MAX_IDLE_MS: u64 = 600_000;

impl Parameters {
    pub(crate) fn encode(self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out);
        writer.varint(self.max_datagram.into());
        writer.varint(self.idle_timeout_ms);
        let ability = |has: bool, bit: u64| if has { bit } else { 0 };
        let abilities =
            ability(self.counts_marks, COUNTS_MARKS) | ability(self.thins_reports, THINS_REPORTS);
        if abilities != 0 {
            writer.varint(abilities);
        }
        out
    }

    /// Unknown bytes at the end are those of a later version.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        let mut reader = Reader::new(bytes);
        let max_datagram = reader.varint_at_most(limits::MAX_DATAGRAM as u64)?;
        let max_datagram = u16::try_from(max_datagram).map_err(|_| CodecError::LimitExceeded)?;
        let idle_timeout_ms = reader.varint()?.clamp(100, MAX_IDLE_MS);
        let abilities = if reader.is_empty() {
            0
        } else {
            reader.varint()?
        };
        if usize::from(max_datagram) < limits::MIN_DATAGRAM {
            return Err(CodecError::LimitExceeded);
        }
        Ok(Self {
            max_datagram,
            idle_timeout_ms,
            counts_marks: abilities & COUNTS_MARKS != 0,
            thins_reports: abilities & THINS_REPORTS != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_without_abilities_says_nothing_of_them() {
        for (counts_marks, thins_reports) in
            [(false, false), (true, false), (false, true), (true, true)]
        {
            let parameters = Parameters {
                max_datagram: 8_972,
                idle_timeout_ms: 8_000,
                counts_marks,
                thins_reports,
            };
            let bytes = parameters.encode();
            let told = counts_marks || thins_reports;
            assert_eq!(bytes.len(), 4 + usize::from(told));
            assert_eq!(Parameters::decode(&bytes), Ok(parameters));
            // What later versions put behind it is ignored, and so are abilities that only they know.
            if told {
                let later = [&bytes[..], &[0x7e, 0xff]].concat();
                assert_eq!(Parameters::decode(&later), Ok(parameters));
            } else {
                let later = [&bytes[..], &[0x7c, 0xff]].concat();
                assert_eq!(Parameters::decode(&later), Ok(parameters));
            }
        }
    }
}
