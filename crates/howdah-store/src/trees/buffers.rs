//! Buffers for the contents of small files that are used again.
//!
//! A general allocator takes such a buffer from among everything else and often cannot give the place back: in a tree of
//! files of 4 MiB, with one or two of them read at a time, that was 10 to 15 MiB more in memory than was ever in use.

use super::PACKED_MAX;
use super::queue::lock;
use std::sync::Mutex;

/// What is smaller is the allocator's to place.
const LEAST_BYTES: usize = 64 << 10;

#[derive(Debug)]
pub(super) struct Buffers {
    idle: Mutex<Vec<Vec<u8>>>,
    most_bytes: usize,
}

impl Buffers {
    /// Keeps at most so many bytes that nobody uses, or one of the largest files with room for its end.
    pub(super) fn new(most_bytes: u64) -> Self {
        Self {
            idle: Mutex::default(),
            most_bytes: most_bytes.max(PACKED_MAX + 1) as usize,
        }
    }

    /// An empty buffer with room for `len` bytes, and for no more than twice as many if it was used before.
    pub(super) fn take(&self, len: usize) -> Vec<u8> {
        if len < LEAST_BYTES {
            return Vec::with_capacity(len);
        }
        let mut idle = lock(&self.idle);
        let fits = |buffer: &Vec<u8>| (len..=2 * len).contains(&buffer.capacity());
        match idle.iter().position(fits) {
            Some(at) => idle.swap_remove(at),
            None => Vec::with_capacity(len),
        }
    }

    /// Gives one back.
    pub(super) fn put(&self, mut buffer: Vec<u8>) {
        if !(LEAST_BYTES..=self.most_bytes).contains(&buffer.capacity()) {
            return;
        }
        buffer.clear();
        let mut idle = lock(&self.idle);
        // Those of another size give way: files that lie side by side are often alike.
        let mut bytes: usize = idle.iter().map(Vec::capacity).sum();
        while bytes + buffer.capacity() > self.most_bytes {
            bytes -= idle.remove(0).capacity();
        }
        idle.push(buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_is_used_again_and_little_is_kept() {
        let buffers = Buffers::new(0);
        buffers.put(buffers.take(PACKED_MAX as usize + 1));
        assert_eq!(lock(&buffers.idle).pop().unwrap().capacity(), (4 << 20) + 1);
        let mut used = buffers.take(3 << 20);
        used.extend_from_slice(&[1; 100]);
        let at = used.as_ptr();
        buffers.put(used);
        // Too small, and much too large: others.
        assert_ne!(buffers.take(100).as_ptr(), at);
        assert_ne!(buffers.take(1 << 20).as_ptr(), at);
        let again = buffers.take(2 << 20);
        assert_eq!((again.as_ptr(), again.len()), (at, 0));
        buffers.put(again);
        // The newest stay.
        for _ in 0..5 {
            buffers.put(Vec::with_capacity(1 << 20));
        }
        let kept: Vec<usize> = lock(&buffers.idle).iter().map(Vec::capacity).collect();
        assert_eq!(kept, [1 << 20; 4]);
        buffers.put(Vec::with_capacity(5 << 20));
        assert_eq!(lock(&buffers.idle).len(), 4);
    }
}
