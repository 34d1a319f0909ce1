//! One copy between two locations.

use crate::{Cancel, Error, ErrorKind, Location, Progress, Summary};
use howdah_core::{Rate, Span};

/// How the sender shares the path.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum RatePolicy {
    /// Fills the path and gives way when its queue grows.
    #[default]
    Fair,
    /// That rate, for a dedicated circuit.
    Fixed(Rate),
}

/// Settings of a copy. The defaults fit every path.
#[derive(Clone, Debug)]
pub struct CopyConfig {
    /// How to share the path.
    pub policy: RatePolicy,
    /// The peer counts as lost after this long without a sign of life.
    pub idle_timeout: Span,
    /// Stop sending and finish after this long (for measurements with `zero:`).
    pub duration_limit: Option<Span>,
}

impl Default for CopyConfig {
    fn default() -> Self {
        Self { policy: RatePolicy::Fair, idle_timeout: Span::from_secs(8), duration_limit: None }
    }
}

/// Copies `source` to `destination`; exactly one of them must be remote.
///
/// `on_progress` is called about ten times a second on the calling thread.
pub fn copy(
    source: &Location,
    destination: &Location,
    _config: &CopyConfig,
    _cancel: &Cancel,
    _on_progress: &mut dyn FnMut(&Progress),
) -> Result<Summary, Error> {
    Err(Error::new(ErrorKind::Usage, format!("cannot copy {source} to {destination} yet")))
}
