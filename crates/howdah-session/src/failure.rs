//! Why something failed, as one side tells the other, and what neither may say.

use std::borrow::Cow;

/// What kind of failure it is. By its number on the wire; a peer tells no others.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FailureKind {
    /// Reading or writing failed, or whatever else has no number.
    Io,
    /// The source does not exist.
    NotFound,
    /// Refused by permissions or rights.
    Refused,
    /// What arrived is not what was sent.
    Integrity,
    /// No space or quota left.
    NoSpace,
    /// Stopped by the user.
    Cancelled,
    /// The source changed while it was read.
    SourceChanged,
    /// What was asked for makes no sense.
    Usage,
    /// The other side broke the protocol or speaks another version.
    Protocol,
    /// It is done for somebody else just now, or for a lost connection of the same client: asking again helps.
    AtWork,
}

impl FailureKind {
    const ALL: [Self; 10] = [
        Self::Io,
        Self::NotFound,
        Self::Refused,
        Self::Integrity,
        Self::NoSpace,
        Self::Cancelled,
        Self::SourceChanged,
        Self::Usage,
        Self::Protocol,
        Self::AtWork,
    ];

    /// Its number on the wire.
    pub fn number(self) -> u8 {
        let at = Self::ALL.iter().position(|kind| *kind == self);
        at.and_then(|at| u8::try_from(at).ok()).unwrap_or(0)
    }

    /// What a number on the wire means; one that is not known is [`Io`](Self::Io).
    pub fn from_number(number: u8) -> Self {
        let kind = Self::ALL.get(usize::from(number));
        kind.copied().unwrap_or(Self::Io)
    }
}

/// What the other side says and may not say: it broke the protocol. Its words follow the name of who did.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct Misbehaved(Cow<'static, str>);

impl Misbehaved {
    /// For what that says.
    pub fn new(what: impl Into<Cow<'static, str>>) -> Self {
        Self(what.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_the_numbers_of_the_specification() {
        for (number, kind) in (0..).zip(FailureKind::ALL) {
            assert_eq!(
                (kind.number(), FailureKind::from_number(number)),
                (number, kind)
            );
        }
        assert_eq!(FailureKind::NoSpace.number(), 4);
        for unknown in [10, 12, 255] {
            assert_eq!(FailureKind::from_number(unknown), FailureKind::Io);
        }
    }
}
