//! What can be wrong with what one host asks for, or tells another.

/// A request that makes no sense, or words of the other side that are refused.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum SessionError {
    /// A rule that makes no sense.
    #[error("the pattern {pattern:?} makes no sense: {reason}")]
    BadPattern {
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Something that is asked for and cannot be.
    #[error("{what}")]
    BadOption {
        /// What, and why not.
        what: String,
    },
    /// What the peer says about its tree cannot be, or could do harm.
    #[error("the other side's list of files is refused: {what}")]
    BadTree {
        /// What is wrong with it.
        what: String,
    },
}

/// What the peer sent makes no sense.
pub fn refused(what: impl Into<String>) -> SessionError {
    SessionError::BadTree { what: what.into() }
}
