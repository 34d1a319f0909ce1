//! What an endpoint says about itself, to those who measure.

use crate::{Rate, Span, Time};
use std::borrow::Cow;

/// The state of one endpoint at one moment. Counters run from the start and never fall.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// Algorithm and variant, read from the live object and not from the configuration: "reno",
    /// "bbr3", "howdah/fair", "receiver/winxp".
    pub algorithm: Cow<'static, str>,
    /// User bytes that have reached the application here, each counted once: in order for a
    /// stream, in any order for an object that is placed by offset.
    pub delivered_bytes: u64,
    /// Payload bytes that have been sent from here, repetitions included.
    pub sent_bytes: u64,
    /// The repetitions among them.
    pub retransmitted_bytes: u64,
    /// Packets that this side has concluded to be lost.
    pub lost_packets: u64,
    /// Times that this side lowered its rate for loss.
    pub congestion_events: u64,
    /// Times that a retransmission timer ran out.
    pub timeouts: u64,
    /// Congestion window, where there is one.
    pub cwnd_bytes: Option<u64>,
    /// Slow-start threshold, where there is one and it has been set.
    pub ssthresh_bytes: Option<u64>,
    /// Payload bytes sent, not acknowledged and not concluded to be lost.
    pub in_flight_bytes: u64,
    /// Rate at which packets are released, where they are paced.
    pub pacing_rate: Option<Rate>,
    /// Smoothed round-trip time.
    pub srtt: Option<Span>,
    /// Least round-trip time that the algorithm works with.
    pub min_rtt: Option<Span>,
    /// When the last byte of a sized transfer was known to be delivered, on this side.
    pub finished_at: Option<Time>,
    /// Why the transfer was given up, if it was.
    pub failed: Option<String>,
}

/// An endpoint that can be looked at while it runs. Looking changes nothing.
pub trait Observe {
    /// The state now.
    fn snapshot(&self) -> Snapshot;
}
