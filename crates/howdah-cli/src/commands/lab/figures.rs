//! `howdah lab report --figures`: specifications for other programs, and drawings for a paper where Python has vl-convert.

use crate::ui;
use howdah::{Error, ErrorKind};
use howdah_report::report::{self, Options};
use serde_json::json;
use std::io::ErrorKind as Io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Draws each of its arguments beside it; ends with [`MISSING`] where the module is not installed.
const DRAW: &str = include_str!("figures.py");
/// Of [`DRAW`]: there is no vl-convert.
const MISSING: i32 = 3;

pub(super) fn write(dir: &Path, out: &Path, options: &Options, json: bool) -> anyhow::Result<()> {
    let specs = report::write_figures(dir, out, options)?;
    let drawn = draw(&specs)?;
    if !drawn {
        ui::say(
            "only the specifications are written: SVG and PDF need python3 with vl-convert; 'pip install vl-convert-python' brings it",
        );
    }
    if json {
        return Ok(ui::print(
            &json!({ "figures": specs, "drawn": drawn }).to_string(),
        )?);
    }
    let lines: Vec<String> = specs
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    Ok(ui::print(&lines.join("\n"))?)
}

/// Whether they are drawn; false where what draws is not installed.
fn draw(specs: &[PathBuf]) -> anyhow::Result<bool> {
    if specs.is_empty() {
        return Ok(true);
    }
    let run = Command::new("python3")
        .args(["-c", DRAW])
        .args(specs)
        .stdin(Stdio::null())
        .output();
    let done = match run {
        Err(error) if error.kind() == Io::NotFound => return Ok(false),
        other => other?,
    };
    if done.status.code() == Some(MISSING) {
        return Ok(false);
    }
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr);
        let last = said.trim().lines().last().unwrap_or("no word why");
        let message = format!("vl-convert did not draw the figures: {last}");
        return Err(Error::new(ErrorKind::Io, message).into());
    }
    Ok(true)
}
