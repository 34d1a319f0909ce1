//! What is to be moved, and how it is cut.

use crate::tree::{self, TreePlan};
use howdah_core::ByteRange;
use serde::{Deserialize, Serialize};

/// The least length of a lease, in bytes: the unit in which the protocol verifies and goes on.
pub const LEASE_MIN: u64 = 1 << 20;
/// Leases of one plan: their records are read into memory.
pub(crate) const LEASES_MAX: u64 = 1 << 20;
/// Of the text of a plan, in bytes.
pub const TEXT_MAX: usize = 1 << 20;
const FORMAT: u32 = 1;

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
    #[error("it is a plan of format {0}, and this version of howdah reads {FORMAT} and {TREE}", TREE = tree::FORMAT)]
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

    fn check(&self) -> Result<(), PlanError> {
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

/// What `howdah plan` writes: the plan of one file, or of a tree.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Planned {
    /// Of one.
    File(Plan),
    /// Of many.
    Tree(TreePlan),
}

impl Planned {
    /// Reads what [`encode`](Self::encode) wrote.
    ///
    /// # Errors
    ///
    /// Any [`PlanError`].
    pub fn decode(text: &str) -> Result<Self, PlanError> {
        if text.len() > TEXT_MAX {
            return Err(PlanError::Malformed("it is too long".to_owned()));
        }
        let malformed = |e: serde_json::Error| PlanError::Malformed(e.to_string());
        let value: serde_json::Value = serde_json::from_str(text).map_err(malformed)?;
        let format = value.get("howdah_plan").and_then(serde_json::Value::as_u64);
        if format == Some(tree::FORMAT.into()) {
            let plan: TreePlan = serde_json::from_value(value).map_err(malformed)?;
            return plan.check().map(|()| Self::Tree(plan));
        }
        if let Some(format) = format.filter(|format| *format != u64::from(FORMAT)) {
            return Err(PlanError::Format(u32::try_from(format).unwrap_or(u32::MAX)));
        }
        let plan: Plan = serde_json::from_value(value).map_err(malformed)?;
        plan.check().map(|()| Self::File(plan))
    }

    /// JSON, with a line feed at its end.
    pub fn encode(&self) -> String {
        let text = match self {
            Self::File(plan) => serde_json::to_string_pretty(plan),
            Self::Tree(plan) => serde_json::to_string_pretty(plan),
        };
        text.unwrap_or_default() + "\n"
    }

    /// Tells it from others.
    pub fn id(&self) -> &str {
        match self {
            Self::File(plan) => plan.id(),
            Self::Tree(plan) => plan.id(),
        }
    }

    /// Where it comes from.
    pub fn source(&self) -> &str {
        match self {
            Self::File(plan) => plan.source(),
            Self::Tree(plan) => plan.source(),
        }
    }

    /// Where it goes.
    pub fn destination(&self) -> &str {
        match self {
            Self::File(plan) => plan.destination(),
            Self::Tree(plan) => plan.destination(),
        }
    }

    /// How many leases there are; at least one.
    pub fn leases(&self) -> u64 {
        match self {
            Self::File(plan) => plan.leases(),
            Self::Tree(plan) => plan.leases(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
