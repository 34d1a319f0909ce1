//! What people write.

use howdah::Location;
use howdah_tree::could_mean;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path};

/// What people write as SRC and DST.
pub fn location(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else {
        return;
    };
    let Ok(location) = text.parse::<Location>() else {
        return;
    };
    if matches!(location, Location::Zero(size) if size > 1 << 53) {
        // Sizes are read as floating-point numbers, with units: these are rounded.
        return;
    }
    let shown = location.to_string();
    assert_eq!(shown.parse::<Location>().as_ref(), Ok(&location), "{shown}");
    if let Location::Remote { host, port, .. } = &location {
        assert!(!host.is_empty() && *port != 0);
    }
}

pub(crate) fn location_samples() -> Vec<Vec<u8>> {
    let places = [
        "/tmp/a",
        "host:path",
        "anna@host:/p",
        "howdah://host:4433/x",
        "[2001:db8::1]:p",
        "-",
        "zero:10GB",
        "null:",
    ];
    places.map(|place| place.as_bytes().to_vec()).to_vec()
}

/// A pattern, a zero, and what another machine says that it means: that never leads elsewhere.
pub fn glob(bytes: &[u8]) {
    let mut parts = bytes.splitn(2, |&b| b == 0);
    let (Some(pattern), Some(found)) = (parts.next(), parts.next()) else {
        return;
    };
    let (pattern, found) = (
        Path::new(OsStr::from_bytes(pattern)),
        Path::new(OsStr::from_bytes(found)),
    );
    assert!(could_mean(pattern, pattern), "what is written means itself");
    if !could_mean(pattern, found) {
        return;
    }
    assert_eq!(pattern.is_absolute(), found.is_absolute());
    // As many steps, and up only where the pattern goes up.
    let steps = |path: &Path| -> Vec<Vec<u8>> {
        path.components()
            .filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir))
            .map(|part| part.as_os_str().as_bytes().to_vec())
            .collect()
    };
    let (asked, got) = (steps(pattern), steps(found));
    assert_eq!(asked.len(), got.len());
    for (asked, got) in asked.iter().zip(&got) {
        assert!(got != b".." || asked == b"..");
        let is_plain = !asked.iter().any(|b| b"*?[\\".contains(b));
        assert!(!is_plain || asked == got);
        // A name with a dot is meant by one with a dot only.
        assert!(!got.starts_with(b".") || asked.starts_with(b".") || asked.starts_with(b"\\"));
    }
}

pub(crate) fn glob_samples() -> Vec<Vec<u8>> {
    let pairs = [
        "photos/*.jpg\0photos/a.jpg",
        "*\0.ssh",
        "a/?/[a-c]x\0a/b/bx",
        "/x/../*\0/x/../..",
        "[!a]*\0b",
        "\\*\0*",
    ];
    pairs.map(|pair| pair.as_bytes().to_vec()).to_vec()
}

/// A scenario of the laboratory: it is read or refused, and what is read has cells with names of their own.
pub fn scenario(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else {
        return;
    };
    // Other files are not in here.
    if text.contains("include") {
        return;
    }
    for quick in [false, true] {
        match howdah_lab::scenario::parse(Path::new("fuzz.toml"), text, quick) {
            Ok(plan) => {
                for cell in plan.cells() {
                    assert!(!cell.id().is_empty());
                    assert!(cell.cost() >= 0.0);
                    let _ = (cell.canonical(), cell.measure.end());
                }
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}

pub(crate) fn scenario_samples() -> Vec<Vec<u8>> {
    let texts = [include_str!("../../../scenarios/example.toml")];
    texts.map(|text| text.as_bytes().to_vec()).to_vec()
}
