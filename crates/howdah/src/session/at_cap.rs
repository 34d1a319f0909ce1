//! Whether it was a limit that held a copy down.
//!
//! Samples of what a sender waits for cannot tell: below a limit the source is always ahead, a busy machine is busy with others,
//! and a small file is over before the first sample. So it is counted how long the bytes that went would take at the limit alone.

use crate::session::dialogue::IP_UDP_BYTES;
use howdah_core::{Rate, Time};
use howdah_proto::Connection;
use howdah_session::message::RATE_CAP;
use howdah_session::pace::Pace;

/// Of the time that a copy took, the limit explains so much or it was something else.
const SHARE: f64 = 0.6;
/// Of all of it, waits for answers included, no less: where those took as long as the copy, they are what held it down.
const SHARE_OF_ALL: f64 = 0.1;
/// How often it is worth a look.
const EVERY_NANOS: u64 = 10_000_000;

/// What one side has moved, and what it may move.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AtCap {
    last: Option<(Time, u64)>,
    /// Seconds that it took so far; those that a pause took do not count.
    seconds: f64,
    /// Seconds that the same bytes take at the limit.
    capped_seconds: f64,
}

impl AtCap {
    /// Whether it is time for a look.
    fn is_due(&self, now: Time) -> bool {
        let since = |(then, _)| now.since(then).as_nanos() >= EVERY_NANOS;
        self.last.is_none_or(since)
    }

    /// Notes what this side of `connection` has sent until now.
    pub(crate) fn watch_sent(&mut self, now: Time, connection: &Connection) {
        if self.is_due(now) {
            let stats = connection.stats();
            let sent = stats.bytes_sent + IP_UDP_BYTES * stats.datagrams_sent;
            self.note(now, sent, connection.rate_cap(), connection.is_paused());
        }
    }

    /// Notes what has come; `cap`: what this side takes in at most.
    pub(crate) fn watch_received(&mut self, now: Time, connection: &Connection, cap: Option<Rate>) {
        if self.is_due(now) {
            let stats = connection.stats();
            let received = stats.bytes_received + IP_UDP_BYTES * stats.packets_received;
            self.note(now, received, cap, false);
        }
    }

    /// The index of the limit in [`BOTTLENECKS`](super::message::BOTTLENECKS) if it was that, and `other` otherwise.
    pub(crate) fn verdict(&mut self, connection: &Connection, other: u8) -> u8 {
        // To hear what is there of it, that it is there, and what begins a round trip later.
        let waits = 3.0 * connection.rtt().as_secs_f64();
        if std::mem::take(self).wins(waits) {
            RATE_CAP
        } else {
            other
        }
    }

    /// So many bytes have moved until now, IP headers included.
    fn note(&mut self, now: Time, bytes: u64, cap: Option<Rate>, paused: bool) {
        let (then, before) = self.last.replace((now, bytes)).unwrap_or((now, bytes));
        if !paused {
            self.seconds += now.since(then).as_secs_f64();
        }
        if let Some(cap) = cap {
            let bits = bytes.saturating_sub(before) as f64 * 8.0;
            self.capped_seconds += bits / cap.max(Pace::LEAST).as_f64();
        }
    }

    /// Whether the limit explains how long it took, if waits for answers took `waits` seconds of it.
    fn wins(&self, waits: f64) -> bool {
        let at_least = (SHARE * (self.seconds - waits)).max(SHARE_OF_ALL * self.seconds);
        self.capped_seconds > 0.0 && self.capped_seconds >= at_least
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_core::Span;

    /// `mbit` of a limit of 100 Mbit/s for `seconds`, then `rest` seconds in which nothing moves.
    fn run(mbit: f64, seconds: f64, rest: f64, cap: Option<Rate>) -> AtCap {
        let (mut at_cap, mut now, mut bytes) = (AtCap::default(), Time::ZERO, 0.0);
        let step = 0.01;
        let mut left = seconds + rest;
        at_cap.note(now, 0, cap, false);
        while left > 1e-9 {
            if left > rest + 1e-9 {
                bytes += mbit * 1e6 / 8.0 * step;
            }
            now += Span::from_millis(10);
            assert!(at_cap.is_due(now));
            at_cap.note(now, bytes as u64, cap, false);
            left -= step;
        }
        at_cap
    }

    #[test]
    fn o4_a_limit_that_is_reached_wins_also_for_small_files() {
        let cap = Some(Rate::from_mbit_per_sec(100));
        assert!(run(97.0, 5.0, 0.1, cap).wins(0.0));
        assert!(run(97.0, 0.04, 0.02, cap).wins(0.0), "a small file");
        assert!(run(97.0, 0.2, 0.8, cap).wins(0.8), "a long way");
        assert!(!run(97.0, 0.2, 0.8, cap).wins(0.0), "a slow disk behind it");
        assert!(!run(30.0, 5.0, 0.0, cap).wins(0.0), "something else");
        assert!(!run(97.0, 5.0, 0.0, None).wins(0.0), "no limit");
        assert!(
            !run(2.0, 0.1, 0.0, cap).wins(0.2),
            "a limit far away, and a busy machine"
        );
    }

    #[test]
    fn o4_a_pause_is_no_time_and_nothing_is_no_limit() {
        let cap = Some(Rate::from_mbit_per_sec(100));
        let mut at_cap = run(97.0, 1.0, 0.0, cap);
        let (now, bytes) = at_cap.last.unwrap();
        at_cap.note(now + Span::from_secs(60), bytes, cap, true);
        assert!(at_cap.wins(0.0));
        assert!(!AtCap::default().wins(0.0));
    }
}
