//! Whether the records of a tree's leases cover it, and what it hashes to.

use crate::run::{Mark, Moved};
use crate::tree::Member;
use crate::{Name, NotFinished, Plan, Share, Sheet, TreePlan, TreeRecord, Value, Version, join};
use blake3::Hasher;

/// What the records say about a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Found<'a> {
    /// A small file was put into its place.
    Small {
        /// Which.
        member: &'a Member,
        /// Of its content.
        blake3: Value,
        /// What it may be known by: each run of the lease has put one of its own there.
        marks: &'a [Mark],
    },
    /// All ranges of a large file are in their places.
    Large {
        /// Which.
        name: &'a Name,
        /// Bytes.
        size: u64,
        /// Of its content.
        blake3: Value,
    },
    /// A file could not be had.
    Lacking {
        /// Which.
        name: &'a Name,
        /// Something of it may be in its place all the same: ranges of a large file.
        is_large: bool,
        /// Why.
        why: &'a str,
    },
}

/// A tree of which every lease was run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Covered {
    /// BLAKE3 of the lines that [`sum_line`] makes of the files that are there, in the order of the leases.
    pub blake3: Value,
    /// Files that are there.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files that could not be had.
    pub lacking: u64,
}

/// Goes through the leases of a tree in their order.
#[derive(Debug)]
pub struct Cover<'a> {
    plan: &'a TreePlan,
    next: u64,
    root: Hasher,
    covered: Covered,
    missing: u64,
    first_missing: u64,
    part: Option<Part>,
}

/// A large file of which not all leases have been looked at.
#[derive(Debug)]
struct Part {
    first: u64,
    file: Plan,
    values: Vec<Value>,
    looked_at: u64,
    lacking: Option<String>,
}

impl<'a> Cover<'a> {
    /// Nothing has been looked at.
    pub fn new(plan: &'a TreePlan) -> Self {
        Self {
            plan,
            next: 0,
            root: Hasher::new(),
            covered: Covered {
                blake3: Value::default(),
                files: 0,
                bytes: 0,
                lacking: 0,
            },
            missing: 0,
            first_missing: 0,
            part: None,
        }
    }

    /// The next lease, and all records of it. `tell` hears of each file that is known with it.
    ///
    /// # Errors
    ///
    /// All of [`NotFinished`] but [`NotFinished::Missing`].
    pub fn add(
        &mut self,
        sheet: &Sheet,
        records: &[TreeRecord],
        mut tell: impl FnMut(Found<'_>),
    ) -> Result<(), NotFinished> {
        let lease = self.next;
        self.next += 1;
        let misfit = |epoch, what: &str| NotFinished::Misfit {
            lease,
            epoch,
            what: what.to_owned(),
        };
        if sheet.plan != self.plan.id() || sheet.lease != lease {
            return Err(misfit(0, "its list is of another lease"));
        }
        let count = match &sheet.share {
            Share::Run(members) => members.len(),
            Share::Part { .. } => 1,
        };
        for record in records {
            if record.plan != self.plan.id() {
                return Err(NotFinished::OtherPlan {
                    lease,
                    other: record.plan.clone(),
                    plan: self.plan.id().to_owned(),
                });
            }
            if record.lease != lease || record.moved.len() != count {
                return Err(misfit(record.epoch, "it is of another lease"));
            }
        }
        if records.is_empty() {
            if self.missing == 0 {
                self.first_missing = lease;
            }
            self.missing += 1;
        }
        match &sheet.share {
            Share::Run(_) if records.is_empty() => Ok(()),
            Share::Run(members) => self.add_run(members, records, tell),
            Share::Part {
                name,
                version,
                first,
                ..
            } => self.add_part((name, *version, *first), lease, records, &mut tell),
        }
    }

    fn add_run(
        &mut self,
        members: &[Member],
        records: &[TreeRecord],
        mut tell: impl FnMut(Found<'_>),
    ) -> Result<(), NotFinished> {
        let mut marks = Vec::new();
        for (index, member) in members.iter().enumerate() {
            marks.clear();
            if let Some(blake3) = agreed(records, index, &mut marks)? {
                self.has(&member.name, member.size, &blake3);
                tell(Found::Small {
                    member,
                    blake3,
                    marks: &marks,
                });
            } else {
                self.covered.lacking += 1;
                tell(Found::Lacking {
                    name: &member.name,
                    is_large: false,
                    why: why(records, index),
                });
            }
        }
        Ok(())
    }

    fn add_part(
        &mut self,
        (name, version, first): (&Name, Version, u64),
        lease: u64,
        records: &[TreeRecord],
        tell: &mut dyn FnMut(Found<'_>),
    ) -> Result<(), NotFinished> {
        let misfit = |what: String| NotFinished::Misfit {
            lease,
            epoch: 0,
            what,
        };
        let (file, _) = self
            .plan
            .part(lease, version, first)
            .map_err(|e| misfit(e.to_string()))?;
        let mut part = match self.part.take() {
            Some(part) if part.first == first && part.file == file => part,
            None if first == lease => Part {
                first,
                file,
                values: Vec::new(),
                looked_at: 0,
                lacking: None,
            },
            _ => return Err(misfit("its list is of another file".to_owned())),
        };
        part.looked_at += 1;
        match agreed(records, 0, &mut Vec::new())? {
            Some(value) => part.values.push(value),
            None if !records.is_empty() => part.lacking = Some(why(records, 0).to_owned()),
            None => {}
        }
        if part.looked_at < part.file.leases() {
            self.part = Some(part);
            return Ok(());
        }
        if let Some(why) = &part.lacking {
            self.covered.lacking += 1;
            tell(Found::Lacking {
                name,
                is_large: true,
                why,
            });
        } else if let Some(blake3) = join(&part.file, &part.values) {
            self.has(name, version.size, &blake3);
            tell(Found::Large {
                name,
                size: version.size,
                blake3,
            });
        }
        Ok(())
    }

    fn has(&mut self, name: &Name, size: u64, blake3: &Value) {
        self.covered.files += 1;
        self.covered.bytes = self.covered.bytes.saturating_add(size);
        self.root.update(&sum_line(blake3, name));
    }

    /// All leases were looked at.
    ///
    /// # Errors
    ///
    /// [`NotFinished::Missing`] if one of them has no record.
    pub fn end(mut self) -> Result<Covered, NotFinished> {
        let unseen = self.plan.leases().saturating_sub(self.next);
        if self.missing + unseen > 0 {
            return Err(NotFinished::Missing {
                count: self.missing + unseen,
                first: if self.missing > 0 {
                    self.first_missing
                } else {
                    self.next
                },
            });
        }
        self.covered.blake3 = *self.root.finalize().as_bytes();
        Ok(self.covered)
    }
}

/// The hash that all runs agree on which have that file, and what those are known by that they put there.
fn agreed(
    records: &[TreeRecord],
    index: usize,
    marks: &mut Vec<Mark>,
) -> Result<Option<Value>, NotFinished> {
    let mut found: Option<(u64, Value)> = None;
    for record in records {
        let Some(Moved::Here { blake3, mark }) = record.moved.get(index) else {
            continue;
        };
        marks.push(*mark);
        match found {
            Some((one, other)) if other != *blake3 => {
                return Err(NotFinished::Contradiction {
                    lease: record.lease,
                    one,
                    other: record.epoch,
                });
            }
            _ => found = Some((record.epoch, *blake3)),
        }
    }
    Ok(found.map(|(_, blake3)| blake3))
}

/// What the last run said that had not got it.
fn why(records: &[TreeRecord], index: usize) -> &str {
    let said = records
        .iter()
        .rev()
        .find_map(|record| match record.moved.get(index) {
            Some(Moved::Lacking { why }) => Some(&**why),
            _ => None,
        });
    said.unwrap_or_default()
}

/// A line of a list of hashes, as `b3sum` writes it and `b3sum --check` reads it.
pub fn sum_line(blake3: &Value, name: &Name) -> Vec<u8> {
    let mut line = Vec::with_capacity(name.as_bytes().len() + 68);
    let escapes = name.as_bytes().iter().any(|byte| b"\\\n\r".contains(byte));
    if escapes {
        line.push(b'\\');
    }
    line.extend_from_slice(blake3::Hash::from(*blake3).to_hex().as_bytes());
    line.extend_from_slice(b"  ");
    for byte in name.as_bytes() {
        match byte {
            b'\\' => line.extend_from_slice(b"\\\\"),
            b'\n' => line.extend_from_slice(b"\\n"),
            b'\r' => line.extend_from_slice(b"\\r"),
            byte => line.push(*byte),
        }
    }
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cutter, LEASE_MIN, TreeOrder};

    fn tree() -> (TreePlan, Vec<Sheet>) {
        let order = TreeOrder {
            id: "p".into(),
            source: "s".into(),
            destination: "d".into(),
            lease_bytes: LEASE_MIN,
            archive: false,
            permissions: false,
        };
        let mut cutter = Cutter::new(order).unwrap();
        for name in ["a", "b"] {
            let name = Name::new(name).unwrap();
            let mtime = (1, 0);
            let member = Member {
                name,
                size: 3,
                mtime,
            };
            assert_eq!(cutter.small(member).unwrap(), None);
        }
        let mut sheets: Vec<_> = cutter.close().unwrap().into_iter().collect();
        let version = Version {
            size: LEASE_MIN + 1,
            mtime: (0, 0),
            ctime: (0, 0),
            inode: 9,
        };
        let large = Name::new("large").unwrap();
        sheets.extend(cutter.large(&large, version, None).unwrap());
        (cutter.end(), sheets)
    }

    fn here(number: u8) -> Moved {
        Moved::Here {
            blake3: [number; 32],
            mark: (number.into(), (0, 0)),
        }
    }

    fn lacking(why: &str) -> Moved {
        Moved::Lacking { why: why.into() }
    }

    fn record(lease: u64, epoch: u64, moved: &[Moved]) -> TreeRecord {
        TreeRecord {
            plan: "p".into(),
            lease,
            epoch,
            bytes: 0,
            seconds: 0.0,
            moved: moved.to_vec(),
        }
    }

    /// What comes of these records, and the words about each file.
    fn covered(records: &[TreeRecord]) -> (Result<Covered, NotFinished>, Vec<String>) {
        let (plan, sheets) = tree();
        let mut cover = Cover::new(&plan);
        let mut words = Vec::new();
        for sheet in &sheets {
            let of: Vec<_> = records
                .iter()
                .filter(|r| r.lease == sheet.lease)
                .cloned()
                .collect();
            let told = cover.add(sheet, &of, |found| {
                words.push(match found {
                    Found::Small { member, marks, .. } => {
                        format!(
                            "{} {:?}",
                            String::from_utf8_lossy(member.name.as_bytes()),
                            marks.iter().map(|mark| mark.0).collect::<Vec<_>>()
                        )
                    }
                    Found::Large { size, .. } => format!("large {size}"),
                    Found::Lacking { why, is_large, .. } => format!("no {why} {is_large}"),
                });
            });
            if let Err(e) = told {
                return (Err(e), words);
            }
        }
        (cover.end(), words)
    }

    #[test]
    fn what_is_covered_has_its_hash_and_what_is_not_is_said() {
        let all = [
            record(0, 1, &[here(1), here(2)]),
            record(1, 1, &[here(3)]),
            record(2, 1, &[here(4)]),
        ];
        let (done, words) = covered(&all);
        let done = done.unwrap();
        assert_eq!(
            (done.files, done.bytes, done.lacking),
            (3, LEASE_MIN + 7, 0)
        );
        assert_eq!(
            words,
            ["a [1]", "b [2]", &format!("large {}", LEASE_MIN + 1)]
        );
        // Once more, in another run: nothing changes but the numbers.
        let (again, words) = covered(&[&all[..], &[record(0, 2, &[here(1), here(2)])]].concat());
        assert_eq!((again.unwrap(), &*words[0]), (done, "a [1, 1]"));
        // A run that had not got everything, and one that had.
        let (later, _) = covered(&[&[record(0, 0, &[lacking("x"), here(2)])], &all[..]].concat());
        assert_eq!(later.unwrap(), done);
        for (without, first) in [(0, 0), (1, 1), (2, 2)] {
            let mut some = all.to_vec();
            some.remove(without);
            assert_eq!(
                covered(&some).0,
                Err(NotFinished::Missing { count: 1, first })
            );
        }
        let mut some = all.to_vec();
        some[2] = record(2, 1, &[lacking("gone")]);
        some[0] = record(0, 1, &[here(1), lacking("read")]);
        let (done, words) = covered(&some);
        assert_eq!(done.unwrap().lacking, 2);
        assert_eq!(words, ["a [1]", "no read false", "no gone true"]);
    }

    #[test]
    fn what_does_not_fit_or_agree_is_refused() {
        let all = record(0, 1, &[here(1), here(2)]);
        let other = TreeRecord {
            plan: "q".into(),
            ..all.clone()
        };
        assert!(matches!(
            covered(&[other]).0,
            Err(NotFinished::OtherPlan { .. })
        ));
        let short = record(0, 1, &[here(1)]);
        assert!(matches!(
            covered(&[short]).0,
            Err(NotFinished::Misfit { .. })
        ));
        let told = covered(&[all, record(0, 2, &[here(1), here(7)])]).0;
        let expected = NotFinished::Contradiction {
            lease: 0,
            one: 1,
            other: 2,
        };
        assert_eq!(told, Err(expected));
    }

    #[test]
    fn lines_are_those_of_b3sum() {
        let line = |name: &str| {
            let line = sum_line(&[0xab; 32], &Name::new(name).unwrap());
            String::from_utf8(line).unwrap()
        };
        let hex = "ab".repeat(32);
        assert_eq!(line("a b"), format!("{hex}  a b\n"));
        assert_eq!(line("a\n\\b\r"), format!("\\{hex}  a\\n\\\\b\\r\n"));
    }
}
