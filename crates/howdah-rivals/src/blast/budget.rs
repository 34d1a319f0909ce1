//! What a receiving host can take, shared among the flows that end there.

use howdah_core::Rate;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// A receiver's capacity, divided max-min fairly among its flows: nobody gets more than it can use,
/// and what one leaves goes in equal parts to those that can use more (Bertsekas and Gallager, Data
/// Networks, section 6.5). GTP's central scheduler, and a hypothesis for `PA-UDP`.
#[derive(Clone, Debug)]
pub struct SharedBudget(Arc<Mutex<Budget>>);

#[derive(Debug)]
struct Budget {
    capacity_bps: u64,
    demands_bps: BTreeMap<u64, u64>,
    shares_bps: BTreeMap<u64, u64>,
    next_id: u64,
}

/// A flow's place in a budget.
#[derive(Debug)]
pub(crate) struct Member {
    budget: SharedBudget,
    id: u64,
}

impl SharedBudget {
    /// A host that can take `capacity`.
    pub fn new(capacity: Rate) -> Self {
        Self(Arc::new(Mutex::new(Budget {
            capacity_bps: capacity.bits_per_sec(),
            demands_bps: BTreeMap::new(),
            shares_bps: BTreeMap::new(),
            next_id: 0,
        })))
    }

    /// What the host can take.
    pub fn capacity(&self) -> Rate {
        Rate::from_bits_per_sec(self.with(|budget| budget.capacity_bps))
    }

    pub(crate) fn join(&self, demand: Rate) -> Member {
        let id = self.with(|budget| {
            budget.next_id += 1;
            budget
                .demands_bps
                .insert(budget.next_id, demand.bits_per_sec());
            budget.divide();
            budget.next_id
        });
        Member {
            budget: self.clone(),
            id,
        }
    }

    fn with<R>(&self, act: impl FnOnce(&mut Budget) -> R) -> R {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Member {
    /// This flow's share.
    pub(crate) fn share(&self) -> Rate {
        let bps = self
            .budget
            .with(|budget| budget.shares_bps.get(&self.id).copied());
        Rate::from_bits_per_sec(bps.unwrap_or(0))
    }

    /// What this flow could use from now on.
    pub(crate) fn demand(&self, demand: Rate) {
        self.budget.with(|budget| {
            let old = budget.demands_bps.insert(self.id, demand.bits_per_sec());
            if old != Some(demand.bits_per_sec()) {
                budget.divide();
            }
        });
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.budget.with(|budget| {
            budget.demands_bps.remove(&self.id);
            budget.divide();
        });
    }
}

impl Budget {
    fn divide(&mut self) {
        let mut order: Vec<(u64, u64)> = self.demands_bps.iter().map(|(&id, &d)| (d, id)).collect();
        order.sort_unstable();
        self.shares_bps.clear();
        let mut left = self.capacity_bps;
        for (at, &(demand, id)) in order.iter().enumerate() {
            let equal = left / (order.len() - at) as u64;
            let share = demand.min(equal);
            self.shares_bps.insert(id, share);
            left -= share;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_one_leaves_goes_to_the_others() {
        let budget = SharedBudget::new(Rate::from_mbit_per_sec(900));
        let mbit = Rate::from_mbit_per_sec;
        let big = budget.join(mbit(1000));
        assert_eq!(big.share(), mbit(900));
        let small = budget.join(mbit(100));
        let other = budget.join(mbit(1000));
        assert_eq!(
            [big.share(), small.share(), other.share()],
            [mbit(400), mbit(100), mbit(400)]
        );
        small.demand(mbit(500));
        assert_eq!([big.share(), small.share(), other.share()], [mbit(300); 3]);
        drop(other);
        assert_eq!([big.share(), small.share()], [mbit(450); 2]);
    }

    proptest! {
        /// Max-min: all of the capacity is used if it can be, and whoever gets less than it could
        /// use gets no less than anybody else.
        #[test]
        fn shares_are_max_min(capacity in 0..2_000_000u64, demands in prop::collection::vec(0..1_000_000u64, 1..12)) {
            let budget = SharedBudget::new(Rate::from_bits_per_sec(capacity));
            let members: Vec<Member> = demands.iter().map(|&d| budget.join(Rate::from_bits_per_sec(d))).collect();
            let shares: Vec<u64> = members.iter().map(|m| m.share().bits_per_sec()).collect();
            let wanted: u64 = demands.iter().sum();
            let given: u64 = shares.iter().sum();
            prop_assert!(given <= capacity.min(wanted));
            prop_assert!(capacity.min(wanted) - given < demands.len() as u64, "but for rounding");
            let most = shares.iter().copied().max().unwrap_or(0);
            for (share, demand) in shares.iter().zip(&demands) {
                prop_assert!(share <= demand);
                prop_assert!(share == demand || share + demands.len() as u64 >= most);
            }
        }
    }
}
