//! What is to be moved, and how it is cut.

use howdah_core::ByteRange;
use serde::{Deserialize, Serialize};

/// The least length of a lease, in bytes: the unit in which the protocol verifies and goes on.
pub const LEASE_MIN: u64 = 1 << 20;
/// Leases of one plan: their records are read into memory.
pub(crate) const LEASES_MAX: u64 = 1 << 20;
/// Of the text of a plan, in bytes.
pub const TEXT_MAX: usize = 1 << 20;
pub(crate) const FORMAT: u32 = 1;
/// Of the plan of a tree.
pub(crate) const TREE_FORMAT: u32 = 2;

/// Which version of which file: size in bytes, times as seconds and nanoseconds since 1970, number of the inode.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Version {
    /// Bytes.
    pub size: u64,
    /// Last modification.
    pub mtime: (i64, u32),
    /// Last change of content or attributes.
    pub ctime: (i64, u32),
    /// In its file system.
    pub inode: u64,
}

/// A file that is cut into leases of equal length, but for the last.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Plan {
    #[serde(rename = "howdah_plan")]
    format: u32,
    /// Tells plans apart: any text without a slash.
    id: String,
    /// Where it comes from, as the command writes places.
    source: String,
    /// The path of the file that it becomes.
    destination: String,
    version: Version,
    lease_bytes: u64,
    /// Permission bits of the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mode: Option<u32>,
}

/// A plan that is none.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum PlanError {
    /// Not the JSON of a plan.
    #[error("it is no plan of howdah's: {0}")]
    Malformed(String),
    /// Of a later version of the program.
    #[error(
        "it is a plan of format {0}, and this version of howdah reads {FORMAT} and {TREE_FORMAT}"
    )]
    Format(u32),
    /// Subtrees of BLAKE3 begin and end at powers of two.
    #[error("a lease has a power of two of bytes, at least 1MiB, and not {0} bytes")]
    LeaseBytes(u64),
    /// Too many pieces.
    #[error("{0} bytes make too many leases of {1} bytes: at most {LEASES_MAX}; take longer ones")]
    TooMany(u64, u64),
    /// The same of a tree.
    #[error(
        "the tree makes too many leases, or they are numbered wrongly: at most {LEASES_MAX}; take longer ones"
    )]
    TooManyLeases,
    /// Its id names files.
    #[error("its id {0:?} has to be 1 to 64 letters, digits and hyphens")]
    Id(String),
}

/// A part of the file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Lease {
    /// Its number, from 0.
    pub id: u64,
    /// Its bytes.
    pub range: ByteRange,
}

impl Plan {
    /// Cuts the file of that version into leases of `lease_bytes`.
    ///
    /// # Errors
    ///
    /// [`PlanError::LeaseBytes`], [`PlanError::TooMany`] and [`PlanError::Id`].
    pub fn new(
        id: String,
        source: String,
        destination: String,
        version: Version,
        lease_bytes: u64,
    ) -> Result<Self, PlanError> {
        let plan = Self {
            format: FORMAT,
            id,
            source,
            destination,
            version,
            lease_bytes,
            mode: None,
        };
        plan.check().map(|()| plan)
    }

    pub(crate) fn check(&self) -> Result<(), PlanError> {
        check_id(&self.id)?;
        check_lease_bytes(self.lease_bytes)?;
        if self.leases() > LEASES_MAX {
            return Err(PlanError::TooMany(self.version.size, self.lease_bytes));
        }
        Ok(())
    }

    /// Tells it from others.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Where the file comes from.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Where it goes.
    pub fn destination(&self) -> &str {
        &self.destination
    }

    /// Of the source, when it was planned.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Of a source with these permission bits.
    #[must_use]
    pub fn with_mode(mut self, mode: Option<u32>) -> Self {
        self.mode = mode;
        self
    }

    /// Permission bits of the source, if it has some.
    pub fn mode(&self) -> Option<u32> {
        self.mode
    }

    /// How many leases there are; an empty file has one.
    pub fn leases(&self) -> u64 {
        self.version.size.div_ceil(self.lease_bytes).max(1)
    }

    /// One of them, from 0.
    pub fn lease(&self, id: u64) -> Option<Lease> {
        let start = id.checked_mul(self.lease_bytes)?;
        let end = start
            .saturating_add(self.lease_bytes)
            .min(self.version.size);
        (id < self.leases()).then(|| Lease {
            id,
            range: ByteRange::new(start, end.max(start)),
        })
    }
}

pub(crate) fn check_id(id: &str) -> Result<(), PlanError> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if !(1..=64).contains(&id.len()) || !id.chars().all(is_plain) {
        return Err(PlanError::Id(id.to_owned()));
    }
    Ok(())
}

pub(crate) fn check_lease_bytes(bytes: u64) -> Result<(), PlanError> {
    if bytes < LEASE_MIN || !bytes.is_power_of_two() {
        return Err(PlanError::LeaseBytes(bytes));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Planned;

    fn version(size: u64) -> Version {
        Version {
            size,
            mtime: (1, 2),
            ctime: (3, 4),
            inode: 5,
        }
    }

    fn plan(size: u64, lease_bytes: u64) -> Result<Plan, PlanError> {
        Plan::new(
            "a-1".into(),
            "h:x".into(),
            "/x".into(),
            version(size),
            lease_bytes,
        )
    }

    #[test]
    fn leases_cover_the_file_once() {
        for (size, count) in [
            (0, 1),
            (1, 1),
            (LEASE_MIN, 1),
            (LEASE_MIN + 1, 2),
            (5 * LEASE_MIN, 5),
        ] {
            let plan = plan(size, LEASE_MIN).unwrap();
            assert_eq!(plan.leases(), count);
            let mut at = 0;
            for id in 0..count {
                let lease = plan.lease(id).unwrap();
                assert_eq!(lease.range.start, at);
                at = lease.range.end;
            }
            assert_eq!((at, plan.lease(count)), (size, None));
        }
    }

    #[test]
    fn what_is_written_is_read_and_nothing_else() {
        let plan = plan(u64::from(u32::MAX), 1 << 30).unwrap();
        let plan = Planned::File(plan);
        assert_eq!(Planned::decode(&plan.encode()).unwrap(), plan);
        let with = |from: &str, to: &str| {
            let text = plan.encode();
            assert!(text.contains(from), "{from}");
            Planned::decode(&text.replace(from, to)).unwrap_err()
        };
        assert_eq!(with("n\": 1,", "n\": 3,"), PlanError::Format(3));
        assert_eq!(with("1073741824", "3"), PlanError::LeaseBytes(3));
        assert_eq!(with("a-1", "../a"), PlanError::Id("../a".into()));
        assert!(matches!(
            with("\"inode\"", "\"node\""),
            PlanError::Malformed(_)
        ));
        assert!(matches!(
            with("4294967295", "18446744073709551615"),
            PlanError::TooMany(..)
        ));
        assert!(matches!(
            Planned::decode("{}"),
            Err(PlanError::Malformed(_))
        ));
    }
}
