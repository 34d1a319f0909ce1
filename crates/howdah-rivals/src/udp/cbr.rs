//! A constant bit rate.

use super::{Extent, HEADER_BYTES, MAX_PAYLOAD_BYTES, Schedule, SettingsError};
use howdah_core::{Rate, Span, Time};

/// A stream of equal packets at equal distances.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CbrSettings {
    /// Bits of UDP payload per second.
    pub rate: Rate,
    /// UDP payload of each packet in bytes, header included.
    pub payload_bytes: u32,
    /// From when to when.
    pub extent: Extent,
}

impl CbrSettings {
    /// A stream that begins at once and never ends.
    pub fn new(rate: Rate, payload_bytes: u32) -> Self {
        Self {
            rate,
            payload_bytes,
            extent: Extent::default(),
        }
    }
}

/// Times at equal distances, whose mean is exact although times are whole nanoseconds.
#[derive(Clone, Debug)]
pub(super) struct Cadence {
    bits_per_sec: u64,
    whole_ns: u64,
    /// What rounding leaves over each time, and so far, in units of 1/`bits_per_sec` ns.
    part: u64,
    remainder: u64,
    next_at: Option<Time>,
}

impl Cadence {
    pub(super) fn new(rate: Rate, payload_bytes: u32) -> Result<Self, SettingsError> {
        if !(HEADER_BYTES..=MAX_PAYLOAD_BYTES).contains(&payload_bytes) {
            return Err(SettingsError::PayloadBytes(payload_bytes));
        }
        if rate == Rate::ZERO || rate == Rate::MAX {
            return Err(SettingsError::Rate(rate));
        }
        let bits = u64::from(payload_bytes) * 8_000_000_000;
        Ok(Self {
            bits_per_sec: rate.bits_per_sec(),
            whole_ns: bits / rate.bits_per_sec(),
            part: bits % rate.bits_per_sec(),
            remainder: 0,
            next_at: None,
        })
    }

    /// Moves the next time, and with it all later ones.
    pub(super) fn shift(&mut self, by: Span) {
        if let Some(at) = &mut self.next_at {
            *at += by;
        }
    }
}

impl Schedule for Cadence {
    fn next_at(&self) -> Option<Time> {
        self.next_at
    }

    fn begin(&mut self, at: Time) {
        self.next_at = Some(at);
    }

    fn advance(&mut self) {
        let mut step = self.whole_ns;
        // Above 18 Ebit/s the sum could overflow; it is then a fraction of a nanosecond anyway.
        self.remainder = self.remainder.saturating_add(self.part);
        if self.remainder >= self.bits_per_sec {
            self.remainder -= self.bits_per_sec;
            step += 1;
        }
        self.shift(Span::from_nanos(step));
    }
}
