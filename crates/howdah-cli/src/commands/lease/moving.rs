//! `howdah cp --plan PLAN --lease ID`: one run of one lease.

use super::moved::{next_epoch, pace_of, was_moved};
use super::room::Room;
use super::run::RunHost;
use super::{below, far_destination, identity, path_of, pushing, read_plan, source_of};
use crate::args::CpArgs;
use crate::commands::connect::config;
use crate::commands::course::{Run, arrival, finish, reporter};
use crate::commands::flight;
use crate::ui::{Reporter, Signals, Start};
use howdah::lease::{Landing, fetch_local, fetch_range, interrupted};
use howdah::{Cancel, CopyConfig, Error, ErrorKind, Location, Progress, Summary};
use howdah_lease::{Lease, Plan, PlanError, Planned, Share, Sheet, TreePlan, TreeRecord};
use std::path::{Path, PathBuf};
use std::time::Instant;

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
            ..
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
    if let Some(destination) = far_destination(&planned) {
        return pushing::lease(args, &planned, (&source, &destination), reporter);
    }
    let room = Room::open(&planned)?;
    let work = Work::of(&planned, id, source.clone(), &room)?;
    if let Some((epoch, bytes)) = work.moved(id, &room)? {
        return Ok(was_moved(id, (epoch, bytes), reporter));
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
    start.set_pace(config.policy, args.connect.pace.limit.as_ref());
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
            host.run(&sheet, epoch, show)
        }
    });
    // The copy in it says of itself that it goes on, which only a run of the same lease does.
    let done = done.map_err(|error| match error.downcast_ref::<Error>() {
        Some(stopped) if stopped.kind() == ErrorKind::Cancelled => interrupted().into(),
        _ => error,
    });
    flight::end(&args.flight, config, done, reporter)
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
}

impl Host<'_> {
    fn run(self, epoch: u64, show: &mut dyn FnMut(&Progress)) -> Result<Summary, Error> {
        let begun = Instant::now();
        let (room, cancel) = (self.room, self.cancel);
        let mut landing = Landing::new(
            self.plan.clone(),
            self.lease,
            epoch,
            self.part.clone(),
            self.of_tree,
        );
        if cancel.is_cancelled() {
            return Err(interrupted());
        }
        let done = self.fetch(&mut landing, show).and_then(|summary| {
            landing.land(room, summary.seconds, &|| cancel.is_cancelled())?;
            Ok(summary)
        });
        let mut summary = match done {
            Ok(summary) => summary,
            Err(error) => {
                landing.give_up(room, &error);
                landing.lacks(room, &error)?;
                return Err(error);
            }
        };
        let seconds = begun.elapsed().as_secs_f64();
        let new = summary.bytes - summary.resumed_bytes;
        "blake3".clone_into(&mut summary.verified);
        summary.seconds = seconds;
        summary.goodput_bps = new as f64 * 8.0 / seconds.max(1e-9);
        Ok(summary)
    }

    fn fetch(
        &self,
        landing: &mut Landing,
        show: &mut dyn FnMut(&Progress),
    ) -> Result<Summary, Error> {
        let room = self.room;
        if let Location::File(path) = self.source {
            let of = (&identity(&self.plan.version()), self.lease.range);
            let to = (landing.begin(room)?, &*landing.path(room));
            return fetch_local(path, of, to, self.cancel, show);
        }
        let target = landing.begin_range(room)?;
        fetch_range(self.source, &target, self.config, self.cancel, show)
    }
}
