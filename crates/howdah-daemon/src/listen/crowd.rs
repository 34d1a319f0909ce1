//! How many come from each network, so that one alone does not take the places of all.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What one customer of a provider has: an address of IPv4, a /64 of IPv6.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    const HOSTS: u128 = (1 << 64) - 1;
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !HOSTS).into(),
        v4 @ IpAddr::V4(_) => v4,
    }
}

/// Those who are there, by network.
pub(crate) struct Crowd {
    most: usize,
    there: Mutex<HashMap<IpAddr, usize>>,
}

impl Crowd {
    /// So many of each.
    pub(crate) fn new(most: usize) -> Arc<Self> {
        let there = Mutex::default();
        Arc::new(Self { most, there })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.there.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// None: there are as many from there as may be.
    pub(crate) fn enter(self: &Arc<Self>, address: IpAddr) -> Option<Guest> {
        let from = network(address);
        let mut there = self.lock();
        let count = there.entry(from).or_default();
        if *count >= self.most {
            return None;
        }
        *count += 1;
        let crowd = Arc::clone(self);
        Some(Guest { crowd, from })
    }
}

/// One of them, until it is dropped.
pub(crate) struct Guest {
    crowd: Arc<Crowd>,
    from: IpAddr,
}

impl Drop for Guest {
    fn drop(&mut self) {
        let mut there = self.crowd.lock();
        if let Some(count) = there.get_mut(&self.from) {
            *count -= 1;
            if *count == 0 {
                there.remove(&self.from);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_network_has_so_many_places_and_takes_nobody_elses() {
        let crowd = Crowd::new(2);
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let first = crowd.enter(address("2001:db8::1"));
        let _second = crowd.enter(address("2001:db8::ffff:1"));
        assert!(first.is_some() && crowd.enter(address("2001:db8::2")).is_none());
        assert!(crowd.enter(address("2001:db8:0:1::2")).is_some());
        let _v4 = [(); 2].map(|()| crowd.enter(address("192.0.2.1")));
        assert!(crowd.enter(address("::ffff:192.0.2.1")).is_none());
        assert!(crowd.enter(address("192.0.2.2")).is_some());
        drop(first);
        assert!(crowd.enter(address("2001:db8::2")).is_some());
        assert_eq!(crowd.lock().len(), 2, "nobody is remembered who is gone");
    }
}
