//! How much of the wire each running job may take: limits that jobs share, and the least rate that meets a time. It has no clock
//! and touches nothing.

/// Of everything, in bits per second.
pub const UNLIMITED: u64 = u64::MAX;

/// The smallest share that lets a connection live; less is none.
pub const LEAST: u64 = 64_000;

/// A running job, as one that takes from pools.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Flow {
    /// More it must not take, or cannot.
    pub most: u64,
    /// So much it gets before others get more than theirs.
    pub first: u64,
    /// Which limits it is under.
    pub pools: Vec<usize>,
}

/// The share of each flow, so that none of the pools gives more than it has: first what must be, then equal shares; what one
/// cannot take is for the others (max-min fairness by progressive filling; Bertsekas and Gallager, Data Networks, 6.5.2).
pub fn divide(pools: &[u64], flows: &[Flow]) -> Vec<u64> {
    let mut left = pools.to_vec();
    let mut given = vec![0; flows.len()];
    fill(&mut left, flows, &mut given, |flow| {
        flow.first.min(flow.most)
    });
    fill(&mut left, flows, &mut given, |flow| flow.most);
    for (share, flow) in given.iter_mut().zip(flows) {
        let closed = flow.most == 0 || flow.pools.iter().any(|pool| pools.get(*pool) == Some(&0));
        if *share < LEAST && !closed {
            *share = LEAST;
        }
    }
    given
}

fn fill(left: &mut [u64], flows: &[Flow], given: &mut [u64], want: impl Fn(&Flow) -> u64) {
    let mut open: Vec<usize> = (0..flows.len())
        .filter(|at| given[*at] < want(&flows[*at]))
        .collect();
    while !open.is_empty() {
        let mut users = vec![0_u64; left.len()];
        for pool in open.iter().flat_map(|at| &flows[*at].pools) {
            users[*pool] += 1;
        }
        let to_want = open.iter().map(|at| want(&flows[*at]) - given[*at]);
        let to_dry = left
            .iter()
            .zip(&users)
            .filter(|(_, users)| **users > 0)
            .map(|(left, users)| left / users);
        let step = to_want.chain(to_dry).min().unwrap_or(0);
        for at in &open {
            given[*at] += step;
            for pool in &flows[*at].pools {
                left[*pool] -= step;
            }
        }
        // One of them has what it wants, or a pool has less than a bit for each.
        open.retain(|at| {
            let flow = &flows[*at];
            let dry = flow.pools.iter().any(|pool| left[*pool] < users[*pool]);
            given[*at] < want(flow) && !dry
        });
    }
}

/// What a flow can take, by what it took of its share: one whose disks are slow leaves the rest to others, with some room so
/// that it is seen when it can take more.
pub fn can_take(share: u64, took: u64) -> u64 {
    let used = u128::from(took) * 4 >= u128::from(share) * 3;
    if share == UNLIMITED || used {
        UNLIMITED
    } else {
        (took + took / 4).max(LEAST)
    }
}

/// The least rate of the wire that moves `bytes` in that time; headers and repetitions are a tenth. None if there is no time left.
pub fn least_rate(bytes: u64, left_ms: u64) -> Option<u64> {
    if left_ms == 0 {
        return None;
    }
    let bits = u128::from(bytes) * 8 * 1_000 * 11 / 10;
    let rate = bits.div_ceil(u128::from(left_ms));
    Some(u64::try_from(rate).unwrap_or(UNLIMITED).max(LEAST))
}

/// How often it is planned again what a job with a time needs.
pub const AGAIN_MS: u64 = 60_000;

/// The plan of a job that is to be done by a time.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Plan {
    /// When it was made.
    pub made_ms: u64,
    /// What was there then.
    pub bytes: u64,
    /// The least rate; none if the time has come.
    pub needed: Option<u64>,
    /// Whether it is met, as far as can be seen.
    pub meets: bool,
    /// The copy itself has not said yet how much there is.
    pub is_guess: bool,
}

impl Plan {
    /// Of a copy that is about to begin, and will move so much as far as can be seen from outside. None if there is no time left.
    pub fn guess(bytes: u64, now_ms: u64, by_ms: u64) -> Option<Self> {
        Some(Self {
            made_ms: now_ms,
            bytes: 0,
            needed: Some(least_rate(bytes, by_ms.saturating_sub(now_ms))?),
            meets: true,
            is_guess: true,
        })
    }

    /// A copy that does not say for so long how much there is may have more before it than was seen.
    fn is_good(&self, now_ms: u64) -> bool {
        !self.is_guess || now_ms.abs_diff(self.made_ms) < AGAIN_MS
    }
}

/// What is known of a job with a time.
#[derive(Clone, Copy, Debug)]
pub struct Standing {
    /// Now, in milliseconds.
    pub now_ms: u64,
    /// To be done by.
    pub by_ms: u64,
    /// Moved so far.
    pub bytes: u64,
    /// Of that; unknown while the sizes are not.
    pub total: Option<u64>,
    /// The most that its limits allow.
    pub allowed: u64,
}

/// Plans anew if it is time for that. A plan is not met if the limits allow less than what it needs, or if less than what it
/// needed came since the one before.
pub fn plan(before: Option<&Plan>, at: Standing) -> Option<Plan> {
    let Some(total) = at.total else {
        return before.filter(|plan| plan.is_good(at.now_ms)).cloned();
    };
    // What is known takes the place of what was guessed, at once.
    let before = before.filter(|plan| !plan.is_guess);
    // A clock that was set back, or an attempt that begins anew.
    let fresh = |plan: &&Plan| plan.made_ms <= at.now_ms && plan.bytes <= at.bytes;
    let before = before.filter(fresh);
    let age = before.map_or(AGAIN_MS, |plan| at.now_ms - plan.made_ms);
    if age < AGAIN_MS {
        return before.cloned();
    }
    let left = total.saturating_sub(at.bytes);
    let needed = least_rate(left, at.by_ms.saturating_sub(at.now_ms));
    // Over much more than a minute the clock says nothing: it was set, or the machine slept.
    let known = before.filter(|_| age <= 2 * AGAIN_MS);
    let came = known.is_none_or(|plan| {
        let wanted = plan.needed.unwrap_or(0).min(at.allowed);
        // Without the tenth that was added, and a tenth less: it is planned again before it is too late.
        let wanted = u128::from(wanted) * 8 / 10 * u128::from(age) / 8_000;
        u128::from(at.bytes - plan.bytes) >= wanted
    });
    let meets = left == 0 || needed.is_some_and(|needed| needed <= at.allowed && came);
    Some(Plan {
        made_ms: at.now_ms,
        bytes: at.bytes,
        needed,
        meets,
        is_guess: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn flow(most: u64, first: u64, pools: &[usize]) -> Flow {
        Flow {
            most,
            first,
            pools: pools.to_vec(),
        }
    }

    const MBIT: u64 = 1_000_000;

    #[test]
    fn shares_are_equal_and_what_one_cannot_take_is_for_the_others() {
        let open = flow(UNLIMITED, 0, &[0]);
        assert_eq!(divide(&[90 * MBIT], &vec![open.clone(); 3]), [30 * MBIT; 3]);
        let slow = flow(10 * MBIT, 0, &[0]);
        assert_eq!(
            divide(&[90 * MBIT], &[open.clone(), slow, open.clone()]),
            [40 * MBIT, 10 * MBIT, 40 * MBIT]
        );
        assert_eq!(divide(&[], &[flow(UNLIMITED, 0, &[])]), [UNLIMITED]);
        // What must be comes first, and is no more than it.
        let must = flow(50 * MBIT, 50 * MBIT, &[0]);
        assert_eq!(
            divide(&[90 * MBIT], &[open.clone(), must, open]),
            [20 * MBIT, 50 * MBIT, 20 * MBIT]
        );
    }

    #[test]
    fn the_limit_of_a_host_is_within_that_of_all() {
        let pools = [100 * MBIT, 10 * MBIT];
        let flows = [
            flow(UNLIMITED, 0, &[0, 1]),
            flow(UNLIMITED, 0, &[0, 1]),
            flow(UNLIMITED, 0, &[0]),
        ];
        assert_eq!(divide(&pools, &flows), [5 * MBIT, 5 * MBIT, 90 * MBIT]);
        // Nothing is nothing, and little is enough to live.
        assert_eq!(divide(&[0], &[flow(UNLIMITED, 0, &[0])]), [0]);
        assert_eq!(
            divide(&[LEAST], &vec![flow(UNLIMITED, 0, &[0]); 4]),
            [LEAST; 4]
        );
    }

    #[test]
    fn the_least_rate_meets_the_time_and_is_planned_again_from_what_is_left() {
        const GB: u64 = 1_000_000_000;
        const HOUR: u64 = 3_600_000;
        assert_eq!(least_rate(450 * GB, HOUR), Some(1_100 * MBIT));
        assert_eq!(least_rate(1, 0), None);
        assert_eq!(least_rate(u64::MAX, 1), Some(UNLIMITED));
        let at = Standing {
            now_ms: 0,
            by_ms: HOUR,
            bytes: 0,
            total: Some(450 * GB),
            allowed: 1_200 * MBIT,
        };
        assert_eq!(plan(None, Standing { total: None, ..at }), None);
        let first = plan(None, at).unwrap();
        assert_eq!((first.needed, first.meets), (Some(1_100 * MBIT), true));
        // The limits allow less.
        let tight = Standing {
            allowed: 1_000 * MBIT,
            ..at
        };
        assert!(!plan(None, tight).unwrap().meets);
        // Not yet.
        let soon = Standing {
            now_ms: AGAIN_MS - 1,
            ..at
        };
        assert_eq!(plan(Some(&first), soon).as_ref(), Some(&first));
        // A minute in which half came of what had to.
        let behind = Standing {
            now_ms: AGAIN_MS,
            bytes: 3_750_000_000,
            allowed: 2_000 * MBIT,
            ..at
        };
        let second = plan(Some(&first), behind).unwrap();
        assert!(second.needed > first.needed && !second.meets, "{second:?}");
        // In the next one all.
        let again = Standing {
            now_ms: 2 * AGAIN_MS,
            bytes: 3_750_000_000 + 8_000_000_000,
            ..behind
        };
        assert!(plan(Some(&second), again).unwrap().meets);
        let late = Standing {
            now_ms: HOUR + 1,
            ..at
        };
        let late = plan(Some(&first), late).unwrap();
        assert_eq!((late.needed, late.meets), (None, false));
    }

    #[test]
    fn a_guess_is_good_until_the_copy_says_how_much_there_is_or_for_a_minute() {
        const HOUR: u64 = 3_600_000;
        const GB: u64 = 1_000_000_000;
        assert_eq!(Plan::guess(GB, 7, 7), None);
        let guess = Plan::guess(450 * GB, 0, HOUR).unwrap();
        assert_eq!(guess.needed, Some(1_100 * MBIT));
        let at = Standing {
            now_ms: AGAIN_MS - 1,
            by_ms: HOUR,
            bytes: 0,
            total: None,
            allowed: UNLIMITED,
        };
        assert_eq!(plan(Some(&guess), at), Some(guess.clone()));
        let late = Standing {
            now_ms: AGAIN_MS,
            ..at
        };
        assert_eq!(plan(Some(&guess), late), None);
        // Half of it is there already.
        let told = Standing {
            now_ms: 0,
            bytes: 225 * GB,
            total: Some(450 * GB),
            ..at
        };
        let known = plan(Some(&guess), told).unwrap();
        assert_eq!((known.needed, known.meets), (Some(550 * MBIT), true));
        assert!(!known.is_guess);
    }

    #[test]
    fn who_does_not_take_its_share_leaves_it() {
        assert_eq!(can_take(UNLIMITED, 5), UNLIMITED);
        assert_eq!(can_take(100 * MBIT, 80 * MBIT), UNLIMITED);
        assert_eq!(can_take(100 * MBIT, 40 * MBIT), 50 * MBIT);
        // With the room that it has it is seen when it can take more.
        assert_eq!(can_take(50 * MBIT, 50 * MBIT), UNLIMITED);
        assert_eq!(can_take(100 * MBIT, 0), LEAST);
    }

    fn flows() -> impl Strategy<Value = Vec<Flow>> {
        let most = prop_oneof![Just(UNLIMITED), 0..1_000_000_000_u64];
        let flow = (
            most,
            0..500_000_000_u64,
            proptest::sample::subsequence(vec![0, 1, 2], 0..=3),
        );
        let flow = flow.prop_map(|(most, first, pools)| Flow { most, first, pools });
        proptest::collection::vec(flow, 0..12)
    }

    proptest! {
        #[test]
        fn no_pool_gives_more_than_it_has_and_nobody_gets_more_than_it_may(
            pools in proptest::array::uniform3(0..2_000_000_000_u64),
            flows in flows(),
        ) {
            let given = divide(&pools, &flows);
            let bound = |share: u64, flow: &Flow| share <= flow.most.max(LEAST);
            prop_assert!(given.iter().zip(&flows).all(|(share, flow)| bound(*share, flow)));
            for (at, pool) in pools.iter().enumerate() {
                let users: Vec<_> = given.iter().zip(&flows).filter(|(_, f)| f.pools.contains(&at)).collect();
                let sum: u64 = users.iter().map(|(share, _)| **share).sum();
                // But for what lets connections live.
                prop_assert!(sum <= pool + LEAST * users.len() as u64, "{pool} {given:?}");
            }
            // Who is under no limit has what it wants.
            for (share, flow) in given.iter().zip(&flows).filter(|(_, f)| f.pools.is_empty()) {
                let least = if flow.most == 0 { 0 } else { LEAST };
                prop_assert_eq!(*share, flow.most.max(least));
            }
        }
    }
}
