//! How the side that sends is to share the path, as the client wants it.

use howdah_core::Rate;
use serde::{Deserialize, Serialize};

/// A policy on the wire.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub enum WirePolicy {
    /// As others do.
    #[default]
    Fair,
    /// Giving way to everybody.
    Background,
    /// Whatever others do.
    Fixed {
        /// Of IP packets with data, in bit/s.
        rate_bps: u64,
    },
}

/// All that a user says about the pace of one copy.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Pace {
    /// How it shares the path.
    pub policy: WirePolicy,
    /// Of IP packets with data, in bit/s.
    pub limit_bps: Option<u64>,
    /// Nothing is sent at all.
    pub paused: bool,
    /// The sender is one of so many sessions that count as one flow; an older side says 0, as whoever is a flow of its own.
    #[serde(default)]
    pub share_of: u16,
}

impl Pace {
    /// The smallest limit and rate: below that a connection could not be told from a dead one.
    pub const LEAST: Rate = Rate::from_bits_per_sec(64_000);

    /// The limit, if it can be kept to.
    pub fn limit(self) -> Option<Rate> {
        let limit = self.limit_bps.map(Rate::from_bits_per_sec);
        limit.map(|limit| limit.max(Self::LEAST))
    }

    /// The rate of a fixed policy, if it can be kept to.
    pub fn fixed_rate(self) -> Option<Rate> {
        match self.policy {
            WirePolicy::Fixed { rate_bps } => {
                Some(Rate::from_bits_per_sec(rate_bps).max(Self::LEAST))
            }
            WirePolicy::Fair | WirePolicy::Background => None,
        }
    }

    /// Whether what moves shows what the path can do: as much as one flow takes.
    pub fn is_free(self) -> bool {
        self.policy == WirePolicy::Fair && self.limit_bps.is_none() && self.share_of < 2
    }

    /// What each of so many connections keeps that move one object together.
    #[must_use]
    pub fn split(self, connections: u16) -> Self {
        if connections < 2 {
            return self;
        }
        let each = |bps: u64| bps / u64::from(connections);
        Self {
            policy: match self.policy {
                WirePolicy::Fixed { rate_bps } => WirePolicy::Fixed {
                    rate_bps: each(rate_bps),
                },
                other => other,
            },
            limit_bps: self.limit_bps.map(each),
            paused: self.paused,
            share_of: self.share_of.max(1).saturating_mul(connections),
        }
    }

    /// The same, and nothing at all if so.
    #[must_use]
    pub fn resting_if(self, rests: bool) -> Self {
        let paused = self.paused || rests;
        Self { paused, ..self }
    }

    /// What of it is granted to somebody who may have `cap` at the most. Who may not choose a fixed rate (`fixed`) gets a fair one, up to
    /// that rate.
    #[must_use]
    pub fn granted(self, cap: Option<Rate>, fixed: bool) -> Self {
        let refused = self.fixed_rate().filter(|_| !fixed);
        let limits = [self.limit(), refused, cap];
        Self {
            policy: match self.policy {
                WirePolicy::Fixed { .. } if !fixed => WirePolicy::Fair,
                policy => policy,
            },
            limit_bps: limits.into_iter().flatten().min().map(Rate::bits_per_sec),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Message;

    #[test]
    fn h7_a_fixed_rate_is_the_clients_to_choose_only_where_its_key_says_so() {
        let rate_bps = 20_000_000_000;
        let pace = Pace {
            policy: WirePolicy::Fixed { rate_bps },
            ..Pace::default()
        };
        let granted = pace.granted(None, false);
        assert_eq!(
            (granted.policy, granted.limit_bps),
            (WirePolicy::Fair, Some(rate_bps))
        );
        assert_eq!(pace.granted(None, true), pace);
        let cap = Rate::from_bits_per_sec(1_000_000);
        for fixed in [false, true] {
            let granted = pace.granted(Some(cap), fixed);
            assert_eq!(granted.limit_bps, Some(1_000_000));
        }
    }

    #[test]
    fn who_is_limited_gives_way_or_moves_a_part_is_not_free() {
        let free = Pace::default();
        assert!(free.is_free());
        for also in [
            Pace {
                paused: true,
                ..free
            },
            Pace {
                share_of: 1,
                ..free
            },
        ] {
            assert!(also.is_free(), "{also:?}");
        }
        let held = [
            WirePolicy::Background,
            WirePolicy::Fixed { rate_bps: 1 << 40 },
        ];
        let held = held.map(|policy| Pace { policy, ..free });
        let limited = Pace {
            limit_bps: Some(1 << 40),
            ..free
        };
        let part = Pace {
            share_of: 2,
            ..free
        };
        for held in [held[0], held[1], limited, part] {
            assert!(!held.is_free(), "{held:?}");
        }
    }

    #[test]
    fn what_could_not_be_told_from_a_dead_connection_is_not_granted() {
        let pace = Pace {
            policy: WirePolicy::Fixed { rate_bps: 0 },
            limit_bps: Some(1),
            ..Pace::default()
        };
        let granted = pace.granted(None, false);
        assert_eq!(granted.limit_bps, Some(Pace::LEAST.bits_per_sec()));
        assert_eq!(pace.fixed_rate(), Some(Pace::LEAST));
    }

    #[test]
    fn a_share_stands_at_the_end_where_older_programs_do_not_look() {
        let pace = Pace {
            share_of: 8,
            ..Pace::default()
        };
        let bytes = Message::Pace(pace).encode();
        assert_eq!(bytes, [2, 7, 0, 0, 0, 8]);
        // As an older client says it.
        let whole = Message::decode(&bytes[..5]).expect("it is understood");
        assert_eq!(whole, Message::Pace(Pace::default()));
        let json = r#"{"policy":"Fair","limit_bps":null,"paused":false}"#;
        assert_eq!(
            serde_json::from_str::<Pace>(json).expect("it is understood"),
            Pace::default()
        );
    }
}
