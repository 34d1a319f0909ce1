//! What the user says about the pace: a limit, a pause, a policy. All of it may change at any time.

use super::Connection;
use crate::rate::BURST;
use crate::{PathKnowledge, Policy, Share};
use howdah_core::{Rate, Time};

/// Headers in front of a UDP payload.
const IPV4_UDP_BYTES: u64 = 28;
const IPV6_UDP_BYTES: u64 = 48;
/// A rate so many times the one before begins with a burst of start-up, and does not save up for it first.
const RAISED: f64 = 1.4;

impl Connection {
    /// This side's packets with data, repairs and control bytes take at most `cap` of the wire from now on, IP and UDP headers
    /// included; `None` lifts the limit. Reports and handshakes, a few per mille, do not count. The policy goes on within
    /// the limit.
    pub fn set_rate_cap(&mut self, now: Time, cap: Option<Rate>) {
        self.pace.cap = cap;
        self.apply_rate(now);
    }

    /// Whether the limit, and not the path, holds the rate down.
    pub fn rate_is_capped(&self) -> bool {
        self.payload_cap()
            .is_some_and(|cap| cap <= self.pace.rate.pacing_rate())
    }

    /// What this side may send at most: the limit, or the fixed rate if that is less.
    pub fn rate_cap(&self) -> Option<Rate> {
        let fixed = match self.config.policy {
            Policy::Fixed(rate) => Some(rate),
            _ => None,
        };
        [self.pace.cap, fixed].into_iter().flatten().min()
    }

    /// Whether it was told to send nothing for now.
    pub fn is_paused(&self) -> bool {
        self.pace.paused
    }

    /// Sends no data until it is told to go on; the connection stays alive meanwhile.
    pub fn set_paused(&mut self, paused: bool) {
        self.pace.paused = paused;
    }

    /// Shares the path in another way from now on.
    pub fn set_policy(&mut self, now: Time, policy: Policy) {
        // One that is not established takes it from its settings.
        self.config.policy = policy;
        self.pace.rate.set_policy(policy, self.pace.rtt.smoothed());
        self.apply_rate(now);
    }

    /// What this side counts for with [`Policy::Fair`].
    pub fn share(&self) -> Share {
        self.config.share
    }

    /// Counts as one of so many sessions that are one flow to others from now on.
    pub fn set_share(&mut self, share: Share) {
        self.config.share = share;
        self.pace.rate.set_share(share);
    }

    /// What the next connection to this peer may begin with ([`Config::path`](crate::Config::path)).
    pub fn path_knowledge(&self) -> Option<PathKnowledge> {
        let known = self.pace.rate.knowledge()?;
        Some(PathKnowledge {
            datagram_bytes: self.mtu.current(),
            ..known
        })
    }

    /// The limit in UDP payload bits, which is what rates are inside.
    pub(super) fn payload_cap(&self) -> Option<Rate> {
        let payload = u64::from(self.mtu.current());
        let share = payload as f64 / (payload + self.header_bytes()) as f64;
        self.pace.cap.map(|cap| cap.mul_f64(share))
    }

    /// What a packet of so many bytes of UDP payload takes of the wire, in the bytes of full packets, which have less headers.
    pub(super) fn as_of_full_packets(&self, bytes: u64) -> u64 {
        let (headers, full) = (self.header_bytes(), u64::from(self.mtu.current()));
        (bytes + headers) * full / (full + headers)
    }

    fn header_bytes(&self) -> u64 {
        if self.reach.remote.ip().to_canonical().is_ipv4() {
            IPV4_UDP_BYTES
        } else {
            IPV6_UDP_BYTES
        }
    }

    /// Tells the pacer what the rate control and the user want.
    pub(super) fn apply_rate(&mut self, now: Time) {
        let rate = self.pace.rate.pacing_rate();
        let cap = self.payload_cap().unwrap_or(Rate::MAX);
        let rate = rate.min(cap);
        let raised = rate >= self.pace.pacer.rate().mul_f64(RAISED);
        self.pace.pacer.set_rate(now, rate);
        self.pace.pacer.set_burst(self.pace.rate.burst());
        if raised && let Some(bytes) = self.pace.rate.first_burst_bytes(rate) {
            // What the opening proves of the path says nothing of what the user allows.
            self.pace.pacer.grant(now, bytes.min(cap.bytes_in(BURST)));
        }
        if self.pace.rate.take_ask() {
            self.alive.pings_due = self.alive.pings_due.max(1);
        }
        self.pace.pacer.set_fine(self.pace.rate.wants_fine_pacing());
    }
}
