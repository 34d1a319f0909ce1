//! What the sending application has to send, and when.

use howdah_core::{Span, Time};

/// The sending application.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Supply {
    /// There is always more. The connection never ends.
    #[default]
    Endless,
    /// A file. FIN follows its last byte.
    Sized {
        /// Its length in bytes; 0 is allowed.
        bytes: u64,
    },
    /// A write now and then, the first when the connection is opened. A segment of which a part
    /// is written leaves whole, so up to one segment is early.
    OnOff {
        /// Bytes that each write makes available at once.
        burst_bytes: u64,
        /// From one write to the next; at least a nanosecond.
        period: Span,
        /// After this much the application closes; `None` never.
        total_bytes: Option<u64>,
    },
}

impl Supply {
    /// Bytes after which FIN follows.
    pub(crate) const fn total_bytes(&self) -> Option<u64> {
        match *self {
            Self::Endless => None,
            Self::Sized { bytes } => Some(bytes),
            Self::OnOff { total_bytes, .. } => total_bytes,
        }
    }

    /// Bytes available at `now` to a connection opened at `start`, and when there will be more.
    pub(crate) fn available_bytes(&self, start: Time, now: Time) -> (u64, Option<Time>) {
        match *self {
            Self::Endless => (u64::MAX, None),
            Self::Sized { bytes } => (bytes, None),
            Self::OnOff {
                burst_bytes,
                period,
                total_bytes,
            } => {
                let period = period.max(Span::from_nanos(1));
                let writes = now.since(start).as_nanos() / period.as_nanos() + 1;
                let written = writes.saturating_mul(burst_bytes);
                let total = total_bytes.unwrap_or(u64::MAX);
                let more = (written < total && burst_bytes > 0).then(|| start + period * writes);
                (written.min(total), more)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_come_at_their_times_and_end() {
        let supply = Supply::OnOff {
            burst_bytes: 1000,
            period: Span::from_secs(1),
            total_bytes: Some(2500),
        };
        let start = Time::ZERO + Span::from_secs(5);
        let at = |ms| supply.available_bytes(start, start + Span::from_millis(ms));
        assert_eq!(at(0), (1000, Some(start + Span::from_secs(1))));
        assert_eq!(at(999), (1000, Some(start + Span::from_secs(1))));
        assert_eq!(at(1000), (2000, Some(start + Span::from_secs(2))));
        assert_eq!(at(2000), (2500, None));
        assert_eq!(supply.total_bytes(), Some(2500));
    }
}
