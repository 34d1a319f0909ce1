//! Where datagrams lie while they are in flight.

use howdah_core::{Datagram, HeaderBytes};
use std::collections::VecDeque;

/// Header bytes that a small datagram has at most: those of a data packet of ours fit.
const SMALL: usize = 27;

/// Of places in the shelf of larger ones.
const LARGE_BIT: u32 = 1 << 31;

/// A datagram with few header bytes. Millions may be in flight, and each is fetched from memory when its turn comes.
#[derive(Clone, Copy, Debug)]
struct Small {
    absent: u32,
    len: u8,
    bytes: [u8; SMALL],
}

/// Places of one kind. They are used again in the order in which they were given free: what is in flight then lies about in the order
/// in which it arrives, which processors foresee.
#[derive(Debug)]
struct Shelf<T> {
    parcels: Vec<T>,
    free: VecDeque<u32>,
}

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Self {
            parcels: Vec::new(),
            free: VecDeque::new(),
        }
    }
}

impl<T> Shelf<T> {
    /// A place, which `empty` stands for if it is a new one.
    #[inline]
    fn take(&mut self, empty: T) -> (u32, &mut T) {
        let place = self.free.pop_front().unwrap_or_else(|| {
            let place = self.parcels.len() as u32;
            assert!(place < LARGE_BIT, "fewer than 2^31 datagrams in flight");
            self.parcels.push(empty);
            place
        });
        (place, &mut self.parcels[place as usize])
    }

    fn len(&self) -> usize {
        self.parcels.len() - self.free.len()
    }
}

/// Storage for datagrams.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    small: Shelf<Small>,
    large: Shelf<Datagram>,
}

impl Pool {
    /// Stores a datagram and says where. What is left of it is nobody's.
    #[inline]
    pub(crate) fn store(&mut self, datagram: &mut Datagram) -> u32 {
        let len = datagram.bytes.len();
        if len > SMALL {
            let empty = Datagram {
                bytes: HeaderBytes::new(),
                absent: 0,
            };
            let (place, large) = self.large.take(empty);
            std::mem::swap(large, datagram);
            return place | LARGE_BIT;
        }
        let empty = Small {
            absent: 0,
            len: 0,
            bytes: [0; SMALL],
        };
        let (place, small) = self.small.take(empty);
        small.absent = datagram.absent;
        small.len = len as u8;
        small.bytes[..len].copy_from_slice(&datagram.bytes);
        place
    }

    /// The datagram at a place: what it carries, and how many bytes it does not.
    #[inline]
    pub(crate) fn get(&self, place: u32) -> (&[u8], u32) {
        if place & LARGE_BIT == 0 {
            let small = &self.small.parcels[place as usize];
            (&small.bytes[..usize::from(small.len)], small.absent)
        } else {
            let large = &self.large.parcels[(place & !LARGE_BIT) as usize];
            (&large.bytes, large.absent)
        }
    }

    /// Reads a datagram and does nothing with it: when its turn comes it shall be in the cache. The processor goes on while it waits
    /// for this.
    #[inline]
    pub(crate) fn touch(&self, place: u32) {
        if let Some(small) = self.small.parcels.get(place as usize) {
            std::hint::black_box(small.absent);
        }
    }

    /// The same as a datagram of its own.
    pub(crate) fn datagram(&self, place: u32) -> Datagram {
        let (bytes, absent) = self.get(place);
        Datagram {
            bytes: HeaderBytes::from_slice(bytes),
            absent,
        }
    }

    /// Stores the same datagram once more.
    pub(crate) fn copy(&mut self, place: u32) -> u32 {
        self.store(&mut self.datagram(place))
    }

    /// Gives a place free. Its datagram stays until the place is used again.
    #[inline]
    pub(crate) fn release(&mut self, place: u32) {
        if place & LARGE_BIT == 0 {
            self.small.free.push_back(place);
        } else {
            self.large.free.push_back(place & !LARGE_BIT);
        }
    }

    /// Datagrams stored.
    pub(crate) fn len(&self) -> usize {
        self.small.len() + self.large.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_used_again() {
        for header_bytes in [0, SMALL, SMALL + 1, 100] {
            let mut pool = Pool::default();
            let datagram = |absent| Datagram {
                bytes: (0..header_bytes as u8).collect(),
                absent,
            };
            let first = pool.store(&mut datagram(1));
            let second = pool.copy(first);
            assert_eq!(pool.len(), 2);
            pool.release(first);
            let third = pool.store(&mut datagram(3));
            assert_eq!((third, pool.len()), (first, 2));
            for (place, absent) in [(second, 1), (third, 3)] {
                assert_eq!(pool.datagram(place), datagram(absent));
            }
        }
    }

    #[test]
    fn a_small_one_is_half_a_cache_line() {
        assert_eq!(size_of::<Small>(), 32);
    }
}
