//! How much is under way at a time.

/// Files up to this size travel in packs, larger ones as objects of their own, in bytes. A pack is one
/// object after the other's bytes: no round trip and no half-filled packet per file. A large file can be
/// placed out of order and has its own thread to write and hash.
pub const PACKED_MAX: u64 = 4 << 20;
/// Large files that are under way at a time, well below the protocol's bound for open objects.
pub const LARGE_OPEN: u64 = 24;
/// Files that the sender has told and the receiver not answered, or the receiver has asked for and not
/// got: at 200 ms of round trip still 80,000 files a second.
pub(crate) const WAITING_FILES: usize = 16_384;
/// Files that were asked for and have neither their names nor an error.
pub(crate) const UNSETTLED: u64 = 24_576;
/// Large files that the receiver waits for.
pub(crate) const WAITING_LARGE: u64 = 4096;
/// What a dry run would do that whoever listens has not taken yet.
pub(crate) const CHANGES_WAITING: usize = 16_384;
/// A file's bytes go into a pack in parts of this size.
pub(crate) const PACK_CHUNK: usize = 64 << 10;
