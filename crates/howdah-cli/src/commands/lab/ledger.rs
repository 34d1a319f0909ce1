//! `howdah lab ledger`.

use crate::args::LabLedgerArgs;
use crate::ui;
use howdah_report::ledger;
use howdah_report::store::Store;

/// Columns of the table.
const WIDTH: usize = 100;

pub(super) fn run(args: &LabLedgerArgs) -> anyhow::Result<()> {
    let mut cells = Vec::new();
    for (dir, campaign) in args.dirs.iter().zip(super::unmixed(&args.dirs)?) {
        let mut own = campaign.cells;
        // Many statements are about the shape of a curve, and curves are not in the summary.
        let store = Store::open(dir)?;
        for cell in own.iter_mut().filter(|cell| cell.error.is_none()) {
            store.read_intervals(cell)?;
        }
        cells.extend(own);
    }
    let entries = ledger::entries(&cells);
    if args.json {
        ui::print(&serde_json::to_string(&entries)?)?;
    } else {
        ui::print(ledger::table(&entries, WIDTH).trim_end())?;
    }
    Ok(())
}
