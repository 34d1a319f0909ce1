//! Files that a command writes beside what it moves, under a name that a person has typed: whoever mistypes one loses nothing.

use howdah::{Error, ErrorKind};
use std::fs::{self, File, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use tempfile::NamedTempFile;

/// As much of a file as tells what it is.
const HEAD_BYTES: u64 = 1024;

/// What would fail after hours fails now, and what is there already is replaced only if it is empty, or one of those: that is what
/// `is_ours` says of its beginning.
pub(crate) fn check(flag: &str, path: &Path, is_ours: fn(&[u8]) -> bool) -> Result<(), Error> {
    let refused = |kind, why: &str| {
        let text = format!("{flag} {}: {why}", path.display());
        Err(Error::new(kind, text))
    };
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    if path.file_name().is_none() || !dir.unwrap_or_else(|| Path::new(".")).is_dir() {
        let why = "there is no such directory; make it first";
        return refused(ErrorKind::Refused, why);
    }
    match path.metadata() {
        Ok(found) if found.is_dir() => {
            let why = "there is something else than a file; name another one";
            return refused(ErrorKind::Usage, why);
        }
        Ok(found) if found.is_file() && found.len() > 0 => {}
        // There is nothing to lose in pipes and devices, nor in what is not there.
        _ => return Ok(()),
    }
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| file.take(HEAD_BYTES).read_to_end(&mut head));
    match read {
        Ok(_) if is_ours(&head) => Ok(()),
        Ok(_) => refused(
            ErrorKind::Usage,
            "another kind of file is there, and stays as it is; remove it first, or name another one",
        ),
        Err(e) => Err(failed("read what is at", path, &e)),
    }
}

/// The same of a file that may not be there yet, whose place others look at.
pub(crate) fn check_there(
    flag: &str,
    path: &Path,
    is_ours: fn(&[u8]) -> bool,
) -> Result<(), Error> {
    if path.is_file() {
        check(flag, path, is_ours)
    } else {
        Ok(())
    }
}

/// Whether that is how a list of files and hashes begins, as b3sum and sha256sum write it.
pub(crate) fn is_list(head: &[u8]) -> bool {
    let line = head.strip_prefix(b"\\").unwrap_or(head);
    line.get(..64)
        .is_some_and(|hash| hash.iter().all(u8::is_ascii_hexdigit))
        && line.get(64) == Some(&b' ')
}

/// Whether that is how a receipt begins.
pub(crate) fn is_receipt(head: &[u8]) -> bool {
    head.starts_with(b"{\"files\":[")
}

/// Whether that is how a page begins that howdah has made.
pub(crate) fn is_page(head: &[u8]) -> bool {
    // The titles are those of versions that did not say it otherwise.
    let marks: [&[u8]; 3] = [
        b"<meta name=\"generator\" content=\"howdah\">",
        b"<title>Howdah laboratory report",
        b"<title>howdah demo: ",
    ];
    let has = |mark: &[u8]| head.windows(mark.len()).any(|part| part == mark);
    marks.into_iter().any(has)
}

/// Writes such a file so that it is there whole or not at all: on a full disk what was there before stays. Into pipes and devices it is
/// written as it comes.
pub(crate) fn replace(path: &Path, text: &str) -> Result<(), Error> {
    let write = || {
        if path.metadata().is_ok_and(|found| !found.is_file()) {
            return fs::write(path, text);
        }
        // Behind a link lies the file that is meant.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let file = whole(&path, text)?;
        if let Ok(before) = path.metadata() {
            file.as_file().set_permissions(before.permissions())?;
        }
        file.persist(&path).map_err(|error| error.error)?;
        Ok(())
    };
    write().map_err(|error| failed("write", path, &error))
}

/// The same where nothing may have been.
pub(crate) fn make(path: &Path, text: &str) -> Result<(), Error> {
    let made = whole(path, text)
        .and_then(|file| file.persist_noclobber(path).map_err(|error| error.error));
    made.map(drop)
        .map_err(|error| failed("write", path, &error))
}

/// All of it, on the disk beside the place that it is for.
fn whole(path: &Path, text: &str) -> io::Result<NamedTempFile> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    let mut file = tempfile::Builder::new()
        .prefix(".howdah-")
        // As any new file, less what the umask says.
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(dir.unwrap_or_else(|| Path::new(".")))?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_data()?;
    Ok(file)
}

/// An error of such a file, in words and of its kind.
pub(crate) fn failed(what: &str, path: &Path, error: &io::Error) -> Error {
    let text = format!("cannot {what} {}: {error}", path.display());
    Error::new(kind(error), text)
}

/// What kind of failure it is that such a file cannot be written.
pub(crate) fn kind(error: &io::Error) -> ErrorKind {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorKind::NoSpace,
        io::ErrorKind::PermissionDenied
        | io::ErrorKind::ReadOnlyFilesystem
        | io::ErrorKind::NotFound
        | io::ErrorKind::NotADirectory => ErrorKind::Refused,
        _ => ErrorKind::Io,
    }
}
