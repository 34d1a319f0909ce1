//! Where datagrams lie while they are in flight.

use howdah_core::Datagram;

/// Storage for datagrams. Places are used again, the latest first: that one is still in the cache.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    parcels: Vec<Datagram>,
    free: Vec<u32>,
}

impl Pool {
    /// Stores a datagram and says where.
    #[inline]
    pub(crate) fn store(&mut self, datagram: Datagram) -> u32 {
        if let Some(place) = self.free.pop() {
            self.parcels[place as usize] = datagram;
            place
        } else {
            self.parcels.push(datagram);
            u32::try_from(self.parcels.len() - 1).expect("fewer than 2^32 datagrams in flight")
        }
    }

    /// The datagram at a place.
    #[inline]
    pub(crate) fn get(&self, place: u32) -> &Datagram {
        &self.parcels[place as usize]
    }

    /// Reads a datagram and does nothing with it: millions are in flight, and when its turn comes
    /// it shall be in the cache. The processor goes on while it waits for this.
    #[inline]
    pub(crate) fn touch(&self, place: u32) {
        if let Some(datagram) = self.parcels.get(place as usize) {
            std::hint::black_box(datagram.absent);
        }
    }

    /// The datagram at a place, to damage it.
    pub(crate) fn get_mut(&mut self, place: u32) -> &mut Datagram {
        &mut self.parcels[place as usize]
    }

    /// Stores the same datagram once more.
    pub(crate) fn copy(&mut self, place: u32) -> u32 {
        let copy = self.get(place).clone();
        self.store(copy)
    }

    /// Gives a place free. Its datagram stays until the place is used again.
    #[inline]
    pub(crate) fn release(&mut self, place: u32) {
        self.free.push(place);
    }

    /// Datagrams stored.
    pub(crate) fn len(&self) -> usize {
        self.parcels.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_core::HeaderBytes;

    #[test]
    fn places_are_used_again() {
        let mut pool = Pool::default();
        let datagram = |absent| Datagram {
            bytes: HeaderBytes::new(),
            absent,
        };
        let first = pool.store(datagram(1));
        let second = pool.copy(first);
        assert_eq!(pool.len(), 2);
        pool.release(first);
        let third = pool.store(datagram(3));
        assert_eq!((third, pool.len()), (first, 2));
        assert_eq!((pool.get(second).absent, pool.get(third).absent), (1, 3));
    }
}
