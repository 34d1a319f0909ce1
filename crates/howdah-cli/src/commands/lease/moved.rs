//! What every run of a lease needs, wherever its file goes.

use crate::args::{Cli, Command, PaceArgs};
use crate::ui::Reporter;
use howdah::{Error, ErrorKind, Summary};

/// A lease that needs no mover.
pub(super) fn was_moved(id: u64, (epoch, bytes): (u64, u64), reporter: &Reporter) -> Summary {
    reporter.note(&format!("lease {id} was moved in epoch {epoch} already"));
    Summary {
        bytes,
        resumed_bytes: bytes,
        verified: "blake3".to_owned(),
        ..Summary::default()
    }
}

/// The one behind the highest that somebody has claimed.
pub(super) fn next_epoch(lease: u64, highest: u64) -> Result<u64, Error> {
    highest.checked_add(1).ok_or_else(|| {
        let text = format!(
            "lease {lease} is run in epoch {highest} already, and none comes behind that: run it in the same one, with --epoch {highest}"
        );
        Error::new(ErrorKind::Refused, text)
    })
}

/// What the same command line asks for now.
pub(super) fn pace_of(cli: &Cli) -> Option<PaceArgs> {
    match &cli.command {
        Command::Cp(args) => Some(args.connect.pace.clone()),
        _ => None,
    }
}
