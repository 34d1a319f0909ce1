//! Kinds of failure as the two ends of a channel number them.

use crate::ErrorKind;

/// Kinds of failure by their numbers. The first ones are those of [`FailureKind`](howdah_session::FailureKind).
const KINDS: [ErrorKind; 12] = [
    ErrorKind::Io,
    ErrorKind::NotFound,
    ErrorKind::Refused,
    ErrorKind::Integrity,
    ErrorKind::NoSpace,
    ErrorKind::Cancelled,
    ErrorKind::SourceChanged,
    ErrorKind::Usage,
    ErrorKind::Protocol,
    ErrorKind::Network,
    ErrorKind::Auth,
    ErrorKind::Partial,
];

/// A kind of failure as a number, and back.
pub(crate) fn kind_number(kind: ErrorKind) -> u8 {
    let at = KINDS.iter().position(|k| *k == kind);
    at.unwrap_or(0) as u8
}

pub(crate) fn kind(number: u8) -> ErrorKind {
    let kind = KINDS.get(usize::from(number));
    kind.copied().unwrap_or(ErrorKind::Io)
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_session::FailureKind;

    #[test]
    fn the_first_numbers_are_those_of_the_dialogue() {
        for (number, kind) in (0..).zip(KINDS) {
            let same = ErrorKind::from(FailureKind::from_number(number)) == kind;
            assert_eq!(same, number < 10, "{kind:?}");
            assert_eq!(kind_number(kind), number);
        }
    }
}
