//! `howdah doctor`: a list of checks, each with a remedy.

mod files;
mod machine;
mod network;
mod paths;

use crate::args::DoctorArgs;
use crate::exit;
use crate::ui::{self, Paint};
use serde::Serialize;
use std::fmt::Write as _;

/// Version of the JSON object.
const SCHEMA: u32 = 1;

/// How a thing is.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    Ok,
    /// Worth knowing; nothing needs to be done.
    Note,
    /// Should be changed.
    Change,
}

/// What a check found.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Finding {
    id: &'static str,
    state: State,
    text: String,
    /// Lines for a root shell, or a sentence.
    remedy: Vec<String>,
}

impl Finding {
    pub(super) fn ok(id: &'static str, text: impl Into<String>) -> Self {
        Self::new(id, State::Ok, text)
    }

    pub(super) fn note(id: &'static str, text: impl Into<String>) -> Self {
        Self::new(id, State::Note, text)
    }

    pub(super) fn change(id: &'static str, text: impl Into<String>) -> Self {
        Self::new(id, State::Change, text)
    }

    fn new(id: &'static str, state: State, text: impl Into<String>) -> Self {
        Self {
            id,
            state,
            text: text.into(),
            remedy: Vec::new(),
        }
    }

    #[must_use]
    pub(super) fn remedy(mut self, line: impl Into<String>) -> Self {
        self.remedy.push(line.into());
        self
    }
}

#[derive(Serialize)]
struct Report<'a> {
    schema: u32,
    ok: bool,
    checks: &'a [Finding],
}

pub(super) fn run(args: &DoctorArgs) -> anyhow::Result<()> {
    let mut findings = network::check();
    findings.extend(machine::check());
    findings.extend(files::check(&args.dir));
    findings.extend(paths::check());
    // A peer that cannot be reached says nothing against what this machine was found to be.
    let unreached = match args.peer.as_deref().map(network::path_to) {
        Some(Ok(finding)) => {
            findings.push(finding);
            None
        }
        Some(Err(error)) => Some(error),
        None => None,
    };
    let bad = findings.iter().filter(|f| f.state == State::Change).count();
    if args.json {
        let report = Report {
            schema: SCHEMA,
            ok: bad == 0 && unreached.is_none(),
            checks: &findings,
        };
        ui::print(&serde_json::to_string(&report)?)?;
    } else {
        for finding in &findings {
            ui::print(show(finding, Paint::stdout()).trim_end())?;
        }
        ui::print(&match bad {
            0 if unreached.is_some() => "This machine needs no change.".to_owned(),
            0 => "All is well.".to_owned(),
            1 => "One thing should be changed.".to_owned(),
            n => format!("{n} things should be changed."),
        })?;
    }
    if let Some(error) = unreached {
        Err(error)
    } else if bad == 0 {
        Ok(())
    } else {
        Err(exit::Passed(exit::DOCTOR).into())
    }
}

/// The finding, and its remedy on lines below.
fn show(finding: &Finding, paint: Paint) -> String {
    let word = match finding.state {
        State::Ok => paint.good("ok    "),
        State::Note => paint.warning("note  "),
        State::Change => paint.bad("CHANGE"),
    };
    let mut text = format!(
        "{word}  {:14} {}\n",
        finding.id,
        ui::printable(&finding.text)
    );
    for line in &finding.remedy {
        let _ = writeln!(text, "{:24}{}", "", paint.bold(&ui::printable(line)));
    }
    text
}

/// A small file of the kernel's, without its end of line.
fn read(path: impl AsRef<std::path::Path>) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned())
}

/// What a program says on both outputs; `None` if it is not there or fails.
fn ask(program: &str, args: &[&str]) -> Option<String> {
    let output = std::process::Command::new(program)
        .args(args)
        .stdin(std::process::Stdio::null())
        .output()
        .ok()?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).trim().to_owned();
    output.status.success().then_some(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_a_line_and_its_remedy_below() {
        let finding = Finding::change("udp-receive", "too \x1bsmall").remedy("sysctl -w a=1");
        assert_eq!(
            show(&finding, Paint(false)),
            "CHANGE  udp-receive    too \\u{1b}small\n                        sysctl -w a=1\n"
        );
    }
}
