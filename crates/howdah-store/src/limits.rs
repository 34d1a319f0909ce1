//! Every bound of this crate, in one place.

/// Bounds of the queues and windows. The defaults suit 10 Gbit/s and more; tests use tiny ones.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How far ahead of the send cursor a file is read, in bytes.
    pub prefetch_bytes: u64,
    /// How much of a pipe is kept at most until the receiver has confirmed it, in bytes.
    pub pipe_bytes: usize,
    /// How far ahead of what was sent a pipe is read, in bytes.
    pub pipe_ahead_bytes: u64,
    /// Received buffers waiting for the writer, in bytes of their capacity.
    pub queue_bytes: usize,
    /// How far beyond what has been written out an ordered sink accepts data at first, in bytes, ...
    pub reorder_start_bytes: u64,
    /// ... and at most, when much is written out in a round trip.
    pub reorder_bytes: u64,
    /// Written bytes that a file may owe to the disk before the writer waits for it.
    pub dirty_bytes: u64,
    /// How much of a large file stays in the page cache behind us, in bytes: what was written
    /// and synced, or read and sent (unless it was cached before we came). Reused pages are much
    /// cheaper than fresh ones, and the machine's other programs keep their cache.
    pub cached_bytes: u64,
}

impl Limits {
    /// The first window of an ordered sink.
    pub fn first_window(&self) -> u64 {
        self.reorder_start_bytes.min(self.reorder_bytes)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            prefetch_bytes: 64 << 20,
            // What 10 Gbit/s carry in 200 ms; no more is taken than is under way.
            pipe_bytes: 256 << 20,
            pipe_ahead_bytes: 16 << 20,
            queue_bytes: 32 << 20,
            reorder_start_bytes: 16 << 20,
            reorder_bytes: 256 << 20,
            dirty_bytes: 512 << 20,
            cached_bytes: 256 << 20,
        }
    }
}
