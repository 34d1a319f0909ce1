//! One run of a lease of small files that are pulled.

use super::room::Room;
use super::tree_options;
use howdah::lease::{Hashes, LeaseRun, RunDir, check_highest, lacking_of, land_run};
use howdah::{
    Cancel, CopyConfig, Error, FileLog, Location, PathList, Progress, Summary, TreeReport,
};
use howdah_lease::{Member, Share, Sheet, TreePlan};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Files that are named which could not be had.
const NAMED: usize = 20;

/// What a run has fetched; it goes with this.
struct Fetched<'a> {
    room: &'a Room,
    dir: RunDir,
}

impl Drop for Fetched<'_> {
    fn drop(&mut self) {
        self.dir.clear(self.room);
    }
}

pub(super) struct RunHost<'a> {
    pub(super) plan: &'a TreePlan,
    pub(super) source: &'a Location,
    pub(super) room: &'a Room,
    pub(super) config: &'a CopyConfig,
    pub(super) cancel: &'a Cancel,
}

impl RunHost<'_> {
    pub(super) fn run(
        &self,
        sheet: &Sheet,
        epoch: u64,
        show: &mut dyn FnMut(&Progress),
    ) -> Result<Summary, Error> {
        let begun = Instant::now();
        let members = match &sheet.share {
            Share::Run(members) => &members[..],
            Share::Part { .. } => &[],
        };
        let run = a_run(sheet.lease, epoch);
        let (room, cancel) = (self.room, self.cancel);
        let dir = RunDir::begin(room, run)?;
        let fetched = Fetched { room, dir };
        let fetch = self.fetch(members, &fetched.dir, show);
        // Who has begun in a higher epoch may have removed what came.
        let fetch = fetch.map_err(|e| check_highest(room, run).err().unwrap_or(e));
        let (mut summary, hashes) = fetch?;
        let took = Duration::from_secs_f64(summary.seconds.max(0.0));
        let record = land_run(
            (room, self.plan),
            (sheet.clone(), run, fetched.dir.at()),
            (&hashes, took),
            &|| cancel.is_cancelled(),
        )?;
        finish_summary(&mut summary, record.bytes, begun);
        let lacking: Vec<_> = lacking_of(members, &record).collect();
        let notes = lacking.iter().take(NAMED);
        let notes = notes.map(|(name, why)| format!("{}: {why}", name.display()));
        tell_of(
            lacking.len() as u64,
            notes,
            summary.tree.get_or_insert_default(),
        );
        Ok(summary)
    }

    /// As `howdah cp` copies these files, which is verified, durable, and goes on when a connection is lost.
    fn fetch(
        &self,
        members: &[Member],
        dir: &RunDir,
        show: &mut dyn FnMut(&Progress),
    ) -> Result<(Summary, Hashes), Error> {
        if members.is_empty() {
            return Ok((Summary::default(), Hashes::new()));
        }
        let hashes = Arc::new(Mutex::new(Hashes::new()));
        let mut config = self.config.clone();
        let (heard, also) = (Arc::clone(&hashes), self.config.files.clone());
        config.files = FileLog::new(move |files| {
            let mut hashes = heard.lock().unwrap_or_else(PoisonError::into_inner);
            for file in files {
                hashes.extend(file.hash.map(|hash| (file.path.clone(), hash)));
            }
            drop(hashes);
            also.hear(files);
        });
        let options = run_options(self.plan, members);
        let from = std::slice::from_ref(self.source);
        let to = dir.at();
        let place = (to.as_fd(), to.path(), Path::new(""));
        let done = howdah::copy_tree_into(from, place, &options, &config, self.cancel, show);
        // Also of a failure: it is to be removed.
        let opened = dir.open_ways(members);
        let done = done?;
        opened?;
        drop(config);
        let mut hashes = hashes.lock().unwrap_or_else(PoisonError::into_inner);
        Ok((done, std::mem::take(&mut *hashes)))
    }
}

/// One that no other mover has.
pub(super) fn a_run(lease: u64, epoch: u64) -> LeaseRun {
    let run = RandomState::new().build_hasher().finish();
    LeaseRun { lease, epoch, run }
}

/// How the files of a lease are copied.
pub(super) fn run_options(plan: &TreePlan, members: &[Member]) -> howdah::TreeOptions {
    let names = members.iter().map(|member| member.name.as_bytes());
    howdah::TreeOptions {
        files: Some(names.collect::<PathList>()),
        // One that has grown is another one.
        max_size: Some(plan.lease_bytes()),
        ..tree_options(plan)
    }
}

/// What is there of a lease, and since when it was moved.
pub(super) fn finish_summary(summary: &mut Summary, bytes: u64, begun: Instant) {
    let seconds = begun.elapsed().as_secs_f64();
    "blake3".clone_into(&mut summary.verified);
    summary.bytes = bytes;
    (summary.seconds, summary.resumed_bytes) = (seconds, 0);
    summary.goodput_bps = bytes as f64 * 8.0 / seconds.max(1e-9);
}

/// What could not be had, in words and numbers; the copy has said some of it.
pub(super) fn tell_of(
    lacking: u64,
    notes: impl IntoIterator<Item = String>,
    report: &mut TreeReport,
) {
    report.notes.extend(notes);
    report.changed += lacking.saturating_sub(report.failed + report.changed);
}
