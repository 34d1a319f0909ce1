//! Files that a command writes beside what it moves, under a name that a person has typed: whoever mistypes one loses nothing.

use howdah::{Error, ErrorKind};
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

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

/// An error of such a file, in words and of its kind.
pub(crate) fn failed(what: &str, path: &Path, error: &io::Error) -> Error {
    let kind = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorKind::NoSpace,
        io::ErrorKind::PermissionDenied
        | io::ErrorKind::ReadOnlyFilesystem
        | io::ErrorKind::NotFound
        | io::ErrorKind::NotADirectory => ErrorKind::Refused,
        _ => ErrorKind::Io,
    };
    Error::new(kind, format!("cannot {what} {}: {error}", path.display()))
}
