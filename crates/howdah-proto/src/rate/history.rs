//! Delivery measured between two reports.

use crate::pacer::{MAX_CREDIT, MAX_TRAIN};
use howdah_core::{Rate, Span, Time};
use std::collections::VecDeque;

/// The queue of now is the shortest of so long.
pub(super) const RECENT: Span = Span::from_millis(30);
/// Keeps one-way delays between clocks of different origins above zero, in nanoseconds.
const CLOCK_ORIGIN: i64 = 1 << 61;

/// State of the connection as one report shows it. All counts run since the beginning.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Point {
    /// When the newest packet arrived, by the receiver's clock.
    pub(crate) rx_time: Time,
    /// When that packet was sent, by our clock.
    pub(crate) sent_time: Time,
    /// UDP payload bytes sent before it.
    pub(crate) sent_bytes: u64,
    /// UDP payload bytes delivered.
    pub(crate) delivered_bytes: u64,
    /// Packets known to be delivered.
    pub(crate) acked_packets: u64,
    /// Packets known to be lost.
    pub(crate) lost_packets: u64,
    /// The sender had nothing to send at some time since the last report.
    pub(crate) app_limited: bool,
    /// What the sending host had no time to send before it, in UDP payload bytes.
    pub(crate) unsent_bytes: u64,
}

impl Point {
    /// How long the newest packet was under way, in nanoseconds. The clocks have different origins, so only differences of this mean anything.
    pub(super) fn one_way_delay(&self) -> u64 {
        one_way_delay(self.sent_time, self.rx_time)
    }
}

/// See [`Point::one_way_delay`].
pub(super) fn one_way_delay(sent_time: Time, rx_time: Time) -> u64 {
    let delay = rx_time.nanos_after(sent_time);
    delay.saturating_add(CLOCK_ORIGIN).max(0).cast_unsigned()
}

/// Delivery between two points.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) delivery_rate: Rate,
    pub(crate) send_rate: Rate,
    pub(crate) loss: f64,
    pub(crate) packets: u64,
    pub(crate) app_limited: bool,
    /// It spans all that was asked for.
    pub(crate) whole: bool,
    /// Time between its ends, at the receiver.
    pub(crate) span: Span,
    /// Of what might have been sent meanwhile, the share for which the sending host had no time.
    pub(crate) unsent: f64,
}

impl Sample {
    /// The host sent less than it might by more than that share, and no more of what it sent is missing than waits behind what it caught up with: so
    /// little arrived because so little was sent.
    pub(crate) fn was_not_sent(&self, share: f64) -> bool {
        let came = self.delivery_rate.as_f64() / self.send_rate.as_f64().max(1.0);
        self.unsent > share && self.span.mul_f64((1.0 - came).max(0.0)) <= CAUGHT_UP
    }
}

/// What a host may catch up at once, and a train.
const CAUGHT_UP: Span = Span::from_nanos(MAX_CREDIT.as_nanos() + MAX_TRAIN.as_nanos());

/// Points of the last seconds.
#[derive(Debug, Default)]
pub(crate) struct History {
    points: VecDeque<Point>,
}

/// A queue that empties lets packets arrive faster than they were sent. More than so many times as fast is a receiver's clock that
/// cannot be true, or a moment that says nothing.
const MOST_OF_SENT: f64 = 4.0;
/// Points kept; at 10 ms apart this is 10 s.
const MAX_POINTS: usize = 1_024;

impl History {
    pub(crate) fn push(&mut self, point: Point) {
        if let Some(last) = self.points.back_mut()
            && point.rx_time <= last.rx_time
        {
            // The same packet is still the newest; only settled fates are new.
            last.acked_packets = last.acked_packets.max(point.acked_packets);
            last.lost_packets = last.lost_packets.max(point.lost_packets);
            last.delivered_bytes = last.delivered_bytes.max(point.delivered_bytes);
            last.app_limited |= point.app_limited;
            return;
        }
        if self.points.len() >= MAX_POINTS {
            self.points.pop_front();
        }
        self.points.push_back(point);
    }

    pub(crate) fn clear(&mut self) {
        self.points.clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.points.len()
    }

    /// How far it reaches back.
    pub(crate) fn span(&self) -> Span {
        let ends = self.points.front().zip(self.points.back());
        ends.map_or(Span::ZERO, |(first, last)| {
            last.rx_time.since(first.rx_time)
        })
    }

    /// Delivery over the last `window` and the last `packets` at least, if the points reach back
    /// that far; over all of them otherwise.
    pub(crate) fn sample(&self, window: Span, packets: u64) -> Option<Sample> {
        let last = self.points.back()?;
        let mut first = None;
        let mut app_limited = last.app_limited;
        let mut whole = false;
        for point in self.points.iter().rev().skip(1) {
            first = Some(point);
            let settled = last.acked_packets + last.lost_packets;
            if last.rx_time.since(point.rx_time) >= window
                && settled >= point.acked_packets + point.lost_packets + packets
            {
                whole = true;
                break;
            }
            app_limited |= point.app_limited;
        }
        let first = first?;
        let span = last.rx_time.since(first.rx_time);
        if span.is_zero() {
            return None;
        }
        let acked = last.acked_packets.saturating_sub(first.acked_packets);
        let lost = last.lost_packets.saturating_sub(first.lost_packets);
        let packets = acked + lost;
        let sent = last.sent_bytes.saturating_sub(first.sent_bytes);
        let unsent = last.unsent_bytes.saturating_sub(first.unsent_bytes);
        let send_rate = Rate::from_bytes_over(
            sent,
            last.sent_time
                .since(first.sent_time)
                .max(Span::from_micros(1)),
        );
        let delivery_rate = Rate::from_bytes_over(
            last.delivered_bytes.saturating_sub(first.delivered_bytes),
            span,
        );
        Some(Sample {
            delivery_rate: delivery_rate.min(send_rate.mul_f64(MOST_OF_SENT)),
            send_rate,
            loss: if packets == 0 {
                0.0
            } else {
                lost as f64 / packets as f64
            },
            packets,
            app_limited,
            whole,
            span,
            unsent: unsent as f64 / sent.saturating_add(unsent).max(1) as f64,
        })
    }
}
