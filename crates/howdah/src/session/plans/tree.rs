//! Plans of trees that come to this machine.
//!
//! What a client says of a tree is believed of his own room alone: names stay in it, sizes and times are compared with what has come, and
//! what the tree gets at the end is what his key could have copied here.

use super::{RECORDS, no_lease, plan_text};
use crate::access::Rights;
use crate::error::from_store;
use crate::lease::beneath::Dir;
use crate::lease::room::{self, Room};
use crate::lease::shape::{self, Shapes};
use crate::lease::{
    Hashes, Known, RunDir, TreeEnded, Witness, check_highest, failed, finish_tree, interrupted,
    lacking_of, land_run, path_of,
};
use crate::{Error, ErrorKind, PathBytes};
use howdah_lease::{
    Member, Moved, Name, Plan, Planned, Share, TreePlan, TreeRecord, Version, is_same_moment,
};
use howdah_session::plans::{LeaseRun, PlanAnswer, PlanPlace, PlanRecord, PlanRequest, SHEET_PART};
use howdah_session::{Metadata, TreeOptions};
use howdah_store::{may_be_reserved, may_be_room};
use howdah_tree::TreeTarget;
use std::io;
use std::path::Path;
use std::time::Duration;

/// What a file takes on the disk is whole blocks.
const BLOCK: u64 = 4096;
/// What a record has of each file, in bytes.
const RECORDED: u64 = 192;
/// Files that are named which could not be had.
const NAMED: usize = 20;
/// Bytes of what is said of one.
const NOTE: usize = 1024;

fn usage(text: impl Into<String>) -> Error {
    Error::new(ErrorKind::Usage, text.into())
}

/// The plan of a tree, as a peer tells it.
fn plan_of(text: &str) -> Result<(Planned, TreePlan), Error> {
    match plan_text(text)? {
        Planned::Tree(plan) => Ok((Planned::Tree(plan.clone()), plan)),
        Planned::File(_) => Err(usage(
            "the plan is of one file, and a tree is asked about: take the plan that 'howdah plan' wrote for it",
        )),
    }
}

/// As a record of a lease that is whole is told.
fn told(record: &TreeRecord) -> PlanRecord {
    PlanRecord {
        lease: record.lease,
        epoch: record.epoch,
        bytes: record.bytes,
        seconds: record.seconds,
    }
}

/// The last record of a lease that has all of it.
pub(super) fn whole(room: &Room, lease: u64) -> Result<Option<PlanRecord>, Error> {
    Ok(room.whole_record(lease)?.as_ref().map(told))
}

impl Rights {
    /// Where the next tree of a client goes in the room of a plan of his: what he may do with a path of that name he may do there.
    pub(crate) fn place_in_plan(
        &self,
        key: &str,
        into: &PlanPlace,
        options: &TreeOptions,
    ) -> Result<TreeTarget, Error> {
        let key = self.key_of(key);
        let is_more = options.delete
            || options.mirror
            || options.dry_run
            || options.keep_dirlinks
            || options.make_path
            || options.backup_dir.is_some()
            || !options.link_dest.is_empty()
            || !options.contents;
        if is_more {
            return Err(usage("a lease is copied, and nothing else"));
        }
        let (planned, plan) = plan_of(&into.plan)?;
        let spot = self.spot(into.path.as_path())?;
        let target = match into.run {
            None => {
                let room = Room::open_draft_at(spot, &planned, key)?;
                target_in(room.at(), room.work_in())
            }
            Some(run) => {
                check_run(&plan, run)?;
                let room = Room::open_at(spot, &planned, key)?;
                if !RunDir::is_there(&room, run) {
                    // It is kept until the lease is in its place.
                    let taken = self.quota.take_directories(into.path.as_path(), 1);
                    taken.map_err(|e| from_store(&e))?;
                }
                let dir = RunDir::begin(&room, run)?;
                target_in(dir.at(), Path::new(""))
            }
        };
        Ok(target?.at_most(self.quota.clone()).setting(self.sets()))
    }
}

fn target_in(dir: &Dir, below: &Path) -> Result<TreeTarget, Error> {
    let again = dir.again();
    let again = again.map_err(|e| failed("share", dir.path(), &e))?;
    TreeTarget::within(again, dir.path(), below).map_err(|e| from_store(&e))
}

fn check_run(plan: &TreePlan, run: LeaseRun) -> Result<(), Error> {
    check_lease(plan, run.lease)?;
    if run.epoch == 0 {
        return Err(usage("epochs are counted from 1"));
    }
    Ok(())
}

pub(super) fn check_lease(plan: &TreePlan, lease: u64) -> Result<(), Error> {
    if lease < plan.leases() {
        return Ok(());
    }
    Err(no_lease(lease, plan.leases()))
}

/// The file that a lease has a range of, as a plan of that alone, and the lease in it; where it goes in the room.
pub(super) fn part_of(
    room: &Room,
    plan: &TreePlan,
    lease: u64,
) -> Result<(Plan, howdah_lease::Lease, std::path::PathBuf), Error> {
    let sheet = room.sheet(plan, lease)?;
    let Share::Part {
        name,
        version,
        first,
        ..
    } = &sheet.share
    else {
        let text =
            format!("lease {lease} is of small files, and a range of a large one comes: plan anew");
        return Err(usage(text));
    };
    let part = plan.part(lease, *version, *first);
    let (file, of) = part.map_err(|e| usage(e.to_string()))?;
    Ok((file, of, room.work_in().join(path_of(name))))
}

/// Answers what is asked about the plan of a tree; `tell` says a part of the answer. `None`: it is done.
pub(super) fn answer<E: From<Error>>(
    (rights, key): (&Rights, Option<&str>),
    request: &PlanRequest,
    is_stopped: &dyn Fn() -> bool,
    tell: &mut dyn FnMut(PlanAnswer) -> Result<(), E>,
) -> Result<Option<PlanAnswer>, E> {
    let open = |path: &PathBytes, text: &str| -> Result<(Room, TreePlan), Error> {
        let (planned, plan) = plan_of(text)?;
        let spot = rights.spot(path.as_path())?;
        Ok((Room::open_at(spot, &planned, key)?, plan))
    };
    let draft = |path: &PathBytes, text: &str| -> Result<(Room, Planned, TreePlan), Error> {
        let (planned, plan) = plan_of(text)?;
        let spot = rights.spot(path.as_path())?;
        let room = Room::open_draft_at(spot, &planned, key)?;
        Ok((room, planned, plan))
    };
    match request {
        PlanRequest::MakeTree { path, plan } => {
            make(rights, key, path, plan)?;
            Ok(None)
        }
        PlanRequest::PutSheet {
            path,
            plan,
            lease,
            at,
            text,
        } => {
            let (room, _, plan) = draft(path, plan)?;
            check_lease(&plan, *lease)?;
            if text.len() > SHEET_PART {
                let text = format!(
                    "the client tells of a lease in parts of more than {SHEET_PART} bytes: install the same version of howdah on both sides"
                );
                return Err(usage(text).into());
            }
            // It takes space as any content does.
            let taken = rights.quota.take_bytes(path.as_path(), text.len() as u64);
            taken.map_err(|e| from_store(&e))?;
            room.put_sheet_part(*lease, *at, text.as_bytes())?;
            Ok(None)
        }
        PlanRequest::Lay { path, plan } => {
            let (room, _, plan) = draft(path, plan)?;
            let sets_modes = rights.sets() >= Metadata::Modes;
            lay(&room, &plan, sets_modes, is_stopped)?;
            Ok(None)
        }
        PlanRequest::Begin { path, plan } => {
            let (room, planned, plan) = draft(path, plan)?;
            begin(&room, &plan, is_stopped)?;
            room.begin(&planned)?;
            room.end_draft();
            Ok(None)
        }
        PlanRequest::Sheet { path, plan, lease } => {
            let (room, plan) = open(path, plan)?;
            check_lease(&plan, *lease)?;
            let text = room.sheet_text(&plan, *lease)?;
            let mut rest = &*text;
            while rest.len() > SHEET_PART {
                let (part, behind) = rest.split_at(rest.floor_char_boundary(SHEET_PART));
                tell(PlanAnswer::SheetPart(part.to_owned()))?;
                rest = behind;
            }
            Ok(Some(PlanAnswer::Sheet(rest.to_owned())))
        }
        PlanRequest::Land {
            path,
            plan,
            run,
            millis,
        } => {
            let (room, plan) = open(path, plan)?;
            check_run(&plan, *run)?;
            let took = Duration::from_millis(*millis);
            let taken = |bytes: u64| {
                let taken = rights.quota.take_bytes(path.as_path(), bytes);
                taken.map_err(|e| from_store(&e))
            };
            let how = (took, is_stopped);
            Ok(Some(land((&room, &plan), *run, &taken, how)?))
        }
        PlanRequest::Lacks {
            path,
            plan,
            run,
            why,
        } => {
            let (room, plan) = open(path, plan)?;
            check_run(&plan, *run)?;
            // As much as the disk gives it.
            let taken = rights.quota.take_bytes(path.as_path(), BLOCK);
            taken.map_err(|e| from_store(&e))?;
            lacks(&room, &plan, *run, why)?;
            Ok(None)
        }
        PlanRequest::FinishTree {
            path,
            plan,
            partial,
            sums,
        } => {
            let (planned, plan) = plan_of(plan)?;
            let spot = rights.spot(path.as_path())?;
            let room = Room::open_at_to_finish(spot, &planned, key)?;
            finish((&room, &plan), (*partial, *sums), is_stopped, tell).map(Some)
        }
        _ => {
            let text = "the client asks of a plan what is not known here: install the same version of howdah on both sides";
            Err(Error::new(ErrorKind::Protocol, text).into())
        }
    }
}

/// What was moved of all leases, or of one.
pub(super) fn look<E: From<Error>>(
    (room, plan): (&Room, &TreePlan),
    lease: Option<u64>,
    is_stopped: &dyn Fn() -> bool,
    tell: &mut dyn FnMut(PlanAnswer) -> Result<(), E>,
) -> Result<Option<PlanAnswer>, E> {
    let mut highest = 0;
    let leases = match lease {
        Some(lease) => {
            if room.is_there() {
                highest = room.highest(lease)?;
            }
            lease..lease.saturating_add(1).min(plan.leases())
        }
        None => 0..plan.leases(),
    };
    let mut records = Vec::new();
    for lease in leases {
        if is_stopped() {
            // Nobody hears it any more.
            return Ok(None);
        }
        records.extend(whole(room, lease)?);
        if records.len() >= RECORDS {
            tell(PlanAnswer::Records(std::mem::take(&mut records)))?;
        }
    }
    Ok(Some(PlanAnswer::Looked {
        records,
        highest,
        has_plan: room.has_plan(),
    }))
}

fn make(rights: &Rights, key: Option<&str>, path: &PathBytes, text: &str) -> Result<(), Error> {
    let (_, plan) = plan_of(text)?;
    if rights.sets() < Metadata::Times {
        let text = "this key may not set times (metadata=\"none\"), by which the files of a plan are known; copy the tree with 'howdah cp -r'";
        return Err(Error::new(ErrorKind::Refused, text));
    }
    let spot = rights.spot(path.as_path())?;
    let stored = |e| from_store(&e);
    let quota = &rights.quota;
    quota
        .take_files(path.as_path(), plan.files())
        .map_err(stored)?;
    // Each lease has one in the room.
    quota
        .take_directories(path.as_path(), plan.leases())
        .map_err(stored)?;
    quota
        .take_bytes(path.as_path(), plan.bytes())
        .map_err(stored)?;
    Room::create_for_tree_at(spot, &plan, key).map(drop)
}

/// A large file, as the first of its sheets has it.
struct Large {
    name: Name,
    version: Version,
    mode: Option<u32>,
}

type OnRun<'f> = dyn FnMut(u64, &[Member]) -> Result<(), Error> + 'f;
type OnLarge<'f> = dyn FnMut(&Large) -> Result<(), Error> + 'f;

/// Goes through all sheets, and finds them to be of that plan. `on_run`: what a lease of small files has.
fn each_sheet(
    (room, plan): (&Room, &TreePlan),
    is_stopped: &dyn Fn() -> bool,
    on_run: &mut OnRun<'_>,
    on_large: &mut OnLarge<'_>,
) -> Result<(), Error> {
    let other = || usage("the sheets are not those of the plan; plan anew");
    let (mut files, mut bytes, mut lease) = (0u64, 0u64, 0);
    while lease < plan.leases() {
        if is_stopped() {
            return Err(interrupted());
        }
        match room.sheet(plan, lease)?.share {
            Share::Run(members) => {
                files += members.len() as u64;
                for member in &members {
                    bytes = bytes.saturating_add(member.size);
                }
                if bytes > plan.bytes() {
                    return Err(other());
                }
                on_run(lease, &members)?;
                lease += 1;
            }
            Share::Part {
                name,
                version,
                first,
                mode,
            } => {
                let (file, _) = plan.part(lease, version, lease).map_err(|_| other())?;
                let end = lease + file.leases();
                files += 1;
                bytes = bytes.saturating_add(version.size);
                if first != lease || end > plan.leases() || bytes > plan.bytes() {
                    return Err(other());
                }
                for further in lease + 1..end {
                    if is_stopped() {
                        return Err(interrupted());
                    }
                    let same = Share::Part {
                        name: name.clone(),
                        version,
                        first,
                        mode,
                    };
                    if room.sheet(plan, further)?.share != same {
                        return Err(other());
                    }
                }
                let large = Large {
                    name,
                    version,
                    mode,
                };
                on_large(&large)?;
                lease = end;
            }
        }
    }
    if (files, bytes) == (plan.files(), plan.bytes()) {
        return Ok(());
    }
    Err(other())
}

/// Directories and links are there: has the owner write to them until the end, reserves space, and makes what will hold the bytes of
/// large files.
fn lay(
    room: &Room,
    plan: &TreePlan,
    sets_modes: bool,
    is_stopped: &dyn Fn() -> bool,
) -> Result<(), Error> {
    // With other sheets it would reserve more than the plan has.
    room.lay_once()?;
    Shapes::of_directories(room, is_stopped)?.end()?;
    let top = room.tree()?;
    let mut reserve = |lease, members: &[Member]| {
        let blocks = members
            .iter()
            .map(|member| member.size.saturating_add(BLOCK - 1) / BLOCK);
        let blocks = blocks.fold(0, u64::saturating_add);
        room.reserve_for(lease, blocks.saturating_mul(BLOCK))
    };
    let mut place = |large: &Large| {
        let name = path_of(&large.name);
        let path = top.path().join(name);
        if name
            .iter()
            .any(|part| may_be_reserved(part) || may_be_room(part))
        {
            let path = path.display();
            let text = format!("{path} has a name that is kept for unfinished copies");
            return Err(Error::new(ErrorKind::Refused, text));
        }
        let mode = large.mode.filter(|_| sets_modes).unwrap_or(0o666) & 0o777;
        let make = || -> io::Result<()> {
            let part = top.create(name, mode)?;
            part.set_len(large.version.size)?;
            room::reserve(&part, large.version.size)?;
            drop(part);
            top.set_mtime(name, large.version.mtime)
        };
        make().map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => changed(name),
            _ => failed("reserve space for", &path, &e),
        })
    };
    each_sheet((room, plan), is_stopped, &mut reserve, &mut place)
}

fn changed(name: &Path) -> Error {
    let name = name.display();
    let text = format!("{name} changed while the plan was made; plan anew");
    Error::new(ErrorKind::SourceChanged, text)
}

/// Everything is there but contents: notes what large files get at the end.
fn begin(room: &Room, plan: &TreePlan, is_stopped: &dyn Fn() -> bool) -> Result<(), Error> {
    let top = room.tree()?;
    let mut shapes = Shapes::further(room);
    let mut note = |large: &Large| {
        let name = path_of(&large.name);
        shape::open_way(&top, name)?;
        let seen = top.look(name);
        let seen = seen.map_err(|e| failed("look at", &top.path().join(name), &e))?;
        let is_it = seen.is_file()
            && seen.size == large.version.size
            && is_same_moment(seen.mtime, large.version.mtime);
        if !is_it {
            return Err(changed(name));
        }
        shapes.file(&top, &large.name)
    };
    each_sheet((room, plan), is_stopped, &mut |_, _| Ok(()), &mut note)?;
    shapes.end()?;
    room::sync_all(room.at())
}

/// What has come of a lease of small files gets its places. Whoever has lost the answer may ask again, however far it was.
fn land(
    (room, plan): (&Room, &TreePlan),
    run: LeaseRun,
    take_bytes: &dyn Fn(u64) -> Result<(), Error>,
    (took, is_stopped): (Duration, &dyn Fn() -> bool),
) -> Result<PlanAnswer, Error> {
    let LeaseRun { lease, epoch, .. } = run;
    check_highest(room, run)?;
    let _alone = room.alone(lease, epoch)?.ok_or_else(|| at_work(run))?;
    // Moved already, perhaps by somebody else: what is there stays.
    if let Some(record) = room.whole_record(lease)? {
        if let Ok(dir) = RunDir::open(room, run) {
            dir.clear(room);
        }
        return Ok(landed(&record, &[]));
    }
    let sheet = room.sheet(plan, lease)?;
    let members = match &sheet.share {
        Share::Run(members) => members.clone(),
        Share::Part { .. } => Vec::new(),
    };
    let dir = match RunDir::open(room, run) {
        Ok(dir) => dir,
        // That was the last thing that it did.
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let record = room.tree_record(lease, epoch)?.ok_or(error)?;
            return Ok(landed(&record, &members));
        }
        Err(error) => return Err(error),
    };
    take_bytes(BLOCK + RECORDED * members.len() as u64)?;
    dir.open_ways(&members)?;
    let how = (sheet, run, dir.at());
    let record = land_run((room, plan), how, (&Hashes::new(), took), is_stopped)?;
    dir.clear(room);
    Ok(landed(&record, &members))
}

/// As somebody is told whose lease has these files, and that record.
fn landed(record: &TreeRecord, members: &[Member]) -> PlanAnswer {
    let lacking = lacking_of(members, record);
    let mut notes = Vec::new();
    let mut count = 0;
    for (name, why) in lacking {
        count += 1;
        if notes.len() < NAMED {
            notes.push(note(name, why));
        }
    }
    PlanAnswer::Landed {
        bytes: record.bytes,
        lacking: count,
        notes,
    }
}

/// Somebody else has what came of that lease put into its place, or the same client had and has lost the connection.
fn at_work(LeaseRun { lease, epoch, .. }: LeaseRun) -> Error {
    let text = format!(
        "lease {lease} is being put into its place in epoch {epoch} now: run it again in a while"
    );
    Error::new(ErrorKind::Network, text).busy()
}

fn note(name: &Path, why: &str) -> String {
    let mut text = format!("{}: {why}", name.display());
    text.truncate(text.floor_char_boundary(NOTE));
    text
}

/// A range of a large file cannot be had, as who has the source says.
fn lacks(room: &Room, plan: &TreePlan, run: LeaseRun, why: &str) -> Result<(), Error> {
    let LeaseRun { lease, epoch, .. } = run;
    part_of(room, plan, lease)?;
    check_highest(room, run)?;
    room.claim(lease, epoch)?;
    if room.whole_record(lease)?.is_some() {
        return Ok(());
    }
    let why = why[..why.floor_char_boundary(NOTE)].to_owned();
    let record = TreeRecord {
        plan: plan.id().to_owned(),
        lease,
        epoch,
        bytes: 0,
        seconds: 0.0,
        moved: vec![Moved::Lacking { why }],
    };
    room.publish_of_tree(record, &|_| 0).map(drop)
}

/// Tells whoever asks what the tree has.
struct Teller<'t, E> {
    tell: &'t mut dyn FnMut(PlanAnswer) -> Result<(), E>,
    wants_sums: bool,
    sums: Vec<u8>,
    notes: Vec<String>,
    failed: Option<E>,
}

impl<E> Witness for Teller<'_, E> {
    fn sum(&mut self, line: &[u8]) -> Result<(), Error> {
        if !self.wants_sums {
            return Ok(());
        }
        if self.sums.len() + line.len() > SHEET_PART && !self.sums.is_empty() {
            let sums = std::mem::take(&mut self.sums);
            if let Err(error) = (self.tell)(PlanAnswer::Sums(sums)) {
                self.failed = Some(error);
                return Err(interrupted());
            }
        }
        self.sums.extend_from_slice(line);
        Ok(())
    }

    fn lacks(&mut self, name: &Path, why: &str) {
        if self.notes.len() < NAMED {
            self.notes.push(note(name, why));
        }
    }

    fn ready(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

fn finish<E: From<Error>>(
    of: (&Room, &TreePlan),
    (is_partial, wants_sums): (bool, bool),
    is_stopped: &dyn Fn() -> bool,
    tell: &mut dyn FnMut(PlanAnswer) -> Result<(), E>,
) -> Result<PlanAnswer, E> {
    let (room, plan) = of;
    let mut teller = Teller {
        tell,
        wants_sums,
        sums: Vec::new(),
        notes: Vec::new(),
        failed: None,
    };
    let ended = finish_tree((plan, room), is_partial, &mut teller, is_stopped);
    let Teller {
        sums,
        notes,
        failed,
        ..
    } = teller;
    if let Some(error) = failed {
        return Err(error);
    }
    Ok(match ended? {
        TreeEnded::Finished(Known {
            blake3,
            files,
            bytes,
            lacking,
            ..
        }) => PlanAnswer::FinishedTree {
            blake3,
            files,
            bytes,
            lacking,
            notes,
            sums,
        },
        TreeEnded::Missing(count, first) => PlanAnswer::Missing(count, first),
        TreeEnded::Lacking(count) => PlanAnswer::Lacking { count, notes },
    })
}

#[cfg(test)]
#[path = "tree_tests.rs"]
mod tests;
