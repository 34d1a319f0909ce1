//! `howdah cp --plan PLAN --lease ID`: one run of one lease.

use super::room::Room;
use super::run::RunHost;
use super::{below, failed, identity, path_of, read_plan, source_of};
use crate::args::{Cli, Command, CpArgs, PaceArgs};
use crate::commands::connect::config;
use crate::commands::course::{Run, arrival, finish, reporter};
use crate::commands::flight;
use crate::ui::{Reporter, Signals, Start};
use howdah::{ByteRange, Cancel, CopyConfig, Error, ErrorKind, Location, Progress, Summary};
use howdah_lease::{
    Action, Lease, Mark, Moved, Mover, Plan, PlanError, Planned, Record, RunMover, Share, Sheet,
    Stopped, SubtreeHasher, TreePlan, TreeRecord, Value,
};
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Bytes that are read and hashed at a time.
const PIECE: usize = 256 << 10;

pub(in crate::commands) fn run(args: &CpArgs, plan: &Path) -> anyhow::Result<()> {
    let reporter = reporter(&args.telling, false, false)?;
    let result = lease(args, plan, &reporter);
    finish(&reporter, result)
}

/// What a lease has.
enum Work {
    /// A range of a file.
    Range {
        /// Of that file alone.
        plan: Plan,
        source: Location,
        lease: Lease,
        /// Where it goes, in the room.
        part: PathBuf,
        /// It is one of a tree.
        of_tree: bool,
    },
    /// Small files of a tree.
    Run(TreePlan, Sheet),
}

impl Work {
    fn of(planned: &Planned, id: u64, source: Location, room: &Room) -> Result<Self, Error> {
        let usage = |e: PlanError| Error::new(ErrorKind::Usage, e.to_string());
        let tree = match planned {
            Planned::File(plan) => {
                let plan = plan.clone();
                let lease = plan
                    .lease(id)
                    .ok_or_else(|| usage(PlanError::TooManyLeases))?;
                return Ok(Self::Range {
                    plan,
                    source,
                    lease,
                    part: room.work_in().to_owned(),
                    of_tree: false,
                });
            }
            Planned::Tree(tree) => tree,
        };
        let sheet = room.sheet(tree, id)?;
        let Share::Part {
            name,
            version,
            first,
        } = &sheet.share
        else {
            return Ok(Self::Run(tree.clone(), sheet));
        };
        let (plan, lease) = tree.part(id, *version, *first).map_err(usage)?;
        Ok(Self::Range {
            plan,
            source: below(&source, name),
            lease,
            part: room.work_in().join(path_of(name)),
            of_tree: true,
        })
    }

    /// Epoch and bytes of a run that has moved all of it.
    fn moved(&self, id: u64, room: &Room) -> Result<Option<(u64, u64)>, Error> {
        if let Self::Range { of_tree: false, .. } = self {
            let record = room.records(id)?.pop();
            return Ok(record.map(|record| (record.epoch, record.bytes)));
        }
        let mut records = room.tree_records(id)?.into_iter();
        let whole = records.rfind(TreeRecord::is_complete);
        Ok(whole.map(|record| (record.epoch, record.bytes)))
    }
}

fn lease(args: &CpArgs, path: &Path, reporter: &Reporter) -> anyhow::Result<Summary> {
    let planned = read_plan(path)?;
    let source = source_of(&planned, path)?;
    let id = args.lease.lease.unwrap_or_default();
    if id >= planned.leases() {
        let (path, last) = (path.display(), planned.leases() - 1);
        let text = format!("{path} has no lease {id}: they are 0 to {last}");
        return Err(Error::new(ErrorKind::Usage, text).into());
    }
    let room = Room::open(&planned)?;
    let work = Work::of(&planned, id, source.clone(), &room)?;
    if let Some((epoch, bytes)) = work.moved(id, &room)? {
        reporter.note(&format!("lease {id} was moved in epoch {epoch} already"));
        return Ok(Summary {
            bytes,
            resumed_bytes: bytes,
            verified: "blake3".to_owned(),
            ..Summary::default()
        });
    }
    let signals = Signals::install()?;
    let mut config = config(&args.connect, std::iter::once(&source))?;
    arrival(&mut config, &args.arrival, reporter);
    let destination = Location::File(planned.destination().into());
    let from = std::slice::from_ref(&source);
    flight::check_place(&args.flight, from, &destination)?;
    flight::begin(&args.flight, from, &destination, false, &mut config);
    let epoch = match args.lease.epoch {
        Some(epoch) => epoch,
        None => next_epoch(id, room.highest(id)?)?,
    };
    let mut start = Start::new("cp", [&source], &destination);
    start.set_pace(config.policy, &args.connect.pace);
    let run = Run {
        config: &config,
        signals: &signals,
        reporter,
        pace: &args.connect.pace,
        pace_of,
        trace: args.trace.as_deref(),
    };
    let (room, config, cancel) = (&room, &config, signals.cancel());
    let done = run.copy(&start, |show| match work {
        Work::Range {
            plan,
            source,
            lease,
            part,
            of_tree,
        } => {
            let host = Host {
                plan: &plan,
                source: &source,
                lease,
                room,
                part,
                of_tree,
                config,
                cancel,
                value: None,
                scratch: None,
            };
            host.run(epoch, show)
        }
        Work::Run(plan, sheet) => {
            let host = RunHost {
                plan: &plan,
                source: &source,
                room,
                config,
                cancel,
            };
            let no_run = || Error::new(ErrorKind::Usage, "the lease is of a large file");
            let mover = RunMover::new(&plan, sheet, epoch).ok_or_else(no_run)?;
            host.run(mover, (id, epoch), show)
        }
    });
    // What was fetched of a lease goes with its run, whatever the copy in it says of itself.
    let done = done.map_err(|error| match error.downcast_ref::<Error>() {
        Some(stopped) if stopped.kind() == ErrorKind::Cancelled => interrupted().into(),
        _ => error,
    });
    flight::end(&args.flight, config, done, reporter)
}

/// The one behind the highest that somebody has claimed.
fn next_epoch(lease: u64, highest: u64) -> Result<u64, Error> {
    highest.checked_add(1).ok_or_else(|| {
        let text = format!(
            "lease {lease} is run in epoch {highest} already, and none comes behind that: run it in the same one, with --epoch {highest}"
        );
        Error::new(ErrorKind::Refused, text)
    })
}

/// What the same command line asks for now.
fn pace_of(cli: &Cli) -> Option<PaceArgs> {
    match &cli.command {
        Command::Cp(args) => Some(args.connect.pace.clone()),
        _ => None,
    }
}

/// What runs a lease.
struct Host<'a> {
    plan: &'a Plan,
    source: &'a Location,
    lease: Lease,
    room: &'a Room,
    /// Where it goes, in the room.
    part: PathBuf,
    /// It is one of a tree.
    of_tree: bool,
    config: &'a CopyConfig,
    cancel: &'a Cancel,
    /// Of what was fetched.
    value: Option<Value>,
    /// What was fetched; nobody else sees it.
    scratch: Option<File>,
}

impl Host<'_> {
    fn run(mut self, epoch: u64, show: &mut dyn FnMut(&Progress)) -> Result<Summary, Error> {
        let begun = Instant::now();
        let mut mover = Mover::new(self.plan, self.lease, epoch);
        let mut summary = Summary::default();
        let part = self.room.open_part(&self.part)?;
        loop {
            if self.cancel.is_cancelled() {
                return Err(interrupted());
            }
            match mover.action() {
                Action::Claim => {
                    self.room.claim(self.lease.id, epoch)?;
                    mover.on_claimed();
                }
                Action::Fetch(range) => {
                    summary = match self.fetch(range, show) {
                        Ok(summary) => summary,
                        Err(error) => {
                            self.lacks(epoch, &error)?;
                            return Err(error);
                        }
                    };
                    let value = self.value_of(self.scratch()?, 0)?;
                    self.value = Some(value);
                    // The far side says which version it begins to read, and fails if that has changed when it ends.
                    let versions = [self.plan.version(); 2];
                    mover
                        .on_fetched(value, summary.seconds, versions)
                        .map_err(|why| stopped(&why))?;
                }
                Action::Look => {
                    let highest = self.room.highest(self.lease.id)?;
                    mover.on_highest(highest).map_err(|why| stopped(&why))?;
                }
                Action::Write(range) => {
                    self.place(range, &part)?;
                    mover.on_written();
                }
                Action::Sync => {
                    let path = self.path();
                    part.sync_data().map_err(|e| failed("sync", &path, &e))?;
                    if Some(self.value_of(&part, self.lease.range.start)?) != self.value {
                        let path = path.display();
                        let text = format!(
                            "{path} does not give back what was written to it; run it again"
                        );
                        return Err(Error::new(ErrorKind::Integrity, text));
                    }
                    mover.on_synced();
                }
                Action::Publish(record) => {
                    if self.of_tree {
                        let (blake3, mark) = (record.blake3, Mark::default());
                        let moved = Moved::Here { blake3, mark };
                        self.room.publish_of_tree(&record_of_tree(record, moved))?;
                    } else {
                        self.room.publish(&record)?;
                    }
                    mover.on_published();
                }
                Action::Done => break,
            }
        }
        let seconds = begun.elapsed().as_secs_f64();
        "blake3".clone_into(&mut summary.verified);
        summary.seconds = seconds;
        summary.goodput_bps = summary.bytes as f64 * 8.0 / seconds.max(1e-9);
        Ok(summary)
    }

    /// What a tree can do without is known then.
    fn lacks(&self, epoch: u64, error: &Error) -> Result<(), Error> {
        let is_lacking = matches!(error.kind(), ErrorKind::SourceChanged | ErrorKind::NotFound);
        if !self.of_tree || !is_lacking {
            return Ok(());
        }
        let why = error.to_string();
        let record = Record {
            plan: self.plan.id().to_owned(),
            lease: self.lease.id,
            epoch,
            bytes: 0,
            seconds: 0.0,
            blake3: Value::default(),
        };
        let record = record_of_tree(record, Moved::Lacking { why });
        self.room.publish_of_tree(&record)
    }

    /// Where it goes.
    fn path(&self) -> PathBuf {
        self.room.path(&self.part)
    }

    fn scratch(&self) -> Result<&File, Error> {
        let nothing = || Error::new(ErrorKind::Io, "nothing was fetched");
        self.scratch.as_ref().ok_or_else(nothing)
    }

    fn fetch(
        &mut self,
        range: ByteRange,
        show: &mut dyn FnMut(&Progress),
    ) -> Result<Summary, Error> {
        let path = self.path();
        let file = self.room.scratch()?;
        let theirs = file
            .try_clone()
            .map_err(|e| failed("share a file beside", &path, &e))?;
        self.scratch = Some(file);
        let of = (&identity(&self.plan.version()), range);
        howdah::fetch_range(
            self.source,
            of,
            (theirs, &path),
            self.config,
            self.cancel,
            show,
        )
    }

    /// Copies what was fetched to its place; on file systems that can, no byte of it is moved.
    fn place(&self, range: ByteRange, mut part: &File) -> Result<(), Error> {
        let mut scratch = self.scratch()?;
        let within = range.start - self.lease.range.start;
        let mut copy = || -> io::Result<u64> {
            scratch.seek(SeekFrom::Start(within))?;
            part.seek(SeekFrom::Start(range.start))?;
            io::copy(&mut scratch.take(range.len()), &mut part)
        };
        let path = self.path();
        match copy() {
            Ok(bytes) if bytes == range.len() => Ok(()),
            Ok(_) => Err(failed("write", &path, &io::ErrorKind::WriteZero.into())),
            Err(e) => Err(failed("write", &path, &e)),
        }
    }

    /// Of the lease's bytes, which begin there in that file.
    fn value_of(&self, mut file: &File, start: u64) -> Result<Value, Error> {
        let mut hasher = SubtreeHasher::new(self.plan, self.lease);
        let mut read = || -> io::Result<()> {
            file.seek(SeekFrom::Start(start))?;
            let mut buffer = vec![0; PIECE];
            let mut left = self.lease.range.len();
            while left > 0 {
                let piece = &mut buffer[..PIECE.min(usize::try_from(left).unwrap_or(PIECE))];
                file.read_exact(piece)?;
                hasher.update(piece);
                left -= piece.len() as u64;
            }
            Ok(())
        };
        read().map_err(|e| failed("read back", &self.path(), &e))?;
        Ok(hasher.value())
    }
}

pub(super) fn stopped(why: &Stopped) -> Error {
    let kind = match why {
        Stopped::Fenced { .. } => ErrorKind::Refused,
        Stopped::SourceChanged { .. } => ErrorKind::SourceChanged,
    };
    Error::new(kind, why.to_string())
}

pub(super) fn interrupted() -> Error {
    let text = "interrupted; the same lease can be run again";
    Error::new(ErrorKind::Cancelled, text)
}

fn record_of_tree(record: Record, moved: Moved) -> TreeRecord {
    TreeRecord {
        plan: record.plan,
        lease: record.lease,
        epoch: record.epoch,
        bytes: record.bytes,
        seconds: record.seconds,
        moved: vec![moved],
    }
}
