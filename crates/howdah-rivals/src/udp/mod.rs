//! UDP streams that react to nothing: constant bit rate, and on-off.
//!
//! ```
//! use howdah_core::{Rate, Time};
//! use howdah_rivals::udp::{CbrSettings, UdpEndpoint};
//! // JGN06's heaviest voice-like load: 5000 packets of 200 bytes a second.
//! let settings = CbrSettings::new(Rate::from_mbit_per_sec(8), 200);
//! let sender = UdpEndpoint::cbr(&settings)?;
//! let receiver = UdpEndpoint::sink();
//! # let _ = (sender, receiver);
//! # Ok::<(), howdah_rivals::udp::SettingsError>(())
//! ```
//!
//! Each datagram begins with a header of [`HEADER_BYTES`]: the sequence number, from 0, and the
//! time at which it left, in nanoseconds, both 64 bits big-endian. The rest of the payload is
//! absent. Rates and sizes are those of the UDP payload, header included, as in Iperf.

mod cbr;
mod on_off;
mod sink;
#[cfg(test)]
mod tests;

pub use cbr::CbrSettings;
pub use on_off::{OnOffSettings, Periods};
pub use sink::Received;

use howdah_core::{
    Arrival, Datagram, HeaderBytes, Observe, Rate, Snapshot, Time, Transport, WakeReason,
};
use sink::Sink;

/// Bytes of the header: a sequence number and a time.
pub const HEADER_BYTES: u32 = 16;

/// Largest UDP payload over IPv4.
pub const MAX_PAYLOAD_BYTES: u32 = 65_507;

/// A setting with which there is no stream.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum SettingsError {
    /// The packets cannot hold the header, or no IP packet can hold them.
    #[error("a UDP payload of {0} bytes; it must be {HEADER_BYTES} to {MAX_PAYLOAD_BYTES}")]
    PayloadBytes(u32),
    /// At no rate at all nothing is sent, and at an unlimited rate everything at once.
    #[error("a stream at {0}; the rate must be above zero and finite")]
    Rate(Rate),
    /// There must be a time in which something is sent, or the source would search for ever.
    #[error("an on-off source whose on-periods have no length")]
    OnPeriod,
}

/// How long a stream lasts. A packet leaves if its time is before `stop`, and if fewer than
/// `packets` have left.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Extent {
    /// The first packet leaves then, or when the endpoint is first driven if that is later.
    pub start: Time,
    /// No packet leaves at this time or later.
    pub stop: Option<Time>,
    /// No more packets than these.
    pub packets: Option<u64>,
}

/// Encodes a header.
fn encode(sequence: u64, sent_at: Time) -> HeaderBytes {
    let mut bytes = HeaderBytes::new();
    bytes.extend_from_slice(&sequence.to_be_bytes());
    bytes.extend_from_slice(&sent_at.as_nanos().to_be_bytes());
    bytes
}

/// Decodes a header; `None` if the datagram is too short.
fn decode(bytes: &[u8]) -> Option<(u64, Time)> {
    let (sequence, rest) = bytes.split_first_chunk::<8>()?;
    let sent_at = rest.first_chunk::<8>()?;
    Some((
        u64::from_be_bytes(*sequence),
        Time::from_nanos(u64::from_be_bytes(*sent_at)),
    ))
}

/// When the packet of a stream was sent, by the sender's clock; `None` if the datagram is too short to be one.
pub fn sent_at(bytes: &[u8]) -> Option<Time> {
    decode(bytes).map(|(_, sent_at)| sent_at)
}

/// The number of a stream's packet, from 0; `None` if the datagram is too short to be one.
pub fn sequence(bytes: &[u8]) -> Option<u64> {
    decode(bytes).map(|(sequence, _)| sequence)
}

/// When the packets of a source are due.
trait Schedule {
    /// The next packet's time; `None` before the source was driven for the first time.
    fn next_at(&self) -> Option<Time>;
    /// Begins at this time.
    fn begin(&mut self, at: Time);
    /// The next packet has left.
    fn advance(&mut self);
}

#[derive(Clone, Debug)]
enum Clockwork {
    Cbr(cbr::Cadence),
    OnOff(Box<on_off::OnOff>),
}

impl Schedule for Clockwork {
    fn next_at(&self) -> Option<Time> {
        match self {
            Self::Cbr(schedule) => schedule.next_at(),
            Self::OnOff(schedule) => schedule.next_at(),
        }
    }

    fn begin(&mut self, at: Time) {
        match self {
            Self::Cbr(schedule) => schedule.begin(at),
            Self::OnOff(schedule) => schedule.begin(at),
        }
    }

    fn advance(&mut self) {
        match self {
            Self::Cbr(schedule) => schedule.advance(),
            Self::OnOff(schedule) => schedule.advance(),
        }
    }
}

#[derive(Clone, Debug)]
struct Source {
    name: &'static str,
    clockwork: Clockwork,
    extent: Extent,
    payload_bytes: u32,
    rate: Rate,
    sent_packets: u64,
    last_sent_at: Time,
}

impl Source {
    fn begin(&mut self, now: Time) {
        if self.clockwork.next_at().is_none() {
            self.clockwork.begin(now.max(self.extent.start));
        }
    }

    /// When the next packet leaves; `None` if the stream has ended.
    fn next_at(&self) -> Option<Time> {
        if self.extent.packets.is_some_and(|n| self.sent_packets >= n) {
            return None;
        }
        let at = self.clockwork.next_at().unwrap_or(self.extent.start);
        self.extent.stop.is_none_or(|stop| at < stop).then_some(at)
    }

    fn poll_transmit(&mut self, now: Time, max: usize, out: &mut Vec<Datagram>) -> usize {
        self.begin(now);
        let mut sent = 0;
        while sent < max && self.next_at().is_some_and(|at| at <= now) {
            out.push(Datagram {
                bytes: encode(self.sent_packets, now),
                absent: self.payload_bytes - HEADER_BYTES,
            });
            self.clockwork.advance();
            self.sent_packets += 1;
            self.last_sent_at = now;
            sent += 1;
        }
        sent
    }

    fn snapshot(&self) -> Snapshot {
        let ended = self.next_at().is_none();
        Snapshot {
            algorithm: self.name.into(),
            sent_bytes: self.sent_packets * u64::from(self.payload_bytes),
            pacing_rate: Some(if ended { Rate::ZERO } else { self.rate }),
            finished_at: ended.then_some(self.last_sent_at),
            ..Snapshot::default()
        }
    }
}

#[derive(Clone, Debug)]
enum Role {
    Source(Source),
    Sink(Box<Sink>),
}

/// One end of a UDP stream: a source or a sink.
///
/// A source reports as finished when its last packet has left, since nobody tells it more.
#[derive(Clone, Debug)]
pub struct UdpEndpoint(Role);

impl UdpEndpoint {
    /// A source with a constant rate.
    pub fn cbr(settings: &CbrSettings) -> Result<Self, SettingsError> {
        let cadence = cbr::Cadence::new(settings.rate, settings.payload_bytes)?;
        let clockwork = Clockwork::Cbr(cadence);
        Ok(Self::source(
            "udp/cbr",
            clockwork,
            settings.extent,
            settings.payload_bytes,
            settings.rate,
        ))
    }

    /// A source that sends at a constant rate in on-periods and is silent between them.
    pub fn on_off(settings: &OnOffSettings) -> Result<Self, SettingsError> {
        let clockwork = Clockwork::OnOff(Box::new(on_off::OnOff::new(settings)?));
        Ok(Self::source(
            "udp/on-off",
            clockwork,
            settings.extent,
            settings.payload_bytes,
            settings.rate,
        ))
    }

    const fn source(
        name: &'static str,
        clockwork: Clockwork,
        extent: Extent,
        payload_bytes: u32,
        rate: Rate,
    ) -> Self {
        Self(Role::Source(Source {
            name,
            clockwork,
            extent,
            payload_bytes,
            rate,
            sent_packets: 0,
            last_sent_at: Time::ZERO,
        }))
    }

    /// The receiver of one stream.
    pub fn sink() -> Self {
        Self(Role::Sink(Box::default()))
    }

    /// What a sink has received so far; `None` for a source.
    pub fn received(&self) -> Option<&Received> {
        match &self.0 {
            Role::Sink(sink) => Some(sink.received()),
            Role::Source(_) => None,
        }
    }

    /// Packets that a source has sent so far; `None` for a sink. Only this number tells of the
    /// losses at the end of a stream, which no later packet gives away.
    pub const fn sent_packets(&self) -> Option<u64> {
        match &self.0 {
            Role::Source(source) => Some(source.sent_packets),
            Role::Sink(_) => None,
        }
    }
}

impl Transport for UdpEndpoint {
    fn handle_datagram(&mut self, now: Time, arrival: Arrival<'_>) {
        if let Role::Sink(sink) = &mut self.0 {
            sink.on_arrival(now, arrival);
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        if let Role::Source(source) = &mut self.0 {
            source.begin(now);
        }
    }

    fn poll_transmit(&mut self, now: Time, max_datagrams: usize, out: &mut Vec<Datagram>) -> usize {
        match &mut self.0 {
            Role::Source(source) => source.poll_transmit(now, max_datagrams, out),
            Role::Sink(_) => 0,
        }
    }

    fn poll_timeout(&self) -> Option<(Time, WakeReason)> {
        match &self.0 {
            Role::Source(source) => Some((source.next_at()?, WakeReason::Pacing)),
            Role::Sink(_) => None,
        }
    }
}

impl Observe for UdpEndpoint {
    fn snapshot(&self) -> Snapshot {
        match &self.0 {
            Role::Source(source) => source.snapshot(),
            Role::Sink(sink) => Snapshot {
                algorithm: "udp/sink".into(),
                delivered_bytes: sink.received().bytes,
                lost_packets: sink.received().lost(),
                ..Snapshot::default()
            },
        }
    }
}
