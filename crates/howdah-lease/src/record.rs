//! What movers leave behind, and what follows from it.

use crate::{Plan, Torn, Value, join, sealed, unsealed};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A lease was moved: its bytes are durable in their place.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Record {
    /// Of which plan.
    pub plan: String,
    /// Which of its leases.
    pub lease: u64,
    /// In which run of it.
    pub epoch: u64,
    /// How long it is.
    pub bytes: u64,
    /// How long it took.
    pub seconds: f64,
    /// BLAKE3 of its subtree (of the file, if there is one lease only), in hexadecimal.
    #[serde(with = "hex")]
    pub blake3: Value,
}

/// A plan of which every byte is in its place.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Finished {
    /// Of the file.
    pub blake3: Value,
    /// Bytes of it.
    pub bytes: u64,
}

/// Why a plan is not finished.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NotFinished {
    /// Leases without a record: how many, and the first of them.
    #[error(
        "not all leases are moved yet: {count} are missing, the first is {first}; run them, then finish again"
    )]
    Missing {
        /// How many.
        count: u64,
        /// The first.
        first: u64,
    },
    /// Records of another plan lie there, too.
    #[error(
        "the record of lease {lease} is of plan {other}, and this is plan {plan}: two plans share a directory"
    )]
    OtherPlan {
        /// Of the record.
        lease: u64,
        /// Which one it is of.
        other: String,
        /// This one.
        plan: String,
    },
    /// A record that this plan cannot have led to.
    #[error("the record of lease {lease} in epoch {epoch} does not fit the plan: {what}")]
    Misfit {
        /// Of the record.
        lease: u64,
        /// Of the record.
        epoch: u64,
        /// What is wrong.
        what: String,
    },
    /// One of them is wrong, and nobody knows which bytes are there.
    #[error(
        "epochs {one} and {other} of lease {lease} moved different bytes; remove the unfinished file and plan anew"
    )]
    Contradiction {
        /// Of both.
        lease: u64,
        /// The first.
        one: u64,
        /// The second.
        other: u64,
    },
}

impl Record {
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

/// Whether these records cover the plan, and what the file hashes to. Any number of records may be of one lease.
///
/// # Errors
///
/// [`NotFinished`].
pub fn finish(
    plan: &Plan,
    records: impl IntoIterator<Item = Record>,
) -> Result<Finished, NotFinished> {
    let mut moved: BTreeMap<u64, Record> = BTreeMap::new();
    for record in records {
        let (lease, epoch) = (record.lease, record.epoch);
        if record.plan != plan.id() {
            return Err(NotFinished::OtherPlan {
                lease,
                other: record.plan,
                plan: plan.id().to_owned(),
            });
        }
        let misfit = |what: String| NotFinished::Misfit { lease, epoch, what };
        let Some(planned) = plan.lease(lease) else {
            return Err(misfit(format!("it has {} leases", plan.leases())));
        };
        if record.bytes != planned.range.len() {
            let (has, is) = (planned.range.len(), record.bytes);
            return Err(misfit(format!("it has {has} bytes, and {is} were moved")));
        }
        if let Some(other) = moved.get(&lease)
            && other.blake3 != record.blake3
        {
            return Err(NotFinished::Contradiction {
                lease,
                one: other.epoch,
                other: epoch,
            });
        }
        moved.entry(lease).or_insert(record);
    }
    let values: Vec<Value> = moved.values().map(|record| record.blake3).collect();
    let missing = || {
        let first = (0..).zip(moved.keys()).find(|(at, lease)| at != *lease);
        NotFinished::Missing {
            count: plan.leases() - moved.len() as u64,
            first: first.map_or(moved.len() as u64, |(at, _)| at),
        }
    };
    let blake3 = join(plan, &values).ok_or_else(missing)?;
    let bytes = plan.version().size;
    Ok(Finished { blake3, bytes })
}

pub(crate) mod hex {
    use super::Value;
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    pub(crate) fn serialize<S: Serializer>(value: &Value, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(blake3::Hash::from(*value).to_hex().as_str())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Value, D::Error> {
        let text = String::deserialize(from)?;
        let hash = blake3::Hash::from_hex(text).map_err(D::Error::custom)?;
        Ok(*hash.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LEASE_MIN, Version};

    fn plan(leases: u64) -> Plan {
        let version = Version {
            size: leases * LEASE_MIN,
            mtime: (0, 0),
            ctime: (0, 0),
            inode: 0,
        };
        Plan::new("p".into(), "s".into(), "d".into(), version, LEASE_MIN).unwrap()
    }

    fn record(lease: u64, epoch: u64) -> Record {
        Record {
            plan: "p".into(),
            lease,
            epoch,
            bytes: LEASE_MIN,
            seconds: 0.25,
            blake3: [lease as u8; 32],
        }
    }

    #[test]
    fn a_record_that_is_not_whole_is_none() {
        let text = record(3, 1).encode();
        assert_eq!(Record::decode(text.as_bytes()).unwrap(), record(3, 1));
        for end in 0..text.len() {
            assert_eq!(Record::decode(&text.as_bytes()[..end]), Err(Torn), "{end}");
        }
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            assert_eq!(Record::decode(&bytes), Err(Torn), "{at}");
        }
        assert_eq!(Record::decode(&[0; 200]), Err(Torn));
    }

    #[test]
    fn only_what_covers_the_file_and_agrees_is_finished() {
        let plan = plan(3);
        let all = || (0..3).map(|lease| record(lease, 1));
        assert_eq!(finish(&plan, all()).unwrap().bytes, 3 * LEASE_MIN);
        assert_eq!(
            finish(&plan, all().chain([record(1, 2)])),
            finish(&plan, all())
        );
        for (records, count, first) in [
            (vec![], 3, 0),
            (vec![record(0, 1), record(2, 1)], 1, 1),
            (vec![record(0, 1)], 2, 1),
        ] {
            assert_eq!(
                finish(&plan, records),
                Err(NotFinished::Missing { count, first })
            );
        }
        let other = Record {
            plan: "q".into(),
            ..record(0, 1)
        };
        assert!(matches!(
            finish(&plan, [other]),
            Err(NotFinished::OtherPlan { .. })
        ));
        let short = Record {
            bytes: 1,
            ..record(0, 1)
        };
        assert!(matches!(
            finish(&plan, [short]),
            Err(NotFinished::Misfit { .. })
        ));
        assert!(matches!(
            finish(&plan, [record(3, 1)]),
            Err(NotFinished::Misfit { .. })
        ));
        let wrong = Record {
            blake3: [9; 32],
            ..record(1, 2)
        };
        let told = finish(&plan, all().chain([wrong]));
        let expected = NotFinished::Contradiction {
            lease: 1,
            one: 1,
            other: 2,
        };
        assert_eq!(told, Err(expected));
    }
}
