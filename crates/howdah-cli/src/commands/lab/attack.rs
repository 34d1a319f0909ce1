//! `howdah lab attack`.

use super::progress::Progress;
use super::scenario_file;
use crate::args::LabAttackArgs;
use crate::ui::{self, Signals};
use howdah::{Error, ErrorKind};
use howdah_lab::attack::{AttackError, AttackOptions, Found, attack};
use serde_json::json;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

pub(super) fn run(args: &LabAttackArgs) -> anyhow::Result<()> {
    let out = args.out.clone().unwrap_or_else(|| {
        PathBuf::from(format!(
            "attack-{}-{}.toml",
            args.protocol,
            args.goal.name()
        ))
    });
    scenario_file::check(&out)?;
    let jobs = args
        .jobs
        .or_else(|| std::thread::available_parallelism().ok());
    let options = AttackOptions {
        protocol: args.protocol.clone(),
        goal: args.goal,
        runs: args.runs.get(),
        time: args.time.map(Into::into),
        seed: args.seed,
        jobs: jobs.map_or(1, usize::from),
        most_rate_bps: args.max_rate.bits_per_sec(),
    };
    let signals = Signals::install()?;
    if std::env::var_os("RUST_BACKTRACE").is_none() {
        // A scenario that the simulator fails on is named at the end.
        std::panic::set_hook(Box::new(|_| {}));
    }
    let mut bar = Progress::new(!args.json);
    let stop = signals.cancel().flag();
    let found = attack(&options, &stop, &mut |tried, worst| {
        bar.at(tried as f64 / options.runs as f64, || {
            format!("{tried} networks tried; at worst {}", args.goal.told(worst))
        });
    });
    bar.clear();
    let _ = std::panic::take_hook();
    let found = found.map_err(|error| match error {
        AttackError::Protocol(_) | AttackError::Rate(_) => {
            Error::new(ErrorKind::Usage, error.to_string()).into()
        }
        AttackError::Stopped => Error::new(ErrorKind::Cancelled, error.to_string()).into(),
        AttackError::Failed { .. } => anyhow::Error::from(error),
    })?;
    scenario_file::write(&out, &text(args, &found))?;
    if args.json {
        ui::print(&as_json(&out, &found).to_string())?;
    } else {
        ui::print(&words(&out, args, &found))?;
    }
    Ok(())
}

/// The scenario, with what it shows at its head.
fn text(args: &LabAttackArgs, found: &Found) -> String {
    format!(
        "# {}: {}.\n# Found by: howdah lab attack {} --goal {} --runs {} --seed {} --max-rate {}bit\n\n{}",
        args.protocol,
        args.goal.told(found.score),
        args.protocol,
        args.goal.name(),
        args.runs,
        args.seed,
        args.max_rate.bits_per_sec(),
        found.scenario,
    )
}

fn words(out: &Path, args: &LabAttackArgs, found: &Found) -> String {
    let mut text = format!("{}: {}\n", args.protocol, args.goal.told(found.score));
    for (name, level) in &found.conditions {
        let _ = writeln!(text, "  {name:<10} {level}");
    }
    let range = |pick: fn(f64, f64) -> f64| found.scores.iter().copied().reduce(pick);
    let (least, most) = (
        range(f64::min).unwrap_or(0.0),
        range(f64::max).unwrap_or(0.0),
    );
    let _ = writeln!(
        text,
        "with {} seeds from {:.1} to {:.1} %; on the plainest network {:.1} %; {} networks simulated",
        found.scores.len(),
        least * 100.0,
        most * 100.0,
        found.plain_score * 100.0,
        found.simulated,
    );
    let _ = write!(text, "again: howdah lab run {}", out.display());
    text
}

fn as_json(out: &Path, found: &Found) -> serde_json::Value {
    let conditions: serde_json::Map<String, serde_json::Value> = (found.conditions.iter())
        .map(|(name, level)| ((*name).to_owned(), json!(level)))
        .collect();
    json!({
        "scenario": out,
        "conditions": conditions,
        "score": found.score,
        "scores": found.scores,
        "worst_score": found.worst_score,
        "plain_score": found.plain_score,
        "simulated": found.simulated,
    })
}
