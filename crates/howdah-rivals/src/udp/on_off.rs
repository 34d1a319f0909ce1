//! A source that is silent part of the time.

use super::cbr::Cadence;
use super::{Extent, Schedule, SettingsError};
use howdah_core::{Rate, Span, Time};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// How long the periods of an on-off source are.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Periods {
    /// Always the same.
    Fixed {
        /// Length of an on-period.
        on: Span,
        /// Length of an off-period.
        off: Span,
    },
    /// Each drawn from an exponential distribution.
    Exponential {
        /// Mean length of an on-period.
        mean_on: Span,
        /// Mean length of an off-period.
        mean_off: Span,
    },
}

/// A source that alternates between a constant rate and silence. It begins with an on-period.
///
/// The clock of the packets stands still in off-periods: in the long run the rate is the peak
/// rate times the share of on-time, exactly, however few packets a period holds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct OnOffSettings {
    /// Bits of UDP payload per second in an on-period.
    pub rate: Rate,
    /// UDP payload of each packet in bytes, header included.
    pub payload_bytes: u32,
    /// Lengths of the periods.
    pub periods: Periods,
    /// Seed of their lengths, where they are drawn.
    pub seed: u64,
    /// From when to when.
    pub extent: Extent,
}

#[derive(Clone, Debug)]
pub(super) struct OnOff {
    cadence: Cadence,
    periods: Periods,
    rng: ChaCha8Rng,
    on_until: Time,
}

impl OnOff {
    pub(super) fn new(settings: &OnOffSettings) -> Result<Self, SettingsError> {
        let (Periods::Fixed { on, .. } | Periods::Exponential { mean_on: on, .. }) =
            settings.periods;
        if on.is_zero() {
            return Err(SettingsError::OnPeriod);
        }
        Ok(Self {
            cadence: Cadence::new(settings.rate, settings.payload_bytes)?,
            periods: settings.periods,
            rng: ChaCha8Rng::seed_from_u64(settings.seed),
            on_until: Time::ZERO,
        })
    }

    fn exponential(&mut self, mean: Span) -> Span {
        // Uniform in (0, 1]: its logarithm is finite.
        let unit = ((self.rng.next_u64() >> 11) + 1) as f64 * (1.0 / (1u64 << 53) as f64);
        mean.mul_f64(-unit.ln())
    }

    /// At least a nanosecond, so that every period brings the end of the search nearer.
    fn draw_on(&mut self) -> Span {
        match self.periods {
            Periods::Fixed { on, .. } => on,
            Periods::Exponential { mean_on, .. } => {
                self.exponential(mean_on).max(Span::from_nanos(1))
            }
        }
    }

    fn draw_off(&mut self) -> Span {
        match self.periods {
            Periods::Fixed { off, .. } => off,
            Periods::Exponential { mean_off, .. } => self.exponential(mean_off),
        }
    }

    /// Inserts off-periods until the next packet falls into an on-period.
    fn skip_silence(&mut self) {
        while self
            .cadence
            .next_at()
            .is_some_and(|at| at >= self.on_until && self.on_until < Time::MAX)
        {
            let off = self.draw_off();
            let on = self.draw_on();
            self.cadence.shift(off);
            self.on_until = self.on_until + off + on;
        }
    }
}

impl Schedule for OnOff {
    fn next_at(&self) -> Option<Time> {
        self.cadence.next_at()
    }

    fn begin(&mut self, at: Time) {
        self.cadence.begin(at);
        self.on_until = at + self.draw_on();
    }

    fn advance(&mut self) {
        self.cadence.advance();
        self.skip_silence();
    }
}
