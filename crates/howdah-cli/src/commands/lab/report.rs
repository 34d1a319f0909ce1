//! `howdah lab report`.

use crate::args::LabReportArgs;
use crate::ui;
use howdah::{Error, ErrorKind};
use howdah_lab::comparison;
use howdah_lab::report::{self, Options};
use serde_json::json;

pub(super) fn run(args: &LabReportArgs) -> anyhow::Result<()> {
    if args.comparison {
        let read = |dir: &std::path::PathBuf| Ok((dir.display().to_string(), super::summary(dir)?));
        let campaigns = args
            .dirs
            .iter()
            .map(read)
            .collect::<anyhow::Result<Vec<_>>>()?;
        ui::print(comparison::markdown(&campaigns).trim_end())?;
        return Ok(());
    }
    let [dir] = args.dirs.as_slice() else {
        let message = "one directory at a time; several go with --comparison";
        return Err(Error::new(ErrorKind::Usage, message).into());
    };
    // Says what is wrong if the directory is no campaign.
    super::summary(dir)?;
    let path = report::write(dir, &Options::default())?;
    if args.json {
        ui::print(&json!({ "report": path }).to_string())?;
    } else {
        ui::print(&path.display().to_string())?;
    }
    Ok(())
}
