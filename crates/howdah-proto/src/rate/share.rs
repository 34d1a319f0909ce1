//! Sessions that count as one flow.
//!
//! A stripe moves one file by many sessions. Each of N asks for an Nth of what a flow gets: what decides about shares (the target of the
//! queue, growth after an overflow, marks, company) is reckoned for the whole, as if this flow's rate were N times as much, and an Nth of it is done.

use howdah_core::Rate;
use std::fmt;
use std::num::NonZeroU16;
use std::str::FromStr;

/// This flow is one of so many that count as one to others. Written `1/8`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Share(NonZeroU16);

impl Share {
    /// A flow of its own.
    pub const WHOLE: Self = Self(NonZeroU16::MIN);

    /// One of that many sessions, 1 to 65,535; others are taken for the nearest of these.
    pub fn one_of(sessions: u64) -> Self {
        let sessions = u16::try_from(sessions).unwrap_or(u16::MAX);
        NonZeroU16::new(sessions).map_or(Self::WHOLE, Self)
    }

    /// How many sessions count as one flow.
    pub fn sessions(self) -> u16 {
        self.0.get()
    }

    pub(super) fn is_whole(self) -> bool {
        self == Self::WHOLE
    }

    /// What all of them have, if each has that.
    pub(super) fn all(self, rate: Rate) -> Rate {
        let sessions = u64::from(self.sessions());
        Rate::from_bits_per_sec(rate.bits_per_sec().saturating_mul(sessions))
    }

    /// What each has, if all of them have that.
    pub(super) fn each(self, rate: Rate) -> Rate {
        Rate::from_bits_per_sec(rate.bits_per_sec() / u64::from(self.sessions()))
    }
}

impl Default for Share {
    fn default() -> Self {
        Self::WHOLE
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1/{}", self.0)
    }
}

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let sessions = text.strip_prefix("1/").and_then(|n| n.parse().ok());
        let error = || {
            format!(
                "'{text}' is not 1/N, with the number of sessions that count as one flow (1 to 65535)"
            )
        };
        sessions.map(Self).ok_or_else(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_written_as_it_is_read() {
        for text in ["1/1", "1/8", "1/65535"] {
            assert_eq!(
                text.parse::<Share>().map(|s| s.to_string()),
                Ok(text.into())
            );
        }
        for text in ["", "8", "2/8", "1/0", "1/-1", "1/65536", "1/ 8", "1/+8x"] {
            let error = text.parse::<Share>();
            assert!(error.is_err_and(|e| e.contains("1/N")), "{text}");
        }
    }

    #[test]
    fn a_share_of_a_whole_is_the_whole_again() {
        let eighth = Share::one_of(8);
        let rate = Rate::from_mbit_per_sec(100);
        assert_eq!(eighth.all(eighth.each(rate)), rate);
        assert_eq!(Share::WHOLE.all(Rate::MAX), Rate::MAX);
        assert_eq!(Share::one_of(0), Share::WHOLE);
        assert_eq!(Share::one_of(1 << 40).sessions(), u16::MAX);
    }
}
