//! The pace of a copy, as the user says it and as a connection keeps it.

use crate::{RatePolicy, Throttle};
use howdah_core::{Rate, Time};
use howdah_proto::{Connection, Policy, Share};
use howdah_session::pace::{Pace, WirePolicy};

/// As a user wants it.
pub(crate) fn wanted(policy: RatePolicy, share: Share, throttle: &Throttle) -> Pace {
    Pace {
        policy: match policy {
            RatePolicy::Fair => WirePolicy::Fair,
            RatePolicy::Background => WirePolicy::Background,
            RatePolicy::Fixed(rate) => WirePolicy::Fixed {
                rate_bps: rate.bits_per_sec(),
            },
        },
        limit_bps: throttle.limit().map(Rate::bits_per_sec),
        paused: throttle.is_paused(),
        share_of: match share.sessions() {
            1 => 0,
            sessions => sessions,
        },
    }
}

pub(crate) fn share(pace: Pace) -> Share {
    Share::one_of(pace.share_of.into())
}

/// Makes a copy of one's own keep it: the policy, and limit and pause through `throttle`.
pub(crate) fn keep(pace: Pace, throttle: &Throttle) -> RatePolicy {
    throttle.set_limit(pace.limit());
    throttle.set_paused(pace.paused);
    match (pace.policy, pace.fixed_rate()) {
        (_, Some(rate)) => RatePolicy::Fixed(rate),
        (WirePolicy::Background, None) => RatePolicy::Background,
        (WirePolicy::Fair | WirePolicy::Fixed { .. }, None) => RatePolicy::Fair,
    }
}

/// Makes this side of the connection send so, as far as it is [granted](Pace::granted).
pub(crate) fn apply(
    pace: Pace,
    now: Time,
    connection: &mut Connection,
    cap: Option<Rate>,
    fixed: bool,
) {
    let granted = pace.granted(cap, fixed);
    let policy = match (granted.policy, granted.fixed_rate()) {
        (_, Some(rate)) => Policy::Fixed(rate),
        (WirePolicy::Background, None) => Policy::Background,
        (WirePolicy::Fair | WirePolicy::Fixed { .. }, None) => Policy::Fair,
    };
    connection.set_policy(now, policy);
    // It only ever makes it take less.
    connection.set_share(share(granted));
    connection.set_rate_cap(now, granted.limit_bps.map(Rate::from_bits_per_sec));
    connection.set_paused(granted.paused);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::alone::connection;

    #[test]
    fn h7_a_fixed_rate_is_the_clients_to_choose_only_where_its_key_says_so() {
        let wished = Rate::from_gbit_per_sec(20);
        let throttle = Throttle::new();
        let pace = wanted(RatePolicy::Fixed(wished), Share::WHOLE, &throttle);
        let mut connection = connection();
        apply(pace, Time::ZERO, &mut connection, None, false);
        assert_eq!(connection.policy(), Policy::Fair);
        apply(pace, Time::ZERO, &mut connection, None, true);
        assert_eq!(connection.policy(), Policy::Fixed(wished));
    }

    #[test]
    fn a_share_makes_whoever_sends_take_less() {
        let throttle = Throttle::new();
        let pace = |sessions| {
            let share = Share::one_of(sessions);
            wanted(RatePolicy::Fair, share, &throttle)
        };
        assert_eq!(pace(1), Pace::default());
        // Whatever rights the client has.
        let mut connection = connection();
        apply(pace(8), Time::ZERO, &mut connection, None, false);
        assert_eq!(connection.share(), Share::one_of(8));
        apply(pace(1), Time::ZERO, &mut connection, None, false);
        assert_eq!(connection.share(), Share::WHOLE);
    }
}
