//! Flags about what becomes of the source: where they make no sense.

use crate::args::OutcomeArgs;
use howdah::{Error, ErrorKind, Location};

/// Names what clashes, before anything is connected to.
pub(super) fn check(
    args: &OutcomeArgs,
    sources: &[Location],
    destination: &Location,
    deletes: bool,
) -> Result<(), Error> {
    let usage = |text: String| Err(Error::new(ErrorKind::Usage, text));
    let made_up = sources.iter().find(|source| !is_file(source));
    if let Some(source) = made_up.filter(|_| args.growing) {
        return usage(format!("--growing is about files, which {source} is not"));
    }
    if args.remove_source_files {
        if let Some(source) = made_up {
            return usage(format!(
                "--remove-source-files moves files, which {source} is not"
            ));
        }
        if !is_file(destination) {
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

/// Whether it is neither a pipe nor made up.
fn is_file(place: &Location) -> bool {
    let path = match place {
        Location::File(_) => return true,
        Location::Stdio | Location::Zero(_) | Location::Null => return false,
        Location::Remote { path, .. } => path,
        Location::Ssh(place) => &place.path,
    };
    let meant = Location::try_from(path.as_path().as_os_str());
    !matches!(meant, Ok(Location::Zero(_) | Location::Null))
}
