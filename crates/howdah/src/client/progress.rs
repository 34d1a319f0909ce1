//! What a user is told ten times a second.

use super::{Client, NOW_TICKS, TICK};
use crate::session::dialogue::IP_UDP_BYTES;
use howdah_core::{Rate, Time};
use howdah_proto::{Connection, PathKnowledge, Stats};

/// What has passed until a tick.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tick {
    bytes: u64,
    /// IP packets' bytes in the direction of the data.
    wire_bytes: u64,
    /// The far sender's packets: sent as far as is known, and arrived.
    numbered: u64,
    arrived: u64,
}

impl Tick {
    fn new(bytes: u64, stats: &Stats, is_sender: bool) -> Self {
        let (payload, datagrams) = if is_sender {
            (stats.bytes_sent, stats.datagrams_sent)
        } else {
            (stats.bytes_received, stats.packets_received)
        };
        Self {
            bytes,
            wire_bytes: payload + IP_UDP_BYTES * datagrams,
            numbered: stats.packets_numbered_by_peer,
            arrived: stats.packets_received,
        }
    }

    /// Share of the packets since `first` that has not arrived.
    fn missing_since(&self, first: &Self) -> f64 {
        let numbered = self.numbered.saturating_sub(first.numbered);
        let arrived = self.arrived.saturating_sub(first.arrived);
        numbered.saturating_sub(arrived) as f64 / numbered.max(1) as f64
    }
}

impl Client<'_> {
    /// Data goes from here to there.
    pub(crate) fn sends(&self) -> bool {
        self.task.is_put()
    }

    /// Much may go from here to there, as fast as it can.
    pub(crate) fn sends_much(&self) -> bool {
        self.config.throttle.limit().is_none() && self.task.puts_much()
    }

    /// What the next connection on this path may begin with.
    pub(crate) fn learnt(&self) -> Option<PathKnowledge> {
        self.learnt
    }

    pub(super) fn tick(&mut self, now: Time, connection: &mut Connection) {
        if now < self.next_tick {
            return;
        }
        self.next_tick = now + TICK;
        let bytes = self.progress.bytes.saturating_sub(self.held_bytes);
        let stats = connection.stats();
        let is_sender = self.task.is_put();
        // (A limit hides what the path can do.)
        if is_sender && self.config.throttle.limit().is_none() {
            self.learnt = connection.path_knowledge();
        }
        self.ticks.push_back(Tick::new(bytes, &stats, is_sender));
        while self.ticks.len() > NOW_TICKS + 1 {
            self.ticks.pop_front();
        }
        let span = TICK * (self.ticks.len() as u64 - 1);
        let last = Tick::new(bytes, &stats, is_sender);
        let first = self.ticks.front().copied().unwrap_or(last);
        self.progress.total_bytes = self.total;
        self.progress.resumed_bytes = self.held_bytes;
        self.progress.elapsed = self.elapsed(now);
        self.progress.judged = self.judged;
        self.progress.goodput_now = if span.is_zero() {
            Rate::ZERO
        } else {
            Rate::from_bytes_over(bytes.saturating_sub(first.bytes), span)
        };
        self.progress.wire_rate_now = if span.is_zero() {
            Rate::ZERO
        } else {
            Rate::from_bytes_over(last.wire_bytes.saturating_sub(first.wire_bytes), span)
        };
        self.progress.rtt = stats.rtt;
        self.progress.loss = if is_sender {
            stats.recent_loss
        } else {
            last.missing_since(&first)
        };
        self.progress.pacing_rate = stats.pacing_rate;
        self.progress.queue_delay = stats.queue_delay;
        self.progress.limit = self.config.throttle.limit();
        self.progress.paused = self.config.throttle.is_paused();
        match &mut self.tree {
            None => self.progress.files_total = Some(1),
            Some(tree) => self.progress.current = tree.under_way(now),
        }
        self.outside.progress(&self.progress);
        let seconds = self.elapsed(now).as_nanos() / 1_000_000_000;
        if seconds > self.tick_count {
            self.tick_count = seconds;
            self.per_second
                .push(bytes.saturating_sub(self.second_bytes) as f64 * 8.0);
            self.second_bytes = bytes;
        }
    }
}
