//! Which versions understand each other: docs/versions.md says it for people.

use std::sync::OnceLock;

static BUILD: OnceLock<String> = OnceLock::new();

/// Names this program's version and commit, for those who do not understand it. The first call counts.
pub fn name_build(text: impl Into<String>) {
    // A second one changes nothing.
    let _ = BUILD.set(text.into());
}

/// As it is told to people.
pub(crate) fn build() -> &'static str {
    BUILD
        .get()
        .map_or(env!("CARGO_PKG_VERSION"), String::as_str)
}

/// What to do when two versions are too far apart.
pub(crate) const REMEDY: &str =
    "install versions that are at most one minor version apart, best the same one on both";

/// What one program speaks of one protocol: its own number, and the oldest that it still understands and can be understood in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Spoken {
    pub(crate) number: u32,
    pub(crate) oldest: u32,
}

impl Spoken {
    /// Whether two programs understand each other. The newer one decides: the other cannot know what came after it.
    pub(crate) fn fits(self, other: Self) -> bool {
        let (newer, older) = if self.number >= other.number {
            (self, other)
        } else {
            (other, self)
        };
        newer.oldest <= older.number
    }
}

/// Whether two versions of the program are of the same major version and at most one minor version apart. What is no version
/// of ours is not judged.
pub(crate) fn are_near(ours: &str, theirs: &str) -> bool {
    let parts = |text: &str| {
        let mut numbers = text.split('.').map(|part| part.parse::<u32>().ok());
        Some((numbers.next()??, numbers.next()??))
    };
    match (parts(ours), parts(theirs)) {
        (Some((major, minor)), Some((their_major, their_minor))) => {
            major == their_major && minor.abs_diff(their_minor) <= 1
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn o9_one_minor_version_apart_is_near() {
        for (theirs, near) in [
            ("1.4.9", true),
            ("1.3.0", true),
            ("1.5.0-rc.1", true),
            ("1.2.9", false),
            ("1.6.0", false),
            ("0.4.0", false),
            ("2.4.0", false),
            ("devel", true),
        ] {
            assert_eq!(are_near("1.4.2", theirs), near, "{theirs}");
        }
    }

    #[test]
    fn o9_the_newer_one_decides() {
        let spoken = |oldest, number| Spoken { number, oldest };
        for (one, other, fits) in [
            (spoken(2, 2), spoken(2, 2), true),
            (spoken(2, 2), spoken(2, 3), true),
            (spoken(2, 2), spoken(3, 3), false),
            (spoken(2, 3), spoken(1, 2), true),
            (spoken(3, 4), spoken(1, 2), false),
        ] {
            assert_eq!(
                (one.fits(other), other.fits(one)),
                (fits, fits),
                "{one:?} {other:?}"
            );
        }
    }
}
