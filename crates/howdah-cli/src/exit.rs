//! Exit codes. They are part of the interface: scripts decide by them whether to try again.

use howdah::ErrorKind;
use howdah::keys::KeyError;

/// Shown at the end of `howdah --help`.
pub(crate) const HELP: &str = "\
Exit codes:
   0  done
   1  another failure
   2  usage: the arguments make no sense
   3  the source does not exist
   4  refused: permissions, the path rules of the peer, or the destination's directory does not exist
   5  network: nobody answers or the peer went away; trying again may help
   6  partial: some files could not be copied, the others are in place
   7  keys or protocol do not match; trying again does not help
   8  a limit was reached: --max-delete, or --timeout of howdah job wait
  10  what arrived is not what was sent, or a receipt is not what was signed
  11  no space left at the destination
  12  stopped by SIGINT, SIGTERM or SIGHUP
  13  the source changed while it was read
  14  howdah doctor found something to change
  15  howdah verify found differences
  16  howdah receipt check found files that are not what was signed
128+n  killed by signal n (the second SIGINT or SIGTERM)";

/// `howdah doctor` found something to change.
pub(crate) const DOCTOR: u8 = 14;

/// `howdah verify` found differences.
pub(crate) const DIFFERENT: u8 = 15;

/// Files are not what a receipt says.
pub(crate) const RECEIPT: u8 = 16;

/// The child's exit status, passed on as it is by `howdah wan -- COMMAND`; or of a command that has said itself what there is to
/// say.
#[derive(Debug, thiserror::Error)]
#[error("the command ended with status {0}")]
pub(crate) struct Passed(pub(crate) u8);

/// A kind as scripts see it in `--json`.
pub(crate) fn name(kind: ErrorKind) -> &'static str {
    kind.name()
}

/// Its exit code.
pub(crate) fn code(kind: ErrorKind) -> u8 {
    kind.exit_code()
}

/// Whether the same command may succeed later without anybody changing anything, as docs/cli.md has it.
pub(crate) fn retry_may_help(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::Network | ErrorKind::Partial | ErrorKind::SourceChanged
    )
}

/// The kind of whatever failed.
pub(crate) fn kind(error: &anyhow::Error) -> ErrorKind {
    if let Some(error) = error.downcast_ref::<howdah::Error>() {
        error.kind()
    } else if let Some(error) = error.downcast_ref::<KeyError>() {
        error.kind()
    } else {
        ErrorKind::Io
    }
}

/// An error with what caused it. Many an error says itself what its cause says, which is not said twice.
pub(crate) fn words(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.ends_with(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context as _;

    #[test]
    fn context_does_not_hide_the_kind() {
        let error = anyhow::Error::from(howdah::Error::new(ErrorKind::NoSpace, "disk full"));
        assert_eq!(kind(&error.context("while copying")), ErrorKind::NoSpace);
        let error = anyhow::Error::from(KeyError::RandomSource).context("making a key");
        assert_eq!(code(kind(&error)), 1);
    }

    const KINDS: [ErrorKind; 13] = [
        ErrorKind::Usage,
        ErrorKind::NotFound,
        ErrorKind::Refused,
        ErrorKind::Network,
        ErrorKind::Auth,
        ErrorKind::Protocol,
        ErrorKind::Integrity,
        ErrorKind::NoSpace,
        ErrorKind::Cancelled,
        ErrorKind::SourceChanged,
        ErrorKind::Partial,
        ErrorKind::Limit,
        ErrorKind::Io,
    ];

    #[test]
    fn the_help_names_every_code() {
        for kind in KINDS {
            let line = format!("\n{:>4}  ", code(kind));
            assert!(HELP.contains(&line), "{kind:?}");
        }
    }

    /// Scripts read the one, people who write them the other.
    #[test]
    fn that_trying_again_may_help_is_what_the_table_of_codes_says() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/cli.md");
        let page = std::fs::read_to_string(page).unwrap();
        let python = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../howdah-python/python/howdah/_errors.py"
        );
        let python = std::fs::read_to_string(python).unwrap();
        let (_, kinds) = python.split_once("return self.kind in (").unwrap();
        let (kinds, _) = kinds.split_once(')').unwrap();
        for kind in KINDS {
            let row = format!("\n| {} | ", code(kind));
            let (_, row) = page.split_once(&row).expect("a row of the table");
            let (row, _) = row.split_once('\n').unwrap();
            assert_eq!(retry_may_help(kind), row.contains("| may help"), "{kind:?}");
            let named = format!("\"{}\"", name(kind));
            assert_eq!(retry_may_help(kind), kinds.contains(&named), "{kind:?}");
        }
    }

    #[test]
    fn what_an_error_says_of_its_cause_is_said_once() {
        let missing = howdah::keys::AuthorizedKeys::load(std::path::Path::new("/none/keys"));
        let text = words(&missing.unwrap_err().into());
        assert_eq!(text.matches("No such file").count(), 1, "{text}");
        let failed: Result<(), _> = Err(std::io::Error::other("why"));
        let text = words(&failed.context("cannot go on").unwrap_err());
        assert_eq!(text, "cannot go on: why");
    }
}
