//! `howdah finish`.

use super::beneath::Dir;
use super::room::{MARK, Room};
use super::{failed, numbers, read_plan, tree_finish};
use crate::args::FinishArgs;
use crate::ui::{self, Signals};
use howdah::{Cancel, Error, ErrorKind};
use howdah_lease::{Finished, NotFinished, Plan, Planned, Record};
use serde_json::json;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

pub(in crate::commands) fn run(args: &FinishArgs) -> anyhow::Result<()> {
    // One signal ends it before there is a name; afterwards it is brought to its end.
    let signals = Signals::install()?;
    let cancel = signals.cancel();
    let planned = read_plan(&args.plan)?;
    let room = Room::open_to_finish(&planned)?;
    let plan = match planned {
        Planned::File(plan) => plan,
        Planned::Tree(plan) => return tree_finish::run(args, &plan, &room, cancel),
    };
    let about_trees = [
        (args.partial, "--partial"),
        (args.manifest.is_some(), "--manifest"),
    ];
    if let Some((_, flag)) = about_trees.iter().find(|(is_set, _)| *is_set) {
        let text = format!(
            "{flag} is about trees, and {} is of one file",
            args.plan.display()
        );
        return Err(Error::new(ErrorKind::Usage, text).into());
    }
    let records = room.all_records(&plan)?;
    if args.check {
        return check(args, &plan, &records, room.has_plan());
    }
    let blake3 = match finished_before(&plan, &room)? {
        Some(blake3) => blake3,
        None => finish(&plan, &room, records, cancel)?,
    };
    if !args.keep {
        room.remove();
    }
    if args.json {
        let line = json!({
            "schema": 1,
            "plan": plan.id(),
            "destination": ui::printable(plan.destination()),
            "bytes": plan.version().size,
            "leases": plan.leases(),
            "blake3": blake3,
        });
        ui::print(&line.to_string())?;
    } else {
        ui::print(&format!("{blake3}  {}", ui::printable(plan.destination())))?;
    }
    Ok(())
}

fn check(args: &FinishArgs, plan: &Plan, records: &[Record], has_plan: bool) -> anyhow::Result<()> {
    // Several runs of a lease count as one.
    let moved: BTreeMap<u64, &Record> = records.iter().map(|r| (r.lease, r)).collect();
    // What is finished lacks nothing, whatever is cleared up of its records.
    let missing: Vec<u64> = (0..plan.leases())
        .filter(|lease| has_plan && !moved.contains_key(lease))
        .collect();
    if args.json {
        let run = |record: &&Record| {
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
            "bytes": plan.version().size,
            "leases": plan.leases(),
            "missing": missing,
            "moved": moved.values().map(run).collect::<Vec<_>>(),
        });
        ui::print(&line.to_string())?;
        return Ok(());
    }
    ui::say(&format!(
        "{} of {} leases are moved",
        plan.leases() - missing.len() as u64,
        plan.leases()
    ));
    let missing = numbers(missing);
    if !missing.is_empty() {
        ui::print(&missing)?;
    }
    Ok(())
}

/// Checks, joins, syncs, renames.
fn finish(
    plan: &Plan,
    room: &Room,
    records: Vec<Record>,
    cancel: &Cancel,
) -> Result<String, Error> {
    let Finished { blake3, bytes } =
        howdah_lease::finish(plan, records).map_err(|why| not_finished(&why))?;
    let blake3 = blake3::Hash::from(blake3).to_hex().to_string();
    let part = room.open_part(room.work_in())?;
    let path = room.work();
    let meta = part.metadata().map_err(|e| failed("look at", &path, &e))?;
    if meta.len() != bytes {
        let (path, is) = (path.display(), meta.len());
        let text = format!(
            "{path} has {is} bytes, and the plan {bytes}: somebody else wrote to it; plan anew"
        );
        return Err(Error::new(ErrorKind::Integrity, text));
    }
    go_on(cancel)?;
    room.write(MARK, format!("{blake3} {}\n", meta.ino()).as_bytes())?;
    let destination = Path::new(plan.destination());
    let again = |dir: &Dir| {
        let fd = dir.again();
        fd.map_err(|e| failed("share", dir.path(), &e))
    };
    let from = (again(room.at())?, room.work_in().as_os_str().to_owned());
    let to = (again(room.above())?, room.target().as_os_str(), destination);
    howdah::publish(part, from, to, bytes, plan.mode())?;
    Ok(blake3)
}

/// The hash, if an earlier run has given the file its name and ended then.
fn finished_before(plan: &Plan, room: &Room) -> Result<Option<String>, Error> {
    let Some(mark) = room.read(MARK)? else {
        return Ok(None);
    };
    if room.is_there() {
        return Ok(None);
    }
    let mut words = mark.split_whitespace();
    let (blake3, number) = (words.next(), words.next().and_then(|n| n.parse().ok()));
    let seen = room.above().look(room.target());
    let is_it =
        seen.is_ok_and(|seen| seen.size == plan.version().size && Some(seen.inode) == number);
    match blake3 {
        Some(blake3) if is_it => Ok(Some(blake3.to_owned())),
        _ => {
            let path = ui::printable(plan.destination());
            let text = format!("the plan was finished, and {path} is another file by now");
            Err(Error::new(ErrorKind::Io, text))
        }
    }
}

/// Unless somebody has interrupted it.
pub(super) fn go_on(cancel: &Cancel) -> Result<(), Error> {
    if !cancel.is_cancelled() {
        return Ok(());
    }
    let text = "interrupted; nothing has its name yet: finish again";
    Err(Error::new(ErrorKind::Cancelled, text))
}

pub(super) fn not_finished(why: &NotFinished) -> Error {
    let kind = match why {
        NotFinished::Missing { .. } => ErrorKind::Partial,
        NotFinished::OtherPlan { .. } | NotFinished::Misfit { .. } => ErrorKind::Usage,
        NotFinished::Contradiction { .. } => ErrorKind::Integrity,
    };
    Error::new(kind, why.to_string())
}
