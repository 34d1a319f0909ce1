//! The rate control of one connection alone, as reports of a steady path feed it.

use crate::Policy;
use crate::rate::{Feedback, Point, RateControl, Share};
use howdah_core::{Rate, Span, Time};
use smallvec::SmallVec;

const RTT: Span = Span::from_millis(100);
const QUEUE: Span = Span::from_millis(1);
/// Between two reports.
const INTERVAL: Span = Span::from_millis(25);
const PACKET_BYTES: u64 = 8_828;
/// That arrive between two reports: 10 Gbit/s.
const PACKETS: u64 = 3_540;

/// What a step of the rate control costs: [`step`](Self::step) again and again.
#[derive(Debug)]
pub struct RateSteps {
    control: RateControl,
    reports: u64,
}

impl RateSteps {
    /// After the handshake.
    pub fn new(policy: Policy) -> Self {
        let mut control = RateControl::new(policy, Share::WHOLE);
        control.on_established(RTT);
        Self {
            control,
            reports: 0,
        }
    }

    /// The next report: as many packets have come as the link carries, and one of them was lost.
    pub fn step(&mut self) -> Rate {
        self.reports += 1;
        let sent_time = Time::ZERO + INTERVAL * self.reports;
        let now = sent_time + RTT + QUEUE;
        self.control.on_feedback(&Feedback {
            now,
            point: Point {
                rx_time: sent_time + RTT / 2 + QUEUE,
                sent_time,
                sent_bytes: self.reports * (PACKETS + 1) * PACKET_BYTES,
                delivered_bytes: self.reports * PACKETS * PACKET_BYTES,
                acked_packets: self.reports * PACKETS,
                lost_packets: self.reports,
                app_limited: false,
                unsent_bytes: 0,
            },
            rtt: Some(RTT + QUEUE),
            min_rtt: RTT,
            smoothed_rtt: RTT + QUEUE,
            socket_drops: 0,
            sink_limit: None,
            cap: None,
            host_drops: false,
            refusing: false,
            lost_sent_at: &[sent_time],
            marks: None,
            train: SmallVec::new(),
        });
        self.control.pacing_rate()
    }
}
