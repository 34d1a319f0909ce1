//! `howdah lab ledger`.

use crate::args::LabLedgerArgs;
use crate::ui;
use howdah_lab::ledger;

/// Columns of the table.
const WIDTH: usize = 100;

pub(super) fn run(args: &LabLedgerArgs) -> anyhow::Result<()> {
    let mut cells = Vec::new();
    for dir in &args.dirs {
        cells.extend(super::summary(dir)?.cells);
    }
    let entries = ledger::entries(&cells);
    if args.json {
        ui::print(&serde_json::to_string(&entries)?)?;
    } else {
        ui::print(ledger::table(&entries, WIDTH).trim_end())?;
    }
    Ok(())
}
