//! Names that copies keep their own affairs under. No peer may bring one.
//!
//! `.<name>.<16 digits>.howdah-part` is an unfinished file, and the same with `.howdah-journal` at its end the journal of what is
//! right in it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

/// The end of an unfinished file's name.
pub const PART: &str = ".howdah-part";
/// The end of a journal's.
pub const JOURNAL: &str = ".howdah-journal";
/// Digits that tell one temporary file of a target from another.
pub const DIGITS: usize = 16;
/// A file in a directory that a copy has made and not finished. Trees are copied without it.
pub const SIGN: &str = ".howdah-unfinished";

/// Whether that is the name of an unfinished file of any target, or of its journal.
pub fn is_unfinished(candidate: &[u8]) -> bool {
    is_any(candidate, PART) || is_any(candidate, JOURNAL)
}

/// Whether that is the name of an unfinished file of any target.
pub fn is_part(candidate: &[u8]) -> bool {
    is_any(candidate, PART)
}

/// Whether a copy keeps its own affairs under that name: an unfinished file, its journal, the sign of an unfinished tree.
pub fn is_reserved(name: &OsStr) -> bool {
    is_unfinished(name.as_bytes()) || name == SIGN
}

/// The end of the name of a directory in which the hosts of a plan meet.
pub const ROOM: &str = ".howdah-plan";

/// Whether that is the name of such a directory.
pub fn is_room(name: &OsStr) -> bool {
    let name = name.as_bytes();
    name.starts_with(b".") && name.ends_with(ROOM.as_bytes())
}

/// Whether nothing but [digits](DIGITS) stands between that beginning and that end of a name.
pub fn has_digits(candidate: &[u8], prefix: &[u8], suffix: &str) -> bool {
    let digits = candidate
        .strip_prefix(prefix)
        .and_then(|rest| rest.strip_suffix(suffix.as_bytes()));
    digits.is_some_and(|digits| {
        digits.len() == DIGITS
            && digits
                .iter()
                .all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
    })
}

fn is_any(candidate: &[u8], suffix: &str) -> bool {
    let end = suffix.len() + DIGITS + 1;
    let at = candidate.len().checked_sub(end);
    at.and_then(|at| candidate.get(..=at))
        .is_some_and(|prefix| {
            prefix.starts_with(b".")
                && prefix.ends_with(b".")
                && has_digits(candidate, prefix, suffix)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_unfinished_copies_are_reserved_and_no_others() {
        for (name, unfinished) in [
            (".a.0123456789abcdef.howdah-part", true),
            (".a.b.0123456789abcdef.howdah-journal", true),
            ("..0123456789abcdef.howdah-part", true),
            (".a.0123456789abcde.howdah-part", false),
            (".a.0123456789ABCDEF.howdah-part", false),
            ("a.0123456789abcdef.howdah-part", false),
            (".a.0123456789abcdef.howdah-part~", false),
            (".howdah-part", false),
            (SIGN, false),
        ] {
            assert_eq!(is_unfinished(name.as_bytes()), unfinished, "{name}");
            let reserved = unfinished || name == SIGN;
            assert_eq!(is_reserved(OsStr::new(name)), reserved, "{name}");
        }
        assert!(!is_part(b".a.0123456789abcdef.howdah-journal"));
    }
}
