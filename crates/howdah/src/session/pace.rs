//! How the side that sends is to share the path, as the client wants it.

use crate::{RatePolicy, Throttle};
use howdah_core::{Rate, Time};
use howdah_proto::{Connection, Policy, Share};
use serde::{Deserialize, Serialize};

/// A policy on the wire.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) enum WirePolicy {
    #[default]
    Fair,
    Background,
    Fixed {
        rate_bps: u64,
    },
}

/// All that a user says about the pace of one copy.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct Pace {
    policy: WirePolicy,
    /// Of IP packets with data.
    limit_bps: Option<u64>,
    paused: bool,
    /// The sender is one of so many sessions that count as one flow; an older side says 0, as whoever is a flow of its own.
    #[serde(default)]
    share_of: u16,
}

impl Pace {
    pub(crate) fn new(policy: RatePolicy, share: Share, throttle: &Throttle) -> Self {
        Self {
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

    pub(crate) fn share(self) -> Share {
        Share::one_of(self.share_of.into())
    }

    /// The same, and nothing at all if so.
    pub(crate) fn resting_if(self, rests: bool) -> Self {
        let paused = self.paused || rests;
        Self { paused, ..self }
    }

    /// Makes a copy of one's own keep it: the policy, and limit and pause through `throttle`.
    pub(crate) fn apply_to(self, throttle: &Throttle) -> RatePolicy {
        let limit = self.limit_bps.map(Rate::from_bits_per_sec);
        throttle.set_limit(limit.map(|limit| limit.max(Throttle::MIN)));
        throttle.set_paused(self.paused);
        match self.policy {
            WirePolicy::Fair => RatePolicy::Fair,
            WirePolicy::Background => RatePolicy::Background,
            WirePolicy::Fixed { rate_bps } => {
                RatePolicy::Fixed(Rate::from_bits_per_sec(rate_bps).max(Throttle::MIN))
            }
        }
    }

    /// Makes this side of the connection send so, but no faster than its own `cap`. A peer that may not choose a
    /// `fixed` rate gets a fair one, up to that rate.
    pub(crate) fn apply(
        &self,
        now: Time,
        connection: &mut Connection,
        cap: Option<Rate>,
        fixed: bool,
    ) {
        let wished = match self.policy {
            WirePolicy::Fixed { rate_bps } if !fixed => Some(rate_bps),
            _ => None,
        };
        let limit_bps = [self.limit_bps, wished].into_iter().flatten().min();
        let limit = limit_bps.map(Rate::from_bits_per_sec);
        // The peer's figures: any.
        let limit = limit.map(|limit| limit.max(Throttle::MIN));
        let limit = match (limit, cap) {
            (Some(limit), Some(cap)) => Some(limit.min(cap)),
            (limit, cap) => limit.or(cap),
        };
        let policy = match self.policy {
            WirePolicy::Background => Policy::Background,
            WirePolicy::Fixed { rate_bps } if fixed => {
                Policy::Fixed(Rate::from_bits_per_sec(rate_bps).max(Throttle::MIN))
            }
            WirePolicy::Fair | WirePolicy::Fixed { .. } => Policy::Fair,
        };
        connection.set_policy(now, policy);
        // It only ever makes it take less.
        connection.set_share(self.share());
        connection.set_rate_cap(now, limit);
        connection.set_paused(self.paused);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Identity;
    use crate::session::message::Message;
    use howdah_proto::codec::ConnectionId;
    use howdah_proto::{Config, Role, Security, TlsIdentity};
    use std::sync::Arc;

    fn connection() -> Connection {
        let key = Identity::generate().expect("a key");
        let tls = TlsIdentity::new(key.rustls_certified_key(), Arc::new(|_: &[u8]| true));
        let config = Config::new(Security::Tls(tls.expect("an identity")));
        let to = ([127, 0, 0, 1], 1).into();
        let (role, id) = (Role::Client, ConnectionId(1));
        Connection::new(Time::ZERO, role, config, id, to, 1).expect("TLS begins")
    }

    #[test]
    fn h7_a_fixed_rate_is_the_clients_to_choose_only_where_its_key_says_so() {
        let wished = Rate::from_gbit_per_sec(20);
        let throttle = Throttle::new();
        let pace = Pace::new(RatePolicy::Fixed(wished), Share::WHOLE, &throttle);
        let mut connection = connection();
        pace.apply(Time::ZERO, &mut connection, None, false);
        assert_eq!(connection.policy(), Policy::Fair);
        pace.apply(Time::ZERO, &mut connection, None, true);
        assert_eq!(connection.policy(), Policy::Fixed(wished));
    }

    #[test]
    fn a_share_stands_at_the_end_where_older_programs_do_not_look() {
        let throttle = Throttle::new();
        let pace = |sessions| {
            let share = Share::one_of(sessions);
            Pace::new(RatePolicy::Fair, share, &throttle)
        };
        assert_eq!(pace(1), Pace::default());
        let bytes = Message::Pace(pace(8)).encode();
        assert_eq!(bytes, [2, 7, 0, 0, 0, 8]);
        // As an older client says it.
        let whole = Message::decode(&bytes[..5]).expect("it is understood");
        assert_eq!(whole, Message::Pace(Pace::default()));
        assert_eq!(
            serde_json::from_str::<Pace>(r#"{"policy":"Fair","limit_bps":null,"paused":false}"#)
                .expect("it is understood"),
            Pace::default()
        );
        // Whoever sends takes less, whatever rights the client has.
        let mut connection = connection();
        pace(8).apply(Time::ZERO, &mut connection, None, false);
        assert_eq!(connection.share(), Share::one_of(8));
        pace(1).apply(Time::ZERO, &mut connection, None, false);
        assert_eq!(connection.share(), Share::WHOLE);
    }
}
