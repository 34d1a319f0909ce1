//! How long a path may be that is asked for.

use crate::{Error, ErrorKind, PathBytes};

/// The longest path that is asked for, in bytes: no system has one, and it fits into a message beside all that is said with it.
const PATH_MAX: usize = 16 << 10;

/// Refuses what no machine has, and perhaps no message has room for.
pub(crate) fn check_paths(paths: &[PathBytes]) -> Result<(), Error> {
    let lengths = paths.iter().map(|path| path.as_bytes().len());
    match lengths.max() {
        Some(bytes) if bytes > PATH_MAX => {
            let text = format!("a path of {bytes} bytes is too long: no machine has one");
            Err(Error::new(ErrorKind::Usage, text))
        }
        _ => Ok(()),
    }
}
