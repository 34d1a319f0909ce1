//! How large a window the receiver advertises.

use crate::tcp::ReceiverConfig;
use howdah_core::{Span, Time};

/// Shortest time over which arrivals are counted: on a path without delay the round trip would be
/// a packet or two.
const LEAST_EPOCH: Span = Span::from_millis(1);

/// The window, perhaps growing with what arrives (dynamic right-sizing: Fisk and Feng 2001, and
/// Linux's way of keeping ahead of a sender in slow start).
#[derive(Clone, Debug)]
pub(crate) struct Window {
    bytes: u64,
    max_bytes: u64,
    tuned: bool,
    mss: u64,
    rtt: Option<Span>,
    epoch_start: Time,
    epoch_from: u64,
    last_copied: u64,
}

impl Window {
    pub(crate) fn new(config: &ReceiverConfig, max_bytes: u64, mss: u32) -> Self {
        let mss = u64::from(mss);
        let bytes = match config.autotune_from_bytes {
            Some(bytes) => bytes.max(2 * mss).min(max_bytes),
            // A fixed window is rounded to whole segments, or the last part of it is never used.
            None if max_bytes >= mss => max_bytes / mss * mss,
            None => max_bytes,
        };
        Self {
            bytes,
            max_bytes,
            tuned: config.autotune_from_bytes.is_some(),
            mss,
            rtt: None,
            epoch_start: Time::ZERO,
            epoch_from: 0,
            last_copied: 0,
        }
    }

    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A round-trip time as the receiver sees it.
    pub(crate) fn on_rtt(&mut self, rtt: Span) {
        self.rtt = Some(match self.rtt {
            None => rtt,
            Some(old) => old.saturating_sub(old / 8) + rtt / 8,
        });
    }

    /// Whether an epoch is over, and with it a round-trip time is wanted.
    #[inline]
    pub(crate) fn wants_update(&self, now: Time) -> bool {
        self.tuned
            && self.bytes < self.max_bytes
            && now.since(self.epoch_start) >= self.rtt.unwrap_or(LEAST_EPOCH).max(LEAST_EPOCH)
    }

    /// An epoch is over: `read` bytes have gone to the application since the connection began.
    pub(crate) fn update(&mut self, now: Time, read: u64) {
        let copied = read - self.epoch_from;
        self.epoch_start = now;
        self.epoch_from = read;
        if copied > self.last_copied {
            // Twice what a round trip brought, and by as much more as that has grown.
            let wanted = 2 * copied + 16 * self.mss;
            let growth = if self.last_copied == 0 {
                wanted
            } else {
                let more = u128::from(wanted) * u128::from(copied - self.last_copied);
                (more / u128::from(self.last_copied)).min(u128::from(wanted) * 4) as u64
            };
            self.bytes = self.bytes.max(wanted + 2 * growth).min(self.max_bytes);
            self.last_copied = copied;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_stays_ahead_of_a_sender_that_doubles() {
        let mut window = Window::new(&ReceiverConfig::modern(), 1 << 30, 1448);
        window.on_rtt(Span::from_millis(100));
        let (mut read, mut flight) = (0, 14_480);
        for round in 1..14 {
            let now = Time::ZERO + Span::from_millis(100) * round;
            assert!(window.wants_update(now));
            read += flight;
            window.update(now, read);
            flight *= 2;
            assert!(
                window.bytes() >= flight,
                "round {round}: {} < {flight}",
                window.bytes()
            );
        }
        assert!(window.bytes() <= 1 << 30);
    }

    #[test]
    fn a_fixed_window_is_whole_segments_and_stays() {
        let config = ReceiverConfig::winxp_sp2();
        let window = Window::new(&config, config.max_window_bytes(), 1448);
        assert_eq!(window.bytes() % 1448, 0);
        assert!(!window.wants_update(Time::ZERO + Span::from_secs(9)));
    }
}
