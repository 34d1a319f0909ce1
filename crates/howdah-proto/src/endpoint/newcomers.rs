//! Networks that no stranger was answered from of late.
//!
//! A flood, whoever makes it, comes again and again from the networks that it has; a client comes once or twice. So where there is
//! time for some first packets only, those of networks that had no answer for a while go before. What is kept is a time for each of
//! so many numbers that addresses are hashed to, and never grows.

use super::half_open::Prefix;
use howdah_core::{Span, Time};
use std::net::IpAddr;

/// Networks that can be told apart; some share a number.
const SLOTS: usize = 4_096;
/// An answer counts for that long.
const WHILE: Span = Span::from_secs(1);

pub(crate) struct Newcomers {
    /// Nobody can tell which networks share a number.
    key: [u8; 32],
    /// Since when, and how often.
    answered: Box<[(Time, u32)]>,
}

impl Newcomers {
    pub(crate) fn new(key: [u8; 32]) -> Self {
        Self {
            key,
            answered: vec![(Time::ZERO, 0); SLOTS].into_boxed_slice(),
        }
    }

    /// How often somebody from there was answered of late.
    pub(crate) fn answers(&self, now: Time, from: IpAddr) -> u32 {
        let slot = self.answered.get(self.slot(from)).copied();
        slot.filter(|(since, _)| now.since(*since) < WHILE)
            .map_or(0, |(_, count)| count)
    }

    pub(crate) fn on_answer(&mut self, now: Time, from: IpAddr) {
        let count = self.answers(now, from);
        let slot = self.slot(from);
        if let Some(slot) = self.answered.get_mut(slot) {
            let since = if count == 0 { now } else { slot.0 };
            *slot = (since, count + 1);
        }
    }

    fn slot(&self, from: IpAddr) -> usize {
        let hash = blake3::keyed_hash(&self.key, &Prefix::network(from).bytes());
        let [low, high, ..] = *hash.as_bytes();
        usize::from(u16::from_le_bytes([low, high])) % SLOTS
    }
}
