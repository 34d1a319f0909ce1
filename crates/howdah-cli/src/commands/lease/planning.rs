//! `howdah plan`.

use super::room::Room;
use super::{failed, numbers, version};
use crate::args::PlanArgs;
use crate::commands::connect::{config, expanded_one};
use crate::ui::{self, Signals};
use howdah::{Error, ErrorKind, Location, Log, SourceFile};
use howdah_core::units;
use howdah_lease::Plan;
use serde_json::json;
use std::fs::OpenOptions;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::Write as _;
use std::path::{Path, PathBuf};

pub(in crate::commands) fn run(args: &PlanArgs) -> anyhow::Result<()> {
    let signals = Signals::install()?;
    let mut config = config(&args.connect, std::iter::once(&args.source), &signals)?;
    config.warn = Log::new(|line| ui::say_marked("warning", line));
    config.heard = Log::new(ui::say);
    let source = expanded_one(&args.source, &mut config, &signals)?;
    let found = howdah::file_version(&source, &config, signals.cancel())?;
    let plan = plan(args, &source, &found)?;
    let room = Room::create(&plan)?;
    if let Err(error) = write(&plan, &args.out) {
        room.remove();
        return Err(error.into());
    }
    let (leases, bytes) = (plan.leases(), plan.version().size);
    if args.json {
        let line = json!({
            "schema": 1,
            "plan": plan.id(),
            "source": ui::printable(plan.source()),
            "destination": ui::printable(plan.destination()),
            "bytes": bytes,
            "lease_bytes": args.lease,
            "leases": leases,
        });
        ui::print(&line.to_string())?;
        return Ok(());
    }
    let plural = if leases == 1 { "" } else { "s" };
    ui::say(&format!(
        "{leases} lease{plural} of {} of {source}; each is moved by 'howdah cp --plan {} --lease ID'",
        units::format_bytes(args.lease),
        args.out.display(),
    ));
    ui::print(&numbers(0..leases))?;
    Ok(())
}

fn plan(args: &PlanArgs, source: &Location, found: &SourceFile) -> anyhow::Result<Plan> {
    let mut destination: PathBuf = std::path::absolute(&args.destination)?;
    if destination.is_dir() {
        let name = super::super::ls::path_of(source);
        let name = Path::new(&name).file_name().unwrap_or_default().to_owned();
        destination.push(name);
    }
    let Some(text) = destination.to_str() else {
        let text = "a plan is text, and the name of the destination is none (UTF-8)";
        return Err(Error::new(ErrorKind::Usage, text).into());
    };
    let usage = |e: howdah_lease::PlanError| Error::new(ErrorKind::Usage, e.to_string());
    let plan = Plan::new(
        id(),
        source.to_string(),
        text.to_owned(),
        version(&found.identity),
        args.lease,
    );
    Ok(plan.map_err(usage)?.with_mode(found.mode))
}

/// 64 bits: as good as never twice in one directory.
fn id() -> String {
    format!("{:016x}", RandomState::new().build_hasher().finish())
}

fn write(plan: &Plan, path: &Path) -> Result<(), Error> {
    let mut options = OpenOptions::new();
    let file = options.write(true).create_new(true).open(path);
    let write = |mut file: std::fs::File| {
        file.write_all(plan.encode().as_bytes())?;
        file.sync_all()
    };
    file.and_then(write)
        .map_err(|e| failed("write the plan", path, &e))
}
