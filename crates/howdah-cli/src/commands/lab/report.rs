//! `howdah lab report`.

use crate::args::LabReportArgs;
use crate::{own_file, ui};
use howdah::{Error, ErrorKind};
use howdah_lab::catalog;
use howdah_report::comparison::{self, ComparisonError};
use howdah_report::report::{self, Options};
use howdah_report::result::Summary;
use howdah_report::store::Store;
use howdah_report::{company, csv, fidelity, starts};
use serde_json::json;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

pub(super) fn run(args: &LabReportArgs) -> anyhow::Result<()> {
    if args.comparison {
        let read = |dir: &PathBuf| Ok((dir.display().to_string(), super::summary(dir)?));
        let campaigns = args
            .dirs
            .iter()
            .map(read)
            .collect::<anyhow::Result<Vec<_>>>()?;
        match &args.out {
            Some(path) => update(path, &campaigns)?,
            None => ui::print(comparison::markdown(&campaigns).trim_end())?,
        }
        return Ok(());
    }
    if args.company {
        let campaigns = super::unmixed(&args.dirs)?;
        check_subject(&args.subject, &campaigns)?;
        ui::print(company::markdown(&campaigns, &args.subject).trim_end())?;
        return Ok(());
    }
    if args.fidelity || args.starts {
        let campaigns = super::unmixed(&args.dirs)?;
        let runs = super::each(&args.dirs, Store::every_run)?;
        let text = if args.fidelity {
            fidelity::markdown(&campaigns, &runs)
        } else {
            starts::markdown(&runs)
        };
        ui::print(text.trim_end())?;
        return Ok(());
    }
    let Some((dir, beside)) = args.dirs.split_first() else {
        let message = "which campaign? Give its directory";
        return Err(Error::new(ErrorKind::Usage, message).into());
    };
    // Says what is wrong if a directory is no campaign.
    let campaigns = super::each(&args.dirs, Store::summary)?;
    if let Some(out) = &args.csv {
        if out.is_file() {
            let message = format!("--csv {}: a file; name a directory", out.display());
            return Err(Error::new(ErrorKind::Usage, message).into());
        }
        for path in csv::paths(out) {
            own_file::check_there("--csv", &path, csv::is_begun_by)?;
        }
        let paths = csv::write(&args.dirs, out)?;
        if args.json {
            return Ok(ui::print(&json!({ "csv": paths }).to_string())?);
        }
        let paths = paths.map(|path| path.display().to_string());
        return Ok(ui::print(&paths.join("\n"))?);
    }
    check_subject(&args.subject, &campaigns)?;
    let options = Options {
        out: args.out.clone(),
        beside: beside.to_vec(),
        subject: Some(args.subject.clone()),
        ..Options::default()
    };
    if let Some(out) = &args.figures {
        return super::figures::write(dir, out, &options, args.json);
    }
    if let Some(out) = &args.out {
        own_file::check("--out", out, own_file::is_page)?;
    }
    let path = report::write(dir, &options)?;
    if args.json {
        ui::print(&json!({ "report": path }).to_string())?;
    } else {
        ui::print(&path.display().to_string())?;
    }
    Ok(())
}

/// Nobody is shown under the headings of RFC 9743 by a name that nobody has.
fn check_subject(subject: &str, campaigns: &[Summary]) -> Result<(), Error> {
    let cells = || campaigns.iter().flat_map(|campaign| &campaign.cells);
    let flows = || cells().flat_map(|cell| &cell.flows);
    let known = catalog::find(subject).is_some()
        || flows().any(|flow| flow.protocol == subject)
        || cells().any(|cell| cell.at.values().any(|value| value == subject));
    if known {
        return Ok(());
    }
    let names: BTreeSet<&str> = flows().map(|flow| flow.protocol.as_str()).collect();
    let names: Vec<&str> = names.into_iter().collect();
    let message = format!(
        "--subject: nobody knows '{subject}'; these campaigns have: {}",
        names.join(", ")
    );
    Err(Error::new(ErrorKind::Usage, message))
}

/// A file that is another document is bad usage.
fn update(path: &Path, campaigns: &[(String, Summary)]) -> anyhow::Result<()> {
    comparison::update(path, campaigns).map_err(|error| match error {
        ComparisonError::Other(_) => Error::new(ErrorKind::Usage, error.to_string()).into(),
        ComparisonError::File(error) => anyhow::Error::from(error),
        other => anyhow::Error::from(other),
    })
}
