//! SABUL, Simple Available Bandwidth Utilization Library (Grossman, Gu and others, 2000 to 2003): UDT's
//! ancestor. Data over UDP at a rate, control over TCP.
//!
//! The rate law is that of the program of March 2003; what the messages look like and how often some
//! of them are sent is modelled. docs/rivals/sabul.md says which is which.
//!
//! ```
//! use howdah_rivals::sabul::{SabulEndpoint, SabulSettings};
//! let settings = SabulSettings::default();
//! let sender = SabulEndpoint::sender(&settings, Some(1 << 30));
//! let receiver = SabulEndpoint::receiver(&settings);
//! # let _ = (sender, receiver);
//! ```

mod law;
mod messages;
mod receiver;
mod sender;

use crate::blast::endpoint::{Endpoint, Tool};
use howdah_core::{Arrival, Datagram, Observe, Rate, Snapshot, Span, Time, Transport, WakeReason};

/// Interval of the receiver's SYN message, and of the rate control.
pub(crate) const SYN: Span = Span::from_millis(10);

/// What both sides are told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SabulSettings {
    /// IP packet in bytes: 1500. Payload is 32 bytes less.
    pub packet_bytes: u32,
    /// Shortest sending period in microseconds, with which it also starts: 10, at 1500 bytes
    /// 1.2 Gbit/s.
    pub least_period_us: f64,
    /// Longest one: 1000, at 1500 bytes 12 Mbit/s.
    pub most_period_us: f64,
    /// Most packets in flight ("flag"): 25600. Fixed; 40.96 MB of memory are 27306 packets.
    pub flight_packets: u32,
    /// The receiver asks again for what is missing after this long: 100 ms (modelled).
    pub repeat: Span,
    /// Without progress for this long everything unacknowledged is sent again: 1 s.
    pub expiry: Span,
}

impl Default for SabulSettings {
    fn default() -> Self {
        Self {
            packet_bytes: 1500,
            least_period_us: 10.0,
            most_period_us: 1000.0,
            flight_packets: 25_600,
            repeat: Span::from_millis(100),
            expiry: Span::from_secs(1),
        }
    }
}

impl SabulSettings {
    /// Payload of a full packet in bytes: less IPv4, UDP and a sequence number.
    pub const fn payload_bytes(&self) -> u32 {
        self.packet_bytes - 32
    }

    /// The same with another starting and highest rate, in bits of IP packets.
    #[must_use]
    pub fn at_most(self, rate: Rate) -> Self {
        let bits = f64::from(self.packet_bytes) * 8.0;
        let least_period_us = (bits * 1e6 / rate.as_f64().max(1.0)).min(self.most_period_us);
        Self {
            least_period_us,
            ..self
        }
    }

    fn bounded(mut self) -> Self {
        self.packet_bytes = self.packet_bytes.clamp(128, 65_535);
        self.flight_packets = self.flight_packets.clamp(16, 1 << 22);
        // A period of nothing would send for ever in one instant.
        self.least_period_us = self.least_period_us.max(0.1);
        self.most_period_us = self.most_period_us.max(self.least_period_us);
        self
    }
}

/// One side of a SABUL connection, data and control together.
#[derive(Debug)]
pub struct SabulEndpoint(Side);

#[derive(Debug)]
enum Side {
    Sender(Box<Endpoint<sender::Sender>>),
    Receiver(Box<Endpoint<receiver::Receiver>>),
}

macro_rules! each {
    ($side:expr, $inner:ident => $call:expr) => {
        match $side {
            Side::Sender($inner) => $call,
            Side::Receiver($inner) => $call,
        }
    };
}

impl SabulEndpoint {
    /// The side that sends an object of so many bytes, or without end.
    pub fn sender(settings: &SabulSettings, object_bytes: Option<u64>) -> Self {
        let tool = sender::Sender::new(settings.bounded(), object_bytes);
        Self(Side::Sender(Box::new(Endpoint::new(tool, false, None))))
    }

    /// The side that receives, opens the connection, and reads at once.
    pub fn receiver(settings: &SabulSettings) -> Self {
        let tool = receiver::Receiver::new(settings.bounded());
        Self(Side::Receiver(Box::new(Endpoint::new(tool, false, None))))
    }

    /// User bytes that have reached the application here.
    pub fn delivered_bytes(&self) -> u64 {
        each!(&self.0, side => side.tool().delivered_bytes())
    }
}

impl Transport for SabulEndpoint {
    fn handle_datagram(&mut self, now: Time, arrival: Arrival<'_>) {
        each!(&mut self.0, side => side.handle_datagram(now, arrival));
    }

    fn handle_timeout(&mut self, now: Time) {
        each!(&mut self.0, side => side.handle_timeout(now));
    }

    fn poll_transmit(&mut self, now: Time, max_datagrams: usize, out: &mut Vec<Datagram>) -> usize {
        each!(&mut self.0, side => side.poll_transmit(now, max_datagrams, out))
    }

    fn poll_timeout(&self) -> Option<(Time, WakeReason)> {
        each!(&self.0, side => side.poll_timeout())
    }
}

impl Observe for SabulEndpoint {
    fn snapshot(&self) -> Snapshot {
        each!(&self.0, side => side.snapshot())
    }
}
