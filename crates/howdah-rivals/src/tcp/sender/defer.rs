//! Waiting for a larger burst.
//!
//! Linux hands the network card as much at once as it sends in about a millisecond, and lets new data wait until
//! the window has room for that (`tcp_tso_should_defer` and `tcp_tso_autosize` in `net/ipv4/tcp_output.c`). So on
//! average half a burst less is in flight than the window allows: nothing to a window of hundreds of segments, 4 to
//! 8 % to one of ten or forty. Algorithms that pace are left alone; there the pacer decides.

use super::Sender;
use super::transmit::Hold;
use crate::tcp::cc::Phase;
use howdah_core::{Span, Time};

/// Only a sender that has just sent waits (`tcp_tso_should_defer`).
const RECENT: Span = Span::from_millis(1);
/// A third of the window is always enough to send (`tcp_tso_win_divisor`).
const WINDOW_DIVISOR: u32 = 3;
/// What a network card takes at once, in bytes (`GSO_MAX_SIZE`, less room for headers).
const LARGEST_BYTES: f64 = 65_160.0;
/// Fewer segments than this are no burst (`tcp_min_tso_segs`).
const LEAST_SEGMENTS: f64 = 2.0;
/// A burst is what passes in this part of a second (`sk_pacing_shift`, 10).
const BURSTS_PER_SECOND: f64 = 1024.0;

impl Sender {
    /// Whether new data had better wait, though there is room for a segment, and which window it waits for.
    #[inline]
    pub(super) fn defers(&mut self, now: Time) -> Option<Hold> {
        if !self.config.defers_small_bursts || self.burst_left > 0 {
            return None;
        }
        self.decide_to_defer(now)
    }

    fn decide_to_defer(&mut self, now: Time) -> Option<Hold> {
        if self.phase != Phase::Open || self.pacer.rate().is_some() || self.board.in_flight() == 0 {
            return None;
        }
        let ours = self.window - self.board.in_flight();
        let theirs = self.announced_beyond(self.board.nxt);
        let room = ours.min(theirs);
        let window = self.window.min(self.announced_beyond(self.board.una));
        let burst = self.burst_segments();
        let is_rest = self.board.nxt + u64::from(room) >= self.total_segments;
        let is_enough = room >= burst || room >= window / WINDOW_DIVISOR || is_rest;
        let head = self.board.get(self.board.una).sent_at();
        // The next acknowledgement must be near, or waiting costs more than it saves.
        let is_lone =
            now.since(self.last_sent_at) > RECENT || now.since(head) < self.rtt.srtt() / 2;
        if is_enough || is_lone {
            self.burst_left = room.min(burst);
            return None;
        }
        Some(if ours < theirs {
            Hold::Window
        } else {
            Hold::Receiver
        })
    }

    /// Whole segments that the receiver's window holds from the segment `index` on.
    fn announced_beyond(&self, index: u64) -> u32 {
        let bytes = self.window_edge.saturating_sub(self.offset_of(index));
        u32::try_from(bytes / u64::from(self.mss)).unwrap_or(u32::MAX)
    }

    /// Segments of a burst at the rate of the moment.
    fn burst_segments(&self) -> u32 {
        let srtt = self.rtt.srtt().as_secs_f64();
        let mss = f64::from(self.mss);
        let bytes_per_sec = self.pacing_gain() * self.cc.cwnd() * mss / srtt.max(1e-6);
        // On short paths bursts cost little and save much: half for each half millisecond of the path.
        let halvings = i32::try_from(self.rtt.min_rtt().as_micros() >> 9).unwrap_or(i32::MAX);
        let near = 65_536.0 * 0.5f64.powi(halvings.min(64));
        let bytes = (bytes_per_sec / BURSTS_PER_SECOND + near).min(LARGEST_BYTES);
        (bytes / mss).max(LEAST_SEGMENTS) as u32
    }
}
