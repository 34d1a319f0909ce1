//! The contract between the TCP engine and a congestion control, and the list of them.
//!
//! The engine finds losses, repairs them and keeps the timers; a congestion control says how many
//! segments may be in flight and, if it paces, how fast they leave. Windows are in segments, as
//! in the papers, and fractional: an algorithm that adds 1/cwnd an acknowledgement simply does so.

mod bbr;
pub mod bbr1;
pub mod bbr3;
pub mod bic;
pub mod cubic;
pub mod cubic_linux;
pub mod fast;
mod filter;
pub mod hstcp;
pub mod htcp;
mod hystart;
mod hystart_plus;
pub mod quinn;
pub mod reno;
pub mod scalable;
#[cfg(test)]
mod testkit;
pub mod vegas;
mod window;

use howdah_core::{Rate, Span, Time};
use std::fmt;

/// What the engine is doing about losses.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Phase {
    /// Nothing is missing.
    #[default]
    Open,
    /// Fast recovery: losses of one window are being repaired.
    Recovery,
    /// After a retransmission timeout, until everything sent before it is acknowledged.
    Loss,
}

/// A delivery-rate sample (draft-cheng-iccrg-delivery-rate-estimation-02), in segments.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RateSample {
    /// Segments delivered over [`interval`](Self::interval).
    pub delivered_segments: u64,
    /// The longer of the sending and the acknowledging interval.
    pub interval: Span,
    /// The connection's count of delivered segments when the newest packet acknowledged here left:
    /// a round ends when this passes the count at the round's start.
    pub prior_delivered_segments: u64,
    /// The sender had nothing to send when that packet left.
    pub app_limited: bool,
    /// In flight when that packet left, itself included.
    pub in_flight_when_sent_segments: u32,
    /// Segments that were concluded to be lost between its departure and now.
    pub lost_segments: u32,
}

/// One acknowledgement packet that brought news, seen from the congestion control.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ack {
    /// Now.
    pub now: Time,
    /// Segments by which the cumulative acknowledgement advanced. What a sender that grows per
    /// acknowledgement counts is the call itself.
    pub acked_segments: u32,
    /// Segments newly known to be delivered, cumulatively or selectively.
    pub delivered_segments: u32,
    /// The connection's count of them, this acknowledgement included.
    pub total_delivered_segments: u64,
    /// Segments newly concluded to be lost on this acknowledgement.
    pub lost_segments: u32,
    /// Round-trip time of the newest segment that this acknowledges and that was sent once.
    pub rtt: Option<Span>,
    /// Smoothed round-trip time after this acknowledgement; zero before the first sample.
    pub srtt: Span,
    /// Least round-trip time of the connection; zero before the first sample.
    pub min_rtt: Span,
    /// In flight after this acknowledgement and before what it lets out.
    pub in_flight_segments: u32,
    /// In flight before this acknowledgement.
    pub prior_in_flight_segments: u32,
    /// In flight when the newest segment that is acknowledged here had just left: the window of
    /// one round trip ago.
    pub in_flight_when_sent_segments: u32,
    /// The window, and not the application or the receiver, held the sender back.
    pub cwnd_limited: bool,
    /// What the engine is doing about losses, after this acknowledgement.
    pub phase: Phase,
    /// Delivery rate, where a sample could be taken.
    pub rate: Option<RateSample>,
}

/// The start of a reduction: fast recovery begins, or the retransmission timer ran out.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Congestion {
    /// Now.
    pub now: Time,
    /// In flight when the loss was found.
    pub in_flight_segments: u32,
    /// Smoothed round-trip time; zero before the first sample.
    pub srtt: Span,
    /// Least round-trip time of the connection; zero before the first sample.
    pub min_rtt: Span,
    /// The connection's count of delivered segments.
    pub total_delivered_segments: u64,
}

/// A congestion control.
///
/// Calls come in this order: [`on_sent`](Self::on_sent) for each packet; for each acknowledgement
/// [`on_congestion`](Self::on_congestion) or [`on_recovered`](Self::on_recovered) if the phase
/// changes, then [`on_ack`](Self::on_ack); [`on_timeout`](Self::on_timeout) alone.
pub trait CongestionControl: fmt::Debug + Send {
    /// Name under which it is registered, and variant: what reports print.
    fn name(&self) -> &'static str;

    /// Congestion window in segments. The engine sends while less than this is in flight, and
    /// never holds less than one.
    fn cwnd(&self) -> f64;

    /// Slow-start threshold in segments; infinite until something has set it.
    fn ssthresh(&self) -> f64;

    /// Rate at which packets may leave, in bits of IP packets per second. `None`: they leave as
    /// acknowledgements let them (or paced by the engine, if it is told to).
    fn pacing_rate(&self) -> Option<Rate> {
        None
    }

    /// During recovery the engine lets the number in flight glide down to
    /// [`ssthresh`](Self::ssthresh) by itself (rate halving or PRR), unless the algorithm does
    /// that with its own window.
    fn owns_recovery(&self) -> bool {
        false
    }

    /// An acknowledgement. Algorithms of the loss-based family grow in [`Phase::Open`] only
    /// (and in [`Phase::Loss`], where slow start refills the pipe).
    fn on_ack(&mut self, ack: &Ack);

    /// Fast recovery begins: set `ssthresh`, and the window that shall stand after it.
    fn on_congestion(&mut self, event: &Congestion);

    /// Fast recovery has ended: everything that was in flight at its start is delivered.
    fn on_recovered(&mut self, _now: Time) {}

    /// The retransmission timer ran out: `ssthresh` as for a loss, window 1.
    fn on_timeout(&mut self, event: &Congestion);

    /// The last reduction was unfounded (nothing had been lost): take it back.
    fn on_undo(&mut self, _now: Time) {}

    /// A segment leaves; `in_flight_segments` includes it.
    fn on_sent(&mut self, _now: Time, _in_flight_segments: u32, _retransmission: bool) {}

    /// Whether the stack takes a segment that the host's own queue refuses for congestion, if it
    /// is one that does ([`TcpConfig::local_congestion`](crate::tcp::TcpConfig::local_congestion)).
    /// An algorithm that holds bursts back itself does not get there.
    fn heeds_local_congestion(&self) -> bool {
        true
    }

    /// The connection starts to send again after an idle time.
    fn on_restart(&mut self, _now: Time, _idle: Span) {}
}

/// What slow start counts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SlowStartCounting {
    /// One segment for each acknowledgement that advances: Linux before 3.x. With every second
    /// segment acknowledged a round trip multiplies the window by 1.5 and not by 2.
    Acks,
    /// As many segments as are acknowledged, but at most this many for one acknowledgement
    /// (appropriate byte counting, RFC 3465, whose L is 1 or 2); `u32::MAX` is no limit.
    Segments {
        /// RFC 3465's L, in segments.
        limit: u32,
    },
}

/// Slow start as a stack does it: what differs between stacks rather than between congestion
/// controls, so that every algorithm here can leave it to this.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlowStart {
    /// What it counts.
    pub counting: SlowStartCounting,
    /// Limited slow start (RFC 3742): above this window (the RFC's `max_ssthresh`, 100) at most
    /// half of it is added in a round trip.
    pub max_ssthresh_segments: Option<u32>,
    /// Threshold to begin with, as a metrics cache remembers it from an earlier connection to the
    /// same host; `None` is as high as can be.
    pub initial_ssthresh_segments: Option<u32>,
}

impl Default for SlowStart {
    /// Segments without a limit, no limited slow start, no cached threshold.
    fn default() -> Self {
        Self {
            counting: SlowStartCounting::Segments { limit: u32::MAX },
            max_ssthresh_segments: None,
            initial_ssthresh_segments: None,
        }
    }
}

impl SlowStart {
    /// Slow-start threshold to begin with, in segments; infinite unless one is cached.
    pub fn initial_ssthresh(&self) -> f64 {
        self.initial_ssthresh_segments
            .map_or(f64::INFINITY, |segments| f64::from(segments.max(2)))
    }

    /// The window after `ack` in slow start, at most `ssthresh`. What is left of the
    /// acknowledgement beyond the threshold is dropped.
    pub fn grow(&self, cwnd: f64, ssthresh: f64, ack: &Ack) -> f64 {
        let counted = match self.counting {
            SlowStartCounting::Acks => ack.acked_segments.min(1),
            SlowStartCounting::Segments { limit } => ack.acked_segments.min(limit),
        };
        let per_segment = match self.max_ssthresh_segments {
            // RFC 3742 section 2: K = int(cwnd / (0.5 max_ssthresh)), cwnd += int(MSS / K).
            Some(limit) if cwnd > f64::from(limit) => {
                1.0 / (cwnd / (0.5 * f64::from(limit.max(1)))).floor()
            }
            _ => 1.0,
        };
        (cwnd + f64::from(counted) * per_segment).min(ssthresh.max(cwnd))
    }
}

/// What an algorithm may want to know when it is made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CcSettings {
    /// Initial window in segments.
    pub initial_window_segments: u32,
    /// Payload bytes of a full segment.
    pub mss_bytes: u32,
    /// IP bytes of a full segment, for algorithms that pace.
    pub packet_bytes: u32,
    /// For the algorithms that draw lots (the probing phase of BBR).
    pub seed: u64,
    /// Slow start as the stack does it: [`SlowStart::grow`] and [`SlowStart::initial_ssthresh`].
    pub slow_start: SlowStart,
}

impl Default for CcSettings {
    /// Initial window 10, Ethernet with timestamps, seed 0, today's slow start.
    fn default() -> Self {
        Self {
            initial_window_segments: 10,
            mss_bytes: 1448,
            packet_bytes: 1500,
            seed: 0,
            slow_start: SlowStart::default(),
        }
    }
}

/// Makes a congestion control.
pub type Make = fn(&CcSettings) -> Box<dyn CongestionControl>;

/// One line of the list of algorithms.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Name in scenarios and reports.
    pub name: &'static str,
    /// What it is and where it is written down, in one line.
    pub about: &'static str,
    /// Makes one.
    pub make: Make,
}

/// Every congestion control of this crate: one line each.
pub const ALL: &[Entry] = &[
    reno::ENTRY,
    hstcp::ENTRY,
    scalable::ENTRY,
    scalable::LINUX,
    fast::ENTRY,
    bic::ENTRY,
    cubic_linux::PAPER_2005,
    cubic_linux::LINUX_2_0,
    cubic_linux::LINUX_2_3,
    cubic_linux::LINUX_6,
    cubic::ENTRY,
    htcp::ENTRY,
    vegas::ENTRY,
    bbr1::ENTRY,
    bbr3::ENTRY,
];

/// The algorithm of that name.
pub fn find(name: &str) -> Option<&'static Entry> {
    ALL.iter().find(|entry| entry.name == name)
}
