//! A difference as a line, and what came of a comparison in a sentence.

use super::printable;
use howdah::{Difference, DifferenceKind, EntryKind, OwnerSeen, Verification};
use howdah_core::units;

/// The line: what, two blanks, the path. No two blanks stand earlier.
pub(crate) fn difference_line(difference: &Difference) -> String {
    format!("{}  {}", what(&difference.what), shown_path(difference))
}

/// The path with control characters escaped; directories end with a slash.
pub(crate) fn shown_path(difference: &Difference) -> String {
    let path = String::from_utf8_lossy(&difference.path);
    let path = if path.is_empty() { "." } else { &*path };
    let slash = if difference.is_dir { "/" } else { "" };
    format!("{}{slash}", printable(path))
}

fn what(what: &DifferenceKind) -> String {
    match what {
        DifferenceKind::MissingInA { .. } => "missing in A".to_owned(),
        DifferenceKind::MissingInB { .. } => "missing in B".to_owned(),
        DifferenceKind::Kind { a, b } => format!("differs: kind ({}, {})", kind(*a), kind(*b)),
        DifferenceKind::Size { a, b } => format!("differs: size ({a}, {b})"),
        DifferenceKind::Contents { start, end } => {
            format!("differs: contents (first difference within bytes {start}..{end})")
        }
        DifferenceKind::Target { .. } => "differs: target".to_owned(),
        DifferenceKind::Mode { a, b } => format!("differs: mode ({a:04o}, {b:04o})"),
        DifferenceKind::Time { a, b } => format!("differs: time ({}, {})", time(*a), time(*b)),
        DifferenceKind::Owner { a, b } => format!("differs: owner ({}, {})", owner(a), owner(b)),
        DifferenceKind::Attributes(_) => "differs: attributes".to_owned(),
        DifferenceKind::HardLinks => "differs: hard links".to_owned(),
        DifferenceKind::Unread { a, b } => match (a, b) {
            (true, false) => "unread in A".to_owned(),
            (false, true) => "unread in B".to_owned(),
            _ => "unread in A and B".to_owned(),
        },
    }
}

fn kind(kind: EntryKind) -> &'static str {
    match kind {
        EntryKind::File => "file",
        EntryKind::Directory => "directory",
        EntryKind::Symlink => "symlink",
        EntryKind::Fifo => "fifo",
        EntryKind::Socket => "socket",
        EntryKind::CharacterDevice => "character device",
        EntryKind::BlockDevice => "block device",
    }
}

/// RFC 3339 in UTC, as exactly as it is known; seconds since 1970 where the calendar ends.
pub(crate) fn time((seconds, nanoseconds): (i64, u32)) -> String {
    let exact = i32::try_from(nanoseconds).ok();
    let stamp = exact.and_then(|nanos| jiff::Timestamp::new(seconds, nanos).ok());
    stamp.map_or_else(|| format!("@{seconds}"), |stamp| stamp.to_string())
}

/// `user:group`, by name where the side has one.
pub(crate) fn owner(owner: &OwnerSeen) -> String {
    let part = |(id, name): &(u32, Option<Vec<u8>>)| match name {
        // A name from elsewhere; with blanks it could forge the end of the word.
        Some(name) => printable(&String::from_utf8_lossy(name)).replace(' ', "_"),
        None => id.to_string(),
    };
    format!("{}:{}", part(&owner.user), part(&owner.group))
}

/// One line for people.
pub(crate) fn verification_line(found: &Verification) -> String {
    let tally = &found.tally;
    let by = match found.compared_by {
        "blake3" => format!(
            "{} compared by content (BLAKE3)",
            units::format_bytes(tally.bytes)
        ),
        "sha256" => format!(
            "{} compared by content (SHA-256)",
            units::format_bytes(tally.bytes)
        ),
        "blake3_and_sha256" => format!(
            "{} compared by content (BLAKE3 and SHA-256)",
            units::format_bytes(tally.bytes)
        ),
        "reread" => format!(
            "{} compared by content, read from the devices (BLAKE3)",
            units::format_bytes(tally.bytes)
        ),
        _ => "compared by size and time of modification".to_owned(),
    };
    let counted = |count: u64, one: &str, more: &str| {
        let what = if count == 1 { one } else { more };
        format!("{count} {what}")
    };
    let amount = format!(
        "{}, {}, {} on both sides, {by} in {:.2} s",
        counted(tally.files, "file", "files"),
        counted(tally.directories, "directory", "directories"),
        counted(tally.others, "other", "others"),
        found.seconds
    );
    if found.equal {
        return format!("equal: {amount}");
    }
    let parts = [
        (tally.missing_in_a, "missing in A"),
        (tally.missing_in_b, "missing in B"),
        (tally.differing, "differing"),
        (tally.unread, "unread"),
    ];
    let parts = parts.iter().filter(|(count, _)| *count > 0);
    let parts: Vec<_> = parts
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    let found = if parts.is_empty() {
        "not everything could be compared".to_owned()
    } else {
        parts.join(", ")
    };
    format!("{found}: {amount}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(path: &[u8], is_dir: bool, what: DifferenceKind) -> String {
        difference_line(&Difference {
            path: path.to_vec(),
            is_dir,
            what,
        })
    }

    #[test]
    fn a_line_for_each_difference() {
        let owner = |user: &[u8]| OwnerSeen {
            user: (1, Some(user.to_vec())),
            group: (7, None),
        };
        for (what, expected) in [
            (
                DifferenceKind::MissingInA { inside: 3 },
                "missing in A  d/f",
            ),
            (
                DifferenceKind::MissingInB { inside: 0 },
                "missing in B  d/f",
            ),
            (
                DifferenceKind::Kind {
                    a: EntryKind::File,
                    b: EntryKind::CharacterDevice,
                },
                "differs: kind (file, character device)  d/f",
            ),
            (
                DifferenceKind::Size { a: 1, b: 20 },
                "differs: size (1, 20)  d/f",
            ),
            (
                DifferenceKind::Contents { start: 0, end: 9 },
                "differs: contents (first difference within bytes 0..9)  d/f",
            ),
            (
                DifferenceKind::Mode {
                    a: 0o644,
                    b: 0o4755,
                },
                "differs: mode (0644, 4755)  d/f",
            ),
            (
                DifferenceKind::Time {
                    a: (0, 5),
                    b: (i64::MIN, 0),
                },
                "differs: time (1970-01-01T00:00:00.000000005Z, @-9223372036854775808)  d/f",
            ),
            (
                DifferenceKind::Owner {
                    a: owner(b"a  b\n"),
                    b: owner(b"c"),
                },
                r"differs: owner (a__b\n:7, c:7)  d/f",
            ),
            (DifferenceKind::HardLinks, "differs: hard links  d/f"),
            (
                DifferenceKind::Unread { a: false, b: true },
                "unread in B  d/f",
            ),
            (
                DifferenceKind::Unread { a: true, b: true },
                "unread in A and B  d/f",
            ),
        ] {
            assert_eq!(line(b"d/f", false, what), expected);
        }
        let what = || DifferenceKind::MissingInA { inside: 0 };
        assert_eq!(line(b"", true, what()), "missing in A  ./");
        assert_eq!(line(b"a\n\x1b", true, what()), r"missing in A  a\n\u{1b}/");
    }

    #[test]
    fn the_line_at_the_end() {
        let mut found = Verification {
            equal: true,
            compared_by: "blake3",
            seconds: 1.5,
            ..Verification::default()
        };
        (found.tally.files, found.tally.bytes) = (3, 1 << 20);
        let amount = "3 files, 0 directories, 0 others on both sides, \
                      1.0 MiB compared by content (BLAKE3) in 1.50 s";
        assert_eq!(verification_line(&found), format!("equal: {amount}"));
        found.equal = false;
        (found.tally.missing_in_b, found.tally.unread) = (2, 1);
        assert_eq!(
            verification_line(&found),
            format!("2 missing in B, 1 unread: {amount}")
        );
    }
}
