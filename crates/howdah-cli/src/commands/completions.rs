//! `howdah completions`.

use crate::args::Cli;
use crate::ui;
use anyhow::Context as _;
use clap::CommandFactory as _;
use clap_complete::Shell;
use std::io::Write as _;

pub(super) fn run(shell: Shell) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "howdah", &mut script);
    let mut out = std::io::stdout().lock();
    ui::check_output()
        .and_then(|()| out.write_all(&script))
        .and_then(|()| out.flush())
        .context("cannot write to standard output")
}
