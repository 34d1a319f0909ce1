//! `howdah lab calibrate`.

use super::scenario_file;
use crate::args::LabCalibrateArgs;
use crate::ui::{self, Signals};
use anyhow::Context as _;
use howdah::{Error, ErrorKind};
use howdah_core::Span;
use howdah_lab::calibrate::{self, Calibration, Costs};
use howdah_lab::netns::Kit;
use howdah_lab::run::{RealOptions, RunError, RunOptions};
use howdah_lab::{run as runner, scenario};
use howdah_report::store::Store;
use std::fs;
use std::time::Duration;

/// A shorter look sees nothing, a longer one takes all cores from others.
const TIME: [Span; 2] = [Span::from_millis(100), Span::from_secs(60)];

pub(super) fn run(args: &LabCalibrateArgs) -> anyhow::Result<()> {
    let usage = |text: String| Err(Error::new(ErrorKind::Usage, text).into());
    if !(TIME[0]..=TIME[1]).contains(&args.time) {
        return usage(format!("--time: from {} to {}", TIME[0], TIME[1]));
    }
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if args.name.is_empty() || !args.name.chars().all(is_plain) {
        return usage("--name: letters, digits, '-' and '_', as a key of TOML has".to_owned());
    }
    if let Some(out) = &args.out {
        scenario_file::check(out)?;
    }
    let signals = Signals::install()?;
    let time = Duration::from(args.time);
    let mut measured = Calibration::measure(time).context("cannot measure this machine")?;
    match costs(time, &signals) {
        Ok(costs) => measured.costs = Some(costs),
        Err(error) if signals.cancel().is_cancelled() => return Err(error),
        Err(error) => ui::say(&format!("what packets cost is left out: {error:#}")),
    }
    if args.json {
        return Ok(ui::print(&serde_json::to_string(&measured)?)?);
    }
    let machine = runner::machine();
    let of = |key: &str| machine.get(key).map_or("unknown", |text| text);
    let machine = format!("{}, kernel {}", of("cpu"), of("kernel"));
    let text = measured.toml(&args.name, &machine);
    match &args.out {
        None => ui::print(text.trim_end())?,
        Some(out) => {
            scenario_file::write(out, &text)?;
            ui::say(&format!("written: {}", out.display()));
        }
    }
    Ok(())
}

/// What a packet costs on the testbed, in a campaign of two cells that nobody keeps.
fn costs(time: Duration, signals: &Signals) -> anyhow::Result<Costs> {
    let dir = tempfile::Builder::new()
        .prefix("howdah-calibrate-")
        .tempdir()?;
    let file = dir.path().join("calibrate.toml");
    fs::write(&file, calibrate::scenario(time))?;
    let plan = scenario::load(&[file], false)?;
    let options = RunOptions::new(dir.path().join("results"), "howdah lab calibrate");
    let program = std::env::current_exe().context("cannot find the howdah program")?;
    let real = RealOptions {
        kit: Kit::new(program, dir.path().to_owned())
            .map_err(|e| RunError::Testbed(e.to_string()))?,
        most_runs: 1,
        agree: None,
    };
    let outcome = runner::run_on_testbed(&plan, &options, real, &signals.cancel().flag(), |_| ())?;
    if outcome.stopped {
        return Err(Error::new(ErrorKind::Cancelled, "stopped").into());
    }
    if let Some((cell, why)) = outcome.failed.first() {
        anyhow::bail!("{cell}: {why}");
    }
    let summary = Store::open(&options.out)?.summary()?;
    for cell in &summary.cells {
        let doubts = cell.certificate.iter().flat_map(|c| &c.objections);
        for doubt in doubts {
            ui::say(&format!("the emulator doubts what packets cost: {doubt}"));
        }
    }
    let costs = calibrate::costs(&summary.cells);
    costs.context("the testbed told no processor times")
}
