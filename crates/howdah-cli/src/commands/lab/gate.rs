//! `howdah lab gate`.

use crate::args::LabGateArgs;
use crate::{own_file, ui};
use anyhow::{Context as _, bail};
use howdah::{Error, ErrorKind};
use howdah_report::result::Summary;
use howdah_report::{gate, ledger};
use std::path::{Path, PathBuf};

pub(super) fn run(args: &LabGateArgs) -> anyhow::Result<()> {
    let mut summary = super::summary(&args.dir)?;
    super::read_curves(&args.dir, &mut summary)?;
    let ledger = ledger::entries(&summary.cells);
    let against = match &args.against {
        Some(file) => file.clone(),
        None => usual_place(&summary).context("the campaign names no scenario")?,
    };
    if args.update {
        own_file::check("--update", &against, gate::is_begun_by)?;
        own_file::replace(&against, &gate::snapshot(&summary, &ledger))?;
        ui::say(&format!(
            "{} cells written to {}",
            summary.cells.len(),
            against.display()
        ));
        return Ok(());
    }
    let snapshot = std::fs::read_to_string(&against).map_err(|error| {
        let message = format!("{}: {error}; --update writes it", against.display());
        Error::new(ErrorKind::Usage, message)
    })?;
    let differences = gate::compare(&summary, &ledger, &snapshot);
    if args.json {
        ui::print(&serde_json::to_string(&differences)?)?;
    } else {
        ui::print(&differences.to_string())?;
    }
    if !differences.is_none() {
        bail!(
            "the campaign differs from {}; if that is meant, --update",
            against.display()
        );
    }
    Ok(())
}

/// Beside the scenario that was named first.
fn usual_place(summary: &Summary) -> Option<PathBuf> {
    let first = Path::new(&summary.campaign.experiments.first()?.file);
    let name = if summary.campaign.quick {
        "quick.snap"
    } else {
        "full.snap"
    };
    Some(first.with_file_name(name))
}
