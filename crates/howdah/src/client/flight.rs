//! What the flight recorder sees of a client's connection.

use super::{Client, Step};
use crate::session::dialogue::IP_UDP_BYTES;
use crate::session::receiving::Receiving;
use howdah_core::{Rate, Span, Time};
use howdah_proto::{Connection, SendLimit, Stats};
use howdah_recording::{Held, Seen, Totals};

/// After packets were dropped at the receiving host the rate needs that long to come back.
const BEHIND_FOR: Span = Span::from_secs(1);
/// The thread has no time left from that share on.
const BUSY: f64 = 0.9;
/// A receiver whose sink's queue is filled so far holds its sender back.
const FULL: f64 = 0.5;
/// What comes is at the limit from that share of it on.
const AT_LIMIT: f64 = 0.9;
const IPV6_UDP_BYTES: u64 = 48;

/// The look before.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Looked {
    at: Time,
    cpu: Span,
    drops: u64,
    received_bytes: u64,
    behind_until: Time,
}

impl Client<'_> {
    /// Has the flight recorder look at the connection that is made now, if it is that of a copy.
    pub(super) fn begin_flight(&mut self, tunnelled: bool) {
        let flight = self.config.flight.as_ref();
        if let Some(flight) = flight.filter(|_| self.task.is_copy()) {
            flight.connects(tunnelled);
            self.next_look = Some(self.started_at);
        }
    }

    /// Has the flight recorder look, if it is time.
    pub(super) fn look(&mut self, now: Time, connection: &Connection) {
        let (Some(next), Some(flight)) = (self.next_look, &self.config.flight) else {
            return;
        };
        let over = matches!(self.step, Step::Ended(_));
        if now < next && !over {
            return;
        }
        let stats = connection.stats();
        let held = self.held(now, connection, &stats);
        let is_sender = self.task.is_put();
        let bytes = self.progress.bytes.saturating_sub(self.held_bytes);
        let headers = if connection.remote().ip().to_canonical().is_ipv4() {
            IP_UDP_BYTES
        } else {
            IPV6_UDP_BYTES
        };
        let wait = flight.look(|facts| {
            facts.seen = if is_sender {
                Seen::BySender
            } else {
                Seen::ByReceiver
            };
            facts.datagram_bytes = stats.datagram_size;
            facts.header_bytes = headers as u16;
            (seen(now, is_sender, &stats), held, bytes)
        });
        self.next_look = (!over).then_some(now + wait);
    }

    /// What holds the copy back now.
    fn held(&mut self, now: Time, connection: &Connection, stats: &Stats) -> Held {
        let cpu = howdah_net::thread_cpu();
        let before = self.looked;
        let passed = now.since(before.at).as_secs_f64().max(1e-9);
        self.looked = Looked {
            at: now,
            cpu,
            drops: stats.peer_socket_drops,
            received_bytes: stats.bytes_received,
            behind_until: if stats.peer_socket_drops > before.drops {
                now + BEHIND_FOR
            } else {
                before.behind_until
            },
        };
        if !self.moves() {
            return Held::Talk;
        }
        let throttle = &self.config.throttle;
        // All has arrived, and the receiver still hashes and syncs.
        let all = self.total.is_some_and(|total| self.progress.bytes >= total);
        if throttle.is_paused() {
            return Held::Cap;
        }
        if all && self.total > Some(0) {
            return Held::Sink;
        }
        let is_busy = cpu.saturating_sub(before.cpu).as_secs_f64() > BUSY * passed;
        if !self.task.is_put() {
            let came = stats.bytes_received.saturating_sub(before.received_bytes);
            let came = Rate::from_bits_per_sec((came as f64 * 8.0 / passed) as u64);
            let at_limit = |limit: Rate| came >= limit.mul_f64(AT_LIMIT);
            let waits = |receiving: &Receiving| receiving.holds_back(connection);
            let window = self.machine.receiving().is_some_and(waits);
            return if window || connection.sink_fill().is_some_and(|fill| fill >= FULL) {
                Held::Sink
            } else if throttle.limit().is_some_and(at_limit) {
                Held::Cap
            } else if is_busy {
                Held::Host
            } else {
                Held::Path
            };
        }
        match connection.send_limit() {
            SendLimit::Source => Held::Source,
            SendLimit::Sink => Held::Sink,
            _ if connection.rate_is_capped() => Held::Cap,
            _ if is_busy || now < self.looked.behind_until => Held::Host,
            _ if stats.in_startup => Held::Startup,
            _ => Held::Path,
        }
    }
}

/// What a connection has counted, and what it thinks of the path.
fn seen(now: Time, is_sender: bool, stats: &Stats) -> crate::flight::Look {
    let totals = if is_sender {
        Totals {
            delivered_bytes: stats.bytes_acked,
            sent_packets: stats.datagrams_sent,
            lost_packets: stats.packets_lost,
            // The peer's figures: any.
            host_drops: stats
                .peer_socket_drops
                .saturating_add(stats.peer_sink_drops),
            repeated_bytes: stats.data_bytes_repeated,
        }
    } else {
        Totals {
            delivered_bytes: stats.bytes_received,
            sent_packets: stats.packets_numbered_by_peer,
            lost_packets: stats
                .packets_numbered_by_peer
                .saturating_sub(stats.packets_received),
            host_drops: 0,
            repeated_bytes: stats.data_bytes_duplicate,
        }
    };
    let known = is_sender && !stats.in_startup && stats.capacity > Rate::ZERO;
    crate::flight::Look {
        totals,
        unheard: if is_sender {
            now.since(stats.reported_at)
        } else {
            Span::ZERO
        },
        pacing: if is_sender {
            stats.pacing_rate
        } else {
            Rate::ZERO
        },
        capacity: known.then_some(stats.capacity),
        base_rtt: stats.rtt_min,
        rtt: stats.rtt_latest,
        queue: if is_sender {
            stats.queue_delay
        } else {
            Span::ZERO
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h16_drops_that_the_other_side_tells_of_have_no_sum_that_is_too_large() {
        let stats = Stats {
            peer_socket_drops: u64::MAX,
            peer_sink_drops: 1,
            ..Stats::default()
        };
        assert_eq!(seen(Time::ZERO, true, &stats).totals.host_drops, u64::MAX);
    }
}
