//! Names that copies keep their own affairs under. No peer may bring one.
//!
//! `.<name>.<16 digits>.howdah-part` is an unfinished file, and the same with `.howdah-journal` at its end the journal of what is
//! right in it.

use std::borrow::Cow;
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

/// A name as disks take it that do not tell capitals from other letters (vfat, exFAT, APFS, casefold of ext4 and f2fs), some of which pass over
/// characters that nobody sees.
fn folded(name: &[u8]) -> Cow<'_, [u8]> {
    let is_plain = |byte: &u8| byte.is_ascii() && !byte.is_ascii_uppercase();
    if name.iter().all(is_plain) {
        return Cow::Borrowed(name);
    }
    let Ok(text) = str::from_utf8(name) else {
        return Cow::Owned(name.to_ascii_lowercase());
    };
    let seen = text.chars().filter(|c| !is_passed_over(*c));
    let folded: String = seen
        .flat_map(char::to_uppercase)
        .flat_map(char::to_lowercase)
        .collect();
    Cow::Owned(folded.into_bytes())
}

/// Unicode has them as `Default_Ignorable_Code_Point`.
fn is_passed_over(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fff8}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}')
}

/// Whether a name that a peer tells is [reserved](is_reserved), here or on a disk that takes it for one that is.
pub fn may_be_reserved(name: &OsStr) -> bool {
    is_reserved(OsStr::from_bytes(&folded(name.as_bytes())))
}

/// The same of the name of an unfinished file or its journal alone.
pub fn may_be_unfinished(name: &[u8]) -> bool {
    is_unfinished(&folded(name))
}

/// Whether a name that a peer tells is that of a [room](is_room), here or on a disk that takes it for one.
pub fn may_be_room(name: &OsStr) -> bool {
    is_room(OsStr::from_bytes(&folded(name.as_bytes())))
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

    /// On a disk that takes one for the other, they are one.
    #[test]
    fn h19_names_that_some_disks_take_for_reserved_ones_are_nobodys() {
        for name in [
            ".a.0123456789abcdef.howdah-part",
            ".a.0123456789ABCDEF.howdah-part",
            ".A.0123456789abcdef.HOWDAH-Journal",
            ".a.0123456789abcdef.howdah\u{200d}-part",
            ".howdah-un\u{fb01}ni\u{17f}hed",
            ".Howdah-Unfinished",
        ] {
            assert!(may_be_reserved(OsStr::new(name)), "{name:?}");
        }
        let mut odd = b"\xff.".to_vec();
        odd.insert(0, b'.');
        odd.extend(b"0123456789ABCDEF.HOWDAH-PART");
        assert!(may_be_unfinished(&odd));
        for name in [
            ".x.a.howdah-plan",
            ".X.A.HOWDAH-PLAN",
            ".x.howdah-pl\u{ad}an",
        ] {
            assert!(may_be_room(OsStr::new(name)), "{name:?}");
        }
        for name in [
            "",
            "a",
            ".a.0123456789abcdeg.howdah-part",
            "h\u{f6}wdah-plan",
            ".x.howd\u{e4}h-plan",
        ] {
            assert!(
                !may_be_reserved(OsStr::new(name)) && !may_be_room(OsStr::new(name)),
                "{name:?}"
            );
        }
        // What is removed is only what has exactly such a name.
        assert!(!is_unfinished(b".a.0123456789ABCDEF.howdah-part"));
    }

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
