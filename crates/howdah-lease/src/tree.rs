//! A tree that is cut into leases: runs of small files, and ranges of large ones.

use crate::plan::{LEASES_MAX, TREE_FORMAT, check_id, check_lease_bytes};
use crate::{Lease, Name, Plan, PlanError, Torn, Version, sealed, unsealed};
use howdah_core::ByteRange;
use serde::de::{Deserializer, Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::marker::PhantomData;

/// Files of one lease: a lease of empty files takes its time, too, and its record is read into memory.
pub const MEMBERS_MAX: usize = 8192;
/// Bytes of what is read of one lease, its [`Sheet`] or a record of it: so many files with names of 2 KiB.
pub const SHEET_MAX: u64 = 16 << 20;
/// Bytes of the names of one lease, as a sheet has them: half of that.
const NAMES_MAX: usize = 8 << 20;

/// Seconds and nanoseconds since 1970.
pub type Time = (i64, u32);

/// A small file of a tree, as it was when it was planned.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Member {
    /// Below the top.
    #[serde(rename = "n")]
    pub name: Name,
    /// Bytes.
    #[serde(rename = "s")]
    pub size: u64,
    /// Last modification.
    #[serde(rename = "m")]
    pub mtime: Time,
}

/// What a lease of a tree has.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Share {
    /// These files, each whole.
    Run(#[serde(deserialize_with = "at_most")] Vec<Member>),
    /// A range of a file that is longer than a lease.
    Part {
        /// Which file, below the top.
        name: Name,
        /// Which version of it.
        version: Version,
        /// The lease that has its first bytes; the others follow.
        first: u64,
        /// Permission bits of it, if the plan is for another machine to make its place.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mode: Option<u32>,
    },
}

/// What one lease has, and whose it is: a file of its own, so that nobody reads the whole tree to move a part of it.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Sheet {
    /// Of which plan.
    pub plan: String,
    /// Which of its leases.
    pub lease: u64,
    /// What it has.
    pub share: Share,
}

/// A tree that is cut into leases. What each of them has is on its [`Sheet`].
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct TreePlan {
    #[serde(rename = "howdah_plan")]
    format: u32,
    id: String,
    source: String,
    destination: String,
    lease_bytes: u64,
    /// What is kept of the source besides names, contents and times: as the options of the copy.
    archive: bool,
    permissions: bool,
    leases: u64,
    files: u64,
    bytes: u64,
}

/// What is asked of a plan before it is known what the tree has.
#[derive(Clone, Debug)]
pub struct TreeOrder {
    /// Tells plans apart: letters, digits and hyphens.
    pub id: String,
    /// The directory that it comes from, as the command writes places.
    pub source: String,
    /// The path of the directory that it becomes.
    pub destination: String,
    /// The most of one lease, in bytes.
    pub lease_bytes: u64,
    /// Owners and whatever else belongs to an archive are kept.
    pub archive: bool,
    /// Permissions are made equal.
    pub permissions: bool,
}

/// Cuts a tree as its files are named, without holding it in memory.
#[derive(Debug)]
pub struct Cutter {
    order: TreeOrder,
    leases: u64,
    files: u64,
    bytes: u64,
    run: Vec<Member>,
    run_bytes: u64,
    /// Of their names.
    run_names: usize,
    /// Of large files that are told of and have none yet.
    announced: u64,
}

impl Cutter {
    /// Of nothing so far.
    ///
    /// # Errors
    ///
    /// [`PlanError::LeaseBytes`] and [`PlanError::Id`].
    pub fn new(order: TreeOrder) -> Result<Self, PlanError> {
        check_id(&order.id)?;
        check_lease_bytes(order.lease_bytes)?;
        Ok(Self {
            order,
            leases: 0,
            files: 0,
            bytes: 0,
            run: Vec::new(),
            run_bytes: 0,
            run_names: 0,
            announced: 0,
        })
    }

    /// Whether a file of that size is one of many in a lease; otherwise it comes [at the end](Self::large).
    pub fn is_small(&self, size: u64) -> bool {
        size <= self.order.lease_bytes
    }

    /// A large file of that size comes [at the end](Self::large): a list of more than can be planned is refused while it is told.
    ///
    /// # Errors
    ///
    /// [`PlanError::TooManyLeases`].
    pub fn announce(&mut self, size: u64) -> Result<(), PlanError> {
        let count = size.div_ceil(self.order.lease_bytes).max(1);
        self.announced = self.announced.saturating_add(count);
        if self.announced > LEASES_MAX {
            return Err(PlanError::TooManyLeases);
        }
        Ok(())
    }

    /// The next small file; the lease that is full before it.
    ///
    /// # Errors
    ///
    /// [`PlanError::TooManyLeases`].
    pub fn small(&mut self, member: Member) -> Result<Option<Sheet>, PlanError> {
        let name = member.name.text_len();
        let is_full = self.run.len() >= MEMBERS_MAX
            || self.run_names + name > NAMES_MAX
            || self.run_bytes.saturating_add(member.size) > self.order.lease_bytes
                && !self.run.is_empty();
        let sheet = if is_full { self.close()? } else { None };
        self.run_names += name;
        self.run_bytes = self.run_bytes.saturating_add(member.size);
        self.run.push(member);
        Ok(sheet)
    }

    /// The lease of the last small files. A tree without any file has one lease all the same, of none.
    ///
    /// # Errors
    ///
    /// [`PlanError::TooManyLeases`].
    pub fn close(&mut self) -> Result<Option<Sheet>, PlanError> {
        if self.run.is_empty() && self.leases > 0 {
            return Ok(None);
        }
        self.files += self.run.len() as u64;
        let bytes = std::mem::take(&mut self.run_bytes);
        self.run_names = 0;
        self.bytes = self.bytes.saturating_add(bytes);
        let share = Share::Run(std::mem::take(&mut self.run));
        self.sheet(share).map(Some)
    }

    /// The leases of a large file. All small ones have come, and [`close`](Self::close) was called.
    ///
    /// # Errors
    ///
    /// [`PlanError::TooManyLeases`].
    pub fn large(
        &mut self,
        name: &Name,
        version: Version,
        mode: Option<u32>,
    ) -> Result<Vec<Sheet>, PlanError> {
        let first = self.leases;
        self.files += 1;
        self.bytes = self.bytes.saturating_add(version.size);
        let count = version.size.div_ceil(self.order.lease_bytes).max(1);
        if count > LEASES_MAX {
            return Err(PlanError::TooManyLeases);
        }
        (0..count)
            .map(|_| {
                let name = name.clone();
                self.sheet(Share::Part {
                    name,
                    version,
                    first,
                    mode,
                })
            })
            .collect()
    }

    fn sheet(&mut self, share: Share) -> Result<Sheet, PlanError> {
        if self.leases >= LEASES_MAX {
            return Err(PlanError::TooManyLeases);
        }
        self.leases += 1;
        Ok(Sheet {
            plan: self.order.id.clone(),
            lease: self.leases - 1,
            share,
        })
    }

    /// The plan of all that was cut.
    pub fn end(self) -> TreePlan {
        let order = self.order;
        TreePlan {
            format: TREE_FORMAT,
            id: order.id,
            source: order.source,
            destination: order.destination,
            lease_bytes: order.lease_bytes,
            archive: order.archive,
            permissions: order.permissions,
            leases: self.leases,
            files: self.files,
            bytes: self.bytes,
        }
    }
}

impl TreePlan {
    pub(crate) fn check(&self) -> Result<(), PlanError> {
        check_id(&self.id)?;
        check_lease_bytes(self.lease_bytes)?;
        if !(1..=LEASES_MAX).contains(&self.leases) {
            return Err(PlanError::TooManyLeases);
        }
        Ok(())
    }

    /// Tells it from others.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The directory that it comes from.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The directory that it becomes.
    pub fn destination(&self) -> &str {
        &self.destination
    }

    /// How many leases there are; at least one.
    pub fn leases(&self) -> u64 {
        self.leases
    }

    /// How many files, the large ones among them.
    pub fn files(&self) -> u64 {
        self.files
    }

    /// Of all files.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The most of one lease, in bytes.
    pub fn lease_bytes(&self) -> u64 {
        self.lease_bytes
    }

    /// Whether owners and whatever else belongs to an archive are kept.
    pub fn archive(&self) -> bool {
        self.archive
    }

    /// Whether permissions are made equal.
    pub fn permissions(&self) -> bool {
        self.permissions
    }

    /// The range that a lease of it has of that version of a large file whose first lease is `first`, and the plan of that file alone.
    ///
    /// # Errors
    ///
    /// A [`PlanError`] of numbers that cannot be of this plan.
    pub fn part(
        &self,
        lease: u64,
        version: Version,
        first: u64,
    ) -> Result<(Plan, Lease), PlanError> {
        let (source, destination) = (self.source.clone(), self.destination.clone());
        let file = Plan::new(
            self.id.clone(),
            source,
            destination,
            version,
            self.lease_bytes,
        )?;
        let within = lease.checked_sub(first).and_then(|id| file.lease(id));
        let range: ByteRange = within.ok_or(PlanError::TooManyLeases)?.range;
        Ok((file, Lease { id: lease, range }))
    }
}

/// Reads a list of no more than [`MEMBERS_MAX`]: who wrote it may be somebody else.
pub(crate) fn at_most<'de, D, T>(from: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct AtMost<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for AtMost<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a list of {MEMBERS_MAX} at the most")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Vec<T>, A::Error> {
            let mut list = Vec::new();
            while let Some(next) = from.next_element()? {
                if list.len() >= MEMBERS_MAX {
                    return Err(A::Error::invalid_length(list.len() + 1, &self));
                }
                list.push(next);
            }
            Ok(list)
        }
    }

    from.deserialize_seq(AtMost(PhantomData))
}

impl Sheet {
    /// A line of JSON, and one with its BLAKE3.
    pub fn encode(&self) -> String {
        sealed(self)
    }

    /// Reads what [`encode`](Self::encode) wrote.
    ///
    /// # Errors
    ///
    /// Anything else is torn.
    pub fn decode(text: &[u8]) -> Result<Self, Torn> {
        unsealed(text)
    }
}

/// Whether both may be times of one moment, of which one file system keeps less than nanoseconds and cuts the rest off.
pub fn is_same_moment(one: Time, other: Time) -> bool {
    const KEPT_NS: [u32; 5] = [1, 100, 1_000, 10_000_000, 1_000_000_000];
    let (less, more) = (one.min(other), one.max(other));
    let cut = |unit| more.1 - more.1 % unit;
    one.0 == other.0 && KEPT_NS.iter().any(|&unit| cut(unit) == less.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LEASE_MIN, Planned};

    fn order() -> TreeOrder {
        TreeOrder {
            id: "p".into(),
            source: "h:x".into(),
            destination: "/x".into(),
            lease_bytes: LEASE_MIN,
            archive: true,
            permissions: false,
        }
    }

    fn member(number: usize, size: u64) -> Member {
        Member {
            name: Name::new(format!("d/{number}")).unwrap(),
            size,
            mtime: (7, 8),
        }
    }

    #[test]
    fn leases_have_about_so_many_bytes_and_each_file_once() {
        let sizes = [
            0,
            400_000,
            400_000,
            400_000,
            LEASE_MIN,
            1,
            0,
            LEASE_MIN - 1,
            2,
        ];
        let mut cutter = Cutter::new(order()).unwrap();
        let mut sheets = Vec::new();
        for (number, size) in sizes.into_iter().enumerate() {
            assert!(cutter.is_small(size));
            sheets.extend(cutter.small(member(number, size)).unwrap());
        }
        sheets.extend(cutter.close().unwrap());
        assert_eq!(cutter.close().unwrap(), None);
        let mut lengths = Vec::new();
        let mut names = Vec::new();
        for sheet in &sheets {
            let Share::Run(run) = &sheet.share else {
                panic!("{sheet:?}")
            };
            lengths.push(run.len());
            names.extend(run.iter().map(|member| member.name.clone()));
        }
        assert_eq!(lengths, [3, 1, 1, 3, 1]);
        assert_eq!(
            names,
            (0..sizes.len())
                .map(|n| member(n, 0).name)
                .collect::<Vec<_>>()
        );
        let version = Version {
            size: 2 * LEASE_MIN + 1,
            mtime: (1, 2),
            ctime: (3, 4),
            inode: 5,
        };
        let name = Name::new("large").unwrap();
        sheets.extend(cutter.large(&name, version, None).unwrap());
        let plan = cutter.end();
        assert_eq!((plan.leases(), plan.files()), (8, 10));
        assert_eq!(plan.bytes(), sizes.iter().sum::<u64>() + version.size);
        for (number, sheet) in sheets.iter().enumerate() {
            assert_eq!(sheet.lease, number as u64);
            assert_eq!(Sheet::decode(sheet.encode().as_bytes()).as_ref(), Ok(sheet));
        }
        let (_, last) = plan.part(7, version, 5).unwrap();
        assert_eq!(
            (last.id, last.range.start, last.range.len()),
            (7, 2 * LEASE_MIN, 1)
        );
        assert!(plan.part(8, version, 5).is_err() && plan.part(4, version, 5).is_err());
        let planned = Planned::Tree(plan);
        assert_eq!(Planned::decode(&planned.encode()), Ok(planned));
    }

    /// The sizes are the source's word.
    #[test]
    fn sizes_beyond_all_measure_are_no_fault_and_a_list_without_end_is_refused() {
        let huge = TreeOrder {
            lease_bytes: 1 << 63,
            ..order()
        };
        let mut cutter = Cutter::new(huge).unwrap();
        let mut sheets = Vec::new();
        for number in 0..4 {
            sheets.extend(cutter.small(member(number, 1 << 63)).unwrap());
        }
        sheets.extend(cutter.close().unwrap());
        assert_eq!(sheets.len(), 4);
        let plan = cutter.end();
        assert_eq!(plan.bytes(), u64::MAX);
        let mut cover = crate::Cover::new(&plan);
        for sheet in &sheets {
            let record = crate::TreeRecord {
                plan: "p".into(),
                lease: sheet.lease,
                epoch: 1,
                bytes: 0,
                seconds: 0.0,
                moved: vec![crate::Moved::Here {
                    blake3: [0; 32],
                    mark: (0, (0, 0)),
                }],
            };
            cover.add(sheet, &[record], |_| ()).unwrap();
        }
        assert_eq!(cover.end().unwrap().bytes, u64::MAX);
        let mut cutter = Cutter::new(order()).unwrap();
        for _ in 0..LEASES_MAX {
            cutter.announce(LEASE_MIN).unwrap();
        }
        assert_eq!(cutter.announce(0), Err(PlanError::TooManyLeases));
        let mut cutter = Cutter::new(order()).unwrap();
        assert_eq!(cutter.announce(u64::MAX), Err(PlanError::TooManyLeases));
    }

    /// What is read of one lease is bounded, whoever wrote it.
    #[test]
    fn h17_a_lease_has_so_many_files_and_names_and_no_more() {
        let sheet = |count| Sheet {
            plan: "p".into(),
            lease: 0,
            share: Share::Run((0..count).map(|n| member(n, 0)).collect()),
        };
        assert!(Sheet::decode(sheet(MEMBERS_MAX).encode().as_bytes()).is_ok());
        assert!(Sheet::decode(sheet(MEMBERS_MAX + 1).encode().as_bytes()).is_err());
        let record = |count| crate::TreeRecord {
            plan: "p".into(),
            lease: 0,
            epoch: 1,
            bytes: 0,
            seconds: 0.0,
            moved: vec![crate::Moved::Lacking { why: "x".into() }; count],
        };
        let read = |count| crate::TreeRecord::decode(record(count).encode().as_bytes());
        assert!(read(MEMBERS_MAX).is_ok() && read(MEMBERS_MAX + 1).is_err());
        // Names of bytes that JSON has three of each for.
        let mut cutter = Cutter::new(order()).unwrap();
        let long = |number: usize| Member {
            name: Name::new([format!("{number}/").as_bytes(), &[0xff; 4000]].concat()).unwrap(),
            size: 0,
            mtime: (7, 8),
        };
        let mut sheets = Vec::new();
        for number in 0..1000 {
            sheets.extend(cutter.small(long(number)).unwrap());
        }
        sheets.extend(cutter.close().unwrap());
        assert_eq!(sheets.len(), 2);
        for sheet in sheets {
            assert!((sheet.encode().len() as u64) < SHEET_MAX);
        }
        assert_eq!(cutter.end().files(), 1000);
    }

    #[test]
    fn many_empty_files_and_none_at_all() {
        let mut cutter = Cutter::new(order()).unwrap();
        let all = (0..=2 * MEMBERS_MAX).filter_map(|n| cutter.small(member(n, 0)).unwrap());
        assert_eq!(all.count(), 2);
        assert!(cutter.close().unwrap().is_some());
        let mut none = Cutter::new(order()).unwrap();
        assert!(none.close().unwrap().is_some());
        assert_eq!(none.end().leases(), 1);
    }
}
