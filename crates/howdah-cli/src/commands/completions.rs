//! `howdah completions`.

use crate::args::Cli;
use crate::ui;
use clap::CommandFactory as _;
use clap_complete::Shell;
use std::io::Write as _;

pub(super) fn run(shell: Shell) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "howdah", &mut script);
    ui::check_output()?;
    std::io::stdout().write_all(&script)?;
    std::io::stdout().flush()?;
    Ok(())
}
