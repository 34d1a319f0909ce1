//! Buffers for the contents of small files that are used again.
//!
//! A general allocator takes such a buffer from among everything else and often cannot give the place back: in a tree of
//! files of 4 MiB, with one or two of them read at a time, that was 10 to 15 MiB more in memory than was ever in use.

use super::bounds::PACKED_MAX;
use super::queue::lock;
use std::sync::Mutex;

/// What is smaller is the allocator's to place.
const LEAST_BYTES: usize = 64 << 10;

#[derive(Debug)]
pub(super) struct Buffers {
    state: Mutex<State>,
    most_bytes: usize,
}

#[derive(Debug, Default)]
struct State {
    idle: Vec<Vec<u8>>,
    /// Of all that are left, those in use included.
    bytes: usize,
}

impl State {
    /// Those of another size give way: files that lie side by side are often alike.
    fn make_room(&mut self, len: usize, most: usize) {
        while self.bytes + len > most && !self.idle.is_empty() {
            self.bytes -= self.idle.remove(0).capacity();
        }
    }
}

impl Buffers {
    /// Keeps what nobody uses only where all together are no more bytes than that, or than one of the largest files with
    /// room for its end.
    pub(super) fn new(most_bytes: u64) -> Self {
        Self {
            state: Mutex::default(),
            most_bytes: most_bytes.max(PACKED_MAX + 1) as usize,
        }
    }

    /// An empty buffer with room for `len` bytes, and for no more than twice as many if it was used before.
    pub(super) fn take(&self, len: usize) -> Vec<u8> {
        if len < LEAST_BYTES {
            return Vec::with_capacity(len);
        }
        let mut state = lock(&self.state);
        let fits = |buffer: &Vec<u8>| (len..=2 * len).contains(&buffer.capacity());
        if let Some(at) = state.idle.iter().position(fits) {
            return state.idle.swap_remove(at);
        }
        state.make_room(len, self.most_bytes);
        let buffer = Vec::with_capacity(len);
        state.bytes += buffer.capacity();
        buffer
    }

    /// Gives back one that was taken.
    pub(super) fn put(&self, mut buffer: Vec<u8>) {
        if buffer.capacity() < LEAST_BYTES {
            return;
        }
        buffer.clear();
        let mut state = lock(&self.state);
        if state.bytes > self.most_bytes {
            state.bytes = state.bytes.saturating_sub(buffer.capacity());
        } else {
            state.idle.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_is_used_again_and_little_is_kept() {
        let buffers = Buffers::new(0);
        let idle = || -> Vec<usize> {
            let state = lock(&buffers.state);
            state.idle.iter().map(Vec::capacity).collect()
        };
        let mut used = buffers.take(PACKED_MAX as usize + 1);
        used.extend_from_slice(&[1; 100]);
        let at = used.as_ptr();
        buffers.put(used);
        // Too small: another.
        let other = buffers.take(100);
        assert_ne!(other.as_ptr(), at);
        let again = buffers.take(3 << 20);
        assert_eq!((again.as_ptr(), again.len()), (at, 0));
        buffers.put(again);
        assert_eq!(idle(), [(4 << 20) + 1]);
        // One of another size takes its place.
        let small = [0; 5].map(|_| buffers.take(1 << 20));
        assert_eq!(idle(), []);
        // Five are more than may be kept.
        for buffer in small {
            buffers.put(buffer);
        }
        assert_eq!(idle(), [1 << 20; 4]);
        assert_eq!(lock(&buffers.state).bytes, 4 << 20);
    }
}
