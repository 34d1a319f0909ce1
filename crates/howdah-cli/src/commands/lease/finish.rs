//! `howdah finish`.

use super::ended::{check, tell};
use super::room::Room;
use super::{far_destination, pushing, read_plan, tree_finish};
use crate::args::FinishArgs;
use crate::ui::Signals;
use howdah::lease::{Ended, not_finished, told};
use howdah::{Error, ErrorKind};
use howdah_lease::{NotFinished, Planned};

pub(in crate::commands) fn run(args: &FinishArgs) -> anyhow::Result<()> {
    // One signal ends it before there is a name; afterwards it is brought to its end.
    let signals = Signals::install()?;
    let cancel = signals.cancel();
    let planned = read_plan(&args.plan)?;
    if let Some(destination) = far_destination(&planned) {
        if matches!(planned, Planned::File(_)) {
            only_of_trees(args)?;
        }
        return pushing::finish(args, &planned, &destination, &signals);
    }
    let room = Room::open_to_finish(&planned)?;
    let plan = match planned {
        Planned::File(plan) => plan,
        Planned::Tree(plan) => return tree_finish::run(args, &plan, &room, cancel),
    };
    only_of_trees(args)?;
    if args.check {
        let records = room.all_records(&plan)?;
        let records: Vec<_> = records.iter().map(told).collect();
        return check(args, &plan, &records, room.has_plan());
    }
    let how = (plan.mode(), false);
    let blake3 = match howdah::lease::finish(&plan, &room, how, &|| cancel.is_cancelled())? {
        Ended::Finished(blake3) => blake3,
        Ended::Missing(count, first) => {
            return Err(not_finished(&NotFinished::Missing { count, first }).into());
        }
    };
    // Who does not get to know it can ask again.
    tell(args, &plan, &blake3)?;
    if !args.keep {
        room.remove();
    }
    Ok(())
}

/// Refuses flags that mean nothing here.
fn only_of_trees(args: &FinishArgs) -> Result<(), Error> {
    let about_trees = [
        (args.partial, "--partial"),
        (args.manifest.is_some(), "--manifest"),
    ];
    if let Some((_, flag)) = about_trees.iter().find(|(is_set, _)| *is_set) {
        let text = format!(
            "{flag} is about trees, and {} is of one file",
            args.plan.display()
        );
        return Err(Error::new(ErrorKind::Usage, text));
    }
    Ok(())
}
