//! `howdah cp --plan PLAN --lease ID`: one run of one lease.

use super::room::Room;
use super::{failed, identity, read_plan};
use crate::args::{Cli, Command, CpArgs, PaceArgs};
use crate::commands::connect::config;
use crate::commands::course::{Run, arrival, finish, reporter};
use crate::commands::flight;
use crate::ui::{Reporter, Signals, Start};
use howdah::{ByteRange, Cancel, CopyConfig, Error, ErrorKind, Location, Progress, Summary};
use howdah_lease::{Action, Lease, Mover, Plan, Stopped, SubtreeHasher, Value};
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::time::Instant;

/// Bytes that are read and hashed at a time.
const PIECE: usize = 256 << 10;

pub(in crate::commands) fn run(args: &CpArgs, plan: &Path) -> anyhow::Result<()> {
    let reporter = reporter(&args.telling, false, false)?;
    let result = lease(args, plan, &reporter);
    finish(&reporter, result)
}

fn lease(args: &CpArgs, path: &Path, reporter: &Reporter) -> anyhow::Result<Summary> {
    let plan = read_plan(path)?;
    let source = Location::try_from(std::ffi::OsStr::new(plan.source()))
        .map_err(|e| Error::new(ErrorKind::Usage, format!("{}: {e}", path.display())))?;
    let id = args.lease.lease.unwrap_or_default();
    let Some(lease) = plan.lease(id) else {
        let (path, last) = (path.display(), plan.leases() - 1);
        let text = format!("{path} has no lease {id}: they are 0 to {last}");
        return Err(Error::new(ErrorKind::Usage, text).into());
    };
    let room = Room::open(&plan)?;
    if let Some(record) = room.records(id)?.pop() {
        reporter.note(&format!(
            "lease {id} was moved in epoch {} already",
            record.epoch
        ));
        return Ok(Summary {
            bytes: record.bytes,
            resumed_bytes: record.bytes,
            verified: "blake3".to_owned(),
            ..Summary::default()
        });
    }
    let signals = Signals::install()?;
    let mut config = config(&args.connect, std::iter::once(&source), &signals)?;
    arrival(&mut config, &args.arrival, reporter);
    let destination = Location::File(plan.destination().into());
    let from = std::slice::from_ref(&source);
    flight::check_place(&args.flight, from, &destination)?;
    flight::begin(&args.flight, from, &destination, false, &mut config);
    let epoch = match args.lease.epoch {
        Some(epoch) => epoch,
        None => room.highest(id)? + 1,
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
    let done = run.copy(&start, |show| {
        let host = Host {
            plan: &plan,
            source: &source,
            lease,
            room: &room,
            config: &config,
            cancel: signals.cancel(),
            value: None,
            scratch: None,
        };
        host.run(epoch, show)
    });
    flight::end(&args.flight, &config, done, reporter)
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
        let part = self.room.part()?;
        loop {
            if self.cancel.is_cancelled() {
                let text = "interrupted; the same lease can be run again";
                return Err(Error::new(ErrorKind::Cancelled, text));
            }
            match mover.action() {
                Action::Claim => {
                    self.room.claim(self.lease.id, epoch)?;
                    mover.on_claimed();
                }
                Action::Fetch(range) => {
                    summary = self.fetch(range, show)?;
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
                    let path = self.room.part_path();
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
                    self.room.publish(&record)?;
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

    fn scratch(&self) -> Result<&File, Error> {
        let nothing = || Error::new(ErrorKind::Io, "nothing was fetched");
        self.scratch.as_ref().ok_or_else(nothing)
    }

    fn fetch(
        &mut self,
        range: ByteRange,
        show: &mut dyn FnMut(&Progress),
    ) -> Result<Summary, Error> {
        let path = self.room.part_path();
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
        let path = self.room.part_path();
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
        read().map_err(|e| failed("read back", &self.room.part_path(), &e))?;
        Ok(hasher.value())
    }
}

fn stopped(why: &Stopped) -> Error {
    let kind = match why {
        Stopped::Fenced { .. } => ErrorKind::Refused,
        Stopped::SourceChanged { .. } => ErrorKind::SourceChanged,
    };
    Error::new(kind, why.to_string())
}
