//! Flags about what becomes of the source: where they make no sense.

use crate::args::OutcomeArgs;
use crate::clashes::is_stream;
use howdah::{Error, ErrorKind, Location};

/// Names what clashes, before anything is connected to.
pub(super) fn check(
    args: &OutcomeArgs,
    sources: &[Location],
    destination: &Location,
    deletes: bool,
) -> Result<(), Error> {
    let usage = |text: String| Err(Error::new(ErrorKind::Usage, text));
    let made_up = sources.iter().find(|source| is_stream(source));
    if let Some(source) = made_up.filter(|_| args.growing) {
        return usage(format!("--growing is about files, which {source} is not"));
    }
    if args.remove_source_files {
        if let Some(source) = made_up {
            return usage(format!(
                "--remove-source-files moves files, which {source} is not"
            ));
        }
        if is_stream(destination) {
            return usage(format!(
                "--remove-source-files and {destination} clash: nothing would be left of the files"
            ));
        }
        if deletes {
            return usage(
                "--remove-source-files and --delete clash: given again after an interruption, --delete would remove what \
                 has been moved"
                    .to_owned(),
            );
        }
    }
    Ok(())
}
