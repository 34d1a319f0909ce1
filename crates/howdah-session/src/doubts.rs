//! Files with several names that the destination does not have, or not as the source has them: a further name of such a file would be one of
//! something else. What is known of each is kept beside its first name for as long as that is, so that no number of them makes one forgotten.

/// What is wrong with the first name of a file that has several.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Doubt {
    /// It is not in place: it comes, or cannot be had. What has its name is another file, if anything has.
    Absent,
    /// What has its name stays, as it was asked for: further names are names of that, and not of what the source has.
    Stays,
}

/// Whether a file gets its further names.
pub fn gives_names(doubt: Option<Doubt>) -> bool {
    doubt != Some(Doubt::Absent)
}

/// Whether these are names of what the source has, so that those there may go.
pub fn lets_names_go(doubt: Option<Doubt>) -> bool {
    doubt.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_what_stays_are_made_and_not_moved() {
        let all = [None, Some(Doubt::Stays), Some(Doubt::Absent)];
        assert_eq!(all.map(gives_names), [true, true, false]);
        assert_eq!(all.map(lets_names_go), [true, false, false]);
    }
}
