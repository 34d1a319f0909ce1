//! `howdah finish` of a tree.

use super::numbers;
use super::room::Room;
use crate::args::FinishArgs;
use crate::exit::{self, Passed};
use crate::own_file;
use crate::ui;
use howdah::lease::{
    Known, PlanRecord, TreeEnded, Witness, failed, finish_tree, lacking, no_directory, not_finished,
};
use howdah::{Cancel, Error, ErrorKind};
use howdah_lease::{NotFinished, TreePlan, TreeRecord};
use serde_json::json;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// Files that are named which could not be had.
const NAMED: u64 = 20;

pub(super) fn run(
    args: &FinishArgs,
    plan: &TreePlan,
    room: &Room,
    cancel: &Cancel,
) -> anyhow::Result<()> {
    if args.check {
        let mut records = Vec::new();
        for lease in 0..plan.leases() {
            let of_lease = room.tree_records(lease)?;
            let whole = of_lease.iter().rfind(|record| record.is_complete());
            records.extend(whole.map(told));
        }
        return check(args, plan, &records, room.has_plan());
    }
    let mut teller = Teller {
        sums: sums(args, Some(Path::new(plan.destination())))?,
        named: 0,
    };
    let known = ended(finish_tree(
        (plan, room),
        args.partial,
        &mut teller,
        &|| cancel.is_cancelled(),
    )?)?;
    // Who does not get to know it can ask again.
    tell(args, plan, &known)?;
    if !args.keep {
        room.remove();
    }
    lacks(plan, &known)
}

/// The list that is to be written, if one is.
pub(super) fn sums(args: &FinishArgs, destination: Option<&Path>) -> Result<Option<Sums>, Error> {
    let path = args.manifest.as_deref();
    path.map(|path| Sums::begin(path, destination)).transpose()
}

fn told(record: &TreeRecord) -> PlanRecord {
    PlanRecord {
        lease: record.lease,
        epoch: record.epoch,
        bytes: record.bytes,
        seconds: record.seconds,
    }
}

fn ended(ended: TreeEnded) -> Result<Finished, Error> {
    match ended {
        TreeEnded::Finished(Known {
            blake3,
            files,
            bytes,
            lacking,
            ..
        }) => Ok(Finished {
            blake3,
            files,
            bytes,
            lacking,
        }),
        TreeEnded::Missing(count, first) => {
            Err(not_finished(&NotFinished::Missing { count, first }))
        }
        TreeEnded::Lacking(count) => Err(lacking(count)),
    }
}

/// What a tree has become.
pub(super) struct Finished {
    pub(super) blake3: String,
    pub(super) files: u64,
    pub(super) bytes: u64,
    pub(super) lacking: u64,
}

/// Says it.
pub(super) fn tell(args: &FinishArgs, plan: &TreePlan, known: &Finished) -> anyhow::Result<()> {
    if args.json {
        let line = json!({
            "schema": 1,
            "plan": plan.id(),
            "destination": ui::printable(plan.destination()),
            "bytes": known.bytes,
            "files": known.files,
            "lacking": known.lacking,
            "leases": plan.leases(),
            "blake3": known.blake3,
        });
        ui::print(&line.to_string())?;
    } else {
        let destination = ui::printable(plan.destination());
        ui::print(&format!("{}  {destination}", known.blake3))?;
    }
    Ok(())
}

/// Says what it has been done without.
pub(super) fn lacks(plan: &TreePlan, known: &Finished) -> anyhow::Result<()> {
    if known.lacking > 0 {
        ui::say_error(&format!(
            "{} files of the plan are not in {}",
            known.lacking,
            ui::printable(plan.destination())
        ));
        return Err(Passed(exit::code(ErrorKind::Partial)).into());
    }
    Ok(())
}

/// What no run has brought whole; of each lease the last record is told that is.
pub(super) fn check(
    args: &FinishArgs,
    plan: &TreePlan,
    records: &[PlanRecord],
    has_plan: bool,
) -> anyhow::Result<()> {
    let moved: BTreeMap<u64, &PlanRecord> = records.iter().map(|r| (r.lease, r)).collect();
    // What is finished lacks nothing, whatever is cleared up of its records.
    let missing: Vec<u64> = (0..plan.leases())
        .filter(|lease| has_plan && !moved.contains_key(lease))
        .collect();
    if args.json {
        let run = |record: &&PlanRecord| {
            json!({
                "lease": record.lease,
                "epoch": record.epoch,
                "bytes": record.bytes,
                "seconds": record.seconds,
            })
        };
        let line = json!({
            "schema": 1,
            "plan": plan.id(),
            "destination": ui::printable(plan.destination()),
            "bytes": plan.bytes(),
            "files": plan.files(),
            "leases": plan.leases(),
            "missing": missing,
            "moved": moved.values().map(run).collect::<Vec<_>>(),
        });
        ui::print(&line.to_string())?;
        return Ok(());
    }
    let all = plan.leases();
    let moved = all - missing.len() as u64;
    ui::say(&format!("{moved} of {all} leases are moved"));
    if !missing.is_empty() {
        ui::print(&numbers(missing))?;
    }
    Ok(())
}

/// Says what lacks, and keeps the list.
struct Teller {
    sums: Option<Sums>,
    named: u64,
}

impl Witness for Teller {
    fn sum(&mut self, line: &[u8]) -> Result<(), Error> {
        self.sums.as_mut().map_or(Ok(()), |sums| sums.put(line))
    }

    fn lacks(&mut self, name: &Path, why: &str) {
        self.named += 1;
        if self.named <= NAMED {
            ui::say_marked("warning:", &format!("{}: {why}", name.display()));
        }
    }

    fn ready(&mut self) -> Result<(), Error> {
        self.sums.take().map_or(Ok(()), Sums::end)
    }
}

/// The list of all hashes, which appears whole.
pub(super) struct Sums {
    file: BufWriter<NamedTempFile>,
    path: PathBuf,
}

impl Sums {
    /// What would fail in the end fails now, and nothing is replaced but another list.
    fn begin(path: &Path, destination: Option<&Path>) -> Result<Self, Error> {
        let refused = |text: String| Err(Error::new(ErrorKind::Usage, text));
        let shown = path.display();
        if path == Path::new("-") {
            return refused("--manifest writes to a file; name one".to_owned());
        }
        // Who made a link of that name wants what it points to replaced.
        let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
        if path.exists() && !path.is_file() {
            return refused(format!("--manifest writes to a file, and {shown} is none"));
        }
        let real = std::path::absolute(path).map_err(|e| failed("write the list", path, &e))?;
        if destination.is_some_and(|tree| real.starts_with(tree)) {
            return refused(format!(
                "--manifest {shown}: there the tree is to be; name a file beside it"
            ));
        }
        own_file::check_there("--manifest", path, own_file::is_list)?;
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
        if let Some(dir) = dir.filter(|dir| !dir.is_dir()) {
            return Err(no_directory(dir));
        }
        let mut builder = tempfile::Builder::new();
        let everybody = <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o666);
        let made = builder
            .permissions(everybody)
            .tempfile_in(dir.unwrap_or_else(|| Path::new(".")));
        let file = made.map_err(|e| failed("write the list", path, &e))?;
        Ok(Self {
            file: BufWriter::new(file),
            path: path.clone(),
        })
    }

    pub(super) fn put(&mut self, text: &[u8]) -> Result<(), Error> {
        let written = self.file.write_all(text);
        written.map_err(|e| failed("write the list", &self.path, &e))
    }

    pub(super) fn end(self) -> Result<(), Error> {
        let write = || -> io::Result<()> {
            let file = self
                .file
                .into_inner()
                .map_err(io::IntoInnerError::into_error)?;
            file.as_file().sync_all()?;
            let _: File = file.persist(&self.path).map_err(|e| e.error)?;
            Ok(())
        };
        let path = self.path.clone();
        write().map_err(|e| failed("write the list", &path, &e))
    }
}
