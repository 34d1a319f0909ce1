//! The system's journal, where standard error leads there: it wants to know how much a line matters (`sd-daemon(3)`), and has time and name of
//! who says it itself.

use howdah::Level;
use std::sync::OnceLock;

/// Whether standard error is it: `JOURNAL_STREAM` names what a service manager has connected, as `DEVICE:INODE`, and somebody may have led it
/// elsewhere since (`systemd.exec(5)`).
pub(super) fn is_there() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let named = std::env::var("JOURNAL_STREAM").ok();
        named.is_some_and(|named| own().is_some_and(|own| named == own))
    })
}

#[cfg(unix)]
fn own() -> Option<String> {
    let found = rustix::fs::fstat(std::io::stderr()).ok()?;
    Some(format!("{}:{}", found.st_dev, found.st_ino))
}

#[cfg(not(unix))]
fn own() -> Option<String> {
    None
}

/// Of `syslog(3)`.
pub(super) fn priority(level: Level) -> u8 {
    match level {
        Level::Error => 3,
        Level::Warning => 4,
        _ => 6,
    }
}
