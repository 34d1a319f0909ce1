//! Whether what a source does not have may go at the destination. Which names these are the manifest says, a directory at a time, and
//! only of directories that were named in whole ([`Entry::Up`](crate::entry::Entry::Up)).

use crate::TreeOptions;

/// What a manifest was, at its end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Named {
    /// It could be made in whole.
    pub complete: bool,
    /// There was something in it.
    pub any: bool,
}

/// Why nothing goes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Refused {
    /// The source could not be read in whole: what it does not name it may have.
    Incomplete,
    /// There is nothing at the source: more often a disk that is not mounted than what was meant.
    NothingThere,
}

/// More would go than may.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TooMany {
    /// So many more.
    pub count: u64,
    /// So many may in all.
    pub max: u64,
}

/// Whether any may go, however many there are.
pub fn may_delete(options: &TreeOptions, named: Named) -> Result<(), Refused> {
    if !named.complete {
        return Err(Refused::Incomplete);
    }
    if !named.any && !options.delete_all {
        return Err(Refused::NothingThere);
    }
    Ok(())
}

/// Whether so many more may go, all or none of them: a directory that is to give way to something of another kind with what is in it, or in
/// the end, when nothing is left that could give way, everything that the source does not have. `gone` went before.
pub fn may_delete_so_many(options: &TreeOptions, gone: u64, count: u64) -> Result<(), TooMany> {
    match options.max_delete {
        Some(max) if gone.saturating_add(count) > max => Err(TooMany { count, max }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_goes_because_of_a_source_that_is_not_known() {
        let options = |delete_all, max_delete| TreeOptions {
            delete: true,
            delete_all,
            max_delete,
            ..TreeOptions::default()
        };
        let named = |complete, any| Named { complete, any };
        let asked = options(false, None);
        assert_eq!(may_delete(&asked, named(true, true)), Ok(()));
        assert_eq!(
            may_delete(&asked, named(true, false)),
            Err(Refused::NothingThere)
        );
        let all = options(true, None);
        assert_eq!(may_delete(&all, named(true, false)), Ok(()));
        for any in [false, true] {
            let incomplete = Err(Refused::Incomplete);
            assert_eq!(may_delete(&asked, named(false, any)), incomplete);
            assert_eq!(may_delete(&all, named(false, any)), incomplete);
        }
        let few = options(true, Some(3));
        let too_many = |count| Err(TooMany { count, max: 3 });
        assert_eq!(may_delete_so_many(&few, 0, 3), Ok(()));
        assert_eq!(may_delete_so_many(&few, 0, 4), too_many(4));
        assert_eq!(may_delete_so_many(&few, 2, 1), Ok(()));
        assert_eq!(may_delete_so_many(&few, 2, 2), too_many(2));
        assert_eq!(may_delete_so_many(&asked, 9, u64::MAX), Ok(()));
    }
}
