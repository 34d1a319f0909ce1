//! `howdah lab report`.

use crate::args::LabReportArgs;
use crate::ui;
use howdah_lab::report::{self, Options};
use serde_json::json;

pub(super) fn run(args: &LabReportArgs) -> anyhow::Result<()> {
    // Says what is wrong if the directory is no campaign.
    super::summary(&args.dir)?;
    let path = report::write(&args.dir, &Options::default())?;
    if args.json {
        ui::print(&json!({ "report": path }).to_string())?;
    } else {
        ui::print(&path.display().to_string())?;
    }
    Ok(())
}
