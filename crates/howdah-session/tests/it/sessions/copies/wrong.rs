//! What is done wrong, to see that it is found.

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Wrong {
    Nothing,
    /// Names appear before what they name is on the device.
    NamesFirst,
    /// What came of a small file is not compared with what was told of it.
    NeverVerifies,
    /// What was not named goes, whether all was named or not.
    DeletesAnyway,
    /// A source says that it has named all of a directory that it could not read.
    TellsAllComplete,
    /// What has its name is told, for its source to go, before that is on the device.
    TellsEarly,
    /// What is right but for its metadata is left as it is.
    LeavesMetadata,
    /// A file with other names gets its metadata in place, and so do they.
    ChangesOtherNames,
    /// Directories get their times before what is in them has its name.
    FinishesEarly,
    /// A file that does not come gets its further names all the same, as what has its first.
    LinksToAnything,
    /// Names pass that nobody asked for.
    NoGate,
}

impl Wrong {
    pub(crate) const ALL: [Self; 10] = [
        Self::NamesFirst,
        Self::NeverVerifies,
        Self::DeletesAnyway,
        Self::TellsAllComplete,
        Self::TellsEarly,
        Self::LeavesMetadata,
        Self::ChangesOtherNames,
        Self::FinishesEarly,
        Self::LinksToAnything,
        Self::NoGate,
    ];
}
