//! The manifest in bytes. docs/trees.md is the specification.

mod decoder;
mod encoder;

pub use decoder::ManifestDecoder;
pub use encoder::ManifestEncoder;

const END: u8 = 0;
const DIR: u8 = 1;
const UP: u8 = 2;
const FILE: u8 = 3;
const SYMLINK: u8 = 4;
const LINK: u8 = 5;
const KEPT: u8 = 6;
const TOP: u8 = 7;
const OWNER: u8 = 8;
// In comparisons only.
const OTHER: u8 = 9;
const AHEAD: u8 = 10;
const GAP: u8 = 11;
const PLACE: u8 = 12;
const UNREAD: u8 = 13;
/// The lower bits of a record's first byte.
const KIND: u8 = 0x0f;
/// It names its owner; without, it is that of the record before.
const HAS_OWNER: u8 = 0x10;
const HAS_XATTRS: u8 = 0x20;
/// A file with a link number.
const HAS_LINK: u8 = 0x40;
/// A file with a BLAKE3; or: everything was readable; or: the last name of that file.
const HAS_HASH: u8 = 0x80;
const COMPLETE: u8 = 0x80;
const LAST: u8 = 0x80;

fn zigzag(value: i64) -> u64 {
    (value.wrapping_shl(1) ^ (value >> 63)).cast_unsigned()
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -(value & 1).cast_signed()
}

/// What both ends remember from record to record.
#[derive(Debug, Default)]
struct Memory {
    name: Vec<u8>,
    secs: i64,
    owner: Option<(u32, u32)>,
}

#[cfg(test)]
mod tests;
