//! `howdah lab run`.

use super::progress::Progress;
use crate::args::{LabRunArgs, Testbed};
use crate::ui::{self, Signals};
use anyhow::bail;
use howdah::{Error, ErrorKind};
#[cfg(target_os = "linux")]
use howdah_lab::netns::Kit;
#[cfg(target_os = "linux")]
use howdah_lab::run::RealOptions;
use howdah_lab::run::{Only, Outcome, RunError, RunOptions, RunProgress, STILL_S};
use howdah_lab::{run as runner, scenario};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

pub(super) fn run(args: &LabRunArgs) -> anyhow::Result<()> {
    let mut plan = scenario::load_wanted(
        &args.paths,
        scenario::Wanted {
            quick: args.quick,
            sweep: args.sweep,
        },
    )
    .map_err(|e| super::bad_scenario(&e))?;
    if let Some(seeds) = args.seeds {
        plan.repeat(seeds.get())
            .map_err(|error| Error::new(ErrorKind::Usage, format!("--seeds: {error}")))?;
    }
    Only::check_all(&args.only, &plan)
        .map_err(|error| Error::new(ErrorKind::Usage, format!("--only: {error}")))?;
    if let Some(file) = args.out.as_ref().filter(|out| out.is_file()) {
        let message = format!("--out {}: a file; name a directory", file.display());
        return Err(Error::new(ErrorKind::Usage, message).into());
    }
    if args.pcap && args.on == Testbed::Netns {
        let message = "--pcap: packets are written by the simulator only; over the testbed run tcpdump in a namespace";
        return Err(Error::new(ErrorKind::Usage, message).into());
    }
    let jobs = args
        .jobs
        .or_else(|| std::thread::available_parallelism().ok());
    let options = RunOptions {
        out: args.out.clone().unwrap_or_else(|| usual_place(args)),
        jobs: jobs.map_or(1, usize::from),
        shard: args.shard,
        only: args.only.clone(),
        again: args.again,
        quick: args.quick,
        pcap: args.pcap,
        command: command_line(args),
    };
    let signals = Signals::install()?;
    if std::env::var_os("RUST_BACKTRACE").is_none() {
        // A cell whose checks fail is named at the end; the others go on.
        std::panic::set_hook(Box::new(|_| {}));
    }
    let mut bar = Progress::new(!args.json);
    let stop = signals.cancel().flag();
    let outcome = match args.on {
        Testbed::Sim => runner::run(&plan, &options, &stop, |progress| bar.show(progress)),
        Testbed::Netns => on_netns(args, &plan, &options, &stop, |progress| bar.show(progress)),
    };
    bar.clear();
    let _ = std::panic::take_hook();
    let outcome = outcome.map_err(|error| match error {
        // What is missing on this machine.
        RunError::Taken { .. }
        | RunError::OtherTestbed { .. }
        | RunError::NotOurs(_)
        | RunError::ManyCaptures { .. } => Error::new(ErrorKind::Usage, error.to_string()).into(),
        RunError::Testbed(_) => Error::new(ErrorKind::Refused, error.to_string()).into(),
        RunError::Store { .. } => anyhow::Error::from(error),
    })?;
    if args.json {
        ui::print(&as_json(&options.out, &outcome).to_string())?;
    } else {
        say(&options.out, &outcome);
    }
    if outcome.stopped {
        let message = "stopped; the same command goes on from there";
        return Err(Error::new(ErrorKind::Cancelled, message).into());
    }
    if !outcome.failed.is_empty() {
        bail!("{} cells gave no result", outcome.failed.len());
    }
    Ok(())
}

/// Runs the plan with real programs: this one, and those of `make peers`.
#[cfg(target_os = "linux")]
fn on_netns(
    args: &LabRunArgs,
    plan: &scenario::Plan,
    options: &RunOptions,
    stop: &AtomicBool,
    watch: impl FnMut(&RunProgress),
) -> Result<Outcome, RunError> {
    let testbed = |error: &dyn std::fmt::Display| RunError::Testbed(error.to_string());
    let program = std::env::current_exe().map_err(|error| testbed(&error))?;
    let peers = args.peers.clone().or_else(|| {
        // target/release/howdah and target/peers.
        Some(program.parent()?.parent()?.join("peers"))
    });
    let kit = Kit::new(program, peers.unwrap_or_default()).map_err(|error| testbed(&error))?;
    let real = RealOptions {
        kit: kit.with_patience(args.patience.into()),
        most_runs: args.runs.get(),
        agree: args.agree,
    };
    runner::run_on_testbed(plan, options, real, stop, watch)
}

#[cfg(not(target_os = "linux"))]
fn on_netns(
    _: &LabRunArgs,
    _: &scenario::Plan,
    _: &RunOptions,
    _: &AtomicBool,
    _: impl FnMut(&RunProgress),
) -> Result<Outcome, RunError> {
    let why = "the testbed needs the network namespaces of Linux";
    Err(RunError::Testbed(why.to_owned()))
}

/// Where results go if nobody says it.
pub(in crate::commands) const USUAL_OUT: &str = "results";

fn usual_place(args: &LabRunArgs) -> PathBuf {
    let name = args.paths.first().and_then(|path| path.file_stem());
    let mut name = name.map_or_else(|| "lab".into(), std::ffi::OsStr::to_os_string);
    if args.quick {
        name.push("-quick");
    }
    if args.sweep {
        name.push("-sweep");
    }
    if args.on == Testbed::Netns {
        name.push("-netns");
    }
    Path::new(USUAL_OUT).join(name)
}

/// What repeats the campaign: without what only shares the work.
fn command_line(args: &LabRunArgs) -> String {
    let paths = args.paths.iter().map(|path| path.display().to_string());
    let mut words = vec!["howdah lab run".to_owned()];
    words.extend(paths);
    if args.quick {
        words.push("--quick".to_owned());
    }
    if args.sweep {
        words.push("--sweep".to_owned());
    }
    if let Some(seeds) = args.seeds {
        words.push(format!("--seeds {seeds}"));
    }
    if args.on == Testbed::Netns {
        words.push(format!("--on netns --runs {}", args.runs));
    }
    words.join(" ")
}

fn say(dir: &Path, outcome: &Outcome) {
    for (commit, cells) in &outcome.kept_from {
        ui::say(&format!(
            "{cells} cells were run by commit {commit}; --again runs them with this program"
        ));
    }
    for note in &outcome.notes {
        ui::say(note);
    }
    for (cell, why) in &outcome.failed {
        ui::say(&format!("{cell}: {why}"));
    }
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, why) in &outcome.skipped {
        *reasons.entry(why).or_default() += 1;
    }
    for (why, cells) in reasons {
        ui::say(&format!("{cells} cells skipped: {why}"));
    }
    let longest = outcome.stalls.iter().max_by(|a, b| a.1.total_cmp(&b.1));
    if let Some((flow, seconds)) = longest {
        ui::say(&format!(
            "{} flows stood still for {STILL_S} s or longer, so that their means say little; the longest for {seconds:.0} s: {flow}",
            outcome.stalls.len()
        ));
    }
    if let Some((flow, why)) = outcome.gave_up.first() {
        ui::say(&format!(
            "{} flows gave up or had nothing at all; the first: {flow}: {why}",
            outcome.gave_up.len()
        ));
    }
    ui::say(&format!(
        "{} cells run in {:.0} s, {} were there already: {}",
        outcome.ran,
        outcome.wall_s,
        outcome.kept,
        dir.display()
    ));
}

fn as_json(dir: &Path, outcome: &Outcome) -> serde_json::Value {
    let failed: Vec<_> = outcome
        .failed
        .iter()
        .map(|(cell, why)| json!({ "cell": cell, "error": why }))
        .collect();
    let skipped: Vec<_> = (outcome.skipped.iter())
        .map(|(cell, why)| json!({ "cell": cell, "reason": why }))
        .collect();
    let stalls: Vec<_> = (outcome.stalls.iter())
        .map(|(flow, seconds)| json!({ "flow": flow, "longest_s": seconds }))
        .collect();
    let gave_up: Vec<_> = (outcome.gave_up.iter())
        .map(|(flow, why)| json!({ "flow": flow, "reason": why }))
        .collect();
    json!({
        "dir": dir,
        "ran": outcome.ran,
        "kept": outcome.kept,
        "kept_from_commits": outcome.kept_from,
        "failed": failed,
        "skipped": skipped,
        "stalls": stalls,
        "gave_up": gave_up,
        "notes": outcome.notes,
        "stopped": outcome.stopped,
        "wall_s": outcome.wall_s,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command, LabCommand};
    use clap::Parser as _;

    fn parse(words: &str) -> LabRunArgs {
        match Cli::try_parse_from(words.split_whitespace())
            .unwrap()
            .command
        {
            Command::Lab(LabCommand::Run(args)) => args,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn results_go_beside_each_other_and_say_how_to_get_them_again() {
        let args = parse("howdah lab run scenarios/jgn06 --quick --jobs 3 --shard 2/4 --json");
        assert_eq!(usual_place(&args), Path::new("results/jgn06-quick"));
        assert_eq!(
            command_line(&args),
            "howdah lab run scenarios/jgn06 --quick"
        );
        let args = parse("howdah lab run a.toml b.toml");
        assert_eq!(usual_place(&args), Path::new("results/a"));
        assert_eq!(command_line(&args), "howdah lab run a.toml b.toml");
    }

    #[test]
    fn a_shard_is_one_of_several() {
        for bad in ["0/2", "3/2", "1", "a/b", "1/0"] {
            let words = ["howdah", "lab", "run", "x", "--shard", bad];
            assert!(Cli::try_parse_from(words).is_err(), "{bad}");
        }
    }
}
