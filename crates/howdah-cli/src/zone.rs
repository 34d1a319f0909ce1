//! The time of day here: `TZ` may name a file, and whoever asks for the time reads all of it.

use jiff::tz::TimeZone;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// The largest of `/usr/share/zoneinfo` has some KiB.
const MOST_BYTES: u64 = 1 << 20;

/// An error if the time of day here cannot be asked for.
pub(crate) fn check() -> Result<(), String> {
    match std::env::var_os("TZ") {
        Some(named) => check_named(&named),
        None => Ok(()),
    }
}

/// The same of what `TZ` says: `Europe/Berlin`, a rule, or a file, with a colon in front or without.
fn check_named(named: &OsStr) -> Result<(), String> {
    let bytes = named.as_bytes();
    let path = Path::new(OsStr::from_bytes(bytes.strip_prefix(b":").unwrap_or(bytes)));
    let is_known = || {
        path.to_str()
            .is_some_and(|name| TimeZone::get(name).is_ok())
    };
    match path.metadata() {
        Ok(found) if found.is_dir() || found.is_file() && found.len() <= MOST_BYTES => Ok(()),
        Ok(_) if path.is_absolute() || !is_known() => Err(format!(
            "TZ={} names no file of a time zone; set it to a name like Europe/Berlin, or leave it out (unset TZ)",
            named.display()
        )),
        // A name of the system's, or a rule.
        Ok(_) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_be_read_for_ever_is_no_time_zone() {
        let dir = tempfile::tempdir().unwrap();
        let huge = dir.path().join("huge");
        let file = std::fs::File::create(&huge).unwrap();
        file.set_len(1 << 40).unwrap();
        for bad in ["/dev/zero", ":/dev/zero", huge.to_str().unwrap()] {
            let error = check_named(OsStr::new(bad)).unwrap_err();
            assert!(error.contains(bad) && error.contains("unset TZ"), "{error}");
        }
        file.set_len(100).unwrap();
        for good in [
            "",
            "UTC",
            ":Europe/Berlin",
            "CET-1CEST",
            huge.to_str().unwrap(),
        ] {
            assert_eq!(check_named(OsStr::new(good)), Ok(()), "{good}");
        }
    }
}
