//! `howdah man DIR`: the help as man pages, for packages.

use crate::args::Cli;
use anyhow::Context as _;
use clap::CommandFactory as _;
use std::path::Path;

pub(super) fn run(dir: &Path) -> anyhow::Result<()> {
    clap_mangen::generate_to(Cli::command(), dir)
        .with_context(|| format!("cannot write man pages in {}", dir.display()))
}
