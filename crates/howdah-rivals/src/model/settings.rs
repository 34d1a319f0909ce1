//! The parameters of the models.

use super::RateLaw;
use super::wire::REQUEST_BYTES;
use howdah_core::{Rate, Span};

/// Parameters of a model. The functions of [the module](super) give those of each.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Name in results; ends in "-like".
    pub name: &'static str,
    /// User bytes in a datagram.
    pub unit_bytes: u32,
    /// Rate at which the sender releases user bytes.
    pub law: RateLaw,
    /// Units that leave together when the pacer lets one go. It costs the simulator one event each
    /// time.
    pub burst_units: u32,
    /// Bytes from the first that is missing at the receiver to the last that may be under way.
    pub window_bytes: u64,
    /// Who decides what is sent.
    pub drive: Drive,
    /// How fast the sender's storage gives bytes; `None` is without limit.
    pub read: Option<Rate>,
    /// How fast the receiver's storage takes them: what is not written occupies the window.
    pub write: Option<Rate>,
}

/// Who decides what is sent.
#[derive(Clone, Debug, PartialEq)]
pub enum Drive {
    /// The sender, at its rate.
    Push(Push),
    /// The receiver, piece by piece.
    Pull(Pull),
}

/// The sender pushes, the receiver reports what is missing.
#[derive(Clone, Debug, PartialEq)]
pub struct Push {
    /// A report leaves this long after the last one, whether or not anything came.
    pub report_interval: Span,
    /// A report leaves when something is found missing, but no sooner than this after the last one.
    pub gap_interval: Option<Span>,
    /// A report leaves when so many further units have been seen, too.
    pub report_units: Option<u64>,
    /// A unit that was repeated and is still reported as missing is repeated again after so many
    /// round-trip times.
    pub repair_wait_rtts: f64,
}

/// The receiver asks for each piece, and sends the next request when one arrives.
#[derive(Clone, Debug, PartialEq)]
pub struct Pull {
    /// Units that a request names while nothing has been lost.
    pub units_clean: u32,
    /// ... and from the first loss on.
    pub units_lossy: u32,
    /// Most units in a request while the window fills.
    pub units_most: u32,
    /// UDP payload bytes of a request; at least [`REQUEST_BYTES`], at most 64 more.
    pub request_bytes: u32,
    /// Share of the units of a window which, asked for and not come, halves the window.
    pub loss_threshold: f64,
    /// What was asked for is taken for lost after two round-trip times, but not before this.
    pub timeout_floor: Span,
}

/// Settings with which nothing can be sent.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum SettingsError {
    /// No datagram holds such a unit.
    #[error("units of {0} bytes; 256 to 65000 are possible")]
    Unit(u32),
    /// The sender would send nothing, or everything at once.
    #[error("a rate of {0}; it must be above zero and finite")]
    Rate(Rate),
    /// The window does not hold four units, or needs more memory than there is.
    #[error("a window of {0} bytes; 4 units to 64 GiB are possible")]
    Window(u64),
    /// A request of that size cannot be made.
    #[error("a request of {0} bytes or 0 units")]
    Request(u32),
    /// Reports would never end, or never begin.
    #[error("a report every {0:?}; 10 us to 10 s are possible")]
    Interval(Span),
}

impl Settings {
    /// Checks that something can be sent with them.
    pub(super) fn check(&self) -> Result<(), SettingsError> {
        if !(256..=65_000).contains(&self.unit_bytes) {
            return Err(SettingsError::Unit(self.unit_bytes));
        }
        for rate in self
            .law
            .rates()
            .into_iter()
            .chain(self.read)
            .chain(self.write)
        {
            if !(1_000..=10_000_000_000_000).contains(&rate.bits_per_sec()) {
                return Err(SettingsError::Rate(rate));
            }
        }
        let least = 4 * u64::from(self.unit_bytes);
        if !(least..=64 << 30).contains(&self.window_bytes) {
            return Err(SettingsError::Window(self.window_bytes));
        }
        match &self.drive {
            Drive::Push(push) => {
                if !(10_000..=10_000_000_000).contains(&push.report_interval.as_nanos()) {
                    return Err(SettingsError::Interval(push.report_interval));
                }
            }
            Drive::Pull(pull) => {
                let least = REQUEST_BYTES as u32;
                let possible = (least..=least + 64).contains(&pull.request_bytes)
                    && pull.units_clean > 0
                    && pull.units_lossy > 0
                    && pull.units_most > 0;
                if !possible {
                    return Err(SettingsError::Request(pull.request_bytes));
                }
            }
        }
        Ok(())
    }

    /// Units of the window.
    pub(super) fn window_units(&self) -> u64 {
        (self.window_bytes / u64::from(self.unit_bytes)).max(4)
    }
}
