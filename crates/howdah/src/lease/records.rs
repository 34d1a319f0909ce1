//! Records of leases in the room of a plan.

use super::room::{EPOCHS_MAX, Room};
use crate::{Error, ErrorKind};
use howdah_lease::{Plan, Record, SHEET_MAX, TreeRecord};
use std::io;
use std::path::PathBuf;

/// Longest record that is read, in bytes.
const RECORD_MAX: u64 = 4096;

fn name(lease: u64, epoch: u64) -> String {
    format!("{lease}/record-{epoch}")
}

impl Room {
    /// Publishes what was moved.
    pub fn publish(&self, record: &Record) -> Result<(), Error> {
        let name = name(record.lease, record.epoch);
        self.write(&name, record.encode().as_bytes())
    }

    /// The same of a tree; returns what is on record then. Another run may have been of the same epoch, and what that one has put into its
    /// place stays on record. `bytes`: of each file of the lease.
    pub fn publish_of_tree(
        &self,
        mut record: TreeRecord,
        bytes: &dyn Fn(usize) -> u64,
    ) -> Result<TreeRecord, Error> {
        let (lease, epoch) = (record.lease, record.epoch);
        let name = name(lease, epoch);
        if !record.is_complete() {
            self.check_epochs(lease, epoch)?;
            if self.write_new(&name, record.encode().as_bytes())? {
                return Ok(record);
            }
        }
        if let Some(other) = self.tree_record(lease, epoch)? {
            if other.is_complete() && !record.is_complete() {
                return Ok(other);
            }
            record.join(&other, bytes);
        }
        self.write(&name, record.encode().as_bytes())?;
        Ok(record)
    }

    /// Nobody fills the room with what could not be had.
    fn check_epochs(&self, lease: u64, epoch: u64) -> Result<(), Error> {
        let epochs = self.epochs(lease, "record-")?;
        if epochs.len() < EPOCHS_MAX || epochs.contains(&epoch) {
            return Ok(());
        }
        let last = epochs.last().copied().unwrap_or_default();
        let text = format!(
            "lease {lease} could not be had in {EPOCHS_MAX} epochs, and no more are kept: run it in the last of them (--epoch {last}), plan \
             anew, or finish without what it lacks (--partial)"
        );
        Err(Error::new(ErrorKind::Refused, text))
    }

    /// The highest epochs of a lease that have records, as many as count, the highest first.
    fn recorded_last(&self, lease: u64) -> Result<impl Iterator<Item = u64>, Error> {
        let epochs = self.epochs(lease, "record-")?;
        Ok(epochs.into_iter().rev().take(EPOCHS_MAX))
    }

    /// The records of a lease, of its highest epochs. A torn one is none.
    pub fn records(&self, lease: u64) -> Result<Vec<Record>, Error> {
        let mut records = Vec::new();
        for epoch in self.recorded_last(lease)? {
            let text = self.content(lease, epoch, RECORD_MAX)?;
            records.extend(text.and_then(|text| Record::decode(&text).ok()));
        }
        records.reverse();
        Ok(records)
    }

    /// The same of a tree.
    pub fn tree_records(&self, lease: u64) -> Result<Vec<TreeRecord>, Error> {
        let mut records = Vec::new();
        for epoch in self.recorded_last(lease)? {
            records.extend(self.tree_record(lease, epoch)?);
        }
        records.reverse();
        Ok(records)
    }

    /// That of the highest epoch in which all of a lease of a tree was moved. One at a time is in memory.
    pub fn whole_record(&self, lease: u64) -> Result<Option<TreeRecord>, Error> {
        for epoch in self.recorded_last(lease)? {
            let record = self.tree_record(lease, epoch)?;
            if let Some(record) = record.filter(TreeRecord::is_complete) {
                return Ok(Some(record));
            }
        }
        Ok(None)
    }

    /// That of an epoch, if it is not torn.
    pub fn tree_record(&self, lease: u64, epoch: u64) -> Result<Option<TreeRecord>, Error> {
        let text = self.content(lease, epoch, SHEET_MAX)?;
        Ok(text.and_then(|text| TreeRecord::decode(&text).ok()))
    }

    fn content(&self, lease: u64, epoch: u64, longest: u64) -> Result<Option<Vec<u8>>, Error> {
        let name = PathBuf::from(name(lease, epoch));
        match self.at().content(&name, longest) {
            Ok(text) => Ok(Some(text)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(self.trouble("read", &name, &e)),
        }
    }

    /// All there are, of leases that the plan has.
    pub fn all_records(&self, plan: &Plan) -> Result<Vec<Record>, Error> {
        let mut all = Vec::new();
        for lease in 0..plan.leases() {
            all.append(&mut self.records(lease)?);
        }
        Ok(all)
    }
}
