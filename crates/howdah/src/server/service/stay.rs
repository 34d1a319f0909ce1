//! How long a server serves.

use howdah_core::Span;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stay {
    ForEver,
    /// Until the first session has ended, or none has begun within that time.
    ForOne {
        patience: Span,
    },
}

impl Stay {
    /// Whether a server goes on that is so old; `met`: there was a session.
    pub(super) fn lasts(self, age: Span, met: bool, has_sessions: bool) -> bool {
        match self {
            Self::ForEver => true,
            Self::ForOne { .. } if met => has_sessions,
            Self::ForOne { patience } => age < patience,
        }
    }
}
