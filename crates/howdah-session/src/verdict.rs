//! Whether a file of a manifest is wanted, beside what has its name at the destination.

use crate::TreeOptions;

/// What has the name of a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum There {
    /// A regular file.
    File {
        /// It is as long.
        same_size: bool,
        /// It was modified at the same moment, as far as its disk keeps times.
        same_time: bool,
        /// It was modified after that moment, likewise.
        is_newer: bool,
    },
    /// A symbolic link.
    Link,
    /// A directory, or what is never copied.
    Other,
}

/// What whoever sends may do at the destination.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Rights {
    /// Nothing that is there changes.
    pub add_only: bool,
    /// He is not to learn what is there.
    pub blind: bool,
}

/// What becomes of a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// What is there stays, whatever the source has.
    Stays,
    /// It is the same.
    Same,
    /// It is the same if its content is.
    Hash,
    /// Its content comes, and is compared with what is there, which stays.
    Compare,
    /// It takes the place of what is there.
    Replace,
    /// It takes the place of what is there, if that gives way.
    Clear,
}

/// Decides about a file where something is. `is_hashed`: the manifest tells what its content hashes to.
pub fn verdict(there: There, is_hashed: bool, options: &TreeOptions, rights: Rights) -> Verdict {
    if options.ignore_existing {
        return Verdict::Stays;
    }
    let (same_size, same_time) = match there {
        There::File { is_newer: true, .. } if options.update => return Verdict::Stays,
        There::File {
            same_size,
            same_time,
            ..
        } => (same_size, same_time),
        There::Link => return Verdict::Replace,
        There::Other => return Verdict::Clear,
    };
    if !same_size {
        Verdict::Replace
    } else if is_hashed {
        Verdict::Hash
    } else if !options.remove_source && !rights.blind && (same_time || options.size_only) {
        // In a move its source would go: then its content must be known.
        Verdict::Same
    } else if rights.add_only {
        // Perhaps it is the same all the same, which is no change.
        Verdict::Compare
    } else {
        Verdict::Replace
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> impl Iterator<Item = (There, bool, TreeOptions, Rights)> {
        (0..1u32 << 10).flat_map(|bits| {
            let bit = |n: u32| bits & 1 << n != 0;
            let options = TreeOptions {
                ignore_existing: bit(0),
                update: bit(1),
                remove_source: bit(2),
                size_only: bit(3),
                ..TreeOptions::default()
            };
            let rights = Rights {
                add_only: bit(4),
                blind: bit(5),
            };
            let file = There::File {
                same_size: bit(6),
                same_time: bit(7),
                is_newer: bit(8),
            };
            [file, There::Link, There::Other].map(|there| (there, bit(9), options.clone(), rights))
        })
    }

    #[test]
    fn a_file_of_another_size_is_never_the_same_and_a_source_goes_for_none_that_was_not_compared() {
        for (there, is_hashed, options, rights) in all() {
            let verdict = verdict(there, is_hashed, &options, rights);
            let case = (there, is_hashed, &options, rights, verdict);
            match verdict {
                Verdict::Same => {
                    assert!(
                        matches!(
                            there,
                            There::File {
                                same_size: true,
                                ..
                            }
                        ),
                        "{case:?}"
                    );
                    assert!(!is_hashed && !rights.blind, "{case:?}");
                    assert!(!options.remove_source, "{case:?}");
                }
                Verdict::Hash | Verdict::Compare => {
                    assert!(matches!(there, There::File { .. }), "{case:?}");
                }
                Verdict::Stays => assert!(options.ignore_existing || options.update, "{case:?}"),
                Verdict::Clear => assert_eq!(there, There::Other, "{case:?}"),
                Verdict::Replace => assert!(!options.ignore_existing, "{case:?}"),
            }
        }
    }
}
