//! `howdah lab ledger`.

use crate::args::LabLedgerArgs;
use crate::{own_file, ui};
use anyhow::Context as _;
use howdah::{Error, ErrorKind};
use howdah_report::ledger::{self, Page};
use howdah_report::result::CellResult;
use std::path::Path;

/// Columns of the table.
const WIDTH: usize = 100;

pub(super) fn run(args: &LabLedgerArgs) -> anyhow::Result<()> {
    let mut campaigns = super::unmixed(&args.dirs)?;
    for (dir, campaign) in args.dirs.iter().zip(&mut campaigns) {
        super::read_curves(dir, campaign)?;
    }
    let cells: Vec<CellResult> = (campaigns.iter())
        .flat_map(|campaign| campaign.cells.iter().cloned())
        .collect();
    let entries = ledger::entries(&cells);
    if let Some(out) = &args.out {
        if out.extension().is_none_or(|extension| extension != "md") {
            let message = format!(
                "--out {}: a page ends in .md, its JSON stands beside it",
                out.display()
            );
            return Err(Error::new(ErrorKind::Usage, message).into());
        }
        let json = out.with_extension("json");
        own_file::check("--out", out, |head| head.starts_with(b"# The ledger\n"))?;
        own_file::check("--out, and beside it", &json, |head| {
            head.starts_with(b"{\n  \"build\": \"howdah")
        })?;
        let build = format!("howdah {}", env!("CARGO_PKG_VERSION"));
        let mut page = Page::new(build, &campaigns, entries);
        if args.keep {
            page = page.keeping(kept(&json)?);
        }
        let text = serde_json::to_string_pretty(&page)? + "\n";
        for (path, text) in [(out, page.markdown()), (&json, text)] {
            own_file::replace(path, &text)?;
            ui::say(&format!("written: {}", path.display()));
        }
        return Ok(());
    }
    if args.json {
        ui::print(&serde_json::to_string(&entries)?)?;
    } else {
        ui::print(ledger::table(&entries, WIDTH).trim_end())?;
    }
    Ok(())
}

/// The page that is there.
fn kept(path: &Path) -> anyhow::Result<Page> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("--keep: cannot read {}", path.display()))?;
    serde_json::from_str(&text).map_err(|e| {
        let message = format!("--keep: {} is no ledger: {e}", path.display());
        Error::new(ErrorKind::Usage, message).into()
    })
}
