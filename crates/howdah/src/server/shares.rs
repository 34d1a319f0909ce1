//! Shares of a rate among those who want some of it.

use howdah_core::Rate;
use std::collections::BTreeMap;
use std::ops::Range;

/// The group of a session, and what it would move if it could.
pub(super) type Wish = (u64, Option<Rate>);

/// Shares `total` so that nobody who wants more has less than another one, and that none of it is left: who wants little
/// lately may soon want more. `None` wants all that he can get.
fn share(total: Rate, wants: &[Option<Rate>]) -> Vec<Rate> {
    let mut order: Vec<usize> = (0..wants.len()).collect();
    let want = |at: usize| {
        wants
            .get(at)
            .copied()
            .flatten()
            .map_or(u64::MAX, Rate::bits_per_sec)
    };
    order.sort_by_key(|&at| want(at));
    let (mut left, mut rest) = (total.bits_per_sec(), wants.len() as u64);
    let mut shares = vec![0; wants.len()];
    for at in order {
        let fair = left / rest.max(1);
        let got = want(at).min(fair);
        if let Some(share) = shares.get_mut(at) {
            *share = got;
        }
        left -= got;
        rest -= 1;
    }
    let more = left / (wants.len() as u64).max(1);
    let rate = |bits: u64| Rate::from_bits_per_sec(bits + more);
    shares.into_iter().map(rate).collect()
}

/// The same among sessions, first by their keys and then among those of one key: many of them get nobody more.
fn share_by_key(total: Rate, sessions: &[Wish]) -> Vec<Rate> {
    let mut keys: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for (at, (key, _)) in sessions.iter().enumerate() {
        keys.entry(*key).or_default().push(at);
    }
    let want = |at: &usize| sessions.get(*at).and_then(|(_, want)| *want);
    let of_keys: Vec<_> = keys
        .values()
        .map(|of_key| {
            let wants: Option<Vec<_>> = of_key.iter().map(want).collect();
            let sum = |wants: Vec<Rate>| wants.into_iter().fold(0, sum);
            wants.map(sum).map(Rate::from_bits_per_sec)
        })
        .collect();
    let mut shares = vec![total; sessions.len()];
    for (of_key, all) in keys.values().zip(share(total, &of_keys)) {
        let wants: Vec<_> = of_key.iter().map(want).collect();
        for (at, got) in of_key.iter().zip(share(all, &wants)) {
            if let Some(share) = shares.get_mut(*at) {
                *share = got;
            }
        }
    }
    shares
}

fn sum(sum: u64, rate: Rate) -> u64 {
    sum.saturating_add(rate.bits_per_sec())
}

/// The shares of one loop's sessions, which are `own` of all: what is fair, but no more together than what others have not
/// been given, who give way first. Whether somebody has to.
pub(super) fn grants(
    total: Rate,
    all: &[Wish],
    own: Range<usize>,
    given_elsewhere_bps: u64,
) -> (Vec<Rate>, bool) {
    let mut fair = share_by_key(total, all);
    let shares: Vec<_> = fair.drain(own.clone()).collect();
    let room = total.bits_per_sec().saturating_sub(given_elsewhere_bps);
    if shares.iter().copied().fold(0, sum) <= room {
        return (shares, false);
    }
    let own = all.get(own).unwrap_or_default();
    let bounded: Vec<_> = own
        .iter()
        .zip(shares)
        .map(|(&(key, _), share)| (key, Some(share)))
        .collect();
    (share_by_key(Rate::from_bits_per_sec(room), &bounded), true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn who_wants_little_leaves_the_rest_to_others() {
        let mbit = Rate::from_mbit_per_sec;
        assert_eq!(share(mbit(100), &[None]), [mbit(100)]);
        assert_eq!(share(mbit(100), &[None, None]), [mbit(50), mbit(50)]);
        assert_eq!(
            share(mbit(100), &[Some(mbit(10)), None, None]),
            [mbit(10), mbit(45), mbit(45)]
        );
        // What nobody wants now is there for whoever wants it next.
        assert_eq!(share(mbit(100), &[Some(mbit(10))]), [mbit(100)]);
        assert_eq!(
            share(mbit(100), &[Some(mbit(10)), Some(mbit(30))]),
            [mbit(40), mbit(60)]
        );
        assert!(share(mbit(100), &[]).is_empty());
    }

    #[test]
    fn h11_many_sessions_of_one_key_leave_those_of_others_their_share() {
        let mbit = Rate::from_mbit_per_sec;
        // A hundred of one key, and one of another.
        let mut sessions = vec![(1, None); 100];
        sessions.push((2, None));
        let shares = share_by_key(mbit(100), &sessions);
        assert_eq!(shares[100], mbit(50));
        assert_eq!(shares[..100], [Rate::from_bits_per_sec(500_000); 100]);
        // What one key does not want goes to the other one.
        sessions[100].1 = Some(mbit(10));
        let shares = share_by_key(mbit(100), &sessions);
        assert_eq!(
            (shares[0], shares[100]),
            (Rate::from_bits_per_sec(900_000), mbit(10))
        );
        let two = [(1, Some(mbit(80))), (2, None), (1, Some(mbit(80)))];
        assert_eq!(
            share_by_key(mbit(100), &two),
            [mbit(25), mbit(50), mbit(25)]
        );
        assert!(share_by_key(mbit(100), &[]).is_empty());
    }

    proptest! {
        #[test]
        fn never_more_than_all_and_nobody_who_wants_more_has_less(
            total in 1u64..1 << 50,
            wants in prop::collection::vec(prop::option::of(0u64..1 << 50), 1..20),
        ) {
            let wants: Vec<_> = wants.into_iter().map(|want| want.map(Rate::from_bits_per_sec)).collect();
            let shares = share(Rate::from_bits_per_sec(total), &wants);
            let sum: u64 = shares.iter().map(|share| share.bits_per_sec()).sum();
            prop_assert!(sum <= total && sum + 2 * wants.len() as u64 > total);
            let want = |at: usize| wants[at].map_or(u64::MAX, Rate::bits_per_sec);
            for a in 0..wants.len() {
                for b in 0..wants.len() {
                    // One bit for what a division leaves.
                    prop_assert!(want(a) < want(b) || shares[a].bits_per_sec() + 1 >= shares[b].bits_per_sec());
                }
            }
        }
    }
}
