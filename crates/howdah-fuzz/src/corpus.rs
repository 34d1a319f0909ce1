//! The corpora that are kept: a file for each target, a line in hexadecimal for each input.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

/// Bytes of all inputs of one target, about.
pub const MAX: usize = 6 << 10;

/// The file of a target.
pub fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(format!("{name}.hex"))
}

fn line(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().chunks(2);
    digits
        .map(|pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok())
        .collect()
}

/// What is kept for a target; nothing if it has no file.
///
/// # Panics
///
/// If its file is something else.
pub fn read(name: &str) -> Vec<Vec<u8>> {
    let text = std::fs::read_to_string(path(name)).unwrap_or_default();
    text.lines()
        .map(|text| line(text).expect("a corpus has hexadecimal digits"))
        .collect()
}

/// Keeps these instead.
///
/// # Errors
///
/// If the file cannot be written.
pub fn write(name: &str, inputs: &[Vec<u8>]) -> io::Result<()> {
    let lines: Vec<_> = inputs.iter().map(|input| hex(input) + "\n").collect();
    std::fs::write(path(name), lines.concat())
}

/// Bytes as they stand in a corpus.
pub fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}
